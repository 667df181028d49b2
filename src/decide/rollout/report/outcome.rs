//! What a rollout came to, from what is observed only.

use super::{Application, Member, Report, State, Step};
use crate::api::conditions::application_set::reason;
use crate::api::{HealthStatus, OperationPhase};
use crate::decide::blocking_resource::BlockingResource;
use crate::decide::rollout::budget::Limit;
use crate::decide::rollout::phase::Phase;
use crate::decide::rollout::wait::{Turn, WaitKind};

/// Outcome of a rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// In progress.
    Running,
    /// Complete.
    Complete,
    /// An Application has failed, or is held, and a person has to act.
    Blocked {
        /// The step, counted from 0.
        step: Option<usize>,
        /// The Application.
        application: String,
        /// Why.
        failure: Failure,
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

/// Why an Application does not continue by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The blocking resource and its problem, or the message of the sync.
    pub why: String,
    /// A person has synced it to something else (ST-065).
    pub is_held: bool,
}

impl Outcome {
    /// Whether only a person can continue the rollout.
    pub fn is_stuck(&self) -> bool {
        !matches!(self, Self::Running | Self::Complete)
    }
}

/// State of an Application that is not complete.
enum Standing {
    Moving,
    Failed(Failure),
    /// Has no free slot of `maxUpdate`.
    Queued,
    Manual,
}

impl Standing {
    fn failed(why: impl Into<String>) -> Self {
        Self::Failed(Failure { why: why.into(), is_held: false })
    }
}

impl Report {
    /// What it came to.
    pub fn outcome(&self) -> Outcome {
        let invalid =
            |message: &str| Outcome::Invalid { message: message.to_owned(), is_off: false };
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
            State::Deleting => return Outcome::Running,
            State::SwitchedOff => {
                let message = status.invalid_config.clone().unwrap_or_default();
                return Outcome::Invalid { message, is_off: true };
            }
            _ if self.is_rolling() && !self.is_complete() && self.open_step.is_none() => {
                return Outcome::Running;
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
            return if complete { Outcome::Complete } else { Outcome::Running };
        }
        // As the controller says: what is not in sync was so when its step was complete.
        if self.is_complete() {
            let moves = |member: &Member| member.live.is_none() || member.is_operating();
            let is_over = !unfinished.any(|(_, member)| moves(member));
            return if is_over { Outcome::Complete } else { Outcome::Running };
        }
        let (mut failed, mut manual) = (None, Vec::new());
        for (name, member) in unfinished {
            match self.standing(member) {
                // It may be the one that is invalid.
                Standing::Moving if member.live.is_none() && error.is_some() => {}
                Standing::Moving => return Outcome::Running,
                Standing::Failed(failure) => failed = failed.or(Some((name.clone(), failure))),
                Standing::Queued => {}
                Standing::Manual => manual.push(name.clone()),
            }
        }
        let step = self.open_step;
        match (failed, error) {
            (Some((application, failure)), _) => {
                let others = self.members.iter().filter(|(name, _)| **name != application);
                let behind = others.filter(|(_, member)| self.is_behind(member)).count();
                Outcome::Blocked { step, application, failure, behind }
            }
            (None, _) if !manual.is_empty() => Outcome::Manual { step, applications: manual },
            (None, Some(message)) => invalid(message),
            (None, None) => Outcome::Running,
        }
    }

    /// State of an Application of the open step, or of a set without steps.
    fn standing(&self, member: &Member) -> Standing {
        let Some(live) = &member.live else {
            let is_final =
                matches!(self.reported_kind(member), Some(WaitKind::Invalid | WaitKind::Refused));
            return match self.reported_message(member).filter(|_| is_final) {
                Some(why) => Standing::failed(why),
                None => Standing::Moving,
            };
        };
        let detail = live.doing.detail.as_str();
        let resource = live.blocking.resource.as_ref();
        if live.is_operating() && resource.is_some_and(BlockingResource::requires_confirmation) {
            return Standing::failed(detail);
        }
        if live.is_operating() || live.deletion.is_some() {
            return Standing::Moving;
        }
        if member.is_held() {
            let why = self.why(member);
            let is_held = why.kind == WaitKind::HeldByPerson;
            return Standing::Failed(Failure { why: why.message, is_held });
        }
        if !self.is_rolling() {
            let is_compared = live.observed.reconciled_at.is_some();
            return match live {
                live if live.is_stuck() => Standing::failed(detail),
                live if is_compared && !live.is_automated && live.is_out_of_sync() => {
                    Standing::Manual
                }
                _ => match resource.filter(|resource| resource.needs_a_person_to_prune()) {
                    Some(kept) => Standing::failed(kept.to_string()),
                    None => Standing::Moving,
                },
            };
        }
        let step = self.step_of(member).filter(|_| self.open_step.is_some());
        let turn = step.map_or(Turn::UNLIMITED, Step::turn);
        match member.phase() {
            Some(Phase::Waiting | Phase::Healthy) if live.has_error => Standing::failed(detail),
            Some(Phase::Waiting) if turn.limit == Limit::AtMost(0) => Standing::Manual,
            Some(Phase::Waiting) if !turn.is_free() => Standing::Queued,
            Some(Phase::Progressing) => self.after_sync(member, live),
            Some(Phase::Waiting | Phase::Pending | Phase::Healthy) | None => Standing::Moving,
        }
    }

