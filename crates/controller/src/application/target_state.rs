//! The target state: from sources to commits to manifests.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::Value;

use super::cached_state::Rendered;
use super::context::Context;
use super::destination::{ResolvedDestination, of_cluster};
use super::reconciliation::Reconciliation;
use crate::credentials::RepositorySecrets;
use crate::runtime::Slots;
use crate::signed;
use wavegate_api::annotations::MANIFEST_GENERATE_PATHS;
use wavegate_api::path_segment;
use wavegate_api::{ApplicationSource, ObjectKey, Raw, read_leniently};
use wavegate_application::access::{self, Refusal, project_of};
use wavegate_application::errors::ObserveError;
use wavegate_application::signatures::Demands;
use wavegate_application::{NewCondition, operation};
use wavegate_source::{
    self as source, ChartCapabilities, ChartSource, Lend, RenderFor, RepositoryAccess, Revision,
    Signed, SourceType,
};

/// Maximum number of reported warnings about manifests; each is a condition.
const MAX_WARNINGS: usize = 10;

/// What an operation deploys.
pub(super) enum Deployed {
    /// The manifests of the request, and the revisions that it gives them.
    Manifests(Rendered, Vec<String>),
    /// Sources.
    Sources {
        /// As they are stored.
        raw: Vec<Value>,
        /// The same, typed.
        sources: Vec<ApplicationSource>,
        /// Their known commits; empty if they are to be resolved.
        known: Vec<String>,
    },
}

