//! Sources of Applications whose set is about to write a new spec. They are read while it still
//! stores its decision, so that the first comparison need not wait for the repository.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::mpsc;

use wavegate_api::Raw;
use wavegate_rollout::application_set::WritePlan;

/// So many Applications of a plan are looked at, those of the first steps first: most sets have one
/// revision.
const LOOKED_AT: usize = 8;

/// So many requests wait at most; others are dropped, for each Application reads its sources itself.
const CAPACITY: usize = 32;

/// An Application whose sources are read ahead.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PrefetchRequest {
    /// Its namespace.
    pub namespace: String,
    /// The Application as it will be.
    pub application: Value,
}

/// The requests of the controller of ApplicationSets to that of Applications.
#[derive(Clone, Debug)]
pub(crate) struct Prefetches {
    sender: mpsc::Sender<PrefetchRequest>,
    receiver: Arc<Mutex<Option<mpsc::Receiver<PrefetchRequest>>>>,
}

impl Default for Prefetches {
    fn default() -> Self {
        let (sender, receiver) = mpsc::channel(CAPACITY);
        Self { sender, receiver: Arc::new(Mutex::new(Some(receiver))) }
    }
}

impl Prefetches {
    /// Asks for the sources of the first Applications that a plan creates, or whose sources it
    /// changes: the same ones once. `generated` gives an Application by its name. Does not wait.
    /// Returns whether the plan writes a spec.
    pub(crate) fn ask_for(
        &self,
        namespace: &str,
        writes: &WritePlan,
        generated: impl Fn(&str) -> Option<Value>,
    ) -> bool {
        let is_spec = writes.patches.iter().any(|patch| patch.changes_spec);
        for application in first_of(writes, generated) {
            let request = PrefetchRequest { namespace: namespace.to_owned(), application };
            if self.sender.try_send(request).is_err() {
                // Another process reads them, or there is enough to do.
                break;
            }
        }
        is_spec || !writes.creates.is_empty()
    }

    /// The requests, for the only one that answers them; `None` if another one does.
    pub(crate) fn take_requests(&self) -> Option<mpsc::Receiver<PrefetchRequest>> {
        self.receiver.lock().take()
    }
}

/// The first Applications of a plan that read something new, one of those that read the same.
fn first_of(writes: &WritePlan, generated: impl Fn(&str) -> Option<Value>) -> Vec<Value> {
    let creates = writes.creates.iter().map(|new| (new.step, &new.name, None));
    let patches = writes.patches.iter().filter(|patch| patch.changes_spec);
    let patches = patches.map(|patch| (patch.step, &patch.name, Some(patch)));
    let mut all: Vec<_> = creates.chain(patches).collect();
    all.sort_by_key(|(step, ..)| step.unwrap_or(usize::MAX));
    let mut first: Vec<(Vec<[String; 3]>, Value)> = Vec::new();
    for (_, name, patch) in all.into_iter().take(LOOKED_AT) {
        if patch.is_some_and(|patch| !changes_sources(&patch.body())) {
            continue;
        }
        let Some(application) = generated(name) else { continue };
        let reads = reads_of(&application);
        if first.iter().all(|(known, _)| *known != reads) {
            first.push((reads, application));
        }
    }
    first.into_iter().map(|(_, application)| application).collect()
}

fn changes_sources(patch: &Value) -> bool {
    let spec = patch.spec();
    ["source", "sources"].iter().any(|field| spec.get(field).is_some())
}

/// What decides which commits an Application reads.
fn reads_of(application: &Value) -> Vec<[String; 3]> {
    let spec = application.spec();
    let project = spec.field("project");
    let several = spec.get("sources").and_then(Value::as_array).into_iter().flatten();
    let sources = spec.get("source").into_iter().chain(several);
    let reads =
        sources.map(|source| [project, source.field("repoURL"), source.field("targetRevision")]);
    reads.map(|reads| reads.map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use wavegate_rollout::application_set::{Create, Patch};

    use super::*;

    fn generated(name: &str) -> Option<Value> {
        let revision = name.split('-').next().unwrap_or_default();
        let source = json!({"repoURL": "https://example.com/a.git", "targetRevision": revision, "path": name});
        Some(json!({"spec": {"project": "web", "source": source}}))
    }

    fn patch(name: &str, step: usize, body: Value) -> Patch {
        Patch {
            name: name.to_owned(),
            json: body.to_string(),
            starts: false,
            is_taken_up: false,
            changes_spec: true,
            only_records: false,
            refreshes: false,
            step: Some(step),
        }
    }

    fn asked(writes: &WritePlan) -> Vec<String> {
        let prefetches = Prefetches::default();
        prefetches.ask_for("argocd", writes, generated);
        let mut requests = prefetches.take_requests().unwrap();
        assert!(prefetches.take_requests().is_none(), "one answers them");
        let mut paths = Vec::new();
        while let Ok(request) = requests.try_recv() {
            assert_eq!(request.namespace, "argocd");
            paths.push(request.application.text("/spec/source/path").to_owned());
        }
        paths
    }

    #[test]
    fn the_first_step_is_asked_for_and_each_revision_once() {
        let new = json!({"spec": {"source": {"targetRevision": "v2"}}});
        let patches = vec![
            patch("v9-late", 2, new.clone()),
            patch("v2-a", 0, new.clone()),
            patch("v2-b", 0, new.clone()),
            patch("v3-c", 1, json!({"spec": {"sources": []}})),
            patch("v4-label", 0, json!({"metadata": {"labels": {"a": "b"}}})),
            patch("v5-project", 0, json!({"spec": {"project": "x"}})),
        ];
        let create = Create { name: "v7-new".into(), json: "{}".into(), step: Some(1) };
        let writes = WritePlan { patches, creates: vec![create], ..WritePlan::default() };
        assert_eq!(asked(&writes), ["v2-a", "v7-new", "v3-c", "v9-late"]);
        assert!(asked(&WritePlan::default()).is_empty());
    }

    #[test]
    fn thousands_of_revisions_are_no_thousands_of_requests() {
        let new = json!({"spec": {"source": {"targetRevision": "v2"}}});
        let patches =
            (0..5000).map(|number| patch(&format!("v{number}-a"), 0, new.clone())).collect();
        let writes = WritePlan { patches, ..WritePlan::default() };
        assert_eq!(asked(&writes).len(), LOOKED_AT);
    }
}
