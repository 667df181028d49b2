//! Which instances need the content of which objects, and which of them are theirs to have.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use wavegate_api::resource_key::ResourceKey;
use wavegate_application::memory::digest_of;

/// How many earlier revisions are remembered: those to which a rollout goes back.
const FORMER: usize = 3;

/// The objects that the targets of each instance name, and those that it claims: nobody else
/// deletes these.
///
/// Contains only digests of their keys. Two objects of one digest are one object here, which
/// costs no more than a reconcile, the content of an object that nobody needs, or an object that
/// is left in the cluster.
#[derive(Debug, Default)]
pub struct WantedKinds {
    by_key: BTreeSet<(u64, Arc<str>)>,
    /// In an order that is the same in each simulation.
    by_instance: BTreeMap<Arc<str>, Wanted>,
    /// Objects that an instance has no longer in its source: it follows who claims them.
    followed: BTreeMap<Arc<str>, Box<[u64]>>,
}

/// What one instance names and claims. Usually, this is the same.
#[derive(Debug, Default)]
struct Wanted {
    named: Box<[u64]>,
    differences: Option<Box<Differences>>,
    /// Digests of the revisions with the claims.
    revisions: Box<[u64]>,
    /// Earlier revisions, oldest first, and what is not claimed any more since then.
    former: Vec<(Box<[u64]>, Vec<u64>)>,
}

#[derive(Debug)]
struct Differences {
    unclaimed: Box<[u64]>,
    unnamed: Box<[u64]>,
}

impl Wanted {
    fn new(named: Vec<u64>, claimed: &[u64]) -> Self {
        let unclaimed: Box<[u64]> = without(&named, claimed).collect();
        let unnamed: Box<[u64]> = without(claimed, &named).collect();
        let is_any = !unclaimed.is_empty() || !unnamed.is_empty();
        let differences = is_any.then(|| Box::new(Differences { unclaimed, unnamed }));
        Self { named: named.into(), differences, ..Self::default() }
    }

    /// The same with earlier claims, after these.
    fn after(mut self, old: Self, claimed: &[u64]) -> Self {
        let before = old.claimed();
        let gone: Vec<u64> = without(&before, claimed).collect();
        self.former = old.former;
        if old.revisions != self.revisions && !before.is_empty() {
            self.former.retain(|(of, _)| *of != self.revisions && *of != old.revisions);
            self.former.push((old.revisions, Vec::new()));
        }
        for (_, keys) in &mut self.former {
            let new: Vec<u64> = gone.iter().filter(|key| !keys.contains(key)).copied().collect();
            keys.extend(new);
        }
        let surplus = self.former.len().saturating_sub(FORMER);
        self.former.drain(..surplus);
        self
    }

    fn claims(&self, key: u64) -> bool {
        let is_in = |keys: &[u64]| keys.binary_search(&key).is_ok();
        match &self.differences {
            None => is_in(&self.named),
            Some(but) => is_in(&but.unnamed) || (is_in(&self.named) && !is_in(&but.unclaimed)),
        }
    }

    /// Whether it claimed an object at one of these revisions.
    fn claimed_at(&self, key: u64, revisions: &[u64]) -> bool {
        let is_of = |of: &[u64]| of.iter().any(|one| revisions.contains(one));
        self.former.iter().any(|(of, keys)| is_of(of) && keys.contains(&key))
    }

    fn all(&self) -> impl Iterator<Item = u64> {
        let unnamed = self.differences.iter().flat_map(|but| but.unnamed.iter());
        self.named.iter().chain(unnamed).copied()
    }

    fn claimed(&self) -> Vec<u64> {
        let mut claimed: Vec<u64> = self.all().filter(|key| self.claims(*key)).collect();
        claimed.sort_unstable();
        claimed
    }
}

/// Those of some sorted keys that are not among others.
fn without<'a>(keys: &'a [u64], others: &'a [u64]) -> impl Iterator<Item = u64> + 'a {
    keys.iter().copied().filter(|key| others.binary_search(key).is_err())
}

