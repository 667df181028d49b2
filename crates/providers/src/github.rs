//! GitHub and GitHub Enterprise: REST API 2022-11-28.

use http::header::{ACCEPT, HeaderName};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::failure::ProviderError;
use super::http::{Api, Listing, Page, Pages, Reply, path_segments, segment};
use super::scm::Scm;
use wavegate_rollout::desired::queries::{Branch, PullRequest, PullRequests, Repository};

/// The public server.
const PUBLIC: &str = "https://api.github.com";

#[derive(Deserialize)]
struct Listed {
    id: u64,
    name: String,
    owner: Owner,
    #[serde(default)]
    default_branch: Option<String>,
    ssh_url: String,
    clone_url: String,
    #[serde(default)]
    topics: Option<Vec<String>>,
    #[serde(default)]
    archived: bool,
}

#[derive(Deserialize)]
struct Owner {
    login: String,
}

#[derive(Deserialize)]
struct ListedBranch {
    name: String,
    commit: Commit,
}

#[derive(Deserialize)]
struct Commit {
    sha: String,
}

/// A pull request; servers of Gitea write it alike.
#[derive(Deserialize)]
pub(super) struct Request {
    number: i64,
    title: String,
    head: Head,
    base: Base,
    #[serde(default)]
    labels: Option<Vec<Label>>,
    user: Option<Owner>,
}

impl Request {
    pub fn pull_request(self) -> PullRequest {
        PullRequest {
            number: self.number,
            title: self.title,
            branch: self.head.r#ref,
            target_branch: self.base.r#ref,
            head_sha: self.head.sha,
            labels: self.labels.unwrap_or_default().into_iter().map(|label| label.name).collect(),
            // A deleted user is null.
            author: self.user.map(|user| user.login).unwrap_or_default(),
        }
    }
}

#[derive(Deserialize)]
struct Head {
    r#ref: String,
    sha: String,
}

#[derive(Deserialize)]
struct Base {
    r#ref: String,
}

/// A label; servers of Gitea and Azure DevOps write it alike.
#[derive(Deserialize)]
pub(super) struct Label {
    pub name: String,
}

/// The address of the API of a server: that of GitHub Enterprise is below `/api/v3`.
pub(super) fn base(api: &str) -> String {
    let api = api.trim_end_matches('/');
    if api.is_empty() {
        return PUBLIC.to_owned();
    }
    let host = api.split_once("://").map_or(api, |(_, rest)| rest);
    let host = host.split('/').next().unwrap_or_default();
    match api.ends_with("/api/v3") || host.starts_with("api.") || host.contains(".api.") {
        true => api.to_owned(),
        false => format!("{api}/api/v3"),
    }
}

/// The headers of each request.
pub(super) fn headers(api: Api) -> Result<Api, ProviderError> {
    api.with(ACCEPT, "application/vnd.github+json")?
        .with(HeaderName::from_static("x-github-api-version"), "2022-11-28")
}

/// The items of a page; the next one is named by a link.
fn page<T: DeserializeOwned>(path: &str, reply: &Reply, _: usize) -> Page<T> {
    Ok((reply.json()?, reply.next_link(path)))
}

pub(super) async fn repositories(scm: &Scm) -> Listing<Repository> {
    let path = format!("/orgs/{}/repos?per_page=100", segment(&scm.query.owner));
    let mut listed = scm.api.pages(&path, page::<Listed>).await?;
    listed.items.retain(|one| scm.query.scope.archived || !one.archived);
    let is_https = scm.query.clone_protocol == "https";
    Ok(listed.map(|one| Repository {
        organization: one.owner.login,
        name: one.name,
        id: one.id.to_string(),
        url: if is_https { one.clone_url } else { one.ssh_url },
        default_branch: one.default_branch.unwrap_or_default(),
        labels: one.topics.unwrap_or_default(),
        ..Repository::default()
    }))
}

fn place(repository: &Repository) -> String {
    format!("/repos/{}/{}", segment(&repository.organization), segment(&repository.name))
}

pub(super) async fn branches(scm: &Scm, repository: &Repository) -> Listing<Branch> {
    let place = place(repository);
    let branch = |one: ListedBranch| repository.branch(&one.name, &one.commit.sha);
    if scm.query.all_branches {
        let path = format!("{place}/branches?per_page=100");
        return Ok(scm.api.pages(&path, page).await?.map(branch));
    }
    // A repository without commits names a default branch that does not exist.
    let default = &repository.default_branch;
    if default.is_empty() {
        return Ok(Pages::one(None));
    }
    let path = format!("{place}/branches/{}", segment(default));
    Ok(Pages::one(scm.api.find_json(&path).await?.map(branch)))
}

pub(super) async fn has_path(
    scm: &Scm,
    branch: &Branch,
    path: &str,
) -> Result<bool, ProviderError> {
    let place = place(&branch.repository);
    let (path, name) = (path_segments(path)?, segment(&branch.name));
    let path = format!("{place}/contents/{path}?ref={name}");
    scm.api.has(&path).await
}

pub(super) async fn pull_requests(api: &Api, query: &PullRequests) -> Listing<PullRequest> {
    let (owner, repository) = (segment(&query.owner), segment(&query.repository));
    let path = format!("/repos/{owner}/{repository}/pulls?per_page=100");
    Ok(api.pages(&path, page).await?.map(Request::pull_request))
}
