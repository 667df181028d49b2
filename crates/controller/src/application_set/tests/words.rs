//! What the controller says of a rollout that is not as it should be: in the run, in the status of
//! the set, and in Events.

use serde_json::json;

use super::*;
use wavegate_api::policy::POLICY;
use wavegate_api::run::RUN;

impl ClusterState {
    /// The operation that the rollout has requested ends in this phase, and the Application is of
    /// this health then.
    async fn end(&self, name: &str, phase: &str, health: &str) {
        let requested = |app: &Value| app["operation"].is_object();
        let live = self.until("Application", name, requested).await;
        let now = jiff::Timestamp::from_second(jiff::Timestamp::now().as_second()).unwrap();
        let (spec, operation) = (&live["spec"], &live["operation"]);
        let is_synced = phase == "Succeeded";
        let status = json!({
            "sync": {
                "status": if is_synced { "Synced" } else { "OutOfSync" }, "revision": "r1",
                "comparedTo": {"source": spec["source"], "destination": spec["destination"]},
            },
            "health": {"status": health},
            "reconciledAt": now.to_string(),
            "operationState": {
                "operation": operation, "phase": phase, "message": "no quota is left",
                "startedAt": now.to_string(), "finishedAt": now.to_string(),
                "syncResult": {"revision": "r1"},
            },
        });
        let patch = json!({"operation": null, "status": status});
        self.patch("Application", name, patch).await;
    }

    /// When an Application was started, by its annotation.
    async fn started(&self, name: &str) -> jiff::Timestamp {
        let key = wavegate_api::annotations::RUN;
        let has_one = |app: &Value| app["metadata"]["annotations"][key].is_string();
        let app = self.until("Application", name, has_one).await;
        let start = app["metadata"]["annotations"][key].as_str().unwrap();
        let start: Value = serde_json::from_str(start).unwrap();
        start["at"].as_str().unwrap().parse().unwrap()
    }
}

fn in_phase(phase: &'static str) -> impl Fn(&Value) -> bool {
    move |run| run["status"]["phase"] == phase
}

/// With `onFailure: Continue`, three failures of one that may fail were "within the budget", and
/// every application of every step was healthy (ST-042).
#[tokio::test]
async fn more_failures_than_a_budget_that_only_reports_are_said_as_st_042() {
    let world = ClusterState::start(progressive(Default::default())).await;
    let failures = json!({"failures": {"max": 1, "onFailure": "Continue"}});
    world.create(POLICY, "careless", failures).await;
    let members = [("a", "prod"), ("b", "prod"), ("c", "prod"), ("last", "last")];
    let strategy = steps(&[("prod", json!(null)), ("last", json!(null))]);
    world.create("ApplicationSet", "set", fleet(&members, strategy)).await;
    for (name, _) in members {
        world.compare(name, "OutOfSync", "Missing", "r1").await;
    }
    for name in ["a", "b", "c"] {
        world.end(name, "Failed", "Degraded").await;
    }
    let event = world.until_event("BudgetExceeded").await;
    assert!(
        event.ends_with("more than 1 (failure budget of policy careless); going on"),
        "{event}"
    );
    world.end("last", "Succeeded", "Healthy").await;
    let run = world.until(RUN, "set-1", in_phase("CompleteWithFailures")).await;
    let status = &run["status"];
    let want = "3 failed, more than 1 (failure budget of policy careless)";
    assert_eq!((&status["message"], &status["progress"]), (&json!(want), &json!("1/4")), "{run}");
    let is_over = |set: &Value| condition(set, "RolloutProgressing")["status"] == "False";
    let set = world.until("ApplicationSet", "set", is_over).await;
    let want = "all 2 steps are complete; 3 failed: a, b, c";
    let (said, status) = (&condition(&set, "RolloutProgressing")["message"], &set["status"]);
    assert_eq!((said, &status["rollout"]["message"]), (&json!(want), &json!(want)), "{set}");
    assert_eq!(status["rollout"]["progress"], "1/4", "{set}");
    let health = &status["health"];
    assert_eq!((&health["status"], &health["message"]), (&json!("Degraded"), &json!(want)));
    // Nothing of it changes by itself, also where the definition drops a field.
    world.calm("sets").await;
    // They recover: nothing is left to say.
    for name in ["a", "b", "c"] {
        world.compare(name, "Synced", "Healthy", "r1").await;
        let ended = json!({"operationState": {"phase": "Succeeded"}});
        world.patch("Application", name, json!({ "status": ended })).await;
    }
    let is_well = |set: &Value| set["status"]["health"]["status"] == "Healthy";
    let set = world.until("ApplicationSet", "set", is_well).await;
    assert_eq!(set["status"]["rollout"]["progress"], "4/4", "{set}");
}

/// A run that went on without a skipped, broken Application was complete with all, and the set
/// Healthy (ST-064).
#[tokio::test]
async fn a_rollout_without_a_skipped_application_says_so_as_st_064() {
    let world = ClusterState::start(progressive(Default::default())).await;
    let members = [("app", "dev"), ("other", "prod")];
    let strategy = steps(&[("dev", json!(null)), ("prod", json!(null))]);
    world.create("ApplicationSet", "set", fleet(&members, strategy)).await;
    for (name, _) in members {
        world.compare(name, "OutOfSync", "Missing", "r1").await;
    }
    world.end("app", "Failed", "Degraded").await;
    world.until(RUN, "set-1", |run| run["status"]["failed"] == 1).await;
    world.patch(RUN, "set-1", json!({"spec": {"skip": ["app"]}})).await;
    world.end("other", "Succeeded", "Healthy").await;
    let run = world.until(RUN, "set-1", in_phase("Complete")).await;
    let status = &run["status"];
    assert_eq!(
        (&status["message"], &status["progress"]),
        (&json!("1 skipped: app"), &json!("1/2"))
    );
    let is_over = |set: &Value| condition(set, "RolloutProgressing")["status"] == "False";
    let set = world.until("ApplicationSet", "set", is_over).await;
    let status = &set["status"];
    assert_eq!(status["rollout"]["progress"], "1/2", "{set}");
    assert_eq!(status["health"]["status"], "Degraded", "{set}");
    let said = status["rollout"]["message"].as_str().unwrap();
    assert!(said.starts_with("all 2 steps are complete; 1 skipped: app"), "{said}");
    assert_eq!(status["rollout"]["waitingFor"][0]["kind"], "Skipped", "{set}");
}

