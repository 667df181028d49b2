//! In which order the Applications of a deleted set go.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::policy::Policy;
use super::{Delete, Patch, WritePlan, is_owned};
use crate::decide::rollout::steps::{Labels, Strategy};

/// What is to be done next.
#[derive(Clone, Debug, PartialEq)]
pub enum Stage {
    /// These writes.
    Act(WritePlan),
    /// Nothing but to wait for these Applications to go.
    Wait(Vec<String>),
    /// The set may go.
    Done,
}

/// Whether a set is deleted in reverse order: a RollingSync with steps that
/// asks for it (AS-380).
pub fn is_reverse(set: &Value) -> bool {
    let strategy = set["spec"].get("strategy");
    let order =
        strategy.and_then(|strategy| strategy["deletionOrder"].as_str()).unwrap_or_default();
    order.eq_ignore_ascii_case("reverse") && !Strategy::read(strategy).0.steps().is_empty()
}

/// Decides the next stage.
///
/// A policy that forbids deletion sets the Applications free first (AS-167).
/// In reverse order those in no step go first, then the last step and so on to
/// the first; each group at once, and the next only when it is gone (AS-381).
pub fn stage(
    set: &Value,
    existing: &BTreeMap<String, Arc<Value>>,
    policy: Policy,
    reverse: bool,
) -> Stage {
    let owned: Vec<(&String, &Arc<Value>)> =
        existing.iter().filter(|(_, live)| is_owned(live, set)).collect();
    if owned.is_empty() {
        return Stage::Done;
    }
    if is_orphaned(set) {
        // `kubectl delete --cascade=orphan`: garbage collection sets them free,
        // and they are to stay (AS-169).
        return Stage::Wait(owned.into_iter().map(|(name, _)| name.clone()).collect());
    }
    if !policy.deletes() {
        let patches = owned.into_iter().map(|(name, live)| release(set, name, live)).collect();
        return Stage::Act(WritePlan { patches, ..WritePlan::default() });
    }
    if !reverse {
        // Garbage collection removes them by their owner.
        return Stage::Done;
    }
    let (strategy, _) = Strategy::read(set["spec"].get("strategy"));
    let step_of = |live: &Value| {
        let labels = live["metadata"]["labels"].as_object().into_iter().flatten();
        let labels: Labels = labels
            .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
            .collect();
        strategy.steps().iter().position(|step| step.selects(&labels))
    };
    // No step sorts last, so that it comes first in reverse.
    let mut groups: BTreeMap<usize, Vec<(&String, &Arc<Value>)>> = BTreeMap::new();
    for (name, live) in owned {
        groups.entry(step_of(live).unwrap_or(usize::MAX)).or_default().push((name, live));
    }
    let Some((_, group)) = groups.pop_last() else { return Stage::Done };
    let deletes: Vec<Delete> = group
        .iter()
        .filter(|(_, live)| live["metadata"]["deletionTimestamp"].is_null())
        .map(|(name, live)| Delete {
            name: (*name).clone(),
            uid: live["metadata"]["uid"].as_str().unwrap_or_default().to_owned(),
        })
        .collect();
    if deletes.is_empty() {
        return Stage::Wait(group.into_iter().map(|(name, _)| name.clone()).collect());
    }
    Stage::Act(WritePlan { deletes, ..WritePlan::default() })
}

/// Whether whoever deleted the set asked to leave its Applications.
fn is_orphaned(set: &Value) -> bool {
    let finalizers = set["metadata"]["finalizers"].as_array();
    finalizers.is_some_and(|finalizers| finalizers.iter().any(|finalizer| finalizer == "orphan"))
}

/// Removes our owner reference and nobody else's.
fn release(set: &Value, name: &str, live: &Value) -> Patch {
    let owners = live["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
    let owners: Vec<Value> =
        owners.into_iter().filter(|owner| owner["uid"] != set["metadata"]["uid"]).collect();
    let version = live["metadata"]["resourceVersion"].clone();
    Patch {
        name: name.to_owned(),
        replaces: version.as_str().unwrap_or_default().to_owned(),
        body: json!({ "metadata": { "ownerReferences": owners, "resourceVersion": version } }),
        starts: false,
        changes_spec: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let stage = |apps: &[(String, Arc<Value>)]| {
            super::stage(&set, &apps.iter().cloned().collect(), Policy::Sync, true)
        };
        let (dev, prod, other) =
            (app("dev", "dev", false), app("prod", "prod", false), app("x", "none", false));
        assert_eq!(deleted(&stage(&[dev.clone(), prod.clone(), other])), ["x"]);
        assert_eq!(
            deleted(&stage(&[dev.clone(), prod.clone(), app("p2", "prod", true)])),
            ["prod"]
        );
        assert_eq!(stage(&[dev.clone(), app("p2", "prod", true)]), Stage::Wait(vec!["p2".into()]));
        assert_eq!(deleted(&stage(&[dev])), ["dev"]);
        assert_eq!(stage(&[]), Stage::Done);
    }

    #[test]
    fn orphans_are_left_alone_whatever_the_order_as_169() {
        let mut set = set("Reverse");
        set["metadata"]["finalizers"] = json!(["resources-finalizer.argocd.argoproj.io", "orphan"]);
        let apps: BTreeMap<_, _> = [app("dev", "dev", false)].into();
        let stage = |set: &Value| super::stage(set, &apps, Policy::Sync, true);
        assert_eq!(stage(&set), Stage::Wait(vec!["dev".into()]));
    }

    #[test]
    fn a_policy_without_deletion_sets_applications_free_as_167() {
        let set = set("AllAtOnce");
        assert!(!is_reverse(&set));
        let apps: BTreeMap<_, _> = [app("dev", "dev", false)].into();
        let Stage::Act(plan) = stage(&set, &apps, Policy::CreateOnly, false) else { panic!() };
        assert_eq!(plan.patches[0].body["metadata"]["ownerReferences"], json!([{"uid": "other"}]));
        assert_eq!(
            stage(&set, &apps, Policy::Sync, false),
            Stage::Done,
            "garbage collection does it"
        );
    }
}
