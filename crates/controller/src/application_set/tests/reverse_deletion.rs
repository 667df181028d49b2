//! An ApplicationSet that is deleted: order, limits, and what is stuck (AS-167, AS-380 to
//! AS-384, table A.13).

use super::*;
use kube_sim::{Effect, InjectedFault};
use wavegate_api::annotations::{RESOURCES_FINALIZER, finalizers_of};

const HOLD: &str = "example.com/hold";

fn on() -> ApplicationSetSettings {
    progressive(Default::default())
}

/// Three steps: `dev`, `stage` with maxUpdate 0, `prod` with maxUpdate 2.
fn in_reverse() -> Value {
    let mut strategy = steps(&[("dev", Value::Null), ("stage", json!(0)), ("prod", json!(2))]);
    strategy["deletionOrder"] = "reverse".into();
    strategy
}

/// The set with its Applications; a finalizer of the test holds each of them.
async fn deployed(members: &[(&str, &str)], strategy: Value) -> ClusterState {
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    let mut spec = fleet(members, strategy);
    spec["template"]["metadata"]["finalizers"] = json!([HOLD]);
    world.create("ApplicationSet", "set", spec).await;
    for (name, _) in members {
        world.until("Application", name, |_| true).await;
    }
    let has_finalizer = |set: &Value| finalizers_of(set).any(|one| one == RESOURCES_FINALIZER);
    world.until("ApplicationSet", "set", has_finalizer).await;
    world
}

impl ClusterState {
    /// Names of the Applications that are being deleted, and of the others.
    async fn going_and_staying(&self) -> (Vec<String>, Vec<String>) {
        let list = self.api("Application").list(&ListParams::default()).await.unwrap();
        let (going, staying): (Vec<Value>, Vec<Value>) =
            list.items.iter().map(StoredObject::parse).partition(is_going);
        let names = |all: Vec<Value>| {
            all.iter().map(|live| wavegate_rollout::desired::name_of(live).to_owned()).collect()
        };
        (names(going), names(staying))
    }

