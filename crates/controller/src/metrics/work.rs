//! Work queues and reconciles, under the names of controller-runtime (SE-554).

use std::fmt;
use std::sync::Arc;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;

use super::encode::{counters, gauges, value};
use super::kept::Kept;
use super::labels::Labels;
use crate::runtime::{QueueStats, Work};

/// What is measured of a queue.
type Part<T> = fn(&Work) -> &T;

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
        let named = |name: &str| -> Labels<1> { [("name", name.to_owned())] };
        let depth = queues.iter().map(|(name, queue)| (named(name), value(queue.depth() as u64)));
        gauges(encoder, ("workqueue_depth", "Objects that wait for a reconcile"), depth)?;
        let running = || queues.iter().map(|(name, queue)| (*name, queue.running()));
        let help = "Duration of the reconciles that are running, together, in seconds";
        let unfinished =
            running().map(|(name, running)| (named(name), running.total.as_secs_f64()));
        gauges(encoder, ("workqueue_unfinished_work_seconds", help), unfinished)?;
        let help = "Duration of the longest reconcile that is running, in seconds";
        let longest = running().map(|(name, running)| (named(name), running.longest.as_secs_f64()));
        gauges(encoder, ("workqueue_longest_running_processor_seconds", help), longest)?;
        let retries = queues.iter().map(|(name, queue)| (named(name), queue.retries()));
        let help = "Reconciles that are repeated after a failure or a conflict";
        counters(encoder, ("workqueue_retries", help), retries)?;
        let adds = queues.iter().map(|(name, queue)| (named(name), queue.work().adds.get()));
        counters(encoder, ("workqueue_adds", "Objects that were enqueued"), adds)?;
        let all = || queues.iter().map(|(name, queue)| (*name, queue.work()));
        let histograms: [(&str, &str, Part<Histogram>); 2] = [
            (
                "workqueue_queue_duration_seconds",
                "Time of objects in the queue before their reconcile, in seconds",
                |work| &work.waited,
            ),
            ("workqueue_work_duration_seconds", "Duration of reconciles in seconds", |work| {
                &work.worked
            }),
        ];
        for (name, help, of) in histograms {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
            for (queue, work) in all() {
                of(work).encode(metric.encode_family(&named(queue))?)?;
            }
        }
        encode_controllers(&queues, encoder)
    }
}

fn encode_controllers(
    queues: &[(&'static str, Arc<dyn QueueStats>)],
    encoder: &mut DescriptorEncoder<'_>,
) -> fmt::Result {
    let named = |name| -> Labels<1> { [("controller", controller_of(name).to_owned())] };
    let help = "Reconciles by their result";
    let of_results: [(&str, Part<Counter>); 4] = [
        ("success", |work| &work.success),
        ("requeue_after", |work| &work.requeue_after),
        ("requeue", |work| &work.requeue),
        ("error", |work| &work.error),
    ];
    let results = queues.iter().flat_map(|(name, queue)| {
        of_results.iter().map(move |(result, of)| {
            let [controller] = [("controller", controller_of(name).to_owned())];
            let labels: Labels<2> = [controller, ("result", (*result).to_owned())];
            (labels, of(queue.work()).get())
        })
    });
    counters(encoder, ("controller_runtime_reconcile", help), results)?;
    let errors = queues.iter().map(|(name, queue)| (named(name), queue.work().error.get()));
    counters(encoder, ("controller_runtime_reconcile_errors", "Failed reconciles"), errors)?;
    let workers =
        queues.iter().map(|(name, queue)| (named(name), value(queue.running().count as u64)));
    let help = "Reconciles that are running";
    gauges(encoder, ("controller_runtime_active_workers", help), workers)?;
    let mut metric = encoder.encode_descriptor(
        "controller_runtime_reconcile_time_seconds",
        "Duration of reconciles in seconds",
        None,
        MetricType::Histogram,
    )?;
    for (name, queue) in queues.iter() {
        queue.work().reconciled.encode(metric.encode_family(&named(name))?)?;
    }
    Ok(())
}
