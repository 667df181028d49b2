//! The steps of a RollingSync: which Applications each selects, and
//! configuration errors.
//!
//! Reads `spec.strategy` from raw JSON. All mistakes are returned as
//! [`Problem`]s. What is not understood, such as an unknown field, type or
//! operator, would remove a gate, so it holds the whole set
//! ([`strategy_problems`]).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value;

use super::budget::MaxUpdate;
use wavegate_api::Raw;
use wavegate_api::unknown::{self, Unknown};
use wavegate_engine::names::some_of;

/// The most values of a label in a message.
const VALUES: usize = 10;

/// The labels of a generated Application.
pub type Labels = BTreeMap<String, String>;

/// The parsed `spec.strategy`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepStrategy {
    /// Absent, empty or `AllAtOnce` (AS-302), or an unknown type, which is also
    /// reported as a problem and holds the set (AS-007).
    AllAtOnce,
    /// `RollingSync` with its steps, in order. Without steps the set is in an
    /// error state (AS-304), see [`StepStrategy::is_empty_rolling_sync`].
    RollingSync(Vec<Step>),
}

/// One element of `spec.strategy.rollingSync.steps`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// All must match for an Application to be selected; without expressions
    /// every Application is selected (AS-310).
    pub match_expressions: Vec<LabelExpression>,
    /// The step's `maxUpdate`.
    pub max_update: MaxUpdate,
}

/// What it selects, such as `env = prod`.
impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.match_expressions.is_empty() {
            return f.write_str("all Applications");
        }
        for (index, expression) in self.match_expressions.iter().enumerate() {
            let and = if index > 0 { " and " } else { "" };
            let values: Vec<&str> = expression.values.iter().map(String::as_str).collect();
            let (key, values) = (&expression.key, values.join(", "));
            match &expression.operator {
                Operator::In if expression.values.len() == 1 => write!(f, "{and}{key} = {values}"),
                Operator::In => write!(f, "{and}{key} in {values}"),
                Operator::NotIn => write!(f, "{and}{key} not in {values}"),
                Operator::Unsupported(word) => write!(f, "{and}{key} {word}?"),
            }?;
        }
        Ok(())
    }
}

/// One label expression of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelExpression {
    /// The label's key.
    pub key: String,
    /// The operator.
    pub operator: Operator,
    /// The values to compare with, case-sensitive.
    pub values: BTreeSet<String>,
}

/// How a label is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operator {
    /// The label exists and has one of the values.
    In,
    /// The label is absent or has none of the values.
    NotIn,
    /// Any other text: selects nothing, and holds the set (AS-313, AS-315).
    Unsupported(String),
}

/// The kinds of configuration errors of a rollout, most serious first (AS-315).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProblemKind {
    /// An unknown field below `spec.strategy`.
    UnknownField,
    /// An unknown value of `strategy.type` or `deletionOrder` (AS-007).
    UnknownStrategy,
    /// An expression's operator is neither `In` nor `NotIn`.
    UnsupportedOperator,
    /// One Application is selected by several steps.
    SelectedTwice,
    /// `maxUpdate` is neither a number nor a percentage.
    InvalidMaxUpdate,
    /// A step selects no Application.
    EmptyStep,
}

impl ProblemKind {
    /// A stable code for machines, as `wavegate plan -o json` prints it.
    pub fn code(self) -> &'static str {
        match self {
            Self::UnknownField => "UnknownField",
            Self::UnknownStrategy => "UnknownStrategy",
            Self::UnsupportedOperator => "UnsupportedOperator",
            Self::SelectedTwice => "SelectedTwice",
            Self::InvalidMaxUpdate => "InvalidMaxUpdate",
            Self::EmptyStep => "EmptyStep",
        }
    }
}

