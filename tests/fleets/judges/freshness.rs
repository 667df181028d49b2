//! An Application is said to be Healthy with a commit only after everything of that commit was
//! deployed and Healthy: steps must not open on what was Healthy before.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{Judge, Known, Verdict};
use crate::scenario::{COMMIT, objects};
use crate::track::Moment;
use crate::world::{Changed, Kind};

#[derive(Default)]
pub struct Freshness {
    /// The commits with which each object was ready, by kind and name.
    ready: BTreeMap<(Kind, String), BTreeSet<u64>>,
}

impl Judge for Freshness {
    fn change(&mut self, known: &Known<'_>, changed: &Changed, moments: &[Moment]) -> Verdict {
        if let Some(object) = &changed.after
            && let Some(commit) = ready(changed.key.kind, object)
        {
            let key = (changed.key.kind, changed.key.name.to_string());
            self.ready.entry(key).or_default().insert(commit);
        }
        for moment in moments {
            let Moment::Done(commit) = moment else { continue };
            let Some(app) = known.case.app(&changed.key.name) else { continue };
            for object in objects(app, *commit) {
                let kind = match object["kind"].as_str() {
                    Some("Deployment") => Kind::Deployment,
                    Some("Job") => Kind::Job,
                    _ => Kind::ConfigMap,
                };
                let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                let was_ready =
                    self.ready.get(&(kind, name.clone())).is_some_and(|all| all.contains(commit));
                if !was_ready {
                    return Err(format!(
                        "{} is Healthy with commit {commit}, and {kind:?} {name} never was",
                        app.name
                    ));
                }
            }
        }
        Ok(())
    }
}

/// The commit with which an object is ready, if it is.
fn ready(kind: Kind, object: &Value) -> Option<u64> {
    let metadata = &object["metadata"];
    let commit: u64 = metadata["annotations"][COMMIT].as_str()?.parse().ok()?;
    let status = &object["status"];
    let is_ready = match kind {
        Kind::Deployment => {
            let replicas = object["spec"]["replicas"].as_u64().unwrap_or(1);
            status["observedGeneration"] == metadata["generation"]
                && status["updatedReplicas"].as_u64() == Some(replicas)
                && status["availableReplicas"].as_u64() == Some(replicas)
        }
        Kind::Job => status["succeeded"].as_u64() > Some(0),
        Kind::ConfigMap => true,
        _ => return None,
    };
    is_ready.then_some(commit)
}
