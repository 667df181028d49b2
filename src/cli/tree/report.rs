//! What is printed.

use serde::Serialize;

use wavegate_engine::resource_tree::OwnedResource;

/// The data that is printed.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct TreeReport {
    pub(super) namespace: String,
    pub(super) application: String,
    pub(super) project: String,
    pub(super) destination: Destination,
    /// By source; empty before the first comparison.
    pub(super) revisions: Vec<String>,
    /// Empty before the first comparison.
    pub(super) sync: String,
    pub(super) health: AppHealth,
    pub(super) created_at: String,
    /// The phase of the last operation; empty without one.
    pub(super) operation: String,
    /// What it waits for; empty when it waits for nothing.
    pub(super) waits_for: String,
    pub(super) resources: Vec<OwnedResource>,
    /// What could not be read.
    pub(super) notes: Vec<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct Destination {
    pub(super) server: String,
    pub(super) name: String,
    pub(super) namespace: String,
}

/// The health in the status.
#[derive(Debug, Serialize)]
pub(super) struct AppHealth {
    pub(super) status: String,
    pub(super) message: String,
}
