//! All writes of Wavegate: each returns its outcome.

pub mod application_events;
pub mod commands;
pub mod control_plane;
pub mod events;
pub mod notify;
pub mod redis;
pub mod sync;
