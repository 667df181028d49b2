//! A run that is reported.

use wavegate_api::ObjectKey;
use wavegate_api::run::RolloutRunStatus;

/// A run, as stored.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// Namespace and name.
    pub key: &'a ObjectKey,
    /// Its UID.
    pub uid: &'a str,
    /// The name of its ApplicationSet.
    pub set: &'a str,
    /// Its status.
    pub status: &'a RolloutRunStatus,
}
