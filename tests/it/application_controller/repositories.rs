//! Repositories that do not respond, and their effect on other Applications.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::{LIMIT, World, condition, config_map, is, settled};

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
    world.write("app/one.json", &config_map("one", "1", &[]));
    world.commit();
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
    let busy = async {
        while taken.load(Ordering::Relaxed) < 12 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(tokio::time::timeout(LIMIT, busy).await.is_ok(), "they are asked at the same time");

    let began = Instant::now();
    let mut app = world.application("healthy", "app");
    app["spec"]["syncPolicy"] = json!({"automated": {}});
    world.create_app(&app).await;
    world.until("healthy", "synced", |app| settled(app) && is(app, "Synced", "Healthy")).await;
    let took = began.elapsed();
    assert!(took < Duration::from_secs(15), "behind those that do not answer: {took:?}");

    for name in ["dead-0", "dead-1", "dead-38", "dead-39"] {
        let reported = |app: &Value| condition(app, "ComparisonError", "not reachable");
        world.until(name, "reported", reported).await;
    }
}
