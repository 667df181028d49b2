//! Plain manifests of a directory, Jsonnet, patterns, and listings for the git generator.

pub(crate) mod jsonnet;
pub(crate) mod listing;
pub(crate) mod manifests;
pub(crate) mod pattern;
pub(crate) mod source_directory;
