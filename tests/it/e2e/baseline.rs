//! What was unhealthy before a run, and what the run itself has broken.

use serde_json::{Value, json};

use super::policies::{commit, create, environments, phase, policy, until_run, wavegate};
use crate::support::cluster::patch_object;
use crate::support::{Kind, Setup, World};

/// The health that an object of this test claims to have; Git knows nothing of it.
const HEALTH: &str = "example.com/health";

/// ST-041: what was Degraded before the run neither holds its step nor counts, and is listed. What
/// earlier steps break before its own promotion was Healthy when the run began: it counts.
pub async fn only_what_was_unhealthy_before_the_run_is_excused_as_st_041(mut world: World) {
    let script = format!(
        "return {{status = (obj.metadata.annotations or {{}})['{HEALTH}'] or 'Healthy', message = ''}}"
    );
    let settings = json!({
        "metadata": {"name": "argocd-cm"},
        "data": {"resource.customizations.health.ConfigMap": script},
    });
    let namespace = world.namespace.clone();
    world.create_in(&namespace, Kind::ConfigMap, settings).await;
    let members = environments(&[("dev", 2), ("prod", 3)]);
    let gate = json!({"name": "production", "steps": [2], "approvals": 1});
    policy(
        &world,
        "careful",
        json!({
            "gates": [gate],
            "failures": {"max": 0, "onFailure": "Hold", "baseline": "Ignore"},
        }),
    )
    .await;
    commit(&world, &members, "v1");
    create(&world, "fleet", &members, &[("dev", json!(null)), ("prod", json!(null))]).await;
    world.start_process(&Setup::default()).await;
    let at_the_gate = |run: &Value, name: &str| {
        phase(run) == "AwaitingApproval" && run["metadata"]["name"] == name
    };
    until_run(&world, "fleet", "the first waits", |run| at_the_gate(run, "fleet-1")).await;
    wavegate(&world, &["approve", "fleet", "--yes"]).await;
    until_run(&world, "fleet", "the first is everywhere", |run| phase(run) == "Complete").await;

    degrade(&world, "dev-00").await;
    commit(&world, &members, "v2");
    for (name, _) in &members {
        world.refresh(name).await;
    }
    let waiting =
        until_run(&world, "fleet", "dev holds nothing", |run| at_the_gate(run, "fleet-2")).await;
    let before = json!([world.tagged("dev-00")]);
    assert_eq!(waiting["status"]["unhealthyBefore"], before, "{waiting:#}");
    degrade(&world, "prod-01").await;
    wavegate(&world, &["approve", "fleet", "--yes"]).await;
    let held = until_run(&world, "fleet", "prod-01 counts", |run| phase(run) == "Held").await;
    assert_eq!(held["status"]["unhealthyBefore"], before, "{held:#}");
    let reason = wavegate(&world, &["explain", "fleet"]).await;
    assert!(reason.contains("prod-01"), "{reason}");
    world.finish().await;
}

/// An Application becomes Degraded, and its controller has seen that.
async fn degrade(world: &World, name: &str) {
    let broken = json!({"metadata": {"annotations": {HEALTH: "Degraded"}}});
    let map = format!("{name}-config");
    patch_object(&world.client, Kind::ConfigMap, &world.target, &map, &broken).await.unwrap();
    world
        .until(&format!("{name} is Degraded"), |log| {
            let app = log.get(Kind::Application, name)?;
            (app["status"]["health"]["status"] == "Degraded").then_some(())
        })
        .await;
}
