//! Guards of projects and settings that cannot be enforced refuse the Applications that
//! they protect (SE-080); what only reports or changes a judgement is reported.

use super::limits::settings;
use super::*;

pub(super) fn conditions<'a>(app: &'a Value, type_: &str) -> Vec<&'a str> {
    let all = app["status"]["conditions"].as_array();
    let all = all.into_iter().flatten().filter(|one| one["type"] == type_);
    all.filter_map(|one| one["message"].as_str()).collect()
}

impl World {
    pub(super) async fn patch_project(&self, spec: Value) {
        let api = self.api("argoproj.io/v1alpha1", "AppProject", NAMESPACE);
        let patch = Patch::Merge(json!({ "spec": spec }));
        api.patch("default", &PatchParams::default(), &patch).await.unwrap();
    }

    pub(super) async fn has_map(&self, name: &str) -> bool {
        !self.get("v1", "ConfigMap", "web", name).await.is_null()
    }
}

/// SE-080, SE-206: nothing of a repository is deployed while a project demands signatures that
/// its commits do not have, or demands what cannot be understood; and what was deployed before
/// can still be deleted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_that_must_be_verified_are_refused_as_se_080() {
    if !super::signatures::has_gpg() {
        return;
    }
    let world = World::start().await;
    world.write("old/old.json", &config_map("old", "1", &[]));
    world.commit_file("new/new.json", &config_map("new", "1", &[]));
    let mut old = world.application("old", "old");
    old["metadata"]["finalizers"] = json!([CASCADE]);
    old["spec"]["syncPolicy"] = json!({"automated": {}});
    world.create_until_good(&old).await;

    world.patch_project(json!({"signatureKeys": [{"keyID": "4AEE18F83AFDEB23"}]})).await;
    world.create_app(&automated(world.application("new", "new"))).await;
    let text = "in Git is not signed, but a signature is required (spec.signatureKeys)";
    for (name, status) in [("old", "Synced"), ("new", "OutOfSync")] {
        let app = world.until(name, "refused", |app| condition(app, "ComparisonError", text)).await;
        assert_eq!(app["status"]["sync"]["status"], status, "{app}");
    }
    world.sync("new", json!({})).await;
    let app = world.until("new", "failed", |app| phase(app) == "Error").await;
    assert!(message(&app).contains(text), "{app}");
    world.sync("new", json!({"manifests": [config_map("new", "2", &[])]})).await;
    let local = "local manifests cannot be synced while spec.signatureKeys demands";
    let is_refused = |app: &Value| {
        let message = app["status"]["operationState"]["message"].as_str();
        phase(app) == "Error" && message.is_some_and(|message| message.contains(local))
    };
    world.until("new", "refused", is_refused).await;

    let head =
        |keys: Value| json!({"repos": [{"url": "*"}], "gpg": {"mode": "head", "keys": keys}});
    let strict = json!({"repos": [{"url": "*"}], "gpg": {"mode": "strict", "keys": []}});
    let cases = [
        (
            json!([head(json!(["4AEE18F83AFDEB23"]))]),
            "is not signed, but a signature is required (spec.sourceIntegrity)",
        ),
        (json!([head(json!(["3AFDEB23"]))]), "gpg.keys[0]: \"3AFDEB23\" is no ID of a key"),
        (json!([strict]), "is not signed, but a signature is required (spec.sourceIntegrity)"),
    ];
    for (policies, text) in cases {
        let integrity = json!({"git": {"policies": policies}});
        world.patch_project(json!({"signatureKeys": null, "sourceIntegrity": integrity})).await;
        world.until("new", "refused", |app| condition(app, "ComparisonError", text)).await;
    }
    assert!(!world.has_map("new").await);

    world.delete_app("old").await;
    world.until("old", "gone", Value::is_null).await;
    assert!(!world.has_map("old").await, "a deletion deploys nothing");

    world.patch_project(json!({"sourceIntegrity": null})).await;
    world.sync_until_good("new", json!({})).await;
    assert!(world.has_map("new").await);
}

