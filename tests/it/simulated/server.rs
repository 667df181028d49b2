//! The simulation at work on the embedded server, in paused time: an hour costs
//! nothing, and a delay is exact.

use std::{collections::BTreeMap, time::Duration};

use futures::{StreamExt, TryStreamExt};
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
    runtime::{WatchStreamExt, watcher},
};
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use kube_sim::workloads::{
    DELAY_ANNOTATION, OUTCOME_ANNOTATION, OptionError, WorkloadKind, WorkloadOptions, run,
};
use kube_sim::{Effect, InjectedFault, RequestRecord, Server};
use wavegate_engine::health::{self, Status};

const DELAY: Duration = Duration::from_secs(10);

/// Real time may not pass, but tasks must still get to run: what is done at once
/// is done within this.
const AT_ONCE: Duration = Duration::from_millis(500);

struct World {
    server: Server,
    client: Client,
    shutdown: CancellationToken,
    simulation: Option<AbortOnDropHandle<Result<(), OptionError>>>,
}

impl World {
    async fn new(options: WorkloadOptions) -> Self {
        let server = Server::new();
        let client = server.client();
        let mut world =
            Self { server, client, shutdown: CancellationToken::new(), simulation: None };
        let namespaces = Api::<k8s_openapi::api::core::v1::Namespace>::all(world.client.clone());
        let shop = serde_json::from_value(json!({ "metadata": { "name": "shop" } })).unwrap();
        namespaces.create(&PostParams::default(), &shop).await.unwrap();
        world.start(options);
        world
    }

    fn start(&mut self, options: WorkloadOptions) {
        self.shutdown = CancellationToken::new();
        let running = run(self.server.client_as("simulation"), options, self.shutdown.clone());
        self.simulation = Some(AbortOnDropHandle::new(tokio::spawn(running)));
    }

    async fn stop(&mut self) {
        self.shutdown.cancel();
        self.simulation.take().unwrap().await.unwrap().unwrap();
    }

    fn api(&self, kind: WorkloadKind) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), "shop", &kind.resource())
    }

    async fn apply(
        &self,
        kind: WorkloadKind,
        name: &str,
        annotations: Value,
        spec: Value,
    ) -> DynamicObject {
        let ApiResource { api_version, kind: word, .. } = kind.resource();
        let object = json!({
            "apiVersion": api_version, "kind": word,
            "metadata": { "name": name, "annotations": annotations }, "spec": spec,
        });
        let params = PatchParams::apply("test").force();
        self.api(kind).patch(name, &params, &Patch::Apply(&object)).await.unwrap()
    }

    async fn deploy(&self, name: &str, annotations: Value, version: &str) -> DynamicObject {
        self.apply(WorkloadKind::Deployment, name, annotations, deployment(version)).await
    }

    /// Every health from now on until `end`, without repetitions, and how long that took.
    async fn healths(
        &self,
        kind: WorkloadKind,
        name: &str,
        end: Status,
    ) -> (Vec<Status>, Duration) {
        let started = Instant::now();
        let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
        let mut seen = Vec::new();
        let mut objects = watcher(self.api(kind), config).applied_objects().boxed();
        let watching = async {
            while let Some(object) = objects.try_next().await.unwrap() {
                let status = health(kind, &object);
                if seen.last() != Some(&status) {
                    seen.push(status);
                }
                if status == end {
                    return;
                }
            }
        };
        let limit = tokio::time::timeout(Duration::from_secs(3600), watching).await;
        assert!(limit.is_ok(), "{kind:?} {name} never was {end:?}, only {seen:?}");
        (seen, started.elapsed())
    }

    /// The versions of all simulated objects.
    async fn versions(&self) -> BTreeMap<String, Option<String>> {
        let mut versions = BTreeMap::new();
        for kind in WorkloadKind::simulated(&WorkloadOptions::default()) {
            for object in self.api(kind).list(&ListParams::default()).await.unwrap() {
                versions.insert(
                    format!("{} {}", kind.name(), object.name_any()),
                    object.resource_version(),
                );
            }
        }
        versions
    }
}

fn deployment(version: &str) -> Value {
    json!({
        "replicas": 2,
        "selector": { "matchLabels": { "app": "web" } },
        "template": template(version, "Always"),
    })
}

