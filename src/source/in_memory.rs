//! Sources that are not read from anywhere: what a simulation deploys.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::checkout::Checkout;
use super::manifests::Manifest;
use super::refs::{Revision, Target, is_full_hash};
use super::render::Rendered;

/// All repositories, in memory. Each has one line of commits.
pub trait InMemory: fmt::Debug + Send + Sync {
    /// The newest commit of a repository: a hash of 40 digits.
    fn head(&self, repo_url: &str) -> String;

    /// The objects that the source of an Application holds at a commit.
    fn objects(&self, application: &str, source: &Value, commit: &str) -> Vec<Value>;
}

/// Any revision but the hash of a commit is the newest one.
pub(super) fn resolve(memory: &dyn InMemory, repo_url: &str, target: &Target<'_>) -> Revision {
    match is_full_hash(target.revision) {
        true => Revision::pinned(target.revision),
        false => Revision::pinned(&memory.head(repo_url)),
    }
}

pub(super) fn checkout(memory: &Arc<dyn InMemory>, repo_url: &str, commit: &str) -> Checkout {
    Checkout::in_memory(Arc::clone(memory), repo_url.to_owned(), commit.to_owned())
}

pub(super) fn render(
    memory: &dyn InMemory,
    application: &str,
    source: &Value,
    commit: &str,
) -> Rendered {
    let manifest = |object| Manifest {
        object,
        file: "simulated.yaml".to_owned(),
        line: 1,
        repeated: Vec::new(),
    };
    let objects = memory.objects(application, source, commit);
    Rendered {
        manifests: objects.into_iter().map(manifest).collect(),
        source_type: Some(super::kind::SourceType::Directory),
        warnings: Vec::new(),
    }
}
