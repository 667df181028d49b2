//! Artifacts of OCI registries behind a proxy, with a kustomization, and for a plugin (SE-032,
//! SE-037).

use super::artifacts::{GZIP, Registry, TAR, gzip, tar};
use super::git_https::basic;
use super::plugins::{Sidecar, script};
use super::programs::{confined, program};
use super::*;
use crate::git_server::Proxy;

/// SE-032: through the proxy of the Secret, with its login, also to the server of tokens and to
/// where blobs are; hosts that are reached without it; and a proxy that is not there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn se_032_an_artifact_behind_a_proxy() {
    let world = World::with(confined(|_| {})).await;
    let proxy = Proxy::start_that(true).await;
    for (name, no_proxy) in [("through", "example.com"), ("around", "example.com,127.0.0.1")] {
        let registry = Registry::start("me:pass-word-4").await;
        let storage = Registry::start("").await;
        let layer = tar(&[("app/one.json", &config_map(name, "1", &[]))]);
        let digest = registry.push("1.0.0", TAR, layer);
        registry.with(|state| {
            state.blobs_at = Some(storage.address);
            storage.with(|other| other.files = state.files.clone());
        });
        let fields = json!({
            "username": "me", "password": "pass-word-4",
            "proxy": proxy.url("you:pass-word-7@"), "noProxy": no_proxy,
        });
        registry.permit(&world, name, fields).await;
        world.deploy_app(&world.with_source(name, registry.source("1.0.0", "app"))).await;
        assert_eq!(world.data(name).await, json!({"value": "1"}), "{name}");
        assert_eq!(world.app(name).await["status"]["sync"]["revision"], digest.as_str());
        for server in [&registry, &storage] {
            let address = server.address.to_string();
            let heads = proxy.seen();
            let proxied = heads.iter().filter(|head| head.contains(&address)).count();
            let seen = server.with(|state| state.seen.clone());
            let direct = if name == "through" { 0 } else { seen.len() };
            assert!(!seen.is_empty(), "{name}: {address}");
            // A connection for each request.
            assert_eq!(seen.len(), proxied + direct, "{name}: {address}: {heads:?} {seen:?}");
        }
        let given = storage.with(|state| state.seen.clone());
        assert!(given.iter().all(|(_, _, login)| login.is_empty()), "{name}: {given:?}");
    }
    let heads = proxy.seen();
    let login = format!("Proxy-Authorization: {}", basic("you:pass-word-7"));
    assert!(heads.iter().all(|head| head.contains(&login)), "{heads:?}");
    assert!(!heads.concat().contains(&basic("me:pass-word-4")), "not the login of the registry");

    let registry = Registry::start("").await;
    registry.push("1.0.0", TAR, tar(&[("app/one.json", &config_map("none", "1", &[]))]));
    let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = closed.local_addr().unwrap();
    drop(closed);
    let fields = json!({"proxy": format!("http://you:pass-word-6@{address}")});
    registry.permit(&world, "closed", fields).await;
    let app = world.with_source("closed", registry.source("1.0.0", "app"));
    let want = ["through the proxy of the repository", &registry.address.to_string()];
    let message = world.refused_for(&app, &want).await;
    assert!(!message.contains("pass-word-6"), "{message}");
}

