//! Which Applications hold a rollout: what is shown in red, and what the screen blames.

use super::member::Member;
use super::outcome::{self, MemberState};
use super::set::Set;
use super::set_status::Wait;
use crate::api::application_set::RolloutPhase;
use crate::decide::application_set::OWNED_BY;
use crate::decide::rollout::NOT_CREATED;
use crate::decide::rollout::gate::INVALID;

impl Set {
    /// Whether an Application holds the rollout: only a person continues it.
    pub fn is_held_by(&self, name: &str, member: &Member) -> bool {
        self.failure(name, member).is_some() || self.refusal(name, member).is_some()
    }

    /// Why an Application holds the rollout: it has failed, in the open step. A failure in a
    /// closed step is that of an earlier revision, and of no interest until its step opens.
    pub fn failure(&self, name: &str, member: &Member) -> Option<String> {
        let seen = member.seen.as_ref().filter(|_| !self.is_done(member))?;
        let step = self.status.open_step;
        if self.plan.rolling && (member.step.is_none() || member.step != step) {
            return None;
        }
        // Known before others are counted, which takes time in a large set.
        let waits = self.plan.rolling && member.phase == RolloutPhase::Waiting;
        if waits && !seen.has_error && member.held.is_none() {
            return None;
        }
        match outcome::member_state(self, step, name, member) {
            MemberState::Failed(why) => Some(why),
            MemberState::Moving | MemberState::Queued | MemberState::Manual => None,
        }
    }

    /// Why the controller does not create an Application, if it says so.
    pub fn refusal(&self, name: &str, member: &Member) -> Option<&str> {
        let wait = self.wait(name).filter(|_| member.seen.is_none())?;
        // The second one may be over with the next attempt.
        let is_refused = [INVALID, NOT_CREATED].iter().any(|start| wait.reason.starts_with(start));
        is_refused.then_some(wait.reason.as_str())
    }

    /// Why an Application is not created until a person changes something.
    pub(super) fn refused_for_good(&self, name: &str) -> Option<&str> {
        let reason = self.wait(name)?.reason.as_str();
        let why = reason.strip_prefix(NOT_CREATED).and_then(|why| why.strip_prefix(": "));
        let is_of_another = why.is_some_and(|why| why.starts_with(OWNED_BY));
        (reason.starts_with(INVALID) || is_of_another).then_some(reason)
    }

    /// Why the rollout waits for an Application, as far as its status lists it.
    pub(super) fn wait(&self, name: &str) -> Option<&Wait> {
        self.status.waiting.iter().find(|wait| wait.application == name)
    }

    /// The first failed Application that holds the rollout, and why.
    pub(super) fn first_failure(&self) -> Option<(&str, &Member, String)> {
        self.members.iter().find_map(|(name, member)| {
            let why = self.failure(name, member).filter(|why| !why.is_empty())?;
            Some((name.as_str(), member, why))
        })
    }

    /// Whether an Application waits until others have completed: in a later step, or for its
    /// turn in the open one. `step` is the open one, and its wait is that of all.
    pub(super) fn is_behind(&self, step: Option<usize>, name: &str, member: &Member) -> bool {
        let is_after = self.plan.rolling && member.step.is_some();
        match member.phase {
            RolloutPhase::Healthy => false,
            _ if is_after && member.step > step => true,
            _ => is_after && member.step == step && !self.is_held_by(name, member),
        }
    }
}
