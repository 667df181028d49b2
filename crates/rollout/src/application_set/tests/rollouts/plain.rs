//! Without a policy, a run and a word of a person, every decision is the one without them
//! (section 6 of `steering.md`), and what is recorded of runs changes none.

use serde_json::Value;

use super::world::World;
use crate::application_set::decision::{Decision, Snapshot};
use crate::application_set::reconcile;
use crate::rollout::policy::Rules;
use crate::rollout::run_input::RunInput;
use wavegate_api::annotations::RUN;

impl World {
    /// Compares the decision with that of the other way: without policies and runs if this one has them,
    /// and with empty ones if it has none.
    pub fn compare_without_runs(&self, decision: &Decision) {
        match &self.model {
            Some(_) if !self.is_plain => {}
            Some(_) => {
                let plain = Snapshot { run_input: None, ..self.snapshot() };
                same_but_for_runs(decision, &reconcile::reconcile(&plain));
            }
            None => {
                let rules = Rules::default();
                let empty = RunInput {
                    namespace: "argocd",
                    set: "set",
                    rules: &rules,
                    paused: None,
                    paused_by: None,
                    resumed_by: None,
                    run: None,
                    // Without the definitions nothing is recorded.
                    records_runs: self.cluster.version.is_multiple_of(2),
                    hides_runs: false,
                    hides_policies: self.cluster.version.is_multiple_of(2),
                    taken: 0,
                    pools: &[],
                    history: &[],
                    late: &[],
                    written_at: None,
                };
                let with_runs = Snapshot { run_input: Some(empty), ..self.snapshot() };
                same_but_for_runs(&reconcile::reconcile(&with_runs), decision);
            }
        }
    }
}

/// ST-002: what is recorded changes no decision.
fn same_but_for_runs(recorded: &Decision, plain: &Decision) {
    let writes = |decision: &Decision| {
        let mut writes = decision.writes.clone();
        for patch in writes.patches.iter_mut().filter(|patch| patch.json.contains(RUN)) {
            let mut body = patch.body();
            let annotations = body.pointer_mut("/metadata/annotations");
            if let Some(annotations) = annotations.and_then(Value::as_object_mut)
                && annotations.remove(RUN).is_some()
                && annotations.is_empty()
            {
                body["metadata"].as_object_mut().unwrap().remove("annotations");
            }
            patch.json = body.to_string();
        }
        writes
    };
    assert_eq!(recorded.status, plain.status, "section 6: the status");
    assert_eq!(recorded.finalizers, plain.finalizers, "section 6: the finalizers");
    assert_eq!(recorded.annotations, plain.annotations, "section 6: the annotations");
    assert_eq!(recorded.listed.entries, plain.listed.entries, "section 6: the entries");
    assert_eq!(writes(recorded), writes(plain), "section 6: the writes");
    assert_eq!(recorded.events, plain.events, "section 6: the Events");
    assert_eq!(recorded.stalled, plain.stalled, "section 6: the stalled ones");
    assert_eq!(recorded.emptied, plain.emptied, "section 6: the held deletions");
    let (Some(recorded), Some(plain)) = (&recorded.rollout, &plain.rollout) else {
        return assert_eq!(recorded.rollout.is_some(), plain.rollout.is_some());
    };
    let mut without = recorded.clone();
    without.starts.iter_mut().for_each(|start| start.started = None);
    // A live run polls, also while nothing is under way.
    (without.run, without.wake_at) = (None, plain.wake_at);
    assert_eq!(without, *plain, "section 6: the plan");
}
