//! What is reported of policies (ST-001, ST-013): which sets each selects, and what is wrong with
//! it. Each set contributes what it knows; the status is written when that changes.

use std::collections::BTreeMap;

use jiff::Timestamp;
use parking_lot::Mutex;

use super::in_flight;
use crate::context::Core;
use wavegate_api::application_set::ApplicationSetCondition;
use wavegate_api::policy::PolicyStatus;
use wavegate_api::time::stored_time;
use wavegate_api::{ObjectKey, Time};
use wavegate_cluster::act::control_plane::rollout_policy::{self, Written};
use wavegate_cluster::act::notify::Problems;
use wavegate_cluster::watch::failure::error_reason;
use wavegate_cluster::watch::object::StoredObject;
use wavegate_engine::names::some_of;
use wavegate_rollout::rollout::policy::Rules;
use wavegate_rollout::rollout::policy_limits::limit_texts;

/// The most names of sets in a status.
const NAMED: usize = 50;
/// The most names of sets in a message that have the same.
const FEW: usize = 3;
/// The most characters of a message.
const MESSAGE: usize = 1000;

/// What sets know about policies.
#[derive(Debug, Default)]
pub struct Reports {
    policies: Mutex<BTreeMap<ObjectKey, Report>>,
    /// What is known of sinks: also of policies that no set has reported yet.
    sinks: Mutex<Problems>,
}

/// UID and `metadata.generation` of a policy.
pub type Version = (String, Option<i64>);

/// What is known about a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Report {
    /// The problems, and what several policies amount to, by selected set.
    sets: BTreeMap<String, (Vec<String>, String)>,
    /// What is wrong with its sinks, by index.
    sinks: BTreeMap<usize, String>,
    /// Whether it has sinks that are checked.
    has_sinks: bool,
    /// What a set has read of it.
    version: Version,
    has_changed: bool,
}

impl Reports {
    /// Records what a set knows, and which policies of its namespace it has read: one that selects
    /// no set is reported, too.
    pub fn report(
        &self,
        namespace: &str,
        set: &str,
        rules: &Rules,
        read: &BTreeMap<String, Version>,
    ) {
        let mut reports = self.policies.lock();
        reports.retain(|key, _| key.namespace != namespace || read.contains_key(&key.name));
        for (policy, version) in read {
            let report = reports.entry(ObjectKey::new(namespace, policy)).or_default();
            report.has_changed |= report.version != *version;
            report.version.clone_from(version);
        }
        Self::record(&mut reports, namespace, set, rules);
        Self::add_sinks(&mut reports, &self.sinks.lock());
    }

    /// Adds what is wrong with sinks to the reports of their policies.
    fn add_sinks(reports: &mut BTreeMap<ObjectKey, Report>, problems: &Problems) {
        for (policy, report) in reports.iter_mut() {
            let found = problems.found.get(policy).cloned().unwrap_or_default();
            report.has_changed |= found != report.sinks;
            report.sinks = found;
        }
    }

    fn record(
        reports: &mut BTreeMap<ObjectKey, Report>,
        namespace: &str,
        set: &str,
        rules: &Rules,
    ) {
        for (key, report) in reports.iter_mut().filter(|(key, _)| key.namespace == namespace) {
            let is_selected = rules.policies.contains(&key.name);
            if !is_selected && report.sets.remove(set).is_some() {
                report.has_changed = true;
            }
        }
        let effect = effect(rules);
        for policy in &rules.policies {
            let of_policy = rules.problems.iter().filter(|problem| problem.policy == *policy);
            let problems = of_policy.map(ToString::to_string).collect();
            let report = reports.entry(ObjectKey::new(namespace, policy)).or_default();
            report.has_sinks = rules.sinks.iter().any(|sink| sink.policy == *policy);
            let known = report.sets.insert(set.to_owned(), (problems, effect.clone()));
            report.has_changed |= known.as_ref() != report.sets.get(set);
        }
    }

    /// Records what is wrong with sinks.
    pub fn of_sinks(&self, problems: &Problems) {
        let mut reports = self.policies.lock();
        self.sinks.lock().clone_from(problems);
        Self::add_sinks(&mut reports, problems);
    }

