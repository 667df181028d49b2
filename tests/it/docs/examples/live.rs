//! Examples about what happens after a rollout: each in a demo that serves its API.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use http::{Method, Request};
use k8s_openapi::api::batch::v1::Job;
use kube::core::{ApiResource, DynamicObject};
use kube::runtime::watcher::{Config, Event, watcher};
use kube::{Api, Client};
use serde_json::{Value, json};
use tempfile::TempDir;
use wavegate_cluster::watch::object::kind_resource;

use super::super::markdown::root;
use crate::support::cluster::{JSON, cluster_client, send};

const LIMIT: Duration = Duration::from_secs(180);
const PAUSE: Duration = Duration::from_millis(50);
const MERGE: &str = "application/merge-patch+json";

/// A demo of an example; ends when dropped.
pub(in crate::docs) struct Demo {
    child: Child,
    client: Client,
    kubeconfig: String,
    output: Arc<Mutex<String>>,
    /// A copy of the examples, which a test may change.
    files: TempDir,
    _temporary: TempDir,
}

impl Drop for Demo {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Demo {
    pub(in crate::docs) async fn start(name: &str, args: &[&str]) -> Self {
        let files = tempfile::tempdir().unwrap();
        super::super::session::copy(&root().join("examples"), files.path());
        let temporary = tempfile::tempdir().unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_wavegate"))
            .args(["demo", "--plain", "--listen", "127.0.0.1:0", "-f"])
            .arg(files.path().join(format!("{name}.yaml")))
            .args(args)
            .env("TMPDIR", temporary.path())
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let first = lines.next().unwrap().unwrap();
        let kubeconfig = first.strip_prefix("export KUBECONFIG=").unwrap().to_owned();
        let client = cluster_client(Path::new(&kubeconfig)).await;
        let output = Arc::new(Mutex::new(String::new()));
        let all = Arc::clone(&output);
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                *all.lock().unwrap() += &format!("{line}\n");
            }
        });
        Self { child, client, kubeconfig, output, files, _temporary: temporary }
    }

    /// Starts it, and waits until the last of its steps is complete.
    async fn complete(name: &str, steps: usize) -> Self {
        let demo = Self::start(name, &[]).await;
        demo.prints(&format!("step {steps}  complete")).await;
        demo
    }

    /// Waits for a text of the output.
    async fn prints(&self, text: &str) {
        self.until(text, async || self.output.lock().unwrap().contains(text).then_some(())).await;
    }

    pub(in crate::docs) async fn until<T>(
        &self,
        what: &str,
        mut condition: impl AsyncFnMut() -> Option<T>,
    ) -> T {
        let waiting = async {
            loop {
                if let Some(found) = condition().await {
                    return found;
                }
                tokio::time::sleep(PAUSE).await;
            }
        };
        match tokio::time::timeout(LIMIT, waiting).await {
            Ok(found) => found,
            Err(_) => panic!("not within {LIMIT:?}: {what}\n{}", self.output.lock().unwrap()),
        }
    }

    /// An object, or nothing.
    pub(in crate::docs) async fn get(&self, path: &str) -> Option<Value> {
        let request = Request::get(path).body(Vec::new()).unwrap();
        self.client.request::<Value>(request).await.ok()
    }

    pub(in crate::docs) async fn delete(&self, path: &str) {
        send(&self.client, Method::DELETE, path, JSON, &json!({})).await.unwrap();
    }

    async fn patch(&self, path: &str, patch: Value) {
        send(&self.client, Method::PATCH, path, MERGE, &patch).await.unwrap();
    }

    /// A copy of the examples, which a test may change.
    pub(in crate::docs) fn files(&self) -> &Path {
        self.files.path()
    }

    /// Runs the program as a person at another terminal; returns the exit code and all output.
    pub(in crate::docs) fn wavegate(&self, args: &[&str]) -> (i32, String) {
        let run = Command::new(env!("CARGO_BIN_EXE_wavegate"))
            .args(args)
            .env("KUBECONFIG", &self.kubeconfig)
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = [run.stdout, run.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
        (run.status.code().unwrap(), text)
    }

    /// Waits until a run matches a condition.
    pub(in crate::docs) async fn until_run(
        &self,
        name: &str,
        what: &str,
        is: impl Fn(&Value) -> bool,
    ) -> Value {
        let path = format!("/apis/wavegate.dev/v1alpha1/namespaces/argocd/rolloutruns/{name}");
        let run = async || self.get(&path).await.filter(|run| is(run));
        self.until(&format!("run {name}: {what}"), run).await
    }

    /// Waits until the set was reconciled once more.
    async fn reconcile(&self, set: &str) {
        let key = "argocd.argoproj.io/application-set-refresh";
        let path = format!("{SETS}/{set}");
        self.patch(&path, json!({"metadata": {"annotations": {key: "true"}}})).await;
        self.until("the set is reconciled", async || {
            self.get(&path).await.filter(|set| set["metadata"]["annotations"][key].is_null())
        })
        .await;
    }

    /// Waits until an Application was compared once more.
    pub(in crate::docs) async fn compare(&self, application: &str) -> Value {
        let key = "argocd.argoproj.io/refresh";
        let path = format!("{APPLICATIONS}/{application}");
        self.patch(&path, json!({"metadata": {"annotations": {key: "normal"}}})).await;
        self.until("the Application is compared", async || {
            self.get(&path).await.filter(|app| app["metadata"]["annotations"][key].is_null())
        })
        .await
    }
}

