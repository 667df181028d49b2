//! What is reported of a reconcile, from the outcomes of its writes.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use crate::application_set::decision::{Decision, NextReconcile, Snapshot};
use crate::application_set::plan::outcome::{Ended, WriteAct, WriteFailure, WriteOutcome};
use crate::application_set::plan::write_plan::Held;
use crate::application_set::reconcile::stalls;
use crate::application_set::status;
use crate::application_set::status::events::{self, SetEvent};
use crate::application_set::status::findings::{Failure, Findings, Rollout};
use crate::application_set::status::stored::{Status, StoredApplicationSet};
use crate::application_set::status::write_failures::Failing;
use crate::rollout::RolloutPlan;
use crate::rollout::wait::RolloutWait;
use wavegate_api::conditions::application_set::reason;

/// The most characters of an API server's response in a condition, which also
/// names the Applications that wait for it.
pub(in crate::application_set) const CAUSE_LIMIT: usize = 500;

/// Deletions wait for the next reconcile if something changed during the
/// writes. This is reported after so many reconciles in a row.
const CONFLICTS_REPORTED: u32 = 3;

/// What the last reconcile reported, so that the next one does not repeat it.
/// If it is lost, the same Events are sent once more.
#[derive(Clone, Debug, Default)]
pub struct Reported {
    /// The failure in the status, by Application and cause.
    failure: Option<(String, WriteFailure)>,
    /// The Applications that could not be written.
    failing: Failing,
    /// The warnings about its generators and its template.
    warnings: BTreeSet<String>,
}

/// The outcome of a decision.
#[derive(Clone, Copy, Debug)]
pub struct Carried<'a> {
    /// The set, with the status as it was written.
    pub set: &'a StoredApplicationSet,
    /// The outcomes of the writes.
    pub outcomes: &'a [WriteOutcome],
    /// The stalled waits that were reported.
    pub stalled: &'a [RolloutWait],
    /// How many reconciles in a row before this one were based on an outdated
    /// state.
    pub conflicts: u32,
}

impl Reported {
    /// The Applications that could not be written.
    pub fn failing(&self) -> &Failing {
        &self.failing
    }
}

/// What is reported of it.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// The status, if it changes again.
    pub status: Option<Status>,
    /// The Events.
    pub events: Vec<SetEvent>,
    /// How many Applications could not be written, and the first one with the
    /// reason.
    pub error: Option<(usize, String)>,
    /// What follows.
    pub next: NextReconcile,
}

/// Evaluates the outcome of a decision.
pub fn record_outcome(
    snapshot: &Snapshot<'_>,
    decision: &Decision,
    carried: &Carried<'_>,
    reported: &mut Reported,
) -> Recorded {
    let mut events: Vec<SetEvent> = carried
        .outcomes
        .iter()
        .filter_map(|outcome| events::written(outcome, &decision.writes))
        .collect();
    let warnings = &snapshot.generated.reads.warnings;
    events.extend(warnings.difference(&reported.warnings).map(|one| events::generator(one)));
    reported.warnings.clone_from(warnings);
    let failing = failing(decision, carried.outcomes);
    events.extend(reported.failing.report(&failing, snapshot.now));
    let failed = first_failure(snapshot, carried.outcomes, reported);
    let held = held(carried.outcomes);
    let reports_held = held.is_some() && carried.conflicts >= CONFLICTS_REPORTED;
    let error = failed.as_ref().map(|(count, failure)| (*count, failure.message.clone()));
    let failure = failed.map(|(_, failure)| failure);
    let is_outdated = carried.outcomes.iter().any(|outcome| outcome.ended == Ended::Outdated);
    let next = if is_outdated { NextReconcile::Again } else { decision.next };
    // A set that is being deleted reports no failures of writes.
    let says_more = failure.is_some() || reports_held || !carried.stalled.is_empty();
    if snapshot.set.is_deleting || !says_more {
        return Recorded { status: None, events, error, next };
    }
    let (mut stalled, _) = stalls(carried.set, decision.rollout.as_ref());
    stalled.extend(
        carried.stalled.iter().filter_map(|wait| Some((wait.application.clone(), wait.since?))),
    );
    stalled.sort();
    // The decision was made before the writes failed.
    let rollout = decision.rollout.as_ref().map(|plan| after_failures(plan, &reported.failing));
    let written = held.as_ref().filter(|_| failure.is_some() || reports_held);
    let findings = Findings {
        set: carried.set,
        generated: snapshot.generated,
        settings: snapshot.settings,
        existing: snapshot.existing,
        up_to_date: failure.is_none()
            && decision.failure.is_none()
            && !reports_held
            && decision.writes.is_settled(),
        is_written: failure.is_none() && decision.failure.is_none() && decision.writes.is_written(),
        keeps_hold: decision.keeps_hold,
        rollout: rollout.as_ref().map(|plan| Rollout {
            plan,
            listed: &decision.listed,
            stalled: &stalled,
        }),
        held: written.or(decision.writes.held.as_ref()),
        emptied: decision.emptied.as_ref(),
        absent_settings: snapshot.absent_settings,
        redact: snapshot.redact,
        failure: failure.clone().or_else(|| decision.failure.clone()),
    };
    let status = status::compute(&findings, snapshot.now);
    Recorded { status: Some(status), events, error, next }
}

