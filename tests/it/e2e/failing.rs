//! An unhealthy Application blocks its step, and is named.

use serde_json::json;

use crate::support::invariants::{self, Steps};
use crate::support::manifests::{plain, rolling, set, with_deployment, with_smoke_test};
use crate::support::{Kind, Log, Setup, World};

use super::external::is_complete;
use super::policies;

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
    world.until_rolled_out("fleet", &steps, &revision).await;
    world.recorder.read(|log| invariants::check(log, &steps));
    world.finish().await;
}

/// AS-357, ST-040: a failed smoke test leaves the Application Synced and Healthy. Only a sync of the whole
/// Application that succeeds opens the next step: not a manual one that fails again, and
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
    let manual = [
        ("the whole Application", json!({}), "Failed"),
        ("a dry run", json!({ "dryRun": true }), "Succeeded"),
        ("a resource", json!({ "resources": config }), "Succeeded"),
    ];
    for (name, sync, phase) in manual {
        let info = json!([{ "name": "Test", "value": name }]);
        let operation = json!({ "sync": sync, "info": info });
        world.patch(Kind::Application, "dev", &json!({ "operation": operation })).await;
        world
            .until(&format!("{name} is {phase}"), |log| {
                let state = &log.get(Kind::Application, "dev")?["status"]["operationState"];
                (state["operation"]["info"] == info && state["phase"] == phase).then_some(())
            })
            .await;
        world
            .until(&format!("{name}: dev is held, and the reason is known"), |log| {
                held(log)?;
                let set = log.get(Kind::ApplicationSet, "fleet")?;
                let reason = set["status"]["rollout"]["waitingFor"][0]["reason"].as_str()?;
                let reason = reason.to_lowercase();
                let words = ["sync failed", "postsync hook job", "/dev-smoke "];
                words.iter().all(|word| reason.contains(word)).then_some(())
            })
            .await;
        world.until_calm(name).await;
        let run = policies::run(&world, "fleet").await.unwrap();
        assert_eq!(run["status"]["failed"], 1, "{name}: {run:#}");
        world.recorder.read(|log| {
            let prod = log.get(Kind::Application, "prod").unwrap();
            assert!(prod["status"]["operationState"].is_null(), "{name}: {}", log.state());
            assert!(held(log).is_some(), "{name}: {}", log.state());
            let set = log.get(Kind::ApplicationSet, "fleet").unwrap();
            let waits = &set["status"]["rollout"]["waitingFor"][0];
            let reason = waits["reason"].as_str().unwrap_or_default().to_lowercase();
            assert!(reason.contains("sync failed"), "{name}: {waits}");
            // A dry run takes the place of the operation, not of the reason.
            assert!(reason.contains("postsync hook job"), "{name}: {waits}");
            assert!(reason.contains("/dev-smoke "), "{name}: {waits}");
        });
    }

    let revision = world.repository.commit("second", &files("v2", "succeed"));
    world.refresh("dev").await;
    let steps = Steps::default().step(["dev"], None).step(["prod"], None);
    world.until_rolled_out("fleet", &steps, &revision).await;
    world.finish().await;
}

