//! Repository facts in: from a `repoURL`, a `targetRevision` and a `path` to
//! a list of objects.
//!
//! ```text
//! repoURL + targetRevision --resolve--> Revision --checkout--> files --render--> manifests
//! ```
//!
//! - [`Repositories`] asks and fetches, each repository and revision once for
//!   all Applications that want it. It runs the `git` program.
//! - [`render`] turns a [`Checkout`] and a raw `source` block into
//!   [`Manifest`]s; [`directory`] is the part for plain manifests.
//! - [`Error`] and [`RenderError`] tell a missing thing from a failed read:
//!   the caller never deletes because something could not be read.
//!
//! Repositories are hostile until proven otherwise. Nothing in one is run, no
//! path leaves a checkout, every size, time and count has a limit, and no
//! credential reaches a command line, a log or an error.
//!
//! Never here: the cluster, the clock of a rollout, rules about what to do
//! with the manifests.

mod address;
mod cache;
mod checkout;
mod credentials;
mod directory;
mod error;
mod git;
mod hosts;
mod kind;
mod limits;
mod manifests;
mod objects;
mod process;
mod programs;
mod refs;
mod remote;
mod render;
mod repositories;
mod snapshot;
mod version;

#[cfg(test)]
mod tests;

pub use address::{Allow, redact};
pub use checkout::Checkout;
pub use credentials::Credentials;
pub use directory::{DEFAULT_MAX_BYTES, DEFAULT_MAX_MEMORY, DirectoryOptions, Manifest, directory};
pub use error::Error;
pub use kind::{EnabledTypes, SourceType, explicit_type};
pub use limits::{Limits, Settings};
pub use manifests::RenderError;
pub use programs::{Programs, RenderFor};
pub use refs::{Revision, Target};
pub use render::{RenderOptions, Rendered, directory_options, render};
pub use repositories::{Freshness, Repositories};
