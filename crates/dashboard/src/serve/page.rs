//! What every request needs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{Mutex, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::access::PageAccess;
use crate::reports::PageReports;
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

/// What every request needs.
pub(super) struct Page {
    pub reports: Arc<dyn PageReports>,
    pub access: PageAccess,
    pub options: PageOptions,
    pub streams: Streams,
    pub answers: Semaphore,
    pub stop: CancellationToken,
}

/// The streams, and the views that they share.
#[derive(Default)]
pub(super) struct Streams {
    pub open: AtomicUsize,
    pub made: Mutex<BTreeMap<String, Arc<Mutex<Made>>>>,
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
    pub fn new(
        reports: Arc<dyn PageReports>,
        access: PageAccess,
        options: PageOptions,
        stop: CancellationToken,
    ) -> Self {
        let (streams, answers) = (Streams::default(), Semaphore::new(ANSWERS));
        Self { reports, access, options, streams, answers, stop }
    }

    /// What a view is made with at this time.
    pub fn context(&self, now: Option<Timestamp>) -> ViewContext {
        ViewContext {
            now,
            allows_actions: self.options.allows_actions,
            state: self.reports.state().borrow().clone(),
            place: self.reports.place(),
            clock: None,
        }
    }
}
