//! Sixty Applications in four steps, with hooks and waves in each.
//! `WAVEGATE_TEST_SCALE=5` makes it 300.

use std::collections::BTreeSet;

use serde_json::json;

use crate::support::invariants::{self, Steps};
use crate::support::manifests::{members, rolling, set, with_waves};
use crate::support::recorder::{Change, version};
use crate::support::{Kind, Log, Setup, World};

pub async fn sixty_applications_in_four_steps(mut world: World) {
    let scale = scale();
    let steps =
        [("canary", 10 * scale), ("early", 3 * scale), ("by-hand", 2), ("rest", 47 * scale - 2)];
    let total: usize = steps.iter().map(|(_, count)| count).sum();
    let early = 13 * scale;
    let apps: Vec<(String, String)> =
        steps.iter().flat_map(|(env, count)| members(env, *count)).collect();
    let all: Vec<(&str, &str)> =
        apps.iter().map(|(name, env)| (name.as_str(), env.as_str())).collect();
    let files: Vec<_> = apps.iter().flat_map(|(name, _)| with_waves(name, "v1")).collect();
    let revision = world.repository.commit("first", &files);
    let strategy = rolling(&[
        ("canary", json!("20%")),
        ("early", json!(1)),
        ("by-hand", json!(0)),
        ("rest", json!(null)),
    ]);
    world.create(Kind::ApplicationSet, set(&world, "fleet", &all, &strategy)).await;
    world.start(&Setup::default()).await;

    world
        .until("the first two steps are done and the third waits", |log| {
            let set = log.get(Kind::ApplicationSet, "fleet")?;
            let rollout = &set["status"]["rollout"];
            (rollout["step"] == 3 && rollout["progress"] == format!("{early}/{total}"))
                .then_some(())
        })
        .await;
    world.until_calm("it waits for manual syncs").await;
    world.recorder.read(|log| {
        let at_work = log.all(Kind::Application).filter(|(name, application)| {
            (name.starts_with("by-hand") || name.starts_with("rest"))
                && (invariants::is_in_flight(application)
                    || application["status"]["operationState"].is_object())
        });
        assert_eq!(at_work.count(), 0, "{}", log.state());
    });
    for name in ["by-hand-00", "by-hand-01"] {
        world.sync_manually(name).await;
    }
    let names = |env: &str| {
        let of = apps.iter().filter(move |(_, of)| of == env);
        of.map(|(name, _)| name.clone()).collect::<Vec<_>>()
    };
    let steps = Steps::default()
        .step(names("canary"), Some(2 * scale))
        .step(names("early"), Some(1))
        .step(names("by-hand"), Some(0))
        .step(names("rest"), None);
    world.until_rolled_out("fleet", &steps, &revision).await;
    world.recorder.read(|log| {
        invariants::check(log, &steps);
        for (name, _) in &apps {
            in_order(log, name);
        }
        // The last step has no limit: its Applications sync in parallel.
        let first_end = log.of(Kind::Application).find(|record| {
            record.name().starts_with("rest") && invariants::is_done(&record.object, &revision)
        });
        let before: BTreeSet<&str> = log
            .of(Kind::Application)
            .filter(|record| record.version() < first_end.unwrap().version())
            .filter(|record| {
                record.name().starts_with("rest") && invariants::is_in_flight(&record.object)
            })
            .map(|record| record.name())
            .collect();
        assert!(before.len() > 10, "only {before:?} ran at once in a step without a limit");
    });
    world.finish().await;
}

/// How many times sixty Applications.
fn scale() -> usize {
    let set = std::env::var("WAVEGATE_TEST_SCALE").ok();
    set.map_or(1, |text| text.parse().expect("WAVEGATE_TEST_SCALE is a number from 1"))
}

/// PreSync, the three waves and PostSync ran in order, each after the previous one was ready.
fn in_order(log: &Log, name: &str) {
    let first =
        |kind: Kind, object: &str, what: &str, ready: &dyn Fn(&serde_json::Value) -> bool| {
            let found = log.of(kind).find(|record| {
                record.change != Change::Deleted && record.name() == object && ready(&record.object)
            });
            let found = found.unwrap_or_else(|| panic!("{kind:?} {object} never {what}"));
            (format!("{kind:?} {object} {what}"), version(&found.object))
        };
    let exists = |_: &serde_json::Value| true;
    let complete = |job: &serde_json::Value| job["status"]["succeeded"] == 1;
    let available = |deployment: &serde_json::Value| deployment["status"]["availableReplicas"] == 1;
    let (pre, post) = (format!("{name}-pre"), format!("{name}-post"));
    let config = format!("{name}-config");
    let moments = [
        first(Kind::Job, &pre, "was created", &exists),
        first(Kind::Job, &pre, "completed", &complete),
        first(Kind::ConfigMap, &config, "was created", &exists),
        first(Kind::Deployment, name, "was created", &exists),
        first(Kind::Deployment, name, "became available", &available),
        first(Kind::Service, name, "was created", &exists),
        first(Kind::Job, &post, "was created", &exists),
        first(Kind::Job, &post, "completed", &complete),
    ];
    for pair in moments.windows(2) {
        assert!(pair[0].1 < pair[1].1, "{} before {}", pair[1].0, pair[0].0);
    }
}
