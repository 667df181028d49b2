//! The clusters generator: one parameter set per registered cluster (AS-060 to AS-063).

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::element::{Element, Failure, switch};
use super::scope::{Generator, GeneratorScope, ParameterSets};
use crate::desired::texts::Texts;
use gotemplate::normalize_name;
use wavegate_api::cluster::{ClusterSecret, IN_CLUSTER_NAME, IN_CLUSTER_SERVER};
use wavegate_api::selector::Selector;

/// The clusters generator.
pub(super) static CLUSTERS: Generator =
    Generator::new("clusters", &["selector", "values", "flatList", "template"], generate);

/// By name, and by server for equal names. Without a selector, the cluster of the
/// controller is one of them, also without a Secret.
fn generate(generator: &Value, scope: &mut GeneratorScope<'_, '_>) -> ParameterSets {
    let selector = Selector::read_of_labels(&generator["selector"])
        .map_err(|cause| Failure::new("selector", cause))?;
    let flat = switch(generator, "flatList", false)?;
    let secrets = scope.clusters();
    let mut clusters: Vec<&ClusterSecret> =
        secrets.iter().filter(|cluster| selector.selects(&cluster.labels)).collect();
    if selector.is_empty() || flat {
        scope.found_secrets(!clusters.is_empty());
    }
    let local = cluster_of_controller();
    let has_local = clusters.iter().any(|cluster| cluster.server == IN_CLUSTER_SERVER);
    let adds_local = selector.is_empty() && !has_local;
    if adds_local {
        clusters.push(&local);
    }
    clusters.sort_by_key(|cluster| (&cluster.name, &cluster.server));
    let mut elements = Vec::with_capacity(clusters.len());
    for cluster in clusters {
        let has_secret = !(adds_local && std::ptr::eq(cluster, &raw const local));
        let values = parameters(cluster, has_secret, scope.is_go());
        let texts = if has_secret { Texts::METADATA } else { Texts::default() };
        elements.push(scope.element(generator, format!("[{}]", cluster.name), values, texts)?);
    }
    if flat {
        let texts = elements.iter().fold(Texts::default(), |all, set| all.and(set.texts));
        let list: Vec<Value> = elements.into_iter().map(|set| set.values.into()).collect();
        let values = Map::from_iter([("clusters".to_owned(), list.into())]);
        return Ok(vec![Element { field: String::new(), values, texts: texts.in_clusters() }]);
    }
    Ok(elements)
}

/// The cluster of the controller, which needs no Secret.
pub(super) fn cluster_of_controller() -> ClusterSecret {
    ClusterSecret {
        name: IN_CLUSTER_NAME.to_owned(),
        server: IN_CLUSTER_SERVER.to_owned(),
        ..ClusterSecret::default()
    }
}

/// The parameters of AS-062.
fn parameters(cluster: &ClusterSecret, has_secret: bool, go: bool) -> Map<String, Value> {
    let mut parameters = Map::new();
    let mut put = |key: &str, value: &str| parameters.insert(key.to_owned(), value.into());
    put("name", &cluster.name);
    put("nameNormalized", &normalize_name(&cluster.name));
    put("server", &cluster.server);
    put("project", &cluster.project);
    let metadata = [("labels", &cluster.labels), ("annotations", &cluster.annotations)];
    if !go {
        for (part, entries) in metadata {
            for (key, value) in entries {
                put(&format!("metadata.{part}.{key}"), value);
            }
        }
    } else if has_secret {
        let object = |entries: &BTreeMap<String, String>| -> Map<String, Value> {
            entries.iter().map(|(key, value)| (key.clone(), value.as_str().into())).collect()
        };
        let parts = metadata.into_iter().filter(|(_, entries)| !entries.is_empty());
        let parts: Map<String, Value> =
            parts.map(|(part, entries)| (part.to_owned(), object(entries).into())).collect();
        parameters.insert("metadata".to_owned(), parts.into());
    }
    parameters
}
