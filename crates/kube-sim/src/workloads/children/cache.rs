//! Owners and children as last seen, own writes included.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use kube::{ResourceExt, api::DynamicObject};

use crate::workloads::kind::WorkloadKind;

pub(super) struct Cache {
    /// In an order of its own: it is gone through.
    objects: BTreeMap<Uid, (WorkloadKind, Arc<DynamicObject>)>,
    /// Children by owner.
    owned: HashMap<Uid, BTreeSet<Uid>>,
    /// Kinds that are being listed, with what was in the list so far.
    listing: HashMap<WorkloadKind, HashSet<Uid>>,
    /// Kinds that were never listed as a whole.
    missing: HashSet<WorkloadKind>,
}

impl Cache {
    pub fn new(kinds: impl IntoIterator<Item = WorkloadKind>) -> Self {
        Self {
            objects: BTreeMap::new(),
            owned: HashMap::new(),
            listing: HashMap::new(),
            missing: kinds.into_iter().collect(),
        }
    }

    /// Whether every kind was listed: before, children seem to be missing.
    pub fn is_filled(&self) -> bool {
        self.missing.is_empty()
    }

    pub fn begin(&mut self, kind: WorkloadKind) {
        self.listing.insert(kind, HashSet::new());
    }

    pub fn listed(&mut self, kind: WorkloadKind, object: &DynamicObject) {
        if let (Some(listed), Some(uid)) = (self.listing.get_mut(&kind), object.uid()) {
            listed.insert(uid);
        }
    }

    /// Ends a list: what was not in it is gone. Gives back the owners of that.
    pub fn end(&mut self, kind: WorkloadKind) -> Vec<Uid> {
        self.missing.remove(&kind);
        let Some(listed) = self.listing.remove(&kind) else { return Vec::new() };
        let gone = |(uid, (of, _)): (&Uid, &(WorkloadKind, Arc<DynamicObject>))| {
            (*of == kind && !listed.contains(uid)).then(|| uid.clone())
        };
        let gone: Vec<Uid> = self.objects.iter().filter_map(gone).collect();
        let owners = gone.iter().filter_map(|uid| owner_of(&self.objects.get(uid)?.1)).collect();
        gone.iter().for_each(|uid| self.remove(uid));
        owners
    }

    /// Takes in an object unless a newer state of it is known. Gives back the state
    /// before.
    pub fn put(
        &mut self,
        kind: WorkloadKind,
        mut object: DynamicObject,
    ) -> Option<Arc<DynamicObject>> {
        object.metadata.managed_fields = None;
        let uid = object.uid()?;
        let before = self.objects.get(&uid).map(|(_, object)| object.clone());
        let version = |object: &DynamicObject| object.resource_version()?.parse::<u64>().ok();
        if before.as_deref().and_then(version) > version(&object) {
            return before;
        }
        if let Some(owner) = owner_of(&object) {
            self.owned.entry(owner).or_default().insert(uid.clone());
        }
        self.objects.insert(uid, (kind, Arc::new(object)));
        before
    }

    pub fn remove(&mut self, uid: &Uid) {
        let Some((_, object)) = self.objects.remove(uid) else { return };
        if let Some(owner) = owner_of(&object)
            && let Some(siblings) = self.owned.get_mut(&owner)
        {
            siblings.remove(uid);
            if siblings.is_empty() {
                self.owned.remove(&owner);
            }
        }
    }

    pub fn get(&self, uid: &Uid) -> Option<(WorkloadKind, Arc<DynamicObject>)> {
        self.objects.get(uid).cloned()
    }

    /// The children of a kind that are not being deleted, by name.
    pub fn children(&self, owner: &DynamicObject, kind: WorkloadKind) -> Vec<Arc<DynamicObject>> {
        let uid = owner.uid().unwrap_or_default();
        let owned = self.owned.get(&uid).into_iter().flatten();
        let mut children: Vec<_> = owned
            .filter_map(|uid| self.objects.get(uid))
            .filter(|(of, child)| *of == kind && child.metadata.deletion_timestamp.is_none())
            .map(|(_, child)| child.clone())
            .collect();
        children.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
        children
    }

    /// Whether a child of this name is there, though it may be going.
    pub fn has(&self, owner: &DynamicObject, kind: WorkloadKind, name: &str) -> bool {
        let uid = owner.uid().unwrap_or_default();
        let owned = self.owned.get(&uid).into_iter().flatten();
        owned
            .filter_map(|uid| self.objects.get(uid))
            .any(|(of, child)| *of == kind && child.metadata.name.as_deref() == Some(name))
    }
}

pub(super) type Uid = String;

/// The UID of the controller of an object.
pub(super) fn owner_of(object: &DynamicObject) -> Option<Uid> {
    let owner = object.owner_references().iter().find(|owner| owner.controller == Some(true))?;
    Some(owner.uid.clone())
}
