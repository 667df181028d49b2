//! A Git server over https as `git http-backend` makes it, with the ways to log in that
//! servers have; a proxy, certificates, and keys.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use axum::http::{HeaderMap, Method, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

/// Certificates of an authority of its own: for `localhost`, and for a client.
pub struct Certificates(tempfile::TempDir);

impl Certificates {
    /// Makes them with `openssl`.
    pub fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let names = "subjectAltName=DNS:localhost,IP:127.0.0.1\n";
        std::fs::write(directory.path().join("names"), names).unwrap();
        for command in [
            "req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.crt -days 1 -subj /CN=authority",
            "req -newkey rsa:2048 -nodes -keyout server.key -out server.csr -subj /CN=localhost",
            "x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -out server.crt -days 1 -extfile names",
            "req -newkey rsa:2048 -nodes -keyout client.key -out client.csr -subj /CN=client",
            // With extensions it is of version 3, which rustls asks for.
            "x509 -req -in client.csr -CA ca.crt -CAkey ca.key -CAcreateserial -out client.crt -days 1 -extfile names",
        ] {
            openssl(directory.path(), command);
        }
        Self(directory)
    }

    /// Makes another certificate for a client, `NAME.crt` with `NAME.key`.
    pub fn add_client(&self, name: &str) {
        for command in [
            format!(
                "req -newkey rsa:2048 -nodes -keyout {name}.key -out {name}.csr -subj /CN={name}"
            ),
            format!(
                "x509 -req -in {name}.csr -CA ca.crt -CAkey ca.key -CAcreateserial -out {name}.crt -days 1 -extfile names"
            ),
        ] {
            openssl(self.0.path(), &command);
        }
    }

    /// One of the certificates, in DER.
    pub fn der(&self, name: &str) -> Vec<u8> {
        CertificateDer::from_pem_slice(self.text(name).as_bytes()).unwrap().to_vec()
    }

    /// One of the files, in PEM.
    pub fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.path().join(name)).unwrap()
    }

    /// How a server with these certificates is set up.
    pub fn server(&self, needs_client: bool) -> ServerConfig {
        let all = |name: &str| -> Vec<CertificateDer<'static>> {
            let text = self.text(name);
            CertificateDer::pem_slice_iter(text.as_bytes()).map(Result::unwrap).collect()
        };
        let key = PrivateKeyDer::from_pem_slice(self.text("server.key").as_bytes()).unwrap();
        let provider = Arc::new(default_provider());
        let config = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .unwrap();
        let config = if needs_client {
            let mut roots = RootCertStore::empty();
            roots.add(all("ca.crt").remove(0)).unwrap();
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            config.with_client_cert_verifier(verifier.unwrap())
        } else {
            config.with_no_client_auth()
        };
        config.with_single_cert(all("server.crt"), key).unwrap()
    }
}

fn openssl(directory: &Path, command: &str) {
    let mut openssl = Command::new("openssl");
    let made = openssl.args(command.split(' ')).current_dir(directory).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

/// An RSA key in PEM.
pub fn rsa_key() -> String {
    let directory = tempfile::tempdir().unwrap();
    openssl(directory.path(), "genrsa -out key 2048");
    std::fs::read_to_string(directory.path().join("key")).unwrap()
}

/// A request that a server has received.
#[derive(Clone, Debug)]
pub struct Seen {
    pub method: Method,
    /// Path and query.
    pub path: String,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Seen {
    /// The header `Authorization`.
    pub fn authorization(&self) -> &str {
        self.headers.get("authorization").map_or("", |value| value.to_str().unwrap())
    }
}

/// Answers requests that are none of Git; the status and the body.
pub type Api = dyn Fn(&Seen) -> Option<(StatusCode, String)> + Send + Sync;

/// How a server is set up.
#[derive(Default)]
pub struct Setup {
    /// The header `Authorization` that it accepts; empty for all.
    pub authorization: String,
    /// Whether clients need a certificate.
    pub needs_client: bool,
    /// What it answers besides.
    pub api: Option<Box<Api>>,
}

/// The server. Its repositories are public for it.
pub struct GitServer {
    pub certificates: Arc<Certificates>,
    root: tempfile::TempDir,
    address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    accepted: Arc<Mutex<String>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for GitServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl GitServer {
    pub async fn start(certificates: &Arc<Certificates>, setup: Setup) -> Self {
        let root = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(certificates.server(setup.needs_client)));
        let seen = Arc::new(Mutex::new(Vec::new()));
        let accepted = Arc::new(Mutex::new(setup.authorization));
        let state = State {
            root: root.path().to_owned(),
            seen: Arc::clone(&seen),
            accepted: Arc::clone(&accepted),
            api: setup.api.map(Arc::from),
        };
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, state) = (acceptor.clone(), state.clone());
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let service = service_fn(move |request| {
                        let state = state.clone();
                        async move { Ok::<_, std::convert::Infallible>(state.answer(request).await) }
                    });
                    let connection = hyper::server::conn::http1::Builder::new();
                    let _ = connection.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Self { certificates: Arc::clone(certificates), root, address, seen, accepted, task }
    }

    /// `https://localhost:port/path`.
    pub fn url(&self, path: &str) -> String {
        format!("https://localhost:{}/{path}", self.address.port())
    }

    /// `localhost:port`.
    pub fn authority(&self) -> String {
        format!("localhost:{}", self.address.port())
    }

    /// Copies a repository to a path, or updates it there.
    pub fn publish(&self, repository: &Path, path: &str) {
        let target = self.root.path().join(path);
        if target.exists() {
            git(repository, &["push", "--quiet", "--force", target.to_str().unwrap(), "HEAD:main"]);
            return;
        }
        std::fs::create_dir_all(target.parent().unwrap()).unwrap();
        let [from, to] = [repository, &target].map(|path| path.to_str().unwrap());
        git(repository, &["clone", "--quiet", "--bare", from, to]);
        git(&target, &["config", "uploadpack.allowAnySHA1InWant", "true"]);
        git(&target, &["config", "http.receivepack", "false"]);
    }

    /// What it has received.
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// Changes the header that it accepts.
    pub fn accept(&self, authorization: &str) {
        authorization.clone_into(&mut self.accepted.lock().unwrap());
    }
}

#[derive(Clone)]
struct State {
    root: PathBuf,
    seen: Arc<Mutex<Vec<Seen>>>,
    accepted: Arc<Mutex<String>>,
    api: Option<Arc<Api>>,
}

impl State {
    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        let path = head.uri.path_and_query().unwrap().as_str().to_owned();
        let seen = Seen { method: head.method, path, headers: head.headers, body };
        self.seen.lock().unwrap().push(seen.clone());
        let reply = |status: StatusCode, text: String| {
            let mut response = Response::new(Full::new(Bytes::from(text)));
            *response.status_mut() = status;
            response
        };
        if let Some((status, text)) = self.api.as_ref().and_then(|api| api(&seen)) {
            let is_redirect = status.is_redirection();
            let mut response = reply(status, text.clone());
            let kind = "application/vnd.git-lfs+json".parse().unwrap();
            response.headers_mut().insert("content-type", kind);
            if is_redirect {
                response.headers_mut().insert("location", text.parse().unwrap());
            }
            return response;
        }
        let accepted = self.accepted.lock().unwrap().clone();
        if !accepted.is_empty() && seen.authorization() != accepted {
            let mut response = reply(StatusCode::UNAUTHORIZED, String::new());
            let asks = "Basic realm=\"git\"".parse().unwrap();
            response.headers_mut().insert("www-authenticate", asks);
            return response;
        }
        let root = self.root.clone();
        tokio::task::spawn_blocking(move || backend(&root, &seen)).await.unwrap()
    }
}

