//! `diff` of Applications and ApplicationSets: live against source, as the controller
//! compares them.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::core::DynamicObject;
use kube_sim::{Effect, InjectedFault, RequestRecord};
use wavegate_cluster::watch::object::kind_resource;

use super::embedded::Cluster;
use super::*;
use crate::support::controller::{Setup, Task};
use crate::support::manifests::IN_CLUSTER;
use crate::support::repository::Repository;

/// How long a condition may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

/// A cluster with the Application `shop`, which was synced once, and its repository.
struct Shop {
    cluster: Cluster,
    repository: Repository,
    dir: TempDir,
}

fn file(path: &str, object: Value) -> (String, String) {
    (path.to_owned(), object.to_string())
}

fn config_map(name: &str, color: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"color": color}})
}

/// The manifests of the Application.
fn manifests(color: &str) -> Vec<(String, String)> {
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}});
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "token"}, "stringData": {"token": "from-the-source"}});
    vec![
        file("shop/settings.yaml", config_map("settings", color)),
        file("shop/service.yaml", service),
        file("shop/secret.yaml", secret),
    ]
}

impl Shop {
    async fn new() -> Self {
        let cluster = Cluster::start().await;
        let dir = tempfile::tempdir().unwrap();
        let repository = Repository::new(dir.path().join("repository"));
        repository.commit("first", &manifests("red"));
        cluster.permits("shop").await;
        let spec = json!({
            "project": "default",
            "source": {"repoURL": repository.url(), "targetRevision": "main", "path": "shop"},
            "destination": {"server": IN_CLUSTER, "namespace": "shop"},
        });
        cluster.create("Application", json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": {"name": "shop"}, "spec": spec, "operation": {"sync": {}}})).await;
        Self { cluster, repository, dir }
    }

    fn controller(&self) -> Task {
        let dir = self.dir.path().join("checkouts");
        Task::start(self.cluster.client.clone(), &Setup::default(), "argocd", &dir)
    }

    fn applications(&self) -> Api<DynamicObject> {
        let resource = kind_resource("Application");
        Api::namespaced_with(self.cluster.client.clone(), "argocd", &resource)
    }

    /// Waits until the status of the Application fits.
    async fn until(&self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let begin = Instant::now();
        loop {
            let found = self.applications().get("shop").await.unwrap();
            if fits(&found.data) {
                return found.data;
            }
            assert!(begin.elapsed() < LIMIT, "{what}: {:#}", found.data["status"]);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// With everything of its first commit in the cluster.
    async fn synced() -> Self {
        let shop = Self::new().await;
        let controller = shop.controller();
        shop.until("the sync", |app| app["status"]["sync"]["status"] == "Synced").await;
        controller.stop().await;
        shop
    }

    /// Changes one object, deletes one, adds one, and changes a Secret.
    async fn drift(&self) {
        let client = || self.cluster.client.clone();
        let maps: Api<ConfigMap> = Api::namespaced(client(), "shop");
        let blue = Patch::Merge(json!({"data": {"color": "blue"}}));
        maps.patch("settings", &PatchParams::default(), &blue).await.unwrap();
        let mut extra = config_map("extra", "green");
        extra["metadata"]["annotations"] =
            json!({"argocd.argoproj.io/tracking-id": "shop:/ConfigMap:shop/extra"});
        let extra = serde_json::from_value(extra).unwrap();
        maps.create(&PostParams::default(), &extra).await.unwrap();
        let services: Api<Service> = Api::namespaced(client(), "shop");
        services.delete("web", &DeleteParams::default()).await.unwrap();
        let secrets: Api<Secret> = Api::namespaced(client(), "shop");
        let other = Patch::Merge(json!({"stringData": {"token": "changed-by-hand"}}));
        secrets.patch("token", &PatchParams::default(), &other).await.unwrap();
    }
}

/// Kind and name of the resources in a list.
fn named(resources: &Value) -> BTreeSet<String> {
    let text = |one: &Value, field: &str| one[field].as_str().unwrap().to_owned();
    let all = resources.as_array().unwrap().iter();
    all.map(|one| format!("{}/{}", text(one, "kind"), text(one, "name"))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drift_is_the_one_that_the_controller_reports() {
    let shop = Shop::synced().await;
    let none = shop.cluster.run(&["diff", "shop"]).await;
    assert_eq!((none.code, none.err.as_str()), (0, ""), "{}", none.out);
    let start = "Application argocd/shop: no difference to revision ";
    assert!(none.out.starts_with(start) && none.out.ends_with(" in 3 resources\n"), "{}", none.out);

    shop.drift().await;
    let requests = shop.cluster.server.requests().len();
    let diff = shop.cluster.run(&["diff", "shop", "-o", "json"]).await;
    let writes = |request: &&RequestRecord| !matches!(request.verb.as_str(), "get" | "list");
    let sent = shop.cluster.server.requests().split_off(requests);
    assert_eq!(sent.iter().filter(writes).count(), 0, "it only reads: {sent:?}");
    assert_eq!((diff.code, diff.err.as_str()), (1, ""), "{}", diff.out);
    let diff = diff.json();
    let actions: Vec<[&str; 3]> = diff["resources"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| ["action", "kind", "name"].map(|field| one[field].as_str().unwrap()))
        .collect();
    let want = [
        ["prune", "ConfigMap", "extra"],
        ["update", "ConfigMap", "settings"],
        ["update", "Secret", "token"],
        ["create", "Service", "web"],
    ];
    assert_eq!(actions, want);
    let changes = &diff["resources"][1]["changes"];
    assert_eq!(*changes, json!([{"path": "/data/color", "from": "blue", "to": "red"}]));

    // The controller reports the same resources.
    let controller = shop.controller();
    let seen = |app: &Value| {
        let resources = app["status"]["resources"].as_array().into_iter().flatten();
        let out: Vec<Value> =
            resources.filter(|one| one["status"] == "OutOfSync").cloned().collect();
        named(&Value::Array(out)) == named(&diff["resources"])
    };
    shop.until("the controller reports the same resources", seen).await;
    controller.stop().await;

    let text = shop.cluster.run(&["diff", "app/shop"]).await;
    assert_eq!((text.code, text.err.as_str()), (1, ""));
    for part in [
        "==> ConfigMap shop/extra: only live, would be pruned by a sync with prune\n",
        "==> ConfigMap shop/settings: would be updated\n--- live\n+++ desired\n",
        "-    \"color\": \"blue\"\n+    \"color\": \"red\"\n",
        "==> Service shop/web: missing, would be created\n",
        "4 of 4 resources differ from revision ",
        ": 2 would be updated, 1 would be created, 1 would be pruned\n",
    ] {
        assert!(text.out.contains(part), "no {part:?} in: {}", text.out);
    }
    for secret in
        ["from-the-source", "changed-by-hand", "ZnJvbS10aGUtc291cmNl", "Y2hhbmdlZC1ieS1oYW5k"]
    {
        assert!(!text.out.contains(secret) && !diff.to_string().contains(secret), "{secret}");
    }

    // Only some resources.
    let one =
        shop.cluster.run(&["diff", "shop", "--resource", ":Service:shop/web", "-o", "json"]).await;
    assert_eq!(
        (one.code, named(&one.json()["resources"])),
        (1, BTreeSet::from(["Service/web".to_owned()]))
    );
    let unknown = ["diff", "shop", "--resource", "apps:Deployment:nobody"];
    shop.cluster
        .run(&unknown)
        .await
        .fails(2, &["--resource apps:Deployment:nobody: no resource of the Application fits"]);
    let wrong = ["diff", "shop", "--resource", "Deployment/web"];
    shop.cluster.run(&wrong).await.fails(2, &["GROUP:KIND:[NAMESPACE/]NAME"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_revision_and_a_directory_can_be_compared() {
    let shop = Shop::synced().await;
    let first = shop.until("a revision", |app| app["status"]["sync"]["revision"].is_string()).await;
    let first = first["status"]["sync"]["revision"].as_str().unwrap().to_owned();
    let second = shop.repository.commit("second", &manifests("blue"));

    // The target revision is resolved now.
    let newest = shop.cluster.run(&["diff", "shop", "-o", "json"]).await;
    assert_eq!((newest.code, &newest.json()["revisions"]), (1, &json!([second])), "{}", newest.err);
    let same = shop.cluster.run(&["diff", "shop", "--revision", &first, "-o", "json"]).await;
    assert_eq!((same.code, &same.json()["modified"]), (0, &json!(false)), "{}", same.err);
    let ran = shop.cluster.run(&["diff", "shop", "--revision", "nowhere"]).await;
    ran.fails(2, &["error: cannot compare: Application argocd/shop: ", "nowhere"]);
    let ran = shop.cluster.run(&["diff", "shop", "--revision", "a", "--revision", "b"]).await;
    ran.fails(2, &["2 given for 1 source"]);

    // A working tree is compared as it is, without a commit, even when it is a repository.
    let path = PathBuf::from(shop.repository.url());
    let map = config_map("settings", "of-the-working-tree").to_string();
    std::fs::write(path.join("shop/settings.yaml"), map).unwrap();
    let inner = path.join("shop");
    let local =
        shop.cluster.run(&["diff", "shop", "--local", inner.to_str().unwrap(), "-o", "json"]).await;
    assert_eq!(local.code, 1, "{}", local.err);
    assert_eq!(local.json()["resources"][0]["changes"][0]["to"], "of-the-working-tree");
    for gone in ["service.yaml", "secret.yaml"] {
        std::fs::remove_file(inner.join(gone)).unwrap();
    }
    std::fs::write(inner.join("settings.yaml"), config_map("settings", "red").to_string()).unwrap();
    let root =
        shop.cluster.run(&["diff", "shop", "--local", path.to_str().unwrap(), "-o", "json"]).await;
    let gone = BTreeSet::from(["Secret/token".to_owned(), "Service/web".to_owned()]);
    assert_eq!((root.code, named(&root.json()["resources"])), (1, gone), "{}", root.err);
    let ran = shop.cluster.run(&["diff", "shop", "--local", "/nonexistent"]).await;
    ran.fails(2, &["error: cannot read: --local /nonexistent: "]);
}

/// What is in effect are the manifests of the branch that they are synced from, beside an
/// engine that hydrates them; that of this program refuses (SE-029).
#[tokio::test(flavor = "multi_thread")]
async fn hydrated_manifests_are_compared_with_the_branch_that_they_are_synced_from_as_029() {
    let shop = Shop::synced().await;
    let hydrated = file("hydrated/settings.yaml", config_map("settings", "hydrated"));
    let second = shop.repository.commit_on("environments/prod", "hydrated", &[hydrated]);
    let url = shop.repository.url();
    let controller = shop.controller();
    let hydrator = json!({
        "drySource": {"repoURL": url, "targetRevision": "main", "path": "shop"},
        "syncSource": {"targetBranch": "environments/prod", "path": "hydrated"},
    });
    // With what was there before the hydrator, which has no effect.
    let left = json!([{"repoURL": url, "path": "shop"}, {"repoURL": url, "path": "nowhere"}]);
    let patch = json!({"spec": {"sourceHydrator": hydrator, "sources": left}});
    let (params, applications) = (PatchParams::default(), shop.applications());
    applications.patch("shop", &params, &Patch::Merge(&patch)).await.unwrap();
    let refused = shop
        .until("the refusal", |app| {
            let conditions = app["status"]["conditions"].to_string();
            conditions.contains("spec.sourceHydrator is not supported")
        })
        .await;
    let compared =
        json!({"repoURL": url, "targetRevision": "environments/prod", "path": "hydrated"});
    assert_eq!(refused["status"]["sync"]["comparedTo"]["source"], compared);
    assert_eq!(refused["status"]["sync"]["comparedTo"]["sources"], json!(null));
    controller.stop().await;

    let diff = shop.cluster.run(&["diff", "shop", "-o", "json"]).await;
    assert_eq!(diff.code, 1, "{}", diff.err);
    let found = diff.json();
    assert_eq!(found["revisions"], json!([second]));
    let changes =
        &found["resources"].as_array().unwrap().iter().find(|one| one["name"] == "settings");
    assert_eq!(changes.unwrap()["changes"][0]["to"], "hydrated", "{found}");
    let ran = shop.cluster.run(&["diff", "shop", "--revision", "main", "--revision", "main"]).await;
    ran.fails(2, &["2 given for 1 source"]);
    let local = PathBuf::from(&url).join("shop");
    let local = shop.cluster.run(&["diff", "shop", "--local", local.to_str().unwrap()]).await;
    assert_eq!(local.code, 0, "{}{}", local.out, local.err);
    let ran = shop.cluster.run(&["sync", "shop", "--revision", "main", "--revision", "main"]).await;
    ran.fails(2, &["2 revisions are given for 1 sources"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_compared_is_no_success() {
    let shop = Shop::synced().await;
    let forbid = |resource: &'static str| {
        InjectedFault::new(Effect::Status(403), move |request: &RequestRecord| {
            request.resource == resource && request.client != "test"
        })
        .times(100)
    };
    // What only helps is noted: the answer is the same.
    shop.cluster.server.inject(forbid("appprojects"));
    let assumed = shop.cluster.run(&["diff", "shop"]).await;
    assert_eq!(assumed.code, 0, "{}", assumed.err);
    assert!(assumed.err.contains("AppProjects of namespace argocd"), "{}", assumed.err);
    shop.cluster.server.clear_faults();
    // What is compared must be readable.
    shop.cluster.server.inject(forbid("services"));
    let unread = shop.cluster.run(&["diff", "shop"]).await;
    unread.fails(2, &["cannot compare all resources: Application argocd/shop: Service shop/web: "]);
    assert_eq!(unread.out, "", "whether something differs is not known");
    shop.cluster.server.clear_faults();

    let patch = Patch::Merge(json!({"spec": {"project": "nobody"}}));
    shop.applications().patch("shop", &PatchParams::default(), &patch).await.unwrap();
    shop.cluster.run(&["diff", "shop"]).await.fails(
        2,
        &["error: cannot compare: Application argocd/shop: Application referencing project nobody which does not exist in the control plane argocd; select another one with --control-plane-namespace"],
    );
    let destination = json!({"server": "https://elsewhere", "namespace": "shop"});
    let patch = Patch::Merge(json!({"spec": {"project": "default", "destination": destination}}));
    shop.applications().patch("shop", &PatchParams::default(), &patch).await.unwrap();
    let ran = shop.cluster.run(&["diff", "shop"]).await;
    ran.fails(2, &["there are no clusters with this server: https://elsewhere"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_is_compared_with_its_applications() {
    let cluster = Cluster::start().await;
    cluster.knows("default", "https://1").await;
    let mut object: Value = serde_json::from_str(&set(&["a", "b"], json!([{}]))).unwrap();
    object["metadata"]["namespace"] = "argocd".into();
    let created = cluster.create("ApplicationSet", object.clone()).await;
    let owner = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet", "name": "set", "uid": created.metadata.uid, "controller": true, "blockOwnerDeletion": true});
    for (name, revision) in [("a", "https://old"), ("z", "https://r"), ("set", "https://r")] {
        let mut metadata = json!({"name": name, "labels": {"app": name}, "finalizers": ["resources-finalizer.argocd.argoproj.io"]});
        if name != "set" {
            metadata["ownerReferences"] = json!([owner]);
        }
        let spec = json!({"project": "default", "destination": {"server": "https://1"}, "source": {"repoURL": revision}});
        cluster.create("Application", json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": metadata, "spec": spec})).await;
    }
    let diff = cluster.run(&["diff", "appset/set"]).await;
    assert_eq!((diff.code, diff.err.as_str()), (1, ""), "{}", diff.out);
    for part in [
        "==> Application argocd/a: would be updated\n--- live\n+++ desired\n",
        "-      \"repoURL\": \"https://old\"\n+      \"repoURL\": \"https://r\"\n",
        "==> Application argocd/b: would be created\n",
        "==> Application argocd/z: would be deleted\n",
        "ApplicationSet argocd/set: 3 of 3 Applications differ: 1 would be created, 1 would be updated, 1 would be deleted\n",
    ] {
        assert!(diff.out.contains(part), "no {part:?} in: {}", diff.out);
    }
    assert!(!diff.out.contains("resourceVersion") && !diff.out.contains("\"uid\": \"\""));
    let json = cluster.run(&["diff", "set", "--appset", "-o", "json"]).await.json();
    assert_eq!(
        json["applications"][0]["changes"][0],
        json!({"path": "/spec/source/repoURL", "from": "https://old", "to": "https://r"})
    );
    // An Application has the same name, and comes first.
    let both = cluster.run(&["diff", "set"]).await;
    assert!(both.err.contains("note: set is an Application and an ApplicationSet"), "{}", both.err);
    assert!(both.err.contains("Application argocd/set"), "{}", both.err);

    // A changed file.
    let changed = folder(&[("set.json", &set(&["a", "z"], json!([{}])))]);
    let diff =
        cluster.run(&["diff", "-f", &in_folder(&changed, "set.json"), "-o", "json"]).await.json();
    let change: Vec<[&str; 2]> = diff["applications"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| ["application", "change"].map(|field| one[field].as_str().unwrap()))
        .collect();
    assert_eq!(change, [["a", "update"]]);

    cluster.run(&["diff", "nobody"]).await.fails(
        2,
        &["error: cannot find: argocd/nobody: there is neither an Application nor an ApplicationSet"],
    );
    cluster.run(&["diff", "pod/a"]).await.fails(2, &["is none of app and appset"]);
    let ran = cluster.run(&["diff", "appset/set", "--local", "."]).await;
    ran.fails(2, &["--local is for Applications"]);
    cluster.run(&["diff", "app/a", "--appset"]).await.fails(2, &["names an Application"]);
    cluster.run(&["diff"]).await.fails(2, &["APP|APPSET"]);
    cluster.run(&["diff", "--desired", "a"]).await.fails(2, &["--live"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_without_a_difference_exits_with_0() {
    let cluster = Cluster::start().await;
    cluster.knows("default", "https://1").await;
    let mut object: Value = serde_json::from_str(&set(&[], json!([{}]))).unwrap();
    object["metadata"]["namespace"] = "argocd".into();
    cluster.create("ApplicationSet", object).await;
    let diff = cluster.run(&["diff", "set"]).await;
    assert_eq!(
        (diff.code, diff.out.as_str()),
        (0, "ApplicationSet argocd/set: no difference in 0 Applications\n"),
        "{}",
        diff.err
    );
}

/// SE-150, SE-158: `diff` shows what the API server predicts where the Application asks for it, by
/// dry runs that change nothing; a refused one is an error that names the object.
#[tokio::test(flavor = "multi_thread")]
async fn a_difference_is_predicted_by_the_server_se_150_se_158() {
    let shop = Shop::synced().await;
    let options = "argocd.argoproj.io/compare-options";
    let patch = json!({"metadata": {"annotations": { options: "ServerSideDiff=true" }}});
    let params = PatchParams::default();
    shop.applications().patch("shop", &params, &Patch::Merge(patch)).await.unwrap();
    let server = shop.cluster.server.clone();
    let dry_runs = || {
        let all = server.requests().into_iter().filter(|request| request.dry_run);
        all.map(|request| request.name).collect::<BTreeSet<String>>()
    };
    let none = shop.cluster.run(&["diff", "shop"]).await;
    assert_eq!(none.code, 0, "{}{}", none.out, none.err);
    assert_eq!(dry_runs().into_iter().collect::<Vec<_>>(), ["settings", "token", "web"]);
    shop.drift().await;
    let diff = shop.cluster.run(&["diff", "shop", "-o", "json"]).await;
    assert_eq!(diff.code, 1, "{}{}", diff.out, diff.err);
    let diff = diff.json();
    assert_eq!(
        named(&diff["resources"]),
        BTreeSet::from(
            ["ConfigMap/extra", "ConfigMap/settings", "Secret/token", "Service/web"]
                .map(str::to_owned)
        )
    );
    assert!(!diff.to_string().contains("changed-by-hand"));
    let maps: Api<ConfigMap> = Api::namespaced(shop.cluster.client.clone(), "shop");
    let data = maps.get("settings").await.unwrap().data.unwrap();
    assert_eq!(data["color"], "blue", "nothing is changed");
    let refused = |request: &RequestRecord| request.dry_run && request.name == "settings";
    shop.cluster.server.inject(InjectedFault::new(Effect::Status(403), refused).times(usize::MAX));
    let diff = shop.cluster.run(&["diff", "shop"]).await;
    let all = format!("{}{}", diff.out, diff.err);
    assert!(all.contains("error calculating server side diff: ConfigMap/settings: "), "{all}");
    assert_ne!(diff.code, 0, "{all}");
}
