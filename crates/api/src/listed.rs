//! The few fields of an object that lists, metrics and waits look at. The rest is skipped when
//! they are read, such as the resources of a status. Words stay as they are written, also
//! unknown ones.

use std::collections::BTreeMap;

use super::app_spec::{ApplicationDestination, AutomatedSync};
use super::operation::OperationPhase;
use super::pod::ObjectCondition;
use super::source::SourceHydrator;
use super::sources;

lenient! {
    /// An Application.
    pub struct ListedApplication {
        /// Labels and deletion.
        pub metadata: ListedMetadata,
        /// Sources, destination and policy.
        pub spec: ListedSpec,
        /// The operation that was requested.
        pub operation: Option<ListedOperation>,
        /// Results of comparing and syncing.
        pub status: ListedStatus,
    }

    /// Metadata of an object.
    pub struct ListedMetadata {
        /// Labels.
        pub labels: BTreeMap<String, String>,
        /// When its deletion was requested.
        pub deletion_timestamp: Option<String>,
        /// The objects that it belongs to.
        pub owner_references: Vec<ListedOwner>,
    }

    /// An owner of an object.
    pub struct ListedOwner {
        /// Its name.
        pub name: String,
    }

    /// Spec of an Application.
    pub struct ListedSpec {
        /// The source.
        pub source: Option<ListedSource>,
        /// Several sources.
        pub sources: Vec<ListedSource>,
        /// The source that is hydrated.
        pub source_hydrator: Option<SourceHydrator>,
        /// Cluster and namespace.
        pub destination: ApplicationDestination,
        /// Its AppProject.
        pub project: String,
        /// How it is synced.
        pub sync_policy: ListedSyncPolicy,
    }

    /// How an Application is synced.
    pub struct ListedSyncPolicy {
        /// By itself.
        pub automated: Option<AutomatedSync>,
        /// Options of its syncs.
        pub sync_options: Vec<String>,
    }

    /// A source.
    pub struct ListedSource {
        /// URL of the repository.
        #[serde(rename = "repoURL")]
        pub repo_url: String,
    }

    /// An operation.
    pub struct ListedOperation {
        /// A sync.
        pub sync: Option<ListedSync>,
    }

    /// A sync.
    pub struct ListedSync {
        /// Whether nothing is written.
        pub dry_run: bool,
        /// Whether resources are deleted.
        pub prune: bool,
    }

    /// Status of an Application.
    pub struct ListedStatus {
        /// Result of the comparison.
        pub sync: ListedWord,
        /// Health.
        pub health: ListedWord,
        /// Errors and warnings.
        pub conditions: Vec<ObjectCondition>,
        /// The operation that runs, or the last one.
        pub operation_state: ListedOperationState,
    }

    /// Something with a status in one word.
    pub struct ListedWord {
        /// The word.
        pub status: String,
    }

    /// State of an operation.
    pub struct ListedOperationState {
        /// Its phase.
        pub phase: String,
        /// When it began.
        pub started_at: String,
        /// When it ended.
        pub finished_at: String,
        /// What was requested.
        pub operation: ListedOperation,
    }

    /// A RoleBinding or ClusterRoleBinding.
    pub struct BindingView {
        /// What is bound.
        pub role_ref: RoleRefView,
    }

    /// A reference to a role.
    pub struct RoleRefView {
        /// Its API group.
        pub api_group: String,
        /// Its kind.
        pub kind: String,
        /// Its name.
        pub name: String,
    }

    /// A CustomResourceDefinition.
    pub struct DefinitionView {
        /// What it defines.
        pub spec: DefinitionSpecView,
        /// How far the API server is with it.
        pub status: DefinitionStatusView,
    }

    /// Spec of a CustomResourceDefinition.
    pub struct DefinitionSpecView {
        /// The API group.
        pub group: String,
        /// The names of the kind.
        pub names: DefinedNamesView,
        /// Its versions.
        pub versions: Vec<DefinedVersionView>,
    }

    /// Names of a kind.
    pub struct DefinedNamesView {
        /// Its name.
        pub kind: String,
    }

    /// A version of a kind.
    pub struct DefinedVersionView {
        /// Its name.
        pub name: String,
        /// Whether it is served.
        pub served: bool,
    }

    /// Status of a CustomResourceDefinition.
    pub struct DefinitionStatusView {
        /// Conditions.
        pub conditions: Vec<ObjectCondition>,
    }
}

impl ListedApplication {
    /// Whether a sync is requested that prunes.
    pub fn prunes(&self) -> bool {
        let sync = self.operation.as_ref().and_then(|operation| operation.sync.as_ref());
        sync.is_some_and(|sync| sync.prune)
    }

    /// Whether an operation is requested, or under way.
    pub fn has_operation(&self) -> bool {
        self.operation.is_some() || self.status.operation_state.phase().is_running()
    }
}

impl ListedSpec {
    /// The repository of the first source that is in effect.
    pub fn repository(&self) -> String {
        match (&self.source_hydrator, self.sources.first().or(self.source.as_ref())) {
            (Some(hydrator), _) => sources::typed(hydrator).repo_url,
            (None, source) => source.map(|one| one.repo_url.clone()).unwrap_or_default(),
        }
    }
}

impl ListedSyncPolicy {
    /// Whether automated sync is enabled.
    pub fn is_automated(&self) -> bool {
        self.automated.as_ref().is_some_and(AutomatedSync::is_enabled)
    }
}

impl ListedOperationState {
    /// Its phase; unknown words are none.
    pub fn phase(&self) -> OperationPhase {
        OperationPhase::from_word(&self.phase)
    }
}
