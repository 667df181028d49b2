//! What the failure budgets of several policies amount to (ST-001, ST-042, ST-043): one budget, whose
//! limits are the strictest of all, and which does the most careful of all when more fail, whichever
//! policy says it. All who decide by it or print it take it from here.

use wavegate_api::policy::OnFailure;

/// What a policy says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stated<T> {
    /// What it says.
    pub value: T,
    /// The name of the policy.
    pub policy: String,
}

/// How many Applications may fail, and what is done when more do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailureBudget {
    /// How many of the run may fail.
    pub count: Option<Stated<u64>>,
    /// How many of a step may fail, in per cent of it, rounded down.
    pub percent: Option<Stated<u64>>,
    /// As soon as so many fail with the same signature, it is as if more had failed than may.
    pub same: Option<Stated<u64>>,
    /// What is done when more fail.
    pub on_failure: Stated<OnFailure>,
    /// A policy that says something of failures, but not how many may fail, nor that failures are
    /// only reported: each of them holds its step, as without a budget.
    pub holds_step: Option<String>,
}

impl FailureBudget {
    /// Of one policy.
    pub fn of(
        policy: &str,
        count: Option<u64>,
        percent: Option<u64>,
        same: Option<u64>,
        on_failure: OnFailure,
    ) -> Self {
        let stated = |value: u64| Stated { value, policy: policy.to_owned() };
        let is_limited = count.is_some() || percent.is_some();
        let holds_step = !is_limited && on_failure != OnFailure::Continue;
        Self {
            count: count.map(stated),
            percent: percent.map(stated),
            same: same.map(stated),
            on_failure: Stated { value: on_failure, policy: policy.to_owned() },
            holds_step: holds_step.then(|| policy.to_owned()),
        }
    }

    /// Together with that of another policy. Of two that say the same, this one is named.
    #[must_use]
    pub fn together(self, other: Self) -> Self {
        let strictest = |one: Option<Stated<u64>>, other: Option<Stated<u64>>| {
            // The first of equal ones.
            one.into_iter().chain(other).min_by_key(|limit| limit.value)
        };
        Self {
            count: strictest(self.count, other.count),
            percent: strictest(self.percent, other.percent),
            same: strictest(self.same, other.same),
            on_failure: match care(other.on_failure.value) > care(self.on_failure.value) {
                true => other.on_failure,
                false => self.on_failure,
            },
            holds_step: self.holds_step.or(other.holds_step),
        }
    }

    /// Whether more failures than may be are only reported.
    pub fn only_reports(&self) -> bool {
        self.on_failure.value == OnFailure::Continue
    }

    /// Who says that it is too much, and what is done: as the end of the reason.
    pub fn source_text(&self, limit: &Stated<u64>) -> String {
        let (policy, Stated { value: action, policy: other }) = (&limit.policy, &self.on_failure);
        match self.only_reports() {
            true => format!("(failure budget of policy {policy})"),
            false if policy == other => format!("(policy {policy})"),
            false => format!("(policy {policy}; {action} by policy {other})"),
        }
    }
}

/// How careful an action is: the most careful one is taken (ST-001).
const fn care(on_failure: OnFailure) -> u8 {
    match on_failure {
        OnFailure::Continue => 0,
        OnFailure::Hold => 1,
        OnFailure::Abort => 2,
        OnFailure::Rollback => 3,
    }
}

