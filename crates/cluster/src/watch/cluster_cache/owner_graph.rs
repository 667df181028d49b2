//! All objects of a cluster with what they belong to, for readers of resource trees, and for those
//! who look for orphaned objects. Only kept when there is one of them.
//!
//! Owner references are untrusted: a cycle ends, and a chain is followed so far only.

mod members;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::mpsc::UnboundedSender;

pub use self::members::{ChangedTree, Excerpt, GraphMember, OwnerLink};
use self::members::{DEPTH, Members};
use crate::watch::watched::Watched;
use wavegate_api::Raw;
use wavegate_api::resource_key::ResourceKey;

/// Makes the excerpt of an object.
pub type Reader = Arc<dyn Fn(&Value) -> Excerpt + Send + Sync>;

/// Who reads trees.
#[derive(Clone)]
pub struct TreeReaders {
    /// Makes the excerpts.
    pub reader: Reader,
    /// Takes the trees that have changed; without it, the objects are only kept once somebody
    /// looks for those that no Application manages, and only namespaced ones.
    pub changed: Option<UnboundedSender<ChangedTree>>,
}

/// Whether an object that belongs to no other one counts as managed by nobody, from its key and
/// the instance that tracks it.
pub type IsOrphan = Arc<dyn Fn(&ResourceKey, Option<&str>) -> bool + Send + Sync>;

/// Who looks for objects of a namespace that no Application manages.
#[derive(Clone)]
struct Watcher {
    namespace: String,
    is_orphan: IsOrphan,
}

impl std::fmt::Debug for TreeReaders {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TreeReaders")
    }
}

/// All objects of a cluster.
pub struct OwnerGraph {
    readers: TreeReaders,
    members: Mutex<Members>,
    is_active: AtomicBool,
    /// Whether all kinds were listed, as far as they can be.
    is_complete: Watched<bool>,
    /// By instance.
    watchers: Mutex<BTreeMap<String, Watcher>>,
    /// Takes the instances of watchers.
    trigger: UnboundedSender<String>,
}

impl std::fmt::Debug for OwnerGraph {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OwnerGraph").field("objects", &self.len()).finish()
    }
}

impl OwnerGraph {
    pub(super) fn new(readers: TreeReaders, trigger: UnboundedSender<String>) -> Self {
        Self {
            is_active: AtomicBool::new(readers.changed.is_some()),
            readers,
            members: Mutex::default(),
            is_complete: Watched::default(),
            watchers: Mutex::default(),
            trigger,
        }
    }

    /// Whether the objects are kept.
    pub(super) fn is_active(&self) -> bool {
        self.is_active.load(Ordering::Acquire)
    }

    /// Keeps the objects from now on.
    pub(super) fn activate(&self) {
        self.is_active.store(true, Ordering::Release);
    }

    /// Whether only namespaced objects are kept.
    pub(super) fn is_namespaced_only(&self) -> bool {
        self.readers.changed.is_none()
    }

    /// Records that all kinds were listed: what was found is news to those who look for it.
    pub(super) fn complete(&self) {
        if !self.is_complete.get() {
            self.is_complete.set(true);
            let all: BTreeSet<String> = self.watchers.lock().keys().cloned().collect();
            self.wake(all);
        }
    }

    /// Waits until all kinds were listed once.
    pub(super) async fn completed(&self) {
        self.is_complete.wait_for(|complete| *complete).await;
    }

    /// Triggers an instance whenever an object of this namespace becomes one that no Application manages,
    /// or is none any more.
    pub(super) fn watch_orphans(&self, instance: &str, namespace: &str, is_orphan: IsOrphan) {
        let watcher = Watcher { namespace: namespace.to_owned(), is_orphan };
        self.watchers.lock().insert(instance.to_owned(), watcher);
    }

    /// Triggers an instance no more.
    pub(super) fn forget_watcher(&self, instance: &str) {
        self.watchers.lock().remove(instance);
    }

    /// The watchers that look for an object.
    fn watchers_of(&self, member: &GraphMember) -> BTreeSet<String> {
        if member.key.namespace.is_empty() || self.members.lock().is_owned(member) {
            return BTreeSet::new();
        }
        let watchers = self.watchers.lock();
        let looks = watchers.iter().filter(|(_, watcher)| {
            watcher.namespace == member.key.namespace
                && (watcher.is_orphan)(&member.key, member.instance.as_deref())
        });
        looks.map(|(instance, _)| instance.clone()).collect()
    }

