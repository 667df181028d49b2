//! What was done and found for each Application: syncs, comparisons, orphaned objects, and requests
//! to clusters (SE-546 to SE-549, SE-551, SE-553). It is kept here, and dropped with the Application.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::histogram::Histogram;
use serde::Deserialize;
use serde_json::Value;

use super::encode::{counters, gauges, value};
use super::labels::{Labels, of, with};
use wavegate_api::listed::ListedOperationState;
use wavegate_api::{ObjectKey, read_leniently};
use wavegate_application::access;
use wavegate_cluster::act::sync::meter::{RequestReport, SentRequest};

/// The series of requests of one Application; later ones are counted without their namespace.
const SERIES: usize = 2_000;

/// What was done for one Application.
#[derive(Debug, Default)]
struct Done {
    /// Ended syncs by project, server, phase, and whether they were dry runs.
    syncs: BTreeMap<(String, String, String, bool), u64>,
    /// Their whole seconds, by project and server.
    seconds: BTreeMap<(String, String), u64>,
    /// Requests by project, server, code, verb, resource, namespace, and whether they were dry
    /// runs.
    requests: BTreeMap<RequestLabels, u64>,
    /// Orphaned objects at the last comparison.
    orphans: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RequestLabels {
    project: String,
    server: String,
    code: String,
    verb: &'static str,
    resource: String,
    namespace: String,
    dry_run: bool,
}

impl RequestLabels {
    fn of_request(self) -> Labels<6> {
        [
            ("server", self.server),
            ("response_code", self.code),
            ("verb", self.verb.to_owned()),
            ("resource_kind", self.resource),
            ("resource_namespace", self.namespace),
            ("dry_run", self.dry_run.to_string()),
        ]
    }
}

/// What was done for all Applications.
#[derive(Debug, Default)]
pub(super) struct Operations {
    by: Mutex<HashMap<ObjectKey, Done>>,
    /// Durations of comparisons by namespace and server.
    comparisons: Mutex<BTreeMap<(String, String), Histogram>>,
    /// Applies by their command: how many, and how many are under way.
    applies: Mutex<BTreeMap<&'static str, (u64, u64)>>,
    host: Host,
}

impl Operations {
    /// Counts the end of a sync, if the Application was stored with one that it had not before.
    pub fn stored(&self, key: &ObjectKey, server: &str, before: &Value, after: &Value) {
        let state = |application: &Value| {
            read_leniently::<OperationEnd>(application).status.operation_state
        };
        let (before, state) = (state(before), state(after));
        let phase = state.phase();
        let was_ended = before.phase().is_completed() && before.started_at == state.started_at;
        if !phase.is_completed() || was_ended {
            return;
        }
        let project = access::project_of(after).to_owned();
        let dry_run = state.operation.sync.is_some_and(|sync| sync.dry_run);
        let labels = (project.clone(), server.to_owned(), phase.to_string(), dry_run);
        let mut by = self.by.lock();
        let done = by.entry(key.clone()).or_default();
        *done.syncs.entry(labels).or_default() += 1;
        let time = |text: &str| text.parse::<jiff::Timestamp>().ok();
        if let (Some(from), Some(to)) = (time(&state.started_at), time(&state.finished_at)) {
            let seconds = u64::try_from(to.as_second() - from.as_second()).unwrap_or_default();
            *done.seconds.entry((project, server.to_owned())).or_default() += seconds;
        }
    }

    /// Counts a comparison.
    pub fn compared(&self, namespace: &str, server: &str, took: Duration) {
        let labels = (namespace.to_owned(), server.to_owned());
        let mut comparisons = self.comparisons.lock();
        let histogram = comparisons
            .entry(labels)
            .or_insert_with(|| Histogram::new([0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0]));
        histogram.observe(took.as_secs_f64());
    }

    /// Records the number of orphaned objects.
    pub fn orphaned(&self, key: &ObjectKey, count: usize) {
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        self.by.lock().entry(key.clone()).or_default().orphans = Some(count);
    }

    /// The number of orphaned objects, once they were counted.
    pub fn orphans(&self, key: &ObjectKey) -> Option<u64> {
        self.by.lock().get(key)?.orphans
    }

