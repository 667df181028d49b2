//! Azure DevOps Services and Server: Git API 7.1.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::failure::ProviderError;
use super::github::Label;
use super::http::{Api, Listing, Page, Pages, Reply, path_segments, segment};
use super::scm::Scm;
use wavegate_rollout::desired::queries::{Branch, PullRequest, PullRequests, Repository};

/// The public server.
pub(super) const PUBLIC: &str = "https://dev.azure.com";
const VERSION: &str = "api-version=7.1";
/// Before the names of branches.
const BRANCH: &str = "refs/heads/";
/// Pull requests of a page.
const PAGE_SIZE: usize = 100;

#[derive(Deserialize)]
struct List<T> {
    value: Vec<T>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct Listed {
    id: Option<String>,
    name: Option<String>,
    default_branch: Option<String>,
    remote_url: Option<String>,
    ssh_url: Option<String>,
    is_disabled: bool,
}

#[derive(Deserialize)]
struct ListedBranch {
    name: String,
    commit: Commit,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Commit {
    commit_id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request {
    pull_request_id: i64,
    title: String,
    source_ref_name: String,
    target_ref_name: String,
    /// Absent until it is prepared.
    last_merge_source_commit: Option<Commit>,
    #[serde(default)]
    labels: Option<Vec<Label>>,
    created_by: Option<User>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct User {
    #[serde(default)]
    unique_name: String,
}

fn list<T: DeserializeOwned>(_: &str, reply: &Reply, _: usize) -> Page<T> {
    let List { value } = reply.json()?;
    // Lists of servers that page name the next one by a token.
    match reply.header("x-ms-continuationtoken") {
        None => Ok((value, None)),
        Some(_) => Err(ProviderError::new("the list goes on, which the API does not document")),
    }
}

fn place(scm: &Scm) -> String {
    format!("/{}/_apis/git/repositories", segment(&scm.query.project))
}

pub(super) async fn repositories(scm: &Scm) -> Listing<Repository> {
    let path = format!("{}?{VERSION}", place(scm));
    let is_ssh = scm.query.clone_protocol == "ssh";
    // One without a default branch has no commits, and a disabled one cannot be read.
    let repository = |one: Listed| {
        let url = if is_ssh { one.ssh_url } else { one.remote_url };
        let default = one.default_branch.filter(|_| !one.is_disabled)?;
        Some(Repository {
            organization: scm.query.owner.clone(),
            name: one.name?,
            id: one.id?,
            url: url?,
            default_branch: default.strip_prefix(BRANCH).unwrap_or(&default).to_owned(),
            ..Repository::default()
        })
    };
    Ok(scm.api.pages(&path, list).await?.filter_map(repository))
}

pub(super) async fn branches(scm: &Scm, repository: &Repository) -> Listing<Branch> {
    let place = format!("{}/{}/stats/branches", place(scm), segment(&repository.id));
    let branch = |one: ListedBranch| repository.branch(&one.name, &one.commit.commit_id);
    if scm.query.all_branches {
        let path = format!("{place}?{VERSION}");
        return Ok(scm.api.pages(&path, list).await?.map(branch));
    }
    let path = format!("{place}?name={}&{VERSION}", segment(&repository.default_branch));
    Ok(Pages::one([branch(scm.api.get_json(&path).await?)]))
}

pub(super) async fn has_path(
    scm: &Scm,
    branch: &Branch,
    path: &str,
) -> Result<bool, ProviderError> {
    path_segments(path)?;
    let path = format!(
        "{}/{}/items?path={}&versionDescriptor.version={}&versionDescriptor.versionType=branch\
         &$format=json&{VERSION}",
        place(scm),
        segment(&branch.repository.id),
        segment(&format!("/{}", path.trim_start_matches('/'))),
        segment(&branch.name)
    );
    scm.api.has(&path).await
}

pub(super) async fn pull_requests(api: &Api, query: &PullRequests) -> Listing<PullRequest> {
    let path = format!(
        "/{}/_apis/git/repositories/{}/pullrequests?searchCriteria.status=active&$top={PAGE_SIZE}&{VERSION}",
        segment(&query.project),
        segment(&query.repository)
    );
    let page = |path: &str, reply: &Reply, number: usize| {
        let List { value } = reply.json::<List<Request>>()?;
        // The last page is the first that is not full.
        let skipped = number * PAGE_SIZE;
        let next = (value.len() >= PAGE_SIZE).then(|| format!("{path}&$skip={skipped}"));
        Ok((value, next))
    };
    let name = |text: &str| text.strip_prefix(BRANCH).unwrap_or(text).to_owned();
    let request = |one: Request| {
        let author = one.created_by.map(|user| user.unique_name).unwrap_or_default();
        Some(PullRequest {
            number: one.pull_request_id,
            title: one.title,
            branch: name(&one.source_ref_name),
            target_branch: name(&one.target_ref_name),
            head_sha: one.last_merge_source_commit?.commit_id,
            labels: one.labels.unwrap_or_default().into_iter().map(|one| one.name).collect(),
            author: author.split('@').next().unwrap_or_default().to_owned(),
        })
    };
    Ok(api.pages(&path, page).await?.filter_map(request))
}
