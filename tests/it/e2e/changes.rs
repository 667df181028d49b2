//! Changes of a set in the middle of its rollout (specification, section 5.11).

use serde_json::{Value, json};

use crate::support::invariants::{self, Steps};
use crate::support::manifests::{members, plain, rolling, set, with_deployment};
use crate::support::recorder::Change;
use crate::support::{Kind, Log, Setup, World};

const SET: &str = "fleet";

/// Applications by label: two in dev, four in stage with at most two at once, three in
/// prod.
struct Fleet {
    apps: Vec<(String, String)>,
    first: String,
    second: String,
    third: String,
}

/// The manifests of an Application. Those of the second step take a while, in which the cases
/// change the set.
fn files(name: &str, version: &str) -> Vec<(String, String)> {
    if !name.starts_with("stage") {
        return plain(name, version);
    }
    let slow = r#""simulate.wavegate.dev/delay": "3s", "simulate.wavegate.dev/outcome""#;
    let slowed = |text: String| text.replace(r#""simulate.wavegate.dev/outcome""#, slow);
    let files = with_deployment(name, version, "succeed").into_iter();
    files.map(|(path, text)| (path, slowed(text))).collect()
}

fn strategy() -> Value {
    rolling(&[("dev", json!(null)), ("stage", json!(2)), ("prod", json!(null))])
}

impl Fleet {
    /// Three commits, and a set with the first of them.
    async fn create(world: &World, strategy: &Value) -> Self {
        let mut apps = members("dev", 2);
        apps.extend(members("stage", 4));
        apps.extend(members("prod", 3));
        let commit = |version: &str| {
            let names = apps.iter().map(|(name, _)| name.as_str()).chain(["dev-09", "prod-09"]);
            let files: Vec<_> = names.flat_map(|name| files(name, version)).collect();
            world.repository.commit(version, &files)
        };
        let [first, second, third] = ["v1", "v2", "v3"].map(commit);
        let fleet = Self { apps, first, second, third };
        world.create(Kind::ApplicationSet, fleet.set(world, &fleet.first, strategy)).await;
        fleet
    }

    fn set(&self, world: &World, revision: &str, strategy: &Value) -> Value {
        let all: Vec<(&str, &str)> =
            self.apps.iter().map(|(name, env)| (name.as_str(), env.as_str())).collect();
        let mut set = set(world, SET, &all, strategy);
        // A revision of its own for each spec, so that the record shows what was synced.
        set["spec"]["template"]["spec"]["source"]["targetRevision"] = revision.into();
        set
    }

    /// Writes the spec of the set.
    async fn apply(&self, world: &World, revision: &str, strategy: &Value) {
        let set = self.set(world, revision, strategy);
        world.patch(Kind::ApplicationSet, SET, &json!({ "spec": set["spec"] })).await;
    }

    fn steps(&self) -> Steps {
        let of = |env: &str| {
            let of_env = self.apps.iter().filter(move |(_, of)| of == env);
            of_env.map(|(name, _)| name.clone()).collect::<Vec<_>>()
        };
        Steps::default().step(of("dev"), None).step(of("stage"), Some(2)).step(of("prod"), None)
    }

    /// Waits until an Application of the second step runs.
    async fn until_half(&self, world: &World) {
        world
            .until("an Application of the second step is synced", |log| {
                let at_work = |(name, application): (&str, &std::sync::Arc<Value>)| {
                    name.starts_with("stage") && invariants::is_in_flight(application)
                };
                log.all(Kind::Application).any(at_work).then_some(())
            })
            .await;
    }

    /// Waits until the rollout is complete at a revision.
    async fn until_done(&self, world: &World, revision: &str) {
        let steps = self.steps();
        world.until_rolled_out(SET, &steps, revision).await;
    }
}

/// The entry of an Application in the status of the set.
fn entry<'a>(log: &'a Log, name: &str) -> Option<&'a Value> {
    let entries = log.get(Kind::ApplicationSet, SET)?["status"]["applicationStatus"].as_array()?;
    entries.iter().find(|entry| {
        entry["application"].as_str().is_some_and(|full| full.starts_with(&format!("{name}--")))
    })
}

/// The version at which an Application is complete for the first time.
fn done_at(log: &Log, name: &str, revision: &str) -> u64 {
    let mut records = log.of(Kind::Application);
    let found = records
        .find(|record| record.name() == name && invariants::is_done(&record.object, revision));
    found.unwrap_or_else(|| panic!("{name} was never complete at {revision}")).version()
}

