//! Which Applications are written and deleted: policies, owners, preserved fields (tables
//! A.11, AS-150 to AS-160, AS-161, AS-166, AS-306).

use super::*;
use kube_sim::{Disturbance, Effect, InjectedFault};
use wavegate_api::annotations::RESOURCES_FINALIZER;

fn all_at_once(names: &[&str]) -> Value {
    let members: Vec<(&str, &str)> = names.iter().map(|name| (*name, "x")).collect();
    fleet(&members, Value::Null)
}

fn elements(names: &[&str]) -> Value {
    json!({"spec": {"generators": all_at_once(names)["generators"]}})
}

fn path(path: &str) -> Value {
    json!({"spec": {"template": {"spec": {"source": {"path": path}}}}})
}

#[tokio::test]
async fn policies_and_their_override_decide_on_updates_and_deletions_as_150() {
    // Policy of the set, whether it may choose, whether Applications are updated, deleted.
    let cases = [
        ("create-only", false, true, true),
        ("create-only", true, false, false),
        ("create-update", true, true, false),
        ("create-delete", true, false, true),
        ("sync", true, true, true),
    ];
    for (policy, policy_override, updates, deletes) in cases {
        let settings =
            deciding(DecisionSettings { policy_override, ..DecisionSettings::default() });
        let world = ClusterState::start(settings).await;
        let mut spec = all_at_once(&["keep", "old"]);
        spec["syncPolicy"] = json!({"applicationsSync": policy});
        world.create("ApplicationSet", "set", spec).await;
        for name in ["keep", "old"] {
            world.until("Application", name, |_| true).await;
        }
        world.patch("ApplicationSet", "set", path("new")).await;
        world.patch("ApplicationSet", "set", elements(&["keep", "more"])).await;
        world.until("Application", "more", |_| true).await;
        world.reconcile().await;
        let keep = world.until("Application", "keep", |_| true).await;
        let case = format!("rows 197 to 199: {policy}, override {policy_override}");
        assert_eq!(keep["spec"]["source"]["path"] == "new", updates, "{case}");
        let old = world.api("Application").get_opt("old").await.unwrap();
        let is_deleted = old.is_none_or(|old| is_going(&old.parse()));
        assert_eq!(is_deleted, deletes, "{case}");
    }
}

#[tokio::test]
async fn an_application_of_nobody_is_not_changed_without_updates_as_151() {
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    let mut spec = all_at_once(&["app"]);
    let mut own = spec["template"]["spec"].clone();
    own["source"]["path"] = "mine".into();
    world.create("Application", "app", own).await;
    spec["syncPolicy"] = json!({"applicationsSync": "create-only"});
    world.create("ApplicationSet", "set", spec).await;
    let text = "application app: it already exists and is not owned by an ApplicationSet";
    world.until_condition("ErrorOccurred", "True", "UpdateApplicationError", text).await;
    let live = world.until("Application", "app", |_| true).await;
    assert_eq!(live["spec"]["source"]["path"], "mine");
    assert!(live["metadata"]["ownerReferences"].is_null());
    // With updates it is taken over.
    let policy = json!({"spec": {"syncPolicy": {"applicationsSync": "sync"}}});
    world.patch("ApplicationSet", "set", policy).await;
    world.until("Application", "app", |live| live["spec"]["source"]["path"] == "p").await;
}

