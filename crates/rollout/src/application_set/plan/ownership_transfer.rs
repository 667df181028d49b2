//! The other sets of the namespace: an Application that one set generates no
//! longer while another one does changes its owner.
//!
//! - The set that does not generate it any more does not delete it.
//! - The set that generates it takes it over with one write, of the owner
//!   reference only, so that it is never without an owner and its objects are
//!   not touched. Its spec follows with the next reconcile.
//! - Sets are often changed together, and one of them may be created by the same
//!   `kubectl apply`. So a deletion waits for [`PAUSE`] since the set released the
//!   Application, and until what the other sets of the namespace generate is
//!   known, at most for [`LONGEST_PAUSE`].
//! - What another set generates is current if its spec of now was read, with the
//!   clusters of now, and with repositories that were not read before the last
//!   change of those of this set: one commit may move a directory from the one to
//!   the other. Until then, what it generated last counts as well.
//! - A set that cannot be generated may be the one that takes it over, if its
//!   error is not much older than the release. Then the deletion waits for a
//!   person: to mend that set, or to approve ([`deletion_guard`](crate::application_set::deletion::deletion_guard)).
//!
//! A set that is being deleted takes and gives nothing, and one whose policy forbids
//! deletions keeps its Applications. The policy of the one that takes over does not
//! matter: the change of the owner is no change of the Application, and the other
//! set would delete it instead.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use crate::application_set::generate::generated::{Generated, Wanted};
use crate::application_set::plan::observe::Existing;
use crate::application_set::plan::owner::Takeover;
use crate::application_set::plan::write_plan::Delete;

/// How long a deletion waits for another set to generate the Application: for the changes of
/// one `kubectl apply`.
pub const PAUSE: SignedDuration = SignedDuration::from_secs(1);

/// How long it waits for another set to be read.
pub const LONGEST_PAUSE: SignedDuration = SignedDuration::from_secs(300);

/// How much older than the release of an Application the error of a set may be to be a part
/// of the same change.
pub const SAME_CHANGE: SignedDuration = SignedDuration::from_secs(600);

/// Another set of the namespace.
#[derive(Clone, Debug)]
pub struct Other {
    /// Its name.
    pub name: Box<str>,
    /// Its UID.
    pub uid: Box<str>,
    /// What it generated last; `None` before it is read.
    pub generated: Option<Arc<Generated>>,
    /// Whether that is what it generates now: from its current spec, with the clusters of now,
    /// and with repositories that were not read before the change that is decided on.
    pub is_current: bool,
    /// Since when it has an error, as far as its status says.
    pub failing_since: Option<Timestamp>,
}

impl Other {
    fn readable(&self) -> Option<&Generated> {
        self.generated.as_deref().filter(|made| made.error.is_none())
    }

    fn generates(&self, name: &str) -> bool {
        self.readable().is_some_and(|made| made.get(name).is_some())
    }

    fn has_released(&self, uid: &str, name: &str) -> bool {
        let is_released = |made: &Generated| {
            made.policy.deletes() && made.misspelt.is_empty() && made.get(name).is_none()
        };
        *self.uid == *uid && self.is_current && self.readable().is_some_and(is_released)
    }

    fn has_failed(&self) -> bool {
        self.generated.as_ref().is_some_and(|made| made.error.is_some())
    }
}

/// Since when a set owns Applications that it does not generate, as far as this controller
/// knows. A change of its spec is a new release: others may be changed with it.
#[derive(Clone, Debug, Default)]
pub struct Releases {
    generation: i64,
    since: BTreeMap<Box<str>, Timestamp>,
}

impl Releases {
    /// None.
    pub const NONE: Self = Self { generation: 0, since: BTreeMap::new() };

    /// The releases of now: the Applications that are left, in name order.
    pub fn update<'a>(
        &mut self,
        generation: i64,
        left: impl Iterator<Item = &'a Existing>,
        now: Timestamp,
    ) {
        let old = match self.generation == generation {
            true => std::mem::take(&mut self.since),
            false => BTreeMap::new(),
        };
        self.generation = generation;
        let since = |name: &str| old.get(name).copied().unwrap_or(now);
        self.since = left.map(|one| (one.name.clone(), since(&one.name))).collect();
    }

    /// The latest release of these Applications.
    fn latest(&self, deletes: &[Delete], now: Timestamp) -> Timestamp {
        let since = |delete: &Delete| self.since.get(&*delete.name).copied().unwrap_or(now);
        deletes.iter().map(since).max().unwrap_or(now)
    }
}

