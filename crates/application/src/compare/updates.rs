//! Which changes of live objects are compared (SE-178).
//!
//! Settings may say that some fields of an object change too often to compare their Application
//! each time. A rollout must never act on a health that is no longer true, so whatever the rules
//! ignore, these always count: the health of the object and its message, its deletion, its
//! owners, and the Application that it belongs to. Then the comparison uses the whole object as
//! it is, with all its fields.

use std::sync::Arc;

use serde_json::Value;

use crate::memory::digest_of;
use wavegate_api::annotations::{IGNORE_RESOURCE_UPDATES, annotation_of};
use wavegate_api::kind::KindRef;
use wavegate_engine::diff::{self, SystemSettings};
use wavegate_engine::health::Checks;

/// Metadata that changes with each write of an object and says nothing.
const VERSIONS: [&str; 3] = ["resourceVersion", "generation", "managedFields"];

/// The rules.
#[derive(Clone, Debug)]
pub struct Updates {
    settings: Arc<SystemSettings>,
    checks: Checks,
}

impl Updates {
    /// Those of the settings; `None` when every change counts.
    pub fn new(settings: &Arc<SystemSettings>, checks: &Checks) -> Option<Self> {
        let ignores = settings.ignores_updates && !settings.update_rules.is_empty();
        ignores.then(|| Self { settings: Arc::clone(settings), checks: checks.clone() })
    }