    /// Whether the sinks of a policy, if it has any, were checked since the start.
    fn is_checked(&self, policy: &ObjectKey, report: &Report) -> bool {
        !report.has_sinks || self.sinks.lock().checked.contains(policy)
    }

    /// Whether there is something to write.
    pub fn has_changed(&self) -> bool {
        self.policies.lock().values().any(|report| report.has_changed)
    }

    /// Forgets a deleted set.
    pub fn forget(&self, set: &ObjectKey) {
        let mut reports = self.policies.lock();
        Self::record(&mut reports, &set.namespace, &set.name, &Rules::default());
    }

    /// The status of a policy could not be written.
    fn again(&self, policy: &ObjectKey) {
        if let Some(report) = self.policies.lock().get_mut(policy) {
            report.has_changed = true;
        }
    }

    fn changed(&self) -> Vec<(ObjectKey, Report)> {
        let mut reports = self.policies.lock();
        let changed = reports.iter_mut().filter(|(_, report)| report.has_changed);
        changed
            .map(|(key, report)| {
                report.has_changed = false;
                (key.clone(), report.clone())
            })
            .collect()
    }
}

/// What several policies amount to for a set; empty for one.
fn effect(rules: &Rules) -> String {
    if rules.policies.len() < 2 {
        return String::new();
    }
    let mut parts = vec![format!("{} together", rules.policies.join(", "))];
    if !rules.gates.is_empty() {
        let names: Vec<&str> = rules.gates.iter().map(|gate| gate.name.as_str()).collect();
        parts.push(format!("gates {}", names.join(", ")));
    }
    parts.extend(limit_texts(rules));
    parts.join("; ")
}

/// What it amounts to with others, for each of its sets; with their names, if it has several.
fn effects(report: &Report) -> String {
    let mut sets: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (set, (_, effect)) in report.sets.iter().filter(|(_, (_, effect))| !effect.is_empty()) {
        sets.entry(effect).or_default().push(set);
    }
    let text = |(effect, names): (&str, Vec<&str>)| match report.sets.len() {
        1 => effect.to_owned(),
        _ => format!("{}: {effect}", some_of(names, FEW)),
    };
    sets.into_iter().map(text).collect::<Vec<_>>().join(". ")
}

/// Writes the status of the policies whose report has changed. A failure is tried again with the
/// next change: nothing depends on it.
pub async fn write_policies(core: &Core, reports: &Reports, now: Timestamp) {
    for (key, report) in reports.changed() {
        let cache = &*core.control_plane.policies;
        let Some(policy) = cache.get(&key) else { continue };
        if report.sets.is_empty() && is_selected_by_any(core, &policy) {
            // That set is about to report it.
            continue;
        }
        let known: PolicyStatus = serde_json::from_value(policy.status()).unwrap_or_default();
        let generation = policy.generation().unwrap_or_default();
        let says_so =
            known.conditions.iter().any(|one| one.type_ == "Valid" && one.status == "False");
        if says_so && known.observed_generation == generation && !reports.is_checked(&key, &report)
        {
            // What was wrong with a sink before a restart is about to be found again.
            reports.again(&key);
            continue;
        }
        let status = status(&report, policy.generation(), &known, now);
        let client = &core.client;
        let error = match rollout_policy::write_status(client, cache, &policy, &status).await {
            Ok(Written::Done(_) | Written::Unchanged) => continue,
            Ok(Written::Refused(reason)) => reason,
            Ok(Written::Outdated | Written::Absent | Written::Taken) => "it has changed".to_owned(),
            Err(error) => error_reason(&error),
        };
        tracing::warn!(policy = %key, error, "cannot write the status of the RolloutPolicy");
        reports.again(&key);
    }
}

/// Whether a policy selects a set of its namespace.
fn is_selected_by_any(core: &Core, policy: &StoredObject) -> bool {
    let sets = &core.control_plane.sets;
    let mut keys = sets.keys().into_iter().filter(|key| key.namespace == policy.key().namespace);
    keys.any(|key| sets.get(&key).is_some_and(|set| in_flight::selects(policy, &set)))
}

