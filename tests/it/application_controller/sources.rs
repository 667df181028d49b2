//! Applications with several sources.

use std::os::unix::fs::PermissionsExt;

use super::*;

/// Replaces Helm: renders a ConfigMap with the words of all values files.
const HELM: &str = r#"#!/bin/sh
echo "apiVersion: v1"
echo "kind: ConfigMap"
echo "metadata: {name: rendered}"
echo "data:"
echo "  values: |"
for a in "$@"; do case "$a" in --values=*) sed 's/^/    /' "${a#--values=}";; esac; done
"#;

/// Replaces Helm: renders a ConfigMap with its arguments.
const ARGUMENTS: &str = r#"#!/bin/sh
echo "apiVersion: v1"
echo "kind: ConfigMap"
echo "metadata: {name: rendered}"
echo "data:"
echo "  args: |"
for a in "$@"; do echo "    $a"; done
"#;

/// A world whose Helm is a script.
async fn world_with_helm(script: &str) -> (World, tempfile::TempDir) {
    let programs = tempfile::tempdir().unwrap();
    let helm = programs.path().join("helm");
    let draft = programs.path().join("draft");
    std::fs::write(&draft, script).unwrap();
    std::fs::set_permissions(&draft, std::fs::Permissions::from_mode(0o755)).unwrap();
    install(&draft, &helm);
    let mut settings = ApplicationSettings::default();
    settings.render.programs.helm = helm;
    (World::with(settings).await, programs)
}

/// Charts are rendered for the destination: its version, its kinds (also those that are
/// installed later), and the build environment (SE-104, K-10).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chart_is_rendered_for_its_destination() {
    let (world, _programs) = world_with_helm(ARGUMENTS).await;
    let revision = world.commit_file("chart/Chart.yaml", "name: chart\nversion: 0.1.0\n");
    let mut app = world.application("web", "");
    app["spec"]["source"] = json!({
        "repoURL": world.repo.path().to_str().unwrap(), "targetRevision": "main", "path": "chart",
        "helm": {"parameters": [
            {"name": "plain", "value": "$ARGOCD_APP_NAME"},
            {"name": "text", "value": "${ARGOCD_APP_REVISION_SHORT}", "forceString": true},
        ]},
    });
    world.create_app(&app).await;
    world.until("web", "compared", |app| is(app, "OutOfSync", "Missing")).await;
    world.sync_until_good("web", json!({})).await;
    let rendered = world.get("v1", "ConfigMap", "web", "rendered").await;
    let args: Vec<&str> = rendered["data"]["args"].as_str().unwrap().lines().collect();
    let short = format!("--set-string=text={}", &revision[..7]);
    for want in [
        "--kube-version=1.33.0",
        "--api-versions=v1",
        "--api-versions=v1/ConfigMap",
        "--api-versions=apps/v1",
        "--api-versions=apps/v1/Deployment",
        "--set=plain=web",
        &short,
    ] {
        assert!(args.contains(&want), "{want}: {args:?}");
    }
    assert!(!args.iter().any(|arg| arg.contains("gadgets.example.com")), "{args:?}");

    // A kind that is installed later: the same revision is rendered again.
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.gadgets.example.com"},
        "spec": {
            "group": "gadgets.example.com", "scope": "Namespaced",
            "names": {"kind": "Gadget", "plural": "gadgets", "singular": "gadget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema":
                {"openAPIV3Schema": {"type": "object"}}}],
        },
    });
    world.create("apiextensions.k8s.io/v1", "CustomResourceDefinition", &definition).await;
    world.ask_refresh("web").await;
    world.until("web", "rendered for the new kind", |app| is(app, "OutOfSync", "Healthy")).await;
    world.sync_until_good("web", json!({})).await;
    let rendered = world.get("v1", "ConfigMap", "web", "rendered").await;
    let args = rendered["data"]["args"].as_str().unwrap();
    assert!(args.contains("--api-versions=gadgets.example.com/v1/Gadget"), "{args}");
}

