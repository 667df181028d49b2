//! Syncs that a user requests: the operation to write, and why none can start (SE-040 …
//! SE-049, SE-370).
//!
//! The controller decides whether and when an operation runs. What is checked here is what
//! a user should know before it is written.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::app::Fields;
use crate::deletion::asked_at;
use crate::operation::{OperationStage, of_spec, operation_stage};
use wavegate_api::annotations::is_skipped;
use wavegate_api::app_spec::AutomatedSync;
use wavegate_api::app_view::{
    ApplicationView, OperationStateView, ResourceView, SpecView, SyncPolicyView,
};
use wavegate_api::cluster::{IN_CLUSTER_NAME, IN_CLUSTER_SERVER};
use wavegate_api::operation::{RequestView, SyncOperationResource};
use wavegate_api::sources::InEffect;
use wavegate_api::sync_options::FORCE;
use wavegate_api::unknown::meant_hint;
use wavegate_api::{ApplicationDestination, Raw, ResourceKey, read_leniently};
use wavegate_engine::sync::{is_unknown_option, near_option};
use wavegate_engine::windows::{self, Evaluation};

/// Name of the item of `operation.info` that identifies a request.
pub const REQUEST_INFO: &str = "wavegate-sync";

/// What a user wants to sync.
#[derive(Clone, Debug, Default)]
pub struct SyncRequest {
    /// Revisions to sync to, one for each source; those of the spec when empty.
    pub revisions: Vec<String>,
    /// Whether resources that left the source are deleted.
    pub prune: bool,
    /// Whether nothing is changed.
    pub dry_run: bool,
    /// Whether resources that cannot be updated are deleted and created again.
    pub force: bool,
    /// Sync options in addition to those of the Application. An option replaces one of the
    /// Application with the same name.
    pub options: Vec<String>,
    /// Resources to sync, as written; all when empty.
    pub resources: Vec<String>,
    /// Additional items of `operation.info`, as written (`NAME=VALUE`).
    pub info: Vec<String>,
    /// Who requests it.
    pub username: String,
    /// Identifies the request.
    pub id: String,
}

/// Why an operation cannot be requested now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Another operation is running, or is requested; `since` is empty for the latter.
    Busy {
        /// Its phase; empty when it has not started.
        phase: String,
        /// Who requested it; empty when unknown.
        by: String,
        /// When it started; empty when it has not.
        since: String,
        /// What it is waiting for.
        message: String,
    },
    /// The Application is being deleted.
    Deleting,
    /// An annotation excludes the Application from reconciliation.
    Skipped,
}

/// Why no operation can be requested for an Application; `None` when one can.
pub fn operation_refusal(application: &Value) -> Option<Refusal> {
    if asked_at(application).is_some() {
        return Some(Refusal::Deleting);
    }
    if is_skipped(application) {
        return Some(Refusal::Skipped);
    }
    let ApplicationView { operation, status } = ApplicationView::of(application);
    let (state, operation) = match operation_stage(&Fields::of(application)) {
        OperationStage::Idle => return None,
        OperationStage::Requested => (OperationStateView::default(), operation),
        OperationStage::InProgress => {
            let operation = status.operation_state.operation.clone();
            (status.operation_state, operation)
        }
    };
    let by = match RequestView::of(&operation).initiated_by {
        by if by.automated && by.username.is_empty() => "automated sync".to_owned(),
        by => by.username,
    };
    let OperationStateView { phase, message, started_at, .. } = state;
    let since = started_at.as_str().unwrap_or_default().to_owned();
    Some(Refusal::Busy { phase, by, since, message })
}

/// What is wrong with a request: the field, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {why}")]
pub struct Invalid {
    /// The option of the command line.
    pub place: String,
    /// What is wrong, and what to do.
    pub why: String,
}

fn invalid(place: impl Into<String>, why: impl Into<String>) -> Invalid {
    Invalid { place: place.into(), why: why.into() }
}

