//! Runs of a set (ST-002): their names, and the Events about them.

use kube_sim::{Effect, InjectedFault};
use serde_json::json;

use super::*;
use wavegate_api::policy::POLICY;
use wavegate_api::run::RUN;
use wavegate_rollout::requests::{self, Actor};

/// It was never recorded, with a warning at each reconcile.
#[tokio::test]
async fn a_run_whose_name_is_taken_gets_the_next_number_as_st_002() {
    let world = ClusterState::start(progressive(Default::default())).await;
    for name in ["set-1", "set-2"] {
        world.create(RUN, name, json!({"applicationSet": "other"})).await;
    }
    world.create("ApplicationSet", "set", set(rolling())).await;
    world.compare("app", "OutOfSync", "Missing", "r1").await;
    let run = world.until(RUN, "set-3", |run| run["status"]["phase"] == "Progressing").await;
    assert_eq!(run["metadata"]["ownerReferences"][0]["name"], "set", "{run}");
    world.until("Application", "app", |app| app["operation"].is_object()).await;
    let other = world.until(RUN, "set-1", |_| true).await;
    assert_eq!(
        (&other["status"], &other["metadata"]["namespace"]),
        (&json!(null), &json!(NAMESPACE))
    );
}

/// Without its owner reference an aborted run was forgotten, and its target promoted by a new one.
#[tokio::test]
async fn a_run_that_lost_its_owner_reference_holds_and_gets_it_back_as_st_060() {
    let world = ClusterState::start(progressive(Default::default())).await;
    let gate = json!({"name": "all", "steps": [1], "approvals": 1});
    world.create(POLICY, "careful", json!({"gates": [gate]})).await;
    world.create("ApplicationSet", "set", set(rolling())).await;
    world.compare("app", "OutOfSync", "Missing", "r1").await;
    world.until(RUN, "set-1", |run| run["status"]["phase"] == "AwaitingApproval").await;
    world.patch(RUN, "set-1", json!({"spec": {"abort": {"by": "oli"}}})).await;
    world.until(RUN, "set-1", |run| run["status"]["phase"] == "Aborted").await;
    // Neither is a run of this set: one that a person made, and one of another set.
    world.create(RUN, "set-7", json!({"applicationSet": "set"})).await;
    world.create(RUN, "set-8", json!({"applicationSet": "other"})).await;
    let lost = json!({"metadata": {"ownerReferences": null, "labels": null}});
    world.patch(RUN, "set-1", lost).await;
    let is_owned = |run: &Value| run["metadata"]["ownerReferences"][0]["name"] == "set";
    let run = world.until(RUN, "set-1", is_owned).await;
    assert_eq!(run["metadata"]["labels"]["wavegate.dev/application-set"], "set", "{run}");
    assert_eq!(run["status"]["phase"], "Aborted", "{run}");
    world.patch(POLICY, "careful", json!({"spec": {"gates": null}})).await;
    world.until(POLICY, "careful", |policy| policy["status"]["observedGeneration"] == 2).await;
    for name in ["set-7", "set-8"] {
        let run = world.until(RUN, name, |_| true).await;
        assert_eq!(run["metadata"]["ownerReferences"], json!(null), "{run}");
    }
    let app = world.until("Application", "app", |_| true).await;
    assert_eq!(app["operation"], json!(null), "{app}");
}

/// Who reads them knows what a rollout waits for, and who let it go.
#[tokio::test]
async fn what_policies_and_people_say_are_events_as_st_080() {
    let world = ClusterState::start(progressive(Default::default())).await;
    let gate = json!({"name": "all", "steps": [1], "approvals": 1});
    world.create(POLICY, "careful", json!({"gates": [gate]})).await;
    world.create("ApplicationSet", "set", set(rolling())).await;
    world.compare("app", "OutOfSync", "Missing", "r1").await;
    let awaited = world.until_event("AwaitingApproval").await;
    assert!(awaited.starts_with("run set-1: AwaitingApproval: gate all"), "{awaited}");
    assert!(awaited.ends_with("wavegate approve -n argocd set --gate all"), "{awaited}");
    let is_compared = |run: &Value| {
        run["status"]["to"][0]["revision"] == "r1"
            && run["status"]["gates"][0]["covers"].is_string()
    };
    let run = world.until(RUN, "set-1", is_compared).await;
    let covers = &run["status"]["gates"][0]["covers"];
    let approval = json!({"gate": "all", "by": "ann", "covers": covers});
    world.patch(RUN, "set-1", json!({"spec": {"approvals": [approval]}})).await;
    assert_eq!(world.until_event("GateApproved").await, "run set-1: gate all is approved by ann");
    assert_eq!(world.until_event("GateOpened").await, "run set-1: gate all opens");
    assert_eq!(world.events("Progressing").await, Vec::<String>::new());
}

