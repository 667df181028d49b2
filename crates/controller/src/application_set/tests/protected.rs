//! A policy that forbids deletion also protects the Applications when the set is deleted
//! (AS-150, AS-167, AS-169), regardless of who deletes it and whether the controller runs.

use super::*;
use kube_sim::{Effect, InjectedFault};
use wavegate_api::annotations::{RESOURCES_FINALIZER, finalizers_of};
use wavegate_rollout::application_set::generate::policy::Policy;

const NAMES: [&str; 2] = ["a", "b"];

fn with_policy(policy: Option<&str>) -> Value {
    let mut spec = set(json!({"type": "AllAtOnce"}));
    spec["generators"] = json!([{"list": {"elements": NAMES.map(|name| json!({"n": name}))}}]);
    if let Some(policy) = policy {
        spec["syncPolicy"] = json!({"applicationsSync": policy});
    }
    spec
}

/// Whether the Namespace is one of its owners.
fn is_protected(live: &Value) -> bool {
    let owners = live["metadata"]["ownerReferences"].as_array();
    owners.is_some_and(|owners| owners.iter().any(|owner| owner["kind"] == "Namespace"))
}

fn has_finalizer(set: &Value) -> bool {
    finalizers_of(set).any(|one| one == RESOURCES_FINALIZER)
}

impl ClusterState {
    async fn delete_with(&self, params: &DeleteParams) {
        self.api("ApplicationSet").delete("set", params).await.unwrap();
    }

    async fn until_protected(&self) {
        for name in NAMES {
            self.until("Application", name, is_protected).await;
        }
        self.until("ApplicationSet", "set", has_finalizer).await;
    }

    /// The set goes, and its Applications stay, without an owner.
    async fn stays_when_gone(&self, case: &str) {
        self.until_gone("ApplicationSet", "set").await;
        for name in NAMES {
            let free = |live: &Value| live["metadata"]["ownerReferences"].is_null();
            let is_free =
                |live: &Value| free(live) || live["metadata"]["ownerReferences"] == json!([]);
            let live = self.until("Application", name, is_free).await;
            assert!(!is_going(&live), "{case}: {name}");
        }
    }
}

