//! Patch types of the Kubernetes API; a merge patch is that of `json_patch`.

pub(crate) mod apply;
pub(crate) mod json;
mod order;
pub(crate) mod shape;
pub(crate) mod strategic;
