//! What was deployed last (ST-061).

use serde_json::Value;

use crate::normalize;
use wavegate_api::Raw;
use wavegate_api::sources::{InEffect, listed_revisions};

/// The revisions of the last deployment, if nothing but the revision of its sources differs from
/// the spec.
pub fn deployed_revisions(live: &Value) -> Option<Vec<String>> {
    let last = live.items("/status/history").last()?;
    let in_effect = InEffect::of(live.spec());
    let recorded = &last[in_effect.field];
    let is_same = recorded.is_null()
        || normalize::equal_parts(
            &without_revisions(&in_effect.value()),
            &without_revisions(recorded),
        );
    Some(listed_revisions(last)).filter(|revisions| is_same && !revisions.is_empty())
}

/// A spec, or sources, without the revisions that they name.
pub fn without_revisions(spec: &Value) -> Value {
    let mut spec = spec.clone();
    let remove = |source: &mut Value| {
        if let Some(source) = source.as_object_mut() {
            source.remove("targetRevision");
        }
    };
    match &mut spec {
        Value::Array(sources) => sources.iter_mut().for_each(remove),
        spec => {
            remove(spec);
            if let Some(source) = spec.get_mut("source") {
                remove(source);
            }
            let sources = spec.get_mut("sources").and_then(Value::as_array_mut);
            sources.into_iter().flatten().for_each(remove);
        }
    }
    spec
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_deployed_counts_unless_more_than_the_revision_differs_as_st_061() {
        let source = |path: &str, revision: &str| json!({"repoURL": "r", "path": path, "targetRevision": revision});
        let live = |spec: Value, last: Value| json!({"spec": spec, "status": {"history": [last]}});
        let one = |path, revision, recorded: Value| {
            live(
                json!({"source": source(path, revision)}),
                json!({"revision": "r1", "source": recorded}),
            )
        };
        let r1 = Some(vec!["r1".to_owned()]);
        let cases = [
            ("the same", one("p", "v1", source("p", "v1")), r1.clone()),
            ("another revision", one("p", "v2", source("p", "v1")), r1.clone()),
            ("not recorded", one("p", "v2", Value::Null), r1),
            ("another path", one("q", "v1", source("p", "v1")), None),
            ("no history", json!({"spec": {"source": source("p", "v1")}}), None),
            (
                "several",
                live(
                    json!({"sources": [source("p", "v2"), source("q", "v2")]}),
                    json!({"revisions": ["r1", "r2"], "sources": [source("p", "v1"), source("q", "v1")]}),
                ),
                Some(vec!["r1".to_owned(), "r2".to_owned()]),
            ),
        ];
        for (name, live, want) in cases {
            assert_eq!(deployed_revisions(&live), want, "{name}");
        }
    }
}
