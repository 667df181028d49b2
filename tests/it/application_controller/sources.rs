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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_files_come_from_the_referenced_source() {
    let programs = tempfile::tempdir().unwrap();
    let helm = programs.path().join("helm");
    std::fs::write(&helm, HELM).unwrap();
    std::fs::set_permissions(&helm, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut settings = ApplicationSettings::default();
    settings.render.programs.helm = helm;
    let world = World::with(settings).await;
    world.write("chart/Chart.yaml", "name: chart\nversion: 0.1.0\n");
    world.write("env/prod.yaml", "replicas: 3\n");
    world.write("plain/one.json", &config_map("one", "1", &[]));
    let revision = world.commit();
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
    world.sync("many", json!({})).await;
    let app =
        world.until("many", "synced", |app| settled(app) && is(app, "Synced", "Healthy")).await;
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
