//! Each kind of target and live object in a comparison, as tables.

use super::*;
use crate::predicted::{Predicted, Prediction};

/// One object of each: name, `T` for a target, `L` for a live object, and its annotations.
type Case = (&'static str, &'static str, Value);

struct Setting {
    app: Value,
    tracking: Tracking,
    predicted: Predicted,
    config: diff::DiffConfig,
    namespace_metadata_changed: bool,
}

impl Setting {
    fn new() -> Self {
        Self {
            app: application(),
            tracking: tracking(),
            predicted: Predicted::new(),
            config: diff::DiffConfig::default(),
            namespace_metadata_changed: false,
        }
    }

    fn compared(
        &self,
        placed: &Placed,
        live: &BTreeMap<ResourceKey, Arc<Value>>,
    ) -> ComparedApplication {
        self.with_cache(placed, live, &DiffCache::default())
    }

    fn with_cache(
        &self,
        placed: &Placed,
        live: &BTreeMap<ResourceKey, Arc<Value>>,
        cache: &DiffCache,
    ) -> ComparedApplication {
        let spec: ApplicationSpec = wavegate_api::read_typed(&self.app["spec"]).unwrap();
        let facts = ComparisonFacts {
            application: &self.app,
            spec: &spec,
            tracking: &self.tracking,
            control_plane_namespace: "argocd",
            checks: &Checks::default(),
            targets: &placed.targets,
            live,
            handovers: &BTreeMap::new(),
            project: &project(),
            cluster: ("https://c", "c"),
            config: &self.config,
            predicted: &self.predicted,
            namespace_metadata_changed: self.namespace_metadata_changed,
        };
        compare(&facts, cache)
    }
}

fn key(kind: &str, name: &str) -> ResourceKey {
    let namespace = if kind == "Namespace" { "" } else { "web" };
    ResourceKey::new("", kind, namespace, name)
}

fn changed(object: &Arc<Value>, changes: &Value) -> Arc<Value> {
    let mut object = object.as_ref().clone();
    json_patch::merge(&mut object, changes);
    Arc::new(object)
}

/// What is a resource of the comparison, and whether it would change (SE-140, SE-141, SE-145,
/// SE-149).
#[test]
fn each_pair_has_a_role_and_a_difference_se_141() {
    let hook = |types: &str| json!({"argocd.argoproj.io/hook": types});
    let none = json!({});
    let cases: [Case; 11] = [
        ("both", "TL", none.clone()),
        ("changed", "TLC", none.clone()),
        ("missing", "T", none.clone()),
        ("extra", "L", none.clone()),
        ("hook", "T", hook("Sync")),
        ("hook-live", "TLC", hook("Sync")),
        ("hook-extra", "L", hook("PostSync")),
        ("delete-hook", "TL", hook("PostDelete")),
        ("unknown-hook", "TL", hook("Whenever")),
        ("skipped", "T", hook("Skip")),
        ("skipped-live", "TLC", hook("Skip")),
    ];
    let of = |which: char| {
        let some = cases.iter().filter(|(_, sides, _)| sides.contains(which));
        let objects: Vec<Value> = some
            .map(|(name, _, annotations)| {
                let mut object = map(name);
                object["metadata"]["annotations"] = annotations.clone();
                object
            })
            .collect();
        placed(&objects)
    };
    let mut objects: BTreeMap<_, _> = of('L').targets.iter().map(live).collect();
    for target in of('C').targets {
        let object = changed(&objects[&target.key], &json!({"data": {"a": "2"}}));
        objects.insert(target.key, object);
    }
    let found = Setting::new().compared(&of('T'), &objects);
    let rows: Vec<String> = (found.resources.iter())
        .map(|one| {
            let mark = |is: bool, text: &'static str| if is { text } else { "" };
            format!(
                "{}:{}{}{}{}{} {:?}",
                one.key.name,
                mark(one.target.is_some(), " target"),
                mark(one.live.is_some(), " live"),
                mark(one.is_hook(), " hook"),
                mark(one.modified, " modified"),
                mark(one.requires_pruning(), " prune"),
                one.status()
            )
        })
        .collect();
    let want = [
        "both: target live Some(Synced)",
        "changed: target live modified Some(OutOfSync)",
        "extra: live prune Some(OutOfSync)",
        "hook-extra: live hook None",
        "hook-live: target live hook None",
        "missing: target modified Some(OutOfSync)",
        "skipped: target None",
        "skipped-live: target live None",
    ];
    assert_eq!(rows, want);
    assert!(found.resources.iter().all(|one| one.version == "v1" && one.permitted));
}

