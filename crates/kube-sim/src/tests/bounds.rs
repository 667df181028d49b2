//! What a peer can make wait or grow has a bound.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use super::*;

async fn listening(server: &Server) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = server.clone();
    tokio::spawn(async move { server.serve(listener, CancellationToken::new()).await });
    address
}

/// Forty copies of a list into itself took all memory of the machine.
#[tokio::test]
async fn copies_of_a_json_patch_are_counted_before_they_are_made() {
    let (_server, client) = with_maps(1).await;
    let mut patch = vec![
        json!({"op": "add", "path": "/metadata/annotations", "value": {"a0": "x".repeat(1000)}}),
    ];
    patch.push(json!({"op": "add", "path": "/metadata/annotations/tree", "value": {}}));
    for round in 0..40 {
        let to = format!("/metadata/annotations/tree/n{round}");
        patch.push(json!({"op": "copy", "from": "/metadata/annotations", "path": to}));
    }
    let media = "application/json-patch+json";
    let (code, status) =
        send(&client, Method::PATCH, &format!("{MAPS}/m0"), media, &json!(patch)).await;
    assert_eq!((code, &status["reason"]), (413, &json!("RequestEntityTooLarge")), "{status}");
    let (_, object) = get(&client, &format!("{MAPS}/m0")).await;
    assert!(object["metadata"]["annotations"].is_null(), "nothing of it is stored: {object}");
}

/// The sum of now and that many seconds does not exist, which was a panic.
#[tokio::test]
async fn a_watch_lasts_at_most_a_day_whatever_it_asks_for() {
    let (server, _) = with_maps(1).await;
    let address = listening(&server).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    let path = format!("{MAPS}?watch=1&timeoutSeconds=18446744073709551615");
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !String::from_utf8_lossy(&answer).contains("\"m0\"") {
        assert_ne!(stream.read_buf(&mut answer).await.unwrap(), 0, "it ended");
    }
    assert!(answer.starts_with(b"HTTP/1.1 200"));
}

/// Half-open connections stayed for ever.
#[tokio::test(start_paused = true)]
async fn a_request_that_does_not_arrive_is_not_waited_for() {
    let (server, _) = with_maps(0).await;
    let address = listening(&server).await;
    for beginning in ["", "GET /ap", "GET /api HTTP/1.1\r\nHost: localhost\r\n"] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(beginning.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let closed = tokio::time::timeout(Duration::from_secs(60), stream.read_to_end(&mut answer));
        closed.await.expect("it is closed").unwrap();
    }
    // The body of a request as well, which gets an answer.
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!("POST {MAPS} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{{");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let closed = tokio::time::timeout(Duration::from_secs(200), stream.read_to_end(&mut answer));
    closed.await.expect("it is closed").unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 408"), "{}", String::from_utf8_lossy(&answer));
}

/// Bytes that this process holds.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

/// Each of them held a copy of everything that it had not read.
#[tokio::test(flavor = "multi_thread")]
async fn watches_that_are_not_read_hold_little() {
    const WATCHES: usize = 200;
    let (server, client) = with_maps(0).await;
    for number in 0..10 {
        let mut object = map(&format!("large-{number}"));
        object["data"]["a"] = json!("x".repeat(1 << 20));
        assert_eq!(post(&client, MAPS, &object).await.0, 201);
    }
    let address = listening(&server).await;
    let before = resident();
    let mut streams = Vec::new();
    for _ in 0..WATCHES {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {MAPS}?watch=1 HTTP/1.1\r\nHost: localhost\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        // Its first bytes: it is open.
        stream.readable().await.unwrap();
        streams.push(stream);
    }
    let held = resident().saturating_sub(before);
    assert!(held < 700 << 20, "{WATCHES} watches hold {} MiB", held >> 20);
    // Others are served anyway.
    assert_eq!(get(&client, MAPS).await.0, 200);
}
