//! Renders a source of any type to manifests.

pub(crate) mod build_environment;
pub(crate) mod checked;
pub(crate) mod files;
pub(crate) mod given;
pub(crate) mod kind;
pub(crate) mod manifest;
pub(crate) mod mirror;
pub(crate) mod programs;
pub(crate) mod render_for;
pub(crate) mod source;