/// One configuration error of a rollout. The order is that of [`ProblemKind`], then of the
/// steps; Applications of several steps are in the order of their names (AS-315).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// What kind of mistake.
    pub kind: ProblemKind,
    /// The step, counted from 0; `None` if it is about several steps or none.
    pub step: Option<usize>,
    /// The message, with field and value; steps count from 1 here.
    pub message: String,
}

impl Problem {
    fn rank(&self) -> (ProblemKind, Option<usize>, &str, Option<usize>) {
        let first = self.step.filter(|_| self.kind != ProblemKind::SelectedTwice);
        (self.kind, first, &self.message, self.step)
    }
}

impl Ord for Problem {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl PartialOrd for Problem {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// The steps of an Application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// Every step that selects it, ascending. It is counted in the first one;
    /// the others wait for it, too (AS-314). Empty if no step selects it
    /// (AS-316).
    pub steps: Vec<usize>,
}

impl Membership {
    /// The step that counts for `maxUpdate` and the status, if any.
    pub fn step(&self) -> Option<usize> {
        self.steps.first().copied()
    }
}

impl StepStrategy {
    /// That of an ApplicationSet, and its configuration errors.
    pub fn of(set: &Value) -> (Self, Vec<Problem>) {
        Self::read(set.spec().get("strategy"))
    }

    /// Parses `spec.strategy` of an ApplicationSet, absent means AllAtOnce, and
    /// returns its configuration errors.
    pub fn read(strategy: Option<&Value>) -> (Self, Vec<Problem>) {
        let Some(strategy) = strategy else { return (Self::AllAtOnce, Vec::new()) };
        let mut problems = Vec::new();
        let order = strategy.field("deletionOrder");
        if !matches!(order, "" | "AllAtOnce") && !order.eq_ignore_ascii_case("reverse") {
            problems.push(Problem {
                kind: ProblemKind::UnknownStrategy,
                step: None,
                message: format!(
                    "spec.strategy.deletionOrder: \"{order}\" is invalid; use AllAtOnce or Reverse"
                ),
            });
        }
        let kind = strategy.field("type");
        let rolling = strategy.get("rollingSync").filter(|value| !value.is_null());
        let strategy = match (kind, rolling) {
            ("RollingSync", Some(rolling)) => {
                let steps = rolling.get("steps").and_then(Value::as_array);
                Self::RollingSync(steps.into_iter().flatten().map(Step::read).collect())
            }
            ("RollingSync", None) | ("" | "AllAtOnce", _) => Self::AllAtOnce,
            (other, _) => {
                problems.push(Problem {
                    kind: ProblemKind::UnknownStrategy,
                    step: None,
                    message: format!(
                        "spec.strategy.type: \"{other}\" is invalid; use AllAtOnce or RollingSync"
                    ),
                });
                Self::AllAtOnce
            }
        };
        problems.extend(strategy.step_problems());
        (strategy, problems)
    }

    /// The steps of a RollingSync; none for AllAtOnce.
    pub fn steps(&self) -> &[Step] {
        match self {
            Self::AllAtOnce => &[],
            Self::RollingSync(steps) => steps,
        }
    }

    /// RollingSync without steps: nothing of the set is written until this is
    /// fixed (AS-304).
    pub fn is_empty_rolling_sync(&self) -> bool {
        matches!(self, Self::RollingSync(steps) if steps.is_empty())
    }

    /// The errors of the steps themselves, independent of the Applications.
    pub fn step_problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (index, step) in self.steps().iter().enumerate() {
            let place = format!("spec.strategy.rollingSync.steps[{index}]");
            for (at, expression) in step.match_expressions.iter().enumerate() {
                let Operator::Unsupported(operator) = &expression.operator else { continue };
                problems.push(Problem {
                    kind: ProblemKind::UnsupportedOperator,
                    step: Some(index),
                    message: format!(
                        "{place}.matchExpressions[{at}].operator: \"{operator}\" is invalid; use In or NotIn"
                    ),
                });
            }
            if let Some(problem) = step.max_update.problem() {
                problems.push(Problem {
                    kind: ProblemKind::InvalidMaxUpdate,
                    step: Some(index),
                    message: format!("{place}.maxUpdate: {problem}"),
                });
            }
        }
        problems
    }
}

