//! What Secrets of clusters say together and one by one: names and servers that occur twice,
//! changes while others wait, and mistakes.

use super::limits::Far;
use super::*;

impl World {
    /// Changes the Secret of a cluster.
    async fn patch_cluster(&self, name: &str, patch: Value) {
        let secrets = self.api("v1", "Secret", NAMESPACE);
        secrets.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }
}

/// A name that two Secrets have means neither of them: nothing is deployed, nothing is deleted
/// and no deletion is given up, until it is unique.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_of_two_clusters_means_neither() {
    let world = World::start().await;
    let (first, second) = (Far::start(&["web"]).await, Far::start(&["web"]).await);
    world.cluster("a", json!({"name": "far", "server": first.address}), json!({})).await;
    world.cluster("b", json!({"name": "other", "server": second.address}), json!({})).await;
    world.write("app/one.json", &config_map("one", "1", &[]));
    world.commit_file("new/two.json", &config_map("two", "1", &[]));
    world.deploy("app", "app", "far").await;
    world.patch("app", json!({"metadata": {"finalizers": [CASCADE]}})).await;
    world.until_good("app").await;

    world.patch_cluster("b", json!({"stringData": {"name": "far"}})).await;
    let text = "spec.destination.name: there are 2 clusters with the same name: the Secrets \
                argocd/a, argocd/b; give each of them its own name";
    world.deploy("new", "new", "far").await;
    world.refused("new", "InvalidSpecError", text).await;
    world.until("app", "refused", |app| condition(app, "InvalidSpecError", text)).await;
    world
        .api("argoproj.io/v1alpha1", "Application", NAMESPACE)
        .delete("app", &DeleteParams::default())
        .await
        .unwrap();
    let held = |app: &Value| condition(app, "DeletionError", "with the same name");
    world.until("app", "held", held).await;
    assert!(first.has("ConfigMap", "web", "one").await);
    assert!(!first.has("ConfigMap", "web", "two").await);
    // By its URL, a cluster is unique.
    let mut by_url = world.application("by-url", "new");
    by_url["spec"]["destination"]["server"] = second.address.clone().into();
    by_url["spec"]["syncPolicy"] = json!({"automated": {}});
    world.create_until_good(&by_url).await;
    assert!(second.has("ConfigMap", "web", "two").await);

    world.patch_cluster("b", json!({"stringData": {"name": "other"}})).await;
    world.until("app", "gone", Value::is_null).await;
    assert!(!first.has("ConfigMap", "web", "one").await);
    world.until_good("new").await;
    assert!(first.has("ConfigMap", "web", "two").await);
}

impl Far {
    /// How often the controller began to watch ConfigMaps: once for each connection.
    fn watches(&self) -> usize {
        let all = self.server.requests().into_iter().filter(|request| {
            request.client == "wavegate"
                && request.verb == "watch"
                && request.resource == "configmaps"
        });
        all.count()
    }

    /// Waits until the controller has begun to watch them so often.
    async fn until_watches(&self, count: usize) {
        until("ConfigMaps are watched", async || self.watches() >= count).await;
    }
}

impl World {
    /// Waits until an Application is good, without a comparison that failed before.
    async fn until_good_at_once(&self, name: &str) {
        let is_good = |app: &Value| {
            assert!(!condition(app, "ComparisonError", ""), "{app}");
            settled(app) && is(app, "Synced", "Healthy")
        };
        self.until(name, "synced", is_good).await;
    }
}

