//! The objects of a cluster, by what they belong to.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use wavegate_api::resource_key::ResourceKey;

/// Levels of owners that are followed.
pub(super) const DEPTH: usize = 16;

/// What an object belongs to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OwnerLink {
    /// By its UID.
    Uid(Arc<str>),
    /// By its key, where the object does not name the UID.
    Key(ResourceKey),
    /// Any object that claims this name, without the number at the end of the object's own.
    Claim(ResourceKey),
}

/// A tree that has changed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChangedTree {
    /// That of an instance.
    Of(String),
    /// Those of all instances that show what no Application manages in this namespace.
    Unmanaged(String),
}

/// What is kept of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excerpt {
    /// The part that readers need, in a form that only they know.
    pub content: Box<[u8]>,
    /// What it belongs to.
    pub owners: Vec<OwnerLink>,
    /// What it claims: the names of objects that belong to it, without their numbers.
    pub claims: Vec<ResourceKey>,
    /// The Node that a Pod runs on.
    pub runs_on: Option<Box<str>>,
}

/// An object of the graph.
#[derive(Debug)]
pub struct GraphMember {
    /// Its key.
    pub key: ResourceKey,
    /// Its UID.
    pub uid: Arc<str>,
    /// The instance that tracks it.
    pub instance: Option<String>,
    pub(super) excerpt: Excerpt,
}

impl GraphMember {
    /// The part that readers need.
    pub fn content(&self) -> &[u8] {
        &self.excerpt.content
    }

    /// Whether it names what it belongs to.
    pub(super) fn names_an_owner(&self) -> bool {
        self.excerpt.owners.iter().any(|owner| !matches!(owner, OwnerLink::Claim(_)))
    }
}

/// The objects.
#[derive(Default)]
pub(super) struct Members {
    pub(super) by_uid: HashMap<Arc<str>, Arc<GraphMember>>,
    pub(super) by_key: BTreeMap<ResourceKey, Arc<str>>,
    /// Owners with what belongs to them.
    pub(super) owned: BTreeSet<(OwnerLink, Arc<str>)>,
    /// Objects that name no owner, by namespace.
    pub(super) ownerless: BTreeSet<(String, Arc<str>)>,
    /// Names with those that claim them.
    pub(super) claims: BTreeSet<(ResourceKey, Arc<str>)>,
    /// Nodes with the Pods that run on them.
    pub(super) on_nodes: BTreeSet<(Box<str>, Arc<str>)>,
}

impl Members {
    pub fn insert(&mut self, member: Arc<GraphMember>) {
        let uid = Arc::clone(&member.uid);
        if !member.names_an_owner() && !member.key.namespace.is_empty() {
            self.ownerless.insert((member.key.namespace.clone(), Arc::clone(&uid)));
        }
        let owners = member.excerpt.owners.iter().cloned();
        self.owned.extend(owners.map(|owner| (owner, Arc::clone(&uid))));
        let claims = member.excerpt.claims.iter().cloned();
        self.claims.extend(claims.map(|name| (name, Arc::clone(&uid))));
        let node = member.excerpt.runs_on.clone();
        self.on_nodes.extend(node.map(|node| (node, Arc::clone(&uid))));
        self.by_key.insert(member.key.clone(), Arc::clone(&uid));
        self.by_uid.insert(uid, member);
    }

    /// Removes an object. Returns the trees that it was in.
    pub fn remove(&mut self, uid: &str) -> BTreeSet<ChangedTree> {
        let changed = self.trees_with(uid);
        if let Some((uid, old)) = self.by_uid.remove_entry(uid) {
            for owner in &old.excerpt.owners {
                self.owned.remove(&(owner.clone(), Arc::clone(&uid)));
            }
            for name in &old.excerpt.claims {
                self.claims.remove(&(name.clone(), Arc::clone(&uid)));
            }
            if let Some(node) = &old.excerpt.runs_on {
                self.on_nodes.remove(&(node.clone(), Arc::clone(&uid)));
            }
            if !old.names_an_owner() {
                self.ownerless.remove(&(old.key.namespace.clone(), Arc::clone(&uid)));
            }
            if self.by_key.get(&old.key) == Some(&uid) {
                self.by_key.remove(&old.key);
            }
        }
        changed
    }

    pub fn owned_by(&self, member: &GraphMember) -> impl Iterator<Item = &Arc<GraphMember>> {
        let named = [OwnerLink::Uid(Arc::clone(&member.uid)), OwnerLink::Key(member.key.clone())];
        let claimed = member.excerpt.claims.iter().cloned().map(OwnerLink::Claim);
        named.into_iter().chain(claimed).flat_map(|owner| {
            let from = self.owned.range((owner.clone(), Arc::from(""))..);
            from.take_while(move |(other, _)| *other == owner)
                .filter_map(|(_, uid)| self.by_uid.get(uid))
        })
    }

    pub fn claiming(&self, name: &ResourceKey) -> impl Iterator<Item = &Arc<GraphMember>> {
        let from = self.claims.range((name.clone(), Arc::from(""))..);
        let of_name = from.take_while(move |(other, _)| other == name);
        of_name.filter_map(|(_, uid)| self.by_uid.get(uid))
    }

    /// The objects that a member belongs to and that exist.
    pub fn owners(&self, member: &GraphMember) -> Vec<&Arc<GraphMember>> {
        let mut found = Vec::new();
        for owner in &member.excerpt.owners {
            match owner {
                OwnerLink::Uid(uid) => found.extend(self.by_uid.get(uid)),
                OwnerLink::Key(key) => {
                    found.extend(self.by_key.get(key).and_then(|uid| self.by_uid.get(uid)));
                }
                OwnerLink::Claim(name) => found.extend(self.claiming(name)),
            }
        }
        found
    }

    /// Whether it belongs to another object. One that is named counts although it is gone; a
    /// name that could be claimed only when it is.
    pub fn is_owned(&self, member: &GraphMember) -> bool {
        member.excerpt.owners.iter().any(|owner| match owner {
            OwnerLink::Uid(_) | OwnerLink::Key(_) => true,
            OwnerLink::Claim(name) => self.claiming(name).next().is_some(),
        })
    }

    /// The trees that an object is in: those of the instances that track it or what it belongs
    /// to, or else those of its namespace.
    pub fn trees_with(&self, uid: &str) -> BTreeSet<ChangedTree> {
        let mut found = BTreeSet::new();
        let mut seen = BTreeSet::new();
        let mut open: Vec<&Arc<GraphMember>> = self.by_uid.get(uid).into_iter().collect();
        while let Some(member) = open.pop() {
            if seen.len() > DEPTH * DEPTH || !seen.insert(Arc::clone(&member.uid)) {
                continue;
            }
            found.extend(member.instance.clone().map(ChangedTree::Of));
            open.extend(self.owners(member));
        }
        let namespace = self.by_uid.get(uid).map(|member| &member.key.namespace);
        if let Some(namespace) = namespace.filter(|name| found.is_empty() && !name.is_empty()) {
            found.insert(ChangedTree::Unmanaged(namespace.clone()));
        }
        found
    }
}
