//! Generates the Applications of an ApplicationSet in a file, and validates them; used by
//! `render` and `plan`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;

use crate::cli::cluster::ClusterConnection;
use crate::cli::console::error::{Error, fault, note};
use crate::cli::files::facts::GeneratorFacts;
use crate::cli::files::input::{self, FileObject};
use wavegate_api::raw::edit_metadata;
use wavegate_api::unknown::{self, Unknown};
use wavegate_api::{self as api, ApplicationSet};
use wavegate_api::{Cluster, Raw};
use wavegate_application::access::project_of;
use wavegate_rollout::application_set;
use wavegate_rollout::application_set::generate::generated::{Collector, Generated};
use wavegate_rollout::application_set::generate::validate::{self, KnownTargets};
use wavegate_rollout::desired::Generation;
use wavegate_rollout::desired::inputs::Inputs;
use wavegate_rollout::rollout::steps::{Problem, StepStrategy};

/// Like [`generate_known`], but reports all unknown fields first, since they may be the
/// cause of an error.
pub(in crate::cli) async fn generate(
    set: &FileObject,
    facts: &mut GeneratorFacts,
) -> Result<Generation, Error> {
    let generated = generate_known(set, facts).await;
    let unknown = unknown::in_application_set(&set.value);
    match generated {
        Err(error) if !unknown.is_empty() => {
            report_unknown(set, &unknown);
            Err(error.into_check())
        }
        generated => generated,
    }
}

/// Reports unknown fields on standard error.
pub(in crate::cli) fn report_unknown(set: &FileObject, unknown: &[Unknown]) {
    for field in unknown {
        fault(&Error::check("invalid ApplicationSet", set.described(), field));
    }
}

/// Generates the Applications of a set, in name order.
///
/// Fails when the set is invalid, or when its generators or template fail.
pub(in crate::cli) async fn generate_known(
    set: &FileObject,
    facts: &mut GeneratorFacts,
) -> Result<Generation, Error> {
    if let Err(error) = api::read_typed::<ApplicationSet>(&set.value) {
        return Err(Error::input("cannot read", set.described(), error));
    }
    let place = || set.described();
    let generation = facts
        .generate(&set.value)
        .await
        .map_err(|error| Error::check("cannot generate", place(), error))?;
    match facts.missing_clusters(&generation) {
        None => {}
        Some(Ok(missing)) => note(&format!("{}: {missing}", place())),
        Some(Err(why)) => {
            let why = format!("the clusters generator needs the cluster Secrets: {why}");
            return Err(Error::input("cannot generate", place(), why));
        }
    }
    Ok(generation)
}

/// The ApplicationSets of the files, or without files the named one of the cluster, each
/// with its namespace.
pub(in crate::cli) async fn live_sets(
    cluster: &ClusterConnection,
    files: &[PathBuf],
    name: Option<&str>,
) -> Result<Vec<FileObject>, Error> {
    Ok(live_sets_and_policies(cluster, files, name).await?.0)
}

/// The same, and the RolloutPolicies of the files.
pub(in crate::cli) async fn live_sets_and_policies(
    cluster: &ClusterConnection,
    files: &[PathBuf],
    name: Option<&str>,
) -> Result<(Vec<FileObject>, Vec<Arc<Value>>), Error> {
    let (mut sets, policies) = if files.is_empty() {
        let stored = cluster.expect_application_set(name.unwrap_or_default()).await?;
        let file = "the cluster".to_owned();
        (vec![FileObject { file, line: 1, value: (*stored).clone() }], Vec::new())
    } else {
        let found = input::application_sets(files, name, Inputs::default(), "")?;
        (found.sets, found.policies)
    };
    for set in &mut sets {
        // Also an empty one is its own.
        if set.value.pointer("/metadata/namespace").is_some_and(Value::is_string) {
            continue;
        }
        // It would be applied to the namespace of the context, unless it is stored in the one
        // of the control plane.
        let namespace = cluster.namespace_of_set(set.value.name()).await?;
        edit_metadata(&mut set.value, |metadata| {
            metadata.insert("namespace".to_owned(), namespace.into());
        });
    }
    Ok((sets, policies))
}

/// The strategy of a set, and what is wrong with it.
pub(in crate::cli) fn strategy_of(set: &Value) -> (StepStrategy, Vec<Problem>) {
    StepStrategy::read(set.spec().get("strategy"))
}

/// Problems of generated Applications, by name, as far as they can be found without a
/// cluster: all projects and clusters are assumed to exist.
pub(in crate::cli) fn invalid(generation: &Generation) -> BTreeMap<String, String> {
    validate::validation_problems(generation, &assumed(generation))
}

/// An Application that two sets generate: which of them owns it would depend on chance.
pub(in crate::cli) fn of_two_sets(what: &str, application: &str, [one, other]: [&str; 2]) -> Error {
    let why = format!("ApplicationSets {one} and {other} generate it");
    Error::check(what, format!("Application {application}"), why)
}

/// The projects and clusters that Applications refer to.
pub(in crate::cli) fn assumed(generation: &Generation) -> KnownTargets {
    let mut known = KnownTargets::default();
    for application in &generation.applications {
        let text = |pointer: &str| application.text(pointer);
        known.projects.insert(project_of(application).to_owned());
        known.clusters.push(Cluster {
            name: text("/spec/destination/name").to_owned(),
            server: text("/spec/destination/server").trim_end_matches('/').to_owned(),
            ..Cluster::default()
        });
    }
    known.clusters.sort();
    // One cluster per name, whatever the server is.
    known.clusters.dedup_by(|a, b| !a.name.is_empty() && a.name == b.name || a == b);
    known
}

/// What a set generates, as the controller keeps it.
pub(in crate::cli) fn generated(
    set: &Value,
    generation: &Generation,
    rules: &application_set::DecisionSettings,
) -> Generated {
    let mut collector = Collector::new(set, rules);
    for (application, origin) in generation.applications.iter().zip(&generation.origins) {
        collector.add(application.clone(), origin);
    }
    collector.finish(set, rules, generation.reads.clone(), None)
}