/// Two names of one cluster share its connection, and one with other limits has its own: none
/// ends the connection of another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_names_of_one_cluster_work_side_by_side() {
    let world = World::start().await;
    let far = Far::start(&["web", "other"]).await;
    world.cluster("far", json!({"server": far.address}), json!({})).await;
    world.cluster("alias", json!({"server": format!("{}/", far.address)}), json!({})).await;
    let limited = json!({"server": far.address, "namespaces": "web"});
    world.cluster("limited", limited, json!({})).await;
    for (path, name) in [("a", "one"), ("b", "two"), ("c", "three"), ("d", "four")] {
        world.write(&format!("{path}/{name}.json"), &config_map(name, "1", &[]));
    }
    let mut outside: Value = serde_json::from_str(&config_map("five", "1", &[])).unwrap();
    outside["metadata"]["namespace"] = "other".into();
    world.commit_file("out/five.json", &outside.to_string());
    world.deploy("app-a", "a", "far").await;
    world.deploy("app-b", "b", "alias").await;
    let mut by_url = world.application("app-c", "c");
    by_url["spec"]["destination"]["server"] = far.address.clone().into();
    by_url["spec"]["syncPolicy"] = json!({"automated": {}});
    world.create_app(&by_url).await;
    let shared = ["app-a", "app-b", "app-c"];
    for name in shared {
        world.until_good_at_once(name).await;
    }
    far.until_watches(1).await;
    assert_eq!(far.watches(), 1, "they share one connection");
    // Each name has the limits of its own Secret.
    world.deploy("limited", "d", "limited").await;
    world.until_good_at_once("limited").await;
    world.deploy("out", "out", "limited").await;
    let text = "namespace \"other\" for ConfigMap \"five\" is not managed";
    world.refused("out", "ComparisonError", text).await;
    for name in shared.into_iter().chain(["limited"]) {
        world.refresh(name).await;
        world.until_good_at_once(name).await;
    }
    far.until_watches(2).await;
    assert_eq!(far.watches(), 2, "none has ended the connection of another");
    // One name goes, the other stays.
    let secrets = world.api("v1", "Secret", NAMESPACE);
    secrets.delete("alias", &DeleteParams::default()).await.unwrap();
    let text = "there are no clusters with this name: alias";
    world.until("app-b", "refused", |app| condition(app, "InvalidSpecError", text)).await;
    for name in ["app-a", "app-c"] {
        world.refresh(name).await;
        world.until_good_at_once(name).await;
    }
    assert_eq!(far.watches(), 2, "it still has its connection");
}

/// The Secret of a cluster changes while its Applications wait for a listing that never ends: they
/// go on with the new connection at once, without an error, and so does an operation.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_for_a_cluster_goes_on_when_its_secret_changes() {
    let world = World::start().await;
    let (silent, far) = (Far::start(&["web"]).await, Far::start(&["web"]).await);
    let lists = |request: &RequestRecord| {
        request.client == "wavegate"
            && request.verb == "list"
            && matches!(&*request.resource, "configmaps" | "deployments")
    };
    silent.server.inject(InjectedFault::new(Effect::Hang, lists).times(usize::MAX));
    world.cluster("far", json!({"server": silent.address}), json!({})).await;
    world.write("app/one.json", &config_map("one", "1", &[]));
    world.commit_file("two/two.json", &deployment("two", &[]));
    world.deploy("app", "app", "far").await;
    let mut two = world.application("two", "two");
    two["spec"]["destination"] = json!({"name": "far", "namespace": "web"});
    two["operation"] = json!({"sync": {}});
    world.create_app(&two).await;
    let is_asked = |resource: &str| {
        let all = silent.server.requests();
        all.iter().any(|request| lists(request) && request.resource == resource)
    };
    until("both are listed", async || is_asked("configmaps") && is_asked("deployments")).await;
    world.patch_cluster("far", json!({"stringData": {"server": far.address}})).await;
    world.until_good_at_once("app").await;
    let done = |app: &Value| {
        assert!(!condition(app, "ComparisonError", ""), "{app}");
        assert!(!message(app).contains("cannot list"), "{app}");
        phase(app) == "Succeeded"
    };
    world.until("two", "synced", done).await;
    assert!(far.has("ConfigMap", "web", "one").await);
    assert!(!silent.has("ConfigMap", "web", "one").await);
}

/// A name, a label or an annotation of a cluster Secret ends no connection; CA-509: the refresh
/// of Argo CD's web page does, so that everything is listed again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_a_refresh_lists_a_cluster_again_as_ca_509() {
    let world = World::start().await;
    let far = Far::start(&["web"]).await;
    world.cluster("far", json!({"server": far.address}), json!({"team": "a"})).await;
    world.write("app/one.json", &config_map("one", "1", &[]));
    world.commit_file("two/two.json", &config_map("two", "1", &[]));
    world.deploy("app", "app", "far").await;
    world.until_good_at_once("app").await;
    let changed = json!({
        "metadata": {"annotations": {"team": "b"}, "labels": {"zone": "1"}},
        "stringData": {"name": "renamed", "project": "default"},
    });
    world.patch_cluster("far", changed).await;
    world.deploy("two", "two", "renamed").await;
    world.until_good_at_once("two").await;
    far.until_watches(1).await;
    assert_eq!(far.watches(), 1, "the connection is still the same");
    let refresh = json!({"metadata": {"annotations": {
        "argocd.argoproj.io/refresh": "2026-01-01T00:00:00Z",
    }}});
    world.patch_cluster("far", refresh).await;
    // Everything is listed again.
    far.until_watches(2).await;
    world.refresh("two").await;
    world.until_good_at_once("two").await;
    assert_eq!(far.watches(), 2);
}

