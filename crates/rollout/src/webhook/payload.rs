//! Bodies of webhooks.

use serde::Deserialize;

use super::body::{AtMost, parse, pull_request, push};
use super::commits::Commits;
use super::{Provider, Push, RefusedWebhook, bitbucket};

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct GitHub {
    r#ref: String,
    repository: GitHubRepository,
    commits: Commits,
    action: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct GitHubRepository {
    html_url: String,
    clone_url: String,
    ssh_url: String,
    default_branch: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct GitLab {
    object_kind: String,
    event_name: String,
    r#ref: String,
    project: GitLabProject,
    commits: Commits,
    total_commits_count: usize,
    object_attributes: GitLabAttributes,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct GitLabAttributes {
    action: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct GitLabProject {
    id: Option<u64>,
    web_url: String,
    git_http_url: String,
    git_ssh_url: String,
    default_branch: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Azure {
    event_type: String,
    resource: AzureResource,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct AzureResource {
    ref_updates: AtMost<AzureRef>,
    repository: AzureRepository,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AzureRef {
    name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct AzureRepository {
    remote_url: String,
    ssh_url: String,
    default_branch: String,
}

/// Reads the body of a request. `None` for events that concern no generator, such as a ping or
/// a comment on a pull request.
///
/// # Errors
///
/// [`RefusedWebhook::Event`] and [`RefusedWebhook::Body`].
pub fn read_payload(
    provider: Provider,
    header: &dyn Fn(&str) -> Option<String>,
    body: &[u8],
) -> Result<Option<Push>, RefusedWebhook> {
    match provider {
        Provider::GitHub => github(&header("x-github-event").unwrap_or_default(), body),
        Provider::Gogs => gogs(&header("x-gogs-event").unwrap_or_default(), body),
        Provider::Bitbucket => bitbucket::cloud(&header("x-event-key").unwrap_or_default(), body),
        Provider::BitbucketServer => {
            bitbucket::server(&header("x-event-key").unwrap_or_default(), body)
        }
        Provider::GitLab => gitlab(&header("x-gitlab-event").unwrap_or_default(), body),
        Provider::AzureDevOps => azure(body),
    }
}

fn github(event: &str, body: &[u8]) -> Result<Option<Push>, RefusedWebhook> {
    match event {
        "push" => pushed(Provider::GitHub, body).map(Some),
        "pull_request" => {
            let GitHub { repository, action, .. } = parse(Provider::GitHub, body)?;
            let urls = [repository.html_url, repository.clone_url, repository.ssh_url];
            let known = ["opened", "closed", "synchronize", "labeled", "reopened", "unlabeled"];
            known
                .contains(&action.as_str())
                .then(|| pull_request(Provider::GitHub, &urls, None))
                .transpose()
        }
        "ping" => {
            parse::<serde::de::IgnoredAny>(Provider::GitHub, body)?;
            Ok(None)
        }
        _ => Err(RefusedWebhook::Event(Provider::GitHub.name())),
    }
}

/// Gogs and those that are like it send what GitHub sends.
fn gogs(event: &str, body: &[u8]) -> Result<Option<Push>, RefusedWebhook> {
    match event {
        "push" => pushed(Provider::Gogs, body).map(Some),
        "pull_request" => {
            parse::<serde::de::IgnoredAny>(Provider::Gogs, body)?;
            Ok(None)
        }
        _ => Err(RefusedWebhook::Event(Provider::Gogs.name())),
    }
}

fn pushed(provider: Provider, body: &[u8]) -> Result<Push, RefusedWebhook> {
    let GitHub { r#ref, repository, commits, .. } = parse(provider, body)?;
    let urls = [repository.html_url, repository.clone_url, repository.ssh_url];
    let mut push = push(provider, &urls, &[r#ref], &repository.default_branch)?;
    // With so many commits, GitHub leaves out the rest.
    push.files = match commits.count < GITHUB_COMMITS {
        true => commits.into_files(),
        false => Vec::new(),
    };
    Ok(push)
}

fn gitlab(event: &str, body: &[u8]) -> Result<Option<Push>, RefusedWebhook> {
    let read = parse(Provider::GitLab, body)?;
    let GitLab { object_kind, event_name, r#ref, project, commits, .. } = read;
    let (total_commits_count, action) = (read.total_commits_count, read.object_attributes.action);
    let kind = if object_kind.is_empty() { &event_name } else { &object_kind };
    match (event, kind.as_str()) {
        ("Push Hook" | "Tag Push Hook", _) | ("System Hook", "push" | "tag_push") => {
            let default = project.default_branch.unwrap_or_default();
            let urls = [project.web_url, project.git_http_url, project.git_ssh_url];
            let mut push = push(Provider::GitLab, &urls, &[r#ref], &default)?;
            push.files = match total_commits_count <= commits.count {
                true => commits.into_files(),
                false => Vec::new(),
            };
            Ok(Some(push))
        }
        ("Merge Request Hook", _) | ("System Hook", "merge_request") => {
            let urls = [project.web_url, project.git_http_url, project.git_ssh_url];
            ["open", "close", "reopen", "update", "merge"]
                .contains(&action.as_str())
                .then(|| pull_request(Provider::GitLab, &urls, project.id))
                .transpose()
        }
        ("System Hook", _) => Ok(None),
        _ => Err(RefusedWebhook::Event(Provider::GitLab.name())),
    }
}

fn azure(body: &[u8]) -> Result<Option<Push>, RefusedWebhook> {
    let Azure { event_type, resource } = parse(Provider::AzureDevOps, body)?;
    match event_type.as_str() {
        "git.push" => {
            let refs: Vec<String> =
                resource.ref_updates.0.into_iter().map(|one| one.name).collect();
            let urls = [resource.repository.remote_url, resource.repository.ssh_url];
            push(Provider::AzureDevOps, &urls, &refs, &resource.repository.default_branch).map(Some)
        }
        "git.pullrequest.created" | "git.pullrequest.updated" | "git.pullrequest.merged" => {
            let urls = [resource.repository.remote_url, resource.repository.ssh_url];
            let is_named = urls.iter().any(|url| !url.is_empty());
            is_named.then(|| pull_request(Provider::AzureDevOps, &urls, None)).transpose()
        }
        _ => Err(RefusedWebhook::Event(Provider::AzureDevOps.name())),
    }
}

/// GitHub reports at most this many commits.
const GITHUB_COMMITS: usize = 2048;
