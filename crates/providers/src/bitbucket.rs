//! Bitbucket Cloud: API 2.0.

use serde::Deserialize;

use super::failure::Failure;
use super::http::{Api, Pages, Reply, continued, path_segments, segment};
use super::providers::{Asker, Providers};
use wavegate_rollout::desired::queries::{
    Branch, Provider, PullRequest, PullRequests, Repositories, Repository,
};

/// The public server; another one by this variable, as programs for Bitbucket have it.
const PUBLIC: &str = "https://api.bitbucket.org/2.0";
const ADDRESS: &str = "BITBUCKET_API_BASE_URL";

/// A workspace.
#[derive(Debug)]
pub(super) struct Bitbucket {
    pub api: Api,
    pub query: Repositories,
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

#[derive(Deserialize)]
struct Link {
    name: String,
    href: String,
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
#[serde(bound = "T: serde::de::DeserializeOwned")]
struct Page<T> {
    values: Vec<T>,
    #[serde(default)]
    next: Option<String>,
}

/// The items of a page; the next one is named by its URL.
fn page<T: serde::de::DeserializeOwned>(
    path: &str,
) -> impl Fn(&Reply, usize) -> Result<(Vec<T>, Option<String>), Failure> {
    let path = path.to_owned();
    move |reply, _| {
        let Page { values, next } = reply.json()?;
        Ok((values, next.map(|url| continued(&path, &url))))
    }
}

impl Bitbucket {
    pub async fn api(
        providers: &Providers,
        provider: &Provider,
        asker: &Asker,
    ) -> Result<Api, Failure> {
        let public = providers.variable(ADDRESS).unwrap_or(PUBLIC);
        let base = if provider.api.is_empty() { public } else { &provider.api };
        providers.api(provider, base, "", asker).await
    }

    pub async fn repositories(&self) -> Result<Pages<Repository>, Failure> {
        let Repositories { owner, clone_protocol, .. } = &self.query;
        let path = format!("/repositories/{}?role=member&pagelen=100", segment(owner));
        let Pages { items, several } = self.api.pages(&path, page::<Listed>(&path)).await?;
        let protocol = if clone_protocol.is_empty() { "ssh" } else { clone_protocol };
        let repository = |one: Listed| {
            let link = one.links.clone.into_iter().find(|link| link.name == protocol);
            let Some(Link { href, .. }) = link else {
                return Err(Failure::new(format!("{}: has no URL for {protocol}", one.slug)));
            };
            Ok(Repository {
                organization: owner.clone(),
                name: one.slug,
                slug: String::new(),
                id: one.uuid,
                url: href,
                default_branch: one.mainbranch.map(|branch| branch.name).unwrap_or_default(),
                labels: Vec::new(),
            })
        };
        let items: Result<Vec<Repository>, Failure> = items.into_iter().map(repository).collect();
        Ok(Pages { items: items?, several })
    }

    fn place(&self, repository: &Repository) -> String {
        format!("/repositories/{}/{}", segment(&self.query.owner), segment(&repository.name))
    }

    pub async fn branches(&self, repository: &Repository) -> Result<Pages<Branch>, Failure> {
        let place = self.place(repository);
        let branch = |one: ListedBranch| repository.branch(&one.name, &one.target.hash);
        if self.query.all_branches {
            let path = format!("{place}/refs/branches?pagelen=100");
            let Pages { items, several } =
                self.api.pages(&path, page::<ListedBranch>(&path)).await?;
            return Ok(Pages { items: items.into_iter().map(branch).collect(), several });
        }
        let default = &repository.default_branch;
        if default.is_empty() {
            return Ok(Pages { items: Vec::new(), several: false });
        }
        let path = format!("{place}/refs/branches/{}", path_segments(default)?);
        let found: ListedBranch = self.api.get(&path).await?.json()?;
        Ok(Pages { items: vec![branch(found)], several: false })
    }

    pub async fn has_path(&self, branch: &Branch, path: &str) -> Result<bool, Failure> {
        let place = self.place(&branch.repository);
        let (sha, path) = (segment(&branch.sha), path_segments(path)?);
        let path = format!("{place}/src/{sha}/{path}?format=meta");
        self.api.has(&path).await
    }

    pub async fn pull_requests(
        api: &Api,
        query: &PullRequests,
    ) -> Result<Pages<PullRequest>, Failure> {
        let (owner, repository) = (segment(&query.owner), segment(&query.repository));
        let path = format!("/repositories/{owner}/{repository}/pullrequests?state=OPEN&pagelen=50");
        let Pages { items, several } = api.pages(&path, page::<Request>(&path)).await?;
        let items = items.into_iter().map(|one| PullRequest {
            number: one.id,
            title: one.title,
            branch: one.source.branch.name,
            target_branch: one.destination.branch.name,
            head_sha: one.source.commit.map(|commit| commit.hash).unwrap_or_default(),
            labels: Vec::new(),
            author: one.author.map(|author| author.nickname).unwrap_or_default(),
        });
        Ok(Pages { items: items.collect(), several })
    }
}
