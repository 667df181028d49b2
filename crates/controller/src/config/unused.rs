//! What Argo CD has and Wavegate does not do: settings, fields and annotations, each refused
//! where it is used or reported as without effect. The reference of users is generated from
//! these tables (docs/reference/argocd-settings.md), and a test compares them with the
//! definitions and with what is read.

use std::collections::BTreeSet;

/// What becomes of something that is not honoured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// The objects that use it are refused, with a condition or an error that names it.
    Refused,
    /// It has no effect, which the log or a condition of the objects that use it says.
    None,
}

/// One name, or several with the same reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unused {
    /// Variables, keys, annotations, or paths of fields from the kind, without `[]`. One that
    /// ends with a dot stands for all that begin with it.
    pub names: &'static [&'static str],
    /// What becomes of it.
    pub effect: Effect,
    /// The reason, or what happens instead.
    pub why: &'static str,
}

const fn none(names: &'static [&'static str], why: &'static str) -> Unused {
    Unused { names, effect: Effect::None, why }
}

const fn refused(names: &'static [&'static str], why: &'static str) -> Unused {
    Unused { names, effect: Effect::Refused, why }
}

// Reasons that flags have, too (`accepted.rs`).
pub(super) const REPO_SERVER: &str = "repositories are read by this process, without a repo server";
pub(super) const QUEUE: &str = "each object is in the queue once, with a back-off of its own";
pub(super) const ONE_PROCESS: &str =
    "one process handles all clusters; use leader election for more than one replica";
pub(super) const HYDRATOR: &str =
    "the embedded sync engine refuses Applications with spec.sourceHydrator";
pub(super) const TRACES: &str = "no traces are sent";
pub(super) const HEAL_COOLDOWN: &str = "in Argo CD neither, since 3.3";
pub(super) const METRICS_CACHE: &str = "the series of a deleted object vanish with it";

