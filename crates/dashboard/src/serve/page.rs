//! What every request needs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::http::{HeaderMap, Method};
use jiff::Timestamp;
use parking_lot::Mutex as Lock;
use tokio::sync::{Mutex, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::people::People;
use crate::access::{Denial, PageAccess};
use crate::address::ViewName;
use crate::people::PersonKey;
use crate::reports::PageReports;
use crate::team::{FormWord, TeamAccess};
use crate::view::ViewContext;
use crate::view::parts::Part;

/// Requests that are answered at the same time; others wait.
const ANSWERS: usize = 16;

/// What the page may do.
#[derive(Clone, Copy, Debug, Default)]
pub struct PageOptions {
    /// Verbs are offered, and done.
    pub allows_actions: bool,
}

/// Who may ask.
pub(super) enum PageDoor {
    /// The one person who has started it.
    Own(PageAccess, Arc<Visitor>),
    /// All whom the proxy in front of it signs in.
    Team(TeamAccess, Arc<People>),
}

/// What every request needs.
pub(super) struct Page {
    pub door: PageDoor,
    /// Open streams.
    pub open: AtomicUsize,
    pub answers: Semaphore,
    pub stop: CancellationToken,
}

/// A person with what only this person may read. Nothing of it is shared with another one, the views
/// that were made included.
pub(super) struct Visitor {
    pub key: PersonKey,
    pub reports: Arc<dyn PageReports>,
    pub options: PageOptions,
    /// The most open streams.
    pub streams: usize,
    /// Open streams.
    pub open: AtomicUsize,
    pub made: Mutex<BTreeMap<String, Arc<Mutex<Made>>>>,
    /// The most views that are kept.
    pub kept: usize,
    /// The person is signed out: streams end.
    pub ended: CancellationToken,
    used: Lock<Instant>,
}

/// A view as it was last made.
#[derive(Default)]
pub(super) struct Made {
    /// The revision of the cluster that it is of.
    pub revision: Option<u64>,
    pub parts: Arc<Vec<Part>>,
    pub took: Duration,
}

impl Page {
    pub fn new(door: PageDoor, stop: CancellationToken) -> Self {
        Self { door, open: AtomicUsize::new(0), answers: Semaphore::new(ANSWERS), stop }
    }

    /// Whether the request is for this page, and from no other one.
    pub fn check_origin(&self, method: &Method, headers: &HeaderMap) -> Result<(), Denial> {
        match &self.door {
            PageDoor::Own(access, _) => access.check_origin(method, headers),
            PageDoor::Team(access, _) => access.check_origin(method, headers),
        }
    }

    /// The word for the forms of a visitor.
    pub fn form_word(&self, visitor: &Visitor, headers: &HeaderMap) -> Result<FormWord, Denial> {
        match &self.door {
            PageDoor::Own(access, _) => {
                Ok(FormWord { word: access.form_word().to_owned(), cookie: None })
            }
            PageDoor::Team(access, _) => access.form_word(&visitor.key, headers),
        }
    }

    /// Whether a form is of this page, and of this visitor.
    pub fn is_form_word(&self, visitor: &Visitor, headers: &HeaderMap, given: &str) -> bool {
        match &self.door {
            PageDoor::Own(access, _) => access.is_form_word(given),
            PageDoor::Team(access, _) => access.is_form_word(&visitor.key, headers, given),
        }
    }
}

impl Visitor {
    /// One who may have so many streams and views.
    pub fn new(
        key: PersonKey,
        reports: Arc<dyn PageReports>,
        options: PageOptions,
        (streams, kept): (usize, usize),
        ended: CancellationToken,
    ) -> Self {
        Self {
            key,
            reports,
            options,
            streams,
            open: AtomicUsize::new(0),
            made: Mutex::default(),
            kept,
            ended,
            used: Lock::new(Instant::now()),
        }
    }

    /// What a view is made with at this time. What the person may do is asked for where it matters.
    pub async fn context(&self, name: Option<&ViewName>, now: Option<Timestamp>) -> ViewContext {
        let allows_actions = self.options.allows_actions;
        let permissions = match name {
            Some(ViewName::Rollout(of) | ViewName::Application(of)) if allows_actions => {
                self.reports.permissions(&of.namespace).await.unwrap_or_default()
            }
            _ => Default::default(),
        };
        let state = self.reports.state().borrow().clone();
        ViewContext {
            now,
            allows_actions,
            permissions,
            state,
            place: self.reports.place(),
            clock: None,
        }
    }

    /// It is in use now.
    pub fn touch(&self) {
        *self.used.lock() = Instant::now();
    }

    /// The time since it was last used; none while a page of it is open.
    pub fn unused(&self) -> Duration {
        match self.open.load(Ordering::Relaxed) {
            0 => self.used.lock().elapsed(),
            _ => Duration::ZERO,
        }
    }
}
