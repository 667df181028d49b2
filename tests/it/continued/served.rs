//! The repository of a record, served at a URL that is the same in each run.
//!
//! Digests in statuses are made from specs, and these contain the URL: with a path or a port of
//! this run, each Application would look as if its spec had changed. So the URL names a host that
//! does not exist, and the proxy of the repository's Secret, where no digest looks, answers for it.

use std::net::SocketAddr;
use std::path::Path;

use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::git_server::{Seen, backend};

/// The URL of the repository.
pub const URL: &str = "http://git.example.com/fleet.git";
/// The name of its Secret.
const SECRET: &str = "fleet-repository";

/// A server of one repository, which ends with the test.
pub struct Served {
    address: SocketAddr,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Served {
    /// Serves `fleet.git` of a directory.
    pub async fn start(root: &Path) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let root = root.to_owned();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let root = root.clone();
                let service = service_fn(move |request: hyper::Request<Incoming>| {
                    let root = root.clone();
                    async move {
                        let (head, body) = request.into_parts();
                        let body = body.collect().await?.to_bytes();
                        // Of a proxy, a client asks for the whole URL.
                        let path = head.uri.path_and_query().map_or("", |path| path.as_str());
                        let path = path.to_owned();
                        let seen = Seen { method: head.method, path, headers: head.headers, body };
                        let answer = tokio::task::spawn_blocking(move || backend(&root, &seen));
                        Ok::<_, hyper::Error>(answer.await.expect("git http-backend runs"))
                    }
                });
                let connection = hyper::server::conn::http1::Builder::new();
                // A client that goes away is none of our business.
                tokio::spawn(connection.serve_connection(TokioIo::new(stream), service));
            }
        });
        Self { address, task }
    }

    /// The Secret of the repository.
    pub fn secret(&self, namespace: &str) -> Value {
        let labels = json!({ "argocd.argoproj.io/secret-type": "repository" });
        json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": { "name": SECRET, "namespace": namespace, "labels": labels },
            "stringData": { "type": "git", "url": URL, "proxy": self.proxy() },
        })
    }

    /// Writes this server into the Secret among recorded objects.
    pub fn take_over(&self, objects: &mut [Value]) {
        let is_it = |object: &&mut Value| {
            object["kind"] == "Secret" && object["metadata"]["name"] == SECRET
        };
        let secret = objects.iter_mut().find(is_it).expect("the record has the repository");
        secret["data"]["proxy"] = data_encoding::BASE64.encode(self.proxy().as_bytes()).into();
    }

    fn proxy(&self) -> String {
        format!("http://{}", self.address)
    }
}

/// Removes the server of a run from a record.
pub fn forget(objects: &mut [Value]) {
    for object in objects.iter_mut().filter(|object| object["metadata"]["name"] == SECRET) {
        object["data"]["proxy"] = "".into();
    }
}
