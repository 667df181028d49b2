//! A rollout over two clusters: the one that the controller runs in, and another one, which
//! goes away in the middle.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::Api;
use kube::api::{ListParams, PostParams};
use kube_sim::{Server, workloads};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::support::manifests::{IN_CLUSTER, rolling, set, with_deployment};
use crate::support::{Kind, Log, Setup, World};

/// Another cluster, an embedded server. Its workloads are not simulated at first, so that
/// nothing becomes Healthy there.
struct Far {
    server: Server,
    address: SocketAddr,
    namespace: String,
    stop: CancellationToken,
    serving: JoinHandle<()>,
}

impl Far {
    async fn start(namespace: &str) -> Self {
        let server = Server::new();
        let namespaces: Api<Namespace> = Api::all(server.client_as("test"));
        let object = serde_json::from_value(json!({"metadata": {"name": namespace}})).unwrap();
        namespaces.create(&PostParams::default(), &object).await.unwrap();
        // An address of its own, so that no other test gets its port while it is away.
        static NEXT: AtomicU8 = AtomicU8::new(1);
        let own = SocketAddr::from(([127, 77, 0, NEXT.fetch_add(1, Ordering::Relaxed)], 0));
        let listener = TcpListener::bind(own).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, serving) = serve(&server, listener);
        Self { server, address, namespace: namespace.to_owned(), stop, serving }
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Ends all connections; new ones are refused.
    async fn leave(&mut self) {
        self.stop.cancel();
        (&mut self.serving).await.unwrap();
        // A process that another test is just starting has the listener, too, until it has become
        // its program.
        let until = Instant::now() + Duration::from_secs(60);
        let refused = loop {
            match tokio::net::TcpStream::connect(self.address).await {
                Err(refused) => break refused,
                Ok(_) => assert!(Instant::now() < until, "{} still listens", self.address),
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        };
        assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    }

    /// Comes back at the same address, now with workloads.
    async fn come_back(&mut self) {
        let options =
            workloads::WorkloadOptions { delay: Duration::from_millis(50), ..Default::default() };
        let client = self.server.client_as("workloads");
        let simulated = workloads::run(client, options, CancellationToken::new());
        tokio::spawn(async move { simulated.await.expect("the workloads are simulated") });
        let listener = TcpListener::bind(self.address).await.unwrap();
        (self.stop, self.serving) = serve(&self.server, listener);
    }

    async fn deployments(&self) -> Vec<String> {
        let api: Api<Deployment> = Api::namespaced(self.server.client_as("test"), &self.namespace);
        let all = api.list(&ListParams::default()).await.unwrap().items;
        all.into_iter().filter_map(|one| one.metadata.name).collect()
    }
}

fn serve(server: &Server, listener: TcpListener) -> (CancellationToken, JoinHandle<()>) {
    let (server, stop) = (server.clone(), CancellationToken::new());
    let token = stop.clone();
    (stop, tokio::spawn(async move { server.serve(listener, token).await.unwrap() }))
}

/// The phase of an Application's entry.
fn entry(set: &Value, application: &str) -> String {
    let entries = set["status"]["applicationStatus"].as_array().into_iter().flatten();
    let mut entries = entries.filter(|one| one["application"] == application);
    entries.next().and_then(|one| one["status"].as_str()).unwrap_or_default().to_owned()
}

/// The reason that the rollout waits for an Application.
fn reason(log: &Log, application: &str) -> Option<String> {
    let set = log.get(Kind::ApplicationSet, "fleet")?;
    let waits = set["status"]["rollout"]["waitingFor"].as_array()?;
    let wait = waits.iter().find(|wait| wait["application"] == application)?;
    Some(wait["reason"].as_str()?.to_owned())
}

/// Step 1 is the own cluster, step 2 the other one. While that is away, its Applications hold
/// the rollout with a reason that names it, none of them counts as Healthy, and nothing is
/// deleted; when it is back, the rollout goes on by itself.
pub async fn a_cluster_that_goes_away_holds_its_step(mut world: World) {
    let names = ["near-one", "near-two", "far-one", "far-two"];
    let files: Vec<_> =
        names.iter().flat_map(|name| with_deployment(name, "v1", "succeed")).collect();
    let revision = world.repository.commit("first", &files);
    let mut far = Far::start(&world.target).await;
    let secrets: Api<Secret> = Api::namespaced(world.client.clone(), &world.namespace);
    for (name, server) in [("near", IN_CLUSTER.to_owned()), ("far", far.url())] {
        let secret = json!({
            "metadata": {
                "name": format!("cluster-{name}"),
                "labels": {"argocd.argoproj.io/secret-type": "cluster", "where": name},
            },
            "stringData": {"name": name, "server": server, "config": "{}"},
        });
        let secret = serde_json::from_value(secret).unwrap();
        secrets.create(&PostParams::default(), &secret).await.unwrap();
    }
    let steps = rolling(&[("near", Value::Null), ("far", json!(1))]);
    let mut fleet = set(&world, "fleet", &[], &steps);
    let selector = json!({"matchExpressions": [{"key": "where", "operator": "Exists"}]});
    let parts = json!({"elements": [{"part": "one"}, {"part": "two"}]});
    fleet["spec"]["generators"] = json!([{"matrix": {"generators": [{"clusters": {"selector": selector}}, {"list": parts}]}}]);
    let template = &mut fleet["spec"]["template"];
    template["metadata"] = json!({
        "name": world.tagged("{{.name}}-{{.part}}"),
        "labels": {"env": "{{.metadata.labels.where}}"},
    });
    template["spec"]["source"]["path"] = "apps/{{.name}}-{{.part}}".into();
    template["spec"]["destination"]["server"] = "{{.server}}".into();
    // What disappears would be pruned.
    template["spec"]["syncPolicy"] = json!({"automated": {"prune": true}});
    world.create(Kind::ApplicationSet, fleet).await;
    world.start(&Setup::default()).await;

    let tagged = names.map(|name| world.tagged(name));
    let [near_one, near_two, far_one, far_two] = tagged.each_ref();
    world
        .until("the first one of the other cluster is applied and not Healthy", |log| {
            let set = log.get(Kind::ApplicationSet, "fleet")?;
            let app = log.get(Kind::Application, "far-one")?;
            let is_over = app["status"]["operationState"]["phase"] == "Succeeded";
            let is_first = entry(set, far_one) == "Progressing";
            (is_first && is_over && app["status"]["health"]["status"] == "Progressing")
                .then_some(())
        })
        .await;
    assert_eq!(far.deployments().await, ["far-one"], "maxUpdate is 1");
    world.recorder.read(|log| {
        let mut sets = log.records.iter().filter(|one| one.kind == Kind::ApplicationSet);
        let begins = sets.find(|one| entry(&one.object, far_one) == "Pending");
        let begins = begins.expect("the second step begins");
        for near in [near_one, near_two] {
            assert_eq!(entry(&begins.object, near), "Healthy", "step 1 comes first");
        }
    });

    far.leave().await;
    let left = Instant::now();
    world.refresh("far-one").await;
    let address = far.address.to_string();
    let reached = |log: &Log| reason(log, far_one).filter(|reason| reason.contains(&address));
    world.until("the reason names the cluster", reached).await;
    for arguments in [["status", "fleet"], ["explain", "fleet"]] {
        let arguments = [&arguments[..], &["-n", &world.namespace]].concat();
        let (code, out, err) = world.wavegate(&arguments).await;
        assert_eq!(code, 0, "{arguments:?}: {out}{err}");
        assert!(out.contains(&address), "{arguments:?}: {address}: {out}");
    }
    // The Applications of the own cluster are compared meanwhile, and nothing is lost of the
    // others.
    world.refresh("near-one").await;
    world.refresh("far-two").await;
    world.wait_for_reconcile("fleet").await;
    world
        .until("near-one is Healthy", |log| {
            let app = log.get(Kind::Application, "near-one")?;
            let is_refreshed =
                app["metadata"]["annotations"]["argocd.argoproj.io/refresh"].is_null();
            (is_refreshed && app["status"]["health"]["status"] == "Healthy").then_some(())
        })
        .await;
    world.recorder.read(|log| {
        let set = log.get(Kind::ApplicationSet, "fleet").unwrap();
        assert_eq!(entry(set, far_two), "Waiting", "{}", log.state());
        assert_ne!(entry(set, far_one), "Healthy", "{}", log.state());
        assert_eq!(log.all(Kind::Application).count(), 4, "{}", log.state());
    });
    assert_eq!(far.deployments().await, ["far-one"]);
    let back = Instant::now();
    far.come_back().await;

    world
        .until("all are Healthy", |log| {
            let set = log.get(Kind::ApplicationSet, "fleet")?;
            tagged.iter().all(|name| entry(set, name) == "Healthy").then_some(())
        })
        .await;
    assert_eq!(far.deployments().await, ["far-one", "far-two"]);
    world.recorder.read(|log| {
        for record in &log.records {
            let is_away = left < record.seen && record.seen < back;
            if record.kind == Kind::ApplicationSet && is_away {
                assert_ne!(entry(&record.object, far_one), "Healthy", "{}", record.object);
                assert_eq!(entry(&record.object, far_two), "Waiting", "{}", record.object);
            }
        }
        for name in names {
            let app = log.get(Kind::Application, name).unwrap();
            let synced = &app["status"]["operationState"]["syncResult"]["revision"];
            assert_eq!(*synced, revision.as_str(), "{name}");
        }
    });
    let deletes = far.server.requests().into_iter().filter(|one| one.verb.starts_with("delete"));
    let mut resources = deletes.map(|one| one.resource);
    assert_eq!(resources.next(), None, "nothing is deleted there");
    let deployments: Api<Deployment> = Api::namespaced(far.server.client_as("test"), &world.target);
    for one in ["far-one", "far-two"] {
        let generation = deployments.get(one).await.unwrap().metadata.generation;
        assert_eq!(generation, Some(1), "{one} was created once");
    }
    world.finish().await;
}
