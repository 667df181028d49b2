//! `kubectl` as a newcomer uses it: the same commands on the embedded server and on a
//! real one, which print the same.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::Path;
use std::time::Duration;

use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client};
use kube_sim::{Server, workloads};
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::support::cluster::random;
use crate::support::kubectl::{Line, Shell, commands, is_installed, session};

/// The embedded server with its workloads, as `demo --listen` serves it.
struct Embedded {
    client: Client,
    folder: tempfile::TempDir,
    stop: CancellationToken,
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Embedded {
    async fn start() -> Self {
        let server = Server::new();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = server.kubeconfig(listener.local_addr().unwrap());
        std::fs::write(folder.path().join("kubeconfig"), kubeconfig).unwrap();
        let (client, stop) = (server.client_as("test"), CancellationToken::new());
        let options = workloads::WorkloadOptions {
            delay: Duration::from_millis(50),
            pods: true,
            ..workloads::WorkloadOptions::default()
        };
        let simulated = workloads::run(server.client_as("workloads"), options, stop.clone());
        tokio::spawn(async move { simulated.await.expect("the workloads are simulated") });
        let until = stop.clone();
        tokio::spawn(async move { server.serve(listener, until).await });
        Self { client, folder, stop }
    }

    fn kubeconfig(&self) -> std::path::PathBuf {
        self.folder.path().join("kubeconfig")
    }
}

/// Runs commands in a new namespace.
async fn in_namespace<T: Send + 'static>(
    client: &Client,
    kubeconfig: &Path,
    run: impl FnOnce(&Shell) -> T + Send + 'static,
) -> T {
    let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(client.clone());
    let namespace = format!("kubectl-{:08x}", random());
    let object = serde_json::from_value(json!({ "metadata": { "name": namespace } })).unwrap();
    namespaces.create(&PostParams::default(), &object).await.unwrap();
    let (kubeconfig, name) = (kubeconfig.to_owned(), namespace.clone());
    let ran = tokio::task::spawn_blocking(move || run(&Shell::new(&kubeconfig, &name)));
    let ran = ran.await;
    namespaces.delete(&namespace, &DeleteParams::default()).await.unwrap();
    ran.unwrap()
}

/// Runs the whole table; `real` leaves out what such a server lacks.
async fn prints_what_is_wanted(client: &Client, kubeconfig: &Path, real: bool) {
    let wrong = in_namespace(client, kubeconfig, move |shell| {
        let mut wrong = Vec::new();
        for Line { command, prints, lacking } in commands() {
            if let Some(why) = lacking.filter(|_| real) {
                eprintln!("skipped on a real API server: {command}: {why}");
                continue;
            }
            let (printed, is_wanted) = shell.prints(command, &prints);
            if !is_wanted {
                wrong.push(format!("$ {command}\n{printed}\nwanted:\n{}", prints.join("\nor:\n")));
            }
        }
        wrong
    });
    let wrong = wrong.await;
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_print_on_the_embedded_server_what_they_print_on_a_cluster() {
    if is_installed() {
        let server = Embedded::start().await;
        prints_what_is_wanted(&server.client, &server.kubeconfig(), false).await;
    }
}

mod cluster {
    use super::*;
    use crate::support::cluster::{KUBECONFIG, cluster_client, prepare_cluster};

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn commands_print_on_a_cluster_what_they_print_on_the_embedded_server() {
        match std::env::var_os(KUBECONFIG).filter(|path| !path.is_empty()) {
            Some(path) if is_installed() => {
                let path = Path::new(&path);
                // Its Pods need somebody who says that they run.
                prepare_cluster(path);
                let client = cluster_client(path).await;
                prints_what_is_wanted(&client, path, true).await;
            }
            Some(_) => {}
            None => eprintln!("skipped on a real API server: {KUBECONFIG} names no kubeconfig"),
        }
    }
}

/// Workloads beyond Deployments, and words for what cannot be.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stateful_sets_daemon_sets_and_failures_have_pods_revisions_and_logs() {
    if !is_installed() {
        return;
    }
    const OBJECTS: &str = "
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  replicas: 2
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: db, image: 'example.com/db:1'}]}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec: {containers: [{name: agent, image: 'example.com/agent:1'}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: bad, annotations: {simulate.wavegate.dev/outcome: fail}}
spec:
  selector: {matchLabels: {app: bad}}
  template:
    metadata: {labels: {app: bad}}
    spec: {containers: [{name: bad, image: 'example.com/bad:1'}, {name: side, image: 'example.com/side:1'}]}
";
    // After the annotation is gone, the Pods are mended without a change: they recover.
    const SESSION: &str = r#"$ kubectl rollout status statefulset db --timeout=60s
...
*complete*
$ kubectl rollout status daemonset agent --timeout=60s
...
*successfully rolled out
$ kubectl wait pod db-0 db-1 --for=condition=Ready --timeout=60s
pod/db-0 condition met
pod/db-1 condition met
$ kubectl get pvc -o name
persistentvolumeclaim/data-db-0
persistentvolumeclaim/data-db-1
$ kubectl set image statefulset/db db=example.com/db:2
*image updated
$ kubectl wait pod db-1 --for=jsonpath='{.spec.containers[0].image}'=example.com/db:2 --timeout=60s
pod/db-1 condition met
$ kubectl rollout history statefulset db
statefulset.apps/db
REVISION CHANGE-CAUSE
1 <none>
2 <none>
$ kubectl rollout undo statefulset db
statefulset.apps/db rolled back
$ kubectl wait pod db-0 --for=jsonpath='{.spec.containers[0].image}'=example.com/db:1 --timeout=60s
pod/db-0 condition met
$ kubectl scale statefulset db --replicas=1
*scaled
$ kubectl wait pod db-1 --for=delete --timeout=60s
...
$ kubectl get pods -l app=db -o name
pod/db-0
$ kubectl wait deployment bad --for=condition=Progressing=false --timeout=60s
deployment.apps/bad condition met
$ kubectl wait pod -l app=bad --for=jsonpath='{.status.containerStatuses[0].state.waiting.reason}'=CrashLoopBackOff --timeout=60s
pod/bad-* condition met
$ kubectl get pods -l app=bad
...
bad-*-* 0/2 CrashLoopBackOff 2* *s
$ kubectl logs deployment/bad -c side -f
simulation: image example.com/side:1 is started, though nothing runs
simulation: fails, as it was asked to, exit code 1
$ kubectl logs deployment/bad -c main
error: container main is not valid for pod bad-*
$ kubectl annotate deployment bad simulate.wavegate.dev/outcome-
*annotated
$ kubectl wait pod -l app=bad --for=condition=Ready --timeout=60s
pod/bad-* condition met"#;
    let server = Embedded::start().await;
    in_namespace(&server.client, &server.kubeconfig(), |shell| {
        let prints = |command: &str, wanted: &[&str]| {
            let (printed, is_wanted) = shell.prints(command, wanted);
            assert!(is_wanted, "$ {command}\n{printed}\nwanted:\n{}", wanted.join("\nor:\n"));
        };
        let created =
            "statefulset.apps/db created\ndaemonset.apps/agent created\ndeployment.apps/bad created";
        prints(&format!("kubectl apply -f - <<'EOF'\n{OBJECTS}\nEOF"), &[created]);
        for Line { command, prints: wanted, .. } in session(SESSION) {
            prints(command, &wanted);
        }
    })
    .await;
}