/// The versions at which operations of Applications with this prefix begin.
fn begins(log: &Log, prefix: &str) -> Vec<(String, u64)> {
    let mut busy = std::collections::BTreeSet::new();
    let mut begins = Vec::new();
    for record in log.of(Kind::Application).filter(|record| record.name().starts_with(prefix)) {
        let is_busy = record.change != Change::Deleted && invariants::is_in_flight(&record.object);
        if !is_busy {
            busy.remove(record.name());
        } else if busy.insert(record.name().to_owned()) {
            begins.push((record.name().to_owned(), record.version()));
        }
    }
    begins
}

/// AS-350: an Application that is removed frees its slot, and loses its entry.
pub async fn a_set_shrinks_in_the_middle(mut world: World) {
    let mut fleet = Fleet::create(&world, &strategy()).await;
    world.start(&Setup::default()).await;
    fleet.until_half(&world).await;
    fleet.apps.retain(|(name, _)| name != "stage-00" && name != "stage-03" && name != "prod-00");
    let first = fleet.first.clone();
    fleet.apply(&world, &first, &strategy()).await;
    fleet.until_done(&world, &first).await;
    world
        .until("the removed Applications are gone", |log| {
            let is_left = |name: &&str| {
                log.get(Kind::Application, name).is_some() || entry(log, name).is_some()
            };
            (!["stage-00", "stage-03", "prod-00"].iter().any(is_left)).then_some(())
        })
        .await;
    world.recorder.read(|log| {
        invariants::check(log, &fleet.steps());
        assert_eq!(begins(log, "prod-00"), [], "it was not synced before it was removed");
    });
    world.finish().await;
}

/// AS-330, AS-332: an Application that is added to an earlier step closes the later ones.
pub async fn a_set_grows_in_the_middle(mut world: World) {
    let mut fleet = Fleet::create(&world, &strategy()).await;
    let before = fleet.steps();
    world.start(&Setup::default()).await;
    fleet.until_half(&world).await;
    fleet.apps.extend(
        [("dev-09", "dev"), ("prod-09", "prod")].map(|(name, env)| (name.into(), env.into())),
    );
    let first = fleet.first.clone();
    fleet.apply(&world, &first, &strategy()).await;
    fleet.until_done(&world, &first).await;
    world.recorder.read(|log| {
        invariants::check(log, &before);
        let done = done_at(log, "dev-09", &first);
        for (name, begun) in begins(log, "prod") {
            assert!(done < begun, "AS-330: {name} began at {begun}, and dev-09 was done at {done}");
        }
    });
    world.finish().await;
}

/// AS-310, AS-350: a label moves an Application to another step, and its state is kept.
pub async fn an_application_changes_its_step_in_the_middle(mut world: World) {
    let mut fleet = Fleet::create(&world, &strategy()).await;
    world.start(&Setup::default()).await;
    fleet.until_half(&world).await;
    let of = |fleet: &mut Fleet, name: &str, env: &str| {
        let app = fleet.apps.iter_mut().find(|(of, _)| of == name).unwrap();
        app.1 = env.to_owned();
    };
    of(&mut fleet, "prod-00", "dev");
    of(&mut fleet, "dev-00", "prod");
    let first = fleet.first.clone();
    fleet.apply(&world, &first, &strategy()).await;
    world
        .until("the entries have the new steps", |log| {
            let is_in = |name: &str, step: &str| Some(entry(log, name)?["step"] == step);
            (is_in("prod-00", "1")? && is_in("dev-00", "3")?).then_some(())
        })
        .await;
    fleet.until_done(&world, &first).await;
    let moved = ["prod-00", "dev-00"];
    fleet.apps.retain(|(name, _)| !moved.contains(&name.as_str()));
    world.recorder.read(|log| {
        invariants::check(log, &fleet.steps());
        assert_eq!(
            begins(log, "dev-00").len(),
            1,
            "AS-350: it stays Healthy, and is not synced again"
        );
        let done = done_at(log, "prod-00", &first);
        for (name, begun) in begins(log, "prod").into_iter().filter(|(name, _)| name != "prod-00") {
            assert!(done < begun, "AS-330: {name} began before prod-00, which is in step 1 now");
        }
    });
    world.finish().await;
}

/// AS-350: the set gets other steps: prod before stage, one at a time.
pub async fn a_set_gets_other_steps_in_the_middle(mut world: World) {
    let fleet = Fleet::create(&world, &strategy()).await;
    world.start(&Setup::default()).await;
    fleet.until_half(&world).await;
    let steps = rolling(&[("dev", json!(null)), ("prod", json!(1)), ("stage", json!(1))]);
    fleet.apply(&world, &fleet.first, &steps).await;
    fleet.until_done(&world, &fleet.first).await;
    world.recorder.read(|log| {
        let of = |env: &str| {
            let of_env = fleet.apps.iter().filter(|(_, of)| of == env);
            of_env.map(|(name, _)| name.clone()).collect::<Vec<_>>()
        };
        // Without those of stage that had begun before.
        invariants::check(log, &Steps::default().step(of("dev"), None).step(of("prod"), Some(1)));
        let prod = of("prod").iter().map(|name| done_at(log, name, &fleet.first)).max().unwrap();
        let stage = begins(log, "stage");
        let after = stage.iter().filter(|(_, begun)| *begun > prod).count();
        assert!(after >= 1, "the last of stage begins after prod: {stage:?}");
        let first_of_prod = begins(log, "prod").iter().map(|(_, begun)| *begun).min().unwrap();
        let between = stage.iter().filter(|(_, begun)| *begun > first_of_prod && *begun < prod);
        assert_eq!(
            between.count(),
            0,
            "AS-330: none of stage begins before prod is done: {stage:?}"
        );
    });
    world.finish().await;
}