/// The gate of production was approved together with that of staging.
#[tokio::test]
async fn an_approval_without_a_name_opens_no_gate_of_a_later_step_as_st_011() {
    let world = ClusterState::start(progressive(Default::default())).await;
    let gate = |name: &str, step: u64| json!({"name": name, "steps": [step], "approvals": 1});
    let gates = json!([gate("staging", 1), gate("production", 2)]);
    world.create(POLICY, "careful", json!({ "gates": gates })).await;
    let strategy = steps(&[("staging", json!(null)), ("prod", json!(null))]);
    let members = [("app", "staging"), ("other", "prod")];
    world.create("ApplicationSet", "set", fleet(&members, strategy)).await;
    for (name, _) in members {
        world.compare(name, "OutOfSync", "Missing", "r1").await;
    }
    let gate_of = |run: &Value, name: &str| {
        let gates = run["status"]["gates"].as_array().cloned().unwrap_or_default();
        gates.into_iter().find(|gate| gate["name"] == name).unwrap_or_default()
    };
    // An approval is for the targets of both comparisons.
    let waits = |run: &Value| {
        run["status"]["phase"] == "AwaitingApproval"
            && run["status"]["to"] == json!([{"revision": "r1", "applications": 2}])
            && gate_of(run, "staging")["waitingSince"].is_string()
    };
    let run = world.until(RUN, "set-1", waits).await;
    assert_eq!(gate_of(&run, "production")["waitingSince"], json!(null), "{run}");
    let ann = Actor { by: "ann", at: jiff::Timestamp::now() };
    let word = requests::approve_gates(&requests::Run::read(&run), None, ann);
    let requests::Verdict::Change { says, change, .. } = word else { panic!("{word:?}") };
    assert_eq!(says, "approve gate staging (1 Application) of run set-1 as ann");
    let patch = change.patch(&run);
    world.patch(RUN, "set-1", json!({ "spec": patch["spec"] })).await;
    let run =
        world.until(RUN, "set-1", |run| gate_of(run, "staging")["openedAt"].is_string()).await;
    world.until("Application", "app", |app| app["operation"].is_object()).await;
    let production = gate_of(&run, "production");
    assert_eq!(
        (&production["openedAt"], &production["approvedBy"], &production["waitingSince"]),
        (&json!(null), &json!(null), &json!(null)),
        "{production}"
    );
    assert_eq!(world.until_event("GateOpened").await, "run set-1: gate staging opens");
}