pub(in crate::docs) const SETS: &str =
    "/apis/argoproj.io/v1alpha1/namespaces/argocd/applicationsets";
pub(in crate::docs) const APPLICATIONS: &str =
    "/apis/argoproj.io/v1alpha1/namespaces/argocd/applications";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_manual_step_continues_after_a_manual_sync() {
    let demo = Demo::start("strategies/manual-step", &[]).await;
    demo.prints("Step 2 waits for a manual sync of web-qa").await;
    let options = json!({"sync": {"syncOptions": ["CreateNamespace=true"]}});
    demo.patch(&format!("{APPLICATIONS}/web-qa"), json!({ "operation": options })).await;
    demo.until("prod is rolled out", async || {
        let set = demo.get(&format!("{SETS}/manual-step")).await?;
        (set["status"]["rollout"]["progress"] == "3/3").then_some(())
    })
    .await;
    // Printed after the write that the test has just seen.
    demo.prints("step 3  complete").await;
    let output = demo.output.lock().unwrap().clone();
    super::in_order(&output, &["step 2  complete", "step 3  starts", "step 3  complete"]);
}

/// Objects of a kind as a watch reports them: names of changed ones, and of deleted ones.
async fn watched(
    demo: &Demo,
    namespace: &str,
    kind: &ApiResource,
    delete: &str,
    mut is_last: impl FnMut(&[String], &[String]) -> bool,
) -> (Vec<String>, Vec<String>) {
    let api: Api<DynamicObject> = Api::namespaced_with(demo.client.clone(), namespace, kind);
    let mut events = watcher(api, Config::default()).boxed();
    let (mut changed, mut deleted) = (Vec::new(), Vec::new());
    let watching = async {
        while !is_last(&changed, &deleted) {
            match events.next().await {
                Some(Ok(Event::InitDone)) => {
                    send(&demo.client, Method::DELETE, delete, JSON, &json!({})).await.unwrap();
                }
                Some(Ok(Event::Apply(object))) => changed.extend(object.metadata.name),
                Some(Ok(Event::Delete(object))) => deleted.extend(object.metadata.name),
                Some(_) => {}
                None => panic!("the watch ended"),
            }
        }
    };
    let ended = tokio::time::timeout(LIMIT, watching).await;
    assert!(ended.is_ok(), "not within {LIMIT:?}: {changed:?}, deleted {deleted:?}");
    (changed, deleted)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reverse_deletion_starts_with_the_last_step() {
    let demo = Demo::complete("strategies/reverse-deletion", 3).await;
    let set = format!("{SETS}/reverse-deletion");
    let kind = kind_resource("Application");
    let all = |_: &[String], deleted: &[String]| deleted.len() == 3;
    let (_, deleted) = watched(&demo, "argocd", &kind, &set, all).await;
    assert_eq!(deleted, ["web-prod", "web-qa", "web-dev"]);
    let left = demo.get("/apis/apps/v1/namespaces/web-dev/deployments/web").await;
    assert!(left.is_none(), "the resources are gone, too");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hooks_of_a_deletion_run_before_and_after_it() {
    let demo = Demo::complete("features/hooks", 2).await;
    let application = format!("{APPLICATIONS}/shop-prod");
    let kind = ApiResource::erase::<Job>(&());
    let both = |_: &[String], deleted: &[String]| deleted.iter().any(|job| job == "clean-up");
    let (jobs, _) = watched(&demo, "shop-prod", &kind, &application, both).await;
    let at = |name: &str| jobs.iter().position(|job| job == name);
    assert!(at("backup").is_some() && at("backup") < at("clean-up"), "{jobs:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ignored_differences_stay() {
    let demo = Demo::complete("features/ignore-differences", 2).await;
    let web = "/apis/apps/v1/namespaces/web-dev/deployments/web";
    demo.patch(web, json!({"spec": {"replicas": 5}})).await;
    let app = demo.compare("web-dev").await;
    assert_eq!(app["status"]["sync"]["status"], "Synced", "{app}");
    // A drift that is not ignored leads to a sync, which keeps the number.
    let service = "/api/v1/namespaces/web-dev/services/web";
    send(&demo.client, Method::DELETE, service, JSON, &json!({})).await.unwrap();
    demo.until("the Service is back", async || demo.get(service).await).await;
    assert_eq!(demo.get(web).await.unwrap()["spec"]["replicas"], 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ignored_fields_of_applications_stay() {
    let demo = Demo::complete("features/ignore-application-differences", 2).await;
    let path = format!("{APPLICATIONS}/web-prod");
    let source = json!({"targetRevision": "v1.4.2", "path": "elsewhere"});
    demo.patch(&path, json!({"spec": {"source": source}})).await;
    demo.until("the path is reverted", async || {
        demo.get(&path).await.filter(|app| app["spec"]["source"]["path"] == "web")
    })
    .await;
    demo.reconcile("ignore-application-differences").await;
    let app = demo.get(&path).await.unwrap();
    assert_eq!(app["spec"]["source"]["targetRevision"], "v1.4.2", "{app}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn preserved_fields_stay() {
    let demo = Demo::complete("features/preserved-fields", 2).await;
    let path = format!("{APPLICATIONS}/web-prod");
    let labels = json!({"team": "blue", "other": "one"});
    let annotations =
        json!({"notifications.argoproj.io/subscribe.on-sync-failed.slack": "on-call"});
    let metadata = json!({"labels": labels, "annotations": annotations});
    demo.patch(&path, json!({ "metadata": metadata })).await;
    demo.until("another label is removed", async || {
        demo.get(&path).await.filter(|app| app["metadata"]["labels"]["other"].is_null())
    })
    .await;
    demo.reconcile("preserved-fields").await;
    let app = demo.get(&path).await.unwrap();
    assert_eq!(app["metadata"]["labels"], json!({"env": "prod", "team": "blue"}), "{app}");
    assert!(app["metadata"]["annotations"].to_string().contains("on-call"), "{app}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_sync_is_retried_twice() {
    let demo = Demo::start("features/retry", &["--fail", "web-dev"]).await;
    demo.prints("Stopped in step 1").await;
    let app = demo.get(&format!("{APPLICATIONS}/web-dev")).await.unwrap();
    let state = &app["status"]["operationState"];
    assert_eq!((&state["retryCount"], &state["phase"]), (&json!(2), &json!("Failed")), "{state}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_left_the_source_is_pruned_unless_it_is_kept() {
    let demo = Demo::complete("features/prune", 2).await;
    std::fs::remove_dir_all(demo.files.path().join("manifests/prune")).unwrap();
    let service = "/api/v1/namespaces/store-prod/services/old-address";
    assert!(demo.get(service).await.is_some());
    demo.compare("store-dev").await;
    demo.compare("store-prod").await;
    demo.until("the Service is pruned", async || demo.get(service).await.is_none().then_some(()))
        .await;
    let claim = "/api/v1/namespaces/store-prod/persistentvolumeclaims/data";
    assert!(demo.get(claim).await.is_some(), "the claim is kept");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn namespaces_have_their_metadata() {
    let demo = Demo::complete("features/sync-options", 2).await;
    let namespace = demo.get("/api/v1/namespaces/web-prod").await.unwrap();
    let metadata = &namespace["metadata"];
    assert_eq!(metadata["labels"]["pod-security.kubernetes.io/enforce"], "baseline", "{metadata}");
    assert_eq!(metadata["annotations"]["contact"], "platform@example.com", "{metadata}");
}
