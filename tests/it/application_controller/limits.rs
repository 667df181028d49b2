//! Limits that a user sets on clusters and kinds: cluster Secrets (SE-433, K-08), excluded
//! kinds (SE-120), disabled clusters. What lies outside of them is neither read nor written.

use tokio::net::TcpListener;
use wavegate_controller::config::{Config, Flags};

use super::*;

/// A cluster of its own, reached over HTTP.
pub(super) struct Far {
    pub(super) server: Server,
    pub(super) address: String,
}

impl Far {
    pub(super) async fn start(namespaces: &[&str]) -> Self {
        let server = Server::new();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let serving = server.clone();
        tokio::spawn(async move { serving.serve(listener, CancellationToken::new()).await });
        let api = Api::all(server.client_as("test"));
        for name in namespaces {
            let namespace: k8s_openapi::api::core::v1::Namespace =
                serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
            api.create(&PostParams::default(), &namespace).await.unwrap();
        }
        Self { server, address }
    }

    /// Refuses what its credentials may not do: everything outside of namespaces but
    /// discovery, and one namespace.
    fn permits_only(&self, namespace: &'static str) {
        let outside = move |request: &RequestRecord| {
            request.client == "wavegate"
                && !request.resource.starts_with('/')
                && request.namespace != namespace
                && !(request.resource == "namespaces" && request.name == namespace)
        };
        self.server.inject(InjectedFault::new(Effect::Status(403), outside).times(usize::MAX));
    }

    pub(super) async fn has(&self, kind: &str, namespace: &str, name: &str) -> bool {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", kind));
        let client = self.server.client_as("test");
        let api: Api<DynamicObject> = match namespace {
            "" => Api::all_with(client, &resource),
            namespace => Api::namespaced_with(client, namespace, &resource),
        };
        api.get_opt(name).await.unwrap().is_some()
    }
}

impl World {
    pub(super) async fn cluster(&self, name: &str, fields: Value, annotations: Value) {
        let mut data = json!({"name": name});
        data.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let secret = json!({
            "metadata": {
                "name": name, "namespace": NAMESPACE, "annotations": annotations,
                "labels": {"argocd.argoproj.io/secret-type": "cluster"},
            },
            "stringData": data,
        });
        self.create("v1", "Secret", &secret).await;
    }

    /// An automated Application in the cluster of this name.
    pub(super) async fn deploy(&self, name: &str, path: &str, cluster: &str) {
        let mut app = self.application(name, path);
        app["spec"]["destination"] = json!({"name": cluster, "namespace": "web"});
        app["spec"]["syncPolicy"] = json!({"automated": {"prune": true}});
        self.create_app(&app).await;
    }

    /// Waits for a condition with this text; nothing of the Application has been synced.
    pub(super) async fn refused(&self, name: &str, type_: &str, text: &str) -> Value {
        let app = self.until(name, "refused", |app| condition(app, type_, text)).await;
        assert_eq!(app["status"]["sync"]["status"], "Unknown", "{app}");
        assert!(phase(&app).is_empty(), "{app}");
        app
    }

    /// Requests a sync, which must fail with this text.
    pub(super) async fn sync_fails(&self, name: &str, text: &str) {
        self.sync(name, json!({})).await;
        let ended = |app: &Value| matches!(phase(app), "Failed" | "Error");
        let app = self.until(name, "failed", ended).await;
        assert!(message(&app).contains(text), "{app}");
    }
}

fn namespace(name: &str) -> String {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}).to_string()
}

fn in_namespace(name: &str, namespace: &str) -> String {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"value": "1"},
        "metadata": {"name": name, "namespace": namespace},
    })
    .to_string()
}

/// The settings of these keys of `argocd-cm`.
pub(super) fn settings(keys: &[(&str, &str)]) -> ApplicationSettings {
    let keys = keys.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned())).collect();
    Config::resolve(Flags::default(), &|_| None, &keys).unwrap().applications
}

