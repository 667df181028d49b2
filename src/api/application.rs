//! Application: one set of manifests in one destination (SE-001 … SE-031).

use std::collections::BTreeMap;

use super::app_status::ApplicationStatus;
use super::operation::Operation;
use super::source::{ApplicationSource, NameValue, SourceHydrator};

resource! {
    /// Manifests from a source, kept in sync with a destination.
    ///
    /// There is no status subresource: `status` and `operation` are written
    /// with ordinary patches.
    pub struct Application("applications") {
        pub spec: ApplicationSpec,
        /// A request to sync; see [`Operation`].
        pub operation: Option<Operation>,
        /// What the controller found and did.
        pub status: Option<ApplicationStatus>,
    }
}

lenient! {
    /// Where manifests come from, where they go, and how.
    #[schemars(extend("required" = ["destination", "project"]))]
    pub struct ApplicationSpec {
        /// Where the manifests come from. Ignored when `sources` has items.
        pub source: Option<ApplicationSource>,
        /// Several sources; their manifests are put together in this order.
        pub sources: Vec<ApplicationSource>,
        /// Kept for the peer's hydrator, which is not supported here.
        pub source_hydrator: Option<SourceHydrator>,
        /// Cluster and namespace to sync to.
        pub destination: ApplicationDestination,
        /// AppProject that says what is allowed; empty is `default`.
        pub project: String,
        /// When and how to sync.
        pub sync_policy: Option<SyncPolicy>,
        /// Differences that do not count.
        pub ignore_differences: Vec<IgnoreDifference>,
        /// Notes for people.
        pub info: Vec<NameValue>,
        /// How many past syncs to remember; 10 when absent, 0 for none.
        pub revision_history_limit: Option<i64>,
    } and extra

    /// Cluster and namespace. Exactly one of `server` and `name` names the cluster.
    pub struct ApplicationDestination {
        /// URL of the cluster's API server.
        pub server: String,
        /// Name of the cluster.
        pub name: String,
        /// Namespace for resources that name none.
        pub namespace: String,
    } and extra

    /// When and how to sync.
    pub struct SyncPolicy {
        /// Sync without being asked; absent means only on request.
        pub automated: Option<AutomatedSync>,
        /// Options such as `CreateNamespace=true`.
        pub sync_options: Vec<String>,
        /// How to retry a failed sync.
        pub retry: Option<RetryStrategy>,
        /// Metadata of a namespace that the sync creates.
        pub managed_namespace_metadata: Option<ManagedNamespaceMetadata>,
    } and extra

    /// What a sync that nobody asked for may do.
    pub struct AutomatedSync {
        /// Absent is true. False switches it off and keeps the other settings.
        pub enabled: Option<bool>,
        /// Delete resources that are no longer in the source.
        pub prune: bool,
        /// Undo changes that were made in the cluster.
        pub self_heal: bool,
        /// Go ahead even when nothing would be left.
        pub allow_empty: bool,
    } and extra

    /// How often and how fast to retry.
    pub struct RetryStrategy {
        /// Attempts after the first; 0 is none, a negative number no limit.
        pub limit: i64,
        /// The time between attempts.
        pub backoff: Option<Backoff>,
        /// Resolve the newest revision at each attempt instead of keeping the first.
        pub refresh: bool,
    } and extra

    /// The time between attempts.
    pub struct Backoff {
        /// Before the first retry: seconds, or text such as `1m30s`; 5s when empty.
        pub duration: String,
        /// Each further wait is this many times longer; 2 when absent.
        pub factor: Option<i64>,
        /// No wait is longer; 3m when empty, no limit when not above zero.
        pub max_duration: String,
    } and extra

    /// Metadata of a namespace that the sync creates.
    pub struct ManagedNamespaceMetadata {
        /// Labels.
        pub labels: BTreeMap<String, String>,
        /// Annotations.
        pub annotations: BTreeMap<String, String>,
    } and extra

    /// Differences that do not count, and the resources for which they do not (SE-026).
    #[schemars(extend("required" = ["kind"]))]
    pub struct IgnoreDifference {
        /// Glob of the API group; empty is the core group.
        pub group: String,
        /// Glob of the kind.
        pub kind: String,
        /// Name; empty for any.
        pub name: String,
        /// Namespace; empty for any.
        pub namespace: String,
        /// JSON pointers to the fields.
        pub json_pointers: Vec<String>,
        /// jq paths to the fields.
        pub jq_path_expressions: Vec<String>,
        /// Fields that these field managers own.
        pub managed_fields_managers: Vec<String>,
    } and extra
}

impl ApplicationSpec {
    /// The sources in effect: `sources` when it has items, else `source`
    /// (SE-010, SE-011).
    pub fn sources(&self) -> &[ApplicationSource] {
        if self.sources.is_empty() { self.source.as_slice() } else { &self.sources }
    }

    /// Whether the Application syncs without being asked (SE-014, SE-015).
    pub fn is_automated(&self) -> bool {
        let automated = self.sync_policy.as_ref().and_then(|policy| policy.automated.as_ref());
        automated.is_some_and(|automated| automated.enabled.unwrap_or(true))
    }
}
