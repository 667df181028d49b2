//! The HTTP servers of `run`: connections that send nothing take nothing from the others.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::arguments::Running;
use super::embedded::Cluster;
use super::*;

async fn ask(address: &str, path: &str) -> Option<String> {
    let mut client = TcpStream::connect(address).await.ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n");
    client.write_all(request.as_bytes()).await.ok()?;
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.ok()?;
    (!answer.is_empty()).then_some(answer)
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_and_slow_connections_leave_the_servers_and_the_controller_alone() {
    let cluster = Cluster::start().await;
    cluster.knows("default", "https://1").await;
    let addresses = [unused_address(), unused_address(), unused_address()];
    let [probes, metrics, webhooks] = &addresses;
    let flags = [
        format!("--probe-addr={probes}"),
        format!("--metrics-addr={metrics}"),
        format!("--webhook-addr={webhooks}"),
        "--sync-engine=external".to_owned(),
    ];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let mut running = Running::start(&cluster, &flags, &[]);
    running.until_logged("\"starting\"").await;
    let until = std::time::Instant::now() + WAIT;
    while ask(probes, "/readyz").await.is_none_or(|answer| !answer.contains(" 200 ")) {
        assert!(std::time::Instant::now() < until, "{}", running.log());
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let descriptors = |child: &std::process::Child| {
        std::fs::read_dir(format!("/proc/{}/fd", child.id())).unwrap().count()
    };
    let before = descriptors(&running.child);

    // Half of them send nothing, half of them headers without an end.
    let mut open = Vec::new();
    for index in 0..200 {
        for address in &addresses {
            let mut client = TcpStream::connect(address).await.unwrap();
            if index % 2 == 0 {
                let _ = client.write_all(b"POST /api/webhook HTTP/1.1\r\nHost: x\r\nX: ").await;
            }
            open.push(client);
        }
    }
    for (address, path, words) in [
        (probes, "/healthz", "ok"),
        (probes, "/readyz", "ok"),
        (metrics, "/metrics", "argocd_appset"),
        (webhooks, "/api/webhook", "405"),
    ] {
        let until = std::time::Instant::now() + WAIT;
        loop {
            let answer = ask(address, path).await.unwrap_or_default();
            if answer.contains(words) {
                break;
            }
            assert!(std::time::Instant::now() < until, "{path}: {answer:?}");
        }
    }
    let more = descriptors(&running.child).saturating_sub(before);
    assert!(more <= 3 * 64 + 64, "{more} more descriptors for 600 connections");
    // The controller still works.
    let object: Value = serde_json::from_str(&set(&["a"], json!([]))).unwrap();
    cluster.create("ApplicationSet", object).await;
    running.until_logged("created").await;
    // All of them are closed in the end.
    for mut client in open {
        let mut rest = Vec::new();
        let closed = tokio::time::timeout(WAIT, client.read_to_end(&mut rest)).await;
        assert!(closed.is_ok(), "a connection stays open");
    }
}
