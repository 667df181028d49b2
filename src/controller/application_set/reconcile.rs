//! One pass over one ApplicationSet (AS-148).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::{deletion, dry_run, events, observe};
use crate::act::application_set_status::{self as status_writer, Written};
use crate::act::applications::{Act, Done, Outcome, Writer};
use crate::api::Cluster;
use crate::api::ObjectKey;
use crate::api::annotations::APPLICATION_SET_REFRESH;
use crate::api::conditions::application_set::reason;
use crate::controller::context::{Context, Generated, Memory};
use crate::controller::error::Error;
use crate::decide::application_set::ignore::{self, Ignore};
use crate::decide::application_set::policy::Policy;
use crate::decide::application_set::preserve::Preserve;
use crate::decide::application_set::status::{self, Failure, Findings, Rollout};
use crate::decide::application_set::validate::{self, Known};
use crate::decide::application_set::windows;
use crate::decide::application_set::{self, Gate, Held, operation};
use crate::decide::rollout::steps::{self, Labels, Problem, Strategy};
use crate::decide::rollout::{self, Generated as Member, RolloutPlan, status as entries};
use crate::watch::control_plane::Origin;
use crate::watch::failure::reason as words;
use crate::watch::object::Parsed;

/// How long to wait after an error that only a change can mend (AS-505).
const AFTER_BAD_INPUT: Duration = Duration::from_secs(180);

/// The most characters of an API server's answer that a condition tells: what
/// waits for it is told as well.
const CAUSE_LIMIT: usize = 500;

/// Deletions wait for the next pass when something changed while it was being
/// written. That they do is told once it has happened this often in a row.
const CONFLICTS_TOLD: u32 = 3;

/// What follows a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The set is gone.
    Gone,
    /// Nothing until something changes.
    Wait,
    /// Another pass soon: something changed in the meantime.
    Again,
    /// A pass after this time at the latest.
    After(Duration),
}

/// Everything that is known in a pass, gathered before anything is decided.
struct Seen {
    strategy: Strategy,
    strategy_problems: Vec<Problem>,
    /// What nobody understands of the gate; while there is any, the set is held.
    misspelt: Vec<Problem>,
    rolling: bool,
    generated: Arc<Generated>,
    existing: BTreeMap<String, Arc<Value>>,
    projects: BTreeMap<String, Arc<Value>>,
    clusters: Vec<Cluster>,
    invalid: BTreeMap<String, String>,
    ignore: Ignore,
    ignore_problems: Vec<ignore::Problem>,
    policy_problem: Option<String>,
}

impl Seen {
    /// Why it is not known which fields of an Application are to be left alone:
    /// it is not written then (AS-162, AS-164).
    fn unknown_differences(&self, application: &str) -> Option<&String> {
        let problem = self.ignore_problems.iter().find(|problem| problem.concerns(application));
        problem.map(|problem| &problem.message)
    }
}

