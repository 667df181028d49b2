//! How the controller of a cluster is set up, and which projects and clusters
//! it knows: for `plan --live`, which shows what that controller would do.

use std::collections::{BTreeMap, BTreeSet};

use super::cluster::Cluster;
use super::error::{Error, note};
use crate::config::{CONFIG_MAPS, Config, Flags, PROGRESSIVE_SYNCS_KEY};
use crate::decide::application_set::validate::Known;
use crate::desired::name_of;
use crate::settings::ApplicationSetSettings;

/// The flags that the controller is started with, as far as they count for what
/// it writes. Its environment and its ConfigMaps are read by themselves.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "As the controller is run, with --live")]
pub(super) struct ControllerArgs {
    /// Namespace of the control plane: its projects, cluster Secrets and
    /// ConfigMaps count
    #[arg(long, value_name = "NAMESPACE")]
    control_plane_namespace: Option<String>,
    /// Whether RollingSync is enabled; true unless a ConfigMap says otherwise
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    enable_progressive_syncs: Option<bool>,
    /// What sets may do to their Applications: sync, create-update,
    /// create-delete or create-only
    #[arg(long, value_name = "POLICY")]
    policy: Option<String>,
    /// Whether a set may choose its own policy; true unless a policy is given
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    enable_policy_override: Option<bool>,
    /// Annotations of Applications that are left alone, comma separated
    #[arg(long, value_name = "KEYS", value_delimiter = ',')]
    preserved_annotations: Option<Vec<String>>,
    /// Labels of Applications that are left alone, comma separated
    #[arg(long, value_name = "KEYS", value_delimiter = ',')]
    preserved_labels: Option<Vec<String>>,
}

/// What the controller goes by besides the set and its Applications.
pub(super) struct Controller {
    /// How it is set up.
    pub settings: ApplicationSetSettings,
    /// The projects that exist; `None` when they cannot be read.
    projects: Option<BTreeSet<String>>,
    /// The clusters that exist; `None` when they cannot be read.
    clusters: Option<Vec<crate::api::Cluster>>,
}

impl Controller {
    /// Reads how the controller is set up. What may not be read is noted on
    /// standard error, and taken to be as the set wants it.
    ///
    /// # Errors
    ///
    /// When a setting cannot be used: the controller would not start by it.
    pub async fn read(cluster: &Cluster, args: &ControllerArgs) -> Result<Self, Error> {
        let flags = || Flags {
            namespace: args.control_plane_namespace.clone(),
            enable_progressive_syncs: args.enable_progressive_syncs,
            policy: args.policy.clone(),
            enable_policy_override: args.enable_policy_override,
            preserved_annotations: args.preserved_annotations.clone(),
            preserved_labels: args.preserved_labels.clone(),
            ..Flags::default()
        };
        let environment = |name: &str| std::env::var(name).ok();
        let resolve = |keys: &BTreeMap<String, String>| {
            let unusable = |error| Error::input("cannot plan", "the controller's settings", error);
            Config::resolve(flags(), &environment, keys).map_err(unusable)
        };
        let namespace = resolve(&BTreeMap::new())?.application_sets.control_plane_namespace;
        let mut keys = BTreeMap::new();
        for name in CONFIG_MAPS {
            let found = cluster.config_map(&namespace, name).await;
            for (key, value) in unless_unreadable(found).unwrap_or_default() {
                keys.entry(key).or_insert(value);
            }
        }
        // A flag of the controller's Deployment cannot be seen from here, and
        // who plans a rollout means one that happens.
        keys.entry(PROGRESSIVE_SYNCS_KEY.to_owned()).or_insert_with(|| "true".to_owned());
        let settings = resolve(&keys)?.application_sets;
        let projects = unless_unreadable(cluster.projects(&namespace).await);
        let projects = projects
            .map(|projects| projects.iter().map(|project| name_of(project).to_owned()).collect());
        let clusters = unless_unreadable(cluster.clusters(&namespace).await);
        Ok(Self { settings, projects, clusters })
    }

    /// What is known to exist; `assumed` where that cannot be read.
    pub fn known(&self, assumed: Known) -> Known {
        Known {
            projects: self.projects.clone().unwrap_or(assumed.projects),
            clusters: self.clusters.clone().unwrap_or(assumed.clusters),
        }
    }
}

/// What was read; where it could not be, that is noted.
fn unless_unreadable<T>(read: Result<T, Error>) -> Option<T> {
    read.map_err(|error| note(&format!("{error}; it is left out of the plan"))).ok()
}