/// One request to `git http-backend`.
pub fn backend(root: &Path, seen: &Seen) -> Response<Full<Bytes>> {
    use std::io::Write;

    let (path, query) = seen.path.split_once('?').unwrap_or((&seen.path, ""));
    let header = |name: &str| seen.headers.get(name).map_or("", |value| value.to_str().unwrap());
    let mut child = Command::new("git")
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("PATH_INFO", path)
        .env("QUERY_STRING", query)
        .env("REQUEST_METHOD", seen.method.as_str())
        .env("CONTENT_TYPE", header("content-type"))
        .env("CONTENT_LENGTH", seen.body.len().to_string())
        .env("HTTP_CONTENT_ENCODING", header("content-encoding"))
        .env("GIT_PROTOCOL", header("git-protocol"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let body = seen.body.clone();
    let writer = std::thread::spawn(move || {
        let _ = input.write_all(&body);
    });
    let output = child.wait_with_output().unwrap().stdout;
    writer.join().unwrap();
    let end = output.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or(output.len());
    let mut response =
        Response::new(Full::new(Bytes::copy_from_slice(output.get(end + 4..).unwrap_or_default())));
    for line in String::from_utf8_lossy(&output[..end]).lines() {
        let Some((name, value)) = line.split_once(": ") else { continue };
        if name.eq_ignore_ascii_case("status") {
            let code: u16 = value[..3].parse().unwrap();
            *response.status_mut() = StatusCode::from_u16(code).unwrap();
        } else {
            let name: axum::http::HeaderName = name.parse().unwrap();
            response.headers_mut().insert(name, value.parse().unwrap());
        }
    }
    response
}

/// An HTTP proxy that connects to other servers (`CONNECT`).
pub struct Proxy {
    address: SocketAddr,
    /// The heads of the requests.
    seen: Arc<Mutex<Vec<String>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Proxy {
    pub async fn start() -> Self {
        Self::start_that(false).await
    }

    /// A proxy that `asks` for a login, as git gives none unasked.
    pub async fn start_that(asks: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let log = Arc::clone(&log);
                tokio::spawn(async move {
                    let mut head = Vec::new();
                    while !head.ends_with(b"\r\n\r\n") {
                        let Ok(byte) = client.read_u8().await else { return };
                        head.push(byte);
                    }
                    let head = String::from_utf8(head).unwrap();
                    let target = head.split(' ').nth(1).unwrap().to_owned();
                    let is_connect = head.starts_with("CONNECT ");
                    if asks && !head.contains("\r\nProxy-Authorization: ") {
                        let answer = "HTTP/1.1 407 Login\r\nProxy-Authenticate: Basic realm=\"p\"\r\n\
                                      Content-Length: 0\r\nConnection: close\r\n\r\n";
                        let _ = client.write_all(answer.as_bytes()).await;
                        return;
                    }
                    log.lock().unwrap().push(head);
                    if !is_connect {
                        let _ = client.write_all(b"HTTP/1.1 405 No\r\n\r\n").await;
                        return;
                    }
                    let Ok(mut server) = TcpStream::connect(target).await else { return };
                    let _ = client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
                    let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
                });
            }
        });
        Self { address, seen, task }
    }

    /// Its URL, with a login.
    pub fn url(&self, login: &str) -> String {
        format!("http://{login}{}", self.address)
    }

    /// The heads of the requests so far.
    pub fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }
}

/// Runs `git` in a folder.
fn git(directory: &Path, args: &[&str]) {
    let output = Command::new("git")
        .args(["-c", "protocol.file.allow=always"])
        .args(args)
        .current_dir(directory)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
}
