//! The trees of objects that were written last, since they are often written again soon.

use std::collections::BTreeMap;

use serde_json::Value;

use super::stored::{Object, Stored};

/// Bytes of text whose trees are kept; a tree takes about eight times as much.
const LIMIT: usize = 2 << 20;

/// Some trees, by the revision of the object.
#[derive(Debug, Default)]
pub(crate) struct Trees {
    trees: BTreeMap<u64, (Value, usize)>,
    bytes: usize,
}

impl Trees {
    /// Keeps the tree of what was just stored, in place of the oldest ones.
    pub fn keep(&mut self, value: Value, stored: &Stored) {
        let size = stored.json.len();
        if size > LIMIT {
            return;
        }
        self.bytes += size;
        self.trees.insert(stored.revision, (value, size));
        while self.bytes > LIMIT
            && let Some((_, (_, size))) = self.trees.pop_first()
        {
            self.bytes -= size;
        }
    }

    /// The object as a tree, for another state of it: the tree is not kept any longer.
    pub fn take(&mut self, stored: &Stored) -> Object {
        match self.trees.remove(&stored.revision) {
            Some((value, size)) => {
                self.bytes -= size;
                Object { value, managed: stored.managed() }
            }
            None => stored.object(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(revision: u64, size: usize) -> Object {
        let meta = json!({"name": "a", "resourceVersion": revision.to_string()});
        let managed = Some(br#"[{"manager":"m"}]"#.to_vec().into());
        let value = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"a": "x".repeat(size)},
        });
        Object { value, managed }
    }

    #[test]
    fn the_last_trees_are_kept_up_to_their_limit() {
        let mut trees = Trees::default();
        let written: Vec<_> = (1..=5).map(|revision| object(revision, LIMIT / 4)).collect();
        let stored: Vec<_> = written.iter().map(Stored::new).collect();
        for (object, stored) in written.iter().zip(&stored) {
            trees.keep(object.value.clone(), stored);
        }
        assert_eq!(trees.trees.keys().copied().collect::<Vec<_>>(), [3, 4, 5]);
        for (object, stored) in written.iter().zip(&stored) {
            assert_eq!(trees.take(stored), *object);
        }
        assert_eq!((trees.bytes, trees.trees.len()), (0, 0));
        trees.keep(json!({}), &Stored::new(&object(9, LIMIT)));
        assert!(trees.trees.is_empty(), "too large");
    }
}
