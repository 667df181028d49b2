//! Kubernetes Events of a set: one per transition, found by comparing the
//! stored status with the new one.

use jiff::Timestamp;

use crate::application_set::deletion::Stuck;
use crate::application_set::plan::outcome::{Ended, WriteAct, WriteOutcome};
use crate::application_set::plan::write_plan::WritePlan;
use crate::application_set::status::findings::{Failure, rollout_message};
use crate::application_set::status::stored::Status;
use crate::rollout::RolloutPlan;
use crate::rollout::run::RunDecision;
use crate::rollout::status::step_text;
use crate::rollout::wait::RolloutWait;
use wavegate_api::annotations::RESOURCES_FINALIZER;
use wavegate_api::conditions::application_set::{self as condition, reason};
use wavegate_api::run::{RunPhase, TimelineEntry};

/// One Event about a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetEvent {
    /// Whether the Event is a warning.
    pub warning: bool,
    /// The reason, in CamelCase.
    pub reason: &'static str,
    /// The action that was taken or failed.
    pub action: &'static str,
    /// The message.
    pub text: String,
}

impl SetEvent {
    fn warning(reason: &'static str, action: &'static str, text: String) -> Self {
        Self { warning: true, reason, action, text }
    }

    fn normal(reason: &'static str, action: &'static str, text: String) -> Self {
        Self { warning: false, reason, action, text }
    }
}

/// A warning about a generator or the template.
pub(crate) fn generator(warning: &str) -> SetEvent {
    SetEvent::warning("GeneratorWarning", "Generate", warning.to_owned())
}

/// A failure is reported when it appears or changes.
pub fn failure_event(old: &Status, new: &Status, failure: Option<&Failure>) -> Option<SetEvent> {
    let failure = failure?;
    let kind = condition::ERROR_OCCURRED;
    let changed = old.condition(kind) != new.condition(kind);
    changed.then(|| SetEvent::warning(failure.reason, "Reconcile", failure.message.clone()))
}

/// A configuration error of a rollout, or a disabled feature, is reported when
/// it appears or changes.
pub(crate) fn misconfigured(old: &Status, new: &Status) -> Option<SetEvent> {
    let kind = condition::INVALID_ROLLOUT_CONFIG;
    if !new.has(kind, "True") || old.condition(kind) == new.condition(kind) {
        return None;
    }
    let text = new.condition(kind)?.message.clone();
    let reason = reason::APPLICATION_SET_INVALID_ROLLOUT_CONFIG;
    Some(SetEvent::warning(reason, "Rollout", text))
}

/// Deletions that wait for a person are reported when they are held, and when they are others.
pub(crate) fn deletions_held(old: &Status, new: &Status) -> Option<SetEvent> {
    let kind = condition::DELETIONS_HELD;
    let held = new.condition(kind).filter(|held| held.status == "True")?;
    let changed = old.condition(kind) != Some(held);
    changed.then(|| SetEvent::warning(condition::DELETIONS_HELD, "Delete", held.message.clone()))
}

/// Transitions of the rollout: an opened step, its completion, and Applications
/// that were moved on without a sync.
pub fn rollout_events(old: &Status, new: &Status, plan: &RolloutPlan) -> Vec<SetEvent> {
    let timed_out = plan.transitions.iter().filter(|transition| transition.timed_out);
    let mut events: Vec<SetEvent> = timed_out
        .map(|transition| {
            let (application, step) = (&transition.application, step_text(transition.step));
            let text = format!("application {application} of step {step}: {}", transition.message);
            SetEvent::warning("ProgressingTimeout", "Rollout", text)
        })
        .collect();
    let kind = condition::ROLLOUT_PROGRESSING;
    let was_known = old.condition(kind).is_some() && old.rollout.is_some();
    if !was_known || old.open_step() != new.open_step() {
        let reason = if plan.open_step.is_some() { "StepOpened" } else { "RolloutComplete" };
        events.push(SetEvent::normal(reason, "Rollout", rollout_message(plan)));
    }
    events
}

