//! One reconcile of a set (AS-148) as two pure functions: from the observed
//! state to the decision ([`reconcile`]), and from its outcomes to what is
//! reported ([`record_outcome`](crate::application_set::status::report::record_outcome)).
//!
//! The caller applies a [`Decision`] in this order: the finalizers, the status,
//! the writes, and the Events. After a crash in between, the next reconcile
//! decides on what was persisted.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use crate::application_set::decision::{Decision, NextReconcile, Snapshot};
use crate::application_set::deletion::delete_set;
use crate::application_set::deletion::deletion_guard::{
    self, HeldDeletions, HoldDecision, HoldReasons,
};
use crate::application_set::generate::generated::Wanted;
use crate::application_set::plan::excluded;
use crate::application_set::plan::observe::Existing;
use crate::application_set::plan::operation;
use crate::application_set::plan::outcome::WriteFailure;
use crate::application_set::plan::ownership_transfer;
use crate::application_set::plan::windows;
use crate::application_set::plan::write_plan::{WriteGate, WritePlan};
use crate::application_set::plan::{self, OperationPolicy, PlanInput, refusal};
use crate::application_set::rollout_io::last_good;
use crate::application_set::status;
use crate::application_set::status::events::{self, SetEvent};
use crate::application_set::status::findings::{self, Failure, Findings, Rollout};
use crate::application_set::status::pace;
use crate::application_set::status::stored::StoredApplicationSet;
use crate::rollout::listed::{self, CompletionRecord, Listed, RecordKind};
use crate::rollout::phase::{Entry, Phase};
use crate::rollout::policy::Max;
use crate::rollout::run::{self, RunDecision};
use crate::rollout::snapshot::{Excluded, Unwritten};
use crate::rollout::wait::RolloutWait;
use crate::rollout::{self, Denied, Member, RolloutPlan};
use wavegate_api::Cluster;
use wavegate_api::annotations::RESOURCES_FINALIZER;
use wavegate_api::conditions::application_set::{self as condition, reason};
use wavegate_engine::wait::WaitFor;

/// The delay after an error that only a change can fix (AS-505).
pub const AFTER_BAD_INPUT: Duration = Duration::from_secs(180);

/// The error of a RollingSync without steps.
pub const NO_STEPS: &str = "No steps defined for rollout: spec.strategy.rollingSync.steps is \
                            empty, so no Application is written; add a step or remove the \
                            strategy";

/// Decides a reconcile.
pub fn reconcile(snapshot: &Snapshot<'_>) -> Decision {
    let Snapshot { set, generated, .. } = *snapshot;
    if set.is_deleting {
        return delete_set::delete(snapshot);
    }
    // Also while generating fails (AS-148): the order must hold from the start.
    let is_readable = generated.has_steps && generated.misspelt.is_empty();
    let is_in_order = is_readable && generated.deletes_in_reverse;
    // Its Applications would be deleted with it before they are written as it says now.
    let is_keeping = generated.keeps_resources
        && snapshot.existing.iter().any(|existing| existing.held.is_some());
    // The controller must act before the set is gone (AS-160, AS-167, AS-380).
    if (is_in_order || is_keeping || !generated.policy.deletes()) && !set.has_finalizer() {
        let mut finalizers = set.finalizers.clone();
        finalizers.push(RESOURCES_FINALIZER.to_owned());
        let rest = decide(snapshot);
        return Decision { finalizers: Some(finalizers), next: NextReconcile::Again, ..rest };
    }
    decide(snapshot)
}

