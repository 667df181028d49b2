//! The other sets of the namespace: an Application that one set generates no
//! longer while another one does changes its owner.
//!
//! - The set that does not generate it any more does not delete it.
//! - The set that generates it takes it over with one write, of the owner
//!   reference only, so that it is never without an owner and its objects are
//!   not touched. Its spec follows with the next reconcile.
//! - Sets are often changed together, and one of them may be created by the same
//!   `kubectl apply`. So a deletion waits for [`PAUSE`], and until the current specs
//!   of the other sets of the namespace are read, at most for [`LONGEST_PAUSE`].
//!
//! A set that is being deleted, or whose generators fail, takes and gives nothing; one whose
//! policy forbids deletions keeps its Applications, and one whose policy forbids updates takes
//! none.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::generated::{Generated, Wanted};
use super::observe::Existing;

/// How long a deletion waits for another set to generate the Application: for the changes of
/// one `kubectl apply`.
pub const PAUSE: SignedDuration = SignedDuration::from_secs(1);

/// How long it waits for another set to be read.
pub const LONGEST_PAUSE: SignedDuration = SignedDuration::from_secs(30);

/// Another set of the namespace.
#[derive(Clone, Debug)]
pub struct Other {
    /// Its name.
    pub name: Box<str>,
    /// Its UID.
    pub uid: Box<str>,
    /// What its current spec generates; `None` while that is unknown.
    pub generated: Option<Arc<Generated>>,
}

impl Other {
    fn readable(&self) -> Option<&Generated> {
        self.generated.as_deref().filter(|made| made.error.is_none() && made.misspelt.is_empty())
    }

    fn generates(&self, name: &str) -> bool {
        self.readable().is_some_and(|made| made.policy.updates() && made.get(name).is_some())
    }

    fn has_released(&self, uid: &str, name: &str) -> bool {
        let would_delete = |made: &Generated| made.policy.deletes() && made.get(name).is_none();
        *self.uid == *uid && self.readable().is_some_and(would_delete)
    }
}

/// The change of the owner of an Application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Takeover {
    /// The UID of the set that owns it.
    pub from: Box<str>,
    /// The merge patch, with the observed version as a precondition.
    pub patch: Box<str>,
}

/// The existing Applications by name, each with whether the set generates it; both lists are
/// ordered by name.
pub(super) fn paired<'a>(
    existing: &'a [Existing],
    generated: &'a [Wanted],
) -> impl Iterator<Item = (&'a Existing, bool)> {
    let mut wanted = generated.iter().peekable();
    existing.iter().map(move |existing| {
        while wanted.next_if(|wanted| wanted.name < existing.name).is_some() {}
        let is_wanted = wanted.peek().is_some_and(|wanted| wanted.name == existing.name);
        (existing, is_wanted)
    })
}

/// Whether the set owns an Application that it generates no longer.
pub(super) fn is_left(existing: &Existing, is_wanted: bool) -> bool {
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
        let each = paired(existing, generated).map(|(existing, is_wanted)| Self {
            leaves: is_left(existing, is_wanted),
            wants: is_wanted && !existing.is_owned(),
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

/// The Applications that a set leaves to another one, with that one's name. `deletes`:
/// whether the policy of the set permits deletions.
pub fn left<'a>(
    existing: &'a [Existing],
    generated: &'a [Wanted],
    others: &'a [Other],
    deletes: bool,
) -> impl Iterator<Item = (&'a str, &'a str)> {
    let left = paired(existing, generated)
        .filter(move |(one, is_wanted)| deletes && is_left(one, *is_wanted));
    left.filter_map(|(existing, _)| {
        let taker = others.iter().find(|other| other.generates(&existing.name))?;
        Some((&*existing.name, &*taker.name))
    })
}

/// Whether another set takes an Application over that this one generates no longer.
pub(super) fn is_taken(others: &[Other], existing: &Existing) -> bool {
    others.iter().any(|other| other.generates(&existing.name))
}

/// How to take an Application over that its owner generates no longer.
pub(super) fn takeover<'a>(others: &[Other], existing: &'a Existing) -> Option<&'a Takeover> {
    let takeover = existing.takeover.as_deref()?;
    let is_released = |other: &Other| other.has_released(&takeover.from, &existing.name);
    others.iter().any(is_released).then_some(takeover)
}

/// Until when deletions wait for other sets; `None` when they need not wait any more.
pub(super) fn wait(
    others: &[Other],
    since: Option<Timestamp>,
    now: Timestamp,
) -> Option<Timestamp> {
    let is_unknown = others.iter().any(|other| other.generated.is_none());
    let pause = if is_unknown { LONGEST_PAUSE } else { PAUSE };
    let until = since.unwrap_or(now).checked_add(pause).ok()?;
    (until > now).then_some(until)
}