impl Reconciliation<'_> {
    /// Renders sources, or returns the cached rendering of the same inputs (SE-106). Charts
    /// depend on the version and the kinds of the destination, too.
    pub(super) async fn manifests(
        &mut self,
        raw_sources: &[Value],
        revisions: &[Revision],
        destination: &ResolvedDestination,
        hard: bool,
    ) -> Result<Rendered, ObserveError> {
        // On the heap: it would make the future of each reconcile larger.
        let refused = Box::pin(self.refused_commits(raw_sources, revisions, destination)).await?;
        if !refused.is_empty() {
            return Err(ObserveError::Refused(Refusal::of(refused)));
        }
        self.compared_manifests(raw_sources, revisions, destination, hard).await
    }

    /// The same, also of commits that are not signed as the project demands: they are compared, and
    /// nothing of them is deployed.
    pub(super) async fn compared_manifests(
        &mut self,
        raw_sources: &[Value],
        revisions: &[Revision],
        destination: &ResolvedDestination,
        hard: bool,
    ) -> Result<Rendered, ObserveError> {
        let (ctx, key) = (self.ctx, self.key);
        let namespace = destination.spec.destination.namespace.clone();
        let project = project_of(self.app.raw()).to_owned();
        let shas: Vec<&str> = revisions.iter().map(|revision| revision.sha.as_str()).collect();
        let programs = &ctx.settings.render.programs;
        // The project is part of the build environment.
        let configured = format!("{:?}", programs.kustomize_options);
        // It decides what plugins get.
        let generate_paths = self.app.raw().annotation(MANIFEST_GENERATE_PATHS);
        let generate_paths = generate_paths.filter(|_| programs.plugins.use_generate_paths);
        let generate_paths = generate_paths.unwrap_or_default().to_owned();
        let plain =
            serde_json::json!([raw_sources, shas, namespace, project, configured, generate_paths]);
        let from = Rendered::made_from(&plain);
        // What the project does not permit any more is refused by rendering it again.
        let may_use = |kept: &&Rendered| !hard && permits(destination, &kept.repositories);
        if let Some(kept) = self.cached.rendering(from).filter(may_use).cloned() {
            ctx.bound_renderings(key, self.cached);
            return Ok(kept);
        }
        let cluster = &destination.destination.cluster;
        // Without them, only a chart fails.
        let found = ctx.lend_slot(cluster.while_connected(cluster.capabilities())).await;
        let found = found.map_err(of_cluster)?.map_err(of_cluster);
        let asked = found.as_ref().map(|found| (&found.version, &found.api_versions[..])).ok();
        let from_chart = Rendered::made_from(&serde_json::json!([plain, asked]));
        if let Some(kept) = self.cached.rendering(from_chart).filter(may_use).cloned() {
            ctx.bound_renderings(key, self.cached);
            return Ok(kept);
        }
        if raw_sources.len() != revisions.len() {
            // A source without a revision would be skipped.
            let (sources, revisions) = (raw_sources.len(), revisions.len());
            let message = format!("{revisions} revisions are known for {sources} sources");
            return Err(ObserveError::Source { message, transient: true });
        }
        let access = Arc::new(PermittedRepositories {
            destination: destination.clone(),
            credentials: Arc::clone(&ctx.credentials),
            used: Mutex::default(),
        });
        let mut checkouts = Vec::new();
        let mut references = BTreeMap::new();
        for (raw, revision) in raw_sources.iter().zip(revisions) {
            let source: ApplicationSource = read_leniently(raw);
            let url = source.repo_url.as_str();
            let credentials = ctx.credentials.of(url, project_of(self.app.raw()));
            let chart = source.chart.as_str();
            let checkout = if chart.is_empty() && source::is_artifact(url) {
                let named = (url, revision.sha.as_str());
                ctx.lend_slot(ctx.sources.artifact(named, credentials.as_ref())).await
            } else if chart.is_empty() {
                let (sources, own) = (&ctx.sources, credentials.as_ref());
                match ctx.settings.submodules {
                    false => ctx.lend_slot(sources.checkout(url, revision, own)).await,
                    true => {
                        let read = sources.checkout_with_submodules(url, revision, own, &*access);
                        ctx.lend_slot(read).await
                    }
                }
            } else {
                let pass_credentials = source.helm.is_some_and(|helm| helm.pass_credentials);
                let version = &revision.sha;
                let chart = ChartSource { repo_url: url, chart, version, pass_credentials };
                // A hard refresh asks for it again: it may have been pushed again.
                ctx.lend_slot(ctx.sources.chart(&chart, credentials.as_ref(), hard)).await
            };
            let checkout = checkout.map_err(of_source)?;
            if !source.reference.is_empty() {
                references.insert(source.reference, checkout.clone());
            }
            checkouts.push(checkout);
        }
        let mut subject = RenderFor {
            application: key.name.clone(),
            namespace,
            instance: self.tracking.instance.clone(),
            project,
            cluster: found.as_ref().ok().map(|found| ChartCapabilities {
                kube_version: found.version.clone(),
                api_versions: found.api_versions.clone(),
            }),
            references,
            charts: Some(access.clone()),
            network: ctx.sources.network(Arc::new(LentSlot(ctx.slots.clone()))),
            generate_paths,
            memory: ctx.settings.manifest_memory,
        };
        let (mut all, mut types) = (Vec::new(), Vec::new());
        let (mut warnings, mut notes) = (Vec::new(), Vec::new());
        let mut weight = 0;
        for (raw, checkout) in raw_sources.iter().zip(&checkouts) {
            let rendered =
                source::render_source(checkout, raw, &subject, &ctx.settings.render).await;
            let rendered = rendered.map_err(|error| ObserveError::Source {
                message: error.to_string(),
                transient: error.is_transient(),
            })?;
            types.push(rendered.source_type.map_or("", |t| t.as_str()).to_owned());
            warnings.extend(rendered.warnings);
            notes.extend(rendered.notes);
            for manifest in rendered.manifests {
                if let Some(problem) = path_segment::problem_of_object(&manifest.object) {
                    let at = format!("{}: line {}", manifest.file, manifest.line);
                    let message = format!("{at}: {problem}; correct the manifest");
                    return Err(ObserveError::Source { message, transient: false });
                }
                weight += wavegate_api::yaml::value_weight(&manifest.object);
                all.push(ctx.shared.bytes(manifest.object.to_string().into_bytes()));
            }
            // The sources of an Application share one limit.
            subject.memory = ctx.settings.manifest_memory.saturating_sub(weight);
        }
        warnings.truncate(MAX_WARNINGS);
        notes.truncate(MAX_WARNINGS);
        let inflates = programs.kustomize_options.inflates_charts();
        let is_chart = types.iter().any(|kind| {
            // A plugin has them in its environment.
            [SourceType::Helm, SourceType::Plugin].iter().any(|one| kind == one.as_str())
                || (inflates && kind == SourceType::Kustomize.as_str())
        });
        if is_chart && let Err(error) = found {
            // It would be rendered for another cluster.
            return Err(error);
        }
        let from = if is_chart { from_chart } else { from };
        let (manifests, types) = (all.into(), types.into());
        let (warnings, notes) = (warnings.into(), notes.into());
        let repositories = access.used.lock().iter().cloned().collect();
        let rendered = Rendered { from, manifests, types, warnings, notes, repositories };
        self.cached.keep(rendered.clone());
        ctx.bound_renderings(key, self.cached);
        self.cached.memory.rendered_at = Some(ctx.now());
        Ok(rendered)
    }

    /// Why commits are not deployed that are not signed as the project demands (SE-080); empty when
    /// they are. Asked before each rendering, also before one that was kept: keys, project and the
    /// signature may have changed.
    pub(super) async fn refused_commits(
        &self,
        raw_sources: &[Value],
        revisions: &[Revision],
        destination: &ResolvedDestination,
    ) -> Result<Vec<NewCondition>, ObserveError> {
        let project_name = access::project_name(&destination.spec);
        let refused = |why: String| {
            let message = format!("AppProject {project_name}: {why}");
            ObserveError::Refused(Refusal::of(vec![NewCondition::comparison(message)]))
        };
        let demands = Demands::of(&destination.project.spec).map_err(refused)?;
        if !demands.any() {
            return Ok(Vec::new());
        }
        if raw_sources.len() != revisions.len() {
            let (sources, revisions) = (raw_sources.len(), revisions.len());
            return Err(refused(format!("{revisions} revisions are known for {sources} sources")));
        }
        // A request may name another revision than its sources, whose commit is pinned then.
        let state = &self.app.status.operation_state;
        let is_running = state.phase.is_running();
        let requested = if is_running { operation::requested_revisions(state) } else { Vec::new() };
        let mut problems = Vec::new();
        for (index, (raw, revision)) in raw_sources.iter().zip(revisions).enumerate() {
            let text = |field: &str| raw[field].as_str().unwrap_or_default();
            let url = text("repoURL");
            // As in Argo CD, only commits are signed.
            if !text("chart").is_empty() || source::is_artifact(url) {
                continue;
            }
            let Some(demand) = demands.about(url).map_err(refused)? else { continue };
            let of_operation = requested.get(index).filter(|name| !name.is_empty());
            let named = of_operation.map(String::as_str).into_iter();
            let named = named.chain([text("targetRevision")]);
            let revisions: Vec<&str> = named.chain(revision.reference.as_deref()).collect();
            let commit = Signed {
                repo_url: url,
                commit: &revision.sha,
                revisions: &revisions,
                tag_prefix: text("tagPrefix"),
            };
            let credentials = self.ctx.credentials.of(url, project_of(self.app.raw()));
            let keys = self.ctx.credentials.signing_keys();
            let sources = &self.ctx.sources;
            let check =
                signed::signature_problems(sources, &demand, &commit, &keys, credentials.as_ref());
            problems.extend(self.ctx.lend_slot(check).await.map_err(of_source)?);
        }
        Ok(problems.into_iter().map(NewCondition::comparison).collect())
    }

    /// Which sources the operation reads, and which of their commits are known: those pinned
    /// before, or those of the request (SE-374).
    pub(super) fn deployed(&self) -> Result<Deployed, ObserveError> {
        let raw = operation::operation_sources(&self.app);
        let state = &self.app.status.operation_state;
        let given = operation::requested_revisions(state);
        if let Some(rendered) = self.literal()? {
            return Ok(Deployed::Manifests(rendered, given));
        }
        let mut sources = Vec::new();
        for (index, raw) in raw.iter().enumerate() {
            let source = wavegate_api::read_typed::<ApplicationSource>(raw);
            let source = source.map_err(|error| format!("source {index}: {error}"));
            sources.push(source.map_err(ObserveError::Operation)?);
        }
        let pinned = operation::pinned_revisions(state);
        let known = if pinned.is_empty() { given } else { pinned };
        if !known.is_empty() && known.len() != sources.len() {
            let (revisions, sources) = (known.len(), sources.len());
            let message = format!(
                "operation.sync: {revisions} revisions are given for {sources} sources: name one \
                 for each source in operation.sync.revisions, or none"
            );
            return Err(ObserveError::Operation(message));
        }
        Ok(Deployed::Sources { raw, sources, known })
    }

    /// Manifests in the operation request itself (SE-046).
    pub(super) fn literal(&self) -> Result<Option<Rendered>, ObserveError> {
        let sync = self.app.status.operation_state.operation.sync.as_ref();
        let Some(sync) = sync.filter(|sync| !sync.manifests.is_empty()) else { return Ok(None) };
        let mut manifests: Vec<Arc<[u8]>> = Vec::new();
        for (index, text) in sync.manifests.iter().enumerate() {
            let documents = wavegate_api::yaml::parse_documents(text);
            let wrong = |error: &dyn std::fmt::Display| {
                ObserveError::Operation(format!("operation.sync.manifests[{index}]: {error}"))
            };
            for document in documents.map_err(|error| wrong(&error))? {
                for repeated in &document.repeated {
                    tracing::warn!("operation.sync.manifests[{index}]: {repeated}");
                }
                if let Some(problem) = path_segment::problem_of_object(&document.value) {
                    return Err(wrong(&problem));
                }
                manifests.push(document.value.to_string().into_bytes().into());
            }
        }
        let from = Rendered::made_from(&serde_json::json!(sync.manifests));
        Ok(Some(Rendered { from, manifests: manifests.into(), ..Rendered::default() }))
    }
}

