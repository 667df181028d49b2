//! TLS before a server that has none, with or without certificates of clients.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use crate::git_server::Certificates;

/// The front of one server, at `https://localhost:PORT`.
pub struct TlsFront {
    address: SocketAddr,
    /// The certificates of clients, in DER, in order and without repetition in a row.
    seen: Arc<Mutex<Vec<Vec<u8>>>>,
    /// The certificate that is answered with 401; connections end when it changes.
    revoked: watch::Sender<Option<Vec<u8>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for TlsFront {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl TlsFront {
    /// Starts it before the server at `target`.
    pub async fn start(
        certificates: &Certificates,
        needs_client: bool,
        target: SocketAddr,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(certificates.server(needs_client)));
        let seen = Arc::<Mutex<Vec<Vec<u8>>>>::default();
        let (revoked, is_revoked) = watch::channel(None);
        let log = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, log) = (acceptor.clone(), Arc::clone(&log));
                let mut revoked: watch::Receiver<Option<Vec<u8>>> = is_revoked.clone();
                tokio::spawn(async move {
                    let Ok(mut near) = acceptor.accept(stream).await else { return };
                    let certificates = near.get_ref().1.peer_certificates();
                    let certificate = certificates.map(|all| all[0].to_vec()).unwrap_or_default();
                    {
                        let mut log = log.lock().unwrap();
                        if log.last() != Some(&certificate) {
                            log.push(certificate.clone());
                        }
                    }
                    let refused = revoked.borrow_and_update().as_ref() == Some(&certificate);
                    if refused {
                        let mut head = [0; 4096];
                        let _ = near.read(&mut head).await;
                        let answer = "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\
                                      Connection: close\r\n\r\n";
                        let _ = near.write_all(answer.as_bytes()).await;
                        let _ = near.shutdown().await;
                        return;
                    }
                    let Ok(mut behind) = TcpStream::connect(target).await else { return };
                    tokio::select! {
                        _ = copy_bidirectional(&mut near, &mut behind) => {}
                        _ = revoked.changed() => {}
                    }
                });
            }
        });
        Self { address, seen, revoked, task }
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("https://localhost:{}", self.address.port())
    }

    /// The certificates of clients so far, in DER.
    pub fn seen(&self) -> Vec<Vec<u8>> {
        self.seen.lock().unwrap().clone()
    }

    /// Answers this certificate with 401 from now on, and ends all connections.
    pub fn revoke(&self, certificate: Vec<u8>) {
        self.revoked.send_replace(Some(certificate));
    }
}
