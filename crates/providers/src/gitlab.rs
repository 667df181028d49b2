//! GitLab: REST API v4.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::failure::{ProviderError, existing};
use super::http::{Api, Listing, Page, Pages, Reply, path_segments, segment};
use super::scm::Scm;
use wavegate_rollout::desired::queries::{
    Branch, PullRequest, PullRequests, Repository, ScmRepositories,
};

/// The public server.
pub(super) const PUBLIC: &str = "https://gitlab.com";

#[derive(Deserialize)]
struct Project {
    id: u64,
    path: String,
    namespace: Namespace,
    #[serde(default)]
    default_branch: Option<String>,
    ssh_url_to_repo: String,
    http_url_to_repo: String,
    #[serde(default)]
    topics: Option<Vec<String>>,
    /// The topics before GitLab 14.5.
    #[serde(default)]
    tag_list: Option<Vec<String>>,
    #[serde(default)]
    archived: bool,
}

#[derive(Deserialize)]
struct Namespace {
    full_path: String,
}

/// A branch; servers of Gitea write it alike.
#[derive(Deserialize)]
pub(super) struct ListedBranch {
    name: String,
    commit: Commit,
}

#[derive(Deserialize)]
struct Commit {
    id: String,
}

impl ListedBranch {
    pub fn of(self, repository: &Repository) -> Branch {
        repository.branch(&self.name, &self.commit.id)
    }
}

#[derive(Deserialize)]
struct Entry {
    path: String,
}

#[derive(Deserialize)]
struct MergeRequest {
    iid: i64,
    title: String,
    source_branch: String,
    target_branch: String,
    /// Null while it is prepared.
    sha: Option<String>,
    #[serde(default)]
    labels: Vec<String>,
    author: Option<Author>,
}

#[derive(Deserialize)]
struct Author {
    username: String,
}

/// The items of a page; the next one is named by its number, or by a link.
fn page<T: DeserializeOwned>(path: &str, reply: &Reply, _: usize) -> Page<T> {
    let numbered = || Some(format!("{path}&page={}", segment(reply.header("x-next-page")?)));
    Ok((reply.json()?, numbered().or_else(|| reply.next_link(path))))
}

pub(super) async fn repositories(scm: &Scm) -> Listing<Repository> {
    let ScmRepositories { owner, scope, clone_protocol, .. } = &scm.query;
    let mut path = format!(
        "/groups/{}/projects?per_page=100&order_by=id&sort=asc&include_subgroups={}&with_shared={}",
        segment(owner),
        scope.subgroups,
        scope.shared
    );
    if !scope.topic.is_empty() {
        path.push_str(&format!("&topic={}", segment(&scope.topic)));
    }
    if !scope.archived {
        path.push_str("&archived=false");
    }
    let mut listed = scm.api.pages(&path, page::<Project>).await?;
    listed.items.retain(|one| scope.archived || !one.archived);
    let is_https = clone_protocol == "https";
    Ok(listed.map(|one| Repository {
        organization: one.namespace.full_path,
        name: one.path,
        id: one.id.to_string(),
        url: if is_https { one.http_url_to_repo } else { one.ssh_url_to_repo },
        default_branch: one.default_branch.unwrap_or_default(),
        labels: one.topics.filter(|topics| !topics.is_empty()).or(one.tag_list).unwrap_or_default(),
        ..Repository::default()
    }))
}

pub(super) async fn branches(scm: &Scm, repository: &Repository) -> Listing<Branch> {
    let place = format!("/projects/{}/repository/branches", segment(&repository.id));
    let branch = |one: ListedBranch| one.of(repository);
    if scm.query.all_branches {
        let path = format!("{place}?per_page=100");
        // A project may have no repository.
        let listed = existing(scm.api.pages(&path, page).await)?;
        return Ok(listed.unwrap_or_else(|| Pages::one(None)).map(branch));
    }
    if repository.default_branch.is_empty() {
        return Ok(Pages::one(None));
    }
    let path = format!("{place}/{}", segment(&repository.default_branch));
    Ok(Pages::one(scm.api.find_json(&path).await?.map(branch)))
}

/// There is no request for a path that may be a file or a directory, so its parent is
/// listed.
pub(super) async fn has_path(
    scm: &Scm,
    branch: &Branch,
    path: &str,
) -> Result<bool, ProviderError> {
    path_segments(path)?;
    let wanted = path.trim_matches('/');
    let parent = wanted.rsplit_once('/').map(|(parent, _)| parent).unwrap_or_default();
    let list = format!(
        "/projects/{}/repository/tree?per_page=100&ref={}&path={}",
        segment(&branch.repository.id),
        segment(&branch.name),
        segment(parent)
    );
    let found = existing(scm.api.pages(&list, page::<Entry>).await)?;
    Ok(found.is_some_and(|found| found.items.iter().any(|entry| entry.path == wanted)))
}

pub(super) async fn pull_requests(api: &Api, query: &PullRequests) -> Listing<PullRequest> {
    let mut path = format!("/projects/{}/merge_requests?per_page=100", segment(&query.repository));
    if !query.labels.is_empty() {
        path.push_str(&format!("&labels={}", segment(&query.labels.join(","))));
    }
    if !query.state.is_empty() {
        path.push_str(&format!("&state={}", segment(&query.state)));
    }
    Ok(api.pages(&path, page).await?.map(|one: MergeRequest| PullRequest {
        number: one.iid,
        title: one.title,
        branch: one.source_branch,
        target_branch: one.target_branch,
        head_sha: one.sha.unwrap_or_default(),
        labels: one.labels,
        author: one.author.map(|author| author.username).unwrap_or_default(),
    }))
}
