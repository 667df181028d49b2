//! `render --live`: clusters, projects and credentials of the control plane.

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::PostParams;

use super::embedded::Cluster;
use super::*;

fn by_cluster(project: &str) -> Value {
    json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet",
        "metadata": {"name": "set"},
        "spec": {
            "goTemplate": true,
            "generators": [{"clusters": {"values": {"env": "{{with dig \"metadata\" (dict) .}}{{index .labels \"env\" | default \"none\"}}{{else}}none{{end}}"}}}],
            "template": {
                "metadata": {"name": "{{.name}}-{{.values.env}}"},
                "spec": {
                    "project": project,
                    "source": {"repoURL": "https://example.com/fleet", "path": "p"},
                    "destination": {"server": "{{.server}}", "namespace": "x"},
                },
            },
        },
    })
}

fn names(run: &Run) -> Vec<String> {
    let items = run.json()["items"].as_array().unwrap().clone();
    items.iter().map(|app| app["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn clusters_of_the_control_plane_are_rendered_as_060() {
    let cluster = Cluster::start().await;
    cluster.knows("default", "https://1").await;
    let secret = json!({
        "metadata": {"name": "two", "labels": {"argocd.argoproj.io/secret-type": "cluster", "env": "dev"}},
        "stringData": {"name": "two", "server": "https://2", "config": "{\"bearerToken\": \"s3cret\"}"},
    });
    let secrets: Api<Secret> = Api::namespaced(cluster.client.clone(), "argocd");
    secrets.create(&PostParams::default(), &serde_json::from_value(secret).unwrap()).await.unwrap();
    let files = folder(&[
        ("set.json", &by_cluster("default").to_string()),
        ("other.json", &by_cluster("missing").to_string()),
    ]);
    let want = ["in-cluster-none", "one-none", "two-dev"];
    let of_file = in_folder(&files, "set.json");
    let run = cluster.run(&["render", "--live", "-f", &of_file, "-o", "json"]).await;
    assert_eq!((run.code, run.err.as_str()), (0, ""), "no note about clusters");
    assert_eq!(names(&run), want);
    assert_eq!(run.json()["items"][0]["metadata"]["namespace"], "argocd", "of the kube context");

    let mut stored = by_cluster("default");
    stored["metadata"]["namespace"] = "argocd".into();
    cluster.create("ApplicationSet", stored).await;
    let run = cluster.run(&["render", "--live", "set", "-o", "json"]).await;
    assert_eq!((run.code, names(&run)), (0, want.map(str::to_owned).to_vec()), "{}", run.err);
    cluster.run(&["render", "--live"]).await.fails(2, &["name the ApplicationSet"]);
    let ran = cluster.run(&["render", "--live", "nothing"]).await;
    ran.fails(2, &["argocd/nothing", "does not exist"]);

    // Projects and clusters are checked, as the controller does (AS-180).
    let other = in_folder(&files, "other.json");
    let run = cluster.run(&["render", "--live", "-f", &other]).await;
    run.fails(1, &["application one-none", "missing"]);
    let files_only = wavegate(&["render", "-f", &of_file, "-o", "json"]);
    assert_eq!(names(&files_only), ["in-cluster-none"]);
    assert!(files_only.err.contains("only the local cluster"), "{}", files_only.err);
}

#[test]
fn render_live_needs_a_cluster() {
    let files = folder(&[("set.json", &by_cluster("default").to_string())]);
    let file = in_folder(&files, "set.json");
    wavegate(&["render", "--live", "-f", &file])
        .fails(2, &["cannot reach the cluster", "KUBECONFIG"]);
}
