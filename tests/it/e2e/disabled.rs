//! A RollingSync in a controller without progressive syncs.

use serde_json::json;

use crate::support::manifests::{plain, rolling, set};
use crate::support::{Kind, Setup, World};

use super::external::condition;

pub async fn disabled_progressive_syncs_are_reported(mut world: World) {
    world.repository.commit("first", &[plain("a", "v1"), plain("b", "v1")].concat());
    let strategy = rolling(&[("dev", json!(null)), ("prod", json!(0))]);
    let mut fleet = set(&world, "fleet", &[("a", "dev"), ("b", "prod")], &strategy);
    fleet["spec"]["template"]["spec"]["syncPolicy"] = json!({ "automated": {} });
    world.create(Kind::ApplicationSet, fleet).await;
    world.start(&Setup { progressive_syncs: false, ..Setup::default() }).await;
    let reported = world
        .until("the set says that its strategy is not followed", |log| {
            condition(log, "fleet", "InvalidRolloutConfig")
                .filter(|found| found["status"] == "True")
        })
        .await;
    let message = reported["message"].as_str().unwrap();
    for word in ["spec.strategy", "--enable-progressive-syncs"] {
        assert!(message.contains(word), "{message} does not say {word}");
    }
    // All at once, including the one that a rollout would block.
    world
        .until("both are synced by their own automation", |log| {
            let synced = |name: &str| {
                log.get(Kind::Application, name)
                    .is_some_and(|app| app["status"]["sync"]["status"] == "Synced")
            };
            (synced("a") && synced("b")).then_some(())
        })
        .await;
    world.recorder.read(|log| {
        for name in ["a", "b"] {
            let automated = &log.get(Kind::Application, name).unwrap()["spec"]["syncPolicy"];
            assert_eq!(automated, &json!({ "automated": {} }), "{name} keeps its automation");
        }
    });
    world.finish().await;
}
