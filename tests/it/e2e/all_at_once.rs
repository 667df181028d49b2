//! Without a strategy, all Applications are created at once and use automated sync.

use serde_json::json;

use crate::support::manifests::{members, set, with_deployment};
use crate::support::{Kind, Setup, World};

use super::external::condition;

pub async fn all_at_once_does_not_wait(mut world: World) {
    let apps = members("any", 6);
    // One of them never becomes healthy, and does not block the others.
    let files: Vec<_> = apps
        .iter()
        .flat_map(|(name, _)| {
            let outcome = if name == "any-00" { "hang" } else { "succeed" };
            with_deployment(name, "v1", outcome)
        })
        .collect();
    let revision = world.repository.commit("first", &files);
    let all: Vec<(&str, &str)> =
        apps.iter().map(|(name, env)| (name.as_str(), env.as_str())).collect();
    let mut fleet = set(&world, "fleet", &all, &json!({ "type": "AllAtOnce" }));
    fleet["spec"]["template"]["spec"]["syncPolicy"] = json!({ "automated": { "prune": true } });
    world.create(Kind::ApplicationSet, fleet).await;
    world.start(&Setup::default()).await;
    world
        .until("all but the hanging one are healthy", |log| {
            let status = |name: &str, field: &str| {
                let application = log.get(Kind::Application, name)?;
                application["status"][field]["status"].as_str().map(str::to_owned)
            };
            let as_wanted = apps.iter().all(|(name, _)| {
                let healthy = status(name, "health").as_deref() == Some("Healthy");
                status(name, "sync").as_deref() == Some("Synced") && healthy == (name != "any-00")
            });
            as_wanted.then_some(())
        })
        .await;
    world.until_calm("after the last sync").await;
    world.recorder.read(|log| {
        for (name, _) in &apps {
            let application = log.get(Kind::Application, name).unwrap();
            let state = &application["status"]["operationState"];
            assert_eq!(state["syncResult"]["revision"], revision.as_str(), "{name}");
            assert_eq!(state["operation"]["initiatedBy"]["automated"], true, "{name}");
            let info = state["operation"]["info"].to_string();
            assert!(!info.contains("RollingSync"), "no rollout starts {name}: {info}");
        }
        let set = log.get(Kind::ApplicationSet, "fleet").unwrap();
        assert!(set["status"]["applicationStatus"].is_null(), "{}", log.state());
        assert_eq!(condition(log, "fleet", "ResourcesUpToDate").unwrap()["status"], "True");
        assert!(condition(log, "fleet", "RolloutProgressing").is_none());
    });
    world.finish().await;
}
