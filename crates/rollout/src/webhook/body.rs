//! What all bodies of webhooks have in common: bounded texts, repositories and references.

use serde::Deserialize;

use super::{ChangedPullRequest, MAX_TEXT, Provider, Push, Ref, RefusedWebhook, Repository};

/// The most branches and tags of one push.
const MAX_REFS: usize = 1000;

/// The body as JSON.
pub(super) fn parse<'a, T: Deserialize<'a>>(
    provider: Provider,
    body: &'a [u8],
) -> Result<T, RefusedWebhook> {
    let failed =
        |error: serde_json::Error| RefusedWebhook::Body(provider.name(), error.to_string());
    serde_json::from_slice(body).map_err(failed)
}

/// A pull request of a repository that has one of these URLs.
pub(super) fn pull_request(
    provider: Provider,
    urls: &[String],
    project: Option<u64>,
) -> Result<Push, RefusedWebhook> {
    let repositories = repositories(provider, urls)?;
    let pull_request = Some(ChangedPullRequest { provider, project });
    Ok(Push { repositories, refs: Vec::new(), files: Vec::new(), pull_request })
}

fn repositories(provider: Provider, urls: &[String]) -> Result<Vec<Repository>, RefusedWebhook> {
    let refused = |why: &str| RefusedWebhook::Body(provider.name(), why.to_owned());
    if urls.iter().any(|url| url.len() > MAX_TEXT) {
        return Err(refused("a URL or the name of a branch is too long, or there are too many"));
    }
    let mut repositories: Vec<Repository> =
        urls.iter().filter(|url| !url.is_empty()).map(|url| Repository::of(url)).collect();
    repositories.sort();
    repositories.dedup();
    if repositories.is_empty() || repositories.contains(&Repository::of("")) {
        return Err(refused("the URL of the repository is missing"));
    }
    Ok(repositories)
}

/// A push to a repository that has one of these URLs.
pub(super) fn push(
    provider: Provider,
    urls: &[String],
    refs: &[String],
    default_branch: &str,
) -> Result<Push, RefusedWebhook> {
    let refused = |why: &str| RefusedWebhook::Body(provider.name(), why.to_owned());
    let repositories = repositories(provider, urls)?;
    let texts = refs.iter().map(String::len).chain([default_branch.len()]);
    if texts.max().unwrap_or_default() > MAX_TEXT || refs.len() > MAX_REFS {
        return Err(refused("a URL or the name of a branch is too long, or there are too many"));
    }
    let refs: Vec<Ref> = refs.iter().map(|name| Ref::new(name, default_branch)).collect();
    if refs.is_empty() || refs.iter().any(|one| one.name.is_empty()) {
        return Err(refused("the branch or tag is missing"));
    }
    Ok(Push { repositories, refs, files: Vec::new(), pull_request: None })
}
