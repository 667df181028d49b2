//! Evaluates the rules of the table on an object.

use serde_json::Value;

use super::super::read::{
    HealthCondition, is_stale, is_stale_condition, names_generation, number, other_generation,
};
use super::glob::glob_matches;
use super::rule::{Comparison, MessagePart, Operand, Path, Root, Source, Test};
use wavegate_api::Raw;

/// What a rule sees, and what its tests have found.
#[derive(Clone, Copy)]
pub struct RuleScope<'a> {
    /// The object.
    root: &'a Value,
    /// The object, or an element of one of its lists.
    here: &'a Value,
    /// The element that `any` found.
    found: Option<&'a Value>,
    /// The condition that a test found.
    condition: Option<&'a Value>,
    /// The position of the element of `each`, from 1.
    position: usize,
    /// Whether a condition that names no generation counts in a status of an older one.
    undated_count: bool,
}

impl<'a> RuleScope<'a> {
    /// The scope of a rule. In a status of an older generation, a condition that names none
    /// counts only if the rules test the generation themselves.
    pub fn of(object: &'a Value, undated_count: bool) -> Self {
        let (found, condition) = (None, None);
        Self { root: object, here: object, found, condition, position: 0, undated_count }
    }

    fn is_old(&self, condition: HealthCondition<'_>) -> bool {
        let counts = self.undated_count && !names_generation(condition);
        !counts && is_stale_condition(self.root, condition)
    }

    /// The scope of an element.
    fn inside(self, element: &'a Value, position: usize) -> Self {
        Self { here: element, position, ..self }
    }

    fn field(&self, path: &Path) -> Option<&'a Value> {
        let start = match path.root {
            Root::Here => self.here,
            Root::Object => self.root,
            Root::Found => self.found?,
        };
        let value = path.keys.iter().try_fold(start, |value, key| match value {
            Value::Array(items) => items.get(key.parse::<usize>().ok()?),
            value => value.get(key),
        })?;
        (!value.is_null()).then_some(value)
    }

    /// The elements of a list, or the values of a map. Of conditions, those of older
    /// generations are none.
    fn elements(&self, path: &Path) -> Vec<&'a Value> {
        let is_condition = path.is_of_conditions();
        let counts = |item: &&Value| !is_condition || !self.is_old(HealthCondition(item));
        match self.field(path) {
            Some(Value::Array(items)) => items.iter().filter(counts).collect(),
            Some(Value::Object(map)) => map.values().collect(),
            _ => Vec::new(),
        }
    }

    /// The conditions of the object or the element.
    fn all_conditions(&self) -> impl Iterator<Item = HealthCondition<'a>> + 'a {
        let is_root = std::ptr::eq(self.root, self.here);
        let pointer = if is_root { "/status/conditions" } else { "/conditions" };
        self.here.items(pointer).iter().map(HealthCondition)
    }

    /// Whether the condition that was found says itself that it is of this generation.
    pub fn found_a_current_condition(&self) -> bool {
        self.condition.is_some_and(|c| names_generation(HealthCondition(c)))
    }

    /// The same without those of older generations.
    fn conditions(&self) -> impl Iterator<Item = HealthCondition<'a>> + 'a {
        let scope = *self;
        self.all_conditions().filter(move |c| !scope.is_old(*c))
    }
}

/// Whether a test holds. What it found is kept in the scope, for the message.
pub(crate) fn holds<'a>(test: &Test, scope: &mut RuleScope<'a>) -> bool {
    match test {
        Test::Not(test) => !holds(test, &mut scope.clone()),
        Test::Condition { types, statuses, reasons } => {
            let matches = |patterns: &[String], text: &str| {
                patterns.is_empty() || patterns.iter().any(|pattern| glob_matches(pattern, text))
            };
            let hit = scope.conditions().find(|c| {
                matches(types, c.kind())
                    && matches(statuses, &text(c.0.get("status")))
                    && matches(reasons, c.reason())
            });
            scope.condition = hit.map(|c| c.0).or(scope.condition);
            hit.is_some()
        }
        Test::Present(path) => scope.field(path).is_some(),
        Test::Equals(operand, patterns) => {
            let value = match operand {
                Operand::Field(path, _) => match scope.field(path) {
                    Some(value) => text(Some(value)),
                    None => return false,
                },
                operand => value_of(operand, scope).to_string(),
            };
            patterns.iter().any(|pattern| glob_matches(pattern, &value))
        }
        Test::Differs(left, right) => {
            let left = match left {
                Operand::Field(path, _) => text(scope.field(path)),
                operand => value_of(operand, scope).to_string(),
            };
            left != value(right, scope)
        }
        Test::Compare(left, comparison, right) => {
            let (left, right) = (value_of(left, scope), value_of(right, scope));
            match comparison {
                Comparison::Less => left < right,
                Comparison::AtMost => left <= right,
                Comparison::More => left > right,
                Comparison::AtLeast => left >= right,
            }
        }
        Test::Any(path, tests) => {
            let hit = scope.elements(path).into_iter().find_map(|element| {
                let mut inner = scope.inside(element, 0);
                all(tests, &mut inner).then_some((element, inner))
            });
            let Some((element, inner)) = hit else { return false };
            // Of nested ones the outer element is what the message names.
            scope.found = Some(element);
            scope.condition = if path.is_of_conditions() { Some(element) } else { inner.condition };
            true
        }
        Test::All(path, tests) => {
            let mut elements = scope.elements(path).into_iter();
            elements.all(|element| all(tests, &mut scope.inside(element, 0)))
        }
        Test::Full(path) => {
            let text = text(scope.field(path));
            let halves = text.split_once('/').map(|(is, wanted)| (is.parse(), wanted.parse()));
            matches!(halves, Some((Ok::<u64, _>(is), Ok::<u64, _>(wanted))) if is >= wanted)
        }
        Test::Stale => is_stale(scope.root),
        Test::Unobserved => other_generation(scope.root, scope.root.get("status")).is_some(),
        Test::UnobservedCondition(kind) => {
            let mut of_kind = scope.all_conditions().filter(|c| glob_matches(kind, c.kind()));
            of_kind.any(|c| other_generation(scope.root, Some(c.0)).flatten().is_some())
        }
        Test::StaleCondition(kind) => {
            let stale = |c: HealthCondition<'_>| {
                glob_matches(kind, c.kind()) && is_stale_condition(scope.root, c)
            };
            scope.all_conditions().any(stale)
        }
        Test::Deleting => scope.root.is_deleting(),
    }
}

