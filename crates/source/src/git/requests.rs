//! Counts what is asked of Git servers, for metrics.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

/// Repositories with counts of their own; later ones share those of [`OTHERS`].
const REPOSITORIES: usize = 1_000;

/// The name of those beyond the limit.
const OTHERS: &str = "others";

/// The bounds of the durations that are counted, in seconds.
pub const BOUNDS: [f64; 7] = [0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 10.0];

/// The requests of one kind to one repository.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Requests {
    /// How many.
    pub count: u64,
    /// How many of them failed.
    pub failed: u64,
    /// How long they took together, in seconds.
    pub seconds: f64,
    /// How many took at most each of [`BOUNDS`] and more than the one before, and at last how
    /// many took longer.
    pub by_duration: [u64; BOUNDS.len() + 1],
}

/// All requests, by repository and kind. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct GitRequests(Arc<Mutex<BTreeMap<(String, &'static str), Requests>>>);

impl GitRequests {
    /// Counts a request to a repository, as it is shown.
    pub(crate) fn count(&self, repo: &str, kind: &'static str, failed: bool, took: Duration) {
        let mut all = self.0.lock();
        let own = (repo.to_owned(), kind);
        let key = match all.contains_key(&own) || all.len() < REPOSITORIES {
            true => own,
            false => (OTHERS.to_owned(), kind),
        };
        let requests = all.entry(key).or_default();
        let seconds = took.as_secs_f64();
        requests.count += 1;
        requests.failed += u64::from(failed);
        requests.seconds += seconds;
        let place = BOUNDS.iter().position(|bound| seconds <= *bound);
        requests.by_duration[place.unwrap_or(BOUNDS.len())] += 1;
    }

    /// The counts, by repository without credentials, and by kind: `ls-remote` or `fetch`.
    pub fn all(&self) -> BTreeMap<(String, &'static str), Requests> {
        self.0.lock().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_duration_and_repositories_are_bounded() {
        let requests = GitRequests::default();
        for (failed, millis) in [(false, 100), (true, 101), (false, 60_000)] {
            requests.count("r", "fetch", failed, Duration::from_millis(millis));
        }
        for index in 0..2 * REPOSITORIES {
            requests.count(&format!("r{index}"), "fetch", false, Duration::ZERO);
        }
        let all = requests.all();
        let one = &all[&("r".to_owned(), "fetch")];
        assert_eq!((one.count, one.failed), (3, 1));
        assert_eq!(one.by_duration, [1, 1, 0, 0, 0, 0, 0, 1]);
        assert!(one.seconds > 60.0);
        assert_eq!(all.len(), REPOSITORIES + 1);
        let others = all[&(OTHERS.to_owned(), "fetch")].count;
        assert_eq!(others, REPOSITORIES as u64 + 1);
    }
}
