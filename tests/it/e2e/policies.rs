//! Rollouts with policies through the controllers and the command line: pauses, gates, budgets,
//! rollbacks and shared limits, judged by the recorded Applications and by the runs (ST-003 to
//! ST-063).

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use crate::support::cluster::{JSON, send};
use crate::support::invariants::{is_done, is_in_flight};
use crate::support::manifests::{VERSION, members, plain, rolling, set, with_smoke_test};
use crate::support::{Kind, Log, Setup, World};

/// The Applications of a set, by environment.
pub type Members = Vec<(String, String)>;

pub fn environments(sizes: &[(&str, usize)]) -> Members {
    sizes.iter().flat_map(|(env, count)| members(env, *count)).collect()
}

fn path(world: &World, plural: &str) -> String {
    format!("/apis/wavegate.dev/v1alpha1/namespaces/{}/{plural}", world.namespace)
}

pub async fn policy(world: &World, name: &str, spec: Value) {
    let object = json!({
        "apiVersion": "wavegate.dev/v1alpha1", "kind": "RolloutPolicy",
        "metadata": { "name": name }, "spec": spec,
    });
    let path = path(world, "rolloutpolicies");
    send(&world.client, Method::POST, &path, JSON, &object).await.unwrap();
}

async fn get(world: &World, plural: &str) -> Vec<Value> {
    let answer = send(&world.client, Method::GET, &path(world, plural), JSON, &Value::Null).await;
    answer.unwrap()["items"].as_array().cloned().unwrap_or_default()
}

/// The latest run of a set.
pub async fn run(world: &World, set: &str) -> Option<Value> {
    let number = |run: &Value| {
        let name = run["metadata"]["name"].as_str()?;
        name.rsplit('-').next()?.parse::<u64>().ok()
    };
    let runs = get(world, "rolloutruns").await;
    runs.into_iter().filter(|run| run["spec"]["applicationSet"] == set).max_by_key(number)
}

