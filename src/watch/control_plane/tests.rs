use std::collections::BTreeSet;

use serde_json::json;

use super::*;
use crate::api::ObjectKey;

fn object(name: &str, uid: &str, version: &str, owner: &str) -> Object {
    let owners = json!([
        {"apiVersion": "v1", "kind": "Other", "name": "x", "uid": "x", "controller": true},
        {"apiVersion": "v1", "kind": "ApplicationSet", "name": "set", "uid": owner, "controller": true},
    ]);
    json!({"metadata": {
        "namespace": "ns", "name": name, "uid": uid, "resourceVersion": version,
        "ownerReferences": owners,
    }})
    .into()
}

fn version(cache: &Cache, name: &str) -> Option<String> {
    let object = cache.get(&ObjectKey::new("ns", name))?;
    Some(object.resource_version().to_owned())
}

fn owned(cache: &Cache, uid: &str) -> Vec<String> {
    cache.owned_by(uid).iter().map(|object| object.name().to_owned()).collect()
}

#[test]
fn an_own_write_is_used_until_the_watch_has_a_newer_version() {
    let cache = Cache::new(Kind::Application);
    cache.put(object("a", "u", "9", "s"), Origin::Watch);
    let mut changes = cache.subscribe();
    assert_eq!(changes.try_recv().unwrap().new.unwrap().resource_version(), "9");
    cache.wrote(object("a", "u", "10", "s"), Origin::ApplicationSets);
    cache.put(object("a", "u", "9", "s"), Origin::Watch);
    cache.put(object("a", "u", "10", "s"), Origin::Watch);
    assert_eq!(version(&cache, "a").as_deref(), Some("10"));
    cache.put(object("a", "u", "11", "t"), Origin::Watch);
    cache.wrote(object("a", "u", "10", "s"), Origin::ApplicationSets);
    assert_eq!(version(&cache, "a").as_deref(), Some("11"));
    let changes_seen: Vec<_> = std::iter::from_fn(|| changes.try_recv().ok())
        .map(|change| (change.origin, change.new.unwrap().resource_version().to_owned()))
        .collect();
    let want = [(Origin::ApplicationSets, "10".to_owned()), (Origin::Watch, "11".to_owned())];
    assert_eq!(changes_seen, want, "each version once, in order");
    assert_eq!((owned(&cache, "s"), owned(&cache, "t")), (vec![], vec!["a".to_owned()]));
}

#[test]
fn a_late_response_does_not_restore_a_deleted_object() {
    let cache = Cache::new(Kind::Application);
    cache.put(object("a", "u", "9", "s"), Origin::Watch);
    cache.deleted(&object("a", "other", "8", "s"));
    assert_eq!(version(&cache, "a").as_deref(), Some("9"), "the deletion of a previous object");
    cache.deleted(&object("a", "u", "12", "s"));
    cache.wrote(object("a", "u", "11", "s"), Origin::Applications);
    assert_eq!((version(&cache, "a"), owned(&cache, "s")), (None, vec![]));
    cache.wrote(object("a", "new", "13", "s"), Origin::ApplicationSets);
    assert_eq!(version(&cache, "a").as_deref(), Some("13"));
    cache.gone(&ObjectKey::new("ns", "a"), "new", Origin::ApplicationSets);
    cache.put(object("a", "new", "13", "s"), Origin::Watch);
    assert_eq!(version(&cache, "a"), None);
}

#[test]
fn objects_missing_in_a_listing_are_deleted_unless_written_since() {
    let cache = Cache::new(Kind::Application);
    for (name, uid) in [("a", "1"), ("b", "2"), ("c", "3")] {
        cache.put(object(name, uid, "5", "s"), Origin::Watch);
    }
    cache.begin();
    cache.wrote(object("c", "3", "7", "s"), Origin::Applications);
    cache.wrote(object("d", "4", "8", "s"), Origin::ApplicationSets);
    cache.put(object("a", "1", "5", "s"), Origin::Watch);
    let unsure = cache.end(&BTreeSet::from([ObjectKey::new("ns", "a")]));
    let unsure: Vec<&str> = unsure.iter().map(Object::name).collect();
    assert_eq!(unsure, ["c", "d"]);
    assert_eq!(owned(&cache, "s"), ["a", "c", "d"]);
    let names: Vec<String> = cache.in_namespace("ns").into_keys().collect();
    assert_eq!(names, ["a", "c", "d"]);
    assert!(cache.in_namespace("n").is_empty() && cache.in_namespace("nsx").is_empty());
}
