//! Events that are not written yet. Plain data.

use std::collections::{BTreeMap, HashMap};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ObjectReference;

use super::EventRecord;

/// What an object tells within this time for the same reason is one Event.
pub(super) const WINDOW: SignedDuration = SignedDuration::from_secs(1);

/// The most Events that wait.
pub(super) const CAPACITY: usize = 1000;

/// An Event to be written.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Waiting {
    pub component: String,
    pub about: ObjectReference,
    pub record: EventRecord,
    /// How often it was told.
    pub count: i32,
    pub first: Timestamp,
    pub last: Timestamp,
}

/// What is counted together: the same object, reason and kind of Event; of those
/// that are not routine the same text besides.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Same {
    uid: String,
    reason: &'static str,
    warning: bool,
    text: Option<String>,
}

impl Same {
    fn of(about: &ObjectReference, record: &EventRecord) -> Self {
        Self {
            uid: about.uid.clone().unwrap_or_default(),
            reason: record.reason,
            warning: record.warning,
            text: (!record.is_routine()).then(|| record.text.clone()),
        }
    }
}

/// The queue: routine Events and others, each in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Pending {
    routine: BTreeMap<u64, Waiting>,
    important: BTreeMap<u64, Waiting>,
    places: HashMap<Same, u64>,
    next: u64,
    dropped: u64,
}

impl Pending {
    pub fn len(&self) -> usize {
        self.routine.len() + self.important.len()
    }

    /// How many were dropped since the beginning.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    pub fn add(
        &mut self,
        component: &str,
        about: ObjectReference,
        record: EventRecord,
        now: Timestamp,
    ) {
        let same = Same::of(&about, &record);
        let queue = if record.is_routine() { &mut self.routine } else { &mut self.important };
        if let Some(waiting) = self.places.get(&same).and_then(|place| queue.get_mut(place)) {
            waiting.count = waiting.count.saturating_add(1);
            (waiting.last, waiting.record) = (now, record);
            return;
        }
        // The end of an operation tells that it began.
        if record.reason == "OperationCompleted" {
            self.forget(&Same {
                reason: "OperationStarted",
                warning: false,
                text: None,
                ..same.clone()
            });
        }
        if self.len() >= CAPACITY {
            self.drop_one();
        }
        let queue = if record.is_routine() { &mut self.routine } else { &mut self.important };
        let component = component.to_owned();
        let waiting = Waiting { component, about, record, count: 1, first: now, last: now };
        queue.insert(self.next, waiting);
        self.places.insert(same, self.next);
        self.next += 1;
    }

    /// When the next may be written. What is not routine waits for nothing.
    pub fn due(&self) -> Option<Timestamp> {
        let important = self.important.values().next().map(|waiting| waiting.first);
        important.or_else(|| self.routine.values().next().map(due))
    }

    /// The next to write, if it is due.
    pub fn take(&mut self, now: Timestamp) -> Option<Waiting> {
        if self.due()? <= now { self.take_any() } else { None }
    }

    /// The next to write, whether it is due or not.
    pub fn take_any(&mut self) -> Option<Waiting> {
        let (_, waiting) = self.important.pop_first().or_else(|| self.routine.pop_first())?;
        self.places.remove(&Same::of(&waiting.about, &waiting.record));
        Some(waiting)
    }

    /// Makes place: the oldest routine Event goes, for what is newer says how
    /// things stand; without any the oldest of the others.
    fn drop_one(&mut self) {
        let (_, gone) = match self.routine.pop_first().or_else(|| self.important.pop_first()) {
            Some(oldest) => oldest,
            None => return,
        };
        self.places.remove(&Same::of(&gone.about, &gone.record));
        self.dropped += 1;
    }

    fn forget(&mut self, same: &Same) {
        if let Some(place) = self.places.remove(same) {
            self.routine.remove(&place);
        }
    }
}

fn due(waiting: &Waiting) -> Timestamp {
    waiting.first.saturating_add(WINDOW).unwrap_or(waiting.first)
}
