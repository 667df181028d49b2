//! The requests in the queue of Applications.

use crate::runtime;
use wavegate_application::request::{ComparisonRequest, Level};

pub use crate::runtime::ReconcileResult;

/// The Applications to reconcile.
pub type Queue = runtime::Queue<ComparisonRequest>;

/// Why an Application is reconciled.
pub type Trigger = runtime::Trigger<ComparisonRequest>;

impl runtime::QueueRequest for ComparisonRequest {
    fn and(self, other: Self) -> Self {
        Self::and(self, other)
    }

    /// A user has requested it.
    fn is_urgent(self) -> bool {
        self.level >= Level::Newest
    }
}
