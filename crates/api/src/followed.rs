//! An Application as those see it who follow its operation: only these fields are read, and words
//! stay as they are written, also unknown ones.

use serde_json::Value;

use super::operation::OperationPhase;
use super::read::read_leniently;
use super::resource_key::ResourceKey;
use super::sources;

lenient! {
    /// An Application whose operation is followed.
    pub struct FollowedApplication {
        /// The requested operation; null for none.
        pub operation: Value,
        /// What its controller says.
        pub status: FollowedStatus,
    }

    /// The status of an Application.
    pub struct FollowedStatus {
        /// When it was compared last; absent before.
        pub reconciled_at: Option<String>,
        /// The running operation, or the last one.
        pub operation_state: FollowedOperation,
        /// Its resources.
        pub resources: Vec<FollowedResource>,
        /// Errors and warnings.
        pub conditions: Vec<FollowedCondition>,
    }

    /// The state of an operation.
    pub struct FollowedOperation {
        /// Its phase.
        pub phase: String,
        /// What it waits for, or why it ended.
        pub message: String,
        /// When it started.
        pub started_at: String,
        /// When it finished, or its last attempt.
        pub finished_at: Option<String>,
        /// Number of retries.
        pub retry_count: i64,
        /// What was requested; null for nothing.
        pub operation: Value,
        /// The result so far.
        pub sync_result: FollowedSync,
    }

    /// The result of a sync.
    pub struct FollowedSync {
        /// Its revision.
        pub revision: String,
        /// Those of several sources.
        pub revisions: Vec<String>,
        /// Results of the resources.
        pub resources: Vec<FollowedResult>,
    }

    /// The result of a resource in one phase.
    pub struct FollowedResult {
        /// API group; empty for the core group.
        pub group: String,
        /// Kind.
        pub kind: String,
        /// Namespace.
        pub namespace: String,
        /// Name.
        pub name: String,
        /// What became of it.
        pub status: String,
        /// Details.
        pub message: String,
        /// Type of the hook; empty for others.
        pub hook_type: String,
        /// Its phase.
        pub hook_phase: String,
        /// The phase of the sync.
        pub sync_phase: String,
    }

    /// A resource of an Application.
    pub struct FollowedResource {
        /// API group; empty for the core group.
        pub group: String,
        /// Kind.
        pub kind: String,
        /// Namespace.
        pub namespace: String,
        /// Name.
        pub name: String,
        /// Whether it is as in the source.
        pub status: String,
        /// Its health; absent where it is not stored.
        pub health: Option<FollowedHealth>,
        /// Whether it is a hook.
        pub hook: bool,
        /// Whether it is not in the source any more.
        pub requires_pruning: bool,
        /// Its wave.
        pub sync_wave: i64,
    }

    /// The health of a resource.
    pub struct FollowedHealth {
        /// In one word.
        pub status: String,
        /// Details.
        pub message: String,
    }

    /// An error or a warning.
    pub struct FollowedCondition {
        /// Its type.
        #[serde(rename = "type")]
        pub type_: String,
        /// Details.
        pub message: String,
    }
}

impl FollowedApplication {
    /// Reads a stored Application.
    pub fn read(application: &Value) -> Self {
        read_leniently(application)
    }
}

impl FollowedOperation {
    /// Whether it has ended.
    pub fn is_completed(&self) -> bool {
        OperationPhase::from_word(&self.phase).is_completed()
    }
}

impl FollowedSync {
    /// The revisions, one for each source.
    pub fn all_revisions(&self) -> Vec<String> {
        sources::listed(&self.revision, &self.revisions)
    }
}

impl FollowedResult {
    /// The object that it is about.
    pub fn key(&self) -> ResourceKey {
        ResourceKey::new(&self.group, &self.kind, &self.namespace, &self.name)
    }
}

impl FollowedResource {
    /// The object that it is about.
    pub fn key(&self) -> ResourceKey {
        ResourceKey::new(&self.group, &self.kind, &self.namespace, &self.name)
    }
}
