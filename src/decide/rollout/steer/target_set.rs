//! Targets that a run remembers, as digests, so that those of thousands of Applications fit in its
//! status: those that are not promoted to again (ST-060), and those that people have let through
//! a gate (ST-011).

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use crate::decide::rollout::snapshot::Row;

/// The most targets in the text of a status: the first ones by digest.
pub const CAPACITY: usize = 10_000;

/// Digests of targets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetSet(BTreeSet<[u8; 4]>);

impl TargetSet {
    /// From the text in a status; what cannot be read is left out.
    pub fn read(text: &str) -> Self {
        let bytes = STANDARD.decode(text).unwrap_or_default();
        Self(bytes.as_chunks::<4>().0.iter().copied().collect())
    }

    /// The text for a status.
    pub fn text(&self) -> String {
        let bytes: Vec<u8> = self.0.iter().take(CAPACITY).flatten().copied().collect();
        STANDARD.encode(bytes)
    }

    /// The number of targets.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds the target of an Application.
    pub fn add(&mut self, row: &Row<'_>) {
        self.0.extend(digest_of(row));
    }

    /// Removes it.
    pub fn remove(&mut self, row: &Row<'_>) {
        if let Some(target) = digest_of(row) {
            self.0.remove(&target);
        }
    }

    /// Whether the target of an Application is in it.
    pub fn has(&self, row: &Row<'_>) -> bool {
        !self.0.is_empty() && digest_of(row).is_some_and(|target| self.0.contains(&target))
    }
}

fn digest_of(row: &Row<'_>) -> Option<[u8; 4]> {
    let (spec, revisions) = row.spec_and_revisions()?;
    Some(digest(row.member.name, spec, revisions))
}

fn digest(application: &str, spec: &str, revisions: &[String]) -> [u8; 4] {
    let mut hash = Sha256::new();
    for part in [application, spec].into_iter().chain(revisions.iter().map(String::as_str)) {
        hash.update(part.as_bytes());
        hash.update(b"\n");
    }
    let hash = hash.finalize();
    [hash[0], hash[1], hash[2], hash[3]]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn targets_survive_being_stored_as_st_060(
            names in proptest::collection::btree_set("[a-z]{1,8}", 0..40),
            other in "[A-Z]{1,8}",
        ) {
            let revisions = vec!["r1".to_owned()];
            let mut set = TargetSet::default();
            for name in &names {
                set.0.insert(digest(name, "spec", &revisions));
            }
            let read = TargetSet::read(&set.text());
            let has = |name: &str, spec: &str, revisions: &[String]| {
                read.0.contains(&digest(name, spec, revisions))
            };
            prop_assert_eq!(&read, &set);
            for name in &names {
                prop_assert!(has(name, "spec", &revisions));
                prop_assert!(!has(name, "other", &revisions));
                prop_assert!(!has(name, "spec", &["r2".to_owned()]));
            }
            prop_assert!(!has(&other, "spec", &revisions));
        }
    }

    #[test]
    fn ten_thousand_targets_fit_in_a_status_and_nonsense_is_none() {
        let mut set = TargetSet::default();
        for number in 0..CAPACITY {
            set.0.insert(digest(&format!("app-{number}"), "spec", &[]));
        }
        assert!(set.text().len() < 54_000);
        assert_eq!(TargetSet::read("no base64!"), TargetSet::default());
    }
}
