//! The sync that windows are evaluated for.

use jiff::Timestamp;

/// The sync to evaluate windows for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SyncAttempt<'a> {
    /// Name of the Application.
    pub application: &'a str,
    /// URL of the destination's API server; empty when unknown.
    pub server: &'a str,
    /// Name of the destination cluster; empty when unknown. Windows may match either, so
    /// set both when both are known.
    pub cluster: &'a str,
    /// Namespace of the destination.
    pub namespace: &'a str,
    /// Whether the sync counts as manual; see [`is_manual`](super::is_manual).
    pub manual: bool,
    /// Start of the running operation; `None` when it is not running yet, as for
    /// automated syncs (SE-408, SE-409).
    pub started_at: Option<Timestamp>,
}
