//! Generators that read clusters and repositories: what changes there changes the
//! Applications, and what cannot be read changes nothing.

use std::path::Path;

use super::*;

const REFRESH: &str = "argocd.argoproj.io/application-set-refresh";

fn template(name: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "project": "default",
            "source": {"repoURL": "https://example.com/repo", "path": "p"},
            "destination": {"server": "https://kubernetes.default.svc", "namespace": "x"},
        },
    })
}

fn generated_by(generator: Value, name: &str) -> Value {
    json!({
        "goTemplate": true, "generators": [generator], "template": template(name),
        // Nobody removes the finalizer here.
        "syncPolicy": {"preserveResourcesOnDeletion": true},
    })
}

fn directories(folder: &Path, more: Value) -> Value {
    let mut git = json!({
        "repoURL": folder.display().to_string(), "revision": "HEAD", "directories": [{"path": "*"}],
    });
    git.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    generated_by(json!({ "git": git }), "{{.path.basename}}")
}

impl ClusterState {
    async fn names(&self) -> Vec<String> {
        let listed = self.api("Application").list(&ListParams::default()).await.unwrap();
        listed.items.iter().map(|application| application.name().to_owned()).collect()
    }

    /// Waits until exactly these Applications exist.
    async fn until_applications(&self, wanted: &[&str]) {
        let look = async {
            while self.names().await != wanted {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let waited = tokio::time::timeout(LIMIT, look).await;
        let names = self.names().await;
        let set = self.until("ApplicationSet", "set", |_| true).await;
        waited.unwrap_or_else(|_| panic!("{wanted:?} expected, {names:?} exist: {set:#}"));
    }

    async fn refresh(&self) {
        let annotations = json!({"metadata": {"annotations": {REFRESH: "true"}}});
        self.patch("ApplicationSet", "set", annotations).await;
    }

    /// Waits until the set has this condition with a message that contains a text.
    async fn until_error(&self, text: &str) -> Value {
        let has = |set: &Value| {
            let conditions = set["status"]["conditions"].as_array().into_iter().flatten();
            conditions.into_iter().any(|condition| {
                condition["type"] == "ErrorOccurred"
                    && condition["status"] == "True"
                    && condition["reason"] == "ApplicationGenerationFromParamsError"
                    && condition["message"].as_str().is_some_and(|message| message.contains(text))
            })
        };
        self.until("ApplicationSet", "set", has).await
    }
}

#[tokio::test]
async fn directories_of_a_repository_become_applications_as_092_and_097() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["one", "two", ".hidden", "one/inner"] {
        std::fs::create_dir_all(folder.path().join(name)).unwrap();
        std::fs::write(folder.path().join(name).join("a.yaml"), "").unwrap();
    }
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    let never = json!({"requeueAfterSeconds": 0});
    world.create("ApplicationSet", "set", directories(folder.path(), never)).await;
    world.until_applications(&["one", "two"]).await;

    // Read again when a user asks for it; the annotation is removed at the end (AS-420).
    std::fs::create_dir(folder.path().join("three")).unwrap();
    std::fs::write(folder.path().join("three/a.yaml"), "").unwrap();
    std::fs::remove_dir_all(folder.path().join("two")).unwrap();
    world.refresh().await;
    world.until_applications(&["one", "three"]).await;
    let is_over = |set: &Value| set["metadata"]["annotations"][REFRESH].is_null();
    world.until("ApplicationSet", "set", is_over).await;

    // What cannot be read deletes nothing, and the request stays until it could (AS-140).
    let away = folder.path().with_extension("away");
    std::fs::rename(folder.path(), &away).unwrap();
    world.refresh().await;
    let set = world.until_error("spec.generators[0].git: repository").await;
    assert_eq!(set["metadata"]["annotations"][REFRESH], "true", "AS-420");
    assert_eq!(world.names().await, ["one", "three"], "AS-098");
    std::fs::rename(&away, folder.path()).unwrap();
    let generators = directories(folder.path(), json!({"requeueAfterSeconds": 1}));
    world.patch("ApplicationSet", "set", json!({ "spec": generators })).await;
    world.until("ApplicationSet", "set", is_over).await;
    assert_eq!(world.names().await, ["one", "three"]);
}

/// A directory without git may have empty folders. The revision was that of the files, so
/// that a new folder was not noticed before a file was written.
#[tokio::test]
async fn an_empty_folder_of_a_local_directory_is_noticed_as_092() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("one")).unwrap();
    std::fs::write(folder.path().join("one/a.yaml"), "").unwrap();
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    let never = json!({"requeueAfterSeconds": 0});
    world.create("ApplicationSet", "set", directories(folder.path(), never)).await;
    world.until_applications(&["one"]).await;
    std::fs::create_dir(folder.path().join("two")).unwrap();
    world.refresh().await;
    world.until_applications(&["one", "two"]).await;
    std::fs::remove_dir(folder.path().join("two")).unwrap();
    world.refresh().await;
    world.until_applications(&["one"]).await;
}

