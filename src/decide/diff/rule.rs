//! One ignore rule: of which objects, and which of their fields (SE-171).

use serde_json::Value;

use super::jq::{Expression, Jq};
use super::path::parse_pointer;
use crate::api::kind::KindRef;
use crate::glob;

/// Most rules of one source of rules.
pub(super) const MAX_RULES: usize = 1000;

/// Most jq expressions of all rules: each may contain a compiled regular expression.
const MAX_EXPRESSIONS: usize = 500;

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
    pub expressions: Vec<Expression>,
    /// Managers whose fields are ignored (SE-174).
    pub managers: Vec<String>,
}

/// An invalid part of the configuration. The rest is used, but a comparison may show
/// differences that should be ignored, so the caller reports a `ComparisonError`
/// (SE-173).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Path in the configuration.
    pub at: String,
    /// The problem, with the expression or value.
    pub message: String,
}

impl std::fmt::Display for Problem {
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
    problems: &mut Vec<Problem>,
) {
    if rules.len() >= MAX_RULES {
        let message = format!("more than {MAX_RULES} rules; this one is not used");
        problems.push(Problem { at: at.to_owned(), message });
        return;
    }
    rule.add_places(at, entry, problems);
    rule.add_expressions(at, entry, (jq, scope, left(rules)), problems);
    rules.push(rule);
}

impl Rule {
    /// Whether the rule applies to this object (SE-171).
    pub fn matches(&self, kind: KindRef<'_>, name: &str, namespace: &str) -> bool {
        glob::allows(&self.group, kind.group, None)
            && glob::allows(&self.kind, kind.kind, None)
            && (self.name.is_empty() || self.name == name)
            && (self.namespace.is_empty() || self.namespace == namespace)
    }

    fn add_places(&mut self, at: &str, entry: &Value, problems: &mut Vec<Problem>) {
        for (index, value) in listed(entry, "jsonPointers") {
            let parsed = match value.as_str() {
                Some(text) => parse_pointer(text).map_err(|why| format!("{text:?}: {why}")),
                None => Err(NOT_A_STRING.to_owned()),
            };
            match parsed {
                Ok(pointer) => self.pointers.push(pointer),
                Err(message) => {
                    problems.push(Problem { at: format!("{at}.jsonPointers[{index}]"), message });
                }
            }
        }
        for (index, value) in listed(entry, "managedFieldsManagers") {
            match value.as_str() {
                Some(manager) => self.managers.push(manager.to_owned()),
                None => problems.push(Problem {
                    at: format!("{at}.managedFieldsManagers[{index}]"),
                    message: NOT_A_STRING.to_owned(),
                }),
            }
        }
    }

    /// Adds at most so many expressions.
    fn add_expressions(
        &mut self,
        at: &str,
        entry: &Value,
        (jq, scope, most): (&Jq, &str, usize),
        problems: &mut Vec<Problem>,
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
                    problems.push(Problem { at, message });
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
