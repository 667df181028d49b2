//! The facts of a pass: from a spec to targets and live objects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tokio::time::Instant;

use super::context::{Context, Memory, Rendered};
use super::projects::Project;
use crate::api::ObjectKey;
use crate::api::annotations::{CLIENT_SIDE_APPLY_MIGRATION_MANAGER, COMPARE_OPTIONS, annotation};
use crate::api::kind::{GroupVersionKind, Served};
use crate::api::path_segment;
use crate::api::sync_options::CREATE_NAMESPACE;
use crate::api::time::from_rfc3339;
use crate::api::tracking::Tracking;
use crate::api::{ApplicationSource, ApplicationSpec, ResourceKey};
use crate::decide::app_state::project::Permits;
use crate::decide::app_state::refresh::Level;
use crate::decide::app_state::{Condition, Facts, Placed, Scope, project, spec, targets};
use crate::decide::diff;
use crate::decide::sync::NamespaceFact;
use crate::decide::windows::{self, Verdict};
use crate::source::{self, RenderFor, Revision};
use crate::watch::clusters::Destinated;

/// The most warnings about manifests that are reported; each is a condition.
const MAX_WARNINGS: usize = 10;

/// Why the facts cannot be had.
#[derive(Clone, Debug)]
pub enum Trouble {
    /// The spec is not valid or not permitted.
    Spec(Vec<Condition>),
    /// Revision or manifests cannot be read; `transient` when the same request
    /// may succeed later.
    Source {
        /// What happened.
        message: String,
        /// Whether trying again may help.
        transient: bool,
    },
    /// The cluster cannot be read.
    Live(String),
}

impl Trouble {
    /// What the status says about it.
    pub fn conditions(&self) -> Vec<Condition> {
        match self {
            Self::Spec(conditions) => conditions.clone(),
            Self::Source { message, .. } => {
                vec![Condition::comparison(format!("Failed to load target state: {message}"))]
            }
            Self::Live(message) => {
                vec![Condition::comparison(format!("Failed to load live state: {message}"))]
            }
        }
    }

    /// In one line, for an operation.
    pub fn message(&self) -> String {
        let conditions = self.conditions();
        let all: Vec<&str> = conditions.iter().map(|c| c.message.as_str()).collect();
        all.join("; ")
    }
}

/// Where an Application goes, and what it may do there.
#[derive(Clone, Debug)]
pub struct Destination {
    /// The typed spec.
    pub spec: ApplicationSpec,
    /// The cluster.
    pub destination: Destinated,
    /// The project.
    pub project: Arc<Project>,
    /// Its name.
    pub project_name: String,
}

impl Destination {
    /// What the project permits there.
    pub fn permits(&self) -> Permits<'_> {
        let Destinated { server, name, .. } = &self.destination;
        Permits { project: &self.project.spec, server, cluster: name }
    }
}

/// What should exist, and what does.
#[derive(Clone, Debug)]
pub struct ClusterState {
    /// What should exist.
    pub placed: Arc<Placed>,
    /// What the cluster says about the kinds of it.
    pub kinds: BTreeMap<GroupVersionKind, Served>,
    /// What exists: tracked objects and those that a target names.
    pub live: BTreeMap<ResourceKey, Arc<Value>>,
}

/// Reads the spec and checks it (SE-031).
pub async fn place(
    ctx: &Context,
    key: &ObjectKey,
    application: &Value,
) -> Result<Destination, Trouble> {
    let read = crate::api::read::<ApplicationSpec>(&application["spec"]);
    let spec = read
        .map_err(|error| Trouble::Spec(vec![Condition::invalid_spec(format!("spec.{error}"))]))?;
    let problems = spec::problems(&spec);
    if !problems.is_empty() {
        return Err(Trouble::Spec(problems));
    }
    let invalid = |message: String| Trouble::Spec(vec![Condition::invalid_spec(message)]);
    let project_name = match spec.project.as_str() {
        "" => "default".to_owned(),
        name => name.to_owned(),
    };
    let project = match ctx.projects.get(&project_name) {
        Some(Ok(project)) => project,
        Some(Err(reason)) => {
            return Err(invalid(format!("project {project_name} cannot be read: {reason}")));
        }
        None => {
            return Err(invalid(format!(
                "Application referencing project {project_name} which does not exist"
            )));
        }
    };
    let control_plane = &ctx.settings.control_plane_namespace;
    if !project::permits_application(&project.spec, &key.namespace, control_plane) {
        let denied = Condition::new(
            crate::api::conditions::application::UNKNOWN_ERROR,
            format!(
                "application '{}' in namespace '{}' is not permitted to use project '{project_name}'",
                key.name, key.namespace
            ),
        );
        let warnings = project.warnings(&project_name);
        return Err(Trouble::Spec([denied].into_iter().chain(warnings).collect()));
    }
    let resolved = ctx.clusters.resolve(&spec.destination).await;
    let destination = resolved.map_err(|error| {
        let field = if spec.destination.name.is_empty() { "server" } else { "name" };
        invalid(format!("spec.destination.{field}: {error}"))
    })?;
    let (server, name) = (&destination.server, &destination.name);
    let mut denials = spec::denials(&spec, &project_name, &project.spec, server, name);
    if project.spec.permit_only_project_scoped_clusters && destination.project != project_name {
        denials.push(Condition::invalid_spec(format!(
            "cluster '{name}' is not reserved for project '{project_name}', which permits only \
             such clusters"
        )));
    }
    if !denials.is_empty() {
        denials.extend(project.warnings(&project_name));
        return Err(Trouble::Spec(denials));
    }
    Ok(Destination { spec, destination, project, project_name })
}

