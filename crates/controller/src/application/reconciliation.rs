//! The data of one reconcile of one Application, and its writes.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::cached_state::{CachedState, ParsedState};
use super::context::Context;
use super::queue::Trigger;
use crate::error::ReconcileError;
use wavegate_api::tracking::Tracking;
use wavegate_api::{ObjectKey, Raw};
use wavegate_application::app::App;
use wavegate_application::memory::digest_of;
use wavegate_application::operate;
use wavegate_application::operation::StoredProgress;
use wavegate_application::reconcile::Checked;
use wavegate_application::request::ComparisonRequest;
use wavegate_application::size;
use wavegate_cluster::act::control_plane::application_status;
use wavegate_cluster::act::control_plane::application_status::Error::{Stale, TooLarge};

/// The data of one reconcile.
pub struct Reconciliation<'a> {
    /// The shared state.
    pub ctx: &'a Context,
    /// The Application.
    pub key: &'a ObjectKey,
    /// The request that triggered the reconcile.
    pub trigger: Trigger,
    /// The cached state of the Application.
    pub cached: &'a mut CachedState,
    /// The Application as last read or written, with what was decided since.
    pub app: App,
    /// Its resource tracking.
    pub tracking: Tracking,
    /// Manifests and live objects that this reconcile has already read.
    pub parsed: ParsedState,
    /// The comparison whose time the next write may contain.
    pub checked: Option<Checked>,
    /// When the Application was read.
    pub mark: u64,
}

impl<'a> Reconciliation<'a> {
    /// A reconcile without changes.
    pub fn new(
        ctx: &'a Context,
        key: &'a ObjectKey,
        trigger: Trigger,
        cached: &'a mut CachedState,
        (stored, mark): (Value, u64),
    ) -> Self {
        let app = cached.restored(stored);
        app.raw().uid().clone_into(&mut cached.uid);
        let (tracking, parsed) = (ctx.tracking(key), ParsedState::default());
        Self { ctx, key, trigger, cached, app, tracking, parsed, checked: None, mark }
    }

    /// The current time.
    pub fn now(&self) -> Timestamp {
        self.ctx.now()
    }

    /// How long ago the reconcile was requested: data that is newer is fresh enough.
    pub fn age(&self) -> Duration {
        self.trigger.at.elapsed()
    }

    /// Discards the changes of this reconcile.
    pub fn reset(&mut self) {
        if let Some(stored) = self.ctx.application(self.key) {
            self.app = App::of(stored);
        }
        self.checked = None;
    }

    /// What is written; `None` when there are no changes, or when
    /// the server has dropped them from the last patch.
    fn changes(&self) -> Option<Changes> {
        let mut written = self.app.written()?;
        let is_long = size::fit_size(&mut written);
        // What is stored is not all that the process keeps of it.
        let is_cut = self.cached.progress.as_ref().is_some_and(StoredProgress::adds_results);
        let cut = (is_long || is_cut).then(|| {
            let mut stored = self.app.stored().clone();
            size::fit_size(&mut stored);
            stored
        });
        let stored = cut.as_ref().unwrap_or(self.app.stored());
        let patch = application_status::status_patch(stored, &written)?;
        let version = stored.resource_version();
        let last = self.cached.last_patch.as_ref();
        let is_comparison = patch.status().get("reconciledAt").is_some_and(|at| !at.is_null());
        let is_repeated = !is_comparison
            && last.is_some_and(|(last, to)| *last == untimed(&patch) && to == version);
        (!is_repeated).then_some(Changes { cut, patch, written })
    }

    /// Writes the changes, if any.
    ///
    /// # Errors
    ///
    /// [`Error::Status`]; when another client has changed the Application, its stored
    /// version is loaded as well.
    pub async fn save(&mut self) -> Result<(), ReconcileError> {
        let saved = self.save_once().await;
        let Err(ReconcileError::ApplicationStatus(TooLarge { reason, .. })) = &saved else {
            return saved;
        };
        self.reset();
        let now = self.now();
        if operate::fail_unstored(&mut self.app, reason, now).is_some() {
            self.save_once().await?;
        }
        saved
    }

    async fn save_once(&mut self) -> Result<(), ReconcileError> {
        let mut changes = self.changes();
        if let Some(checked) = self.checked.take()
            && checked.stamp(&mut self.app, changes.is_some())
        {
            changes = self.changes();
        }
        let Some(Changes { cut, patch, written }) = changes else {
            self.cached.announced.unchanged();
            return Ok(());
        };
        let sent = untimed(&patch);
        let (events, announced) = (&self.ctx.events, &mut self.cached.announced);
        let stored = cut.as_ref().unwrap_or(self.app.stored());
        let is_announced = announced.publish_first(events, stored, &written).await;
        let core = &self.ctx.core;
        let write = core.control_plane.applications.begin_write(self.key.clone());
        let answer = application_status::send_patch(&core.client, stored, patch, self.ctx.now());
        let written = write.answer(answer).await;
        let written = match written {
            Ok(written) => written,
            Err(error) => {
                if let Stale { newest, .. } | TooLarge { newest, .. } = &error {
                    self.ctx.wrote(newest);
                }
                return Err(error.into());
            }
        };
        let application_status::Sent { object, merged } = written;
        let written = object.parse();
        self.ctx.stored(object, &written);
        drop(write);
        self.ctx.core.metrics.stored(self.key, stored, &written);
        let listed = written.items("/status/operationState/syncResult/resources").len();
        self.cached.progress = StoredProgress::of(&self.app.status.operation_state, listed);
        if merged {
            // The watch reports the other client's change as known.
            self.ctx.queue.enqueue(self.key, ComparisonRequest::default());
            self.ctx.terminating.notify_one();
        }
        self.cached.last_patch = Some((sent, written.resource_version().to_owned()));
        let announced = &mut self.cached.announced;
        if !is_announced {
            announced.publish(&self.ctx.events, stored, &written);
        }
        announced.stored();
        self.app = self.cached.restored(written);
        Ok(())
    }
}

/// What a reconcile writes.
struct Changes {
    /// What is stored, when the Application that the process has is longer.
    cut: Option<Value>,
    /// The patch.
    patch: Value,
    /// The Application with it.
    written: Value,
}

/// The digest of a patch without the time of the comparison: what the server drops is the same
/// at each time.
fn untimed(patch: &Value) -> u64 {
    let mut patch = patch.clone();
    if let Some(status) = patch.get_mut("status").and_then(Value::as_object_mut) {
        status.remove("reconciledAt");
        if status.is_empty() {
            patch.as_object_mut().map(|patch| patch.remove("status"));
        }
    }
    digest_of(&patch)
}
