//! Reports of rollouts, from raw objects.

mod states;
mod table;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::{Report, ReportState, RolloutOutcome};
use crate::application_set::status::report_input;
use crate::rollout::budget::Limit;
use crate::rollout::phase::Phase;
use crate::rollout::wait::{EndedBy, WaitKind};

const AT: &str = "2026-01-02T03:04:05Z";

/// A set with a step for dev and one for prod with this `maxUpdate`.
fn set(max_update: Value, status: Value) -> Value {
    let step = |env: &str, most: Value| json!({"matchExpressions": [{"key": "env", "operator": "In", "values": [env]}], "maxUpdate": most});
    json!({
        "metadata": {"name": "shop", "namespace": "argocd", "uid": "u"},
        "spec": {"strategy": {"type": "RollingSync", "rollingSync": {
            "steps": [step("dev", Value::Null), step("prod", max_update)]}}},
        "status": status,
    })
}

fn entry(name: &str, step: &str, phase: &str, message: &str) -> Value {
    json!({"application": name, "step": step, "status": phase, "message": message,
        "targetRevisions": ["r2"], "lastTransitionTime": AT})
}

/// dev is complete; of prod, `a` and `b` are in these phases.
fn entries(a: &str, b: &str) -> Value {
    json!([entry("dev", "1", "Healthy", "m"), entry("a", "2", a, "m"), entry("b", "2", b, "m")])
}

fn waits(kind: WaitKind, reason: &str) -> Value {
    json!({"step": 2, "steps": 2, "progress": "1/3", "message": "step 2 of 2", "waitingFor": [
        {"application": "a", "kind": kind.name(), "reason": reason, "since": AT}]})
}

fn live(env: &str, status: Value) -> Value {
    json!({
        "metadata": {"labels": {"env": env}, "ownerReferences": [{"kind": "ApplicationSet",
            "apiVersion": "argoproj.io/v1alpha1", "name": "shop", "uid": "u", "controller": true}]},
        "spec": {"source": {"repoURL": "r"}, "destination": {"name": "c"}},
        "status": status,
    })
}

fn done() -> Value {
    json!({"sync": {"status": "Synced", "revision": "r2",
        "comparedTo": {"source": {"repoURL": "r"}, "destination": {"name": "c"}}},
        "health": {"status": "Healthy"}})
}

fn out_of_sync() -> Value {
    let mut status = done();
    status["sync"]["status"] = "OutOfSync".into();
    status
}

fn after(phase: &str, message: &str) -> Value {
    json!({"sync": {"status": "OutOfSync"}, "health": {"status": "Missing"}, "operationState": {
        "phase": phase, "message": message, "operation": {"sync": {}}, "startedAt": AT}})
}

fn read(set: &Value, applications: &[(&str, Value)]) -> Report {
    let named = applications.iter().map(|(name, live)| {
        let mut live = live.clone();
        live["metadata"]["name"] = (*name).into();
        ((*name).to_owned(), Arc::new(live))
    });
    report_input::read_report(set, &named.collect::<BTreeMap<String, Arc<Value>>>(), None)
}

/// The report of dev, which is done, and of these.
fn of(set: &Value, a: Value, b: Value) -> Report {
    read(set, &[("dev", live("dev", done())), ("a", live("prod", a)), ("b", live("prod", b))])
}

fn word(outcome: &RolloutOutcome) -> &'static str {
    match outcome {
        RolloutOutcome::Running => "Running",
        RolloutOutcome::Complete => "Complete",
        RolloutOutcome::RunEnded => "RunEnded",
        RolloutOutcome::Blocked { .. } => "Blocked",
        RolloutOutcome::Manual { .. } => "Manual",
        RolloutOutcome::Invalid { .. } => "Invalid",
    }
}