/// What policies and people say about a run, and about earlier ones. Nothing of one that simply goes
/// on, which the Events of its steps say.
pub fn run(decision: &RunDecision) -> Vec<SetEvent> {
    let event = |run: &str, entry: &TimelineEntry| {
        let TimelineEntry { what, subject, by, message, .. } = entry;
        let by = if by.is_empty() { String::new() } else { format!(" by {by}") };
        let more = if message.is_empty() { String::new() } else { format!(": {message}") };
        let of_run = |text: String| format!("run {run}: {text}");
        let (warning, reason, text) = match what.as_str() {
            "GateApproved" => (false, "GateApproved", format!("gate {subject} is approved{by}")),
            "GateOpened" => (false, "GateOpened", format!("gate {subject} opens")),
            "ApprovalVoid" => (true, "ApprovalVoid", format!("gate {subject}, approved{by}{more}")),
            "BudgetExceeded" => (true, "BudgetExceeded", message.clone()),
            "WithoutEffect" => (true, "WithoutEffect", format!("it has no effect{more}")),
            phase => match RunPhase::from_word(phase) {
                RunPhase::Progressing | RunPhase::Complete => return None,
                phase => {
                    let is_wanted = matches!(
                        phase,
                        RunPhase::Paused
                            | RunPhase::AwaitingApproval
                            | RunPhase::Soaking
                            | RunPhase::Superseded
                    );
                    (!is_wanted, phase.as_str(), format!("{phase}{by}{more}"))
                }
            },
        };
        Some(SetEvent { warning, reason, action: "Rollout", text: of_run(text) })
    };
    let late = decision.late.iter().flat_map(|run| run.news.iter().map(|one| (&run.name, one)));
    let news = decision.news.iter().map(|one| (&decision.name, one));
    late.chain(news).filter_map(|(run, one)| event(run, one)).collect()
}

/// A wait that exceeds the timeout (AS-611).
pub fn stalled_event(wait: &RolloutWait, since: Timestamp) -> SetEvent {
    let (step, application) = (wait.step + 1, &wait.application);
    let text =
        format!("step {step} waits for application {application} since {since}: {}", wait.message);
    SetEvent::warning("RolloutStalled", "Rollout", text)
}

/// An Application of a set that is being deleted is not gone after a long time
/// (AS-611).
pub fn deletion_stuck(stuck: &Stuck) -> SetEvent {
    let (application, why) = (&stuck.name, stuck.why());
    let text = format!(
        "application {application} {why}; the ApplicationSet stays until it is gone, and so do the \
         Applications of the steps before it"
    );
    SetEvent::warning("DeletionStuck", "Delete", text)
}

/// An Application was written.
pub(crate) fn written(outcome: &WriteOutcome, writes: &WritePlan) -> Option<SetEvent> {
    let application = &outcome.application;
    let (reason, what) = match (&outcome.ended, outcome.act) {
        (Ended::Written, WriteAct::Create) => ("created", "Created"),
        (Ended::Written, WriteAct::Delete) => ("Deleted", "Deleted"),
        (Ended::Written, WriteAct::Update) => ("updated", "Updated"),
        (Ended::Written, WriteAct::Release) => {
            let mut deletes = writes.deletes.iter();
            let release = deletes.find(|delete| delete.name == *application)?.release.as_ref()?;
            let text = format!(
                "Removed the finalizer {RESOURCES_FINALIZER} of Application {application}, so its \
                 resources stay: {}",
                release.why
            );
            return Some(SetEvent::normal("Updated", "Write", text));
        }
        (Ended::Written, WriteAct::Start | WriteAct::Annotate)
        | (Ended::Outdated | Ended::Held | Ended::Failed(_), _) => return None,
    };
    Some(SetEvent::normal(reason, "Write", format!("{what} Application {application}")))
}

/// An Application cannot be written.
pub fn application_error(application: &str, why: &str) -> SetEvent {
    let text = format!("application {application}: {why}");
    SetEvent::warning("ApplicationError", "Write", text)
}

/// Further Applications cannot be written.
pub fn more_application_errors(count: usize) -> SetEvent {
    let text = format!("{count} more applications cannot be written; the log names them");
    SetEvent::warning("ApplicationError", "Write", text)
}