    /// Waits until exactly these are being deleted, and expects the others unchanged.
    async fn until_going(&self, wanted: &[&str], left: &[&str]) {
        let look = async {
            while self.going_and_staying().await.0 != wanted {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let waited = tokio::time::timeout(LIMIT, look).await;
        let (going, staying) = self.going_and_staying().await;
        waited.unwrap_or_else(|_| panic!("{wanted:?} expected, {going:?} are being deleted"));
        assert_eq!(staying, left, "while {wanted:?} are being deleted");
    }

    /// The deletion of an Application ends.
    async fn release(&self, name: &str) {
        self.patch("Application", name, json!({"metadata": {"finalizers": null}})).await;
        self.until_gone("Application", name).await;
    }
}

#[tokio::test]
async fn steps_are_deleted_from_the_last_to_the_first_within_max_update_as_381() {
    let members = [
        ("a-dev", "dev"),
        ("b-dev", "dev"),
        ("c-stage", "stage"),
        ("d-stage", "stage"),
        ("e-prod", "prod"),
        ("f-prod", "prod"),
        ("g-prod", "prod"),
        ("h-none", "none"),
    ];
    let world = deployed(&members, in_reverse()).await;
    world.delete("ApplicationSet", "set").await;
    let all = ["a-dev", "b-dev", "c-stage", "d-stage", "e-prod", "f-prod", "g-prod"];
    world.until_going(&["h-none"], &all).await;
    world.release("h-none").await;
    world
        .until_going(&["e-prod", "f-prod"], &["a-dev", "b-dev", "c-stage", "d-stage", "g-prod"])
        .await;
    // A slot that becomes free is used at once, without the interval of 10 s.
    world.release("f-prod").await;
    world.until_going(&["e-prod", "g-prod"], &all[..4]).await;
    world.release("e-prod").await;
    world.release("g-prod").await;
    world.until_going(&["c-stage"], &["a-dev", "b-dev", "d-stage"]).await;
    world.release("c-stage").await;
    world.until_going(&["d-stage"], &["a-dev", "b-dev"]).await;
    world.release("d-stage").await;
    world.until_going(&["a-dev", "b-dev"], &[]).await;
    world.release("a-dev").await;
    let set = world.until("ApplicationSet", "set", |_| true).await;
    assert!(
        finalizers_of(&set).any(|one| one == RESOURCES_FINALIZER),
        "AS-382: b-dev is still there"
    );
    world.release("b-dev").await;
    world.until_gone("ApplicationSet", "set").await;
    let mut deleted: Vec<String> =
        world.sent("delete", "applications").into_iter().map(|request| request.name).collect();
    deleted.sort();
    assert_eq!(deleted, members.map(|(name, _)| name), "AS-382: each of them once");
}

#[tokio::test]
async fn a_stuck_deletion_is_reported_and_continues_when_it_ends_as_383_as_611() {
    let mut world = deployed(&[("dev", "dev"), ("prod", "prod")], in_reverse()).await;
    world.delete("ApplicationSet", "set").await;
    world.until_going(&["prod"], &["dev"]).await;
    let refused = json!({"type": "DeletionError", "message": "cluster c is not registered"});
    world.patch("Application", "prod", json!({"status": {"conditions": [refused]}})).await;

    // Five minutes later.
    world.restart_ahead(on(), 300);
    let text = "application prod is being deleted since ";
    let kind = "ErrorOccurred";
    let set = world.until_condition(kind, "True", "DeleteApplicationError", text).await;
    let message = condition(&set, kind)["message"].as_str().unwrap();
    let held = "held by the finalizer example.com/hold: cluster c is not registered";
    assert!(message.contains(held), "{message}");
    assert!(finalizers_of(&set).any(|one| one == RESOURCES_FINALIZER), "row 249");
    let note = world.until_event("DeletionStuck").await;
    assert!(note.contains("prod") && note.contains(HOLD), "{note}");

    // A restarted controller and another reconcile do not repeat the Event.
    world.restart_ahead(on(), 400);
    let asked = json!({"metadata": {"labels": {"again": "1"}}});
    world.patch("ApplicationSet", "set", asked).await;
    let reads = || world.sent("get", "applications").len();
    let before = reads();
    tokio::time::timeout(LIMIT, async {
        while reads() < before + 1 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
    .unwrap();
    assert_eq!(world.events("DeletionStuck").await.len(), 1, "AS-611: once");
    assert_eq!(world.sent("delete", "applications").len(), 1, "row 249: no second delete");

    world.restart(on());
    world.release("prod").await;
    world.until_going(&["dev"], &[]).await;
    let set = world.until_condition(kind, "False", "ApplicationSetUpToDate", "").await;
    assert_ne!(set["status"]["health"]["status"], "Degraded");
    world.release("dev").await;
    world.until_gone("ApplicationSet", "set").await;
}

#[tokio::test]
async fn an_application_that_cannot_be_read_keeps_the_set_as_383() {
    let mut world = deployed(&[("dev", "dev"), ("prod", "prod")], in_reverse()).await;
    world.delete("ApplicationSet", "set").await;
    world.until_going(&["prod"], &["dev"]).await;
    let is_read = |request: &RequestRecord| {
        request.client == "sets" && request.verb == "get" && request.resource == "applications"
    };
    world.server.inject(InjectedFault::new(Effect::Status(500), is_read).times(1000));
    world.restart_ahead(on(), 300);
    let text = "it cannot be read from the API server";
    world.until_condition("ErrorOccurred", "True", "DeleteApplicationError", text).await;
    world.until_going(&["prod"], &["dev"]).await;

    // The API server has it no more, but the cache does: it is dropped (row 250).
    world.server.clear_faults();
    world.server.inject(InjectedFault::new(Effect::Absent, is_read));
    world.patch("ApplicationSet", "set", json!({"metadata": {"labels": {"again": "1"}}})).await;
    let look = async {
        while !world.going_and_staying().await.0.contains(&"dev".to_owned()) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LIMIT, look).await.unwrap();
    assert_eq!(world.sent("delete", "applications").len(), 2, "prod is not deleted again");
}

#[tokio::test]
async fn a_new_application_of_the_same_name_is_not_deleted_as_383() {
    let world = deployed(&[("prod", "prod")], in_reverse()).await;
    world.delete("ApplicationSet", "set").await;
    world.until_going(&["prod"], &[]).await;
    let spec = world.until("Application", "prod", |_| true).await["spec"].clone();
    world.release("prod").await;
    world.create("Application", "prod", spec).await;
    world.until_gone("ApplicationSet", "set").await;
    let live = world.until("Application", "prod", |_| true).await;
    assert!(!is_going(&live), "it belongs to somebody else");
    assert_eq!(world.sent("delete", "applications").len(), 1);
}

#[tokio::test]
async fn a_policy_without_deletion_comes_before_the_order_as_167_as_384() {
    let world = deployed(&[("dev", "dev"), ("prod", "prod")], in_reverse()).await;
    let team = world.team().await;
    let live = world.until("Application", "dev", |_| true).await;
    let mut owners = live["metadata"]["ownerReferences"].as_array().unwrap().clone();
    owners.push(team);
    world.patch("Application", "dev", json!({"metadata": {"ownerReferences": owners}})).await;
    let policy = json!({"spec": {"syncPolicy": {"applicationsSync": "create-update"}}});
    world.patch("ApplicationSet", "set", policy).await;
    world.reconcile().await;
    world.delete("ApplicationSet", "set").await;
    world.until_gone("ApplicationSet", "set").await;
    assert_eq!(world.sent("delete", "applications"), []);
    let dev = world.until("Application", "dev", |_| true).await;
    let owners = dev["metadata"]["ownerReferences"].as_array().unwrap();
    let owners: Vec<&str> = owners.iter().map(|owner| owner["name"].as_str().unwrap()).collect();
    assert_eq!(owners, ["team"], "AS-167: only our own reference is removed");
    assert!(!is_going(&dev));
}

#[tokio::test]
async fn the_finalizer_comes_first_also_when_generating_fails_as_148_as_380() {
    let mut world = ClusterState::start(ApplicationSetSettings::default()).await;
    let mut spec = fleet(&[("dev", "dev")], in_reverse());
    spec["generators"] = json!([{"list": {"elementsYaml": "{"}}]);
    world.create("ApplicationSet", "set", spec.clone()).await;
    let kind = "ErrorOccurred";
    let failed = "ApplicationGenerationFromParamsError";
    let set = world.until_condition(kind, "True", failed, "elementsYaml").await;
    let count = |set: &Value| finalizers_of(set).filter(|one| *one == RESOURCES_FINALIZER).count();
    assert_eq!(count(&set), 1, "row 252");
    // Without the feature it is not added.
    world.restart(ApplicationSetSettings::default());
    spec["generators"] = json!([{"list": {"elements": []}}]);
    world.create("ApplicationSet", "other", spec).await;
    let is_done = |set: &Value| condition(set, "ResourcesUpToDate")["status"] == "True";
    let other = world.until("ApplicationSet", "other", is_done).await;
    assert_eq!(count(&other), 0, "row 253");
}

again_under_argo_cd_definitions! {
    steps_are_deleted_from_the_last_to_the_first_within_max_update_as_381,
    a_stuck_deletion_is_reported_and_continues_when_it_ends_as_383_as_611,
    an_application_that_cannot_be_read_keeps_the_set_as_383,
    a_new_application_of_the_same_name_is_not_deleted_as_383,
    a_policy_without_deletion_comes_before_the_order_as_167_as_384,
    the_finalizer_comes_first_also_when_generating_fails_as_148_as_380,
}