/// Both statuses lead to the same: that of our controller, and one without `rollout` (Argo CD's,
/// or its definition removes the field).
#[test]
fn steps_counts_waits_and_the_outcome_follow_from_either_status() {
    let held = "HeldByPerson: alice synced it to r1; the rollout wants r2";
    let failed = || after("Failed", "no");
    let cases = [
        // maxUpdate, phases, the Applications: limit, in flight, kind of the first wait, outcome.
        (
            json!(null),
            ["Waiting", "Waiting"],
            [out_of_sync(), out_of_sync()],
            (Limit::Unlimited, 0, WaitKind::Promotion, "Running"),
        ),
        (
            json!(1),
            ["Waiting", "Progressing"],
            [out_of_sync(), after("Running", "")],
            (Limit::AtMost(1), 1, WaitKind::MaxUpdate, "Running"),
        ),
        (
            json!(1),
            ["Waiting", "Progressing"],
            [out_of_sync(), failed()],
            (Limit::AtMost(1), 1, WaitKind::MaxUpdate, "Blocked"),
        ),
        (
            json!("50%"),
            ["Pending", "Waiting"],
            [out_of_sync(), out_of_sync()],
            (Limit::AtMost(1), 1, WaitKind::OperationStart, "Running"),
        ),
        (
            json!("50%"),
            ["Progressing", "Waiting"],
            [failed(), out_of_sync()],
            (Limit::AtMost(1), 1, WaitKind::FailedOperation, "Blocked"),
        ),
        (
            json!("100%"),
            ["Progressing", "Waiting"],
            [failed(), out_of_sync()],
            (Limit::AtMost(2), 1, WaitKind::FailedOperation, "Running"),
        ),
        (
            json!(0),
            ["Waiting", "Waiting"],
            [out_of_sync(), out_of_sync()],
            (Limit::AtMost(0), 0, WaitKind::ManualSync, "Manual"),
        ),
        (
            json!(0),
            ["Waiting", "Healthy"],
            [out_of_sync(), done()],
            (Limit::AtMost(0), 0, WaitKind::ManualSync, "Manual"),
        ),
    ];
    for (max_update, [a, b], [live_a, live_b], (limit, in_flight, kind, outcome)) in cases {
        let name = format!("{max_update} {a} {b}");
        for rollout in [Value::Null, waits(kind, "why")] {
            let ours = !rollout.is_null();
            let status = json!({"applicationStatus": entries(a, b), "rollout": rollout});
            let report = of(&set(max_update.clone(), status), live_a.clone(), live_b.clone());
            assert_eq!(
                (report.state(), report.open_step),
                (ReportState::Rolling, Some(1)),
                "{name}"
            );
            let [dev, prod] = report.steps.as_slice() else { panic!("{name}") };
            assert_eq!((dev.count.total, dev.count.done, prod.count.total), (1, 1, 2), "{name}");
            assert_eq!((prod.limit(), prod.count.promoted), (limit, in_flight), "{name}");
            let waits = report.waits(false);
            let wait = waits.iter().find(|wait| wait.application == "a").unwrap();
            // A failure is reported by the Application itself.
            assert_eq!((wait.step, wait.kind), (1, kind), "{name}: {waits:?}");
            assert_eq!(word(&report.outcome()), outcome, "{name} {ours}");
        }
    }
    let mut first = entry("a", "2", "Waiting", held);
    first["message"] = held.into();
    let status = json!({"applicationStatus": [entry("dev", "1", "Healthy", "m"), first, entry("b", "2", "Healthy", "m")]});
    let report = of(&set(Value::Null, status), out_of_sync(), done());
    let RolloutOutcome::Blocked { application, why, step, behind } = report.outcome() else {
        panic!("{:?}", report.outcome())
    };
    assert_eq!((application.as_str(), why.kind), ("a", WaitKind::HeldByPerson));
    assert_eq!((step, behind), (Some(1), 0));
    assert_eq!(report.waits(false)[0].kind, WaitKind::HeldByPerson);
}

