//! The page for a team on a real API server: its tokens, its RBAC, and the role of the page as it is in
//! `deploy/` (PG-003, PG-020).

use std::path::Path;

use http::Method;
use kube::Client;

use super::in_cluster::TeamPage;
use super::*;
use crate::support;
use crate::support::cluster::{JSON, cluster_client, send};
use crate::support::recorder::Kind;

/// The objects of a file under `deploy/`.
fn objects(file: &str) -> Vec<Value> {
    let text =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy").join(file));
    let documents = wavegate_api::yaml::parse_documents(&text.unwrap()).unwrap();
    documents.into_iter().map(|document| document.value).filter(Value::is_object).collect()
}

async fn create(client: &Client, path: &str, object: &Value) {
    match send(client, Method::POST, path, JSON, object).await {
        Err(kube::Error::Api(status)) if status.code == 409 => {}
        answer => drop(answer.unwrap()),
    }
}

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// A service account with a role of people in its namespace, or none, and a token of it.
async fn account(client: &Client, namespace: &str, name: &str, role: Option<&str>) -> String {
    let accounts = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
    create(client, &accounts, &json!({"metadata": {"name": name}})).await;
    if let Some(role) = role {
        bind(
            client,
            namespace,
            role,
            &json!({"kind": "ServiceAccount", "name": name, "namespace": namespace}),
        )
        .await;
    }
    let path = format!("{accounts}/{name}/token");
    let wanted = json!({"spec": {"expirationSeconds": 3600}});
    let token = send(client, Method::POST, &path, JSON, &wanted).await.unwrap();
    token["status"]["token"].as_str().unwrap().to_owned()
}

async fn bind(client: &Client, namespace: &str, role: &str, subject: &Value) {
    let name = subject["name"].as_str().unwrap();
    let binding = json!({"metadata": {"name": name}, "subjects": [subject],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}});
    create(client, &format!("{RBAC}/namespaces/{namespace}/rolebindings"), &binding).await;
}

/// A kubeconfig for the same server, with these credentials.
fn kubeconfig(admin: &Path, user: &Value) -> TempDir {
    let text = std::fs::read_to_string(admin).unwrap();
    let mut config = wavegate_api::yaml::parse_value(&text).unwrap();
    config["users"][0]["user"] = user.clone();
    folder(&[("config", &config.to_string())])
}

mod cluster {
    use super::*;

    /// PG-003, PG-020, PG-022: tokens of the API server sign people in as far as its roles permit, and
    /// are refused once it refuses them.
    #[tokio::test(flavor = "multi_thread")]
    async fn pg_003_pg_020_a_token_of_the_api_server_is_its_person() {
        let Some(world) = support::World::cluster("page-token").await else { return };
        let (client, namespace) = (&world.client, world.namespace.as_str());
        for role in objects("roles.yaml") {
            create(client, &format!("{RBAC}/clusterroles"), &role).await;
        }
        let ann = account(client, namespace, "ann", Some("wavegate-operator")).await;
        let vic = account(client, namespace, "vic", Some("wavegate-viewer")).await;
        let none = account(client, namespace, "none", None).await;
        let mut object: Value = serde_json::from_str(&set(&["a"], json!([{}]))).unwrap();
        object["metadata"] = json!({"name": "shop", "namespace": namespace});
        create(client, &Kind::ApplicationSet.path(namespace), &object).await;

        // It has no credentials of its own at all.
        let admin = std::env::var_os(support::cluster::KUBECONFIG).unwrap();
        let config = kubeconfig(Path::new(&admin), &json!({}));
        let namespaces = format!("--namespaces={namespace}");
        let args = ["--sign-in=token", &namespaces, "--check-every=1"];
        let page = TeamPage::with(&config.path().join("config"), &args).await;
        let set = format!("/set/{namespace}/shop");
        let read = async |token: &str, path: &str| {
            page.with_token(token, &format!("GET {path}"), &[], "").await
        };
        until("ann sees her set", async || read(&ann, &set).await.body.contains("/act/pause"))
            .await;
        let name = format!("system:serviceaccount:{namespace}:ann");
        says(&read(&ann, "/").await.body, &name);
        until("vic sees it", async || read(&vic, &set).await.body.contains("disabled")).await;
        let shown = read(&vic, &set).await.body;
        says(&shown, format!("you may not patch ApplicationSets in namespace {namespace}"));
        assert!(!shown.contains("/act/"), "{shown}");
        // A server that is busy does not answer each sign-in in time.
        let why = "may list ApplicationSets in none of the namespaces";
        until("none sees nothing", async || read(&none, "/").await.body.contains(why)).await;
        assert_eq!(read(&none, &set).await.status, 404);
        let wrong = format!("{ann}x");
        until("a wrong token is refused", async || read(&wrong, "/").await.status == 401).await;

        let form =
            page.with_token(&ann, &format!("GET /act/pause?set={namespace}/shop"), &[], "").await;
        let cookie = form.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
        let word = form.body.split("name=\"word\" value=\"").nth(1).unwrap();
        let word = word.split('"').next().unwrap();
        let body = format!("word={word}&set={namespace}%2Fshop&reason=freeze");
        let headers = [("Cookie", &*cookie), ("Origin", "https://rollouts.example.org")];
        let done = page.with_token(&ann, "POST /act/pause", &headers, &body).await;
        says(&done.body, "done: ");
        let path = format!("{}/shop", Kind::ApplicationSet.path(namespace));
        let paused = send(client, Method::GET, &path, JSON, &Value::Null).await.unwrap();
        assert_eq!(paused["metadata"]["annotations"]["wavegate.dev/paused-by"], *name, "{paused}");

        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/ann");
        send(client, Method::DELETE, &path, JSON, &json!({})).await.unwrap();
        until("her token is refused", async || read(&ann, "/").await.status == 401).await;
        until("vic goes on", async || read(&vic, "/").await.status == 200).await;
        world.finish().await;
    }

