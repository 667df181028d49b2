//! Watched objects of clusters, kept raw, with own writes in a mutation cache until the
//! watch has caught up. No decisions.

pub mod absent_settings;
mod answer_size;
pub mod busy;
pub mod cluster_cache;
pub mod cluster_config;
pub mod clusters;
pub mod connection;
pub mod control_plane;
pub mod counted;
pub mod exec_credentials;
pub mod failure;
pub mod fence;
pub mod follow;
pub mod impersonation;
pub mod mutation_cache;
pub mod object;
pub mod read_only;
pub mod request_limit;
pub mod secrets;
pub mod time_limit;
pub mod trust;
pub mod watched;
