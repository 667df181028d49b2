//! `ignoreApplicationDifferences`: fields of Applications that the set neither
//! compares nor writes (AS-162 to AS-165).
//!
//! Ignored fields keep their live value; `keep` describes how they are matched
//! inside lists.

mod keep;

use serde_json::Value;

use wavegate_api::Raw;
use wavegate_api::live::LiveSetSpec;
use wavegate_api::raw::object_at;
use wavegate_engine::diff::jq::{Jq, JqError, JqExpression, Question};
use wavegate_engine::diff::path::{Defect, Path, PathStep, Pointer, parse_pointer};
use wavegate_engine::merge_patch::without_nulls;

/// The most jq expressions of a set.
const MAX_EXPRESSIONS: usize = 500;

/// How often the rules are applied until their result is stable. Each time, at least one
/// element of a list gets another index.
const ROUNDS: usize = 8;

/// The error of rules without a stable result.
const UNSTABLE: &str = "spec.ignoreApplicationDifferences: the rules select other list elements each time they are \
                        applied; select elements by a field instead of their index";

/// What is wrong with a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IgnoreProblem {
    /// The Application of the rule; empty means all.
    pub name: String,
    /// The field, the error, and how to fix it.
    pub message: String,
}

impl IgnoreProblem {
    /// Whether it keeps an Application from being written.
    pub fn concerns(&self, application: &str) -> bool {
        self.name.is_empty() || self.name == application
    }
}

/// The rules of a set.
#[derive(Clone, Debug, Default)]
pub struct Ignore {
    rules: Vec<Rule>,
    jq: Jq,
    /// The set, for the limits of its expressions.
    scope: String,
}

#[derive(Clone, Debug)]
struct Rule {
    /// Its field path.
    place: String,
    /// The name of an Application; empty means all.
    name: String,
    pointers: Vec<Vec<String>>,
    expressions: Vec<JqExpression>,
}

impl Ignore {
    /// Reads the rules of a set, and returns the errors of those that cannot be
    /// evaluated. The other rules apply; the Applications of the invalid ones
    /// are not written until these are fixed (AS-164).
    pub fn read(set: &Value, jq: &Jq) -> (Self, Vec<IgnoreProblem>) {
        let scope = format!("{}/{}", set.namespace(), set.name());
        let mut problems = Vec::new();
        let mut rules = Vec::new();
        let mut count = 0;
        let listed = LiveSetSpec::of(set).ignore_application_differences;
        for (index, rule) in listed.into_iter().enumerate() {
            let place = format!("spec.ignoreApplicationDifferences[{index}]");
            let name = rule.name;
            let mut problem =
                |message| problems.push(IgnoreProblem { name: name.clone(), message });
            let mut pointers = Vec::new();
            for pointer in rule.json_pointers {
                match parse_pointer(&pointer) {
                    Ok(Pointer { tokens, defect: None }) => pointers.push(tokens),
                    Ok(Pointer { defect: Some(Defect { remedy, .. }), .. })
                    | Err(Defect { remedy, .. }) => {
                        problem(format!("{place}.jsonPointers: \"{pointer}\": {remedy}"));
                    }
                }
            }
            let texts = rule.jq_path_expressions;
            let known: Vec<&str> = (texts.iter().map(String::as_str))
                .take(MAX_EXPRESSIONS.saturating_sub(count))
                .collect();
            count += texts.len();
            let mut parsed = jq.parse(&scope, &known).into_iter();
            let mut expressions = Vec::new();
            for text in &texts {
                let parsed = parsed
                    .next()
                    .unwrap_or_else(|| Err(format!("more than {MAX_EXPRESSIONS} jq expressions")));
                match parsed {
                    Ok(parsed) => expressions.push(parsed),
                    Err(error) => {
                        problem(format!("{place}.jqPathExpressions: \"{text}\": {error}"));
                    }
                }
            }
            rules.push(Rule { place, name, pointers, expressions });
        }
        (Self { rules, jq: jq.clone(), scope }, problems)
    }

    /// Whether a rule is for this Application.
    pub fn concerns(&self, name: &str) -> bool {
        self.rules.iter().any(|rule| rule.concerns(name))
    }

