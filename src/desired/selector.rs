//! `selector` of a generator: which parameter sets are kept (AS-044, AS-045).
//!
//! The grammar is that of a Kubernetes label selector, but values may be any
//! text, such as URLs. The selector of the client library rejects these, so it
//! cannot be used.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::flatten::flatten;

/// A parsed selector. An empty one matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    requirements: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    rule: Rule,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Rule {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    DoesNotExist,
}

impl Selector {
    /// Parses `matchLabels` and `matchExpressions`; null matches everything.
    ///
    /// # Errors
    ///
    /// The error, with the key.
    pub fn read(selector: &Value) -> Result<Self, String> {
        let mut requirements = Vec::new();
        for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
            let value = value
                .as_str()
                .ok_or_else(|| format!("matchLabels.{key}: must be a string; quote it"))?;
            check_key(key)?;
            requirements
                .push(Requirement { key: key.clone(), rule: Rule::In(vec![value.to_owned()]) });
        }
        for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
            let key = expression["key"].as_str().unwrap_or_default();
            check_key(key)?;
            let listed = expression["values"].as_array().into_iter().flatten();
            let values: Vec<String> =
                listed.filter_map(|value| value.as_str().map(str::to_owned)).collect();
            let operator = expression["operator"].as_str().unwrap_or_default();
            let rule = match (operator, values.is_empty()) {
                ("In", false) => Rule::In(values),
                ("NotIn", false) => Rule::NotIn(values),
                ("Exists", true) => Rule::Exists,
                ("DoesNotExist", true) => Rule::DoesNotExist,
                ("In" | "NotIn", true) => {
                    return Err(format!("matchExpressions of {key}: {operator} needs values"));
                }
                ("Exists" | "DoesNotExist", false) => {
                    return Err(format!("matchExpressions of {key}: {operator} takes no values"));
                }
                (other, _) => {
                    return Err(format!(
                        "matchExpressions of {key}: operator \"{other}\" is invalid; use In, NotIn, Exists or DoesNotExist"
                    ));
                }
            };
            requirements.push(Requirement { key: key.to_owned(), rule });
        }
        Ok(Self { requirements })
    }

    /// Whether it matches everything.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether a parameter set is selected. The keys of nested values are
    /// joined with dots, in both template modes.
    pub fn matches(&self, set: &Map<String, Value>) -> bool {
        if self.requirements.is_empty() {
            return true;
        }
        self.selects(&flatten(set))
    }

    /// Whether labels are selected.
    pub fn selects(&self, labels: &BTreeMap<String, String>) -> bool {
        self.requirements.iter().all(|requirement| {
            let value = labels.get(&requirement.key);
            match &requirement.rule {
                Rule::In(values) => value.is_some_and(|value| values.contains(value)),
                Rule::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
                Rule::Exists => value.is_some(),
                Rule::DoesNotExist => value.is_none(),
            }
        })
    }
}

/// A key is a qualified name: an optional DNS prefix and a name of at most 63
/// characters.
fn check_key(key: &str) -> Result<(), String> {
    let (prefix, name) =
        key.rsplit_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    let ends = |text: &str| {
        let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
        edge(text.chars().next()) && edge(text.chars().next_back())
    };
    let name_ok = name.len() <= 63
        && ends(name)
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    let prefix_ok = prefix.is_none_or(|prefix| {
        prefix.len() <= 253
            && ends(prefix)
            && prefix
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c))
    });
    if name_ok && prefix_ok {
        return Ok(());
    }
    Err(format!(
        "\"{key}\" is not a valid key of a selector; use letters, digits, '-', '_', '.' and at most one '/' prefix"
    ))
}