impl Step {
    fn read(step: &Value) -> Self {
        let expressions = step.get("matchExpressions").and_then(Value::as_array);
        Self {
            match_expressions: expressions
                .into_iter()
                .flatten()
                .map(LabelExpression::read)
                .collect(),
            max_update: MaxUpdate::read(step.get("maxUpdate")),
        }
    }

    /// Whether all of its operators are known.
    fn is_understood(&self) -> bool {
        let is_known = |one: &LabelExpression| !matches!(one.operator, Operator::Unsupported(_));
        self.match_expressions.iter().all(is_known)
    }

    /// Whether the step selects an Application with these labels.
    pub fn selects(&self, labels: &Labels) -> bool {
        self.match_expressions.iter().all(|expression| expression.holds(labels))
    }
}

impl LabelExpression {
    fn read(expression: &Value) -> Self {
        let values = expression.get("values").and_then(Value::as_array);
        Self {
            key: expression.field("key").to_owned(),
            operator: match expression.field("operator") {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                other => Operator::Unsupported(other.to_owned()),
            },
            values: values
                .into_iter()
                .flatten()
                .filter_map(|value| value.as_str().map(str::to_owned))
                .collect(),
        }
    }

    /// The truth table of AS-311.
    fn holds(&self, labels: &Labels) -> bool {
        let listed = labels.get(&self.key).map(|value| self.values.contains(value));
        match (&self.operator, listed) {
            (Operator::In, Some(listed)) => listed,
            (Operator::In, None) => false,
            (Operator::NotIn, Some(listed)) => !listed,
            (Operator::NotIn, None) => true,
            (Operator::Unsupported(_), _) => false,
        }
    }
}

/// Errors that make the strategy ambiguous: unknown fields below
/// `spec.strategy`, unknown values of its type and order (AS-007), and unknown
/// operators of its steps (AS-315). Our CustomResourceDefinitions reject
/// unknown fields, those of another installation may not. Until they are fixed
/// nothing is written: without the gate everything would be rolled out at once.
pub fn strategy_problems(set: &Value) -> Vec<Problem> {
    let unknown = unknown::in_strategy(set).into_iter().map(Problem::from);
    let (_, read) = StepStrategy::of(set);
    let words = [ProblemKind::UnknownStrategy, ProblemKind::UnsupportedOperator];
    unknown.chain(read.into_iter().filter(|problem| words.contains(&problem.kind))).collect()
}

impl From<Unknown> for Problem {
    fn from(unknown: Unknown) -> Self {
        let rest = unknown.path.strip_prefix("spec.strategy.rollingSync.steps[");
        let step = rest.and_then(|rest| rest.split_once(']')?.0.parse().ok());
        Self { kind: ProblemKind::UnknownField, step, message: unknown.to_string() }
    }
}

/// Assigns each generated Application to its steps, by its generated labels.
pub fn step_memberships<'a>(
    steps: &[Step],
    generated: impl IntoIterator<Item = (&'a str, &'a Labels)>,
) -> BTreeMap<String, Membership> {
    let member = |labels: &Labels| Membership {
        steps: (0..steps.len()).filter(|index| steps[*index].selects(labels)).collect(),
    };
    generated.into_iter().map(|(name, labels)| (name.to_owned(), member(labels))).collect()
}

