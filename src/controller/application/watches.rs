//! The watches of the control plane: Applications, projects, and Secrets of
//! clusters and repositories.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DynamicObject, ObjectMeta};
use kube::runtime::watcher;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::context::Context;
use super::error::Error;
use super::store::Change;
use crate::act::application_status;
use crate::api::AppProject;
use crate::api::ObjectKey;
use crate::api::annotations::{SECRET_TYPE_CLUSTER, SECRET_TYPE_LABEL};
use crate::decide::app_state::refresh::{Level, Request};
use crate::watch::cluster_cache::raw;
use crate::watch::failure::{has_code, reason};
use crate::watch::follow::{follow, told};

/// Objects per page of a listing.
const PAGE: u32 = 500;

/// Values of the label for repositories, and whether they are for many.
const REPOSITORIES: [(&str, bool); 2] = [("repository", false), ("repo-creds", true)];

/// Follows the control plane until `stop`.
///
/// # Errors
///
/// [`Error::Watch`] when the controller may not watch one of the kinds.
pub async fn run(ctx: Arc<Context>, stop: CancellationToken) -> Result<(), Error> {
    // Projects, clusters and credentials first: without them every
    // Application would look broken for a moment.
    let (projects_ready, projects) = tokio::sync::oneshot::channel();
    let (secrets_ready, secrets) = tokio::sync::oneshot::channel();
    let applications = async {
        let _ = projects.await;
        let _ = secrets.await;
        applications(&ctx).await
    };
    let follow = async {
        tokio::try_join!(
            follow_projects(&ctx, projects_ready),
            follow_secrets(&ctx, secrets_ready),
            applications
        )
    };
    match stop.run_until_cancelled(follow).await {
        Some(Err(error)) => Err(error),
        Some(Ok(_)) | None => Ok(()),
    }
}

fn config() -> watcher::Config {
    watcher::Config::default().page_size(PAGE)
}

type Ready = tokio::sync::oneshot::Sender<()>;

/// A failure that no retry mends.
fn fatal(what: &'static str, error: &watcher::Error) -> Option<Error> {
    let cause = match error {
        watcher::Error::InitialListFailed(cause) => cause,
        _ => return None,
    };
    has_code(cause, 403).then(|| Error::Watch { what, reason: reason(cause) })
}

async fn applications(ctx: &Context) -> Result<(), Error> {
    let resource = application_status::resource();
    let control_plane = &ctx.settings.control_plane_namespace;
    let api: Api<DynamicObject> = match ctx.settings.namespaces.is_empty() {
        true => Api::namespaced_with(ctx.client.0.clone(), control_plane, &resource),
        false => Api::all_with(ctx.client.0.clone(), &resource),
    };
    let mut events = told(follow(api, config()), "Applications".to_owned());
    let mut listed: BTreeSet<ObjectKey> = BTreeSet::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(watcher::Event::Init) => listed.clear(),
            Ok(watcher::Event::InitApply(object)) => {
                if let Some(key) = take(ctx, raw(object, &resource)) {
                    listed.insert(key);
                }
            }
            Ok(watcher::Event::InitDone) => {
                for key in ctx.store.applications() {
                    if !listed.contains(&key) && ctx.store.remove(&key, "") {
                        ctx.queue.wake(&key, Request::default());
                    }
                }
                ctx.leaving.notify_one();
            }
            Ok(watcher::Event::Apply(object)) => {
                take(ctx, raw(object, &resource));
            }
            Ok(watcher::Event::Delete(object)) => {
                let object = raw(object, &resource);
                let key = key_of(&object);
                let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
                if ctx.store.remove(&key, uid) {
                    ctx.queue.wake(&key, Request::default());
                    ctx.leaving.notify_one();
                }
            }
            Err(error) => {
                if let Some(error) = fatal("Applications", &error) {
                    return Err(error);
                }
            }
        }
    }
    Ok(())
}

fn key_of(object: &Value) -> ObjectKey {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    ObjectKey { namespace: text("namespace"), name: text("name") }
}

/// Takes over an Application and wakes it if anything counts.
fn take(ctx: &Context, object: Value) -> Option<ObjectKey> {
    let key = key_of(&object);
    let own = key.namespace == ctx.settings.control_plane_namespace;
    if !own && !ctx.settings.namespaces.matches(&key.namespace) {
        return None;
    }
    if ctx.store.put(&key, Arc::new(object)) == Change::Counts {
        ctx.queue.wake(&key, Request::default());
        // It may refer to another project now.
        ctx.leaving.notify_one();
    }
    Some(key)
}