/// A status names ten waits: those that a run holds as well were taken for such as can start.
#[test]
fn what_is_held_beyond_the_waits_of_a_status_ends_a_watch() {
    let names: Vec<String> = (0..12).map(|n| format!("a{n:02}")).collect();
    let outcome = |kinds: &[WaitKind], phase: &str, last: Value| {
        let wait = |(name, kind): (&String, &WaitKind)| json!({"application": name, "kind": kind.name(), "reason": "why", "since": AT});
        let waiting: Vec<Value> = names.iter().zip(kinds).map(wait).collect();
        let phase_of = |name: &str| if name == "a11" { phase } else { "Waiting" };
        let mut entries = vec![entry("dev", "1", "Healthy", "m")];
        entries.extend(names.iter().map(|name| entry(name, "2", phase_of(name), "m")));
        let rollout = json!({"step": 2, "steps": 2, "progress": "1/13", "message": "step 2 of 2", "waitingFor": waiting});
        let set = set(Value::Null, json!({"applicationStatus": entries, "rollout": rollout}));
        let mut applications = vec![("dev", live("dev", done()))];
        applications.extend(names.iter().map(|name| (&**name, live("prod", out_of_sync()))));
        applications.pop();
        applications.push(("a11", live("prod", last)));
        let report = read(&set, &applications);
        (word(&report.outcome()), report.may_be_held(&report.members["a10"]))
    };
    let quarantined = [WaitKind::Quarantined; 10];
    let with = |kind: WaitKind| {
        let mut kinds = quarantined;
        kinds[3] = kind;
        kinds
    };
    assert_eq!(outcome(&quarantined, "Waiting", out_of_sync()), ("Blocked", true));
    let failed = with(WaitKind::FailedOperation);
    assert_eq!(outcome(&failed, "Waiting", out_of_sync()), ("Blocked", true));
    // A person is asked on purpose.
    let approval = [WaitKind::Approval; 10];
    assert_eq!(outcome(&approval, "Waiting", out_of_sync()), ("Running", true));
    // One of them goes on, is named with another wait, or would be named.
    let running = after("Running", "");
    assert_eq!(outcome(&quarantined, "Progressing", running), ("Running", true));
    let soak = with(WaitKind::Soak);
    assert_eq!(outcome(&soak, "Waiting", out_of_sync()), ("Running", false));
    assert_eq!(outcome(&quarantined[1..], "Waiting", out_of_sync()), ("Running", false));
}

/// The first line of `explain` named another Application than that of `status --watch`.
#[test]
fn what_a_person_continues_is_waited_for_first_then_what_is_in_flight() {
    let first = |a: (&str, Value), b: (&str, Value)| {
        let status = json!({"applicationStatus": entries(a.0, b.0),
            "rollout": waits(WaitKind::MaxUpdate, "1 of 1 are in flight")});
        let report = of(&set(json!(1), status), a.1, b.1);
        let waits = report.waits(false);
        let foremost = report.foremost().unwrap();
        assert_eq!(foremost, waits[0]);
        (foremost.application, foremost.kind)
    };
    let waiting = || ("Waiting", out_of_sync());
    let failed = first(waiting(), ("Progressing", after("Failed", "no")));
    assert_eq!(failed, ("b".to_owned(), WaitKind::FailedOperation));
    let running = first(waiting(), ("Progressing", after("Running", "")));
    assert_eq!(running, ("b".to_owned(), WaitKind::Operation));
    let mut whole = done();
    whole["operationState"] = json!({"phase": "Succeeded", "operation": {"sync": {}}});
    let done = first(waiting(), ("Progressing", whole));
    assert_eq!(done, ("a".to_owned(), WaitKind::MaxUpdate));
}