/// The plan with the failures of the writes that its Applications wait for, as the next
/// decision will report them.
fn after_failures<'a>(plan: &'a RolloutPlan, failing: &Failing) -> Cow<'a, RolloutPlan> {
    let fails =
        |wait: &RolloutWait| wait.write.is_some() && failing.why(&wait.application).is_some();
    if !plan.waiting.iter().any(fails) {
        return Cow::Borrowed(plan);
    }
    let mut plan = plan.clone();
    for wait in &mut plan.waiting {
        if let Some(cause) = failing.why(&wait.application) {
            *wait = wait.clone().after_failure(&cause.unwritten());
        }
    }
    Cow::Owned(plan)
}

/// The Applications that cannot be written, with the causes.
fn failing(decision: &Decision, outcomes: &[WriteOutcome]) -> BTreeMap<String, WriteFailure> {
    let failures = outcomes
        .iter()
        .filter_map(|outcome| Some((outcome.application.clone(), outcome.failure()?.clone())));
    let mut failing: BTreeMap<String, WriteFailure> = failures.collect();
    failing.extend(decision.writes.refused.iter().map(|(application, why)| {
        (application.clone(), WriteFailure { code: Some(0), text: why.clone() })
    }));
    failing
}

/// The failure of the first Application by name that could not be written
/// (AS-157), and the number of failures.
fn first_failure(
    snapshot: &Snapshot<'_>,
    outcomes: &[WriteOutcome],
    reported: &mut Reported,
) -> Option<(usize, Failure)> {
    let mut failures: Vec<(&WriteOutcome, &WriteFailure)> =
        outcomes.iter().filter_map(|outcome| Some((outcome, outcome.failure()?))).collect();
    failures.sort_by(|(a, _), (b, _)| a.application.cmp(&b.application));
    let Some((first, cause)) = failures.first().copied() else {
        reported.failure = None;
        return None;
    };
    let reason = match first.act {
        WriteAct::Delete | WriteAct::Release => reason::DELETE_APPLICATION_ERROR,
        _ if snapshot.generated.policy.updates() => reason::UPDATE_APPLICATION_ERROR,
        _ => reason::CREATE_APPLICATION_ERROR,
    };
    // The same failure with a different text would change the status with every
    // try.
    let known = reported
        .failure
        .take()
        .filter(|(application, known)| *application == first.application && known.is_same(cause));
    let (application, cause) = known.unwrap_or_else(|| (first.application.clone(), cause.clone()));
    let text: String = cause.text.chars().take(CAUSE_LIMIT).collect();
    let message = format!("application {application}: {text}");
    reported.failure = Some((application, cause));
    Some((failures.len(), Failure { reason, message }))
}

/// The skipped deletions, and the write that they wait for.
fn held(outcomes: &[WriteOutcome]) -> Option<Held> {
    let held = outcomes.iter().filter(|outcome| outcome.ended == Ended::Held);
    let applications: Vec<String> = held.map(|outcome| outcome.application.clone()).collect();
    let mut lacking =
        outcomes.iter().filter(|outcome| outcome.is_lacking() && outcome.act != WriteAct::Delete);
    let until = format!("application {} is written", lacking.next()?.application);
    (!applications.is_empty()).then_some(Held { applications, until })
}
