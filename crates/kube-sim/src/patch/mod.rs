//! The four patch types of the Kubernetes API.

pub(crate) mod apply;
pub(crate) mod json;
pub(crate) mod merge;
pub(crate) mod shape;
pub(crate) mod strategic;
