//! Reads the live objects of an Application's tree with few requests: metadata only, and
//! the content of those objects whose health needs it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use kube::core::discovery::ApiResource;
use serde_json::Value;

use wavegate_api::ResourceKey;
use wavegate_api::kind::{GroupVersionKind, KindRef, is_excluded};
use wavegate_cluster::watch::cluster_cache::once::{self, ListedObjects};
use wavegate_cluster::watch::cluster_cache::{self, ClusterCache};
use wavegate_controller::health_scripts::HealthScripts;
use wavegate_engine::health::Checks;
use wavegate_engine::names::some_of;
use wavegate_engine::resource_tree::{LiveObject, OwnedResource, nodes_below};

/// Up to this number, objects of a kind are requested one by one, not listed.
const FEW: usize = 8;
/// Namespaces that are listed one by one; more are listed at once.
const MAX_NAMESPACES: usize = 10;
/// Kinds that are listed for custom resources, which may own objects of any kind.
const MAX_KINDS: usize = 300;
/// The live objects of a tree.
#[derive(Debug, Default)]
pub(super) struct Live {
    /// The resources themselves and the objects below them.
    pub objects: Vec<LiveObject>,
    /// Resources that do not exist.
    pub absent: BTreeSet<ResourceKey>,
    /// What could not be read, and why.
    pub notes: Vec<String>,
}

/// Kinds that could not be read, by reason and namespace.
#[derive(Debug, Default)]
struct Unread(BTreeMap<String, BTreeMap<String, BTreeSet<String>>>);

impl Unread {
    fn add(&mut self, resource: &ApiResource, namespace: &str, why: String) {
        // The message of the server names the kind: one note for all that are forbidden.
        let why = if why.contains("forbidden") { "forbidden".to_owned() } else { why };
        let places = self.0.entry(why).or_default().entry(namespace.to_owned()).or_default();
        places.insert(resource.plural.clone());
    }

    /// One note for each reason.
    fn notes(self) -> Vec<String> {
        let place = |(namespace, kinds): (&String, &BTreeSet<String>)| {
            let kinds = kinds.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
            match namespace.as_str() {
                "" => kinds,
                namespace => format!("{kinds} in namespace {namespace}"),
            }
        };
        let note = |(why, places): (String, BTreeMap<String, BTreeSet<String>>)| {
            let places: Vec<String> = places.iter().map(place).collect();
            let places = places.iter().map(String::as_str);
            format!("not shown: {}: {why}", some_of(places, MAX_NAMESPACES))
        };
        self.0.into_iter().map(note).collect()
    }
}

/// Objects of one kind in one namespace.
struct Wanted {
    resource: ApiResource,
    namespace: String,
    names: BTreeSet<String>,
}

/// Reads the live objects of the resources, and what they own.
///
/// # Errors
///
/// When the discovery of the cluster fails.
pub(super) async fn read(
    cluster: &Arc<ClusterCache>,
    resources: &[OwnedResource],
    destination: &str,
    checks: &Checks,
) -> Result<Live, cluster_cache::Error> {
    let mut unread = Unread::default();
    let mut live = Live::default();
    let tops = tops(cluster, resources).await?;
    let requested: BTreeSet<ResourceKey> = tops.iter().flat_map(Wanted::keys).collect();
    let found = fetch(cluster, tops, checks, &mut unread).await;
    let failed = found.failed;
    let owners = found.objects;
    let known: BTreeSet<&ResourceKey> = owners.iter().map(|object| &object.key).collect();
    live.absent =
        requested.into_iter().filter(|key| !known.contains(key) && !failed.contains(key)).collect();

    let (kinds, silent) = cluster.listable().await?;
    for (group, why) in silent {
        live.notes.push(format!("not shown: {group}: {why}"));
    }
    let listings = candidates(&kinds, &owners, destination, &mut live.notes);
    let candidates = list_all(cluster, listings, &mut unread).await;
    let (resources_of, candidates): (Vec<ApiResource>, Vec<LiveObject>) =
        candidates.into_iter().filter(|(_, object)| !known.contains(&object.key)).unzip();
    let mut wanted: BTreeMap<(String, String, String), Wanted> = BTreeMap::new();
    let mut children = Vec::new();
    for index in nodes_below(&owners, &candidates) {
        let (resource, object) = (&resources_of[index], &candidates[index]);
        let key = &object.key;
        if checks.has_check(&key.group, &key.kind) {
            let place = (key.group.clone(), key.kind.clone(), key.namespace.clone());
            let wanted = wanted.entry(place).or_insert_with(|| Wanted {
                resource: resource.clone(),
                namespace: key.namespace.clone(),
                names: BTreeSet::new(),
            });
            wanted.names.insert(key.name.clone());
        }
        children.push(object.clone());
    }
    let whole = fetch(cluster, wanted.into_values().collect(), checks, &mut unread).await.objects;
    let mut whole: BTreeMap<ResourceKey, LiveObject> =
        whole.into_iter().map(|object| (object.key.clone(), object)).collect();
    // An object that was deleted in between is shown as it was listed.
    let children = children.into_iter().map(|child| match whole.remove(&child.key) {
        Some(read) if read.uid == child.uid => read,
        _ => child,
    });
    let children: Vec<LiveObject> = children.collect();
    live.objects = owners;
    live.objects.extend(children);
    live.notes.extend(unread.notes());
    Ok(live)
}