fn template(version: &str, restart_policy: &str) -> Value {
    json!({
        "metadata": { "labels": { "app": "web" }, "annotations": { "version": version } },
        "spec": { "restartPolicy": restart_policy, "containers": [{ "name": "web", "image": "web" }] },
    })
}

/// The objects of a list do not say what they are.
fn health(kind: WorkloadKind, object: &DynamicObject) -> Status {
    let ApiResource { api_version, kind: word, .. } = kind.resource();
    let mut object = serde_json::to_value(object).unwrap();
    (object["apiVersion"], object["kind"]) = (json!(api_version), json!(word));
    health::health_of(&object).expect("a kind with a health check").status
}

fn options() -> WorkloadOptions {
    WorkloadOptions { delay: DELAY, ..WorkloadOptions::default() }
}

/// One object of each kind that takes time.
fn all_kinds() -> Vec<(WorkloadKind, Value)> {
    let selector = json!({ "matchLabels": { "app": "web" } });
    let workload = json!({ "replicas": 2, "selector": selector, "serviceName": "web", "template": template("1", "Always") });
    vec![
        (WorkloadKind::Deployment, deployment("1")),
        (
            WorkloadKind::ReplicaSet,
            json!({ "replicas": 2, "selector": selector, "template": template("1", "Always") }),
        ),
        (WorkloadKind::StatefulSet, workload),
        (
            WorkloadKind::DaemonSet,
            json!({ "selector": selector, "template": template("1", "Always") }),
        ),
        (WorkloadKind::Job, json!({ "template": template("1", "Never") })),
        (WorkloadKind::Pod, template("1", "Always")["spec"].clone()),
        (
            WorkloadKind::PersistentVolumeClaim,
            json!({ "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } }),
        ),
        (WorkloadKind::Service, json!({ "type": "LoadBalancer", "ports": [{ "port": 80 }] })),
        (
            WorkloadKind::Ingress,
            json!({ "defaultBackend": { "service": { "name": "web", "port": { "number": 80 } } } }),
        ),
        (
            WorkloadKind::HorizontalPodAutoscaler,
            json!({ "maxReplicas": 3, "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "web" } }),
        ),
    ]
}

#[tokio::test(start_paused = true)]
async fn every_kind_progresses_for_the_delay_and_then_is_healthy() {
    let world = World::new(options()).await;
    for (kind, spec) in all_kinds() {
        let (_, healths) = tokio::join!(
            async {
                // Seen from before its creation, so that no state is missed.
                tokio::task::yield_now().await;
                world.apply(kind, "web", json!({}), spec).await
            },
            world.healths(kind, "web", Status::Healthy)
        );
        assert_eq!(healths.0, [Status::Progressing, Status::Healthy], "{kind:?}");
        assert!((DELAY..DELAY + AT_ONCE).contains(&healths.1), "{kind:?} took {:?}", healths.1);
    }
}

#[tokio::test(start_paused = true)]
async fn annotations_choose_the_end_and_the_delay() {
    let world = World::new(options()).await;
    for kind in [WorkloadKind::Deployment, WorkloadKind::Job, WorkloadKind::Pod] {
        let spec = all_kinds().into_iter().find(|(other, _)| *other == kind).unwrap().1;
        world.apply(kind, "fails", json!({ OUTCOME_ANNOTATION: "fail" }), spec.clone()).await;
        world.apply(kind, "soon", json!({ DELAY_ANNOTATION: "1s" }), spec.clone()).await;
        world.apply(kind, "hangs", json!({ OUTCOME_ANNOTATION: "hang" }), spec).await;
        let (_, took) = world.healths(kind, "soon", Status::Healthy).await;
        assert!(took < Duration::from_secs(1) + AT_ONCE, "{kind:?} took {took:?}");
        world.healths(kind, "fails", Status::Degraded).await;
        tokio::time::sleep(Duration::from_secs(3600)).await;
        let hangs = world.api(kind).get("hangs").await.unwrap();
        assert_eq!(health(kind, &hangs), Status::Progressing, "{kind:?}");
        let trace =
            if kind == WorkloadKind::Deployment { "observedGeneration" } else { "startTime" };
        assert!(hangs.data["status"].get(trace).is_some(), "{kind:?} has started");
    }
}

#[tokio::test(start_paused = true)]
async fn the_objects_of_an_application_that_shall_fail_fail() {
    let world =
        World::new(WorkloadOptions { fail: ["broken".to_owned()].into(), ..options() }).await;
    world
        .deploy(
            "web",
            json!({ "argocd.argoproj.io/tracking-id": "broken:apps/Deployment:shop/web" }),
            "1",
        )
        .await;
    world
        .deploy(
            "other",
            json!({ "argocd.argoproj.io/tracking-id": "fine:apps/Deployment:shop/other" }),
            "1",
        )
        .await;
    world.healths(WorkloadKind::Deployment, "web", Status::Degraded).await;
    world.healths(WorkloadKind::Deployment, "other", Status::Healthy).await;
}

#[tokio::test(start_paused = true)]
async fn a_newer_generation_starts_the_delay_anew() {
    let world = World::new(options()).await;
    world.deploy("web", json!({}), "1").await;
    tokio::time::sleep(DELAY * 2 / 3).await;
    world.deploy("web", json!({}), "2").await;
    let (healths, took) = world.healths(WorkloadKind::Deployment, "web", Status::Healthy).await;
    assert_eq!(healths, [Status::Progressing, Status::Healthy]);
    assert!((DELAY..DELAY + AT_ONCE).contains(&took), "took {took:?}");
    assert_eq!(
        world.api(WorkloadKind::Deployment).get("web").await.unwrap().data["status"]["observedGeneration"],
        2
    );
}

#[tokio::test(start_paused = true)]
async fn a_changed_outcome_is_a_new_try_without_a_new_generation() {
    let world = World::new(options()).await;
    world.deploy("web", json!({ OUTCOME_ANNOTATION: "fail" }), "1").await;
    world.healths(WorkloadKind::Deployment, "web", Status::Degraded).await;
    let mended = world.deploy("web", json!({ OUTCOME_ANNOTATION: "succeed" }), "1").await;
    assert_eq!(mended.metadata.generation, Some(1));
    let (healths, _) = world.healths(WorkloadKind::Deployment, "web", Status::Healthy).await;
    assert_eq!(healths, [Status::Progressing, Status::Healthy]);
}

#[tokio::test(start_paused = true)]
async fn what_is_done_is_never_written_again_not_even_after_a_restart() {
    let mut world = World::new(options()).await;
    for (kind, spec) in all_kinds() {
        world.apply(kind, "web", json!({}), spec).await;
    }
    for (kind, _) in all_kinds() {
        world.healths(kind, "web", Status::Healthy).await;
    }
    let before = world.versions().await;
    assert_eq!(before.len(), all_kinds().len());
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(world.versions().await, before);
    world.stop().await;
    world.start(options());
    tokio::time::sleep(DELAY * 2).await;
    assert_eq!(world.versions().await, before);
}

#[tokio::test(start_paused = true)]
async fn many_objects_progress_side_by_side() {
    let world = World::new(options()).await;
    let started = Instant::now();
    for number in 0..300 {
        world.deploy(&format!("web-{number}"), json!({}), "1").await;
    }
    for number in 0..300 {
        world.healths(WorkloadKind::Deployment, &format!("web-{number}"), Status::Healthy).await;
    }
    assert!(started.elapsed() < DELAY + AT_ONCE, "took {:?}", started.elapsed());
    let writes: u64 = status_writes(&world);
    assert_eq!(writes, 600, "one write for progressing and one for the end of each");
}

fn status_writes(world: &World) -> u64 {
    let counts = world.server.counts();
    counts
        .iter()
        .filter(|((client, verb, _), _)| client == "simulation" && verb == "patch")
        .map(|(_, n)| n)
        .sum()
}

#[tokio::test(start_paused = true)]
async fn a_write_that_fails_is_tried_again() {
    for effect in
        [Effect::Status(500), Effect::Status(409), Effect::Status(429), Effect::DropAfterApplying]
    {
        let world = World::new(options()).await;
        let fault = InjectedFault::new(effect.clone(), |request| {
            request.client == "simulation" && request.verb == "patch"
        });
        world.server.inject(fault.times(3));
        world.deploy("web", json!({}), "1").await;
        world.healths(WorkloadKind::Deployment, "web", Status::Healthy).await;
    }
}

#[tokio::test(start_paused = true)]
async fn with_pods_a_deployment_owns_replica_sets_that_own_pods() {
    let world = World::new(WorkloadOptions { pods: true, ..options() }).await;
    world.deploy("web", json!({}), "1").await;
    world.healths(WorkloadKind::Deployment, "web", Status::Healthy).await;
    pods_become(&world, &["Running", "Running"]).await;
    world.deploy("web", json!({}), "2").await;
    world.healths(WorkloadKind::Deployment, "web", Status::Healthy).await;
    let sets = world.api(WorkloadKind::ReplicaSet).list(&ListParams::default()).await.unwrap();
    let mut replicas: Vec<i64> =
        sets.iter().filter_map(|set| set.data["spec"]["replicas"].as_i64()).collect();
    replicas.sort_unstable();
    assert_eq!(replicas, [0, 2], "the old one is scaled down");
    pods_become(&world, &["Running", "Running"]).await;
    world.api(WorkloadKind::Deployment).delete("web", &DeleteParams::default()).await.unwrap();
    pods_become(&world, &[]).await;
}

#[tokio::test(start_paused = true)]
async fn with_pods_a_job_runs_as_many_as_it_may() {
    let world = World::new(WorkloadOptions { pods: true, ..options() }).await;
    let spec = json!({ "completions": 5, "parallelism": 3, "template": template("1", "Never") });
    world.apply(WorkloadKind::Job, "once", json!({}), spec).await;
    world.healths(WorkloadKind::Job, "once", Status::Healthy).await;
    pods_become(&world, &["Succeeded", "Succeeded", "Succeeded"]).await;
}

/// Waits until the phases of all Pods are these.
async fn pods_become(world: &World, want: &[&str]) {
    let mut seen = Vec::new();
    for _ in 0..1000 {
        let pods = world.api(WorkloadKind::Pod).list(&ListParams::default()).await.unwrap();
        seen = pods
            .iter()
            .map(|pod| pod.data["status"]["phase"].as_str().unwrap_or_default().to_owned())
            .collect();
        if seen == want {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(seen, want);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_pod_goes_without_waiting_for_its_grace_period() {
    let world = World::new(options()).await;
    world.apply(WorkloadKind::Pod, "web", json!({}), template("1", "Always")["spec"].clone()).await;
    world.healths(WorkloadKind::Pod, "web", Status::Healthy).await;
    let started = Instant::now();
    world
        .api(WorkloadKind::Pod)
        .delete("web", &DeleteParams::default().grace_period(30))
        .await
        .unwrap();
    while world.api(WorkloadKind::Pod).get_opt("web").await.unwrap().is_some() {
        assert!(started.elapsed() < Duration::from_secs(5), "the pod is still there");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_breaks_or_falls_behind_is_taken_up_again() {
    let world = World::new(options()).await;
    world.deploy("before", json!({}), "1").await;
    tokio::time::sleep(DELAY / 2).await;
    world.server.compact();
    world.server.drop_watches();
    world.deploy("after", json!({}), "1").await;
    world.healths(WorkloadKind::Deployment, "before", Status::Healthy).await;
    world.healths(WorkloadKind::Deployment, "after", Status::Healthy).await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_may_not_watch_is_refused_so() {
    let mut world = World::new(options()).await;
    world.stop().await;
    let list = |request: &RequestRecord| request.verb == "list" && request.resource == "jobs";
    world.server.inject(InjectedFault::new(Effect::Status(403), list));
    world.start(options());
    let ended = world.simulation.take().unwrap().await.unwrap();
    assert!(matches!(ended, Err(OptionError::Forbidden { kind: "Job", .. })), "{ended:?}");
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_the_server_lacks_does_not_stop_the_others() {
    let mut world = World::new(options()).await;
    world.stop().await;
    let list = |request: &RequestRecord| request.verb == "list" && request.resource == "cronjobs";
    world.server.inject(InjectedFault::new(Effect::Status(404), list));
    world.start(options());
    world.deploy("web", json!({}), "1").await;
    world.healths(WorkloadKind::Deployment, "web", Status::Healthy).await;
    let lists = world.server.requests();
    let lists =
        lists.iter().filter(|request| request.resource == "cronjobs" && request.code == 404);
    assert_eq!(lists.count(), 1, "it is not asked for again and again");
}
