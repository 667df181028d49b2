//! GitLab: REST API v4.

use serde::Deserialize;

use super::failure::{Failure, existing};
use super::http::{Api, Pages, Reply, path_segments, segment};
use super::providers::{Asker, Providers};
use wavegate_rollout::desired::queries::{
    Branch, Provider, PullRequest, PullRequests, Repositories, Repository,
};

/// The public server.
const PUBLIC: &str = "https://gitlab.com";

/// A group.
#[derive(Debug)]
pub(super) struct GitLab {
    pub api: Api,
    pub query: Repositories,
}

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

#[derive(Deserialize)]
struct ListedBranch {
    name: String,
    commit: Commit,
}

#[derive(Deserialize)]
struct Commit {
    id: String,
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
fn page<T: serde::de::DeserializeOwned>(
    path: &str,
) -> impl Fn(&Reply, usize) -> Result<(Vec<T>, Option<String>), Failure> {
    let path = path.to_owned();
    move |reply, _| {
        let numbered = || Some(format!("{path}&page={}", segment(reply.header("x-next-page")?)));
        Ok((reply.json()?, numbered().or_else(|| reply.next_link(&path))))
    }
}

impl GitLab {
    pub async fn api(
        providers: &Providers,
        provider: &Provider,
        asker: &Asker,
    ) -> Result<Api, Failure> {
        let api = provider.api.trim_end_matches('/');
        let api = if api.is_empty() { PUBLIC } else { api };
        let base = match api.ends_with("/api/v4") {
            true => api.to_owned(),
            false => format!("{api}/api/v4"),
        };
        providers.api(provider, &base, "", asker).await
    }

    pub async fn repositories(&self) -> Result<Pages<Repository>, Failure> {
        let Repositories { owner, scope, clone_protocol, .. } = &self.query;
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
        let Pages { items, several } = self.api.pages(&path, page::<Project>(&path)).await?;
        let is_https = clone_protocol == "https";
        let items = items.into_iter().filter(|one| scope.archived || !one.archived);
        let items = items.map(|one| Repository {
            organization: one.namespace.full_path,
            name: one.path,
            slug: String::new(),
            id: one.id.to_string(),
            url: if is_https { one.http_url_to_repo } else { one.ssh_url_to_repo },
            default_branch: one.default_branch.unwrap_or_default(),
            labels: one
                .topics
                .filter(|topics| !topics.is_empty())
                .or(one.tag_list)
                .unwrap_or_default(),
        });
        Ok(Pages { items: items.collect(), several })
    }

    pub async fn branches(&self, repository: &Repository) -> Result<Pages<Branch>, Failure> {
        let place = format!("/projects/{}/repository/branches", segment(&repository.id));
        let branch = |one: ListedBranch| repository.branch(&one.name, &one.commit.id);
        let none = Pages { items: Vec::new(), several: false };
        if self.query.all_branches {
            let path = format!("{place}?per_page=100");
            // A project may have no repository.
            let listed = existing(self.api.pages(&path, page::<ListedBranch>(&path)).await)?;
            let listed = listed.map(|Pages { items, several }| Pages {
                items: items.into_iter().map(branch).collect(),
                several,
            });
            return Ok(listed.unwrap_or(none));
        }
        if repository.default_branch.is_empty() {
            return Ok(none);
        }
        let path = format!("{place}/{}", segment(&repository.default_branch));
        let found = existing(self.api.get(&path).await)?;
        let found = found.map(|reply| reply.json::<ListedBranch>()).transpose()?;
        Ok(Pages { items: found.map(branch).into_iter().collect(), several: false })
    }

    /// There is no request for a path that may be a file or a directory, so its parent is
    /// listed.
    pub async fn has_path(&self, branch: &Branch, path: &str) -> Result<bool, Failure> {
        path_segments(path)?;
        let wanted = path.trim_matches('/');
        let parent = wanted.rsplit_once('/').map(|(parent, _)| parent).unwrap_or_default();
        let list = format!(
            "/projects/{}/repository/tree?per_page=100&ref={}&path={}",
            segment(&branch.repository.id),
            segment(&branch.name),
            segment(parent)
        );
        let found = existing(self.api.pages(&list, page::<Entry>(&list)).await)?;
        Ok(found.is_some_and(|found| found.items.iter().any(|entry| entry.path == wanted)))
    }

    pub async fn pull_requests(
        api: &Api,
        query: &PullRequests,
    ) -> Result<Pages<PullRequest>, Failure> {
        let mut path =
            format!("/projects/{}/merge_requests?per_page=100", segment(&query.repository));
        if !query.labels.is_empty() {
            path.push_str(&format!("&labels={}", segment(&query.labels.join(","))));
        }
        if !query.state.is_empty() {
            path.push_str(&format!("&state={}", segment(&query.state)));
        }
        let Pages { items, several } = api.pages(&path, page::<MergeRequest>(&path)).await?;
        let items = items.into_iter().map(|one| PullRequest {
            number: one.iid,
            title: one.title,
            branch: one.source_branch,
            target_branch: one.target_branch,
            head_sha: one.sha.unwrap_or_default(),
            labels: one.labels,
            author: one.author.map(|author| author.username).unwrap_or_default(),
        });
        Ok(Pages { items: items.collect(), several })
    }
}
