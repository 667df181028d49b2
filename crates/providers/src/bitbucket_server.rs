//! Bitbucket Server and Data Center: REST API 1.0.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::bitbucket::{Link, clone_url};
use super::failure::{ProviderError, existing};
use super::http::{Api, Listing, Page, Pages, Reply, path_segments, segment};
use super::scm::Scm;
use wavegate_rollout::desired::queries::{
    Branch, PullRequest, PullRequests, Repository, ScmRepositories,
};

#[derive(Deserialize)]
struct Listed {
    id: u64,
    name: String,
    slug: String,
    project: Project,
    links: Links,
}

#[derive(Deserialize)]
struct Project {
    key: String,
}

#[derive(Deserialize)]
struct Links {
    #[serde(default)]
    clone: Vec<Link>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Ref {
    display_id: String,
    #[serde(default)]
    latest_commit: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request {
    id: i64,
    title: String,
    from_ref: Ref,
    to_ref: Ref,
    author: Option<Author>,
}

#[derive(Deserialize)]
struct Author {
    user: User,
}

#[derive(Deserialize)]
struct User {
    name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Values<T> {
    values: Vec<T>,
    is_last_page: bool,
    next_page_start: Option<u64>,
}

fn page<T: DeserializeOwned>(path: &str, reply: &Reply, _: usize) -> Page<T> {
    let Values { values, is_last_page, next_page_start } = reply.json()?;
    match (is_last_page, next_page_start) {
        (true, _) => Ok((values, None)),
        (false, Some(start)) => Ok((values, Some(format!("{path}&start={start}")))),
        (false, None) => Err(ProviderError::new(format!("{path}: does not say where it goes on"))),
    }
}

pub(super) async fn repositories(scm: &Scm) -> Listing<Repository> {
    let ScmRepositories { owner, clone_protocol, .. } = &scm.query;
    let path = format!("/projects/{}/repos?limit=100", segment(owner));
    let protocol = if clone_protocol == "https" { "http" } else { "ssh" };
    scm.api.pages(&path, page).await?.try_map(|one: Listed| {
        Ok(Repository {
            organization: one.project.key,
            name: one.name,
            url: clone_url(&one.slug, one.links.clone, protocol)?,
            slug: one.slug,
            id: one.id.to_string(),
            ..Repository::default()
        })
    })
}

fn place(repository: &Repository) -> String {
    let (project, slug) = (segment(&repository.organization), segment(repository.slug()));
    format!("/projects/{project}/repos/{slug}")
}

pub(super) async fn branches(scm: &Scm, repository: &Repository) -> Listing<Branch> {
    let place = place(repository);
    let branch = |one: Ref| repository.branch(&one.display_id, &one.latest_commit);
    // 404 is a default branch that does not exist, 204 none: both have no commits.
    let reply = existing(scm.api.get(&format!("{place}/branches/default")).await)?;
    let Some(reply) = reply.filter(|reply| reply.status != http::StatusCode::NO_CONTENT) else {
        return Ok(Pages::one(None));
    };
    if !scm.query.all_branches {
        return Ok(Pages::one([branch(reply.json()?)]));
    }
    let path = format!("{place}/branches?limit=100");
    Ok(scm.api.pages(&path, page).await?.map(branch))
}

pub(super) async fn has_path(
    scm: &Scm,
    branch: &Branch,
    path: &str,
) -> Result<bool, ProviderError> {
    let place = place(&branch.repository);
    let (path, name) = (path_segments(path)?, segment(&branch.name));
    let path = format!("{place}/browse/{path}?at={name}&type=true&limit=100");
    scm.api.has(&path).await
}

pub(super) async fn pull_requests(api: &Api, query: &PullRequests) -> Listing<PullRequest> {
    let (project, repository) = (segment(&query.owner), segment(&query.repository));
    let path = format!("/projects/{project}/repos/{repository}/pull-requests?limit=100");
    Ok(api.pages(&path, page).await?.map(|one: Request| PullRequest {
        number: one.id,
        title: one.title,
        branch: one.from_ref.display_id,
        target_branch: one.to_ref.display_id,
        head_sha: one.from_ref.latest_commit,
        labels: Vec::new(),
        author: one.author.map(|author| author.user.name).unwrap_or_default(),
    }))
}