/// Runs one pass.
pub async fn reconcile(
    set: &Parsed,
    context: &Arc<Context>,
    memory: &mut Memory,
) -> Result<Next, Error> {
    let now = context.clock.now();
    let policy = policy(set, context);
    if !set.value()["metadata"]["deletionTimestamp"].is_null() {
        return deletion::reconcile(set, context, policy, memory).await;
    }
    let Decided { seen, plan, writes } = decide(set, context, policy, memory, now).await;
    let needs_finalizer = seen.rolling && deletion::needs_finalizer(set);
    // A dry run would never see it added.
    if needs_finalizer && !context.settings.dry_run {
        deletion::add_finalizer(set, context).await?;
        // The change of the set itself wakes the next pass.
        return Ok(Next::Again);
    }
    let problems = plan
        .as_ref()
        .map(|plan| rollout::all_problems(seen.strategy_problems.clone(), plan.problems.clone()));

    let findings = |failure: Option<Failure>, up_to_date: bool| Findings {
        set: set.value(),
        existing: &seen.existing,
        generated: seen.generated.result.is_ok(),
        up_to_date: up_to_date && failure.is_none(),
        failure,
        rollout: plan
            .as_ref()
            .zip(problems.as_ref())
            .map(|(plan, problems)| Rollout { plan, problems: problems.as_slice() }),
        misread: if context.settings.progressive_syncs { &seen.strategy_problems } else { &[] },
        misspelt: &seen.misspelt,
        disabled: is_disabled(&seen, context),
        held: writes.held.as_ref(),
        max_resources: context.settings.max_resources,
    };
    let bad_input = bad_input(&seen, context, &writes);
    let nothing_to_write = writes == application_set::WritePlan::default();
    let before = findings(bad_input.clone(), nothing_to_write);
    let wanted = status::compute(&before, now);
    if context.settings.dry_run {
        let mut lines = dry_run::of_set(set, needs_finalizer);
        lines.extend(dry_run::of_writes(&writes));
        lines.extend(dry_run::of_status(set.value(), &wanted));
        dry_run::tell(lines, memory);
        return Ok(dry_run::next(plan.as_ref(), now));
    }
    let Some(set) = record(set, context, &wanted).await? else {
        return Ok(Next::Again);
    };
    let writer = Writer::new(
        &context.client,
        set.namespace(),
        Arc::clone(&context.control_plane.applications),
        context.settings.concurrent_application_updates,
    );
    // Nobody's sync waits for an event to be written.
    let told = events::after_decision(
        &set,
        before.set,
        context,
        plan.as_ref(),
        bad_input.as_ref(),
        memory,
        now,
    );
    let (outcomes, ()) = futures::join!(writer.carry_out(&writes), told);
    events::after_writes(&set, context, &outcomes, &writes, memory).await;
    let held = held(&outcomes);
    if let Some((failure, error)) = failed(&set, &outcomes, policy) {
        let held = held.as_ref().or(writes.held.as_ref());
        let after = Findings { set: set.value(), held, ..findings(Some(failure), false) };
        record(&set, context, &status::compute(&after, now)).await?;
        return Err(error);
    }
    if held.is_some() && memory.conflicts >= CONFLICTS_TOLD {
        let held = held.as_ref();
        let after = Findings { set: set.value(), held, ..findings(bad_input.clone(), false) };
        record(&set, context, &status::compute(&after, now)).await?;
    }
    finish_refresh(&set, context).await?;
    let unasked = writes.postponed > 0;
    Ok(next(plan.as_ref(), bad_input.is_some(), unasked, &outcomes, now))
}

/// What is known, and what follows from it.
struct Decided {
    seen: Seen,
    plan: Option<RolloutPlan>,
    writes: application_set::WritePlan,
}

/// Looks and decides on a thread of its own: templates and jq rules are what
/// users wrote, and while they run, others are served.
async fn decide(
    set: &Parsed,
    context: &Arc<Context>,
    policy: Policy,
    memory: &mut Memory,
    now: Timestamp,
) -> Decided {
    let (set, context, span) = (set.clone(), Arc::clone(context), tracing::Span::current());
    let mut taken = std::mem::take(memory);
    let work = move || {
        let _entered = span.entered();
        let seen = look(&set, &context, policy, &mut taken, now);
        let plan = seen.rolling.then(|| decide_rollout(&set, &context, &seen, &taken, now));
        let writes = decide_writes(&set, &context, policy, &seen, plan.as_ref());
        (Decided { seen, plan, writes }, taken)
    };
    match tokio::task::spawn_blocking(work).await {
        Ok((decided, taken)) => {
            *memory = taken;
            decided
        }
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is being shut down.
            Err(_) => futures::future::pending().await,
        },
    }
}

fn policy(set: &Parsed, context: &Context) -> Policy {
    context.settings.policy.effective(own_policy(set), context.settings.policy_override)
}

fn own_policy(set: &Parsed) -> Option<&str> {
    set.value()["spec"]["syncPolicy"]["applicationsSync"].as_str()
}

