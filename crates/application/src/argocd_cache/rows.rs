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