/// AS-302, AS-303: AllAtOnce in between removes the entries, and starts no operation.
pub async fn a_set_changes_to_all_at_once_and_back(mut world: World) {
    let fleet = Fleet::create(&world, &strategy()).await;
    world.start(&Setup::default()).await;
    fleet.until_half(&world).await;
    fleet.apply(&world, &fleet.first, &json!({ "type": "AllAtOnce" })).await;
    world
        .until("the entries are removed", |log| {
            let set = log.get(Kind::ApplicationSet, SET)?;
            set["status"]["applicationStatus"].as_array().is_none_or(Vec::is_empty).then_some(())
        })
        .await;
    let begun = world.recorder.read(|log| begins(log, "").len());
    world.until_calm("AllAtOnce starts no operation").await;
    world.recorder.read(|log| {
        assert_eq!(begins(log, "").len(), begun, "AS-302: operations began without a rollout");
        assert_eq!(begins(log, "prod"), [], "AS-302");
    });
    fleet.apply(&world, &fleet.first, &strategy()).await;
    fleet.until_done(&world, &fleet.first).await;
    world.recorder.read(|log| invariants::check(log, &fleet.steps()));
    world.finish().await;
}

/// AS-306, AS-333, AS-353: a changed spec, and another one before the first is complete.
pub async fn the_spec_changes_twice_in_the_middle(mut world: World) {
    let fleet = Fleet::create(&world, &strategy()).await;
    world.start(&Setup::default()).await;
    fleet.until_half(&world).await;
    fleet.apply(&world, &fleet.second, &strategy()).await;
    world
        .until("all specs are written, and a step is rolled out", |log| {
            let mut all = log.all(Kind::Application);
            let is_written =
                all.all(|(_, live)| live["spec"]["source"]["targetRevision"] == *fleet.second);
            let dev = log.get(Kind::Application, "dev-00")?;
            (is_written && invariants::is_done(dev, &fleet.second)).then_some(())
        })
        .await;
    fleet.apply(&world, &fleet.third, &strategy()).await;
    fleet.until_done(&world, &fleet.third).await;
    world.recorder.read(|log| {
        invariants::check(log, &fleet.steps());
        let is_second = |name: &str| {
            log.of(Kind::Application).any(|record| {
                record.name() == name && invariants::is_done(&record.object, &fleet.second)
            })
        };
        assert!(!is_second("prod-00"), "AS-333: the second spec was abandoned");
        // AS-306: the spec of the last step is written while the first step is rolled out.
        let written = log.of(Kind::Application).find(|record| {
            record.name() == "prod-02"
                && record.object["spec"]["source"]["targetRevision"] == *fleet.third
        });
        let dev = ["dev-00", "dev-01"].map(|name| done_at(log, name, &fleet.third));
        let dev = dev.into_iter().max();
        assert!(written.map(|record| record.version()) < dev, "AS-306");
    });
    world.finish().await;
}

/// AS-380 to AS-382: a set that is deleted in the middle starts nothing any more.
pub async fn a_set_is_deleted_in_reverse_in_the_middle(mut world: World) {
    let mut reverse = strategy();
    reverse["deletionOrder"] = "Reverse".into();
    let fleet = Fleet::create(&world, &reverse).await;
    world.start(&Setup::default()).await;
    fleet.until_half(&world).await;
    world.delete(Kind::ApplicationSet, SET).await;
    world
        .until("everything is gone", |log| {
            // A real cluster puts one of its own into each namespace.
            let is_ours = |name: &str| name != "kube-root-ca.crt";
            let left = [Kind::ApplicationSet, Kind::Application, Kind::ConfigMap]
                .into_iter()
                .any(|kind| log.all(kind).any(|(name, _)| is_ours(name)));
            (!left).then_some(())
        })
        .await;
    world.recorder.read(|log| {
        invariants::check(log, &fleet.steps());
        let deleted = log
            .of(Kind::ApplicationSet)
            .find(|record| record.object["metadata"]["deletionTimestamp"].is_string());
        let deleted = deleted.unwrap().version();
        let late = |env: &str, gone: bool| {
            let of_env = log.of(Kind::Application).filter(|record| record.name().starts_with(env));
            of_env
                .filter(|record| match gone {
                    true => record.change == Change::Deleted,
                    false => record.object["metadata"]["deletionTimestamp"].is_string(),
                })
                .map(|record| record.version())
                .collect::<Vec<u64>>()
        };
        for (first, then) in [("prod", "stage"), ("stage", "dev")] {
            let (gone, going) = (late(first, true), late(then, false));
            let is_first = gone.iter().max() < going.iter().min();
            assert!(
                is_first,
                "AS-381: {then} began to go before {first} was gone: {gone:?} {going:?}"
            );
        }
        assert_eq!(begins(log, "prod"), [], "no step opens while the set is deleted");
        let set = log.of(Kind::ApplicationSet).find(|record| record.change == Change::Deleted);
        assert!(
            set.unwrap().version() >= deleted
                && late("dev", true).iter().all(|at| *at < set.unwrap().version())
        );
    });
    world.finish().await;
}

