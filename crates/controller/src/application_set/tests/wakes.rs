//! What triggers a reconcile and what causes no write (specification, section 6), and the
//! observations that change an entry (section 5.4).

use k8s_openapi::api::core::v1::Secret;

use super::steps::{dev_and_prod, entry_of};
use super::*;
use crate::application_set::is_compared_again;
use kube_sim::{Effect, InjectedFault, RequestRecord};
use wavegate_api::ObjectKey;
use wavegate_cluster::watch::control_plane::{Kind, ObjectChange, Origin};

/// Shorter than the poll of a rollout, so that an event triggered what is waited for.
const BEFORE_POLL: Duration = Duration::from_secs(20);

/// The change since then was noticed by its event; the next one is made now.
fn noticed_before_the_poll(changed: &mut std::time::Instant) {
    let took = changed.elapsed();
    assert!(took < BEFORE_POLL, "only the poll noticed it: {took:?}");
    *changed = std::time::Instant::now();
}

impl ClusterState {
    /// The writes of the controller, except for Events and the end of a refresh.
    fn writes(&self) -> Vec<RequestRecord> {
        let reads = ["get", "list", "watch"];
        let is_counted = |request: &RequestRecord| {
            let ends_refresh =
                request.resource == "applicationsets" && request.subresource.is_empty();
            request.client == "sets"
                && !reads.contains(&request.verb.as_str())
                && request.resource != "events"
                && !ends_refresh
        };
        self.server.requests().into_iter().filter(is_counted).collect()
    }

    /// Two Synced and Healthy Applications, and a complete rollout.
    async fn complete(&self) {
        self.create("ApplicationSet", "set", dev_and_prod()).await;
        for name in ["a", "b"] {
            self.compare(name, "Synced", "Healthy", "r1").await;
        }
        self.until_phase("b", "Healthy").await;
        self.until_idle().await;
    }

    /// Waits until a reconcile writes nothing.
    async fn until_idle(&self) {
        let calm = async {
            loop {
                let before = self.writes().len();
                self.reconcile().await;
                // A status that nothing depends on is written after a second at most.
                tokio::time::sleep(Duration::from_millis(1200)).await;
                self.reconcile().await;
                if self.writes().len() == before {
                    return;
                }
            }
        };
        tokio::time::timeout(LIMIT, calm).await.expect("it becomes calm");
    }

    async fn secret(&self, name: &str, labels: Value, data: Value) {
        let api: Api<Secret> = Api::namespaced(self.server.client_as("test"), NAMESPACE);
        let secret = json!({"metadata": {"name": name, "labels": labels}, "stringData": data});
        let patch = Patch::Merge(secret.clone());
        if api.get_opt(name).await.unwrap().is_some() {
            api.patch(name, &PatchParams::default(), &patch).await.unwrap();
        } else {
            api.create(&PostParams::default(), &serde_json::from_value(secret).unwrap())
                .await
                .unwrap();
        }
    }
}

/// A.12: what an ApplicationSet does not depend on causes no write, and neither does an Application
/// that is as it should be (AS-152). Predicates of Argo CD only save the reconcile.
#[tokio::test]
async fn changes_without_meaning_cause_no_write_as_401_as_402() {
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    world.complete().await;
    let before = world.writes().len();
    let changes = [
        (
            "AS-402, row 224: reconciledAt",
            "Application",
            "a",
            json!({"status": {"reconciledAt": "2099-01-01T00:00:00Z"}}),
        ),
        ("AS-402: summary", "Application", "a", json!({"status": {"summary": {"images": ["x"]}}})),
        (
            "AS-402, row 230: labels nil and empty",
            "Application",
            "b",
            json!({"spec": {"info": []}}),
        ),
        (
            "AS-402: conditions",
            "Application",
            "b",
            json!({"status": {"conditions": [{"type": "OrphanedResourceWarning", "message": "m"}]}}),
        ),
        ("AS-401: a label", "ApplicationSet", "set", json!({"metadata": {"labels": {"x": "y"}}})),
        (
            "AS-401: another annotation",
            "ApplicationSet",
            "set",
            json!({"metadata": {"annotations": {"x": "y"}}}),
        ),
    ];
    for (what, kind, name, patch) in changes {
        world.patch(kind, name, patch).await;
        world.reconcile().await;
        let writes = world.writes();
        assert_eq!(writes.len(), before, "{what}: {:?}", &writes[before..]);
    }
    world.secret("other", json!({"app": "x"}), json!({"key": "1"})).await;
    world.secret("other", json!({"app": "x"}), json!({"key": "2"})).await;
    world.reconcile().await;
    assert_eq!(world.writes().len(), before, "AS-404, row 240: an ordinary Secret");
}