/// SE-032, SE-037, SE-104: an artifact whose folder is a kustomization of another folder, with the
/// block of the source; and what the revision is in the build environment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn se_032_an_artifact_with_a_kustomization() {
    let Some(kustomize) = program("kustomize/kustomize") else { return };
    let world = World::with(confined(|programs| programs.kustomize = kustomize)).await;
    let registry = Registry::start("").await;
    registry.permit(&world, "registry", json!({})).await;
    let layer = |value: &str| {
        gzip(&tar(&[
            ("base/kustomization.yaml", "resources: [one.json]\n"),
            ("base/one.json", &config_map("one", value, &[])),
            ("prod/kustomization.yaml", "resources: [../base]\nnamePrefix: prod-\n"),
        ]))
    };
    let first = registry.push("main", GZIP, layer("1"));
    let mut source = registry.source("main", "prod");
    source["kustomize"] = json!({
        "nameSuffix": "-a",
        "commonAnnotations": {
            "whole": "$ARGOCD_APP_REVISION",
            "short": "$ARGOCD_APP_REVISION_SHORT",
            "longer": "$ARGOCD_APP_REVISION_SHORT_8",
        },
        "commonAnnotationsEnvsubst": true,
    });
    world.deploy_app(&world.with_source("app", source)).await;
    let app = world.app("app").await;
    assert_eq!(app["status"]["sourceType"], "Kustomize");
    assert_eq!(app["status"]["sync"]["revision"], first.as_str());
    let map = world.get("v1", "ConfigMap", "web", "prod-one-a").await;
    assert_eq!(map["data"], json!({"value": "1"}));
    let annotations = &map["metadata"]["annotations"];
    assert_eq!(annotations["whole"], first.as_str(), "SE-104");
    // As Argo CD cuts it.
    assert_eq!(annotations["short"], "sha256:", "SE-104");
    assert_eq!(annotations["longer"], first[..8], "SE-104");
    // The tag moves to what is no kustomization, and on.
    registry.push("main", TAR, tar(&[("prod/other.json", "{}")]));
    world.refresh("app").await;
    world.until_refused("app", &["kustomization", "team/app"]).await;
    assert_eq!(world.data("prod-one-a").await, json!({"value": "1"}), "nothing is deleted");
    let second = registry.push("main", GZIP, layer("3"));
    world.refresh("app").await;
    let moved = |app: &Value| app["status"]["sync"]["revision"] == second.as_str();
    world.until("app", "on the new digest", moved).await;
    world.sync_until_good("app", json!({})).await;
    assert_eq!(world.data("prod-one-a").await, json!({"value": "3"}));
}

/// Prints a ConfigMap with what the plugin finds.
const REPORT: &str = r#"cat <<END
{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "NAME"}, "data": {
  "revision": "$ARGOCD_APP_REVISION", "target": "$ARGOCD_APP_SOURCE_TARGET_REVISION",
  "url": "$ARGOCD_APP_SOURCE_REPO_URL", "text": "$(cat text)", "above": "$(ls -A .. | tr '\n' ' ')"}}
END
"#;

/// SE-032, SE-037, SE-090: a plugin gets the files of an artifact and its digest, whether it is
/// named or discovered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn se_032_an_artifact_for_a_plugin() {
    let sockets = tempfile::tempdir().unwrap();
    let folder = sockets.path().to_owned();
    let world = World::with(confined(|programs| {
        programs.plugins.folder = folder;
        programs.timeout = Duration::from_secs(120);
    }))
    .await;
    let report = |name: &str| script(&REPORT.replace("NAME", name));
    let named = json!({"generate": report("named")});
    let Some(_named) = Sidecar::start(sockets.path(), "named", &named).await else { return };
    let found = json!({"generate": report("found"), "discover": {"fileName": "text"}});
    let _found = Sidecar::start(sockets.path(), "found", &found).await.unwrap();
    let registry = Registry::start("").await;
    registry.permit(&world, "registry", json!({})).await;
    let layer = tar(&[
        ("app/text", "of the artifact"),
        ("lib/other", "other"),
        (".git/config", "[core]\n"),
        ("plain/plain.json", &config_map("plain", "1", &[])),
    ]);
    let digest = registry.push("1.2.0", TAR, layer);
    for (name, plugin) in [("named", json!({"name": "named"})), ("found", Value::Null)] {
        let mut source = registry.source("^1.0", "app");
        if !plugin.is_null() {
            source["plugin"] = plugin;
        }
        world.deploy_app(&world.with_source(name, source)).await;
        let want = json!({
            "revision": digest, "target": "^1.0", "url": source_url(&registry),
            "text": "of the artifact", "above": "app lib plain ",
        });
        assert_eq!(world.data(name).await, want, "{name}");
        let app = world.app(name).await;
        assert_eq!(app["status"]["sourceType"], "Plugin", "{name}");
        assert_eq!(app["status"]["sync"]["revision"], digest.as_str(), "{name}");
    }
    // What no plugin supports is read as it is.
    world.deploy_app(&world.with_source("plain", registry.source("1.2.0", "plain"))).await;
    assert_eq!(world.data("plain").await, json!({"value": "1"}));
    assert_eq!(world.app("plain").await["status"]["sourceType"], "Directory");
    let mut source = registry.source("1.2.0", "plain");
    source["plugin"] = json!({"name": "found"});
    let message = world.refusal_of(&world.with_source("other", source)).await;
    assert!(message.contains("could not find cmp-server plugin with name \"found\""), "{message}");
}

fn source_url(registry: &Registry) -> Value {
    registry.source("", "")["repoURL"].clone()
}
