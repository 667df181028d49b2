//! What the generators of an ApplicationSet read, for the command line: cluster Secrets and
//! repositories.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Secret;
use serde_json::Value;

use super::error::Error;
use crate::api::Raw;
use crate::clock::Clock;
use crate::confined::Confinement;
use crate::controller::application_set::read_repository;
use crate::controller::credentials::RepositorySecrets;
use crate::desired::inputs::{GitRequest, Inputs, MAX_READS};
use crate::desired::{self, Generation};
use crate::entropy::environment;
use crate::settings::ApplicationSetSettings;
use crate::source::{Allow, Freshness, Repositories};
use crate::watch::control_plane::cluster_secret;
use crate::watch::trust::{CERTIFICATES, KNOWN_HOSTS, Trust};

/// Where the Secrets are from.
#[derive(Debug, Default)]
pub(super) enum Source {
    /// Files, which may contain none.
    #[default]
    Files,
    /// The cluster of the control plane.
    Cluster,
    /// They cannot be read, for this reason.
    Unknown(String),
}

/// The facts, and how to read more.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// What is known.
    inputs: Inputs,
    /// Where the Secrets are from.
    source: Source,
    /// Credentials of repositories.
    credentials: RepositorySecrets,
    /// Opened when a generator reads a repository first; removed with this value.
    repositories: Option<(Arc<Repositories>, tempfile::TempDir)>,
}

impl Facts {
    /// The facts of some Secrets, with these settings of generators.
    pub fn of(secrets: &[Secret], settings: Inputs, source: Source) -> Self {
        Self {
            inputs: Inputs {
                clusters: secrets.iter().filter_map(cluster_secret).collect(),
                ..settings
            },
            source,
            credentials: RepositorySecrets::read(secrets),
            repositories: None,
        }
    }

    /// The same, with the keys and certificates of Git servers.
    pub fn trusting(self, trust: Arc<Trust>) -> Self {
        Self { credentials: self.credentials.trusting(trust), ..self }
    }

    /// The facts of the Secrets among some objects, and of the ConfigMaps with keys and
    /// certificates of Git servers, with these settings of generators.
    pub fn of_objects<'a>(objects: impl IntoIterator<Item = &'a Value>, settings: Inputs) -> Self {
        let mut secrets: Vec<Secret> = Vec::new();
        let trust = Trust::default();
        for object in objects.into_iter().filter(|object| object["apiVersion"] == "v1") {
            if object["kind"] == "Secret" {
                secrets.extend(serde_json::from_value(object.clone()));
            } else if object["kind"] == "ConfigMap" {
                let name = object.name();
                if [KNOWN_HOSTS, CERTIFICATES].contains(&name) {
                    let data = serde_json::from_value(object["data"].clone());
                    trust.put(name, Some(data.unwrap_or_default()));
                }
            }
        }
        Self::of(&secrets, settings, Source::Files).trusting(Arc::new(trust))
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
            Source::Unknown(why) => Some(Err(why)),
            Source::Files if self.inputs.clusters.is_empty() => Some(Ok(
                "the clusters generator knows only the local cluster, since the files contain no \
                 cluster Secret; add them with -f, or use --live",
            )),
            Source::Files | Source::Cluster => None,
        }
    }

    /// Generates the Applications of a raw ApplicationSet, and reads the repositories that
    /// its generators name.
    pub async fn generate(&mut self, set: &Value) -> Result<Generation, desired::Error> {
        let mut reads = 0;
        loop {
            let mut env = environment(Clock::system().now());
            match desired::generate(set, &self.inputs, &mut env) {
                Err(desired::Error::Unread(requests)) if reads < MAX_READS => {
                    reads += 1;
                    for request in requests {
                        self.read(request).await;
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
                let submodules = ApplicationSetSettings::default().git_submodules;
                read_repository(&request, None, &sources, &self.credentials, fresh, submodules)
                    .await
            }
            Err(error) => Err(error.to_string()),
        };
        let answer = answer.and_then(|read| read.ok_or_else(|| "nothing was read".to_owned()));
        self.inputs.git.insert(request, answer.map(|(_, answer)| Arc::new(answer)));
    }

    fn open(&mut self) -> Result<Arc<Repositories>, Error> {
        if let Some((sources, _)) = &self.repositories {
            return Ok(Arc::clone(sources));
        }
        let failed = |error: &dyn std::fmt::Display| {
            Error::input("cannot read repositories", "a temporary directory", error)
        };
        let folder = tempfile::Builder::new().prefix("wavegate-").tempdir();
        let folder = folder.map_err(|error| failed(&error))?;
        // A user may read what is on their own machine.
        let sources =
            super::run::open_sources(folder.path(), Allow::EVERYTHING, Confinement::default());
        let sources = Arc::new(sources.map_err(|error| failed(&error))?);
        self.repositories = Some((Arc::clone(&sources), folder));
        Ok(sources)
    }
}
