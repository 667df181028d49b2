//! One reconcile of one Application: its stored state, its intended state, and its cached
//! state.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::cached_state::{CachedState, Parsed};
use super::context::Context;
use super::queue::Trigger;
use crate::act::application_status;
use crate::api::ObjectKey;
use crate::api::tracking::Tracking;
use crate::controller::error::Error;
use crate::decide::app_state::operation::StoredProgress;
use crate::decide::app_state::reconcile::Checked;
use crate::decide::app_state::refresh::{Request, digest};

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
    /// The Application as last read or written.
    pub base: Arc<Value>,
    /// The same with the changes of this reconcile.
    pub application: Arc<Value>,
    /// Its resource tracking.
    pub tracking: Tracking,
    /// Manifests and live objects that this reconcile has already read.
    pub parsed: Parsed,
    /// The comparison whose time the next write may contain.
    pub checked: Option<Checked>,
}

impl<'a> Reconciliation<'a> {
    /// A reconcile without changes.
    pub fn new(
        ctx: &'a Context,
        key: &'a ObjectKey,
        trigger: Trigger,
        cached: &'a mut CachedState,
        mut base: Value,
    ) -> Self {
        if let Some(progress) = &cached.progress {
            progress.restore(&mut base);
        }
        let base = Arc::new(base);
        let application = Arc::clone(&base);
        let (tracking, parsed) = (ctx.tracking(key), Parsed::default());
        Self { ctx, key, trigger, cached, base, application, tracking, parsed, checked: None }
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
            self.base = Arc::new(stored);
            self.application = Arc::clone(&self.base);
        }
        self.checked = None;
    }

    /// The patch of the changes; `None` when there are none, or when the server has dropped them
    /// from the last patch.
    fn patch(&self) -> Option<Value> {
        if Arc::ptr_eq(&self.base, &self.application) {
            return None;
        }
        let patch = application_status::patch(&self.base, &self.application)?;
        let version = &self.base["metadata"]["resourceVersion"];
        let last = self.cached.last_patch.as_ref();
        let is_repeated = patch["status"]["reconciledAt"].is_null()
            && last.is_some_and(|(last, to)| *last == untimed(&patch) && to == version);
        (!is_repeated).then_some(patch)
    }

    /// Writes the changes, if any.
    ///
    /// # Errors
    ///
    /// [`Error::Status`]; when another client has changed the Application, its stored
    /// version is loaded as well.
    pub async fn save(&mut self) -> Result<(), Error> {
        let mut patch = self.patch();
        if let Some(checked) = self.checked.take()
            && checked.stamp(Arc::make_mut(&mut self.application), patch.is_some())
        {
            patch = self.patch();
        }
        let Some(patch) = patch else {
            self.cached.announced.unchanged();
            return Ok(());
        };
        let sent = untimed(&patch);
        let (events, announced) = (&self.ctx.events, &mut self.cached.announced);
        let is_announced = announced.publish_first(events, &self.base, &self.application).await;
        let client = &self.ctx.core.client;
        let written = application_status::send(client, &self.base, patch, self.now()).await;
        let written = match written {
            Ok(written) => written,
            Err(error) => {
                if let application_status::Error::Stale { newest, .. }
                | application_status::Error::TooLarge { newest, .. } = &error
                {
                    self.ctx.wrote(newest);
                }
                return Err(error.into());
            }
        };
        let application_status::Sent { object: mut written, merged } = written;
        self.ctx.wrote(&written);
        self.cached.progress = StoredProgress::of(&self.application);
        if merged {
            // The watch reports the other client's change as known.
            self.ctx.queue.enqueue(self.key, Request::default());
            self.ctx.terminating.notify_one();
        }
        self.cached.last_patch = Some((sent, written["metadata"]["resourceVersion"].clone()));
        let announced = &mut self.cached.announced;
        if !is_announced {
            announced.publish(&self.ctx.events, &self.base, &written);
        }
        announced.stored();
        if let Some(progress) = &self.cached.progress {
            progress.restore(&mut written);
        }
        self.base = Arc::new(written);
        self.application = Arc::clone(&self.base);
        Ok(())
    }
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
    digest(&patch)
}