fn decide(snapshot: &Snapshot<'_>) -> Decision {
    let Snapshot { set, generated, settings, now, .. } = *snapshot;
    let unwritable = generated.unwritable(snapshot.invalid);
    let decided = generated.is_rolling().then(|| decide_rollout(snapshot, &unwritable));
    let (mut plan, listed) = decided.unzip();
    let ended_run = end_run(snapshot);
    let listed = listed.unwrap_or_default();
    // Nor is anything written while the strategy is unknown (AS-304).
    let gate = generated.gate(settings);
    let behind = plan.as_ref().map_or(&[][..], |plan| &plan.refreshes);
    let (refreshes, ask_at) = snapshot.asked.due(behind, snapshot.existing, now);
    let planned = plan_writes(snapshot, &unwritable, plan.as_ref(), &listed, &refreshes);
    let mut writes = planned.behind(gate);
    let deletes = &writes.deletes;
    let others_wait = ownership_transfer::wait(snapshot.others, snapshot.releases, deletes, now);
    let held_since = set.status.since(condition::DELETIONS_HELD);
    let failed =
        ownership_transfer::failed(snapshot.others, snapshot.releases, deletes, held_since, now);
    let emptied = hold(snapshot, &failed, others_wait.is_some(), &mut writes);
    let others_wait = others_wait.filter(|_| !writes.deletes.is_empty());
    if let Some(wait) = &others_wait {
        writes = writes.without_deletes(&wait.until);
    }
    let others_at = others_wait.as_ref().map(|wait| wait.at);
    let keeps_hold = others_at.is_some();
    // Otherwise the reconcile did not get as far as to end a refresh (AS-420).
    let is_complete = generated.error.is_none()
        && generated.misspelt.is_empty()
        && !generated.is_stuck(settings)
        && others_at.is_none()
        && writes.refused.is_empty();
    let failure = bad_input(snapshot, &writes).or_else(|| {
        let message = snapshot.refresh_failure.filter(|_| set.is_refreshing)?.to_owned();
        Some(Failure { reason: reason::REFRESH_APPLICATION_ERROR, message })
    });
    let (reported, stalled) = stalls(set, plan.as_ref());
    let findings = Findings {
        set,
        generated,
        settings,
        existing: snapshot.existing,
        up_to_date: failure.is_none() && writes.is_settled(),
        is_written: failure.is_none() && writes.is_written(),
        keeps_hold,
        failure: failure.clone(),
        rollout: plan.as_ref().map(|plan| Rollout { plan, listed: &listed, stalled: &reported }),
        held: writes.held.as_ref(),
        emptied: emptied.held.as_ref(),
        absent_settings: snapshot.absent_settings,
        redact: snapshot.redact,
    };
    let status = status::compute(&findings, now);
    let mut events: Vec<SetEvent> = Vec::new();
    events.extend(events::failure_event(&set.status, &status, failure.as_ref()));
    events.extend(events::misconfigured(&set.status, &status));
    events.extend(events::deletions_held(&set.status, &status));
    if let Some(plan) = &plan {
        events.extend(events::rollout_events(&set.status, &status, plan));
    }
    // What is due already is decided again after a moment.
    let until = |at: Timestamp| {
        Duration::try_from(at.duration_since(now)).unwrap_or(Duration::from_millis(100))
    };
    let wake = plan.as_ref().and_then(|plan| plan.wake_at).map(until);
    let bad_input = failure.is_some().then_some(AFTER_BAD_INPUT);
    let urgent =
        plan.as_ref().is_some_and(|plan| pace::is_urgent(&set.status, plan, snapshot.existing));
    let due_at = pace::due_at(&set.status, &status, urgent, snapshot.written_at, now);
    let due = due_at.and_then(|at| Duration::try_from(at.duration_since(now)).ok());
    if let (Some(plan), Some(_)) = (&mut plan, due_at) {
        // The next reconcile decides them again; they are reported once they are stored.
        plan.transitions.clear();
        events.clear();
    }
    let written_at = snapshot.run_input.and_then(|input| input.written_at);
    let run = plan.as_ref().and_then(|plan| plan.run.as_ref());
    let run_due_at = run.and_then(|run| pace::run_due_at(run, written_at, now));
    if let (Some(plan), Some(_)) = (&mut plan, run_due_at) {
        plan.run = None;
    }
    // An Application that enters Progressing may be Healthy already, and no
    // further event arrives: entries advance by one phase per reconcile.
    let moves_on = plan
        .iter()
        .flat_map(|plan| &plan.transitions)
        .any(|transition| transition.to == Phase::Progressing);
    let is_postponed = writes.postponed > 0 || moves_on;
    let postponed = if is_postponed { Some(Duration::ZERO) } else { others_at.map(until) };
    let generate = snapshot.generate_at.map(until);
    let waits = [
        (WaitFor::Rollout, wake),
        (WaitFor::Rollout, ask_at.map(until)),
        (WaitFor::ValidSet, bad_input),
        (WaitFor::PostponedWrites, postponed),
        (WaitFor::StatusWrite, due.map(pace::decided_within)),
        (WaitFor::StatusWrite, run_due_at.map(until).map(pace::decided_within)),
        (WaitFor::Generators, generate),
        // Its record may fail, and nothing else is due.
        (WaitFor::Rollout, ended_run.as_ref().and_then(|_| rollout::POLL.try_into().ok())),
    ];
    let waits = waits.into_iter().filter_map(|(reason, after)| Some((reason, after?)));
    let first = waits.min_by_key(|(_, after)| *after);
    Decision {
        finalizers: None,
        status: due_at.is_none().then_some(status),
        annotations: emptied.annotations,
        emptied: emptied.held,
        ends_refresh: set.is_refreshing && is_complete,
        events,
        stalled,
        rollout: plan,
        ended_run,
        leaving: Vec::new(),
        unsure: Vec::new(),
        stuck: Vec::new(),
        next: first.map_or(NextReconcile::default(), |(reason, after)| {
            NextReconcile::After(reason, after)
        }),
        writes,
        keeps_hold,
        listed,
        failure,
    }
}