/// A namespace that is not in the source is OutOfSync only if it lacks what
/// `managedNamespaceMetadata` has, and no other object is (SE-144).
#[test]
fn a_managed_namespace_is_compared_by_its_metadata_se_144() {
    let namespace = |name: &str| {
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name,
            "labels": {"l": "1", "more": "x"}, "annotations": {"a": "1"}}})
    };
    let other_kind = || {
        let mut other = map("web");
        other["metadata"]["labels"] = json!({"l": "1"});
        other["metadata"]["annotations"] = json!({"a": "1"});
        other
    };
    let labels = |labels: Value| json!({"labels": labels});
    for (name, object, metadata, managed, modified) in [
        (
            "all there",
            namespace("web"),
            json!({"labels": {"l": "1"}, "annotations": {"a": "1"}}),
            true,
            false,
        ),
        ("nothing wanted", namespace("web"), json!({}), true, false),
        ("another label", namespace("web"), labels(json!({"l": "2"})), true, true),
        ("a missing label", namespace("web"), labels(json!({"l": "1", "m": "1"})), true, true),
        ("another annotation", namespace("web"), json!({"annotations": {"a": "2"}}), true, true),
        (
            "only the label",
            namespace("web"),
            json!({"labels": {"l": "1"}, "annotations": {"b": ""}}),
            true,
            true,
        ),
        ("without metadata", namespace("web"), Value::Null, false, false),
        ("another namespace", namespace("other"), labels(json!({"l": "2"})), false, false),
        ("another kind", other_kind(), labels(json!({"l": "2"})), false, false),
    ] {
        let mut setting = Setting::new();
        setting.app["spec"]["syncPolicy"]["managedNamespaceMetadata"] = metadata;
        let objects = placed(&[object]).targets.iter().map(live).collect();
        let found = setting.compared(&placed(&[]), &objects);
        let [one] = found.resources.as_slice() else { panic!("{name}: {found:?}") };
        assert_eq!((one.managed_namespace, one.modified), (managed, modified), "{name}");
    }
    // Without a namespace of the destination, none is managed.
    let mut setting = Setting::new();
    setting.app["spec"]["destination"]["namespace"] = "".into();
    setting.app["spec"]["syncPolicy"]["managedNamespaceMetadata"] = json!({"labels": {"l": "2"}});
    let objects = placed(&[namespace("web")]).targets.iter().map(live).collect();
    assert!(!setting.compared(&placed(&[]), &objects).resources[0].managed_namespace);
}

/// An object that another Application tracks is part of both (SE-117).
#[test]
fn an_object_of_two_applications_is_warned_of_se_117() {
    let id = |instance: &str| format!("{instance}:/ConfigMap:web/m");
    let target = placed(&[map("m")]);
    for (instance, want) in [
        ("app", None),
        ("other", Some("ConfigMap/m is part of applications argocd/app and argocd/other")),
        ("team_other", Some("ConfigMap/m is part of applications argocd/app and team/other")),
        ("", None),
    ] {
        let (key, object) = live(&target.targets[0]);
        let tracked = json!({"metadata": {"annotations": {TRACKING: id(instance)}}});
        let objects = BTreeMap::from([(key, changed(&object, &tracked))]);
        let found = Setting::new().compared(&target, &objects);
        assert_eq!(found.shared.first().map(String::as_str), want, "{instance}");
        let warned = found.conditions.iter().find(|one| one.type_ == "SharedResourceWarning");
        assert_eq!(warned.map(|one| one.message.as_str()), want, "{instance}");
    }
}