/// Each situation that only a person ends has a kind that says so.
#[test]
fn the_kind_of_a_wait_says_who_ends_it() {
    let ended = |phase: &str| {
        let mut status = after(phase, "no");
        status["operationState"]["finishedAt"] = AT.into();
        status["reconciledAt"] = AT.into();
        status["health"]["status"] = "Healthy".into();
        status
    };
    let with = |mut status: Value, field: &str, value: Value| {
        status[field] = value;
        status
    };
    let mut confirm = after("Running", "waiting for pruning confirmation of /ConfigMap/a");
    confirm["resources"] = json!([]);
    let error = json!([{"type": "ComparisonError", "message": "no such file"}]);
    let mut automated = ended("Succeeded");
    automated["health"]["status"] = "Progressing".into();
    let cases = [
        ("Progressing", ended("Failed"), WaitKind::FailedOperation, EndedBy::Person),
        ("Progressing", ended("Succeeded"), WaitKind::OutOfSync, EndedBy::Person),
        ("Progressing", automated, WaitKind::Health, EndedBy::Events),
        (
            "Progressing",
            with(ended("Succeeded"), "health", json!({"status": "Degraded"})),
            WaitKind::Degraded,
            EndedBy::Person,
        ),
        (
            "Progressing",
            with(ended("Succeeded"), "reconciledAt", Value::Null),
            WaitKind::Health,
            EndedBy::Events,
        ),
        (
            "Progressing",
            with(ended("Succeeded"), "conditions", error.clone()),
            WaitKind::ErrorCondition,
            EndedBy::Person,
        ),
        ("Progressing", confirm.clone(), WaitKind::Confirmation, EndedBy::Person),
        ("Waiting", confirm, WaitKind::Confirmation, EndedBy::Person),
        ("Progressing", after("Running", ""), WaitKind::Operation, EndedBy::Events),
        ("Waiting", after("Running", ""), WaitKind::OtherOperation, EndedBy::Events),
        ("Waiting", out_of_sync(), WaitKind::Promotion, EndedBy::Events),
        ("Waiting", json!({}), WaitKind::Comparison, EndedBy::Events),
        ("Waiting", json!({"conditions": error}), WaitKind::ErrorCondition, EndedBy::Person),
        ("Pending", out_of_sync(), WaitKind::OperationStart, EndedBy::Events),
    ];
    for (phase, live, kind, ended_by) in cases {
        let status = json!({"applicationStatus": entries(phase, "Healthy")});
        let report = of(&set(Value::Null, status), live.clone(), done());
        assert_eq!(report.kind(&report.members["a"]), kind, "{phase} {live}");
        assert_eq!(kind.ended_by(), ended_by, "{kind:?}");
        let is_held = report.hold(&report.members["a"]).is_some();
        assert_eq!(is_held, ended_by == EndedBy::Person, "{phase} {live}");
        assert_eq!(report.outcome().is_stuck(), is_held, "{phase} {live}");
    }
}

/// The kind was FailedOperation, which the controller never says of what is Waiting.
#[test]
fn a_failed_sync_of_a_waiting_application_waits_for_its_turn() {
    let mut failed = out_of_sync();
    failed["operationState"] = json!({"phase": "Failed", "message": "no", "startedAt": AT,
        "operation": {"sync": {}}, "syncResult": {"revision": "r2"}});
    for (max_update, kind) in [
        (json!(1), WaitKind::MaxUpdate),
        (json!(2), WaitKind::Promotion),
        (json!(0), WaitKind::ManualSync),
    ] {
        let message = "Sync failed, waiting for one that succeeds: no";
        let status = json!({"applicationStatus": [entry("dev", "1", "Healthy", "m"),
            entry("a", "2", "Waiting", message), entry("b", "2", "Progressing", "m")]});
        let report = of(&set(max_update, status), failed.clone(), after("Running", ""));
        let waits = report.waits(false);
        let wait = waits.iter().find(|wait| wait.application == "a").unwrap();
        assert_eq!((wait.kind, wait.message.as_str()), (kind, message));
    }
}

