//! What an Event says.

use super::once::Once;
pub(super) use wavegate_application::events::COMPLETED;
pub use wavegate_application::events::Subject;

/// Content of an Event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRecord {
    /// Whether the Event is a warning.
    pub warning: bool,
    /// Reason, in one word.
    pub reason: &'static str,
    /// Action, in one word.
    pub action: &'static str,
    /// What it is about.
    pub subject: Subject,
    /// Message.
    pub text: String,
    /// What identifies it among the Events of the object. Published again, after a conflict
    /// or by another process, it is the same Event. `None`: each one is an Event.
    pub once: Option<Once>,
    /// The states before and after it, of a field of a status: a change and its way back may be none.
    pub states: Option<[String; 2]>,
}

impl EventRecord {
    /// An Event about what its reason says, each time that it is published.
    pub const fn new(
        warning: bool,
        reason: &'static str,
        action: &'static str,
        text: String,
    ) -> Self {
        Self { warning, reason, action, subject: Subject::Reason, text, once: None, states: None }
    }

    /// Whether it is dropped first, and counted together with others of the same subject.
    /// The steps of a rollout are kept individually.
    pub(super) fn is_routine(&self) -> bool {
        !self.warning && !matches!(self.reason, "StepOpened" | "RolloutComplete")
    }
}