/// A value of the wrong type in the Secret of a cluster is an error of its Applications, which
/// names the field and not the value; other clusters go on, and so does this one when it is
/// mended. As in Argo CD, the case of a name does not count.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_type_in_a_cluster_secret_is_an_error_of_its_applications() {
    let world = World::start().await;
    let far = Far::start(&["web"]).await;
    world.commit_file("app/one.json", &config_map("one", "1", &[]));
    let tls = "config.tlsClientConfig";
    for (number, (config, want)) in [
        (json!({"tlsClientConfig": {"insecure": "false"}}), format!("{tls}.insecure is not true")),
        (json!({"tlsClientConfig": {"caData": 7}}), format!("{tls}.caData is not a string")),
        (json!({"tlsClientConfig": "s3cr3t"}), format!("{tls} is not an object")),
        (json!({"disableCompression": "true"}), "config.disableCompression is not true".into()),
        (json!({"bearerToken": {"s3cr3t": 1}}), "config.bearerToken is not a string".into()),
        (json!({"awsAuthConfig": {"clusterName": 1}}), "clusterName is not a string".into()),
        (json!({"execProviderConfig": ["s3cr3t"]}), "config.execProviderConfig is not an".into()),
        (
            json!({"PASSWORD": 3, "proxyurl": 4}),
            "config.password is not a string, config.pr".into(),
        ),
        (json!(["s3cr3t"]), "config is not a JSON object".into()),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("wrong-{number}");
        let fields = json!({"server": far.address, "config": config.to_string()});
        world.cluster(&name, fields, json!({})).await;
        world.deploy(&name, "app", &name).await;
        let text = format!("secret argocd/{name} of cluster {}: ", far.address);
        let app = world.refused(&name, "InvalidSpecError", &text).await;
        let said = &app["status"]["conditions"];
        assert!(said.to_string().contains(&want) && !said.to_string().contains("s3cr3t"), "{said}");
    }
    let fields = json!({"server": far.address, "namespaces": "web", "clusterResources": "yes"});
    world.cluster("scope", fields, json!({})).await;
    world.deploy("scope", "app", "scope").await;
    world.refused("scope", "InvalidSpecError", "clusterResources is not true or false").await;
    assert!(!far.has("ConfigMap", "web", "one").await);

    let mended = json!({"DisableCompression": true, "tlsClientConfig": null, "username": null});
    let mended = json!({"stringData": {"config": mended.to_string()}});
    world.patch_cluster("wrong-0", mended).await;
    world.until_good("wrong-0").await;
    assert!(far.has("ConfigMap", "web", "one").await);
}

/// A Secret may give the own cluster a name and credentials. Its address is one inside of the
/// cluster: a controller outside of it deploys there by its own kubeconfig (K-25).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_of_the_own_cluster_is_reached_from_outside() {
    let world = World::start().await;
    let server = "https://kubernetes.default.svc";
    let config = json!({"bearerToken": "of-a-service-account"}).to_string();
    world.cluster("near", json!({"server": server, "config": config}), json!({})).await;
    world.write("app/one.json", &config_map("one", "1", &[]));
    world.commit_file("new/two.json", &config_map("two", "1", &[]));
    world.deploy("app", "app", "near").await;
    world.until_good("app").await;
    let mut by_url = world.application("new", "new");
    by_url["spec"]["destination"]["server"] = server.into();
    by_url["spec"]["syncPolicy"] = json!({"automated": {}});
    world.create_until_good(&by_url).await;
    // Nothing is held when it goes.
    world.patch("app", json!({"metadata": {"finalizers": [CASCADE]}})).await;
    let apps = world.api("argoproj.io/v1alpha1", "Application", NAMESPACE);
    apps.delete("app", &DeleteParams::default()).await.unwrap();
    world.until("app", "gone", Value::is_null).await;
}
