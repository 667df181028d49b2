//! Statuses that are too large for all Applications, and statuses that the API server rejects.

use std::sync::Arc;

use super::*;
use kube_sim::{Effect, InjectedFault};
use wavegate_api::annotations::ROLLOUT;
use wavegate_rollout::application_set::SizeLimits;
use wavegate_rollout::rollout::phase::Phase;

/// A limit for the entries of a few Applications.
fn little() -> ApplicationSetSettings {
    deciding(DecisionSettings {
        size_limits: SizeLimits { entries: 1_200, resources: 1_000 },
        ..DecisionSettings::default()
    })
}

/// An ApplicationSet with this number of Applications in two steps, a few at a time.
fn fleet(count: usize) -> Value {
    let by = |step: &str| {
        json!({
            "matchExpressions": [{"key": "step", "operator": "In", "values": [step]}],
            "maxUpdate": 3,
        })
    };
    let elements: Vec<Value> = (0..count)
        .map(|n| json!({"n": format!("app-{n:02}"), "step": (n * 2 / count + 1).to_string()}))
        .collect();
    let strategy = json!({"type": "RollingSync", "rollingSync": {"steps": [by("1"), by("2")]}});
    let mut set = set(strategy);
    set["generators"] = json!([{"list": {"elements": elements}}]);
    set["template"]["metadata"]["labels"] = json!({"step": "{{step}}"});
    set
}

