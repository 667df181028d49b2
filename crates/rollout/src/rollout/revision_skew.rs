//! Which Applications have not noticed a revision yet that others have seen.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::observed::{Compared, Observed, SourceKey};
use super::snapshot::{Lag, Member};
use wavegate_api::SyncStatusCode;

/// For each member: the revision that another Application with the same source
/// has seen since this one was last compared.
///
/// A new commit is noticed by one Application before the next. The one that has
/// not noticed it reports the old revision as Synced and Healthy and would
/// complete its step: production would then be rolled out before development.
///
/// A failed comparison says nothing about revisions: its status still names
/// those known before. It is not used as evidence for other Applications, and
/// the Application is behind until it was compared with the revision that they
/// have seen.
pub(super) fn behind(members: &[Member<'_>]) -> Vec<Option<Lag>> {
    if all_agree(members) {
        return vec![None; members.len()];
    }
    let newest = Newest::of(members);
    let lag = |member: &Member<'_>| {
        let seen = member.observed?;
        if seen.sync == SyncStatusCode::Unknown {
            let known = match member.entry {
                Some(entry) if seen.revisions.is_empty() => &entry.target_revisions,
                Some(_) | None => &seen.revisions,
            };
            let comparable =
                seen.compared == Compared::Current && seen.sources.len() == known.len();
            return seen.sources.iter().zip(known).filter(|_| comparable).find_map(
                |(key, known)| {
                    let (newest_at, other, also_known) = newest.elsewhere(key, known)?;
                    let refresh = seen.reconciled_at.is_some_and(|at| at < newest_at);
                    (!also_known).then(|| Lag { revision: other.to_owned(), refresh })
                },
            );
        }
        sightings(seen).find_map(|(key, at, revision)| {
            // Within one second the order of two revisions is unknown, so both
            // Applications are refreshed.
            let (newest_at, other, _) = newest.elsewhere(key, revision)?;
            (at <= newest_at).then(|| Lag { revision: other.to_owned(), refresh: true })
        })
    };
    members.iter().map(lag).collect()
}

/// Whether all have seen one revision, whatever its source: most of the time they have, and a
/// fleet of thousands is compared again and again.
fn all_agree(members: &[Member<'_>]) -> bool {
    let mut first = None;
    members.iter().filter_map(|member| member.observed).all(|seen| {
        let mut revisions = sightings(seen).map(|(_, _, revision)| revision);
        seen.sync != SyncStatusCode::Unknown
            && revisions.all(|revision| *first.get_or_insert(revision) == revision)
    })
}

/// The latest revisions of each source, and when they were seen.
struct Newest<'a>(BTreeMap<&'a SourceKey, (Timestamp, BTreeSet<&'a str>)>);

impl<'a> Newest<'a> {
    fn of(members: &[Member<'a>]) -> Self {
        let mut newest: BTreeMap<&SourceKey, (Timestamp, BTreeSet<&str>)> = BTreeMap::new();
        let seen = members.iter().filter_map(|member| member.observed);
        for (key, at, revision) in seen.flat_map(sightings) {
            let (newest_at, revisions) = newest.entry(key).or_insert((at, BTreeSet::new()));
            if *newest_at < at {
                *newest_at = at;
                revisions.clear();
            }
            if *newest_at == at {
                revisions.insert(revision);
            }
        }
        Self(newest)
    }

    /// A different latest revision of the source: when it was seen, which, and
    /// whether `revision` was seen at the same time.
    fn elsewhere(&self, key: &SourceKey, revision: &str) -> Option<(Timestamp, &'a str, bool)> {
        let (newest_at, revisions) = self.0.get(key)?;
        let other = revisions.iter().find(|newest| **newest != revision)?;
        Some((*newest_at, *other, revisions.contains(revision)))
    }
}

fn sightings(seen: &Observed) -> impl Iterator<Item = (&SourceKey, Timestamp, &str)> {
    let comparable = seen.compared == Compared::Current
        && seen.sync != SyncStatusCode::Unknown
        && seen.sources.len() == seen.revisions.len();
    let at = seen.reconciled_at.filter(|_| comparable);
    at.into_iter().flat_map(|at| {
        let pairs = seen.sources.iter().zip(&seen.revisions);
        pairs.map(move |(key, revision)| (key, at, revision.as_str()))
    })
}
