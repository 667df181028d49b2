//! Deletion of a set with its Applications and their resources.

use std::collections::BTreeMap;

use serde_json::json;

use crate::support::invariants::{self, Steps};
use crate::support::manifests::{rolling, set, with_deployment};
use crate::support::recorder::Change;
use crate::support::{Kind, Log, Setup, World};

const APPS: [(&str, &str); 5] =
    [("a", "dev"), ("b", "dev"), ("c", "stage"), ("d", "prod"), ("e", "prod")];

async fn rolled_out(world: &mut World, reverse: bool) {
    let files: Vec<_> =
        APPS.iter().flat_map(|(name, _)| with_deployment(name, "v1", "succeed")).collect();
    let revision = world.repository.commit("first", &files);
    let mut strategy =
        rolling(&[("dev", json!(null)), ("stage", json!(null)), ("prod", json!(null))]);
    if reverse {
        strategy["deletionOrder"] = "Reverse".into();
    }
    world.create(Kind::ApplicationSet, set(world, "fleet", &APPS, &strategy)).await;
    world.start(&Setup::default()).await;
    let steps = Steps::default().step(["a", "b"], None).step(["c"], None).step(["d", "e"], None);
    world.until_rolled_out("fleet", &steps, &revision).await;
    world.recorder.read(|log| invariants::check(log, &steps));
}

pub async fn all_gone(world: &World) {
    world
        .until("everything is gone", |log| {
            let left = [Kind::ApplicationSet, Kind::Application, Kind::Deployment]
                .into_iter()
                .any(|kind| log.all(kind).next().is_some());
            (!left).then_some(())
        })
        .await;
}

/// AS-167: whoever deletes the set, and whether a controller runs or not.
pub async fn a_policy_without_deletion_keeps_the_applications_as_167(mut world: World) {
    let files: Vec<_> =
        ["a", "b"].iter().flat_map(|name| with_deployment(name, "v1", "succeed")).collect();
    world.repository.commit("first", &files);
    let names = ["a", "b"];
    let setup = Setup::default();
    world.start(&setup).await;
    for (way, runs) in
        [("Foreground", true), ("Background", true), ("Orphan", true), ("Foreground", false)]
    {
        let members = [("a", "dev"), ("b", "dev")];
        let mut fleet = set(&world, "fleet", &members, &serde_json::Value::Null);
        fleet["spec"]["syncPolicy"] = json!({ "applicationsSync": "create-update" });
        world.create(Kind::ApplicationSet, fleet).await;
        let owners = |log: &Log, name: &str| {
            let live = log.get(Kind::Application, name)?;
            Some(live["metadata"]["ownerReferences"].as_array().map_or(0, Vec::len))
        };
        let owned = |log: &Log| names.iter().all(|name| owners(log, name) == Some(2));
        world.until("both are owned twice", |log| owned(log).then_some(())).await;
        if !runs {
            world.stop().await;
        }
        world.delete_in(Kind::ApplicationSet, "fleet", way).await;
        if !runs {
            // Garbage collection has done its part.
            let released = |log: &Log| names.iter().all(|name| owners(log, name) == Some(1));
            world.until("both lost their set", |log| released(log).then_some(())).await;
            world.start(&setup).await;
        }
        let free = |log: &Log| {
            let is_gone = log.all(Kind::ApplicationSet).next().is_none();
            is_gone && names.iter().all(|name| owners(log, name) == Some(0))
        };
        world.until("both have no owner", |log| free(log).then_some(())).await;
        world.recorder.read(|log| {
            for name in names {
                let live = log.get(Kind::Application, name).unwrap();
                assert!(live["metadata"]["deletionTimestamp"].is_null(), "{way}: {name}");
            }
        });
        for name in names {
            world.delete(Kind::Application, &world.tagged(name)).await;
        }
        world
            .until("they are gone", |log| log.all(Kind::Application).next().is_none().then_some(()))
            .await;
    }
    world.finish().await;
}

