//! `preserveResourcesOnDeletion` that is written together with what it protects (AS-160): nothing
//! is deleted before the finalizers for resources are gone. There is no application controller in
//! these tests: an Application that has one when it is deleted stays for ever.

use super::*;
use kube_sim::{Effect, InjectedFault};
use wavegate_api::annotations::{RESOURCES_FINALIZER, finalizers_of};

const BACKGROUND: &str = "resources-finalizer.argocd.argoproj.io/background";

fn keep() -> Value {
    json!({"preserveResourcesOnDeletion": true})
}

/// A change of the set to these Applications that keeps resources from now on.
fn keeping(names: &[&str]) -> Value {
    let elements: Vec<Value> = names.iter().map(|name| json!({"n": name})).collect();
    json!({"spec": {"generators": [{"list": {"elements": elements}}], "syncPolicy": keep()}})
}

async fn deployed(names: &[&str], finalizers: Value, strategy: Value) -> ClusterState {
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    let mut spec = set(strategy);
    spec["generators"] = keeping(names)["spec"]["generators"].clone();
    spec["template"]["metadata"]["finalizers"] = finalizers;
    world.create("ApplicationSet", "set", spec).await;
    for name in names {
        world.until("Application", name, |live| finalizers_of(live).count() > 0).await;
    }
    world
}

impl ClusterState {
    /// The index of the first such request of the controller.
    fn first(&self, verb: &str, plural: &str) -> Option<usize> {
        self.server.requests().iter().position(|request| {
            (request.client.as_str(), request.verb.as_str(), request.resource.as_str())
                == ("sets", verb, plural)
        })
    }
}

#[tokio::test]
async fn an_element_that_goes_in_the_same_change_leaves_its_resources_as_160() {
    for finalizer in [RESOURCES_FINALIZER, BACKGROUND] {
        let world = deployed(&["a", "b"], json!([finalizer]), Value::Null).await;
        let mut change = keeping(&["a"]);
        change["spec"]["template"] = json!({"metadata": {"finalizers": null}});
        world.patch("ApplicationSet", "set", change).await;
        world.until_gone("Application", "b").await;
        let note = world.until_note("Updated", |note| note.contains("Application b")).await;
        assert!(note.contains("preserveResourcesOnDeletion"), "{note}");
        world.until("Application", "a", |live| finalizers_of(live).count() == 0).await;
    }
}

/// What the template lists is meant, also what it lists for the resources.
#[tokio::test]
async fn a_finalizer_of_the_template_stays_as_160() {
    for listed in ["example.com/hold", BACKGROUND] {
        let world = deployed(&["a", "b"], json!([listed]), Value::Null).await;
        world.patch("ApplicationSet", "set", keeping(&["a"])).await;
        let live = world.until("Application", "b", is_going).await;
        assert_eq!(live["metadata"]["finalizers"], json!([listed]));
    }
}

/// The first thing that the controller does about it keeps the set until its Applications are
/// released.
#[tokio::test]
async fn a_set_that_is_deleted_right_after_leaves_the_resources_as_160_as_168() {
    let ways = [DeleteParams::background(), DeleteParams::foreground()];
    for (way, refused) in ways.iter().flat_map(|way| [(way, 0), (way, 3)]) {
        let mut world = deployed(&["a", "b"], Value::Null, Value::Null).await;
        let has_finalizer = |set: &Value| finalizers_of(set).any(|one| one == RESOURCES_FINALIZER);
        // The release of Applications fails at first.
        let releases = |request: &RequestRecord| {
            (request.client.as_str(), request.verb.as_str(), request.resource.as_str())
                == ("sets", "patch", "applications")
        };
        world.server.inject(InjectedFault::new(Effect::Status(500), releases).times(refused));
        world.patch("ApplicationSet", "set", keeping(&["a", "b"])).await;
        world.until("ApplicationSet", "set", has_finalizer).await;
        world.api("ApplicationSet").delete("set", way).await.unwrap();
        if refused > 0 {
            world.restart(ApplicationSetSettings::default());
        }
        for name in ["a", "b"] {
            world.until_gone("Application", name).await;
        }
        world.until_gone("ApplicationSet", "set").await;
        let kept = world.first("patch", "applicationsets").unwrap();
        assert!(kept < world.first("patch", "applications").unwrap(), "the set is held first");
    }
}

/// The controller sees the change and the deletion at once.
#[tokio::test]
async fn a_set_with_a_finalizer_that_is_deleted_while_no_controller_runs_as_160_as_381() {
    let mut reverse = rolling();
    reverse["deletionOrder"] = "Reverse".into();
    for strategy in [reverse, Value::Null] {
        let mut world = deployed(&["a", "b"], Value::Null, strategy).await;
        let held = json!({"metadata": {"finalizers": [RESOURCES_FINALIZER]}});
        world.patch("ApplicationSet", "set", held).await;
        world.calm("sets").await;
        world.stop();
        world.patch("ApplicationSet", "set", keeping(&["a"])).await;
        world.delete("ApplicationSet", "set").await;
        world.restart(progressive(Default::default()));
        for name in ["a", "b"] {
            world.until_gone("Application", name).await;
        }
        world.until_gone("ApplicationSet", "set").await;
        let sent = world.sent("delete", "applications");
        let released = world.first("patch", "applications").unwrap();
        let deleted = world.first("delete", "applications");
        assert!(deleted.is_none_or(|deleted| released < deleted), "{sent:?}");
    }
}
