//! The difference of two files: the changes that applying a manifest would make.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use super::field_change::FieldChange;
use crate::cli::console::error::{CHECK_FAILED, Error, note};
use crate::cli::console::output::{self, OutputArgs};
use crate::cli::files::fields;
use crate::cli::files::input::{self, FileObject};
use wavegate_api::Raw;
use wavegate_api::kind::KindRef;
use wavegate_api::raw::edit_metadata;
use wavegate_controller::config::comparison_settings;
use wavegate_engine::diff::{Comparison, DiffConfig, compare, unified_diff};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    /// Whether applying would change the object, or pruning would delete it.
    modified: bool,
    group: String,
    kind: String,
    namespace: String,
    name: String,
    changes: Vec<FieldChange>,
    /// The normalized live object.
    live: Value,
    /// The normalized predicted object.
    predicted: Value,
    /// Rules that failed for this object and were skipped.
    skipped_rules: Vec<String>,
}

/// Runs the command.
pub(super) fn run(
    desired: &Path,
    live: &Path,
    config: Option<&Path>,
    output: &OutputArgs,
) -> anyhow::Result<ExitCode> {
    let paths = [Some(desired), Some(live), config];
    if paths.into_iter().flatten().filter(|path| path.as_os_str() == "-").count() > 1 {
        let why = "standard input can be read only once";
        return Err(Error::input("cannot read", "--desired, --live, --config", why).into());
    }
    let place = format!("{}, {}", desired.display(), live.display());
    let desired = one(desired)?;
    let live = one(live)?;
    let config = read_config(config)?;
    let Some(object) = desired.as_ref().or(live.as_ref()) else {
        return Err(Error::input("cannot compare", place, "both are empty").into());
    };
    if let (Some(desired), Some(live)) = (&desired, &live) {
        check_same(desired, live)?;
    }
    let value = |object: &Option<FileObject>| object.as_ref().map(|object| object.value.clone());
    let comparison = compare(value(&desired).as_ref(), value(&live).as_ref(), &config);
    for rule in comparison.skipped_rules.iter().chain(&comparison.exhausted_rules) {
        note(rule);
    }
    let modified = comparison.modified || desired.is_none();
    let colour = output::colour();
    output.print(&report(&object.value, &comparison, modified), |_| {
        output::printable_lines(&unified_diff(&comparison, colour), colour)
    })?;
    Ok(if modified { ExitCode::from(CHECK_FAILED) } else { ExitCode::SUCCESS })
}

fn report(object: &Value, comparison: &Comparison, modified: bool) -> Report {
    let [group, kind, namespace, name] = identity(object);
    Report {
        modified,
        group,
        kind,
        namespace,
        name,
        changes: comparison.changes.iter().map(FieldChange::from).collect(),
        live: comparison.live.clone(),
        predicted: comparison.predicted.clone(),
        skipped_rules: [&*comparison.skipped_rules, &*comparison.exhausted_rules].concat(),
    }
}

/// The only object of a file; `None` when the file is empty.
fn one(path: &Path) -> Result<Option<FileObject>, Error> {
    let mut objects = input::objects_of(path)?;
    match objects.len() {
        0 | 1 => Ok(objects.pop().map(|mut object| {
            // An API server ignores it there.
            let is_cluster_scoped = KindRef::of(&object.value).is_cluster_scoped();
            if is_cluster_scoped {
                edit_metadata(&mut object.value, |metadata| drop(metadata.remove("namespace")));
            }
            object
        })),
        count => {
            let why = format!("contains {count} objects, expected one; split the file");
            Err(Error::input("cannot compare", path.display().to_string(), why))
        }
    }
}

fn read_config(path: Option<&Path>) -> Result<DiffConfig, Error> {
    let Some(path) = path else { return Ok(DiffConfig::default()) };
    let objects = input::objects_of(path)?;
    let of = |kind: &str| objects.iter().find(|object| object.value.kind() == kind);
    let (application, settings) = (of("Application"), of("ConfigMap"));
    if application.is_none() && settings.is_none() {
        let why = "contains no Application, and no ConfigMap argocd-cm";
        return Err(Error::input("cannot use --config", path.display().to_string(), why));
    }
    let unusable = |object: &FileObject, why: String| {
        Err(Error::input("cannot use --config", object.place(), why))
    };
    let jq = wavegate_controller::evaluator::limited_jq(wavegate_controller::evaluator::JQ_TIME);
    let system = match settings {
        None => Arc::default(),
        Some(map) => {
            let system = comparison_settings(&fields::data_of(&map.value), &jq);
            for warning in system.problems.iter().filter(|problem| !problem.is_error) {
                note(&warning.message);
            }
            if let Some(problem) = system.problems.iter().find(|problem| problem.is_error) {
                return unusable(map, problem.message.clone());
            }
            Arc::new(system)
        }
    };
    let nothing = Value::Null;
    let spec = application.map_or(&nothing, |application| &application.value);
    let (config, problems) = DiffConfig::with_settings(spec, &system, &jq);
    for warning in problems.iter().filter(|problem| !problem.is_error) {
        note(&warning.to_string());
    }
    match (problems.iter().find(|problem| problem.is_error), application) {
        (Some(problem), Some(application)) => {
            unusable(application, format!("{}: {}", problem.at, problem.message))
        }
        _ => Ok(config),
    }
}

/// Different objects cannot be compared.
fn check_same(desired: &FileObject, live: &FileObject) -> Result<(), Error> {
    let (one, other) = (identity(&desired.value), identity(&live.value));
    let namespaces_differ = one[2] != other[2] && !one[2].is_empty() && !other[2].is_empty();
    let same = one[0] == other[0] && one[1] == other[1] && one[3] == other[3];
    if !same || namespaces_differ {
        let place = format!("{}, {}", desired.place(), live.place());
        let why = format!("{} and {} are different objects", desired.title(), live.title());
        return Err(Error::input("cannot compare", place, why));
    }
    if fields::api_version(&desired.value) != fields::api_version(&live.value) {
        note(
            "the desired and the live object have different API versions, which are not converted",
        );
    }
    Ok(())
}

/// Group, kind, namespace and name.
fn identity(object: &Value) -> [String; 4] {
    [object.group(), object.kind(), object.namespace(), object.name()].map(str::to_owned)
}