/// As `2 may fail, then Hold (policy careful)`; with the policy of each part if they are of several.
impl std::fmt::Display for FailureBudget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { count, percent, same, on_failure, holds_step } = self;
        let of_limits = [count, percent, same].into_iter().flatten();
        let has_limit = of_limits.clone().next().is_some();
        let mut policies: Vec<&String> = of_limits.map(|limit| &limit.policy).collect();
        policies.extend(has_limit.then_some(&on_failure.policy));
        policies.extend(holds_step);
        let is_one = policies.iter().all(|policy| *policy == policies[0]);
        let by = |policy: &str| match is_one {
            true => String::new(),
            false => format!(" (policy {policy})"),
        };
        let may: Vec<String> = [
            count.as_ref().map(|one| format!("{}{}", one.value, by(&one.policy))),
            percent.as_ref().map(|one| format!("{}% of a step{}", one.value, by(&one.policy))),
        ]
        .into_iter()
        .flatten()
        .collect();
        let mut parts = Vec::new();
        match may.as_slice() {
            [] if same.is_none() && holds_step.is_some() => {}
            [] => parts.push("any number may fail".to_owned()),
            [one] => parts.push(format!("{one} may fail")),
            all => parts.push(format!("{} may fail", all.join(" and "))),
        }
        if let Some(Stated { value, policy }) = same {
            parts.push(format!("but not {value} in the same way{}", by(policy)));
        }
        if has_limit {
            parts.push(format!("then {}{}", on_failure.value, by(&on_failure.policy)));
        }
        if let Some(policy) = holds_step {
            parts.push(format!("each that fails holds its step{}", by(policy)));
        }
        f.write_str(&parts.join(", "))?;
        match is_one {
            true => {
                write!(f, " (policy {})", policies.first().map_or(&on_failure.policy, |one| one))
            }
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use OnFailure::{Abort, Continue, Hold, Rollback};

    use super::*;

    type Given = (Option<u64>, Option<u64>, Option<u64>, OnFailure);

    fn together(all: &[Given]) -> FailureBudget {
        let budgets =
            all.iter().zip(["a", "b", "c"]).map(|((count, percent, same, on), policy)| {
                FailureBudget::of(policy, *count, *percent, *same, *on)
            });
        budgets.reduce(FailureBudget::together).unwrap()
    }

    /// Each limit is the strictest of all, and the action the most careful of all, of whichever
    /// policies they are: `Hold` with 5 and `Rollback` with 10 held at 6, and were taken back at 11.
    #[test]
    fn of_several_budgets_the_strictest_limit_and_the_most_careful_action_hold_as_st_001_042() {
        let (none, of) = (None, Some);
        let cases: [(&[Given], &str); 16] = [
            (&[(of(2), none, none, Hold)], "2 may fail, then Hold (policy a)"),
            (&[(none, of(10), none, Abort)], "10% of a step may fail, then Abort (policy a)"),
            (&[(none, none, none, Continue)], "any number may fail (policy a)"),
            (&[(none, none, none, Rollback)], "each that fails holds its step (policy a)"),
            (
                &[(of(2), none, of(3), Hold)],
                "2 may fail, but not 3 in the same way, then Hold (policy a)",
            ),
            (
                &[(none, none, of(3), Rollback)],
                "any number may fail, but not 3 in the same way, then Rollback, each that fails \
                 holds its step (policy a)",
            ),
            (
                &[(of(5), none, none, Continue), (of(1), none, none, Hold)],
                "1 may fail, then Hold (policy b)",
            ),
            (
                &[(of(1), none, none, Continue), (of(5), none, none, Hold)],
                "1 (policy a) may fail, then Hold (policy b)",
            ),
            (
                &[(of(5), none, none, Hold), (of(10), none, none, Rollback)],
                "5 (policy a) may fail, then Rollback (policy b)",
            ),
            (
                &[(none, none, none, Rollback), (of(3), none, none, Continue)],
                "3 (policy b) may fail, then Rollback (policy a), each that fails holds its step \
                 (policy a)",
            ),
            (
                &[(of(3), none, none, Hold), (none, of(10), none, Hold)],
                "3 (policy a) and 10% of a step (policy b) may fail, then Hold (policy a)",
            ),
            (
                &[
                    (none, of(20), none, Abort),
                    (none, of(10), none, Hold),
                    (of(0), none, none, Hold),
                ],
                "0 (policy c) and 10% of a step (policy b) may fail, then Abort (policy a)",
            ),
            (
                &[
                    (of(2), none, none, Hold),
                    (of(2), none, of(4), Abort),
                    (of(9), none, of(3), Hold),
                ],
                "2 (policy a) may fail, but not 3 in the same way (policy c), then Abort (policy b)",
            ),
            (
                &[(none, none, none, Continue), (none, none, of(2), Hold)],
                "any number may fail, but not 2 in the same way, then Hold, each that fails holds \
                 its step (policy b)",
            ),
            (
                &[(none, none, none, Continue), (of(0), none, none, Continue)],
                "0 (policy b) may fail, then Continue (policy a)",
            ),
            (
                &[(of(1), none, none, Rollback), (of(1), none, none, Rollback)],
                "1 may fail, then Rollback (policy a)",
            ),
        ];
        for (given, want) in cases {
            assert_eq!(together(given).to_string(), want, "{given:?}");
            // In any order, but for who is named of those that say the same.
            let reversed: Vec<Given> = given.iter().rev().copied().collect();
            let [one, other] = [together(given), together(&reversed)].map(|budget| {
                let limits =
                    [budget.count, budget.percent, budget.same].map(|one| one.map(|one| one.value));
                (limits, budget.on_failure.value, budget.holds_step.is_some())
            });
            assert_eq!(one, other, "{given:?}");
        }
    }
}
