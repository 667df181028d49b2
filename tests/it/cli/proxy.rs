//! A proxy between the program and the embedded API server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};

use super::embedded::Cluster;
use super::*;

/// A client tries to connect again in much less time.
const LIMIT: Duration = Duration::from_secs(120);

/// Between the program and the server; connections can be cut, or hang.
pub(super) struct Proxy {
    files: TempDir,
    is_open: Arc<AtomicBool>,
    is_frozen: watch::Sender<bool>,
    cut: Arc<Notify>,
    /// How many connections were closed as soon as they were accepted.
    refused: watch::Sender<usize>,
}

impl Proxy {
    /// Opened, in front of this cluster.
    pub async fn in_front_of(cluster: &Cluster) -> Self {
        let config = std::fs::read_to_string(cluster.kubeconfig()).unwrap();
        let server = config.split("http://").nth(1).unwrap().split_whitespace().next().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let files = folder(&[("config", &config.replace(server, &address))]);
        let server: SocketAddr = server.parse().unwrap();
        let (is_open, cut) = (Arc::new(AtomicBool::new(true)), Arc::new(Notify::new()));
        let (open, ended) = (is_open.clone(), cut.clone());
        let (is_frozen, frozen) = watch::channel(false);
        let (refused, _) = watch::channel(0);
        let refuses = refused.clone();
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                if !open.load(Ordering::SeqCst) {
                    refuses.send_modify(|count| *count += 1);
                    continue;
                }
                let (ended, mut frozen) = (ended.clone(), frozen.clone());
                let is_open = open.clone();
                tokio::spawn(async move {
                    // Also one that is not connected yet is cut.
                    let cut = ended.notified();
                    if !is_open.load(Ordering::SeqCst) {
                        return;
                    }
                    let mut upstream = TcpStream::connect(server).await.unwrap();
                    let freeze = async {
                        let _ = frozen.wait_for(|frozen| *frozen).await;
                    };
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut client, &mut upstream) => return,
                        () = cut => return,
                        () = freeze => {}
                    }
                    // Open, and silent in both directions.
                    let _ = frozen.wait_for(|frozen| !*frozen).await;
                });
            }
        });
        Self { files, is_open, is_frozen, cut, refused }
    }

    /// The kubeconfig that leads through it.
    pub fn kubeconfig(&self) -> PathBuf {
        self.files.path().join("config")
    }

    /// While it is shut, connections are closed as soon as they are accepted.
    pub fn set_open(&self, open: bool) {
        self.is_open.store(open, Ordering::SeqCst);
        self.cut.notify_waiters();
    }

    /// Waits until it has closed so many connections while it was shut.
    pub async fn until_refused(&self, count: usize) {
        let refused = async {
            let _ = self.refused.subscribe().wait_for(|refused| *refused >= count).await;
        };
        tokio::time::timeout(LIMIT, refused).await.expect("connections are tried again");
    }

    /// While it is frozen, connections are open and nothing passes.
    pub fn set_frozen(&self, frozen: bool) {
        self.is_frozen.send_replace(frozen);
    }
}