/// It stayed live: `wait` waited for it, and metrics counted it.
#[tokio::test]
async fn a_run_ends_with_the_strategy_of_its_set_as_st_003() {
    let mut world = ClusterState::start(progressive(Default::default())).await;
    world.create("ApplicationSet", "set", set(rolling())).await;
    world.compare("app", "OutOfSync", "Missing", "r1").await;
    world.until("Application", "app", |app| app["operation"].is_object()).await;
    world.until(RUN, "set-1", |run| run["status"]["phase"] == "Progressing").await;
    let strategy = |strategy: Value| json!({"spec": {"strategy": strategy}});
    // What is misspelt may be a rollout that goes on.
    world.patch("ApplicationSet", "set", strategy(json!({"type": "Rolling"}))).await;
    let is_held = |set: &Value| condition(set, "ErrorOccurred")["status"] == "True";
    world.until("ApplicationSet", "set", is_held).await;
    world.calm("sets").await;
    world.until(RUN, "set-1", |run| run["status"]["phase"] == "Progressing").await;

    world.patch("ApplicationSet", "set", strategy(Value::Null)).await;
    let why = "spec.strategy of the ApplicationSet is no RollingSync any more";
    let is_over = |run: &Value| {
        let status = &run["status"];
        status["phase"] == "Superseded" && status["message"] == why && status["endedAt"].is_string()
    };
    world.until(RUN, "set-1", is_over).await;
    let event = format!("run set-1: Superseded: {why}");
    assert_eq!(world.until_event("Superseded").await, event);
    world.calm("sets").await;
    let run = world.until(RUN, "set-1", is_over).await;
    assert_eq!(run["status"]["waitingFor"], Value::Null, "{run}");
    assert_eq!(world.events("Superseded").await, [event], "it is recorded once");

    // Nothing of it is in quarantine: what is not Healthy is rolled out, in a run.
    world.patch("ApplicationSet", "set", strategy(rolling())).await;
    world.until(RUN, "set-2", |run| run["status"]["phase"] == "Progressing").await;
    world.until(RUN, "set-1", is_over).await;
    world.restart(ApplicationSetSettings::default());
    let why = "progressive syncs are disabled, so the ApplicationSet is not rolled out in steps";
    world.until(RUN, "set-2", |run| run["status"]["message"] == why).await;
}

/// Nothing is written that was not before there were runs.
#[tokio::test]
async fn a_run_without_policies_has_no_events() {
    let world = ClusterState::start(progressive(Default::default())).await;
    world.create("ApplicationSet", "set", set(rolling())).await;
    world.compare("app", "Synced", "Healthy", "r1").await;
    world.until(RUN, "set-1", |run| run["status"]["phase"] == "Complete").await;
    world.until_event("RolloutComplete").await;
    for reason in ["Progressing", "Complete", "Soaking", "Paused"] {
        assert_eq!(world.events(reason).await, Vec::<String>::new(), "{reason}");
    }
}

/// A controller that starts without the permission to read policies held nothing: what a policy
/// may hold waits, with the reason, and deletions wait for an approval.
#[tokio::test]
async fn hidden_policies_hold_promotions_and_deletions_as_st_006() {
    let mut world = ClusterState::start(progressive(Default::default())).await;
    world.create(POLICY, "careful", json!({"deletions": {"max": 0}})).await;
    let members = [("app", "dev"), ("other", "dev")];
    world.create("ApplicationSet", "set", fleet(&members, rolling())).await;
    for (name, _) in members {
        world.compare(name, "Synced", "Healthy", "r1").await;
    }
    let complete = |run: &Value| {
        run["status"]["phase"] == "Complete" && run["status"]["policies"] == json!(["careful"])
    };
    world.until(RUN, "set-1", complete).await;
    world.stop();
    let is_read =
        |request: &RequestRecord| request.client == "sets" && request.resource == "rolloutpolicies";
    world.server.inject(InjectedFault::new(Effect::Status(403), is_read).times(usize::MAX));
    world.restart(progressive(Default::default()));
    world.compare("app", "OutOfSync", "Healthy", "r2").await;
    let why = "RolloutPolicies cannot be read, and careful applied before";
    let waits = |set: &Value| set["status"]["rollout"].to_string().contains(why);
    world.until("ApplicationSet", "set", waits).await;
    let smaller = fleet(&members[..1], rolling());
    world.patch("ApplicationSet", "set", json!({"spec": smaller})).await;
    let held = "RolloutPolicies that may limit this cannot be read (careful applied before)";
    let is_held = |set: &Value| {
        let message = condition(set, "DeletionsHeld")["message"].to_string();
        message.contains(held) && message.contains("--overwrite")
    };
    world.until("ApplicationSet", "set", is_held).await;
    let other = world.until("Application", "other", |_| true).await;
    assert!(other["metadata"]["deletionTimestamp"].is_null(), "{other}");
    let app = world.until("Application", "app", |_| true).await;
    assert!(app["operation"].is_null(), "{app}");
}