/// The slot of a reconcile, for others while its rendering waits for a server.
#[derive(Debug)]
struct LentSlot(Slots);

impl Lend for LentSlot {
    fn lend<'a>(&'a self, work: BoxFuture<'a, ()>) -> BoxFuture<'a, ()> {
        Box::pin(self.0.lend_slot(work))
    }
}

/// The repositories that the project of an Application permits, for the dependencies of its
/// charts and for its submodules.
#[derive(Debug)]
struct PermittedRepositories {
    destination: ResolvedDestination,
    credentials: Arc<RepositorySecrets>,
    /// Those that were asked for and permitted.
    used: Mutex<BTreeSet<String>>,
}

/// Whether the project permits repositories.
fn permits(destination: &ResolvedDestination, repositories: &[String]) -> bool {
    let access = destination.access();
    repositories.iter().all(|url| access.denied_dependency(url).is_none())
}

impl RepositoryAccess for PermittedRepositories {
    fn credentials(&self, url: &str) -> Result<Option<source::RepoCredentials>, String> {
        let access = self.destination.access();
        match access.denied_dependency(url) {
            Some(condition) => Err(condition.message),
            None => {
                self.used.lock().insert(url.to_owned());
                Ok(self.credentials.of_dependency(url, access.project_name))
            }
        }
    }
}