fn status(
    report: &Report,
    generation: Option<i64>,
    known: &PolicyStatus,
    now: Timestamp,
) -> PolicyStatus {
    let mut problems: Vec<String> = Vec::new();
    for (set, (found, _)) in &report.sets {
        problems.extend(found.iter().map(|problem| format!("{set}: {problem}")));
    }
    let of_sinks = report.sinks.iter();
    problems.extend(of_sinks.map(|(index, problem)| format!("notify[{index}]: {problem}")));
    let effects = effects(report);
    let condition = |type_: &str, status: bool, reason: &str, message: String| {
        let status = if status { "True" } else { "False" };
        let message: String = message.chars().take(MESSAGE).collect();
        let last = known.conditions.iter().find(|one| one.type_ == type_);
        let same = last.filter(|last| last.status == status);
        let since = same.and_then(|same| same.last_transition_time.clone());
        ApplicationSetCondition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message,
            last_transition_time: since.or(Some(Time(stored_time(now)))),
            extra: last.map(|last| last.extra.clone()).unwrap_or_default(),
        }
    };
    let valid = match problems.is_empty() {
        true if report.sets.is_empty() => {
            let message =
                "it selects no ApplicationSet of its namespace: nothing is held or limited";
            condition("Valid", true, "SelectsNone", message.to_owned())
        }
        true => condition("Valid", true, "Valid", "nothing is wrong with it".to_owned()),
        false => condition("Valid", false, "Problems", problems.join("; ")),
    };
    let mut conditions = vec![valid];
    if !effects.is_empty() {
        conditions.insert(0, condition("Effective", true, "Combined", effects));
    }
    PolicyStatus {
        observed_generation: generation.unwrap_or_default(),
        application_sets: report.sets.keys().take(NAMED).cloned().collect(),
        selected: i64::try_from(report.sets.len()).unwrap_or(i64::MAX),
        conditions,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wavegate_rollout::rollout::policy::Policy;

    /// What was found before a set has reported the policy was forgotten: after a restart, nothing
    /// said any more that an address is refused.
    #[test]
    fn what_is_wrong_with_a_sink_is_known_before_its_policy_is_reported() {
        let (key, reports) = (ObjectKey::new("argocd", "careful"), Reports::default());
        let rules = |notify: serde_json::Value| {
            let spec = serde_json::json!({ "notify": notify });
            let spec = Ok(serde_json::from_value(spec).unwrap());
            let policy = Policy { name: "careful".to_owned(), spec };
            Rules::of(&[policy], "shop", &BTreeMap::new(), &[], 1)
        };
        let sinks = serde_json::json!([{"url": "https://hook.invalid/"}]);
        let read = BTreeMap::from([("careful".to_owned(), Version::default())]);
        let of = |problem: &str, is_checked: bool| Problems {
            found: BTreeMap::from([(key.clone(), BTreeMap::from([(0, problem.to_owned())]))]),
            checked: is_checked.then(|| key.clone()).into_iter().collect(),
        };
        reports.of_sinks(&of("it is refused", false));
        reports.report("argocd", "shop", &rules(sinks), &read);
        let said = |reports: &Reports| {
            let (key, report) = reports.changed().remove(0);
            let problems =
                status(&report, Some(1), &PolicyStatus::default(), Timestamp::UNIX_EPOCH);
            (problems.conditions[0].message.clone(), reports.is_checked(&key, &report))
        };
        assert_eq!(said(&reports), ("notify[0]: it is refused".to_owned(), false));
        reports.of_sinks(&of("it is refused still", true));
        assert_eq!(said(&reports), ("notify[0]: it is refused still".to_owned(), true));
        reports.of_sinks(&Problems { checked: [key.clone()].into(), ..Problems::default() });
        assert_eq!(said(&reports).0, "nothing is wrong with it");
        // Without sinks, nothing is waited for.
        let none = Reports::default();
        none.report("argocd", "shop", &rules(serde_json::json!([])), &read);
        assert!(said(&none).1);
    }
}