fn look(
    set: &Parsed,
    context: &Context,
    policy: Policy,
    memory: &mut Memory,
    now: Timestamp,
) -> Seen {
    let (strategy, strategy_problems) = Strategy::read(set.value()["spec"].get("strategy"));
    let enabled = context.settings.progressive_syncs;
    let rolling = enabled && !strategy.steps().is_empty();
    let known_generation = memory.generated.as_ref().map(|generated| generated.of);
    let generated = observe::generate(set, rolling, now, memory);
    if known_generation != Some(generated.of) {
        events::generated(&generated, rolling);
    }
    let (ignore, ignore_problems) = Ignore::read(set.value());
    let existing = context.in_namespace(&context.control_plane.applications, set.namespace());
    observe::observe_all(set.value(), &existing, &generated, &ignore, policy, memory);
    let projects = context
        .in_namespace(&context.control_plane.projects, &context.settings.control_plane_namespace);
    let known = Known {
        projects: projects.keys().cloned().collect(),
        clusters: context.control_plane.clusters(),
    };
    let mut invalid = generated.problems.clone();
    for (name, application) in &generated.applications {
        if let Some(problem) = validate::problem_here(application, &known) {
            invalid.entry(name.clone()).or_insert(problem);
        }
    }
    let policy_problem = Policy::problem(own_policy(set), context.settings.policy_override);
    let misspelt = steps::misspelt(set.value());
    // Without a generation nothing is decided, nor without knowing the gate: a
    // rollout under way is frozen (AS-141).
    let rolling = rolling && generated.result.is_ok() && misspelt.is_empty();
    Seen {
        strategy,
        strategy_problems,
        misspelt,
        rolling,
        generated,
        existing,
        projects,
        clusters: known.clusters,
        invalid,
        ignore,
        ignore_problems,
        policy_problem,
    }
}

fn is_disabled(seen: &Seen, context: &Context) -> bool {
    !context.settings.progressive_syncs && matches!(seen.strategy, Strategy::RollingSync(_))
}

fn is_stuck(seen: &Seen, context: &Context) -> bool {
    context.settings.progressive_syncs && seen.strategy.is_empty_rolling_sync()
}

fn decide_rollout(
    set: &Parsed,
    context: &Context,
    seen: &Seen,
    memory: &Memory,
    now: Timestamp,
) -> RolloutPlan {
    let facts = windows::Facts {
        projects: &seen.projects,
        clusters: &seen.clusters,
        by_hand: context.settings.windows_by_hand,
    };
    let mut denied = windows::denied(&seen.generated.applications, &memory.observed, &facts, now);
    let mut member = |(name, application): (&String, &Arc<Value>)| {
        let labels = application["metadata"]["labels"].as_object().into_iter().flatten();
        let labels: Labels = labels
            .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
            .collect();
        // What will not be written must not be promoted: it would wait for an
        // operation that never comes, and count as Healthy after a while.
        let invalid = seen.invalid.get(name).or_else(|| seen.unknown_differences(name));
        let denied = denied.remove(name);
        (name.clone(), Member { labels, invalid: invalid.cloned(), denied })
    };
    let generated = seen.generated.applications.iter().map(&mut member).collect();
    let stored = entries::from_json(set.value()["status"].get("applicationStatus"));
    let snapshot = rollout::Snapshot {
        strategy: &seen.strategy,
        generated: &generated,
        current: &memory.observed,
        entries: &stored,
        settings: context.settings.rollout,
    };
    rollout::step(&snapshot, now)
}