#[tokio::test]
async fn the_owner_reference_is_ours_and_others_stay_as_158() {
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    world.create("ApplicationSet", "set", all_at_once(&["app", "taken"])).await;
    let live = world.until("Application", "app", |_| true).await;
    let set = world.until("ApplicationSet", "set", |_| true).await;
    let ours = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet", "name": "set",
        "uid": set["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true,
    });
    assert_eq!(live["metadata"]["ownerReferences"], json!([ours]));
    let team = world.team().await;
    let owners = json!({"metadata": {"ownerReferences": [team]}});
    world.patch("Application", "app", owners).await;
    let both = json!([team, ours]);
    world.until("Application", "app", |live| live["metadata"]["ownerReferences"] == both).await;
    // Another controller took it over: it is left alone, and reported.
    let mut spec = all_at_once(&[]);
    spec["syncPolicy"] = json!({"applicationsSync": "create-only"});
    world.create("ApplicationSet", "other", spec).await;
    let mut other = ours.clone();
    other["name"] = "other".into();
    other["uid"] =
        world.until("ApplicationSet", "other", |_| true).await["metadata"]["uid"].clone();
    world.until("Application", "taken", |_| true).await;
    let owners = json!({"metadata": {"ownerReferences": [other]}});
    world.patch("Application", "taken", owners).await;
    let text = "application taken: it is owned by ApplicationSet other";
    world.until_condition("ErrorOccurred", "True", "UpdateApplicationError", text).await;
    // The other set protects what it owns by a reference to the Namespace (AS-167).
    let protected = |live: &Value| {
        let owners = live["metadata"]["ownerReferences"].as_array();
        owners.is_some_and(|owners| owners.iter().any(|owner| owner["kind"] == "Namespace"))
    };
    let taken = world.until("Application", "taken", protected).await;
    let owners = taken["metadata"]["ownerReferences"].as_array().unwrap();
    assert_eq!(owners.iter().filter(|one| one["kind"] != "Namespace").count(), 1, "{taken}");
    assert_eq!(owners[0], other);
}

#[tokio::test]
async fn the_first_failure_by_name_is_reported_and_all_are_tried_as_157() {
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    let names = ["zeta", "alpha", "beta"];
    world.create("ApplicationSet", "set", all_at_once(&names)).await;
    for name in names {
        world.until("Application", name, |_| true).await;
    }
    let of_two = |request: &RequestRecord| {
        request.client == "sets"
            && request.verb == "patch"
            && ["alpha", "zeta"].contains(&request.name.as_str())
    };
    world.server.inject(InjectedFault::new(Effect::Status(403), of_two).times(1000));
    world.patch("ApplicationSet", "set", path("q")).await;
    let text = "application alpha: ";
    let set = world.until_condition("ErrorOccurred", "True", "UpdateApplicationError", text).await;
    assert_eq!(condition(&set, "ResourcesUpToDate")["reason"], "ErrorOccurred", "row 254");
    world.until("Application", "beta", |live| live["spec"]["source"]["path"] == "q").await;
    let mut tried: Vec<String> =
        world.sent("patch", "applications").into_iter().map(|request| request.name).collect();
    tried.sort();
    tried.dedup();
    assert_eq!(tried, ["alpha", "beta", "zeta"], "row 222: all are tried");
    world.until_event("ApplicationError").await;
    world.server.clear_faults();
    world.until_condition("ErrorOccurred", "False", "ApplicationSetUpToDate", "").await;

    // Without updates, the reason names the creation.
    let policy = json!({"spec": {"syncPolicy": {"applicationsSync": "create-only"}}});
    world.patch("ApplicationSet", "set", policy).await;
    let creates = |request: &RequestRecord| {
        request.client == "sets" && request.verb == "create" && request.resource == "applications"
    };
    world.server.inject(InjectedFault::new(Effect::Status(403), creates).times(1000));
    world.patch("ApplicationSet", "set", elements(&["zeta", "alpha", "beta", "new"])).await;
    world.until_condition("ErrorOccurred", "True", "CreateApplicationError", "new").await;
    world.server.clear_faults();
    world.until("Application", "new", |_| true).await;
}

