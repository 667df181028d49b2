//! Approvals of deletions that are held (ST-050).

use kube_sim::{Effect, InjectedFault};
use serde_json::json;

use super::emptied::of_clusters;
use super::*;
use wavegate_api::policy::POLICY;

/// Approves what is held, once.
async fn approve(world: &ClusterState, reason: &str, names: &str) {
    let set = world.until_condition("DeletionsHeld", "True", reason, names).await;
    world.approve(condition(&set, "DeletionsHeld")["message"].as_str().unwrap()).await;
}

/// Some deletions fail, and another controller goes on: those that are left are fewer than what
/// was approved.
#[tokio::test]
async fn what_is_left_of_approved_deletions_needs_no_other_approval_as_st_050() {
    const NAMES: [&str; 4] = ["a", "b", "c", "d"];
    let mut world = ClusterState::start(progressive(Default::default())).await;
    world.create(POLICY, "careful", json!({"deletions": {"max": 0}})).await;
    let members = NAMES.map(|name| (name, "dev"));
    let mut spec = fleet(&members, rolling());
    spec["syncPolicy"] = json!({"preserveResourcesOnDeletion": true});
    world.create("ApplicationSet", "set", spec).await;
    for name in NAMES {
        world.compare(name, "Synced", "Healthy", "r1").await;
    }
    let of_two = |request: &RequestRecord| {
        request.verb == "delete" && ["b", "c"].contains(&request.name.as_str())
    };
    world.server.inject(InjectedFault::new(Effect::Status(403), of_two).times(2));
    let none = fleet(&[], rolling());
    world.patch("ApplicationSet", "set", json!({"spec": none})).await;
    approve(&world, "TooManyDeletions", "a, b, c").await;
    for name in ["a", "d"] {
        world.until_gone("Application", name).await;
    }
    world.restart(progressive(Default::default()));
    for name in ["b", "c"] {
        world.until_gone("Application", name).await;
    }
    world.until_nothing_is_held().await;
}

#[tokio::test]
async fn an_emptied_generator_and_a_limit_need_one_approval_as_st_050() {
    let world = ClusterState::start(progressive(Default::default())).await;
    world.create(POLICY, "careful", json!({"deletions": {"max": 0}})).await;
    world.add_cluster("one").await;
    world.create("ApplicationSet", "set", of_clusters(json!([]))).await;
    world.until("Application", "one", |_| true).await;
    world.until_found("spec.generators[0].clusters").await;
    world.remove_cluster("one").await;
    approve(&world, "GeneratorFoundNothing", "one").await;
    world.until_gone("Application", "one").await;
    world.until_nothing_is_held().await;
}

/// What was created by the same change counted as well: of four Applications three were deleted
/// under a limit of 50 %, since six new ones existed by then. Nothing but a condition said that
/// deletions are held.
#[tokio::test]
async fn a_share_is_of_what_existed_before_the_change_as_st_050() {
    let mut world = ClusterState::start(progressive(Default::default())).await;
    world.create(POLICY, "careful", json!({"deletions": {"max": "50%"}})).await;
    let named = |names: &[&'static str]| -> Vec<(&'static str, &'static str)> {
        names.iter().map(|name| (*name, "dev")).collect()
    };
    let mut spec = fleet(&named(&["a", "b", "c", "d"]), rolling());
    spec["syncPolicy"] = json!({"preserveResourcesOnDeletion": true});
    world.create("ApplicationSet", "set", spec).await;
    for name in ["a", "b", "c", "d"] {
        world.until("Application", name, |_| true).await;
    }
    let change = |names: &[&'static str]| json!({"spec": fleet(&named(names), rolling())});
    world.patch("ApplicationSet", "set", change(&["a", "e", "f", "g", "h", "i", "j"])).await;
    let why = "3 Applications would be deleted, and policy careful permits 2, 50% of 4";
    let set = world.until_condition("DeletionsHeld", "True", "TooManyDeletions", why).await;
    assert_eq!(
        world.until_event("DeletionsHeld").await,
        condition(&set, "DeletionsHeld")["message"]
    );
    // Also for a controller that has not seen the change.
    world.restart(progressive(Default::default()));
    world.until("Application", "j", |_| true).await;
    world.calm("sets").await;
    for name in ["b", "c", "d"] {
        let live = world.until("Application", name, |_| true).await;
        assert!(!is_going(&live), "{name} is deleted");
    }
    // Fewer are permitted, of the same four.
    world.patch("ApplicationSet", "set", change(&["a", "b", "e", "f", "g", "h", "i", "j"])).await;
    for name in ["c", "d"] {
        world.until_gone("Application", name).await;
    }
    world.until_nothing_is_held().await;
    let forgotten = |set: &Value| set["metadata"]["annotations"]["wavegate.dev/existed"].is_null();
    world.until("ApplicationSet", "set", forgotten).await;
}