/// An object with a copy of the tracking id is not the Application's own (SE-116), and one
/// object in two API groups is one resource.
#[test]
fn copies_and_other_groups_of_an_object_are_no_resources_se_116() {
    let both = placed(&[map("a"), map("b")]);
    let objects: BTreeMap<_, _> = both.targets.iter().map(live).collect();
    let copied = {
        let mut objects = objects.clone();
        let tracked =
            json!({"metadata": {"annotations": {TRACKING: "app:/ConfigMap:web/a"}, "uid": "u"}});
        let copy = changed(&objects[&key("ConfigMap", "b")], &tracked);
        objects.insert(key("ConfigMap", "b"), copy);
        objects
    };
    let names = |found: &ComparedApplication| -> Vec<(String, bool)> {
        found.resources.iter().map(|one| (one.key.to_string(), one.self_referenced)).collect()
    };
    let found = Setting::new().compared(&placed(&[map("a")]), &copied);
    let [a, b] = ["/ConfigMap/web/a", "/ConfigMap/web/b"];
    let is_self = |found: &ComparedApplication| -> Vec<bool> {
        found.resources.iter().map(|one| one.self_referenced).collect()
    };
    assert_eq!(is_self(&found), [true, false], "{a} {b} {:?}", names(&found));
    // A target that another tracking id is on becomes the Application's own.
    let mut foreign = objects.clone();
    let tracked = json!({"metadata": {"annotations": {TRACKING: "x:/ConfigMap:web/b"}}});
    let object = changed(&foreign[&key("ConfigMap", "b")], &tracked);
    foreign.insert(key("ConfigMap", "b"), object);
    assert_eq!(is_self(&Setting::new().compared(&both, &foreign)), [true, true]);
    let found = Setting::new().compared(&both, &copied);
    assert_eq!(is_self(&found), [true, false]);

    let same_uid = |first: &str, second: &str, uids: [&str; 2]| {
        [first, second]
            .into_iter()
            .zip(uids)
            .map(|(name, uid)| {
                let uid = json!({"metadata": {"uid": uid}});
                let key = key("ConfigMap", name);
                (key.clone(), changed(&objects[&key], &uid))
            })
            .collect::<BTreeMap<_, _>>()
    };
    for (name, targets, uids, want) in [
        ("one object in two groups", vec![], ["u", "u"], 1),
        ("two objects", vec![], ["u", "v"], 2),
        ("without uids", vec![], ["", ""], 2),
        ("that of a target", vec![map("a")], ["u", "u"], 1),
        ("beside that of a target", vec![map("a")], ["u", "v"], 2),
        ("targets without uids", vec![map("a")], ["", ""], 2),
    ] {
        let found = Setting::new().compared(&placed(&targets), &same_uid("a", "b", uids));
        assert_eq!(found.resources.len(), want, "{name}");
    }
}

/// What a controller made from another object is none of the Application's, nor is what has an
/// owner (SE-115).
#[test]
fn what_controllers_make_is_no_resource_se_115() {
    let endpoints = json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "s"}});
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}});
    let owned = {
        let mut owned = map("o");
        owned["metadata"]["ownerReferences"] = json!([{"kind": "Pod", "name": "p", "uid": "u"}]);
        owned
    };
    let all = placed(&[endpoints.clone(), service, owned]);
    let objects = all.targets.iter().map(live).collect();
    let kinds = |found: &ComparedApplication| -> Vec<String> {
        found.resources.iter().map(|one| one.key.kind.clone()).collect()
    };
    assert_eq!(kinds(&Setting::new().compared(&placed(&[]), &objects)), ["Service"]);
    let alone = placed(&[endpoints]).targets.iter().map(live).collect();
    assert_eq!(kinds(&Setting::new().compared(&placed(&[]), &alone)), ["Endpoints"]);
}

/// The answer of the server counts, and one that failed leaves the status unknown (SE-146,
/// SE-158); without server-side diff, neither does.
#[test]
fn what_the_server_predicts_counts_se_158() {
    let targets = placed(&[map("a")]);
    let (key, object) = live(&targets.targets[0]);
    let objects = BTreeMap::from([(key.clone(), object.clone())]);
    let answer = |object: &Arc<Value>, of: u64| Prediction::Answer(object.clone(), of);
    let differs = changed(&object, &json!({"data": {"a": "2"}}));
    let failed = || Prediction::Failed("no".to_owned());
    let server_side = || diff::DiffConfig {
        server_side: Some(diff::ServerSide::default()),
        ..diff::DiffConfig::default()
    };
    let cache = DiffCache::default();
    for (name, config, predicted, modified, comparable, kept) in [
        ("as it is", server_side(), Some(answer(&object, 1)), false, true, true),
        ("another", server_side(), Some(answer(&differs, 2)), true, true, true),
        ("as it is, again", server_side(), Some(answer(&object, 1)), false, true, true),
        ("failed", server_side(), Some(failed()), false, false, false),
        ("not asked", server_side(), None, false, true, false),
        ("client-side", diff::DiffConfig::default(), Some(answer(&differs, 3)), false, true, false),
        ("client-side, failed", diff::DiffConfig::default(), Some(failed()), false, true, false),
    ] {
        let predicted = predicted.into_iter().map(|one| (key.clone(), one)).collect();
        let setting = Setting { config, predicted, ..Setting::new() };
        let found = setting.with_cache(&targets, &objects, &cache);
        let one = &found.resources[0];
        let flags = (one.modified, one.is_comparable, one.predicted.is_some());
        assert_eq!(flags, (modified, comparable, kept), "{name}");
        assert_eq!(found.is_predicted, comparable, "{name}");
        let message = "Failed to compare desired state to live state: failed to calculate diff: \
            error calculating server side diff: ConfigMap/a: no";
        let warned = found.conditions.iter().any(|one| one.message == message);
        assert_eq!(warned, !comparable, "{name}: {:?}", found.conditions);
    }
}