/// A comparison that finds nothing new is no news, and everything else is.
#[test]
fn what_was_compared_once_more_is_no_news() {
    let application = |version: &str, change: &dyn Fn(&mut Value)| {
        let generation: i64 = version.parse().unwrap();
        let mut object = json!({
            "metadata": {
                "generation": generation,
                "name": "a",
                "namespace": NAMESPACE,
                "resourceVersion": version,
                "uid": "u",
            },
            "spec": {"source": {"helm": {"valuesObject": {"reconciledAt": "never"}}}},
            "status": {"reconciledAt": "2026-01-01T00:00:00Z", "sync": {"status": "Synced"}},
        });
        change(&mut object);
        Some(StoredObject::from(object))
    };
    let bare = |object: &mut Value| drop(object["spec"].take());
    let later =
        |object: &mut Value| object["status"]["reconciledAt"] = "2026-01-01T00:03:00Z".into();
    let is_again = |old: Option<StoredObject>, new: Option<StoredObject>| {
        let (kind, origin) = (Kind::Application, Origin::Watch);
        let key = ObjectKey::new(NAMESPACE, "a");
        is_compared_again(&ObjectChange { kind, key, old, new, origin })
    };
    let both = |object: &mut Value| {
        bare(object);
        later(object);
    };
    assert!(is_again(application("9", &bare), application("10", &both)));
    assert!(is_again(application("9", &bare), application("10", &bare)), "nothing differs");
    assert!(!is_again(None, application("10", &both)), "created");
    assert!(!is_again(application("9", &bare), None), "deleted");
    assert!(!is_again(application("9", &|_| {}), application("10", &later)), "a field of a user");
    for (pointer, value) in [
        ("/status/sync/status", "OutOfSync"),
        ("/status/sync/revision", "r"),
        ("/metadata/uid", "v"),
        ("/metadata/deletionTimestamp", "2026-01-01T00:00:00Z"),
        ("/metadata/annotations", "x"),
        ("/operation", "x"),
    ] {
        let changed = application("10", &|object: &mut Value| {
            both(object);
            let (parent, field) = pointer.rsplit_once('/').unwrap();
            object.pointer_mut(parent).unwrap()[field] = value.into();
        });
        assert!(!is_again(application("9", &bare), changed), "{pointer}");
    }
    // One after an operation may be waited for; the next ones are not.
    for (phase, finished, again) in [
        ("Succeeded", Some("2025-12-31T23:59:59Z"), true),
        ("Failed", Some("2025-12-31T23:59:59Z"), true),
        ("Succeeded", Some("2026-01-01T00:00:00Z"), false),
        ("Succeeded", Some("2026-01-01T00:00:30Z"), false),
        ("Running", None, false),
        ("Terminating", None, false),
    ] {
        let operated = |change: &dyn Fn(&mut Value)| {
            application("9", &|object: &mut Value| {
                change(object);
                object["status"]["operationState"] =
                    json!({"phase": phase, "finishedAt": finished});
            })
        };
        assert_eq!(is_again(operated(&bare), operated(&both)), again, "{phase} {finished:?}");
    }
    let requested = |change: &dyn Fn(&mut Value)| {
        application("9", &|object: &mut Value| {
            change(object);
            object["operation"] = json!({"sync": {}});
        })
    };
    assert!(!is_again(requested(&bare), requested(&both)), "an operation is requested");
}

