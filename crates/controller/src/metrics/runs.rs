//! What the latest run of each ApplicationSet shows when the metrics are requested (ST-085).

use std::collections::BTreeMap;
use std::fmt;

use prometheus_client::encoding::DescriptorEncoder;

use super::encode::{gauges, value};
use super::kept::Kept;
use super::labels::{of, with};
use wavegate_api::ObjectKey;
use wavegate_api::run::RolloutRunStatus;
use wavegate_cluster::watch::object::StoredObject;
use wavegate_rollout::rollout::run::number_of;

/// The most signatures of failures that a run shows.
const SIGNATURES: usize = 5;

impl Kept {
    pub(super) fn encode_runs(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let runs = self.latest_runs();
        let phases = runs
            .iter()
            .map(|(set, run)| (with(of(set), [("phase", run.phase.as_str().to_owned())]), 1.0));
        let help = "The latest run of an ApplicationSet, with its phase as a label";
        gauges(encoder, ("wavegate_run_phase", help), phases)?;
        let failures = runs.iter().flat_map(|(set, run)| {
            run.failures.iter().take(SIGNATURES).map(move |failure| {
                let labels = with(of(set), [("signature", failure.signature.clone())]);
                (labels, value(u64::try_from(failure.count).unwrap_or_default()))
            })
        });
        let help = "Failed Applications of the latest run by the signature of their failure";
        gauges(encoder, ("wavegate_run_failures", help), failures)?;
        let now = self.clock.now();
        let gates = || {
            let open = runs.iter().filter(|(_, run)| !run.phase.has_ended());
            open.flat_map(|(set, run)| run.gates.iter().map(move |gate| (set, gate)))
        };
        let labels = |set: &ObjectKey, gate: &str| with(of(set), [("gate", gate.to_owned())]);
        let waiting = gates().filter_map(|(set, gate)| {
            let since = gate.waiting_since.as_ref().filter(|_| !gate.is_open())?;
            let waits = now.duration_since(since.0).as_secs_f64().max(0.0);
            Some((labels(set, &gate.name), waits))
        });
        let help = "How long only approvals have been missing for a gate";
        gauges(encoder, ("wavegate_gate_approval_waiting_seconds", help), waiting)?;
        let soaking = gates().filter_map(|(set, gate)| {
            let until = gate.soaks_until.as_ref().filter(|_| !gate.is_open())?;
            let left = until.0.duration_since(now).as_secs_f64().max(0.0);
            Some((labels(set, &gate.name), left))
        });
        let help = "The rest of the soak of a gate";
        gauges(encoder, ("wavegate_gate_soak_left_seconds", help), soaking)
    }

    /// The latest run of each ApplicationSet in allowed namespaces.
    fn latest_runs(&self) -> Vec<(ObjectKey, RolloutRunStatus)> {
        #[derive(Default, serde::Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        struct Spec {
            application_set: String,
        }
        #[derive(Default, serde::Deserialize)]
        #[serde(default)]
        struct Run {
            spec: Spec,
            status: RolloutRunStatus,
        }
        let Some(settings) = self.settings.get() else { return Vec::new() };
        let mut latest: BTreeMap<ObjectKey, (Option<u64>, RolloutRunStatus)> = BTreeMap::new();
        let is_allowed = |object: &StoredObject| settings.covers(object.namespace());
        for object in self.runs.all().into_iter().filter(is_allowed) {
            let run: Run = object.read().unwrap_or_default();
            let set = ObjectKey::new(object.namespace(), &run.spec.application_set);
            let number = number_of(object.name());
            let known = latest.entry(set).or_default();
            if known.0 <= number {
                *known = (number, run.status);
            }
        }
        // The series of an ApplicationSet vanish with it, before its runs are collected.
        let exists = |set: &ObjectKey| self.sets.get(set).is_some();
        let all = latest.into_iter().map(|(set, (_, status))| (set, status));
        all.filter(|(set, _)| exists(set)).collect()
    }
}
