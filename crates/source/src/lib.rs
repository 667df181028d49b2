//! Reads manifests: from `repoURL`, `targetRevision` and `path` to a list of objects.
//!
//! ```text
//! repoURL + targetRevision --resolve--> Revision --checkout--> files --render--> manifests
//! ```
//!
//! - [`Repositories`] resolves and fetches each repository and revision once for all
//!   Applications. It runs the `git` program, and `helm` for charts of repositories and
//!   registries ([`ChartSource`]); other artifacts of registries are read by this process.
//! - Credentials are passed to `git` by `git::login`; a [`RepoIdentity`] is exchanged for a token
//!   before that. Submodules are repositories of their own, permitted by a
//!   [`RepositoryAccess`].
//! - [`render_source`] turns a [`Checkout`] and a raw `source` block into
//!   [`Manifest`]s; [`read_directory`] is the part for plain manifests.
//! - [`SourceError`] and [`RenderError`] distinguish a missing object from a failed read:
//!   nothing is deleted because of a failed read.
//!
//! Repositories are not trusted. No program of a repository is run, no path leaves a
//! checkout, sizes, times and counts are limited, and no credentials appear in a command
//! line, a log or an error.
//!
//! This crate does not access the cluster and makes no decision about the manifests.

mod answer;
mod cache;
mod deadline;
mod directory;
mod error;
mod git;
mod helm;
mod hosts;
mod http;
mod in_memory;
mod kustomize;
mod limits;
mod links;
mod local;
mod network;
mod oci;
mod packages;
mod plugin;
mod process;
mod render;
mod repositories;
mod snapshot;
mod tried;
mod version;

#[cfg(test)]
mod tests;

pub use self::http::credentials::RepoCredentials;
pub use self::http::identity::RepoIdentity;
pub use answer::Freshness;
pub use directory::jsonnet::evaluate_local;
pub use directory::listing::{list_directories, list_files};
pub use directory::manifests::{DEFAULT_MAX_BYTES, DirectoryOptions, read_directory};
pub use directory::source_directory::DEFAULT_MAX_MEMORY;
pub use error::SourceError;
pub use git::access::RepositoryAccess;
pub use git::address::{Allow, redact_urls};
pub use git::checkout::Checkout;
pub use git::objects::CommitWords;
pub use git::refs::{Revision, RevisionTarget};
pub use git::requests::{BOUNDS, GitRequests, Requests};
pub use git::signatures::{RefusedCommits, Signed};
pub use helm::charts::ChartSource;
pub use helm::template::VALUES_SCHEMES;
pub use in_memory::InMemory;
pub use limits::{SourceLimits, SourceSettings};
pub use local::render_local;
pub use network::{Lend, Network};
pub use oci::{ArtifactSettings, is_artifact};
pub use plugin::{DEFAULT_FOLDER, PluginSettings};
pub use process::exec_plugin;
pub use process::tools::{BuildOptions, Programs};
pub use render::kind::{EnabledTypes, SourceType, explicit_type};
pub use render::manifest::{Manifest, RenderError};
pub use render::render_for::{ChartCapabilities, RenderFor};
pub use render::source::{RenderOptions, RenderedSource, directory_options, render_source};
pub use repositories::Repositories;
pub use tried::{TriedContent, TriedSource};
