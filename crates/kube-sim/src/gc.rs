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
use super::place::{Key, Place, ResourceKey};
use super::state::State;
use super::stored::{Owner, Stored, set_finalizers};

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
        // The answer to the caller: the state before dependents and owners follow.
        let answer = match self.store.get(&place.0, &place.1) {
            Some(still) => (still.clone(), false),
            None => (before, true),
        };
        self.settle(queue, now);
        Some(answer)
    }

    /// Follows up on a write: an object that waits to be deleted may go now.
    pub fn written(&mut self, place: &Place, former_owners: &[Owner], now: Timestamp) {
        let Some(stored) = self.store.get(&place.0, &place.1).cloned() else { return };
        let among = |owners: &[Owner], uid: &str| owners.iter().any(|owner| &*owner.uid == uid);
        let mut work = VecDeque::new();
        if stored.deleting {
            work.push_back(Work::Progress(place.clone()));
        }
        let current = &stored.owners;
        if current.iter().any(|owner| {
            self.store.place(&owner.uid).is_none() || !among(former_owners, &owner.uid)
        }) {
            work.push_back(Work::Check(place.clone()));
        }
        for former in former_owners.iter().filter(|former| !among(current, &former.uid)) {
            if let Some(owner) = self.store.place(&former.uid) {
                work.push_back(Work::Progress(owner.clone()));
            }
        }
        self.settle(work, now);
    }

    /// Removes an object that nothing holds any more, and settles what follows.
    pub fn remove_now(&mut self, place: &Place, now: Timestamp) -> Option<Arc<Stored>> {
        let last = self.store.remove(&place.0, &place.1)?;
        self.settle(VecDeque::from([Work::Removed(place.clone(), last.clone())]), now);
        Some(last)
    }

    /// Deletes expired Events. Called before each request for Events.
    pub fn expire_events(&mut self, now: Timestamp) {
        while let Some((revision, key)) = self.event_expiry.take_expired(now) {
            let place = (ResourceKey::events(), key);
            // A client may have deleted it and created another one of that name.
            if self.store.get(&place.0, &place.1).is_some_and(|event| event.revision == revision) {
                self.remove_now(&place, now);
            }
        }
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
        let mut list: Vec<&str> = stored.finalizers.iter().map(AsRef::as_ref).collect();
        // A deletion that already waits for dependents continues to wait.
        if propagation != Propagation::Background || !stored.deleting {
            list.retain(|f| *f != FOREGROUND && *f != ORPHAN);
        }
        match propagation {
            Propagation::Foreground => list.push(FOREGROUND),
            Propagation::Orphan => list.push(ORPHAN),
            Propagation::Background => {}
        }
        let namespace = place.0 == ResourceKey::namespaces();
        if list.is_empty() && !namespace {
            if let Some(last) = self.store.remove(&place.0, &place.1) {
                queue.push_back(Work::Removed(place.clone(), last));
            }
            return;
        }
        let before = stored.object();
        let mut object = before.clone();
        let value = &mut object.value;
        set_finalizers(value, &list);
        if !stored.deleting {
            value["metadata"]["deletionTimestamp"] = json!(seconds(now));
            value["metadata"]["deletionGracePeriodSeconds"] = json!(0);
            if let Some(generation) = value["metadata"]["generation"].as_i64() {
                value["metadata"]["generation"] = json!(generation + 1);
            }
            if namespace {
                value["status"]["phase"] = json!("Terminating");
            }
            crd::mark_terminating(&place.0, value, now);
        }
        if object != before {
            self.store.put(&place.0, place.1.clone(), object);
        }
        if list.contains(&FOREGROUND) {
            queue.extend(self.store.dependents(&stored.uid).cloned().map(Work::Check));
        }
        queue.extend(
            self.contents(place).into_iter().map(|p| Work::Delete(p, Propagation::Background)),
        );
        queue.push_back(Work::Progress(place.clone()));
    }

    /// Removes the server's own finalizers from an object that nothing holds any
    /// more. The deletion of dependents and contents began with that of the
    /// object, so that it is enough here to look at the first that is left.
    fn progress(&mut self, place: &Place, queue: &mut VecDeque<Work>) {
        let Some(stored) = self.store.get(&place.0, &place.1).cloned() else { return };
        if !stored.deleting {
            return;
        }
        let mut list: Vec<&str> = stored.finalizers.iter().map(AsRef::as_ref).collect();
        if list.contains(&ORPHAN) {
            let dependents: Vec<Place> = self.store.dependents(&stored.uid).cloned().collect();
            for dependent in dependents {
                self.disown(&dependent, &[&stored.uid]);
            }
            list.retain(|f| *f != ORPHAN);
        }
        if list.contains(&FOREGROUND) && !self.is_blocked(&stored.uid) {
            list.retain(|f| *f != FOREGROUND);
        }
        if list.contains(&crd::CLEANUP) && crd::is_empty(&self.store, &place.1.name) {
            list.retain(|f| *f != crd::CLEANUP);
        }
        if place.0 == ResourceKey::namespaces() && !self.store.is_empty(&place.1.name) {
            return;
        }
        if list.len() != stored.finalizers.len() {
            let mut object = stored.object();
            set_finalizers(&mut object.value, &list);
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

    /// Whether a dependent keeps the deletion of its owner in the foreground waiting.
    fn is_blocked(&self, owner: &str) -> bool {
        self.store
            .dependents(owner)
            .filter_map(|d| self.store.get(&d.0, &d.1))
            .any(|dependent| dependent.owners.iter().any(|o| &*o.uid == owner && o.blocks))
    }

    /// What is deleted with a namespace or with the definition of a kind, without
    /// what is being deleted already.
    fn contents(&self, place: &Place) -> Vec<Place> {
        let mut contents = if place.0 == ResourceKey::namespaces() {
            self.store.places_in(&place.1.name)
        } else if place.0 == ResourceKey::definitions() {
            crd::contents(&self.store, &place.1.name)
        } else {
            Vec::new()
        };
        contents.retain(|p| self.store.get(&p.0, &p.1).is_some_and(|object| !object.deleting));
        contents
    }

    fn after_removal(&mut self, place: &Place, last: &Arc<Stored>, queue: &mut VecDeque<Work>) {
        queue.extend(self.store.dependents(&last.uid).cloned().map(Work::Check));
        for owner in &last.owners {
            if let Some(owner) = self.store.place(&owner.uid) {
                queue.push_back(Work::Progress(owner.clone()));
            }
        }
        if !place.1.namespace.is_empty()
            && self.namespace(&place.1.namespace).is_some_and(|n| n.deleting)
        {
            queue.push_back(Work::Progress((
                ResourceKey::namespaces(),
                Key::new("", place.1.namespace.clone()),
            )));
        }
        crd::removed(self, place);
        if let Some(definition) = crd::definition_of(self, &place.0) {
            queue.push_back(Work::Progress(definition));
        }
    }

    /// Deletes an object whose owners are all gone; otherwise forgets the owners that are.
    fn check_owners(&mut self, place: &Place, queue: &mut VecDeque<Work>) {
        let Some(stored) = self.store.get(&place.0, &place.1).cloned() else { return };
        let mut absent: Vec<&str> = Vec::new();
        let mut waiting: Vec<&str> = Vec::new();
        let mut solid = 0;
        for Owner { uid, .. } in &stored.owners {
            let owner = self
                .store
                .place(uid)
                // An owner in another namespace does not count.
                .filter(|p| p.1.namespace.is_empty() || p.1.namespace == place.1.namespace)
                .and_then(|p| self.store.get(&p.0, &p.1));
            match owner {
                None => absent.push(uid),
                Some(o) if o.deleting && o.has_finalizer(FOREGROUND) => waiting.push(uid),
                Some(_) => solid += 1,
            }
        }
        if absent.is_empty() && waiting.is_empty() {
            return;
        }
        if solid > 0 {
            absent.extend(waiting);
            self.disown(place, &absent);
        } else if !stored.deleting {
            let propagation = if !waiting.is_empty() && self.is_blocked(&stored.uid) {
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
        let mut object = stored.object();
        let meta = &mut object.value["metadata"];
        if let Some(refs) = meta["ownerReferences"].as_array_mut() {
            refs.retain(|r| !uids.contains(&r["uid"].as_str().unwrap_or_default()));
            if refs.is_empty()
                && let Some(meta) = meta.as_object_mut()
            {
                meta.remove("ownerReferences");
            }
        }
        self.store.put(&place.0, place.1.clone(), object);
    }
}
