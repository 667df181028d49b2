//! Sources that are not read from anywhere: what a simulation deploys.

use std::fmt;

use serde_json::Value;

use crate::git::refs::{Revision, RevisionTarget, is_full_hash};

/// All repositories, in memory. Each has one line of commits.
pub trait InMemory: fmt::Debug + Send + Sync {
    /// The newest commit of a repository: a hash of 40 digits.
    fn head(&self, repo_url: &str) -> String;

    /// The objects that the source of an Application holds at a commit.
    fn objects(&self, application: &str, source: &Value, commit: &str) -> Vec<Value>;
}

/// Any revision but the hash of a commit is the newest one.
pub(super) fn resolve(
    memory: &dyn InMemory,
    repo_url: &str,
    target: &RevisionTarget<'_>,
) -> Revision {
    match is_full_hash(target.revision) {
        true => Revision::pinned(target.revision),
        false => Revision::pinned(&memory.head(repo_url)),
    }
}
