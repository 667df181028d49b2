//! The managed resources of an Application (CA-340 … CA-350).

use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value};

use super::mask;
use super::node::place;
use crate::{ComparedResource, compare_objects};
use wavegate_api::raw::edit_metadata;
use wavegate_api::tracking::Tracking;
use wavegate_api::{Raw, ResourceKey};
use wavegate_engine::diff;

/// A managed resource as readers expect it: its states are JSON in strings, `null` for what
/// does not exist.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceDiff {
    #[serde(skip_serializing_if = "String::is_empty")]
    group: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    namespace: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    name: String,
    target_state: String,
    live_state: String,
    normalized_live_state: String,
    predicted_live_state: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    resource_version: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    modified: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    hook: bool,
}

/// The rows of a comparison, sorted. `annotations` are those whose values are masked in
/// Secrets.
pub fn compared_rows(
    resources: &[ComparedResource],
    tracking: &Tracking,
    config: &diff::DiffConfig,
    annotations: &[String],
) -> Vec<ResourceDiff> {
    let mut resources: Vec<&ComparedResource> = resources.iter().collect();
    resources.sort_by_cached_key(|resource| place(&resource.key));
    resources.into_iter().map(|resource| row(resource, tracking, config, annotations)).collect()
}

fn row(
    resource: &ComparedResource,
    tracking: &Tracking,
    config: &diff::DiffConfig,
    annotations: &[String],
) -> ResourceDiff {
    let ResourceKey { group, kind, namespace, name } = resource.key.clone();
    let resource_version = resource.live.as_deref().map_or("", Raw::resource_version).to_owned();
    let is_hook = resource.is_hook() && resource.live.is_some();
    // A live hook is not compared with its manifest, which each sync makes anew.
    let (mut target, mut live) = (resource.target.clone(), resource.live.clone());
    if is_hook {
        target = None;
    }
    let is_secret = [&target, &live].into_iter().flatten().any(|state| diff::is_secret(state));
    if is_secret {
        let masked = mask::secrets(target.as_deref(), live.as_deref(), annotations);
        (target, live) = (masked.0.map(Arc::new), masked.1.map(Arc::new));
    }
    let text = |state: &Option<Arc<Value>>| {
        state.as_ref().map_or_else(|| "null".to_owned(), |state| state.to_string())
    };
    let (target_state, live_state) = (text(&target), text(&live));
    let (normalized_live_state, predicted_live_state, modified) = match (&target, &live) {
        (Some(target), Some(live)) => {
            let values = if is_secret { diff::Values::Masked } else { diff::Values::Plain };
            // A prediction of a Secret has its values.
            let predicted = resource.predicted.as_deref().filter(|_| !is_secret);
            let compared = compare_objects(tracking, config, (target, live), predicted, values);
            let modified = match resource.predicted {
                Some(_) => resource.modified,
                None => compared.modified,
            };
            // As there, annotations of which nothing is left are an empty map on both sides: that
            // is what the API server finds when it predicts a change itself.
            let is_annotated = live.annotations().is_some_and(|all| !all.is_empty());
            let shown = |mut state: Value| {
                edit_metadata(&mut state, |metadata| {
                    if is_annotated && !metadata.contains_key("annotations") {
                        metadata.insert("annotations".to_owned(), Value::Object(Map::new()));
                    }
                });
                state.to_string()
            };
            (shown(compared.live), shown(compared.predicted), modified)
        }
        (Some(_), None) => ("null".to_owned(), target_state.clone(), true),
        (None, _) => (live_state.clone(), "null".to_owned(), false),
    };
    ResourceDiff {
        group,
        kind,
        namespace,
        name,
        target_state,
        live_state,
        normalized_live_state,
        predicted_live_state,
        resource_version,
        modified,
        hook: is_hook,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use wavegate_engine::sync::{ObjectClass, classify_hook};

    fn object(kind: &str, data: &str, annotations: &Value) -> Value {
        json!({"apiVersion": "v1", "kind": kind, "data": {"a": data},
            "metadata": {"name": "o", "namespace": "n", "annotations": annotations}})
    }

    /// A compared object, with what the comparison and the server say.
    fn compared(
        target: Option<Value>,
        live: Option<Value>,
        modified: bool,
        predicted: Option<Value>,
    ) -> ComparedResource {
        let either = target.as_ref().or(live.as_ref());
        let kind = either.map_or("", |one| one["kind"].as_str().unwrap()).to_owned();
        let class = either.map_or(ObjectClass::Resource, classify_hook);
        let [target, live, predicted] = [target, live, predicted].map(|one| one.map(Arc::new));
        ComparedResource {
            key: ResourceKey::new("", &kind, "n", "o"),
            version: "v1".to_owned(),
            target,
            live,
            class,
            modified,
            is_comparable: true,
            predicted,
            health: None,
            self_referenced: true,
            permitted: true,
            managed_namespace: false,
        }
    }

    fn shown(resource: ComparedResource) -> Value {
        let rows =
            compared_rows(&[resource], &Tracking::default(), &diff::DiffConfig::default(), &[]);
        let mut row = serde_json::to_value(&rows).unwrap()[0].take();
        for state in ["targetState", "liveState", "normalizedLiveState", "predictedLiveState"] {
            row[state] = serde_json::from_str(row[state].as_str().unwrap()).unwrap();
        }
        row
    }

    /// Each side that exists, and what a sync would make of it (CA-340 … CA-346).
    #[test]
    fn a_row_has_the_states_of_both_sides_ca_340() {
        let map = |data: &str| object("ConfigMap", data, &json!({}));
        let versioned = |mut object: Value| {
            object["metadata"]["resourceVersion"] = "7".into();
            object
        };
        let states = |row: &Value| {
            let data = |state: &str| row[state]["data"]["a"].as_str().unwrap_or("-").to_owned();
            let all = ["targetState", "liveState", "normalizedLiveState", "predictedLiveState"];
            let flag = |name: &str| row[name].as_bool().unwrap_or_default();
            (all.map(data).join(" "), flag("modified"), flag("hook"))
        };
        let hook =
            |data: &str| object("ConfigMap", data, &json!({"argocd.argoproj.io/hook": "Sync"}));
        for (name, resource, want) in [
            (
                "alike",
                compared(Some(map("1")), Some(map("1")), false, None),
                ("1 1 1 1", false, false),
            ),
            (
                "changed",
                compared(Some(map("1")), Some(map("2")), false, None),
                ("1 2 2 1", true, false),
            ),
            ("missing", compared(Some(map("1")), None, false, None), ("1 - - 1", true, false)),
            ("extraneous", compared(None, Some(map("2")), true, None), ("- 2 2 -", false, false)),
            // The comparison knows whether what the server predicts is a difference.
            (
                "predicted",
                compared(Some(map("1")), Some(map("2")), false, Some(map("2"))),
                ("1 2 2 1", false, false),
            ),
            (
                "predicted to change",
                compared(Some(map("1")), Some(map("1")), true, Some(map("3"))),
                ("1 1 1 1", true, false),
            ),
            (
                "a hook that runs",
                compared(Some(hook("1")), Some(hook("2")), false, None),
                ("- 2 2 -", false, true),
            ),
            (
                "a hook to come",
                compared(Some(hook("1")), None, false, None),
                ("1 - - 1", true, false),
            ),
        ] {
            let found = states(&shown(resource));
            assert_eq!((found.0.as_str(), found.1, found.2), want, "{name}");
        }
        let row = shown(compared(Some(map("1")), Some(versioned(map("1"))), false, None));
        for (field, want) in
            [("kind", "ConfigMap"), ("namespace", "n"), ("name", "o"), ("resourceVersion", "7")]
        {
            assert_eq!(row[field], want, "{field}");
        }
    }

    /// The values of a Secret leave the process as masks, also as the server predicts them
    /// (CA-350).
    #[test]
    fn values_of_a_secret_are_masked_ca_350() {
        let secret = |data: &str| object("Secret", data, &json!({}));
        for (target, live) in [
            (Some(secret("MQ==")), Some(secret("Mg=="))),
            (Some(secret("MQ==")), None),
            (None, Some(secret("Mg=="))),
        ] {
            let text = shown(compared(target, live, true, Some(secret("Mw==")))).to_string();
            assert!(!["MQ==", "Mg==", "Mw=="].iter().any(|value| text.contains(value)), "{text}");
            assert!(text.contains("++++"), "{text}");
        }
    }

    /// Annotations of which nothing is left are an empty map, if the object has any.
    #[test]
    fn annotations_stay_a_map() {
        let id = "argocd.argoproj.io/tracking-id";
        let row = |annotations: Value| {
            let bare = object("ConfigMap", "1", &Value::Null);
            shown(compared(Some(bare), Some(object("ConfigMap", "1", &annotations)), false, None))
        };
        for (annotations, want) in
            [(json!({}), false), (json!({"a": "b"}), true), (json!({id: "x"}), true)]
        {
            for state in ["normalizedLiveState", "predictedLiveState"] {
                let row = row(annotations.clone());
                let found = row[state]["metadata"].get("annotations").is_some();
                assert_eq!(found, want, "{state} {annotations} {row}");
            }
        }
    }

    /// Rows are sorted by what they are about.
    #[test]
    fn rows_are_sorted_ca_340() {
        let named = |name: &str| {
            let mut one = compared(None, Some(object("ConfigMap", "1", &json!({}))), false, None);
            one.key.name = name.to_owned();
            one
        };
        let rows = compared_rows(
            &[named("b"), named("a")],
            &Tracking::default(),
            &diff::DiffConfig::default(),
            &[],
        );
        assert_eq!(rows.iter().map(|row| row.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    }
}
