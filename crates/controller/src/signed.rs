//! Whether commits are signed as a project demands (SE-080), for Applications and generators.

use std::collections::BTreeMap;

use wavegate_application::signatures::Demand;
use wavegate_source::{RepoCredentials, Repositories, Signed, SourceError};

/// Why a commit must not be used, by its own signature, or by those of the commits that lead to
/// it; empty when it may.
///
/// # Errors
///
/// When that cannot be found.
pub async fn signature_problems(
    sources: &Repositories,
    demand: &Demand<'_>,
    signed: &Signed<'_>,
    keys: &BTreeMap<String, String>,
    credentials: Option<&RepoCredentials>,
) -> Result<Vec<String>, SourceError> {
    if sources.is_work_tree(signed.repo_url) {
        return Ok(Vec::new());
    }
    let commit = signed.commit;
    if !demand.is_about_history {
        let signature = sources.signature(signed, keys, credentials).await?;
        return Ok(demand.problem(commit, &signature).into_iter().collect());
    }
    let refused = sources.refused_history(signed, keys, demand.keys, credentials).await?;
    let problem = |(of, signature): &(String, _)| demand.problem_of(commit, of, signature);
    Ok(refused.iter().filter_map(problem).collect())
}