#[tokio::test]
async fn live_metadata_of_other_components_is_preserved_as_154_as_155_as_156() {
    let settings = deciding(DecisionSettings {
        preserved_annotations: vec!["global-note".to_owned()],
        preserved_labels: vec!["global-label".to_owned()],
        ..DecisionSettings::default()
    });
    let world = ClusterState::start(settings).await;
    let mut spec = all_at_once(&["app"]);
    spec["preservedFields"] = json!({"annotations": ["note"], "labels": ["label"]});
    spec["template"]["metadata"]["annotations"] = json!({"note": "generated", "own": "1"});
    spec["template"]["metadata"]["labels"] = json!({"label": "generated", "own": "1"});
    world.create("ApplicationSet", "set", spec).await;
    world.until("Application", "app", |_| true).await;
    let annotations = json!({
        "notified.notifications.argoproj.io": "x", "argocd.argoproj.io/refresh": "normal",
        "argocd.argoproj.io/hydrate": "y", "note": "live", "global-note": "live", "other": "1",
        "global-note-2": "1",
    });
    let labels = json!({"label": "live", "global-label": "live", "other": "1"});
    let hooks = [
        "pre-delete-finalizer.argocd.argoproj.io",
        "post-delete-finalizer.argocd.argoproj.io/cleanup",
    ];
    let finalizers = json!([hooks[0], "example.com/foo", hooks[1], RESOURCES_FINALIZER]);
    let live = json!({"metadata": {
        "annotations": annotations, "labels": labels, "finalizers": finalizers,
    }});
    world.patch("Application", "app", live).await;
    let is_cleaned = |live: &Value| live["metadata"]["labels"]["other"].is_null();
    let live = world.until("Application", "app", is_cleaned).await;
    let metadata = &live["metadata"];
    assert_eq!(
        metadata["annotations"],
        json!({
            "notified.notifications.argoproj.io": "x", "argocd.argoproj.io/refresh": "normal",
            "argocd.argoproj.io/hydrate": "y", "note": "live", "global-note": "live", "own": "1",
        }),
        "rows 204, 205: exact keys"
    );
    assert_eq!(metadata["labels"], json!({"label": "live", "global-label": "live", "own": "1"}));
    assert_eq!(metadata["finalizers"], json!([RESOURCES_FINALIZER, hooks[0], hooks[1]]), "row 206");
}