/// SE-433, K-08: its credentials may only act in one namespace, and its URL has a query.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_limited_to_namespaces_is_read_and_written_only_there_as_se_433() {
    let world = World::start().await;
    let far = Far::start(&["web", "other"]).await;
    far.permits_only("web");
    let server = format!("{}?user=limited", far.address);
    let fields = json!({"server": server, "namespaces": "web, "});
    world.cluster("far", fields, json!({})).await;
    world.write("in/one.json", &config_map("one", "1", &[]));
    world.write("out/two.json", &in_namespace("two", "other"));
    world.commit_file("top/three.json", &namespace("three"));
    world.deploy("in", "in", "far").await;
    world.deploy("out", "out", "far").await;
    world.deploy("top", "top", "far").await;
    world.until_good("in").await;
    let text = "namespace \"other\" for ConfigMap \"two\" is not managed";
    world.refused("out", "ComparisonError", &format!("Failed to load live state: {text}")).await;
    world.sync_fails("out", text).await;
    let text = "cluster level Namespace \"three\" can not be managed when in namespaced mode";
    world.refused("top", "ComparisonError", &format!("Failed to load live state: {text}")).await;
    world.sync_fails("top", text).await;
    assert!(far.has("ConfigMap", "web", "one").await);
    assert!(
        !far.has("ConfigMap", "other", "two").await && !far.has("Namespace", "", "three").await
    );
    let outside = far.server.requests().into_iter().find(|request| {
        request.client == "wavegate"
            && !request.resource.starts_with('/')
            && request.namespace.is_empty()
    });
    assert_eq!(outside, None, "nothing is asked outside of namespaces");
}

/// SE-433: `clusterResources` permits what is outside of namespaces, and a limit that is set
/// later leaves what was deployed before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cluster_resources_are_managed_only_where_the_secret_permits_as_se_433() {
    let world = World::start().await;
    let far = Far::start(&["web"]).await;
    let fields = json!({"server": far.address, "namespaces": "web", "clusterResources": "true"});
    world.cluster("far", fields, json!({})).await;
    world.write("app/one.json", &config_map("one", "1", &[]));
    world.commit_file("app/top.json", &namespace("top"));
    world.deploy("app", "app", "far").await;
    world.until_good("app").await;
    assert!(far.has("Namespace", "", "top").await);

    let patch = json!({"stringData": {"clusterResources": "false"}});
    world.patch_object(("v1", "Secret"), NAMESPACE, "far", patch).await;
    let text = "cluster level Namespace \"top\" can not be managed when in namespaced mode";
    world.until("app", "refused", |app| condition(app, "ComparisonError", text)).await;
    world.remove("app/top.json");
    world.commit();
    world.refresh("app").await;
    world.until("app", "compared", |app| is(app, "Synced", "Healthy")).await;
    assert!(far.has("Namespace", "", "top").await, "it is not pruned");
}

/// SE-433: the limits of the controller's own cluster hold under each of its names.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_limits_of_the_own_cluster_hold_under_each_of_its_names() {
    let world = World::start().await;
    let fields = json!({"server": "https://kubernetes.default.svc/", "namespaces": "spare"});
    world.cluster("home", fields, json!({})).await;
    // It is known by then.
    world.rest().await;
    world.commit_file("app/one.json", &config_map("one", "1", &[]));
    let text = "namespace \"web\" for ConfigMap \"one\" is not managed";
    for name in ["home", "in-cluster"] {
        world.deploy(name, "app", name).await;
        world.refused(name, "ComparisonError", text).await;
    }
    world.create_app(&world.application("url", "app")).await;
    world.refused("url", "ComparisonError", text).await;
    assert!(world.get("v1", "ConfigMap", "web", "one").await.is_null());
}

