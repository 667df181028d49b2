//! Live metadata of an Application that is preserved (AS-154 to AS-156).

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use wavegate_api::application_set::PreservedFields;
use wavegate_api::{Raw, annotations};

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
    pub fn new(of_set: &PreservedFields, annotations: &[String], labels: &[String]) -> Self {
        let always = ALWAYS.iter().map(|key| (*key).to_owned());
        Self {
            annotations: always
                .chain(of_set.annotations.iter().chain(annotations).cloned())
                .collect(),
            labels: of_set.labels.iter().chain(labels).cloned().collect(),
        }
    }

    /// The annotations to write.
    pub fn annotations(&self, generated: &Value, live: &Value) -> Value {
        let (generated, live) = (generated.annotations(), live.annotations());
        let mut merged = merged(generated, live, &self.annotations);
        // The request of a template was obeyed, and removed: it would be obeyed without an end.
        if live.and_then(|live| live.get(annotations::REFRESH)).is_none_or(Value::is_null) {
            merged.remove(annotations::REFRESH);
        }
        merged.into()
    }

    /// The labels to write.
    pub fn labels(&self, generated: &Value, live: &Value) -> Value {
        merged(generated.labels(), live.labels(), &self.labels).into()
    }
}

type Fields = Map<String, Value>;

fn merged(generated: Option<&Fields>, live: Option<&Fields>, kept: &BTreeSet<String>) -> Fields {
    let mut merged = generated.cloned().unwrap_or_default();
    let live = live.into_iter().flatten().filter(|(key, _)| kept.contains(*key));
    merged.extend(live.map(|(key, value)| (key.clone(), value.clone())));
    merged
}

/// The generated finalizers, and the live ones of deletion hooks.
pub fn merged_finalizers(generated: &Value, live: &Value) -> Value {
    let of = |object: &Value| object.items("/metadata/finalizers").to_vec();
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
