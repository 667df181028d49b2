//! An unhealthy Application blocks its step, and is named.

use serde_json::json;

use crate::support::invariants::{self, Steps};
use crate::support::manifests::{rolling, set, with_deployment};
use crate::support::{Kind, Setup, World};

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