pub async fn a_deleted_set_deletes_its_applications(mut world: World) {
    rolled_out(&mut world, false).await;
    world.delete(Kind::ApplicationSet, "fleet").await;
    all_gone(&world).await;
    resources_went_first(&world);
    world.finish().await;
}

/// The set goes last, once its finalizer is removed (AS-168).
pub async fn reverse_deletion_is_from_the_last_step_to_the_first(mut world: World) {
    rolled_out(&mut world, true).await;
    world.delete(Kind::ApplicationSet, "fleet").await;
    all_gone(&world).await;
    resources_went_first(&world);
    world.recorder.read(|log| {
        let spans = spans(log);
        went_in_order(&spans, &[("d", "c"), ("e", "c"), ("c", "a"), ("c", "b")]);
        let set_gone = log.of(Kind::ApplicationSet).find(|record| record.change == Change::Deleted);
        let last = spans.values().map(|span| span.1).max().unwrap();
        assert!(set_gone.unwrap().version() > last, "the set went before its Applications");
    });
    world.finish().await;
}

pub async fn reverse_deletion_respects_max_update_as_381(mut world: World) {
    let members = [("a", "dev"), ("b", "prod"), ("c", "prod"), ("d", "prod"), ("x", "none")];
    let files: Vec<_> =
        members.iter().flat_map(|(name, _)| with_deployment(name, "v1", "succeed")).collect();
    let revision = world.repository.commit("first", &files);
    let mut strategy = rolling(&[("dev", json!(0)), ("prod", json!("34%"))]);
    strategy["deletionOrder"] = "reverse".into();
    world.create(Kind::ApplicationSet, set(&world, "fleet", &members, &strategy)).await;
    world.start(&Setup::default()).await;
    // Nothing starts the syncs of the first step and of x.
    for name in ["a", "x"] {
        world
            .until("it is compared", |log| {
                let live = log.get(Kind::Application, name)?;
                (live["status"]["sync"]["status"] == "OutOfSync").then_some(())
            })
            .await;
        world.sync_manually(name).await;
    }
    let steps = Steps::default().step(["a"], None).step(["b", "c", "d"], Some(1));
    world.until_rolled_out("fleet", &steps, &revision).await;
    world.delete(Kind::ApplicationSet, "fleet").await;
    all_gone(&world).await;
    world.recorder.read(|log| {
        went_in_order(&spans(log), &[("x", "b"), ("b", "c"), ("c", "d"), ("d", "a")]);
    });
    world.finish().await;
}

/// From the deletion timestamp of each Application to its removal.
pub fn spans(log: &Log) -> BTreeMap<&str, (u64, u64)> {
    let mut spans: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for record in log.of(Kind::Application) {
        if record.object["metadata"]["deletionTimestamp"].is_string() {
            let at = record.version();
            spans.entry(record.name()).or_insert((at, at)).1 = at;
        }
    }
    spans
}

/// Of each pair, the first Application was gone before the second one began to go.
pub fn went_in_order(spans: &BTreeMap<&str, (u64, u64)>, pairs: &[(&str, &str)]) {
    for (earlier, later) in pairs {
        let (gone, began) = (spans[earlier].1, spans[later].0);
        assert!(gone < began, "{later} began to go before {earlier} was gone: {spans:?}");
    }
}

/// An Application is removed only after its resources.
fn resources_went_first(world: &World) {
    world.recorder.read(|log| {
        for (name, _) in APPS {
            let end = |kind: Kind| {
                let gone = log
                    .of(kind)
                    .find(|record| record.name() == name && record.change == Change::Deleted);
                gone.unwrap_or_else(|| panic!("{kind:?} {name} is still there")).version()
            };
            let (deployment, application) = (end(Kind::Deployment), end(Kind::Application));
            assert!(deployment < application, "{name}: {deployment} {application}");
        }
    });
}
