//! Hooks that keep their finalizer although no operation will remove it: that of a sync which ended
//! before its plan was made, or whose Application is gone.

use std::sync::Arc;

use serde_json::Value;

use crate::app::App;
use crate::deletion::asked_at;
use crate::observation::{Live, Observation};
use crate::operation::{self, OperationStage, operation_stage};
use crate::owner::DeletionOwner;
use wavegate_api::annotations::{annotation_of, is_held_as_hook};
use wavegate_api::{Raw, ResourceKey};
use wavegate_engine::sync::{OPERATION_ANNOTATION, is_stamp_of};

/// A hook that is released.
pub type Hook = (ResourceKey, Arc<Value>);

/// The hooks of an Application without a running operation that are being deleted: the next sync
/// would remove their finalizer. Others keep it, since that sync may still need their result.
pub fn of_idle(app: &App, observation: &Observation<'_>) -> Vec<Hook> {
    if operation_stage(app) != OperationStage::Idle || asked_at(app.raw()).is_some() {
        return Vec::new();
    }
    let uid = operation::uid_of(app.raw());
    let (owner, permits) = (observation.owner(&uid), observation.access.permits());
    let is_left = |(key, live): &(&ResourceKey, &Arc<Value>)| {
        live.is_deleting()
            && permits.denial(key, live).is_none()
            && owner.objection(key, live).is_none()
    };
    held(observation.live).filter(is_left).map(cloned).collect()
}

/// The hooks of an Application that is gone, and had no finalizer that would have waited for them.
/// One of the same name may have been created since, so only those with a stamp of the former one
/// are its own.
pub fn of_gone(live: &Live, owner: &DeletionOwner<'_>) -> Vec<Hook> {
    let is_own = |(key, live): &(&ResourceKey, &Arc<Value>)| {
        let stamp = annotation_of(live, OPERATION_ANNOTATION);
        stamp.is_some_and(|stamp| is_stamp_of(stamp, owner.uid))
            && owner.objection(key, live).is_none()
    };
    held(live).filter(is_own).map(cloned).collect()
}

fn held(live: &Live) -> impl Iterator<Item = (&ResourceKey, &Arc<Value>)> {
    live.iter().filter(|(_, live)| is_held_as_hook(live))
}

fn cloned((key, live): (&ResourceKey, &Arc<Value>)) -> Hook {
    (key.clone(), Arc::clone(live))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use wavegate_api::annotations::{HOOK, HOOK_FINALIZER, TRACKING_ID};
    use wavegate_api::tracking::Tracking;

    #[test]
    fn only_hooks_with_a_stamp_of_the_application_that_is_gone_are_released() {
        let hook = |name: &str, instance: &str, stamp: Value, finalizer: &str| {
            let id = format!("{instance}:/ConfigMap:web/{name}");
            let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {
                "name": name, "namespace": "web", "finalizers": [finalizer],
                "annotations": {HOOK: "PreSync", TRACKING_ID: id, OPERATION_ANNOTATION: stamp}}});
            (ResourceKey::new("", "ConfigMap", "web", name), Arc::new(object))
        };
        let resource = {
            let (key, mut object) = hook("resource", "app", json!("uid.1"), HOOK_FINALIZER);
            Arc::make_mut(&mut object)["metadata"]["annotations"][HOOK] = Value::Null;
            (key, object)
        };
        let live = Live::from([
            hook("own", "app", json!("uid.1"), HOOK_FINALIZER),
            hook("of-successor", "app", json!("uid2.1"), HOOK_FINALIZER),
            hook("of-another", "other", json!("uid.1"), HOOK_FINALIZER),
            hook("without-stamp", "app", Value::Null, HOOK_FINALIZER),
            hook("held-by-others", "app", json!("uid.1"), "example.com/hold"),
            resource,
        ]);
        let tracking = Tracking { instance: "app".to_owned(), ..Tracking::default() };
        let released = |uid| {
            let owner =
                DeletionOwner { tracking: &tracking, control_plane_namespace: "argocd", uid };
            of_gone(&live, &owner).into_iter().map(|(key, _)| key.name).collect::<Vec<_>>()
        };
        assert_eq!(released("uid"), ["own"]);
        assert!(released("").is_empty());
    }
}
