//! Writes to a server with errors: on the embedded server, in paused time.

use std::sync::Arc;

use kube::api::{Api, DynamicObject, ListParams, PostParams};
use kube::core::discovery::ApiResource;
use kube::core::gvk::GroupVersionKind;
use serde_json::{Value, json};

use super::apply::Applier;
use super::meter::Meter;
use super::retry::TRIES;
use crate::watch::cluster_cache::{ClusterCache, ClusterReach};
use kube_sim::{Effect, InjectedFault, RequestRecord, Server};
use wavegate_api::ResourceKey;
use wavegate_api::tracking::Tracking;
use wavegate_application::owner::DeletionOwner;
use wavegate_engine::sync::{
    ActionResult, ApplyMethod, ApplyRequest, Method, OPERATION_ANNOTATION, Propagation,
};

const US: &str = "controller";

struct World {
    server: Server,
    cluster: Arc<ClusterCache>,
    tracking: Tracking,
}

impl World {
    async fn new() -> Self {
        let server = Server::new();
        let (trigger, _) = tokio::sync::mpsc::unbounded_channel();
        let (mark, stop) = Default::default();
        let cluster = ClusterCache::new(
            "https://x",
            server.client_as(US),
            (mark, ClusterReach::default(), Arc::default()),
            trigger,
            None,
            stop,
        );
        let tracking = Tracking::default();
        let world = Self { server, cluster, tracking };
        let web = json!({"metadata": {"name": "web"}});
        let namespaces = Api::<DynamicObject>::all_with(world.server.client(), &kind("Namespace"));
        let web = serde_json::from_value(web).unwrap();
        namespaces.create(&PostParams::default(), &web).await.unwrap();
        world
    }

    fn maps(&self) -> Api<DynamicObject> {
        Api::namespaced_with(self.server.client(), "web", &kind("ConfigMap"))
    }

    async fn names(&self) -> Vec<String> {
        let maps = self.maps().list(&ListParams::default()).await.unwrap();
        maps.items.into_iter().map(|map| map.metadata.name.unwrap()).collect()
    }

    async fn make(&self, object: &Value) -> String {
        let object = serde_json::from_value(object.clone()).unwrap();
        let made = self.maps().create(&PostParams::default(), &object).await.unwrap();
        made.metadata.uid.unwrap()
    }

    fn inject(&self, effect: &Effect, times: u32, verb: &'static str) {
        let matcher = move |request: &RequestRecord| {
            request.client == US && request.resource == "configmaps" && request.verb == verb
        };
        self.server.inject(InjectedFault::new(effect.clone(), matcher).times(times as usize));
    }

    /// How many requests of this verb the controller has sent.
    fn sent(&self, verb: &str) -> usize {
        let requests = self.server.requests();
        let ours = |request: &&RequestRecord| {
            request.client == US && request.resource == "configmaps" && request.verb == verb
        };
        requests.iter().filter(ours).count()
    }

    fn applier(&self) -> Applier<'_> {
        let owner = DeletionOwner {
            tracking: &self.tracking,
            control_plane_namespace: "argocd",
            uid: "uid",
        };
        Applier {
            cluster: &self.cluster,
            client: self.cluster.client(),
            manager: US,
            former_manager: "kubectl",
            owner,
            meter: Meter::default(),
            established_within: std::time::Duration::from_secs(30),
        }
    }
}

fn kind(kind: &str) -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", kind))
}

fn key() -> ResourceKey {
    ResourceKey::new("", "ConfigMap", "web", "a")
}

fn map(value: &str, stamp: Option<&str>) -> Value {
    let mut map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "a", "namespace": "web", "annotations": {}},
        "data": {"value": value},
    });
    if let Some(stamp) = stamp {
        map["metadata"]["annotations"][OPERATION_ANNOTATION] = stamp.into();
    }
    map
}