/// What is missing is named (K-11): a values file, and dependencies of a chart.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_chart_misses_is_named() {
    let (world, _programs) = world_with_helm(ARGUMENTS).await;
    world.write("chart/Chart.yaml", "name: chart\nversion: 0.1.0\n");
    world.write(
        "parent/Chart.yaml",
        "name: parent\nversion: 0.1.0\ndependencies: [{name: redis}]\n",
    );
    world.commit();
    let mut app = world.application("web", "");
    let file = "does-not-exist-values.yaml";
    app["spec"]["source"] = json!({
        "repoURL": world.repo.path().to_str().unwrap(), "targetRevision": "main", "path": "chart",
        "helm": {"valueFiles": [file]},
    });
    world.create_app(&app).await;
    let missing =
        format!("helm.valueFiles[0]: Error: open ./chart/{file}: no such file or directory");
    world.until("web", "reported", |app| condition(app, "ComparisonError", &missing)).await;
    let ignored = json!({"helm": {"valueFiles": [file], "ignoreMissingValueFiles": true}});
    world.patch("web", json!({"spec": {"source": ignored}})).await;
    world.until("web", "rendered without it", |app| is(app, "OutOfSync", "Missing")).await;
    world.patch("web", json!({"spec": {"source": {"path": "parent", "helm": null}}})).await;
    let missing = "dependency redis of the chart: it has no repository, and is not in the \
                   directory charts";
    world.until("web", "reported", |app| condition(app, "ComparisonError", missing)).await;
}

/// Values that do not render say nothing about what is in the cluster: the health of no resource,
/// and later the last one, stays (K-03).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_that_do_not_render_leave_the_health_k_03() {
    let script = "#!/bin/bash\ngrep -q broken values.yaml && { echo 'Error: values do not meet the \
                  schema' >&2; exit 1; }\necho 'apiVersion: v1'\necho 'kind: ConfigMap'\n\
                  echo 'metadata: {name: rendered}'\n";
    let (world, _programs) = world_with_helm(script).await;
    world.write("chart/Chart.yaml", "name: chart\nversion: 0.1.0\n");
    world.commit_file("chart/values.yaml", "broken: true\n");
    world.create_app(&world.application("web", "chart")).await;
    let failed = |app: &Value| condition(app, "ComparisonError", "values do not meet the schema");
    world.until("web", "reported", |app| failed(app) && is(app, "Unknown", "Healthy")).await;
    world.commit_file("chart/values.yaml", "{}\n");
    world.refresh("web").await;
    world.until("web", "rendered", |app| !failed(app) && is(app, "OutOfSync", "Missing")).await;
    world.commit_file("chart/values.yaml", "broken: true\n");
    world.refresh("web").await;
    world.until("web", "reported", |app| failed(app) && is(app, "Unknown", "Missing")).await;
}

/// Blocks that set nothing are written by clients that use Go types; the source had two types
/// then (SE-030).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn blocks_that_set_nothing_are_no_type_of_a_source_se_030() {
    let world = World::start().await;
    world.commit_file("app/one.json", &config_map("one", "1", &[]));
    let mut app = world.application("app", "app");
    app["spec"]["syncPolicy"] = json!({"syncOptions": []});
    let source = app["spec"]["source"].as_object_mut().unwrap();
    source.insert("directory".to_owned(), json!({"recurse": false, "jsonnet": {}}));
    source.insert("helm".to_owned(), json!({"valueFiles": [], "skipCrds": false}));
    source.insert("kustomize".to_owned(), json!({"images": []}));
    world.create_app(&app).await;
    let app = world.until("app", "compared", |app| is(app, "OutOfSync", "Missing")).await;
    let is_stored = |app: &Value| {
        let source = &app["spec"]["source"];
        ["directory", "helm", "kustomize"].iter().all(|block| source[*block].is_null())
            && app["spec"]["syncPolicy"].is_null()
    };
    let app = if is_stored(&app) { app } else { world.until("app", "stored", is_stored).await };
    assert_eq!(app["status"]["sourceType"], "Directory");
}

/// The manifests of a revision are rendered once, and again when a person asks for it (SE-106).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hard_refresh_renders_the_same_revision_again_se_106() {
    // Renders something else each time.
    let script = "#!/bin/bash\necho 'apiVersion: v1'\necho 'kind: ConfigMap'\n\
                  echo \"metadata: {name: rendered-$RANDOM-$RANDOM}\"\n";
    let (world, _programs) = world_with_helm(script).await;
    world.commit_file("chart/Chart.yaml", "name: chart\nversion: 0.1.0\n");
    world.create_app(&world.application("web", "chart")).await;
    let name = |app: &Value| app["status"]["resources"][0]["name"].clone();
    let app = world.until("web", "rendered", |app| is(app, "OutOfSync", "Missing")).await;
    let first = name(&app);
    let ask =
        |kind: &str| json!({"metadata": {"annotations": {"argocd.argoproj.io/refresh": kind}}});
    let answered =
        |app: &Value| app["metadata"]["annotations"]["argocd.argoproj.io/refresh"].is_null();
    world.patch("web", ask("normal")).await;
    let app = world.until("web", "refreshed", answered).await;
    assert_eq!(name(&app), first, "it is the same revision");
    world.patch("web", ask("hard")).await;
    let app = world.until("web", "refreshed", answered).await;
    assert_ne!(name(&app), first, "it is rendered again");
}

