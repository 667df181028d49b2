//! Retries requests on transient errors of the API server.
//!
//! A failed task fails its operation, and the retry of an operation runs its hooks again;
//! so transient errors are retried here first. Only for requests that may be executed
//! twice.

use std::future::Future;
use std::hash::Hash;
use std::time::Duration;

use crate::watch::failure;
use wavegate_api::resource_key::ResourceKey;
use wavegate_application::memory::digest_of;

/// Maximum number of attempts.
pub const TRIES: u32 = 5;
/// Minimum pause.
const SHORTEST: Duration = Duration::from_millis(100);
/// Maximum pause.
const LONGEST: Duration = Duration::from_secs(2);

/// Sends a request until it succeeds, fails permanently, or [`TRIES`] is reached; then
/// the last error is returned.
///
/// # Errors
///
/// That of the last attempt.
pub async fn on_transient_errors<T, F>(
    key: &ResourceKey,
    request: impl FnMut() -> F,
) -> Result<T, kube::Error>
where
    F: Future<Output = Result<T, kube::Error>>,
{
    let pause = |error: &kube::Error, tries| {
        if !failure::is_transient(error) {
            return None;
        }
        let error = failure::error_reason(error);
        tracing::debug!(resource = %key, tries, error, "retrying the request");
        Some(length(key, tries))
    };
    failure::retry_request(TRIES, pause, request).await
}

/// Waits after this number of failed attempts.
pub async fn pause_before_retry(key: &ResourceKey, tries: u32) {
    tokio::time::sleep(length(key, tries)).await;
}

/// The pause grows threefold with each attempt. Requests that failed together are not retried
/// together, as the jitter depends on the object.
fn length(key: &ResourceKey, tries: u32) -> Duration {
    let factor = 3_u32.saturating_pow(tries.saturating_sub(1)).saturating_mul(2);
    let most = SHORTEST.saturating_mul(factor).min(LONGEST);
    most.mul_f64(0.5 + 0.5 * jitter_of(&(key, tries)))
}

/// A number between 0 and 1, derived from a value such as a key, so that objects are spread
/// evenly and tests are deterministic.
pub fn jitter_of(of: &impl Hash) -> f64 {
    (digest_of(of) % 1000) as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_within_their_bounds_and_differ_by_object() {
        let key = |name: &str| ResourceKey::new("", "ConfigMap", "web", name);
        for (tries, least, most) in
            [(1, 100, 200), (2, 300, 600), (3, 900, 1800), (4, 1000, 2000), (99, 1000, 2000)]
        {
            let lengths: Vec<u128> =
                (0..50).map(|n| length(&key(&n.to_string()), tries).as_millis()).collect();
            assert!(lengths.iter().all(|ms| (least..=most).contains(ms)), "{tries}: {lengths:?}");
            assert!(lengths.iter().any(|ms| *ms != lengths[0]), "{tries}");
        }
    }
}
