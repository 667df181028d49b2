//! Creates, patches and deletes the Applications of a set.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::StreamExt;
use futures::stream::FuturesOrdered;
use jiff::Timestamp;
use kube::api::{DeleteParams, Patch as KubePatch, PatchParams, PostParams, Preconditions};
use kube::{Api, Client};
use serde_json::Value;

use super::application_set_status::is_conflict;
use super::application_status::{is_too_large, status_patch};
use crate::watch::control_plane::{Cache, Origin};
use crate::watch::failure::{error_reason, existing_object, has_code, is_gone};
use crate::watch::object::{StoredObject, kind_resource};
use wavegate_api::raw::require_version;
use wavegate_api::{ObjectKey, Raw};
use wavegate_application::operation::promoted;
use wavegate_rollout::application_set::deletion::{Presence, Unsure};
use wavegate_rollout::application_set::plan::outcome::{
    Ended, WriteAct, WriteFailure, WriteOutcome,
};
use wavegate_rollout::application_set::{Create, Delete, Patch, WritePlan};

/// Maximum number of operations of a batch that are written in parallel, independent of
/// `--concurrent-application-updates`: the operations of a batch start together.
const STARTS_AT_ONCE: usize = 20;

/// Writes Applications of one namespace.
#[derive(Clone, Debug)]
pub struct Writer {
    api: Api<StoredObject>,
    namespace: String,
    cache: Arc<Cache>,
    parallel: usize,
    /// The time at which operations begin with their request; `None` when another process begins
    /// them.
    begins_at: Option<Timestamp>,
}

impl Writer {
    /// A writer with at most `parallel` requests at a time, operation starts excluded.
    pub fn new(client: &Client, namespace: &str, cache: Arc<Cache>, parallel: usize) -> Self {
        let api = Api::namespaced_with(client.clone(), namespace, &kind_resource("Application"));
        let (namespace, parallel) = (namespace.to_owned(), parallel.max(1));
        Self { api, namespace, cache, parallel, begins_at: None }
    }

    /// The same, whose operations have begun with their request.
    pub fn beginning_at(self, at: Timestamp) -> Self {
        Self { begins_at: Some(at), ..self }
    }

    /// Applies a plan: first the operations to start, then creations and other patches by their
    /// steps, in parallel. All are tried when some fail (AS-157). Otherwise those besides the
    /// operations end as soon as they give way: the second result is whether some are left, since
    /// what the first ones need next must not wait for thousands of others.
    ///
    /// Deletions follow only when all other writes succeeded (AS-148): an Application
    /// that was renamed must exist under its new name before the old one is deleted.
    pub async fn write(
        &self,
        plan: &WritePlan,
        gives_way: impl Fn() -> bool,
    ) -> (Vec<WriteOutcome>, bool) {
        // Less urgent writes do not delay the start of a sync.
        let (starts, patches): (Vec<_>, Vec<_>) = plan.patches.iter().partition(|one| one.starts);
        let starts = starts.into_iter().map(Write::Patch);
        let mut outcomes = self.all(starts, STARTS_AT_ONCE).await;
        let creates = plan.creates.iter().map(Write::Create);
        let patches = patches.into_iter().map(Write::Patch);
        let mut rest: Vec<_> = creates.chain(patches).collect();
        rest.sort_by_key(Write::step);
        let mut rest = rest.into_iter();
        let mut running = FuturesOrdered::new();
        // At least one, so that they end.
        let mut may_begin = true;
        loop {
            while may_begin && running.len() < self.parallel {
                let Some(write) = rest.next() else { break };
                running.push_back(self.one(write));
                may_begin = !gives_way();
            }
            let Some(outcome) = running.next().await else { break };
            outcomes.push(outcome);
            may_begin = may_begin && !gives_way();
        }
        drop(running);
        if !outcomes.iter().any(WriteOutcome::is_lacking) && rest.len() > 0 {
            return (outcomes, true);
        }
        outcomes.extend(self.all(rest, self.parallel).await);
        if outcomes.iter().any(WriteOutcome::is_lacking) {
            outcomes.extend(plan.deletes.iter().map(|delete| WriteOutcome {
                application: delete.name.clone(),
                act: WriteAct::Delete,
                ended: Ended::Held,
            }));
        } else {
            let deletes: Vec<_> = plan.deletes.iter().map(|gone| self.delete(gone)).collect();
            let deletes = futures::stream::iter(deletes).buffered(self.parallel);
            outcomes.extend(deletes.concat().await);
        }
        (outcomes, false)
    }