/// Replaces Helm: tries what a chart must not do, and renders what worked.
const CURIOUS: &str = r#"#!/bin/bash
try() { name=$1; shift; if "$@" > /dev/null 2>&1; then echo "  $name: 'yes'"; else echo "  $name: 'no'"; fi; }
connect() { exec 3<> "/dev/tcp/127.0.0.1/PORT"; }
create() { echo new > OUTSIDE/new; }
change() { echo '# changed' >> "$PWD/Chart.yaml"; }
echo "apiVersion: v1"
echo "kind: ConfigMap"
echo "metadata: {name: rendered}"
echo "data:"
try chart cat Chart.yaml
try scratch touch "$TMPDIR/file"
try secret cat OUTSIDE/secret
try list ls OUTSIDE
try passwd cat /etc/passwd
try environment cat /proc/PARENT/environ
try write create
try overwrite change
try network connect
echo "  core: '$(ulimit -c)'"
echo "  memory: '$(ulimit -d)'"
echo "  cpu: '$(ulimit -S -t)'"
echo "  files: '$(ulimit -n)'"
echo "  umask: '$(umask)'"
"#;

/// Whether this machine can confine programs.
pub fn can_confine() -> bool {
    let probe = Command::new(env!("CARGO_BIN_EXE_wavegate")).args(["__confine", "probe"]).output();
    let probe = probe.unwrap();
    assert!(probe.status.success(), "{}", String::from_utf8_lossy(&probe.stderr));
    let missing = String::from_utf8_lossy(&probe.stdout).into_owned();
    if !missing.is_empty() {
        eprintln!("skipped: this machine cannot confine programs: {missing}");
    }
    missing.is_empty()
}

/// What Helm may do is enforced outside of it (C14), and its resources are limited (C15).
/// Without the helper, all of it works.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_is_confined_to_its_source() {
    if !can_confine() {
        return;
    }
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret"), "secret").unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let script = CURIOUS
        .replace("OUTSIDE", outside.path().to_str().unwrap())
        .replace("PARENT", &std::process::id().to_string())
        .replace("PORT", &listener.local_addr().unwrap().port().to_string());
    for confined in [false, true] {
        let programs = tempfile::tempdir().unwrap();
        let helm = programs.path().join("helm");
        let draft = programs.path().join("draft");
        std::fs::write(&draft, &script).unwrap();
        std::fs::set_permissions(&draft, std::fs::Permissions::from_mode(0o755)).unwrap();
        install(&draft, &helm);
        let mut settings = ApplicationSettings::default();
        settings.render.programs.helm = helm;
        settings.render.programs.memory_bytes = 1 << 30;
        settings.render.programs.helper = confined.then(|| env!("CARGO_BIN_EXE_wavegate").into());
        let world = World::with(settings).await;
        world.commit_file("chart/Chart.yaml", "name: chart\nversion: 0.1.0\n");
        let mut app = world.application("web", "");
        app["spec"]["source"] = json!({
            "repoURL": world.repo.path().to_str().unwrap(), "targetRevision": "main", "path": "chart",
        });
        world.create_app(&app).await;
        world.until("web", "compared", |app| is(app, "OutOfSync", "Missing")).await;
        world.sync_until_good("web", json!({})).await;
        let data = world.get("v1", "ConfigMap", "web", "rendered").await["data"].clone();
        for name in ["chart", "scratch"] {
            assert_eq!(data[name], "yes", "{name}: {data}");
        }
        let rest = if confined { "no" } else { "yes" };
        for name in ["secret", "list", "passwd", "environment", "write", "overwrite", "network"] {
            assert_eq!(data[name], rest, "{name}, confined: {confined}: {data}");
        }
        if confined {
            let limits = json!({"core": "0", "memory": "1048576", "cpu": "180", "files": "1024", "umask": "0077"});
            for (name, limit) in limits.as_object().unwrap() {
                assert_eq!(data[name], *limit, "{name}: {data}");
            }
        }
    }
}