/// All steps of nothing were complete, and every application of every step was healthy.
#[tokio::test]
async fn a_set_without_applications_says_so() {
    let world = ClusterState::start(progressive(Default::default())).await;
    world.create("ApplicationSet", "set", fleet(&[], rolling())).await;
    let is_over = |set: &Value| condition(set, "RolloutProgressing")["status"] == "False";
    let set = world.until("ApplicationSet", "set", is_over).await;
    let want = json!("there is no Application: the generators find none");
    let said = &condition(&set, "RolloutProgressing")["message"];
    assert_eq!((said, &set["status"]["rollout"]["message"]), (&want, &want), "{set}");
}

/// A deadline was noticed at the next poll, up to 30 seconds later (ST-040).
#[tokio::test]
async fn a_deadline_is_noticed_when_it_passes_as_st_040() {
    let world = ClusterState::start(progressive(Default::default())).await;
    let failures = json!({"failures": {"max": 0, "onFailure": "Hold", "deadline": "3s"}});
    world.create(POLICY, "careful", failures).await;
    world.create("ApplicationSet", "set", set(rolling())).await;
    world.compare("app", "OutOfSync", "Missing", "r1").await;
    world.end("app", "Succeeded", "Progressing").await;
    let at = world.started("app").await;
    let wait = |set: &Value| set["status"]["rollout"]["waitingFor"][0].clone();
    let deadline = (at + jiff::SignedDuration::from_secs(3)).to_string();
    world.until("ApplicationSet", "set", |set| wait(set)["until"] == json!(deadline)).await;
    let run = world.until(RUN, "set-1", in_phase("Held")).await;
    let timeline = run["status"]["timeline"].as_array().unwrap();
    let failed = timeline.iter().find(|entry| entry["what"] == "Failed").unwrap();
    let noticed: jiff::Timestamp = failed["at"].as_str().unwrap().parse().unwrap();
    // Times are stored in whole seconds, and this machine may be busy; a poll is later.
    let late = noticed.duration_since(at).as_secs() - 3;
    assert!((0..=5).contains(&late), "{late} s: {run}");
    let set = world.until("ApplicationSet", "set", |set| wait(set)["kind"] == "Deadline").await;
    let reason = wait(&set)["reason"].as_str().unwrap().to_owned();
    assert!(reason.starts_with("failed by its deadline of 3s: "), "{reason}");
}

/// A script that retried in the second of the start was answered that it was done, and nothing
/// happened (ST-063).
#[tokio::test]
async fn a_retry_in_the_second_of_the_start_is_not_lost_as_st_063() {
    let world = ClusterState::start(progressive(Default::default())).await;
    let failures = json!({"failures": {"max": 0, "onFailure": "Hold"}});
    world.create(POLICY, "careful", failures).await;
    world.create("ApplicationSet", "set", set(rolling())).await;
    world.compare("app", "OutOfSync", "Missing", "r1").await;
    // Several within the same second, wherever that begins.
    for round in 0..4 {
        world.end("app", "Failed", "Healthy").await;
        let is_held = |run: &Value| {
            run["status"]["phase"] == "Held"
                && run["status"]["retried"].as_array().map_or(0, Vec::len) == round
        };
        let run = world.until(RUN, "set-1", is_held).await;
        let mut retries = run["spec"]["retries"].as_array().cloned().unwrap_or_default();
        let at = jiff::Timestamp::from_second(jiff::Timestamp::now().as_second()).unwrap();
        retries.push(json!({"by": format!("ann-{round}"), "at": at.to_string()}));
        world.patch(RUN, "set-1", json!({"spec": {"retries": retries}})).await;
    }
    world.end("app", "Succeeded", "Healthy").await;
    world.until(RUN, "set-1", in_phase("Complete")).await;
}

/// A soak hid for its time that a person is needed, when its gate stood first (ST-004).
#[tokio::test]
async fn an_approval_is_asked_for_while_another_gate_soaks_as_st_004() {
    for gates in [["slow", "ok"], ["ok", "slow"]] {
        let world = ClusterState::start(progressive(Default::default())).await;
        let gate = |name: &str| match name {
            "slow" => json!({"name": "slow", "steps": [1], "soak": "1h"}),
            name => json!({"name": name, "steps": [1], "approvals": 2}),
        };
        world.create(POLICY, "careful", json!({"gates": gates.map(gate)})).await;
        world.create("ApplicationSet", "set", set(rolling())).await;
        world.compare("app", "OutOfSync", "Missing", "r1").await;
        let event = world.until_event("AwaitingApproval").await;
        let want = "gate ok (policy careful) waits, 2 of 2 approvals missing";
        assert!(event.contains(want), "{event}");
        let set = world.until("ApplicationSet", "set", |set| {
            set["status"]["rollout"]["waitingFor"][0]["kind"] == "Approval"
        });
        set.await;
    }
}