    async fn all<'a>(
        &self,
        writes: impl Iterator<Item = Write<'a>>,
        parallel: usize,
    ) -> Vec<WriteOutcome> {
        let writes: Vec<_> = writes.map(|write| self.one(write)).collect();
        futures::stream::iter(writes).buffered(parallel).collect().await
    }

    async fn one(&self, write: Write<'_>) -> WriteOutcome {
        let (application, act, ended) = match write {
            Write::Create(new) => (&new.name, WriteAct::Create, self.create(new).await),
            Write::Patch(patch) => {
                let act = match (patch.starts, patch.changes_spec) {
                    (true, _) => WriteAct::Start,
                    (false, true) => WriteAct::Update,
                    (false, false) => WriteAct::Annotate,
                };
                (&patch.name, act, self.patch(patch).await)
            }
        };
        WriteOutcome { application: application.clone(), act, ended }
    }

    async fn create(&self, new: &Create) -> Ended {
        let object: StoredObject = match serde_json::from_str(&new.json) {
            Ok(object) => object,
            Err(error) => {
                return Ended::Failed(WriteFailure { code: Some(0), text: error.to_string() });
            }
        };
        let write = self.cache.begin_write(ObjectKey::new(&self.namespace, &new.name));
        match write.answer(self.api.create(&PostParams::default(), &object)).await {
            // The Application to create cannot be missing: a 404 means that another
            // object does not exist, and a new observation does not change that.
            Err(error) if has_code(&error, 404) => Ended::Failed(failure_cause(&error)),
            result => self.settle(result),
        }
    }

    async fn patch(&self, patch: &Patch) -> Ended {
        let body = patch.body();
        let write = self.cache.begin_write(ObjectKey::new(&self.namespace, &patch.name));
        let begun = self.begins_at.filter(|_| patch.starts && patch.is_taken_up);
        if let Some(begun) = begun.and_then(|at| self.begun(&patch.name, &body, at)) {
            match write.answer(self.send(&patch.name, &begun)).await {
                // The sync engine finds out too, and ends the operation with the reason.
                Err(error) if is_too_large(&error) => {}
                result => return self.settle(result),
            }
        }
        write.answer(self.merge(&patch.name, &body)).await
    }

    /// A patch that starts an operation, with its beginning; `None` when it cannot be known here.
    fn begun(&self, name: &str, body: &Value, at: Timestamp) -> Option<Value> {
        let known = self.cache.get(&ObjectKey::new(&self.namespace, name))?;
        // The API server refuses what is based on another version.
        let stored =
            (known.resource_version() == body.resource_version()).then(|| known.parse())?;
        let mut requested = stored.clone();
        json_patch::merge(&mut requested, body);
        let mut patch = status_patch(&stored, &promoted::begun_operation(requested, at)?)?;
        require_version(&mut patch, &stored);
        Some(patch)
    }

    async fn merge(&self, name: &str, body: &Value) -> Ended {
        let result = self.send(name, body).await;
        self.settle(result)
    }

    async fn send(&self, name: &str, body: &Value) -> Result<StoredObject, kube::Error> {
        let known = self.cache.get(&ObjectKey::new(&self.namespace, name));
        let patch = KubePatch::Merge(body);
        let result = self.api.patch(name, &PatchParams::default(), &patch).await;
        // A watch that is late has it still, and the next reconcile creates it (AS-152).
        if let (Err(error), Some(known)) = (&result, known)
            && is_gone(error)
        {
            self.forget(name, known.uid());
        }
        result
    }

    /// Deletes an Application, without its finalizer if that must be removed first: then
    /// it is deleted only after the patch (AS-166).
    async fn delete(&self, delete: &Delete) -> Vec<WriteOutcome> {
        let application = &delete.name;
        let outcome = |act, ended| WriteOutcome { application: application.clone(), act, ended };
        let mut outcomes = Vec::new();
        if let Some(release) = &delete.release {
            // It was serialized here.
            let body: Value = serde_json::from_str(&release.json).unwrap_or_default();
            outcomes.push(outcome(WriteAct::Release, self.merge(application, &body).await));
        }
        // The release is based on the same version.
        let version = delete.version.as_deref().filter(|_| delete.release.is_none());
        if outcomes.iter().all(|outcome| outcome.ended == Ended::Written) {
            outcomes.push(outcome(WriteAct::Delete, self.request_deletion(delete, version).await));
        }
        outcomes
    }

    async fn request_deletion(&self, delete: &Delete, version: Option<&str>) -> Ended {
        let resource_version = version.map(str::to_owned);
        let preconditions = Preconditions { uid: Some(delete.uid.clone()), resource_version };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        match self.api.delete(&delete.name, &params).await {
            Ok(answer) => {
                match answer.left() {
                    Some(object) => self.cache.wrote(object, Origin::ApplicationSets),
                    None => self.forget(&delete.name, &delete.uid),
                }
                Ended::Written
            }
            Err(error) if is_gone(&error) => {
                // Another client was faster.
                self.forget(&delete.name, &delete.uid);
                Ended::Outdated
            }
            Err(error) if is_conflict(&error) => Ended::Outdated,
            Err(error) => Ended::Failed(failure_cause(&error)),
        }
    }

    fn forget(&self, name: &str, uid: &str) {
        self.cache.gone(&ObjectKey::new(&self.namespace, name), uid, Origin::ApplicationSets);
    }

    /// Reads Applications whose cached state may be outdated, and updates the cache: if the
    /// API server has none with this UID, the cached one is dropped. Returns what is known
    /// of the others, by UID (AS-383).
    pub async fn read(&self, unsure: &[Unsure]) -> BTreeMap<String, Presence> {
        let read = |one: &Unsure| {
            let one = one.clone();
            async move {
                let presence = match existing_object(self.api.get(&one.name).await) {
                    Ok(Some(found)) if found.uid() == one.uid => {
                        self.cache.wrote(found, Origin::ApplicationSets);
                        Presence::Exists
                    }
                    Ok(_) => {
                        self.forget(&one.name, &one.uid);
                        return None;
                    }
                    Err(error) => Presence::Unreadable(error_reason(&error)),
                };
                Some((one.uid, presence))
            }
        };
        let reads: Vec<_> = unsure.iter().map(read).collect();
        let reads = futures::stream::iter(reads).buffered(self.parallel);
        reads.filter_map(std::future::ready).collect().await
    }

    fn settle(&self, result: Result<StoredObject, kube::Error>) -> Ended {
        match result {
            Ok(object) => {
                self.cache.wrote(object, Origin::ApplicationSets);
                Ended::Written
            }
            Err(error) if is_conflict(&error) => Ended::Outdated,
            Err(error) => Ended::Failed(failure_cause(&error)),
        }
    }
}

/// The cause of a failed request.
pub fn failure_cause(error: &kube::Error) -> WriteFailure {
    let code = match error {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    };
    WriteFailure { code, text: error_reason(error) }
}

enum Write<'a> {
    Create(&'a Create),
    Patch(&'a Patch),
}

impl Write<'_> {
    /// The step of the Application; what is in none comes last.
    fn step(&self) -> usize {
        let step = match self {
            Self::Create(new) => new.step,
            Self::Patch(patch) => patch.step,
        };
        step.unwrap_or(usize::MAX)
    }
}
