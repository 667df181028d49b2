//! Unknown fields: finds misspelled fields before they have an effect.
//!
//! The known fields are those of the CustomResourceDefinitions and, in addition, those of
//! nested matrix and merge generators, which the definitions leave open (AS-004). Other
//! open parts of the definitions accept any field here, too.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use super::annotations::LAST_APPLIED;
use super::app_spec::ApplicationSpec;
use super::application_set::ApplicationSetSpec;
use super::crds::{self, PRESERVE};
pub use super::nearest::{meant_hint, nearest_name};
use super::operation::Operation;
use super::policy::RolloutPolicySpec;
/// Fields of `metadata`, whatever the kind.
const METADATA: [&str; 16] = [
    "annotations",
    "clusterName",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "labels",
    "managedFields",
    "name",
    "namespace",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// An unknown field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    /// Path of the field, such as `spec.strategy.rollingSync.steps[0].maxUpdates`.
    pub path: String,
    /// The known field with the most similar name, if it is similar enough.
    pub suggestion: Option<String>,
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: unknown field{}", self.path, meant_hint(self.suggestion.as_deref()))
    }
}

/// The unknown fields of an ApplicationSet, ordered by path. `status` is not checked,
/// since users do not write it.
pub fn in_application_set(set: &Value) -> Vec<Unknown> {
    application_set().unknown_in(set)
}

/// The same of a RolloutPolicy.
pub fn in_policy(policy: &Value) -> Vec<Unknown> {
    self::policy().unknown_in(policy)
}

/// The unknown fields that may concern the rollout strategy: below `spec.strategy`, or
/// fields of `spec` with a similar name. While there is one, the intended steps are not
/// known.
///
/// An API server with closed definitions has dropped these fields. The last-applied
/// configuration of `kubectl apply` is therefore checked too, as long as the stored
/// strategy is what remains of it, that is, was not changed in another way since.
pub fn in_strategy(set: &Value) -> Vec<Unknown> {
    let stored = unknown_of_gate(set);
    if !stored.is_empty() {
        return stored;
    }
    let text = set["metadata"]["annotations"][LAST_APPLIED].as_str();
    let Some(applied) = text.and_then(|text| serde_json::from_str::<Value>(text).ok()) else {
        return Vec::new();
    };
    let dropped = unknown_of_gate(&applied);
    if dropped.is_empty() {
        return dropped;
    }
    let mut kept = applied["spec"]["strategy"].clone();
    if let Some(known) = application_set().field("spec").and_then(|spec| spec.field("strategy")) {
        known.prune(&mut kept);
    }
    if kept == set["spec"]["strategy"] { dropped } else { Vec::new() }
}

fn unknown_of_gate(set: &Value) -> Vec<Unknown> {
    let mut unknown = Vec::new();
    let spec = application_set().field("spec");
    if let Some(Known::Object(fields)) = spec
        && let Some(strategy) = fields.get("strategy")
    {
        let written = set["spec"].as_object().into_iter().flatten();
        for (name, _) in written.filter(|(name, _)| !fields.contains_key(name.as_str())) {
            if let Some(known) = nearest_name(name, fields.keys().map(String::as_str))
                .filter(|known| *known == "strategy")
            {
                unknown.push(Unknown {
                    path: format!("spec.{name}"),
                    suggestion: Some(known.to_owned()),
                });
            }
        }
        strategy.find(&set["spec"]["strategy"], &mut "spec.strategy".to_owned(), &mut unknown);
    }
    unknown
}

/// The unknown fields of a generated Application.
pub fn in_application(application: &Value) -> Vec<Unknown> {
    self::application().unknown_in(application)
}

/// The unknown fields of a source, by their path in it.
pub fn in_source(source: &Value) -> Vec<Unknown> {
    let known = application().field("spec").and_then(|spec| spec.field("source"));
    known.map(|known| known.unknown_in(source)).unwrap_or_default()
}

/// Known fields at a path of an object.
#[derive(Clone, Debug)]
enum Known {
    /// A scalar, or any value.
    Any,
    /// These fields and no others.
    Object(BTreeMap<String, Arc<Known>>),
    /// A list of such items.
    List(Arc<Known>),
    /// Any keys, with values of this type.
    Map(Arc<Known>),
}

impl Known {
    /// Converts a structural schema.
    fn read(schema: &Value) -> Self {
        let child = |schema: &Value| Arc::new(Self::read(schema));
        if schema[PRESERVE] == true {
            return Self::Any;
        }
        if let Some(values) = schema.get("additionalProperties").filter(|v| v.is_object()) {
            return Self::Map(child(values));
        }
        match (&schema["type"], &schema["properties"], schema.get("items")) {
            (_, _, Some(items)) => Self::List(child(items)),
            (_, Value::Object(fields), _) => {
                let field = |(name, schema): (&String, &Value)| (name.clone(), child(schema));
                Self::Object(fields.iter().map(field).collect())
            }
            _ => Self::Any,
        }
    }

