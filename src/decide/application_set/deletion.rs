//! The order in which the Applications of a deleted set are deleted.

use serde_json::{Value, json};

use super::generated::labels_of;
use super::policy::Policy;
use super::{Delete, Identity, Patch, WritePlan};
use crate::decide::rollout::steps::Strategy;

/// The next step of a deletion.
#[derive(Clone, Debug, PartialEq)]
pub enum Stage {
    /// Apply these writes.
    Act(WritePlan),
    /// Wait until these Applications are deleted.
    Wait(Vec<String>),
    /// Remove the finalizer of the set.
    Done,
}

/// An Application that is deleted with its set, or orphaned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaving {
    name: String,
    uid: String,
    is_going: bool,
    /// The step selected by its live labels.
    step: Option<usize>,
    /// The merge patch that removes our owner reference only.
    release: String,
}

impl Leaving {
    /// From an Application that the set controls.
    pub fn read(live: &Value, set: &Identity, strategy: &Strategy) -> Self {
        let metadata = &live["metadata"];
        let text = |field: &str| metadata[field].as_str().unwrap_or_default().to_owned();
        let owners = metadata["ownerReferences"].as_array().cloned().unwrap_or_default();
        let others = owners.into_iter().filter(|owner| owner["uid"] != *set.uid);
        let others: Vec<Value> = others.collect();
        let version = &metadata["resourceVersion"];
        let release =
            json!({ "metadata": { "ownerReferences": others, "resourceVersion": version } });
        let labels = labels_of(live);
        Self {
            name: text("name"),
            uid: text("uid"),
            is_going: !metadata["deletionTimestamp"].is_null(),
            step: strategy.steps().iter().position(|step| step.selects(&labels)),
            release: release.to_string(),
        }
    }
}

/// Whether a set is deleted in reverse order: a RollingSync with steps that
/// requests it (AS-380).
pub fn is_reverse(set: &Value) -> bool {
    let strategy = set["spec"].get("strategy");
    let order =
        strategy.and_then(|strategy| strategy["deletionOrder"].as_str()).unwrap_or_default();
    order.eq_ignore_ascii_case("reverse") && !Strategy::read(strategy).0.steps().is_empty()
}

