//! Settings of the controller in a cluster, and the projects and clusters it can use, for
//! `plan --live`, `render --live` and `diff`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use serde_json::Value;

use crate::cli::cluster::ClusterConnection;
use crate::cli::console::error::{Error, note};
use crate::cli::files::facts::{FactsSource, GeneratorFacts};
use wavegate_api::Raw;
use wavegate_api::cluster::ClusterSecret;
use wavegate_application::access::project_of;
use wavegate_application::unsupported;
use wavegate_cluster::watch::control_plane::{cluster_secret, clusters_of};
use wavegate_cluster::watch::trust::{TRUST_MAPS, Trust};
use wavegate_controller::application_set::{DemandsByProject, project_reads};
use wavegate_controller::config::{CONFIG_MAPS, Config, Flags, PROGRESSIVE_SYNCS_KEY};
use wavegate_controller::settings::{
    ApplicationSetSettings, ApplicationSettings, CONTROL_PLANE_NAMESPACE,
};
use wavegate_net::clock::Clock;
use wavegate_providers::{Objects, Providers};
use wavegate_rollout::application_set::generate::validate::{self, KnownTargets};
use wavegate_rollout::desired::Generation;
use wavegate_rollout::desired::generators::path_pattern::Globbing;
use wavegate_rollout::desired::inputs::Inputs;

/// Flags of the controller that affect generators.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Settings of the controller")]
pub(in crate::cli) struct GeneratorArgs {
    /// Namespace of the control plane in the cluster, with its projects, Secrets and
    /// ConfigMaps
    #[arg(long, value_name = "NAMESPACE")]
    control_plane_namespace: Option<String>,
    /// A `*` in the file patterns of git generators stays within a directory, and `**`
    /// crosses directories
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    enable_new_git_file_globbing: Option<bool>,
    /// Git generators list directories whose names start with a dot, too
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true")]
    include_hidden_directories: Option<bool>,
}

impl GeneratorArgs {
    /// The namespace of the control plane.
    pub fn namespace(&self) -> &str {
        self.control_plane_namespace.as_deref().unwrap_or(CONTROL_PLANE_NAMESPACE)
    }

    /// The settings of generators without a cluster.
    pub fn inputs(&self) -> Inputs {
        let by_segment = self.enable_new_git_file_globbing.unwrap_or_default();
        let globbing = if by_segment { Globbing::BySegment } else { Globbing::Greedy };
        let hidden_directories = self.include_hidden_directories.unwrap_or_default();
        Inputs { globbing, hidden_directories, ..Inputs::default() }
    }
}

/// Flags of the controller that affect what it writes. Its environment and its ConfigMaps
/// are read separately.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Settings of the controller")]
pub(in crate::cli) struct ControllerArgs {
    #[command(flatten)]
    pub generators: GeneratorArgs,
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

impl From<GeneratorArgs> for ControllerArgs {
    fn from(generators: GeneratorArgs) -> Self {
        Self { generators, ..Self::default() }
    }
}

impl ControllerArgs {
    /// Checks the values of the options, which a file is planned without.
    ///
    /// # Errors
    ///
    /// When the controller would not start with one of them.
    pub fn check(&self) -> Result<(), Error> {
        self.resolve(&|_| None, &BTreeMap::new()).map(drop)
    }

    fn resolve(
        &self,
        environment: &dyn Fn(&str) -> Option<String>,
        keys: &BTreeMap<String, String>,
    ) -> Result<Config, Error> {
        let flags = Flags {
            namespace: self.generators.control_plane_namespace.clone(),
            enable_new_git_file_globbing: self.generators.enable_new_git_file_globbing,
            include_hidden_directories: self.generators.include_hidden_directories,
            enable_progressive_syncs: self.enable_progressive_syncs,
            policy: self.policy.clone(),
            enable_policy_override: self.enable_policy_override,
            preserved_annotations: self.preserved_annotations.clone(),
            preserved_labels: self.preserved_labels.clone(),
            ..Flags::default()
        };
        let unusable = |error| Error::input("cannot use", "the controller's settings", error);
        Config::resolve(flags, environment, keys).map_err(unusable)
    }

