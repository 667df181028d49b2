//! What was done and found for each Application: syncs, comparisons, orphaned objects, and requests
//! to clusters (SE-546 to SE-549, SE-551, SE-553). It is kept here, and dropped with the Application.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::histogram::Histogram;
use serde_json::Value;

use super::encode::{counters, gauges, histograms, value};
use super::labels::{Labels, of, with};
use wavegate_api::listed::ListedOperationState;
use wavegate_api::{ObjectKey, Raw, read_leniently};
use wavegate_application::access;
use wavegate_cluster::act::sync::meter::{RequestReport, SentRequest};

/// The series of requests of one Application; later ones are counted without their namespace.
const SERIES: usize = 2_000;

/// What was counted, by the labels after those of the Application.
type Counts = BTreeMap<Labels, u64>;

/// Which of the counts of an Application.
type CountsOf = fn(&Done) -> &Counts;

/// What was done for one Application.
#[derive(Debug, Default)]
struct Done {
    /// Ended syncs.
    syncs: Counts,
    /// Their whole seconds.
    seconds: Counts,
    /// Requests.
    requests: Counts,
    /// Orphaned objects at the last comparison.
    orphans: Option<u64>,
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
            read_leniently::<ListedOperationState>(&application.status()["operationState"])
        };
        let (before, state) = (state(before), state(after));
        let phase = state.phase();
        let was_ended = before.phase().is_completed() && before.started_at == state.started_at;
        if !phase.is_completed() || was_ended {
            return;
        }
        let project = access::project_of(after).to_owned();
        let dry_run = state.operation.sync.is_some_and(|sync| sync.dry_run);
        let labels = vec![("project", project), ("dest_server", server.to_owned())];
        let ended = [("phase", phase.to_string()), ("dry_run", dry_run.to_string())];
        let mut by = self.by.lock();
        let done = by.entry(key.clone()).or_default();
        *done.syncs.entry(with(labels.clone(), ended)).or_default() += 1;
        let time = |text: &str| text.parse::<jiff::Timestamp>().ok();
        if let (Some(from), Some(to)) = (time(&state.started_at), time(&state.finished_at)) {
            let seconds = u64::try_from(to.as_second() - from.as_second()).unwrap_or_default();
            *done.seconds.entry(labels).or_default() += seconds;
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

impl RequestReport for Operations {
    fn sent(&self, request: &SentRequest<'_>) {
        let labels = |namespace: &str| {
            vec![
                ("project", request.project.to_owned()),
                ("server", request.server.to_owned()),
                ("response_code", request.code.unwrap_or_default().to_string()),
                ("verb", request.verb.to_owned()),
                ("resource_kind", request.resource.to_owned()),
                ("resource_namespace", namespace.to_owned()),
                ("dry_run", request.dry_run.to_string()),
            ]
        };
        let mut own = labels(request.namespace);
        let mut by = self.by.lock();
        let requests = &mut by.entry(request.application.clone()).or_default().requests;
        if requests.len() >= SERIES && !requests.contains_key(&own) {
            own = labels("");
        }
        *requests.entry(own).or_default() += 1;
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
        let mut by = self.by.lock();
        by.retain(|key, _| exists(key));
        let mut keys: Vec<&ObjectKey> = by.keys().collect();
        keys.sort();
        let counted: [(&str, &str, CountsOf); 3] = [
            ("argocd_app_sync", "Syncs that have ended", |done| &done.syncs),
            ("argocd_app_sync_duration_seconds", "Whole seconds of the syncs that have ended", {
                |done| &done.seconds
            }),
            ("argocd_app_k8s_request", "Requests to clusters of syncs and deletions", |done| {
                &done.requests
            }),
        ];
        for (name, help, counts_of) in counted {
            let all = keys.iter().filter_map(|key| Some((*key, counts_of(by.get(*key)?))));
            let series = all.flat_map(|(key, counts)| {
                let labels = |more: &Labels| with(of(key), more.iter().cloned());
                counts.iter().map(move |(more, count)| (labels(more), *count))
            });
            counters(encoder, (name, help), series)?;
        }
        drop(by);

        let mut comparisons = self.comparisons.lock();
        comparisons.retain(|labels, _| servers.contains(labels));
        let durations = comparisons.iter().map(|((namespace, server), histogram)| {
            ([("namespace", namespace.clone()), ("dest_server", server.clone())], histogram)
        });
        let help = "Duration of comparisons of Applications in seconds";
        histograms(encoder, ("argocd_app_reconcile", help), durations)?;
        drop(comparisons);

        let applies = self.applies.lock().clone();
        let of_command =
            |command: &str| [("hostname", self.host.0.clone()), ("command", command.to_owned())];
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