/// AS-370, AS-371: automated sync is disabled, with a warning for each Application, and
/// enabled again by AllAtOnce. Only a process has a log.
pub async fn automated_sync_is_disabled_with_a_warning(mut world: World) {
    let fleet = Fleet::create(&world, &Value::Null).await;
    let automated = json!({"automated": {"prune": true, "selfHeal": true}});
    let mut set = fleet.set(&world, &fleet.first, &strategy());
    set["spec"]["template"]["spec"]["syncPolicy"] = automated.clone();
    world.patch(Kind::ApplicationSet, SET, &json!({ "spec": set["spec"] })).await;
    world.start_process(&Setup::default()).await;
    fleet.until_done(&world, &fleet.first).await;
    world.recorder.read(|log| {
        for (name, _) in &fleet.apps {
            let live = log.get(Kind::Application, name).unwrap();
            let want = json!({"prune": true, "selfHeal": true, "enabled": false});
            assert_eq!(live["spec"]["syncPolicy"]["automated"], want, "AS-370: {name}");
        }
        invariants::check(log, &fleet.steps());
    });
    let log = world.controller_log();
    let warned = |name: &str| {
        let name = world.tagged(name);
        log.lines().any(|line| {
            line.contains("WARN")
                && line.contains(&name)
                && line.contains("is disabled by RollingSync")
        })
    };
    let silent: Vec<&String> =
        fleet.apps.iter().map(|(name, _)| name).filter(|name| !warned(name)).collect();
    assert_eq!(silent, Vec::<&String>::new(), "AS-371: no warning for these\n{log}");
    let all_at_once = json!({"spec": {"strategy": {"type": "AllAtOnce", "rollingSync": null}}});
    world.patch(Kind::ApplicationSet, SET, &all_at_once).await;
    world
        .until("AS-370: AllAtOnce writes the generated value again", |log| {
            let mut all = log.all(Kind::Application);
            all.all(|(_, live)| live["spec"]["syncPolicy"] == automated).then_some(())
        })
        .await;
    world.finish().await;
}

/// K-22: a set in steps without Applications has no list of them, before it has some and after.
pub async fn a_set_without_applications_lists_none(mut world: World) {
    let one = members("dev", 1);
    let names: Vec<(&str, &str)> = one.iter().map(|(n, env)| (n.as_str(), env.as_str())).collect();
    let files: Vec<_> = one.iter().flat_map(|(name, _)| plain(name, "v1")).collect();
    world.repository.commit("v1", &files);
    let strategy = rolling(&[("dev", json!(null))]);
    let empty = set(&world, SET, &[], &strategy);
    world.create(Kind::ApplicationSet, empty.clone()).await;
    world.start(&Setup::default()).await;
    let until = async |what: &str, count: Option<usize>| {
        world
            .until(what, |log| {
                let set = log.get(Kind::ApplicationSet, SET)?;
                let status = set["status"].as_object()?;
                let observed = status["conditions"].as_array().is_some_and(|all| !all.is_empty());
                let listed = status.get("applicationStatus");
                let found = listed.map(|list| list.as_array().unwrap().len());
                assert_ne!(found, Some(0), "K-22: {}", log.state());
                (observed && found == count).then_some(())
            })
            .await;
    };
    until("the empty set has a status without a list", None).await;
    let spec = |set: &Value| json!({"spec": set["spec"]});
    let full = set(&world, SET, &names, &strategy);
    world.patch(Kind::ApplicationSet, SET, &spec(&full)).await;
    until("there is an Application", Some(1)).await;
    world.patch(Kind::ApplicationSet, SET, &spec(&empty)).await;
    until("there is none any more", None).await;
    world.finish().await;
}
