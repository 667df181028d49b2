//! The cluster: [`watch`] reads it, [`act`] writes it. No decisions.

pub mod act;
pub mod watch;
