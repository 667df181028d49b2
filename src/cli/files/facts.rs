//! What the generators of an ApplicationSet read, for the command line: cluster Secrets,
//! repositories, and the answers of services.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use serde_json::Value;

use crate::cli::console::error::Error;
use crate::cli::files::fields::api_version;
use crate::cli::files::repositories::OpenedRepositories;
use wavegate_api::{ObjectKey, Raw};
use wavegate_cluster::watch::control_plane::cluster_secret;
use wavegate_cluster::watch::trust::{TRUST_MAPS, Trust};
use wavegate_controller::application_set::{DemandsByProject, Reading, read_repository};
use wavegate_controller::config::{Config, Flags};
use wavegate_controller::credentials::RepositorySecrets;
use wavegate_controller::settings::{
    ApplicationSetSettings, CONTROL_PLANE_NAMESPACE, ProviderSettings,
};
use wavegate_net::clock::Clock;
use wavegate_net::entropy::template_environment;
use wavegate_providers::{Objects, Providers};
use wavegate_rollout::desired::inputs::{GitRequest, Inputs, MAX_READS};
use wavegate_rollout::desired::{self, Generation};
use wavegate_source::{ArtifactSettings, Freshness, Repositories};

/// Where the Secrets are from.
#[derive(Debug, Default)]
pub(in crate::cli) enum FactsSource {
    /// Files, which may contain none.
    #[default]
    Files,
    /// The cluster of the control plane.
    Cluster,
    /// They cannot be read, for this reason.
    Unknown(String),
}

/// The facts, and how to read more.
#[derive(Debug)]
pub(in crate::cli) struct GeneratorFacts {
    /// What is known.
    inputs: Inputs,
    /// Where the Secrets are from.
    source: FactsSource,
    /// Credentials of repositories.
    credentials: RepositorySecrets,
    /// What projects demand of the commits that generators read.
    demands: DemandsByProject,
    /// Services of other generators.
    providers: Providers,
    /// Opened when a generator reads a repository first.
    repositories: Option<Arc<OpenedRepositories>>,
}

impl GeneratorFacts {
    /// The facts of some Secrets, with these settings of generators.
    pub fn of(secrets: &[Secret], settings: Inputs, source: FactsSource) -> Self {
        Self {
            inputs: Inputs {
                clusters: secrets.iter().filter_map(cluster_secret).collect(),
                ..settings
            },
            source,
            credentials: RepositorySecrets::read(secrets),
            demands: DemandsByProject::new(),
            providers: providers(Objects::default(), CONTROL_PLANE_NAMESPACE),
            repositories: None,
        }
    }

    /// The same, with the Secrets and ConfigMaps that generators name from here.
    pub fn asking(self, providers: Providers) -> Self {
        Self { providers, ..self }
    }

    /// The same, with what projects demand of the commits that generators read.
    pub fn demanding(self, demands: DemandsByProject) -> Self {
        Self { demands, ..self }
    }

    /// The same, with the keys and certificates of Git servers.
    pub fn trusting(self, trust: Arc<Trust>) -> Self {
        Self { credentials: self.credentials.trusting(trust), ..self }
    }

    /// The same, with repositories that are read here.
    pub fn reading(self, repositories: Arc<OpenedRepositories>) -> Self {
        Self { repositories: Some(repositories), ..self }
    }

