//! Queue of Events to be written. No I/O.

use std::collections::{BTreeMap, HashMap};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ObjectReference;

use super::record::{COMPLETED, EventRecord, Subject};

/// Events of an object with the same reason and subject within this time are one Event.
pub(super) const WINDOW: SignedDuration = SignedDuration::from_secs(1);
/// The same while more than [`BUSY`] routine Events wait, as when many Applications are synced
/// for the first time: Events give way to the work, and the end of a sync says what its
/// beginning would have said.
pub(super) const BUSY_WINDOW: SignedDuration = SignedDuration::from_secs(20);
pub(super) const BUSY: usize = 100;

/// Maximum length of the queue: two Events each of some thousand Applications, a few megabytes.
pub(super) const CAPACITY: usize = 4000;

/// An Event to be written.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Waiting {
    pub component: String,
    pub about: ObjectReference,
    pub record: EventRecord,
    /// How often it was published.
    pub count: i32,
    pub first: Timestamp,
    pub last: Timestamp,
}

/// Key of the Events of an object that are counted together: reason, subject and type; for
/// Events that are not routine, the text, too.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Same {
    reason: &'static str,
    subject: Subject,
    warning: bool,
    text: Option<String>,
}

impl Same {
    fn of(record: &EventRecord) -> Self {
        Self {
            reason: record.reason,
            subject: record.subject,
            warning: record.warning,
            text: (!record.is_routine()).then(|| record.text.clone()),
        }
    }
}

/// The queue: routine and other Events, each in order of publication.
#[derive(Debug, Default)]
pub(super) struct Pending {
    routine: BTreeMap<u64, Waiting>,
    important: BTreeMap<u64, Waiting>,
    /// Where the Events of an object are, by its UID: the end of each operation takes those of
    /// its Application, and thousands may wait.
    places: HashMap<String, Vec<(Same, u64)>>,
    next: u64,
    dropped: u64,
}

impl Pending {
    pub fn len(&self) -> usize {
        self.routine.len() + self.important.len()
    }

    /// How many were dropped since the start.
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
        let (uid, same) = (uid(&about), Same::of(&record));
        let has_end = self.has_end(uid);
        let queue = if record.is_routine() { &mut self.routine } else { &mut self.important };
        let place = self.places.get(uid).and_then(|places| place_of(places, &same));
        if let Some((place, waiting)) = place.and_then(|at| Some((at, queue.get_mut(&at)?))) {
            let start = waiting.record.states.as_ref().map(|[start, _]| start.clone());
            let end = record.states.as_ref().map(|[_, end]| end);
            // A sync takes it back to the state before: the end of the operation says all of it.
            if start.is_some() && start.as_ref() == end && has_end {
                queue.remove(&place);
                self.forget(uid, &same);
                return;
            }
            let is_known = record.once.is_some() && record.once == waiting.record.once;
            waiting.count = waiting.count.saturating_add(i32::from(!is_known));
            (waiting.last, waiting.record) = (now, record);
            if let (Some(start), Some([first, _])) = (start, &mut waiting.record.states) {
                *first = start;
            }
            return;
        }
        // The Event at the end of an operation replaces the one at its start, unless that is
        // the only record that nobody has requested it.
        if record.reason == COMPLETED {
            let start = Same {
                reason: "OperationStarted",
                subject: Subject::Reason,
                warning: false,
                text: None,
            };
            if let Some(place) = self.forget(uid, &start) {
                self.routine.remove(&place);
            }
        }
        if self.len() >= CAPACITY {
            self.drop_one();
        }
        let queue = if record.is_routine() { &mut self.routine } else { &mut self.important };
        self.places.entry(uid.to_owned()).or_default().push((same, self.next));
        let component = component.to_owned();
        let waiting = Waiting { component, about, record, count: 1, first: now, last: now };
        queue.insert(self.next, waiting);
        self.next += 1;
    }

    /// Whether the end of an operation of an object that has succeeded is not written yet.
    fn has_end(&self, uid: &str) -> bool {
        let is_end = |(one, _): &(Same, u64)| one.reason == COMPLETED && !one.warning;
        self.places.get(uid).is_some_and(|places| places.iter().any(is_end))
    }

    /// When the next Event may be written. Events that are not routine are due at once.
    pub fn due(&self) -> Option<Timestamp> {
        let important = self.important.values().next().map(|waiting| waiting.first);
        let window = if self.routine.len() > BUSY { BUSY_WINDOW } else { WINDOW };
        let due = |waiting: &Waiting| waiting.first.saturating_add(window).unwrap_or(waiting.first);
        important.or_else(|| self.routine.values().next().map(due))
    }

    /// The next Event to write, if it is due.
    pub fn take(&mut self, now: Timestamp) -> Option<Waiting> {
        if self.due()? <= now { self.take_any() } else { None }
    }

    /// The next Event to write, due or not.
    pub fn take_any(&mut self) -> Option<Waiting> {
        let (_, waiting) = self.important.pop_first().or_else(|| self.routine.pop_first())?;
        self.forget(uid(&waiting.about), &Same::of(&waiting.record));
        Some(waiting)
    }

    /// The Events about one object, in the order of their publication, due or not.
    pub fn take_about(&mut self, uid: &str) -> Vec<Waiting> {
        let places = self.places.remove(uid).unwrap_or_default().into_iter();
        let take =
            |(_, place)| self.routine.remove(&place).or_else(|| self.important.remove(&place));
        places.filter_map(take).collect()
    }

    /// Drops the oldest routine Event, since newer ones show the current
    /// state; without any, the oldest of the others.
    fn drop_one(&mut self) {
        let (_, gone) = match self.routine.pop_first().or_else(|| self.important.pop_first()) {
            Some(oldest) => oldest,
            None => return,
        };
        self.forget(uid(&gone.about), &Same::of(&gone.record));
        self.dropped += 1;
    }

    /// Removes the place of an Event about an object, and returns it.
    fn forget(&mut self, uid: &str, same: &Same) -> Option<u64> {
        let places = self.places.get_mut(uid)?;
        let at = places.iter().position(|(one, _)| one == same)?;
        // In the order of their publication.
        let (_, place) = places.remove(at);
        if places.is_empty() {
            self.places.remove(uid);
        }
        Some(place)
    }
}

fn uid(about: &ObjectReference) -> &str {
    about.uid.as_deref().unwrap_or_default()
}

fn place_of(places: &[(Same, u64)], same: &Same) -> Option<u64> {
    places.iter().find(|(one, _)| one == same).map(|(_, place)| *place)
}