/// Whoever may write an approval ended an abort with it: with a time that the API server takes for
/// one, the run was read as an empty one, which replaced its state.
#[tokio::test]
async fn a_run_with_a_value_that_cannot_be_read_holds_and_stays_as_it_is_as_st_060() {
    let mut world = ClusterState::start(progressive(Default::default())).await;
    let gate = json!({"name": "all", "steps": [1], "approvals": 1});
    world.create(POLICY, "careful", json!({"gates": [gate]})).await;
    world.create("ApplicationSet", "set", set(rolling())).await;
    world.compare("app", "OutOfSync", "Missing", "r1").await;
    let phase = |phase: &'static str| move |run: &Value| run["status"]["phase"] == phase;
    world.until(RUN, "set-1", phase("AwaitingApproval")).await;
    world.patch(RUN, "set-1", json!({"spec": {"abort": {"by": "ann"}}})).await;
    let aborted = world.until(RUN, "set-1", phase("Aborted")).await;
    let at = "2026-01-02T10:00:00+99:00";
    let approval = json!({"gate": "all", "by": "eve", "covers": "x", "at": at});
    world.patch(RUN, "set-1", json!({"spec": {"approvals": [approval]}})).await;
    let waits = |kind: &'static str, words: &'static str| {
        move |set: &Value| {
            let wait = &set["status"]["rollout"]["waitingFor"][0];
            let reason = wait["reason"].as_str().unwrap_or_default();
            wait["kind"] == kind && reason.starts_with(words)
        }
    };
    let why = "spec.approvals[0].at of RolloutRun set-1 cannot be read: kubectl -n argocd edit rolloutrun set-1 (";
    world.until("ApplicationSet", "set", waits("Unreadable", why)).await;
    // Also one that has not read it before.
    world.restart(progressive(Default::default()));
    world.reconcile().await;
    let run = world.until(RUN, "set-1", |_| true).await;
    for field in ["phase", "startedAt", "endedBy", "abortedAt", "quarantine"] {
        assert_eq!(run["status"][field], aborted["status"][field], "{field}");
        assert!(run["status"][field].is_string(), "{field}: {run}");
    }
    let app = world.until("Application", "app", |_| true).await;
    assert!(app["operation"].is_null(), "{app}");
    world.patch(RUN, "set-1", json!({"spec": {"approvals": []}})).await;
    let why = "its run was aborted";
    world.until("ApplicationSet", "set", waits("Quarantined", why)).await;
    // What the controller itself has written may be broken as well.
    let broken = json!({"status": {"timeline": [{"what": "Aborted", "at": at}]}});
    world.patch_status(RUN, "set-1", broken).await;
    let why = "status.timeline[0].at of RolloutRun set-1 cannot be read: kubectl -n argocd edit rolloutrun set-1 \
               --subresource status (";
    world.until("ApplicationSet", "set", waits("Unreadable", why)).await;
    let run = world.until(RUN, "set-1", |_| true).await;
    assert_eq!(run["status"]["quarantine"], aborted["status"]["quarantine"], "{run}");
}

/// The commands refuse what is about nothing; written with kubectl, it was ignored in silence.
#[tokio::test]
async fn words_about_nothing_are_reported_as_st_073() {
    let world = ClusterState::start(progressive(Default::default())).await;
    let gate = json!({"name": "production", "steps": [1], "approvals": 1});
    world.create(POLICY, "careful", json!({"gates": [gate]})).await;
    world.create("ApplicationSet", "set", set(rolling())).await;
    world.compare("app", "OutOfSync", "Missing", "r1").await;
    world.until(RUN, "set-1", |run| run["status"]["phase"] == "AwaitingApproval").await;
    let words = json!({
        "approvals": [{"gate": "prodution", "by": "ann", "covers": "x"}],
        "skip": ["ap"],
        "retries": [{"by": "bob", "at": "2026-01-02T03:04:05Z", "applications": ["other"]}],
    });
    world.patch(RUN, "set-1", json!({ "spec": words })).await;
    let is_reported = |run: &Value| run["status"]["withoutEffect"].is_array();
    let run = world.until(RUN, "set-1", is_reported).await;
    let want = json!([
        "the approval of gate prodution by ann: no policy of the set has this gate; did you mean \
         production?",
        "skip: the set has no Application ap; did you mean app?",
        "the retry by bob: the set has no Application other",
    ]);
    assert_eq!(run["status"]["withoutEffect"], want, "{run}");
    let event = world.until_event("WithoutEffect").await;
    assert!(event.starts_with("run set-1: it has no effect: "), "{event}");
    let right = json!({"approvals": null, "skip": null, "retries": null});
    world.patch(RUN, "set-1", json!({ "spec": right })).await;
    let run = world.until(RUN, "set-1", |run| !is_reported(run)).await;
    let timeline = run["status"]["timeline"].as_array().unwrap();
    let said = timeline.iter().filter(|entry| entry["what"] == "WithoutEffect").count();
    assert_eq!(said, 3, "{timeline:?}");
}

