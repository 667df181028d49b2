//! Reads manifests: from `repoURL`, `targetRevision` and `path` to a list of objects.
//!
//! ```text
//! repoURL + targetRevision --resolve--> Revision --checkout--> files --render--> manifests
//! ```
//!
//! - [`Repositories`] resolves and fetches each repository and revision once for all
//!   Applications. It runs the `git` program, and `helm` for charts of repositories and
//!   registries ([`ChartSource`]); other artifacts of registries are read by this process.
//! - Credentials are passed to `git` by `git_login`; an [`Identity`] is exchanged for a token
//!   before that. Submodules are repositories of their own, permitted by a
//!   [`RepositoryAccess`].
//! - [`render`] turns a [`Checkout`] and a raw `source` block into
//!   [`Manifest`]s; [`directory`] is the part for plain manifests.
//! - [`Error`] and [`RenderError`] distinguish a missing object from a failed read:
//!   nothing is deleted because of a failed read.
//!
//! Repositories are not trusted. No program of a repository is run, no path leaves a
//! checkout, sizes, times and counts are limited, and no credentials appear in a command
//! line, a log or an error.
//!
//! This crate does not access the cluster and makes no decision about the manifests.

mod access;
mod address;
mod answer;
mod artifacts;
mod build_environment;
mod cache;
mod chart;
mod chart_address;
mod chart_schema;
mod charts;
mod checked;
mod checkout;
mod credentials;
mod dependencies;
mod directory;
mod error;
pub mod exec_plugin;
mod files;
mod git;
mod git_login;
mod git_repositories;
mod gitmodules;
mod given;
mod helm;
mod helm_client;
mod helm_errors;
mod hosts;
mod identity;
mod in_memory;
mod jsonnet;
mod kind;
mod kustomization;
mod kustomize;
mod lfs;
mod limits;
mod listing;
mod local;
mod manifests;
mod mirror;
mod network;
mod objects;
mod packages;
mod pattern;
mod plugin;
mod process;
mod programs;
mod refs;
mod remote;
mod render;
mod render_for;
mod repositories;
mod requests;
mod signatures;
mod snapshot;
mod source_directory;
mod submodules;
mod tokens;
mod tools;
mod version;
mod web;

#[cfg(test)]
mod tests;

pub use access::RepositoryAccess;
pub use address::{Allow, redact};
pub use answer::Freshness;
pub use artifacts::{ArtifactSettings, is_artifact};
pub use charts::ChartSource;
pub use checkout::Checkout;
pub use credentials::Credentials;
pub use directory::{DEFAULT_MAX_BYTES, DirectoryOptions, directory};
pub use error::Error;
pub use helm::VALUES_SCHEMES;
pub use identity::Identity;
pub use in_memory::InMemory;
pub use jsonnet::evaluate_local;
pub use kind::{EnabledTypes, SourceType, explicit_type};
pub use limits::{Limits, SourceSettings};
pub use listing::{directories, files};
pub use local::render_local;
pub use manifests::{Manifest, RenderError};
pub use network::{Lend, Network};
pub use plugin::{DEFAULT_FOLDER, PluginSettings};
pub use refs::{Revision, Target};
pub use render::{RenderOptions, Rendered, directory_options, render};
pub use render_for::{ClusterFacts, RenderFor};
pub use repositories::Repositories;
pub use requests::{BOUNDS, GitRequests, Requests};
pub use signatures::{Refused, Signed};
pub use source_directory::DEFAULT_MAX_MEMORY;
pub use tools::{BuildOptions, Programs};