    /// Copies the ignored fields of `live` to `target`, also within lists, so
    /// that they never count as a difference and are never written. The name
    /// and the kind cannot be ignored.
    ///
    /// # Errors
    ///
    /// The rule that exceeds a limit, and the limit. The Application must not
    /// be written then, since its ignored fields are unknown.
    pub fn keep_live(&self, name: &str, target: &mut Value, live: &Value) -> Result<(), String> {
        if !self.concerns(name) {
            return Ok(());
        }
        let generated = target.clone();
        *target = self.kept(name, &generated, live)?;
        // A rule may select by an index, and an element that is kept may get another
        // one: what is written must be what the next comparison expects (AS-165).
        let mut stored = live.clone();
        for _ in 0..ROUNDS {
            if !store(&mut stored, target) {
                return Ok(());
            }
            let again = self.kept(name, &generated, &stored)?;
            if again == *target {
                return Ok(());
            }
            *target = again;
        }
        Err(UNSTABLE.to_owned())
    }

    fn kept(&self, name: &str, target: &Value, live: &Value) -> Result<Value, String> {
        let rules = || self.rules.iter().filter(|rule| rule.concerns(name));
        let in_reach = |key: &str| key == "spec" || key == "metadata";
        let [in_target, in_live] = self.selected(name, [target, live])?.map(|mut paths| {
            paths.retain(|path| matches!(path.first(), Some(PathStep::Key(key)) if in_reach(key)));
            paths
        });
        let pointers: Vec<&[String]> = rules()
            .flat_map(|rule| &rule.pointers)
            .map(Vec::as_slice)
            .filter(|tokens| tokens.first().is_some_and(|key| in_reach(key)))
            .collect();
        let ignored = keep::IgnoredFields { in_target, in_live, pointers: &pointers };
        let mut kept = target.clone();
        keep::live_values(&mut kept, live, &ignored);
        Ok(kept)
    }

    /// The paths that the expressions for an Application select in each object.
    fn selected(&self, name: &str, objects: [&Value; 2]) -> Result<[Vec<Path>; 2], String> {
        let rules = || self.rules.iter().filter(|rule| rule.concerns(name));
        let all: Vec<(&str, &JqExpression)> = rules()
            .flat_map(|rule| rule.expressions.iter().map(|one| (&*rule.place, one)))
            .collect();
        let mut selected = [Vec::new(), Vec::new()];
        if all.is_empty() {
            return Ok(selected);
        }
        let expressions: Vec<&JqExpression> = all.iter().map(|(_, one)| *one).collect();
        let questions = objects.map(|object| Question { object, expressions: expressions.clone() });
        let answers = self.jq.paths(&self.scope, &questions);
        for (selected, answers) in selected.iter_mut().zip(answers) {
            for ((place, expression), answer) in all.iter().zip(answers) {
                match answer {
                    Ok(found) => selected.extend(found),
                    // As in Argo CD: the object does not have the field of the rule.
                    Err(JqError::Mismatch(_)) => {}
                    Err(error) => {
                        let text = expression.text();
                        return Err(format!("{place}.jqPathExpressions: \"{text}\": {error}"));
                    }
                }
            }
        }
        Ok(selected)
    }
}

/// Stores the spec and the metadata of an Application as a write would; returns whether
/// that changes it.
fn store(stored: &mut Value, target: &Value) -> bool {
    let mut changes = false;
    let mut put = |place: &mut Value, value: &Value| {
        let value = without_nulls(value);
        if *place != value {
            *place = value;
            changes = true;
        }
    };
    let Some(stored) = stored.as_object_mut() else { return false };
    put(stored.entry("spec").or_insert(Value::Null), target.spec());
    let metadata = target.get("metadata").and_then(Value::as_object).into_iter().flatten();
    if let Some(stored) = object_at(stored, "metadata") {
        for (field, value) in metadata {
            put(stored.entry(field.clone()).or_insert(Value::Null), value);
        }
    }
    changes
}

impl Rule {
    fn concerns(&self, application: &str) -> bool {
        self.name.is_empty() || self.name == application
    }
}