#[tokio::test]
async fn finalizers_are_those_of_the_template_or_the_default_as_160() {
    let background = "resources-finalizer.argocd.argoproj.io/background";
    let cases = [
        (200, json!({}), json!(null), json!([RESOURCES_FINALIZER])),
        (201, json!({}), json!([background]), json!([background])),
        (202, json!({"preserveResourcesOnDeletion": true}), json!(null), json!(null)),
        (203, json!({"preserveResourcesOnDeletion": true}), json!(["a/x"]), json!(["a/x"])),
    ];
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    for (row, policy, finalizers, want) in cases {
        let name = format!("app-{row}");
        let mut spec = all_at_once(&[&name]);
        spec["syncPolicy"] = policy;
        spec["template"]["metadata"]["finalizers"] = finalizers;
        world.create("ApplicationSet", &format!("set-{row}"), spec).await;
        let live = world.until("Application", &name, |_| true).await;
        assert_eq!(live["metadata"]["finalizers"], want, "row {row}");
    }
    // Switching it on removes the finalizer from the existing Application.
    let keep = json!({"spec": {"syncPolicy": {"preserveResourcesOnDeletion": true}}});
    world.patch("ApplicationSet", "set-200", keep).await;
    let has_none =
        |live: &Value| live["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty);
    world.until("Application", "app-200", has_none).await;
}

#[tokio::test]
async fn a_finalizer_whose_cluster_is_unknown_is_removed_before_the_deletion_as_166_as_610() {
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    let secret = |name: &str| {
        serde_json::from_value(json!({
            "metadata": {
                "name": name, "labels": {"argocd.argoproj.io/secret-type": "cluster"},
            },
            "stringData": {"name": name, "server": format!("https://{name}.example.com")},
        }))
        .unwrap()
    };
    let secrets: Api<k8s_openapi::api::core::v1::Secret> =
        Api::namespaced(world.server.client_as("test"), NAMESPACE);
    for name in ["lost", "known"] {
        secrets.create(&PostParams::default(), &secret(name)).await.unwrap();
    }
    let mut spec = set(Value::Null);
    let element = |name: &str, server: &str| json!({"n": name, "server": server});
    spec["generators"] = json!([{"list": {"elements": [
        element("a-lost", "https://lost.example.com/"),
        element("b-known", "https://known.example.com"),
        element("c-local", "https://kubernetes.default.svc"),
    ]}}]);
    spec["template"]["spec"]["destination"]["server"] = "{{server}}".into();
    let variant = "resources-finalizer.argocd.argoproj.io/background";
    spec["template"]["metadata"]["finalizers"] =
        json!([RESOURCES_FINALIZER, variant, "example.com/hold"]);
    world.create("ApplicationSet", "set", spec).await;
    for name in ["a-lost", "b-known", "c-local"] {
        world.until("Application", name, |_| true).await;
    }
    secrets.delete("lost", &DeleteParams::default()).await.unwrap();
    world.until_condition("ErrorOccurred", "True", "ApplicationValidationError", "a-lost").await;
    world
        .patch(
            "ApplicationSet",
            "set",
            json!({"spec": {"generators": [{"list": {"elements": []}}]}}),
        )
        .await;

    let lost = world.until("Application", "a-lost", is_going).await;
    assert_eq!(lost["metadata"]["finalizers"], json!([variant, "example.com/hold"]), "row 221");
    for name in ["b-known", "c-local"] {
        let live = world.until("Application", name, is_going).await;
        assert_eq!(live["metadata"]["finalizers"][0], RESOURCES_FINALIZER, "{name}");
    }
    let patched: Vec<String> =
        world.sent("patch", "applications").into_iter().map(|request| request.name).collect();
    assert_eq!(patched, ["a-lost"], "the others are only deleted");
    let note = world.until_event("Updated").await;
    assert!(note.contains("a-lost") && note.contains("https://lost.example.com"), "{note}");
    for reason in ["created", "Deleted"] {
        world.until_event(reason).await;
    }
}

/// A second Secret of the name: one of the clusters has the resources.
#[tokio::test]
async fn a_finalizer_stays_while_several_clusters_have_the_name_as_166() {
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    let secrets: Api<k8s_openapi::api::core::v1::Secret> =
        Api::namespaced(world.server.client_as("test"), NAMESPACE);
    let add = async |secret: &str| {
        let secret = json!({
            "metadata": {
                "name": secret, "labels": {"argocd.argoproj.io/secret-type": "cluster"},
            },
            "stringData": {"name": "prod", "server": format!("https://{secret}.example.com")},
        });
        let secret = serde_json::from_value(secret).unwrap();
        secrets.create(&PostParams::default(), &secret).await.unwrap();
    };
    add("first").await;
    let mut spec = all_at_once(&["app"]);
    spec["template"]["metadata"]["finalizers"] = json!([RESOURCES_FINALIZER]);
    spec["template"]["spec"]["destination"] = json!({"name": "prod", "namespace": "default"});
    world.create("ApplicationSet", "set", spec).await;
    world.until("Application", "app", |_| true).await;
    add("second").await;
    world.until_condition("ErrorOccurred", "True", "ApplicationValidationError", "prod").await;
    world.patch("ApplicationSet", "set", elements(&[])).await;
    let live = world.until("Application", "app", is_going).await;
    assert_eq!(live["metadata"]["finalizers"], json!([RESOURCES_FINALIZER]));
    assert_eq!(world.sent("patch", "applications").len(), 0, "it is only deleted");
}

/// The watch is late: the cache has it still.
#[tokio::test]
async fn an_application_that_is_gone_at_its_patch_is_created_again_as_152() {
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    let mut spec = all_at_once(&["app"]);
    spec["syncPolicy"] = json!({"preserveResourcesOnDeletion": true});
    world.create("ApplicationSet", "set", spec).await;
    let first = world.until("Application", "app", |_| true).await;
    world.reconcile().await;
    let of_applications = |watch: &RequestRecord| watch.resource == "applications";
    world.server.disturb(&Disturbance::Silence(Duration::MAX), of_applications);
    world.delete("Application", "app").await;
    let moved = json!({"spec": {"template": {"spec": {"source": {"path": "moved"}}}}});
    world.patch("ApplicationSet", "set", moved).await;
    let is_new = |live: &Value| {
        live["metadata"]["uid"] != first["metadata"]["uid"]
            && live["spec"]["source"]["path"] == "moved"
    };
    world.until("Application", "app", is_new).await;
}

#[tokio::test]
async fn nothing_is_deleted_when_its_finalizer_cannot_be_removed_as_166() {
    let mut world = ClusterState::start(ApplicationSetSettings::default()).await;
    let mut spec = all_at_once(&["app"]);
    spec["syncPolicy"] = json!({"applicationsSync": "create-delete"});
    world.create("ApplicationSet", "set", spec).await;
    world.until("Application", "app", |_| true).await;
    // A controller that is started afterwards observes both changes.
    world.stop();
    let destination = json!({"spec": {"destination": {"server": "https://lost"}}});
    world.patch("Application", "app", destination).await;
    let is_patch = |request: &RequestRecord| {
        request.client == "sets" && request.verb == "patch" && request.resource == "applications"
    };
    world.server.inject(InjectedFault::new(Effect::Status(403), is_patch).times(usize::MAX));
    world.patch("ApplicationSet", "set", elements(&[])).await;
    world.restart(ApplicationSetSettings::default());
    world.until_condition("ErrorOccurred", "True", "DeleteApplicationError", "app").await;
    world.server.clear_faults();
    world.until_gone("Application", "app").await;
    let requests = world.server.requests();
    let codes = requests.iter().filter(|request| {
        request.client == "sets"
            && request.resource == "applications"
            && ["patch", "delete"].contains(&request.verb.as_str())
    });
    let codes: Vec<(&str, u16)> =
        codes.map(|request| (request.verb.as_str(), request.code)).collect();
    let refused = codes.iter().take_while(|code| **code == ("patch", 403)).count();
    assert!(refused > 0, "{codes:?}");
    assert_eq!(codes[refused..], [("patch", 200), ("delete", 200)]);
}

#[tokio::test]
async fn specs_are_written_whatever_step_is_open_as_306() {
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    let strategy = steps(&[("dev", json!(0)), ("prod", Value::Null)]);
    let members = [("dev", "dev"), ("prod", "prod")];
    world.create("ApplicationSet", "set", fleet(&members, strategy.clone())).await;
    for name in ["dev", "prod"] {
        world.compare(name, "OutOfSync", "Missing", "r1").await;
    }
    let mut changed = fleet(&[("dev", "dev"), ("new", "prod"), ("prod", "prod")], strategy);
    changed["template"]["spec"]["source"]["path"] = "q".into();
    changed["template"]["spec"]["syncPolicy"] = json!({"automated": {"prune": true}});
    world.patch("ApplicationSet", "set", json!({ "spec": changed })).await;
    for name in ["prod", "new"] {
        let live =
            world.until("Application", name, |live| live["spec"]["source"]["path"] == "q").await;
        let automated = json!({"prune": true, "enabled": false});
        assert_eq!(live["spec"]["syncPolicy"]["automated"], automated, "AS-370");
        assert!(live["operation"].is_null(), "only the sync waits for its step");
    }
    let set = world.until("ApplicationSet", "set", |set| entry_of(set, "new").is_object()).await;
    assert_eq!(entry_of(&set, "prod")["status"], "Waiting");
}

#[tokio::test]
async fn a_dry_run_writes_nothing_at_all_as_161() {
    let mut world = ClusterState::start(ApplicationSetSettings::default()).await;
    let mut strategy = rolling();
    strategy["deletionOrder"] = "Reverse".into();
    world.create("ApplicationSet", "set", fleet(&[("a", "x"), ("b", "x")], strategy)).await;
    world.create("ApplicationSet", "gone", fleet(&[("c", "x")], Value::Null)).await;
    for name in ["a", "b", "c"] {
        world.until("Application", name, |_| true).await;
    }
    let settings = progressive(Default::default());
    world.restart(ApplicationSetSettings { dry_run: true, ..settings });
    // An update, a creation, a deletion, a sync, a refresh, and a set that is deleted.
    let mut spec = elements(&["a", "new"])["spec"].clone();
    spec["template"] = path("q")["spec"]["template"].clone();
    world.patch("ApplicationSet", "set", json!({ "spec": spec })).await;
    world.compare("a", "OutOfSync", "Missing", "r1").await;
    let refresh = wavegate_api::annotations::APPLICATION_SET_REFRESH;
    let asked = json!({"metadata": {"annotations": {refresh: "true"}}});
    world.patch("ApplicationSet", "set", asked).await;
    let held = json!({"metadata": {"finalizers": [RESOURCES_FINALIZER]}});
    world.patch("ApplicationSet", "gone", held).await;
    world.delete("ApplicationSet", "gone").await;
    world.calm(DRY).await;
    assert_eq!(world.writes_of_dry_run(), []);
    // Without the dry run, all of it is done.
    world.restart(progressive(Default::default()));
    world.until("Application", "new", |_| true).await;
    world.until("Application", "a", |live| live["spec"]["source"]["path"] == "q").await;
    world.until_gone("ApplicationSet", "gone").await;
}