/// The commands refuse them; written with kubectl, they were ignored in silence: an abort was even
/// recorded as acted on.
#[tokio::test]
async fn words_to_a_run_that_is_over_are_reported_as_st_073() {
    let world = ClusterState::start(progressive(Default::default())).await;
    world.create("ApplicationSet", "set", set(rolling())).await;
    world.compare("app", "Synced", "Healthy", "r1").await;
    let phase = |phase: &'static str| move |run: &Value| run["status"]["phase"] == phase;
    world.until(RUN, "set-1", phase("Complete")).await;
    let words = json!({
        "abort": {"by": "ann", "at": "2026-01-02T03:04:05Z"},
        "approvals": [{"gate": "production", "by": "bob", "covers": "x"}],
        "skip": ["app"],
    });
    world.patch(RUN, "set-1", json!({ "spec": words })).await;
    let said = |run: &Value| run["status"]["withoutEffect"].as_array().map_or(0, Vec::len);
    let run = world.until(RUN, "set-1", |run| said(run) == 3).await;
    let want = json!([
        "the approval of gate production by bob: the run has ended (Complete)",
        "the skip of app: the run has ended (Complete)",
        "the abort by ann: the run has ended (Complete)",
    ]);
    assert_eq!(
        (&run["status"]["withoutEffect"], &run["status"]["phase"]),
        (&want, &json!("Complete"))
    );
    world.compare("app", "OutOfSync", "Healthy", "r2").await;
    world.until(RUN, "set-2", phase("Progressing")).await;
    let words = json!({
        "abort": {"by": "ann", "at": "2026-01-02T04:04:05Z"},
        "rollback": {"by": "ann", "at": "2026-01-02T04:04:05Z"},
        "retries": [{"by": "eve", "at": "2026-01-02T04:04:05Z"}],
    });
    world.patch(RUN, "set-1", json!({ "spec": words })).await;
    let is_said = |run: &Value| {
        let text = run["status"]["withoutEffect"].to_string();
        text.contains("the retry by eve: a later run has followed this one")
    };
    let run = world.until(RUN, "set-1", is_said).await;
    // That abort of ann is named already.
    let want = [
        &want[0],
        &want[1],
        &want[2],
        &json!("the rollback by ann: a later run has followed this one"),
        &json!("the retry by eve: a later run has followed this one"),
    ];
    assert_eq!(run["status"]["withoutEffect"], json!(want), "{run}");
    let event = "run set-1: it has no effect: the retry by eve: a later run has followed this one";
    world.until_note("WithoutEffect", |note| note == event).await;
    let other = world.until(RUN, "set-2", |_| true).await;
    assert_eq!(other["status"]["phase"], "Progressing", "{other}");
}

