use serde_json::json;

use super::*;

fn object(kind: &str, name: &str, owners: &[&str]) -> LiveObject {
    LiveObject {
        key: ResourceKey::new("", kind, "ns", name),
        uid: format!("uid-{name}"),
        owners: owners.iter().map(|owner| format!("uid-{owner}")).collect(),
        ..LiveObject::default()
    }
}

fn node(kind: &str, name: &str) -> OwnedResource {
    OwnedResource {
        kind: kind.to_owned(),
        namespace: "ns".to_owned(),
        name: name.to_owned(),
        ..OwnedResource::default()
    }
}

/// The names of a tree, such as `a(b(c) d)`.
fn names(nodes: &[OwnedResource]) -> String {
    let one = |node: &OwnedResource| match node.children.as_slice() {
        [] => node.name.clone(),
        children => format!("{}({})", node.name, names(children)),
    };
    nodes.iter().map(one).collect::<Vec<_>>().join(" ")
}

#[test]
fn objects_are_below_their_owners() {
    let tree = |tops: &[&str], live: &[LiveObject]| {
        let tops = tops.iter().map(|name| node("A", name)).collect();
        names(&with_live(tops, live, &BTreeSet::new()))
    };
    let a = || object("A", "a", &[]);
    let deep: Vec<LiveObject> = (0..100)
        .map(|n: i32| match n {
            0 => object("A", "a", &[]),
            1 => object("B", "b1", &["a"]),
            n => object("B", &format!("b{n}"), &[&format!("b{}", n - 1)]),
        })
        .collect();
    let cases = [
        ("a chain", vec![a(), object("B", "b", &["a"]), object("C", "c", &["b"])], "a(b(c))"),
        ("a cycle", vec![a(), object("B", "b", &["a", "c"]), object("C", "c", &["b"])], "a(b(c))"),
        ("its own owner", vec![a(), object("B", "b", &["a", "b"])], "a(b)"),
        ("a cycle to the top", vec![object("A", "a", &["b"]), object("B", "b", &["a"])], "a(b)"),
        ("without an owner", vec![a(), object("B", "b", &["x"]), object("C", "c", &["d"])], "a"),
        ("no UID", vec![LiveObject { uid: String::new(), ..a() }, object("B", "b", &[""])], "a"),
    ];
    for (name, live, want) in cases {
        assert_eq!(tree(&["a"], &live), want, "{name}");
    }
    let both = [a(), object("A", "z", &[]), object("B", "b", &["z", "a"])];
    assert_eq!(tree(&["a", "z"], &both), "a(b) z", "of two owners: once");
    assert_eq!(tree(&["a"], &deep).matches('(').count(), MAX_DEPTH);
}

#[test]
fn only_what_is_below_the_resources_is_read() {
    let owners = [object("A", "a", &[])];
    let candidates = [
        object("C", "c", &["b"]),
        object("B", "b", &["a"]),
        object("B", "other", &["x"]),
        object("C", "b-again", &["c", "b"]),
    ];
    assert_eq!(nodes_below(&owners, &candidates), BTreeSet::from([0, 1, 3]));
}

#[test]
fn claims_of_a_stateful_set_are_found_by_name() {
    let set =
        LiveObject { claim_templates: vec!["data".to_owned()], ..object("StatefulSet", "db", &[]) };
    let claim = |name: &str| object("PersistentVolumeClaim", name, &[]);
    let live = [
        set.clone(),
        claim("data-db-0"),
        claim("data-db-12"),
        claim("data-db-x"),
        claim("data-db-"),
        claim("data-dbx-0"),
        claim("logs-db-0"),
    ];
    let tree = with_live(vec![node("StatefulSet", "db")], &live, &BTreeSet::new());
    assert_eq!(names(&tree), "db(data-db-0 data-db-12)");
    assert_eq!(nodes_below(&[set], &live[1..]), BTreeSet::from([0, 1]));
}

#[test]
fn resources_and_hooks_are_in_the_order_of_a_sync() {
    let resource = |kind: &str, name: &str, wave: i64| json!({"group": "", "version": "v1", "kind": kind, "namespace": "ns", "name": name, "status": "Synced", "syncWave": wave});
    let mut extra = resource("ConfigMap", "old", 0);
    extra["requiresPruning"] = true.into();
    extra["status"] = "OutOfSync".into();
    let mut gone = resource("Service", "gone", 0);
    gone["health"] = json!({"status": "Missing"});
    let hook = |name: &str, kind: &str, phase: &str| json!({"group": "batch", "version": "v1", "kind": "Job", "namespace": "ns", "name": name, "hookType": kind, "hookPhase": phase, "message": "why"});
    let failed = json!({"version": "v1", "kind": "ConfigMap", "namespace": "ns", "name": "old", "status": "PruneFailed", "message": "not found"});
    let pruned = json!({"version": "v1", "kind": "ConfigMap", "namespace": "ns", "name": "pruned", "status": "Pruned"});
    let application = json!({"status": {
        "resources": [extra, gone, resource("Late", "b", 2), resource("Early", "a", -1), {"kind": ""}, 5],
        "operationState": {"syncResult": {"resources": [
            hook("after", "PostSync", "Failed"), hook("before", "PreSync", "Succeeded"), failed, pruned,
        ]}},
    }});
    let nodes = listed_resources(&application);
    assert_eq!(names(&nodes), "before a old gone b after");
    let of = |name: &str| nodes.iter().find(|node| node.name == name).unwrap();
    assert_eq!((of("before").hook.as_str(), of("before").sync.as_str()), ("PreSync", "Succeeded"));
    assert_eq!((of("after").message.as_str(), of("before").message.as_str()), ("why", ""));
    assert!(of("old").requires_pruning && of("old").message == "not found");
    assert!(of("gone").missing && !of("a").missing);
    assert_eq!(listed_resources(&json!({"status": 5})), []);
}