/// Variables and keys of ConfigMaps that are reported in the log when they are set (SE-560 to
/// SE-579), besides those that the flags of the ApplicationSet controller have, too.
pub const SETTINGS: &[Unused] = &[
    none(
        &["ARGOCD_APPLICATION_CONTROLLER_OPERATION_PROCESSORS", "controller.operation.processors"],
        "operations and comparisons share controller.status.processors",
    ),
    none(
        &[
            "WORKQUEUE_BUCKET_SIZE",
            "WORKQUEUE_BUCKET_QPS",
            "WORKQUEUE_FAILURE_COOLDOWN_NS",
            "WORKQUEUE_BASE_DELAY_NS",
            "WORKQUEUE_MAX_DELAY_NS",
            "WORKQUEUE_BACKOFF_FACTOR",
        ],
        QUEUE,
    ),
    none(
        &[
            "ARGOCD_CLUSTER_CACHE_RESYNC_DURATION",
            "ARGOCD_CLUSTER_CACHE_WATCH_RESYNC_DURATION",
            "ARGOCD_CLUSTER_CACHE_LIST_PAGE_SIZE",
            "ARGOCD_CLUSTER_CACHE_LIST_SEMAPHORE",
            "ARGOCD_CLUSTER_SYNC_RETRY_TIMEOUT_DURATION",
            "ARGOCD_CLUSTER_CACHE_BATCH_EVENTS_PROCESSING",
            "ARGOCD_CLUSTER_CACHE_EVENTS_PROCESSING_INTERVAL",
            "controller.cluster.cache.batch.events.processing",
            "controller.cluster.cache.events.processing.interval",
        ],
        "only the kinds that are used are watched, with fixed limits",
    ),
    none(
        &[
            "ARGOCD_CONTROLLER_REPLICAS",
            "ARGOCD_CONTROLLER_SHARD",
            "ARGOCD_CONTROLLER_SHARDING_ALGORITHM",
            "controller.sharding.algorithm",
        ],
        ONE_PROCESS,
    ),
    none(
        &["ARGOCD_ENABLE_DYNAMIC_CLUSTER_DISTRIBUTION", "ARGOCD_CONTROLLER_HEARTBEAT_TIME"],
        "one process handles all clusters: nothing is distributed, and the ConfigMap \
         argocd-app-controller-shard-cm is not written",
    ),
    none(
        &["REDIS_RETRY_COUNT"],
        "a value that cannot be written to Redis waits, and is written when Redis is back",
    ),
    none(
        &["ARGOCD_APPLICATION_CONTROLLER_NAME"],
        "only for argocd admin, which counts Pods with this name",
    ),
    none(
        &[
            "ARGOCD_APPLICATION_CONTROLLER_REPO_SERVER",
            "ARGOCD_APPLICATION_CONTROLLER_REPO_SERVER_PLAINTEXT",
            "ARGOCD_APPLICATION_CONTROLLER_REPO_SERVER_STRICT_TLS",
            "ARGOCD_APPLICATION_CONTROLLER_REPO_SERVER_CA_CERT_PATH",
            "ARGOCD_APPLICATION_CONTROLLER_REPO_SERVER_CLIENT_CERT_PATH",
            "ARGOCD_APPLICATION_CONTROLLER_REPO_SERVER_CLIENT_CERT_KEY_PATH",
            "ARGOCD_APPLICATION_CONTROLLER_REPO_SERVER_TIMEOUT_SECONDS",
            "controller.repo.server.plaintext",
            "controller.repo.server.strict.tls",
            "controller.repo.server.ca.cert.path",
            "controller.repo.server.client.cert.path",
            "controller.repo.server.client.cert.key.path",
            "controller.repo.server.timeout.seconds",
            "controller.grpc.enable.txt.service.config",
        ],
        REPO_SERVER,
    ),
    none(
        &[
            "reposerver.listen.address",
            "reposerver.metrics.listen.address",
            "reposerver.disable.tls",
            "reposerver.tls.minversion",
            "reposerver.tls.maxversion",
            "reposerver.tls.ciphers",
            "reposerver.client.ca.path",
            "reposerver.grpc.enable.txt.service.config",
            "reposerver.grpc.max.size",
        ],
        REPO_SERVER,
    ),
    none(
        &["reposerver.log.format", "reposerver.log.level"],
        "repositories are read by this process, whose log has controller.log.format and \
         controller.log.level",
    ),
    none(
        &["ARGOCD_REPO_SERVER_PARALLELISM_LIMIT", "reposerver.parallelism.limit"],
        "controller.status.processors limits how many Applications are rendered at once",
    ),
    none(
        &[
            "ARGOCD_GIT_REQUEST_TIMEOUT",
            "ARGOCD_GIT_LS_REMOTE_PARALLELISM_LIMIT",
            "reposerver.git.request.timeout",
            "reposerver.git.lsremote.parallelism.limit",
        ],
        "requests to Git servers have fixed limits (docs/reference/limits.md)",
    ),
    none(
        &["ARGOCD_REPO_SERVER_ENABLE_BUILTIN_GIT_CONFIG", "reposerver.enable.builtin.git.config"],
        "git always runs with a configuration of its own",
    ),
    none(
        &["ARGOCD_REPO_SERVER_ALLOW_OUT_OF_BOUNDS_SYMLINKS", "reposerver.allow.oob.symlinks"],
        "a symbolic link that leaves its repository is always an error of the source that reads it",
    ),
    none(
        &[
            "ARGOCD_REPO_SERVER_HELM_MANIFEST_MAX_EXTRACTED_SIZE",
            "ARGOCD_REPO_SERVER_DISABLE_HELM_MANIFEST_MAX_EXTRACTED_SIZE",
            "reposerver.helm.manifest.max.extracted.size",
            "reposerver.disable.helm.manifest.max.extracted.size",
        ],
        "unpacked charts have a fixed limit (docs/reference/limits.md)",
    ),
    none(
        &["ARGOCD_HELM_USER_AGENT", "reposerver.helm.user.agent"],
        "requests for charts have the user agent of what sends them",
    ),
    none(
        &[
            "ARGOCD_REPO_SERVER_STREAMED_MANIFEST_MAX_TAR_SIZE",
            "ARGOCD_REPO_SERVER_STREAMED_MANIFEST_MAX_EXTRACTED_SIZE",
            "reposerver.streamed.manifest.max.tar.size",
            "reposerver.streamed.manifest.max.extracted.size",
        ],
        "for manifests that a command line sends to Argo CD's repo server; here it renders them \
         itself",
    ),
    none(
        &[
            "ARGOCD_REPO_CACHE_EXPIRATION",
            "ARGOCD_REVISION_CACHE_LOCK_TIMEOUT",
            "reposerver.repo.cache.expiration",
            "reposerver.default.cache.expiration",
            "reposerver.revision.cache.lock.timeout",
        ],
        "what is kept of repositories is limited by size, not by time",
    ),
    none(
        &[
            "controller.k8s.client.qps",
            "controller.k8s.client.burst",
            "controller.k8s.client.max.idle.connections",
        ],
        "requests to API servers are limited by the number of parallel reconciles and writes",
    ),
    none(
        &[
            "controller.k8s.tcp.timeout",
            "controller.k8s.tcp.keepalive",
            "controller.k8s.tls.handshake.timeout",
            "controller.k8s.tcp.idle.timeout",
        ],
        "connections to API servers have fixed time limits",
    ),
    none(
        &[
            "ARGOCD_K8SCLIENT_RETRY_MAX",
            "ARGOCD_K8SCLIENT_RETRY_BASE_BACKOFF",
            "controller.k8sclient.retry.max",
            "controller.k8sclient.retry.base.backoff",
        ],
        "requests to API servers are repeated with a back-off of their own",
    ),
    none(
        &[
            "ARGOCD_APPLICATION_CONTROLLER_SELF_HEAL_BACKOFF_COOLDOWN_SECONDS",
            "controller.self.heal.backoff.cooldown.seconds",
        ],
        HEAL_COOLDOWN,
    ),
    none(
        &[
            "ARGOCD_APPLICATION_CONTROLLER_METRICS_CACHE_EXPIRATION",
            "controller.metrics.cache.expiration",
        ],
        METRICS_CACHE,
    ),
    none(
        &["controller.profile.enabled", "reposerver.profile.enabled"],
        "there are no profiles of the Go runtime",
    ),
    none(
        &[
            "ARGOCD_APPLICATION_CONTROLLER_OTLP_ADDRESS",
            "ARGOCD_APPLICATION_CONTROLLER_OTLP_INSECURE",
            "ARGOCD_APPLICATION_CONTROLLER_OTLP_HEADERS",
            "ARGOCD_APPLICATION_CONTROLLER_OTLP_ATTRS",
            "otlp.address",
            "otlp.insecure",
            "otlp.headers",
            "otlp.attrs",
        ],
        TRACES,
    ),
    none(
        &[
            "ARGOCD_HYDRATOR_ENABLED",
            "ARGOCD_APPLICATION_CONTROLLER_COMMIT_SERVER",
            "ARGOCD_APPLICATION_CONTROLLER_HYDRATION_PROCESSORS",
            "hydrator.enabled",
            "commit.server",
            "controller.hydration.processors",
            "commit.author.name",
            "commit.author.email",
            "sourceHydrator.commitMessageTemplate",
            "sourceHydrator.readmeMessageTemplate",
        ],
        HYDRATOR,
    ),
    none(
        &["webhook.maxPayloadSizeMB"],
        "bodies of webhooks have a fixed limit (docs/reference/limits.md)",
    ),
    none(
        &["webhook.refresh.jitter", "webhook.refresh.jitter.threshold"],
        "controller.status.processors limits how many Applications are compared at once",
    ),
    none(
        &["configManagementPlugins"],
        "plugins are sidecars, in Argo CD as well since 2.8 (docs/operations.md)",
    ),
    none(
        &["repositories", "repository.credentials", "helm.repositories"],
        "repositories are Secrets, in Argo CD as well since 2.6 (docs/repositories.md)",
    ),
    none(&["resource.respectRBAC"], "kinds that must not be listed are reported"),
    none(
        &["resource.includeEventLabelKeys", "resource.excludeEventLabelKeys"],
        "Events have no labels of Applications",
    ),
];