/// Ends a run that no rollout goes on with (ST-003).
fn end_run(snapshot: &Snapshot<'_>) -> Option<RunDecision> {
    let why = snapshot.generated.without_rollout(snapshot.settings)?;
    run::end_run(snapshot.run_input.as_ref()?, why, snapshot.now)
}

/// The writes that the spec of a set asks for, apart from its rollout.
#[derive(Clone, Debug)]
pub struct SpecWrites {
    /// The writes, also those that the gate does not allow.
    pub writes: WritePlan,
    /// Which of them are allowed.
    pub gate: WriteGate,
    /// Why some of the generated Applications are not written, by name.
    pub unwritable: BTreeMap<String, String>,
    /// The deletions that wait for an approval.
    pub emptied: Option<HeldDeletions>,
}

/// Decides the writes of a set as [`reconcile`] does, without its rollout and without waiting
/// until other sets are known: for a preview.
pub fn spec_writes(snapshot: &Snapshot<'_>) -> SpecWrites {
    let unwritable = snapshot.generated.unwritable(snapshot.invalid);
    let mut writes = plan_writes(snapshot, &unwritable, None, &Listed::default(), &[]);
    let gate = snapshot.generated.gate(snapshot.settings);
    let emptied = match gate {
        WriteGate::Open => hold(snapshot, &[], false, &mut writes).held,
        WriteGate::NoDeletes(_) | WriteGate::Shut(_) => None,
    };
    SpecWrites { writes, gate, unwritable, emptied }
}

