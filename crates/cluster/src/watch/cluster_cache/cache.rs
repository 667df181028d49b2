//! What is kept of one cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::discovery::KnownKinds;
use super::feed::Feed;
use super::index::TrackingMark;
use super::owner_graph::OwnerGraph;
use super::reach::ClusterReach;
use super::schemas::Schemas;
use super::surveyed::Survey;
use super::wanted::WantedKinds;
use crate::watch::request_limit::RequestLimit;
use wavegate_api::kind::GroupVersionKind;

/// One cluster, shared by all Applications that sync to it.
#[derive(Debug)]
pub struct ClusterCache {
    pub(super) server: String,
    pub(super) client: Client,
    pub(super) mark: TrackingMark,
    pub(super) reach: ClusterReach,
    /// The writes to it (SE-566).
    pub requests: RequestLimit,
    pub(super) known: tokio::sync::Mutex<KnownKinds>,
    pub(super) schemas: tokio::sync::Mutex<Schemas>,
    pub(super) survey: Survey,
    pub(super) feeds: Mutex<Feeds>,
    /// Instances whose targets name an object, and vice versa.
    pub(super) wanted: Arc<Mutex<WantedKinds>>,
    /// All objects, if resource trees are read, or somebody looks for orphaned objects.
    pub(super) graph: Option<Arc<OwnerGraph>>,
    pub(super) trees: Trees,
    /// Instances that use a kind that does not exist.
    pub(super) missing_kinds: Mutex<BTreeSet<String>>,
    /// The version of Kubernetes, once it is known.
    pub(super) version: Mutex<Option<String>>,
    /// When all kinds were listed.
    pub(super) listed_at: Mutex<Option<Instant>>,
    pub(super) trigger: UnboundedSender<String>,
    pub(super) stop: CancellationToken,
    /// Cancelled when another connection follows; not at the end of the controller.
    pub(super) ended: CancellationToken,
}

/// The watches, by kind, and by namespace if the reach is limited to some.
pub(super) type Feeds = BTreeMap<(GroupVersionKind, Option<String>), Arc<Feed>>;

/// A client with a `Debug` implementation.
#[derive(Clone)]
pub(super) struct Client(pub(super) kube::Client);

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Client")
    }
}

/// The watches of all kinds.
#[derive(Debug, Default)]
pub(super) struct Trees {
    pub(super) begun: AtomicBool,
    /// Set when kinds may have been added.
    pub(super) again: Notify,
}

impl Trees {
    /// Looks for new kinds.
    pub fn again(&self) {
        self.again.notify_one();
    }
}
