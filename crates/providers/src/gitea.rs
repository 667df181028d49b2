//! Gitea and Forgejo: API v1.

use futures::{StreamExt, TryStreamExt};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::failure::{ProviderError, existing};
use super::github::{Label, Request};
use super::gitlab::ListedBranch;
use super::http::{Api, Listing, PARALLEL, Page, Pages, Reply, path_segments, segment};
use super::scm::{Scm, compiled};
use wavegate_rollout::desired::queries::{
    Branch, PullRequest, PullRequests, Repository, ScmRepositories,
};

#[derive(Deserialize)]
struct Listed {
    id: u64,
    name: String,
    #[serde(default)]
    default_branch: String,
    ssh_url: String,
    html_url: String,
    #[serde(default)]
    archived: bool,
    #[serde(default)]
    empty: bool,
}

/// The items of a page. Servers without links end with an empty page.
fn page<T: DeserializeOwned>(path: &str, reply: &Reply, number: usize) -> Page<T> {
    let items: Option<Vec<T>> = reply.json()?;
    let items = items.unwrap_or_default();
    let has_links = reply.headers.contains_key("link");
    let is_all = reply
        .header("x-total-count")
        .and_then(|total| total.parse::<usize>().ok())
        .is_some_and(|total| total <= items.len());
    let numbered = || {
        let is_last = has_links || items.is_empty() || (number == 1 && is_all);
        (!is_last).then(|| format!("{path}&page={}", number + 1))
    };
    let next = reply.next_link(path).or_else(numbered);
    Ok((items, next))
}

pub(super) async fn repositories(scm: &Scm) -> Listing<Repository> {
    let ScmRepositories { owner, scope, clone_protocol, .. } = &scm.query;
    let path = |of: &str| format!("/{of}/{}/repos?limit=50", segment(owner));
    let listed = scm.api.pages(&path("orgs"), page::<Listed>).await;
    let Pages { items, mut several } = match existing(listed)? {
        Some(listed) => listed,
        None => scm.api.pages(&path("users"), page).await?,
    };
    let is_https = clone_protocol == "https";
    let filters = compiled(&scm.query)?;
    let kept = items.into_iter().filter(|one| scope.archived || !one.archived);
    // Their labels are a request each.
    let kept = kept.filter(|one| !one.empty && filters.name(&one.name));
    let read = kept.map(|one| async move {
        let path = format!("/repos/{}/{}/labels?limit=50", segment(owner), segment(&one.name));
        let labels = scm.api.pages(&path, page::<Label>).await?;
        let repository = Repository {
            organization: owner.clone(),
            name: one.name,
            id: one.id.to_string(),
            url: if is_https { one.html_url } else { one.ssh_url },
            default_branch: one.default_branch,
            labels: labels.items.into_iter().map(|label| label.name).collect(),
            ..Repository::default()
        };
        Ok::<_, ProviderError>((repository, labels.several))
    });
    let read = futures::stream::iter(read).buffered(PARALLEL);
    let read: Vec<(Repository, bool)> = read.try_collect().await?;
    several |= read.iter().any(|(_, several)| *several);
    Ok(Pages { items: read.into_iter().map(|(repository, _)| repository).collect(), several })
}

fn place(scm: &Scm, repository: &Repository) -> String {
    format!("/repos/{}/{}", segment(&scm.query.owner), segment(&repository.name))
}

pub(super) async fn branches(scm: &Scm, repository: &Repository) -> Listing<Branch> {
    let place = place(scm, repository);
    let branch = |one: ListedBranch| one.of(repository);
    if scm.query.all_branches {
        let path = format!("{place}/branches?limit=50");
        return Ok(scm.api.pages(&path, page).await?.map(branch));
    }
    let default = &repository.default_branch;
    // A branch may contain slashes, which are part of this path.
    let path = format!("{place}/branches/{}", path_segments(default)?);
    Ok(Pages::one([branch(scm.api.get_json(&path).await?)]))
}

pub(super) async fn has_path(
    scm: &Scm,
    branch: &Branch,
    path: &str,
) -> Result<bool, ProviderError> {
    let place = place(scm, &branch.repository);
    let (path, name) = (path_segments(path)?, segment(&branch.name));
    let path = format!("{place}/contents/{path}?ref={name}");
    scm.api.has(&path).await
}

pub(super) async fn pull_requests(api: &Api, query: &PullRequests) -> Listing<PullRequest> {
    let (owner, repository) = (segment(&query.owner), segment(&query.repository));
    let path = format!("/repos/{owner}/{repository}/pulls?state=open&limit=50");
    Ok(api.pages(&path, page).await?.map(Request::pull_request))
}