/// Holds deletions that need an approval.
fn hold(
    snapshot: &Snapshot<'_>,
    failed: &[&str],
    is_waiting: bool,
    writes: &mut WritePlan,
) -> HoldDecision {
    let Snapshot { set, generated, settings, existing, .. } = *snapshot;
    let has_left =
        ownership_transfer::left_applications(existing, &generated.applications).next().is_some();
    let limits = snapshot.run_input.map_or(&[][..], |input| &input.rules.deletions);
    let owned = existing.iter().filter(|one| one.is_owned() && !one.is_going).count();
    // Nothing is deleted before what is new is created, which must not count.
    let exist = set.existed.filter(|_| has_left).unwrap_or(owned);
    let hidden = snapshot.run_input.as_ref().map_or(&[][..], |input| input.hidden_policies());
    let over = deletion_guard::over(limits, writes.deletes.len(), exist)
        .or_else(|| deletion_guard::over_hidden(hidden, writes.deletes.len()));
    let mut decision = deletion_guard::hold(
        set,
        generated,
        settings,
        HoldReasons { has_left, failed, is_waiting, over },
        writes,
    );
    if generated.error.is_none() {
        let is_share = limits.iter().any(|(_, max)| matches!(max, Max::Percent(_)));
        deletion_guard::remember(&mut decision, set, (has_left && is_share).then_some(exist));
    }
    decision
}

/// The stalled waits that were reported, and those that were not.
pub(super) fn stalls(
    set: &StoredApplicationSet,
    plan: Option<&RolloutPlan>,
) -> (Vec<(String, Timestamp)>, Vec<RolloutWait>) {
    let (mut reported, mut new) = (Vec::new(), Vec::new());
    for wait in plan.into_iter().flat_map(|plan| &plan.stalled) {
        let Some(since) = wait.since else { continue };
        let mut known = set.status.stalled();
        match known.any(|(application, at)| application == wait.application && at == since) {
            true => reported.push((wait.application.clone(), since)),
            false => new.push(wait.clone()),
        }
    }
    (reported, new)
}

/// A generated or owned Application with its state.
struct Joined<'a> {
    name: &'a str,
    wanted: Option<&'a Wanted>,
    existing: Option<&'a Existing>,
    stored: Option<&'a Entry>,
    implied: Option<Entry>,
    denied: Option<Denied>,
    excluded: Option<Excluded>,
    unwritten: Option<Unwritten>,
}

fn decide_rollout(
    snapshot: &Snapshot<'_>,
    unwritable: &BTreeMap<String, String>,
) -> (RolloutPlan, Listed) {
    let Snapshot { set, generated, settings, now, .. } = *snapshot;
    let joined = join(snapshot);
    let member = |one: &'_ Joined<'_>| one.existing.is_some() || one.wanted.is_some();
    let members: Vec<Member<'_>> = joined
        .iter()
        .filter(|one| member(one))
        .map(|one| Member {
            name: one.name,
            steps: one.wanted.map(|wanted| &wanted.steps),
            invalid: unwritable.get(one.name).map(String::as_str),
            unwritten: one.unwritten.as_ref(),
            denied: one.denied.as_ref(),
            excluded: one.excluded.as_ref(),
            is_going: one.existing.is_some_and(|existing| existing.is_going),
            resource: one.existing.and_then(|existing| existing.blocking_resource.as_deref()),
            observed: one.existing.map(|existing| &existing.observed),
            entry: one.stored.or(one.implied.as_ref()),
            is_listed: one.stored.is_some(),
            record: one.existing.and_then(|existing| existing.record.as_deref()),
            spec: one.wanted.map(|wanted| &*wanted.digest),
            started: one.existing.and_then(|existing| existing.started.as_deref()),
        })
        .collect();
    let mut plan = rollout::step(
        &rollout::RolloutSnapshot {
            strategy: &generated.strategy,
            members: &members,
            settings: settings.rollout,
            opened: set.status.open_step().zip(set.status.step_opened_at()),
            capacity: settings.size_limits.entries,
            run_input: snapshot.run_input,
        },
        now,
    );
    let entries = std::mem::take(&mut plan.entries);
    let listed = listed::choose(&members, entries, settings.size_limits.entries);
    (plan, listed)
}