#[test]
fn a_status_names_what_the_applications_do_not_show() {
    let status = |kind, reason| json!({"applicationStatus": entries("Waiting", "Healthy"), "rollout": waits(kind, reason)});
    let excluded = "its comparison is old; the annotation of its cluster excludes it";
    let invalid = "the application is invalid: no project";
    for (kind, reason, outcome) in [
        (WaitKind::Excluded, excluded, "Running"),
        (WaitKind::SyncWindow, "a sync window denies it: at night", "Running"),
        (WaitKind::Comparison, "its new spec has not been compared yet", "Running"),
        (WaitKind::FailedWrite, "its new spec cannot be written: 500", "Running"),
        (WaitKind::Invalid, invalid, "Running"),
    ] {
        let report = of(&set(Value::Null, status(kind, reason)), out_of_sync(), done());
        let wait = report.waits(false).remove(0);
        assert_eq!((wait.kind, wait.message.as_str()), (kind, reason));
        assert_eq!(word(&report.outcome()), outcome, "{kind:?}");
    }
    // One that does not exist is refused for good.
    let raw = set(Value::Null, status(WaitKind::Invalid, invalid));
    let report = read(&raw, &[("dev", live("dev", done())), ("b", live("prod", done()))]);
    assert_eq!(word(&report.outcome()), "Blocked");
    let held = report.hold(&report.members["a"]).unwrap();
    assert_eq!((held.kind, held.message.as_str()), (WaitKind::Invalid, invalid));
    let mut error = status(WaitKind::MaxUpdate, "1 of 1 are in flight");
    error["conditions"] = json!([{"type": "ErrorOccurred", "status": "True", "reason": "RenderTemplateParamsError", "message": "line 3"}]);
    let report = of(&set(Value::Null, error), out_of_sync(), done());
    let message = "line 3".to_owned();
    assert_eq!(report.outcome(), RolloutOutcome::Invalid { message, is_off: false });
    assert!(report.waits(false).is_empty(), "nothing is rolled out");
}

/// A window, an excluded cluster or an invalid template of one Application hid that another one
/// holds the slot for good, or that it has failed itself: `--watch` did not end.
/// It was explained as OutOfSync after a sync, with the advice to sync it again.
#[test]
fn what_went_back_is_held_back_and_not_out_of_sync_as_st_061() {
    let status = json!({"applicationStatus": entries("Progressing", "Waiting"),
        "rollout": waits(WaitKind::HeldBack, "it is held at r1")});
    let mut back = out_of_sync();
    back["operationState"] = json!({"phase": "Succeeded", "operation": {"sync": {}},
        "startedAt": AT, "finishedAt": AT, "syncResult": {"revision": "r1"}});
    let report = of(&set(json!(null), status), back, out_of_sync());
    let first = report.foremost().unwrap();
    assert_eq!(
        (first.application.as_str(), first.kind, first.message.as_str()),
        ("a", WaitKind::HeldBack, "it is held at r1")
    );
}

#[test]
fn what_is_reported_of_an_application_does_not_hide_who_holds_the_rollout() {
    use WaitKind as K;
    for kind in [K::SyncWindow, K::Excluded, K::Comparison, K::FailedWrite, K::Invalid] {
        let outcome = |max_update: Value, phases: [&str; 2], a: Value, b: Value| {
            let [first, second] = phases;
            let status =
                json!({"applicationStatus": entries(first, second), "rollout": waits(kind, "why")});
            of(&set(max_update, status), a, b).outcome()
        };
        let failed = || after("Failed", "no");
        let behind = outcome(json!(1), ["Waiting", "Progressing"], out_of_sync(), failed());
        assert!(
            matches!(&behind, RolloutOutcome::Blocked { application, .. } if application == "b"),
            "{kind:?}: {behind:?}"
        );
        let manual = outcome(json!(0), ["Waiting", "Healthy"], out_of_sync(), done());
        assert!(matches!(manual, RolloutOutcome::Manual { .. }), "{kind:?}: {manual:?}");
        let itself = outcome(json!(1), ["Progressing", "Healthy"], failed(), done());
        assert!(
            matches!(&itself, RolloutOutcome::Blocked { application, .. } if application == "a"),
            "{kind:?}: {itself:?}"
        );
        let running = after("Running", "");
        let moving = outcome(json!(1), ["Waiting", "Progressing"], running, failed());
        assert_eq!(moving, RolloutOutcome::Running, "{kind:?}");
    }
}