/// How new a revision has to be, by the level of the request (SE-376).
pub fn freshness(ctx: &Context, level: Level, asked_at: Instant) -> Duration {
    match level {
        // Any answer that was trigger for after the request.
        Level::Newest => asked_at.elapsed(),
        Level::Revision | Level::Live | Level::None => {
            let quarter = ctx.settings.reconciliation_timeout / 4;
            if quarter.is_zero() { Duration::from_secs(30) } else { quarter }
        }
    }
}

/// The commits that sources mean. `known` are those to take as they are.
pub async fn revisions(
    ctx: &Context,
    key: &ObjectKey,
    sources: &[ApplicationSource],
    known: &[String],
    fresh: Duration,
) -> Result<Vec<Revision>, Trouble> {
    let mut revisions = Vec::new();
    for (index, source) in sources.iter().enumerate() {
        if let Some(sha) = known.get(index).filter(|sha| is_commit(sha)) {
            revisions.push(Revision::pinned(sha));
            continue;
        }
        let mut source = source.clone();
        if let Some(revision) = known.get(index).filter(|revision| !revision.is_empty()) {
            source.target_revision.clone_from(revision);
        }
        let credentials = ctx.credentials.of(&source.repo_url);
        let resolved = ctx.revisions.resolve(key, &source, credentials.as_ref(), fresh);
        let resolved = ctx.aside(resolved).await;
        revisions.push(resolved.map_err(of_source)?);
    }
    Ok(revisions)
}

fn is_commit(revision: &str) -> bool {
    matches!(revision.len(), 40 | 64) && revision.bytes().all(|b| b.is_ascii_hexdigit())
}

fn of_source(error: source::Error) -> Trouble {
    Trouble::Source { transient: error.is_transient(), message: error.to_string() }
}

/// Renders sources, or takes what was rendered from the same before (SE-106).
pub async fn manifests(
    ctx: &Context,
    key: &ObjectKey,
    memory: &mut Memory,
    raw_sources: &[Value],
    revisions: &[Revision],
    namespace: &str,
    anew: bool,
) -> Result<Rendered, Trouble> {
    let shas: Vec<&str> = revisions.iter().map(|revision| revision.sha.as_str()).collect();
    let from = serde_json::json!([raw_sources, shas, namespace]).to_string();
    if !anew && let Some(kept) = memory.rendering(&from) {
        let kept = kept.clone();
        ctx.bound_renderings(key, memory);
        return Ok(kept);
    }
    if raw_sources.len() != revisions.len() {
        // A source without a revision would count as one without manifests.
        let (sources, revisions) = (raw_sources.len(), revisions.len());
        let message = format!("{revisions} revisions are known for {sources} sources");
        return Err(Trouble::Source { message, transient: true });
    }
    let mut checkouts = Vec::new();
    let mut references = BTreeMap::new();
    for (raw, revision) in raw_sources.iter().zip(revisions) {
        let url = raw["repoURL"].as_str().unwrap_or_default();
        let credentials = ctx.credentials.of(url);
        let checkout = ctx.sources.checkout(url, revision, credentials.as_ref());
        let checkout = ctx.aside(checkout).await.map_err(of_source)?;
        if let Some(name) = raw["ref"].as_str().filter(|name| !name.is_empty()) {
            references.insert(name.to_owned(), checkout.clone());
        }
        checkouts.push(checkout);
    }
    let (application, namespace) = (key.name.clone(), namespace.to_owned());
    let memory_limit = ctx.settings.manifest_memory;
    let mut subject = RenderFor { application, namespace, references, memory: memory_limit };
    let (mut all, mut types, mut warnings) = (Vec::new(), Vec::new(), Vec::new());
    let mut weight = 0;
    for (raw, checkout) in raw_sources.iter().zip(&checkouts) {
        let rendered = source::render(checkout, raw, &subject, &ctx.settings.render).await;
        let rendered = rendered
            .map_err(|error| Trouble::Source { message: error.to_string(), transient: false })?;
        types.push(rendered.source_type.map_or("", |t| t.as_str()).to_owned());
        warnings.extend(rendered.warnings);
        for manifest in rendered.manifests {
            if let Some(problem) = path_segment::problem_of_object(&manifest.object) {
                let at = format!("{}: line {}", manifest.file, manifest.line);
                let message = format!("{at}: {problem}; correct the manifest");
                return Err(Trouble::Source { message, transient: false });
            }
            weight += crate::yaml::weight(&manifest.object);
            all.push(Arc::new(manifest.object));
        }
        // All sources of an Application share one limit.
        subject.memory = ctx.settings.manifest_memory.saturating_sub(weight);
    }
    warnings.truncate(MAX_WARNINGS);
    let (manifests, warnings) = (Arc::new(all), Arc::new(warnings));
    let rendered = Rendered { from, manifests, types, warnings, weight, placed: None };
    memory.keep(rendered.clone());
    ctx.bound_renderings(key, memory);
    memory.rendered_at = Some(Instant::now());
    Ok(rendered)
}

