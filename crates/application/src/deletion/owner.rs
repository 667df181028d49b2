//! The owner of a live object, checked before it is deleted or replaced.
//!
//! A hook is deleted and recreated during a sync, and so is an object with
//! `Force`. Its manifest only contains a name, and a live object with that name
//! may be unrelated. So it is deleted only if it is identified as a hook of
//! this Application.

use serde_json::Value;

use wavegate_api::annotations::TRACKING_ID;
use wavegate_api::hooks::hook_role;
use wavegate_api::tracking::{Tracking, instance_of};
use wavegate_api::tracking::{TrackingId, TrackingMethod, from_instance_name, instance_label};
use wavegate_api::{Raw, ResourceKey};
use wavegate_engine::sync::{OPERATION_ANNOTATION, is_stamp_of};

/// The Application for which objects are deleted and replaced.
#[derive(Clone, Copy, Debug)]
pub struct DeletionOwner<'a> {
    /// How its resources are tracked.
    pub tracking: &'a Tracking,
    /// The default namespace of instance names.
    pub control_plane_namespace: &'a str,
    /// UID of the Application: the prefix of stamps on hooks.
    pub uid: &'a str,
}

impl DeletionOwner<'_> {
    /// Why a live object must neither be deleted nor replaced for a hook of the
    /// same name; `None` when it is a hook of this Application.
    ///
    /// A hook has a hook annotation. It belongs to this Application if it is
    /// tracked as such, with any tracking method (SE-118), or stamped by one of
    /// its operations. Hooks of Argo CD are tracked, too (SE-105).
    pub fn objection(&self, key: &ResourceKey, live: &Value) -> Option<String> {
        let is_hook = hook_role(live).is_hook();
        let because = match self.instance(live) {
            Some(instance) if instance != self.tracking.instance => {
                format!("is managed by Application {}", self.display(instance))
            }
            Some(_) if !self.tracking.owns(live) => {
                "is managed by an Application of another installation".to_owned()
            }
            Some(_) if !self.tracking.is_self_referenced(live, key) => {
                "carries the tracking id of another object".to_owned()
            }
            Some(_) if is_hook => return None,
            Some(_) => "is a resource of this Application, not a hook".to_owned(),
            None if is_hook && self.is_former(live) => return None,
            None => "is not managed by any Application".to_owned(),
        };
        let ResourceKey { kind, name, .. } = key;
        let at = match key.namespace.as_str() {
            "" => name.clone(),
            namespace => format!("{namespace}/{name}"),
        };
        Some(format!(
            "hook {kind} {at}: an object of this name {because}, and a hook does not delete or \
             replace it: give the hook another name, or delete the object"
        ))
    }

    /// The other Application that a live object belongs to, as
    /// `namespace/name`; `None` when it belongs to none or to this one.
    pub fn other(&self, live: &Value) -> Option<String> {
        let instance = self.instance(live)?;
        (instance != self.tracking.instance).then(|| self.display(instance))
    }

    fn instance<'v>(&self, live: &'v Value) -> Option<&'v str> {
        let Tracking { method, label, .. } = self.tracking;
        instance_of(*method, label, live).filter(|instance| !instance.is_empty())
    }

    /// Whether an object without the current tracking was created for this
    /// Application: it has our stamp, or is tracked by the other method.
    fn is_former(&self, live: &Value) -> bool {
        let stamp = live.annotation(OPERATION_ANNOTATION);
        if stamp.is_some_and(|stamp| is_stamp_of(stamp, self.uid)) {
            return true;
        }
        let instance = self.tracking.instance.as_str();
        match self.tracking.method {
            TrackingMethod::Label | TrackingMethod::Run => {
                let id = live.annotation(TRACKING_ID).and_then(TrackingId::parse);
                id.is_some_and(|id| id.instance == instance)
            }
            TrackingMethod::Annotation | TrackingMethod::AnnotationAndLabel => {
                let label = live.label(&self.tracking.label);
                label.is_some() && label == instance_label(instance).as_deref()
            }
        }
    }

    /// An instance as `namespace/name`.
    pub fn display(&self, instance: &str) -> String {
        let (namespace, name) = from_instance_name(instance, self.control_plane_namespace);
        format!("{namespace}/{name}")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::DeletionOwner;
    use wavegate_api::ResourceKey;
    use wavegate_api::tracking::{Tracking, TrackingMethod};

    /// A hook may be deleted that is tracked or stamped by this Application, and nothing else
    /// (SE-105, SE-118).
    #[test]
    fn only_hooks_of_this_application_may_be_replaced_se_118() {
        const HOOK: &str = "argocd.argoproj.io/hook";
        const TRACKING: &str = "argocd.argoproj.io/tracking-id";
        const LABEL: &str = "app.kubernetes.io/instance";
        let own = "app:/ConfigMap:web/a";
        let object = |annotations: Value, labels: Value| {
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a",
                "namespace": "web", "annotations": annotations, "labels": labels}})
        };
        let hook = |annotations: Value, labels: Value| {
            let mut object = object(annotations, labels);
            object["metadata"]["annotations"][HOOK] = "Sync".into();
            object
        };
        let by_label = || json!({LABEL: "app"});
        let (annotation, label) = (TrackingMethod::Annotation, TrackingMethod::Label);
        let none = || json!({});
        for (name, method, object, want) in [
            ("its hook", annotation, hook(json!({TRACKING: own}), none()), None),
            (
                "its resource",
                annotation,
                object(json!({TRACKING: own}), none()),
                Some("is a resource of this Application, not a hook"),
            ),
            (
                "a copy",
                annotation,
                hook(json!({TRACKING: "app:/ConfigMap:web/b"}), none()),
                Some("carries the tracking id of another object"),
            ),
            (
                "that of another",
                annotation,
                hook(json!({TRACKING: "other:/ConfigMap:web/a"}), none()),
                Some("is managed by Application argocd/other"),
            ),
            (
                "a hook of nobody",
                annotation,
                hook(none(), none()),
                Some("is not managed by any Application"),
            ),
            ("of the other method", annotation, hook(none(), by_label()), None),
            (
                "a resource of the other method",
                annotation,
                object(none(), by_label()),
                Some("is not managed by any Application"),
            ),
            (
                "of another, by the other method",
                annotation,
                hook(none(), json!({LABEL: "other"})),
                Some("is not managed by any Application"),
            ),
            ("by label", label, hook(none(), by_label()), None),
            ("by annotation before", label, hook(json!({TRACKING: own}), none()), None),
            (
                "of another by annotation before",
                label,
                hook(json!({TRACKING: "other:/ConfigMap:web/a"}), none()),
                Some("is not managed by any Application"),
            ),
        ] {
            let tracking = Tracking {
                method,
                label: LABEL.to_owned(),
                instance: "app".to_owned(),
                ..Tracking::default()
            };
            let owner =
                DeletionOwner { tracking: &tracking, control_plane_namespace: "argocd", uid: "u" };
            let key = ResourceKey::new("", "ConfigMap", "web", "a");
            let rest = ", and a hook does not delete or replace it: give the hook another name, \
                        or delete the object";
            let want =
                want.map(|why| format!("hook ConfigMap web/a: an object of this name {why}{rest}"));
            assert_eq!(owner.objection(&key, &object), want, "{name}");
            let is_of_other = want.is_some_and(|want| want.contains("argocd/other"));
            assert_eq!(owner.other(&object).is_some(), is_of_other, "{name}");
        }
    }
}
