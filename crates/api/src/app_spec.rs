//! Spec of an Application: sources, destination and sync policy (SE-001 … SE-031).

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::source::{ApplicationSource, NameValue, SourceHydrator};
use super::sources;

lenient! {
    /// Source, destination and sync policy of an Application.
    #[schemars(extend("required" = ["destination", "project"]))]
    pub struct ApplicationSpec {
        /// Source of the manifests. Ignored when `sources` has items.
        pub source: Option<ApplicationSource>,
        /// Several sources; their manifests are combined in this order.
        pub sources: Vec<ApplicationSource>,
        /// Settings of Argo CD's source hydrator. Stored, but not supported.
        pub source_hydrator: Option<SourceHydrator>,
        /// Cluster and namespace to sync to.
        pub destination: ApplicationDestination,
        /// AppProject that restricts the Application; `default` when empty.
        pub project: String,
        /// When and how to sync.
        pub sync_policy: Option<SyncPolicy>,
        /// Differences between desired and live state to ignore.
        pub ignore_differences: Vec<IgnoreDifference>,
        /// Additional information for users, as names and values.
        pub info: Vec<NameValue>,
        /// Number of past syncs to keep in the history; 10 when absent, 0 keeps none.
        pub revision_history_limit: Option<i64>,
    } and extra

    /// Cluster and namespace. Exactly one of `server` and `name` names the cluster.
    pub struct ApplicationDestination {
        /// URL of the cluster's API server.
        pub server: String,
        /// Name of the cluster, as registered in its Secret.
        pub name: String,
        /// Namespace for resources that do not set one.
        pub namespace: String,
    } and extra

    /// When and how to sync.
    pub struct SyncPolicy {
        /// Automated sync; when absent, syncs start only on request.
        pub automated: Option<AutomatedSync>,
        /// Options such as `CreateNamespace=true`.
        pub sync_options: Vec<String>,
        /// Retry strategy of a failed sync.
        pub retry: Option<RetryStrategy>,
        /// Labels and annotations of the namespace created by `CreateNamespace=true`.
        pub managed_namespace_metadata: Option<ManagedNamespaceMetadata>,
    } and extra

    /// Settings of automated sync.
    pub struct AutomatedSync {
        /// Whether automated sync is enabled; true when absent. False disables it and
        /// keeps the other settings.
        pub enabled: Option<bool>,
        /// Delete resources that are no longer defined in the source.
        pub prune: bool,
        /// Revert changes that were made in the cluster.
        pub self_heal: bool,
        /// Allow a sync that would delete all resources.
        pub allow_empty: bool,
    } and extra

    /// Number of retries of a failed sync and the time between them.
    pub struct RetryStrategy {
        /// Number of retries after the first attempt; 0 disables retries, a negative
        /// number means no limit.
        pub limit: i64,
        /// The time between attempts.
        pub backoff: Option<Backoff>,
        /// Resolve the newest revision at each retry instead of keeping the first one.
        pub refresh: bool,
    } and extra

    /// Time between retries.
    pub struct Backoff {
        /// Time before the first retry: seconds, or a duration such as `1m30s`; 5s when empty.
        pub duration: String,
        /// Factor by which each further wait grows; 2 when absent.
        pub factor: Option<i64>,
        /// Longest time between retries; 3m when empty, no limit when zero or negative.
        pub max_duration: String,
    } and extra

    /// Labels and annotations of the namespace created by `CreateNamespace=true`.
    pub struct ManagedNamespaceMetadata {
        /// Labels.
        pub labels: BTreeMap<String, String>,
        /// Annotations.
        pub annotations: BTreeMap<String, String>,
    } and extra

    /// Fields whose differences are ignored, and the resources they apply to (SE-026).
    #[schemars(extend("required" = ["kind"]))]
    pub struct IgnoreDifference {
        /// Glob of the API group; empty means the core group.
        pub group: String,
        /// Glob of the kind.
        pub kind: String,
        /// Name; empty matches any name.
        pub name: String,
        /// Namespace; empty matches any namespace.
        pub namespace: String,
        /// JSON pointers to the fields.
        pub json_pointers: Vec<String>,
        /// jq path expressions of the fields.
        pub jq_path_expressions: Vec<String>,
        /// Field managers whose fields are ignored.
        pub managed_fields_managers: Vec<String>,
    } and extra
}

impl ApplicationSpec {
    /// The sources in effect: that of `sourceHydrator`, else `sources` when it has items,
    /// else `source` (SE-010, SE-011, SE-029).
    pub fn sources(&self) -> Cow<'_, [ApplicationSource]> {
        match &self.source_hydrator {
            Some(hydrator) => Cow::Owned(vec![sources::typed(hydrator)]),
            None if self.sources.is_empty() => Cow::Borrowed(self.source.as_slice()),
            None => Cow::Borrowed(&self.sources),
        }
    }

    /// Whether automated sync is enabled (SE-014, SE-015).
    pub fn is_automated(&self) -> bool {
        let policy = self.sync_policy.as_ref();
        policy.and_then(|policy| policy.automated.as_ref()).is_some_and(AutomatedSync::is_enabled)
    }
}

impl AutomatedSync {
    /// Whether it is enabled, as it is unless it says otherwise (SE-014, SE-015).
    pub fn is_enabled(&self) -> bool {
        self.enabled.unwrap_or(true)
    }
}
