//! Repositories that do not respond, and their effect on other Applications.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::net::TcpListener;

use super::*;

/// A server that accepts connections and never responds; its address.
async fn silent(taken: &Arc<AtomicUsize>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let taken = taken.clone();
    tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((connection, _)) = listener.accept().await {
            taken.fetch_add(1, Ordering::Relaxed);
            open.push(connection);
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forty_unavailable_repositories_delay_no_other_application() {
    let world = World::start().await;
    world.commit_file("app/one.json", &config_map("one", "1", &[]));
    let taken = Arc::new(AtomicUsize::new(0));
    let shared = silent(&taken).await;
    for index in 0..40 {
        // Half of them on one server, the others on one server each.
        let server = if index % 2 == 0 { shared.clone() } else { silent(&taken).await };
        let mut app = world.application(&format!("dead-{index}"), "app");
        app["spec"]["source"]["repoURL"] = format!("http://{server}/team/repo-{index}").into();
        app["spec"]["syncPolicy"] = json!({"automated": {}});
        world.create_app(&app).await;
    }
    until("they are asked at the same time", async || taken.load(Ordering::Relaxed) >= 12).await;

    let began = Instant::now();
    world.create_until_good(&automated(world.application("healthy", "app"))).await;
    let took = began.elapsed();
    // Git waits for 20 s.
    assert!(took < Duration::from_secs(19), "behind those that do not answer: {took:?}");

    for name in ["dead-0", "dead-1", "dead-38", "dead-39"] {
        let reported = |app: &Value| condition(app, "ComparisonError", "not reachable");
        world.until(name, "reported", reported).await;
    }
}

/// SE-070: whatever spelling of a denied repository Git would resolve to the same place.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_denied_repository_is_denied_in_every_spelling_as_070() {
    let world = World::start().await;
    let rules = json!({"sourceRepos": ["*", "!https://git.invalid/team/secret", "!git@git.invalid:team/*"]});
    world.project("closed", rules).await;
    let spellings = [
        "https://git.invalid/team/secret",
        "https://git.invalid:0443/team/secret",
        "https://git.invalid:/team/secret.git",
        "https://me@GIT.invalid//team/Secret/",
        "https://git.invalid/team/secret/.git",
        "https://git.invalid./team/secret",
        "https://git.invalid/team/%73ecret",
        "https://[git.invalid]/team/secret",
        "https://git.invalid/team/secret?x",
        "http://git.invalid/team/secret",
        "git@git.invalid:team/secret",
        "git@git.invalid:/team/secret",
        "ssh://git.invalid:022/team//secret.git",
        "[git@git.invalid:22]:team/secret",
        "git+ssh://git@git.invalid/team/secret",
    ];
    for (index, url) in spellings.into_iter().enumerate() {
        let name = format!("app-{index}");
        let mut app = world.application(&name, "app");
        app["spec"]["project"] = "closed".into();
        app["spec"]["source"]["repoURL"] = url.into();
        world.create_app(&app).await;
    }
    for (index, url) in spellings.into_iter().enumerate() {
        let name = format!("app-{index}");
        let denied =
            |app: &Value| condition(app, "InvalidSpecError", "is not permitted in project");
        world.until(&name, url, denied).await;
    }
}

/// SE-115: claims keep the labels of their StatefulSet, and its data.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_of_a_stateful_set_are_not_pruned_under_label_tracking_as_115() {
    let settings = wavegate_controller::settings::ApplicationSettings {
        tracking_method: wavegate_api::tracking::TrackingMethod::Label,
        ..Default::default()
    };
    let mut world = World::with(settings).await;
    let labels = json!({"app.kubernetes.io/instance": "app"});
    let set = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"},
        "spec": {
            "serviceName": "db", "replicas": 0, "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "db", "image": "db"}]},
            },
            "volumeClaimTemplates": [{
                "metadata": {"name": "data"},
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1Gi"}},
                },
            }],
        },
    });
    world.write("app/db.json", &set.to_string());
    world.commit_file("app/one.json", &config_map("one", "1", &[]));
    world.create_app(&world.application("app", "app")).await;
    world.sync_until_good("app", json!({})).await;

    let metadata = |name: &str| json!({"name": name, "namespace": "web", "labels": labels});
    let claim = json!({
        "metadata": metadata("data-db-0"), "spec": set["spec"]["volumeClaimTemplates"][0]["spec"],
    });
    world.create("v1", "PersistentVolumeClaim", &claim).await;
    let mut slice = json!({"metadata": metadata("db-x"), "addressType": "IPv4", "endpoints": []});
    slice["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"] =
        "endpointslice-controller.k8s.io".into();
    world.create("discovery.k8s.io/v1", "EndpointSlice", &slice).await;
    let revision = json!({"metadata": metadata("db-1"), "revision": 1});
    world.create("apps/v1", "ControllerRevision", &revision).await;
    // What is pruned, so that pruning is seen to work.
    world.create("v1", "ConfigMap", &json!({"metadata": metadata("stray")})).await;

    // A sync prunes what has left the source, and nothing of a controller.
    let pruned = async |world: &World, api: &str, kind: &str, name: &str, when: &str| {
        world.refresh("app").await;
        world.sync("app", json!({"prune": true})).await;
        let gone = async || world.get(api, kind, "web", name).await.is_null();
        until(&format!("{when}: {kind} {name} is pruned"), gone).await;
        world.until_good("app").await;
        for (api, kind, name) in [
            ("v1", "PersistentVolumeClaim", "data-db-0"),
            ("discovery.k8s.io/v1", "EndpointSlice", "db-x"),
            ("apps/v1", "ControllerRevision", "db-1"),
        ] {
            let live = world.get(api, kind, "web", name).await;
            assert!(!live.is_null(), "{when}: {kind} {name} is gone");
            assert!(live["metadata"]["deletionTimestamp"].is_null(), "{when}: {kind} {name}");
        }
    };
    pruned(&world, "v1", "ConfigMap", "stray", "beside the StatefulSet").await;
    world.remove("app/db.json");
    world.commit();
    pruned(&world, "apps/v1", "StatefulSet", "db", "without the StatefulSet").await;
    world.crash().await;
    world.create("v1", "ConfigMap", &json!({"metadata": metadata("stray")})).await;
    world.run();
    pruned(&world, "v1", "ConfigMap", "stray", "after a restart").await;
}
