//! Triggers of the Application controller: which Applications a change in the control
//! plane affects.

use k8s_openapi::api::core::v1::Secret;
use tokio::sync::mpsc::UnboundedReceiver;

use super::comparisons::repository_place;
use super::context::Context;
use crate::credentials::unknown_keys;
use wavegate_api::listed::{ListedApplication, ListedSpec};
use wavegate_api::{ObjectKey, Operation, Raw};
use wavegate_application::access;
use wavegate_application::request::{self, ComparisonRequest, Level};
use wavegate_cluster::watch::control_plane::{Kind, ObjectChange, Origin};
use wavegate_cluster::watch::object::StoredObject;
use wavegate_cluster::watch::secrets;
use wavegate_net::redact;

/// Triggers Applications until the changes end.
pub async fn run(ctx: &Context, mut changes: UnboundedReceiver<ObjectChange>) {
    while let Some(change) = changes.recv().await {
        match change.kind {
            Kind::Application => application(ctx, &change),
            Kind::Project => project(ctx, &change),
            Kind::Secret => secret(ctx, &change),
            Kind::ApplicationSet | Kind::Policy | Kind::Run => {}
        }
    }
}

/// Whether this controller handles an Application.
pub fn is_handled(ctx: &Context, key: &ObjectKey) -> bool {
    ctx.settings.covers(&key.namespace)
}

fn application(ctx: &Context, change: &ObjectChange) {
    if !is_handled(ctx, &change.key) {
        return;
    }
    // Own writes need no reconcile.
    if change.origin == Origin::Applications && change.new.is_some() {
        return;
    }
    let Some(new) = &change.new else {
        ctx.comparisons.forget(&change.key);
        ctx.queue.enqueue(&change.key, ComparisonRequest::default());
        ctx.terminating.notify_one();
        return;
    };
    let new = new.parse();
    redact::know_urls_of(new.spec());
    ctx.queue.belongs_to(&change.key, access::project_of(&new));
    let old = change.old.as_ref().map(StoredObject::parse);
    if old.as_ref().is_none_or(|old| old.spec() != new.spec()) {
        let spec: ListedSpec = wavegate_api::read_leniently(new.spec());
        ctx.comparisons.expect(&change.key, repositories(&spec));
    }
    if old.as_ref().is_none_or(|old| request::needs_reconcile(old, &new)) {
        // A rollout waits for the operations that it starts.
        match Operation::raw(&new).is_some() {
            true => ctx.queue.enqueue_first(&change.key, ComparisonRequest::default()),
            false => ctx.queue.enqueue(&change.key, ComparisonRequest::default()),
        }
        // It may refer to another project now.
        ctx.terminating.notify_one();
    }
}

/// Those of the sources of an Application.
fn repositories(spec: &ListedSpec) -> impl Iterator<Item = String> {
    let listed = spec.sources.iter().map(|source| source.repo_url.clone());
    listed.chain([spec.repository()]).map(|url| repository_place(&url))
}

/// Expects all Applications that are known at the start to be compared.
pub fn expect_all(ctx: &Context) {
    for object in ctx.core.control_plane.applications.all() {
        if is_handled(ctx, &object.key()) {
            let listed: ListedApplication = object.read_leniently();
            ctx.comparisons.expect(&object.key(), repositories(&listed.spec));
        }
    }
}

fn project(ctx: &Context, change: &ObjectChange) {
    for project in ctx.projects.affected(change) {
        for key in of_project(ctx, &project) {
            ctx.queue.enqueue(&key, ComparisonRequest::new(Level::Live));
        }
    }
    ctx.terminating.notify_one();
}

/// The Applications of a project that this controller handles.
pub fn of_project(ctx: &Context, project: &str) -> Vec<ObjectKey> {
    let is_of = |object: &StoredObject| {
        let read: ListedApplication = object.read_leniently();
        access::or_default(&read.spec.project) == project
    };
    let all = ctx.core.control_plane.applications.all().into_iter();
    all.filter(|object| is_handled(ctx, &object.key()) && is_of(object))
        .map(|object| object.key())
        .collect()
}

/// Reads the Secrets that are already in the cache.
pub fn take_secrets(ctx: &Context) {
    for secret in ctx.core.control_plane.secrets.all() {
        take_secret(ctx, None, secret.read().ok());
    }
}

fn secret(ctx: &Context, change: &ObjectChange) {
    let read = |object: &Option<StoredObject>| object.as_ref()?.read::<Secret>().ok();
    if !take_secret(ctx, read(&change.old), read(&change.new)) {
        return;
    }
    enqueue_all(ctx);
}

/// Triggers Applications when keys or certificates of Git servers change.
pub async fn run_trust(ctx: &Context) {
    ctx.core.control_plane.trust.follow_changes(|| enqueue_all(ctx)).await;
}

/// Clusters and credentials change rarely, and may affect any Application.
fn enqueue_all(ctx: &Context) {
    for key in ctx.core.control_plane.applications.keys() {
        if is_handled(ctx, &key) {
            ctx.queue.enqueue(&key, ComparisonRequest::new(Level::Live));
        }
    }
}

/// Reads a Secret. Returns whether Applications may depend on the change: of a cluster, not all
/// labels and annotations count.
fn take_secret(ctx: &Context, old: Option<Secret>, new: Option<Secret>) -> bool {
    let kind = |secret: &Option<Secret>| secret.as_ref().and_then(secrets::secret_kind);
    let (before, now) = (kind(&old), kind(&new));
    if let Some(old) = old.filter(|_| before != now) {
        ctx.credentials.remove(&old);
        ctx.clusters.remove(&old);
    }
    let mut counts = before.is_some() || now.is_some();
    if let Some(new) = &new {
        match now {
            Some(secrets::SecretKind::Cluster) => {
                let taken = ctx.clusters.put(new);
                report_unread(new, &taken.unread);
                counts = taken.counts || before != now;
            }
            _ => {
                let is_repository = ctx.credentials.put(new);
                let unknown = if is_repository { unknown_keys(new) } else { Vec::new() };
                if !unknown.is_empty() {
                    let secret = new.metadata.name.as_deref().unwrap_or_default();
                    tracing::warn!(secret, "keys of a repository that nothing reads: {unknown:?}");
                }
            }
        }
    }
    counts
}

/// Reports what nothing reads of the Secret of a cluster.
fn report_unread(secret: &Secret, unread: &[String]) {
    let name = secret.metadata.name.as_deref().unwrap_or_default();
    let (shard, unknown): (Vec<&String>, Vec<&String>) =
        unread.iter().partition(|key| *key == "shard");
    if !shard.is_empty() {
        let why = "one process handles all clusters";
        tracing::warn!(secret = name, "shard of a cluster is accepted without effect: {why}");
    }
    if !unknown.is_empty() {
        tracing::warn!(secret = name, "keys of a cluster that nothing reads: {unknown:?}");
    }
}
