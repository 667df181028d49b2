//! Targets that a run remembers, as digests, so that those of thousands of Applications fit in its
//! status: those that people have let through a gate (ST-011), and those that are not promoted to
//! again ([`super::quarantine`]).

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use super::digest_code;
use crate::rollout::snapshot::Row;

/// The most targets in the text of a status: the first ones by digest.
pub const CAPACITY: usize = 10_000;

/// So many digests take less than four bytes each.
const MANY: usize = 256;
/// Before them. No text of base64 has it.
const PACKED: char = '^';

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
        self.targets.extend(TargetDigests::of_row(row).map(|target| target.whole()));
    }

    /// Removes it.
    pub fn remove(&mut self, row: &Row<'_>) {
        if let Some(target) = TargetDigests::of_row(row) {
            target.leave(&mut self.targets);
        }
    }

    /// Whether the target of an Application is in it.
    pub fn has(&self, row: &Row<'_>) -> bool {
        !self.targets.is_empty()
            && TargetDigests::of_row(row).is_some_and(|target| target.is_in(&self.targets))
    }
}

/// Digests as they are stored: four bytes each in base64, or many of them in fewer.
pub(super) fn digests_text(all: &BTreeSet<Short>, most: usize) -> String {
    if all.len() >= MANY {
        let numbers: Vec<u32> = all.iter().take(most).map(|one| u32::from_be_bytes(*one)).collect();
        return format!("{PACKED}{}", STANDARD.encode(digest_code::encode_sorted(&numbers)));
    }
    let bytes: Vec<u8> = all.iter().take(most).flatten().copied().collect();
    STANDARD.encode(bytes)
}

/// The same as read; what cannot be read is left out.
pub(super) fn read_digests(text: &str) -> BTreeSet<Short> {
    if let Some(packed) = text.strip_prefix(PACKED) {
        let bytes = STANDARD.decode(packed).unwrap_or_default();
        return digest_code::decode_sorted(&bytes).into_iter().map(u32::to_be_bytes).collect();
    }
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

/// Of all revisions that Applications have as their targets.
pub(super) fn revisions_of(rows: &[Row<'_>]) -> BTreeSet<Short> {
    let all = rows.iter().filter_map(Row::spec_and_revisions).map(|(_, revisions)| revisions);
    all.collect::<BTreeSet<_>>().into_iter().map(digest_of_revisions).collect()
}

/// Digests of a target. That of the whole follows from those of its spec and its revisions, so that
/// the targets of thousands of Applications with the same revisions follow from their specs.
#[derive(Clone, Copy, Debug)]
pub(super) struct TargetDigests {
    /// Of the Application with its spec.
    pub spec: Short,
    /// Of the revisions.
    pub revisions: Short,
    /// Of the whole, as earlier versions have stored it.
    pub earlier: Short,
}

impl TargetDigests {
    /// Of a target of an Application.
    pub fn of(application: &str, spec: &str, revisions: &[String]) -> Self {
        Self {
            spec: spec_digest(application, spec),
            revisions: digest_of_revisions(revisions),
            earlier: digest(application, spec, revisions),
        }
    }

    /// Of the target that an Application has now, if it has one.
    pub fn of_row(row: &Row<'_>) -> Option<Self> {
        let (spec, revisions) = row.spec_and_revisions()?;
        Some(Self::of(row.member.name, spec, revisions))
    }

    /// Of the whole.
    pub fn whole(&self) -> Short {
        combined(self.spec, self.revisions)
    }

    /// Whether these contain it, however they were stored.
    pub fn is_in(&self, targets: &BTreeSet<Short>) -> bool {
        targets.contains(&self.whole()) || targets.contains(&self.earlier)
    }

    /// Takes it out of these.
    pub fn leave(&self, targets: &mut BTreeSet<Short>) {
        targets.remove(&self.whole());
        targets.remove(&self.earlier);
    }
}

/// Of a target, from those of its spec and its revisions.
pub(super) fn combined(spec: Short, revisions: Short) -> Short {
    std::array::from_fn(|index| spec[index] ^ revisions[index])
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
        assert!(set.text().len() < 34_000, "{}", set.text().len());
        assert_eq!(TargetSet::read(&set.text()), set);
        assert_eq!(TargetSet::read("no base64!"), TargetSet::default());
        assert_eq!(TargetSet::read("^no base64!"), TargetSet::default());
        // As earlier versions have written it.
        let plain: Vec<u8> = set.targets.iter().flatten().copied().collect();
        assert_eq!(TargetSet::read(&STANDARD.encode(plain)), set);
    }
}
