//! The flags of `wavegate run`.

use super::accepted::AcceptedFlags;
use super::application::ApplicationFlags;
use super::reader::switch;

/// The times that a query may take, in seconds: a reconcile, which may take 900, asks some queries
/// one after the other.
pub(super) const QUERY_SECONDS: std::ops::RangeInclusive<i64> = 1..=800;

/// Who syncs the Applications.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum SyncEngine {
    /// Wavegate itself.
    #[default]
    Embedded,
    /// An Argo CD application controller beside it.
    External,
}

/// What happens to a Healthy Application that drifted (AS-354).
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Drift {
    /// It is rolled out again, in its step.
    Capture,
    /// Nothing.
    Ignore,
}

/// The flags of `wavegate run`. Each may also be set in the environment and in
/// the ConfigMap; see docs/reference/configuration.md.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Flags {
    /// Namespace of the control plane: projects, cluster Secrets and
    /// ApplicationSets live there [default: argocd]
    #[arg(long, short = 'n', value_name = "NAMESPACE", help_heading = "Cluster access")]
    pub namespace: Option<String>,
    /// Who syncs the Applications [default: embedded]
    #[arg(long, value_name = "ENGINE", help_heading = "Sync engine")]
    pub sync_engine: Option<SyncEngine>,
    /// Enable RollingSync [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", value_parser = switch, help_heading = "Rollout")]
    pub enable_progressive_syncs: Option<bool>,
    /// Seconds after which an Application whose sync does not start counts as
    /// Healthy; 0 waits for ever [default: 300]
    #[arg(long, value_name = "SECONDS", help_heading = "Rollout")]
    pub default_application_progressing_timeout: Option<u32>,
    /// What happens to a Healthy Application that drifted [default: capture]
    #[arg(long, value_name = "WHAT", help_heading = "Rollout", hide_short_help = true)]
    pub progressive_sync_drift: Option<Drift>,
    /// A step is complete only while its Applications are Healthy right now [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", value_parser = switch, help_heading = "Rollout", hide_short_help = true)]
    pub progressive_sync_require_live_health: Option<bool>,
    /// A sync names the revision it was decided on [default: true]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", value_parser = switch, help_heading = "Rollout", hide_short_help = true)]
    pub progressive_sync_pin_revisions: Option<bool>,
    /// Namespaces besides the control plane's, comma separated globs or /regex/ [default: empty]
    #[arg(long, value_name = "PATTERNS", value_delimiter = ',', help_heading = "ApplicationSets")]
    pub applicationset_namespaces: Option<Vec<String>>,
    /// What sets may do to their Applications: sync, create-update,
    /// create-delete or create-only [default: sync]
    #[arg(long, value_name = "POLICY", help_heading = "ApplicationSets")]
    pub policy: Option<String>,
    /// Whether a set may choose its own policy [default: true without a policy, else false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", value_parser = switch, help_heading = "ApplicationSets", hide_short_help = true)]
    pub enable_policy_override: Option<bool>,
    /// Write nothing, and say in the log what would be written [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", value_parser = switch, help_heading = "ApplicationSets")]
    pub dry_run: Option<bool>,
    /// How many ApplicationSets are reconciled at once [default: 10]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..), help_heading = "ApplicationSets", hide_short_help = true)]
    pub concurrent_reconciliations: Option<u16>,
    /// How many Applications of one set are written at once [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=200), help_heading = "ApplicationSets")]
    pub concurrent_application_updates: Option<u16>,
    /// Annotations of Applications that are left alone, comma separated [default: empty]
    #[arg(
        long,
        value_name = "KEYS",
        value_delimiter = ',',
        help_heading = "ApplicationSets",
        hide_short_help = true
    )]
    pub preserved_annotations: Option<Vec<String>>,
    /// Labels of Applications that are left alone, comma separated [default: empty]
    #[arg(
        long,
        value_name = "KEYS",
        value_delimiter = ',',
        help_heading = "ApplicationSets",
        hide_short_help = true
    )]
    pub preserved_labels: Option<Vec<String>>,
    /// Delete no Applications while a generator finds nothing where it found something, until
    /// a person approves it [default: true]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", value_parser = switch, help_heading = "ApplicationSets", hide_short_help = true)]
    pub hold_deletions: Option<bool>,
    /// The most Applications that a status lists; 0 is all [default: 5000]
    #[arg(long, value_name = "N", help_heading = "ApplicationSets", hide_short_help = true)]
    pub max_resources_status_count: Option<u32>,
    /// A `*` in the file patterns of git generators stays within a directory, and `**`
    /// crosses directories [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", value_parser = switch, help_heading = "Sources", hide_short_help = true)]
    pub enable_new_git_file_globbing: Option<bool>,
    /// Git generators list directories whose names start with a dot, too [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", value_parser = switch, help_heading = "Sources", hide_short_help = true)]
    pub include_hidden_directories: Option<bool>,
    /// Whether the generators scmProvider and pullRequest may be used [default: true]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", value_parser = switch, help_heading = "Generators", hide_short_help = true)]
    pub enable_scm_providers: Option<bool>,
    /// Addresses that generators may name as `api`, comma separated; any without one [default: empty]
    #[arg(
        long,
        value_name = "URLS",
        value_delimiter = ',',
        help_heading = "Generators",
        hide_short_help = true
    )]
    pub allowed_scm_providers: Option<Vec<String>>,
    /// Secrets that generators name need the label argocd.argoproj.io/secret-type: scm-creds [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", value_parser = switch, help_heading = "Generators", hide_short_help = true)]
    pub token_ref_strict_mode: Option<bool>,
    /// File with certificates that servers of source code may have, too [default: empty]
    #[arg(long, value_name = "PATH", help_heading = "Generators", hide_short_help = true)]
    pub scm_root_ca_path: Option<String>,
    /// Proxy to servers of source code; that of the environment without one [default: empty]
    #[arg(long, value_name = "URL", help_heading = "Generators", hide_short_help = true)]
    pub scm_proxy_url: Option<String>,
    /// Hosts without that proxy, comma separated [default: empty]
    #[arg(long, value_name = "HOSTS", help_heading = "Generators", hide_short_help = true)]
    pub scm_no_proxy: Option<String>,
    /// Seconds that a generator may ask a server or a plugin, with all requests, up to 800 [default: 200]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(QUERY_SECONDS), help_heading = "Generators", hide_short_help = true)]
    pub scm_query_timeout_seconds: Option<u32>,
    /// Allow sources that are directories or repositories of this machine [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", value_parser = switch, help_heading = "Sources")]
    pub allow_local_sources: Option<bool>,
    /// Allow repositories at http:// URLs, to which passwords go without encryption
    /// [default: true]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", value_parser = switch, help_heading = "Sources", hide_short_help = true)]
    pub allow_http_sources: Option<bool>,
    /// Address for metrics, at /metrics; empty is off [default: :8080]
    #[arg(long, value_name = "ADDR", help_heading = "Observability")]
    pub metrics_addr: Option<String>,
    /// Labels of ApplicationSets that argocd_appset_labels shows, comma separated [default: empty]
    #[arg(
        long,
        value_name = "KEYS",
        value_delimiter = ',',
        help_heading = "Observability",
        hide_short_help = true
    )]
    pub metrics_applicationset_labels: Option<Vec<String>>,
    /// Address for webhooks of Git servers, at /api/webhook; empty is off [default: :7000]
    #[arg(long, value_name = "ADDR", help_heading = "Webhooks")]
    pub webhook_addr: Option<String>,
    /// How many webhook events are processed at once [default: 50]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000), help_heading = "Webhooks", hide_short_help = true)]
    pub webhook_parallelism_limit: Option<u16>,
    /// How many RolloutRuns of each set are kept [default: 10]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000), help_heading = "ApplicationSets", hide_short_help = true)]
    pub rollout_history_limit: Option<u32>,
    /// Send notifications also to private addresses, and to them without TLS [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", value_parser = switch, help_heading = "ApplicationSets", hide_short_help = true)]
    pub allow_private_sinks: Option<bool>,
    /// Address for health probes [default: :8081]
    #[arg(long, value_name = "ADDR", help_heading = "Observability")]
    pub probe_addr: Option<String>,
    /// Run only while holding the lease [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", value_parser = switch, help_heading = "Leader election")]
    pub enable_leader_election: Option<bool>,
    /// Start although another controller does the same work in this namespace, such as one of
    /// Argo CD [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", value_parser = switch, help_heading = "Leader election", hide_short_help = true)]
    pub allow_other_controllers: Option<bool>,
    /// json, text, or argocd, which is JSON with the keys of Argo CD [default: json]
    #[arg(long, value_name = "FORMAT", help_heading = "Observability")]
    pub logformat: Option<String>,
    /// debug, info, warn or error [default: info]
    #[arg(long, value_name = "LEVEL", help_heading = "Observability")]
    pub loglevel: Option<String>,
    /// The same as --loglevel debug, and wins over it [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", value_parser = switch, help_heading = "Observability", hide_short_help = true)]
    pub debug: Option<bool>,
    /// Those of the embedded sync engine.
    #[command(flatten)]
    pub application: ApplicationFlags,
    /// Those of Argo CD without a meaning here.
    #[command(flatten)]
    pub accepted: AcceptedFlags,
}