    /// State of a Progressing Application of which no operation runs.
    fn after_sync(&self, member: &Member, live: &Application) -> Standing {
        let detail = live.doing.detail.as_str();
        if live.is_stuck() {
            return Standing::failed(detail);
        }
        let reported = self.reported_message(member);
        let needs_a_sync = self.reported_kind(member) == Some(WaitKind::FailedOperation);
        // A dry run is in the place of the sync that failed; or it is Synced and Healthy, and
        // only a sync of all of it says how it is.
        let is_hidden = live.is_partial() && (needs_a_sync || live.is_done());
        if let Some(reported) = reported.filter(|_| is_hidden && needs_a_sync) {
            return Standing::failed(reported);
        }
        // Its sync has ended, and a rollout requests no other one for the same revision.
        let is_over = live.is_judged_since() || live.operation() == OperationPhase::Unknown;
        let stays_out_of_sync = is_over
            && !live.is_automated
            && live.is_out_of_sync()
            && live.observed.health != HealthStatus::Progressing;
        match reported {
            _ if stays_out_of_sync && !detail.is_empty() => Standing::failed(detail),
            _ if stays_out_of_sync => {
                Standing::failed(reported.unwrap_or("it is OutOfSync after its sync"))
            }
            Some(reported) if is_hidden => Standing::failed(reported),
            Some(_) | None => Standing::Moving,
        }
    }

    fn reported_message<'a>(&self, member: &'a Member) -> Option<&'a str> {
        member.reported.as_ref().map(|reported| reported.message.as_str())
    }

    fn reported_kind(&self, member: &Member) -> Option<WaitKind> {
        member.reported.as_ref()?.kind
    }

    /// Why a member holds the rollout: it has failed, in the open step. A failure in a closed
    /// step is that of an earlier revision, and of no interest until its step opens.
    pub fn failure(&self, member: &Member) -> Option<Failure> {
        member.live.as_ref().filter(|_| !self.is_done(member))?;
        if self.is_rolling() && (member.step.is_none() || member.step != self.open_step) {
            return None;
        }
        match self.standing(member) {
            Standing::Failed(failure) => Some(failure),
            Standing::Moving | Standing::Queued | Standing::Manual => None,
        }
    }

    /// Why the controller does not create a member, if it says so. A failed write may be over
    /// with the next attempt.
    pub fn refusal<'a>(&self, member: &'a Member) -> Option<&'a str> {
        let kinds = [WaitKind::Invalid, WaitKind::Refused, WaitKind::FailedWrite];
        let is_refused = self.reported_kind(member).is_some_and(|kind| kinds.contains(&kind));
        self.reported_message(member).filter(|_| is_refused && member.live.is_none())
    }

    /// Whether a member holds the rollout: only a person continues it.
    pub fn is_held_by(&self, member: &Member) -> bool {
        self.failure(member).is_some() || self.refusal(member).is_some()
    }

    /// Whether a member waits until others have completed: in a later step, or for its turn in
    /// the open one.
    fn is_behind(&self, member: &Member) -> bool {
        let is_healthy = member.entry.as_ref().is_some_and(|entry| entry.phase == Phase::Healthy);
        if is_healthy || !self.is_rolling() || member.step.is_none() {
            return false;
        }
        member.step > self.open_step || member.step == self.open_step && !self.is_held_by(member)
    }

    /// The health of the set: `Degraded` instead of `Progressing`, which is Argo CD's word for
    /// every rollout that is not complete (AS-190), when it does not continue by itself.
    pub fn health(&self) -> &str {
        match self.set.status.health.as_str() {
            "Progressing" if self.is_stuck() => HealthStatus::Degraded.as_str(),
            health => health,
        }
    }

    /// Whether an Application of the open step has failed, or a controller has reported that it
    /// waits for it for too long, or nothing of the step goes on but what a person holds.
    fn is_stuck(&self) -> bool {
        let Some(rollout_step) = self.open_step.filter(|_| self.state() == State::Rolling) else {
            return false;
        };
        let rollout = self.set.status.rollout.as_ref();
        let is_stalled = |name: &String| rollout.is_some_and(|all| all.stalled.contains(name));
        let in_step = || {
            self.members.iter().filter(|(_, member)| {
                let is_incomplete = member.phase() != Some(Phase::Healthy);
                member.step == Some(rollout_step) && is_incomplete && !member.is_going()
            })
        };
        let is_busy = in_step().any(|(_, one)| one.phase().is_some_and(Phase::is_in_flight));
        in_step().any(|(name, member)| {
            let is_held = member.is_held() && !member.is_operating();
            let is_ill = member.phase() == Some(Phase::Progressing)
                && !member.is_operating()
                && member.live.as_ref().is_some_and(|live| {
                    live.observed.health == HealthStatus::Degraded || live.operation().has_failed()
                });
            is_stalled(name)
                || self.reported_kind(member) == Some(WaitKind::Invalid)
                || (is_held && !is_busy)
                || is_ill
                || (member.live.is_some() && member.needs_a_sync() && !member.is_operating())
                || self.failure(member).is_some_and(|failure| !failure.is_held)
        })
    }
}
