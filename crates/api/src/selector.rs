//! `selector` of a generator: which parameter sets are kept (AS-044, AS-045).
//!
//! The grammar is that of a Kubernetes label selector, but values may be any
//! text, such as URLs. The selector of the client library rejects these, so it
//! cannot be used.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

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
    /// Parses the selector of parameter sets: null matches everything, and values may be
    /// any text.
    ///
    /// # Errors
    ///
    /// The error, with the field.
    pub fn read(selector: &Value) -> Result<Self, String> {
        Self::parse(selector, |_| Ok(()))
    }

    /// Parses a selector of labels, whose values must be those of labels (AS-060).
    ///
    /// # Errors
    ///
    /// The error, with the field.
    pub fn read_of_labels(selector: &Value) -> Result<Self, String> {
        Self::parse(selector, check_label_value)
    }

    fn parse(
        selector: &Value,
        check_value: impl Fn(&str) -> Result<(), String>,
    ) -> Result<Self, String> {
        const FIELDS: [&str; 2] = ["matchLabels", "matchExpressions"];
        let empty = Map::new();
        let fields = match selector {
            Value::Null => &empty,
            Value::Object(fields) => fields,
            _ => return Err("must be an object".to_owned()),
        };
        if let Some(unknown) = fields.keys().find(|field| !FIELDS.contains(&field.as_str())) {
            return Err(format!("{unknown}: is not a field; use {}", FIELDS.join(" or ")));
        }
        let mut requirements = Vec::new();
        let labels = match &selector["matchLabels"] {
            Value::Null => &empty,
            Value::Object(labels) => labels,
            _ => return Err("matchLabels: must be an object of strings".to_owned()),
        };
        for (key, value) in labels {
            let failed = |cause: String| format!("matchLabels.{key}: {cause}");
            let value =
                value.as_str().ok_or_else(|| failed("must be a string; quote it".to_owned()))?;
            check_key(key).map_err(|why| format!("matchLabels: {why}"))?;
            check_value(value).map_err(failed)?;
            requirements
                .push(Requirement { key: key.clone(), rule: Rule::In(vec![value.to_owned()]) });
        }
        let expressions = match &selector["matchExpressions"] {
            Value::Null => &[],
            Value::Array(expressions) => expressions.as_slice(),
            _ => return Err("matchExpressions: must be a list".to_owned()),
        };
        for (index, expression) in expressions.iter().enumerate() {
            let failed = |cause: String| format!("matchExpressions[{index}]{cause}");
            let requirement = requirement(expression, &check_value).map_err(failed)?;
            requirements.push(requirement);
        }
        Ok(Self { requirements })
    }

    /// Whether it matches everything.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether labels, or the flat values of a parameter set, are selected.
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

/// One of `matchExpressions`; an error begins with the field.
fn requirement(
    expression: &Value,
    check_value: &impl Fn(&str) -> Result<(), String>,
) -> Result<Requirement, String> {
    let Value::Object(fields) = expression else { return Err(": must be an object".to_owned()) };
    let is_unknown = |field: &&String| !["key", "operator", "values"].contains(&field.as_str());
    if let Some(unknown) = fields.keys().find(is_unknown) {
        return Err(format!(".{unknown}: is not a field; use key, operator and values"));
    }
    let key = expression["key"].as_str().ok_or(".key: must be a string")?;
    check_key(key).map_err(|cause| format!(".key: {cause}"))?;
    let listed = match &expression["values"] {
        Value::Null => &[],
        Value::Array(listed) => listed.as_slice(),
        _ => return Err(".values: must be a list of strings".to_owned()),
    };
    let mut values = Vec::with_capacity(listed.len());
    for (index, value) in listed.iter().enumerate() {
        let place = format!(".values[{index}]: ");
        let value = value.as_str().ok_or_else(|| format!("{place}must be a string; quote it"))?;
        check_value(value).map_err(|cause| format!("{place}{cause}"))?;
        values.push(value.to_owned());
    }
    let operator = expression["operator"].as_str().unwrap_or_default();
    let rule = match (operator, values.is_empty()) {
        ("In", false) => Rule::In(values),
        ("NotIn", false) => Rule::NotIn(values),
        ("Exists", true) => Rule::Exists,
        ("DoesNotExist", true) => Rule::DoesNotExist,
        ("In" | "NotIn", true) => {
            return Err(format!(".values: is empty, but {operator} of {key} needs values"));
        }
        ("Exists" | "DoesNotExist", false) => {
            return Err(format!(".values: {operator} of {key} takes no values"));
        }
        (other, _) => {
            return Err(format!(
                ".operator: \"{other}\" is invalid; use In, NotIn, Exists or DoesNotExist"
            ));
        }
    };
    Ok(Requirement { key: key.to_owned(), rule })
}

/// A value of a label has at most 63 characters; another one selects nothing.
fn check_label_value(value: &str) -> Result<(), String> {
    let edge = |c: Option<char>| c.is_none_or(|c| c.is_ascii_alphanumeric());
    let is_valid = value.len() <= 63
        && value.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        && edge(value.chars().next())
        && edge(value.chars().next_back());
    if is_valid {
        return Ok(());
    }
    let shown: String = value.chars().take(80).collect();
    Err(format!("{shown:?} is not a value of a label, so no label has it"))
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
