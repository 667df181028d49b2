use kube::api::{ListParams, PostParams};
use serde_json::json;

use super::*;
use crate::act::commands::manifests;
use crate::act::control_plane::rollout_policy;
use crate::watch::control_plane::Kind;
use kube_sim::Server;
use wavegate_api::policy::{self, PolicyStatus};
use wavegate_api::run::{RunPhase, RunStep};

const NAMESPACE: &str = "default";

struct World {
    server: Server,
    client: Client,
    cache: Cache,
}

impl World {
    fn new() -> Self {
        let server = Server::new();
        let client = server.client_as("controller");
        Self { server, client, cache: Cache::new(Kind::Run) }
    }

    async fn defined() -> Self {
        let world = Self::new();
        manifests::define_all(&world.server.client(), "test").await.unwrap();
        world
    }

    /// Creates a set, since objects of an owner that does not exist are deleted; its UID.
    async fn set(&self, name: &str) -> String {
        let kind = kind_resource(application_set::ApplicationSet::KIND);
        let sets: Api<StoredObject> = kind_api(&self.server.client(), Some(NAMESPACE), &kind);
        let set = json!({
            "apiVersion": wavegate_api::API_VERSION, "kind": "ApplicationSet",
            "metadata": {"name": name},
            "spec": {"generators": [], "template": {
                "metadata": {}, "spec": {"destination": {}, "project": "default"},
            }},
        });
        let set = sets.create(&PostParams::default(), &set.into()).await.unwrap();
        set.uid().to_owned()
    }

    async fn create(&self, name: &str, uid: &str) -> Written {
        create_run(&self.client, &self.cache, &run(name, uid)).await.unwrap()
    }

    async fn write(&self, run: &StoredObject, status: &RolloutRunStatus) -> Written {
        write_status(&self.client, &self.cache, run, status).await.unwrap()
    }

    /// The number of requests since the last call.
    fn sent(&self) -> usize {
        let sent = self.server.requests().into_iter();
        let sent = sent.filter(|request| request.client == "controller").count();
        self.server.forget_requests();
        sent
    }
}

fn run(name: &str, set_uid: &str) -> NewRun {
    let spec = RolloutRunSpec { application_set: "shop".into(), ..Default::default() };
    NewRun { key: ObjectKey::new(NAMESPACE, name), set_uid: set_uid.into(), spec }
}

