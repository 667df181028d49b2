//! Runs of a set (ST-002): their names, and the Events about them.

use serde_json::json;

use super::{ClusterState, NAMESPACE, progressive, rolling, set};
use crate::api::steering::{POLICY, RUN};

/// It was never recorded, with a warning at each reconcile.
#[tokio::test]
async fn a_run_whose_name_is_taken_gets_the_next_number_as_st_002() {
    let world = ClusterState::start(progressive(Default::default())).await;
    for name in ["set-1", "set-2"] {
        world.create(RUN, name, json!({"applicationSet": "other"})).await;
    }
    world.create("ApplicationSet", "set", set(rolling())).await;
    world.compare("app", "OutOfSync", "Missing", "r1").await;
    let run = world.until(RUN, "set-3", |run| run["status"]["phase"] == "Progressing").await;
    assert_eq!(run["metadata"]["ownerReferences"][0]["name"], "set", "{run}");
    world.until("Application", "app", |app| app["operation"].is_object()).await;
    let other = world.until(RUN, "set-1", |_| true).await;
    assert_eq!(
        (&other["status"], &other["metadata"]["namespace"]),
        (&json!(null), &json!(NAMESPACE))
    );
}

/// Who reads them knows what a rollout waits for, and who let it go.
#[tokio::test]
async fn what_policies_and_people_say_are_events_as_st_080() {
    let world = ClusterState::start(progressive(Default::default())).await;
    let gate = json!({"name": "all", "steps": [1], "approvals": 1});
    world.create(POLICY, "careful", json!({"gates": [gate]})).await;
    world.create("ApplicationSet", "set", set(rolling())).await;
    world.compare("app", "OutOfSync", "Missing", "r1").await;
    let awaited = world.until_event("AwaitingApproval").await;
    assert!(awaited.starts_with("run set-1: AwaitingApproval: gate all"), "{awaited}");
    assert!(awaited.ends_with("wavegate approve -n argocd set --gate all"), "{awaited}");
    let run =
        world.until(RUN, "set-1", |run| run["status"]["gates"][0]["covers"].is_string()).await;
    let covers = &run["status"]["gates"][0]["covers"];
    let approval = json!({"gate": "all", "by": "ann", "covers": covers});
    world.patch(RUN, "set-1", json!({"spec": {"approvals": [approval]}})).await;
    assert_eq!(world.until_event("GateApproved").await, "run set-1: gate all is approved by ann");
    assert_eq!(world.until_event("GateOpened").await, "run set-1: gate all opens");
    assert_eq!(world.events("Progressing").await, Vec::<String>::new());
}

/// Nothing is written that was not before there were runs.
#[tokio::test]
async fn a_run_without_policies_has_no_events() {
    let world = ClusterState::start(progressive(Default::default())).await;
    world.create("ApplicationSet", "set", set(rolling())).await;
    world.compare("app", "Synced", "Healthy", "r1").await;
    world.until(RUN, "set-1", |run| run["status"]["phase"] == "Complete").await;
    world.until_event("RolloutComplete").await;
    for reason in ["Progressing", "Complete", "Soaking", "Paused"] {
        assert_eq!(world.events(reason).await, Vec::<String>::new(), "{reason}");
    }
}
