//! Bitbucket Cloud: API 2.0.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::failure::ProviderError;
use super::http::{Api, Listing, Page, Pages, Reply, continued, path_segments, segment};
use super::scm::Scm;
use wavegate_rollout::desired::queries::{
    Branch, PullRequest, PullRequests, Repository, ScmRepositories,
};

/// The public server; another one by this variable, as programs for Bitbucket have it.
pub(super) const PUBLIC: &str = "https://api.bitbucket.org/2.0";
pub(super) const ADDRESS: &str = "BITBUCKET_API_BASE_URL";

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

pub(super) async fn repositories(scm: &Scm) -> Listing<Repository> {
    let ScmRepositories { owner, clone_protocol, .. } = &scm.query;
    let path = format!("/repositories/{}?role=member&pagelen=100", segment(owner));
    let protocol = if clone_protocol.is_empty() { "ssh" } else { clone_protocol };
    scm.api.pages(&path, page).await?.try_map(|one: Listed| {
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

fn place(scm: &Scm, repository: &Repository) -> String {
    format!("/repositories/{}/{}", segment(&scm.query.owner), segment(&repository.name))
}

pub(super) async fn branches(scm: &Scm, repository: &Repository) -> Listing<Branch> {
    let place = place(scm, repository);
    let branch = |one: ListedBranch| repository.branch(&one.name, &one.target.hash);
    if scm.query.all_branches {
        let path = format!("{place}/refs/branches?pagelen=100");
        return Ok(scm.api.pages(&path, page).await?.map(branch));
    }
    let default = &repository.default_branch;
    if default.is_empty() {
        return Ok(Pages::one(None));
    }
    let path = format!("{place}/refs/branches/{}", path_segments(default)?);
    Ok(Pages::one([branch(scm.api.get_json(&path).await?)]))
}

pub(super) async fn has_path(
    scm: &Scm,
    branch: &Branch,
    path: &str,
) -> Result<bool, ProviderError> {
    let place = place(scm, &branch.repository);
    let (sha, path) = (segment(&branch.sha), path_segments(path)?);
    let path = format!("{place}/src/{sha}/{path}?format=meta");
    scm.api.has(&path).await
}

pub(super) async fn pull_requests(api: &Api, query: &PullRequests) -> Listing<PullRequest> {
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
