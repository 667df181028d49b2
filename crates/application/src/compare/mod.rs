//! Manifests and live objects: what is observed, how they differ, and when they are compared.

pub(crate) mod children;
pub(crate) mod compared;
pub(crate) mod differences;
pub mod handover;
pub mod normalize;
pub mod observation;
pub(crate) mod outside;
pub(crate) mod pairs;
pub mod predicted;
pub mod predictions;
pub mod reconcile;
pub mod refresh;
pub mod request;
pub mod targets;
pub mod updates;