/// Compares and syncs Applications on request, until dropped.
fn serve(world: &ClusterState, revision: &'static str) -> DropGuard {
    let (api, stop) = (world.api("Application"), CancellationToken::new());
    let token = stop.clone();
    let work = async move {
        loop {
            for object in api.list(&ListParams::default()).await.unwrap() {
                let live = object.parse();
                let Some(patch) = next(&live, revision) else { continue };
                let patch = Patch::Merge(patch);
                // After a conflict, it is in the next listing.
                let _ = api.patch(object.name(), &PatchParams::default(), &patch).await;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::spawn(async move { token.run_until_cancelled(work).await });
    stop.drop_guard()
}

fn next(live: &Value, revision: &str) -> Option<Value> {
    let spec = &live["spec"];
    let now = jiff::Timestamp::from_second(jiff::Timestamp::now().as_second()).unwrap().to_string();
    let compared = |sync: &str, health: &str| {
        json!({
            "sync": {
                "status": sync, "revision": revision,
                "comparedTo": {"source": spec["source"], "destination": spec["destination"]},
            },
            "health": {"status": health},
            "reconciledAt": now,
        })
    };
    let mut patch = if live["operation"].is_object() {
        let mut status = compared("Synced", "Healthy");
        status["operationState"] = json!({
            "operation": live["operation"], "phase": "Succeeded", "startedAt": now,
            "finishedAt": now, "syncResult": {"revision": revision, "source": spec["source"]},
        });
        json!({"operation": null, "status": status})
    } else if live["status"]["sync"]["revision"] != *revision {
        json!({ "status": compared("OutOfSync", "Healthy") })
    } else {
        return None;
    };
    patch["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"].clone();
    Some(patch)
}

fn is_complete(set: &Value) -> bool {
    let conditions = set["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.iter().any(|one| one["type"] == "RolloutProgressing" && one["status"] == "False")
}

async fn applications(world: &ClusterState) -> Vec<Value> {
    let list = world.api("Application").list(&ListParams::default()).await.unwrap();
    list.items.iter().map(StoredObject::parse).collect()
}

#[tokio::test]
async fn a_fleet_that_does_not_fit_is_rolled_out_and_stays_so_after_a_restart() {
    let mut world = ClusterState::start(little()).await;
    world.create("ApplicationSet", "set", fleet(24)).await;
    let service = serve(&world, "r1");
    let set = world.until("ApplicationSet", "set", is_complete).await;
    let listed = set["status"]["applicationStatus"].as_array().unwrap();
    assert!(listed.len() < 24, "{} entries are listed", listed.len());
    assert_eq!(set["status"]["rollout"]["listed"], json!(listed.len()));
    assert_eq!(set["status"]["rollout"]["progress"], "24/24");
    assert_eq!(set["status"]["resourcesCount"], 24);
    // AS-191: that the list of resources is cut is said, after the words that tools compare.
    assert!(set["status"]["resources"].as_array().unwrap().len() < 24);
    let wanted = "All applications have been generated successfully; status.resources is \
                  truncated: it does not list all 24 Applications";
    assert_eq!(condition(&set, "ResourcesUpToDate")["message"], wanted);
    for live in applications(&world).await {
        let record = live["metadata"]["annotations"][ROLLOUT].as_str().unwrap_or_default();
        assert!(record.contains("\"r1\""), "{}: {record}", live["metadata"]["name"]);
    }

    // All entries can be read.
    let by_name: std::collections::BTreeMap<String, Arc<Value>> = applications(&world)
        .await
        .into_iter()
        .map(|live| (wavegate_rollout::desired::name_of(&live).to_owned(), Arc::new(live)))
        .collect();
    let shown =
        wavegate_rollout::application_set::status::report_input::read_report(&set, &by_name, None)
            .members;
    assert_eq!(shown.len(), 24);
    let phases = || shown.values().map(|member| member.phase());
    assert!(phases().all(|phase| phase == Some(Phase::Healthy)), "{shown:?}");

    // A restarted controller finds the rollout complete and starts no sync.
    drop(service);
    let promotions = |all: &[Value]| -> Vec<Value> {
        all.iter().map(|live| live["status"]["operationState"]["operation"].clone()).collect()
    };
    let before = applications(&world).await;
    world.restart(progressive(little()));
    let refresh = json!({"metadata": {"annotations": {
        wavegate_api::annotations::APPLICATION_SET_REFRESH: "true",
    }}});
    world.patch("ApplicationSet", "set", refresh).await;
    let set = world
        .until("ApplicationSet", "set", |set| {
            set["metadata"]["annotations"][wavegate_api::annotations::APPLICATION_SET_REFRESH]
                .is_null()
        })
        .await;
    assert!(is_complete(&set), "{}", set["status"]);
    let after = applications(&world).await;
    assert_eq!(promotions(&after), promotions(&before));
    assert!(after.iter().all(|live| live["operation"].is_null()));

    // A new commit is rolled out in the same way.
    let _service = serve(&world, "r2");
    world
        .until("ApplicationSet", "set", |set| {
            is_complete(set) && set["status"]["rollout"]["startedAt"].is_string()
        })
        .await;
    let done = async {
        loop {
            let all = applications(&world).await;
            let is_done = |live: &Value| {
                live["status"]["operationState"]["syncResult"]["revision"] == "r2"
                    && live["metadata"]["annotations"][ROLLOUT].as_str().unwrap().contains("\"r2\"")
            };
            if all.iter().all(is_done) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(LIMIT, done).await.unwrap();
}

#[tokio::test]
async fn a_rejected_status_is_reported_and_does_not_stop_the_rollout() {
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    let is_status = |request: &RequestRecord| {
        request.client == "sets"
            && request.resource == "applicationsets"
            && request.subresource == "status"
    };
    world.server.inject(InjectedFault::new(Effect::Status(413), is_status));
    world.create("ApplicationSet", "set", fleet(2)).await;
    let events: Api<k8s_openapi::api::events::v1::Event> =
        Api::namespaced(world.server.client_as("test"), NAMESPACE);
    let reported = async {
        loop {
            let all = events.list(&ListParams::default()).await.unwrap();
            if all.iter().any(|event| event.reason.as_deref() == Some("StatusError")) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LIMIT, reported).await.unwrap();
    // When the status is accepted again, the rollout continues and the condition is removed.
    let _service = serve(&world, "r1");
    let set = world.until("ApplicationSet", "set", is_complete).await;
    let conditions = set["status"]["conditions"].as_array().unwrap();
    let error = conditions.iter().find(|one| one["type"] == "ErrorOccurred").unwrap();
    assert_eq!(error["status"], "False", "{error}");
}

#[tokio::test]
async fn a_stall_is_reported_once() {
    let mut settings = ApplicationSetSettings::default();
    let rules = settings.decisions.rollout.rules;
    settings.decisions.rollout.rules = wavegate_rollout::rollout::phase::Rules {
        progressing_timeout: Some(jiff::SignedDuration::from_secs(1)),
        ..rules
    };
    let mut world = ClusterState::start(settings.clone()).await;
    let mut spec = set(rolling());
    spec["strategy"]["rollingSync"]["steps"][0]["maxUpdate"] = json!(0);
    world.create("ApplicationSet", "set", spec).await;
    world.compare("app", "OutOfSync", "Missing", "r1").await;
    let is_recorded = |set: &Value| set["status"]["rollout"]["stalled"][0]["application"] == "app";
    let trigger = async {
        // Nothing triggers a reconcile for half a minute; any event will do.
        loop {
            world.compare("app", "OutOfSync", "Missing", "r1").await;
            tokio::time::sleep(Duration::from_millis(400)).await;
        }
    };
    tokio::select! {
        _ = world.until("ApplicationSet", "set", is_recorded) => {}
        () = trigger => {}
    }
    // The Event follows the record: the controller must not end in between.
    world.until_event("RolloutStalled").await;
    world.restart(progressive(settings));
    let refresh = wavegate_api::annotations::APPLICATION_SET_REFRESH;
    let asked = json!({"metadata": {"annotations": {refresh: "true"}}});
    world.patch("ApplicationSet", "set", asked).await;
    world
        .until("ApplicationSet", "set", |set| set["metadata"]["annotations"][refresh].is_null())
        .await;
    assert_eq!(world.events("RolloutStalled").await.len(), 1);
}

again_under_argo_cd_definitions! {
    a_fleet_that_does_not_fit_is_rolled_out_and_stays_so_after_a_restart,
    a_rejected_status_is_reported_and_does_not_stop_the_rollout,
    a_stall_is_reported_once,
}

/// The sync engine of the same process finds it begun; where the API server does not store that
/// much, it is only requested, and the engine says why it cannot begin (SE-062).
#[tokio::test]
async fn an_operation_has_begun_with_its_request_as_360() {
    let revision = "0123456789012345678901234567890123456789";
    for (is_excluded, is_too_large) in [(false, false), (false, true), (true, false)] {
        let settings =
            ApplicationSetSettings { begins_operations: true, ..ApplicationSetSettings::default() };
        let world = ClusterState::start(settings).await;
        world.create("ApplicationSet", "set", fleet(2)).await;
        let live = world.until("Application", "app-00", |_| true).await;
        let mut compared = next(&live, revision).unwrap();
        if is_excluded {
            compared["metadata"]["annotations"] =
                json!({wavegate_api::annotations::SKIP_RECONCILE: "true"});
        }
        if is_too_large {
            let is_start = |request: &RequestRecord| {
                request.client == "sets"
                    && request.resource == "applications"
                    && request.verb == "patch"
            };
            world.server.inject(InjectedFault::new(Effect::Status(413), is_start));
        }
        world.patch("Application", "app-00", compared).await;
        let live = world.until("Application", "app-00", |live| live["operation"].is_object()).await;
        let state = &live["status"]["operationState"];
        if is_excluded || is_too_large {
            assert!(state.is_null(), "{is_excluded}, {is_too_large}: {state}");
            continue;
        }
        assert_eq!(state["phase"], "Running", "{state}");
        assert_eq!(state["syncResult"]["revision"], revision, "{state}");
        assert_eq!(state["operation"], live["operation"], "{state}");
        // Once: what follows is up to the sync engine.
        let version = live["metadata"]["resourceVersion"].clone();
        world.reconcile().await;
        let live = world.until("Application", "app-00", |_| true).await;
        assert_eq!(live["metadata"]["resourceVersion"], version);
    }
}
