//! What Applications differ in from their sources, as `diff` and `plan` print it.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Value, json};

use super::field_change::FieldChange;
use super::summary;
use crate::cli::cluster::ClusterConnection;
use crate::cli::cluster::controller::Controller;
use crate::cli::console::error::Error;
use crate::cli::console::output;
use crate::cli::files::repositories::OpenedRepositories;
use crate::cli::tree::view::short;
use wavegate_api::kind::KindRef;
use wavegate_api::sync_options::SyncOptions;
use wavegate_api::{Raw, ResourceKey};
use wavegate_application::access;
use wavegate_controller::application::compare_once::{
    Comparer, ComparisonInputs, ComparisonOutcome, Difference,
};
use wavegate_engine::diff::{self, unified_diff};

/// Compares Applications with the settings of the controller of their control plane.
pub(in crate::cli) struct ControllerComparer<'a> {
    controller: &'a Controller,
    comparer: Comparer,
    /// Removed after the last comparison.
    _repositories: Arc<OpenedRepositories>,
}

impl<'a> ControllerComparer<'a> {
    /// One for Applications of these projects.
    pub fn new<'b>(
        connection: &ClusterConnection,
        controller: &'a Controller,
        repositories: &Arc<OpenedRepositories>,
        projects: impl IntoIterator<Item = &'b str>,
    ) -> Self {
        let mut settings = controller.applications.clone();
        settings.render.programs.environment = crate::cli::run::proxies();
        let names: BTreeSet<&str> = projects.into_iter().collect();
        if names.iter().any(|name| controller.project(name).is_none()) {
            // What permits everything inherits nothing.
            settings.global_projects = Arc::default();
        }
        let comparer = Comparer::new(&ComparisonInputs {
            client: connection.client().clone(),
            settings,
            sources: Arc::clone(&repositories.sources),
            projects: names.iter().flat_map(|name| with_global(controller, name)).collect(),
            secrets: controller.secrets().map(<[_]>::to_vec).unwrap_or_default(),
            trust: Arc::clone(&controller.trust),
        });
        Self { controller, comparer, _repositories: Arc::clone(repositories) }
    }

    /// Compares an Application. `revisions` are those of its sources; empty for those that it
    /// names.
    ///
    /// # Errors
    ///
    /// When it is refused, or source or cluster cannot be read.
    pub async fn outcome(
        &self,
        application: &Value,
        revisions: &[String],
    ) -> Result<ComparisonOutcome, Error> {
        let outcome = self.comparer.compare(application, revisions).await;
        outcome.map_err(|error| {
            let controller = self.controller;
            let namespace = &controller.applications.control_plane_namespace;
            let project = controller.project(access::project_of(application));
            let hint = match (project, controller.secrets()) {
                (Some(None), _) => format!(
                    " in the control plane {namespace}; select another one with \
                     --control-plane-namespace"
                ),
                (_, Err(_)) => {
                    " (the Secrets of clusters and repositories cannot be read)".to_owned()
                }
                _ => String::new(),
            };
            let place = format!("Application {}/{}", application.namespace(), application.name());
            Error::input("cannot compare", place, format!("{}{hint}", error.message()))
        })
    }
}

/// The data that is printed.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct Report {
    pub(super) namespace: String,
    pub(super) application: String,
    /// By source; a hash of the content of a directory.
    revisions: Vec<String>,
    /// Whether any resource differs.
    pub modified: bool,
    /// The number of compared resources.
    compared: usize,
    resources: Vec<Resource>,
    pub(super) conditions: Vec<Condition>,
    /// Resources that could not be read, as `Kind namespace/name: reason`.
    pub unread: Vec<String>,
    /// What was compared, for the summary.
    #[serde(skip)]
    with: String,
}

#[derive(Debug, Serialize)]
pub(super) struct Condition {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) message: String,
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

impl Report {
    /// What an outcome comes to for the resources that are `selected`; `with` is what was
    /// compared, for the summary, or nothing for the revisions.
    pub fn new(
        application: &Value,
        outcome: ComparisonOutcome,
        with: Option<String>,
        selected: &dyn Fn(&ResourceKey) -> bool,
    ) -> Self {
        let prunes = application.pointer("/spec/syncPolicy/automated/prune") == Some(&json!(true));
        let differences = outcome.differences.iter().filter(|one| selected(&one.resource.key));
        let resources: Vec<Resource> = differences.map(|one| resource(one, prunes)).collect();
        let unread = outcome.unread.iter().filter(|(key, _)| selected(key));
        let conditions = outcome.conditions.into_iter();
        Self {
            namespace: application.namespace().to_owned(),
            application: application.name().to_owned(),
            with: with.unwrap_or_else(|| revision_text(&outcome.revisions)),
            revisions: outcome.revisions,
            modified: !resources.is_empty(),
            compared: outcome.keys.iter().filter(|key| selected(key)).count(),
            resources,
            conditions: conditions
                .map(|condition| Condition { kind: condition.type_, message: condition.message })
                .collect(),
            unread: unread.map(|(key, why)| format!("{}: {why}", title(key))).collect(),
        }
    }

    /// How many resources differ in each way, such as `1 updated, 2 created`; empty for none.
    pub fn counts(&self) -> String {
        let ways = [
            (Action::Update, "updated"),
            (Action::Create, "created"),
            (Action::Prune, "pruned"),
            (Action::Keep, "only live"),
        ];
        let counted = ways.map(|(action, what)| (self.count(action), what)).into_iter();
        let counted = counted.filter(|(count, _)| *count > 0);
        counted.map(|(count, what)| format!("{count} {what}")).collect::<Vec<_>>().join(", ")
    }

    /// The resources that differ, as `Kind namespace/name`.
    pub fn titles(&self) -> impl Iterator<Item = String> + '_ {
        let key =
            |one: &Resource| ResourceKey::new(&one.group, &one.kind, &one.namespace, &one.name);
        self.resources.iter().map(move |one| title(&key(one)))
    }

    fn count(&self, action: Action) -> usize {
        self.resources.iter().filter(|one| one.action == action).count()
    }

    /// The differences, and a line that sums them up.
    pub fn text(&self) -> String {
        let colour = output::colour();
        let mut out = String::new();
        for resource in &self.resources {
            let key = ResourceKey::new(
                &resource.group,
                &resource.kind,
                &resource.namespace,
                &resource.name,
            );
            out.push_str(&output::line(&format!("==> {}: {}", title(&key), resource.note)));
            out.push_str(&output::printable_lines(&resource.text, colour));
            out.push('\n');
        }
        out + &output::line(&self.summary())
    }

    fn summary(&self) -> String {
        let count = |action| self.count(action);
        let Self { namespace, application, compared, with, .. } = self;
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

/// The project and its global projects; one that permits everything when it cannot be read,
/// since a user need not have the permission.
fn with_global(controller: &Controller, name: &str) -> Vec<Value> {
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