fn decide_writes(
    set: &Parsed,
    context: &Context,
    policy: Policy,
    seen: &Seen,
    plan: Option<&RolloutPlan>,
) -> application_set::WritePlan {
    // Nothing is written while it is not known what should exist (AS-140).
    if seen.generated.result.is_err() {
        return application_set::WritePlan::default();
    }
    let valid: BTreeMap<String, Arc<Value>> = seen
        .generated
        .applications
        .iter()
        .filter(|(name, _)| !seen.invalid.contains_key(*name))
        .filter(|(name, _)| seen.unknown_differences(name).is_none())
        .map(|(name, application)| (name.clone(), Arc::clone(application)))
        .collect();
    let operations: BTreeMap<String, Value> = plan
        .into_iter()
        .flat_map(|plan| &plan.starts)
        .filter_map(|start| {
            let original = seen.generated.originals.get(&start.application)?;
            Some((start.application.clone(), operation::build(start, set.name(), original)))
        })
        .collect();
    let settings = &context.settings;
    let preserve =
        Preserve::new(set.value(), &settings.preserved_annotations, &settings.preserved_labels);
    let mut writes = application_set::plan(&application_set::Snapshot {
        set: set.value(),
        generated: &valid,
        generated_names: &seen.generated.names,
        existing: &seen.existing,
        policy,
        preserve: &preserve,
        ignore: &seen.ignore,
        operations: &operations,
        refreshes: plan.map_or(&[], |plan| &plan.refreshes),
    });
    if let Some(plan) = plan {
        windows::withdraw(&mut writes, &plan.withdrawals, &seen.existing);
    }
    // Nor while it is not known how it should be rolled out (AS-304).
    let (misspelt, stuck) = (!seen.misspelt.is_empty(), is_stuck(seen, context));
    writes.behind(Gate::of(misspelt, stuck, !seen.ignore_problems.is_empty()))
}

/// What a user has to mend, the most serious first.
fn bad_input(
    seen: &Seen,
    context: &Context,
    writes: &application_set::WritePlan,
) -> Option<Failure> {
    if let Some(failure) = status::held(&seen.misspelt) {
        return Some(failure);
    }
    if let Err(error) = &seen.generated.result {
        let message =
            format!("{error}; nothing is created, updated or deleted until this is mended");
        return Some(Failure { reason: error.reason(), message });
    }
    if is_stuck(seen, context) {
        let message = "spec.strategy.rollingSync.steps: is empty, so nothing may be rolled out; add a step or \
                       remove the strategy"
            .to_owned();
        return Some(Failure { reason: reason::APPLICATION_SET_ROLLOUT_ERROR, message });
    }
    if let Some(problem) = seen.ignore_problems.first() {
        return Some(Failure {
            reason: reason::UPDATE_APPLICATION_ERROR,
            message: problem.message.clone(),
        });
    }
    if let Some(message) = seen.policy_problem.clone() {
        return Some(Failure { reason: reason::UPDATE_APPLICATION_ERROR, message });
    }
    if let Some(message) = first_of("application", seen.invalid.iter(), seen.invalid.len()) {
        return Some(Failure { reason: reason::APPLICATION_VALIDATION_ERROR, message });
    }
    let refused = writes.refused.iter().map(|(name, problem)| (name, problem));
    first_of("application", refused, writes.refused.len())
        .map(|message| Failure { reason: reason::UPDATE_APPLICATION_ERROR, message })
}

fn first_of<'a>(
    what: &str,
    mut problems: impl Iterator<Item = (&'a String, &'a String)>,
    count: usize,
) -> Option<String> {
    let (name, problem) = problems.next()?;
    let more = if count > 1 { format!(" (and {} more)", count - 1) } else { String::new() };
    Some(format!("{what} {name}: {problem}{more}"))
}

/// Writes the status; `None` when the set changed in the meantime.
pub async fn record(
    set: &Parsed,
    context: &Context,
    wanted: &Value,
) -> Result<Option<Parsed>, Error> {
    match status_writer::write(&context.client, set, wanted).await {
        Ok(Written::Unchanged) => Ok(Some(set.clone())),
        Ok(Written::Changed(new)) => {
            context.control_plane.sets.wrote(new.clone(), Origin::ApplicationSets);
            Ok(Some(new.parsed()))
        }
        Ok(Written::Conflict) => Ok(None),
        Err(error) => {
            let name = format!("{}/{}", set.namespace(), set.name());
            Err(Error::Status { name, reason: words(&error) })
        }
    }
}

