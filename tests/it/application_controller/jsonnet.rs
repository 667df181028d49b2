//! Jsonnet in directories (SE-091, SE-101): variables, arguments, imports, and files that must
//! not do what they try.

use std::time::{Duration, Instant};

use super::*;

const LIBRARY: &str =
    "{map(name, data):: {apiVersion: 'v1', kind: 'ConfigMap', metadata: {name: name}, data: data}}";

async fn world(settings: ApplicationSettings) -> World {
    wavegate_sandbox::start_workers_by(env!("CARGO_BIN_EXE_wavegate").into());
    let world = World::with(settings).await;
    world.write("lib/k.libsonnet", LIBRARY);
    world.write("app/one.jsonnet", "(import '../lib/k.libsonnet').map('one', {v: 'plain'})");
    world.write(
        "app/two.jsonnet",
        "local k = import 'k.libsonnet';\n\
         function(name='none', replicas=0) [\n\
           k.map('two', {name: name, replicas: std.toString(replicas + 1)}),\n\
           k.map('env', {env: std.extVar('env'), list: std.toString(std.extVar('list')[1])}),\n\
           k.map('text', {text: importstr 'note.txt'}),\n\
         ]",
    );
    world.write("app/note.txt", "a note");
    world.write("app/plain.json", &config_map("json", "1", &[]));
    world
}

fn source(name: &str) -> Value {
    json!({
        "path": "app",
        "directory": {"jsonnet": {
            "libs": ["lib"],
            "extVars": [
                {"name": "env", "value": "$ARGOCD_APP_NAME/${ARGOCD_APP_NAMESPACE}"},
                {"name": "list", "value": "['a', '$ARGOCD_APP_SOURCE_PATH']", "code": true},
            ],
            "tlas": [
                {"name": "name", "value": name},
                {"name": "replicas", "value": "1 + 1", "code": true},
            ],
        }},
    })
}

/// SE-101: what Argo CD's own tests do with Jsonnet: plain, arguments, external variables, the
/// build environment, imports.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn se_101_jsonnet_is_deployed_with_variables_and_imports() {
    let world = world(ApplicationSettings::default()).await;
    world.commit();
    world.deploy_app(&world.with_source("shop", source("shop-$$"))).await;
    assert_eq!(world.data("one").await, json!({"v": "plain"}));
    assert_eq!(world.data("two").await, json!({"name": "shop-$", "replicas": "3"}));
    assert_eq!(world.data("env").await, json!({"env": "shop/web", "list": "app"}));
    assert_eq!(world.data("text").await, json!({"text": "a note"}));
    let app = world.app("shop").await;
    assert_eq!(app["status"]["sourceType"], "Directory");

    // A commit that changes an imported file only is a change of the manifests.
    world.commit_file("app/note.txt", "another note");
    world.refresh("shop").await;
    world.until("shop", "changed", |app| is(app, "OutOfSync", "Healthy")).await;
    world.sync_until_good("shop", json!({})).await;
    assert_eq!(world.data("text").await, json!({"text": "another note"}));
}

/// SE-101: mistakes and attacks are conditions that name file and line, and nothing outside of
/// the repository is read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn se_101_hostile_jsonnet_is_a_condition() {
    let world = world(ApplicationSettings::default()).await;
    world.write("app/plain.json", &config_map("json", "1", &[]));
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret"), "the-secret").unwrap();
    std::fs::create_dir_all(world.repo.path().join("links")).unwrap();
    std::os::unix::fs::symlink(outside.path(), world.repo.path().join("links/out")).unwrap();
    let cases = [
        ("error", "{\n a: error 'on purpose'}", "error.jsonnet:2: runtime error: on purpose"),
        ("syntax", "{\n\n", "syntax.jsonnet:"),
        (
            "passwd",
            "{a: importstr '/etc/passwd'}",
            "passwd.jsonnet:1: import \"/etc/passwd\": absolute",
        ),
        ("up", "{a: importstr '../../../etc/passwd'}", "outside of the repository"),
        ("link", "{a: importbin '../../links/out/secret'}", "symbolic link points outside"),
        ("native", "{a: std.native('exec')('id')}", "native.jsonnet"),
        ("self", "(import 'self.jsonnet') + {}", "infinite recursion"),
        ("deep", "local f(x) = f(x + 1) + 1; f(0)", "deep.jsonnet:1: stack overflow"),
        (
            "endless",
            "local f(x) = if x < 0 then 0 else f(x + 1) tailstrict; f(1)",
            "endless.jsonnet",
        ),
        ("large", "std.foldl(function(a, x) a + a, std.range(1, 60), 'xxxxxxxx')", "large.jsonnet"),
        ("kind", "{apiVersion: 'v1'}", "object 'kind' is missing"),
    ];
    for (name, code, _) in cases {
        world.write(&format!("bad/{name}/{name}.jsonnet"), code);
    }
    world.commit();
    let started = Instant::now();
    for (name, _, want) in cases {
        let source = json!({"path": format!("bad/{name}")});
        let message = world.refusal_of(&world.with_source(name, source)).await;
        assert!(
            message.contains(want) && message.contains(&format!("{name}.jsonnet")),
            "{message}"
        );
        assert!(!message.contains("the-secret") && !message.contains("root:"), "{message}");
        assert!(message.len() < 4096, "{}", message.len());
    }
    assert!(started.elapsed() < Duration::from_secs(250), "{:?}", started.elapsed());
    // The others go on.
    world.deploy_app(&world.with_source("good", source("x"))).await;
}

/// SE-091: with `jsonnet.enable: "false"`, its files are left out, and a condition says so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn se_091_disabled_jsonnet_is_left_out() {
    let mut settings = ApplicationSettings::default();
    settings.render.enabled.jsonnet = false;
    let world = world(settings).await;
    world.commit();
    world.deploy_app(&world.with_source("shop", source("x"))).await;
    assert_eq!(world.data("one").await, Value::Null);
    assert_ne!(world.data("json").await, Value::Null);
    let app = world.app("shop").await;
    let conditions = app["status"]["conditions"].to_string();
    assert!(conditions.contains("app/one.jsonnet: left out"), "{conditions}");
    assert!(conditions.contains("jsonnet.enable"), "{conditions}");
}
