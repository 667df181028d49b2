//! Label and field selectors of list and watch requests.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{Selector, SelectorExt as _};
use serde::Deserialize as _;
use serde_json::Value;

use super::errors::ApiError;
use super::kinds::Kind;
use super::place::Key;
use super::stored::Stored;

/// One requirement on a label.
#[derive(Clone, Debug, PartialEq)]
enum Requirement {
    In(String, Vec<String>),
    /// Also holds when the label is absent.
    NotIn(String, Vec<String>),
    Exists(String),
    Missing(String),
    Greater(String, i64),
    Less(String, i64),
}

/// Label and field requirements, all of which must hold.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selectors {
    labels: Vec<Requirement>,
    /// Path, value, whether they must be equal.
    fields: Vec<(String, String, bool)>,
}

impl Selectors {
    /// Reads both selectors.
    ///
    /// # Errors
    ///
    /// `BadRequest` for text that cannot be read or a field that the kind cannot select by.
    pub fn parse(
        kind: &Kind,
        labels: Option<&str>,
        fields: Option<&str>,
    ) -> Result<Self, ApiError> {
        let labels = labels.map(parse_labels).transpose()?.unwrap_or_default();
        let fields = fields.map(|f| parse_fields(kind, f)).transpose()?.unwrap_or_default();
        Ok(Self { labels, fields })
    }

    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// The name that a field selector pins, which spares a scan.
    pub fn pinned_name(&self) -> Option<&str> {
        self.fields
            .iter()
            .find(|(path, _, equal)| path == "metadata.name" && *equal)
            .map(|(_, v, _)| v.as_str())
    }

    pub fn matches(&self, key: &Key, stored: &Stored) -> bool {
        self.labels.iter().all(|requirement| requirement.holds(|label| stored.label(label)))
            && self.match_fields(key, stored)
    }

    fn match_fields(&self, key: &Key, stored: &Stored) -> bool {
        // Most ask for the name only, which needs no look into the object.
        let mut object = None;
        self.fields.iter().all(|(path, value, equal)| {
            let found = match path.as_str() {
                "metadata.name" => *key.name == **value,
                "metadata.namespace" => *key.namespace == **value,
                _ => field(object.get_or_insert_with(|| stored.value()), path) == *value,
            };
            found == *equal
        })
    }
}

impl Requirement {
    fn holds<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        match self {
            Self::In(key, values) => label(key).is_some_and(|v| values.iter().any(|w| w == v)),
            Self::NotIn(key, values) => label(key).is_none_or(|v| values.iter().all(|w| w != v)),
            Self::Exists(key) => label(key).is_some(),
            Self::Missing(key) => label(key).is_none(),
            Self::Greater(key, n) => {
                label(key).and_then(|v| v.parse::<i64>().ok()).is_some_and(|v| v > *n)
            }
            Self::Less(key, n) => {
                label(key).and_then(|v| v.parse::<i64>().ok()).is_some_and(|v| v < *n)
            }
        }
    }
}

