//! Dependencies of charts in Git repositories: fetched from where the project permits.

use super::chart_repositories::{repository, secret, serve};
use super::programs::{confined, helms};
use super::*;

/// Writes and commits a chart with dependencies.
pub fn parent(world: &World, dependencies: &Value) {
    let chart = json!({
        "apiVersion": "v2", "name": "parent", "version": "0.1.0", "dependencies": dependencies,
    });
    world.write("chart/Chart.yaml", &chart.to_string());
    world.write(
        "chart/templates/cm.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: parent}\n",
    );
    world.commit();
}

/// Dependencies of a repository, with its credentials, and of the same Git repository.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_dependencies_of_a_chart_are_fetched() {
    for helm in helms() {
        let world = World::with(confined(|programs| programs.helm = helm.clone())).await;
        let server = serve(repository(&helm, "redis", &["1.0.0", "1.1.0"]), "me:pass-word-3").await;
        let url = format!("http://{server}");
        secret(&world, "charts", json!({"url": url, "username": "me", "password": "pass-word-3"}))
            .await;
        world.write("lib/Chart.yaml", "apiVersion: v2\nname: lib\nversion: 0.2.0\n");
        world.write(
            "lib/templates/cm.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: lib}\n",
        );
        parent(
            &world,
            &json!([
                {"name": "redis", "version": "1.x", "repository": url},
                {"name": "lib", "version": "0.2.0", "repository": "file://../lib"},
            ]),
        );
        world.deploy_app(&world.with_source("web", json!({"path": "chart"}))).await;
        assert_eq!(world.data("redis-web").await["version"], "1.1.0");
        assert_ne!(world.get("v1", "ConfigMap", "web", "lib").await, Value::Null);
        assert!(!world.repo.path().join("chart/charts").exists());
    }
}

/// What the project does not permit, or is outside of the repository, is refused by name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dependencies_from_elsewhere_are_refused() {
    let Some(helm) = helms().pop() else { return };
    let world = World::with(confined(|programs| programs.helm = helm.clone())).await;
    let server = serve(repository(&helm, "redis", &["1.0.0"]), "").await;
    let url = format!("http://{server}");
    world.project("strict", json!({"sourceRepos": [world.repo.path().to_str().unwrap()]})).await;
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(
        outside.path().join("Chart.yaml"),
        "apiVersion: v2\nname: redis\nversion: 1.0.0\n",
    )
    .unwrap();
    let absolute = format!("file://{}", outside.path().display());
    let relative = format!("file://../../../../../../../..{}", outside.path().display());
    for (name, project, repository, want) in [
        ("project", "strict", url.as_str(), "is not permitted in project 'strict'"),
        ("absolute", "default", &absolute, "is an absolute path"),
        ("relative", "default", &relative, "is outside of the repository"),
        // The same where nothing is.
        ("nothing", "default", "file://../../no/such/chart", "is outside of the repository"),
        ("missing", "default", "file://../no-such-chart", "is not in the repository"),
        ("alias", "default", "@stable", "names of repositories are not supported"),
        ("scheme", "default", "s3://bucket/charts", "charts are read from https URLs"),
        ("none", "default", "", "it has no repository"),
        ("query", "default", "https://h/x?token=a", "quotes, spaces or a query"),
    ] {
        parent(&world, &json!([{"name": "redis", "version": "1.0.0", "repository": repository}]));
        let mut app = world.with_source(name, json!({"path": "chart"}));
        app["spec"]["project"] = project.into();
        let message = world.refusal_of(&app).await;
        assert!(message.contains("dependency redis of the chart"), "{name}: {message}");
        assert!(message.contains(want), "{name}: {message}");
    }
    // The lock file is what Helm follows.
    parent(&world, &json!([{"name": "redis", "version": "1.0.0", "repository": "file://../lib"}]));
    world.write("lib/Chart.yaml", "apiVersion: v2\nname: redis\nversion: 1.0.0\n");
    for (name, repository) in [("lock", url.as_str()), ("registry", "oci://127.0.0.1:1/charts")] {
        let pinned = json!({
            "dependencies": [{"name": "redis", "version": "1.0.0", "repository": repository}],
            "digest": "sha256:0", "generated": "2024-01-01T00:00:00Z",
        });
        world.commit_file("chart/Chart.lock", &pinned.to_string());
        let mut app = world.with_source(name, json!({"path": "chart"}));
        app["spec"]["project"] = "strict".into();
        let message = world.refusal_of(&app).await;
        assert!(message.contains("is not permitted in project 'strict'"), "{name}: {message}");
    }
    world.remove("chart/Chart.lock");
    // A dependency of a local chart that leads out by a link.
    std::os::unix::fs::symlink(outside.path(), world.repo.path().join("linked")).unwrap();
    parent(
        &world,
        &json!([{"name": "redis", "version": "1.0.0", "repository": "file://../linked"}]),
    );
    let message = world.refusal_of(&world.with_source("linked", json!({"path": "chart"}))).await;
    assert!(message.contains("is outside of the repository"), "{message}");
    world.remove("linked");
    // Helm refuses it: there is no repository to name.
    parent(&world, &json!([{"name": "redis", "version": "9.0.0", "repository": "file://../lib"}]));
    let message = world.refusal_of(&world.with_source("version", json!({"path": "chart"}))).await;
    let want =
        "application version: helm dependency build failed: Error: can't get a valid version";
    assert!(message.contains(want), "{message}");
}