/// Places manifests in the cluster and reads what exists.
pub async fn world(
    memory: &mut Memory,
    application: &Value,
    place: &Destination,
    rendered: &Rendered,
    tracking: &Tracking,
) -> Result<ClusterState, Trouble> {
    let cluster = &place.destination.cluster;
    let live_trouble = |error: crate::watch::cluster_cache::Error| Trouble::Live(error.to_string());
    let wanted: BTreeSet<GroupVersionKind> = rendered
        .manifests
        .iter()
        .map(|manifest| crate::watch::cluster_cache::kind_of(manifest))
        .collect();
    let kinds = cluster.kinds(&tracking.instance, wanted).await.map_err(live_trouble)?;
    // Where a kind belongs must be known before anything is decided about it.
    let silent = kinds.iter().find_map(|(kind, found)| match found {
        Served::Failed(reason) => Some(format!("cannot look up {}: {reason}", kind.kind)),
        Served::Namespaced | Served::ClusterScoped | Served::Missing { .. } => None,
    });
    if let Some(reason) = silent {
        return Err(Trouble::Live(reason));
    }
    let placed = placed(memory, place, rendered, tracking, &kinds);

    if memory.cluster.as_ref().is_some_and(|old| !Arc::ptr_eq(old, cluster))
        && let Some(old) = memory.cluster.take()
    {
        old.want(&tracking.instance, BTreeSet::new());
    }
    memory.cluster = Some(cluster.clone());
    let mut keys: BTreeSet<ResourceKey> =
        placed.targets.iter().map(|target| target.key.clone()).collect();
    let namespace = &place.spec.destination.namespace;
    keys.insert(ResourceKey::new("", "Namespace", "", namespace));
    cluster.want(&tracking.instance, keys);

    let exists =
        |kind: &&GroupVersionKind| !matches!(kinds.get(kind), Some(Served::Missing { .. }));
    let mut watched: BTreeSet<GroupVersionKind> = kinds.keys().filter(exists).cloned().collect();
    watched.extend(inventory(application));
    watched.extend(cluster.marked(&tracking.instance));
    watched.insert(namespaces());
    cluster.watch(watched).await.map_err(live_trouble)?;

    let mut live = cluster.tracked(&tracking.instance);
    for target in placed.targets.iter().filter(|target| !target.key.name.is_empty()) {
        let kind = crate::watch::cluster_cache::kind_of(&target.object);
        if let Some(found) = cluster.get(&kind, &target.key).await.map_err(live_trouble)? {
            live.insert(target.key.clone(), found);
        }
    }
    Ok(ClusterState { placed, kinds, live })
}

/// Whether the namespace of the destination exists, and itself where the sync
/// may have to change it.
pub async fn namespace(place: &Destination, whole: bool) -> (NamespaceFact, Option<Arc<Value>>) {
    let key = ResourceKey::new("", "Namespace", "", &place.spec.destination.namespace);
    let cluster = &place.destination.cluster;
    if key.name.is_empty() || !cluster.exists(&namespaces(), &key) {
        return (NamespaceFact::Missing, None);
    }
    if !whole {
        return (NamespaceFact::Exists, None);
    }
    match cluster.get(&namespaces(), &key).await {
        Ok(Some(found)) => (NamespaceFact::Exists, Some(found)),
        Ok(None) => (NamespaceFact::Missing, None),
        Err(error) => (NamespaceFact::Failed(error.to_string()), None),
    }
}

fn namespaces() -> GroupVersionKind {
    let [group, version, kind] = ["", "v1", "Namespace"].map(str::to_owned);
    GroupVersionKind { group, version, kind }
}