/// A difference is kept for one version of an object, one target and one set of rules; of an
/// object without a version, none is.
#[test]
fn a_difference_is_kept_for_a_version() {
    let targets = placed(&[map("a")]);
    let (key, object) = live(&targets.targets[0]);
    let differs = json!({"data": {"a": "2"}});
    let found = |first: &Value, second: &Value, follow: Option<u64>| {
        let cache = DiffCache::default();
        cache.follow(1);
        let compared = |changes: &Value| {
            let objects = BTreeMap::from([(key.clone(), changed(&object, changes))]);
            Setting::new().with_cache(&targets, &objects, &cache).resources[0].modified
        };
        let before = compared(first);
        if let Some(rules) = follow {
            cache.follow(rules);
        }
        (before, compared(second))
    };
    let meta = |metadata: Value| {
        let mut changes = differs.clone();
        changes["metadata"] = metadata;
        changes
    };
    let same = json!({});
    // The version is the same, so that it cannot have changed.
    assert_eq!(found(&same, &differs, None), (false, false));
    assert_eq!(found(&same, &differs, Some(1)), (false, false));
    assert_eq!(found(&same, &differs, Some(2)), (false, true));
    assert_eq!(found(&same, &meta(json!({"resourceVersion": "2"})), None), (false, true));
    assert_eq!(found(&same, &meta(json!({"uid": "other"})), None), (false, true));
    for unknown in [json!({"resourceVersion": null}), json!({"uid": null})] {
        let first = json!({"metadata": unknown});
        assert_eq!(found(&first, &meta(unknown.clone()), None), (false, true), "{unknown}");
    }
    // What is no target any more is forgotten.
    let cache = DiffCache::default();
    let objects = BTreeMap::from([(key.clone(), object.clone())]);
    assert!(!Setting::new().with_cache(&targets, &objects, &cache).resources[0].modified);
    Setting::new().with_cache(&placed(&[]), &objects, &cache);
    let objects = BTreeMap::from([(key, changed(&object, &differs))]);
    assert!(Setting::new().with_cache(&targets, &objects, &cache).resources[0].modified);
}

/// An object with the label of the former method is compared as if it had the annotation, and
/// loses the label that the source does not have (SE-118).
#[test]
fn a_change_of_the_tracking_method_is_no_difference_se_118() {
    let label = "app.kubernetes.io/instance";
    let targets = placed(&[map("a")]);
    let (key, object) = live(&targets.targets[0]);
    let labelled = |labels: Value, annotations: Value| json!({"metadata": {"labels": labels, "annotations": annotations}});
    let untracked = json!({TRACKING: null});
    for (name, changes, modified) in [
        ("its own label", labelled(json!({label: "app"}), untracked.clone()), false),
        ("that of another", labelled(json!({label: "x"}), untracked.clone()), true),
        ("no label", labelled(json!({}), untracked), true),
        ("another id", labelled(json!({label: "app"}), json!({TRACKING: "x:y"})), true),
    ] {
        let objects = BTreeMap::from([(key.clone(), changed(&object, &changes))]);
        let found = Setting::new().compared(&targets, &objects);
        assert_eq!(found.resources[0].modified, modified, "{name}");
    }
}

/// Applying the metadata of the namespace again makes the Application OutOfSync (SE-144).
#[test]
fn changed_metadata_of_the_namespace_is_a_difference_se_144() {
    let targets = placed(&[map("a")]);
    let objects = targets.targets.iter().map(live).collect();
    for (changed, want) in [(false, "Synced"), (true, "OutOfSync")] {
        let setting = Setting { namespace_metadata_changed: changed, ..Setting::new() };
        let found = setting.compared(&targets, &objects);
        assert_eq!(format!("{:?}", found.sync), want);
    }
}
