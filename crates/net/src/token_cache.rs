//! Tokens that a server gives out for some time, such as those of installations of GitHub Apps:
//! each is kept until shortly before it expires, or until it is forgotten since a server refused
//! it.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use tokio::sync::Mutex as AsyncMutex;

/// A token is replaced so long before it expires, so that it lasts for what is done with it.
const BEFORE_EXPIRY: SignedDuration = SignedDuration::from_mins(5);
/// The shortest time that a token is kept, whatever its expiry says.
const KEPT_AT_LEAST: SignedDuration = SignedDuration::from_secs(60);
/// The longest time that a token is kept, whatever its expiry says.
pub const KEPT_AT_MOST: SignedDuration = SignedDuration::from_hours(1);
/// The most tokens that are kept.
const MAX_TOKENS: usize = 4096;

/// The tokens of a process by key. `E` is why there is none.
pub struct TokenCache<K, T, E> {
    slots: Mutex<HashMap<K, Arc<Slot<T, E>>>>,
}

struct Slot<T, E> {
    last: AsyncMutex<Last<T, E>>,
    /// How many requests for this token have ended.
    ended: AtomicUsize,
}

/// How the last request for a token ended.
enum Last<T, E> {
    None,
    Token { token: T, renew_at: Timestamp },
    Failed(E),
}

impl<T, E> Default for Slot<T, E> {
    fn default() -> Self {
        Self { last: AsyncMutex::new(Last::None), ended: AtomicUsize::new(0) }
    }
}

impl<K, T, E> Default for TokenCache<K, T, E> {
    fn default() -> Self {
        Self { slots: Mutex::default() }
    }
}

impl<K, T, E> fmt::Debug for TokenCache<K, T, E> {
    /// Without tokens.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenCache").finish_non_exhaustive()
    }
}

impl<K: Eq + Hash, T: Clone, E: Clone> TokenCache<K, T, E> {
    /// The token of a key: the one that is kept, else what `ask` gets, with the time at which it
    /// expires. Those who come meanwhile share that one request and its outcome.
    ///
    /// # Errors
    ///
    /// That of `ask`, which is not kept: the next one asks again.
    pub async fn get(
        &self,
        key: K,
        now: impl Fn() -> Timestamp,
        ask: impl Future<Output = Result<(T, Timestamp), E>>,
    ) -> Result<T, E> {
        let slot = self.slot(key);
        let ended = slot.ended.load(Ordering::Acquire);
        let mut last = slot.last.lock().await;
        match &*last {
            Last::Token { token, renew_at } if now() < *renew_at => return Ok(token.clone()),
            Last::Failed(error) if slot.ended.load(Ordering::Acquire) != ended => {
                return Err(error.clone());
            }
            Last::Token { .. } | Last::Failed(_) | Last::None => {}
        }
        let asked = ask.await;
        slot.ended.fetch_add(1, Ordering::Release);
        match asked {
            Ok((token, expires)) => {
                let renew_at = renew_at(now(), expires);
                *last = Last::Token { token: token.clone(), renew_at };
                Ok(token)
            }
            Err(error) => {
                *last = Last::Failed(error.clone());
                Err(error)
            }
        }
    }

    /// Forgets the token of a key that a server has refused, if it is still this one.
    pub async fn forget(&self, key: K, is_refused: impl Fn(&T) -> bool) {
        let slot = self.slot(key);
        let mut last = slot.last.lock().await;
        if matches!(&*last, Last::Token { token, .. } if is_refused(token)) {
            *last = Last::None;
        }
    }

    fn slot(&self, key: K) -> Arc<Slot<T, E>> {
        let mut slots = self.slots.lock();
        if slots.len() >= MAX_TOKENS && !slots.contains_key(&key) {
            // Those in use stay.
            slots.retain(|_, slot| Arc::strong_count(slot) > 1);
        }
        Arc::clone(slots.entry(key).or_default())
    }
}

/// Whether a text can be a token in a header. Another one must not be kept: no server refuses what
/// cannot be sent.
pub fn is_token(text: &str) -> bool {
    !text.is_empty() && text.len() <= 16 << 10 && text.bytes().all(|b| b.is_ascii_graphic())
}

/// When a token is replaced.
fn renew_at(now: Timestamp, expires: Timestamp) -> Timestamp {
    let renew = expires.checked_sub(BEFORE_EXPIRY).unwrap_or(now);
    let after = |time| now.checked_add(time).unwrap_or(Timestamp::MAX);
    renew.clamp(after(KEPT_AT_LEAST), after(KEPT_AT_MOST))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    type Cache = TokenCache<&'static str, String, String>;

    async fn get(cache: &Cache, now: i64, fresh: &str, expires: i64) -> String {
        let ask = async { Ok((fresh.to_owned(), at(expires))) };
        cache.get("key", || at(now), ask).await.unwrap()
    }

    #[tokio::test]
    async fn a_token_is_kept_until_shortly_before_it_expires() {
        let cache = Cache::default();
        assert_eq!(get(&cache, 0, "one", 3600).await, "one");
        assert_eq!(get(&cache, 3299, "two", 9000).await, "one");
        assert_eq!(get(&cache, 3300, "two", 9_999_999).await, "two");
        assert_eq!(get(&cache, 3300 + 3599, "three", 0).await, "two");
        // Whatever the server says, it is kept for an hour at most, and a minute at least.
        assert_eq!(get(&cache, 3300 + 3600, "three", 0).await, "three");
        assert_eq!(get(&cache, 3300 + 3659, "four", 0).await, "three");
        assert_eq!(get(&cache, 3300 + 3660, "four", 0).await, "four");
    }

    #[tokio::test]
    async fn only_the_token_that_was_refused_is_forgotten() {
        let cache = Cache::default();
        assert_eq!(get(&cache, 0, "one", 3600).await, "one");
        cache.forget("key", |token| token == "older").await;
        assert_eq!(get(&cache, 1, "two", 3600).await, "one");
        cache.forget("key", |token| token == "one").await;
        assert_eq!(get(&cache, 2, "two", 3600).await, "two");
    }

    /// Ten that wait for a server which does not answer wait for its timeout once.
    #[tokio::test]
    async fn those_who_wait_share_one_request() {
        let cache = Cache::default();
        let (asked, failed) = (AtomicUsize::new(0), Err("no".to_owned()));
        let fails = || {
            let ask = async {
                asked.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
                failed.clone()
            };
            cache.get("key", || at(0), ask)
        };
        let all = futures::future::join_all((0..10).map(|_| fails())).await;
        assert!(all.iter().all(|one| one.as_ref().is_err_and(|error| error == "no")), "{all:?}");
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        // A later one asks again.
        assert!(fails().await.is_err());
        assert_eq!(asked.load(Ordering::Relaxed), 2);
    }
}
