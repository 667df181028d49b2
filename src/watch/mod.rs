//! Facts in from clusters: watched objects, kept raw, with what we wrote
//! ourselves laid over them until the watch has caught up. Decides nothing.

pub mod cluster_cache;
pub mod clusters;
pub mod connection;
pub mod control_plane;
pub mod failure;
pub mod follow;
pub mod mutation_cache;
pub mod object;
pub mod read_only;
