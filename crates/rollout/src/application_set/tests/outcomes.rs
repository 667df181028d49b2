//! What is reported of the writes of a reconcile: the first failure, and the deletions that wait.

use super::*;
use crate::application_set::decision::{Decision, NextReconcile, Snapshot};
use crate::application_set::plan::outcome::{Ended, WriteAct, WriteFailure, WriteOutcome};
use crate::application_set::plan::windows::Facts;
use crate::application_set::status::report::{Carried, Recorded, Reported, record_outcome};
use crate::application_set::status::stored::{Status, StoredApplicationSet};
use crate::application_set::status::{error_status, events::SetEvent};

fn outcome(application: &str, act: WriteAct, ended: Ended) -> WriteOutcome {
    WriteOutcome { application: application.to_owned(), act, ended }
}

fn failure(code: Option<u16>, text: &str) -> WriteFailure {
    WriteFailure { code, text: text.to_owned() }
}

/// Reports these outcomes; so many reconciles before were based on an outdated state.
fn record(reported: &mut Reported, outcomes: &[WriteOutcome], conflicts: u32) -> Recorded {
    let (settings, projects) = (DecisionSettings::default(), BTreeMap::new());
    let generated = generated_by(&set(), &settings, &[]);
    let set = StoredApplicationSet::read(&set());
    let windows = Facts { projects: &projects, clusters: &[] };
    let now = jiff::Timestamp::from_second(1_700_000_000).unwrap();
    let snapshot = Snapshot::first(&set, &generated, &settings, windows, now);
    let carried = Carried { set: &set, outcomes, stalled: &[], conflicts };
    record_outcome(&snapshot, &Decision::default(), &carried, reported)
}

fn condition(status: &Status, kind: &str) -> Value {
    let status = status.to_json();
    let conditions = status["conditions"].as_array().unwrap();
    conditions.iter().find(|one| one["type"] == kind).cloned().unwrap_or_default()
}

/// AS-157: the status does not change with every try, but with every new cause.
#[test]
fn a_failure_keeps_its_first_text_until_it_is_another_one() {
    let mut reported = Reported::default();
    for (application, code, text, want) in [
        ("a", None, "port 1", "application a: port 1"),
        ("a", None, "port 2", "application a: port 1"),
        ("b", None, "port 3", "application b: port 3"),
        ("b", Some(422), "no", "application b: no"),
        ("b", Some(422), "never", "application b: never"),
        ("b", Some(422), "never", "application b: never"),
    ] {
        let cause = failure(code, text);
        let outcomes = [outcome(application, WriteAct::Update, Ended::Failed(cause.clone()))];
        let recorded = record(&mut reported, &outcomes, 0);
        let error = condition(&recorded.status.unwrap(), "ErrorOccurred");
        assert_eq!(error["message"], want, "{application} {text}");
        let why = reported.failing().why(application).unwrap();
        assert!(why.is_same(&cause), "{application} {text}: {why}");
        let other = if application == "a" { "b" } else { "a" };
        assert_eq!(reported.failing().why(other), None);
    }
    let written = [outcome("b", WriteAct::Update, Ended::Written)];
    assert!(record(&mut reported, &written, 0).status.is_none());
    assert_eq!(reported.failing().why("b"), None);
}

/// AS-148: deletions wait for the first part of a generated Application that is not written. That
/// is reported when it lasts.
#[test]
fn skipped_deletions_name_the_write_that_they_wait_for() {
    let outdated = [
        outcome("a", WriteAct::Create, Ended::Written),
        outcome("b", WriteAct::Annotate, Ended::Outdated),
        outcome("c", WriteAct::Update, Ended::Outdated),
        outcome("d", WriteAct::Start, Ended::Outdated),
        outcome("x", WriteAct::Delete, Ended::Held),
        outcome("y", WriteAct::Delete, Ended::Held),
    ];
    for (conflicts, is_reported) in [(0, false), (2, false), (3, true), (4, true)] {
        let recorded = record(&mut Reported::default(), &outdated, conflicts);
        assert_eq!(recorded.next, NextReconcile::Again);
        assert_eq!(recorded.status.is_some(), is_reported, "{conflicts}");
        let Some(status) = recorded.status else { continue };
        let message = condition(&status, "ResourcesUpToDate")["message"].to_string();
        assert!(message.contains("application c is written"), "{message}");
        assert!(message.contains('x') && message.contains('y'), "{message}");
    }
    // Without a deletion nothing waits, however long it lasts.
    let recorded = record(&mut Reported::default(), &outdated[..4], 4);
    assert!(recorded.status.is_none());
}

#[test]
fn a_refresh_that_cannot_be_ended_is_an_error_of_the_set() {
    let set = StoredApplicationSet::read(&set());
    let now = jiff::Timestamp::from_second(1_700_000_000).unwrap();
    let text = format!("no right {}", "x".repeat(1000));
    let (status, event): (Status, Option<SetEvent>) =
        error_status::refresh_failed(&set, &text, str::to_owned, now);
    let error = condition(&status, "ErrorOccurred");
    assert_eq!(
        (&error["status"], &error["reason"]),
        (&json!("True"), &json!("RefreshApplicationError"))
    );
    assert_eq!(error["message"], text[..500]);
    assert_eq!(event.unwrap().reason, "RefreshApplicationError");
}
