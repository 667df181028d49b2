//! What the other sets of a namespace generate, for `plan --live` and `diff`: an Application
//! that one set generates no longer while another one does changes its owner.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cli::cluster::ClusterConnection;
use crate::cli::cluster::controller::Controller;
use crate::cli::console::error::{Error, note};
use crate::cli::files::facts::GeneratorFacts;
use crate::cli::files::generate::{self, generated};
use crate::cli::files::input::FileObject;
use wavegate_api::Raw;
use wavegate_rollout::application_set::generate::generated::Generated;
use wavegate_rollout::application_set::plan::ownership_transfer::Other;

/// The sets of a cluster, as they will be when those given are applied.
pub(in crate::cli) struct OtherSets<'a> {
    /// The cluster.
    pub cluster: &'a ClusterConnection,
    /// The settings of its controller.
    pub controller: &'a Controller,
    /// The given sets, which replace those of the cluster; each with its namespace.
    pub given: &'a [FileObject],
    /// By namespace and name; `None` for one that cannot be generated.
    known: BTreeMap<(String, String), Option<Arc<Generated>>>,
}

impl<'a> OtherSets<'a> {
    /// Nothing is read before it is asked for.
    pub fn new(
        cluster: &'a ClusterConnection,
        controller: &'a Controller,
        given: &'a [FileObject],
    ) -> Self {
        Self { cluster, controller, given, known: BTreeMap::new() }
    }

    /// All sets of a namespace but one. Sets that are being deleted take nothing.
    ///
    /// # Errors
    ///
    /// When the sets of the cluster cannot be listed.
    pub async fn besides(
        &mut self,
        name: &str,
        namespace: &str,
        facts: &mut GeneratorFacts,
    ) -> Result<Vec<Other>, Error> {
        let stored = self.cluster.list("ApplicationSet", Some(namespace), None).await?;
        let mut sets: BTreeMap<String, FileObject> = BTreeMap::new();
        let mut uids: BTreeMap<String, String> = BTreeMap::new();
        for set in stored.iter().filter(|set| !set.is_deleting()) {
            let name = set.name().to_owned();
            uids.insert(name.clone(), set.uid().to_owned());
            let value = set.as_ref().clone();
            sets.insert(name, FileObject { file: "the cluster".to_owned(), line: 1, value });
        }
        for set in self.given.iter().filter(|set| set.value.namespace() == namespace) {
            sets.insert(set.value.name().to_owned(), set.clone());
        }
        let mut others = Vec::new();
        for (other, set) in sets.into_iter().filter(|(other, _)| other != name) {
            let uid = uids.remove(&other).unwrap_or_default();
            let generated = self.generated(namespace, &other, &set, facts).await;
            let (name, uid) = (other.into(), uid.into());
            let is_current = generated.is_some();
            others.push(Other { name, uid, generated, is_current, failing_since: None });
        }
        Ok(others)
    }

    async fn generated(
        &mut self,
        namespace: &str,
        name: &str,
        set: &FileObject,
        facts: &mut GeneratorFacts,
    ) -> Option<Arc<Generated>> {
        let key = (namespace.to_owned(), name.to_owned());
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        let found = match generate::generate_known(set, facts).await {
            Ok(generation) => {
                let settings = &self.controller.settings.decisions;
                Some(Arc::new(generated(&set.value, &generation, settings)))
            }
            Err(error) => {
                note(&format!("{error}; whether it takes Applications over is not known"));
                None
            }
        };
        self.known.insert(key, found.clone());
        found
    }
}