/// SE-380: the annotation on the Secret of a cluster counts for all its Applications.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_applications_of_a_skipped_cluster_are_not_reconciled() {
    let world = World::start().await;
    let far = Far::start(&["web"]).await;
    let skip = json!({"argocd.argoproj.io/skip-reconcile": "true"});
    world.cluster("far", json!({"server": far.address}), skip).await;
    // It is known by then.
    world.rest().await;
    world.write("app/one.json", &config_map("one", "1", &[]));
    world.commit_file("two/two.json", &config_map("two", "1", &[]));
    world.deploy("app", "app", "far").await;
    let mut by_url = world.application("by-url", "two");
    by_url["spec"]["destination"]["server"] = format!("{}/", far.address).into();
    world.create_app(&by_url).await;
    world.sync("by-url", json!({})).await;
    world.create_app(&world.application("other", "app")).await;
    world.until("other", "compared", |app| is(app, "OutOfSync", "Missing")).await;
    world.rest().await;
    assert!(world.app("app").await["status"].is_null());
    assert!(world.app("by-url").await["status"].is_null());

    let none = json!({"metadata": {"annotations": {"argocd.argoproj.io/skip-reconcile": null}}});
    world.patch_object(("v1", "Secret"), NAMESPACE, "far", none).await;
    world.until("app", "synced", |app| is(app, "Synced", "Healthy")).await;
    world.until("by-url", "synced", |app| settled(app) && phase(app) == "Succeeded").await;
}

/// SE-120: an excluded kind is not deployed, not pruned, not watched, and reported.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn excluded_kinds_are_reported_and_never_touched_as_se_120() {
    let mut world = World::start().await;
    world.write("app/one.json", &config_map("one", "1", &[]));
    world.write("app/two.json", &deployment("two", &[]));
    world.commit_file("app/three.json", &deployment("three", &[]));
    world.deploy("app", "app", "in-cluster").await;
    world.until_good("app").await;

    world.crash().await;
    let exclusions = "[{apiGroups: [app*], kinds: [Deployment], clusters: [\"*\"]}]";
    let keys = [("resource.exclusions", exclusions)];
    let excluded = settings(&keys);
    world.settings.resource_filter = excluded.resource_filter;
    world.remove("app/two.json");
    world.commit_file("app/three.json", &deployment("three", &[("note", "new")]));
    world.server.forget_requests();
    world.run();
    world.refresh("app").await;
    let text = "Resource apps/Deployment three is excluded in the settings";
    let app =
        world.until("app", "reported", |app| condition(app, "ExcludedResourceWarning", text)).await;
    assert!(is(&app, "Synced", "Healthy"), "{app}");
    assert_eq!(app["status"]["resources"].as_array().unwrap().len(), 1, "{app}");
    world.sync("app", json!({"prune": true})).await;
    world.until("app", "synced", |app| settled(app) && phase(app) == "Succeeded").await;
    world.rest().await;
    let two = world.get("apps/v1", "Deployment", "web", "two").await;
    assert!(two["metadata"]["uid"].is_string() && two["metadata"]["deletionTimestamp"].is_null());
    let three = world.get("apps/v1", "Deployment", "web", "three").await;
    assert!(three["metadata"]["annotations"]["note"].is_null(), "{three}");
    let asked = world.server.requests().into_iter();
    let asked: Vec<_> =
        asked.filter(|r| r.client == CONTROLLER && r.resource == "deployments").collect();
    assert!(asked.is_empty(), "{asked:?}");
}

/// SE-120: with inclusions, other kinds are not managed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_included_kinds_are_deployed_as_se_120() {
    let inclusions = "- apiGroups: ['']\n  kinds: [ConfigMap]\n";
    let world = World::with(settings(&[("resource.inclusions", inclusions)])).await;
    world.write("app/one.json", &config_map("one", "1", &[]));
    world.commit_file("app/two.json", &deployment("two", &[]));
    world.deploy("app", "app", "in-cluster").await;
    let app = world.until_good("app").await;
    let text = "Resource apps/Deployment two is excluded in the settings";
    assert!(condition(&app, "ExcludedResourceWarning", text), "{app}");
    assert!(world.get("apps/v1", "Deployment", "web", "two").await.is_null());
}