    /// The same for a control plane in this namespace, unless another one is given.
    pub fn in_namespace(&self, namespace: &str) -> Self {
        let mut args = self.clone();
        let given = &mut args.generators.control_plane_namespace;
        given.get_or_insert_with(|| namespace.to_owned());
        args
    }
}

/// Settings and environment of the controller.
pub(in crate::cli) struct Controller {
    /// Settings.
    pub settings: ApplicationSetSettings,
    /// Settings of the sync engine.
    pub applications: ApplicationSettings,
    /// A client of the cluster.
    client: Client,
    /// The projects that exist; `None` when they cannot be read.
    projects: Option<BTreeMap<String, Arc<Value>>>,
    /// The Secrets of clusters and repositories, or why they cannot be read.
    secrets: Result<Vec<Secret>, String>,
    /// Whom Git servers are trusted to be, as far as it can be read.
    pub trust: Arc<Trust>,
}

impl Controller {
    /// Reads the settings of the controller. What cannot be read is reported on standard
    /// error and assumed to match the set.
    ///
    /// # Errors
    ///
    /// When a setting is invalid: the controller would not start with it.
    pub async fn read(cluster: &ClusterConnection, args: &ControllerArgs) -> Result<Self, Error> {
        let environment = |name: &str| std::env::var(name).ok();
        let resolve = |keys: &BTreeMap<String, String>| args.resolve(&environment, keys);
        let namespace = resolve(&BTreeMap::new())?.application_sets.control_plane_namespace;
        let mut keys = BTreeMap::new();
        for name in CONFIG_MAPS {
            let found = cluster.config_map(&namespace, name).await;
            for (key, value) in unless_unreadable(found).flatten().unwrap_or_default() {
                keys.entry(key).or_insert(value);
            }
        }
        // Flags of the controller's Deployment are not read, so a planned rollout is
        // assumed to be enabled.
        keys.entry(PROGRESSIVE_SYNCS_KEY.to_owned()).or_insert_with(|| "true".to_owned());
        let config = resolve(&keys)?;
        let projects = unless_unreadable(cluster.list("AppProject", Some(&namespace), None).await);
        let by_name = |project: Arc<Value>| (project.name().to_owned(), project);
        let projects = projects.map(|projects| projects.into_iter().map(by_name).collect());
        let secrets = cluster.secrets(&namespace).await.map_err(|error| {
            note(&format!("{error}; it is ignored"));
            error.to_string()
        });
        let trust = Arc::new(Trust::default());
        for name in TRUST_MAPS {
            let found = unless_unreadable(cluster.config_map(&namespace, name).await);
            trust.put(name, found.flatten());
        }
        let (settings, applications) = (config.application_sets, config.applications);
        let client = cluster.client().clone();
        Ok(Self { settings, applications, client, projects, secrets, trust })
    }

    /// One project: `None` when the projects cannot be read, `Some(None)` when it does not
    /// exist.
    pub fn project(&self, name: &str) -> Option<Option<&Value>> {
        let projects = self.projects.as_ref()?;
        Some(projects.get(name).map(|project| &**project))
    }

    /// The global projects of a project, as far as they exist.
    pub fn global_projects(&self, project: &Value) -> Vec<Value> {
        let names = self.applications.global_projects.of(project).into_iter();
        names.filter_map(|name| self.project(name).flatten().cloned()).collect()
    }

    /// The Secrets of clusters and repositories.
    ///
    /// # Errors
    ///
    /// Why they cannot be read.
    pub fn secrets(&self) -> Result<&[Secret], &str> {
        self.secrets.as_deref().map_err(String::as_str)
    }

    /// The existing projects and clusters; `assumed` where they cannot be read.
    pub fn known(&self, assumed: KnownTargets) -> KnownTargets {
        KnownTargets {
            projects: match &self.projects {
                Some(projects) => projects.keys().cloned().collect(),
                None => assumed.projects,
            },
            namespace: self.settings.control_plane_namespace.clone(),
            clusters: match &self.secrets {
                Err(_) => assumed.clusters,
                Ok(secrets) => {
                    let clusters: Vec<ClusterSecret> =
                        secrets.iter().filter_map(cluster_secret).collect();
                    clusters_of(&clusters)
                }
            },
        }
    }

    /// Validation errors of generated Applications here; reports which option selects another
    /// control plane when a project is not in this one.
    pub fn problems(
        &self,
        generation: &Generation,
        known: &KnownTargets,
    ) -> BTreeMap<String, String> {
        let problems = validate::validation_problems(generation, known);
        let is_elsewhere = |one: &Value| !known.projects.contains(project_of(one));
        if generation.applications.iter().any(is_elsewhere) {
            let namespace = &known.namespace;
            note(&format!(
                "projects are those of the control plane {namespace}; select another one with \
                 --control-plane-namespace"
            ));
        }
        for message in self.refusals(generation) {
            note(&message);
        }
        problems
    }

    /// Why nothing of generated Applications is deployed: guards of their projects.
    fn refusals(&self, generation: &Generation) -> BTreeSet<String> {
        let projects = generation.applications.iter().map(project_of);
        let found = projects.filter_map(|name| self.projects.as_ref()?.get(name));
        let global = &self.settings.global_projects;
        let inherited = |project: &Value| global.refusal(project, |name| self.project(name)?);
        found
            .filter_map(|project| {
                unsupported::project_refusal(project).or_else(|| inherited(project))
            })
            .collect()
    }

    /// What generators read.
    pub fn facts(&self) -> GeneratorFacts {
        let keys = self.trust.signing_keys();
        let mut demands = DemandsByProject::new();
        let reads = |(name, project): (&String, &Arc<Value>)| {
            let (reads, demanded) = project_reads(project, &keys);
            demands.extend(demanded.map(|demanded| (name.clone(), demanded)));
            (name.clone(), reads)
        };
        let projects = self.projects.as_ref().map(|all| all.iter().map(reads).collect());
        let settings = Inputs { projects, ..self.settings.inputs() };
        let facts = match &self.secrets {
            Ok(secrets) => GeneratorFacts::of(secrets, settings, FactsSource::Cluster),
            Err(error) => GeneratorFacts::of(&[], settings, FactsSource::Unknown(error.clone())),
        };
        let settings = &self.settings;
        let providers = Providers::new(
            Objects::Cluster(self.client.clone()),
            settings.providers.clone(),
            &settings.control_plane_namespace,
            Clock::system(),
        );
        facts.demanding(demands).trusting(Arc::clone(&self.trust)).asking(providers)
    }
}

/// The result of a read; reports an error and returns `None`.
fn unless_unreadable<T>(read: Result<T, Error>) -> Option<T> {
    read.map_err(|error| note(&format!("{error}; it is ignored"))).ok()
}
