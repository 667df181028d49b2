//! Creates, patches and deletes the Applications of a set.

use std::sync::Arc;

use futures::StreamExt;
use kube::api::{DeleteParams, Patch as KubePatch, PatchParams, PostParams, Preconditions};
use kube::{Api, Client};
use serde_json::Value;

use super::application_set_status::is_conflict;
use crate::api::ObjectKey;
use crate::decide::application_set::{Delete, Patch, WritePlan};
use crate::watch::control_plane::{Cache, Origin};
use crate::watch::failure::has_code;
use crate::watch::object::{Object, resource};

/// What was done to one Application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// It was created.
    Create,
    /// Its spec or metadata was patched.
    Update,
    /// Its operation was started, maybe with a patch of its spec.
    Start,
    /// It was asked to be compared again.
    Refresh,
    /// It was deleted.
    Delete,
}

/// What became of one write.
#[derive(Debug)]
pub struct Outcome {
    /// The Application's name.
    pub application: String,
    /// What was tried.
    pub act: Act,
    /// What became of it.
    pub result: Result<Done, kube::Error>,
}

/// How a write that did not fail ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// It took effect.
    Written,
    /// The Application changed in the meantime, or is gone: the next pass
    /// decides anew.
    Outdated,
    /// It was not tried: a deletion, and something else was not written.
    Held,
}

impl Outcome {
    /// Whether deletions wait for it: a part of the generation that is not in
    /// the cluster. Asking for a comparison is no part of it.
    pub fn is_lacking(&self) -> bool {
        self.act != Act::Refresh && !matches!(self.result, Ok(Done::Written))
    }
}

/// Writes Applications of one namespace.
#[derive(Clone, Debug)]
pub struct Writer {
    api: Api<Object>,
    namespace: String,
    cache: Arc<Cache>,
    parallel: usize,
}

impl Writer {
    /// A writer with at most `parallel` requests under way.
    pub fn new(client: &Client, namespace: &str, cache: Arc<Cache>, parallel: usize) -> Self {
        let api = Api::namespaced_with(client.clone(), namespace, &resource("Application"));
        Self { api, namespace: namespace.to_owned(), cache, parallel: parallel.max(1) }
    }

    /// Carries out a plan: syncs to start, creations, other patches; each list
    /// in order, several at once. All are tried, whatever fails (AS-157).
    ///
    /// Then the deletions, but only when every other write took effect
    /// (AS-148): an Application that was given another name must be there under
    /// the new one before it goes under the old one.
    pub async fn carry_out(&self, plan: &WritePlan) -> Vec<Outcome> {
        let creates = plan.creates.iter().cloned().map(Write::Create);
        // Nobody's sync waits for what is not urgent.
        let (starts, patches): (Vec<_>, Vec<_>) =
            plan.patches.iter().cloned().partition(|patch| patch.starts);
        let starts = starts.into_iter().map(Write::Patch);
        let patches = patches.into_iter().map(Write::Patch);
        let mut outcomes = self.all(starts.chain(creates).chain(patches).collect()).await;
        if outcomes.iter().any(Outcome::is_lacking) {
            outcomes.extend(plan.deletes.iter().map(|delete| Outcome {
                application: delete.name.clone(),
                act: Act::Delete,
                result: Ok(Done::Held),
            }));
        } else {
            let deletes = plan.deletes.iter().cloned().map(Write::Delete).collect();
            outcomes.extend(self.all(deletes).await);
        }
        outcomes
    }

    async fn all(&self, writes: Vec<Write>) -> Vec<Outcome> {
        let writes = writes.into_iter().map(|write| self.clone().one(write));
        futures::stream::iter(writes).buffered(self.parallel).collect().await
    }

    async fn one(self, write: Write) -> Outcome {
        match write {
            Write::Create(object) => self.create(object).await,
            Write::Patch(patch) => self.patch(&patch).await,
            Write::Delete(delete) => self.delete(&delete).await,
        }
    }

    async fn create(&self, object: Value) -> Outcome {
        let params = PostParams::default();
        let application = crate::desired::name_of(&object).to_owned();
        let result = match self.api.create(&params, &Object::from(object)).await {
            // Nothing can be gone that was to be created: something else is
            // missing, and looking again would not bring it back.
            Err(error) if has_code(&error, 404) => Err(error),
            result => self.settle(result),
        };
        Outcome { application, act: Act::Create, result }
    }

    async fn patch(&self, patch: &Patch) -> Outcome {
        let params = PatchParams::default();
        let result = self.api.patch(&patch.name, &params, &KubePatch::Merge(&patch.body)).await;
        Outcome {
            application: patch.name.clone(),
            act: match (patch.starts, patch.changes_spec) {
                (true, _) => Act::Start,
                (false, true) => Act::Update,
                (false, false) => Act::Refresh,
            },
            result: self.settle(result),
        }
    }

    async fn delete(&self, delete: &Delete) -> Outcome {
        let preconditions = Preconditions { uid: Some(delete.uid.clone()), resource_version: None };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        let result = match self.api.delete(&delete.name, &params).await {
            Ok(answer) => {
                match answer.left() {
                    Some(object) => self.cache.wrote(object, Origin::ApplicationSets),
                    None => {
                        let key = ObjectKey::new(&self.namespace, &delete.name);
                        self.cache.gone(&key, &delete.uid, Origin::ApplicationSets);
                    }
                }
                Ok(Done::Written)
            }
            Err(error) if is_conflict(&error) => Ok(Done::Outdated),
            Err(error) => Err(error),
        };
        Outcome { application: delete.name.clone(), act: Act::Delete, result }
    }

    fn settle(&self, result: Result<Object, kube::Error>) -> Result<Done, kube::Error> {
        match result {
            Ok(object) => {
                self.cache.wrote(object, Origin::ApplicationSets);
                Ok(Done::Written)
            }
            Err(error) if is_conflict(&error) => Ok(Done::Outdated),
            Err(error) => Err(error),
        }
    }
}

enum Write {
    Create(Value),
    Patch(Patch),
    Delete(Delete),
}