    /// A digest of what counts in an object of this tracking instance; `None` when all of it does:
    /// no rule is about it, one has an expression that only a worker could evaluate, a script that
    /// may use any field says its health, or it belongs to no Application and does not ask for it
    /// by annotation.
    pub fn digest(&self, object: &Value, instance: Option<&str>) -> Option<u64> {
        let asks = || annotation_of(object, IGNORE_RESOURCE_UPDATES) == Some("true");
        if self.settings.is_scripted(KindRef::of(object)) || (instance.is_none() && !asks()) {
            return None;
        }
        let mut rest = diff::without_ignored(&self.settings.update_rules, object)?;
        if let Some(metadata) = rest.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.retain(|field, _| !VERSIONS.contains(&field.as_str()));
        }
        let health = self.checks.of(object).map(|health| (health.status.as_str(), health.message));
        let kept = ["uid", "deletionTimestamp", "finalizers", "ownerReferences"];
        let kept = kept.map(|field| object.get("metadata")?.get(field));
        Some(digest_of(&(rest, health, kept, instance)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use wavegate_engine::diff::jq::{Evaluate, Found, Jq, Question};

    fn rules(pointers: Value) -> Updates {
        let mut settings = SystemSettings { ignores_updates: true, ..SystemSettings::default() };
        settings.add_ignored_updates("test", ("*", "*"), &json!({"jsonPointers": pointers}));
        assert_eq!(settings.problems, []);
        Updates::new(&Arc::new(settings), &Checks::default()).unwrap()
    }

    /// SE-178: whatever is ignored, health and deletion count.
    #[test]
    fn health_and_deletion_always_count_as_se_178() {
        let updates = rules(json!(["/status", "/metadata"]));
        let pod = |phase: &str, heartbeat: u64| {
            json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": "one", "uid": "u", "resourceVersion": heartbeat.to_string()},
                "spec": {"containers": []},
                "status": {"phase": phase, "heartbeat": heartbeat},
            })
        };
        let of = |object: &Value| updates.digest(object, Some("app")).unwrap();
        let before = of(&pod("Pending", 1));
        assert_eq!(of(&pod("Pending", 2)), before, "an ignored field");
        assert_ne!(of(&pod("Succeeded", 2)), before, "the health");
        let mut changed = pod("Pending", 2);
        changed["spec"]["nodeName"] = "a".into();
        assert_ne!(of(&changed), before, "a field that is not ignored");
        let mut deleted = pod("Pending", 2);
        deleted["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z".into();
        assert_ne!(of(&deleted), before, "the deletion");
        assert_ne!(updates.digest(&pod("Pending", 1), Some("other")), Some(before), "the owner");
    }

    /// Takes every text for an expression, and evaluates none.
    #[derive(Debug)]
    struct AcceptsAll;

    impl Evaluate for AcceptsAll {
        fn check(&self, _: &str, texts: &[&str]) -> Vec<Result<(), String>> {
            texts.iter().map(|_| Ok(())).collect()
        }

        fn paths(&self, _: &str, _: &[Question<'_>]) -> Vec<Vec<Found>> {
            unreachable!("an event of a watch does not wait for an evaluation")
        }
    }

    /// SE-178: paths with conditions are evaluated here; with another expression of a rule about
    /// the object, every change of it counts, and only of it.
    #[test]
    fn expressions_that_need_a_worker_ignore_nothing_as_se_178() {
        let jq = Jq::new(Arc::new(AcceptsAll));
        let mut settings =
            SystemSettings { jq, ignores_updates: true, ..SystemSettings::default() };
        let leader = ".metadata.annotations.\"control-plane.alpha.kubernetes.io/leader\"";
        // The last one fails for the object, and is skipped.
        let condition = ".subsets[]? | select(.name == \"x\") | .heartbeat";
        let paths = json!({"jqPathExpressions": [leader, condition, ".data.a.b"]});
        settings.add_ignored_updates("test", ("*", "*"), &paths);
        let other = json!({"jqPathExpressions": ["map(.data)"], "jsonPointers": ["/data"]});
        settings.add_ignored_updates("test", ("", "Secret"), &other);
        assert_eq!(settings.problems, []);
        let updates = Updates::new(&Arc::new(settings), &Checks::default()).unwrap();
        let object = |kind: &str, leader: &str| {
            json!({
                "apiVersion": "v1", "kind": kind, "data": {"a": "1"},
                "metadata": {"annotations": {"control-plane.alpha.kubernetes.io/leader": leader}},
            })
        };
        let of = |object: &Value| updates.digest(object, Some("app"));
        let before = of(&object("Endpoints", "a"));
        assert!(before.is_some());
        assert_eq!(of(&object("Endpoints", "b")), before, "the path");
        let beating = |name: &str, heartbeat: u32| {
            let mut object = object("Endpoints", "a");
            object["subsets"] = json!([{"name": name, "heartbeat": heartbeat}]);
            of(&object)
        };
        assert_eq!(beating("x", 1), beating("x", 2), "the condition holds");
        assert_ne!(beating("y", 1), beating("y", 2), "it does not");
        let mut changed = object("Endpoints", "b");
        changed["data"]["a"] = "2".into();
        assert_ne!(of(&changed), before, "another field");
        assert_eq!(of(&object("Secret", "a")), None, "a worker would have to evaluate it");
    }

    /// SE-178: untracked objects ask for it, and so does every change of a kind with a script.
    #[test]
    fn untracked_objects_are_filtered_when_they_ask_for_it_as_se_178() {
        let updates = rules(json!(["/data/beat"]));
        let mut map = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"beat": "1"}});
        assert_eq!(updates.digest(&map, None), None);
        map["metadata"]["annotations"][IGNORE_RESOURCE_UPDATES] = "false".into();
        assert_eq!(updates.digest(&map, None), None);
        map["metadata"]["annotations"][IGNORE_RESOURCE_UPDATES] = "true".into();
        let before = updates.digest(&map, None);
        assert!(before.is_some());
        map["data"]["beat"] = "2".into();
        assert_eq!(updates.digest(&map, None), before);
        map["data"]["value"] = "2".into();
        assert_ne!(updates.digest(&map, None), before);
        let scripts = vec![("".to_owned(), "Config*".to_owned())];
        let scripted = SystemSettings { scripted: scripts, ..(*updates.settings).clone() };
        let scripted = Updates::new(&Arc::new(scripted), &Checks::default()).unwrap();
        assert_eq!(scripted.digest(&map, None), None, "a script may use any field");
        let off = SystemSettings { ignores_updates: false, ..(*updates.settings).clone() };
        assert!(Updates::new(&Arc::new(off), &Checks::default()).is_none());
    }
}
