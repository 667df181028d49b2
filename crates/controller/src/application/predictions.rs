//! Asking the API server what it predicts of the objects of a comparison (SE-150, SE-158).
//!
//! It is a step between observing and deciding: the answers are facts, and a dry run changes
//! nothing.

use std::sync::Arc;

use serde_json::Value;

use super::context::Context;
use super::observe::ObservedApplication;
use super::reconciliation::Reconciliation;
use wavegate_api::tracking::Tracking;
use wavegate_application::observation::Observation;
use wavegate_application::predicted::Predicted;
use wavegate_application::predictions::Predictions;
use wavegate_cluster::act::sync::meter::Meter;
use wavegate_cluster::act::sync::predict::predict_all;
use wavegate_cluster::watch::cluster_cache::ClusterCache;

impl Reconciliation<'_> {
    /// Completes what was observed by what the server predicts, if it is to be asked. With
    /// `afresh`, kept answers do not count.
    pub(super) async fn predict(&mut self, observed: &mut ObservedApplication, afresh: bool) {
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
    let failed = match missing.is_empty() {
        true => Vec::new(),
        false => {
            // As every comparison, with the credentials of the cluster.
            let (client, owner) = (cluster.client(), ctx.owner(tracking, ""));
            let executor = ctx.executor(cluster, client, owner, Meter::default());
            let work = predict_all(&executor, missing, predictions);
            ctx.lend_slot(work).await
        }
    };
    predictions.with_failures(failed)
}