/// Says on a set that its reconcile failed by a bug. The next one that works
/// takes that back.
pub async fn report(context: &Context, key: &ObjectKey, error: &Error) {
    if context.settings.dry_run {
        return;
    }
    let Some(set) = context.control_plane.sets.get(key) else { return };
    let set = set.parsed();
    let message = format!("{error}; this is a bug of wavegate, other sets are not concerned");
    let failure = Failure { reason: reason::INTERNAL_ERROR, message };
    let wanted = status::held_deletion(set.value(), &failure, context.clock.now());
    match record(&set, context, &wanted).await {
        Ok(Some(new)) => events::failures(&new, set.value(), context, Some(&failure)).await,
        Ok(None) => {}
        Err(error) => tracing::warn!(%error, "cannot tell that it failed"),
    }
}

/// The deletions that were not tried, and for which write they wait.
fn held(outcomes: &[Outcome]) -> Option<Held> {
    let is_held = |outcome: &&Outcome| matches!(outcome.result, Ok(Done::Held));
    let applications: Vec<String> =
        outcomes.iter().filter(is_held).map(|outcome| outcome.application.clone()).collect();
    let lacking =
        outcomes.iter().find(|outcome| outcome.is_lacking() && outcome.act != Act::Delete);
    let until = format!("application {} is written", lacking?.application);
    (!applications.is_empty()).then_some(Held { applications, until })
}

/// The failure to tell when writes failed: that of the first Application by
/// name (AS-157).
fn failed(set: &Parsed, outcomes: &[Outcome], policy: Policy) -> Option<(Failure, Error)> {
    let mut failures: Vec<(&Outcome, &kube::Error)> = outcomes
        .iter()
        .filter_map(|outcome| Some((outcome, outcome.result.as_ref().err()?)))
        .collect();
    failures.sort_by(|(a, _), (b, _)| a.application.cmp(&b.application));
    let (first, cause) = failures.first()?;
    let reason = match first.act {
        Act::Delete => reason::DELETE_APPLICATION_ERROR,
        _ if policy.updates() => reason::UPDATE_APPLICATION_ERROR,
        _ => reason::CREATE_APPLICATION_ERROR,
    };
    let place = format!("application {}: ", first.application);
    let told = set.value()["status"]["conditions"].as_array().and_then(|conditions| {
        let condition = conditions.iter().find(|condition| condition["type"] == "ErrorOccurred")?;
        let told = condition["message"].as_str()?.strip_prefix(&place)?;
        Some(told.split(status::HELD).next().unwrap_or_default().to_owned())
    });
    let cause: String = words(cause).chars().take(CAUSE_LIMIT).collect();
    // Some errors differ by a port or a time only. Each new text would change
    // the status, and that would wake the next pass before its time.
    let cause = told.filter(|told| events::is_same_error(told, &cause)).unwrap_or(cause);
    let text = format!("{place}{cause}");
    let error = Error::Applications {
        name: format!("{}/{}", set.namespace(), set.name()),
        count: failures.len(),
        first: text.clone(),
    };
    Some((Failure { reason, message: text }, error))
}

/// Removes the refresh annotation once a pass has come to its end (AS-420).
async fn finish_refresh(set: &Parsed, context: &Context) -> Result<(), Error> {
    if set.value()["metadata"]["annotations"][APPLICATION_SET_REFRESH].is_null() {
        return Ok(());
    }
    let patch = serde_json::json!({
        "metadata": { "annotations": { APPLICATION_SET_REFRESH: null } }
    });
    deletion::patch_set(set, context, patch).await.map(drop)
}

fn next(
    plan: Option<&RolloutPlan>,
    bad_input: bool,
    unasked: bool,
    outcomes: &[Outcome],
    now: Timestamp,
) -> Next {
    let outdated = |outcome: &Outcome| matches!(outcome.result, Ok(Done::Outdated));
    if outcomes.iter().any(outdated) {
        return Next::Again;
    }
    let waits = [
        plan.and_then(|plan| plan.wake_at).map(|at| {
            Duration::try_from(at.duration_since(now)).unwrap_or(Duration::from_millis(100))
        }),
        bad_input.then_some(AFTER_BAD_INPUT),
        unasked.then_some(Duration::ZERO),
    ];
    waits.into_iter().flatten().min().map_or(Next::Wait, Next::After)
}
