//! What is reported to users about a rollout: its steps, its Applications, what it waits for, and
//! what it came to.
//!
//! [`build_report`] is the only reading of a rollout outside of the controller. It starts from what
//! a controller has stored in the status of the set, Argo CD's own included, and from the
//! Applications as they are now, which a status follows by up to a second. It decides
//! nothing: what comes next is only known to the controller.
//!
//! Each Application has one wait, of a kind of the controller's ladder
//! ([`wait`](super::wait)). The kind says who ends it ([`EndedBy`](super::wait::EndedBy)); what
//! the rollout came to ([`RolloutOutcome`]), which Applications hold it, and the order of the waits
//! follow from that.
//!
//! A report can be kept: [`Report::observe`] and [`Report::read`] take a new version of an
//! Application or of the set, and lead to the report of all at once.

mod application;
mod member;
mod outcome;
mod set;
mod state;
mod step;
#[cfg(test)]
mod tests;
mod waits;

pub use self::application::{ApplicationReport, Awaited, Deletion, Doing, Initiator};
pub use self::member::Member;
pub use self::outcome::RolloutOutcome;
pub use self::set::{ReportedWait, Rollout, Set, SetCondition, Status};
pub use self::state::{Report, ReportState, build_report};
pub use self::step::{Count, Step, StepStatus};
pub use self::waits::{DONE, OUTSIDE, Why};
