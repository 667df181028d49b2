//! Webhooks of Git servers: what an event reports, and which ApplicationSets (AS-421)
//! and Applications (SE-422) it concerns.
//!
//! An event is a hint of anyone who can send it: it only makes the controller read a
//! repository earlier, and nothing else is taken from it.

mod applications;
mod bitbucket;
mod body;
mod commits;
mod generators;
mod payload;
mod repository;
mod secrets;
#[cfg(test)]
mod tests;

pub use applications::{deployed_repositories, deploys_push};
pub use generators::uses_push;
pub use payload::read_payload;
pub use repository::Repository;
pub use secrets::{SECRET, Secrets};

/// The longest URL and the longest name of a branch that are read.
const MAX_TEXT: usize = 2048;

/// A server that sends webhooks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Provider {
    /// GitHub.
    GitHub,
    /// GitLab.
    GitLab,
    /// Azure DevOps.
    AzureDevOps,
    /// Gogs.
    Gogs,
    /// Bitbucket Cloud.
    Bitbucket,
    /// A Bitbucket server of one's own.
    BitbucketServer,
}

impl Provider {
    /// The provider of a request, by its headers.
    pub fn of(header: &dyn Fn(&str) -> Option<String>) -> Option<Self> {
        let by_header = [
            ("x-vss-activityid", Self::AzureDevOps),
            // It sends headers of GitHub as well.
            ("x-gogs-event", Self::Gogs),
            ("x-github-event", Self::GitHub),
            ("x-gitlab-event", Self::GitLab),
            ("x-hook-uuid", Self::Bitbucket),
            ("x-event-key", Self::BitbucketServer),
        ];
        by_header.into_iter().find(|(name, _)| header(name).is_some()).map(|(_, found)| found)
    }

    /// Its name, for users.
    pub const fn name(self) -> &'static str {
        match self {
            Self::GitHub => "GitHub",
            Self::GitLab => "GitLab",
            Self::AzureDevOps => "Azure DevOps",
            Self::Gogs => "Gogs",
            Self::Bitbucket => "Bitbucket",
            Self::BitbucketServer => "Bitbucket Server",
        }
    }
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RefusedWebhook {
    /// No header names a supported server.
    #[error(
        "unknown webhook event: none of the headers X-GitHub-Event, X-Gitlab-Event, X-Vss-Activityid, \
         X-Gogs-Event, X-Hook-UUID and X-Event-Key is set"
    )]
    Unknown,
    /// The event is none that is supported.
    #[error("{0}: event is not supported")]
    Event(&'static str),
    /// The secret is missing or wrong.
    #[error("{0}: signature, token or password is missing or wrong")]
    Secret(&'static str),
    /// The server has no secret, and another one has.
    #[error(
        "{0}: there is no secret for it in Secret {SECRET}, and there is one for another server; \
         add {1}"
    )]
    NoSecret(&'static str, &'static str),
    /// The body cannot be read.
    #[error("{0}: body cannot be read: {1}")]
    Body(&'static str, String),
}

/// Commits that were pushed to a repository, or a change of one of its pull requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Push {
    /// The URLs of the repository.
    pub repositories: Vec<Repository>,
    /// The changed branches and tags; none for a pull request.
    pub refs: Vec<Ref>,
    /// The changed files; empty when the event does not report all of them.
    pub files: Vec<String>,
    /// The pull request that has changed instead.
    pub pull_request: Option<ChangedPullRequest>,
}

/// A pull request that has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedPullRequest {
    /// Whose it is.
    pub provider: Provider,
    /// The number of its project, for GitLab.
    pub project: Option<u64>,
}

/// A branch or a tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ref {
    /// Its full name, such as `refs/heads/main`.
    pub name: String,
    /// Whether it is the default branch.
    pub is_default: bool,
}

impl Ref {
    fn new(name: &str, default_branch: &str) -> Self {
        let branch = name.strip_prefix("refs/heads/");
        let default = default_branch.strip_prefix("refs/heads/").unwrap_or(default_branch);
        let is_default = !default.is_empty() && branch == Some(default);
        Self { name: name.to_owned(), is_default }
    }

    /// Its name without the kind.
    pub fn short(&self) -> &str {
        let short =
            ["refs/heads/", "refs/tags/"].iter().find_map(|kind| self.name.strip_prefix(kind));
        short.unwrap_or(&self.name)
    }

    /// Whether it is a tag.
    pub fn is_tag(&self) -> bool {
        self.name.starts_with("refs/tags/")
    }
}