fn done(written: Written) -> StoredObject {
    match written {
        Written::Done(object) => object,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_run_is_created_once_and_keeps_what_people_wrote() {
    let world = World::defined().await;
    let shop = &world.set("shop").await;
    let created = done(world.create("shop-1", shop).await);
    assert_eq!(set_owner(&created).unwrap().name, "shop");
    let stored = created.parse();
    assert_eq!(stored["metadata"]["labels"][run::SET_LABEL], "shop");
    assert_eq!(stored["spec"], json!({"applicationSet": "shop"}));
    let resource = kind_resource(run::RUN);
    let runs: Api<StoredObject> = kind_api(&world.server.client(), Some(NAMESPACE), &resource);
    let skip = Patch::Merge(json!({"spec": {"skip": ["a"]}}));
    runs.patch("shop-1", &PatchParams::default(), &skip).await.unwrap();

    // After a crash before the response.
    let again = done(world.create("shop-1", shop).await);
    assert_eq!(again.parse()["spec"]["skip"], json!(["a"]));
    assert_eq!(world.cache.owned_by(shop).len(), 1);
    let other = &world.set("other").await;
    assert!(matches!(world.create("shop-1", other).await, Written::Taken));
}

#[tokio::test]
async fn a_status_is_written_as_far_as_it_differs() {
    let world = World::defined().await;
    let shop = &world.set("shop").await;
    let created = done(world.create("shop-1", shop).await);
    world.sent();
    let mut status = RolloutRunStatus { total: 3, progress: "0/3".into(), ..Default::default() };
    status.steps = vec![RunStep { total: 3, ..Default::default() }];
    let first = done(world.write(&created, &status).await);
    assert_eq!(first.parse()["status"]["phase"], "Progressing");
    assert_eq!(first.parse()["metadata"]["generation"], 1, "a status is no change of the spec");
    world.sent();
    assert!(matches!(world.write(&first, &status).await, Written::Unchanged));
    assert_eq!(world.sent(), 0);

    status.phase = RunPhase::Paused;
    status.message = "paused".into();
    let second = done(world.write(&first, &status).await);
    assert_eq!(world.sent(), 1);
    let change = merge_patch(&stored_status::<RolloutRunStatus>(&first), &to_json(&status));
    assert_eq!(change, Some(json!({"message": "paused", "phase": "Paused"})));
    status.message.clear();
    assert!(matches!(world.write(&first, &status).await, Written::Outdated), "an old version");
    let third = done(world.write(&second, &status).await);
    assert!(third.parse()["status"].get("message").is_none());
    assert_eq!(world.cache.get(&third.key()).unwrap().resource_version(), third.resource_version());
}

#[tokio::test]
async fn a_run_is_deleted_only_as_itself() {
    let world = World::defined().await;
    let shop = &world.set("shop").await;
    let first = done(world.create("shop-1", shop).await);
    done(delete_run(&world.client, &world.cache, &first).await.unwrap());
    assert!(world.cache.all().is_empty());
    let second = done(world.create("shop-1", shop).await);
    let again = delete_run(&world.client, &world.cache, &first).await.unwrap();
    assert!(matches!(again, Written::Outdated));
    assert_eq!(world.cache.all().len(), 1, "the second one stays");
    done(delete_run(&world.client, &world.cache, &second).await.unwrap());
    assert!(matches!(
        delete_run(&world.client, &world.cache, &second).await.unwrap(),
        Written::Outdated
    ));
    assert!(matches!(world.write(&second, &RolloutRunStatus::default()).await, Written::Outdated));
}

#[tokio::test]
async fn what_the_server_refuses_is_an_outcome_with_its_reason() {
    let absent = World::new();
    assert!(matches!(absent.create("shop-1", "u1").await, Written::Absent));
    let gone = run("shop-1", "u1").to_json().into();
    let status = RolloutRunStatus::default();
    assert!(matches!(absent.write(&gone, &status).await, Written::Absent));
    let deleted = delete_run(&absent.client, &absent.cache, &gone).await.unwrap();
    assert!(matches!(deleted, Written::Absent));

    let world = World::defined().await;
    let mut nameless = run("shop-1", "u1");
    nameless.spec.application_set.clear();
    let refused = create_run(&world.client, &world.cache, &nameless).await.unwrap();
    let Written::Refused(why) = refused else { panic!("{refused:?}") };
    assert!(why.contains("spec.applicationSet"), "{why}");
    let lists: Api<StoredObject> =
        kind_api(&world.client, Some(NAMESPACE), &kind_resource(run::RUN));
    assert!(lists.list(&ListParams::default()).await.unwrap().items.is_empty());
}

#[tokio::test]
async fn a_policy_keeps_its_spec_when_its_status_is_written() {
    let world = World::defined().await;
    let policies: Api<StoredObject> =
        kind_api(&world.client, Some(NAMESPACE), &kind_resource(policy::POLICY));
    let policy = json!({
        "apiVersion": wavegate_api::WAVEGATE_API_VERSION, "kind": policy::POLICY,
        "metadata": {"name": "p"}, "spec": {"paused": true},
    });
    let policy = policies.create(&PostParams::default(), &policy.into()).await.unwrap();
    let cache = Cache::new(Kind::Policy);
    let status = PolicyStatus { observed_generation: 1, selected: 2, ..Default::default() };
    let write = rollout_policy::write_status(&world.client, &cache, &policy, &status);
    let written = done(write.await.unwrap());
    assert_eq!(written.parse()["spec"], json!({"paused": true}));
    assert_eq!(written.parse()["status"], json!({"observedGeneration": 1, "selected": 2}));
    let again = rollout_policy::write_status(&world.client, &cache, &written, &status);
    assert!(matches!(again.await.unwrap(), Written::Unchanged));
}

/// What notifications record of a run must not replace what cannot be read.
#[tokio::test]
async fn a_status_that_cannot_be_read_is_not_replaced_by_a_mark() {
    let world = World::defined().await;
    let uid = world.set("shop").await;
    let stored = done(world.create("shop-1", &uid).await);
    let mut broken = stored.parse();
    broken["status"] = json!({"quarantine": "q", "abortedAt": "2026-01-02T10:00:00+99:00"});
    world.server.forget_requests();
    let marked =
        write_marks(&world.client, &world.cache, &broken.into(), 3, Vec::new()).await.unwrap();
    let Written::Refused(why) = marked else { panic!("{marked:?}") };
    assert!(why.starts_with("its status: "), "{why}");
    assert_eq!(world.sent(), 0);
    let marked = write_marks(&world.client, &world.cache, &stored, 3, Vec::new()).await.unwrap();
    assert_eq!(done(marked).parse()["status"]["notified"], 3);
}