/// It stayed without a status, as if no controller had read it.
#[tokio::test]
async fn a_policy_that_selects_no_set_says_so_as_st_001() {
    let world = ClusterState::start(progressive(Default::default())).await;
    world.create("ApplicationSet", "set", set(rolling())).await;
    let other = json!({"applicationSets": {"names": ["other"]}, "paused": true});
    world.create(POLICY, "careful", other).await;
    let is_reported = |policy: &Value| condition(policy, "Valid")["reason"] == "SelectsNone";
    let policy = world.until(POLICY, "careful", is_reported).await;
    assert_eq!(condition(&policy, "Valid")["status"], "True", "{policy}");
    world.patch(POLICY, "careful", json!({"spec": {"applicationSets": {"names": ["set"]}}})).await;
    let policy = world.until(POLICY, "careful", |policy| policy["status"]["selected"] == 1).await;
    assert_eq!(condition(&policy, "Valid")["reason"], "Valid", "{policy}");
}

/// What reads the health of a policy from its status waited without end after a change that
/// reports nothing new.
#[tokio::test]
async fn the_status_of_a_policy_is_of_its_last_generation_as_st_001() {
    let world = ClusterState::start(progressive(Default::default())).await;
    world.create("ApplicationSet", "set", set(rolling())).await;
    let gate = |approvals: u64| {
        let gate = json!({"name": "production", "steps": [1], "approvals": approvals});
        json!({"gates": [gate]})
    };
    world.create(POLICY, "careful", gate(1)).await;
    let is_observed = |policy: &Value| {
        let observed = &policy["status"]["observedGeneration"];
        observed.is_i64() && *observed == policy["metadata"]["generation"]
    };
    let first = world.until(POLICY, "careful", is_observed).await;
    world.patch(POLICY, "careful", json!({"spec": gate(2)})).await;
    let changed = |policy: &Value| {
        policy["metadata"]["generation"] != first["metadata"]["generation"] && is_observed(policy)
    };
    let policy = world.until(POLICY, "careful", changed).await;
    world.delete(POLICY, "careful").await;
    world.until_gone(POLICY, "careful").await;
    world.create(POLICY, "careful", gate(2)).await;
    let is_another = |another: &Value| {
        another["metadata"]["uid"] != policy["metadata"]["uid"] && is_observed(another)
    };
    world.until(POLICY, "careful", is_another).await;
}

/// With a misspelt annotation the rollout went on, and nothing said so.
#[tokio::test]
async fn a_misspelt_pause_is_reported_as_st_020() {
    let world = ClusterState::start(progressive(Default::default())).await;
    world.create("ApplicationSet", "set", set(rolling())).await;
    let annotate = |key: &str, value: Value| json!({"metadata": {"annotations": {key: value}}});
    let misspelt = annotate("wavegate.dev/pause", json!("incident 42"));
    world.patch("ApplicationSet", "set", misspelt).await;
    let text = "metadata.annotations: wavegate.dev/pause has no effect on an ApplicationSet; did you \
                mean wavegate.dev/paused?";
    let reason = "ApplicationSetInvalidRolloutConfig";
    world.until_condition("InvalidRolloutConfig", "True", reason, text).await;
    assert_eq!(world.until_event(reason).await, text);
    world.patch("ApplicationSet", "set", annotate("wavegate.dev/pause", json!(null))).await;
    world.patch("ApplicationSet", "set", annotate("wavegate.dev/paused", json!("x"))).await;
    let reason = "ApplicationSetValidRolloutConfig";
    world.until_condition("InvalidRolloutConfig", "False", reason, "").await;
}