#[test]
fn an_attempt_that_is_waited_for_is_no_failure_and_has_its_time() {
    let mut retried = after(
        "Running",
        "one or more objects failed to apply, reason: denied. Retrying attempt #1 at 3:04AM.",
    );
    retried["operationState"]["retryCount"] = 1.into();
    retried["operationState"]["finishedAt"] = "2026-01-02T03:04:10Z".into();
    retried["operationState"]["operation"] =
        json!({"retry": {"limit": 3, "backoff": {"duration": "8s"}}});
    let status = json!({"applicationStatus": entries("Progressing", "Healthy")});
    let report = of(&set(Value::Null, status), retried, done());
    assert_eq!(report.outcome(), RolloutOutcome::Running);
    let wait = report.waits(false).remove(0);
    assert_eq!(wait.kind, WaitKind::Operation);
    assert_eq!(wait.until, "2026-01-02T03:04:18Z".parse().ok());
    assert!(wait.message.starts_with("attempt 2 of 4 at 03:04:18Z"), "{}", wait.message);
}

/// The status of a set follows its Applications.
#[test]
fn a_promotion_has_started_when_its_operation_is_seen() {
    let with = |promotion: &str| {
        let mut running = after("Running", "");
        running["operationState"]["operation"] =
            json!({"info": [{"name": "RollingSync", "value": promotion}]});
        let status = json!({"applicationStatus": entries("Pending", "Healthy")});
        of(&set(Value::Null, status), running, done()).members["a"].phase()
    };
    assert_eq!(with(AT), Some(Phase::Progressing));
    assert_eq!(with("2026-01-02T03:04:04Z"), Some(Phase::Pending), "of the promotion before");
}

/// In reverse order, prod is deleted before dev.
#[test]
fn a_deletion_waits_for_what_is_being_deleted() {
    let mut raw = set(Value::Null, json!({"applicationStatus": entries("Healthy", "Healthy")}));
    raw["metadata"]["deletionTimestamp"] = AT.into();
    let mut going = live("prod", done());
    going["metadata"]["deletionTimestamp"] = AT.into();
    going["metadata"]["finalizers"] = json!(["resources-finalizer.argocd.argoproj.io"]);
    let report = read(&raw, &[("dev", live("dev", done())), ("a", going)]);
    assert_eq!(
        (report.state(), report.outcome()),
        (ReportState::Deleting, RolloutOutcome::Running)
    );
    let waits = report.waits(true);
    assert_eq!((waits.len(), waits[0].application.as_str()), (1, "a"));
    assert!(waits[0].message.contains("held by the finalizer"), "{}", waits[0].message);
    assert_eq!(waits[0].since, AT.parse().ok());
}

#[test]
fn sets_without_a_rollout_have_their_own_outcomes() {
    let mut all_at_once = set(Value::Null, json!({"conditions": []}));
    all_at_once["spec"] = json!({});
    let state = |a| of(&all_at_once, a, done());
    let report = state(done());
    assert_eq!((report.state(), report.progress()), (ReportState::AllAtOnce, (3, 3)));
    assert_eq!(report.outcome(), RolloutOutcome::Complete);
    assert_eq!(word(&state(after("Failed", "no")).outcome()), "Blocked");
    let mut compared = out_of_sync();
    compared["reconciledAt"] = AT.into();
    assert_eq!(word(&state(compared).outcome()), "Manual", "automated sync is not enabled");
    let off = of(&set(Value::Null, json!({"conditions": []})), out_of_sync(), done());
    assert_eq!(off.state(), ReportState::SwitchedOff);
    assert!(
        matches!(off.outcome(), RolloutOutcome::Invalid { is_off: true, .. }),
        "{:?}",
        off.outcome()
    );
    let unseen = of(&set(Value::Null, Value::Null), out_of_sync(), done());
    assert_eq!((unseen.state(), unseen.outcome()), (ReportState::Unseen, RolloutOutcome::Running));
}

/// A large set lists only some entries: the others follow from the records.
#[test]
fn entries_that_are_not_listed_are_implied() {
    let status = json!({
        "applicationStatus": [entry("b", "2", "Progressing", "m")],
        "rollout": {"step": 2, "steps": 2, "progress": "1/3", "listed": 1, "startedAt": AT},
    });
    let report = of(&set(Value::Null, status), out_of_sync(), after("Running", ""));
    let phases: Vec<_> =
        report.members.values().map(|member| (member.step, member.phase())).collect();
    let want = [
        (Some(1), Some(Phase::Waiting)),
        (Some(1), Some(Phase::Progressing)),
        (Some(0), Some(Phase::Waiting)),
    ];
    assert_eq!(phases, want, "of a, b and dev");
}