#[tokio::test]
async fn a_repository_is_read_again_at_its_interval_as_047() {
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| {
        std::fs::create_dir_all(folder.path().join(name)).unwrap();
        std::fs::write(folder.path().join(name).join("config.json"), text).unwrap();
    };
    put("a", r#"{"name": "first", "replicas": 3}"#);
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    let git = json!({
        "repoURL": folder.path().display().to_string(), "revision": "HEAD",
        "files": [{"path": "*/config.json"}], "requeueAfterSeconds": 1,
    });
    let mut spec =
        generated_by(json!({ "git": git }), "{{.name}}-{{.replicas}}-{{.path.basename}}");
    world.create("ApplicationSet", "set", spec.clone()).await;
    world.until_applications(&["first-3-a"]).await;
    put("b", r#"[{"name": "x", "replicas": 1}, {"name": "y", "replicas": 2}]"#);
    world.until_applications(&["first-3-a", "x-1-b", "y-2-b"]).await;

    // A file that is neither JSON nor YAML changes nothing (AS-094).
    put("c", "{");
    world.until_error("c/config.json").await;
    assert_eq!(world.names().await, ["first-3-a", "x-1-b", "y-2-b"]);

    // The project of the template must exist (AS-091).
    put("c", "name: z\nreplicas: 1\n");
    spec["template"]["spec"]["project"] = json!("missing");
    world.patch("ApplicationSet", "set", json!({ "spec": spec })).await;
    world.until_error("AppProject missing does not exist").await;
    world.create("AppProject", "missing", json!({})).await;
    world.until_applications(&["first-3-a", "x-1-b", "y-2-b", "z-1-c"]).await;
}

#[tokio::test]
async fn clusters_that_come_and_go_change_the_applications_as_060_404() {
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    let secrets: Api<k8s_openapi::api::core::v1::Secret> =
        Api::namespaced(world.server.client_as("test"), NAMESPACE);
    let secret = |name: &str, labels: Value| {
        let mut all = json!({"argocd.argoproj.io/secret-type": "cluster"});
        all.as_object_mut().unwrap().extend(labels.as_object().unwrap().clone());
        let server = format!("https://{name}.example.com");
        serde_json::from_value(json!({
            "metadata": {"name": name, "labels": all},
            "stringData": {"name": name, "server": server, "config": "{}"},
        }))
        .unwrap()
    };
    let params = PostParams::default();
    secrets.create(&params, &secret("staging", json!({"env": "staging"}))).await.unwrap();
    // Nested, since the kind of a change says nothing about who uses it.
    let matrix = json!({"matrix": {"generators": [
        {"clusters": {"selector": {"matchLabels": {"env": "staging"}}, "values": {"tier": "{{.name}}-t"}}},
        {"list": {"elements": [{"app": "a"}, {"app": "b"}]}},
    ]}});
    let mut spec = generated_by(matrix, "{{.app}}-{{.values.tier}}");
    spec["template"]["spec"]["destination"] = json!({"name": "{{.name}}", "namespace": "x"});
    world.create("ApplicationSet", "set", spec).await;
    world.until_applications(&["a-staging-t", "b-staging-t"]).await;
    secrets.create(&params, &secret("other", json!({"env": "prod"}))).await.unwrap();
    secrets.create(&params, &secret("more", json!({"env": "staging"}))).await.unwrap();
    world.until_applications(&["a-more-t", "a-staging-t", "b-more-t", "b-staging-t"]).await;
    secrets.delete("staging", &DeleteParams::default()).await.unwrap();
    world.until_applications(&["a-more-t", "b-more-t"]).await;
}

#[tokio::test]
async fn a_repository_with_a_random_name_ends_with_an_error() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("a")).unwrap();
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    let matrix = json!({"matrix": {"generators": [
        {"list": {"elements": [{"app": "a"}]}},
        {"git": {
            "repoURL": folder.path().display().to_string(),
            "revision": "{{ randAlpha 8 }}", "directories": [{"path": "*"}],
        }},
    ]}});
    world.create("ApplicationSet", "set", generated_by(matrix, "{{.app}}")).await;
    world.until_error("must be the same in each evaluation").await;
    assert!(world.names().await.is_empty());
}

#[tokio::test]
async fn a_project_that_is_created_later_is_noticed_as_091() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("a")).unwrap();
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    let mut spec = directories(folder.path(), json!({}));
    spec["template"]["spec"]["project"] = json!("later");
    world.create("ApplicationSet", "set", spec).await;
    world.until_error("AppProject later does not exist").await;
    world.create("AppProject", "later", json!({})).await;
    world.until_applications(&["a"]).await;
}

/// SE-080: a project demands signatures of commits, which generators do not verify: its own
/// read nothing, and nothing is deleted. Without the demand they go on.
#[tokio::test]
async fn a_project_that_demands_signatures_is_refused_by_the_git_generator_as_se_080() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).join("file.yaml");
    std::fs::create_dir(folder.path().join("a")).unwrap();
    std::fs::write(file("a"), "").unwrap();
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    world.create("AppProject", "signed", json!({})).await;
    let mut spec = directories(folder.path(), json!({}));
    spec["template"]["spec"]["project"] = json!("signed");
    world.create("ApplicationSet", "set", spec).await;
    world.until_applications(&["a"]).await;

    let keys = json!({"spec": {"signatureKeys": [{"keyID": "4AEE18F83AFDEB23"}]}});
    world.patch("AppProject", "signed", keys).await;
    world.until_error("spec.signatureKeys of AppProject signed").await;
    std::fs::create_dir(folder.path().join("b")).unwrap();
    std::fs::write(file("b"), "").unwrap();
    std::fs::remove_dir_all(folder.path().join("a")).unwrap();
    world.refresh().await;
    let policies = json!([{"repos": [{"url": "*"}], "gpg": {"mode": "strict", "keys": []}}]);
    let integrity = json!({"git": {"policies": policies}});
    let other = json!({"spec": {"signatureKeys": null, "sourceIntegrity": integrity}});
    world.patch("AppProject", "signed", other).await;
    world.until_error("spec.sourceIntegrity of AppProject signed").await;
    assert_eq!(world.names().await, ["a"]);

    world.patch("AppProject", "signed", json!({"spec": {"sourceIntegrity": null}})).await;
    world.refresh().await;
    world.until_applications(&["b"]).await;
}