async fn follow_projects(ctx: &Context, ready: Ready) -> Result<(), Error> {
    let resource = crate::watch::object::resource(AppProject::KIND);
    let namespace = &ctx.settings.control_plane_namespace;
    let api: Api<DynamicObject> = Api::namespaced_with(ctx.client.0.clone(), namespace, &resource);
    let mut events = told(follow(api, config()), "AppProjects".to_owned());
    let mut ready = Some(ready);
    let mut listed: BTreeSet<String> = BTreeSet::new();
    let wake = |name: &str| {
        for key in ctx.store.of_project(name) {
            ctx.queue.wake(&key, Request::new(Level::Live));
        }
    };
    let name_of = |object: &DynamicObject| object.metadata.name.clone().unwrap_or_default();
    while let Some(event) = events.next().await {
        match event {
            Ok(watcher::Event::Init) => listed.clear(),
            Ok(watcher::Event::Apply(object) | watcher::Event::InitApply(object)) => {
                let name = name_of(&object);
                listed.insert(name.clone());
                if ctx.store.put_project(&name, &raw(object, &resource)) {
                    wake(&name);
                }
                ctx.leaving.notify_one();
            }
            Ok(watcher::Event::Delete(object)) => {
                let name = name_of(&object);
                ctx.store.remove_project(&name);
                wake(&name);
            }
            Ok(watcher::Event::InitDone) => {
                for gone in ctx.store.projects().difference(&listed) {
                    ctx.store.remove_project(gone);
                    wake(gone);
                }
                if let Some(ready) = ready.take() {
                    let _ = ready.send(());
                }
            }
            Err(error) => {
                if let Some(error) = fatal("AppProjects", &error) {
                    return Err(error);
                }
            }
        }
    }
    Ok(())
}

async fn follow_secrets(ctx: &Context, ready: Ready) -> Result<(), Error> {
    let namespace = &ctx.settings.control_plane_namespace;
    let api: Api<Secret> = Api::namespaced(ctx.client.0.clone(), namespace);
    let config = config().labels(SECRET_TYPE_LABEL);
    let mut events = told(follow(api, config), "Secrets".to_owned());
    let mut ready = Some(ready);
    // Bare Secrets by name: those that are there, and those of the listing
    // under way. What went while nobody watched is in the first only.
    let (mut known, mut listed) = (BTreeMap::new(), BTreeMap::new());
    let bare = |secret: &Secret| {
        let metadata = ObjectMeta {
            name: secret.metadata.name.clone(),
            namespace: secret.metadata.namespace.clone(),
            ..ObjectMeta::default()
        };
        (metadata.name.clone(), Secret { metadata, ..Secret::default() })
    };
    while let Some(event) = events.next().await {
        match event {
            Ok(watcher::Event::Init) => listed = BTreeMap::new(),
            Ok(watcher::Event::InitApply(secret)) => {
                listed.extend([bare(&secret)]);
                put_secret(ctx, &secret);
            }
            Ok(watcher::Event::Apply(secret)) => {
                known.extend([bare(&secret)]);
                put_secret(ctx, &secret);
            }
            Ok(watcher::Event::Delete(secret)) => {
                known.remove(&secret.metadata.name);
                remove_secret(ctx, &secret);
            }
            Ok(watcher::Event::InitDone) => {
                let before = std::mem::replace(&mut known, std::mem::take(&mut listed));
                for (_, gone) in before.iter().filter(|(name, _)| !known.contains_key(*name)) {
                    remove_secret(ctx, gone);
                }
                if let Some(ready) = ready.take() {
                    let _ = ready.send(());
                }
            }
            Err(error) => {
                if let Some(error) = fatal("Secrets", &error) {
                    return Err(error);
                }
            }
        }
    }
    Ok(())
}

fn put_secret(ctx: &Context, secret: &Secret) {
    let labels = secret.metadata.labels.as_ref();
    let type_ = labels.and_then(|labels| labels.get(SECRET_TYPE_LABEL)).map(String::as_str);
    match type_ {
        Some(SECRET_TYPE_CLUSTER) if ctx.clusters.put(secret) => wake_all(ctx),
        Some(SECRET_TYPE_CLUSTER) => {}
        Some(type_) => {
            let found = REPOSITORIES.into_iter().find(|(name, _)| *name == type_);
            if let Some((_, prefix)) = found {
                ctx.store.put_repository(secret, prefix);
                wake_all(ctx);
            }
        }
        None => {}
    }
}

fn remove_secret(ctx: &Context, secret: &Secret) {
    ctx.store.remove_repository(secret);
    ctx.clusters.remove(secret);
    wake_all(ctx);
}

/// Clusters and credentials change seldom, and anybody may be concerned.
fn wake_all(ctx: &Context) {
    for key in ctx.store.applications() {
        ctx.queue.wake(&key, Request::new(Level::Live));
    }
}
