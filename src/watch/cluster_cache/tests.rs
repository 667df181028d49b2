//! Tests of the index of live objects.

use serde_json::{Value, json};

use super::index::{Mark, Objects, Seen};
use crate::api::ResourceKey;

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
        Seen::Whole(kept) => {
            kept.parse()["metadata"]["resourceVersion"].as_str().map(str::to_owned)
        }
        Seen::Exists | Seen::Absent => None,
    }
}

#[test]
fn an_object_never_becomes_older_than_what_we_wrote() {
    let mut objects = Objects::new(Mark::default());
    objects.apply(key("a"), object("a", 5, "1"), false);
    objects.put(key("a"), &object("a", 9, "2"));
    assert_eq!(objects.apply(key("a"), object("a", 7, "x"), false), None, "from before our write");
    assert_eq!(version(&objects, "a").as_deref(), Some("9"));
    assert_eq!(objects.apply(key("a"), object("a", 9, "2"), false), None, "our own write");
    let change = objects.apply(key("a"), object("a", 10, "3"), false).unwrap();
    assert!(change.counts);
    assert_eq!(version(&objects, "a").as_deref(), Some("10"));
}

#[test]
fn only_what_counts_wakes_and_both_owners_hear_of_a_move() {
    let mut objects = Objects::new(Mark::default());
    assert!(objects.apply(key("a"), object("a", 1, "1"), false).unwrap().counts);
    assert!(!objects.apply(key("a"), object("a", 2, "1"), false).unwrap().counts, "SE-178");
    let mut moved = object("a", 3, "1");
    moved["metadata"]["annotations"]["argocd.argoproj.io/tracking-id"] =
        "other:/ConfigMap:web/a".into();
    let change = objects.apply(key("a"), moved, false).unwrap();
    assert!(change.counts);
    assert_eq!(change.instances.into_iter().collect::<Vec<_>>(), ["app", "other"]);
    assert!(objects.tracked("app").is_empty());
    assert_eq!(objects.tracked("other").len(), 1);
}

#[test]
fn untracked_objects_are_known_but_not_kept_until_somebody_wants_them() {
    let mut objects = Objects::new(Mark::default());
    let change = objects.apply(key("a"), untracked("a", 1), false).unwrap();
    assert!(!change.counts && change.instances.is_empty());
    assert!(matches!(objects.get(&key("a")), Seen::Exists));
    objects.put(key("a"), &untracked("a", 1));
    assert!(matches!(objects.get(&key("a")), Seen::Whole(_)), "read on demand");
    objects.apply(key("a"), untracked("a", 2), true);
    assert_eq!(version(&objects, "a").as_deref(), Some("2"), "kept while it is wanted");
}

#[test]
fn a_new_listing_removes_what_is_gone_but_not_what_we_made_meanwhile() {
    let mut objects = Objects::new(Mark::default());
    objects.apply(key("stays"), object("stays", 1, "1"), false);
    objects.apply(key("goes"), object("goes", 2, "1"), false);
    objects.begin();
    objects.put(key("made"), &object("made", 9, "1"));
    objects.apply(key("stays"), object("stays", 1, "1"), false);
    let gone: Vec<String> = objects.end().into_iter().map(|(key, _)| key.name).collect();
    assert_eq!(gone, ["goes"]);
    assert!(matches!(objects.get(&key("made")), Seen::Whole(_)));
    assert!(matches!(objects.get(&key("stays")), Seen::Whole(_)));
}

#[test]
fn an_object_that_we_removed_does_not_come_back_by_an_old_event() {
    let mut objects = Objects::new(Mark::default());
    objects.apply(key("a"), object("a", 1, "1"), false);
    objects.remove(&key("a"), "uid-a");
    assert_eq!(objects.apply(key("a"), object("a", 2, "1"), false), None, "still under way");
    assert!(matches!(objects.get(&key("a")), Seen::Absent));
    let mut again = object("a", 5, "1");
    again["metadata"]["uid"] = "uid-new".into();
    assert!(objects.apply(key("a"), again, false).is_some(), "another object of that name");
    assert!(objects.delete(&key("a"), &object("a", 4, "1")).is_none(), "the old one's end");
    assert!(matches!(objects.get(&key("a")), Seen::Whole(_)));
}

#[test]
fn an_answer_that_comes_after_the_end_does_not_bring_an_object_back() {
    // A sync waited for ever for a hook to go that was gone: the watch told so
    // before the answer to the deletion arrived, and nothing told it again.
    let mut objects = Objects::new(Mark::default());
    objects.apply(key("hook"), object("hook", 1, "1"), false);
    assert!(objects.delete(&key("hook"), &object("hook", 3, "1")).is_some());
    assert_eq!(objects.put(key("hook"), &object("hook", 2, "1")), None);
    assert_eq!(objects.apply(key("hook"), object("hook", 2, "1"), false), None);
    assert!(matches!(objects.get(&key("hook")), Seen::Absent));
    let mut again = object("hook", 5, "1");
    again["metadata"]["uid"] = "uid-new".into();
    assert!(objects.put(key("hook"), &again).is_some(), "another object of that name");
}
