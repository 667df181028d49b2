//! Generators that find nothing where they found something (C16, design rule 8): nothing is
//! deleted until a person approves it.

use super::*;
use crate::api::annotations::{APPROVED_DELETIONS, FOUND};

fn of_clusters(more: Value) -> Value {
    let clusters = json!({"clusters": {"selector": {"matchLabels": {"env": "prod"}}}});
    let mut generators = vec![clusters];
    generators.extend(more.as_array().unwrap().clone());
    let mut spec = set(Value::Null);
    spec["goTemplate"] = true.into();
    spec["generators"] = generators.into();
    spec["template"]["metadata"]["name"] = "{{.name}}".into();
    spec["syncPolicy"] = json!({"preserveResourcesOnDeletion": true});
    spec
}

impl ClusterState {
    fn secrets(&self) -> Api<k8s_openapi::api::core::v1::Secret> {
        Api::namespaced(self.server.client_as("test"), NAMESPACE)
    }

    async fn add_cluster(&self, name: &str) {
        let labels = json!({"argocd.argoproj.io/secret-type": "cluster", "env": "prod"});
        let server = format!("https://{name}.example.com");
        let secret = serde_json::from_value(json!({
            "metadata": {"name": name, "labels": labels},
            "stringData": {"name": name, "server": server, "config": "{}"},
        }));
        self.secrets().create(&PostParams::default(), &secret.unwrap()).await.unwrap();
    }

    async fn remove_cluster(&self, name: &str) {
        self.secrets().delete(name, &DeleteParams::default()).await.unwrap();
    }

    async fn until_found(&self, text: &str) {
        let has = |set: &Value| {
            set["metadata"]["annotations"][FOUND].as_str().is_some_and(|found| found.contains(text))
        };
        self.until("ApplicationSet", "set", has).await;
    }

    async fn until_deletions_are_held(&self, names: &str) -> String {
        let kind = "DeletionsHeld";
        let set = self.until_condition(kind, "True", "GeneratorFoundNothing", names).await;
        condition(&set, kind)["message"].as_str().unwrap().to_owned()
    }
}

/// Two Applications for each cluster.
fn two_for_each() -> Value {
    let clusters = json!({"clusters": {"selector": {"matchLabels": {"env": "prod"}}}});
    let apps = json!({"list": {"elements": [{"app": "a"}, {"app": "b"}]}});
    let mut spec = of_clusters(json!([]));
    spec["generators"] = json!([{"matrix": {"generators": [clusters, apps]}}]);
    spec["template"]["metadata"]["name"] = "{{.app}}-{{.name}}".into();
    spec
}

/// Inside of a matrix, too; a cluster of several is an ordinary change.
#[tokio::test]
async fn a_generator_that_finds_nothing_any_more_deletes_nothing_without_approval() {
    const NAMES: [&str; 2] = ["a-one", "b-one"];
    let mut world = ClusterState::start(ApplicationSetSettings::default()).await;
    for name in ["one", "two"] {
        world.add_cluster(name).await;
    }
    world.create("ApplicationSet", "set", two_for_each()).await;
    for name in ["a-one", "b-one", "a-two", "b-two"] {
        world.until("Application", name, |_| true).await;
    }
    let place = "spec.generators[0].generators[0].clusters";
    world.until_found(place).await;
    world.remove_cluster("two").await;
    for name in ["a-two", "b-two"] {
        world.until_gone("Application", name).await;
    }
    world.remove_cluster("one").await;
    let message = world.until_deletions_are_held("a-one, b-one").await;
    assert!(message.starts_with(place), "{message}");
    // Also after a restart, and after an approval of something else.
    world.restart(ApplicationSetSettings { progressive_syncs: true, ..Default::default() });
    let approve = |hash: &str| json!({"metadata": {"annotations": {APPROVED_DELETIONS: hash}}});
    world.patch("ApplicationSet", "set", approve("0123456789abcdef")).await;
    world.reconcile().await;
    for name in NAMES {
        world
            .until("Application", name, |live| live["metadata"]["deletionTimestamp"].is_null())
            .await;
    }
    assert_eq!(world.until_deletions_are_held("a-one, b-one").await, message);

    let (_, hash) = message.rsplit_once(&format!("{APPROVED_DELETIONS}=")).unwrap();
    let command = "kubectl -n argocd annotate applicationset set --overwrite ";
    assert!(message.contains(command), "{message}");
    world.patch("ApplicationSet", "set", approve(hash)).await;
    for name in NAMES {
        world.until_gone("Application", name).await;
    }
    let is_over = |set: &Value| {
        condition(set, "DeletionsHeld").is_null()
            && set["metadata"]["annotations"][APPROVED_DELETIONS].is_null()
    };
    world.until("ApplicationSet", "set", is_over).await;
}

