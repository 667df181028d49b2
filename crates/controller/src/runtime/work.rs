//! How long the work of a queue takes, for metrics (SE-554): the names and bounds are those of
//! controller-runtime, which dashboards know.

use std::fmt;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};

use super::result::{ReconcileResult, Wake};

/// The durations and results of a queue.
pub struct Work {
    /// How often an object was enqueued.
    pub adds: Counter,
    /// How long objects waited in the queue.
    pub waited: Histogram,
    /// How long reconciles took, by the bounds of work queues.
    pub worked: Histogram,
    /// The same by the bounds of controllers.
    pub reconciled: Histogram,
    /// Reconciles that succeeded and wait for an event.
    pub success: Counter,
    /// Those that succeeded and are repeated at a time.
    pub requeue_after: Counter,
    /// Those that are repeated since the object had changed.
    pub requeue: Counter,
    /// Those that failed.
    pub error: Counter,
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Work").field("adds", &self.adds.get()).finish_non_exhaustive()
    }
}

impl Default for Work {
    fn default() -> Self {
        // From ten nanoseconds to a quarter of an hour.
        let of_queues = || Histogram::new(exponential_buckets(1e-8, 10.0, 12));
        Self {
            adds: Counter::default(),
            waited: of_queues(),
            worked: of_queues(),
            reconciled: Histogram::new([
                0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6,
                0.7, 0.8, 0.9, 1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0,
                8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0,
            ]),
            success: Counter::default(),
            requeue_after: Counter::default(),
            requeue: Counter::default(),
            error: Counter::default(),
        }
    }
}

impl Work {
    /// A reconcile has ended.
    pub(super) fn ended(&self, took: Duration, ended: ReconcileResult) {
        self.worked.observe(took.as_secs_f64());
        self.reconciled.observe(took.as_secs_f64());
        let counter = match ended {
            ReconcileResult::Success(Wake::At(_)) => &self.requeue_after,
            ReconcileResult::Success(Wake::On(_)) | ReconcileResult::Gone => &self.success,
            ReconcileResult::Outdated => &self.requeue,
            ReconcileResult::Failed => &self.error,
        };
        counter.inc();
    }
}

/// The reconciles that are running.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Running {
    /// How many.
    pub count: usize,
    /// For how long together.
    pub total: Duration,
    /// For how long the one that began first.
    pub longest: Duration,
}
