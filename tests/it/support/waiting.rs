//! Waiting for what another task or process does.

use std::time::Duration;

/// Enough for a slow machine.
const LIMIT: Duration = Duration::from_secs(300);

/// Asks until the answer is yes; fails with these words after the limit.
pub async fn until(what: &str, mut is: impl AsyncFnMut() -> bool) {
    until_some(what, async || is().await.then_some(())).await;
}

/// Asks until there is an answer, which it returns.
pub async fn until_some<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let asked = async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let answer = tokio::time::timeout(LIMIT, asked).await;
    answer.unwrap_or_else(|_| panic!("{what}: not within {LIMIT:?}"))
}
