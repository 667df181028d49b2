//! The difference of an Application: live against source.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Value, json};

use super::args::DiffArgs;
use super::field_change::FieldChange;
use super::summary;
use crate::cli::cluster::ClusterConnection;
use crate::cli::cluster::controller::Controller;
use crate::cli::cluster::live_app::control_plane_of;
use crate::cli::console::error::{CHECK_FAILED, Error, fault, note};
use crate::cli::console::output::{self, OutputArgs, OutputFormat};
use crate::cli::tree::view::short;
use wavegate_api::kind::KindRef;
use wavegate_api::sources::InEffect;
use wavegate_api::sync_options::SyncOptions;
use wavegate_api::{Raw, ResourceKey};
use wavegate_application::access;
use wavegate_controller::application::compare_once::{self, ComparisonInputs, Difference};
use wavegate_engine::diff::{self, unified_diff};
use wavegate_engine::names::some_of;
use wavegate_source::{self as source, Repositories};

/// Resources in a message.
const NAMED: usize = 5;

/// The data that is printed.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    namespace: String,
    application: String,
    /// By source; a hash of the content of a directory.
    revisions: Vec<String>,
    /// Whether any resource differs.
    modified: bool,
    /// The number of compared resources.
    compared: usize,
    resources: Vec<Resource>,
    conditions: Vec<Condition>,
    /// Resources that could not be read, as `Kind namespace/name: reason`.
    unread: Vec<String>,
    /// What was compared, for the summary.
    #[serde(skip)]
    with: String,
}

#[derive(Debug, Serialize)]
struct Condition {
    #[serde(rename = "type")]
    kind: &'static str,
    message: String,
}

