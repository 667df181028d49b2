//! One ignore rule: of which objects, and which of their fields (SE-171).

use serde_json::Value;

use super::jq::{Jq, JqExpression};
use super::path::{Defect, Pointer, parse_pointer};
use wavegate_api::glob::{self, Glob};
use wavegate_api::kind::KindRef;

/// Most rules of one source of rules.
pub(super) const MAX_RULES: usize = 1000;

/// Most jq expressions of all rules: each may contain a compiled regular expression.
const MAX_EXPRESSIONS: usize = 500;

/// Most problems of the rules of an Application.
const MAX_PROBLEMS: usize = 50;

/// A validated entry of `ignoreDifferences`.
#[derive(Clone, Debug, Default)]
pub struct Rule {
    /// Glob of the API group; empty is the core group only.
    pub group: String,
    /// Glob of the kind.
    pub kind: String,
    /// Exact name; empty matches any name.
    pub name: String,
    /// Exact namespace; empty matches any namespace.
    pub namespace: String,
    /// Paths, as unescaped tokens of JSON pointers.
    pub pointers: Vec<Vec<String>>,
    /// Paths, as jq expressions.
    pub expressions: Vec<JqExpression>,
    /// Managers whose fields are ignored (SE-174).
    pub managers: Vec<String>,
}

/// An invalid part of the configuration. The rest is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleProblem {
    /// Path in the configuration.
    pub at: String,
    /// The problem, with the expression or value.
    pub message: String,
    /// Whether nothing must be synced: a comparison may show differences that should be ignored,
    /// so the caller reports a `ComparisonError` (SE-173). What Argo CD skips, or reads in some
    /// way, is a warning: it has the same effect here (SE-172).
    pub is_error: bool,
}

impl RuleProblem {
    /// One that stops syncs.
    pub(super) fn error(at: impl Into<String>, message: impl Into<String>) -> Self {
        Self { at: at.into(), message: message.into(), is_error: true }
    }

    /// No more of them than a status should hold, errors first when there are too many.
    pub(super) fn bounded(at: &str, mut problems: Vec<Self>) -> Vec<Self> {
        if let Some(more) = problems.len().checked_sub(MAX_PROBLEMS).filter(|more| *more > 0) {
            problems.sort_by_key(|problem| !problem.is_error);
            let is_error = problems[MAX_PROBLEMS].is_error;
            problems.truncate(MAX_PROBLEMS);
            let message = format!("{more} more parts are not understood");
            problems.push(Self { at: at.to_owned(), message, is_error });
        }
        problems
    }

    /// One that stops nothing.
    pub(super) fn warning(at: impl Into<String>, message: impl Into<String>) -> Self {
        Self { at: at.into(), message: message.into(), is_error: false }
    }
}

impl std::fmt::Display for RuleProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.at, self.message)
    }
}

/// How many more jq expressions a list of rules may have.
fn left(rules: &[Rule]) -> usize {
    let held: usize = rules.iter().map(|rule| rule.expressions.len()).sum();
    MAX_EXPRESSIONS.saturating_sub(held)
}

/// Adds a rule with the places of `entry` to a list, unless the list is full. `scope` is whose
/// rules they are.
pub(super) fn add_rule(
    rules: &mut Vec<Rule>,
    at: &str,
    mut rule: Rule,
    entry: &Value,
    (jq, scope): (&Jq, &str),
    problems: &mut Vec<RuleProblem>,
) {
    if rules.len() >= MAX_RULES {
        let message = format!("more than {MAX_RULES} rules; this one is not used");
        problems.push(RuleProblem::error(at, message));
        return;
    }
    for (field, text) in [("group", &rule.group), ("kind", &rule.kind)] {
        if let Err(error) = Glob::new(text) {
            let message = format!("{error}; the rule has no effect");
            problems.push(RuleProblem::warning(format!("{at}.{field}"), message));
        }
    }
    rule.add_places(at, entry, problems);
    rule.add_expressions(at, entry, (jq, scope, left(rules)), problems);
    rules.push(rule);
}

impl Rule {
    /// Whether the rule applies to this object (SE-171).
    pub fn matches(&self, kind: KindRef<'_>, name: &str, namespace: &str) -> bool {
        glob::glob_allows(&self.group, kind.group, None)
            && glob::glob_allows(&self.kind, kind.kind, None)
            && (self.name.is_empty() || self.name == name)
            && (self.namespace.is_empty() || self.namespace == namespace)
    }

    fn add_places(&mut self, at: &str, entry: &Value, problems: &mut Vec<RuleProblem>) {
        for (index, value) in listed(entry, "jsonPointers") {
            let at = format!("{at}.jsonPointers[{index}]");
            let Some(text) = value.as_str() else {
                problems.push(RuleProblem::error(at, NOT_A_STRING));
                continue;
            };
            let defect = match parse_pointer(text) {
                Ok(Pointer { tokens, defect }) => {
                    self.pointers.push(tokens);
                    defect
                }
                Err(defect) => Some(defect),
            };
            problems.extend(defect.map(|Defect { remedy, effect }| {
                RuleProblem::warning(at, format!("{text:?}: {remedy}; {effect}"))
            }));
        }
        for (index, value) in listed(entry, "managedFieldsManagers") {
            match value.as_str() {
                Some(manager) => self.managers.push(manager.to_owned()),
                None => {
                    let at = format!("{at}.managedFieldsManagers[{index}]");
                    problems.push(RuleProblem::error(at, NOT_A_STRING));
                }
            }
        }
    }

    /// Adds at most so many expressions.
    fn add_expressions(
        &mut self,
        at: &str,
        entry: &Value,
        (jq, scope, most): (&Jq, &str, usize),
        problems: &mut Vec<RuleProblem>,
    ) {
        let all: Vec<(usize, &Value)> = listed(entry, "jqPathExpressions").collect();
        let texts: Vec<&str> =
            all.iter().filter_map(|(_, value)| value.as_str()).take(most).collect();
        let mut parsed = jq.parse(scope, &texts).into_iter();
        for (index, value) in all {
            let expression = match value.as_str() {
                Some(text) => parsed
                    .next()
                    .unwrap_or_else(|| Err(format!("more than {MAX_EXPRESSIONS} jq expressions")))
                    .map_err(|why| format!("{text:?}: {why}")),
                None => Err(NOT_A_STRING.to_owned()),
            };
            match expression {
                Ok(expression) => self.expressions.push(expression),
                Err(message) => {
                    let at = format!("{at}.jqPathExpressions[{index}]");
                    problems.push(RuleProblem::error(at, message));
                }
            }
        }
    }
}

const NOT_A_STRING: &str = "not a string";

/// The elements of a list of a rule.
fn listed<'a>(entry: &'a Value, field: &str) -> impl Iterator<Item = (usize, &'a Value)> {
    entry.get(field).and_then(Value::as_array).into_iter().flatten().enumerate()
}
