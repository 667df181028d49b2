//! Events of a set: each transition once, with what people have to know of it.

use super::*;
use crate::application_set::decision::{Decision, Snapshot};
use crate::application_set::deletion::deletion_guard::HeldDeletions;
use crate::application_set::plan::outcome::{Ended, WriteAct, WriteFailure, WriteOutcome};
use crate::application_set::plan::windows::Facts;
use crate::application_set::plan::write_plan::Release;
use crate::application_set::status;
use crate::application_set::status::events::{self, SetEvent};
use crate::application_set::status::findings::{self, Failure};
use crate::application_set::status::report::{Carried, Recorded, Reported, record_outcome};
use crate::application_set::status::stored::{Status, StoredApplicationSet};
use crate::rollout::run::{LateRun, RunDecision};
use crate::rollout::wait::{RolloutWait, WaitKind};
use wavegate_api::run::{RolloutRunStatus, TimelineEntry};

fn at(second: i64) -> jiff::Timestamp {
    jiff::Timestamp::from_second(1_700_000_000 + second).unwrap()
}

fn with_condition(kind: &str, status: &str, message: &str) -> Status {
    Status::read(&json!({"conditions": [{"type": kind, "status": status, "message": message}]}))
}

/// AS-611: what is wrong is reported when it appears and when it changes, and not with each
/// reconcile; its end needs no warning.
#[test]
fn what_is_wrong_is_reported_when_it_changes_as_611() {
    type Of = fn(&Status, &Status) -> Option<SetEvent>;
    let all: [(&str, Of, &str, &str); 3] = [
        (
            "InvalidRolloutConfig",
            events::misconfigured,
            "ApplicationSetInvalidRolloutConfig",
            "Rollout",
        ),
        ("DeletionsHeld", events::deletions_held, "DeletionsHeld", "Delete"),
        (
            "ErrorOccurred",
            |old, new| {
                let failure = Failure { reason: "SomeError", message: "a".to_owned() };
                events::failure_event(old, new, Some(&failure))
            },
            "SomeError",
            "Reconcile",
        ),
    ];
    for (kind, of, reason, action) in all {
        let none = Status::default();
        let (one, other) = (with_condition(kind, "True", "a"), with_condition(kind, "True", "b"));
        let over = with_condition(kind, "False", "a");
        let event = of(&none, &one).unwrap();
        assert!(event.warning, "{kind}");
        assert_eq!((event.reason, event.action, event.text.as_str()), (reason, action, "a"));
        assert_eq!(of(&one, &one), None, "{kind}: it is the same");
        assert!(of(&one, &other).is_some(), "{kind}: it has changed");
        assert!(of(&over, &one).is_some(), "{kind}: it is back");
        if kind != "ErrorOccurred" {
            assert_eq!(of(&one, &over), None, "{kind}: it is over");
            assert_eq!(of(&one, &none), None, "{kind}: it is gone");
        }
    }
    assert_eq!(events::failure_event(&Status::default(), &Status::default(), None), None);
}

fn decision(name: &str, news: Vec<TimelineEntry>, late: Vec<LateRun>) -> RunDecision {
    RunDecision {
        name: name.to_owned(),
        new: None,
        status: RolloutRunStatus::default(),
        is_urgent: false,
        is_of_shares: false,
        must_be_stored: false,
        superseded: None,
        terminates: Vec::new(),
        news,
        late,
    }
}

