//! Patience with an API server that has no time for the moment, or whose
//! answer got lost.
//!
//! A failed task fails its operation, and the retry of an operation runs its
//! hooks again; so a short trouble must not get that far. Only for requests
//! that do no harm when they are carried out twice, which the caller must know.

use std::future::Future;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use crate::api::resource_key::ResourceKey;
use crate::watch::failure;

/// How often a request is sent before its failure counts.
pub const TRIES: u32 = 5;
/// No pause is shorter.
const SHORTEST: Duration = Duration::from_millis(100);
/// No pause is longer.
const LONGEST: Duration = Duration::from_secs(2);

/// Sends a request until it is answered, refused for good, or [`TRIES`] are
/// used up; then the last error counts.
///
/// # Errors
///
/// That of the last try.
pub async fn patiently<T, F>(
    key: &ResourceKey,
    request: impl FnMut() -> F,
) -> Result<T, kube::Error>
where
    F: Future<Output = Result<T, kube::Error>>,
{
    let pause = |error: &kube::Error, tries| {
        let error = failure::reason(error);
        tracing::debug!(resource = %key, tries, error, "the request is sent again");
        length(key, tries)
    };
    failure::patiently(TRIES, pause, request).await
}

/// Waits after this many failed tries.
pub async fn pause(key: &ResourceKey, tries: u32) {
    tokio::time::sleep(length(key, tries)).await;
}

/// Three times as long with every try. Requests that failed together do not
/// come back together, for the length depends on the object too.
fn length(key: &ResourceKey, tries: u32) -> Duration {
    let factor = 3_u32.saturating_pow(tries.saturating_sub(1)).saturating_mul(2);
    let most = SHORTEST.saturating_mul(factor).min(LONGEST);
    let mut hasher = DefaultHasher::new();
    (key, tries).hash(&mut hasher);
    let thousandths = u32::try_from(hasher.finish() % 1000).unwrap_or_default();
    most / 2 + most / 2 * thousandths / 1000
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
