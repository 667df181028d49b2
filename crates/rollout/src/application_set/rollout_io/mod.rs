//! What a rollout stores, and where: in annotations of Applications, and in the status of the set.

pub(super) mod last_good;
pub mod record;
pub mod rollout_storage;
pub mod started;
