//! `ignoreApplicationDifferences`: fields of Applications that the set neither
//! compares nor writes (AS-162 to AS-165).

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
        let mut paths: Vec<Path> = rules().flat_map(|rule| rule.paths(target)).collect();
        paths.extend(rules().flat_map(|rule| rule.paths(live)));
        paths.retain(|path| matches!(path.first(), Some(Step::Key(key)) if key == "spec" || key == "metadata"));
        let mut gone = Vec::new();
        for path in paths {
            match path::get(live, &path) {
                Some(value) => put(target, &path, value.clone()),
                None => gone.push(path),
            }
        }
        path::remove_all(target, gone);
    }
}

impl Rule {
    fn paths(&self, object: &Value) -> Vec<Path> {
        let pointers = self.pointers.iter().filter_map(|tokens| path::locate(object, tokens));
        let selected = |expression: &Expression| expression.paths(object).unwrap_or_default();
        pointers.chain(self.expressions.iter().flat_map(selected)).collect()
    }
}

/// Sets the value at a path. Objects on the way are made; a list element that
/// does not exist is not.
fn put(target: &mut Value, path: &[Step], value: Value) {
    let Some((step, rest)) = path.split_first() else {
        *target = value;
        return;
    };
    let next = match step {
        Step::Key(key) => {
            if target.is_null() {
                *target = Value::Object(serde_json::Map::new());
            }
            match target {
                Value::Object(object) => object.entry(key.as_str()).or_insert(Value::Null),
                _ => return,
            }
        }
        Step::Index(index) => match target.get_mut(*index) {
            Some(item) => item,
            None => return,
        },
    };
    put(next, rest, value);
}