impl Wanted {
    fn keys(&self) -> impl Iterator<Item = ResourceKey> + '_ {
        let Self { resource, namespace, names } = self;
        names.iter().map(|name| ResourceKey::new(&resource.group, &resource.kind, namespace, name))
    }
}

/// The requests for the resources themselves. Kinds that do not exist have no objects.
async fn tops(
    cluster: &Arc<ClusterCache>,
    resources: &[OwnedResource],
) -> Result<Vec<Wanted>, cluster_cache::Error> {
    let mut wanted: BTreeMap<(String, String, String), Wanted> = BTreeMap::new();
    for node in resources.iter().filter(|node| !node.name.is_empty()) {
        let kind = GroupVersionKind::new(&node.group, &node.version, &node.kind);
        let Some((resource, namespaced)) = cluster.resource(&kind, true).await? else { continue };
        if namespaced == node.namespace.is_empty() {
            continue;
        }
        let place = (node.group.clone(), node.kind.clone(), node.namespace.clone());
        let names = wanted.entry(place).or_insert_with(|| Wanted {
            resource,
            namespace: node.namespace.clone(),
            names: BTreeSet::new(),
        });
        names.names.insert(node.name.clone());
    }
    Ok(wanted.into_values().collect())
}

/// Objects that were requested by name.
#[derive(Default)]
struct Fetched {
    objects: Vec<LiveObject>,
    /// Those that may exist, but could not be read.
    failed: BTreeSet<ResourceKey>,
}

/// Reads objects: a few one by one, more by a listing. With content only where health
/// needs it.
async fn fetch(
    cluster: &ClusterCache,
    all: Vec<Wanted>,
    checks: &Checks,
    unread: &mut Unread,
) -> Fetched {
    let assessed = |object: Value, whole: bool| {
        if !whole || checks.scripts.of_object(&object).is_none() {
            return LiveObject::read(&object, whole, checks);
        }
        // This command has nothing else to do meanwhile.
        let (object, now) = (Arc::new(object), Timestamp::now());
        let checks = HealthScripts::default().checked_blocking(checks, [&object].into_iter(), now);
        LiveObject::read(&object, whole, &checks)
    };
    let assessed = &assessed;
    let mut requests = Vec::new();
    for wanted in all {
        match wanted.names.len() {
            0..=FEW => requests.extend(wanted.names.iter().map(|name| Wanted {
                resource: wanted.resource.clone(),
                namespace: wanted.namespace.clone(),
                names: BTreeSet::from([name.clone()]),
            })),
            _ => requests.push(wanted),
        }
    }
    let work = requests.into_iter().map(|wanted| async move {
        let whole = checks.has_check(&wanted.resource.group, &wanted.resource.kind);
        let mut found = Vec::new();
        let done = match wanted.keys().next() {
            Some(key) if wanted.names.len() == 1 => {
                let read = cluster.get_once(&wanted.resource, &key, whole).await;
                read.map(|object| found.extend(object.map(|one| assessed(one, whole))))
            }
            _ => {
                let mut keep = |object: LiveObject| {
                    if wanted.names.contains(&object.key.name) {
                        found.push(object);
                    }
                };
                let read = |object: Value| keep(assessed(object, whole));
                let (resource, namespace) = (&wanted.resource, &wanted.namespace);
                complete(cluster.list_once(resource, namespace, None, whole, read).await)
            }
        };
        (wanted, found, done)
    });
    let mut fetched = Fetched::default();
    for (wanted, found, done) in once::all_answers(work).await {
        fetched.objects.extend(found);
        if let Err(why) = done {
            fetched.failed.extend(wanted.keys());
            unread.add(&wanted.resource, &wanted.namespace, why);
        }
    }
    fetched.objects.sort_by(|a, b| a.key.cmp(&b.key));
    fetched
}