/// Places manifests, or takes what was placed in the same way before, so that
/// unchanged targets stay the very same objects.
fn placed(
    memory: &mut Memory,
    place: &Destination,
    rendered: &Rendered,
    tracking: &Tracking,
    kinds: &BTreeMap<GroupVersionKind, Served>,
) -> Arc<Placed> {
    let namespace = &place.spec.destination.namespace;
    if let Some((by, at, placed)) = &rendered.placed
        && by == kinds
        && at == namespace
    {
        return placed.clone();
    }
    let scope = |group: &str, version: &str, kind: &str| {
        let [group, version, kind] = [group, version, kind].map(str::to_owned);
        match kinds.get(&GroupVersionKind { group, version, kind }) {
            Some(Served::Namespaced) => Scope::Namespaced,
            Some(Served::ClusterScoped) => Scope::Cluster,
            Some(Served::Missing { .. } | Served::Failed(_)) | None => Scope::Unknown,
        }
    };
    let placed = Arc::new(targets::place(&rendered.manifests, namespace, tracking, &scope));
    if let Some(kept) = memory.rendering(&rendered.from) {
        kept.placed = Some((kinds.clone(), namespace.clone(), placed.clone()));
    }
    placed
}

/// Kinds of everything that the Application is known to have: what is no
/// longer in the source is found by them.
fn inventory(application: &Value) -> BTreeSet<GroupVersionKind> {
    let status = &application["status"];
    let lists = [&status["resources"], &status["operationState"]["syncResult"]["resources"]];
    let items = lists.into_iter().filter_map(Value::as_array).flatten();
    let text = |item: &Value, field: &str| item[field].as_str().unwrap_or_default().to_owned();
    let kinds = items.map(|item| GroupVersionKind {
        group: text(item, "group"),
        version: text(item, "version"),
        kind: text(item, "kind"),
    });
    kinds.filter(|kind| !kind.kind.is_empty() && !kind.version.is_empty()).collect()
}

/// What to ignore; problems in the rules are conditions.
pub fn rules(memory: &mut Memory, application: &Value) -> (diff::Config, Vec<Condition>) {
    let (config, problems) = diff::Config::from_application(application);
    let said = serde_json::json!([
        application["spec"]["ignoreDifferences"],
        application["spec"]["syncPolicy"]["syncOptions"],
        annotation(application, COMPARE_OPTIONS),
        annotation(application, CLIENT_SIDE_APPLY_MIGRATION_MANAGER),
    ]);
    if memory.rules != said {
        memory.diffs.clear();
        memory.rules = said;
    }
    let conditions = problems.iter().map(|problem| Condition::comparison(problem.to_string()));
    (config, conditions.collect())
}

/// Whether `managedNamespaceMetadata` is not what the last sync applied.
pub fn namespace_metadata_changed(application: &Value) -> bool {
    let policy = &application["spec"]["syncPolicy"];
    let wanted = &policy["managedNamespaceMetadata"];
    let result = &application["status"]["operationState"]["syncResult"];
    let creates = policy["syncOptions"]
        .as_array()
        .is_some_and(|options| options.iter().any(|option| option == CREATE_NAMESPACE));
    creates && result.is_object() && *wanted != result["managedNamespaceMetadata"]
}

/// The facts of a comparison.
pub fn facts<'a>(
    ctx: &'a Context,
    application: &'a Value,
    place: &'a Destination,
    world: &'a ClusterState,
    tracking: &'a Tracking,
    config: &'a diff::Config,
) -> Facts<'a> {
    Facts {
        application,
        spec: &place.spec,
        tracking,
        control_plane_namespace: &ctx.settings.control_plane_namespace,
        targets: &world.placed.targets,
        live: &world.live,
        project: &place.project.spec,
        cluster: (&place.destination.server, &place.destination.name),
        config,
        namespace_metadata_changed: namespace_metadata_changed(application),
    }
}

/// Whether sync windows let an operation run (SE-406); for an automated sync
/// that is not running yet, without its state.
pub fn windows(
    key: &ObjectKey,
    place: &Destination,
    state: Option<&Value>,
    now: Timestamp,
) -> Verdict {
    let who = state.map(|state| &state["operation"]["initiatedBy"]);
    let username = who.and_then(|who| who["username"].as_str()).unwrap_or_default();
    let automated = who.is_none_or(|who| who["automated"] == true);
    let started_at = state.and_then(|state| from_rfc3339(state["startedAt"].as_str()?));
    let trigger = windows::Asked {
        application: &key.name,
        server: &place.destination.server,
        cluster: &place.destination.name,
        namespace: &place.spec.destination.namespace,
        manual: windows::is_manual(username, automated),
        started_at,
    };
    windows::judge(&place.project.windows, &trigger, windows::Semantics::default(), now)
}
