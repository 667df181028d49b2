//! What a reconcile has written of a plan that is too large for one.

use std::collections::BTreeMap;

use wavegate_application::memory::digest_of;
use wavegate_rollout::application_set::plan::outcome::WriteOutcome;
use wavegate_rollout::application_set::{Patch, WritePlan};

/// The patches that were written, by Application. The next reconcile begins at once, and must not do
/// so for ever where the API server does not keep what is written.
#[derive(Debug, Default)]
pub struct WrittenPart(BTreeMap<String, u64>);

impl WrittenPart {
    /// The part of a plan with an outcome.
    pub fn of(plan: &WritePlan, outcomes: &[WriteOutcome]) -> Self {
        let patch = |outcome: &WriteOutcome| {
            let patch = patch_but_start(plan, &outcome.application)?;
            Some((patch.name.clone(), digest_of(&patch.json)))
        };
        Self(outcomes.iter().filter_map(patch).collect())
    }

    /// Whether one of the patches is to be written once more.
    pub fn is_planned_again(&self, plan: &WritePlan) -> bool {
        let is_again = |(name, digest): (&String, &u64)| {
            patch_but_start(plan, name).is_some_and(|patch| digest_of(&patch.json) == *digest)
        };
        self.0.iter().any(is_again)
    }
}

/// The patch of an Application.
pub(super) fn patch_of<'a>(plan: &'a WritePlan, name: &str) -> Option<&'a Patch> {
    let at = plan.patches.binary_search_by(|patch| patch.name.as_str().cmp(name)).ok()?;
    Some(&plan.patches[at])
}

/// The same, unless it is a start: those name a version.
fn patch_but_start<'a>(plan: &'a WritePlan, name: &str) -> Option<&'a Patch> {
    patch_of(plan, name).filter(|patch| !patch.starts)
}

#[cfg(test)]
mod tests {
    use wavegate_rollout::application_set::plan::outcome::{Ended, WriteAct};

    use super::*;

    #[test]
    fn what_is_to_be_written_once_more_was_not_kept() {
        let patch = |name: &str, json: &str, starts: bool| Patch {
            name: name.to_owned(),
            json: json.to_owned(),
            starts,
            is_taken_up: false,
            changes_spec: true,
            only_records: false,
            refreshes: false,
            step: None,
        };
        let plan = |patches: Vec<Patch>| WritePlan { patches, ..WritePlan::default() };
        let first =
            plan(vec![patch("a", "1", false), patch("b", "1", true), patch("c", "1", false)]);
        let outcome = |name: &str| WriteOutcome {
            application: name.to_owned(),
            act: WriteAct::Update,
            ended: Ended::Written,
        };
        let part = WrittenPart::of(&first, &[outcome("a"), outcome("b"), outcome("new")]);
        assert!(part.is_planned_again(&first));
        assert!(!part.is_planned_again(&plan(vec![patch("c", "1", false)])), "it was left");
        assert!(!part.is_planned_again(&plan(vec![patch("a", "2", false)])), "a new commit");
        assert!(!part.is_planned_again(&plan(vec![patch("b", "1", true)])), "a start");
        assert!(!WrittenPart::default().is_planned_again(&first));
    }
}