/// A guard that is not understood is refused, on every Application, and names its key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_that_is_not_understood_refuses_every_application() {
    for (key, text) in [
        ("resource.exclusions", "[{kind: [Secret]}]"),
        ("resource.inclusions", "- ["),
        ("cluster.inClusterEnabled", "nope"),
        ("globalProjects", "- labelSelectors: {}\n  projectName: strict\n"),
        ("globalProjects", "- ["),
    ] {
        let world = World::with(settings(&[(key, text)])).await;
        world.commit_file("app/one.json", &config_map("one", "1", &[]));
        world.deploy("app", "app", "in-cluster").await;
        world.refused("app", "InvalidSpecError", &format!("{key} of ConfigMap argocd-cm")).await;
        world.sync_fails("app", key).await;
        assert!(world.get("v1", "ConfigMap", "web", "one").await.is_null(), "{key}");
    }
}

/// With `cluster.inClusterEnabled: "false"`, Applications may not use the own cluster.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disabled_own_cluster_is_refused_under_each_of_its_names() {
    let world = World::with(settings(&[("cluster.inClusterEnabled", "false")])).await;
    world.commit_file("app/one.json", &config_map("one", "1", &[]));
    world.deploy("by-name", "app", "in-cluster").await;
    world.create_app(&world.application("by-url", "app")).await;
    let text = "cluster \"https://kubernetes.default.svc\" is disabled";
    for name in ["by-name", "by-url"] {
        let app = world.refused(name, "InvalidSpecError", text).await;
        assert_eq!(app["status"]["health"]["status"], "Unknown", "{app}");
    }
}

/// What was deployed where the Secret of the cluster permits nothing any more is known from the
/// status only: it says so, and the deletion waits instead of forgetting it (SE-433).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_narrowed_cluster_holds_the_deletion_of_what_is_outside_as_se_433() {
    let world = World::start().await;
    let far = Far::start(&["web", "other"]).await;
    let fields = json!({"server": far.address, "namespaces": "web,other"});
    world.cluster("far", fields, json!({})).await;
    world.write("app/one.json", &config_map("one", "1", &[]));
    world.commit_file("app/two.json", &in_namespace("two", "other"));
    world.deploy("app", "app", "far").await;
    world.until_good("app").await;
    let narrow = |to: &str| json!({"stringData": {"namespaces": to}});
    world.patch_object(("v1", "Secret"), NAMESPACE, "far", narrow("web")).await;
    let refused = "namespace \"other\" for ConfigMap \"two\" is not managed";
    world.until("app", "refused", |app| condition(app, "ComparisonError", refused)).await;

    // It is not forgotten when the source has it no more, nor by further comparisons.
    world.remove("app/two.json");
    world.commit();
    let text = "the Secret of the cluster far does not permit to manage objects that this \
                application has deployed: ConfigMap other/two";
    for _ in 0..2 {
        world.refresh("app").await;
        let told = |app: &Value| {
            is(app, "Synced", "Healthy") && condition(app, "ExcludedResourceWarning", text)
        };
        let app = world.until("app", "told", told).await;
        assert_eq!(row(&app, "two")["status"], "Unknown", "{app}");
    }
    world.patch("app", json!({"metadata": {"finalizers": [CASCADE]}})).await;
    world.delete_app("app").await;
    world.until("app", "held", |app| condition(app, "DeletionWarning", text)).await;
    assert!(!far.has("ConfigMap", "web", "one").await);
    assert!(far.has("ConfigMap", "other", "two").await);

    world.patch_object(("v1", "Secret"), NAMESPACE, "far", narrow("web,other")).await;
    world.ask_refresh("app").await;
    world.until("app", "gone", Value::is_null).await;
    assert!(!far.has("ConfigMap", "other", "two").await);
}