/// An API server counts each write in the generation of an Application.
#[tokio::test]
async fn a_stored_comparison_is_no_news() {
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    world.complete().await;
    let mut stored = Vec::new();
    for at in ["2098-01-01T00:00:00Z", "2099-01-01T00:00:00Z"] {
        world.patch("Application", "a", json!({"status": {"reconciledAt": at}})).await;
        stored.push(world.api("Application").get("a").await.unwrap());
    }
    let (kind, origin) = (Kind::Application, Origin::Watch);
    let (new, old) = (stored.pop(), stored.pop());
    assert_ne!(new.as_ref().map(StoredObject::json), old.as_ref().map(StoredObject::json));
    let key = ObjectKey::new(NAMESPACE, "a");
    assert!(is_compared_again(&ObjectChange { kind, key, old, new, origin }));
}

/// A.12: the changes that must be noticed are, without waiting for the poll.
#[tokio::test]
async fn changes_with_a_meaning_are_noticed_as_401_as_402() {
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    world.complete().await;
    let mut changed = std::time::Instant::now();
    // AS-402, row 231: metadata and spec.
    world.patch("Application", "a", json!({"metadata": {"labels": {"env": "other"}}})).await;
    world.until("Application", "a", |live| live["metadata"]["labels"]["env"] == "dev").await;
    world.patch("Application", "a", json!({"spec": {"source": {"path": "by-hand"}}})).await;
    world.until("Application", "a", |live| live["spec"]["source"]["path"] == "p").await;
    noticed_before_the_poll(&mut changed);
    // AS-402, rows 225, 226: health and sync status.
    world.compare("b", "Synced", "Degraded", "r1").await;
    let health = |set: &Value| set["status"]["resources"][1]["health"]["status"] == "Degraded";
    world.until("ApplicationSet", "set", health).await;
    world.compare("b", "OutOfSync", "Degraded", "r1").await;
    world
        .until("ApplicationSet", "set", |set| {
            set["status"]["resources"][1]["status"] == "OutOfSync"
        })
        .await;
    noticed_before_the_poll(&mut changed);
    // AS-402, row 223: a deletion.
    world.api("Application").delete("a", &DeleteParams::default()).await.unwrap();
    world.until("Application", "a", |live| live["metadata"]["deletionTimestamp"].is_null()).await;
    noticed_before_the_poll(&mut changed);
    // AS-401, rows 232, 235: the status and the spec of the set.
    world
        .api("ApplicationSet")
        .patch_status(
            "set",
            &PatchParams::default(),
            &Patch::Merge(json!({"status": {"applicationStatus": []}})),
        )
        .await
        .unwrap();
    world.until("ApplicationSet", "set", |set| entry_of(set, "b").is_object()).await;
    world.move_source("q").await;
    world.until("Application", "b", |live| live["spec"]["source"]["path"] == "q").await;
    noticed_before_the_poll(&mut changed);
}

/// AS-403: what Argo CD misses. The entries follow, without waiting for the poll.
#[tokio::test]
async fn what_a_rollout_waits_for_is_noticed_as_403() {
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    world.create("ApplicationSet", "set", dev_and_prod()).await;
    let mut changed = std::time::Instant::now();
    world.compare("a", "OutOfSync", "Missing", "r1").await;
    let live = world.until_operation("a").await;
    // The operation appears for the first time, row 229.
    let now =
        jiff::Timestamp::from_second(jiff::Timestamp::now().as_second() + 1).unwrap().to_string();
    let state = json!({"operation": live["operation"], "phase": "Running", "startedAt": now});
    world.patch("Application", "a", json!({"status": {"operationState": state}})).await;
    world.until_phase("a", "Progressing").await;
    noticed_before_the_poll(&mut changed);
    // It ends, row 227, and the operation is cleared.
    world.end_operation("a", "Succeeded", "r1").await;
    noticed_before_the_poll(&mut changed);
    // The revision changes while it is OutOfSync.
    world.compare("a", "OutOfSync", "Missing", "r2").await;
    let live =
        world.until("Application", "a", |live| live["operation"]["sync"]["revision"] == "r2").await;
    assert_eq!(live["operation"]["initiatedBy"]["username"], "applicationset-controller");
    noticed_before_the_poll(&mut changed);
    // A condition of an error, and a comparison after the promotion.
    let later =
        jiff::Timestamp::from_second(jiff::Timestamp::now().as_second() + 2).unwrap().to_string();
    let conditions = json!([{"type": "InvalidSpecError", "message": "m"}]);
    let unstarted =
        json!({"operation": null, "status": {"conditions": conditions, "reconciledAt": later}});
    world.patch("Application", "a", unstarted).await;
    world.until_phase("a", "Progressing").await;
    noticed_before_the_poll(&mut changed);
    // The owner changes.
    world.patch("Application", "a", json!({"metadata": {"ownerReferences": []}})).await;
    world
        .until("Application", "a", |live| live["metadata"]["ownerReferences"][0]["name"] == "set")
        .await;
    noticed_before_the_poll(&mut changed);
}