/// The command refuses it; written with kubectl, it was recorded as acted on.
#[tokio::test]
async fn a_skip_while_a_run_goes_back_is_reported_as_st_073() {
    let world = ClusterState::start(progressive(Default::default())).await;
    world.create("ApplicationSet", "set", set(rolling())).await;
    world.compare("app", "OutOfSync", "Missing", "r1").await;
    world.rolled_out("app", "r1").await;
    let live = world.until("Application", "app", |_| true).await;
    let state = &live["status"]["operationState"];
    let last = json!({
        "id": 0, "revision": "r1", "source": live["spec"]["source"],
        "deployedAt": state["finishedAt"], "deployStartedAt": state["startedAt"],
    });
    world.patch("Application", "app", json!({"status": {"history": [last]}})).await;
    world.compare("app", "OutOfSync", "Healthy", "r2").await;
    world.rolled_out("app", "r2").await;
    let rollback = json!({"by": "ann", "at": "2026-01-02T03:04:05Z"});
    world.patch(RUN, "set-2", json!({"spec": {"rollback": rollback}})).await;
    world.until(RUN, "set-2", |run| run["status"]["phase"] == "RollingBack").await;
    world.patch(RUN, "set-2", json!({"spec": {"skip": ["app"]}})).await;
    let why = "the skip of app: the run goes back, and a skip keeps nothing from its way back";
    let is_told = |run: &Value| run["status"]["withoutEffect"] == json!([why]);
    let run = world.until(RUN, "set-2", is_told).await;
    assert_eq!(run["status"]["skipped"], Value::Null, "{run}");
    let event = world.until_event("WithoutEffect").await;
    assert_eq!(event, format!("run set-2: it has no effect: {why}"));
    assert_eq!(world.events("Skipped").await, [""; 0]);
    let live = |live: &Value| live["operation"]["sync"]["revision"] == "r1";
    world.until("Application", "app", live).await;
}

/// The timeline named nobody for a skip, its undo, a pause and a resume.
#[tokio::test]
async fn the_timeline_says_who_paused_resumed_and_skipped_as_st_005() {
    let world = ClusterState::start(progressive(Default::default())).await;
    // With one that is not skipped, so that the run goes on.
    world.create("ApplicationSet", "set", fleet(&[("app", "dev"), ("b", "dev")], rolling())).await;
    for name in ["app", "b"] {
        world.compare(name, "OutOfSync", "Missing", "r1").await;
    }
    let phase = |phase: &'static str| move |run: &Value| run["status"]["phase"] == phase;
    let has = |what: &'static str, subject: &'static str, by: &'static str| {
        move |run: &Value| {
            let timeline = run["status"]["timeline"].as_array().cloned().unwrap_or_default();
            let text =
                |entry: &Value, field: &str| entry[field].as_str().unwrap_or_default().to_owned();
            timeline.iter().any(|entry| {
                entry["what"] == what
                    && text(entry, "subject") == subject
                    && text(entry, "by") == by
            })
        }
    };
    let annotate = |annotations: Value| json!({"metadata": {"annotations": annotations}});
    world.until(RUN, "set-1", |run| run["status"]["phase"].is_string()).await;
    let paused = json!({"wavegate.dev/paused": "freeze", "wavegate.dev/paused-by": "ann"});
    world.patch("ApplicationSet", "set", annotate(paused)).await;
    world.until(RUN, "set-1", has("Paused", "", "ann")).await;
    let skipped = json!({"skip": ["app"], "skips": [{"by": "eve", "applications": ["app"]}]});
    world.patch(RUN, "set-1", json!({ "spec": skipped })).await;
    world.until(RUN, "set-1", has("Skipped", "app", "eve")).await;
    let undone = json!({"skip": [], "skips": [
        {"by": "eve", "applications": ["app"]}, {"by": "bob", "applications": ["app"], "undo": true}]});
    world.patch(RUN, "set-1", json!({ "spec": undone })).await;
    world.until(RUN, "set-1", has("Unskipped", "app", "bob")).await;
    let resumed = json!({"wavegate.dev/paused": null, "wavegate.dev/paused-by": null,
        "wavegate.dev/resumed-by": "kim"});
    world.patch("ApplicationSet", "set", annotate(resumed)).await;
    world.until(RUN, "set-1", has("Resumed", "", "kim")).await;
    // Who does not say so is not taken for the last one who did: the program is named.
    world.patch("ApplicationSet", "set", annotate(json!({"wavegate.dev/paused": "x"}))).await;
    world.until(RUN, "set-1", has("Paused", "", "test")).await;
    world.until(RUN, "set-1", phase("Paused")).await;
    let set = world.until("ApplicationSet", "set", |_| true).await;
    let known = set["status"]["conditions"].as_array().unwrap().iter();
    let invalid =
        known.filter(|one| one["type"] == "InvalidRolloutConfig" && one["status"] == "True");
    assert_eq!(invalid.count(), 0, "its annotations are known: {}", set["status"]["conditions"]);
}