/// Between two attempts, the status of the set names the next one and what the last one
/// failed on.
pub async fn a_retry_is_announced_with_its_number_and_time(mut world: World) {
    world.repository.commit("first", &with_smoke_test("dev", "v1", "fail"));
    let strategy = rolling(&[("dev", json!(null))]);
    let mut set = set(&world, "fleet", &[("dev", "dev")], &strategy);
    // So long that the case ends before.
    let retry = json!({ "limit": 3, "backoff": { "duration": "1h", "maxDuration": "1h" } });
    set["spec"]["template"]["spec"]["syncPolicy"] = json!({ "retry": retry });
    world.create(Kind::ApplicationSet, set).await;
    world.start(&Setup::default()).await;
    let waits = world
        .until("the second attempt is waited for", |log| {
            let set = log.get(Kind::ApplicationSet, "fleet")?;
            let waits = &set["status"]["rollout"]["waitingFor"][0];
            waits["reason"].as_str()?.starts_with("attempt 2 of 4 at ").then(|| waits.clone())
        })
        .await;
    let until = waits["until"].as_str().unwrap_or_default();
    let time = until.split_once('T').map_or("", |(_, time)| time);
    let hook = format!("PostSync hook Job {}/dev-smoke ", world.target);
    let reason = waits["reason"].as_str().unwrap_or_default();
    assert!(reason.starts_with(&format!("attempt 2 of 4 at {time}: {hook}")), "{waits}");
    let namespace = world.namespace.clone();
    // The reason may get more precise in between, and the two then agree again.
    let agreed = async {
        loop {
            let log = world.recorder.read(|log| log.get(Kind::ApplicationSet, "fleet").cloned());
            let reason = log.unwrap()["status"]["rollout"]["waitingFor"][0]["reason"].clone();
            let reason = reason.as_str().unwrap_or_default();
            let (code, out, err) = world.wavegate(&["explain", "-n", &namespace, "fleet"]).await;
            assert_eq!(code, 0, "{err}");
            if out.contains(&format!(": {reason}")) {
                return out;
            }
        }
    };
    let out = tokio::time::timeout(World::wait_limit(), agreed).await;
    let out = out.expect("explain names the reason of the status");
    assert!(!out.contains("wavegate sync"), "it would be refused: {out}");
    let application = world.tagged("dev");
    let (code, out, err) = world.wavegate(&["terminate", "-n", &namespace, &application]).await;
    assert_eq!(code, 0, "{out}{err}");
    world.finish().await;
}

/// Nothing prunes without permission: only a person continues the rollout.
pub async fn a_prune_that_needs_permission_stops_the_rollout(mut world: World) {
    let files = |version: &str, left: &str| {
        let mut files = [plain("dev", version), plain("prod", version)].concat();
        files.push(("apps/dev/extra.yaml".to_owned(), left.to_owned()));
        files
    };
    let extra = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "extra" } });
    world.repository.commit("first", &files("v1", &extra.to_string()));
    let strategy = rolling(&[("dev", json!(null)), ("prod", json!(null))]);
    let all = [("dev", "dev"), ("prod", "prod")];
    world.create(Kind::ApplicationSet, set(&world, "fleet", &all, &strategy)).await;
    world.start(&Setup::default()).await;
    world.until("the first rollout completes", |log| is_complete(log, "fleet").then_some(())).await;

    let revision = world.repository.commit("second", &files("v2", ""));
    world.refresh("dev").await;
    let kept = format!(
        "ConfigMap {}/extra is not in the source any more, and pruning is not enabled",
        world.target
    );
    world
        .until("the ConfigMap is named", |log| {
            let set = log.get(Kind::ApplicationSet, "fleet")?;
            let waits = &set["status"]["rollout"]["waitingFor"][0];
            (waits["reason"] == kept.as_str()).then_some(())
        })
        .await;
    let (namespace, name) = (world.namespace.clone(), world.tagged("dev"));
    let watch = ["status", "-n", &namespace, "fleet", "--watch", "--plain", "--timeout", "2m"];
    let (code, out, err) = world.wavegate(&watch).await;
    assert_eq!(code, 1, "only a person continues it: {out}{err}");
    assert!(format!("{out}{err}").contains(&kept), "{out}{err}");
    let (_, out, _) = world.wavegate(&["explain", "-n", &namespace, "fleet"]).await;
    let advice = format!("prune it: wavegate sync -n {namespace} {name} --prune");
    assert!(out.contains(&kept) && out.contains(&advice), "{out}");

    let (code, out, err) = world.wavegate(&["sync", "-n", &namespace, &name, "--prune"]).await;
    assert_eq!(code, 0, "{out}{err}");
    let steps = Steps::default().step(["dev"], None).step(["prod"], None);
    world.until_rolled_out("fleet", &steps, &revision).await;
    world.finish().await;
}
