//! Live metadata of an Application that is preserved (AS-154 to AS-156).

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use wavegate_api::annotations;

/// Annotations that are always preserved: other components write them.
const ALWAYS: [&str; 7] = [
    annotations::NOTIFIED,
    annotations::REFRESH,
    annotations::REFRESH_TIMESTAMP,
    annotations::HYDRATE,
    // A person writes it to an Application that waits for it.
    annotations::DELETION_APPROVED,
    annotations::ROLLOUT,
    annotations::RUN,
];

/// Finalizers of deletion hooks, preserved with any suffix after a `/`.
const HOOK_FINALIZERS: [&str; 2] =
    ["pre-delete-finalizer.argocd.argoproj.io", "post-delete-finalizer.argocd.argoproj.io"];

/// The keys whose live value overrides the generated one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preserve {
    annotations: BTreeSet<String>,
    labels: BTreeSet<String>,
}

impl Preserve {
    /// The keys of a set, and those of all sets.
    pub fn new(set: &Value, annotations: &[String], labels: &[String]) -> Self {
        let listed = |field: &str| {
            let keys = set["spec"]["preservedFields"][field].as_array().into_iter().flatten();
            keys.filter_map(|key| key.as_str().map(str::to_owned)).collect::<Vec<_>>()
        };
        let always = ALWAYS.iter().map(|key| (*key).to_owned());
        Self {
            annotations: always
                .chain(listed("annotations"))
                .chain(annotations.iter().cloned())
                .collect(),
            labels: listed("labels").into_iter().chain(labels.iter().cloned()).collect(),
        }
    }

    /// The annotations to write.
    pub fn annotations(&self, generated: &Value, live: &Value) -> Value {
        let mut merged = merged(generated, live, "annotations", &self.annotations);
        // The request of a template was obeyed, and removed: it would be obeyed without an end.
        if live["metadata"]["annotations"][annotations::REFRESH].is_null()
            && let Some(merged) = merged.as_object_mut()
        {
            merged.remove(annotations::REFRESH);
        }
        merged
    }

    /// The labels to write.
    pub fn labels(&self, generated: &Value, live: &Value) -> Value {
        merged(generated, live, "labels", &self.labels)
    }
}

fn merged(generated: &Value, live: &Value, field: &str, kept: &BTreeSet<String>) -> Value {
    let of = |object: &Value| object["metadata"][field].as_object().cloned().unwrap_or_default();
    let mut merged: Map<String, Value> = of(generated);
    merged.extend(of(live).into_iter().filter(|(key, _)| kept.contains(key)));
    Value::Object(merged)
}

/// The generated finalizers, and the live ones of deletion hooks.
pub fn finalizers(generated: &Value, live: &Value) -> Value {
    let of =
        |object: &Value| object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    let is_hook = |finalizer: &Value| {
        let text = finalizer.as_str().unwrap_or_default();
        HOOK_FINALIZERS.iter().any(|prefix| text.starts_with(prefix))
    };
    let mut finalizers = of(generated);
    for finalizer in of(live).into_iter().filter(is_hook) {
        if !finalizers.contains(&finalizer) {
            finalizers.push(finalizer);
        }
    }
    finalizers.into()
}
