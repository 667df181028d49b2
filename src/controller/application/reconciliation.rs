//! One reconcile of one Application: what is stored, what it shall become, and
//! what is remembered of it.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::context::Context;
use super::events;
use super::memory::{Memory, Parsed};
use super::queue::Trigger;
use crate::act::application_status;
use crate::api::ObjectKey;
use crate::api::tracking::Tracking;
use crate::controller::error::Error;
use crate::decide::app_state::refresh::digest;

/// Everything that one reconcile has in hand.
pub struct Reconciliation<'a> {
    /// What all reconciles share.
    pub ctx: &'a Context,
    /// The Application.
    pub key: &'a ObjectKey,
    /// What the reconcile was asked for.
    pub trigger: Trigger,
    /// What is remembered of the Application.
    pub memory: &'a mut Memory,
    /// The Application as it was read or last written.
    pub base: Value,
    /// The same with the changes of this reconcile.
    pub application: Value,
    /// How it marks what is its own.
    pub tracking: Tracking,
    /// Manifests and live objects that this reconcile has read already.
    pub parsed: Parsed,
}

impl<'a> Reconciliation<'a> {
    /// Nothing is changed yet.
    pub fn new(
        ctx: &'a Context,
        key: &'a ObjectKey,
        trigger: Trigger,
        memory: &'a mut Memory,
        base: Value,
    ) -> Self {
        let application = base.clone();
        let (tracking, parsed) = (ctx.tracking(key), Parsed::default());
        Self { ctx, key, trigger, memory, base, application, tracking, parsed }
    }

    /// The time.
    pub fn now(&self) -> Timestamp {
        self.ctx.now()
    }

    /// How long ago the reconcile was asked for: an answer that is newer will
    /// do.
    pub fn age(&self) -> Duration {
        self.trigger.at.elapsed()
    }

    /// Starts again from what is stored.
    pub fn reset(&mut self) {
        if let Some(stored) = self.ctx.application(self.key) {
            self.application = stored.clone();
            self.base = stored;
        }
    }

    /// Writes what has changed, if anything, and goes on from there.
    ///
    /// # Errors
    ///
    /// [`Error::Status`]; what is stored is taken over also when somebody else
    /// has changed it.
    pub async fn save(&mut self) -> Result<(), Error> {
        let Some(patch) = application_status::patch(&self.base, &self.application) else {
            return Ok(());
        };
        // A server that drops a field must not be sent it for ever.
        let version = &self.base["metadata"]["resourceVersion"];
        let sent = digest(&patch);
        if self.memory.last_patch.as_ref().is_some_and(|(last, to)| *last == sent && to == version)
        {
            return Ok(());
        }
        let client = &self.ctx.client.0;
        let written = application_status::send(client, &self.base, patch, self.now()).await;
        let written = match written {
            Ok(written) => written,
            Err(error) => {
                if let application_status::Error::Stale { newest, .. } = &error {
                    self.ctx.wrote(newest);
                }
                return Err(error.into());
            }
        };
        self.ctx.wrote(&written);
        self.memory.last_patch = Some((sent, written["metadata"]["resourceVersion"].clone()));
        events::publish(self.ctx, &self.base, &written);
        self.application = written.clone();
        self.base = written;
        Ok(())
    }
}
