//! When each object was asked to read its repositories again: events that come together share one
//! request, and one object is asked once per second at most, however many events arrive.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use wavegate_api::ObjectKey;

/// The time between two requests of an object.
pub(super) const PACE: Duration = Duration::from_secs(1);

/// An object: its kind and its key.
pub(super) type Name = (&'static str, ObjectKey);

/// What an event needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// Nothing: a request that began after the event, or will begin, covers it.
    Nothing,
    /// A request now.
    Now,
    /// A request after this time, which covers all events until then.
    After(Duration),
}

/// The requests of objects, as long as an event may be older or the next one has to wait.
#[derive(Debug)]
pub(super) struct Asked {
    pace: Duration,
    all: Mutex<BTreeMap<Name, Times>>,
}

#[derive(Clone, Copy, Debug)]
struct Times {
    /// When the last request began.
    began: Instant,
    /// Whether the next one is due.
    is_due: bool,
}

impl Asked {
    pub fn new(pace: Duration) -> Self {
        Self { pace, all: Mutex::default() }
    }

    /// What an event needs of an object, when it was received at this time. With [`Need::Now`] the
    /// caller sends the request, and with [`Need::After`] it calls [`Self::begin`] first.
    pub fn need(&self, name: &Name, received: Instant) -> Need {
        let now = Instant::now();
        let mut all = self.all.lock();
        let Some(times) = all.get_mut(name) else {
            all.insert(name.clone(), Times { began: now, is_due: false });
            return Need::Now;
        };
        if times.is_due || times.began > received {
            return Need::Nothing;
        }
        let left = (times.began + self.pace).saturating_duration_since(now);
        if left.is_zero() {
            times.began = now;
            return Need::Now;
        }
        times.is_due = true;
        Need::After(left)
    }

    /// A request that was due begins.
    pub fn begin(&self, name: &Name) {
        let began = Instant::now();
        self.all.lock().insert(name.clone(), Times { began, is_due: false });
    }

    /// A request has failed: it covers no event.
    pub fn failed(&self, name: &Name) {
        self.all.lock().remove(name);
    }

    /// Forgets what is of no use to events that are received from this time on.
    pub fn forget_before(&self, received: Instant) {
        let is_of_use = |times: &Times| {
            times.is_due || times.began > received || times.began.elapsed() < self.pace
        };
        self.all.lock().retain(|_, times| is_of_use(times));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_flood_of_events_is_one_request_per_second() {
        let asked = Asked::new(PACE);
        let name = ("ApplicationSet", ObjectKey::new("argocd", "fleet"));
        let step = Duration::from_millis(1);
        let (mut requests, mut due, end) = (0, None, Instant::now() + Duration::from_secs(10));
        while Instant::now() < end {
            let received = Instant::now();
            tokio::time::advance(step).await;
            if due.is_some_and(|due| due <= Instant::now()) {
                asked.begin(&name);
                (requests, due) = (requests + 1, None);
            }
            match asked.need(&name, received) {
                Need::Nothing => {}
                Need::Now => requests += 1,
                Need::After(left) => due = Some(Instant::now() + left),
            }
            asked.forget_before(received);
        }
        assert!((10..=11).contains(&requests), "{requests}");
        // The last event is covered, too, and the next one after a pause needs no wait.
        assert!(due.is_some());
        asked.begin(&name);
        tokio::time::advance(PACE).await;
        let received = Instant::now();
        tokio::time::advance(step).await;
        assert_eq!(asked.need(&name, received), Need::Now);
        // A request that failed covers nothing.
        asked.failed(&name);
        assert_eq!(asked.need(&name, received), Need::Now);
        assert_eq!(asked.need(&name, received), Need::Nothing);
    }
}
