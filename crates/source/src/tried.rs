//! What a person tries before a push: a work tree, or another revision, in place of each revision
//! that Applications and generators name of a repository.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::git::refs::RevisionTarget;
use wavegate_api::repository::RepositoryUrl;

/// What is read in place of a repository, for the command line only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TriedSource {
    /// Where the repository is, in normal form.
    places: BTreeSet<String>,
    content: TriedContent,
}

/// The content that is tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TriedContent {
    /// The files below this absolute path as they are, without `.git`.
    WorkTree(PathBuf),
    /// A branch, a tag or a commit of the repository.
    Revision(String),
}

impl TriedSource {
    /// Some content in place of the repository with these URLs, in whatever spelling.
    pub fn new<'a>(urls: impl IntoIterator<Item = &'a str>, content: TriedContent) -> Self {
        let places = urls.into_iter().map(|url| RepositoryUrl::of(url).place()).collect();
        Self { places, content }
    }

    /// Whether it is read in place of this repository.
    pub fn is_for(&self, repo_url: &str) -> bool {
        self.places.contains(&RepositoryUrl::of(repo_url).place())
    }

    /// The work tree that is read in place of this repository.
    pub(crate) fn work_tree_of(&self, repo_url: &str) -> Option<&Path> {
        self.work_tree().filter(|_| self.is_for(repo_url))
    }

    /// The work tree.
    pub(crate) fn work_tree(&self) -> Option<&Path> {
        match &self.content {
            TriedContent::WorkTree(root) => Some(root),
            TriedContent::Revision(_) => None,
        }
    }

    /// The target that is resolved in place of this one.
    pub(crate) fn target<'a>(
        &'a self,
        repo_url: &str,
        target: RevisionTarget<'a>,
    ) -> RevisionTarget<'a> {
        match &self.content {
            TriedContent::Revision(revision) if self.is_for(repo_url) => revision.as_str().into(),
            TriedContent::Revision(_) | TriedContent::WorkTree(_) => target,
        }
    }
}