/// AS-611: what people and policies do to a run is an Event of its set; what goes on as planned is
/// none. What is bad, or ends it, is a warning.
#[test]
fn what_happens_to_a_run_is_an_event_of_its_set_as_611() {
    let entry = |what: &str, by: &str, message: &str| TimelineEntry {
        what: what.to_owned(),
        subject: "prod".to_owned(),
        by: by.to_owned(),
        message: message.to_owned(),
        ..TimelineEntry::default()
    };
    for (what, by, message, want) in [
        ("GateApproved", "ann", "", Some((false, "GateApproved", "gate prod is approved by ann"))),
        ("GateApproved", "", "", Some((false, "GateApproved", "gate prod is approved"))),
        ("GateOpened", "", "", Some((false, "GateOpened", "gate prod opens"))),
        (
            "ApprovalVoid",
            "ann",
            "other targets",
            Some((true, "ApprovalVoid", "gate prod, approved by ann: other targets")),
        ),
        ("BudgetExceeded", "", "3 failed", Some((true, "BudgetExceeded", "3 failed"))),
        ("WithoutEffect", "", "x", Some((true, "WithoutEffect", "it has no effect: x"))),
        ("Paused", "ann", "", Some((false, "Paused", "Paused by ann"))),
        ("AwaitingApproval", "", "", Some((false, "AwaitingApproval", "AwaitingApproval"))),
        ("Soaking", "", "for 1h", Some((false, "Soaking", "Soaking: for 1h"))),
        ("Superseded", "", "", Some((false, "Superseded", "Superseded"))),
        ("Held", "", "3 failed", Some((true, "Held", "Held: 3 failed"))),
        ("Aborted", "ann", "", Some((true, "Aborted", "Aborted by ann"))),
        ("RollingBack", "", "", Some((true, "RollingBack", "RollingBack"))),
        (
            "CompleteWithFailures",
            "",
            "",
            Some((true, "CompleteWithFailures", "CompleteWithFailures")),
        ),
        ("Complete", "", "", None),
        ("Progressing", "", "", None),
        ("StepOpened", "", "", None),
    ] {
        let found = events::run(&decision("shop-3", vec![entry(what, by, message)], vec![]));
        let found: Vec<(bool, &str, &str)> =
            found.iter().map(|one| (one.warning, one.reason, one.text.as_str())).collect();
        let text = want.map(|(_, _, text)| format!("run shop-3: {text}"));
        let want: Vec<(bool, &str, &str)> = want
            .iter()
            .map(|(warning, reason, _)| (*warning, *reason, text.as_deref().unwrap_or_default()))
            .collect();
        assert_eq!(found, want, "{what}");
    }
    // Those of earlier runs come first, each with the name of its run.
    let late = LateRun {
        name: "shop-2".to_owned(),
        status: RolloutRunStatus::default(),
        news: vec![entry("WithoutEffect", "", "late")],
    };
    let news = vec![entry("Paused", "", "")];
    let found = events::run(&decision("shop-3", news, vec![late]));
    let texts: Vec<&str> = found.iter().map(|one| one.text.as_str()).collect();
    assert_eq!(texts, ["run shop-2: it has no effect: late", "run shop-3: Paused"]);
    assert!(events::run(&decision("shop-3", vec![], vec![])).is_empty());
}

/// Users count steps from 1.
#[test]
fn a_wait_that_takes_long_names_its_step_as_611() {
    let wait = RolloutWait {
        kind: WaitKind::Health,
        application: "web".to_owned(),
        step: 2,
        resource: None,
        message: "Progressing".to_owned(),
        since: None,
        until: None,
        write: None,
    };
    let event = events::stalled_event(&wait, at(0));
    assert!(event.warning && event.reason == "RolloutStalled");
    let want = "step 3 waits for application web since 2023-11-14T22:13:20Z: Progressing";
    assert_eq!(event.text, want);
}

fn outcome(application: &str, act: WriteAct, ended: Ended) -> WriteOutcome {
    WriteOutcome { application: application.to_owned(), act, ended }
}

/// What is reported of these outcomes, of a set whose policy allows these writes.
fn recorded(policy: Policy, decision: &Decision, outcomes: &[WriteOutcome]) -> Recorded {
    let settings = DecisionSettings { policy, ..DecisionSettings::default() };
    let projects = BTreeMap::new();
    let generated = generated_by(&set(), &settings, &[]);
    let set = StoredApplicationSet::read(&set());
    let windows = Facts { projects: &projects, clusters: &[] };
    let snapshot = Snapshot::first(&set, &generated, &settings, windows, at(0));
    let carried = Carried { set: &set, outcomes, stalled: &[], conflicts: 0 };
    record_outcome(&snapshot, decision, &carried, &mut Reported::default())
}

/// Each written Application is an Event; why a finalizer was removed is one, too, since its resources
/// stay in the cluster.
#[test]
fn what_was_written_of_applications_is_reported_as_611() {
    let delete = |name: &str, release: Option<&str>| Delete {
        name: name.to_owned(),
        uid: "u".to_owned(),
        version: None,
        release: release.map(|why| Release { json: "{}".to_owned(), why: why.to_owned() }),
    };
    let writes = WritePlan {
        deletes: vec![delete("a", Some("of a")), delete("b", Some("of b")), delete("c", None)],
        ..WritePlan::default()
    };
    let decision = Decision { writes, ..Decision::default() };
    for (name, act, ended, want) in [
        ("a", WriteAct::Create, Ended::Written, Some("Created Application a")),
        ("a", WriteAct::Update, Ended::Written, Some("Updated Application a")),
        ("a", WriteAct::Delete, Ended::Written, Some("Deleted Application a")),
        ("b", WriteAct::Release, Ended::Written, Some("so its resources stay: of b")),
        ("c", WriteAct::Release, Ended::Written, None),
        ("a", WriteAct::Start, Ended::Written, None),
        ("a", WriteAct::Annotate, Ended::Written, None),
        ("a", WriteAct::Create, Ended::Outdated, None),
        ("a", WriteAct::Delete, Ended::Held, None),
    ] {
        let found = recorded(Policy::Sync, &decision, &[outcome(name, act, ended)]).events;
        let texts: Vec<&str> = found.iter().map(|one| one.text.as_str()).collect();
        match want {
            None => assert!(texts.is_empty(), "{name} {act:?}: {texts:?}"),
            Some(want) => {
                assert_eq!(texts.len(), 1, "{name} {act:?}");
                assert!(texts[0].contains(want) && !found[0].warning, "{texts:?}");
            }
        }
    }
}