/// A field's value as text; absent is empty, as with the real one.
fn field(object: &Value, path: &str) -> String {
    let mut at = object;
    for part in path.split('.') {
        at = &at[part];
    }
    match at {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

fn parse_fields(kind: &Kind, text: &str) -> Result<Vec<(String, String, bool)>, ApiError> {
    let mut out = Vec::new();
    for term in text.split(',').filter(|t| !t.trim().is_empty()) {
        let (path, value, equal) = if let Some((p, v)) = term.split_once("!=") {
            (p, v, false)
        } else if let Some((p, v)) = term.split_once("==") {
            (p, v, true)
        } else if let Some((p, v)) = term.split_once('=') {
            (p, v, true)
        } else {
            return Err(ApiError::bad_request(format!(
                "invalid selector: '{term}'; can't understand '{term}'"
            )));
        };
        let path = path.trim();
        if !supported(kind, path) {
            return Err(ApiError::bad_request(format!("field label not supported: {path}")));
        }
        let unescaped = value.trim().replace("\\,", ",").replace("\\=", "=").replace("\\\\", "\\");
        out.push((path.to_owned(), unescaped, equal));
    }
    Ok(out)
}

fn supported(kind: &Kind, path: &str) -> bool {
    match path {
        "metadata.name" => true,
        "metadata.namespace" => kind.namespaced,
        _ => match (kind.group.as_str(), kind.plural.as_str()) {
            ("", "pods") => matches!(
                path,
                "spec.nodeName"
                    | "spec.restartPolicy"
                    | "spec.schedulerName"
                    | "spec.serviceAccountName"
                    | "status.phase"
                    | "status.podIP"
                    | "status.nominatedNodeName"
            ),
            ("", "events") => {
                path.starts_with("involvedObject.")
                    || matches!(path, "reason" | "type" | "source" | "reportingComponent")
            }
            ("events.k8s.io", "events") => {
                path.starts_with("regarding.")
                    || matches!(path, "reason" | "type" | "reportingController")
            }
            ("", "secrets") => path == "type",
            ("", "namespaces") => path == "status.phase",
            ("", "nodes") => path == "spec.unschedulable",
            ("", "services") => matches!(path, "spec.clusterIP" | "spec.type"),
            ("", "replicationcontrollers") | ("apps", "replicasets") => path == "status.replicas",
            ("batch", "jobs") => path == "status.successful",
            _ => false,
        },
    }
}

fn parse_labels(text: &str) -> Result<Vec<Requirement>, ApiError> {
    let bad = |what: &str| ApiError::bad_request(format!("unable to parse requirement: {what}"));
    let mut out = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        // A comma inside parentheses does not end a term.
        let mut depth = 0;
        let end = rest
            .char_indices()
            .find(|(_, c)| {
                match c {
                    '(' => depth += 1,
                    ')' => depth -= 1,
                    _ => {}
                }
                *c == ',' && depth == 0
            })
            .map_or(rest.len(), |(i, _)| i);
        let term = rest[..end].trim();
        rest = rest[end..].trim_start_matches(',').trim_start();
        if term.is_empty() {
            continue;
        }
        out.push(parse_term(term).ok_or_else(|| bad(term))?);
    }
    Ok(out)
}

fn parse_term(term: &str) -> Option<Requirement> {
    let key = |text: &str| {
        let text = text.trim();
        let fine = !text.is_empty()
            && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c));
        fine.then(|| text.to_owned())
    };
    if let Some(rest) = term.strip_prefix('!') {
        return key(rest).map(Requirement::Missing);
    }
    if let Some((name, set)) = term.split_once('(') {
        let values = set.strip_suffix(')')?.split(',').map(|v| v.trim().to_owned()).collect();
        let mut words = name.split_whitespace();
        return match (words.next(), words.next(), words.next()) {
            (Some(name), Some("in"), None) => Some(Requirement::In(key(name)?, values)),
            (Some(name), Some("notin"), None) => Some(Requirement::NotIn(key(name)?, values)),
            _ => None,
        };
    }
    if let Some((name, value)) = term.split_once("!=") {
        return Some(Requirement::NotIn(key(name)?, vec![value.trim().to_owned()]));
    }
    if let Some((name, value)) = term.split_once("==").or_else(|| term.split_once('=')) {
        return Some(Requirement::In(key(name)?, vec![value.trim().to_owned()]));
    }
    if let Some((name, value)) = term.split_once('>') {
        return Some(Requirement::Greater(key(name)?, value.trim().parse().ok()?));
    }
    if let Some((name, value)) = term.split_once('<') {
        return Some(Requirement::Less(key(name)?, value.trim().parse().ok()?));
    }
    key(term).map(Requirement::Exists)
}

/// Whether a `LabelSelector` object matches labels; used where the server itself must know.
pub(crate) fn label_selector_matches(selector: &Value, labels: &BTreeMap<String, String>) -> bool {
    let selector = LabelSelector::deserialize(selector).ok();
    let selector = selector.and_then(|selector| Selector::try_from(selector).ok());
    selector.is_some_and(|selector| selector.matches(labels))
}

/// The labels that a selector asks for, as text.
pub(crate) fn labels_text(selector: &Value) -> String {
    let labels = selector["matchLabels"].as_object().or(selector.as_object());
    let pairs = labels.into_iter().flatten();
    let pairs = pairs.filter_map(|(key, value)| value.as_str().map(|v| format!("{key}={v}")));
    pairs.collect::<Vec<_>>().join(",")
}
