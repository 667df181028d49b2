//! A receiver of notifications: records the requests, and answers as a case wants.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A request.
#[derive(Clone, Debug)]
pub struct Received {
    pub path: String,
    /// By name in lower case.
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
}

impl Received {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// The id of a CloudEvent.
    pub fn id(&self) -> String {
        self.json()["id"].as_str().unwrap_or_default().to_owned()
    }
}

/// The status line and headers of the answer to a request; its number is counted from 0. `None`
/// never answers.
type Answer = dyn Fn(usize, &Received) -> Option<&'static str> + Send + Sync;

/// Listens until the runtime of the case ends.
#[derive(Clone)]
pub struct Receiver {
    pub address: SocketAddr,
    requests: Arc<Mutex<Vec<Received>>>,
}

impl Receiver {
    /// Answers all requests with 200.
    pub async fn willing() -> Self {
        Self::start(|_, _| Some("200 OK")).await
    }

    pub async fn start(
        answer: impl Fn(usize, &Received) -> Option<&'static str> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let receiver = Self { address: listener.local_addr().unwrap(), requests: Arc::default() };
        let (requests, answer): (_, Arc<Answer>) =
            (Arc::clone(&receiver.requests), Arc::new(answer));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&requests), Arc::clone(&answer)));
            }
        });
        receiver
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn received(&self) -> Vec<Received> {
        self.requests.lock().clone()
    }
}

/// Reads one request and answers it.
async fn serve(mut stream: TcpStream, requests: Arc<Mutex<Vec<Received>>>, answer: Arc<Answer>) {
    let mut bytes = Vec::new();
    let (request, length) = loop {
        let mut chunk = [0; 4096];
        match stream.read(&mut chunk).await {
            Ok(0) | Err(_) => return,
            Ok(count) => bytes.extend_from_slice(&chunk[..count]),
        }
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        let head = String::from_utf8(bytes.drain(..end + 4).collect()).unwrap();
        let mut lines = head.lines();
        let path = lines.next().and_then(|line| line.split(' ').nth(1)).unwrap_or_default();
        let header = |line: &str| {
            let (name, value) = line.split_once(':')?;
            Some((name.to_ascii_lowercase(), value.trim().to_owned()))
        };
        let path = path.to_owned();
        let headers: BTreeMap<String, String> = lines.filter_map(header).collect();
        let length: usize = headers["content-length"].parse().unwrap();
        break (Received { path, headers, body: Vec::new() }, length);
    };
    while bytes.len() < length {
        let mut chunk = [0; 4096];
        match stream.read(&mut chunk).await {
            Ok(0) | Err(_) => return,
            Ok(count) => bytes.extend_from_slice(&chunk[..count]),
        }
    }
    let request = Received { body: bytes, ..request };
    let number = {
        let mut requests = requests.lock();
        requests.push(request.clone());
        requests.len() - 1
    };
    match answer(number, &request) {
        Some(status) => {
            let head = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
            // The client may be gone.
            let _ = stream.write_all(head.as_bytes()).await;
        }
        None => std::future::pending().await,
    }
}
