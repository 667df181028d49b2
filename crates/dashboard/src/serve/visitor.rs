//! A person, with all that belongs to this person alone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex as Lock;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::address::ViewName;
use crate::people::PersonKey;
use crate::reports::PageReports;
use crate::view::ViewContext;
use crate::view::parts::Part;

/// What the page may do.
#[derive(Clone, Copy, Debug, Default)]
pub struct PageOptions {
    /// Verbs are offered, and done.
    pub allows_actions: bool,
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