    /// Drops what was done for a deleted Application.
    pub fn forget(&self, key: &ObjectKey) {
        self.by.lock().remove(key);
    }
}

/// The part of an Application that says how its operation ended.
#[derive(Default, Deserialize)]
#[serde(default)]
struct OperationEnd {
    status: StatusOfOperation,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct StatusOfOperation {
    operation_state: ListedOperationState,
}

impl RequestReport for Operations {
    fn sent(&self, request: &SentRequest<'_>) {
        let mut labels = RequestLabels {
            project: request.project.to_owned(),
            server: request.server.to_owned(),
            code: request.code.map_or_else(|| "0".to_owned(), |code| code.to_string()),
            verb: request.verb,
            resource: request.resource.to_owned(),
            namespace: request.namespace.to_owned(),
            dry_run: request.dry_run,
        };
        let mut by = self.by.lock();
        let requests = &mut by.entry(request.application.clone()).or_default().requests;
        if requests.len() >= SERIES && !requests.contains_key(&labels) {
            labels.namespace.clear();
        }
        *requests.entry(labels).or_default() += 1;
    }

    fn began(&self, command: &'static str) {
        let mut applies = self.applies.lock();
        let (all, pending) = applies.entry(command).or_default();
        *all += 1;
        *pending += 1;
    }

    fn ended(&self, command: &'static str) {
        if let Some((_, pending)) = self.applies.lock().get_mut(command) {
            *pending = pending.saturating_sub(1);
        }
    }
}

impl Operations {
    /// Writes what was done for the Applications that still exist, with their servers by
    /// namespace.
    pub(super) fn encode(
        &self,
        exists: &dyn Fn(&ObjectKey) -> bool,
        servers: &BTreeSet<(String, String)>,
        encoder: &mut DescriptorEncoder<'_>,
    ) -> fmt::Result {
        let operations = self;
        let mut by = operations.by.lock();
        by.retain(|key, _| exists(key));
        let mut keys: Vec<&ObjectKey> = by.keys().collect();
        keys.sort();
        let all = || keys.iter().filter_map(|key| Some((*key, by.get(*key)?)));
        let of_app = |key: &ObjectKey, project: &str| -> Labels<3> {
            let [namespace, name] = of(key);
            [namespace, name, ("project", project.to_owned())]
        };
        let syncs = all().flat_map(|(key, done)| {
            done.syncs.iter().map(move |((project, server, phase, dry_run), count)| {
                let server = ("dest_server", server.clone());
                let phase = ("phase", phase.clone());
                let dry_run = ("dry_run", dry_run.to_string());
                (with(of_app(key, project), [server, phase, dry_run]), *count)
            })
        });
        counters(encoder, ("argocd_app_sync", "Syncs that have ended"), syncs)?;
        let seconds = all().flat_map(|(key, done)| {
            done.seconds.iter().map(move |((project, server), seconds)| {
                (with(of_app(key, project), [("dest_server", server.clone())]), *seconds)
            })
        });
        let help = "Whole seconds of the syncs that have ended";
        counters(encoder, ("argocd_app_sync_duration_seconds", help), seconds)?;
        let requests = all().flat_map(|(key, done)| {
            done.requests.iter().map(move |(labels, count)| {
                let own = of_app(key, &labels.project);
                (with(own, labels.clone().of_request()), *count)
            })
        });
        let help = "Requests to clusters of syncs and deletions";
        counters(encoder, ("argocd_app_k8s_request", help), requests)?;
        drop(by);

        let mut comparisons = operations.comparisons.lock();
        comparisons.retain(|labels, _| servers.contains(labels));
        let mut metric = encoder.encode_descriptor(
            "argocd_app_reconcile",
            "Duration of comparisons of Applications in seconds",
            None,
            MetricType::Histogram,
        )?;
        for ((namespace, server), histogram) in comparisons.iter() {
            let labels: Labels<2> =
                [("namespace", namespace.clone()), ("dest_server", server.clone())];
            histogram.encode(metric.encode_family(&labels)?)?;
        }
        drop(comparisons);

        let applies = operations.applies.lock().clone();
        let of_command = |command: &str| -> Labels<2> {
            [("hostname", operations.host.0.clone()), ("command", command.to_owned())]
        };
        let help = "Applies of objects by their kind";
        let all = applies.iter().map(|(command, (all, _))| (of_command(command), *all));
        counters(encoder, ("argocd_kubectl_exec", help), all)?;
        let pending =
            applies.iter().map(|(command, (_, pending))| (of_command(command), value(*pending)));
        gauges(encoder, ("argocd_kubectl_exec_pending", "Applies that are under way"), pending)
    }
}

/// The name of this machine, for labels.
#[derive(Debug)]
struct Host(String);

impl Default for Host {
    fn default() -> Self {
        Self(rustix::system::uname().nodename().to_string_lossy().into_owned())
    }
}
