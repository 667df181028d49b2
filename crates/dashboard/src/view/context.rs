//! What every view is made with, and what it is.

use jiff::Timestamp;

use super::parts::Part;
use crate::permissions::VerbPermissions;
use crate::reports::{KnownState, PageClock};

/// What every view is made with.
#[derive(Clone, Debug)]
pub(crate) struct ViewContext {
    /// The time for ages in words; `None` leaves them to the open page.
    pub now: Option<Timestamp>,
    /// Whether buttons are shown.
    pub allows_actions: bool,
    /// What the person may do in the namespace of the view.
    pub permissions: VerbPermissions,
    pub state: KnownState,
    pub place: String,
    /// The time of what was recorded, with the path of the view; none of a cluster.
    pub clock: Option<(PageClock, String)>,
}

/// A view: its title and its parts.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub title: String,
    pub parts: Vec<Part>,
    /// Whether it exists.
    pub is_missing: bool,
}
