//! Lists repositories with the branches that the filters of a generator select.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::{StreamExt, TryStreamExt};

use super::azure_devops::AzureDevOps;
use super::bitbucket::Bitbucket;
use super::bitbucket_server::BitbucketServer;
use super::code_commit::CodeCommit;
use super::failure::ProviderError;
use super::gitea::Gitea;
use super::github::GitHub;
use super::gitlab::GitLab;
use super::http::{PARALLEL, Pages};
use super::providers::{Asker, ProviderAnswer, Providers};
use wavegate_rollout::desired::queries::{
    Answer, Branch, Filters, QueryKind, Repository, ScmRepositories, Selected,
};

/// The most branches of one answer.
const MAX_BRANCHES: usize = 100_000;

/// A server of source code.
#[allow(clippy::large_enum_variant, reason = "there is one for each query")]
pub(super) enum Server {
    GitHub(GitHub),
    GitLab(GitLab),
    Gitea(Gitea),
    Bitbucket(Bitbucket),
    BitbucketServer(BitbucketServer),
    AzureDevOps(AzureDevOps),
    CodeCommit(CodeCommit),
}

macro_rules! each {
    ($server:expr, $one:ident => $call:expr) => {
        match $server {
            Server::GitHub($one) => $call,
            Server::GitLab($one) => $call,
            Server::Gitea($one) => $call,
            Server::Bitbucket($one) => $call,
            Server::BitbucketServer($one) => $call,
            Server::AzureDevOps($one) => $call,
            Server::CodeCommit($one) => $call,
        }
    };
}

impl Server {
    async fn open(
        providers: &Providers,
        query: &ScmRepositories,
        asker: &Asker,
    ) -> Result<Self, ProviderError> {
        let api = || providers.server_api(&query.provider, &query.owner, asker);
        let (kind, filters, query) = (query.provider.kind, compiled(query), query.clone());
        Ok(match kind {
            QueryKind::GitHub => Self::GitHub(GitHub { api: api().await?, query }),
            QueryKind::GitLab => Self::GitLab(GitLab { api: api().await?, query }),
            QueryKind::Gitea => Self::Gitea(Gitea { api: api().await?, filters: filters?, query }),
            QueryKind::Bitbucket => Self::Bitbucket(Bitbucket { api: api().await?, query }),
            QueryKind::BitbucketServer => {
                Self::BitbucketServer(BitbucketServer { api: api().await?, query })
            }
            QueryKind::AzureDevOps => Self::AzureDevOps(AzureDevOps { api: api().await?, query }),
            QueryKind::CodeCommit => {
                Self::CodeCommit(CodeCommit::open(providers, query, asker).await?)
            }
        })
    }

    async fn repositories(&self) -> Result<Pages<Repository>, ProviderError> {
        each!(self, one => one.repositories().await)
    }

    async fn branches(&self, repository: &Repository) -> Result<Pages<Branch>, ProviderError> {
        each!(self, one => one.branches(repository).await)
    }

    async fn has_path(&self, branch: &Branch, path: &str) -> Result<bool, ProviderError> {
        each!(self, one => one.has_path(branch, path).await)
    }
}

fn compiled(query: &ScmRepositories) -> Result<Filters, ProviderError> {
    Filters::new(&query.filters)
        .map_err(|(place, cause)| ProviderError::new(format!("filters{place}: {cause}")))
}

/// Lists the branches.
pub(super) async fn ask(
    providers: &Providers,
    query: &ScmRepositories,
    asker: &Asker,
) -> Result<ProviderAnswer, ProviderError> {
    let filters = compiled(query)?;
    let server = Server::open(providers, query, asker).await?;
    let Pages { items, several } = server.repositories().await?;
    let is_paged = AtomicBool::new(several);
    let (filters, server, paged) = (&filters, &server, &is_paged);
    let selected = items.into_iter().filter(|repository| filters.repository(repository));
    let lists = futures::stream::iter(selected.map(|repository| async move {
        let place = format!("{}/{}", repository.organization, repository.name);
        let found = async {
            let Pages { items, several } = server.branches(&repository).await?;
            paged.fetch_or(several, Ordering::Relaxed);
            let mut kept = Vec::new();
            for branch in items {
                if is_selected(server, filters, &branch).await? {
                    kept.push(branch);
                }
            }
            Ok(kept)
        };
        found.await.map_err(|failure: ProviderError| failure.of(&place))
    }));
    let lists: Vec<Vec<Branch>> = lists.buffer_unordered(PARALLEL).try_collect().await?;
    let mut branches: Vec<Branch> = lists.into_iter().flatten().collect();
    if branches.len() > MAX_BRANCHES {
        let text = format!("limit exceeded: more than {MAX_BRANCHES} branches are found");
        return Err(ProviderError::new(text));
    }
    let key = |branch: &Branch| {
        let Repository { organization, name, .. } = &branch.repository;
        (organization.clone(), name.clone(), branch.name.clone())
    };
    branches.sort_by_cached_key(key);
    // What moves between two pages is listed twice.
    branches.dedup_by_key(|branch| key(branch));
    let answer = Answer::Branches(branches);
    Ok(ProviderAnswer { answer, is_paged: is_paged.into_inner() })
}

async fn is_selected(
    server: &Server,
    filters: &Filters,
    branch: &Branch,
) -> Result<bool, ProviderError> {
    let mut paths = BTreeMap::new();
    loop {
        match filters.branch(branch, &paths) {
            Selected::Yes => return Ok(true),
            Selected::No => return Ok(false),
            Selected::Needs(path) => {
                let exists = server.has_path(branch, &path).await?;
                paths.insert(path, exists);
            }
        }
    }
}