#[test]
fn live_objects_complete_the_resources() {
    let whole = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"name": "web", "namespace": "ns", "uid": "u", "creationTimestamp": "2026-01-02T03:04:05Z",
            "annotations": {"argocd.argoproj.io/sync-wave": "3"},
            "ownerReferences": [{"uid": "x"}, {"uid": "y", "controller": true}]},
        "spec": {"replicas": 0},
    });
    let read = LiveObject::read(&whole, true, &Checks::default());
    assert_eq!(read.owners, ["y", "x"]);
    assert!(read.scaled_down && read.health.is_some());
    let metadata = LiveObject::read(&whole, false, &Checks::default());
    assert!(!metadata.scaled_down && metadata.health.is_none());

    let known = Health::new(health::Status::Degraded, "of the status");
    let top = OwnedResource { group: "apps".to_owned(), ..node("ReplicaSet", "web") };
    let absent = OwnedResource { group: "apps".to_owned(), ..node("ReplicaSet", "absent") };
    let tops = vec![OwnedResource { health: Some(known.clone()), ..top.clone() }, absent.clone()];
    let live = [read];
    let tree = with_live(tops, &live, &BTreeSet::from([absent.key()]));
    assert_eq!((tree[0].wave, tree[0].health.clone()), (0, Some(known)));
    let hook = vec![OwnedResource { hook: "PreSync".to_owned(), ..top }];
    assert_eq!(with_live(hook, &live, &BTreeSet::new())[0].wave, 3);
    assert_eq!(tree[0].created_at, "2026-01-02T03:04:05Z");
    assert!(tree[1].missing);
}

#[test]
fn an_object_below_has_what_is_known_of_it() {
    let child = LiveObject {
        wave: 3,
        created_at: "2026-01-02T03:04:05Z".to_owned(),
        scaled_down: true,
        version: "v1".to_owned(),
        health: Some(Health { status: health::Status::Progressing, message: "starts".to_owned() }),
        ..object("B", "b", &["a"])
    };
    let tree =
        with_live(vec![node("A", "a")], &[object("A", "a", &[]), child.clone()], &BTreeSet::new());
    let found = &tree[0].children[0];
    assert_eq!(found.key(), child.key);
    assert_eq!((found.wave, &found.created_at, found.scaled_down), (3, &child.created_at, true));
    assert_eq!((&found.version, &found.health), (&child.version, &child.health));
}

/// Only volume claims are found by their names.
#[test]
fn other_objects_with_the_name_of_a_claim_are_not_below_a_stateful_set() {
    let set =
        LiveObject { claim_templates: vec!["data".to_owned()], ..object("StatefulSet", "db", &[]) };
    let of = |group: &str, kind: &str, namespace: &str| LiveObject {
        key: ResourceKey::new(group, kind, namespace, "data-db-0"),
        ..object(kind, "data-db-0", &[])
    };
    for (group, kind, namespace, want) in [
        ("", "PersistentVolumeClaim", "ns", "db(data-db-0)"),
        ("", "PersistentVolumeClaim", "other", "db"),
        ("", "ConfigMap", "ns", "db"),
        ("example.com", "PersistentVolumeClaim", "ns", "db"),
    ] {
        let live = [set.clone(), of(group, kind, namespace)];
        let tree = with_live(vec![node("StatefulSet", "db")], &live, &BTreeSet::new());
        assert_eq!(names(&tree), want, "{group}/{kind} in {namespace}");
    }
}

/// What the status of an Application says of a resource, and the order of all hooks.
#[test]
fn listed_resources_have_what_the_status_says_of_them() {
    let application = json!({"status": {
        "resources": [
            {"group": "apps", "version": "v1", "kind": "Deployment", "namespace": "ns",
                "name": "web", "status": "OutOfSync", "syncWave": 2,
                "health": {"status": "Degraded", "message": "m"}},
            {"group": "batch", "version": "v1", "kind": "Job", "namespace": "ns", "name": "kept",
                "status": "", "hook": true},
            {"version": "v1", "kind": "ConfigMap", "namespace": "ns", "name": "plain",
                "status": "Synced", "health": {"status": ""}},
        ],
        "operationState": {"syncResult": {"resources": [
            {"group": "batch", "version": "v1", "kind": "Job", "namespace": "ns", "name": "a",
                "hookType": "PostDelete", "hookPhase": "Succeeded"},
            {"group": "batch", "version": "v1", "kind": "Job", "namespace": "ns", "name": "b",
                "hookType": "SyncFail", "hookPhase": "Failed", "message": "why"},
            {"group": "batch", "version": "v1", "kind": "Job", "namespace": "ns", "name": "c",
                "hookType": "PostSync", "hookPhase": "Running"},
            {"group": "batch", "version": "v1", "kind": "Job", "namespace": "ns", "name": "d",
                "hookType": "Sync", "hookPhase": "Error", "message": "why"},
        ]}},
    }});
    let nodes = listed_resources(&application);
    assert_eq!(names(&nodes), "plain d kept web c b a");
    let of = |name: &str| nodes.iter().find(|node| node.name == name).unwrap();
    let web = of("web");
    assert_eq!((web.group.as_str(), web.version.as_str()), ("apps", "v1"));
    assert_eq!((web.sync.as_str(), web.wave, web.hook.as_str()), ("OutOfSync", 2, ""));
    assert_eq!(web.health, Some(Health::new(health::Status::Degraded, "m")));
    assert_eq!((of("kept").hook.as_str(), of("plain").health.clone()), ("Hook", None));
    let messages = ["a", "b", "c", "d"].map(|name| of(name).message.as_str());
    assert_eq!(messages, ["", "why", "", "why"]);
}
