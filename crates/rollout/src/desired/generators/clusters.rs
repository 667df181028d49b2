//! The clusters generator: one parameter set per registered cluster (AS-060 to AS-063).

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::element::{Element, Failure, kind};
use super::scope::{Generator, GeneratorScope};
use crate::desired::texts::Texts;
use gotemplate::normalize_name;
use wavegate_api::cluster::{ClusterSecret, IN_CLUSTER_NAME, IN_CLUSTER_SERVER};
use wavegate_api::selector::Selector;

/// The clusters generator.
pub struct FromClusters;

impl Generator for FromClusters {
    fn key(&self) -> &'static str {
        "clusters"
    }

    fn fields(&self) -> &'static [&'static str] {
        &["selector", "values", "flatList", "template"]
    }

    /// By name, and by server for equal names. Without a selector, the cluster of the
    /// controller is one of them, also without a Secret.
    fn generate(
        &self,
        generator: &Value,
        scope: &mut GeneratorScope<'_, '_>,
    ) -> Result<Vec<Element>, Failure> {
        let selector = Selector::read_of_labels(&generator["selector"])
            .map_err(|cause| Failure::new("selector", cause))?;
        let flat = match &generator["flatList"] {
            Value::Null => false,
            Value::Bool(flat) => *flat,
            other => {
                let cause = format!("must be a boolean, is {}", kind(other));
                return Err(Failure::new("flatList", cause));
            }
        };
        let secrets = scope.clusters();
        let mut clusters: Vec<&ClusterSecret> =
            secrets.iter().filter(|cluster| selector.selects(&cluster.labels)).collect();
        if selector.is_empty() || flat {
            scope.found_secrets(!clusters.is_empty());
        }
        let local = ClusterSecret {
            name: IN_CLUSTER_NAME.to_owned(),
            server: IN_CLUSTER_SERVER.to_owned(),
            ..ClusterSecret::default()
        };
        let has_local = clusters.iter().any(|cluster| cluster.server == IN_CLUSTER_SERVER);
        let adds_local = selector.is_empty() && !has_local;
        if adds_local {
            clusters.push(&local);
        }
        clusters.sort_by_key(|cluster| (&cluster.name, &cluster.server));
        let mut elements = Vec::with_capacity(clusters.len());
        for cluster in clusters {
            let has_secret = !(adds_local && std::ptr::eq(cluster, &raw const local));
            let mut values = parameters(cluster, has_secret, scope.is_go());
            let mut texts = if has_secret { Texts::METADATA } else { Texts::default() };
            scope.add_values(generator, &mut values, &mut texts)?;
            scope.count(&values)?;
            elements.push(Element { field: format!("[{}]", cluster.name), values, texts });
        }
        if flat {
            let texts = elements.iter().fold(Texts::default(), |all, set| all.and(set.texts));
            let list: Vec<Value> = elements.into_iter().map(|set| set.values.into()).collect();
            let values = Map::from_iter([("clusters".to_owned(), list.into())]);
            return Ok(vec![Element { field: String::new(), values, texts: texts.in_clusters() }]);
        }
        Ok(elements)
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