/// What a sync would do to a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
enum Action {
    /// It is applied.
    Update,
    /// It is created.
    Create,
    /// It is deleted by a sync that prunes.
    Prune,
    /// It stays: its options exclude it from pruning.
    Keep,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Resource {
    action: Action,
    group: String,
    version: String,
    kind: String,
    namespace: String,
    name: String,
    changes: Vec<FieldChange>,
    /// The normalized live object; `null` when it does not exist.
    live: Value,
    /// The normalized object after a sync; `null` when it would be pruned.
    predicted: Value,
    skipped_rules: Vec<String>,
    #[serde(skip)]
    text: String,
    /// What the header says.
    #[serde(skip)]
    note: &'static str,
}

/// Compares an Application.
pub(super) async fn compare(
    connection: &ClusterConnection,
    args: &DiffArgs,
    application: &Value,
) -> Result<Report, Error> {
    let place = format!("Application {}/{}", application.namespace(), application.name());
    let controller = args.controller.in_namespace(&control_plane_of(application));
    let controller = Controller::read(connection, &controller).await?;
    let directory = args.local.as_deref().map(absolute).transpose()?;
    let count = InEffect::of(application.spec()).list.len();
    if !args.revisions.is_empty() && args.revisions.len() != count {
        let (given, s) = (args.revisions.len(), if count == 1 { "" } else { "s" });
        let why =
            format!("{given} given for {count} source{s}; give one for each source, in order");
        return Err(Error::input("cannot compare", format!("{place}: --revision"), why));
    }
    let folder = tempfile::Builder::new().prefix("wavegate-").tempdir();
    let opened = folder.map_err(|error| error.to_string()).and_then(|folder| {
        let artifacts = controller.applications.artifacts.clone();
        let sources = repositories(folder.path(), directory.is_some(), artifacts)?;
        Ok((folder, sources))
    });
    let (_folder, sources) = opened.map_err(|error| {
        Error::input("cannot read repositories", "a temporary directory", error)
    })?;
    let secrets = controller.secrets();
    let mut settings = controller.applications.clone();
    settings.render.programs.environment = crate::cli::run::proxies();
    let project_name = access::project_of(application);
    if controller.project(project_name).is_none() {
        // What permits everything inherits nothing.
        settings.global_projects = Arc::default();
    }
    let inputs = ComparisonInputs {
        client: connection.client().clone(),
        settings,
        sources,
        projects: projects(&controller, project_name),
        secrets: secrets.map(<[_]>::to_vec).unwrap_or_default(),
        trust: Arc::clone(&controller.trust),
        application: application.clone(),
        revisions: args.revisions.clone(),
        directory,
    };
    let outcome = compare_once::compare(inputs).await;
    let outcome = outcome.map_err(|error| {
        let namespace = &controller.applications.control_plane_namespace;
        let hint = match (controller.project(access::project_of(application)), &secrets) {
            (Some(None), _) => format!(
                " in the control plane {namespace}; select another one with \
                 --control-plane-namespace"
            ),
            (_, Err(_)) => " (the Secrets of clusters and repositories cannot be read)".to_owned(),
            _ => String::new(),
        };
        let why = format!("{}{hint}", error.message());
        Error::input("cannot compare", place.clone(), why)
    })?;

    for (kind, why) in &outcome.unlisted {
        note(&format!("other resources of the Application may exist: cannot list {kind}: {why}"));
    }
    let selected = |key: &ResourceKey| {
        args.resources.is_empty() || args.resources.iter().any(|filter| filter.selects(key))
    };
    let found = outcome.keys.iter().filter(|key| selected(key)).count();
    for filter in &args.resources {
        if !outcome.keys.iter().any(|key| filter.selects(key)) {
            let why = "no resource of the Application fits; see wavegate tree for its resources";
            return Err(Error::input("cannot compare", format!("--resource {filter}"), why));
        }
    }
    let prunes = application.pointer("/spec/syncPolicy/automated/prune") == Some(&json!(true));
    let differences = outcome.differences.iter().filter(|one| selected(&one.resource.key));
    let resources: Vec<Resource> = differences.map(|one| resource(one, prunes)).collect();
    let unread = outcome.unread.iter().filter(|(key, _)| selected(key));
    let unread = unread.map(|(key, why)| format!("{}: {why}", title(key))).collect();
    let conditions = outcome.conditions.into_iter();
    Ok(Report {
        namespace: application.namespace().to_owned(),
        application: application.name().to_owned(),
        with: match &args.local {
            Some(directory) => directory.display().to_string(),
            None => revision_text(&outcome.revisions),
        },
        revisions: outcome.revisions,
        modified: !resources.is_empty(),
        compared: found,
        resources,
        conditions: conditions
            .map(|condition| Condition { kind: condition.type_, message: condition.message })
            .collect(),
        unread,
    })
}

/// Prints a difference.
pub(super) fn print(report: &Report, output: &OutputArgs) -> anyhow::Result<ExitCode> {
    for condition in &report.conditions {
        note(&format!("{}: {}", condition.kind, condition.message));
    }
    // That nothing differs is not known when something cannot be read.
    let is_known = report.unread.is_empty() || report.modified;
    if is_known || output.format != OutputFormat::Table {
        output.print(report, text)?;
    }
    if !report.unread.is_empty() {
        let place = format!("Application {}/{}", report.namespace, report.application);
        let first = report.unread.iter().map(String::as_str);
        let error = Error::input("cannot compare all resources", place, some_of(first, NAMED));
        if !report.modified {
            return Err(error.into());
        }
        fault(&error);
    }
    Ok(if report.modified { ExitCode::from(CHECK_FAILED) } else { ExitCode::SUCCESS })
}

fn text(report: &Report) -> String {
    let colour = output::colour();
    let mut out = String::new();
    for resource in &report.resources {
        let key =
            ResourceKey::new(&resource.group, &resource.kind, &resource.namespace, &resource.name);
        out.push_str(&output::line(&format!("==> {}: {}", title(&key), resource.note)));
        out.push_str(&output::printable_lines(&resource.text, colour));
        out.push('\n');
    }
    out + &output::line(&summary(report))
}

fn summary(report: &Report) -> String {
    let count = |action| report.resources.iter().filter(|one| one.action == action).count();
    let Report { namespace, application, compared, with, .. } = report;
    let name = format!("Application {namespace}/{application}");
    summary::summary(
        &name,
        with,
        (*compared, "resource"),
        [
            (count(Action::Update), "would be updated"),
            (count(Action::Create), "would be created"),
            (count(Action::Prune), "would be pruned"),
            (count(Action::Keep), "only live"),
        ],
    )
}

fn resource(difference: &Difference, prunes: bool) -> Resource {
    let Difference { resource, comparison } = difference;
    let (action, note) = match (&resource.target, &resource.live) {
        (Some(_), None) => (Action::Create, "missing, would be created"),
        (None, Some(live)) => {
            let options = SyncOptions::of_object(live);
            match (options.has("Prune=false"), prunes) {
                (true, _) => (Action::Keep, "only live, and kept: it has the option Prune=false"),
                (false, true) => (Action::Prune, "only live, would be pruned"),
                (false, false) => {
                    (Action::Prune, "only live, would be pruned by a sync with prune")
                }
            }
        }
        _ => (Action::Update, "would be updated"),
    };
    let ResourceKey { group, kind, namespace, name } = resource.key.clone();
    let diff::Comparison { changes, live, predicted, skipped_rules, exhausted_rules, .. } =
        comparison;
    Resource {
        action,
        group,
        version: resource.version.clone(),
        kind,
        namespace,
        name,
        changes: changes.iter().map(FieldChange::from).collect(),
        live: live.clone(),
        predicted: predicted.clone(),
        skipped_rules: [skipped_rules.as_slice(), exhausted_rules.as_slice()].concat(),
        text: unified_diff(comparison, output::colour()),
        note,
    }
}

/// `Kind namespace/name`, with the group of a custom resource.
fn title(key: &ResourceKey) -> String {
    let ResourceKey { group, kind, namespace, name } = key;
    let custom = !KindRef { group, version: "", kind }.is_built_in();
    let group = if custom { format!(".{group}") } else { String::new() };
    let slash = if namespace.is_empty() { "" } else { "/" };
    format!("{kind}{group} {namespace}{slash}{name}")
}

fn revision_text(revisions: &[String]) -> String {
    let all: Vec<&str> = revisions.iter().map(|revision| short(revision)).collect();
    match all.as_slice() {
        [] => "the source".to_owned(),
        [one] => format!("revision {one}"),
        several => format!("revisions {}", several.join(" and ")),
    }
}

fn absolute(directory: &Path) -> Result<String, Error> {
    let failed = |why: &dyn std::fmt::Display| {
        Error::input("cannot read", format!("--local {}", directory.display()), why)
    };
    let path = directory.canonicalize().map_err(|error| failed(&error))?;
    if !path.is_dir() {
        return Err(failed(&"is not a directory"));
    }
    path.into_os_string().into_string().map_err(|_| failed(&"its path is not UTF-8"))
}

/// A user may read what is on their own machine. A directory given by the user is read as
/// it is, even if it is a repository.
fn repositories(
    folder: &Path,
    working_trees: bool,
    artifacts: source::ArtifactSettings,
) -> Result<Arc<Repositories>, String> {
    let mut settings =
        source::SourceSettings { working_trees, artifacts, ..source::SourceSettings::default() };
    settings.allow = source::Allow::EVERYTHING;
    settings.environment = crate::cli::run::proxies();
    let opened = Repositories::open(folder, settings);
    opened.map(Arc::new).map_err(|error| error.to_string())
}

/// The project and its global projects; one that permits everything when it cannot be read,
/// since a user need not have the permission.
fn projects(controller: &Controller, name: &str) -> Vec<Value> {
    match controller.project(name) {
        Some(Some(project)) => {
            let global = controller.global_projects(project);
            [project.clone()].into_iter().chain(global).collect()
        }
        Some(None) => Vec::new(),
        None => vec![json!({
            "apiVersion": wavegate_api::API_VERSION, "kind": "AppProject",
            "metadata": {
                "name": name,
                "namespace": controller.applications.control_plane_namespace,
                "uid": "assumed", "resourceVersion": "1",
            },
            "spec": {
                "sourceRepos": ["*"], "sourceNamespaces": ["*"],
                "destinations": [{"server": "*", "namespace": "*"}],
                "clusterResourceWhitelist": [{"group": "*", "kind": "*"}],
            },
        })],
    }
}
