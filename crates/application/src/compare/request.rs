//! Requests to compare an Application (SE-376).

use serde_json::Value;

/// The level of a comparison (SE-376).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Level {
    /// No comparison.
    #[default]
    None,
    /// The live objects, with the revision that was compared last.
    Live,
    /// Also the revision; a cached one may be used.
    Revision,
    /// The newest revision.
    Newest,
}

/// A request to compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ComparisonRequest {
    /// The level.
    pub level: Level,
    /// Whether manifests are rendered again even at the same revision.
    pub hard: bool,
}

impl ComparisonRequest {
    /// A request of this level.
    pub fn new(level: Level) -> Self {
        Self { level, hard: false }
    }

    /// Both requests combined.
    pub fn and(self, other: Self) -> Self {
        Self { level: self.level.max(other.level), hard: self.hard || other.hard }
    }

    /// Whether there is anything to do.
    pub fn is_some(self) -> bool {
        self.level > Level::None
    }
}

/// The fields of an Application whose changes count.
const COUNTED: [&str; 9] = [
    "/spec",
    "/operation",
    "/status/operationState/phase",
    "/status/sync",
    "/metadata/annotations",
    "/metadata/labels",
    "/metadata/finalizers",
    "/metadata/deletionTimestamp",
    "/metadata/uid",
];

/// Whether a change of an Application needs a reconcile: a status change by another client counts only for
/// its operation.
pub fn needs_reconcile(old: &Value, new: &Value) -> bool {
    let [old, new] = [old, new]
        .map(|object| COUNTED.map(|field| object.pointer(field).filter(|value| !value.is_null())));
    old != new
}