/// Waits until the latest run of a set is so.
pub async fn until_run(world: &World, set: &str, what: &str, is: impl Fn(&Value) -> bool) -> Value {
    let until = tokio::time::Instant::now() + World::wait_limit();
    loop {
        let last = run(world, set).await.unwrap_or_default();
        if is(&last) {
            return last;
        }
        let is_over = tokio::time::Instant::now() >= until;
        assert!(!is_over, "{what}: {last:#}\n{}", world.controller_log());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

pub fn phase(run: &Value) -> &str {
    run["status"]["phase"].as_str().unwrap_or_default()
}

pub fn commit(world: &World, members: &Members, version: &str) -> String {
    let files: Vec<_> = members.iter().flat_map(|(name, _)| plain(name, version)).collect();
    world.repository.commit(version, &files)
}

fn names_of(members: &Members) -> Vec<(&str, &str)> {
    members.iter().map(|(name, env)| (name.as_str(), env.as_str())).collect()
}

pub async fn create(world: &World, name: &str, members: &Members, steps: &[(&str, Value)]) {
    let set = set(world, name, &names_of(members), &rolling(steps));
    world.create(Kind::ApplicationSet, set).await;
}

/// How many Applications of an environment are done at a revision.
fn done(log: &Log, members: &Members, env: &str, revision: &str) -> usize {
    let of_env = members.iter().filter(|(_, of)| of == env);
    of_env
        .filter(|(name, _)| {
            log.get(Kind::Application, name).is_some_and(|app| is_done(app, revision))
        })
        .count()
}

/// Runs the program in the namespace of the set, and expects success.
pub async fn wavegate(world: &World, arguments: &[&str]) -> String {
    let namespace = world.namespace.as_str();
    let arguments: Vec<&str> = arguments.iter().copied().chain(["-n", namespace]).collect();
    let (code, out, err) = world.wavegate(&arguments).await;
    assert_eq!(code, 0, "{arguments:?}: {out}{err}");
    out + &err
}

/// ST-010 to ST-012, ST-070: a gate with a soak, one with an approval, which a commit makes void.
pub async fn gates_open_by_time_and_by_people(mut world: World) {
    let members = environments(&[("dev", 2), ("qa", 2), ("prod", 3)]);
    let namespace = world.namespace.clone();
    let named = |verb: &str| format!("wavegate {verb} -n {namespace} fleet");
    let steps = [("dev", json!(null)), ("qa", json!(null)), ("prod", json!(1))];
    policy(
        &world,
        "production",
        json!({"gates": [
            {"name": "qa", "steps": [2], "soak": "3s"},
            {"name": "production", "applications": {"matchLabels": {"env": "prod"}}, "approvals": 1},
        ]}),
    )
    .await;
    let first = commit(&world, &members, "v1");
    create(&world, "fleet", &members, &steps).await;
    world.start(&Setup::default()).await;
    let held = until_run(&world, "fleet", "it waits for an approval", |run| {
        phase(run) == "AwaitingApproval"
    })
    .await;
    assert_eq!((&held["status"]["done"], &held["status"]["step"]), (&json!(4), &json!(3)));
    let gate = |run: &Value, at: usize| run["status"]["gates"][at].clone();
    let (soaked, shut) = (gate(&held, 0), gate(&held, 1));
    let time = |value: &Value| value.as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    let soak = time(&soaked["openedAt"]).duration_since(time(&soaked["soakingSince"]));
    assert!(soak.as_secs() >= 3, "{soaked}");
    assert_eq!(shut["openedAt"], Value::Null);
    world.recorder.read(|log| {
        assert_eq!(done(log, &members, "qa", &first), 2);
        let promoted = log.of(Kind::Application).any(|record| {
            record.object["metadata"]["labels"]["env"] == "prod" && is_in_flight(&record.object)
        });
        assert!(!promoted, "an Application behind the gate was started");
    });
    let said = wavegate(&world, &["explain", "fleet"]).await;
    assert!(said.contains(&named("approve")), "{said}");
    wavegate(&world, &["approve", "fleet", "--yes"]).await;
    until_run(&world, "fleet", "the first commit is everywhere", |run| phase(run) == "Complete")
        .await;

    let second = commit(&world, &members, "v2");
    for (name, _) in &members {
        world.refresh(name).await;
    }
    until_run(&world, "fleet", "the second waits, too", |run| {
        phase(run) == "AwaitingApproval" && run["status"]["to"][0]["revision"] == second.as_str()
    })
    .await;
    // Another commit: what was approved for the second is not for the third.
    wavegate(&world, &["pause", "fleet", "--reason", "to look at it", "--yes"]).await;
    until_run(&world, "fleet", "it is paused", |run| phase(run) == "Paused").await;
    wavegate(&world, &["approve", "fleet", "--gate", "production", "--yes"]).await;
    let third = commit(&world, &members, "v3");
    for (name, _) in &members {
        world.refresh(name).await;
    }
    wavegate(&world, &["resume", "fleet", "--yes"]).await;
    until_run(&world, "fleet", "the third waits again", |run| {
        phase(run) == "AwaitingApproval" && run["status"]["to"][0]["revision"] == third.as_str()
    })
    .await;
    world.recorder.read(|log| assert_eq!(done(log, &members, "prod", &third), 0));
    wavegate(&world, &["approve", "fleet", "--yes"]).await;
    let last =
        until_run(&world, "fleet", "the third is everywhere", |run| phase(run) == "Complete").await;
    let runs = get(&world, "rolloutruns").await;
    assert_eq!(runs.len(), 3, "{:?}", runs.iter().map(phase).collect::<Vec<_>>());
    let timeline = last["status"]["timeline"].as_array().unwrap();
    let opened = timeline.iter().any(|one| one["what"] == "GateOpened");
    assert!(opened, "{timeline:#?}");
    world.finish().await;
}

/// ST-042, ST-061: more fail than the budget permits, and what was started goes back, in reverse,
/// whenever the controller is killed.
pub async fn a_budget_takes_back_what_was_started_through_kills(mut world: World) {
    let members = environments(&[("dev", 10), ("qa", 10), ("prod", 20), ("last", 20)]);
    let steps = [("dev", json!(5)), ("qa", json!(5)), ("prod", json!(5)), ("last", json!(5))];
    let failing = ["prod-01", "prod-02", "prod-04"];
    let commit = |world: &World, version: &str, outcome: &str| {
        let files: Vec<_> = members
            .iter()
            .flat_map(|(name, _)| match failing.contains(&name.as_str()) {
                true => with_smoke_test(name, version, outcome),
                false => plain(name, version),
            })
            .collect();
        world.repository.commit(version, &files)
    };
    commit(&world, "v1", "succeed");
    policy(&world, "budget", json!({"failures": {"max": 2, "onFailure": "Rollback"}})).await;
    create(&world, "fleet", &members, &steps).await;
    world.start_process(&Setup::default()).await;
    until_run(&world, "fleet", "the first commit is everywhere", |run| phase(run) == "Complete")
        .await;
    let from = world.recorder.read(|log| log.records.len());
    let second = commit(&world, "v2", "fail");
    for (name, _) in &members {
        world.refresh(name).await;
    }
    let mut next = from;
    for distance in [20, 57, 31, 83, 45, 26, 61, 38, 74, 19] {
        next += distance;
        let mut ends = false;
        world
            .until("the next moment to kill it", |log| (log.records.len() >= next).then_some(()))
            .await;
        if let Some(run) = run(&world, "fleet").await {
            ends = phase(&run) == "RolledBack";
        }
        if ends {
            break;
        }
        world.process().kill_and_restart();
    }
    let back =
        until_run(&world, "fleet", "it is rolled back", |run| phase(run) == "RolledBack").await;
    assert_eq!(back["status"]["endedBy"], "Failures");
    // By what it was taken back: history and kubectl said that none had failed.
    let failures = back["status"]["failures"].as_array().unwrap();
    let counted: i64 = failures.iter().map(|one| one["count"].as_i64().unwrap()).sum();
    assert!(counted > 0 && back["status"]["failed"] == json!(counted), "{back:#}");
    world.recorder.read(|log| {
        for (name, env) in &members {
            let map = log.all(Kind::ConfigMap).find(|(of, _)| of.contains(name.as_str()));
            let version = &map.unwrap().1["metadata"]["annotations"][VERSION];
            assert_eq!(version, "v1", "{name}\n{}", log.state());
            let started = log.of(Kind::Application).any(|record| {
                record.name() == name
                    && record.object["status"]["operationState"]["syncResult"]["revision"]
                        == second.as_str()
            });
            if env == "last" {
                assert!(!started, "{name} was started after the budget was exceeded");
            }
        }
        // Never more in flight than maxUpdate permits, of each step.
        let mut flying = std::collections::BTreeMap::new();
        for record in log.of(Kind::Application) {
            let env = record.object["metadata"]["labels"]["env"].as_str().unwrap_or_default();
            flying.insert(record.name().to_owned(), (env.to_owned(), is_in_flight(&record.object)));
            let count = flying.values().filter(|(of, is)| of == env && *is).count();
            assert!(count <= 5, "{count} of {env} in flight at version {}", record.version());
        }
    });
    // The next commit takes them forward again.
    let third = commit(&world, "v3", "succeed");
    for (name, _) in &members {
        world.refresh(name).await;
    }
    until_run(&world, "fleet", "the third commit is everywhere", |run| {
        phase(run) == "Complete" && run["status"]["to"][0]["revision"] == third.as_str()
    })
    .await;
    world.finish().await;
}

/// ST-001, ST-042: of several budgets the strictest limit and the most careful action hold, and all
/// who say what they amount to say the same. Each policy was judged alone: two failures were more than
/// one permits that only reports, and less than another one permits that holds, and so all went on.
pub async fn several_budgets_are_one(mut world: World) {
    let members = environments(&[("dev", 1), ("prod", 3)]);
    let steps = [("dev", json!(null)), ("prod", json!(3))];
    policy(&world, "ample", json!({"failures": {"max": 3, "onFailure": "Hold"}})).await;
    policy(&world, "share", json!({"failures": {"max": "70%", "onFailure": "Continue"}})).await;
    policy(&world, "strict", json!({"failures": {"max": 1, "onFailure": "Continue"}})).await;
    commit(&world, &members, "v1");
    create(&world, "fleet", &members, &steps).await;
    world.start(&Setup::default()).await;
    until_run(&world, "fleet", "the first commit is everywhere", |run| phase(run) == "Complete")
        .await;
    let together = "1 (policy strict) and 70% of a step (policy share) may fail, then Hold \
                    (policy ample)";
    // It looks for the project in another namespace, and says so.
    let plan = ["plan", "--live", "fleet", "-n", &world.namespace];
    let (_, planned, error) = world.wavegate(&plan).await;
    assert!(planned.contains(together), "{planned}{error}");
    for name in ["ample", "share", "strict"] {
        let all = get(&world, "rolloutpolicies").await;
        let policy = all.into_iter().find(|one| one["metadata"]["name"] == name).unwrap();
        let conditions = policy["status"]["conditions"].as_array().unwrap();
        let effective = conditions.iter().find(|one| one["type"] == "Effective").unwrap();
        let message = format!("ample, share, strict together; {together}");
        assert_eq!(effective["message"], json!(message), "{name}");
    }
    let listed = wavegate(&world, &["policies", "fleet"]).await;
    assert!(listed.contains(together), "{listed}");

    let failing = ["prod-01", "prod-02"];
    let of = |name: &str| match failing.contains(&name) {
        true => with_smoke_test(name, "v2", "fail"),
        false => plain(name, "v2"),
    };
    let files: Vec<_> = members.iter().flat_map(|(name, _)| of(name)).collect();
    world.repository.commit("v2", &files);
    for (name, _) in &members {
        world.refresh(name).await;
    }
    let held = until_run(&world, "fleet", "it is held", |run| phase(run) == "Held").await;
    let why = "2 failed, and 1 may (policy strict; Hold by policy ample)";
    assert_eq!((&held["status"]["message"], &held["status"]["failed"]), (&json!(why), &json!(2)));
    let said = wavegate(&world, &["explain", "fleet"]).await;
    assert!(said.contains(why), "{said}");
    world.finish().await;
}

/// ST-061: what a rollback holds at its last good revisions is synced to them again when its
/// resources differ from them, and only then; the next commit takes it forward.
pub async fn what_went_back_is_healed(mut world: World) {
    let members = environments(&[("dev", 3)]);
    let first = commit(&world, &members, "v1");
    create(&world, "fleet", &members, &[("dev", json!(2))]).await;
    world.start(&Setup::default()).await;
    until_run(&world, "fleet", "the first commit is everywhere", |run| phase(run) == "Complete")
        .await;
    commit(&world, &members, "v2");
    for (name, _) in &members {
        world.refresh(name).await;
    }
    until_run(&world, "fleet", "so is the second", |run| {
        phase(run) == "Complete" && run["metadata"]["name"] == "fleet-2"
    })
    .await;
    wavegate(&world, &["rollback", "fleet", "--yes"]).await;
    until_run(&world, "fleet", "it is rolled back", |run| phase(run) == "RolledBack").await;
    let configs = |log: &Log| -> Vec<String> {
        let all = log.all(Kind::ConfigMap).map(|(name, _)| name.to_owned());
        all.filter(|name| name.contains("dev-")).collect()
    };
    let is_back = |log: &Log| {
        let mut all = log.all(Kind::ConfigMap).filter(|(name, _)| name.contains("dev-"));
        all.all(|(_, map)| map["metadata"]["annotations"][VERSION] == "v1")
            && configs(log).len() == 3
    };
    world.until("all are back", |log| is_back(log).then_some(())).await;
    let names = world.recorder.read(configs);
    // A rollback is too recent to be repeated: the first heal comes a minute after it.
    let from = world.recorder.read(|log| log.records.len());
    let drifted = json!({"metadata": {"annotations": {VERSION: "by hand"}}});
    world.patch(Kind::ConfigMap, &names[0], &drifted).await;
    world.delete(Kind::ConfigMap, &names[1]).await;
    world
        .until("the drift is seen", |log| {
            let mut records = log.records[from..].iter();
            records
                .any(|record| {
                    record.object["status"]["conditions"].as_array().is_some_and(|conditions| {
                        conditions.iter().any(|one| one["type"] == "HeldBackOutOfSyncWarning")
                    })
                })
                .then_some(())
        })
        .await;
    world.until("they are healed", |log| is_back(log).then_some(())).await;
    world.until_calm("nothing is left to do").await;
    let syncs = world.recorder.read(|log| {
        let mut syncs = std::collections::BTreeSet::new();
        for record in log.records[from..].iter().filter(|one| one.kind == Kind::Application) {
            let state = &record.object["status"]["operationState"];
            if state["phase"] == "Succeeded" {
                assert_eq!(state["syncResult"]["revision"], first.as_str(), "{}", record.name());
                let at = state["finishedAt"].as_str().unwrap_or_default().to_owned();
                syncs.insert((record.name().to_owned(), at));
            }
        }
        syncs
    });
    let of = |index: usize| {
        let is_of = |(name, _): &&(String, String)| names[index].contains(name.as_str());
        syncs.iter().filter(is_of).count()
    };
    assert!(of(0) >= 1 && of(1) >= 1, "{names:?} {syncs:?}");
    let third = commit(&world, &members, "v3");
    for (name, _) in &members {
        world.refresh(name).await;
    }
    until_run(&world, "fleet", "the third commit is everywhere", |run| {
        phase(run) == "Complete" && run["status"]["to"][0]["revision"] == third.as_str()
    })
    .await;
    world
        .until("nothing is held", |log| {
            let mut all = log.all(Kind::Application);
            all.all(|(_, one)| !one["status"]["conditions"].to_string().contains("HeldBack"))
                .then_some(())
        })
        .await;
    world.finish().await;
}

/// ST-030: three sets under one limit, with a controller that is killed.
pub async fn sets_share_a_limit_through_kills(mut world: World) {
    let sets = ["one", "two", "three"];
    policy(&world, "together", json!({"pace": {"maxInFlight": 3}})).await;
    let fleets: Vec<Members> =
        sets.iter().map(|set| members(set, 6).into_iter().collect()).collect();
    let all: Members = fleets.iter().flatten().cloned().collect();
    commit(&world, &all, "v1");
    for (name, fleet) in sets.iter().zip(&fleets) {
        create(&world, name, fleet, &[(name, json!(null))]).await;
    }
    world.start_process(&Setup::default()).await;
    for round in 0..5 {
        let moment = 12 * (round + 1);
        let reached = |log: &Log| (log.of(Kind::Application).count() >= moment).then_some(());
        world.until("the next moment to kill it", reached).await;
        world.process().kill_and_restart();
    }
    for set in sets {
        until_run(&world, set, "it is complete", |run| phase(run) == "Complete").await;
    }
    let mut flying = std::collections::BTreeSet::new();
    let mut most = 0;
    world.recorder.read(|log| {
        for record in log.of(Kind::Application) {
            match is_in_flight(&record.object) {
                true => flying.insert(record.name().to_owned()),
                false => flying.remove(record.name()),
            };
            most = most.max(flying.len());
            assert!(flying.len() <= 3, "{flying:?} at version {}", record.version());
        }
    });
    assert!(most >= 2, "the limit is used: {most}");
    world.finish().await;
}

/// ST-050: more deletions than the policy permits wait for an approval of exactly these.
pub async fn many_deletions_wait_for_an_approval(mut world: World) {
    policy(&world, "careful", json!({"deletions": {"max": 1}})).await;
    let members = environments(&[("dev", 5)]);
    commit(&world, &members, "v1");
    create(&world, "fleet", &members, &[("dev", json!(null))]).await;
    world.start(&Setup::default()).await;
    until_run(&world, "fleet", "it is complete", |run| phase(run) == "Complete").await;
    let left: Members = members.iter().take(2).cloned().collect();
    let shrunk = set(&world, "fleet", &names_of(&left), &rolling(&[("dev", json!(null))]));
    world.patch(Kind::ApplicationSet, "fleet", &json!({"spec": shrunk["spec"]})).await;
    world
        .until("the deletions are held", |log| {
            let set = log.get(Kind::ApplicationSet, "fleet")?;
            let conditions = set["status"]["conditions"].as_array()?;
            let held = conditions.iter().find(|one| one["type"] == "DeletionsHeld")?;
            let text = held["message"].as_str()?;
            (held["reason"] == "TooManyDeletions" && text.contains("permits 1")).then_some(())
        })
        .await;
    world.recorder.read(|log| assert_eq!(log.all(Kind::Application).count(), 5));
    wavegate(&world, &["approve", "fleet", "--deletions", "--yes"]).await;
    world
        .until("they are deleted", |log| (log.all(Kind::Application).count() == 2).then_some(()))
        .await;
    world.finish().await;
}

/// ST-020, ST-060, ST-063: a pause, an abort and a retry by the commands.
pub async fn people_pause_abort_and_retry(mut world: World) {
    let namespace = world.namespace.clone();
    let named = |verb: &str| format!("wavegate {verb} -n {namespace} fleet");
    let members = environments(&[("dev", 6)]);
    commit(&world, &members, "v1");
    create(&world, "fleet", &members, &[("dev", json!(1))]).await;
    world.start(&Setup::default()).await;
    until_run(&world, "fleet", "the first commit is everywhere", |run| phase(run) == "Complete")
        .await;
    wavegate(&world, &["pause", "fleet", "--reason", "to look at it", "--yes"]).await;
    let second = commit(&world, &members, "v2");
    for (name, _) in &members {
        world.refresh(name).await;
    }
    until_run(&world, "fleet", "it is paused, and all are compared", |run| {
        let to = &run["status"]["to"][0];
        phase(run) == "Paused" && to["revision"] == second.as_str() && to["applications"] == 6
    })
    .await;
    let said = wavegate(&world, &["explain", "fleet"]).await;
    assert!(said.contains("to look at it") && said.contains(&named("resume")), "{said}");
    wavegate(&world, &["abort", "fleet", "--yes"]).await;
    let aborted = until_run(&world, "fleet", "it is aborted", |run| phase(run) == "Aborted").await;
    wavegate(&world, &["resume", "fleet", "--yes"]).await;
    world.until_calm("nothing is promoted after an abort").await;
    let at = |log: &Log| done(log, &members, "dev", &second);
    assert_eq!(world.recorder.read(at), 0, "{aborted:#}");
    let said = wavegate(&world, &["explain", "fleet"]).await;
    assert!(said.contains(&named("retry")), "{said}");
    wavegate(&world, &["retry", "fleet", "--yes"]).await;
    until_run(&world, "fleet", "the retry completes it", |run| phase(run) == "Complete").await;
    world.recorder.read(|log| assert_eq!(at(log), 6));
    let history = wavegate(&world, &["history", "fleet"]).await;
    assert!(history.contains("fleet-2") && history.contains("Complete"), "{history}");
    world.finish().await;
}