    fn field(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Object(fields) => fields.get(name).map(Arc::as_ref),
            Self::Any | Self::List(_) | Self::Map(_) => None,
        }
    }

    fn field_mut(&mut self, name: &str) -> Option<&mut Self> {
        match self {
            Self::Object(fields) => fields.get_mut(name).map(Arc::make_mut),
            Self::Any | Self::List(_) | Self::Map(_) => None,
        }
    }

    fn unknown_in(&self, value: &Value) -> Vec<Unknown> {
        let mut unknown = Vec::new();
        self.find(value, &mut String::new(), &mut unknown);
        unknown
    }

    fn find(&self, value: &Value, path: &mut String, unknown: &mut Vec<Unknown>) {
        let end = path.len();
        match (self, value) {
            (Self::Object(fields), Value::Object(written)) => {
                for (name, value) in written {
                    let dot = if path.is_empty() { "" } else { "." };
                    path.push_str(dot);
                    path.push_str(name);
                    match fields.get(name) {
                        Some(known) => known.find(value, path, unknown),
                        None => unknown.push(Unknown {
                            path: path.clone(),
                            suggestion: nearest_name(name, fields.keys().map(String::as_str))
                                .map(str::to_owned),
                        }),
                    }
                    path.truncate(end);
                }
            }
            (Self::Map(known), Value::Object(written)) => {
                for (name, value) in written {
                    path.push_str(&format!(".{name}"));
                    known.find(value, path, unknown);
                    path.truncate(end);
                }
            }
            (Self::List(known), Value::Array(items)) => {
                for (index, item) in items.iter().enumerate() {
                    path.push_str(&format!("[{index}]"));
                    known.find(item, path, unknown);
                    path.truncate(end);
                }
            }
            _ => {}
        }
    }

    /// Removes unknown fields, as the API server does.
    fn prune(&self, value: &mut Value) {
        match (self, value) {
            (Self::Object(fields), Value::Object(written)) => {
                written.retain(|name, value| fields.contains_key(name) && !value.is_null());
                for (name, value) in written {
                    if let Some(known) = fields.get(name) {
                        known.prune(value);
                    }
                }
            }
            (Self::List(known), Value::Array(items)) => {
                items.iter_mut().for_each(|item| known.prune(item));
            }
            _ => {}
        }
    }
}

fn object<const N: usize>(fields: [(&str, Arc<Known>); N]) -> Arc<Known> {
    let fields = fields.map(|(name, known)| (name.to_owned(), known));
    Arc::new(Known::Object(BTreeMap::from(fields)))
}

/// A whole resource with known fields.
fn resource<const N: usize>(fields: [(&str, Arc<Known>); N]) -> Known {
    let any = |name: &'static str| (name, Arc::new(Known::Any));
    let common = ["apiVersion", "kind", "status"].map(any).into_iter();
    let all = common.chain([("metadata", object(METADATA.map(any)))]).chain(fields);
    Known::Object(all.map(|(name, known)| (name.to_owned(), known)).collect())
}

fn application() -> &'static Known {
    static KNOWN: OnceLock<Known> = OnceLock::new();
    KNOWN.get_or_init(|| {
        let spec = Known::read(&crds::schema::<ApplicationSpec>());
        let operation = Known::read(&crds::schema::<Operation>());
        resource([("spec", Arc::new(spec)), ("operation", Arc::new(operation))])
    })
}

fn application_set() -> &'static Known {
    static KNOWN: OnceLock<Known> = OnceLock::new();
    KNOWN.get_or_init(|| {
        let mut spec = Known::read(&crds::schema::<ApplicationSetSpec>());
        nest(&mut spec);
        resource([("spec", Arc::new(spec))])
    })
}

fn policy() -> &'static Known {
    static KNOWN: OnceLock<Known> = OnceLock::new();
    KNOWN.get_or_init(|| {
        let spec = Known::read(&crds::schema::<RolloutPolicySpec>());
        resource([("spec", Arc::new(spec))])
    })
}

/// Gives the templates of generators the fields of the set's template, and the children
/// of matrix and merge the fields of a generator, two levels deep. They share one
/// description.
fn nest(spec: &mut Known) {
    let own = spec.field("template").and_then(|template| template.field("spec")).cloned();
    let own = Arc::new(own.unwrap_or(Known::Any));
    let Some(Known::List(generator)) = spec.field_mut("generators") else { return };
    let Known::Object(kinds) = Arc::make_mut(generator) else { return };
    for kind in kinds.values_mut().map(Arc::make_mut) {
        if let Some(Known::Object(template)) = kind.field_mut("template") {
            template.insert("spec".to_owned(), Arc::clone(&own));
        }
    }
    let mut inner = kinds.clone();
    inner.retain(|name, _| !matches!(name.as_str(), "matrix" | "merge"));
    let list = |generator| Arc::new(Known::List(Arc::new(Known::Object(generator))));
    let innermost = list(inner.clone());
    let keys = Arc::new(Known::List(Arc::new(Known::Any)));
    inner.insert("matrix".to_owned(), object([("generators", Arc::clone(&innermost))]));
    inner.insert("merge".to_owned(), object([("generators", innermost), ("mergeKeys", keys)]));
    let nested = list(inner);
    for name in ["matrix", "merge"] {
        let kind = kinds.get_mut(name).map(Arc::make_mut);
        if let Some(Known::Object(fields)) = kind {
            fields.insert("generators".to_owned(), Arc::clone(&nested));
        }
    }
}