/// The operation of a request: with the sync options and the retry strategy of the
/// Application, since an operation uses only its own (SE-304).
///
/// # Errors
///
/// [`Invalid`]: an unknown sync option or resource, or a revision that cannot be synced.
pub fn requested_operation(application: &Value, request: &SyncRequest) -> Result<Value, Invalid> {
    let spec = SpecView::of(application);
    let mut sync = Map::new();
    revisions(application, &spec.sync_policy, request, &mut sync)?;
    if request.prune {
        sync.insert("prune".to_owned(), true.into());
    }
    if request.dry_run {
        sync.insert("dryRun".to_owned(), true.into());
    }
    if request.force {
        sync.insert("syncStrategy".to_owned(), json!({"hook": {"force": true}}));
    }
    let options = options(&spec.sync_policy.sync_options, &request.options)?;
    if !options.is_empty() {
        sync.insert("syncOptions".to_owned(), options.into());
    }
    if !request.resources.is_empty() {
        let known: Vec<ResourceView> = ResourceView::rows(application).collect();
        let resources = resources(&known, &request.resources)?;
        sync.insert("resources".to_owned(), json!(resources));
    }
    let mut info = vec![json!({"name": REQUEST_INFO, "value": request.id})];
    for item in &request.info {
        let pair = item.split_once('=').filter(|(name, _)| !name.is_empty());
        let (name, value) =
            pair.ok_or_else(|| invalid(format!("--info {item}"), "must have the form NAME=VALUE"))?;
        info.push(json!({"name": name, "value": value}));
    }
    let mut operation = Map::new();
    operation.insert("initiatedBy".to_owned(), json!({"username": request.username}));
    operation.insert("info".to_owned(), info.into());
    operation.insert("sync".to_owned(), sync.into());
    if spec.sync_policy.retry.is_object() {
        operation.insert("retry".to_owned(), spec.sync_policy.retry);
    }
    Ok(operation.into())
}

fn revisions(
    application: &Value,
    policy: &SyncPolicyView,
    request: &SyncRequest,
    sync: &mut Map<String, Value>,
) -> Result<(), Invalid> {
    let given = &request.revisions;
    if given.is_empty() {
        return Ok(());
    }
    let spec = application.spec();
    // Those of the spec, not those of the last operation.
    let sources = of_spec(spec);
    if given.len() != sources.len() {
        let (given, sources) = (given.len(), sources.len());
        return Err(invalid(
            "--revision",
            format!(
                "{given} revisions are given for {sources} sources; give the option once for each \
                 source, or not at all"
            ),
        ));
    }
    let is_automated = policy.automated.as_ref().is_some_and(AutomatedSync::is_enabled);
    if is_automated && !request.dry_run {
        for (revision, source) in given.iter().zip(&sources) {
            let target = match source.field("targetRevision") {
                "" => "HEAD",
                target => target,
            };
            if revision != target {
                return Err(invalid(
                    format!("--revision {revision}"),
                    format!(
                        "automated sync is enabled and would sync back to {target}; change \
                         spec.source.targetRevision, or disable spec.syncPolicy.automated first"
                    ),
                ));
            }
        }
    }
    let many = InEffect::of(spec).is_list();
    match given.as_slice() {
        [revision] if !many => sync.insert("revision".to_owned(), revision.as_str().into()),
        all => sync.insert("revisions".to_owned(), json!(all)),
    };
    Ok(())
}

/// The sync options of an operation: those of the Application, and those given.
fn options(own: &[String], given: &[String]) -> Result<Vec<String>, Invalid> {
    for option in given {
        check_option(option)?;
    }
    let name = |option: &str| option.split('=').next().unwrap_or_default().trim().to_owned();
    let replaced: Vec<String> = given.iter().map(|option| name(option)).collect();
    let own = own.iter().filter(|option| !replaced.contains(&name(option)));
    Ok(own.chain(given).cloned().collect())
}

/// Checks a sync option.
///
/// # Errors
///
/// [`Invalid`] with the option that is meant, if one is near.
pub fn check_option(option: &str) -> Result<(), Invalid> {
    if option.trim() == FORCE {
        let why = "has an effect on resources only; use --force";
        return Err(invalid(format!("--option {option}"), why.to_owned()));
    }
    if !is_unknown_option(option) {
        return Ok(());
    }
    let hint = meant_hint(near_option(option).as_deref());
    Err(invalid(format!("--option {option}"), format!("is not a known sync option{hint}")))
}

/// A resource as written: `GROUP:KIND:[NAMESPACE/]NAME`; `*` selects all.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Selector<'a> {
    group: &'a str,
    kind: &'a str,
    /// `None` for any.
    namespace: Option<&'a str>,
    name: &'a str,
}