/// The commits of the sources of an Application in `project`; `known` ones are not resolved
/// again.
pub(super) async fn revisions(
    ctx: &Context,
    (key, project): (&ObjectKey, &str),
    sources: &[ApplicationSource],
    known: &[String],
    fresh: Duration,
) -> Result<Vec<Revision>, ObserveError> {
    let mut revisions = Vec::new();
    for (index, source) in sources.iter().enumerate() {
        let is_git = source.chart.is_empty() && !source::is_artifact(&source.repo_url);
        if let Some(sha) = known.get(index).filter(|sha| is_git && is_commit(sha)) {
            revisions.push(Revision::pinned(sha));
            continue;
        }
        let mut source = source.clone();
        if let Some(revision) = known.get(index).filter(|revision| !revision.is_empty()) {
            source.target_revision.clone_from(revision);
        }
        let credentials = ctx.credentials.of(&source.repo_url, project);
        let resolved = ctx.revisions.resolve(key, &source, credentials.as_ref(), fresh);
        let resolved = ctx.lend_slot(resolved).await;
        revisions.push(resolved.map_err(of_source)?);
    }
    Ok(revisions)
}

fn of_source(error: source::SourceError) -> ObserveError {
    ObserveError::Source { transient: error.is_transient(), message: error.to_string() }
}

fn is_commit(revision: &str) -> bool {
    matches!(revision.len(), 40 | 64) && revision.bytes().all(|b| b.is_ascii_hexdigit())
}
