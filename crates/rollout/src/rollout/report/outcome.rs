//! What a rollout came to, from the waits for its Applications.

use super::member::Member;
use super::state::{Report, ReportState};
use super::waits::Why;
use crate::rollout::phase::Phase;
use crate::rollout::wait::{EndedBy, WaitKind};
use wavegate_api::HealthStatus;
use wavegate_api::conditions::application_set::reason;

/// Outcome of a rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RolloutOutcome {
    /// In progress.
    Running,
    /// Complete.
    Complete,
    /// Every step is complete, but its run was aborted or taken back: what that rolled out is not
    /// promoted to. Only a report that knows the run has it.
    RunEnded,
    /// An Application has failed, or is held, and a person has to act.
    Blocked {
        /// The step, counted from 0.
        step: Option<usize>,
        /// The Application.
        application: String,
        /// Why it does not continue by itself: the blocking resource and its problem, or the
        /// message of the sync.
        why: Why,
        /// Number of other Applications that wait for it, in its step and later ones.
        behind: usize,
    },
    /// Waits for a manual sync of these Applications.
    Manual {
        /// The step, counted from 0.
        step: Option<usize>,
        /// The Applications.
        applications: Vec<String>,
    },
    /// The set is invalid, or is not rolled out in steps although it has some.
    Invalid {
        /// Why; may be empty.
        message: String,
        /// Its controller does not roll out in steps.
        is_off: bool,
    },
}

impl RolloutOutcome {
    /// Whether only a person can continue the rollout.
    pub fn is_stuck(&self) -> bool {
        !matches!(self, Self::Running | Self::Complete)
    }
}

impl Report {
    /// What it came to.
    pub fn outcome(&self) -> RolloutOutcome {
        let invalid =
            |message: &str| RolloutOutcome::Invalid { message: message.to_owned(), is_off: false };
        if let Some(Err(error)) = &self.set.generated {
            return invalid(error);
        }
        let status = &self.set.status;
        let mut error = None;
        if let Some((reason, message)) = &status.error
            && !Self::is_retried(reason)
        {
            // The other Applications are rolled out.
            let goes_on = reason == reason::APPLICATION_VALIDATION_ERROR;
            if !goes_on || self.open_step.is_none() {
                return invalid(message);
            }
            error = Some(message);
        }
        match self.state() {
            ReportState::Deleting => return RolloutOutcome::Running,
            ReportState::SwitchedOff => {
                let message = status.invalid_config.clone().unwrap_or_default();
                return RolloutOutcome::Invalid { message, is_off: true };
            }
            _ if self.is_rolling() && !self.is_complete() && self.open_step.is_none() => {
                return RolloutOutcome::Running;
            }
            _ => {}
        }
        // A complete rollout does not include Applications that no step selects.
        let matters = |member: &Member| match self.open_step {
            Some(step) => member.step == Some(step),
            None => !self.is_rolling() || member.step.is_some(),
        };
        let mut unfinished = self
            .members
            .iter()
            .filter(|(_, member)| matters(member) && !self.is_done(member))
            .peekable();
        if unfinished.peek().is_none() {
            // Applications that were not created yet may be unknown.
            let all = self.set.generated.is_some() || status.exists && status.is_up_to_date;
            let complete = if self.is_rolling() { self.is_complete() } else { all };
            return if complete { RolloutOutcome::Complete } else { RolloutOutcome::Running };
        }
        // As the controller says: what is not in sync was so when its step was complete.
        if self.is_complete() {
            let moves = |member: &Member| member.live.is_none() || member.is_operating();
            let is_over = !unfinished.any(|(_, member)| moves(member));
            return if is_over { RolloutOutcome::Complete } else { RolloutOutcome::Running };
        }
        let (mut held, mut manual) = (None, Vec::new());
        for (name, member) in unfinished {
            match self.ended_by(member) {
                // It may be the one that is invalid.
                EndedBy::Events if member.live.is_none() && error.is_some() => {}
                EndedBy::Events | EndedBy::Word => return RolloutOutcome::Running,
                EndedBy::Turn => {}
                EndedBy::Sync => manual.push(name.clone()),
                EndedBy::Person => held = held.or(Some((name, member))),
            }
        }
        let step = self.open_step;
        match (held, error) {
            (Some((application, member)), _) => {
                let others = self.members.iter().filter(|(name, _)| *name != application);
                let behind = others.filter(|(_, member)| self.is_behind(member)).count();
                let kind = self.kind(member);
                let why = Why { kind, message: self.cause(member, kind) };
                RolloutOutcome::Blocked { step, application: application.clone(), why, behind }
            }
            (None, _) if !manual.is_empty() => {
                RolloutOutcome::Manual { step, applications: manual }
            }
            (None, Some(message)) => invalid(message),
            (None, None) => RolloutOutcome::Running,
        }
    }

    /// Whether a member waits until others have completed: in a later step, or for its turn in
    /// the open one.
    fn is_behind(&self, member: &Member) -> bool {
        let is_healthy = member.entry.as_ref().is_some_and(|entry| entry.phase == Phase::Healthy);
        if is_healthy || !self.is_rolling() || member.step.is_none() {
            return false;
        }
        member.step > self.open_step || member.step == self.open_step && self.hold(member).is_none()
    }

    /// The health of the set: `Degraded` instead of `Progressing`, which is Argo CD's word for
    /// every rollout that is not complete (AS-190), when it does not continue by itself.
    pub fn health(&self) -> &str {
        match self.set.status.health.as_str() {
            // Of none, nothing is known to be well.
            "Healthy" if self.members.is_empty() => HealthStatus::Unknown.as_str(),
            "Progressing" if self.is_stuck() => HealthStatus::Degraded.as_str(),
            health => health,
        }
    }

    /// Whether only a person ends the wait for an Application of the open step, or a controller
    /// has reported that it waits for it for too long. What a person holds on purpose counts
    /// when nothing else of the step goes on.
    fn is_stuck(&self) -> bool {
        if self.state() != ReportState::Rolling {
            return false;
        }
        let in_step = || {
            self.members.iter().filter(|(_, member)| {
                let is_incomplete = member.phase() != Some(Phase::Healthy);
                member.step == self.open_step && is_incomplete && !member.is_going()
            })
        };
        let is_busy = in_step().any(|(_, one)| one.phase().is_some_and(Phase::is_in_flight));
        let rollout = self.set.status.rollout.as_ref();
        in_step().any(|(name, member)| {
            let kind = self.kind(member);
            let is_on_purpose = kind == WaitKind::HeldByPerson && is_busy;
            rollout.is_some_and(|rollout| rollout.stalled.contains(name))
                || kind.ended_by() == EndedBy::Person && !is_on_purpose
        })
    }
}
