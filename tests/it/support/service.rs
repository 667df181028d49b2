//! An HTTP server that answers as a test says, and records what it was asked.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::Response;
use serde_json::Value;

/// What the server was asked.
#[derive(Clone, Debug)]
pub struct Asked {
    pub method: Method,
    /// The path with its parameters.
    pub path: String,
    pub headers: HeaderMap,
    pub body: String,
}

impl Asked {
    /// The text of a header; empty without it.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// The path without its parameters.
    pub fn place(&self) -> &str {
        self.path.split('?').next().unwrap_or_default()
    }

    /// A parameter.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        let (_, all) = self.path.split_once('?')?;
        all.split('&').find_map(|one| one.strip_prefix(name)?.strip_prefix('='))
    }
}

/// What it answers.
pub struct Says {
    status: u16,
    headers: Vec<(String, String)>,
    body: Body,
}

/// A document.
pub fn json(value: Value) -> Says {
    Says { status: 200, headers: Vec::new(), body: value.to_string().into() }
}

/// A code with a message.
pub fn code(status: u16, message: &str) -> Says {
    let body = serde_json::json!({ "message": message }).to_string();
    Says { status, headers: Vec::new(), body: body.into() }
}

/// Any text.
pub fn text(body: impl Into<Body>) -> Says {
    Says { status: 200, headers: Vec::new(), body: body.into() }
}

impl Says {
    /// The same with another document.
    pub fn saying(mut self, value: Value) -> Self {
        self.body = value.to_string().into();
        self
    }

    /// The same with a header.
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }
}

/// A running server.
pub struct Service {
    pub address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Service {
    /// Starts it, on a thread of its own.
    pub fn start(answer: impl Fn(&Asked) -> Says + Send + Sync + 'static) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (record, answer) = (Arc::clone(&asked), Arc::new(answer));
        let respond = move |method: Method, uri: Uri, headers: HeaderMap, body: Bytes| {
            let (record, answer) = (Arc::clone(&record), Arc::clone(&answer));
            async move {
                let path = uri.path_and_query().map(ToString::to_string).unwrap_or_default();
                let body = String::from_utf8_lossy(&body).into_owned();
                let one = Asked { method, path, headers, body };
                let said = answer(&one);
                record.lock().unwrap().push(one);
                let mut response =
                    Response::builder().status(StatusCode::from_u16(said.status).unwrap());
                for (name, value) in said.headers {
                    response = response.header(name, value);
                }
                response.body(said.body).unwrap()
            }
        };
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async move {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                axum::serve(listener, axum::Router::new().fallback(respond)).await.unwrap();
            });
        });
        Self { address, asked }
    }

    /// Its address.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Forgets what it was asked.
    pub fn forget(&self) {
        self.asked.lock().unwrap().clear();
    }

    /// What it was asked so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}