impl<'a> Selector<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let mut parts = text.splitn(3, ':');
        let (group, kind, name) = (parts.next()?, parts.next()?, parts.next()?);
        let (namespace, name) = match name.split_once('/') {
            Some((namespace, name)) => (Some(namespace), name),
            None => (None, name),
        };
        let complete = !kind.is_empty() && !name.is_empty() && !name.contains(['/', ':']);
        complete.then_some(Self { group, kind, namespace, name })
    }

    fn selects(&self, resource: &ResourceKey) -> bool {
        let is = |wanted: &str, found: &str| wanted == "*" || wanted == found;
        is(self.group, &resource.group)
            && is(self.kind, &resource.kind)
            && is(self.name, &resource.name)
            && self.namespace.is_none_or(|wanted| is(wanted, &resource.namespace))
    }
}

/// Whether one of the options, as written, selects a resource.
pub fn is_selected(given: &[String], resource: &ResourceKey) -> bool {
    given.iter().filter_map(|text| Selector::parse(text)).any(|one| one.selects(resource))
}

/// How a resource is written as an option.
fn written(ResourceKey { group, kind, namespace, name }: &ResourceKey) -> String {
    let slash = if namespace.is_empty() { "" } else { "/" };
    format!("{group}:{kind}:{namespace}{slash}{name}")
}

/// How many resources an error lists.
const LISTED: usize = 5;

fn resources(
    known: &[ResourceView],
    given: &[String],
) -> Result<Vec<SyncOperationResource>, Invalid> {
    let known = known.iter().filter(|resource| !resource.hook).map(ResourceView::key);
    let known: Vec<ResourceKey> = known.collect();
    let mut selected: Vec<SyncOperationResource> = Vec::new();
    for text in given {
        let place = format!("--resource {text}");
        let Some(selector) = Selector::parse(text) else {
            let why = "must have the form GROUP:KIND:NAME or GROUP:KIND:NAMESPACE/NAME, such as \
                       apps:Deployment:web or :Service:shop/web";
            return Err(invalid(place, why));
        };
        let mut found = known.iter().filter(|found| selector.selects(found)).peekable();
        if found.peek().is_none() {
            return Err(invalid(place, unknown_resource(text, &known)));
        }
        for ResourceKey { group, kind, namespace, name } in found.cloned() {
            let extra = Map::new();
            let one = SyncOperationResource { group, kind, name, namespace, extra };
            if !selected.contains(&one) {
                selected.push(one);
            }
        }
    }
    Ok(selected)
}

fn unknown_resource(text: &str, known: &[ResourceKey]) -> String {
    if known.is_empty() {
        return "the Application has no resources in its status yet; refresh it first".to_owned();
    }
    let wanted = text.to_lowercase();
    // The name counts twice, and the namespace may be left out.
    let distance = |resource: &ResourceKey| {
        let ResourceKey { group, kind, name, .. } = resource;
        let short = format!("{group}:{kind}:{name}").to_lowercase();
        let whole = written(resource).to_lowercase();
        let last = wanted.rsplit([':', '/']).next().unwrap_or_default();
        let place = strsim::levenshtein(&whole, &wanted).min(strsim::levenshtein(&short, &wanted));
        place + strsim::levenshtein(&name.to_lowercase(), last)
    };
    let mut near: Vec<&ResourceKey> = known.iter().collect();
    near.sort_by_cached_key(|resource| (distance(resource), written(resource)));
    let named: Vec<String> = near.into_iter().take(LISTED).map(written).collect();
    let rest = match known.len().saturating_sub(LISTED) {
        0 => String::new(),
        rest => format!(" and {rest} more"),
    };
    format!("there is no such resource, but {}{rest}", named.join(", "))
}

/// Whether an operation, or the state of one, was requested with this id.
pub fn is_request(operation: &Value, id: &str) -> bool {
    let info = RequestView::of(operation).info;
    info.iter().any(|item| item.name == REQUEST_INFO && item.value == id)
}

/// Whether the sync windows of its project allow a manual sync of an Application at `now`;
/// `project` is the raw AppProject. Names of clusters are those that the Application uses.
pub fn manual_window(application: &Value, project: &Value, now: Timestamp) -> Evaluation {
    let destination: ApplicationDestination =
        read_leniently(&SpecView::of(application).destination);
    let (mut server, mut cluster) = (destination.server.as_str(), destination.name.as_str());
    if server == IN_CLUSTER_SERVER {
        cluster = IN_CLUSTER_NAME;
    } else if server.is_empty() && cluster == IN_CLUSTER_NAME {
        server = IN_CLUSTER_SERVER;
    }
    let attempt = windows::SyncAttempt {
        application: application.name(),
        server,
        cluster,
        namespace: &destination.namespace,
        manual: true,
        started_at: None,
    };
    windows::evaluate(&windows::project_windows(project), &attempt, now)
}

#[cfg(test)]
mod tests;
