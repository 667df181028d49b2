//! A commit in the middle of a rollout, and a controller that is killed.

use serde_json::{Value, json};

use crate::support::invariants::{self, Steps};
use crate::support::manifests::{VERSION, members, rolling, set, with_waves};
use crate::support::{Kind, Log, Setup, World};

use super::external::is_complete;

/// Applications in three steps.
struct Fleet {
    apps: Vec<(String, String)>,
    steps: Steps,
    strategy: Value,
}

fn fleet() -> Fleet {
    let shape = [("dev", 2, None), ("stage", 4, Some(2)), ("prod", 6, Some(3))];
    let mut steps = Steps::default();
    let mut apps = Vec::new();
    for (env, count, limit) in shape {
        let of = members(env, count);
        steps = steps.step(of.iter().map(|(name, _)| name), limit);
        apps.extend(of);
    }
    let strategy = rolling(&[("dev", json!(null)), ("stage", json!("50%")), ("prod", json!(3))]);
    Fleet { apps, steps, strategy }
}

impl Fleet {
    fn set(&self, world: &World) -> Value {
        let all: Vec<(&str, &str)> =
            self.apps.iter().map(|(name, env)| (name.as_str(), env.as_str())).collect();
        set(world, "fleet", &all, &self.strategy)
    }

    fn commit(&self, world: &World, version: &str) -> String {
        let files: Vec<_> =
            self.apps.iter().flat_map(|(name, _)| with_waves(name, version)).collect();
        world.repository.commit(version, &files)
    }

    fn is_done(&self, log: &Log, revision: &str) -> Option<()> {
        (invariants::all_done(log, &self.steps, revision) && is_complete(log, "fleet"))
            .then_some(())
    }

    /// Checks that the objects in the cluster are those of the last commit.
    fn check(&self, log: &Log, version: &str) {
        invariants::check(log, &self.steps);
        for (name, _) in &self.apps {
            for (kind, object) in [
                (Kind::ConfigMap, format!("{name}-config")),
                (Kind::Deployment, name.clone()),
                (Kind::Service, name.clone()),
            ] {
                let live = log.get(kind, &object).unwrap_or_else(|| panic!("no {kind:?} {object}"));
                assert_eq!(live["metadata"]["annotations"][VERSION], version, "{kind:?} {object}");
            }
        }
    }
}

pub async fn a_second_commit_restarts_from_the_first_step(mut world: World) {
    let fleet = fleet();
    let first = fleet.commit(&world, "v1");
    world.create(Kind::ApplicationSet, fleet.set(&world)).await;
    world.start(&Setup::default()).await;
    world
        .until("a part of the second step is done", |log| {
            let done = log.all(Kind::Application).any(|(name, application)| {
                name.starts_with("stage") && invariants::is_done(application, &first)
            });
            done.then_some(())
        })
        .await;
    let second = fleet.commit(&world, "v2");
    // Only one Application is refreshed; the controller must find out that the others are
    // outdated.
    world.refresh("dev-00").await;
    world.until("the second commit is everywhere", |log| fleet.is_done(log, &second)).await;
    world.recorder.read(|log| {
        fleet.check(log, "v2");
        // The checks above apply to every operation of the second commit; that none of
        // the last step ran for the first one shows that it was abandoned.
        let last_of_first = log.of(Kind::Application).any(|record| {
            record.name().starts_with("prod") && invariants::is_done(&record.object, &first)
        });
        assert!(!last_of_first, "the first commit went on after the second");
    });
    world.finish().await;
}

pub async fn ten_kills_have_no_effect(mut world: World) {
    let fleet = fleet();
    let first = fleet.commit(&world, "v1");
    world.create(Kind::ApplicationSet, fleet.set(&world)).await;
    world.start_process(&Setup::default()).await;
    let mut second = None;
    let mut next = 0;
    for kill in 0..10 {
        // Counted in records since the last start, so that the kills happen at defined
        // points: early, late, and in between.
        let distance = [3, 40, 17, 71, 29, 11, 53, 7, 37, 23][kill];
        next = next.max(world.recorder.read(progress)) + distance;
        let reached = |log: &Log| (progress(log) >= next).then_some(());
        world.until(&format!("moment {} of kill {}", next, kill + 1), reached).await;
        world.process().kill_and_restart();
        if kill == 5 {
            second = Some(fleet.commit(&world, "v2"));
            world.refresh("dev-00").await;
        }
    }
    let second = second.unwrap();
    world.until("the second commit is everywhere", |log| fleet.is_done(log, &second)).await;
    world.recorder.read(|log| {
        fleet.check(log, "v2");
        let begun =
            log.of(Kind::Application).any(|record| invariants::is_done(&record.object, &first));
        assert!(begun, "the first commit was never rolled out at all");
    });
    world.finish().await;
}

/// Progress of the work: versions of Applications and of their resources.
fn progress(log: &Log) -> usize {
    let counted = |kind: Kind| !matches!(kind, Kind::Event | Kind::AppProject);
    log.records.iter().filter(|record| counted(record.kind)).count()
}