/// SE-032: a rendering with a dependency that the project permitted is not used any more when it
/// withdraws the permission, and nothing is synced from it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_permission_that_is_withdrawn_ends_a_kept_rendering() {
    let Some(helm) = helms().pop() else { return };
    let world = World::with(confined(|programs| programs.helm = helm.clone())).await;
    let server = serve(repository(&helm, "redis", &["1.0.0"]), "").await;
    let url = format!("http://{server}");
    parent(&world, &json!([{"name": "redis", "version": "1.0.0", "repository": url}]));
    world.deploy_app(&world.with_source("web", json!({"path": "chart"}))).await;
    world.rest().await;
    let own = world.repo.path().to_str().unwrap().to_owned();
    world.patch_project(json!({"sourceRepos": [own]})).await;
    let refused = |app: &Value| condition(app, "ComparisonError", "is not permitted in project");
    world.until("web", "refused", refused).await;
    world.sync("web", json!({})).await;
    let has_failed = |app: &Value| {
        matches!(phase(app), "Error" | "Failed")
            && app["status"]["operationState"]["message"]
                .as_str()
                .is_some_and(|message| message.contains("is not permitted in project"))
    };
    world.until("web", "refused to sync", has_failed).await;
    world.patch_project(json!({"sourceRepos": ["*"]})).await;
    world
        .until("web", "compared again", |app| {
            is(app, "Synced", "Healthy") && !condition(app, "ComparisonError", "")
        })
        .await;
}

