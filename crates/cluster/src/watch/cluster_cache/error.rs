//! Why the live state is unknown.

use wavegate_api::resource_key::ResourceKey;

/// Why the live state is unknown.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The connection has ended, since the Secret of the cluster has changed: the next one is
    /// to be used.
    #[error("the Secret of the cluster {server} changes too often")]
    Ended {
        /// The cluster.
        server: String,
    },
    /// Discovery failed.
    #[error("cannot read which kinds the cluster {server} has: {reason}")]
    Discovery {
        /// The cluster.
        server: String,
        /// The message of the server.
        reason: String,
    },
    /// Objects of a kind cannot be listed or watched.
    #[error("cannot list {kind}: {reason}")]
    List {
        /// The kind, as `Kind.group`.
        kind: String,
        /// The message of the server, or the time limit.
        reason: String,
    },
    /// One object cannot be read.
    #[error("cannot read {key}: {reason}")]
    Read {
        /// The object.
        key: ResourceKey,
        /// The message of the server.
        reason: String,
    },
}