fn all<'a>(tests: &[Test], scope: &mut RuleScope<'a>) -> bool {
    tests.iter().all(|test| holds(test, scope))
}

fn value_of(operand: &Operand, scope: &RuleScope<'_>) -> i64 {
    match operand {
        Operand::Number(number) => *number,
        Operand::Field(path, absent) => match scope.field(path) {
            Some(value) => whole(value).unwrap_or(*absent),
            None => *absent,
        },
        Operand::Length(path) => i64::try_from(scope.elements(path).len()).unwrap_or(i64::MAX),
        Operand::Total(list, field) => {
            let elements = scope.elements(list).into_iter();
            let numbers = elements.filter_map(|e| scope.inside(e, 0).field(field).map(whole));
            numbers.fold(0, |total, count| total.saturating_add(count.unwrap_or(0)))
        }
        Operand::Sum(left, right) => value_of(left, scope).saturating_add(value_of(right, scope)),
    }
}

/// A number, also one that is written as a text.
fn whole(value: &Value) -> Option<i64> {
    match value {
        Value::String(digits) => digits.parse().ok(),
        value => number(value, ""),
    }
}

/// A scalar as a text; empty for lists, maps and absent values.
fn text(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Bool(value)) => value.to_string(),
        Some(Value::Number(number)) => number.to_string(),
        _ => String::new(),
    }
}

/// The text of a message.
pub fn render(message: &[MessagePart], scope: &RuleScope<'_>) -> String {
    let one = |part: &MessagePart| match part {
        MessagePart::Text(text) => text.clone(),
        MessagePart::Value(sources) => {
            let texts = sources.iter().map(|source| value(source, scope));
            texts.into_iter().find(|text| !text.is_empty()).unwrap_or_default()
        }
        MessagePart::When(list, tests, message) => match matching(list, tests, scope).is_empty() {
            true => String::new(),
            false => render(message, scope),
        },
        MessagePart::Each { list, tests, separator, message } => {
            let elements = scope.elements(list);
            let texts = elements.into_iter().enumerate().filter_map(|(index, element)| {
                let mut inner = scope.inside(element, index + 1);
                all(tests, &mut inner).then(|| render(message, &inner))
            });
            texts.collect::<Vec<_>>().join(separator)
        }
    };
    message.iter().map(one).collect()
}

/// The elements of a list that pass the tests.
fn matching<'a>(list: &Path, tests: &[Test], scope: &RuleScope<'a>) -> Vec<&'a Value> {
    let mut elements = scope.elements(list);
    elements.retain(|element| all(tests, &mut scope.inside(element, 0)));
    elements
}

fn value(source: &Source, scope: &RuleScope<'_>) -> String {
    match source {
        Source::Text(text) => text.clone(),
        Source::Matched(field) => text(scope.condition.and_then(|c| c.get(field))),
        Source::Condition(kind, field) => {
            let condition = scope.conditions().find(|c| glob_matches(kind, c.kind()));
            text(condition.and_then(|c| c.0.get(field)))
        }
        Source::Field(path, skip, take) => {
            let text = text(scope.field(path));
            text.chars().skip(*skip).take(take.unwrap_or(usize::MAX)).collect()
        }
        Source::Count(list, tests) => matching(list, tests, scope).len().to_string(),
        Source::Position => scope.position.to_string(),
    }
}
