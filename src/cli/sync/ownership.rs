//! What exists of the manifests of a run before it, and who has it: an object of an
//! Application or of another run is not taken over.

use std::collections::BTreeSet;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Namespace;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject};
use kube::discovery::Scope;
use serde_json::{Value, json};

use super::args::OperationArgs;
use super::control_plane::LABEL;
use super::manifests::Manifests;
use crate::cli::cluster::{ClusterConnection, control_plane_namespace};
use crate::cli::console::error::{Error, note};
use wavegate_api::Raw;
use wavegate_api::annotations::{DEFAULT_INSTANCE_LABEL, RUN_ID, TRACKING_ID};
use wavegate_api::kind::GroupVersionKind;
use wavegate_api::resource_key::ResourceKey;
use wavegate_api::tracking::{TrackingMethod, from_instance_name, run_id, tracking_id};
use wavegate_application::manual;
use wavegate_cluster::watch::failure::{error_reason, has_code};
use wavegate_cluster::watch::object::{kind_api, kind_resource};
use wavegate_engine::names::some_of;
use wavegate_engine::sync::{ObjectClass, classify_hook};

/// Requests at the same time.
const PARALLEL: usize = 8;
/// The most objects in a message.
const NAMES: usize = 5;

/// A manifest with its place in the cluster.
struct Wanted<'a> {
    manifest: &'a Value,
    key: ResourceKey,
    resource: &'a ApiResource,
}

/// The label of Argo CD, where it tracks by label.
struct ByLabel {
    label: String,
    control_plane: String,
}

/// Checks the objects that the run would change, before anything is written.
pub(super) async fn check(
    cluster: &ClusterConnection,
    manifests: &Manifests,
    what: &OperationArgs,
) -> Result<(), Error> {
    let client = cluster.client();
    let (wanted, namespaced) = wanted(manifests, what);
    if what.dry_run {
        namespaces_exist(client, manifests, what, &namespaced).await?;
    }
    let by_label = by_label(cluster).await;
    let mut reads =
        futures::stream::iter(wanted.iter().map(|wanted| async move {
            (wanted, live(client, wanted.resource, &wanted.key).await)
        }))
        .buffered(PARALLEL);
    let (mut refused, mut untracked) = (Vec::new(), Vec::new());
    while let Some((wanted, live)) = reads.next().await {
        let Some(live) = live? else { continue };
        let title = wanted.key.to_string();
        let other = match other(&live, &wanted.key, &manifests.instance()) {
            None => labelled(client, by_label.as_ref(), &live, wanted.manifest).await,
            other => other,
        };
        match other {
            Some(why) => refused.push((title, why)),
            None if live.label(LABEL).is_none() => untracked.push(title),
            None => {}
        }
    }
    if let Some((title, why)) = refused.first() {
        let more = match refused.len() - 1 {
            0 => String::new(),
            more => format!("; the same holds for {more} more of the manifests"),
        };
        let why = format!("{why}{more}; nothing was changed");
        return Err(Error::check("cannot sync", title, why));
    }
    if !untracked.is_empty() {
        let (count, names) = (untracked.len(), some_of(untracked.iter().map(|s| &**s), NAMES));
        let verb = match (count, what.dry_run) {
            (1, false) => "it existed before this run, and is managed by it now",
            (1, true) => "it existed before, and would be managed by this run",
            (_, false) => "they existed before this run, and are managed by it now",
            (_, true) => "they existed before, and would be managed by this run",
        };
        note(&format!("{names}: {verb}: --prune deletes what is no longer in the files"));
    }
    Ok(())
}

/// The manifests that would be applied and have a name, without hooks: those refuse other
/// objects themselves. And the namespaces that are needed.
fn wanted<'a>(
    manifests: &'a Manifests,
    what: &OperationArgs,
) -> (Vec<Wanted<'a>>, BTreeSet<String>) {
    let (mut wanted, mut namespaces) = (Vec::new(), BTreeSet::new());
    for manifest in manifests.objects() {
        let Some(mut key) = ResourceKey::from_object(manifest) else { continue };
        let Some((resource, scope)) = manifests.resource_of(manifest) else { continue };
        if *scope == Scope::Cluster {
            key.namespace.clear();
        } else if key.namespace.is_empty() {
            key.namespace.clone_from(&manifests.namespace);
        }
        if !what.resources.is_empty() && !manual::is_selected(&what.resources, &key) {
            continue;
        }
        let ResourceKey { kind, namespace, name, .. } = &key;
        if !namespace.is_empty() {
            namespaces.insert(namespace.clone());
        }
        let definition = kind == "CustomResourceDefinition";
        if name.is_empty()
            || definition
            || !matches!(classify_hook(manifest), ObjectClass::Resource)
        {
            continue;
        }
        wanted.push(Wanted { manifest, key, resource });
    }
    (wanted, namespaces)
}

