//! Steady state: a reconcile without changes writes nothing.

use serde_json::json;

use crate::support::invariants::Steps;
use crate::support::manifests::{members, rolling, set, with_deployment};
use crate::support::recorder::Log;
use crate::support::{Kind, Setup, World};

pub async fn an_idle_reconcile_writes_nothing(mut world: World) {
    let apps = members("dev", 4);
    let all: Vec<(&str, &str)> =
        apps.iter().map(|(name, env)| (name.as_str(), env.as_str())).collect();
    let files: Vec<_> =
        apps.iter().flat_map(|(name, _)| with_deployment(name, "v1", "succeed")).collect();
    let revision = world.repository.commit("first", &files);
    let steps = Steps::default().step(apps.iter().map(|(name, _)| name), Some(2));
    let strategy = rolling(&[("dev", json!(2))]);
    world.create(Kind::ApplicationSet, set(&world, "fleet", &all, &strategy)).await;
    world.start(&Setup { compares_by_time: false, ..Setup::default() }).await;
    world.until_rolled_out("fleet", &steps, &revision).await;
    world.until_calm("after the rollout").await;

    if let Some(server) = world.server() {
        server.forget_requests();
    }
    let before = world.recorder.read(|log| log.records.len());
    for round in 0..5 {
        // An annotation of a user triggers both controllers.
        let mark = json!({ "metadata": { "annotations": { "notified.notifications.argoproj.io": round.to_string() } } });
        world.patch(Kind::Application, "dev-01", &mark).await;
        // A later reconcile is complete when the annotation that requests it is removed.
        world.wait_for_reconcile("fleet").await;
    }
    world.until_calm("after the marks").await;
    // Five annotations of the Application; five times set and removed on the set.
    world.recorder.read(|log| {
        let after: Vec<String> = (before..log.records.len()).map(|at| change(log, at)).collect();
        assert_eq!(after.len(), 15, "{}", after.join("\n"));
    });
    if world.is_embedded() {
        let writes = world.controller_writes();
        let removals = writes.iter().filter(|write| write.resource == "applicationsets").count();
        assert_eq!(removals, 5, "{writes:#?}");
        assert_eq!(writes.len(), 5, "{writes:#?}");
    }
    world.finish().await;
}

/// One version of an object, and how it differs from the version before.
fn change(log: &Log, at: usize) -> String {
    let record = &log.records[at];
    let previous = log.records[..at]
        .iter()
        .rfind(|earlier| (earlier.kind, earlier.name()) == (record.kind, record.name()));
    let difference = previous.map(|previous| json_patch::diff(&previous.object, &record.object));
    let difference = difference.map(|patch| patch.to_string()).unwrap_or_default();
    format!("{:?} {} {}: {difference}", record.kind, record.name(), record.version())
}
