//! Which retries of a run were acted on (ST-063).
//!
//! A request is known by what it says, and not by its place in the list: `kubectl patch` may put
//! another one in its place, which counts, or write the same one twice, which counts once.

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use wavegate_api::Time;
use wavegate_api::run::{Retry, RolloutRunSpec, RolloutRunStatus};

/// What identifies a request: who asks, when, and for which Applications.
fn identity(retry: &Retry) -> String {
    let mut hash = Sha256::new();
    hash.update(retry.by.as_bytes());
    hash.update(b"\n");
    hash.update(retry.at.as_ref().map(|at| at.0.to_string()).unwrap_or_default().as_bytes());
    for name in &retry.applications {
        hash.update(b"\n");
        hash.update(name.as_bytes());
    }
    HEXLOWER.encode(&hash.finalize()[..8])
}

/// When each retry in the spec was acted on; `None` for those that were not.
fn acted_on(spec: &RolloutRunSpec, status: &RolloutRunStatus) -> Vec<Option<Time>> {
    let known = &status.retried_for;
    let when = |(index, retry): (usize, &Retry)| {
        let place = match known.is_empty() {
            // Of a version that knew them by their places, or under its definition.
            true => Some(index),
            false => {
                let identity = identity(retry);
                known.iter().position(|known| *known == identity)
            }
        };
        place.and_then(|place| status.retried.get(place).cloned())
    };
    spec.retries.iter().enumerate().map(when).collect()
}

/// The retries that no controller has acted on.
pub fn open_retries<'a>(
    spec: &'a RolloutRunSpec,
    status: &RolloutRunStatus,
) -> impl Iterator<Item = &'a Retry> {
    let acted_on = acted_on(spec, status);
    spec.retries.iter().zip(acted_on).filter(|(_, at)| at.is_none()).map(|(retry, _)| retry)
}

/// Records that all retries in the spec were acted on, those of before when they were, and returns
/// the new ones.
pub(super) fn take<'a>(
    spec: &'a RolloutRunSpec,
    status: &mut RolloutRunStatus,
    now: &Time,
) -> Vec<&'a Retry> {
    let acted_on = acted_on(spec, status);
    let identities: Vec<String> = spec.retries.iter().map(identity).collect();
    let is_first = |index: usize| !identities[..index].contains(&identities[index]);
    let new = acted_on.iter().enumerate().filter(|(index, at)| at.is_none() && is_first(*index));
    let new = new.map(|(index, _)| &spec.retries[index]).collect();
    status.retried = acted_on.into_iter().map(|at| at.unwrap_or_else(|| now.clone())).collect();
    status.retried_for = identities;
    new
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;

    fn spec(retries: &serde_json::Value) -> RolloutRunSpec {
        serde_json::from_value(json!({"applicationSet": "shop", "retries": retries})).unwrap()
    }

    fn at(second: i64) -> Time {
        Time(Timestamp::from_second(second).unwrap())
    }

    #[test]
    fn a_retry_is_known_by_what_it_says_as_st_063() {
        let retry = |second: i64, names: &[&str]| json!({"by": "ann", "at": at(second), "applications": names});
        let mut status = RolloutRunStatus::default();
        let mut take = |retries: serde_json::Value, second: i64| {
            let spec = spec(&retries);
            let open = open_retries(&spec, &status).count();
            let new = super::take(&spec, &mut status, &at(second)).len();
            let times: Vec<i64> = status.retried.iter().map(|at| at.0.as_second()).collect();
            (open, new, times)
        };
        let (one, two, three) = (retry(1, &[]), retry(2, &[]), retry(2, &["a"]));
        assert_eq!(take(json!([one]), 10), (1, 1, vec![10]));
        assert_eq!(take(json!([one]), 11), (0, 0, vec![10]));
        assert_eq!(take(json!([two]), 12), (1, 1, vec![12]), "in the place of the first one");
        assert_eq!(take(json!([two, three]), 13), (1, 1, vec![12, 13]), "for others");
        assert_eq!(take(json!([three]), 14), (0, 0, vec![13]), "the first one was removed");
        assert_eq!(take(json!([three, three]), 15), (0, 0, vec![13, 13]), "written twice");
        assert_eq!(take(json!([three, one, one]), 16), (2, 1, vec![13, 16, 16]));
        assert_eq!(take(json!([]), 17), (0, 0, vec![]));
    }

    #[test]
    fn those_of_an_earlier_version_are_known_by_their_places_as_st_063() {
        let spec = spec(&json!([{"by": "ann", "at": at(1)}, {"by": "ann", "at": at(2)}]));
        let mut status = RolloutRunStatus { retried: vec![at(5)], ..RolloutRunStatus::default() };
        let new = take(&spec, &mut status, &at(9));
        assert_eq!(new, [&spec.retries[1]]);
        assert_eq!(status.retried, [at(5), at(9)]);
        assert_eq!(open_retries(&spec, &status).count(), 0);
    }
}