/// AS-404, row 239: a cluster Secret reaches sets with a clusters generator, nested too.
#[tokio::test]
async fn a_cluster_secret_wakes_sets_with_a_clusters_generator_as_404() {
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    let clusters = json!({"clusters": {"selector": {"matchLabels": {"env": "dev"}}}});
    let ones = json!({"list": {"elements": [{"x": "1"}]}});
    let named = |name: &str, generator: Value| {
        let mut spec = set(json!(null));
        spec["goTemplate"] = true.into();
        spec["generators"] = json!([generator]);
        spec["template"]["metadata"]["name"] = format!("{name}-{{{{.name}}}}").into();
        spec["syncPolicy"] = json!({"preserveResourcesOnDeletion": true});
        spec
    };
    let merge = json!({"merge": {"mergeKeys": ["name"], "generators": [clusters, {"list": {"elements": [{"name": "none"}]}}]}});
    world.create("ApplicationSet", "top", named("top", clusters.clone())).await;
    let matrix = json!({"matrix": {"generators": [clusters, ones]}});
    world.create("ApplicationSet", "nested", named("nested", matrix)).await;
    let deep = json!({"matrix": {"generators": [merge, ones]}});
    world.create("ApplicationSet", "deep", named("deep", deep)).await;
    let labels = json!({"argocd.argoproj.io/secret-type": "cluster", "env": "dev"});
    world.secret("east", labels.clone(), json!({"name": "east", "server": "https://east"})).await;
    // One stays: what remains of a generator that finds nothing is not deleted.
    world.secret("west", labels.clone(), json!({"name": "west", "server": "https://west"})).await;
    for set in ["top", "nested", "deep"] {
        for cluster in ["east", "west"] {
            world.until("Application", &format!("{set}-{cluster}"), |_| true).await;
        }
    }
    // The label is removed: the cluster is selected no longer.
    let other = json!({"argocd.argoproj.io/secret-type": "cluster", "env": null});
    world.secret("east", other, json!({})).await;
    let gone = async {
        for set in ["top", "nested", "deep"] {
            while world.api("Application").get_opt(&format!("{set}-east")).await.unwrap().is_some()
            {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    };
    tokio::time::timeout(BEFORE_POLL, gone).await.expect("AS-404: the Applications are deleted");
}

/// AS-405: only a controlling reference to this set makes an Application its own.
#[tokio::test]
async fn only_a_controlling_reference_makes_an_owner_as_405() {
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    world.create("ApplicationSet", "set", dev_and_prod()).await;
    let a = world.until("Application", "a", |_| true).await;
    let reference = a["metadata"]["ownerReferences"][0].clone();
    let with = |field: &str, value: Value| {
        let mut reference = reference.clone();
        reference[field] = value;
        reference
    };
    let foreign = [
        ("no-controller", with("controller", json!(false))),
        ("other-kind", with("kind", json!("Application"))),
        ("other-group", with("apiVersion", json!("argoproj.io/v1beta1"))),
    ];
    let object = |name: &str, reference: &Value| -> StoredObject {
        json!({
            "apiVersion": wavegate_api::API_VERSION, "kind": "Application",
            "metadata": {"name": name, "ownerReferences": [reference]}, "spec": a["spec"],
        })
        .into()
    };
    for (name, reference) in &foreign {
        world
            .api("Application")
            .create(&PostParams::default(), &object(name, reference))
            .await
            .unwrap();
    }
    // It is not generated, so it is deleted; the others are not.
    world
        .api("Application")
        .create(&PostParams::default(), &object("own", &reference))
        .await
        .unwrap();
    let gone = async {
        while world.api("Application").get_opt("own").await.unwrap().is_some() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(BEFORE_POLL, gone).await.expect("AS-405: an owned one is deleted");
    world.reconcile().await;
    let set = world.until("ApplicationSet", "set", |_| true).await;
    for (name, _) in &foreign {
        assert!(world.api("Application").get_opt(name).await.unwrap().is_some(), "AS-405: {name}");
        assert_eq!(*entry_of(&set, name), Value::Null, "AS-405: {name}");
    }
}

/// AS-406: a failed reconcile is repeated with growing pauses.
#[tokio::test]
async fn failures_are_repeated_with_growing_pauses_as_406() {
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    let is_create = |request: &RequestRecord| {
        request.client == "sets" && request.verb == "create" && request.resource == "applications"
    };
    world.server.inject(InjectedFault::new(Effect::Status(500), is_create).times(6));
    let mut times = Vec::new();
    world.create("ApplicationSet", "set", set(json!(null))).await;
    let watch = async {
        while times.len() < 7 {
            let tries = world.server.requests().iter().filter(|request| is_create(request)).count();
            if tries > times.len() {
                times.push(std::time::Instant::now());
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(LIMIT, watch).await.expect("AS-406: it is repeated");
    world.until("Application", "app", |_| true).await;
    let pauses: Vec<Duration> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    // With jitter, two neighbours may be equal.
    assert!(pauses[5] > pauses[1] * 2, "AS-406: {pauses:?}");
}

/// AS-351, AS-352, AS-358: all sources count, in order, and the entry has what was seen last.
#[tokio::test]
async fn revisions_of_all_sources_are_compared_and_stored_as_351_as_352_as_358() {
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    let mut spec = set(rolling());
    let source = |path: &str| json!({"repoURL": "https://example.com/repo", "path": path, "targetRevision": path});
    let template = spec["template"]["spec"].as_object_mut().unwrap();
    template.remove("source");
    template.insert("sources".to_owned(), json!([source("p"), source("q")]));
    world.create("ApplicationSet", "set", spec).await;
    let live = world.until("Application", "app", |_| true).await;
    let compared = |sync: &str, revisions: &[&str]| {
        let spec = &live["spec"];
        let now = jiff::Timestamp::from_second(jiff::Timestamp::now().as_second()).unwrap();
        json!({"status": {
            "sync": {
                "status": sync, "revisions": revisions,
                "comparedTo": {"sources": spec["sources"], "destination": spec["destination"]},
            },
            "health": {"status": "Healthy"}, "reconciledAt": now.to_string(),
        }})
    };
    world.patch("Application", "app", compared("Synced", &["r1", "s1"])).await;
    let stored = |wanted: Value| move |set: &Value| entry(set)["targetRevisions"] == wanted;
    let set = world.until("ApplicationSet", "set", stored(json!(["r1", "s1"]))).await;
    assert_eq!(entry(&set)["status"], "Healthy", "AS-351");
    // It stays Synced and Healthy.
    world.patch("Application", "app", compared("Synced", &["r1", "s2"])).await;
    let set = world.until("ApplicationSet", "set", stored(json!(["r1", "s2"]))).await;
    assert_eq!(entry(&set)["status"], "Healthy", "AS-358: new revisions are stored");
    world.patch("Application", "app", compared("OutOfSync", &["s2", "r1"])).await;
    let live = world.until_operation("app").await;
    assert_eq!(
        live["operation"]["sync"]["revisions"],
        json!(["s2", "r1"]),
        "AS-352: the order counts"
    );
}

/// AS-354, AS-355: drift is captured by default, and ignored with the setting; a status from
/// before the promotion is not used.
#[tokio::test]
async fn drift_is_captured_unless_it_is_ignored_as_354_as_355() {
    for capture in [true, false] {
        let mut settings = ApplicationSetSettings::default();
        settings.decisions.rollout.rules.capture_drift = capture;
        let world = ClusterState::start(settings).await;
        world.create("ApplicationSet", "set", set(rolling())).await;
        world.compare("app", "Synced", "Healthy", "r1").await;
        world.until("ApplicationSet", "set", |set| entry(set)["status"] == "Healthy").await;
        world.compare("app", "OutOfSync", "Healthy", "r1").await;
        if !capture {
            world.reconcile().await;
            world.reconcile().await;
            let live = world.until("Application", "app", |_| true).await;
            assert_eq!(live["operation"], Value::Null, "AS-354: drift=ignore");
            continue;
        }
        world.until_operation("app").await;
        // An older operation, with a status that was computed before the promotion.
        let old = json!({"operation": {"sync": {}}, "phase": "Succeeded", "startedAt": "2020-01-01T00:00:00Z", "finishedAt": "2020-01-01T00:00:01Z"});
        let status = json!({"operationState": old, "reconciledAt": "2020-01-01T00:00:02Z"});
        world.patch("Application", "app", json!({ "status": status })).await;
        world.reconcile().await;
        let set = world.until("ApplicationSet", "set", |_| true).await;
        assert_eq!(entry(&set)["status"], "Pending", "AS-355: {}", set["status"]);
    }
}

/// AS-353, rows 183 and 184: ignored fields and the disabled automated sync are no change.
#[tokio::test]
async fn an_ignored_field_is_no_change_of_the_spec_as_353() {
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    let mut spec = set(rolling());
    spec["template"]["spec"]["syncPolicy"] = json!({"automated": {}});
    spec["ignoreApplicationDifferences"] =
        json!([{"jsonPointers": ["/spec/source/targetRevision"]}]);
    world.create("ApplicationSet", "set", spec).await;
    world.compare("app", "Synced", "Healthy", "r1").await;
    world.until("ApplicationSet", "set", |set| entry(set)["status"] == "Healthy").await;
    world
        .patch("Application", "app", json!({"spec": {"source": {"targetRevision": "by-hand"}}}))
        .await;
    world.reconcile().await;
    let set = world.until("ApplicationSet", "set", |_| true).await;
    assert_eq!(entry(&set)["status"], "Healthy", "AS-353: an ignored field");
    world.move_source("q").await;
    let set = world.until("ApplicationSet", "set", |set| entry(set)["status"] == "Waiting").await;
    assert!(
        entry(&set)["message"].as_str().unwrap().contains("spec change"),
        "AS-353: {}",
        entry(&set)
    );
}

/// AS-300: only fields of Applications are observed; the health of single resources is the
/// business of the application controller.
#[tokio::test]
async fn only_fields_of_applications_are_observed_as_300() {
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    world.create("ApplicationSet", "set", dev_and_prod()).await;
    world.until("Application", "a", |_| true).await;
    let rollout = json!({
        "group": "argoproj.io", "version": "v1alpha1", "kind": "Rollout", "name": "r", "namespace": "x",
        "status": "Synced", "health": {"status": "Degraded"},
    });
    world.patch("Application", "a", json!({"status": {"resources": [rollout]}})).await;
    world.compare("a", "Synced", "Healthy", "r1").await;
    world.until_phase("a", "Healthy").await;
    // ConfigMaps have the host keys and certificates of Git servers.
    let known = [
        "applicationsets",
        "applications",
        "appprojects",
        "configmaps",
        "secrets",
        "events",
        "rolloutpolicies",
        "rolloutruns",
    ];
    let requests = world.server.requests().into_iter().filter(|request| request.client == "sets");
    let others: Vec<String> = requests
        .map(|request| request.resource)
        .filter(|resource| !known.contains(&resource.as_str()))
        .collect();
    assert_eq!(others, Vec::<String>::new(), "AS-300: other kinds are not read");
}

again_under_argo_cd_definitions! {
    changes_without_meaning_cause_no_write_as_401_as_402,
    changes_with_a_meaning_are_noticed_as_401_as_402,
    what_a_rollout_waits_for_is_noticed_as_403,
    a_cluster_secret_wakes_sets_with_a_clusters_generator_as_404,
    only_a_controlling_reference_makes_an_owner_as_405,
    failures_are_repeated_with_growing_pauses_as_406,
    revisions_of_all_sources_are_compared_and_stored_as_351_as_352_as_358,
    drift_is_captured_unless_it_is_ignored_as_354_as_355,
    an_ignored_field_is_no_change_of_the_spec_as_353,
    only_fields_of_applications_are_observed_as_300,
}