/// What has no effect is reported on the Applications that it concerns, once, and they are
/// deployed (SE-422, SE-480). What every installation of Argo CD 3 has
/// in its ConfigMap changes no result, and is not reported (SE-178).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_without_effect_are_reported_where_they_concern() {
    let world = World::with(settings(&[
        ("resource.customizations", "apps/Deployment: {actions: 'definitions: []'}\n"),
        ("resource.customizations.actions.ConfigMap", "definitions: []"),
        ("resource.customizations.actions.example.com_Gadget", "definitions: []"),
        ("resource.compareoptions", "ignoreAggregatedRoles: true\n"),
        ("resource.customizations.ignoreResourceUpdates.all", "jsonPointers:\n- /status\n"),
        (
            "resource.customizations.ignoreResourceUpdates.ConfigMap",
            "jqPathExpressions:\n- '.metadata.annotations.\"control-plane.alpha.kubernetes.io/leader\"'\n",
        ),
        (
            "resource.customizations.ignoreResourceUpdates.apps_ReplicaSet",
            "jqPathExpressions:\n- '.metadata.annotations.\"deployment.kubernetes.io/revision\"'\n",
        ),
    ]))
    .await;
    world.write("map/one.json", &config_map("one", "1", &[]));
    world.write("both/two.json", &config_map("two", "1", &[]));
    world.write("both/three.json", &deployment("three", &[]));
    let diffed = ("argocd.argoproj.io/compare-options", "ServerSideDiff=true");
    world.write("reported/four.json", &config_map("four", "1", &[diffed]));
    let label = "argocd.argoproj.io/managed-by";
    let labelled = json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": "labelled", "labels": {label: "argocd"}}});
    world.commit_file("reported/namespace.json", &labelled.to_string());
    let mut reported = world.application("reported", "reported");
    reported["metadata"]["annotations"] = json!({
        "argocd.argoproj.io/manifest-generate-paths": ".",
    });
    let apps = [world.application("map", "map"), world.application("both", "both"), reported];
    for mut app in apps {
        app["spec"]["syncPolicy"] = json!({"automated": {}});
        world.create_app(&app).await;
    }
    let done = |app: &Value| settled(app) && is(app, "Synced", "Healthy");
    let actions = "resource.customizations.actions.ConfigMap";
    let map = world.until("map", "synced", done).await;
    let want = format!("ConfigMap argocd-cm: {actions} has no effect yet");
    assert_eq!(conditions(&map, "SyncWarning"), [want.as_str()], "{map}");
    let both = world.until("both", "synced", done).await;
    let want = format!(
        "ConfigMap argocd-cm: resource.customizations (apps/Deployment), {actions} have no effect yet"
    );
    assert_eq!(conditions(&both, "SyncWarning"), [want.as_str()], "{both}");
    let reported = world.until("reported", "synced", done).await;
    for text in [
        "annotation argocd.argoproj.io/manifest-generate-paths has no effect yet",
        "ConfigMap web/four: annotation argocd.argoproj.io/compare-options: ServerSideDiff=true",
        "Namespace labelled: label argocd.argoproj.io/managed-by grants nothing here",
    ] {
        assert!(condition(&reported, "SyncWarning", text), "{text}: {reported}");
    }

    world.rest().await;
    world.server.forget_requests();
    for name in ["map", "both", "reported"] {
        world.refresh(name).await;
    }
    world.rest().await;
    let statuses: Vec<String> =
        world.writes().into_iter().filter(|write| !write.contains("applications")).collect();
    assert_eq!(statuses, [""; 0], "what is reported is not written again");
    let app = world.app("map").await;
    assert_eq!(conditions(&app, "SyncWarning").len(), 1, "{app}");
}