/// Helm finds a key whatever the case of its letters, and other letters for two of them: what it
/// would fetch by such a key is compared with the project, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dependencies_by_another_spelling_of_their_keys_are_refused_as_well() {
    for helm in helms() {
        let world = World::with(confined(|programs| programs.helm = helm.clone())).await;
        let server = serve(repository(&helm, "redis", &["1.0.0"]), "").await;
        let url = format!("http://{server}");
        let rules = json!({"sourceRepos": [world.repo.path().to_str().unwrap()]});
        world.project("strict", rules).await;
        let of = |list: &str, name: &str, repository: &str, place: &str| {
            format!("{list}: [{{{name}: redis, version: 1.0.0, {repository}: '{place}'}}]\n")
        };
        let plain = of("dependencies", "name", "repository", &url);
        let local = of("dependencies", "name", "repository", "file://../lib");
        // Helm itself reads no more than 5 MiB.
        let large = format!("# {}\n", "x".repeat(4 << 20));
        let denied = "is not permitted in project 'strict'";
        let lock =
            |text: &str| format!("{text}digest: sha256:0\ngenerated: 2024-01-01T00:00:00Z\n");
        world.write("lib/Chart.yaml", "apiVersion: v2\nname: redis\nversion: 1.0.0\n");
        for (case, api, file, text, want) in [
            ("list", "v2", "", of("Dependencies", "name", "repository", &url), denied),
            ("long-s", "v2", "", of("dependencie\u{17f}", "name", "repository", &url), denied),
            ("fields", "v2", "", of("dependencies", "NAME", "Repository", &url), denied),
            ("twice", "v2", "", format!("{local}{}", plain.to_uppercase()), "are the same key"),
            ("large", "v2", "", format!("{large}{plain}"), "larger than 4194304 bytes"),
            (
                "lock",
                "v2",
                "Chart.lock",
                lock(&of("Dependencies", "name", "repository", &url)),
                denied,
            ),
            ("large-lock", "v2", "Chart.lock", format!("{large}{plain}"), "larger than 4194304"),
            ("text-lock", "v2", "Chart.lock", "a: [".to_owned(), "chart/Chart.lock"),
            ("old", "v1", "requirements.yaml", plain.replace("depend", "Depend"), denied),
            ("old-lock", "v1", "requirements.lock", lock(&plain.replace("name", "Name")), denied),
        ] {
            for file in ["Chart.lock", "requirements.yaml", "requirements.lock"] {
                if world.repo.path().join("chart").join(file).exists() {
                    world.remove(&format!("chart/{file}"));
                }
            }
            parent(&world, &json!([]));
            let head = format!("apiVersion: {api}\nname: parent\nversion: 0.1.0\n");
            if api == "v1" {
                world.write("chart/Chart.yaml", &head);
                world.write("chart/requirements.yaml", &local);
            } else {
                let own = if file.is_empty() { &text } else { &local };
                world.write("chart/Chart.yaml", &format!("{head}{own}"));
            }
            if !file.is_empty() {
                world.write(&format!("chart/{file}"), &text);
            }
            world.commit();
            let mut app = world.with_source(case, json!({"path": "chart"}));
            app["spec"]["project"] = "strict".into();
            let message = world.refusal_of(&app).await;
            assert!(message.contains(want), "{case}: {message}");
            assert_eq!(
                world.get("v1", "ConfigMap", "web", &format!("redis-{case}")).await,
                Value::Null
            );
        }
        // What is permitted is fetched by any of these spellings.
        world.remove("chart/requirements.lock");
        world.remove("chart/requirements.yaml");
        let text = of("Dependencies", "name", "RepoSitory", &url);
        world.write(
            "chart/Chart.yaml",
            &format!("apiVersion: v2\nname: parent\nversion: 0.1.0\n{text}"),
        );
        world.commit();
        world.deploy_app(&world.with_source("web", json!({"path": "chart"}))).await;
        assert_eq!(world.data("redis-web").await["version"], "1.0.0");
    }
}

/// A chart repository that accepts requests and does not answer holds up its own Application only:
/// others have the slot meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chart_repository_that_does_not_answer_holds_up_no_other_application() {
    let Some(helm) = helms().pop() else { return };
    let mut settings = confined(|programs| {
        programs.helm = helm.clone();
        programs.timeout = Duration::from_secs(600);
    });
    settings.parallel = 1;
    let world = World::with(settings).await;
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    world.write("plain/one.json", &config_map("one", "1", &[]));
    parent(&world, &json!([{"name": "redis", "version": "1.0.0", "repository": url}]));
    world.create_app(&world.with_source("waiting", json!({"path": "chart"}))).await;
    let asked = tokio::time::timeout(LIMIT, silent.accept()).await.unwrap().unwrap();
    world.deploy_app(&world.with_source("other", json!({"path": "plain"}))).await;
    // It is still waiting.
    let waiting = world.app("waiting").await;
    assert_eq!(waiting["status"]["conditions"], Value::Null, "{waiting}");
    drop(asked);
}

/// One call of Helm has the options of one registry for all of them, so that the password of
/// another one could go out without encryption.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn registries_with_different_settings_are_refused() {
    let Some(helm) = helms().pop() else { return };
    let world = World::with(confined(|programs| programs.helm = helm.clone())).await;
    let [one, other] = ["127.0.0.1:1/team", "127.0.0.1:2/team"];
    secret(
        &world,
        "one",
        json!({"url": one, "type": "helm", "enableOCI": "true", "insecureOCIForceHttp": "true"}),
    )
    .await;
    secret(
        &world,
        "other",
        json!({"url": other, "type": "helm", "enableOCI": "true", "username": "me", "password": "pass-word-9"}),
    )
    .await;
    let of = |name: &str, place: &str| json!({"name": name, "version": "1.0.0", "repository": format!("oci://{place}")});
    parent(&world, &json!([of("a", one), of("b", other)]));
    let message = world.refusal_of(&world.with_source("web", json!({"path": "chart"}))).await;
    for part in [one, other, "different values of insecureOCIForceHttp", "directory charts"] {
        assert!(message.contains(part), "{message}");
    }
}