#[tokio::test]
async fn a_person_who_changes_the_generators_means_it() {
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    world.add_cluster("a").await;
    let listed = json!([{"list": {"elements": [{"name": "b"}]}}]);
    world.create("ApplicationSet", "set", of_clusters(listed)).await;
    for name in ["a", "b"] {
        world.until("Application", name, |_| true).await;
    }
    world.until_found("spec.generators[0].clusters").await;
    // What another generator lists is deleted by the same rule: nothing, while one is emptied.
    world.remove_cluster("a").await;
    world.until_deletions_are_held("a").await;
    let none = json!([{"list": {"elements": []}}]);
    world.patch("ApplicationSet", "set", json!({"spec": {"generators": none}})).await;
    for name in ["a", "b"] {
        world.until_gone("Application", name).await;
    }
}

#[tokio::test]
async fn held_deletions_can_be_switched_off() {
    let settings = ApplicationSetSettings { hold_deletions: false, ..Default::default() };
    let world = ClusterState::start(settings).await;
    world.add_cluster("a").await;
    world.create("ApplicationSet", "set", of_clusters(json!([]))).await;
    world.until("Application", "a", |_| true).await;
    world.remove_cluster("a").await;
    world.until_gone("Application", "a").await;
}

/// Nor does a change of anything else in the spec permit it; a directory of several is an
/// ordinary change.
#[tokio::test]
async fn a_directory_that_is_renamed_deletes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["apps/one", "apps/two"] {
        std::fs::create_dir_all(folder.path().join(name)).unwrap();
        std::fs::write(folder.path().join(name).join("kustomization.yaml"), "").unwrap();
    }
    let mut spec = of_clusters(json!([]));
    spec["generators"] = json!([{"git": {
        "repoURL": folder.path().display().to_string(), "revision": "HEAD",
        "directories": [{"path": "apps/*"}],
    }}]);
    spec["template"]["metadata"]["name"] = "{{.path.basename}}".into();
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    world.create("ApplicationSet", "set", spec).await;
    for name in ["one", "two"] {
        world.until("Application", name, |_| true).await;
    }
    world.until_found("spec.generators[0].git").await;
    std::fs::remove_dir_all(folder.path().join("apps/two")).unwrap();
    world.reconcile().await;
    world.until_gone("Application", "two").await;

    std::fs::rename(folder.path().join("apps"), folder.path().join("services")).unwrap();
    world.reconcile().await;
    let message = world.until_deletions_are_held("one").await;
    assert!(message.starts_with("spec.generators[0].git found nothing"), "{message}");
    let label = json!({"spec": {"template": {"metadata": {"labels": {"team": "x"}}}}});
    world.patch("ApplicationSet", "set", label).await;
    world.reconcile().await;
    world.until("Application", "one", |live| live["metadata"]["deletionTimestamp"].is_null()).await;
    assert_eq!(world.sent("delete", "applications").len(), 1, "of `two`");

    // It is found again: nothing is held any more.
    std::fs::rename(folder.path().join("services"), folder.path().join("apps")).unwrap();
    world.reconcile().await;
    world.until("ApplicationSet", "set", |set| condition(set, "DeletionsHeld").is_null()).await;
}