fn apply(how: ApplyMethod, stamp: Option<&str>) -> ApplyRequest {
    ApplyRequest {
        key: key(),
        manifest: Arc::new(map("new", stamp)),
        method: Method { how, force: false, validate: true, migrate: false },
        stamp: stamp.map(str::to_owned),
        wait_established: false,
    }
}

/// Faults, [`TRIES`] less one of which are tolerated.
fn faults() -> Vec<Effect> {
    let mut all: Vec<Effect> = [429, 500, 502, 503, 504].map(Effect::Status).to_vec();
    all.push(Effect::DropAfterApplying);
    all
}

#[tokio::test(start_paused = true)]
async fn an_apply_gets_through_in_each_of_its_ways() {
    for effect in faults() {
        // (how, whether there is an object before, the request)
        for (how, exists, verb) in [
            (ApplyMethod::ServerSide, false, "apply"),
            (ApplyMethod::ServerSide, true, "apply"),
            (ApplyMethod::ClientSide, false, "create"),
            (ApplyMethod::ClientSide, true, "patch"),
            (ApplyMethod::Replace, true, "update"),
        ] {
            let case = format!("{effect:?}, {how:?}, {exists}");
            let world = World::new().await;
            let mut live = None;
            if exists {
                world.make(&map("old", None)).await;
                live = world.cluster.read(&kind("ConfigMap"), &key()).await.unwrap();
            }
            world.inject(&effect, TRIES - 1, verb);
            let apply = apply(how, None);
            let happened = world.applier().apply(&apply, live.as_ref(), false, false).await;
            assert!(matches!(happened, ActionResult::Done { .. }), "{case}: {happened:?}");
            let map = world.maps().get("a").await.unwrap();
            assert_eq!(map.data["data"]["value"], "new", "{case}");
            assert!(world.sent(verb) > 1, "{case}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_gets_through_and_changes_nothing() {
    for effect in faults() {
        let world = World::new().await;
        world.inject(&effect, TRIES - 1, "apply");
        let apply = apply(ApplyMethod::ServerSide, None);
        let happened = world.applier().apply(&apply, None, false, true).await;
        assert!(matches!(happened, ActionResult::Done { .. }), "{effect:?}: {happened:?}");
        assert_eq!(world.names().await, [""; 0], "{effect:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_hook_is_created_once() {
    for effect in faults() {
        for how in [ApplyMethod::ClientSide, ApplyMethod::ServerSide] {
            let world = World::new().await;
            world.inject(&effect, TRIES - 1, "create");
            let happened = world.applier().create_hook(&apply(how, Some("op-1/0"))).await;
            let hook = world.maps().get("a").await.unwrap();
            let ActionResult::Done { uid, .. } = happened else {
                panic!("{effect:?}: {happened:?}")
            };
            assert_eq!(hook.metadata.uid, Some(uid), "{effect:?}");
            assert_eq!(world.names().await, ["a"], "{effect:?}");
            // A request that was executed is found, not sent again.
            let executed = effect == Effect::DropAfterApplying;
            let expected = if executed { 1 } else { TRIES as usize };
            assert_eq!(world.sent("create"), expected, "{effect:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_hook_of_another_owner_is_not_adopted() {
    // The hook of a previous operation is evaluated again, since the next round deletes
    // it; a hook of another owner is an error.
    for (stamp, evaluated_again) in
        [(Some("uid.op-0/0"), true), (Some("another.op-0/0"), false), (None, false)]
    {
        let world = World::new().await;
        let mut old = map("old", stamp);
        old["metadata"]["annotations"]["argocd.argoproj.io/hook"] = "PreSync".into();
        let former = world.make(&old).await;
        world.inject(&Effect::Status(500), 2, "create");
        let happened =
            world.applier().create_hook(&apply(ApplyMethod::ClientSide, Some("op-1/0"))).await;
        let expected = if evaluated_again {
            matches!(happened, ActionResult::Unknown(_))
        } else {
            matches!(happened, ActionResult::Failed(_))
        };
        assert!(expected, "{stamp:?}: {happened:?}");
        assert_eq!(world.maps().get("a").await.unwrap().metadata.uid, Some(former));
    }
}

#[tokio::test(start_paused = true)]
async fn a_nameless_object_is_created_once() {
    let world = World::new().await;
    world.inject(&Effect::DropAfterApplying, 1, "create");
    let apply = apply(ApplyMethod::Create, Some("op-1/0"));
    let happened = world.applier().apply(&apply, None, false, false).await;
    assert!(matches!(happened, ActionResult::Done { .. }), "{happened:?}");
    assert_eq!(world.sent("create"), 1);
}

/// With `generateName` alone, the server would choose another name for each request, and the watch
/// may be late.
#[tokio::test(start_paused = true)]
async fn an_object_without_a_name_is_created_once_after_a_lost_answer() {
    for effect in [Effect::DropAfterApplying, Effect::StatusAfterApplying(504)] {
        let world = World::new().await;
        world.inject(&effect, 1, "create");
        let mut apply = apply(ApplyMethod::Create, Some("op-1/0"));
        let mut manifest = map("new", Some("op-1/0"));
        manifest["metadata"]["name"] = Value::Null;
        manifest["metadata"]["generateName"] = "made-".into();
        (apply.key.name, apply.manifest) = ("made-0".to_owned(), Arc::new(manifest));
        for _ in 0..2 {
            let happened = world.applier().apply(&apply, None, false, false).await;
            assert!(matches!(happened, ActionResult::Done { .. }), "{effect:?}: {happened:?}");
            let names = world.names().await;
            assert!(names.len() == 1 && names[0].starts_with("made-"), "{effect:?}: {names:?}");
        }
    }
}

/// SE-355: a second request of the same sync finds what the first has created; one of another sync
/// deletes it.
#[tokio::test(start_paused = true)]
async fn an_object_is_recreated_once_in_a_sync_se_355() {
    let world = World::new().await;
    world.make(&map("old", None)).await;
    let live = world.cluster.read(&kind("ConfigMap"), &key()).await.unwrap();
    let mut apply = apply(ApplyMethod::Replace, Some("op-1/0"));
    (apply.method.force, apply.stamp) = (true, None);
    for (stamp, deletions) in [("op-1/0", 1), ("op-1/0", 1), ("op-2/0", 2)] {
        apply.manifest = Arc::new(map("new", Some(stamp)));
        let happened = world.applier().apply(&apply, live.as_ref(), false, false).await;
        assert!(matches!(happened, ActionResult::Done { .. }), "{happened:?}");
        assert_eq!(world.sent("delete"), deletions, "{stamp}");
    }
}

/// A right, a webhook or a quota may be in the way of the new object.
#[tokio::test(start_paused = true)]
async fn a_creation_that_is_refused_deletes_nothing_se_355() {
    let world = World::new().await;
    let uid = world.make(&map("old", None)).await;
    let live = world.cluster.read(&kind("ConfigMap"), &key()).await.unwrap();
    let mut apply = apply(ApplyMethod::Replace, Some("op-1/0"));
    (apply.method.force, apply.stamp) = (true, None);
    for code in [400, 403, 422] {
        world.server.clear_faults();
        world.inject(&Effect::Status(code), 99, "create");
        let happened = world.applier().apply(&apply, live.as_ref(), false, false).await;
        let ActionResult::Failed(why) = happened else { panic!("{code}: {happened:?}") };
        assert!(why.contains("was left as it is"), "{code}: {why}");
        assert_eq!(world.sent("delete"), 0, "{code}");
        assert_eq!(world.maps().get("a").await.unwrap().metadata.uid.as_ref(), Some(&uid));
    }
}

/// SE-360, SE-362, SE-599.
#[tokio::test(start_paused = true)]
async fn a_delete_gets_through_but_only_with_a_precondition() {
    for effect in faults() {
        let world = World::new().await;
        let uid = world.make(&map("old", None)).await;
        world.inject(&effect, TRIES - 1, "delete");
        let (resource, key) = (kind("ConfigMap"), key());
        let background = Propagation::Background;
        let happened = world.applier().delete_object(&resource, &key, &uid, background, None).await;
        assert!(matches!(happened, ActionResult::Done { .. } | ActionResult::Gone), "{happened:?}");
        assert_eq!(world.names().await, [""; 0], "{effect:?}");

        world.make(&map("another", None)).await;
        world.server.clear_faults();
        world.server.forget_requests();
        let happened = world.applier().delete_object(&resource, &key, "", background, None).await;
        assert!(matches!(happened, ActionResult::Failed(_)), "{happened:?}");
        assert_eq!(world.sent("delete"), 0, "{effect:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn retries_end_with_the_last_error() {
    for (code, unknown) in [(500, false), (502, true), (503, true), (429, true)] {
        let world = World::new().await;
        world.inject(&Effect::Status(code), 99, "apply");
        world.inject(&Effect::Status(code), 99, "create");
        let began = tokio::time::Instant::now();
        let applied =
            world.applier().apply(&apply(ApplyMethod::ServerSide, None), None, false, false).await;
        let hook =
            world.applier().create_hook(&apply(ApplyMethod::ClientSide, Some("op-1/0"))).await;
        for happened in [applied, hook] {
            assert_eq!(
                matches!(happened, ActionResult::Unknown(_)),
                unknown,
                "{code}: {happened:?}"
            );
            assert_eq!(
                matches!(happened, ActionResult::Failed(_)),
                !unknown,
                "{code}: {happened:?}"
            );
        }
        assert_eq!(world.sent("apply"), TRIES as usize, "{code}");
        assert_eq!(world.sent("create"), TRIES as usize, "{code}");
        assert!((3..=10).contains(&began.elapsed().as_secs()), "{code}: {:?}", began.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_permanent_error_is_not_retried() {
    for code in [400, 403] {
        let world = World::new().await;
        world.inject(&Effect::Status(code), 99, "apply");
        let apply = apply(ApplyMethod::ServerSide, None);
        let happened = world.applier().apply(&apply, None, false, false).await;
        assert!(matches!(happened, ActionResult::Failed(_)), "{code}: {happened:?}");
        assert_eq!(world.sent("apply"), 1, "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn conflicts_are_retried() {
    for (how, verb) in [(ApplyMethod::ServerSide, "apply"), (ApplyMethod::ClientSide, "patch")] {
        let world = World::new().await;
        world.make(&map("old", None)).await;
        let live = world.cluster.read(&kind("ConfigMap"), &key()).await.unwrap();
        world.inject(&Effect::Status(409), TRIES - 1, verb);
        let happened = world.applier().apply(&apply(how, None), live.as_ref(), false, false).await;
        assert!(matches!(happened, ActionResult::Done { .. }), "{how:?}: {happened:?}");
        assert_eq!(world.maps().get("a").await.unwrap().data["data"]["value"], "new", "{how:?}");
    }
}

/// The message named an object that does not exist, by the place of its manifest (SE-193, SE-341).
#[test]
fn a_created_object_is_named_as_the_server_has_named_it_se_341() {
    let key = ResourceKey::new("", "ConfigMap", "web", "report-0");
    let created = json!({"metadata": {"name": "report-x7knm", "uid": "u"}});
    for (object, dry_run, want) in [
        (&created, false, "configmap/report-x7knm created"),
        (&created, true, "configmap/report-0 created (dry run)"),
        (&Value::Null, false, "configmap/report-0 created"),
    ] {
        let done = super::outcome::done_outcome(&key, "created", object, dry_run);
        let ActionResult::Done { message, .. } = done else { panic!("{done:?}") };
        assert_eq!(message, want);
    }
}
