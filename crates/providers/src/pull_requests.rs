//! Lists the pull requests of a repository.

use super::failure::ProviderError;
use super::http::Pages;
use super::providers::{Asker, ProviderAnswer, Providers};
use super::{azure_devops, bitbucket, bitbucket_server, gitea, github, gitlab};
use wavegate_rollout::desired::queries::{Answer, PullRequest, PullRequests, QueryKind};

/// The most pull requests of one answer.
const MAX_REQUESTS: usize = 20_000;

/// Lists the pull requests.
pub(super) async fn ask(
    providers: &Providers,
    query: &PullRequests,
    asker: &Asker,
) -> Result<ProviderAnswer, ProviderError> {
    let (provider, owner) = (&query.provider, &query.owner);
    let place = match owner.is_empty() {
        true => query.repository.clone(),
        false => format!("{owner}/{}", query.repository),
    };
    // Without the API there is no repository that could be missing.
    let api = || providers.server_api(provider, owner, asker);
    let listed = match provider.kind {
        QueryKind::GitHub => github::pull_requests(&api().await?, query).await,
        QueryKind::GitLab => gitlab::pull_requests(&api().await?, query).await,
        QueryKind::Gitea => gitea::pull_requests(&api().await?, query).await,
        QueryKind::Bitbucket => bitbucket::pull_requests(&api().await?, query).await,
        QueryKind::BitbucketServer => bitbucket_server::pull_requests(&api().await?, query).await,
        QueryKind::AzureDevOps => azure_devops::pull_requests(&api().await?, query).await,
        QueryKind::CodeCommit => {
            return Err(ProviderError::new("AWS CodeCommit has no pullRequest generator"));
        }
    };
    let Pages { mut items, several } = match listed {
        Ok(listed) => listed,
        Err(failure) if failure.is_not_found() => {
            return Ok(ProviderAnswer::whole(Answer::NoRepository(failure.of(&place).text)));
        }
        Err(failure) => return Err(failure.of(&place)),
    };
    if items.len() > MAX_REQUESTS {
        let text = format!("{place}: limit exceeded: more than {MAX_REQUESTS} pull requests");
        return Err(ProviderError::new(text));
    }
    items.sort_by_key(|request| request.number);
    // What moves between two pages is listed twice.
    items.dedup_by_key(|request: &mut PullRequest| request.number);
    Ok(ProviderAnswer { answer: Answer::PullRequests(items), is_paged: several })
}
