//! What Argo CD's API server, web page and command line read from Redis (`CA-…`): the keys,
//! and the values of the resource tree, the managed resources and the cluster information.
//!
//! ```text
//! each live object ── node ──> TreeEntry, kept by the cluster cache
//! roots, entries ── tree ──> ResourceTree ── shards ──> values
//! comparison ── rows ──> managed resources, Secrets masked
//! ```
//!
//! A copy for readers: no decision reads it.

#![deny(clippy::disallowed_types, clippy::disallowed_methods)]

mod cluster_info;
mod facts;
mod hosts;
mod keys;
mod mask;
mod network;
mod node;
mod orphans;
mod parts;
mod pod;
mod rows;
mod settings;
#[cfg(test)]
mod tests;
mod tree;

pub use cluster_info::{ClusterInfo, ShownCluster};
pub use keys::Keys;
pub use node::{NodeHealth, Parent, Relations, ShownLabels, TreeEntry, TreeNode, object_relations};
pub use orphans::{Orphans, orphans_warning as orphan_warning};
pub use rows::{ResourceDiff, compared_rows};
pub use settings::{ReaderSettings, RedisCredentials, RedisSettings, RedisTls};
pub use tree::{Find, ResourceTree, TreeObjects, TreeRoot, build_tree};
