//! Applications that the sync windows of their projects do not allow to be
//! synced now (AS-366, SE-406).

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::json;

use crate::application_set::generate::generated::Wanted;
use crate::application_set::plan::merge;
use crate::application_set::plan::observe::Existing;
use crate::application_set::plan::write_plan::{Patch, WritePlan};
use crate::rollout::Denied;
use wavegate_api::Cluster;
use wavegate_engine::windows::{self, SyncAttempt, Window};

/// The input for sync windows.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The windows of each project.
    pub projects: &'a BTreeMap<String, Vec<Window>>,
    /// The known clusters.
    pub clusters: &'a [Cluster],
}

/// Why the windows of its project deny a sync of an Application; `None` when
/// they allow it. `is_manual`: whether a sync of a rollout counts as manual.
pub(crate) fn denied(
    wanted: &Wanted,
    facts: &Facts<'_>,
    is_manual: bool,
    now: Timestamp,
) -> Option<Denied> {
    let target = &wanted.target;
    let windows = facts.projects.get(&*target.project).filter(|windows| !windows.is_empty())?;
    let full = target.cluster_in(facts.clusters);
    let attempt = SyncAttempt {
        application: &wanted.name,
        server: full.map_or(&*target.server, |known| &known.server),
        cluster: full.map_or(&*target.cluster, |known| &known.name),
        namespace: &target.namespace,
        manual: is_manual,
        started_at: None,
    };
    let evaluation = windows::evaluate(windows, &attempt, now);
    let until = evaluation.next_change;
    (!evaluation.allowed).then_some(Denied { reason: evaluation.reason, until })
}

/// Adds the withdrawal of the operations of these Applications, which have not
/// applied anything yet: the request is removed, and an operation that waits
/// for a window is terminated as by `argocd app terminate-op`. Only if the
/// Application is unchanged since it was observed, since the operation may
/// start at any time.
pub(crate) fn withdraw(plan: &mut WritePlan, names: &[String], existing: &[Existing]) {
    for name in names {
        let Ok(at) = existing.binary_search_by(|one| (*one.name).cmp(name)) else { continue };
        let existing = &existing[at];
        let metadata = json!({ "resourceVersion": existing.version });
        let more = match existing.is_running {
            true => json!({
                "metadata": metadata,
                "status": { "operationState": { "phase": "Terminating" } },
            }),
            false => json!({ "metadata": metadata, "operation": null }),
        };
        match plan.patches.iter_mut().find(|patch| patch.name == *name) {
            Some(patch) => {
                let mut body = patch.body();
                merge(&mut body, more);
                patch.json = body.to_string();
            }
            None => plan.patches.push(Patch {
                name: name.clone(),
                json: more.to_string(),
                starts: false,
                is_taken_up: false,
                changes_spec: false,
                step: None,
                only_records: false,
                refreshes: false,
            }),
        }
    }
}
