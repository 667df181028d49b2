//! Definitions that know less than ours (design rule 11): correct is what the API server
//! stores, and what it refuses is reported.

use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::{ClusterState, argo_cd, condition, entry, fleet, progressive, rolling, set, steps};
use crate::settings::ApplicationSetSettings;
use kube_sim::RequestRecord;
use wavegate_api::conditions::application_set::ROLLOUT_STATUS;
use wavegate_api::crds::{self, CustomResourceDefinition};
use wavegate_rollout::application_set::rollout_io::rollout_storage::with_rollout;

/// Our definitions, or Argo CD's.
pub(super) fn installed(theirs: bool) -> Vec<CustomResourceDefinition> {
    match theirs {
        false => crds::all_definitions(),
        true => {
            let ours = crds::all_definitions()
                .iter()
                .map(|one| serde_json::to_value(one).unwrap())
                .collect();
            let theirs = argo_cd::argo_cd(ours).into_iter();
            theirs.map(|one| serde_json::from_value(one).unwrap()).collect()
        }
    }
}

/// The object with the summary of its rollout in `status.rollout`, wherever it is stored.
pub(super) fn shown(mut object: Value) -> Value {
    let found = with_rollout(&object)["status"]["rollout"].clone();
    if found.is_object() {
        object["status"]["rollout"] = found;
    }
    object
}

/// A cluster whose definition of ApplicationSets was changed before the controller started.
async fn with_definitions(change: fn(&mut Value)) -> ClusterState {
    let mut world = ClusterState::start(ApplicationSetSettings::default()).await;
    world.stop();
    redefine(&world, change).await;
    world.restart(on());
    world
}

fn on() -> ApplicationSetSettings {
    progressive(Default::default())
}

async fn redefine(world: &ClusterState, change: fn(&mut Value)) {
    let crds: Api<CustomResourceDefinition> = Api::all(world.server.client_as("test"));
    let name = "applicationsets.argoproj.io";
    let mut found = serde_json::to_value(crds.get(name).await.unwrap()).unwrap();
    change(&mut found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]);
    let versions = json!({"spec": {"versions": found["spec"]["versions"]}});
    let patch = Patch::Merge(versions);
    crds.patch(name, &PatchParams::default(), &patch).await.unwrap();
}

fn without_rollout(fields: &mut Value) {
    fields["status"]["properties"].as_object_mut().unwrap().remove("rollout");
}

fn status_writes(world: &ClusterState) -> Vec<RequestRecord> {
    let writes = world.sent("patch", "applicationsets").into_iter();
    writes.filter(|request| request.subresource == "status").collect()
}

fn phase<'a>(set: &'a Value, name: &str) -> &'a str {
    super::entry_of(set, name)["status"].as_str().unwrap_or_default()
}

/// What the application controller does with a requested sync.
async fn sync(world: &ClusterState, name: &str) {
    let live = world.until("Application", name, |live| live["operation"].is_object()).await;
    let at = jiff::Timestamp::from_second(jiff::Timestamp::now().as_second()).unwrap().to_string();
    let done = json!({
        "operation": null,
        "status": {"operationState": {
            "operation": live["operation"], "phase": "Succeeded", "message": "",
            "startedAt": at, "finishedAt": at, "syncResult": {"revision": "r1"},
        }},
    });
    world.patch("Application", name, done).await;
    world.compare(name, "Synced", "Healthy", "r1").await;
}

/// Seen as a rollout that never went past its first step, with no word why: the patch of a
/// field that does not exist was answered 422, which was taken for a conflict.
#[tokio::test]
async fn a_rollout_completes_where_the_definition_prunes_its_summary() {
    let world = with_definitions(without_rollout).await;
    let members = [("dev", "dev"), ("prod-a", "prod"), ("prod-b", "prod")];
    let spec = fleet(&members, steps(&[("dev", json!(1)), ("prod", json!(1))]));
    world.create("ApplicationSet", "set", spec).await;
    for (name, _) in members {
        world.compare(name, "OutOfSync", "Missing", "r1").await;
    }
    for (name, left) in [("dev", 3), ("prod-a", 2), ("prod-b", 1)] {
        sync(&world, name).await;
        let is_next = |set: &Value| {
            let all = set["status"]["applicationStatus"].as_array().into_iter().flatten();
            all.filter(|entry| entry["status"] != "Healthy").count() < left
        };
        let seen = world.until("ApplicationSet", "set", is_next).await;
        let flying = |name: &&str| matches!(phase(&seen, name), "Pending" | "Progressing");
        let flying = ["prod-a", "prod-b"].iter().filter(|name| flying(name)).count();
        assert!(flying <= 1, "maxUpdate is 1: {}", seen["status"]);
    }
    let reason = "ApplicationSetRolloutComplete";
    let set = world.until_condition("RolloutProgressing", "False", reason, "").await;
    // What was pruned is stored beside it, and nothing was refused.
    assert_eq!(set["status"]["rollout"]["progress"], "3/3", "{}", set["status"]);
    assert_eq!(condition(&set, ROLLOUT_STATUS)["reason"], "FieldNotDefined");
    let codes: Vec<u16> = status_writes(&world).iter().map(|request| request.code).collect();
    assert!(codes.iter().all(|code| [200, 409].contains(code)), "{codes:?}");
}

