//! The policies of files: which sets they are for, and what is wrong with them.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::policies;
use super::report::{INVALID_POLICY, NAMES_PER_LINE, PlanProblem, PlanReport};
use crate::cli::files::input::FileObject;
use crate::cli::files::validation::{self, FieldProblem};
use wavegate_api::Raw;
use wavegate_engine::names::some_of;
use wavegate_rollout::rollout::steps::ProblemKind;

/// The policies, in their order.
pub(super) struct PolicyFiles(Vec<WrittenPolicy>);

struct WrittenPolicy {
    value: Arc<Value>,
    problems: Vec<FieldProblem>,
    is_used: bool,
}

impl PolicyFiles {
    /// Reads them as an API server does that stores them.
    pub async fn read(policies: Vec<Arc<Value>>) -> Self {
        let mut read = Vec::new();
        for value in policies {
            let problems = validation::of_policy(&value).await;
            read.push(WrittenPolicy { value, problems, is_used: false });
        }
        Self(read)
    }

    /// The policies of the namespace of a set, and what is wrong with those that select it.
    pub fn of(&mut self, set: &Value) -> (Vec<Arc<Value>>, Vec<PlanProblem>) {
        let (mut policies, mut problems) = (Vec::new(), Vec::new());
        for policy in &mut self.0 {
            // A file need not name the namespace.
            let (one, other) = (policy.value.namespace(), set.namespace());
            if !one.is_empty() && !other.is_empty() && one != other {
                continue;
            }
            policies.push(Arc::clone(&policy.value));
            if policies::selects(&policy.value, set) {
                policy.is_used = true;
                problems.extend(policy.problems());
            }
        }
        (policies, problems)
    }

    /// Adds what is wrong with the policies that select none of these sets to the first report.
    pub fn rest(&self, name: Option<&str>, sets: &[FileObject], reports: &mut [PlanReport]) {
        // With a name, the others may be for sets that are not planned now.
        if name.is_none()
            && let Some(first) = reports.first_mut()
        {
            first.problems.extend(self.unused(sets));
        }
    }

    /// What is wrong with the policies that select none of these sets; notes that they do not.
    fn unused(&self, sets: &[FileObject]) -> Vec<PlanProblem> {
        let mut problems = Vec::new();
        for policy in self.0.iter().filter(|policy| !policy.is_used) {
            let namespace = policy.value.namespace();
            let namespaces: BTreeSet<&str> = sets.iter().map(|set| set.value.namespace()).collect();
            match namespace.is_empty() || namespaces.contains("") || namespaces.contains(namespace)
            {
                true => policies::note_unused(&policy.value),
                false => {
                    let these = some_of(namespaces, NAMES_PER_LINE);
                    policies::note_elsewhere(&policy.value, &these);
                }
            }
            problems.extend(policy.problems());
        }
        problems
    }
}

/// The policies of a namespace once those of files are applied.
pub(super) fn applied(stored: &[Arc<Value>], of_files: Vec<Arc<Value>>) -> Vec<Arc<Value>> {
    let is_replaced = |one: &&Arc<Value>| of_files.iter().any(|new| new.name() == one.name());
    let mut policies: Vec<Arc<Value>> =
        stored.iter().filter(|one| !is_replaced(one)).cloned().collect();
    policies.extend(of_files);
    policies.sort_by(|a, b| a.name().cmp(b.name()));
    policies
}

impl WrittenPolicy {
    fn problems(&self) -> impl Iterator<Item = PlanProblem> {
        let problem = |problem: &FieldProblem| {
            let (code, field) = match problem {
                FieldProblem::Unknown(_) => (ProblemKind::UnknownField.code(), ""),
                FieldProblem::Invalid { field, .. } => (INVALID_POLICY, field.as_str()),
            };
            let message = format!("RolloutPolicy {}: {problem}", self.value.name());
            let place = Some((self.value.name().to_owned(), field.to_owned()));
            PlanProblem { place, ..PlanProblem::of(code, message) }
        };
        self.problems.iter().map(problem)
    }
}
