//! Deletion and its consequences: finalizers, owners and dependents, namespaces.
//!
//! The real cluster does this in controllers that follow the API server; here
//! it happens at once, inside the request that caused it, and in a fixed order.
//! The watch events are the same.

use std::collections::VecDeque;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::json;

use super::clock::seconds;
use super::crd;
use super::state::{State, finalizers, is_deleting, namespaces, set_finalizers};
use super::store::{Key, Place, Stored, owners};

/// Finalizer of an object that waits for its dependents to go first.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// Finalizer of an object whose dependents are to stay.
pub(crate) const ORPHAN: &str = "orphan";

/// What becomes of dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Propagation {
    Background,
    Foreground,
    Orphan,
}

/// A step that is still to be done.
enum Work {
    /// An object is gone: its dependents, owners and namespace may have to follow.
    Removed(Place, Arc<Stored>),
    /// An object is being deleted: see whether something holds it still.
    Progress(Place),
    /// An object's owners may be gone.
    Check(Place),
    Delete(Place, Propagation),
}

impl State {
    /// Deletes an object as a request asks; gives back its last state and whether it is gone.
    pub fn delete(
        &mut self,
        place: &Place,
        propagation: Propagation,
        now: Timestamp,
    ) -> Option<(Arc<Stored>, bool)> {
        let before = self.store.get(&place.0, &place.1)?.clone();
        let mut queue = VecDeque::new();
        self.begin_deletion(place, propagation, &mut queue, now);
        // What the caller is told: the state before anything follows from it.
        let answer = match self.store.get(&place.0, &place.1) {
            Some(still) => (still.clone(), false),
            None => (before, true),
        };
        self.settle(queue, now);
        Some(answer)
    }

    /// Follows up on a write: an object that waits to be deleted may go now.
    pub fn written(&mut self, place: &Place, former_owners: &[String], now: Timestamp) {
        let Some(stored) = self.store.get(&place.0, &place.1) else { return };
        let mut work = Vec::new();
        let current = owners(&stored.slim);
        if is_deleting(&stored.slim) {
            work.push(Work::Progress(place.clone()));
        }
        if current
            .iter()
            .any(|uid| self.store.place(uid).is_none() || !former_owners.iter().any(|f| f == uid))
        {
            work.push(Work::Check(place.clone()));
        }
        for uid in former_owners.iter().filter(|f| !current.contains(&f.as_str())) {
            if let Some(owner) = self.store.place(uid) {
                work.push(Work::Progress(owner.clone()));
            }
        }
        self.settle(work.into(), now);
    }

    /// Removes an object that nothing holds any more, and settles what follows.
    pub fn remove_now(&mut self, place: &Place, now: Timestamp) -> Option<Arc<Stored>> {
        let last = self.store.remove(&place.0, &place.1)?;
        self.settle(VecDeque::from([Work::Removed(place.clone(), last.clone())]), now);
        Some(last)
    }

    fn settle(&mut self, mut queue: VecDeque<Work>, now: Timestamp) {
        while let Some(next) = queue.pop_front() {
            match next {
                Work::Removed(place, last) => self.after_removal(&place, &last, &mut queue),
                Work::Progress(place) => self.progress(&place, &mut queue),
                Work::Check(place) => self.check_owners(&place, &mut queue),
                Work::Delete(place, propagation) => {
                    self.begin_deletion(&place, propagation, &mut queue, now)
                }
            }
        }
    }

    fn begin_deletion(
        &mut self,
        place: &Place,
        propagation: Propagation,
        queue: &mut VecDeque<Work>,
        now: Timestamp,
    ) {
        let Some(stored) = self.store.get(&place.0, &place.1).cloned() else { return };
        let mut object = stored.full();
        let held = finalizers(&stored.slim);
        let mut list: Vec<&str> =
            held.iter().copied().filter(|f| *f != FOREGROUND && *f != ORPHAN).collect();
        match propagation {
            Propagation::Foreground => list.push(FOREGROUND),
            Propagation::Orphan => list.push(ORPHAN),
            // A deletion that already waits for dependents goes on doing so.
            Propagation::Background if is_deleting(&object) => list.clone_from(&held),
            Propagation::Background => {}
        }
        let namespace = place.0 == namespaces();
        if list.is_empty() && !namespace {
            if let Some(last) = self.store.remove(&place.0, &place.1) {
                queue.push_back(Work::Removed(place.clone(), last));
            }
            return;
        }
        set_finalizers(&mut object, &list);
        if !is_deleting(&object) {
            object["metadata"]["deletionTimestamp"] = json!(seconds(now));
            object["metadata"]["deletionGracePeriodSeconds"] = json!(0);
            if let Some(generation) = object["metadata"]["generation"].as_i64() {
                object["metadata"]["generation"] = json!(generation + 1);
            }
            if namespace {
                object["status"]["phase"] = json!("Terminating");
            }
            crd::mark_terminating(&place.0, &mut object, now);
        }
        if object != stored.full() {
            self.store.put(&place.0, place.1.clone(), object);
        }
        queue.push_back(Work::Progress(place.clone()));
    }

