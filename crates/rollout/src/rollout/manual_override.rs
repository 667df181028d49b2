//! A sync by a person to other revisions than the target (ST-065).
//!
//! The *target* of an Application is its generated spec with the revisions that
//! it resolves to. When a person syncs an Application to something else, the
//! Application is **held** for the current target: its entry is Waiting, it is
//! never promoted, and its step is not complete. The next target takes it back,
//! and so does a later sync of the target by anybody else than the rollout.
//!
//! # How a sync is known to be newer than the target
//!
//! A sync that a person made for an earlier target holds nothing. Whether a sync
//! came before or after the target cannot be decided by times: the sync has
//! those of the application controller, the entry those of this one. So when a
//! target is new, the entry remembers the sync that is on the Application at
//! this moment ([`Earlier::Sync`]), by its start as the Application names it.
//! Any other one that is seen later is newer than the target. A sync of
//! unknown order, since the entry is not ours or is not listed, counts as newer
//! if the target was deployed before it (`status.history`), or if it started
//! after the entry.
//!
//! A sync that is running holds, and is named with its start. When another sync has taken its
//! place in the status and has applied nothing, the end of the first one was not observed: it
//! may have changed something, so that the hold stays.
//!
//! All of this is stored: in `status.operationState` and `status.history` of the
//! Application, and in the message of its entry, which Argo CD's definitions keep.

use jiff::Timestamp;

use super::entry::{Earlier, Entry, HELD};
use super::observed::{Observed, OperationEnd, PersonSync};
use wavegate_api::SyncStatusCode;
use wavegate_engine::names::some_of;

/// The words of a message about a sync that has not ended.
pub const RUNNING: &str = " is syncing it to ";

/// The words before its start, which identifies it.
const SINCE: &str = " (since ";

/// The words instead when its end was not observed: another sync has taken its place.
const UNOBSERVED: &str = " may have synced it to ";

/// The most characters of a user name in a message.
const NAME: usize = 48;

/// The most revisions in a message.
const REVISIONS: usize = 3;

impl PersonSync {
    /// Whether it synced something else than these revisions.
    pub fn is_other(&self, target: &[String]) -> bool {
        self.is_local || (!self.revisions.is_empty() && self.revisions != target)
    }

    fn message(&self, target: &[String]) -> String {
        let by: String = match self.by.as_str() {
            "" => "a person".to_owned(),
            by if by.chars().count() > NAME => by.chars().take(NAME - 1).chain(['…']).collect(),
            by => by.to_owned(),
        };
        let what = match self.is_local {
            true => "local manifests".to_owned(),
            false => some_of(&self.revisions, REVISIONS),
        };
        let did = match self.end {
            OperationEnd::Running => format!("{by}{RUNNING}{what}{SINCE}{})", self.started_at),
            OperationEnd::Succeeded => format!("{by} synced it to {what}"),
            OperationEnd::Failed | OperationEnd::Nothing => {
                format!("{by} synced it to {what}, which failed")
            }
        };
        format!("{HELD}: {did}; the rollout wants {}", some_of(target, REVISIONS))
    }
}

/// Updates what an entry knows about syncs by people; the message when it is held.
///
/// `stored` is the entry before this reconcile, `is_new` whether its target is a
/// new one.
pub(super) fn hold(
    stored: Option<&Entry>,
    entry: &mut Entry,
    seen: &Observed,
    is_new: bool,
) -> Option<String> {
    let was_held = stored.is_some_and(Entry::is_held);
    let target = &entry.target_revisions;
    let Some(sync) = seen.person.as_deref() else {
        // A dry run or a sync of some resources has taken its place in the status.
        let is_partial = seen.is_partial();
        if entry.earlier != Earlier::Unknown && !is_partial {
            entry.earlier = Earlier::None;
        }
        let stays = was_held && !is_new && is_partial;
        return stays.then(|| stored.map(|entry| entry.message.clone())).flatten();
    };
    if !sync.is_other(target) || (sync.end == OperationEnd::Nothing && !sync.is_explicit) {
        entry.earlier = Earlier::None;
        return None;
    }
    let before = stored.filter(|entry| entry.is_held() && !is_new);
    let before = before.and_then(|entry| without(&entry.message, sync.started_at));
    // What differs in nothing is no other state than the target's.
    let is_same = seen.sync == SyncStatusCode::Synced && seen.is_current();
    if sync.end == OperationEnd::Nothing {
        return before.filter(|_| !is_same);
    }
    let is_newer = match entry.earlier {
        _ if is_new => false,
        _ if stored.is_none() => sync.is_after_target,
        _ if was_held => true,
        Earlier::None => true,
        Earlier::Sync(start) => start != sync.started_at,
        Earlier::Unknown => sync.is_after_target || sync.started_at >= entry.since,
    };
    if !is_newer {
        entry.earlier = Earlier::Sync(sync.started_at);
        return None;
    }
    if target.is_empty() || !sync.is_explicit {
        return None;
    }
    entry.earlier = Earlier::None;
    // What is running may change nothing.
    let known = before.filter(|_| sync.end == OperationEnd::Running);
    (!is_same).then(|| known.unwrap_or_else(|| sync.message(target)))
}

/// The message of a hold without the sync that started at this time: about what was synced
/// before. `None` when it is about that sync itself, which has changed nothing yet.
fn without(message: &str, start: Timestamp) -> Option<String> {
    let Some((by, what)) = message.split_once(RUNNING) else { return Some(message.to_owned()) };
    let (what, rest) = what.split_once(SINCE)?;
    let (since, rest) = rest.split_once(')')?;
    // It may have changed something until it ended.
    (since.parse().ok() != Some(start)).then(|| format!("{by}{UNOBSERVED}{what}{rest}"))
}
