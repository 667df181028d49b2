//! How far the transitions of a run are delivered: the mark in its status.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::queue::State;
use crate::api::ObjectKey;

/// The mark of a run is written on its own when nothing has happened for so long: before that,
/// it is written with the next status of the run, which costs no request.
const QUIET: Duration = Duration::from_secs(10);

/// How far a run is.
pub(super) struct Progress {
    key: ObjectKey,
    /// The number of the last transition that was added to the queues.
    pub offered: i64,
    /// The mark in the stored status.
    pub stored: Option<i64>,
    /// For how many sinks each transition waits.
    pub open: BTreeMap<i64, usize>,
    /// When something happened last.
    pub changed: Instant,
}

impl Progress {
    pub fn new(key: ObjectKey, offered: i64, stored: Option<i64>, now: Instant) -> Self {
        Self { key, offered, stored, open: BTreeMap::new(), changed: now }
    }

    fn mark(&self) -> i64 {
        self.open.first_key_value().map_or(self.offered, |(number, _)| number - 1)
    }

    /// When its mark is to be written.
    pub fn due(&self) -> Option<Instant> {
        (self.stored.is_none_or(|stored| stored < self.mark())).then(|| self.changed + QUIET)
    }

    /// Nothing more is done about a transition for one sink.
    pub fn settle(&mut self, number: i64, now: Instant) {
        self.changed = now;
        if let Some(left) = self.open.get_mut(&number) {
            *left = left.saturating_sub(1);
            if *left == 0 {
                self.open.remove(&number);
            }
        }
    }
}

impl State {
    /// The mark of a run.
    pub fn mark(&self, uid: &str) -> Option<i64> {
        self.runs.get(uid).map(Progress::mark)
    }

    /// The marks to write now: UID and name of the run, and the mark. The next attempt is after
    /// another pause. `None`: all that differ from the stored ones.
    pub fn take_marks(&mut self, now: Option<Instant>) -> Vec<(String, ObjectKey, i64)> {
        let mut due = Vec::new();
        for (uid, progress) in &mut self.runs {
            let Some(at) = progress.due() else { continue };
            if let Some(now) = now {
                if now < at {
                    continue;
                }
                progress.changed = now;
            }
            due.push((uid.clone(), progress.key.clone(), progress.mark()));
        }
        due
    }

    /// The mark of a run is stored.
    pub fn stored(&mut self, uid: &str, mark: i64) {
        if let Some(progress) = self.runs.get_mut(uid) {
            progress.stored = Some(mark);
        }
    }

    /// A run is gone: it needs no mark, whatever becomes of its messages.
    pub fn forget_run(&mut self, uid: &str) {
        self.runs.remove(uid);
    }
}
