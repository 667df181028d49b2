//! `wavegate doctor`: what would go wrong in a cluster.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use kube_sim::{Effect, InjectedFault, RequestRecord};

use super::embedded::Cluster;
use super::*;

const DOCTOR: [&str; 3] = ["doctor", "-n", "argocd"];

/// A controller that is ready, and has these arguments.
async fn install(cluster: &Cluster, arguments: &[&str]) {
    let api: Api<Deployment> = Api::namespaced(cluster.client.clone(), "argocd");
    let labels = json!({"app.kubernetes.io/name": "wavegate"});
    let pod = json!({
        "serviceAccountName": "wavegate",
        "containers": [{"name": "wavegate", "image": "wavegate", "args": arguments}],
    });
    let object = json!({
        "metadata": {"name": "wavegate", "labels": labels},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    });
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    let ready = json!({"status": {"replicas": 1, "readyReplicas": 1}});
    api.patch_status("wavegate", &PatchParams::default(), &Patch::Merge(&ready)).await.unwrap();
}

async fn secret(cluster: &Cluster, name: &str, data: Value) {
    let api: Api<Secret> = Api::namespaced(cluster.client.clone(), "argocd");
    let labels = json!({"argocd.argoproj.io/secret-type": "cluster"});
    let object = json!({"metadata": {"name": name, "labels": labels}, "stringData": data});
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
}

