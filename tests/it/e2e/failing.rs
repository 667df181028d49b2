//! An unhealthy Application blocks its step, and is named.

use serde_json::json;

use crate::support::invariants::{self, Steps};
use crate::support::manifests::{plain, rolling, set, with_deployment, with_smoke_test};
use crate::support::{Kind, Log, Setup, World};

use super::external::is_complete;

pub async fn a_failing_deployment_blocks_its_step(mut world: World) {
    let files = |outcome: &str, version: &str| {
        [
            with_deployment("good", version, "succeed"),
            with_deployment("bad", version, outcome),
            with_deployment("later", version, "succeed"),
        ]
        .concat()
    };
    world.repository.commit("first", &files("fail", "v1"));
    let strategy = rolling(&[("dev", json!(null)), ("prod", json!(null))]);
    let all = [("good", "dev"), ("bad", "dev"), ("later", "prod")];
    world.create(Kind::ApplicationSet, set(&world, "fleet", &all, &strategy)).await;
    world.start(&Setup::default()).await;
    let waiting = world
        .until("the failing Deployment is named", |log| {
            let set = log.get(Kind::ApplicationSet, "fleet")?;
            let good = log.get(Kind::Application, "good")?;
            let bad = log.get(Kind::Application, "bad")?;
            let waiting = &set["status"]["rollout"]["waitingFor"];
            (good["status"]["health"]["status"] == "Healthy"
                && bad["status"]["health"]["status"] == "Degraded"
                && waiting.as_array().is_some_and(|list| list.len() == 1)
                && waiting[0]["resource"].is_string())
            .then(|| waiting.clone())
        })
        .await;
    assert_eq!(waiting[0]["application"], world.tagged("bad"));
    let resource = format!("apps/Deployment {}/bad", world.target);
    assert_eq!(waiting[0]["resource"], resource.as_str(), "{waiting}");
    assert!(waiting[0]["since"].is_string(), "{waiting}");
    world.until_calm("it waits").await;
    world.recorder.read(|log| {
        let later = log.get(Kind::Application, "later").unwrap();
        assert!(later["status"]["operationState"].is_null(), "{}", log.state());
    });

    // Fixed by a commit, it continues.
    let revision = world.repository.commit("second", &files("succeed", "v2"));
    world.refresh("bad").await;
    let steps = Steps::default().step(["good", "bad"], None).step(["later"], None);
    world
        .until("the mended commit is everywhere", |log| {
            (invariants::all_done(log, &steps, &revision) && is_complete(log, "fleet"))
                .then_some(())
        })
        .await;
    world.recorder.read(|log| invariants::check(log, &steps));
    world.finish().await;
}

/// A failed smoke test leaves the Application Synced and Healthy. Only a sync of the whole
/// Application that succeeds opens the next step: not one by hand that fails again, and
/// neither a dry run nor a sync without hooks.
pub async fn a_failed_smoke_test_holds_its_step_whoever_syncs(mut world: World) {
    let files = |version: &str, outcome: &str| {
        [with_smoke_test("dev", version, outcome), plain("prod", version)].concat()
    };
    world.repository.commit("first", &files("v1", "fail"));
    let strategy = rolling(&[("dev", json!(null)), ("prod", json!(null))]);
    let mut set = set(&world, "fleet", &[("dev", "dev"), ("prod", "prod")], &strategy);
    set["spec"]["template"]["spec"]["syncPolicy"] = json!({ "retry": { "limit": 0 } });
    world.create(Kind::ApplicationSet, set).await;
    world.start(&Setup::default()).await;

    let failed = "Sync failed, waiting for one that succeeds";
    let held = |log: &Log| {
        let set = log.get(Kind::ApplicationSet, "fleet")?;
        let entry = set["status"]["applicationStatus"].as_array()?.first()?.clone();
        (entry["status"] == "Progressing" && entry["message"].as_str()?.starts_with(failed))
            .then_some(())
    };
    world.until("the failed smoke test holds dev", held).await;
    let config = json!([{ "kind": "ConfigMap", "name": "dev-config" }]);
    let by_hand = [
        ("the whole Application", json!({}), "Failed"),
        ("a dry run", json!({ "dryRun": true }), "Succeeded"),
        ("a resource", json!({ "resources": config }), "Succeeded"),
    ];
    for (name, sync, phase) in by_hand {
        let info = json!([{ "name": "Test", "value": name }]);
        let operation = json!({ "sync": sync, "info": info });
        world.patch(Kind::Application, "dev", &json!({ "operation": operation })).await;
        world
            .until(&format!("{name} is {phase}"), |log| {
                let state = &log.get(Kind::Application, "dev")?["status"]["operationState"];
                (state["operation"]["info"] == info && state["phase"] == phase).then_some(())
            })
            .await;
        world.until_calm(name).await;
        world.recorder.read(|log| {
            let prod = log.get(Kind::Application, "prod").unwrap();
            assert!(prod["status"]["operationState"].is_null(), "{name}: {}", log.state());
            assert!(held(log).is_some(), "{name}: {}", log.state());
            let set = log.get(Kind::ApplicationSet, "fleet").unwrap();
            let waits = &set["status"]["rollout"]["waitingFor"][0];
            let reason = waits["reason"].as_str().unwrap_or_default().to_lowercase();
            assert!(reason.contains("sync failed"), "{name}: {waits}");
        });
    }

    let revision = world.repository.commit("second", &files("v2", "succeed"));
    world.refresh("dev").await;
    let steps = Steps::default().step(["dev"], None).step(["prod"], None);
    world
        .until("the mended commit is everywhere", |log| {
            (invariants::all_done(log, &steps, &revision) && is_complete(log, "fleet"))
                .then_some(())
        })
        .await;
    world.finish().await;
}