/// What a watch keeps is the report of all at once.
#[test]
fn a_report_that_is_kept_equals_a_new_one() {
    let old = set(json!(1), json!({"applicationStatus": entries("Waiting", "Waiting")}));
    let new = set(
        json!("50%"),
        json!({"applicationStatus": entries("Progressing", "Waiting"),
        "rollout": waits(WaitKind::Operation, "why")}),
    );
    let mut kept = of(&old, out_of_sync(), done());
    kept.observe("c", Some(report_input::read_application(&live("prod", done()))));
    kept.read(report_input::read_set(&new));
    kept.observe("a", Some(report_input::read_application(&live("prod", after("Running", "")))));
    kept.observe("c", None);
    kept.observe("b", Some(report_input::read_application(&live("prod", out_of_sync()))));
    let fresh = of(&new, after("Running", ""), out_of_sync());
    assert_eq!((&kept.steps, kept.outcome()), (&fresh.steps, fresh.outcome()));
    let names = |report: &Report| report.members.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&kept), names(&fresh));
    let lines = |report: &Report| format!("{:?}", report.waits(true));
    assert_eq!(lines(&kept), lines(&fresh));
}

#[test]
fn a_reason_is_not_older_than_its_application() {
    let live = |phase: &str, message: &str, sync: &str| {
        json!({"status": {"sync": {"status": sync}, "health": {"status": "Healthy"},
            "operationState": {"phase": phase, "message": message}}})
    };
    let cases = [
        (
            "Progressing",
            WaitKind::Operation,
            "one or more tasks are running",
            live("Failed", "no", "OutOfSync"),
            "its sync failed: no",
        ),
        (
            "Progressing",
            WaitKind::Invalid,
            "the application is invalid: x",
            live("Failed", "no", "OutOfSync"),
            "the application is invalid: x",
        ),
        (
            "Waiting",
            WaitKind::OtherOperation,
            "another operation is running: ConfigMap a is OutOfSync",
            live("Running", "", "Synced"),
            "another operation is running",
        ),
        (
            "Waiting",
            WaitKind::OtherOperation,
            "another operation is running: ConfigMap a is OutOfSync",
            live("Succeeded", "", "Synced"),
            "it is Synced and Healthy, its step is being updated",
        ),
        (
            "Waiting",
            WaitKind::MaxUpdate,
            "1 of 1 are in flight",
            live("", "", "Synced"),
            "1 of 1 are in flight",
        ),
        (
            "Pending",
            WaitKind::OperationStart,
            "the operation to start",
            live("Succeeded", "", "Synced"),
            "the operation to start",
        ),
    ];
    let mut dry_run = live("Succeeded", "", "Synced");
    dry_run["status"]["operationState"]["operation"] = json!({"sync": {"dryRun": true}});
    let failed = "Sync failed, waiting for one that succeeds: smoke test";
    let reason = |phase: &str, kind: WaitKind, known: &str, live: Option<&Value>| {
        let mut status = json!({"applicationStatus": entries(phase, "Healthy")});
        status["rollout"] = waits(kind, known);
        let of =
            |found: &Value| crate::rollout::report::tests::live("prod", found["status"].clone());
        let named: Vec<(&str, Value)> = live.iter().map(|found| ("a", of(found))).collect();
        let report = read(&set(Value::Null, status), &named);
        report.why(&report.members["a"]).message
    };
    let of_failed = reason("Progressing", WaitKind::FailedOperation, failed, Some(&dry_run));
    assert_eq!(of_failed, failed);
    for (phase, kind, known, live, want) in cases {
        assert_eq!(reason(phase, kind, known, Some(&live)), want, "{phase}: {known}");
    }
    assert_eq!(reason("Progressing", WaitKind::Health, "known", None), "known");
}
