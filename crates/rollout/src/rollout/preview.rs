//! The preview of a rollout for `wavegate plan`: steps, batches and
//! configuration errors, from generated Applications only.

use std::collections::BTreeMap;

use super::all_problems;
use super::budget::Limit;
use super::steps::{self, Labels, Problem, StepStrategy};

/// A rollout of all Applications.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preview {
    /// The steps in order.
    pub steps: Vec<PreviewStep>,
    /// Applications that no step selects: they require a manual sync.
    pub unmatched: Vec<String>,
    /// Configuration errors, most serious first.
    pub problems: Vec<Problem>,
}

/// One step of a [`Preview`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreviewStep {
    /// `maxUpdate` as the user wrote it.
    pub max_update: super::budget::MaxUpdate,
    /// How many may be in flight, at most the number of Applications of the
    /// step.
    pub limit: u64,
    /// All Applications the step waits for, in name order.
    pub applications: Vec<String>,
    /// Whether some of them are in no earlier step, which begins with them.
    pub has_own: bool,
    /// The Applications of each batch, if each batch completes before the next
    /// starts; empty when the limit is 0.
    pub batches: Vec<Vec<String>>,
}

/// Computes the steps and batches of a strategy over generated Applications.
///
/// `read` are the problems found by [`StepStrategy::read`]. AllAtOnce has a single
/// batch without steps, and nothing is unmatched.
pub fn preview_steps(
    strategy: &StepStrategy,
    read: Vec<Problem>,
    generated: &BTreeMap<String, Labels>,
) -> Preview {
    let steps = strategy.steps();
    let labels = generated.iter().map(|(name, labels)| (name.as_str(), labels));
    let memberships = steps::step_memberships(steps, labels);
    let preview_step = |(index, step): (usize, &steps::Step)| {
        let members = |counts: bool| -> Vec<String> {
            let selected = memberships.iter().filter(|(_, membership)| {
                if counts {
                    membership.step() == Some(index)
                } else {
                    membership.steps.contains(&index)
                }
            });
            selected.map(|(name, _)| name.clone()).collect()
        };
        let starting = members(true);
        let limit = step.max_update.limit(starting.len() as u64);
        let size = match limit {
            Limit::AtMost(limit) => usize::try_from(limit).unwrap_or(usize::MAX),
            Limit::Unlimited => starting.len(),
        };
        PreviewStep {
            max_update: step.max_update.clone(),
            limit: limit.capped(starting.len() as u64),
            applications: members(false),
            has_own: !starting.is_empty(),
            batches: if size == 0 {
                Vec::new()
            } else {
                starting.chunks(size).map(<[String]>::to_vec).collect()
            },
        }
    };
    let unmatched = memberships.iter().filter(|(_, membership)| membership.steps.is_empty());
    Preview {
        steps: steps.iter().enumerate().map(preview_step).collect(),
        unmatched: match strategy {
            StepStrategy::AllAtOnce => Vec::new(),
            StepStrategy::RollingSync(_) => unmatched.map(|(name, _)| name.clone()).collect(),
        },
        problems: all_problems(&read, strategy, &memberships, &|| {
            generated.values().cloned().collect()
        }),
    }
}