/// The outcome of a listing, which may be of the first objects only.
fn complete(listed: Result<bool, String>) -> Result<(), String> {
    match listed? {
        true => Ok(()),
        false => Err(format!("only the first {} of each were read", once::MOST)),
    }
}

/// Lists of metadata, each object with its kind. Objects without owners are dropped, since
/// they are below nothing, except claims.
async fn list_all(
    cluster: &ClusterCache,
    listings: Vec<(ApiResource, String)>,
    unread: &mut Unread,
) -> Vec<(ApiResource, LiveObject)> {
    let keep = |object: Value| {
        let object = LiveObject::read(&object, false, &Checks::default());
        let is_claim = object.key.group.is_empty() && object.key.kind == "PersistentVolumeClaim";
        (is_claim || !object.owners.is_empty()).then_some(object)
    };
    let mut all = Vec::new();
    for ListedObjects { resource, namespace, objects, done } in
        cluster.list_all_once(listings, None, keep).await
    {
        if let Err(why) = complete(done) {
            unread.add(&resource, &namespace, why);
        }
        all.extend(objects.into_iter().map(|object| (resource.clone(), object)));
    }
    all.sort_by(|(_, a), (_, b)| a.key.cmp(&b.key));
    all
}

/// The kinds and namespaces that may contain objects below the resources. Kubernetes'
/// own kinds own objects of known kinds; a custom resource may own any.
fn candidates(
    kinds: &[(ApiResource, bool)],
    owners: &[LiveObject],
    destination: &str,
    notes: &mut Vec<String>,
) -> Vec<(ApiResource, String)> {
    let mut places: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
    for owner in owners {
        let key = &owner.key;
        let namespace = if key.namespace.is_empty() { destination } else { &key.namespace };
        if namespace.is_empty() {
            continue;
        }
        let kind = KindRef { group: &key.group, version: "", kind: &key.kind };
        let custom = !kind.is_built_in() && !is_project_or_application(&key.group, &key.kind);
        let owned = owned_kinds(&key.group, &key.kind);
        // A controller of Certificates adds them to each Ingress.
        let by_custom = custom || key.kind == "Ingress";
        for (resource, namespaced) in kinds {
            let ApiResource { group, version, kind, .. } = resource;
            let built_in = KindRef { group, version, kind }.is_built_in();
            let fits = owned.contains(&(group.as_str(), kind.as_str()))
                || (custom && built_in)
                || (by_custom && !built_in);
            // Events have the same objects in two groups.
            if *namespaced && fits && !is_excluded(group, kind) && group != "extensions" {
                let place = (group.clone(), kind.clone());
                places.entry(place).or_default().insert(namespace.to_owned());
            }
        }
    }
    if places.len() > MAX_KINDS {
        notes.push(format!(
            "not shown: objects of {} kinds: only {MAX_KINDS} kinds are listed",
            places.len() - MAX_KINDS
        ));
    }
    let mut listings = Vec::new();
    for ((group, kind), namespaces) in places.into_iter().take(MAX_KINDS) {
        let found = kinds.iter().find(|(r, _)| r.group == group && r.kind == kind);
        let Some((resource, _)) = found else { continue };
        match namespaces.len() {
            0..=MAX_NAMESPACES => listings
                .extend(namespaces.into_iter().map(|namespace| (resource.clone(), namespace))),
            _ => listings.push((resource.clone(), String::new())),
        }
    }
    listings
}

/// Argo CD's own kinds whose objects own nothing in the destination namespace.
fn is_project_or_application(group: &str, kind: &str) -> bool {
    group == wavegate_api::GROUP && matches!(kind, "Application" | "AppProject")
}

/// The kinds of the objects that Kubernetes' own controllers create, on all levels.
fn owned_kinds(group: &str, kind: &str) -> &'static [(&'static str, &'static str)] {
    const POD: (&str, &str) = ("", "Pod");
    const HISTORY: (&str, &str) = ("apps", "ControllerRevision");
    match (group, kind) {
        ("apps", "Deployment") => &[("apps", "ReplicaSet"), POD],
        ("apps", "StatefulSet") => &[POD, HISTORY, ("", "PersistentVolumeClaim")],
        ("apps", "DaemonSet") => &[POD, HISTORY],
        ("apps", "ReplicaSet") | ("", "ReplicationController") | ("batch", "Job") => &[POD],
        ("batch", "CronJob") => &[("batch", "Job"), POD],
        ("", "Service") => &[("discovery.k8s.io", "EndpointSlice")],
        _ => &[],
    }
}