/// The errors that depend on the Applications: an Application in several steps
/// (AS-314), steps without Applications (AS-317). `labels` gives those of the
/// Applications, and is asked only when a step selects none.
pub fn problems_of_memberships(
    steps: &[Step],
    memberships: &BTreeMap<String, Membership>,
    labels: &dyn Fn() -> Vec<Labels>,
) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (name, membership) in memberships {
        if membership.steps.len() < 2 {
            continue;
        }
        let numbers: Vec<String> =
            membership.steps.iter().map(|step| (step + 1).to_string()).collect();
        problems.push(Problem {
            kind: ProblemKind::SelectedTwice,
            step: membership.step(),
            message: format!(
                "application {name} is selected by several steps ({}); it counts in step {}, and each of them waits for it",
                numbers.join("-"),
                numbers[0]
            ),
        });
    }
    let mut selects = vec![false; steps.len()];
    for step in memberships.values().flat_map(|membership| &membership.steps) {
        selects[*step] = true;
    }
    // One that is not understood holds the set, and does not count as done.
    let is_empty = |(index, step): &(usize, &Step)| !selects[*index] && step.is_understood();
    let empty: Vec<(usize, &Step)> = steps.iter().enumerate().filter(is_empty).collect();
    let labels = if empty.is_empty() { Vec::new() } else { labels() };
    for (index, step) in empty {
        problems.push(Problem {
            kind: ProblemKind::EmptyStep,
            step: Some(index),
            message: format!(
                "spec.strategy.rollingSync.steps[{index}]: step {} selects no application and counts as done{}",
                index + 1,
                existing_values(step, &labels)
            ),
        });
    }
    problems
}

