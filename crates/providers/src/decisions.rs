//! Placement resources of clusterDecisionResource generators.

use serde_json::Value;

use super::failure::ProviderError;
use super::objects::NamedKind;
use super::providers::{Asker, Providers};
use wavegate_api::Raw;
use wavegate_rollout::desired::queries::{Answer, Decisions, Placements};

/// Reads the resources. The ConfigMap and they are in the namespace of the control plane.
pub(super) async fn ask(
    providers: &Providers,
    query: &Decisions,
    asker: &Asker,
) -> Result<Answer, ProviderError> {
    let namespace = &asker.control_plane;
    let place = format!("ConfigMap {namespace}/{}", query.config_map);
    let data = providers.objects.config_map(namespace, &query.config_map).await?;
    let text = |key: &str| data.get(key).map(|text| text.trim()).unwrap_or_default();
    let required = |key: &str| match text(key) {
        "" => Err(ProviderError::new(format!("{place}: has no key {key}"))),
        text => Ok(text.to_owned()),
    };
    let api_version = required("apiVersion")?;
    let Some((group, version)) = api_version.split_once('/') else {
        let text = format!("{place}: apiVersion: must be a group and a version, as group/v1");
        return Err(ProviderError::new(text));
    };
    let kind =
        NamedKind { group: group.to_owned(), version: version.to_owned(), kind: required("kind")? };
    let match_key = required("matchKey")?;
    let list_key = Some(text("statusListKey")).filter(|key| !key.is_empty()).unwrap_or("clusters");
    let objects = providers.objects.list(namespace, &kind, &query.name, &query.selector).await?;
    if objects.is_empty() {
        let which = match query.name.is_empty() {
            true => format!("labels {}", query.selector),
            false => format!("name {}", query.name),
        };
        let NamedKind { kind, .. } = kind;
        let text = format!("no {kind} of {api_version} with the {which} in namespace {namespace}");
        return Err(ProviderError::new(text));
    }
    let mut resources: Vec<(String, Value)> = objects
        .into_iter()
        .map(|mut object| {
            let name = object.name().to_owned();
            let status = object.get_mut("status").map(Value::take).unwrap_or_default();
            (name, status.get(list_key).cloned().unwrap_or_default())
        })
        .collect();
    resources.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(Answer::Placements(Placements { match_key, list_key: list_key.to_owned(), resources }))
}