    /// PG-003: with the role of `deploy/dashboard-headers/`, the page acts as whom its proxy names, and
    /// may do nothing by itself.
    #[tokio::test(flavor = "multi_thread")]
    async fn pg_003_the_role_of_the_page_impersonates_and_does_nothing_else() {
        let Some(world) = support::World::cluster("page-headers").await else { return };
        let (client, namespace) = (&world.client, world.namespace.as_str());
        for role in objects("roles.yaml") {
            create(client, &format!("{RBAC}/clusterroles"), &role).await;
        }
        let token = account(client, namespace, "wavegate-dashboard", None).await;
        for mut object in objects("dashboard-headers/impersonation.yaml") {
            let is_role = object["kind"] == "ClusterRole";
            let plural = if is_role { "clusterroles" } else { "clusterrolebindings" };
            if !is_role {
                object["metadata"]["name"] = format!("wavegate-dashboard-{namespace}").into();
                object["subjects"][0]["namespace"] = namespace.into();
            }
            create(client, &format!("{RBAC}/{plural}"), &object).await;
        }
        let team = json!({"kind": "Group", "name": "dev", "apiGroup": "rbac.authorization.k8s.io"});
        bind(client, namespace, "wavegate-viewer", &team).await;
        let mut object: Value = serde_json::from_str(&set(&["a"], json!([{}]))).unwrap();
        object["metadata"] = json!({"name": "shop", "namespace": namespace});
        create(client, &Kind::ApplicationSet.path(namespace), &object).await;

        let admin = std::env::var_os(support::cluster::KUBECONFIG).unwrap();
        let config = kubeconfig(Path::new(&admin), &json!({"token": token}));
        let own = cluster_client(&config.path().join("config")).await;
        for path in [
            Kind::ApplicationSet.path(namespace),
            format!("/api/v1/namespaces/{namespace}/secrets"),
        ] {
            let refused = send(&own, Method::GET, &path, JSON, &Value::Null).await.unwrap_err();
            assert!(
                matches!(&refused, kube::Error::Api(status) if status.code == 403),
                "{refused}"
            );
        }
        let namespaces = format!("--namespaces={namespace}");
        let page =
            TeamPage::with(&config.path().join("config"), &["--sign-in=headers", &namespaces])
                .await;
        until("ann sees the set of her team", async || {
            page.named("ann", "dev", "GET /").await.body.contains("shop")
        })
        .await;
        says(&page.named("ann", "dev", "GET /").await.body, "ann · ");
        let other = page.named("bob", "other", "GET /").await.body;
        says(&other, "bob may list ApplicationSets in none of the namespaces");
        world.finish().await;
    }
}