fn writes(cluster: &Cluster) -> Vec<RequestRecord> {
    let harmless = |request: &RequestRecord| {
        request.client == "test"
            || ["get", "list", "watch"].contains(&request.verb.as_str())
            || request.resource == "subjectaccessreviews"
    };
    cluster.server.requests().into_iter().filter(|request| !harmless(request)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_in_order_has_nothing_to_say() {
    let cluster = Cluster::start().await;
    cluster.permits("web").await;
    let run = cluster.run(&DOCTOR).await;
    assert_eq!(run.code, 0, "{}{}", run.out, run.err);
    says(&run.out, "hint     namespace argocd: no Deployment with label");
    says(&run.out, "\n1 hint\n");

    install(&cluster, &["run", "--enable-progressive-syncs"]).await;
    let run = cluster.run(&DOCTOR).await;
    assert_eq!((run.code, run.out.trim()), (0, "nothing found that would go wrong"));
    assert_eq!(cluster.run(&[&DOCTOR[..], &["-o", "json"]].concat()).await.json(), json!([]));
    assert!(writes(&cluster).is_empty(), "{:?}", writes(&cluster));
    let reviews = cluster.server.requests();
    let reviews = reviews.iter().filter(|one| one.resource == "subjectaccessreviews").count();
    assert!(reviews > 40, "the rights of the ServiceAccount were asked for: {reviews}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_would_go_wrong_is_said_with_what_to_do() {
    let cluster = Cluster::start().await;
    cluster.permits("web").await;
    install(&cluster, &["run", "--enable-leader-election", "--enable-progressive-syncs=false"])
        .await;
    cluster.sets(json!({"applicationsetcontroller.polcy": "sync"})).await;
    secret(&cluster, "no-server", json!({"name": "one", "config": "{\"bearerToken\": t0ps3cret}"}))
        .await;
    let stateful = json!({
        "metadata": {"name": "syncs", "labels": {
            "app.kubernetes.io/part-of": "argocd",
            "app.kubernetes.io/component": "application-controller",
        }},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "serviceName": "a", "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "a", "image": "a"}]},
        }},
    });
    let api: Api<k8s_openapi::api::apps::v1::StatefulSet> =
        Api::namespaced(cluster.client.clone(), "argocd");
    api.create(&PostParams::default(), &serde_json::from_value(stateful).unwrap()).await.unwrap();
    let window = json!([{"kind": "allow", "schedule": "* * *", "duration": "1h"}]);
    let project = json!({"metadata": {"name": "windows"}, "spec": {"syncWindows": window}});
    cluster.create("AppProject", project).await;
    let steps = json!([selects(&["a"], Value::Null)]);
    let fleet: Value = serde_json::from_str(&set(&["a"], steps)).unwrap();
    cluster.create("ApplicationSet", fleet).await;
    let policy = json!({"apiVersion": "wavegate.dev/v1alpha1", "kind": "RolloutPolicy", "metadata": {"name": "slow"}, "spec": {}});
    cluster.create("RolloutPolicy", policy).await;

    let run = cluster.run(&DOCTOR).await;
    assert_eq!(run.code, 3, "{}{}", run.out, run.err);
    for line in [
        "error    namespace argocd: StatefulSet argocd/syncs of Argo CD syncs the Applications here; leave that to it with --sync-engine=external",
        "error    Lease argocd/58ac56fa.applicationsets.argoproj.io: nothing holds it: no replica leads",
        "error    Secret argocd/no-server: it has no server",
        "error    Secret argocd/no-server: config is not JSON",
        "error    ApplicationSet argocd/set: its steps have no effect, since RollingSync is not enabled",
        "warning  settings: ",
        "applicationsetcontroller.polcy",
        "warning  AppProject argocd/windows: ",
        "warning  RolloutPolicy argocd/slow: no controller has read it yet",
    ] {
        says(&run.out, line);
    }
    assert!(!format!("{}{}", run.out, run.err).contains("t0ps3cret"), "{}{}", run.out, run.err);
    let found = cluster.run(&[&DOCTOR[..], &["-o", "json"]].concat()).await;
    assert_eq!(found.code, 3);
    let found = found.json();
    assert_eq!(found[0]["severity"], "error", "{found:#}");
    let lines = found.as_array().unwrap().len();
    assert_eq!(run.out.lines().count(), lines + 2, "one line each, and the sum: {}", run.out);
    assert!(writes(&cluster).is_empty(), "{:?}", writes(&cluster));
}

/// A definition of an older Argo CD drops the steps, so that everything changes at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_definition_that_drops_the_steps_is_an_error() {
    let cluster = Cluster::start().await;
    let api: Api<CustomResourceDefinition> = Api::all(cluster.client.clone());
    let name = "applicationsets.argoproj.io";
    let mut definition = serde_json::to_value(api.get(name).await.unwrap()).unwrap();
    let schema = &mut definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    schema["properties"]["spec"]["properties"].as_object_mut().unwrap().remove("strategy");
    let definition = serde_json::from_value(definition).unwrap();
    api.replace(name, &PostParams::default(), &definition).await.unwrap();
    let run = cluster.run(&DOCTOR).await;
    assert_eq!(run.code, 3, "{}{}", run.out, run.err);
    says(
        &run.out,
        "error    CustomResourceDefinition applicationsets.argoproj.io: it does not know spec.strategy",
    );
    says(&run.out, "wavegate crds");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_read_is_said_and_the_rest_is_checked() {
    let cluster = Cluster::start().await;
    cluster.permits("web").await;
    secret(&cluster, "one", json!({})).await;
    let refused = |request: &RequestRecord| {
        ["secrets", "appprojects", "customresourcedefinitions", "configmaps"]
            .contains(&request.resource.as_str())
            // Sets of all namespaces; those of the control plane may be read.
            || request.resource == "applicationsets" && request.namespace.is_empty()
    };
    cluster.server.inject(InjectedFault::new(Effect::Forbidden, refused).times(usize::MAX));
    let run = cluster.run(&DOCTOR).await;
    assert_eq!(run.code, 1, "what is not checked may be wrong: {}{}", run.out, run.err);
    for part in
        ["Secrets of clusters", "AppProjects of namespace argocd", "ConfigMap argocd/argocd-cm"]
    {
        says(&run.out, format!("warning  not checked: cannot read from the cluster: {part}"));
    }
    assert!(!run.out.contains("ApplicationSets of all namespaces"), "{}", run.out);

    // Nothing answers.
    cluster.server.inject(InjectedFault::new(Effect::Drop, |_| true).times(usize::MAX));
    let run = cluster.run(&DOCTOR).await;
    assert_eq!(run.code, 2, "{}{}", run.out, run.err);
    run.fails(2, &["cannot read from the cluster"]);
}
