//! How far the transitions of a run are delivered: the mark in its status.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use wavegate_api::ObjectKey;
use wavegate_rollout::notify::{self, Run};

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
    open: BTreeMap<i64, usize>,
    /// When something happened last.
    changed: Instant,
}

impl Progress {
    fn mark(&self) -> i64 {
        self.open.first_key_value().map_or(self.offered, |(number, _)| number - 1)
    }

    /// When its mark is to be written.
    fn due(&self) -> Option<Instant> {
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

/// The runs whose transitions were added, by UID.
#[derive(Default)]
pub(super) struct Runs(BTreeMap<String, Progress>);

impl Runs {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn get_mut(&mut self, uid: &str) -> Option<&mut Progress> {
        self.0.get_mut(uid)
    }

    /// Transitions of a run are added: up to this number, for each of them so many sinks.
    pub fn add(&mut self, run: &Run<'_>, after: i64, added: &[i64], sinks: usize, now: Instant) {
        let progress = self.0.entry(run.uid.to_owned()).or_insert_with(|| Progress {
            key: run.key.clone(),
            offered: after,
            stored: run.status.notified,
            open: BTreeMap::new(),
            changed: now,
        });
        progress.offered = notify::transition_count(run.status);
        progress.changed = now;
        progress.open.extend(added.iter().map(|number| (*number, sinks)));
    }

    /// When a mark is to be written.
    pub fn due(&self) -> Option<Instant> {
        self.0.values().filter_map(Progress::due).min()
    }

    /// The mark of a run.
    pub fn mark(&self, uid: &str) -> Option<i64> {
        self.0.get(uid).map(Progress::mark)
    }

    /// The marks to write now: UID and name of the run, and the mark. The next attempt is after
    /// another pause. `None`: all that differ from the stored ones.
    pub fn take_marks(&mut self, now: Option<Instant>) -> Vec<(String, ObjectKey, i64)> {
        let mut due = Vec::new();
        for (uid, progress) in &mut self.0 {
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
        if let Some(progress) = self.0.get_mut(uid) {
            progress.stored = Some(mark);
        }
    }

    /// Forgets runs that are gone: they need no mark, whatever becomes of their messages.
    pub fn retain(&mut self, exists: impl Fn(&str, &ObjectKey) -> bool) {
        self.0.retain(|uid, progress| exists(uid, &progress.key));
    }
}
