//! AppProject: restricts sources, destinations, resources and sync times of its
//! Applications (SE-070 … SE-083).

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::cluster::ClusterScope;

resource! {
    /// Restricts the sources, destinations, resources and sync times of Applications.
    pub struct AppProject("appprojects") {
        pub spec: AppProjectSpec,
        /// Status written by Argo CD; not used here.
        pub status: Option<AppProjectStatus>,
    }
}

/// Which entries of the lists of a project come from global projects: each list with the index of
/// the first entry and the name of the project, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inherited(pub Vec<(&'static str, usize, String)>);

impl Inherited {
    /// Where an entry of a list is written: its index there, and the global project; `None` for
    /// the project itself.
    pub fn place(&self, list: &str, index: usize) -> (usize, Option<&str>) {
        let Self(all) = self;
        let found = all.iter().rev().find(|(of, from, _)| *of == list && *from <= index);
        match found {
            Some((_, from, project)) => (index - from, Some(project)),
            None => (index, None),
        }
    }
}

/// The repositories and clusters that are reserved for a project, by `project` of their Secrets.
/// Each is permitted in it without an entry of a list (SE-070, SE-071).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReservedSecrets {
    /// URLs of repositories.
    pub repositories: Vec<String>,
    /// URLs of clusters, without a trailing slash, and what may be managed there.
    pub clusters: Vec<(String, ClusterScope)>,
}