    fn wake(&self, instances: impl IntoIterator<Item = String>) {
        for instance in instances {
            // The receiver is closed only when the controller has stopped.
            let _ = self.trigger.send(instance);
        }
    }

    /// Wakes those for whom these objects, before and after a change, are not the same.
    fn orphans_changed(&self, before: &[Arc<GraphMember>], after: Option<&GraphMember>) {
        if !self.is_complete.get() {
            return;
        }
        let watched = |member: &GraphMember| -> BTreeSet<(ResourceKey, String)> {
            let watchers = self.watchers_of(member).into_iter();
            watchers.map(|instance| (member.key.clone(), instance)).collect()
        };
        let before: BTreeSet<_> = before.iter().flat_map(|member| watched(member)).collect();
        let after: BTreeSet<_> = after.into_iter().flat_map(watched).collect();
        let changed = before.symmetric_difference(&after);
        let instances: BTreeSet<String> = changed.map(|(_, instance)| instance.clone()).collect();
        self.wake(instances);
    }

    /// The number of objects.
    pub fn len(&self) -> usize {
        self.members.lock().by_uid.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds an object or a new version of it.
    pub(super) fn put(&self, key: &ResourceKey, object: &Value, instance: Option<&str>) {
        let uid = object.uid();
        if uid.is_empty() || !self.is_active() {
            return;
        }
        let excerpt = (self.readers.reader)(object);
        let mut members = self.members.lock();
        let old = members.by_uid.get(uid);
        let is_same = old.is_some_and(|old| {
            old.excerpt == excerpt && old.key == *key && old.instance.as_deref() == instance
        });
        if is_same {
            return;
        }
        let mut changed = BTreeSet::new();
        let mut before: Vec<Arc<GraphMember>> =
            members.by_uid.get(uid).into_iter().cloned().collect();
        if let Some(old) = members.by_key.get(key).cloned().filter(|old| **old != *uid) {
            before.extend(members.by_uid.get(&old).cloned());
            changed.extend(members.remove(&old));
        }
        changed.extend(members.remove(uid));
        let member = Arc::new(GraphMember {
            key: key.clone(),
            uid: uid.into(),
            instance: instance.map(str::to_owned),
            excerpt,
        });
        members.insert(Arc::clone(&member));
        changed.extend(members.trees_with(uid));
        drop(members);
        self.announce(changed);
        self.orphans_changed(&before, Some(&member));
    }

    /// Removes an object; with a UID only if it has that.
    pub(super) fn remove(&self, key: &ResourceKey, uid: Option<&str>) {
        let mut members = self.members.lock();
        let known = members.by_key.get(key).cloned();
        let Some(known) = known.filter(|known| uid.is_none_or(|uid| **known == *uid)) else {
            return;
        };
        let before: Vec<Arc<GraphMember>> =
            members.by_uid.get(&known).into_iter().cloned().collect();
        let changed = members.remove(&known);
        drop(members);
        self.announce(changed);
        self.orphans_changed(&before, None);
    }

    fn announce(&self, changed: BTreeSet<ChangedTree>) {
        let Some(readers) = &self.readers.changed else { return };
        for tree in changed {
            // The receiver is closed only when the controller has stopped.
            let _ = readers.send(tree);
        }
    }

    /// These objects and all that belongs to them, each once. What `permits` refuses is left
    /// out with what belongs to it.
    pub fn below(
        &self,
        uids: impl IntoIterator<Item = impl AsRef<str>>,
        permits: impl Fn(&ResourceKey) -> bool,
    ) -> Vec<Arc<GraphMember>> {
        let members = self.members.lock();
        let mut seen = BTreeSet::new();
        let mut found = Vec::new();
        let roots = uids.into_iter().filter_map(|uid| members.by_uid.get(uid.as_ref()));
        let mut open: Vec<(Arc<GraphMember>, usize)> =
            roots.map(|root| (root.clone(), 0)).collect();
        while let Some((member, depth)) = open.pop() {
            if !seen.insert(member.uid.clone()) || !permits(&member.key) {
                continue;
            }
            if depth < DEPTH {
                open.extend(members.owned_by(&member).map(|owned| (owned.clone(), depth + 1)));
            }
            found.push(member);
        }
        found
    }

    /// Objects of a namespace that belong to no other one, and are no claims of a StatefulSet.
    pub fn ownerless_in(&self, namespace: &str) -> Vec<Arc<GraphMember>> {
        let members = self.members.lock();
        let from = members.ownerless.range((namespace.to_owned(), Arc::from(""))..);
        let uids = from.take_while(|(other, _)| *other == namespace);
        let all = uids.filter_map(|(_, uid)| members.by_uid.get(uid));
        all.filter(|member| !members.is_owned(member)).cloned().collect()
    }

    /// All objects of a kind.
    pub fn of_kind(&self, group: &str, kind: &str) -> Vec<Arc<GraphMember>> {
        let members = self.members.lock();
        let from = ResourceKey::new(group, kind, "", "");
        let keys = members.by_key.range(from..);
        let keys = keys.take_while(|(key, _)| key.group == group && key.kind == kind);
        keys.filter_map(|(_, uid)| members.by_uid.get(uid).cloned()).collect()
    }

    /// A Node and the Pods that run on it.
    pub fn on_node(&self, name: &str) -> Vec<Arc<GraphMember>> {
        let members = self.members.lock();
        let node = members.by_key.get(&ResourceKey::new("", "Node", "", name));
        let pods = members.on_nodes.range((name.into(), Arc::from(""))..);
        let pods = pods.take_while(|(node, _)| **node == *name).map(|(_, pod)| pod);
        node.into_iter().chain(pods).filter_map(|uid| members.by_uid.get(uid).cloned()).collect()
    }

    /// The objects that claim a name.
    pub fn claiming(&self, name: &ResourceKey) -> Vec<Arc<GraphMember>> {
        self.members.lock().claiming(name).cloned().collect()
    }

    /// The UID of an object.
    pub fn uid(&self, key: &ResourceKey) -> Option<Arc<str>> {
        self.members.lock().by_key.get(key).cloned()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

    use super::*;

    fn graph() -> (OwnerGraph, UnboundedReceiver<ChangedTree>) {
        let (changed, receiver) = unbounded_channel();
        let reader: Reader = Arc::new(|object| Excerpt {
            content: object["content"].to_string().into_bytes().into(),
            owners: object["owners"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|owner| match owner.as_str()?.strip_prefix("claim:") {
                    Some(name) => Some(OwnerLink::Claim(claim(name))),
                    None => Some(OwnerLink::Uid(owner.as_str()?.into())),
                })
                .collect(),
            claims: object["claims"].as_str().map(claim).into_iter().collect(),
            runs_on: object["node"].as_str().map(Into::into),
        });
        let readers = TreeReaders { reader, changed: Some(changed) };
        (OwnerGraph::new(readers, unbounded_channel().0), receiver)
    }

    fn put(graph: &OwnerGraph, kind: &str, uid: &str, owner: &str, instance: Option<&str>) {
        let object = json!({"metadata": {"uid": uid}, "content": uid, "owners": [owner]});
        graph.put(&ResourceKey::new("", kind, "web", uid), &object, instance);
    }

    fn claim(name: &str) -> ResourceKey {
        ResourceKey::new("", "Claim", "web", name)
    }

    fn all(receiver: &mut UnboundedReceiver<ChangedTree>) -> Vec<String> {
        let all = std::iter::from_fn(|| receiver.try_recv().ok());
        let shown = all.map(|tree| match tree {
            ChangedTree::Of(instance) => instance,
            ChangedTree::Unmanaged(namespace) => format!("in {namespace}"),
        });
        shown.collect()
    }

    fn names(found: &[Arc<GraphMember>]) -> Vec<String> {
        let mut names: Vec<String> = found.iter().map(|member| member.uid.to_string()).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn a_change_below_a_tracked_object_is_announced_once() {
        let (graph, mut changed) = graph();
        put(&graph, "Deployment", "d", "", Some("shop"));
        put(&graph, "ReplicaSet", "r", "d", None);
        put(&graph, "Pod", "p", "r", None);
        assert_eq!(all(&mut changed), ["shop", "shop", "shop"]);
        put(&graph, "Pod", "p", "r", None);
        assert_eq!(all(&mut changed), [""; 0], "nothing has changed");
        graph.remove(&ResourceKey::new("", "Pod", "web", "p"), Some("another"));
        assert_eq!(all(&mut changed), [""; 0], "another object of the name");
        graph.remove(&ResourceKey::new("", "Pod", "web", "p"), Some("p"));
        assert_eq!(all(&mut changed), ["shop"]);
        assert_eq!(names(&graph.below(["d"], |_| true)), ["d", "r"]);
    }

    /// CA-313: the claims of a StatefulSet belong to it as long as it is there.
    #[test]
    fn what_is_claimed_belongs_to_who_claims_it() {
        let (graph, mut changed) = graph();
        let claimed =
            json!({"metadata": {"uid": "c"}, "content": "c", "owners": ["claim:data-db-"]});
        let key = ResourceKey::new("", "Claim", "web", "data-db-0");
        graph.put(&key, &claimed, None);
        let ownerless = |graph: &OwnerGraph| names(&graph.ownerless_in("web")).join(",");
        assert_eq!((all(&mut changed), &*ownerless(&graph)), (vec!["in web".to_owned()], "c"));
        let set = json!({"metadata": {"uid": "s"}, "content": "s", "claims": "data-db-"});
        graph.put(&ResourceKey::new("apps", "Set", "web", "db"), &set, Some("shop"));
        assert_eq!((all(&mut changed), &*ownerless(&graph)), (vec!["shop".to_owned()], "s"));
        assert_eq!(names(&graph.below(["s"], |_| true)), ["c", "s"]);
        assert_eq!(names(&graph.claiming(&claim("data-db-"))), ["s"]);
        graph.remove(&key, None);
        assert_eq!(all(&mut changed), ["shop"]);
        graph.remove(&ResourceKey::new("apps", "Set", "web", "db"), None);
        assert!(graph.members.lock().claims.is_empty());
    }

    /// CA-211 b: an object comes from nobody to an instance, and goes back.
    #[test]
    fn an_object_that_nobody_manages_is_announced_by_its_namespace() {
        let (graph, mut changed) = graph();
        put(&graph, "A", "a", "", None);
        assert_eq!(all(&mut changed), ["in web"]);
        put(&graph, "A", "a", "", Some("shop"));
        assert_eq!(all(&mut changed), ["shop", "in web"]);
        put(&graph, "B", "b", "a", None);
        assert_eq!(all(&mut changed), ["shop"]);
        put(&graph, "A", "a", "", None);
        assert_eq!(all(&mut changed), ["shop", "in web"]);
    }

    #[test]
    fn a_cycle_ends_and_what_is_refused_hides_what_is_below() {
        let (graph, _changed) = graph();
        put(&graph, "A", "a", "c", Some("shop"));
        put(&graph, "B", "b", "a", None);
        put(&graph, "C", "c", "b", None);
        assert_eq!(names(&graph.below(["a"], |_| true)), ["a", "b", "c"]);
        assert_eq!(names(&graph.below(["a"], |key| key.kind != "B")), ["a"]);
    }

    #[test]
    fn a_new_object_of_the_name_replaces_the_old_one() {
        let (graph, mut changed) = graph();
        let key = ResourceKey::new("", "ConfigMap", "web", "a");
        for uid in ["1", "2"] {
            let object = json!({"metadata": {"uid": uid}, "content": uid});
            graph.put(&key, &object, Some("shop"));
        }
        assert_eq!((graph.len(), graph.uid(&key).as_deref()), (1, Some("2")));
        graph.remove(&key, None);
        assert!(graph.is_empty() && graph.members.lock().owned.is_empty());
        assert_eq!(all(&mut changed).len(), 3);
    }

    fn woken_by(receiver: &mut UnboundedReceiver<String>) -> Vec<String> {
        std::iter::from_fn(|| receiver.try_recv().ok()).collect()
    }

    /// CA-312: what is read for the hosts of a tree does not grow with the cluster.
    #[test]
    fn pods_are_found_by_their_node() {
        let (graph, _changed) = graph();
        let put = |kind: &str, name: &str, uid: &str, node: Option<&str>| {
            let object = json!({"metadata": {"uid": uid}, "node": node});
            graph.put(&ResourceKey::new("", kind, "", name), &object, None);
        };
        let on = |node: &str| -> Vec<String> {
            graph.on_node(node).iter().map(|member| member.uid.to_string()).collect()
        };
        put("Node", "a", "node-a", None);
        put("Node", "ab", "node-ab", None);
        put("Pod", "1", "p1", Some("a"));
        put("Pod", "2", "p2", Some("ab"));
        put("Pod", "3", "p3", None);
        put("Pod", "4", "p4", Some("gone"));
        assert_eq!(
            (on("a"), on("ab")),
            (vec!["node-a".into(), "p1".into()], vec!["node-ab".into(), "p2".into()])
        );
        assert_eq!((on("gone"), on("b")), (vec!["p4".to_owned()], vec![]));
        // It is scheduled, moves with its name, and goes.
        put("Pod", "3", "p3", Some("a"));
        put("Pod", "1", "p5", Some("ab"));
        assert_eq!(
            (on("a"), on("ab")),
            (vec!["node-a".into(), "p3".into()], vec!["node-ab".into(), "p2".into(), "p5".into()])
        );
        graph.remove(&ResourceKey::new("", "Pod", "", "3"), None);
        graph.remove(&ResourceKey::new("", "Node", "", "a"), None);
        assert_eq!(on("a"), Vec::<String>::new());
    }

    /// SE-078: who looks for orphaned objects is triggered when one comes, goes, gets
    /// an owner or is tracked, but not by other changes, and not before all kinds are listed.
    #[test]
    fn those_who_look_for_orphans_are_triggered_by_changes_of_their_number_as_se_078() {
        let (trigger, mut woken) = unbounded_channel();
        let reader: Reader = Arc::new(|object| Excerpt {
            content: object["content"].to_string().into_bytes().into(),
            owners: object["owner"]
                .as_str()
                .map(|uid| OwnerLink::Uid(uid.into()))
                .into_iter()
                .chain(object["claim"].as_str().map(|name| OwnerLink::Claim(claim(name))))
                .collect(),
            claims: object["claims"].as_str().map(claim).into_iter().collect(),
            runs_on: object["node"].as_str().map(Into::into),
        });
        let graph = OwnerGraph::new(TreeReaders { reader, changed: None }, trigger);
        let key = |name: &str| ResourceKey::new("", "ConfigMap", "web", name);
        let put = |name: &str, object: Value, instance: Option<&str>| {
            let mut object = object;
            object["metadata"] = json!({"uid": name});
            graph.put(&key(name), &object, instance);
        };
        put("early", json!({}), None);
        assert!(graph.is_empty(), "nobody looks");
        graph.activate();
        let is_orphan: IsOrphan =
            Arc::new(|key, instance| key.name != "ignored" && instance.is_none());
        graph.watch_orphans("shop", "web", Arc::clone(&is_orphan));
        graph.watch_orphans("elsewhere", "other", is_orphan);
        put("one", json!({}), None);
        assert_eq!(woken_by(&mut woken), [""; 0]);
        graph.complete();
        assert_eq!(woken_by(&mut woken), ["elsewhere", "shop"]);
        graph.complete();
        put("one", json!({"content": 2}), None);
        put("ignored", json!({}), None);
        put("tracked", json!({}), Some("x"));
        put("owned", json!({"owner": "one"}), None);
        assert_eq!(woken_by(&mut woken), [""; 0]);
        put("two", json!({}), None);
        assert_eq!(woken_by(&mut woken), ["shop"]);
        put("two", json!({"owner": "one"}), None);
        assert_eq!(woken_by(&mut woken), ["shop"]);
        put("tracked", json!({}), None);
        assert_eq!(woken_by(&mut woken), ["shop"]);
        // Another object of the name.
        graph.put(&key("one"), &json!({"metadata": {"uid": "1"}}), None);
        assert_eq!(woken_by(&mut woken), [""; 0]);
        graph.remove(&key("one"), None);
        assert_eq!(woken_by(&mut woken), ["shop"]);
        assert_eq!(names(&graph.ownerless_in("web")), ["ignored", "tracked"]);
        // CA-313: claims of a StatefulSet belong to it, as long as there is one.
        let set = ResourceKey::new("apps", "StatefulSet", "web", "db");
        let object = json!({"metadata": {"uid": "set"}, "claims": "data-db-"});
        graph.put(&set, &object, Some("shop"));
        let put_claim = |name: &str, of: &str| {
            let key = ResourceKey::new("", "PersistentVolumeClaim", "web", name);
            graph.put(&key, &json!({"metadata": {"uid": name}, "claim": of}), None);
        };
        put_claim("data-db-0", "data-db-");
        assert_eq!(woken_by(&mut woken), [""; 0]);
        put_claim("data-db", "data-");
        put_claim("log-db-0", "log-db-");
        assert_eq!(woken_by(&mut woken), ["shop", "shop"]);
        let orphans = ["data-db", "ignored", "log-db-0", "set", "tracked"];
        assert_eq!(names(&graph.ownerless_in("web")), orphans);
        graph.remove(&set, None);
        assert_eq!(graph.ownerless_in("web").len(), 5, "with its claim");
        for name in ["data-db-0", "data-db", "log-db-0"] {
            graph.remove(&ResourceKey::new("", "PersistentVolumeClaim", "web", name), None);
        }
        woken_by(&mut woken);
        graph.forget_watcher("shop");
        graph.remove(&key("tracked"), None);
        assert_eq!(woken_by(&mut woken), [""; 0]);
        graph.remove(&key("ignored"), None);
        assert!(graph.members.lock().ownerless.is_empty());
    }
}