/// Generated and owned Applications by name, each with its entry.
fn join<'a>(snapshot: &Snapshot<'a>) -> Vec<Joined<'a>> {
    let Snapshot { set, generated, now, .. } = *snapshot;
    let is_manual = snapshot.settings.manual_windows;
    let has_run_input = snapshot.run_input.is_some();
    // Hardly ever is there one, and each Application would search its own among all.
    let is_excluded = |cluster: &Cluster| !cluster.excluded_by.is_empty();
    let clusters = snapshot.windows.clusters;
    let excluding = if clusters.iter().any(is_excluded) { clusters } else { &[] };
    let is_compact = set.status.is_compact();
    let began = set.status.started_at().unwrap_or(now);
    let mut wanted = generated.applications.iter().peekable();
    let mut existing = snapshot.existing.iter().peekable();
    let mut stored = set.status.entries.iter().flatten().peekable();
    let mut joined = Vec::with_capacity(generated.applications.len());
    loop {
        let names = [wanted.peek().map(|one| &*one.name), existing.peek().map(|one| &*one.name)];
        let Some(name) = names.into_iter().flatten().min() else { return joined };
        let wanted = wanted.next_if(|one| &*one.name == name);
        let found = existing.next_if(|one| &*one.name == name);
        let existing = found.filter(|one| one.is_owned());
        while stored.next_if(|one| one.application.as_str() < name).is_some() {}
        let stored = stored.next_if(|one| one.application == name);
        let observed = existing.map(|existing| &existing.observed);
        let implied = existing.filter(|_| is_compact && stored.is_none()).map(|existing| {
            let step = wanted.and_then(|wanted| wanted.steps.step());
            let spec = wanted.map(|wanted| &*wanted.digest);
            let record = existing.record.as_deref();
            listed::implied(name, step, record, spec, &existing.observed, began)
        });
        // One that is in sync may be started only by a person's word, or to go back.
        let may_start = observed.is_some_and(|seen| has_run_input || seen.may_be_started());
        let denied = wanted
            .filter(|_| may_start)
            .and_then(|wanted| windows::denied(wanted, &snapshot.windows, is_manual, now));
        let excluded = wanted
            .zip(existing)
            .and_then(|(wanted, existing)| excluded::why(&wanted.target, existing, excluding));
        let unwritten = wanted.and_then(|_| unwritten(snapshot, name, found));
        joined.push(Joined {
            name,
            wanted,
            existing,
            stored,
            implied,
            denied,
            excluded,
            unwritten,
        });
    }
}

/// Why a generated Application could not be written, or must not be.
fn unwritten(snapshot: &Snapshot<'_>, name: &str, found: Option<&Existing>) -> Option<Unwritten> {
    let is_taken =
        found.is_some_and(|found| ownership_transfer::takeover(snapshot.others, found).is_some());
    let refusal = found.filter(|_| !is_taken).and_then(refusal);
    match refusal {
        Some(why) => Some(Unwritten { why, is_refused: true }),
        None => snapshot.failing.why(name).map(WriteFailure::unwritten),
    }
}