/// A dry run of the server fails for an object without its namespace, but is not made for
/// all of them; so it is checked here.
async fn namespaces_exist(
    client: &Client,
    manifests: &Manifests,
    what: &OperationArgs,
    needed: &BTreeSet<String>,
) -> Result<(), Error> {
    let created = |name: &str| {
        let of_run = |object: &&Value| {
            GroupVersionKind::of(object).kind == "Namespace" && object.name() == name
        };
        let by_option = what.options.iter().any(|option| option == "CreateNamespace=true");
        (by_option && name == manifests.namespace) || manifests.objects().iter().any(|o| of_run(&o))
    };
    let api: Api<Namespace> = Api::all(client.clone());
    for name in needed.iter().filter(|name| !created(name)) {
        match api.get_metadata_opt(name).await {
            Ok(None) => {
                let why = "it does not exist, and the run does not create it; create it, or add \
                           it to the manifests";
                let option = match *name == manifests.namespace {
                    true => ", or use --option CreateNamespace=true",
                    false => "",
                };
                let place = format!("namespace {name}");
                return Err(Error::check("cannot sync", place, format!("{why}{option}")));
            }
            // Who may not read namespaces learns it from the sync.
            Ok(Some(_)) => {}
            Err(error) => tracing::debug!(%error, name, "cannot read the namespace"),
        }
    }
    Ok(())
}

async fn live(
    client: &Client,
    resource: &ApiResource,
    key: &ResourceKey,
) -> Result<Option<Value>, Error> {
    let api: Api<DynamicObject> = match key.namespace.as_str() {
        "" => Api::all_with(client.clone(), resource),
        namespace => Api::namespaced_with(client.clone(), namespace, resource),
    };
    match api.get_metadata_opt(&key.name).await {
        Ok(found) => Ok(found.map(|found| {
            let metadata = found.metadata;
            json!({"metadata": {"labels": metadata.labels, "annotations": metadata.annotations}})
        })),
        // The error of the read that is needed says more.
        Err(error) if has_code(&error, 403) || has_code(&error, 404) => Ok(None),
        Err(error) => Err(Error::input("cannot read", key.to_string(), error_reason(&error))),
    }
}

/// Why a live object is not of this run: it is tracked by an Application, or by another run.
fn other(live: &Value, key: &ResourceKey, instance: &str) -> Option<String> {
    if let Some(id) = tracking_id(live) {
        return Some(format!(
            "it is tracked by Application {} of Argo CD; delete the Application without its \
             resources, or remove the annotation {TRACKING_ID} from the object",
            id.instance
        ));
    }
    let label = live.label(LABEL)?;
    if label == instance || label.is_empty() {
        return None;
    }
    // The copy of an object has its labels; without an id, an earlier version applied it.
    let copy = run_id(live).is_some_and(|id| !id.is_of(key));
    (!copy).then(|| {
        format!(
            "it was applied by the run {label}; sync it with the namespace and the --name of that \
             run, or remove the label {LABEL} and the annotation {RUN_ID} from the object"
        )
    })
}

/// The same for an Argo CD that tracks by label. The label is a common one, so only that of
/// an existing Application counts, or one that the manifest does not have.
async fn labelled(
    client: &Client,
    by: Option<&ByLabel>,
    live: &Value,
    manifest: &Value,
) -> Option<String> {
    let ByLabel { label, control_plane } = by?;
    let value =
        |object: &Value| object.label(label).filter(|value| !value.is_empty()).map(str::to_owned);
    let instance = value(live)?;
    let (namespace, name) = from_instance_name(&instance, control_plane);
    let applications = kind_api(client, Some(namespace), &kind_resource("Application"));
    let exists = match applications.get_opt(name).await {
        Ok(found) => found.is_some(),
        Err(error) => !has_code(&error, 404) && value(manifest).as_ref() != Some(&instance),
    };
    exists.then(|| {
        format!(
            "it is tracked by Application {namespace}/{name} of Argo CD; delete the Application \
             without its resources, or remove the label {label} from the object"
        )
    })
}

/// The label of Argo CD, if it is installed in this cluster, and tracks by label.
async fn by_label(cluster: &ClusterConnection) -> Option<ByLabel> {
    let control_plane = control_plane_namespace();
    // Where it cannot be read, the tracking is the default one as far as is known.
    let settings = cluster.config_map(&control_plane, "argocd-cm").await.ok()?.unwrap_or_default();
    let setting = |key: &str| settings.get(key).map(String::as_str).unwrap_or_default();
    let method = TrackingMethod::from_setting(setting("application.resourceTrackingMethod"));
    let label = match setting("application.instanceLabelKey") {
        "" => DEFAULT_INSTANCE_LABEL,
        label => label,
    };
    (method == TrackingMethod::Label).then(|| ByLabel { label: label.to_owned(), control_plane })
}
