//! Dry runs of server-side applies, by which the API server predicts what an apply changes
//! (SE-158). They change nothing.

use std::time::Duration;

use futures::StreamExt;

use super::execute::Executor;
use wavegate_api::resource_key::ResourceKey;
use wavegate_application::predictions::{DryRun, Predictions};

/// Timeout of a dry run with its retries. It may run admission webhooks.
const LIMIT: Duration = Duration::from_secs(60);

/// Makes dry runs, `parallel` at once, and keeps the answers. Returns the objects whose dry run
/// failed, with the reasons.
pub async fn predict_all(
    Executor { applier, parallel, .. }: &Executor<'_>,
    runs: Vec<DryRun>,
    predictions: &mut Predictions,
) -> Vec<(ResourceKey, String)> {
    let work = runs.into_iter().map(|run| async move {
        let answer = tokio::time::timeout(LIMIT, applier.predict(&run.key, &run.target)).await;
        let late = |_| Err(format!("no response within {} s", LIMIT.as_secs()));
        (answer.unwrap_or_else(late), run)
    });
    let mut failed = Vec::new();
    let mut answers = futures::stream::iter(work).buffered((*parallel).max(1));
    while let Some((answer, run)) = answers.next().await {
        match answer {
            Ok(answer) => predictions.keep(run, &answer),
            Err(why) => failed.push((run.key, why)),
        }
    }
    failed
}