/// AS-157: the reason of the error says what could not be done, as clients compare it; of several
/// failures the first one by name is shown, with how many there are.
#[test]
fn the_reason_of_a_failed_write_says_what_it_was_as_157() {
    let failed = |name: &str, act| {
        let cause = WriteFailure { code: Some(422), text: format!("{name} is wrong") };
        outcome(name, act, Ended::Failed(cause))
    };
    for (policy, act, want) in [
        (Policy::Sync, WriteAct::Update, "UpdateApplicationError"),
        (Policy::Sync, WriteAct::Create, "UpdateApplicationError"),
        (Policy::CreateOnly, WriteAct::Create, "CreateApplicationError"),
        (Policy::Sync, WriteAct::Delete, "DeleteApplicationError"),
        (Policy::Sync, WriteAct::Release, "DeleteApplicationError"),
        (Policy::CreateDelete, WriteAct::Delete, "DeleteApplicationError"),
    ] {
        let found = recorded(policy, &Decision::default(), &[failed("a", act)]);
        let error = found.status.unwrap().condition("ErrorOccurred").unwrap().clone();
        assert_eq!(error.reason, want, "{act:?}");
    }
    let all = [failed("b", WriteAct::Update), failed("a", WriteAct::Update)];
    let found = recorded(Policy::Sync, &Decision::default(), &all);
    assert_eq!(found.error, Some((2, "application a: a is wrong".to_owned())));
}

/// The conditions of a set whose deletions wait: the error, if there is one, comes first, and leaves
/// room for what waits because of it.
#[test]
fn deletions_that_wait_are_in_the_conditions_as_183() {
    let (set, settings) = (StoredApplicationSet::read(&set()), DecisionSettings::default());
    let made = generated_by(&super::set(), &settings, &[]);
    let held = Held { applications: vec!["x".to_owned()], until: "it is fixed".to_owned() };
    let guard = HeldDeletions { reason: "GeneratorFoundNothing", message: "git".to_owned() };
    let compute = |set: &StoredApplicationSet,
                   failure: Option<&str>,
                   is_held: bool,
                   is_written: bool,
                   emptied: Option<&HeldDeletions>,
                   keeps_hold: bool| {
        let failure = failure.map(|text| Failure { reason: "SomeError", message: text.to_owned() });
        status::compute(
            &findings::Findings {
                set,
                generated: &made,
                settings: &settings,
                existing: &[],
                failure,
                up_to_date: !is_held,
                is_written,
                keeps_hold,
                rollout: None,
                held: is_held.then_some(&held),
                emptied,
                absent_settings: &[],
                redact: str::to_owned,
            },
            at(0),
        )
    };
    let text = |status: &Status, kind: &str| {
        status.condition(kind).map(|one| (one.status.clone(), one.message.clone()))
    };
    let waits = "1 application waits to be deleted until it is fixed: x";
    let plain = compute(&set, None, true, true, None, false);
    let (state, message) = text(&plain, "ResourcesUpToDate").unwrap();
    assert_eq!((state.as_str(), message.as_str()), ("False", waits));
    assert!(plain.has("ErrorOccurred", "False"), "all else is written");
    let unwritten = compute(&set, None, true, false, None, false);
    assert_eq!(text(&unwritten, "ErrorOccurred"), None, "it is not known yet");
    let long = "e".repeat(2000);
    let failed = compute(&set, Some(&long), true, false, None, false);
    let (_, message) = text(&failed, "ErrorOccurred").unwrap();
    assert_eq!(message, format!("{}; meanwhile {waits}", "e".repeat(700)));
    let alone = compute(&set, Some(&long), false, false, None, false);
    assert_eq!(text(&alone, "ErrorOccurred").unwrap().1, "e".repeat(1024));
    // The condition of a hold stays while it is not known whether it is over.
    let holds = compute(&set, None, true, true, Some(&guard), false);
    assert!(holds.has("DeletionsHeld", "True"));
    let later = StoredApplicationSet { status: holds, ..set };
    assert!(compute(&later, None, true, true, None, true).has("DeletionsHeld", "True"));
    let over = compute(&later, None, true, true, None, false);
    assert_eq!(text(&over, "DeletionsHeld"), None);
}
