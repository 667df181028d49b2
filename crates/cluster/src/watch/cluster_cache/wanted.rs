//! Which instances need the content of which objects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use wavegate_api::resource_key::ResourceKey;

/// The objects that the targets of each instance name.
///
/// Contains only digests of their keys. Two objects of one digest are one object here, which
/// costs no more than a reconcile, or the content of an object that nobody needs.
#[derive(Debug, Default)]
pub(super) struct WantedKinds {
    by_key: BTreeSet<(u64, Arc<str>)>,
    /// In an order that is the same in each simulation.
    by_instance: BTreeMap<Arc<str>, Box<[u64]>>,
}

impl WantedKinds {
    /// The instances that need an object.
    pub fn by(&self, key: &ResourceKey) -> impl Iterator<Item = &str> {
        let key = key.digest();
        let from = self.by_key.range((key, Arc::from(""))..);
        from.take_while(move |(other, _)| *other == key).map(|(_, instance)| &**instance)
    }

    /// All instances that need an object.
    pub fn instances(&self) -> impl Iterator<Item = &str> {
        self.by_instance.keys().map(|instance| &**instance)
    }

    /// Sets the objects that an instance needs.
    pub fn set<'a>(&mut self, instance: &str, keys: impl IntoIterator<Item = &'a ResourceKey>) {
        let mut keys: Vec<u64> = keys.into_iter().map(ResourceKey::digest).collect();
        keys.sort_unstable();
        keys.dedup();
        let known = self.by_instance.get_key_value(instance);
        if known.map_or(&[][..], |(_, known)| known) == keys {
            return;
        }
        let instance = known.map_or_else(|| Arc::from(instance), |(known, _)| Arc::clone(known));
        for gone in self.by_instance.remove(&instance).unwrap_or_default() {
            self.by_key.remove(&(gone, Arc::clone(&instance)));
        }
        self.by_key.extend(keys.iter().map(|key| (*key, Arc::clone(&instance))));
        if !keys.is_empty() {
            self.by_instance.insert(instance, keys.into());
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
}