/// Rule 5: a field that is dropped each time is not written each time.
#[tokio::test]
async fn a_reconcile_that_changes_nothing_writes_nothing_whatever_the_definition_drops() {
    let without_health: fn(&mut Value) = |fields| {
        let status = fields["status"]["properties"].as_object_mut().unwrap();
        status.remove("health");
        status.remove("resourcesCount");
    };
    let without_a_part: fn(&mut Value) = |fields| {
        let rollout = &mut fields["status"]["properties"]["rollout"]["properties"];
        rollout.as_object_mut().unwrap().remove("stepOpenedAt");
        rollout.as_object_mut().unwrap().remove("message");
    };
    for change in [without_rollout, without_health, without_a_part] {
        let mut world = with_definitions(change).await;
        world.create("ApplicationSet", "set", set(rolling())).await;
        world.compare("app", "OutOfSync", "Missing", "r1").await;
        sync(&world, "app").await;
        let reason = "ApplicationSetRolloutComplete";
        world.until_condition("RolloutProgressing", "False", reason, "").await;
        world.calm("sets").await;
        for restart in [false, true] {
            if restart {
                world.stop();
                world.restart(on());
                // Whether the definition still drops it is tried once.
                world.reconcile().await;
            }
            let before = status_writes(&world).len();
            for _ in 0..3 {
                world.reconcile().await;
            }
            assert_eq!(status_writes(&world).len(), before, "after a restart: {restart}");
        }
    }
}

/// Argo CD's definitions are applied over ours while a rollout runs, and ours again.
#[tokio::test]
async fn definitions_may_change_while_a_rollout_runs() {
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    let members = [("dev", "dev"), ("prod", "prod")];
    let spec = fleet(&members, steps(&[("dev", json!(1)), ("prod", json!(1))]));
    world.create("ApplicationSet", "set", spec).await;
    for (name, _) in members {
        world.compare(name, "OutOfSync", "Missing", "r1").await;
    }
    world.until("ApplicationSet", "set", |set| phase(set, "dev") == "Pending").await;
    redefine(&world, without_rollout).await;
    sync(&world, "dev").await;
    let seen = world.until("ApplicationSet", "set", |set| phase(set, "prod") == "Pending").await;
    assert_eq!(seen["status"]["rollout"]["step"], 2, "{}", seen["status"]);
    let ours: fn(&mut Value) = |fields| {
        let all = serde_json::to_value(&crds::all_definitions()[0]).unwrap();
        let schema = &all["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        *fields = schema["properties"].clone();
    };
    redefine(&world, ours).await;
    sync(&world, "prod").await;
    let is_back = |set: &Value| {
        condition(set, ROLLOUT_STATUS).is_null() && set["status"]["rollout"]["progress"] == "2/2"
    };
    world.until("ApplicationSet", "set", is_back).await;
}

/// A stall is found by the time when its step opened, and reported once, also after a restart.
#[tokio::test]
async fn a_stall_is_reported_once_where_the_definition_prunes_it() {
    let mut world = with_definitions(without_rollout).await;
    world.create("ApplicationSet", "set", set(rolling())).await;
    world.compare("app", "OutOfSync", "Missing", "r1").await;
    world.until("ApplicationSet", "set", |set| entry(set)["status"] == "Pending").await;
    let sticks = json!({
        "operation": null,
        "status": {"operationState": {
            "operation": world.until("Application", "app", |_| true).await["operation"],
            "phase": "Running", "startedAt": jiff::Timestamp::now().to_string(),
        }},
    });
    world.patch("Application", "app", sticks).await;
    world.until("ApplicationSet", "set", |set| entry(set)["status"] == "Progressing").await;
    for seconds in [400, 420] {
        world.stop();
        world.restart_ahead(on(), seconds);
        world.until_event("RolloutStalled").await;
        let is_stored = |set: &Value| set["status"]["rollout"]["stalled"].is_array();
        world.until("ApplicationSet", "set", is_stored).await;
        world.calm("sets").await;
    }
    assert_eq!(world.events("RolloutStalled").await.len(), 1);
    let created = world.sent("create", "events");
    let stalls = created.iter().filter(|request| request.name.starts_with("set."));
    assert!(stalls.count() < 10, "it is not sent with each reconcile");
}

/// A definition that refuses the status: reported, and retried with a back-off.
#[tokio::test]
async fn a_status_that_is_refused_with_422_is_reported_as_184() {
    let narrow: fn(&mut Value) = |fields| {
        let entries = &mut fields["status"]["properties"]["applicationStatus"];
        entries["items"]["properties"]["status"]["enum"] = json!(["Never"]);
    };
    let world = with_definitions(narrow).await;
    world.create("ApplicationSet", "set", set(rolling())).await;
    world.compare("app", "OutOfSync", "Missing", "r1").await;
    let why = "the status cannot be written";
    world.until_condition("ErrorOccurred", "True", "StatusError", why).await;
    let note = world.until_event("StatusError").await;
    assert!(note.contains("applicationStatus"), "{note}");
    // Each try is a refused write and the one of the condition, after a pause that grows.
    let (began, before) = (std::time::Instant::now(), status_writes(&world).len());
    let is_repeated = || async {
        while status_writes(&world).len() < before + 2 {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(super::LIMIT, is_repeated()).await.unwrap();
    let most = 6 + began.elapsed().as_millis() / 25;
    assert!(((status_writes(&world).len() - before) as u128) < most, "a loop without pauses");
    let live = world.until("Application", "app", |_| true).await;
    assert!(live["operation"].is_null(), "nothing is started that is not stored");
}
