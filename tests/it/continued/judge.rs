//! What must hold of each continuation, judged by the record of the server alone.

use std::collections::BTreeMap;

use serde_json::Value;

use super::recorded::Recorded;
use super::stage::{Stage, steps};
use crate::support::invariants;
use crate::support::recorder::Change;
use crate::support::{Kind, Log};

/// What a continuation does not make anew.
const KEPT: [Kind; 6] = [
    Kind::ApplicationSet,
    Kind::Application,
    Kind::AppProject,
    Kind::ConfigMap,
    Kind::Deployment,
    Kind::Service,
];

/// A rollout forward: one sync per Application and revision, with the start that the record has,
/// steps in order, limits kept, each hook once, and nothing is deleted or made anew.
pub fn rollout(stage: &Stage, recorded: &Recorded) {
    stage.world.recorder.read(|log| {
        invariants::check(log, &steps());
        nothing_is_made_anew(log, recorded);
        running_operations_keep_their_start(log, recorded);
        operations_are_announced_once(log, recorded);
    });
}

/// Each operation has one Event of its start, also when the process was killed around it. The
/// record has one for the first rollout, which an hour later is gone.
fn operations_are_announced_once(log: &Log, recorded: &Recorded) {
    let mut announced: BTreeMap<&str, i64> = BTreeMap::new();
    for (_, event) in log.all(Kind::Event) {
        let count = [&event["series"]["count"], &event["deprecatedCount"]];
        let count = count.iter().filter_map(|count| count.as_i64()).max().unwrap_or(1);
        if event["reason"] == "OperationStarted" {
            let name = event["regarding"]["name"].as_str().unwrap_or_default();
            *announced.entry(name).or_default() += count;
        }
    }
    for (name, count) in announced {
        assert!(count <= 2, "{recorded}: {count} operations of {name} were announced, not 2");
    }
}

/// Each object that the record has is there, and the same one.
pub fn nothing_is_made_anew(log: &Log, recorded: &Recorded) {
    for kind in KEPT {
        let mut uids: BTreeMap<&str, &Value> = BTreeMap::new();
        for record in log.of(kind) {
            let uid = &record.object["metadata"]["uid"];
            let name = record.name();
            let gone = record.change == Change::Deleted;
            assert!(!gone, "{recorded}: {kind:?} {name} was deleted\n{}", log.state());
            let first = uids.entry(name).or_insert(uid);
            assert_eq!(*first, uid, "{recorded}: {kind:?} {name} is another one");
        }
    }
}

/// An operation that was running ends as the same one, and is not started again.
pub fn running_operations_keep_their_start(log: &Log, recorded: &Recorded) {
    for app in recorded.objects.iter().filter(|object| object["kind"] == "Application") {
        let before = &app["status"]["operationState"];
        if before["phase"] != "Running" {
            continue;
        }
        let name = app["metadata"]["name"].as_str().unwrap();
        let revision = invariants::revision(&before["syncResult"]);
        let of_app = log.of(Kind::Application).filter(|one| one.object["metadata"]["name"] == name);
        let states = of_app.map(|record| &record.object["status"]["operationState"]);
        for state in states.filter(|state| invariants::revision(&state["syncResult"]) == revision) {
            assert_eq!(
                state["startedAt"], before["startedAt"],
                "{recorded}: the operation of {name} was started again: {state:#}"
            );
        }
    }
}

/// How often hooks of a manifest were there that run for a version: those of the record, and
/// those that were created since. `prefix` is their name, or the beginning of generated ones.
pub fn hooks(log: &Log, prefix: &str, version: &str) -> usize {
    let mut uids: Vec<&Value> = Vec::new();
    for record in log.of(Kind::Job) {
        let metadata = &record.object["metadata"];
        let is_of = metadata["annotations"][crate::support::manifests::VERSION] == version;
        if record.name().starts_with(prefix) && is_of && !uids.contains(&&metadata["uid"]) {
            uids.push(&metadata["uid"]);
        }
    }
    uids.len()
}

/// The requests of the controllers that write such resources, by verb and name; without dry runs.
pub fn writes(stage: &Stage, resource: &str) -> Vec<String> {
    let all = stage.world.controller_writes().into_iter();
    all.filter(|one| one.resource == resource && !one.dry_run && one.subresource.is_empty())
        .map(|one| format!("{} {}", one.verb, one.name))
        .collect()
}