/// Settings that refuse Applications.
pub const REFUSED_SETTINGS: &[Unused] = &[];

/// Settings that a SyncWarning reports on the Applications whose resources they concern
/// (SE-480).
pub const REPORTED_SETTINGS: &[Unused] = &[none(
    &["resource.customizations.actions."],
    "SyncWarning on the Applications with resources of these kinds",
)];

/// Fields of objects. What lies below a field is as the field.
pub const FIELDS: &[Unused] = &[
    none(&["AppProject.spec.roles"], "for the API server of Argo CD, which enforces them"),
    none(&["AppProject.spec.description"], "for people"),
    refused(&["Application.spec.sourceHydrator"], "InvalidSpecError"),
    none(&["Application.spec.info"], "for people"),
    none(
        &["ApplicationSet.spec.applyNestedSelectors"],
        "selectors of nested generators always apply, in Argo CD as well",
    ),
];

/// Annotations, and fields of Secrets.
pub const ANNOTATIONS: &[Unused] = &[
    none(
        &["argocd.argoproj.io/manifest-generate-paths"],
        "SyncWarning; it limits webhooks only (and what plugins get, with \
         reposerver.plugin.use.manifest.generate.paths), and in comparisons every commit counts \
         as a change",
    ),
    none(
        &["argocd.argoproj.io/managed-by"],
        "SyncWarning; a label of Namespaces, from which the operator of Argo CD makes roles: its \
         controllers do not read it, either",
    ),
    none(&["shard"], "a warning in the log names the Secret; one process handles all clusters"),
    none(
        &["depth", "webhookManifestCacheWarmDisabled"],
        "a warning in the log names the Secret; a commit is always fetched alone, and nothing is \
         rendered before it is needed",
    ),
];

/// The names of the settings that are set, each with the reason why it has no effect.
pub(super) fn without_effect(
    environment: &dyn Fn(&str) -> Option<String>,
    config_map: &std::collections::BTreeMap<String, String>,
) -> Vec<String> {
    let is_set = |text: &String| !text.trim().is_empty();
    let mut lines = Vec::new();
    // The first row about a key counts: the others are about all that begin like it.
    let mut reported = BTreeSet::new();
    for Unused { names, why, .. } in SETTINGS.iter().chain(REPORTED_SETTINGS) {
        for name in *names {
            let line = |name: &str| format!("{name} is accepted without effect: {why}");
            if name.starts_with(|first: char| first.is_ascii_uppercase()) {
                lines.extend(environment(name).filter(is_set).map(|_| line(name)));
                continue;
            }
            let matches = |key: &str| match name.strip_suffix('.') {
                Some(_) => key.starts_with(name),
                None => key == *name,
            };
            let set = config_map.iter().filter(|(key, text)| matches(key) && is_set(text));
            let new = set.filter(|(key, _)| reported.insert(key.as_str()));
            lines.extend(new.map(|(key, _)| line(key)));
        }
    }
    lines
}
