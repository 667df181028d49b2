//! Counts requests to Redis, under the names that Argo CD has (CA-511).

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Labels of a series, in a fixed order.
type Labels<const N: usize> = [(&'static str, String); N];

/// Who makes the requests.
const INITIATOR: &str = "argocd-application-controller";

fn seconds() -> Histogram {
    Histogram::new([0.01, 0.05, 0.1, 0.25, 0.5, 1.0])
}

/// The requests to Redis. Cheap to clone.
#[derive(Clone, Debug)]
pub struct RedisMetrics {
    host: String,
    requests: Family<Labels<4>, Counter>,
    durations: Family<Labels<2>, Histogram, fn() -> Histogram>,
}

impl Default for RedisMetrics {
    fn default() -> Self {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Self {
            host,
            requests: Family::default(),
            durations: Family::new_with_constructor(seconds as fn() -> Histogram),
        }
    }
}

impl RedisMetrics {
    /// Registers them.
    pub fn register(&self, registry: &mut Registry) {
        registry.register("argocd_redis_request", "Requests to Redis", self.requests.clone());
        registry.register(
            "argocd_redis_request_duration",
            "Duration of requests to Redis in seconds",
            self.durations.clone(),
        );
    }

    /// Counts a request.
    pub(super) fn count(&self, command: &str, failed: bool, took: Duration) {
        let labels = [
            ("hostname", self.host.clone()),
            ("initiator", INITIATOR.to_owned()),
            ("command", command.to_owned()),
            ("failed", failed.to_string()),
        ];
        self.requests.get_or_create(&labels).inc();
        let labels = [("hostname", self.host.clone()), ("initiator", INITIATOR.to_owned())];
        self.durations.get_or_create(&labels).observe(took.as_secs_f64());
    }
}