    /// Takes the server's own finalizers off an object whose time has come.
    fn progress(&mut self, place: &Place, queue: &mut VecDeque<Work>) {
        let Some(stored) = self.store.get(&place.0, &place.1).cloned() else { return };
        if !is_deleting(&stored.slim) {
            return;
        }
        let uid = stored.slim["metadata"]["uid"].as_str().unwrap_or_default();
        let mut list = finalizers(&stored.slim);
        if list.contains(&ORPHAN) {
            for dependent in self.store.dependents(uid) {
                self.disown(&dependent, &[uid]);
            }
            list.retain(|f| *f != ORPHAN);
        }
        if list.contains(&FOREGROUND) {
            let blocking: Vec<Place> =
                self.store.dependents(uid).into_iter().filter(|d| self.blocks(d, uid)).collect();
            for dependent in self.store.dependents(uid) {
                if self.store.get(&dependent.0, &dependent.1).is_some_and(|d| !is_deleting(&d.slim))
                {
                    queue.push_back(Work::Check(dependent));
                }
            }
            if blocking.is_empty() {
                list.retain(|f| *f != FOREGROUND);
            }
        }
        if list.contains(&crd::CLEANUP) {
            let contents = crd::contents(self, &stored.slim);
            for object in &contents {
                let deleting =
                    self.store.get(&object.0, &object.1).is_some_and(|o| is_deleting(&o.slim));
                if !deleting {
                    queue.push_back(Work::Delete(object.clone(), Propagation::Background));
                }
            }
            if contents.is_empty() {
                list.retain(|f| *f != crd::CLEANUP);
            }
        }
        if place.0 == namespaces() && !self.empty_namespace(&place.1.name, queue) {
            return;
        }
        if list != finalizers(&stored.slim) {
            let mut object = stored.full();
            set_finalizers(&mut object, &list);
            if !list.is_empty() {
                self.store.put(&place.0, place.1.clone(), object);
                return;
            }
        }
        if list.is_empty()
            && let Some(last) = self.store.remove(&place.0, &place.1)
        {
            queue.push_back(Work::Removed(place.clone(), last));
        }
    }

    /// Whether a dependent keeps a foreground deletion of its owner waiting.
    fn blocks(&self, dependent: &Place, owner: &str) -> bool {
        self.store.get(&dependent.0, &dependent.1).is_some_and(|d| {
            d.slim["metadata"]["ownerReferences"].as_array().is_some_and(|refs| {
                refs.iter().any(|r| r["uid"] == owner && r["blockOwnerDeletion"] == true)
            })
        })
    }

    /// Starts to delete what is in a namespace; true when nothing is left.
    fn empty_namespace(&mut self, namespace: &str, queue: &mut VecDeque<Work>) -> bool {
        let left: Vec<Place> = self
            .store
            .tables()
            .flat_map(|(resource, table)| {
                table.range(Some(namespace)).map(|(k, _)| (resource.clone(), k.clone()))
            })
            .collect();
        for place in &left {
            let deleting = self.store.get(&place.0, &place.1).is_some_and(|o| is_deleting(&o.slim));
            if !deleting {
                queue.push_back(Work::Delete(place.clone(), Propagation::Background));
            }
        }
        left.is_empty()
    }

    fn after_removal(&mut self, place: &Place, last: &Arc<Stored>, queue: &mut VecDeque<Work>) {
        if let Some(uid) = last.slim["metadata"]["uid"].as_str() {
            queue.extend(self.store.dependents(uid).into_iter().map(Work::Check));
        }
        for uid in owners(&last.slim) {
            if let Some(owner) = self.store.place(uid) {
                queue.push_back(Work::Progress(owner.clone()));
            }
        }
        if !place.1.namespace.is_empty()
            && self.namespace(&place.1.namespace).is_some_and(|n| is_deleting(&n.slim))
        {
            queue.push_back(Work::Progress((namespaces(), Key::new("", &place.1.namespace))));
        }
        crd::removed(self, place, last);
        if let Some(definition) = crd::definition_of(self, &place.0) {
            queue.push_back(Work::Progress(definition));
        }
    }

    /// Deletes an object whose owners are all gone; otherwise forgets the owners that are.
    fn check_owners(&mut self, place: &Place, queue: &mut VecDeque<Work>) {
        let Some(stored) = self.store.get(&place.0, &place.1).cloned() else { return };
        let mut absent = Vec::new();
        let mut waiting = Vec::new();
        let mut solid = 0;
        for uid in owners(&stored.slim) {
            let owner = self
                .store
                .place(uid)
                // An owner in another namespace does not count.
                .filter(|p| p.1.namespace.is_empty() || p.1.namespace == place.1.namespace)
                .and_then(|p| self.store.get(&p.0, &p.1));
            match owner {
                None => absent.push(uid),
                Some(o) if is_deleting(&o.slim) && finalizers(&o.slim).contains(&FOREGROUND) => {
                    waiting.push(uid)
                }
                Some(_) => solid += 1,
            }
        }
        if absent.is_empty() && waiting.is_empty() {
            return;
        }
        if solid > 0 {
            absent.extend(waiting);
            self.disown(place, &absent);
        } else if !is_deleting(&stored.slim) {
            let uid = stored.slim["metadata"]["uid"].as_str().unwrap_or_default();
            let has_blocking = self.store.dependents(uid).iter().any(|d| self.blocks(d, uid));
            let propagation = if !waiting.is_empty() && has_blocking {
                Propagation::Foreground
            } else {
                Propagation::Background
            };
            queue.push_back(Work::Delete(place.clone(), propagation));
        }
    }

    /// Takes owner references off an object.
    fn disown(&mut self, place: &Place, uids: &[&str]) {
        let Some(stored) = self.store.get(&place.0, &place.1) else { return };
        let mut object = stored.full();
        if let Some(refs) = object["metadata"]["ownerReferences"].as_array_mut() {
            refs.retain(|r| !uids.contains(&r["uid"].as_str().unwrap_or_default()));
            if refs.is_empty()
                && let Some(meta) = object["metadata"].as_object_mut()
            {
                meta.remove("ownerReferences");
            }
        }
        self.store.put(&place.0, place.1.clone(), object);
    }
}
