//! What a manual sync means for the rollout that an Application is part of.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::cli::cluster::ClusterConnection;
use crate::cli::console::error::note;
use crate::cli::files::generate::strategy_of;
use wavegate_api::Raw;
use wavegate_rollout::application_set::set_of;
use wavegate_rollout::application_set::status::report_input;
use wavegate_rollout::rollout::budget::Limit;
use wavegate_rollout::rollout::phase::Phase;
use wavegate_rollout::rollout::report::{Report, ReportState};

/// The rollouts of the Applications that one command syncs, each read once.
#[derive(Debug, Default)]
pub(super) struct Rollouts {
    /// By namespace and name; `None` for a set without steps, and for one that cannot be
    /// read, which does not prevent a sync.
    sets: BTreeMap<(String, String), Option<Report>>,
}

impl Rollouts {
    /// Notes the state of an Application in the rollout of its set, if it has one.
    ///
    /// `partial`: only some of its resources are synced.
    pub async fn note_step(
        &mut self,
        cluster: &ClusterConnection,
        application: &Value,
        partial: bool,
    ) {
        let Some(set) = set_of(application) else { return };
        let key = (application.namespace().to_owned(), set.to_owned());
        if !self.sets.contains_key(&key) {
            let read = read(cluster, &key.0, &key.1).await;
            self.sets.insert(key.clone(), read);
        }
        let Some(Some(report)) = self.sets.get(&key) else { return };
        if let Some(text) = text(report, application.name(), partial) {
            note(&text);
        }
    }
}

async fn read(cluster: &ClusterConnection, namespace: &str, name: &str) -> Option<Report> {
    let set = cluster.get("ApplicationSet", namespace, name).await.ok()??;
    if strategy_of(&set).0.steps().is_empty() {
        return None;
    }
    let applications = cluster.applications_by_name(namespace).await.ok()?;
    Some(report_input::read_report(&set, &applications, None))
}

/// What a sync of a member means.
fn text(report: &Report, name: &str, partial: bool) -> Option<String> {
    let member = report.members.get(name)?;
    let place = format!("ApplicationSet {}/{}", report.set.namespace, report.set.name);
    if report.state() != ReportState::Rolling || member.phase() != Some(Phase::Waiting) {
        return None;
    }
    let (open, steps) = (report.open_step? + 1, report.steps.len());
    let Some(step) = member.step.map(|step| step + 1) else {
        return Some(format!("{place}: no step selects {name}, so the rollout never syncs it"));
    };
    if step > open {
        return Some(format!(
            "{place}: {name} is in step {step}, and step {open} of {steps} is not complete: this \
             sync deploys ahead of its step, and takes a slot of the step's maxUpdate while it runs"
        ));
    }
    let of_step = report.step_of(member)?;
    let (limit, flying) = (of_step.limit(), of_step.count.promoted);
    Some(match limit {
        Limit::AtMost(0) if partial => format!(
            "{place}: step {step} of {steps} is held (maxUpdate is 0): it waits for a sync of all \
             of {name}, and this one of some resources does not complete it"
        ),
        Limit::AtMost(0) => format!(
            "{place}: step {step} of {steps} is held (maxUpdate is 0): it waits for this sync of \
             {name}, and the rollout continues when all of the step are Healthy"
        ),
        limit if !limit.permits_more(flying) => format!(
            "{place}: {flying} of step {step} are in flight, as many as its maxUpdate allows: with \
             this sync of {name} it is one more, and the rollout starts none until fewer are"
        ),
        _ => format!(
            "{place}: {name} waits for its turn in step {step} of {steps}: this sync takes a slot \
             of the step's maxUpdate while it runs"
        ),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    #[test]
    fn the_note_says_what_the_sync_means_for_the_step() {
        let entry = |name: &str, phase: &str, step: &str| json!({"application": name, "status": phase, "step": step, "message": "m", "targetRevisions": [], "lastTransitionTime": "2026-01-02T03:04:05Z"});
        let note_of = |max: Value, entries: Value, open: u64, partial: bool| {
            let set = json!({
                "metadata": {"name": "set", "namespace": "argocd", "uid": "u"},
                "spec": {"strategy": {"type": "RollingSync", "rollingSync": {"steps": [
                    {"matchExpressions": [{"key": "e", "operator": "In", "values": ["a"]}], "maxUpdate": max},
                    {"matchExpressions": [{"key": "e", "operator": "In", "values": ["b"]}]},
                ]}}},
                "status": {"applicationStatus": entries, "rollout": {"step": open, "steps": 2, "progress": "0/3"}},
            });
            let applications: BTreeMap<String, Arc<Value>> = BTreeMap::new();
            text(&report_input::read_report(&set, &applications, None), "x", partial)
        };
        let note = |max, entries, open| note_of(max, entries, open, false);
        let waiting =
            |step: &str| json!([entry("x", "Waiting", step), entry("y", "Progressing", "1")]);
        let cases = [
            (note(json!(0), waiting("1"), 1), Some("is held (maxUpdate is 0)")),
            (note_of(json!(0), waiting("1"), 1, true), Some("does not complete it")),
            (note(json!(1), waiting("1"), 1), Some("it is one more")),
            (note(json!(2), waiting("1"), 1), Some("waits for its turn in step 1 of 2")),
            (note(json!(2), waiting("2"), 1), Some("deploys ahead of its step")),
            (note(json!(2), waiting("-1"), 1), Some("no step selects x")),
            (note(json!(2), json!([entry("x", "Progressing", "1")]), 1), None),
            (note(json!(2), json!([]), 1), None),
        ];
        for (found, want) in cases {
            match want {
                None => assert_eq!(found, None),
                Some(want) => {
                    let found = found.unwrap_or_default();
                    assert!(found.contains(want), "no {want:?} in {found:?}");
                }
            }
        }
    }
}