lenient! {
    /// Sources, destinations, resources and sync times that a project allows.
    pub struct AppProjectSpec {
        /// Description of the project.
        pub description: String,
        /// Globs of allowed repository URLs; a leading `!` denies.
        pub source_repos: Vec<String>,
        /// Allowed destination clusters and namespaces.
        pub destinations: Vec<ProjectDestination>,
        /// Allowed cluster-scoped kinds; none when empty.
        pub cluster_resource_whitelist: Vec<ResourcePattern>,
        /// Denied cluster-scoped kinds.
        pub cluster_resource_blacklist: Vec<ResourcePattern>,
        /// Allowed namespaced kinds; all when absent, none when empty.
        pub namespace_resource_whitelist: Option<Vec<ResourcePattern>>,
        /// Denied namespaced kinds.
        pub namespace_resource_blacklist: Vec<ResourcePattern>,
        /// Sync windows: times when syncs are allowed or denied.
        pub sync_windows: Vec<SyncWindow>,
        /// Globs of namespaces whose Applications may refer to the project.
        pub source_namespaces: Vec<String>,
        /// Monitors resources that belong to no Application; disabled when absent.
        pub orphaned_resources: Option<OrphanedResources>,
        /// Allow only clusters whose Secret refers to the project.
        pub permit_only_project_scoped_clusters: bool,
        /// Service accounts to impersonate, by destination; the first match is used.
        pub destination_service_accounts: Vec<DestinationServiceAccount>,
        /// Roles of users and tokens; stored, not used here.
        #[schemars(with = "Vec<ProjectRole>")]
        pub roles: Vec<Value>,
        /// Keys that commits must be signed with.
        #[schemars(with = "Vec<SignatureKey>")]
        pub signature_keys: Vec<Value>,
        /// Signature policies of sources.
        #[schemars(with = "Option<SourceIntegrity>")]
        pub source_integrity: Option<Value>,
        /// The entries that global projects have added; never read or written.
        #[serde(skip)]
        #[schemars(skip)]
        pub inherited: Inherited,
        /// What Secrets permit; never read or written.
        #[serde(skip)]
        #[schemars(skip)]
        pub reserved: ReservedSecrets,
    } and extra

    /// A role of users and tokens.
    #[schemars(extend("required" = ["name"]))]
    pub struct ProjectRole {
        /// Name of the role.
        pub name: String,
        /// Description of the role.
        pub description: String,
        /// Policies in Casbin format.
        pub policies: Vec<String>,
        /// Issued tokens of the role.
        pub jwt_tokens: Vec<JwtToken>,
        /// Groups of the identity provider that have the role.
        pub groups: Vec<String>,
    }

    /// An issued token.
    #[schemars(extend("required" = ["iat"]))]
    pub struct JwtToken {
        /// Time of issue, in seconds since 1970.
        pub iat: i64,
        /// Time of expiry, in seconds since 1970; 0 means never.
        pub exp: i64,
        /// ID of the token.
        pub id: String,
    }

    /// Tokens of a role.
    pub struct JwtTokens {
        /// The tokens.
        pub items: Vec<JwtToken>,
    }

    /// A key that commits must be signed with.
    #[schemars(extend("required" = ["keyID"]))]
    pub struct SignatureKey {
        /// ID of the key, in hexadecimal.
        #[serde(rename = "keyID")]
        pub key_id: String,
    }

    /// Signature policies of sources.
    pub struct SourceIntegrity {
        /// Policies for Git repositories.
        pub git: Option<GitIntegrity>,
    }

    /// Signature policies of Git repositories.
    pub struct GitIntegrity {
        /// The policies.
        pub policies: Vec<GitIntegrityPolicy>,
    }

    /// A signature policy of Git repositories.
    pub struct GitIntegrityPolicy {
        /// Repositories that the policy applies to.
        pub repos: Vec<IntegrityRepository>,
        /// Required GnuPG signatures.
        pub gpg: Option<GpgIntegrity>,
    }

    /// A repository that a policy applies to.
    pub struct IntegrityRepository {
        /// Glob of the repository URL.
        pub url: String,
    }

    /// Required GnuPG signatures.
    pub struct GpgIntegrity {
        /// Mode: `none`, `head` or `strict`.
        pub mode: String,
        /// IDs of the trusted keys.
        pub keys: Vec<String>,
    }

    /// A destination: the cluster's server or name must match, and the namespace.
    pub struct ProjectDestination {
        /// Glob of the API server's URL; a leading `!` denies.
        pub server: String,
        /// Glob of the cluster's name; a leading `!` denies.
        pub name: String,
        /// Glob of the namespace; a leading `!` denies.
        pub namespace: String,
    } and extra

    /// Kinds of resources, as globs.
    #[schemars(extend("required" = ["group", "kind"]))]
    pub struct ResourcePattern {
        /// Glob of the API group; empty means the core group.
        pub group: String,
        /// Glob of the kind.
        pub kind: String,
        /// Glob of the name; empty matches any name.
        pub name: String,
    } and extra

    /// A period during which syncs are allowed or denied (SE-400).
    pub struct SyncWindow {
        /// `allow` or `deny`.
        pub kind: String,
        /// Start of the window in cron format: minute, hour, day of month, month, day of week.
        pub schedule: String,
        /// Duration of the window, such as `1h30m`.
        pub duration: String,
        /// Globs of Application names.
        pub applications: Vec<String>,
        /// Globs of destination namespaces.
        pub namespaces: Vec<String>,
        /// Globs of cluster names or URLs.
        pub clusters: Vec<String>,
        /// Allow manually started syncs while the window denies others.
        pub manual_sync: bool,
        /// Time zone of the schedule, such as `Europe/Berlin`; UTC when empty.
        pub time_zone: String,
        /// Require a match in each of the lists that are set, instead of in any one of them.
        pub and_operator: bool,
        /// Let a running sync continue after the window closes.
        pub sync_overrun: bool,
        /// Description of the window.
        pub description: String,
    } and extra

    /// Monitors resources that belong to no Application.
    pub struct OrphanedResources {
        /// Add a warning condition for them; false when absent.
        pub warn: Option<bool>,
        /// Resources to ignore.
        pub ignore: Vec<OrphanedResourcePattern>,
    } and extra

    /// Resources to ignore, as globs; an empty field matches any value.
    pub struct OrphanedResourcePattern {
        /// Glob of the API group.
        pub group: String,
        /// Glob of the kind.
        pub kind: String,
        /// Glob of the name.
        pub name: String,
    } and extra

    /// The service account to impersonate for a destination.
    #[schemars(extend("required" = ["defaultServiceAccount", "server"]))]
    pub struct DestinationServiceAccount {
        /// Glob of the API server's URL.
        pub server: String,
        /// Glob of the namespace.
        pub namespace: String,
        /// Service account, as `name` or `namespace:name`.
        pub default_service_account: String,
    } and extra

    /// Status written by Argo CD.
    pub struct AppProjectStatus {
        /// Issued tokens, by role.
        #[schemars(with = "Option<BTreeMap<String, JwtTokens>>")]
        pub jwt_tokens_by_role: Option<Value>,
    }
}

/// The project that Applications belong to which name none.
pub const DEFAULT_PROJECT: &str = "default";

/// A project that permits everything, as Argo CD creates it by the name [`DEFAULT_PROJECT`].
pub fn permissive_project(name: &str, namespace: &str) -> Value {
    json!({
        "apiVersion": crate::API_VERSION,
        "kind": AppProject::KIND,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "sourceRepos": ["*"],
            "destinations": [{"server": "*", "namespace": "*"}],
            "clusterResourceWhitelist": [{"group": "*", "kind": "*"}],
        },
    })
}
