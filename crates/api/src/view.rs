//! The few fields of an object that lists, metrics and waits look at. The rest is skipped when
//! they are read, such as the resources of a status. Words stay as they are written, also
//! unknown ones.

use std::collections::BTreeMap;

use super::app_spec::ApplicationDestination;
use super::operation::OperationPhase;
use super::source::SourceHydrator;
use super::sources;

lenient! {
    /// An Application.
    pub struct ApplicationView {
        /// Labels and deletion.
        pub metadata: MetadataView,
        /// Sources, destination and policy.
        pub spec: ApplicationSpecView,
        /// The operation that was requested.
        pub operation: Option<OperationView>,
        /// Results of comparing and syncing.
        pub status: ApplicationStatusView,
    }

    /// Metadata of an object.
    pub struct MetadataView {
        /// Labels.
        pub labels: BTreeMap<String, String>,
        /// When its deletion was requested.
        pub deletion_timestamp: Option<String>,
        /// The objects that it belongs to.
        pub owner_references: Vec<OwnerView>,
    }

    /// An owner of an object.
    pub struct OwnerView {
        /// Its name.
        pub name: String,
    }

    /// Spec of an Application.
    pub struct ApplicationSpecView {
        /// The source.
        pub source: Option<SourceView>,
        /// Several sources.
        pub sources: Vec<SourceView>,
        /// The source that is hydrated.
        pub source_hydrator: Option<SourceHydrator>,
        /// Cluster and namespace.
        pub destination: ApplicationDestination,
        /// Its AppProject.
        pub project: String,
        /// How it is synced.
        pub sync_policy: SyncPolicyView,
    }

    /// How an Application is synced.
    pub struct SyncPolicyView {
        /// By itself.
        pub automated: Option<AutomatedView>,
        /// Options of its syncs.
        pub sync_options: Vec<String>,
    }

    /// Automated sync.
    pub struct AutomatedView {
        /// Whether it is enabled, unless it is absent.
        pub enabled: Option<bool>,
    }

    /// A source.
    pub struct SourceView {
        /// URL of the repository.
        #[serde(rename = "repoURL")]
        pub repo_url: String,
    }

    /// An operation.
    pub struct OperationView {
        /// A sync.
        pub sync: Option<SyncView>,
    }

    /// A sync.
    pub struct SyncView {
        /// Whether nothing is written.
        pub dry_run: bool,
        /// Whether resources are deleted.
        pub prune: bool,
    }

    /// Status of an Application.
    pub struct ApplicationStatusView {
        /// Result of the comparison.
        pub sync: StateView,
        /// Health.
        pub health: StateView,
        /// Errors and warnings.
        pub conditions: Vec<ConditionView>,
        /// The operation that runs, or the last one.
        pub operation_state: OperationStateView,
    }

    /// Something with a status in one word.
    pub struct StateView {
        /// The word.
        pub status: String,
    }

    /// State of an operation.
    pub struct OperationStateView {
        /// Its phase.
        pub phase: String,
        /// When it began.
        pub started_at: String,
        /// When it ended.
        pub finished_at: String,
        /// What was requested.
        pub operation: OperationView,
    }

    /// A condition of any kind.
    pub struct ConditionView {
        /// Its type.
        #[serde(rename = "type")]
        pub type_: String,
        /// True, False or Unknown.
        pub status: String,
        /// Its reason.
        pub reason: String,
        /// Its message.
        pub message: String,
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
        pub conditions: Vec<ConditionView>,
    }
}

impl ApplicationView {
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

impl ApplicationSpecView {
    /// The repository of the first source that is in effect.
    pub fn repository(&self) -> String {
        match (&self.source_hydrator, self.sources.first().or(self.source.as_ref())) {
            (Some(hydrator), _) => sources::typed(hydrator).repo_url,
            (None, source) => source.map(|one| one.repo_url.clone()).unwrap_or_default(),
        }
    }
}

impl SyncPolicyView {
    /// Whether automated sync is enabled.
    pub fn is_automated(&self) -> bool {
        self.automated.as_ref().is_some_and(|automated| automated.enabled.unwrap_or(true))
    }
}

impl OperationStateView {
    /// Its phase; unknown words are none.
    pub fn phase(&self) -> OperationPhase {
        OperationPhase::from_word(&self.phase)
    }
}

/// The first condition of a type.
pub fn condition_of<'c>(conditions: &'c [ConditionView], type_: &str) -> Option<&'c ConditionView> {
    conditions.iter().find(|one| one.type_ == type_)
}
