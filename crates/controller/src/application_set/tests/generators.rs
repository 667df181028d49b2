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
    let words = "error generating params from git: spec.generators[0].git: repository";
    let set = world.until_error(words).await;
    assert_eq!(set["metadata"]["annotations"][REFRESH], "true", "AS-420");
    assert_eq!(world.names().await, ["one", "three"], "AS-098");
    std::fs::rename(&away, folder.path()).unwrap();
    let generators = directories(folder.path(), json!({"requeueAfterSeconds": 1}));
    world.patch("ApplicationSet", "set", json!({ "spec": generators })).await;
    world.until("ApplicationSet", "set", is_over).await;
    assert_eq!(world.names().await, ["one", "three"]);
}

/// A refresh that is asked for right after a read that failed takes place when its pause ends, and
/// not at the interval of three minutes.
#[tokio::test]
async fn a_refresh_soon_after_a_failure_is_put_off_and_not_lost_as_097() {
    let folder = tempfile::tempdir().unwrap();
    let away = folder.path().with_extension("away");
    std::fs::create_dir(folder.path().join("one")).unwrap();
    std::fs::write(folder.path().join("one/a.yaml"), "").unwrap();
    std::fs::rename(folder.path(), &away).unwrap();
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    let never = json!({"requeueAfterSeconds": 0});
    world.create("ApplicationSet", "set", directories(folder.path(), never)).await;
    world.until_error("spec.generators[0].git: repository").await;
    std::fs::rename(&away, folder.path()).unwrap();
    world.refresh().await;
    world.until_applications(&["one"]).await;
    let is_over = |set: &Value| set["metadata"]["annotations"][REFRESH].is_null();
    world.until("ApplicationSet", "set", is_over).await;
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

/// Runs a program in a folder, with the keys of another one.
fn run(folder: &Path, home: &Path, program: &str, args: &[&str]) -> String {
    let output = std::process::Command::new(program)
        .current_dir(folder)
        .args(args)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GNUPGHOME", home)
        .output()
        .unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// SE-080: generators read only commits that are signed as their project demands. Otherwise
/// nothing is deleted; without the demand, or with the key, they go on.
#[tokio::test]
async fn generators_verify_signatures_as_their_project_demands_as_se_080() {
    if std::process::Command::new("gpg").arg("--version").output().is_err() {
        eprintln!("skipped: gpg is not installed; tests/run installs gnupg");
        return;
    }
    let (folder, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(home.path(), private).unwrap();
    let gpg = |args: &[&str]| run(folder.path(), home.path(), "gpg", args);
    let secret = ["--batch", "--passphrase", "", "--pinentry-mode", "loopback"];
    gpg(&[&secret[..], &["--quick-gen-key", "alice", "ed25519", "sign", "never"]].concat());
    let listed = gpg(&["--list-keys", "--with-colons", "alice"]);
    let key = listed.lines().find(|line| line.starts_with("fpr:")).unwrap();
    let key = key.split(':').nth(9).unwrap().to_owned();
    let public = gpg(&["--armor", "--export", &key]);
    let git = |args: &[&str]| {
        let user = ["-c", "user.name=a", "-c", "user.email=a@b"];
        run(folder.path(), home.path(), "git", &[&user[..], args].concat())
    };
    let commit = |name: &str, more: &[&str]| {
        std::fs::create_dir(folder.path().join(name)).unwrap();
        std::fs::write(folder.path().join(name).join("file.yaml"), "").unwrap();
        git(&["add", "--all"]);
        git(&[&["commit", "--quiet", "--message=change"], more].concat());
    };
    git(&["init", "--quiet", "--initial-branch=main"]);
    commit("a", &[]);

    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    world.create("AppProject", "signed", json!({})).await;
    // After a failure, the next read is that of the interval.
    let mut spec = directories(folder.path(), json!({"requeueAfterSeconds": 1}));
    spec["template"]["spec"]["project"] = json!("signed");
    world.create("ApplicationSet", "set", spec).await;
    world.until_applications(&["a"]).await;

    let keys = json!({"spec": {"signatureKeys": [{"keyID": key}]}});
    world.patch("AppProject", "signed", keys).await;
    world.until_error("is not signed, but a signature is required (spec.signatureKeys)").await;
    let signed = format!("--gpg-sign={key}");
    commit("b", &[&signed]);
    world.refresh().await;
    world.until_error("is signed with unknown key").await;
    assert_eq!(world.names().await, ["a"]);
    let maps: Api<k8s_openapi::api::core::v1::ConfigMap> =
        Api::namespaced(world.server.client_as("test"), NAMESPACE);
    let id = &key[key.len() - 16..];
    let map = json!({"metadata": {"name": "argocd-gpg-keys-cm"}, "data": {id: public}});
    let map = serde_json::from_value(map).unwrap();
    maps.create(&PostParams::default(), &map).await.unwrap();
    world.until_applications(&["a", "b"]).await;

    // The whole history; what cannot be understood; and another repository.
    let integrity = |mode: &str, url: &str| {
        let gpg = json!({"mode": mode, "keys": [key]});
        let policies = json!([{"repos": [{"url": url}], "gpg": gpg}]);
        json!({"spec": {"signatureKeys": null, "sourceIntegrity": {"git": {"policies": policies}}}})
    };
    world.patch("AppProject", "signed", integrity("strict", "*")).await;
    world.until_error("which leads to target revision").await;
    world.patch("AppProject", "signed", integrity("all", "*")).await;
    world.until_error("gpg.mode: must be none, head or strict").await;
    std::fs::remove_dir_all(folder.path().join("a")).unwrap();
    commit("c", &[]);
    world.refresh().await;
    world.until_error("gpg.mode: must be none, head or strict").await;
    assert_eq!(world.names().await, ["a", "b"]);
    world.patch("AppProject", "signed", integrity("strict", "https://example.com/*")).await;
    world.refresh().await;
    world.until_applications(&["b", "c"]).await;
    let _ = std::process::Command::new("gpgconf")
        .args(["--kill", "all"])
        .env("GNUPGHOME", home.path())
        .status();
}

/// SE-080: a directory that is no repository is not signed.
#[tokio::test]
async fn a_generator_reads_no_directory_where_signatures_are_demanded() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("a")).unwrap();
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    let keys = json!({"signatureKeys": [{"keyID": "4AEE18F83AFDEB23"}]});
    world.create("AppProject", "signed", keys).await;
    let mut spec = directories(folder.path(), json!({}));
    spec["template"]["spec"]["project"] = json!("signed");
    world.create("ApplicationSet", "set", spec).await;
    world.until_error("is not signed, but a signature is required (spec.signatureKeys)").await;
    world.patch("AppProject", "signed", json!({"spec": {"signatureKeys": null}})).await;
    world.until_applications(&["a"]).await;
}

/// AS-135: what is generated after a restart would be rolled out.
#[tokio::test]
async fn a_template_that_reads_the_time_or_random_values_gives_a_warning_as_135() {
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    let mut spec = set(Value::Null);
    spec["goTemplate"] = true.into();
    spec["template"]["metadata"]["name"] = "{{.n}}".into();
    spec["template"]["spec"]["source"]["path"] = "{{randAlphaNum 8 | lower}}".into();
    world.create("ApplicationSet", "set", spec).await;
    let note = world.until_event("GeneratorWarning").await;
    assert!(note.contains("spec.template: reads the time or random values"), "{note}");
    world.reconcile().await;
    assert_eq!(world.events("GeneratorWarning").await.len(), 1);
}