fn plan_writes(
    snapshot: &Snapshot<'_>,
    unwritable: &BTreeMap<String, String>,
    rollout: Option<&RolloutPlan>,
    listed: &Listed,
    refreshes: &[String],
) -> WritePlan {
    let Snapshot { set, generated, .. } = *snapshot;
    // Nothing is written while the generated Applications are unknown (AS-140).
    if generated.error.is_some() {
        return protect(snapshot);
    }
    let starts = rollout.into_iter().flat_map(|plan| &plan.starts).filter_map(|start| {
        let wanted = generated.get(&start.application)?;
        let operation = operation::build(start, &set.id.name, &wanted.original());
        let at = listed.entries.binary_search_by(|one| one.application.cmp(&start.application));
        let record = at.ok().filter(|_| listed.is_compact).map(|at| CompletionRecord {
            kind: RecordKind::Started,
            target_revisions: listed.entries[at].target_revisions.clone(),
            spec: wanted.digest.to_string(),
            step: Some(start.step),
            since: start.promotion,
        });
        let mut started = start.started.clone();
        let found = snapshot.existing.binary_search_by(|one| (*one.name).cmp(&start.application));
        if let (Some(started), Ok(found)) = (&mut started, found) {
            last_good::complete(started, wanted, &snapshot.existing[found]);
        }
        let is_taken_up = start.is_taken_up;
        let policy = OperationPolicy { operation, record, started, is_taken_up };
        Some((start.application.clone(), policy))
    });
    let mut writes = plan::plan_writes(&PlanInput {
        set: &set.id,
        generated: &generated.applications,
        invalid: unwritable,
        existing: snapshot.existing,
        keeps_resources: generated.keeps_resources,
        clusters: snapshot.windows.clusters,
        in_rollout: generated.has_steps,
        policy: generated.policy,
        operations: &starts.collect::<BTreeMap<_, OperationPolicy>>(),
        records: &listed.records.iter().cloned().collect(),
        refreshes,
        others: snapshot.others,
    });
    if let Some(rollout) = rollout {
        windows::withdraw(&mut writes, &rollout.withdrawals, snapshot.existing);
        let terminates = rollout.run.as_ref().map_or(&[][..], |run| &run.terminates);
        windows::withdraw(&mut writes, terminates, snapshot.existing);
    }
    writes
}

/// While the generated Applications are unknown, only their owner references are written,
/// if the policy forbids deletion: the set may be deleted before it is mended.
fn protect(snapshot: &Snapshot<'_>) -> WritePlan {
    if snapshot.generated.policy.deletes() {
        return WritePlan::default();
    }
    plan::plan_writes(&PlanInput {
        set: &snapshot.set.id,
        generated: &[],
        invalid: &BTreeMap::new(),
        existing: snapshot.existing,
        keeps_resources: false,
        clusters: snapshot.windows.clusters,
        in_rollout: false,
        policy: snapshot.generated.policy,
        operations: &BTreeMap::new(),
        records: &BTreeMap::new(),
        refreshes: &[],
        others: &[],
    })
}

/// The error for the user, the most serious one first.
fn bad_input(snapshot: &Snapshot<'_>, writes: &WritePlan) -> Option<Failure> {
    let generated = snapshot.generated;
    if let Some(failure) = findings::held(&generated.misspelt) {
        return Some(failure);
    }
    if let Some(error) = &generated.error {
        let message = format!(
            "{}{error}; no Application is created, updated or deleted until this is fixed",
            error.git_words()
        );
        return Some(Failure { reason: error.reason(), message });
    }
    if generated.is_stuck(snapshot.settings) {
        let message = NO_STEPS.to_owned();
        return Some(Failure { reason: reason::APPLICATION_SET_ROLLOUT_ERROR, message });
    }
    let of_rules = generated.ignore_problems.first().map(|problem| problem.message.clone());
    if let Some(message) = of_rules.or_else(|| generated.policy_problem.clone()) {
        return Some(Failure { reason: reason::UPDATE_APPLICATION_ERROR, message });
    }
    let invalid = snapshot.invalid.iter();
    if let Some(message) = first_of(invalid, snapshot.invalid.len()) {
        return Some(Failure { reason: reason::APPLICATION_VALIDATION_ERROR, message });
    }
    let refused = writes.refused.iter().map(|(name, problem)| (name, problem));
    first_of(refused, writes.refused.len())
        .map(|message| Failure { reason: reason::UPDATE_APPLICATION_ERROR, message })
}

fn first_of<'a>(
    mut problems: impl Iterator<Item = (&'a String, &'a String)>,
    count: usize,
) -> Option<String> {
    let (name, problem) = problems.next()?;
    let more = if count > 1 { format!(" (and {} more)", count - 1) } else { String::new() };
    Some(format!("application {name}: {problem}{more}"))
}
