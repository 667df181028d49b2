//! A misspelled strategy blocks its set instead of being ignored.

use serde_json::{Value, json};

use crate::support::invariants;
use crate::support::manifests::{plain, rolling, set};
use crate::support::recorder::Change;
use crate::support::{Kind, Setup, World};

use super::external::condition;

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The definitions drop the misspelled field, and `kubectl apply` without validation
/// reports nothing: the last-applied configuration contains it.
pub async fn a_misspelled_strategy_blocks_the_set(mut world: World) {
    world.repository.commit("first", &[plain("a", "v1"), plain("b", "v1")].concat());
    let strategy = rolling(&[("dev", json!(null)), ("prod", json!(0))]);
    let members = [("a", "dev"), ("b", "prod")];
    let good = set(&world, "fleet", &members, &strategy);
    world.create(Kind::ApplicationSet, good).await;
    world.start(&Setup::default()).await;
    world
        .until("a is synced, b is held", |log| {
            let synced = log.get(Kind::Application, "a")?["status"]["sync"]["status"] == "Synced";
            let compared = log.get(Kind::Application, "b")?["status"]["sync"]["status"].is_string();
            (synced && compared).then_some(())
        })
        .await;

    // `maxUpdate: 0` becomes `maxUpdates: 0`, and an Application is added.
    let more = [("a", "dev"), ("b", "prod"), ("c", "dev")];
    let mut typo = set(&world, "fleet", &more, &strategy);
    let step = &mut typo["spec"]["strategy"]["rollingSync"]["steps"][1];
    step.as_object_mut().unwrap().remove("maxUpdate");
    let left = typo["spec"].clone();
    typo["spec"]["strategy"]["rollingSync"]["steps"][1]["maxUpdates"] = json!(0);
    let applied = json!({"annotations": {LAST_APPLIED: typo.to_string()}});
    world.patch(Kind::ApplicationSet, "fleet", &json!({"metadata": applied, "spec": left})).await;
    let words = "spec.strategy.rollingSync.steps[1].maxUpdates";
    for kind in ["ErrorOccurred", "InvalidRolloutConfig"] {
        world
            .until(&format!("{kind} names the field"), |log| {
                let found = condition(log, "fleet", kind)?;
                let message = found["message"].as_str()?;
                (found["status"] == "True" && message.contains(words)).then_some(())
            })
            .await;
    }
    let second = world.repository.commit("second", &[plain("a", "v2"), plain("b", "v2")].concat());
    for name in ["a", "b"] {
        world.refresh(name).await;
    }
    world
        .until("a is seen to be out of date", |log| {
            let sync = &log.get(Kind::Application, "a")?["status"]["sync"];
            (sync["revision"] == second.as_str() && sync["status"] == "OutOfSync").then_some(())
        })
        .await;
    world.until_calm("while the set is held").await;
    world.recorder.read(|log| {
        for record in log.of(Kind::Application) {
            let operation = &record.object["operation"];
            assert!(operation.is_null() || operation["sync"]["revision"] != second.as_str());
            assert_ne!(record.change, Change::Deleted, "{}", record.name());
        }
        let b = log.get(Kind::Application, "b").unwrap();
        assert!(b["status"]["operationState"].is_null(), "b was synced: {b}");
        assert!(log.get(Kind::Application, "c").is_none(), "c was created");
    });

    // Once fixed, it continues.
    let mut mended: Value = set(&world, "fleet", &more, &strategy);
    let annotations = json!({"annotations": {LAST_APPLIED: mended.to_string()}});
    mended["metadata"] = annotations;
    world.patch(Kind::ApplicationSet, "fleet", &mended).await;
    world
        .until("a has the second commit, b is held still", |log| {
            let done = invariants::is_done(log.get(Kind::Application, "a")?, &second);
            let held = log.get(Kind::Application, "b")?["status"]["operationState"].is_null();
            let well = condition(log, "fleet", "InvalidRolloutConfig")?["status"] == "False";
            (done && held && well).then_some(())
        })
        .await;
    world.finish().await;
}