/// The values that exist of the labels that a step asks for; empty without any Application.
fn existing_values(step: &Step, labels: &[Labels]) -> String {
    if labels.is_empty() {
        return String::new();
    }
    let keys: BTreeSet<&str> =
        step.match_expressions.iter().map(|expression| expression.key.as_str()).collect();
    let of_key = |key: &str| {
        let values: BTreeSet<&str> =
            labels.iter().filter_map(|labels| Some(labels.get(key)?.as_str())).collect();
        match values.len() {
            0 => format!("; no application has the label {key}"),
            1 => format!("; the label {key} has the value {}", some_of(values, VALUES)),
            _ => format!("; the label {key} has the values {}", some_of(values, VALUES)),
        }
    };
    keys.into_iter().map(of_key).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn steps(steps: Value) -> Vec<Step> {
        let strategy = json!({"type": "RollingSync", "rollingSync": {"steps": steps}});
        StepStrategy::read(Some(&strategy)).0.steps().to_vec()
    }

    fn labels(labels: Value) -> Labels {
        serde_json::from_value(labels).unwrap()
    }

    fn by(key: &str, operator: &str, values: &[&str]) -> Value {
        json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]})
    }

    /// AS-315: by kind, by step, and Applications of several steps by name.
    #[test]
    fn problems_are_in_an_order_as_315() {
        use ProblemKind::{EmptyStep, InvalidMaxUpdate, SelectedTwice, UnknownField};
        let problem = |kind, step, message: &str| Problem { kind, step, message: message.into() };
        let sorted = [
            problem(UnknownField, None, "x"),
            problem(UnknownField, Some(0), "z"),
            problem(UnknownField, Some(1), "a"),
            problem(SelectedTwice, Some(2), "app-1"),
            problem(SelectedTwice, Some(1), "app-2"),
            problem(SelectedTwice, Some(2), "app-2"),
            problem(InvalidMaxUpdate, Some(0), "m"),
            problem(EmptyStep, Some(0), "e"),
        ];
        let mut found: Vec<Problem> = sorted.iter().rev().cloned().collect();
        found.sort();
        assert_eq!(found, sorted);
        let codes: Vec<&str> = sorted.iter().map(|problem| problem.kind.code()).collect();
        assert_eq!(codes[0], "UnknownField");
        assert_eq!(&codes[5..], ["SelectedTwice", "InvalidMaxUpdate", "EmptyStep"]);
    }

    #[test]
    fn applications_are_selected_as_in_table_a_6() {
        let both = |first: Value, second: Value| {
            let mut expressions = first["matchExpressions"].as_array().unwrap().clone();
            expressions.extend(second["matchExpressions"].as_array().unwrap().clone());
            json!({"matchExpressions": expressions})
        };
        let dev = by("env", "In", &["dev"]);
        let qa = by("env", "In", &["qa"]);
        let prod = by("env", "In", &["prod"]);
        let not_west =
            both(by("env", "In", &["qa", "prod"]), by("region", "NotIn", &["us-west-2"]));
        let not_prod_not_us = both(by("env", "NotIn", &["prod"]), by("region", "NotIn", &["us"]));
        let cases = [
            (108, json!([dev]), json!({"env": "dev"}), vec![0]),
            (109, json!([dev, qa, prod]), json!({"env": "qa"}), vec![1]),
            (
                110,
                json!([both(dev.clone(), by("region", "In", &["us"]))]),
                json!({"env": "dev"}),
                vec![],
            ),
            (111, json!([by("env", "In", &["dev", "qa"])]), json!({"env": "qa"}), vec![0]),
            (112, json!([by("env", "NotIn", &["prod"])]), json!({"env": "dev"}), vec![0]),
            (113, json!([by("env", "NotIn", &["prod"])]), json!({}), vec![0]),
            (114, json!([by("env", "NotIn", &["prod", "qa"])]), json!({"env": "qa"}), vec![]),
            (115, json!([not_prod_not_us]), json!({"env": "dev", "region": "us"}), vec![]),
            (116, json!([not_west]), json!({"env": "qa", "region": "us-west-2"}), vec![]),
            (117, json!([not_west]), json!({"env": "qa", "region": "us-east-2"}), vec![0]),
            (118, json!([not_west]), json!({"env": "qa"}), vec![0]),
            (
                119,
                json!([dev, by("region", "In", &["w"])]),
                json!({"env": "dev", "region": "w"}),
                vec![0, 1],
            ),
            (120, json!([by("env", "Invalid", &["dev"]), dev]), json!({"env": "dev"}), vec![1]),
            (121, json!([by("env", "Exists", &[])]), json!({}), vec![]),
            (122, json!([by("env", "Exists", &[])]), json!({"env": "dev"}), vec![]),
            (123, json!([{}]), json!({"env": "dev"}), vec![0]),
            (124, json!([by("env", "In", &[])]), json!({"env": "dev"}), vec![]),
            (125, json!([by("env", "in", &["dev"])]), json!({"env": "dev"}), vec![]),
        ];
        for (row, given, app, want) in cases {
            let labels = labels(app);
            let found = step_memberships(&steps(given), [("app", &labels)]);
            assert_eq!(found["app"].steps, want, "row {row}");
        }
    }

    #[test]
    fn the_strategy_is_exact_and_case_sensitive_as_007() {
        let rolling = json!({"steps": [{}]});
        let cases = [
            (126, Some(json!({"type": "rollingsync", "rollingSync": rolling})), false, 1),
            (127, Some(json!({"type": "RollingSync", "rollingSync": {"steps": []}})), true, 0),
            (128, None, false, 0),
            (128, Some(json!({"type": "", "rollingSync": rolling})), false, 0),
            (128, Some(json!({"type": "AllAtOnce", "rollingSync": rolling})), false, 0),
            (128, Some(json!({"type": "RollingSync"})), false, 0),
            (128, Some(json!({"type": "AllAtOnce", "deletionOrder": "revers"})), false, 1),
            (128, Some(json!({"type": "AllAtOnce", "deletionOrder": "reverse"})), false, 0),
        ];
        for (row, given, empty, problems) in cases {
            let (strategy, found) = StepStrategy::read(given.as_ref());
            assert_eq!(strategy.is_empty_rolling_sync(), empty, "row {row}: {given:?}");
            assert_eq!(found.len(), problems, "row {row}: {found:?}");
        }
    }

    /// An operator that is not understood holds the set, as an unknown field does.
    #[test]
    fn what_is_not_understood_holds_the_set_as_315() {
        let set = |strategy: Value| json!({"spec": {"strategy": strategy}});
        let rolling =
            |steps: Value| json!({"type": "RollingSync", "rollingSync": {"steps": steps}});
        let cases = [
            (rolling(json!([by("env", "In", &["dev"]), by("env", "NotIn", &["dev"])])), 0),
            (rolling(json!([by("env", "Exists", &[])])), 1),
            (rolling(json!([by("env", "DoesNotExist", &[])])), 1),
            (rolling(json!([by("env", "in", &["dev"]), by("env", "", &["dev"])])), 2),
            (rolling(json!([{"matchExpressions": [{"key": "env"}]}])), 1),
            (rolling(json!([{}])), 0),
            (rolling(json!([{"maxUpdate": "abc"}])), 0),
            // Without steps nothing reads them.
            (json!({"type": "AllAtOnce", "rollingSync": {"steps": [by("env", "Gt", &[])]}}), 0),
        ];
        for (strategy, want) in cases {
            let found = strategy_problems(&set(strategy.clone()));
            assert_eq!(found.len(), want, "{strategy}: {found:?}");
        }
    }

    #[test]
    fn a_step_without_applications_names_the_values_that_there_are() {
        let (dev, prod) = (labels(json!({"env": "dev"})), labels(json!({"env": "prod", "x": "1"})));
        let all = [("a", &dev), ("b", &prod)];
        let cases = [
            (by("env", "In", &["staging"]), "; the label env has the values dev, prod"),
            (by("x", "In", &["2"]), "; the label x has the value 1"),
            (by("enw", "In", &["dev"]), "; no application has the label enw"),
        ];
        for (step, want) in cases {
            let steps = steps(json!([step]));
            let members = step_memberships(&steps, all);
            let values = || vec![dev.clone(), prod.clone()];
            let found = problems_of_memberships(&steps, &members, &values);
            assert_eq!(found.len(), 1);
            assert!(found[0].message.ends_with(want), "{}", found[0].message);
        }
        let steps = steps(json!([by("env", "In", &["dev"])]));
        let found = problems_of_memberships(&steps, &BTreeMap::new(), &Vec::new);
        assert!(found[0].message.ends_with("counts as done"), "{}", found[0].message);
    }

    #[test]
    fn every_mistake_is_listed_and_names_its_field_as_315() {
        let strategy = json!({"type": "RollingSync", "rollingSync": {"steps": [
            by("env", "Invalid", &["dev"]),
            {"matchExpressions": [], "maxUpdate": "abc"},
            by("env", "Another", &[]),
            by("env", "In", &["dev"]),
        ]}});
        let (strategy, mut problems) = StepStrategy::read(Some(&strategy));
        let dev = labels(json!({"env": "dev"}));
        let members = step_memberships(strategy.steps(), [("foo", &dev)]);
        problems.extend(problems_of_memberships(strategy.steps(), &members, &|| vec![dev.clone()]));
        problems.sort();
        let found: Vec<(ProblemKind, Option<usize>)> =
            problems.iter().map(|problem| (problem.kind, problem.step)).collect();
        let want = [
            (ProblemKind::UnsupportedOperator, Some(0)),
            (ProblemKind::UnsupportedOperator, Some(2)),
            (ProblemKind::SelectedTwice, Some(1)),
            (ProblemKind::InvalidMaxUpdate, Some(1)),
        ];
        assert_eq!(found, want);
        let message = |at: usize| problems[at].message.as_str();
        assert!(message(0).contains("steps[0].matchExpressions[0].operator: \"Invalid\""));
        assert!(message(2).contains("foo") && message(2).contains("2-4"), "{}", message(2));
        assert!(message(3).contains("steps[1].maxUpdate: \"abc\""));
    }
}