/// The existing Applications by name, each with whether the set generates it; both lists are
/// ordered by name.
pub(in crate::application_set) fn with_wanted<'a>(
    existing: &'a [Existing],
    generated: &'a [Wanted],
) -> impl Iterator<Item = (&'a Existing, Option<&'a Wanted>)> {
    let mut wanted = generated.iter().peekable();
    existing.iter().map(move |existing| {
        while wanted.next_if(|wanted| wanted.name < existing.name).is_some() {}
        (existing, wanted.next_if(|wanted| wanted.name == existing.name))
    })
}

/// Whether the set owns an Application that it generates no longer.
fn is_left(existing: &Existing, is_wanted: bool) -> bool {
    existing.is_owned() && !is_wanted && !existing.is_going
}

/// How Applications may change their owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moves {
    /// The set owns one that it generates no longer.
    pub leaves: bool,
    /// The set generates one that it does not own.
    pub wants: bool,
}

impl Moves {
    /// Those of a set; both lists are ordered by name.
    pub fn of(existing: &[Existing], generated: &[Wanted]) -> Self {
        let each = with_wanted(existing, generated).map(|(existing, wanted)| Self {
            leaves: is_left(existing, wanted.is_some()),
            wants: wanted.is_some() && !existing.is_owned(),
        });
        each.fold(Self::default(), |all, one| Self {
            leaves: all.leaves || one.leaves,
            wants: all.wants || one.wants,
        })
    }

    /// Whether they depend on other sets.
    pub const fn any(self) -> bool {
        self.leaves || self.wants
    }
}

/// The owned Applications that are no longer generated and not being deleted yet.
pub fn left_applications<'a>(
    existing: &'a [Existing],
    generated: &'a [Wanted],
) -> impl Iterator<Item = &'a Existing> {
    with_wanted(existing, generated)
        .filter(|(existing, wanted)| is_left(existing, wanted.is_some()))
        .map(|(existing, _)| existing)
}

/// The Applications that a set leaves to another one, with that one's name.
pub fn given_applications<'a>(
    existing: &'a [Existing],
    generated: &'a Generated,
    others: &'a [Other],
) -> impl Iterator<Item = (&'a str, &'a str)> {
    let left =
        left_applications(existing, &generated.applications).filter(|_| generated.policy.deletes());
    left.filter_map(|existing| Some((&*existing.name, taker(others, existing)?)))
}

/// The set that takes an Application over that this one generates no longer.
pub(in crate::application_set) fn taker<'a>(
    others: &'a [Other],
    existing: &Existing,
) -> Option<&'a str> {
    others.iter().find(|other| other.generates(&existing.name)).map(|other| &*other.name)
}

/// How to take an Application over that its owner generates no longer.
pub(in crate::application_set) fn takeover<'a>(
    others: &[Other],
    existing: &'a Existing,
) -> Option<&'a Takeover> {
    let takeover = existing.takeover.as_deref()?;
    let is_released = |other: &Other| other.has_released(&takeover.from, &existing.name);
    others.iter().any(is_released).then_some(takeover)
}

/// A wait of deletions for other sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::application_set) struct Wait {
    /// When it ends at the latest.
    pub at: Timestamp,
    /// What is waited for, as the end of a sentence after "until".
    pub until: String,
}

/// The wait of deletions for other sets; `None` when they need not wait any more.
pub(in crate::application_set) fn wait(
    others: &[Other],
    releases: &Releases,
    deletes: &[Delete],
    now: Timestamp,
) -> Option<Wait> {
    if deletes.is_empty() {
        return None;
    }
    let unknown = others.iter().find(|other| !other.is_current);
    let pause = if unknown.is_some() { LONGEST_PAUSE } else { PAUSE };
    let at = releases.latest(deletes, now).checked_add(pause).ok().filter(|at| *at > now)?;
    let until = match unknown {
        Some(other) => format!("ApplicationSet {} is read, which may generate them", other.name),
        None => "it is known that no other ApplicationSet generates them".to_owned(),
    };
    Some(Wait { at, until })
}

/// The sets that cannot be generated and may be meant to take Applications over: those whose
/// error is not much older than the release, which was at `held_since` at the latest.
pub(in crate::application_set) fn failed<'a>(
    others: &'a [Other],
    releases: &Releases,
    deletes: &[Delete],
    held_since: Option<Timestamp>,
    now: Timestamp,
) -> Vec<&'a str> {
    let released = releases.latest(deletes, now);
    let released = held_since.map_or(released, |since| since.min(released));
    let is_recent = |since: Timestamp| released.duration_since(since) < SAME_CHANGE;
    let may_be_meant =
        |other: &&Other| other.has_failed() && other.failing_since.is_none_or(is_recent);
    others.iter().filter(may_be_meant).map(|other| &*other.name).collect()
}
