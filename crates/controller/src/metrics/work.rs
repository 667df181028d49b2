//! Work queues and reconciles, under the names of controller-runtime (SE-554), and settings that
//! are gone.

use std::fmt;
use std::sync::Arc;

use prometheus_client::encoding::DescriptorEncoder;

use super::encode::{counters, gauges, histograms, value};
use super::kept::Kept;
use crate::leader::LEASE;
use crate::runtime::QueueStats;

/// A queue by the name of the queue, and of its controller.
const fn controller_of(queue: &'static str) -> &'static str {
    match queue.as_bytes() {
        b"app_reconciliation_queue" => "application",
        _ => queue,
    }
}

impl Kept {
    pub(super) fn encode_queues(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let queues = self.queues.lock();
        let named = |name: &str| [("name", name.to_owned())];
        let depth = queues.iter().map(|(name, queue)| (named(name), value(queue.depth() as u64)));
        gauges(encoder, ("workqueue_depth", "Objects that wait for a reconcile"), depth)?;
        let running = || queues.iter().map(|(name, queue)| (named(name), queue.running()));
        let help = "Duration of the reconciles that are running, together, in seconds";
        let unfinished = running().map(|(queue, running)| (queue, running.total.as_secs_f64()));
        gauges(encoder, ("workqueue_unfinished_work_seconds", help), unfinished)?;
        let help = "Duration of the longest reconcile that is running, in seconds";
        let longest = running().map(|(queue, running)| (queue, running.longest.as_secs_f64()));
        gauges(encoder, ("workqueue_longest_running_processor_seconds", help), longest)?;
        let retries = queues.iter().map(|(name, queue)| (named(name), queue.retries()));
        let help = "Reconciles that are repeated after a failure or a conflict";
        counters(encoder, ("workqueue_retries", help), retries)?;
        let work = || queues.iter().map(|(name, queue)| (named(name), queue.work()));
        let adds = work().map(|(queue, work)| (queue, work.adds.get()));
        counters(encoder, ("workqueue_adds", "Objects that were enqueued"), adds)?;
        let help = "Time of objects in the queue before their reconcile, in seconds";
        let waited = work().map(|(queue, work)| (queue, &work.waited));
        histograms(encoder, ("workqueue_queue_duration_seconds", help), waited)?;
        let help = "Duration of reconciles in seconds";
        let worked = work().map(|(queue, work)| (queue, &work.worked));
        histograms(encoder, ("workqueue_work_duration_seconds", help), worked)?;
        encode_controllers(&queues, encoder)
    }

    /// Whether this replica is the active one, under the name of client-go.
    pub(super) fn encode_leadership(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let series =
            self.leads.get().map(|leads| ([("name", LEASE.to_owned())], f64::from(leads())));
        let help = "Whether this replica holds the Lease";
        gauges(encoder, ("leader_election_master_status", help), series.into_iter())
    }

    /// The sources of settings that are gone.
    pub(super) fn encode_absent(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let names = self.absent.names().into_iter();
        let series = names.map(|name| ([("source", name.to_owned())], 1.0));
        let help = "A source of settings that does not exist any more; its last ones stay in force";
        gauges(encoder, ("wavegate_settings_absent", help), series)
    }
}

fn encode_controllers(
    queues: &[(&'static str, Arc<dyn QueueStats>)],
    encoder: &mut DescriptorEncoder<'_>,
) -> fmt::Result {
    let all = || {
        let named = |name| ("controller", controller_of(name).to_owned());
        queues.iter().map(move |(name, queue)| (named(*name), queue))
    };
    let help = "Reconciles by their result";
    let results = all().flat_map(|(controller, queue)| {
        let work = queue.work();
        let by_result = [
            ("success", &work.success),
            ("requeue_after", &work.requeue_after),
            ("requeue", &work.requeue),
            ("error", &work.error),
        ];
        by_result.map(|(result, count)| {
            ([controller.clone(), ("result", result.to_owned())], count.get())
        })
    });
    counters(encoder, ("controller_runtime_reconcile", help), results)?;
    let errors = all().map(|(controller, queue)| ([controller], queue.work().error.get()));
    counters(encoder, ("controller_runtime_reconcile_errors", "Failed reconciles"), errors)?;
    let workers =
        all().map(|(controller, queue)| ([controller], value(queue.running().count as u64)));
    let help = "Reconciles that are running";
    gauges(encoder, ("controller_runtime_active_workers", help), workers)?;
    let took = all().map(|(controller, queue)| ([controller], &queue.work().reconciled));
    let help = "Duration of reconciles in seconds";
    histograms(encoder, ("controller_runtime_reconcile_time_seconds", help), took)
}
