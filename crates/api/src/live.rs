//! The fields of a live Application that a rollout decides by, read once for each version. What
//! is not named here is skipped, such as the resources of its status, and what has a wrong type
//! is absent: an unknown state is never read as Synced or Healthy.

use jiff::Timestamp;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use super::app_spec::AutomatedSync;
use super::app_status::RevisionHistory;
use super::application_set::{
    ApplicationSetSyncPolicy, IgnoreApplicationDifference, PreservedFields,
};
use super::operation::OperationInitiator;
use super::raw::Raw;
use super::read::read_leniently;
use super::source::NameValue;
use super::sources::InEffect;
use super::time::Time;

/// Defines structs that are only read, all fields of which may be absent.
macro_rules! views {
    ($(
        $(#[$meta:meta])* pub struct $name:ident {
            $($(#[$field_meta:meta])* pub $field:ident: $type:ty,)*
        }
    )*) => {$(
        $(#[$meta])*
        #[derive(Clone, Debug, Default, Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        pub struct $name {
            $(
                $(#[$field_meta])*
                #[serde(deserialize_with = "crate::lenient::or_default")]
                pub $field: $type,
            )*
        }
    )*};
}

lenient! {
    /// An owner of an object. It is written back as it was read.
    pub struct LiveOwner {
        /// Whether it controls the object.
        pub controller: Option<bool>,
        /// Whether its deletion in the foreground waits for the object.
        pub block_owner_deletion: Option<bool>,
        /// Its group and version.
        pub api_version: String,
        /// Its kind.
        pub kind: String,
        /// Its name.
        pub name: String,
        /// Its UID.
        pub uid: String,
    } and extra
}

views! {
    /// A live Application.
    pub struct LiveApplication {
        /// Who it is.
        pub metadata: LiveMetadata,
        /// What it is to be.
        pub spec: LiveSpec,
        /// What it is.
        pub status: LiveStatus,
        /// The requested operation.
        pub operation: Option<LiveOperation>,
    }

    /// The metadata of an object.
    pub struct LiveMetadata {
        /// Its name.
        pub name: String,
        /// Its namespace.
        pub namespace: String,
        /// Its UID.
        pub uid: String,
        /// Its resource version.
        pub resource_version: Option<String>,
        /// The version of its spec.
        pub generation: i64,
        /// When its deletion was requested.
        pub deletion_timestamp: Option<String>,
        /// Its owners.
        pub owner_references: Option<Vec<LiveOwner>>,
    }

    /// The spec of an Application.
    pub struct LiveSpec {
        /// Its AppProject.
        pub project: String,
        /// Cluster and namespace, as written.
        pub destination: Value,
        /// Differences that are ignored, as written.
        pub ignore_differences: Value,
        /// How it is synced.
        pub sync_policy: LiveSyncPolicy,
        /// How many syncs its history has.
        pub revision_history_limit: Option<i64>,
    }

    /// How an Application is synced.
    pub struct LiveSyncPolicy {
        /// Automated sync.
        pub automated: Option<AutomatedSync>,
        /// Options of its syncs, as written.
        pub sync_options: Option<Vec<Value>>,
        /// How failed syncs are tried again, as written.
        pub retry: Option<Map<String, Value>>,
    }

    /// The status of an Application.
    pub struct LiveStatus {
        /// The result of the comparison.
        pub sync: LiveSyncStatus,
        /// Its health.
        pub health: LiveHealth,
        /// Errors and warnings.
        pub conditions: Vec<LiveCondition>,
        /// When it was compared.
        pub reconciled_at: Option<Time>,
        /// The operation that is running, or the last one.
        pub operation_state: Option<LiveOperationState>,
        /// Its syncs, the oldest first.
        pub history: Vec<RevisionHistory>,
    }

    /// The result of a comparison.
    pub struct LiveSyncStatus {
        /// The word, also an unknown one.
        pub status: Option<String>,
        /// The compared revision.
        pub revision: String,
        /// Those of several sources.
        pub revisions: Vec<String>,
        /// The part of the spec that was compared, as written.
        pub compared_to: Option<Map<String, Value>>,
    }

    /// The health of an Application.
    pub struct LiveHealth {
        /// The word, also an unknown one.
        pub status: Option<String>,
        /// Why.
        pub message: Option<String>,
    }

    /// An error or a warning.
    pub struct LiveCondition {
        /// Its type.
        #[serde(rename = "type")]
        pub type_: String,
        /// What is wrong.
        pub message: String,
        /// Since when.
        pub last_transition_time: Option<Time>,
    }

    /// The state of an operation.
    pub struct LiveOperationState {
        /// Its phase.
        pub phase: Option<String>,
        /// What it waits for, or how it ended.
        pub message: String,
        /// When it began.
        pub started_at: Option<Time>,
        /// When it ended; also set between two retries.
        pub finished_at: Option<Time>,
        /// What was requested.
        pub operation: LiveOperation,
        /// What it has done.
        pub sync_result: LiveSyncResult,
    }

    /// What a sync has done.
    pub struct LiveSyncResult {
        /// The revision.
        pub revision: String,
        /// Those of several sources.
        pub revisions: Vec<String>,
        /// The resources that were synced.
        pub resources: Vec<IgnoredAny>,
    }

    /// What an ApplicationSet asks for besides Applications, each field whatever is wrong with
    /// others.
    pub struct LiveSetSpec {
        /// Which changes the controller may make.
        pub sync_policy: ApplicationSetSyncPolicy,
        /// Metadata that the controller does not change.
        pub preserved_fields: PreservedFields,
        /// Fields that the controller does not change.
        pub ignore_application_differences: Vec<IgnoreApplicationDifference>,
        /// The order of deletion.
        pub strategy: LiveStrategy,
    }

    /// The strategy of an ApplicationSet, but for its steps.
    pub struct LiveStrategy {
        /// AllAtOnce or RollingSync.
        #[serde(rename = "type")]
        pub type_: String,
        /// The steps.
        pub rolling_sync: LiveSteps,
        /// AllAtOnce or Reverse.
        pub deletion_order: String,
    }

    /// How many steps there are.
    pub struct LiveSteps {
        /// The steps.
        pub steps: Vec<IgnoredAny>,
    }

    /// A source of manifests.
    pub struct LiveSource {
        /// URL of its repository.
        #[serde(rename = "repoURL")]
        pub repo_url: String,
        /// Name of its chart.
        pub chart: String,
        /// Branch, tag, commit or version.
        pub target_revision: String,
        /// The path in the repository.
        pub path: String,
    }

    /// A requested operation.
    pub struct LiveOperation {
        /// The sync.
        pub sync: Option<LiveSync>,
        /// Who requested it.
        pub initiated_by: OperationInitiator,
        /// What is stored with it.
        pub info: Vec<NameValue>,
    }

    /// A requested sync.
    pub struct LiveSync {
        /// The revision; that of the spec when empty.
        pub revision: String,
        /// Those of several sources.
        pub revisions: Vec<String>,
        /// Whether nothing is changed.
        pub dry_run: bool,
        /// The resources; all when empty.
        pub resources: Vec<IgnoredAny>,
        /// Manifests in place of a source.
        pub manifests: Vec<IgnoredAny>,
    }
}

impl LiveApplication {
    /// Reads an Application.
    pub fn read(live: &Value) -> Self {
        read_leniently(live)
    }

    /// The state of the running operation, or of the last one.
    pub fn state(&self) -> Option<&LiveOperationState> {
        self.status.operation_state.as_ref()
    }
}

impl LiveMetadata {
    /// That of an object, without the rest of it.
    pub fn of(object: &Value) -> Self {
        object.get("metadata").map(read_leniently).unwrap_or_default()
    }

    /// The owner that controls the object.
    pub fn controller(&self) -> Option<&LiveOwner> {
        self.owners().iter().find(|owner| owner.controller == Some(true))
    }

    /// All owners.
    pub fn owners(&self) -> &[LiveOwner] {
        self.owner_references.as_deref().unwrap_or_default()
    }
}

impl LiveSpec {
    /// That of an Application, without the rest of it.
    pub fn of(application: &Value) -> Self {
        read_leniently(application.spec())
    }

    /// Whether automated sync is enabled (SE-014, SE-015).
    pub fn is_automated(&self) -> bool {
        self.sync_policy.automated.as_ref().is_some_and(AutomatedSync::is_enabled)
    }

    /// Whether an automated sync would prune.
    pub fn prunes(&self) -> bool {
        self.is_automated() && self.sync_policy.automated.as_ref().is_some_and(|one| one.prune)
    }
}

impl LiveSetSpec {
    /// That of an ApplicationSet.
    pub fn of(set: &Value) -> Self {
        read_leniently(set.spec())
    }
}

impl LiveOperation {
    /// Whether it syncs the whole Application: not a dry run, and not only some resources.
    pub fn is_full(&self) -> bool {
        self.sync.as_ref().is_none_or(|sync| !sync.dry_run && sync.resources.is_empty())
    }

    /// The time in an item of this name.
    pub fn time_in(&self, name: &str) -> Option<Timestamp> {
        self.info.iter().find(|item| item.name == name)?.value.parse().ok()
    }
}

impl RevisionHistory {
    /// The sources that it records in the field of those in effect; `None` when it records none.
    pub fn sources_like(&self, in_effect: &InEffect<'_>) -> Option<Value> {
        match in_effect.is_list() {
            true => Some(&self.sources).filter(|all| !all.is_empty()).map(|all| all.clone().into()),
            false => self.source.clone(),
        }
    }
}
