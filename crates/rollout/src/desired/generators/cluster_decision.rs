//! The clusterDecisionResource generator: one parameter set per registered cluster that a
//! placement resource has decided on.

use serde_json::{Map, Value};

use super::clusters::cluster_of_controller;
use super::element::{Failure, kind, object, text};
use super::scope::{Generator, GeneratorScope, ParameterSets};
use crate::desired::queries::{Answer, Decisions, Query};
use crate::desired::texts::Texts;
use wavegate_api::cluster::{ClusterSecret, IN_CLUSTER_SERVER};
use wavegate_api::generators::LabelSelector;
use wavegate_api::read_leniently;
use wavegate_api::selector::Selector;

/// The clusterDecisionResource generator.
pub(super) static CLUSTER_DECISION: Generator = Generator {
    requeue_after: |inputs| inputs.requeue_after,
    ..Generator::new(
        "clusterDecisionResource",
        &["configMapRef", "name", "labelSelector", "requeueAfterSeconds", "values", "template"],
        generate,
    )
};

fn generate(generator: &Value, scope: &mut GeneratorScope<'_, '_>) -> ParameterSets {
    let config_map = text(generator, "configMapRef")?;
    if config_map.is_empty() {
        return Err(Failure::new("configMapRef", "is missing; write the name of a ConfigMap"));
    }
    let name = text(generator, "name")?;
    let selector = &generator["labelSelector"];
    let failed = |cause| Failure::new("labelSelector", cause);
    let is_empty = Selector::read_of_labels(selector).map_err(failed)?.is_empty();
    if name.is_empty() == is_empty {
        let cause = "write either name or labelSelector, which say which resource counts";
        return Err(Failure::new("", cause));
    }
    let query = Decisions {
        config_map: config_map.to_owned(),
        name: name.to_owned(),
        selector: if is_empty { String::new() } else { notation(selector).map_err(failed)? },
    };
    let Some(answer) = scope.ask(Query::Decisions(query))? else { return Ok(Vec::new()) };
    let Answer::Placements(found) = &*answer else {
        return Err(Failure::new("", "was answered with something else than resources"));
    };
    let clusters = clusters(scope);
    let mut elements = Vec::new();
    for (resource, list) in &found.resources {
        let decisions = match list {
            Value::Array(list) => list.as_slice(),
            Value::Null => {
                let key = &found.list_key;
                scope.warn(&format!(
                    "clusterDecisionResource: {resource} has no status.{key}, and counts as \
                     without decisions"
                ));
                &[]
            }
            other => {
                let cause = format!(
                    "status.{} of {resource} must be a list, is {}",
                    found.list_key,
                    kind(other)
                );
                return Err(Failure::new("", cause));
            }
        };
        for (index, decision) in decisions.iter().enumerate() {
            let place = format!("[{resource}][{index}]");
            let decision = object(decision, &place)?;
            let key = &found.match_key;
            let Some(cluster) = decision.get(key).and_then(Value::as_str) else {
                scope.warn(&format!("clusterDecisionResource{place}: has no text {key}"));
                continue;
            };
            let by = |field: fn(&ClusterSecret) -> &str| {
                clusters.iter().find(|one| field(one) == cluster)
            };
            let known = by(|one| &one.name).or_else(|| by(|one| &one.server));
            let Some(known) = known else {
                scope.warn(&format!(
                    "clusterDecisionResource{place}: cluster {cluster} is not registered"
                ));
                continue;
            };
            let mut values = Map::from_iter([
                ("name".to_owned(), known.name.as_str().into()),
                ("server".to_owned(), known.server.as_str().into()),
            ]);
            values.extend(scope.parameters_of(decision.clone()));
            elements.push(scope.element(generator, place, values, Texts::default())?);
        }
    }
    Ok(elements)
}

/// The registered clusters, and that of the controller.
fn clusters(scope: &mut GeneratorScope<'_, '_>) -> Vec<ClusterSecret> {
    let mut clusters = scope.clusters().to_vec();
    if !clusters.iter().any(|cluster| cluster.server == IN_CLUSTER_SERVER) {
        clusters.push(cluster_of_controller());
    }
    clusters
}

/// A label selector as the API server reads it.
fn notation(selector: &Value) -> Result<String, String> {
    let mut terms = Vec::new();
    let LabelSelector { match_labels, match_expressions, .. } = read_leniently(selector);
    for (key, value) in match_labels {
        terms.push(format!("{key}={value}"));
    }
    for expression in match_expressions {
        let (key, values) = (expression.key, expression.values.join(","));
        terms.push(match expression.operator.as_str() {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.to_owned(),
            "DoesNotExist" => format!("!{key}"),
            other => return Err(format!("{other:?} is not an operator")),
        });
    }
    Ok(terms.join(","))
}
