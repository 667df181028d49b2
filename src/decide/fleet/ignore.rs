//! `ignoreApplicationDifferences`: fields of Applications that the set neither
//! compares nor writes (AS-162 to AS-165).
//!
//! What is ignored keeps its live value; how that is found inside of lists is
//! told in [`keep`].

mod keep;

use serde_json::Value;

use crate::decide::diff::jq::Expression;
use crate::decide::diff::path::{self, Path, Step};

/// The rules of a set.
#[derive(Clone, Debug, Default)]
pub struct Ignore {
    rules: Vec<Rule>,
}

#[derive(Clone, Debug)]
struct Rule {
    /// Empty: every Application.
    name: String,
    pointers: Vec<Vec<String>>,
    expressions: Vec<Expression>,
}

impl Ignore {
    /// Reads the rules of a set. The second part tells what cannot be
    /// evaluated: the rules that are left still hold, and no Application may
    /// be written until the others are mended (AS-164).
    pub fn read(set: &Value) -> (Self, Vec<String>) {
        let mut problems = Vec::new();
        let mut rules = Vec::new();
        let listed = set["spec"]["ignoreApplicationDifferences"].as_array();
        for (index, rule) in listed.into_iter().flatten().enumerate() {
            let place = format!("spec.ignoreApplicationDifferences[{index}]");
            let texts = |field: &str| {
                let texts = rule[field].as_array().cloned().unwrap_or_default();
                texts.into_iter().filter_map(|text| text.as_str().map(str::to_owned))
            };
            let mut pointers = Vec::new();
            for pointer in texts("jsonPointers") {
                match path::parse_pointer(&pointer) {
                    Ok(parsed) => pointers.push(parsed),
                    Err(error) => {
                        problems.push(format!("{place}.jsonPointers: \"{pointer}\": {error}"));
                    }
                }
            }
            let mut expressions = Vec::new();
            for text in texts("jqPathExpressions") {
                match Expression::parse(&text) {
                    Ok(parsed) => expressions.push(parsed),
                    Err(error) => {
                        problems.push(format!("{place}.jqPathExpressions: \"{text}\": {error}"));
                    }
                }
            }
            let name = rule["name"].as_str().unwrap_or_default().to_owned();
            rules.push(Rule { name, pointers, expressions });
        }
        (Self { rules }, problems)
    }

    /// Makes the ignored fields of `target` what they are in `live`, also
    /// within lists: so they never count as a difference and are never
    /// written. The name and the kind are out of reach.
    pub fn keep_live(&self, name: &str, target: &mut Value, live: &Value) {
        let rules = || self.rules.iter().filter(|rule| rule.name.is_empty() || rule.name == name);
        if rules().next().is_none() {
            return;
        }
        let in_reach = |key: &str| key == "spec" || key == "metadata";
        let selected = |object: &Value| -> Vec<Path> {
            let paths = rules().flat_map(|rule| rule.selected(object));
            paths
                .filter(|path| matches!(path.first(), Some(Step::Key(key)) if in_reach(key)))
                .collect()
        };
        let pointers: Vec<&[String]> = rules()
            .flat_map(|rule| &rule.pointers)
            .map(Vec::as_slice)
            .filter(|tokens| tokens.first().is_some_and(|key| in_reach(key)))
            .collect();
        let ignored = keep::Ignored {
            in_target: selected(target),
            in_live: selected(live),
            pointers: &pointers,
        };
        keep::live_values(target, live, &ignored);
    }
}

impl Rule {
    /// What the expressions name in an object.
    fn selected(&self, object: &Value) -> Vec<Path> {
        let selected = |expression: &Expression| expression.paths(object).unwrap_or_default();
        self.expressions.iter().flat_map(selected).collect()
    }
}
