//! Settings of the controller in a cluster, and the projects and clusters it can use, for
//! `plan --live`.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Secret;

use super::cluster::ClusterConnection;
use super::error::{Error, note};
use super::facts::Facts;
use crate::api::cluster::ClusterSecret;
use crate::config::{CONFIG_MAPS, Config, Flags, PROGRESSIVE_SYNCS_KEY};
use crate::decide::application_set::validate::Known;
use crate::desired::inputs::Inputs;
use crate::desired::name_of;
use crate::settings::ApplicationSetSettings;
use crate::watch::control_plane::{cluster_secret, clusters_of};

/// Flags of the controller that affect what it writes. Its environment and its ConfigMaps
/// are read separately.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Settings of the controller, with --live")]
pub(super) struct ControllerArgs {
    /// Namespace of the control plane, with its projects, cluster Secrets and ConfigMaps
    #[arg(long, value_name = "NAMESPACE")]
    control_plane_namespace: Option<String>,
    /// Whether progressive syncs (RollingSync) are enabled; true unless a ConfigMap
    /// disables them
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    enable_progressive_syncs: Option<bool>,
    /// Default policy for changes to Applications: sync, create-update, create-delete or
    /// create-only
    #[arg(long, value_name = "POLICY")]
    policy: Option<String>,
    /// Whether an ApplicationSet may set its own policy; true unless a policy is given
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    enable_policy_override: Option<bool>,
    /// Annotations of Applications to preserve, comma-separated
    #[arg(long, value_name = "KEYS", value_delimiter = ',')]
    preserved_annotations: Option<Vec<String>>,
    /// Labels of Applications to preserve, comma-separated
    #[arg(long, value_name = "KEYS", value_delimiter = ',')]
    preserved_labels: Option<Vec<String>>,
}

/// Settings and environment of the controller.
pub(super) struct Controller {
    /// Settings.
    pub settings: ApplicationSetSettings,
    /// The projects that exist; `None` when they cannot be read.
    projects: Option<BTreeSet<String>>,
    /// The Secrets of clusters and repositories; `None` when they cannot be read.
    secrets: Option<Vec<Secret>>,
}

impl Controller {
    /// Reads the settings of the controller. What cannot be read is reported on standard
    /// error and assumed to match the set.
    ///
    /// # Errors
    ///
    /// When a setting is invalid: the controller would not start with it.
    pub async fn read(cluster: &ClusterConnection, args: &ControllerArgs) -> Result<Self, Error> {
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
        // Flags of the controller's Deployment are not read, so a planned rollout is
        // assumed to be enabled.
        keys.entry(PROGRESSIVE_SYNCS_KEY.to_owned()).or_insert_with(|| "true".to_owned());
        let settings = resolve(&keys)?.application_sets;
        let projects = unless_unreadable(cluster.projects(&namespace).await);
        let projects = projects
            .map(|projects| projects.iter().map(|project| name_of(project).to_owned()).collect());
        let secrets = unless_unreadable(cluster.secrets(&namespace).await);
        Ok(Self { settings, projects, secrets })
    }

    /// The existing projects and clusters; `assumed` where they cannot be read.
    pub fn known(&self, assumed: Known) -> Known {
        Known {
            projects: self.projects.clone().unwrap_or(assumed.projects),
            clusters: self.secrets.as_ref().map_or(assumed.clusters, |secrets| {
                let clusters: Vec<ClusterSecret> =
                    secrets.iter().filter_map(cluster_secret).collect();
                clusters_of(&clusters)
            }),
        }
    }

    /// What generators read.
    pub fn facts(&self) -> Facts {
        let settings = Inputs { projects: self.projects.clone(), ..self.settings.inputs() };
        Facts::of(self.secrets.as_deref().unwrap_or_default(), settings)
    }
}

/// The result of a read; reports an error and returns `None`.
fn unless_unreadable<T>(read: Result<T, Error>) -> Option<T> {
    read.map_err(|error| note(&format!("{error}; the plan ignores it"))).ok()
}
