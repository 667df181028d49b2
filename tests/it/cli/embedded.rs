//! Commands that read from a cluster, with the embedded API server over HTTP.

use kube::api::{Patch, PatchParams, PostParams};
use kube::core::DynamicObject;
use kube::{Api, Client};
use kube_sim::Server;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use wavegate_api::crds;
use wavegate_cluster::watch::object::kind_resource;

use super::*;

/// The embedded API server, its kubeconfig, and a client.
pub(super) struct Cluster {
    pub server: Server,
    /// Its name is `test`.
    pub client: Client,
    files: TempDir,
    stop: CancellationToken,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Cluster {
    pub async fn start() -> Self {
        let server = Server::new();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let kubeconfig = server.kubeconfig(listener.local_addr().unwrap());
        let kubeconfig = kubeconfig.replace("namespace: default", "namespace: argocd");
        let stop = CancellationToken::new();
        let (serving, until) = (server.clone(), stop.clone());
        tokio::spawn(async move { serving.serve(listener, until).await });
        let client = server.client_as("test");
        for crd in crds::all_definitions() {
            Api::all(client.clone()).create(&PostParams::default(), &crd).await.unwrap();
        }
        let namespace = serde_json::from_value(json!({"metadata": {"name": "argocd"}})).unwrap();
        let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(client.clone());
        namespaces.create(&PostParams::default(), &namespace).await.unwrap();
        Self { server, client, files: folder(&[("config", &kubeconfig)]), stop }
    }

    pub async fn create(&self, kind: &str, mut object: Value) -> DynamicObject {
        if object["kind"].is_null() {
            object["apiVersion"] = "argoproj.io/v1alpha1".into();
            object["kind"] = kind.into();
        }
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        self.api(kind).create(&PostParams::default(), &object).await.unwrap()
    }

    /// Objects of a kind in the namespace of the control plane.
    pub fn api(&self, kind: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), "argocd", &kind_resource(kind))
    }

    pub async fn patch_status(&self, kind: &str, name: &str, patch: &Value) {
        let patch = Patch::Merge(patch);
        self.api(kind).patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Creates a ConfigMap in the namespace of the control plane.
    pub async fn create_map(&self, object: Value) {
        let maps: Api<k8s_openapi::api::core::v1::ConfigMap> =
            Api::namespaced(self.client.clone(), "argocd");
        let object = serde_json::from_value(object).unwrap();
        maps.create(&PostParams::default(), &object).await.unwrap();
    }

    /// With a set `set` of these names, and its Applications, which have this repository and
    /// these finalizers.
    pub async fn with_set(
        names: &[&str],
        applications: &[&str],
        repository: &str,
        finalizers: &[&str],
    ) -> Self {
        let cluster = Self::start().await;
        cluster.knows("default", "https://1").await;
        let mut object: Value = serde_json::from_str(&set(names, json!([{}]))).unwrap();
        object["metadata"]["namespace"] = "argocd".into();
        let created = cluster.create("ApplicationSet", object).await;
        let owner = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet", "name": "set", "uid": created.metadata.uid, "controller": true, "blockOwnerDeletion": true});
        for name in applications {
            let metadata = json!({"name": name, "labels": {"app": name}, "ownerReferences": [owner], "finalizers": finalizers});
            let spec = json!({"project": "default", "destination": {"server": "https://1"}, "source": {"repoURL": repository}});
            cluster.create("Application", json!({"metadata": metadata, "spec": spec})).await;
        }
        cluster
    }

    /// Adds a project and a destination cluster.
    pub async fn knows(&self, project: &str, server: &str) {
        self.create("AppProject", json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject", "metadata": {"name": project}, "spec": {}})).await;
        let secret = json!({
            "metadata": {"name": "one", "labels": {"argocd.argoproj.io/secret-type": "cluster"}},
            "stringData": {"name": "one", "server": server},
        });
        let secrets: Api<k8s_openapi::api::core::v1::Secret> =
            Api::namespaced(self.client.clone(), "argocd");
        let secret = serde_json::from_value(secret).unwrap();
        secrets.create(&PostParams::default(), &secret).await.unwrap();
    }

    /// Adds a project that permits everything, and a namespace to deploy to.
    pub async fn permits(&self, namespace: &str) {
        let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(self.client.clone());
        let object = serde_json::from_value(json!({"metadata": {"name": namespace}})).unwrap();
        namespaces.create(&PostParams::default(), &object).await.unwrap();
        let everything =
            json!({"sourceRepos": ["*"], "destinations": [{"server": "*", "namespace": "*"}]});
        self.create("AppProject", json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject", "metadata": {"name": "default"}, "spec": everything})).await;
    }

    /// Adds settings of the control plane.
    pub async fn sets(&self, data: Value) {
        let object = json!({"metadata": {"name": "argocd-cmd-params-cm"}, "data": data});
        self.create_map(object).await;
    }

    /// Path of the kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.files.path().join("config")
    }

    /// Runs the program with the kubeconfig.
    pub async fn run(&self, args: &[&str]) -> Run {
        self.run_with(args, &[]).await
    }

    /// The same with variables of the environment.
    pub async fn run_with(&self, args: &[&str], variables: &[(&str, &str)]) -> Run {
        let mut command = program(args);
        command.envs(variables.iter().copied());
        command.env("KUBECONFIG", self.files.path().join("config"));
        tokio::task::spawn_blocking(move || finish(command, b"")).await.unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollout_is_shown_explained_and_compared() {
    let cluster = Cluster::start().await;
    let steps = json!([selects(&["a", "b"], json!(1)), selects(&["c"], Value::Null)]);
    let mut object: Value = serde_json::from_str(&set(&["a", "b", "c"], steps)).unwrap();
    object["metadata"]["namespace"] = "argocd".into();
    let created = cluster.create("ApplicationSet", object.clone()).await;
    cluster.knows("default", "https://1").await;

    let fresh = cluster.run(&["explain", "set"]).await;
    assert_eq!(
        (fresh.code, fresh.out.lines().next()),
        (
            0,
            Some(
                "set does not roll out: no controller has reconciled it yet; check that a controller is running and watches its namespace"
            )
        )
    );

    let owner = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet", "name": "set", "uid": created.metadata.uid, "controller": true, "blockOwnerDeletion": true});
    let application = |name: &str, revision: &str, status: Value| {
        let metadata = json!({
            "name": name, "labels": {"app": name}, "ownerReferences": [owner],
            "finalizers": ["resources-finalizer.argocd.argoproj.io"],
        });
        let spec = json!({"project": "default", "destination": {"server": "https://1"}, "source": {"repoURL": revision}});
        json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": metadata, "spec": spec, "status": status})
    };
    let web = json!({"group": "apps", "kind": "Deployment", "namespace": "shop", "name": "web", "health": {"status": "Degraded", "message": "image pull failed"}});
    let ill =
        json!({"sync": {"status": "Synced"}, "health": {"status": "Degraded"}, "resources": [web]});
    cluster.create("Application", application("a", "https://r", ill)).await;
    cluster.create("Application", application("b", "https://old", json!({}))).await;
    cluster.create("Application", application("z", "https://r", json!({}))).await;
    let entry = |name: &str, phase: &str, step: &str| json!({"application": name, "status": phase, "step": step, "message": "m", "targetRevisions": [], "lastTransitionTime": "2026-01-02T03:04:05Z"});
    let status = json!({"status": {
        "rollout": {"step": 1, "steps": 2, "progress": "0/3", "message": "step 1 of 2: 0 of 2", "waitingFor": [{"application": "a", "reason": "Deployment shop/web is Degraded: image pull failed", "since": "2026-01-02T03:04:05Z"}]},
        "applicationStatus": [entry("a", "Progressing", "1"), entry("b", "Waiting", "1")],
    }});
    cluster.patch_status("ApplicationSet", "set", &status).await;

    let explained = cluster.run(&["explain", "set"]).await;
    let age = gotime::age::age_since("2026-01-02T03:04:05Z", jiff::Timestamp::now());
    let want = [
        "set waits in step 1 of 2: a: Deployment shop/web is Degraded: image pull failed (and 1 more)",
        "",
        "APPLICATION STEP PHASE SYNC HEALTH FOR LEFT WAITS FOR",
        &format!(
            "a 1 Progressing Synced Degraded {age} - Deployment shop/web is Degraded: image pull failed"
        ),
        "… 1 more of them: --all shows them",
        "",
        "What to do:",
        "a: kubectl -n shop describe deployment.apps web",
        "a: a commit that fixes the cause is rolled out by itself",
    ];
    let squeezed: Vec<String> = (explained.out.lines())
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    // Its destination cannot be reached: the rest is explained.
    let unread = "note: not explained down to Pods: Deployment shop/web: ";
    assert!(explained.code == 0 && explained.err.starts_with(unread), "{}", explained.err);
    assert_eq!(squeezed, want);

    let listed = cluster.run(&["status", "-A"]).await;
    let want = "\
NAMESPACE   APPSET   STRATEGY      STEP   DONE   HEALTH   MESSAGE
argocd      set      RollingSync   1/2    0/3    -        step 1 of 2: 0 of 2
";
    assert_eq!((listed.code, listed.out.as_str()), (0, want));
    let one = cluster.run(&["status", "set", "-o", "json"]).await.json();
    assert_eq!(
        one["applications"][0],
        json!({"application": "a", "step": 1, "phase": "Progressing", "sync": "Synced", "health": "Degraded", "operation": "", "since": "2026-01-02T03:04:05Z", "message": "Deployment shop/web is Degraded: image pull failed"})
    );

    let plan = cluster.run(&["plan", "--live", "set", "-o", "json"]).await;
    assert_eq!(
        (plan.code, &plan.json()["steps"][0]["batches"]),
        (0, &json!([["a"], ["b"]])),
        "{}",
        plan.err
    );
    let changes = |plan: &Run| -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        plan.json()["live"]
            .as_array()
            .unwrap()
            .iter()
            .map(|live| (text(&live["application"]), text(&live["change"])))
            .collect()
    };
    let want = [("a", "none"), ("b", "update"), ("c", "create"), ("z", "delete")]
        .map(|(name, change)| (name.to_owned(), change.to_owned()));
    assert_eq!(changes(&plan), want);
    // The file is compared with the set of the same name in the context's namespace.
    let files = folder(&[("set.json", &set(&["a"], json!([{}])))]);
    let plan =
        cluster.run(&["plan", "--live", "-f", &in_folder(&files, "set.json"), "-o", "json"]).await;
    let want = [("a", "none"), ("b", "delete"), ("z", "delete")]
        .map(|(name, change)| (name.to_owned(), change.to_owned()));
    assert_eq!(changes(&plan), want);

    let ran = cluster.run(&["explain", "nobody"]).await;
    ran.fails(2, &["error: cannot find: ApplicationSet argocd/nobody: it does not exist"]);
    let empty = cluster.run(&["status", "-n", "default"]).await;
    assert_eq!(
        (empty.code, empty.out.as_str()),
        (
            0,
            "No ApplicationSets found in namespace default; namespaces with ApplicationSets: argocd (use -n, or -A for all).\n"
        )
    );
}
