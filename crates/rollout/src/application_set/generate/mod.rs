//! The spec of a set as read: its generated Applications, what it ignores and preserves, and what
//! its generators found.

pub mod autosync;
pub mod generated;
pub mod generator_history;
pub mod ignore;
pub mod policy;
pub mod preserve;
pub mod refresh_requests;
pub mod shape;
pub mod validate;
