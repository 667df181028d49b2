//! Asking the API server what it predicts of the objects of a comparison (SE-150, SE-158).
//!
//! It is a step between observing and deciding: the answers are facts, and a dry run changes
//! nothing.

use std::sync::Arc;

use serde_json::Value;

use super::context::Context;
use super::observe::Observed;
use super::reconciliation::Reconciliation;
use crate::act::apply::Applier;
use crate::act::meter::Meter;
use crate::act::predict::predict;
use crate::api::tracking::Tracking;
use crate::decide::app_state::observation::Observation;
use crate::decide::app_state::owner::Owner;
use crate::decide::app_state::predicted::Predicted;
use crate::decide::app_state::predictions::Predictions;
use crate::watch::cluster_cache::ClusterCache;

impl Reconciliation<'_> {
    /// Completes what was observed by what the server predicts, if it is to be asked. With
    /// `afresh`, kept answers do not count.
    pub(super) async fn predict(&mut self, observed: &mut Observed, afresh: bool) {
        let predicted = {
            let cluster = &observed.destination.destination.cluster;
            let observation = observed.observation(self.ctx, &self.tracking);
            let application = self.app.raw();
            let predictions = &mut self.cached.predictions;
            let asked = (&observation, application, afresh);
            predictions_of(self.ctx, &self.tracking, cluster, asked, predictions).await
        };
        observed.state.predicted = predicted;
    }
}

/// The predictions for an observation of an Application.
pub(super) async fn predictions_of(
    ctx: &Context,
    tracking: &Tracking,
    cluster: &Arc<ClusterCache>,
    (observation, application, afresh): (&Observation<'_>, &Value, bool),
    predictions: &mut Predictions,
) -> Predicted {
    let missing = predictions.missing(observation, application, afresh);
    let settings = &ctx.settings;
    let failed = match missing.is_empty() {
        true => Vec::new(),
        false => {
            let applier = Applier {
                cluster,
                // As every comparison, with the credentials of the cluster.
                client: cluster.client(),
                manager: &settings.field_manager,
                former_manager: "",
                owner: Owner {
                    tracking,
                    control_plane_namespace: &settings.control_plane_namespace,
                    uid: "",
                },
                requests: &ctx.requests,
                established_within: settings.definition_timeout,
                meter: Meter::default(),
            };
            let work = predict(&applier, missing, settings.parallel_applies, predictions);
            ctx.lend_slot(work).await
        }
    };
    predictions.with_failures(failed)
}