/// SE-091: a type that is switched off is read as plain manifests.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn source_types_that_are_switched_off_are_directories_as_se_091() {
    let world =
        World::with(settings(&[("helm.enable", "false"), ("kustomize.enable", "false")])).await;
    world.write("chart/Chart.yaml", "apiVersion: v2\nname: chart\nversion: 1.0.0\n");
    world.write("chart/one.json", &config_map("one", "1", &[]));
    world.write("custom/kustomization.yaml", "resources: [two.json]\n");
    world.commit_file("custom/two.json", &config_map("two", "1", &[]));
    for name in ["chart", "custom"] {
        world.create_app(&world.application(name, name)).await;
        let app = world.sync_until_good(name, json!({})).await;
        assert_eq!(app["status"]["sourceType"], "Directory", "{app}");
    }
}

/// SE-072 … SE-075: Argo CD's definition of AppProjects drops the names of namespaced kinds,
/// and an older one those of cluster-scoped kinds, too. What is left would permit, or deny,
/// objects of all names; so nothing is deployed until the project is whole again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guard_that_the_definition_drops_is_refused_as_se_072() {
    use crate::support::Definitions;
    use crate::support::cluster::install_definitions;
    let world = World::start().await;
    let client = world.server.client_as("test");
    world.commit_file("app/one.json", &config_map("one", "1", &[]));
    let app = automated(world.application("app", "app"));
    let whole = {
        let api = world.api("argoproj.io/v1alpha1", "AppProject", NAMESPACE);
        serde_json::to_value(api.get("default").await.unwrap()).unwrap()["spec"].take()
    };
    // As `kubectl apply` writes it.
    let apply = async |fields: &Value| {
        let mut spec = whole.clone();
        spec.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let applied = json!({"spec": spec}).to_string();
        let annotation = json!({"kubectl.kubernetes.io/last-applied-configuration": applied});
        let patch = json!({"metadata": {"annotations": annotation}, "spec": fields});
        let api = world.api("argoproj.io/v1alpha1", "AppProject", NAMESPACE);
        let patched = api.patch("default", &PatchParams::default(), &Patch::Merge(patch)).await;
        serde_json::to_value(patched.unwrap()).unwrap()
    };
    install_definitions(&client, Definitions::BeforeNames).await;
    let entry = json!({"group": "", "kind": "ConfigMap", "name": "other-*"});
    let cases = [
        "namespaceResourceWhitelist",
        "namespaceResourceBlacklist",
        "clusterResourceWhitelist",
        "clusterResourceBlacklist",
    ];
    for (round, list) in cases.into_iter().enumerate() {
        let stored = apply(&json!({ list: [entry.clone()] })).await;
        assert!(stored["spec"][list][0]["name"].is_null(), "the server drops it: {stored}");
        if round == 0 {
            world.create_app(&app).await;
        }
        let text = format!("spec.{list}[0].name of AppProject default");
        let refused =
            world.until("app", "refused", |app| condition(app, "ComparisonError", &text)).await;
        assert!(condition(&refused, "ComparisonError", "other-*"), "{refused}");
        world.sync("app", json!({})).await;
        world
            .until("app", "failed", |app| {
                let message = app["status"]["operationState"]["message"].as_str();
                phase(app) == "Error" && message.is_some_and(|message| message.contains(&text))
            })
            .await;
        assert!(!world.has_map("one").await, "{list}");
        let cleared = match list {
            "clusterResourceWhitelist" => whole[list].clone(),
            _ => Value::Null,
        };
        apply(&json!({ list: cleared })).await;
    }
    // With a definition that has the field, the guard works.
    apply(&json!({"namespaceResourceBlacklist": [entry.clone()]})).await;
    let text = "spec.namespaceResourceBlacklist[0].name";
    world.until("app", "refused", |app| condition(app, "ComparisonError", text)).await;
    install_definitions(&client, Definitions::Ours).await;
    apply(&json!({"namespaceResourceBlacklist": [entry]})).await;
    world.until("app", "permitted", |app| !condition(app, "ComparisonError", "AppProject")).await;
    world.sync_until_good("app", json!({})).await;
    assert!(world.has_map("one").await);
}