/// Checkouts, credentials and whatever `git` writes are private (C15).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_files_of_repositories_are_private() {
    // As the program does when it starts.
    wavegate_sandbox::set_umask();
    let world = World::with(ApplicationSettings::default()).await;
    world.write("app/run.sh", "true\n");
    world.commit_file("plain/sub/a.yaml", "a: 1\n");
    let cache = tempfile::tempdir().unwrap();
    let settings = source::SourceSettings {
        allow: Allow { local: true, http: false },
        helper: Some(env!("CARGO_BIN_EXE_wavegate").into()),
        ..source::SourceSettings::default()
    };
    let sources = Repositories::open(cache.path(), settings).unwrap();
    let plain = tempfile::tempdir().unwrap();
    std::fs::create_dir(plain.path().join("sub")).unwrap();
    std::fs::write(plain.path().join("sub/a.yaml"), "a: 1\n").unwrap();
    let mut checkouts = Vec::new();
    for repository in [world.repo.path(), plain.path()] {
        let url = repository.to_str().unwrap();
        let revision = sources.resolve(url, "", None).await.unwrap();
        checkouts.push(sources.checkout(url, &revision, None).await.unwrap());
    }
    assert!(checkouts[0].root().join("app/run.sh").is_file());
    let (mut open, mut seen) = (vec![cache.path().to_owned()], 0);
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).unwrap().flatten() {
            let meta = entry.metadata().unwrap();
            let mode = meta.permissions().mode();
            if !meta.is_symlink() {
                assert_eq!(mode & 0o077, 0, "{}: {mode:o}", entry.path().display());
            }
            seen += 1;
            if meta.is_dir() {
                open.push(entry.path());
            }
        }
    }
    assert!(seen > 20, "repository, checkout and private files: {seen}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_files_come_from_the_referenced_source() {
    let programs = tempfile::tempdir().unwrap();
    let helm = programs.path().join("helm");
    let draft = programs.path().join("draft");
    std::fs::write(&draft, HELM).unwrap();
    install(&draft, &helm);
    let mut settings = ApplicationSettings::default();
    settings.render.programs.helm = helm;
    let world = World::with(settings).await;
    world.write("chart/Chart.yaml", "name: chart\nversion: 0.1.0\n");
    world.write("env/prod.yaml", "replicas: 3\n");
    let revision = world.commit_file("plain/one.json", &config_map("one", "1", &[]));
    let repo = world.repo.path().to_str().unwrap().to_owned();
    let source = |more: Value| {
        let mut source = json!({"repoURL": repo, "targetRevision": "main"});
        source.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        source
    };
    let chart = |file: &str| source(json!({"path": "chart", "helm": {"valueFiles": [file]}}));
    let mut app = world.application("many", "");
    app["spec"].as_object_mut().unwrap().remove("source");
    app["spec"]["sources"] = json!([
        chart("$values/env/prod.yaml"),
        source(json!({"ref": "values"})),
        source(json!({"path": "plain"})),
    ]);
    world.create_app(&app).await;
    world.until("many", "compared", |app| is(app, "OutOfSync", "Missing")).await;
    let app = world.sync_until_good("many", json!({})).await;
    assert_eq!(app["status"]["sync"]["revisions"], json!([revision, revision, revision]));
    assert_eq!(app["status"]["sourceTypes"], json!(["Helm", "", "Directory"]));
    let rendered = world.get("v1", "ConfigMap", "web", "rendered").await;
    assert_eq!(rendered["data"]["values"], "replicas: 3\n", "SE-034");
    assert_eq!(world.get("v1", "ConfigMap", "web", "one").await["data"]["value"], "1");

    for (file, reported) in [
        ("$other/env/prod.yaml", "no source has the ref other"),
        ("$values/../../../../etc/passwd", "etc/passwd"),
        ("$values/env/none.yaml", "$values/env/none.yaml"),
    ] {
        world
            .patch(
                "many",
                json!({"spec": {"sources": [
                    chart(file), source(json!({"ref": "values"})),
                ]}}),
            )
            .await;
        let app = world
            .until("many", "reported", |app| condition(app, "ComparisonError", reported))
            .await;
        assert!(!app["status"].to_string().contains("wavegate-source-"), "no path of the cache");
    }
    let twice = json!([source(json!({"ref": "x"})), source(json!({"ref": "x"}))]);
    world.patch("many", json!({"spec": {"sources": twice}})).await;
    world
        .until("many", "reported", |app| condition(app, "InvalidSpecError", "ref x is used by"))
        .await;
}