fn ways() -> [(&'static str, DeleteParams); 3] {
    [
        ("background", DeleteParams::background()),
        ("foreground", DeleteParams::foreground()),
        ("orphan", DeleteParams::orphan()),
    ]
}

#[tokio::test]
async fn applications_stay_when_their_set_is_deleted_in_any_way_as_167() {
    for policy in ["create-only", "create-update"] {
        for (way, params) in ways() {
            let world = ClusterState::start(ApplicationSetSettings::default()).await;
            world.create("ApplicationSet", "set", with_policy(Some(policy))).await;
            for name in NAMES {
                world.until("Application", name, |_| true).await;
            }
            // At once: an Application is protected from its creation on.
            world.delete_with(&params).await;
            world.stays_when_gone(&format!("{policy}, {way}")).await;
        }
    }
}

#[tokio::test]
async fn applications_stay_when_no_controller_runs_as_167() {
    for (way, params) in ways() {
        let mut world = ClusterState::start(ApplicationSetSettings::default()).await;
        world.create("ApplicationSet", "set", with_policy(Some("create-update"))).await;
        world.until_protected().await;
        world.stop();
        world.calm("sets").await;
        world.delete_with(&params).await;
        for name in NAMES {
            let live = world.until("Application", name, |_| true).await;
            assert!(!is_going(&live), "{way}: {name}");
        }
        world.until("ApplicationSet", "set", is_going).await;
        world.restart(ApplicationSetSettings::default());
        world.stays_when_gone(way).await;
    }
}

/// The set has the finalizer before its first Application exists.
#[tokio::test]
async fn the_finalizer_comes_before_the_first_application_as_167() {
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    world.create("ApplicationSet", "set", with_policy(Some("create-only"))).await;
    world.until_protected().await;
    let requests = world.server.requests();
    let at = |verb: &str, plural: &str| {
        requests.iter().position(|request| {
            (request.client.as_str(), request.verb.as_str(), request.resource.as_str())
                == ("sets", verb, plural)
        })
    };
    assert!(at("patch", "applicationsets").unwrap() < at("create", "applications").unwrap());
}

/// A policy that comes later protects existing Applications, also those that are no longer
/// generated, and also where updates are forbidden; one that goes releases them.
#[tokio::test]
async fn a_change_of_the_policy_reaches_existing_applications_as_150_as_167() {
    for policy in ["create-only", "create-update"] {
        let world = ClusterState::start(ApplicationSetSettings::default()).await;
        world.create("ApplicationSet", "set", with_policy(None)).await;
        for name in NAMES {
            let live = world.until("Application", name, |_| true).await;
            assert!(!is_protected(&live));
        }
        let change = json!({"spec": {
            "syncPolicy": {"applicationsSync": policy},
            "generators": [{"list": {"elements": [{"n": "a"}]}}],
        }});
        world.patch("ApplicationSet", "set", change).await;
        world.until_protected().await;
        world.delete_with(&DeleteParams::foreground()).await;
        world.stays_when_gone(policy).await;
    }

    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    world.create("ApplicationSet", "set", with_policy(Some("create-update"))).await;
    world.until_protected().await;
    for policy in ["create-delete", "create-only", "sync"] {
        let change = json!({"spec": {"syncPolicy": {"applicationsSync": policy}}});
        world.patch("ApplicationSet", "set", change).await;
        for name in NAMES {
            let wanted = policy == "create-only";
            world.until("Application", name, |live| is_protected(live) == wanted).await;
        }
    }
    world.delete_with(&DeleteParams::foreground()).await;
    for name in NAMES {
        world.until_gone_or_going(name).await;
    }
}

/// A policy that permits deletion again, at once before the deletion.
#[tokio::test]
async fn a_policy_that_goes_before_the_deletion_deletes_as_150() {
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    world.create("ApplicationSet", "set", with_policy(Some("create-update"))).await;
    world.until_protected().await;
    let change = json!({"spec": {"syncPolicy": {"applicationsSync": "sync"}}});
    world.patch("ApplicationSet", "set", change).await;
    world.delete_with(&DeleteParams::background()).await;
    world.until_gone("ApplicationSet", "set").await;
    for name in NAMES {
        world.until_gone_or_going(name).await;
    }
}

impl ClusterState {
    async fn until_gone_or_going(&self, name: &str) {
        let api = self.api("Application");
        let look = async {
            while api.get_opt(name).await.unwrap().is_some_and(|live| !is_going(&live.parse())) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(LIMIT, look).await.unwrap();
    }
}

/// `--policy` of the controller protects the Applications of all sets.
#[tokio::test]
async fn the_policy_of_the_controller_protects_as_150_as_502() {
    let mut world = ClusterState::start(ApplicationSetSettings::default()).await;
    world.create("ApplicationSet", "set", with_policy(None)).await;
    for name in NAMES {
        world.until("Application", name, |_| true).await;
    }
    let settings = deciding(DecisionSettings {
        policy: Policy::CreateUpdate,
        policy_override: false,
        ..DecisionSettings::default()
    });
    world.restart(settings);
    world.until_protected().await;
    world.delete_with(&DeleteParams::foreground()).await;
    world.stays_when_gone("--policy create-update").await;
}

/// A set that cannot be generated any more protects its Applications, too.
#[tokio::test]
async fn a_failing_generator_does_not_hold_back_the_protection_as_140_as_167() {
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    world.create("ApplicationSet", "set", with_policy(None)).await;
    for name in NAMES {
        world.until("Application", name, |_| true).await;
    }
    let change = json!({"spec": {
        "syncPolicy": {"applicationsSync": "create-update"},
        "generators": [{"list": {"elementsYaml": "{"}}],
    }});
    world.patch("ApplicationSet", "set", change).await;
    world.until_protected().await;
    world.delete_with(&DeleteParams::foreground()).await;
    world.stays_when_gone("failing generator").await;
}

/// Without the right to read the Namespace, the finalizer protects in the background.
#[tokio::test]
async fn without_the_namespace_the_finalizer_protects_as_167() {
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    let reads = |request: &RequestRecord| {
        request.client == "sets" && request.verb == "get" && request.resource == "namespaces"
    };
    world.server.inject(InjectedFault::new(Effect::Status(403), reads).times(1000));
    world.create("ApplicationSet", "set", with_policy(Some("create-update"))).await;
    for name in NAMES {
        world.until("Application", name, |_| true).await;
    }
    world.until("ApplicationSet", "set", has_finalizer).await;
    world.delete_with(&DeleteParams::background()).await;
    world.stays_when_gone("forbidden").await;
}

/// The reference to the former Namespace protected nothing: garbage collection takes an owner of
/// another UID for one that is gone.
#[tokio::test]
async fn a_namespace_that_is_created_again_protects_like_the_first_one_as_167() {
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    let namespaces: Api<k8s_openapi::api::core::v1::Namespace> =
        Api::all(world.server.client_as("test"));
    let mut uids = Vec::new();
    for _ in 0..2 {
        let mut spec = with_policy(Some("create-update"));
        spec["syncPolicy"]["preserveResourcesOnDeletion"] = true.into();
        world.create("ApplicationSet", "set", spec).await;
        world.until_protected().await;
        let uid = namespaces.get(NAMESPACE).await.unwrap().metadata.uid.unwrap();
        let live = world.until("Application", "a", is_protected).await;
        let owners = live["metadata"]["ownerReferences"].as_array().unwrap();
        let owner = owners.iter().find(|owner| owner["kind"] == "Namespace").unwrap();
        assert_eq!(owner["uid"], *uid);
        uids.push(uid);
        if uids.len() == 2 {
            break;
        }
        // What a real API server does with the content of a Namespace that is deleted.
        world.delete_with(&DeleteParams::background()).await;
        world.stays_when_gone("deleted").await;
        for name in NAMES {
            world.delete("Application", name).await;
            world.until_gone("Application", name).await;
        }
        world.delete("AppProject", "default").await;
        namespaces.delete(NAMESPACE, &DeleteParams::default()).await.unwrap();
        let gone = async {
            while namespaces.get_opt(NAMESPACE).await.unwrap().is_some() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(LIMIT, gone).await.expect("the Namespace is gone");
        let namespace = serde_json::from_value(json!({"metadata": {"name": NAMESPACE}})).unwrap();
        namespaces.create(&PostParams::default(), &namespace).await.unwrap();
        world.create("AppProject", "default", json!({})).await;
    }
    assert_ne!(uids[0], uids[1]);
}

/// Applications that are not written, because they or the strategy are invalid, are protected
/// like the others.
#[tokio::test]
async fn applications_that_may_not_be_written_stay_when_their_set_is_deleted_as_167() {
    for more in [
        json!({"template": {"spec": {"project": "missing"}}}),
        json!({"strategy": {"type": "Typo"}}),
    ] {
        let world = ClusterState::start(ApplicationSetSettings::default()).await;
        world.create("ApplicationSet", "set", with_policy(None)).await;
        for name in NAMES {
            world.until("Application", name, |_| true).await;
        }
        let mut spec = json!({"syncPolicy": {"applicationsSync": "create-update"}});
        for (key, value) in more.as_object().unwrap() {
            spec[key] = value.clone();
        }
        world.patch("ApplicationSet", "set", json!({"spec": spec})).await;
        world.until_protected().await;
        world.delete_with(&DeleteParams::foreground()).await;
        world.stays_when_gone(&more.to_string()).await;
    }
}
