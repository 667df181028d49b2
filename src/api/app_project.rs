//! AppProject: what the Applications of a project may do (SE-070 … SE-083).

use std::collections::BTreeMap;

use serde_json::Value;

resource! {
    /// What the Applications of a project may read, write and when.
    pub struct AppProject("appprojects") {
        pub spec: AppProjectSpec,
        /// What the peer keeps about tokens; not used here.
        pub status: Option<AppProjectStatus>,
    }
}

lenient! {
    /// What is allowed.
    pub struct AppProjectSpec {
        /// What the project is for.
        pub description: String,
        /// Globs of repository URLs that may be used; `!` denies.
        pub source_repos: Vec<String>,
        /// Clusters and namespaces that may be synced to.
        pub destinations: Vec<ProjectDestination>,
        /// Cluster-scoped kinds that are allowed; none when empty.
        pub cluster_resource_whitelist: Vec<ResourcePattern>,
        /// Cluster-scoped kinds that are denied.
        pub cluster_resource_blacklist: Vec<ResourcePattern>,
        /// Namespaced kinds that are allowed; all when absent, none when empty.
        pub namespace_resource_whitelist: Option<Vec<ResourcePattern>>,
        /// Namespaced kinds that are denied.
        pub namespace_resource_blacklist: Vec<ResourcePattern>,
        /// When syncs may run.
        pub sync_windows: Vec<SyncWindow>,
        /// Globs of namespaces whose Applications may use the project.
        pub source_namespaces: Vec<String>,
        /// Whether to report resources that belong to no Application; absent is no.
        pub orphaned_resources: Option<OrphanedResources>,
        /// Allow only clusters that belong to the project.
        pub permit_only_project_scoped_clusters: bool,
        /// Service accounts to act as, by destination; the first match counts.
        pub destination_service_accounts: Vec<DestinationServiceAccount>,
        /// Roles of people and tokens; kept, not used here.
        #[schemars(with = "Vec<ProjectRole>")]
        pub roles: Vec<Value>,
        /// Keys that commits must be signed with; kept, not used here.
        #[schemars(with = "Vec<SignatureKey>")]
        pub signature_keys: Vec<Value>,
        /// Rules for verified sources; kept, not used here.
        #[schemars(with = "Option<SourceIntegrity>")]
        pub source_integrity: Option<Value>,
    } and extra

    /// A role of people and tokens.
    #[schemars(extend("required" = ["name"]))]
    pub struct ProjectRole {
        /// Its name.
        pub name: String,
        /// What it is for.
        pub description: String,
        /// Rules of what it may do.
        pub policies: Vec<String>,
        /// Tokens that were issued for it.
        pub jwt_tokens: Vec<JwtToken>,
        /// Groups of people that have it.
        pub groups: Vec<String>,
    }

    /// A token that was issued.
    #[schemars(extend("required" = ["iat"]))]
    pub struct JwtToken {
        /// When it was issued, in seconds since 1970.
        pub iat: i64,
        /// When it expires, in seconds since 1970; 0 is never.
        pub exp: i64,
        /// Its name.
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
        /// Its id, in hexadecimal.
        #[serde(rename = "keyID")]
        pub key_id: String,
    }

    /// Rules for verified sources.
    pub struct SourceIntegrity {
        /// Rules for Git repositories.
        pub git: Option<GitIntegrity>,
    }

    /// Rules for Git repositories.
    pub struct GitIntegrity {
        /// The rules.
        pub policies: Vec<GitIntegrityPolicy>,
    }

    /// A rule for Git repositories.
    pub struct GitIntegrityPolicy {
        /// Repositories that it is for.
        pub repos: Vec<IntegrityRepository>,
        /// Signatures that are wanted.
        pub gpg: Option<GpgIntegrity>,
    }

    /// Repositories that a rule is for.
    pub struct IntegrityRepository {
        /// Glob of the URL.
        pub url: String,
    }

    /// Signatures that are wanted.
    pub struct GpgIntegrity {
        /// `none`, `head` or `strict`.
        pub mode: String,
        /// Ids of the keys that are trusted.
        pub keys: Vec<String>,
    }

    /// Clusters and namespaces: server or name must match, and the namespace.
    pub struct ProjectDestination {
        /// Glob of the API server's URL; `!` denies.
        pub server: String,
        /// Glob of the cluster's name; `!` denies.
        pub name: String,
        /// Glob of the namespace; `!` denies.
        pub namespace: String,
    } and extra

    /// Kinds of resources, as shell globs.
    #[schemars(extend("required" = ["group", "kind"]))]
    pub struct ResourcePattern {
        /// Glob of the API group; empty is the core group.
        pub group: String,
        /// Glob of the kind.
        pub kind: String,
        /// Glob of the name; empty for any.
        pub name: String,
    } and extra

    /// When syncs may or may not run (SE-400).
    pub struct SyncWindow {
        /// `allow` or `deny`.
        pub kind: String,
        /// When it opens: minute, hour, day of month, month, day of week.
        pub schedule: String,
        /// How long it stays open, such as `1h30m`.
        pub duration: String,
        /// Globs of Application names.
        pub applications: Vec<String>,
        /// Globs of destination namespaces.
        pub namespaces: Vec<String>,
        /// Globs of cluster names or URLs.
        pub clusters: Vec<String>,
        /// Let syncs through that somebody asked for.
        pub manual_sync: bool,
        /// Time zone of the schedule, such as `Europe/Berlin`; empty is UTC.
        pub time_zone: String,
        /// All lists that have items must match, rather than one of them.
        pub and_operator: bool,
        /// Let a sync go on that began before the window closed.
        pub sync_overrun: bool,
        /// What the window is for.
        pub description: String,
    } and extra

    /// Whether to report resources that belong to no Application.
    pub struct OrphanedResources {
        /// Warn about them; absent is no.
        pub warn: Option<bool>,
        /// Resources not to report.
        pub ignore: Vec<OrphanedResourcePattern>,
    } and extra

    /// Resources not to report, as globs; an empty field matches any.
    pub struct OrphanedResourcePattern {
        /// Glob of the API group.
        pub group: String,
        /// Glob of the kind.
        pub kind: String,
        /// Glob of the name.
        pub name: String,
    } and extra

    /// The service account to act as in a destination.
    #[schemars(extend("required" = ["defaultServiceAccount", "server"]))]
    pub struct DestinationServiceAccount {
        /// Glob of the API server's URL.
        pub server: String,
        /// Glob of the namespace.
        pub namespace: String,
        /// `name` or `namespace:name`.
        pub default_service_account: String,
    } and extra

    /// What the peer keeps about tokens.
    pub struct AppProjectStatus {
        /// Tokens that were issued, by role.
        #[schemars(with = "Option<BTreeMap<String, JwtTokens>>")]
        pub jwt_tokens_by_role: Option<Value>,
    }
}
