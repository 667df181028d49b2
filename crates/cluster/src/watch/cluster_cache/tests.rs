//! Tests of the index of live objects.

use serde_json::{Value, json};

use super::index::{IndexChange, Lookup, Objects, TrackingMark};
use wavegate_api::ResourceKey;

fn key(name: &str) -> ResourceKey {
    ResourceKey::new("", "ConfigMap", "web", name)
}

fn object(name: &str, version: u64, value: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": name, "namespace": "web", "uid": format!("uid-{name}"),
            "resourceVersion": version.to_string(),
            "annotations": {"argocd.argoproj.io/tracking-id": format!("app:/ConfigMap:web/{name}")},
        },
        "data": {"value": value},
    })
}

fn untracked(name: &str, version: u64) -> Value {
    let mut object = object(name, version, "1");
    object["metadata"]["annotations"] = json!({});
    object
}

fn version(objects: &Objects, name: &str) -> Option<String> {
    match objects.get(&key(name)) {
        Lookup::Whole(kept) => {
            kept.parse()["metadata"]["resourceVersion"].as_str().map(str::to_owned)
        }
        Lookup::Exists | Lookup::Absent => None,
    }
}

/// An event of an object, whose metadata are its head.
fn applied(objects: &mut Objects, name: &str, object: &Value, whole: bool) -> Option<IndexChange> {
    objects.apply(&key(name), object, whole, || object.clone())
}

#[test]
fn an_object_never_becomes_older_than_an_own_write() {
    let mut objects = Objects::new(TrackingMark::default(), "", "ConfigMap");
    applied(&mut objects, "a", &object("a", 5, "1"), false);
    objects.put(&key("a"), &object("a", 9, "2"));
    assert_eq!(
        applied(&mut objects, "a", &object("a", 7, "x"), false),
        None,
        "from before our write"
    );
    assert_eq!(version(&objects, "a").as_deref(), Some("9"));
    assert_eq!(applied(&mut objects, "a", &object("a", 9, "2"), false), None, "our own write");
    let change = applied(&mut objects, "a", &object("a", 10, "3"), false).unwrap();
    assert!(change.counts);
    assert_eq!(version(&objects, "a").as_deref(), Some("10"));
}

#[test]
fn only_relevant_changes_trigger_and_a_move_triggers_both_instances() {
    let mut objects = Objects::new(TrackingMark::default(), "", "ConfigMap");
    assert!(applied(&mut objects, "a", &object("a", 1, "1"), false).unwrap().counts);
    assert!(!applied(&mut objects, "a", &object("a", 2, "1"), false).unwrap().counts, "SE-178");
    let mut moved = object("a", 3, "1");
    moved["metadata"]["annotations"]["argocd.argoproj.io/tracking-id"] =
        "other:/ConfigMap:web/a".into();
    let change = applied(&mut objects, "a", &moved, false).unwrap();
    assert!(change.counts);
    assert_eq!(change.instances.into_iter().collect::<Vec<_>>(), ["app", "other"]);
    assert!(objects.tracked("app").is_empty());
    assert_eq!(objects.tracked("other").len(), 1);
}

#[test]
fn the_content_of_untracked_objects_is_kept_only_while_an_instance_needs_it() {
    let mut objects = Objects::new(TrackingMark::default(), "", "ConfigMap");
    let change = applied(&mut objects, "a", &untracked("a", 1), false).unwrap();
    assert!(!change.counts && change.instances.is_empty());
    assert!(matches!(objects.get(&key("a")), Lookup::Exists));
    objects.put(&key("a"), &untracked("a", 1));
    assert!(matches!(objects.get(&key("a")), Lookup::Whole(_)), "read on demand");
    applied(&mut objects, "a", &untracked("a", 2), true);
    assert_eq!(version(&objects, "a").as_deref(), Some("2"), "kept while it is wanted");
}

#[test]
fn a_new_listing_removes_missing_objects_but_not_own_writes_since() {
    let mut objects = Objects::new(TrackingMark::default(), "", "ConfigMap");
    applied(&mut objects, "stays", &object("stays", 1, "1"), false);
    applied(&mut objects, "goes", &object("goes", 2, "1"), false);
    objects.begin();
    objects.put(&key("made"), &object("made", 9, "1"));
    applied(&mut objects, "stays", &object("stays", 1, "1"), false);
    let gone: Vec<String> = objects.end().into_iter().map(|(key, _)| key.name).collect();
    assert_eq!(gone, ["goes"]);
    assert!(matches!(objects.get(&key("made")), Lookup::Whole(_)));
    assert!(matches!(objects.get(&key("stays")), Lookup::Whole(_)));
}

#[test]
fn an_old_event_does_not_restore_a_removed_object() {
    let mut objects = Objects::new(TrackingMark::default(), "", "ConfigMap");
    applied(&mut objects, "a", &object("a", 1, "1"), false);
    objects.remove(&key("a"), "uid-a");
    assert_eq!(applied(&mut objects, "a", &object("a", 2, "1"), false), None, "an older event");
    assert!(matches!(objects.get(&key("a")), Lookup::Absent));
    let mut again = object("a", 5, "1");
    again["metadata"]["uid"] = "uid-new".into();
    assert!(applied(&mut objects, "a", &again, false).is_some(), "another object of that name");
    assert!(
        objects.delete(&key("a"), &object("a", 4, "1")).is_none(),
        "the deletion of the previous object"
    );
    assert!(matches!(objects.get(&key("a")), Lookup::Whole(_)));
}

#[test]
fn a_late_response_does_not_restore_a_deleted_object() {
    // Regression: a sync waited forever for a deleted hook, since the watch event of the
    // deletion arrived before the response, which then restored the object.
    let mut objects = Objects::new(TrackingMark::default(), "", "ConfigMap");
    applied(&mut objects, "hook", &object("hook", 1, "1"), false);
    assert!(objects.delete(&key("hook"), &object("hook", 3, "1")).is_some());
    assert_eq!(objects.put(&key("hook"), &object("hook", 2, "1")), None);
    assert_eq!(applied(&mut objects, "hook", &object("hook", 2, "1"), false), None);
    assert!(matches!(objects.get(&key("hook")), Lookup::Absent));
    let mut again = object("hook", 5, "1");
    again["metadata"]["uid"] = "uid-new".into();
    assert!(objects.put(&key("hook"), &again).is_some(), "another object of that name");
}
