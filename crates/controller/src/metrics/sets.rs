//! What ApplicationSets and queues show when the metrics are requested.

use std::collections::BTreeMap;
use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::encode::{gauges, value};
use super::kept::Kept;
use super::labels::{by_step, configured, of, with};
use wavegate_api::ObjectKey;
use wavegate_api::conditions::application_set as condition;
use wavegate_cluster::watch::object::StoredObject;
use wavegate_rollout::application_set::status::report_input;
use wavegate_rollout::application_set::status::stored::Status;

/// The fields of an ApplicationSet that metrics show.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Shown {
    metadata: ShownMetadata,
    status: ShownStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ShownMetadata {
    labels: Option<BTreeMap<String, Value>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ShownStatus {
    conditions: Option<Vec<Value>>,
    resources: Option<Vec<IgnoredAny>>,
    resources_count: Option<u64>,
    rollout: Value,
}

impl ShownStatus {
    /// The reason of the condition `ResourcesUpToDate`.
    fn update_status(&self) -> String {
        let conditions = self.conditions.as_deref().unwrap_or_default();
        let kind = condition::RESOURCES_UP_TO_DATE;
        let reason = conditions.iter().find(|condition| condition["type"] == kind);
        let reason = reason.and_then(|condition| condition["reason"].as_str());
        reason.unwrap_or("Unknown").to_owned()
    }

    /// Whether deletions wait for a person (ST-050).
    fn holds_deletions(&self) -> bool {
        let mut conditions = self.conditions.iter().flatten();
        let kind = condition::DELETIONS_HELD;
        conditions.any(|condition| condition["type"] == kind && condition["status"] == "True")
    }

    /// The number of Applications, also those that the list does not hold (W34).
    fn owned(&self) -> u64 {
        let listed = || self.resources.as_ref().map_or(0, |list| list.len() as u64);
        self.resources_count.unwrap_or_else(listed)
    }

    /// The open step and the number of steps; the step is 0 when all are complete.
    fn steps(&self) -> Option<(u64, u64)> {
        let summary = json!({ "conditions": self.conditions, "rollout": self.rollout });
        let status = Status::read(&summary);
        let rollout = status.rollout.as_ref()?;
        let steps = u64::try_from(rollout.steps).ok()?;
        let rollout = report_input::read_rollout(&status, rollout);
        let open = rollout.step.filter(|_| !rollout.is_complete);
        Some((open.map_or(0, |step| step as u64 + 1), steps))
    }
}

impl Collector for Kept {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let sets = self.shown();
        self.encode_sets(&sets, &mut encoder)?;
        self.encode_labels(&sets, &mut encoder)?;
        self.encode_rollouts(&sets, &mut encoder)?;
        self.encode_applications(&mut encoder)?;
        self.encode_clusters(&mut encoder)?;
        self.encode_git(&mut encoder)?;
        self.encode_runs(&mut encoder)?;
        self.encode_notifications(&mut encoder)?;
        self.encode_absent(&mut encoder)?;
        self.encode_leadership(&mut encoder)?;
        self.encode_queues(&mut encoder)
    }
}

impl Kept {
    /// The ApplicationSets in allowed namespaces (AS-601).
    fn shown(&self) -> Vec<(ObjectKey, Shown)> {
        let Some(settings) = self.settings.get() else { return Vec::new() };
        let is_allowed = |object: &StoredObject| settings.covers(object.namespace());
        // A field of another type hides the rest, and not the set.
        let read = |object: StoredObject| (object.key(), object.read().unwrap_or_default());
        self.sets.all().into_iter().filter(is_allowed).map(read).collect()
    }

    fn encode_sets(
        &self,
        sets: &[(ObjectKey, Shown)],
        encoder: &mut DescriptorEncoder<'_>,
    ) -> fmt::Result {
        let info = sets.iter().map(|(key, set)| {
            (with(of(key), [("resource_update_status", set.status.update_status())]), 1.0)
        });
        let help = "ApplicationSets and whether their Applications are up to date";
        gauges(encoder, ("argocd_appset_info", help), info)?;
        let owned = sets.iter().map(|(key, set)| (of(key), value(set.status.owned())));
        let help = "Applications of an ApplicationSet";
        gauges(encoder, ("argocd_appset_owned_applications", help), owned)?;
        let held = sets.iter().filter(|(_, set)| set.status.holds_deletions());
        let held = held.map(|(key, _)| (of(key), 1.0));
        let help = "ApplicationSets whose deletions wait for an approval or a generator";
        gauges(encoder, ("wavegate_deletions_held", help), held)
    }

    /// The configured labels (AS-602).
    fn encode_labels(
        &self,
        sets: &[(ObjectKey, Shown)],
        encoder: &mut DescriptorEncoder<'_>,
    ) -> fmt::Result {
        let keys = self.settings.get().map(|settings| &*settings.metrics_labels);
        let objects = sets.iter().map(|(key, set)| {
            let labels = set.metadata.labels.as_ref();
            (of(key), move |key: &str| labels.and_then(|labels| labels.get(key)?.as_str()))
        });
        let family = ("argocd_appset_labels", "Labels of an ApplicationSet");
        configured(encoder, family, keys.unwrap_or_default(), objects)
    }

    fn encode_rollouts(
        &self,
        sets: &[(ObjectKey, Shown)],
        encoder: &mut DescriptorEncoder<'_>,
    ) -> fmt::Result {
        let steps = || sets.iter().filter_map(|(key, set)| Some((of(key), set.status.steps()?)));
        let open = steps().map(|(labels, (step, _))| (labels, value(step)));
        let help = "The open step of a rollout, counted from 1; 0 when all are complete";
        gauges(encoder, ("argocd_appset_rollout_step", help), open)?;
        let all = steps().map(|(labels, (_, steps))| (labels, value(steps)));
        gauges(encoder, ("argocd_appset_rollout_steps", "Steps of a rollout"), all)?;

        let rollouts = self.rollouts.lock();
        let now = self.clock.now();
        let of_sets = || sets.iter().filter_map(|(key, _)| Some((key, rollouts.get(key)?)));
        // Our name, and that of Argo CD, with its label.
        for (family, label) in [
            ("argocd_appset_rollout_apps", "state"),
            ("argocd_appset_progressive_sync_app_status", "progressiveStatus"),
        ] {
            let applications = of_sets().flat_map(|(key, counts)| {
                by_step(counts).into_iter().map(move |((step, state), count)| {
                    (with(of(key), [("step", step), (label, state.to_owned())]), value(count))
                })
            });
            let help = "Applications of a rollout by step and state";
            gauges(encoder, (family, help), applications)?;
        }
        let waits = || {
            of_sets().flat_map(|(key, counts)| {
                counts.waits.iter().map(move |(kind, wait)| {
                    (with(of(key), [("reason", kind.name().to_owned())]), *wait)
                })
            })
        };
        let counts = waits().map(|(labels, wait)| (labels, value(wait.count)));
        let help = "Applications that the open step waits for";
        gauges(encoder, ("argocd_appset_rollout_waiting_apps", help), counts)?;
        let longest = waits().filter_map(|(labels, wait)| {
            Some((labels, now.duration_since(wait.since?).as_secs_f64().max(0.0)))
        });
        let help = "The longest of these waits";
        gauges(encoder, ("argocd_appset_rollout_waiting_seconds", help), longest)
    }
}
