//! Targets that a run remembers, as digests, so that those of thousands of Applications fit in its
//! status: those that are not promoted to again (ST-060), and those that people have let through
//! a gate (ST-011).
//!
//! When a run is aborted, not all of its Applications may have been compared with what the others
//! were started for: their targets become the same later. So the set also has Applications with
//! their specs, whatever their revisions, and the revisions that were new in the run: who is of
//! both is in it.

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

use crate::rollout::phase::Phase;
use crate::rollout::snapshot::Row;

/// The most targets in the text of a status: the first ones by digest.
pub const CAPACITY: usize = 10_000;

/// The most revisions of a set.
const REVISIONS: usize = 200;

/// Between the parts of a text. No text of base64 has it.
const SEPARATOR: char = '.';

type Short = [u8; 4];

/// Digests of targets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetSet {
    targets: BTreeSet<Short>,
    /// Applications with their specs.
    late: BTreeSet<Short>,
    /// Revisions of all sources, for those.
    revisions: BTreeSet<Short>,
}

impl TargetSet {
    /// From the text in a status; what cannot be read is left out.
    pub fn read(text: &str) -> Self {
        let mut parts = text.split(SEPARATOR).map(|part| {
            let bytes = STANDARD.decode(part).unwrap_or_default();
            bytes.as_chunks::<4>().0.iter().copied().collect::<BTreeSet<Short>>()
        });
        let mut next = || parts.next().unwrap_or_default();
        Self { targets: next(), late: next(), revisions: next() }
    }

    /// The text for a status. Of more than fit, targets come first.
    pub fn text(&self) -> String {
        let text = |all: &BTreeSet<Short>, most: usize| {
            let bytes: Vec<u8> = all.iter().take(most).flatten().copied().collect();
            STANDARD.encode(bytes)
        };
        let targets = text(&self.targets, CAPACITY);
        if self.late.is_empty() || self.revisions.is_empty() {
            return targets;
        }
        let late = text(&self.late, CAPACITY.saturating_sub(self.targets.len()));
        let revisions = text(&self.revisions, REVISIONS);
        format!("{targets}{SEPARATOR}{late}{SEPARATOR}{revisions}")
    }

    /// The number of targets.
    pub fn len(&self) -> usize {
        self.targets.len()
    }

    /// Adds the target of an Application.
    pub fn add(&mut self, row: &Row<'_>) {
        self.targets.extend(digest_of(row));
    }

    /// Adds an Application with its spec, for when it gets revisions that were added before; one
    /// that has them already was compared with them, and is judged by its target.
    pub fn add_late(&mut self, row: &Row<'_>) {
        if !self.has_revisions(row) {
            self.late.extend(digest_of_spec(row));
        }
    }

    /// Adds the revisions of its target, if they differ from those before and are not known: for
    /// those that are added with their specs.
    pub fn add_revisions(&mut self, row: &Row<'_>, before: &[String], known: &BTreeSet<&[String]>) {
        if let Some((_, revisions)) = row.spec_and_revisions()
            && revisions != before
            && !revisions.is_empty()
            && !known.contains(revisions)
        {
            self.revisions.insert(digest_of_revisions(revisions));
        }
    }

    /// Removes those with their specs that have become Healthy for these revisions without a
    /// start, since nothing of them has changed.
    pub fn release(&mut self, rows: &[Row<'_>]) {
        if self.late.is_empty() {
            return;
        }
        let is_healthy = |row: &&Row<'_>| row.phase() == Some(Phase::Healthy);
        for row in rows.iter().filter(is_healthy) {
            if self.has_revisions(row)
                && let Some(late) = digest_of_spec(row)
            {
                self.late.remove(&late);
            }
        }
    }

    fn has_revisions(&self, row: &Row<'_>) -> bool {
        row.spec_and_revisions().is_some_and(|(_, revisions)| {
            !self.revisions.is_empty() && self.revisions.contains(&digest_of_revisions(revisions))
        })
    }

    /// Adds what another set has of these Applications besides targets.
    pub fn add_rest(&mut self, other: &Self, rows: &[Row<'_>]) {
        let late = rows.iter().filter_map(digest_of_spec);
        self.late.extend(late.filter(|late| other.late.contains(late)));
        self.revisions.extend(&other.revisions);
    }

    /// Removes it.
    pub fn remove(&mut self, row: &Row<'_>) {
        if let Some(target) = digest_of(row) {
            self.targets.remove(&target);
        }
        if let Some(late) = digest_of_spec(row) {
            self.late.remove(&late);
        }
    }

    /// Whether the target of an Application is in it.
    pub fn has(&self, row: &Row<'_>) -> bool {
        let is_listed = || digest_of(row).is_some_and(|target| self.targets.contains(&target));
        !self.targets.is_empty() && is_listed() || self.has_become_one(row)
    }

    /// Whether an Application has the revisions by now that the others had.
    fn has_become_one(&self, row: &Row<'_>) -> bool {
        !self.late.is_empty()
            && self.has_revisions(row)
            && digest_of_spec(row).is_some_and(|late| self.late.contains(&late))
    }
}

fn digest_of_spec(row: &Row<'_>) -> Option<Short> {
    Some(digest(row.member.name, row.member.spec?, &["*".to_owned()]))
}

fn digest_of_revisions(revisions: &[String]) -> Short {
    digest("*", "*", revisions)
}

fn digest_of(row: &Row<'_>) -> Option<Short> {
    let (spec, revisions) = row.spec_and_revisions()?;
    Some(digest(row.member.name, spec, revisions))
}

fn digest(application: &str, spec: &str, revisions: &[String]) -> Short {
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
