//! What a process remembers of an Application: an input and an output of decisions. Nothing of
//! it is lost for good: without it, the Application is compared again, and what has failed is
//! retried sooner.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use jiff::Timestamp;

use super::request::ComparisonRequest;
use wavegate_api::ResourceKey;
use wavegate_engine::wait::Wait;

/// The memory of one Application.
#[derive(Clone, Debug, Default)]
pub struct ApplicationMemory {
    /// When the revision was last resolved.
    pub checked_at: Option<Timestamp>,
    /// When it was last rendered, also without a new revision.
    pub rendered_at: Option<Timestamp>,
    /// When it was last compared.
    pub compared_at: Option<Timestamp>,
    /// What the last comparison waits for.
    pub wait: Option<Wait>,
    /// [`digest_of`] of the spec of the last comparison.
    pub last_spec: Option<u64>,
    /// The request of a comparison that was postponed or has failed.
    pub postponed: ComparisonRequest,
    /// Since when its repository cannot be read. Not in the status during the grace period.
    pub failing_since: Option<Timestamp>,
    /// When this process began its last operation. The status has whole seconds, and a
    /// revision resolved in that second may be older than the operation.
    pub operation_began: Option<Timestamp>,
    /// Since when its operation cannot read its inputs.
    pub unreadable_since: Option<Timestamp>,
    /// The hooks of its deletion that were created or deleted.
    pub tries: Tries,
}

/// A hook of a deletion that was created or deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Try {
    /// The next or current attempt.
    pub attempt: u64,
    /// When it was created; `None` if it was not created yet.
    pub made_at: Option<Timestamp>,
}

/// All hooks of a deletion that were created or deleted.
pub type Tries = BTreeMap<ResourceKey, Try>;

/// A digest of a value, to detect changes without keeping it.
pub fn digest_of<T: Hash + ?Sized>(value: &T) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