/// Decides the next step of the deletion of a set with these finalizers and
/// controlled Applications.
///
/// If the policy forbids deletion, the Applications are orphaned first
/// (AS-167). In reverse order, Applications without a step are deleted first,
/// then those of the last step, down to the first; each group at once, when the
/// previous one is gone (AS-381).
pub fn stage(finalizers: &[String], owned: &[Leaving], policy: Policy, reverse: bool) -> Stage {
    if owned.is_empty() {
        return Stage::Done;
    }
    let names = |group: &[&Leaving]| group.iter().map(|one| one.name.clone()).collect();
    let all: Vec<&Leaving> = owned.iter().collect();
    if finalizers.iter().any(|finalizer| finalizer == "orphan") {
        // `kubectl delete --cascade=orphan`: garbage collection orphans the
        // Applications, so they are kept (AS-169).
        return Stage::Wait(names(&all));
    }
    if !policy.deletes() {
        let patches = owned.iter().map(|one| Patch {
            name: one.name.clone(),
            json: one.release.clone(),
            starts: false,
            changes_spec: true,
            only_records: false,
        });
        return Stage::Act(WritePlan { patches: patches.collect(), ..WritePlan::default() });
    }
    if !reverse {
        // Garbage collection deletes them by their owner reference.
        return Stage::Done;
    }
    // `None` sorts last, so that it is first in reverse.
    let place = |one: &&Leaving| one.step.unwrap_or(usize::MAX);
    let last = all.iter().map(place).max();
    let group: Vec<&Leaving> = all.into_iter().filter(|one| Some(place(one)) == last).collect();
    let deletes: Vec<Delete> = group
        .iter()
        .filter(|one| !one.is_going)
        .map(|one| Delete { name: one.name.clone(), uid: one.uid.clone() })
        .collect();
    if deletes.is_empty() {
        return Stage::Wait(names(&group));
    }
    Stage::Act(WritePlan { deletes, ..WritePlan::default() })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use super::*;

    /// From a raw set and raw Applications.
    fn stage(
        set: &Value,
        existing: &BTreeMap<String, Arc<Value>>,
        policy: Policy,
        reverse: bool,
    ) -> Stage {
        let (strategy, _) = Strategy::read(set["spec"].get("strategy"));
        let set_id = Identity::of(set);
        let read = |live: &Arc<Value>| Leaving::read(live, &set_id, &strategy);
        let owned: Vec<Leaving> = existing.values().map(read).collect();
        let finalizers = crate::api::annotations::finalizers(set).map(str::to_owned);
        super::stage(&finalizers.collect::<Vec<_>>(), &owned, policy, reverse)
    }

    fn set(order: &str) -> Value {
        let step = |value: &str| json!({"matchExpressions": [{"key": "env", "operator": "In", "values": [value]}]});
        json!({
            "metadata": {"uid": "u", "name": "set"},
            "spec": {"strategy": {
                "type": "RollingSync", "deletionOrder": order,
                "rollingSync": {"steps": [step("dev"), step("prod")]},
            }},
        })
    }

    fn app(name: &str, env: &str, terminating: bool) -> (String, Arc<Value>) {
        let mut app = json!({"metadata": {
            "name": name, "uid": format!("uid-{name}"), "resourceVersion": "1", "labels": {"env": env},
            "ownerReferences": [
                {"uid": "other"},
                {"apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet", "name": "set", "uid": "u", "controller": true},
            ],
        }});
        if terminating {
            app["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        }
        (name.to_owned(), Arc::new(app))
    }

    fn deleted(stage: &Stage) -> Vec<&str> {
        match stage {
            Stage::Act(plan) => plan.deletes.iter().map(|delete| delete.name.as_str()).collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn steps_go_from_the_last_to_the_first_as_381_as_382() {
        let set = set("reverse");
        assert!(is_reverse(&set));
        let stage_of = |apps: &[(String, Arc<Value>)]| {
            stage(&set, &apps.iter().cloned().collect(), Policy::Sync, true)
        };
        let (dev, prod, other) =
            (app("dev", "dev", false), app("prod", "prod", false), app("x", "none", false));
        assert_eq!(deleted(&stage_of(&[dev.clone(), prod.clone(), other])), ["x"]);
        assert_eq!(
            deleted(&stage_of(&[dev.clone(), prod.clone(), app("p2", "prod", true)])),
            ["prod"]
        );
        assert_eq!(
            stage_of(&[dev.clone(), app("p2", "prod", true)]),
            Stage::Wait(vec!["p2".into()])
        );
        assert_eq!(deleted(&stage_of(&[dev])), ["dev"]);
        assert_eq!(stage_of(&[]), Stage::Done);
    }

    #[test]
    fn orphans_are_left_alone_whatever_the_order_as_169() {
        let mut set = set("Reverse");
        set["metadata"]["finalizers"] = json!(["resources-finalizer.argocd.argoproj.io", "orphan"]);
        let apps: BTreeMap<_, _> = [app("dev", "dev", false)].into();
        let stage = |set: &Value| super::tests::stage(set, &apps, Policy::Sync, true);
        assert_eq!(stage(&set), Stage::Wait(vec!["dev".into()]));
    }

    #[test]
    fn a_policy_without_deletion_sets_applications_free_as_167() {
        let set = set("AllAtOnce");
        assert!(!is_reverse(&set));
        let apps: BTreeMap<_, _> = [app("dev", "dev", false)].into();
        let Stage::Act(plan) = stage(&set, &apps, Policy::CreateOnly, false) else { panic!() };
        assert_eq!(
            plan.patches[0].body()["metadata"]["ownerReferences"],
            json!([{"uid": "other"}])
        );
        assert_eq!(
            stage(&set, &apps, Policy::Sync, false),
            Stage::Done,
            "garbage collection does it"
        );
    }
}