    /// The facts of the Secrets among some objects, and of the ConfigMaps with keys and
    /// certificates of Git servers, with these settings of generators. What other generators
    /// read is there, too.
    pub fn of_objects<'a>(
        objects: impl IntoIterator<Item = &'a Value>,
        settings: Inputs,
        namespace: &str,
    ) -> Self {
        let mut secrets: Vec<Secret> = Vec::new();
        let trust = Trust::default();
        let objects: Vec<Value> = objects.into_iter().cloned().collect();
        for object in objects.iter().filter(|object| api_version(object) == "v1") {
            if object.kind() == "Secret" {
                secrets.extend(serde_json::from_value(object.clone()));
            } else if object.kind() == "ConfigMap" {
                let name = object.name();
                if TRUST_MAPS.contains(&name) {
                    let data = serde_json::from_value(object["data"].clone());
                    trust.put(name, Some(data.unwrap_or_default()));
                }
            }
        }
        Self::of(&secrets, settings, FactsSource::Files)
            .trusting(Arc::new(trust))
            .asking(providers(Objects::Files(Arc::new(objects)), namespace))
    }

    /// What is known so far.
    pub fn inputs(&self) -> &Inputs {
        &self.inputs
    }

    /// What a generation with the clusters generator lacks: the reason when the cluster
    /// Secrets could not be read, and a note when the files contain none.
    pub fn missing_clusters(&self, generation: &Generation) -> Option<Result<&'static str, &str>> {
        match &self.source {
            _ if !generation.reads.clusters => None,
            FactsSource::Unknown(why) => Some(Err(why)),
            FactsSource::Files if self.inputs.clusters.is_empty() => Some(Ok(
                "the clusters generator knows only the local cluster, since the files contain no \
                 cluster Secret; add them with -f, or use --live",
            )),
            FactsSource::Files | FactsSource::Cluster => None,
        }
    }

    /// Generates the Applications of a raw ApplicationSet, and reads the repositories that
    /// its generators name.
    pub async fn generate(&mut self, set: &Value) -> Result<Generation, desired::GenerateError> {
        let mut reads = 0;
        loop {
            let mut env = template_environment(Clock::system().now());
            match desired::generate(set, &self.inputs, &mut env) {
                Err(desired::GenerateError::Unread(unread)) if reads < MAX_READS => {
                    reads += 1;
                    for request in unread.git {
                        self.read(request).await;
                    }
                    for query in unread.queries {
                        let answered = self.providers.ask(&query, &ObjectKey::of(set)).await;
                        let answer = answered.map(|answered| Arc::new(answered.answer));
                        let answer = answer.map_err(|failure| failure.text);
                        self.inputs.answers.insert(query, answer);
                    }
                }
                generated => return generated,
            }
        }
    }

    /// Reads a part of a repository.
    async fn read(&mut self, request: GitRequest) {
        let answer = match self.open() {
            Ok(sources) => {
                let fresh = Freshness(std::time::Duration::from_secs(60));
                let submodules = reads_submodules();
                let reading = Reading {
                    sources: &sources,
                    credentials: &self.credentials,
                    demands: &self.demands,
                    freshness: fresh,
                    submodules,
                };
                read_repository(&request, None, &reading).await
            }
            Err(error) => Err(error.to_string()),
        };
        let answer = answer.and_then(|read| read.ok_or_else(|| "nothing was read".to_owned()));
        self.inputs.git.insert(request, answer.map(|(_, answer)| Arc::new(answer)));
    }

    fn open(&mut self) -> Result<Arc<Repositories>, Error> {
        let opened = match &self.repositories {
            Some(opened) => Arc::clone(opened),
            None => Arc::new(OpenedRepositories::open(ArtifactSettings::default(), None)?),
        };
        self.repositories = Some(Arc::clone(&opened));
        Ok(Arc::clone(&opened.sources))
    }
}

/// The variable that turns submodules off; of the environment, nothing else.
pub(in crate::cli) fn submodules_only(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|_| name == "ARGOCD_GIT_MODULES_ENABLED")
}

/// Whether generators read submodules.
fn reads_submodules() -> bool {
    let config = Config::resolve(Flags::default(), &submodules_only, &BTreeMap::new());
    let settings = config.map(|config| config.application_sets);
    settings.unwrap_or_else(|_| ApplicationSetSettings::default()).git_submodules
}

/// Services of generators, with the settings that the environment has.
fn providers(objects: Objects, namespace: &str) -> Providers {
    let environment = |name: &str| std::env::var(name).ok();
    let config = Config::resolve(Flags::default(), &environment, &BTreeMap::new());
    let settings = config.map(|config| config.application_sets.providers);
    let settings = settings.unwrap_or_else(|_| ProviderSettings::default());
    Providers::new(objects, settings, namespace, Clock::system())
}
