//! Bitbucket Cloud: API 2.0.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::failure::ProviderError;
use super::http::{Api, Page, Pages, Reply, continued, path_segments, segment};
use wavegate_rollout::desired::queries::{
    Branch, PullRequest, PullRequests, Repository, ScmRepositories,
};

/// The public server; another one by this variable, as programs for Bitbucket have it.
pub(super) const PUBLIC: &str = "https://api.bitbucket.org/2.0";
pub(super) const ADDRESS: &str = "BITBUCKET_API_BASE_URL";

/// A workspace.
#[derive(Debug)]
pub(super) struct Bitbucket {
    pub api: Api,
    pub query: ScmRepositories,
}

#[derive(Deserialize)]
struct Listed {
    uuid: String,
    slug: String,
    links: Links,
    /// Null without commits.
    mainbranch: Option<Named>,
}

#[derive(Deserialize)]
struct Links {
    clone: Vec<Link>,
}

/// A URL to clone from, by its protocol.
#[derive(Deserialize)]
pub(super) struct Link {
    name: String,
    href: String,
}

/// The URL of a repository for a protocol.
pub(super) fn clone_url(
    slug: &str,
    links: Vec<Link>,
    protocol: &str,
) -> Result<String, ProviderError> {
    let link = links.into_iter().find(|link| link.name == protocol);
    let missing = || ProviderError::new(format!("{slug}: has no URL for {protocol}"));
    link.map(|link| link.href).ok_or_else(missing)
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

#[derive(Deserialize)]
struct ListedBranch {
    name: String,
    target: Commit,
}

#[derive(Deserialize)]
struct Commit {
    hash: String,
}

#[derive(Deserialize)]
struct Request {
    id: i64,
    title: String,
    source: Side,
    destination: Side,
    author: Option<Author>,
}

#[derive(Deserialize)]
struct Side {
    branch: Named,
    /// Null when the fork is gone.
    commit: Option<Commit>,
}

#[derive(Deserialize)]
struct Author {
    #[serde(default)]
    nickname: String,
}

#[derive(Deserialize)]
struct Values<T> {
    values: Vec<T>,
    next: Option<String>,
}

/// The items of a page; the next one is named by its URL.
fn page<T: DeserializeOwned>(path: &str, reply: &Reply, _: usize) -> Page<T> {
    let Values { values, next } = reply.json()?;
    Ok((values, next.map(|url| continued(path, &url))))
}

impl Bitbucket {
    pub async fn repositories(&self) -> Result<Pages<Repository>, ProviderError> {
        let ScmRepositories { owner, clone_protocol, .. } = &self.query;
        let path = format!("/repositories/{}?role=member&pagelen=100", segment(owner));
        let protocol = if clone_protocol.is_empty() { "ssh" } else { clone_protocol };
        self.api.pages(&path, page).await?.try_map(|one: Listed| {
            Ok(Repository {
                organization: owner.clone(),
                url: clone_url(&one.slug, one.links.clone, protocol)?,
                name: one.slug,
                id: one.uuid,
                default_branch: one.mainbranch.map(|branch| branch.name).unwrap_or_default(),
                ..Repository::default()
            })
        })
    }

    fn place(&self, repository: &Repository) -> String {
        format!("/repositories/{}/{}", segment(&self.query.owner), segment(&repository.name))
    }

    pub async fn branches(&self, repository: &Repository) -> Result<Pages<Branch>, ProviderError> {
        let place = self.place(repository);
        let branch = |one: ListedBranch| repository.branch(&one.name, &one.target.hash);
        if self.query.all_branches {
            let path = format!("{place}/refs/branches?pagelen=100");
            return Ok(self.api.pages(&path, page).await?.map(branch));
        }
        let default = &repository.default_branch;
        if default.is_empty() {
            return Ok(Pages::one(None));
        }
        let path = format!("{place}/refs/branches/{}", path_segments(default)?);
        Ok(Pages::one([branch(self.api.get_json(&path).await?)]))
    }

    pub async fn has_path(&self, branch: &Branch, path: &str) -> Result<bool, ProviderError> {
        let place = self.place(&branch.repository);
        let (sha, path) = (segment(&branch.sha), path_segments(path)?);
        let path = format!("{place}/src/{sha}/{path}?format=meta");
        self.api.has(&path).await
    }

    pub async fn pull_requests(
        api: &Api,
        query: &PullRequests,
    ) -> Result<Pages<PullRequest>, ProviderError> {
        let (owner, repository) = (segment(&query.owner), segment(&query.repository));
        let path = format!("/repositories/{owner}/{repository}/pullrequests?state=OPEN&pagelen=50");
        Ok(api.pages(&path, page).await?.map(|one: Request| PullRequest {
            number: one.id,
            title: one.title,
            branch: one.source.branch.name,
            target_branch: one.destination.branch.name,
            head_sha: one.source.commit.map(|commit| commit.hash).unwrap_or_default(),
            labels: Vec::new(),
            author: one.author.map(|author| author.nickname).unwrap_or_default(),
        }))
    }
}