fn digests<'a>(keys: impl IntoIterator<Item = &'a ResourceKey>) -> Vec<u64> {
    let mut keys: Vec<u64> = keys.into_iter().map(ResourceKey::digest).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

fn digests_of(revisions: &[String]) -> Box<[u64]> {
    revisions.iter().map(digest_of::<String>).collect()
}

impl WantedKinds {
    /// The instances that need an object.
    pub(super) fn by(&self, key: &ResourceKey) -> impl Iterator<Item = &str> {
        self.of(key.digest()).map(|instance| &**instance)
    }

    fn of(&self, key: u64) -> impl Iterator<Item = &Arc<str>> {
        let from = self.by_key.range((key, Arc::from(""))..);
        from.take_while(move |(other, _)| *other == key).map(|(_, instance)| instance)
    }

    /// The instances that claim an object.
    pub(super) fn claiming(&self, key: &ResourceKey) -> impl Iterator<Item = &str> {
        let key = key.digest();
        let claims =
            move |one: &&Arc<str>| self.by_instance.get(*one).is_some_and(|own| own.claims(key));
        self.of(key).filter(claims).map(|instance| &**instance)
    }

    /// The instances that claimed an object when they had one of these revisions.
    pub(super) fn claiming_at(
        &self,
        key: &ResourceKey,
        revisions: &[String],
    ) -> impl Iterator<Item = &str> {
        let (key, revisions) = (key.digest(), digests_of(revisions));
        let all = self.by_instance.iter();
        let former = all.filter(move |(_, own)| own.claimed_at(key, &revisions));
        former.map(|(instance, _)| &**instance)
    }

    /// All instances that need an object.
    pub(super) fn instances(&self) -> impl Iterator<Item = &str> {
        self.by_instance.keys().map(|instance| &**instance)
    }

    /// Sets the objects that an instance needs.
    pub(super) fn set<'a>(
        &mut self,
        instance: &str,
        keys: impl IntoIterator<Item = &'a ResourceKey>,
    ) {
        let named = digests(keys);
        let known = self.by_instance.get(instance);
        if known.map_or(&[][..], |known| &known.named) == named {
            return;
        }
        let claimed = known.map(Wanted::claimed).unwrap_or_default();
        let revisions = known.map(|known| known.revisions.clone()).unwrap_or_default();
        self.put(instance, named, &claimed, revisions);
    }

    /// Sets the objects that an instance claims by these revisions. Returns the others that follow
    /// one that it claims from now on, or no longer.
    pub(super) fn claim<'a>(
        &mut self,
        instance: &str,
        keys: impl IntoIterator<Item = &'a ResourceKey>,
        revisions: &[String],
    ) -> Vec<Arc<str>> {
        let (claimed, revisions) = (digests(keys), digests_of(revisions));
        let known = self.by_instance.get(instance);
        let before = known.map(Wanted::claimed).unwrap_or_default();
        if before == claimed && known.is_none_or(|known| known.revisions == revisions) {
            return Vec::new();
        }
        let named = known.map(|known| known.named.to_vec()).unwrap_or_default();
        self.put(instance, named, &claimed, revisions);
        let is_in = |keys: &[u64], key: &u64| keys.binary_search(key).is_ok();
        let is_news = |key: &u64| is_in(&before, key) != is_in(&claimed, key);
        let followed = self.followed.iter().filter(|(other, _)| ***other != *instance);
        let concerned = followed.filter(|(_, keys)| keys.iter().any(is_news));
        concerned.map(|(other, _)| Arc::clone(other)).collect()
    }

    /// Sets the objects of which an instance follows who claims them.
    pub(super) fn follow<'a>(
        &mut self,
        instance: &str,
        keys: impl IntoIterator<Item = &'a ResourceKey>,
    ) {
        let keys = digests(keys);
        if keys.is_empty() {
            self.followed.remove(instance);
        } else if self.followed.get(instance).is_none_or(|known| **known != *keys) {
            self.followed.insert(Arc::from(instance), keys.into());
        }
    }

    fn put(&mut self, instance: &str, named: Vec<u64>, claimed: &[u64], revisions: Box<[u64]>) {
        let known = self.by_instance.remove_entry(instance);
        let (instance, old) = known.unwrap_or_else(|| (Arc::from(instance), Wanted::default()));
        for gone in old.all() {
            self.by_key.remove(&(gone, Arc::clone(&instance)));
        }
        let mut new = Wanted::new(named, claimed);
        new.revisions = revisions;
        // One that is being deleted, or was refused, has never had anything.
        if !claimed.is_empty() {
            new = new.after(old, claimed);
        }
        self.by_key.extend(new.all().map(|key| (key, Arc::clone(&instance))));
        if new.all().next().is_some() {
            self.by_instance.insert(instance, new);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_wanted_by_the_instances_that_name_it_now() {
        let [a, b] = ["a", "b"].map(|name| ResourceKey::new("", "ConfigMap", "web", name));
        let mut wanted = WantedKinds::default();
        let by = |wanted: &WantedKinds, key| wanted.by(key).map(str::to_owned).collect::<Vec<_>>();
        wanted.set("two", [&a]);
        wanted.set("one", [&a, &b, &a]);
        assert_eq!(by(&wanted, &a), ["one", "two"]);
        assert_eq!(by(&wanted, &b), ["one"]);
        wanted.set("one", [&b]);
        assert_eq!(by(&wanted, &a), ["two"]);
        assert_eq!(by(&wanted, &b), ["one"]);
        for instance in ["one", "two", "none"] {
            wanted.set(instance, []);
        }
        assert!(wanted.by_key.is_empty() && wanted.by_instance.is_empty());
    }

    /// What an instance needs for another reason, such as an operation with an older commit, does
    /// not change what it claims.
    #[test]
    fn an_object_is_claimed_until_the_instance_says_otherwise() {
        let [a, b, c] = ["a", "b", "c"].map(|name| ResourceKey::new("", "ConfigMap", "web", name));
        let mut wanted = WantedKinds::default();
        let claiming =
            |wanted: &WantedKinds, key| wanted.claiming(key).map(str::to_owned).collect::<Vec<_>>();
        wanted.set("one", [&a, &b]);
        assert_eq!(claiming(&wanted, &a), [""; 0], "named, and not claimed");
        wanted.follow("two", [&a]);
        wanted.follow("three", [&c]);
        let told = wanted.claim("one", [&a, &c], &[]);
        assert_eq!(told, [Arc::from("three"), Arc::from("two")]);
        assert!(wanted.claim("one", [&c, &a], &[]).is_empty(), "nothing new");
        for named in [vec![&a, &b], vec![&b], vec![], vec![&c, &a]] {
            wanted.set("one", named);
            let found = [&a, &b, &c].map(|key| claiming(&wanted, key).len());
            assert_eq!(found, [1, 0, 1]);
        }
        assert!(wanted.by_instance["one"].differences.is_none(), "nothing is kept twice");
        wanted.follow("three", []);
        assert_eq!(wanted.claim("one", [], &[]), [Arc::from("two")]);
        wanted.set("one", []);
        assert!(wanted.by_key.is_empty() && wanted.by_instance.is_empty());
    }

    /// What goes back to an earlier revision must not delete what another instance had then.
    #[test]
    fn what_was_claimed_at_an_earlier_revision_is_remembered() {
        let [a, b] = ["a", "b"].map(|name| ResourceKey::new("", "ConfigMap", "web", name));
        let at = |revision: usize| [format!("c{revision}"), "other".to_owned()];
        let mut wanted = WantedKinds::default();
        wanted.claim("one", [&a, &b], &at(0));
        wanted.claim("one", [&a], &at(1));
        wanted.set("one", [&a]);
        let then = |wanted: &WantedKinds, key, revision: usize| {
            wanted.claiming_at(key, &at(revision)[..1]).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(then(&wanted, &b, 0), ["one"]);
        assert_eq!(then(&wanted, &b, 1), [""; 0]);
        assert_eq!(then(&wanted, &a, 0), [""; 0], "it is claimed now");
        wanted.claim("one", [&b], &at(0));
        assert_eq!(then(&wanted, &a, 1), ["one"], "it goes back itself");
        for revision in 2..2 + FORMER {
            wanted.claim("one", [&b], &at(revision));
        }
        assert_eq!(then(&wanted, &a, 1), [""; 0], "it is long ago");
        wanted.claim("one", [&a], &at(9));
        wanted.claim("one", [], &[]);
        assert_eq!(then(&wanted, &b, 2 + FORMER - 1), [""; 0], "it is being deleted");
    }
}
