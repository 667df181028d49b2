//! Targets that a run remembers, as digests, so that those of thousands of Applications fit in its
//! status: those that people have let through a gate (ST-011), and those that are not promoted to
//! again ([`super::quarantine`]).

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use crate::rollout::snapshot::Row;

/// The most targets in the text of a status: the first ones by digest.
pub const CAPACITY: usize = 10_000;

/// In the place of a part that may be any.
const ANY: &str = "*";

/// The beginning of a digest.
pub(super) type Short = [u8; 4];

/// Digests of targets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetSet {
    targets: BTreeSet<Short>,
}

impl TargetSet {
    /// From the text in a status; what cannot be read is left out.
    pub fn read(text: &str) -> Self {
        Self { targets: read_digests(text) }
    }

    /// The text for a status.
    pub fn text(&self) -> String {
        digests_text(&self.targets, CAPACITY)
    }

    /// The number of targets.
    pub fn len(&self) -> usize {
        self.targets.len()
    }

    /// Adds the target of an Application.
    pub fn add(&mut self, row: &Row<'_>) {
        self.targets.extend(digest_of(row));
    }

    /// Removes it.
    pub fn remove(&mut self, row: &Row<'_>) {
        if let Some(target) = digest_of(row) {
            self.targets.remove(&target);
        }
    }

    /// Whether the target of an Application is in it.
    pub fn has(&self, row: &Row<'_>) -> bool {
        !self.targets.is_empty() && digest_of(row).is_some_and(|one| self.targets.contains(&one))
    }
}

/// Digests as they are stored, in base64.
pub(super) fn digests_text(all: &BTreeSet<Short>, most: usize) -> String {
    let bytes: Vec<u8> = all.iter().take(most).flatten().copied().collect();
    STANDARD.encode(bytes)
}

/// The same as read; what cannot be read is left out.
pub(super) fn read_digests(text: &str) -> BTreeSet<Short> {
    let bytes = STANDARD.decode(text).unwrap_or_default();
    bytes.as_chunks::<4>().0.iter().copied().collect()
}

/// Of an Application with its spec, whatever its revisions.
pub(super) fn digest_of_spec(row: &Row<'_>) -> Option<Short> {
    Some(spec_digest(row.member.name, row.member.spec?))
}

/// The same of a spec.
pub(super) fn spec_digest(application: &str, spec: &str) -> Short {
    digest(application, spec, &[ANY.to_owned()])
}

/// Of the revisions of all sources, whatever the Application.
pub(super) fn digest_of_revisions(revisions: &[String]) -> Short {
    digest(ANY, ANY, revisions)
}

/// Of the target of an Application.
pub(super) fn digest_of(row: &Row<'_>) -> Option<Short> {
    let (spec, revisions) = row.spec_and_revisions()?;
    Some(digest(row.member.name, spec, revisions))
}

pub(super) fn digest(application: &str, spec: &str, revisions: &[String]) -> Short {
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
                set.targets.insert(digest(name, "spec", &revisions));
            }
            let read = TargetSet::read(&set.text());
            let has = |name: &str, spec: &str, revisions: &[String]| {
                read.targets.contains(&digest(name, spec, revisions))
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
            set.targets.insert(digest(&format!("app-{number}"), "spec", &[]));
        }
        assert!(set.text().len() < 54_000);
        assert_eq!(TargetSet::read("no base64!"), TargetSet::default());
    }
}
