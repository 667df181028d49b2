//! How far the transitions of a run are delivered, to each sink: the marks in its status.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use super::sink_key::SinkKey;
use wavegate_api::ObjectKey;
use wavegate_api::run::{RolloutRunStatus, SinkMark};
use wavegate_rollout::notify::{self, Run};

/// The mark of a run is written on its own when nothing has happened for so long: before that,
/// it is written with the next status of the run, which costs no request.
const QUIET: Duration = Duration::from_secs(10);

/// The most sinks in a status that are ahead of others.
const AHEAD: usize = 50;

/// How far the sinks of a run are, for its status.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Marks {
    /// How many of the first transitions all sinks are done with.
    pub notified: i64,
    /// The sinks that are done with more.
    pub ahead: Vec<SinkMark>,
}

/// The marks in a status.
pub(super) fn stored_marks(status: &RolloutRunStatus) -> Option<Marks> {
    let ahead = status.notified_sinks.clone();
    status.notified.map(|notified| Marks { notified, ahead })
}

/// How far a run is.
pub(super) struct Progress {
    key: ObjectKey,
    /// The number of the last transition that was added to the queues.
    pub offered: i64,
    /// The marks in the stored status.
    pub stored: Option<Marks>,
    /// The transitions that wait, of each sink.
    open: BTreeMap<SinkKey, BTreeSet<i64>>,
    /// When something happened last.
    changed: Instant,
}

impl Progress {
    fn marks(&self) -> Marks {
        let mark = |open: &BTreeSet<i64>| open.first().map_or(self.offered, |first| first - 1);
        let notified = self.open.values().map(mark).min().unwrap_or(self.offered);
        let mut sinks: BTreeMap<&str, i64> = BTreeMap::new();
        for (key, open) in &self.open {
            // One that is listed twice.
            let least = sinks.entry(key.id()).or_insert(i64::MAX);
            *least = (*least).min(mark(open));
        }
        let ahead = sinks.into_iter().filter(|(_, mark)| *mark > notified).take(AHEAD);
        let sink_mark = |(sink, notified): (&str, i64)| SinkMark {
            sink: sink.to_owned(),
            notified,
            ..SinkMark::default()
        };
        Marks { notified, ahead: ahead.map(sink_mark).collect() }
    }

    /// When its marks are to be written.
    fn due(&self) -> Option<Instant> {
        let now = self.marks();
        let is_due = self.stored.as_ref().is_none_or(|stored| {
            stored.notified < now.notified
                || stored.notified == now.notified && stored.ahead != now.ahead
        });
        is_due.then(|| self.changed + QUIET)
    }

    /// Nothing more is done about a transition for a sink.
    pub fn settle(&mut self, sink: &SinkKey, number: i64, now: Instant) {
        self.changed = now;
        if let Some(open) = self.open.get_mut(sink) {
            open.remove(&number);
        }
    }

    /// A sink is gone, and what waits for it.
    pub fn forget(&mut self, sink: &SinkKey) {
        self.open.remove(sink);
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

    /// Transitions of a run are added, up to its last one: for each sink so many of those after
    /// `after`. Those that wait for no sink that there is are done with.
    pub fn add(
        &mut self,
        run: &Run<'_>,
        after: i64,
        added: Vec<(SinkKey, BTreeSet<i64>)>,
        now: Instant,
    ) {
        let progress = self.0.entry(run.uid.to_owned()).or_insert_with(|| Progress {
            key: run.key.clone(),
            offered: after,
            stored: stored_marks(run.status),
            open: BTreeMap::new(),
            changed: now,
        });
        progress.offered = notify::transition_count(run.status);
        progress.changed = now;
        progress
            .open
            .retain(|key, open| !open.is_empty() || added.iter().any(|(added, _)| added == key));
        for (key, numbers) in added {
            progress.open.entry(key).or_default().extend(numbers);
        }
    }

    /// A sink of all runs is gone.
    pub fn forget_sink(&mut self, sink: &SinkKey) {
        self.0.values_mut().for_each(|progress| progress.forget(sink));
    }

    /// When a mark is to be written.
    pub fn due(&self) -> Option<Instant> {
        self.0.values().filter_map(Progress::due).min()
    }

    /// The marks of a run.
    pub fn marks(&self, uid: &str) -> Option<Marks> {
        self.0.get(uid).map(Progress::marks)
    }

    /// The marks to write now: UID and name of the run, and the mark. The next attempt is after
    /// another pause. `None`: all that differ from the stored ones.
    pub fn take_marks(&mut self, now: Option<Instant>) -> Vec<(String, ObjectKey, Marks)> {
        let mut due = Vec::new();
        for (uid, progress) in &mut self.0 {
            let Some(at) = progress.due() else { continue };
            if let Some(now) = now {
                if now < at {
                    continue;
                }
                progress.changed = now;
            }
            due.push((uid.clone(), progress.key.clone(), progress.marks()));
        }
        due
    }

    /// The marks of a run are stored.
    pub fn stored(&mut self, uid: &str, marks: Marks) {
        if let Some(progress) = self.0.get_mut(uid) {
            progress.stored = Some(marks);
        }
    }

    /// Forgets runs that are gone: they need no mark, whatever becomes of their messages.
    pub fn retain(&mut self, exists: impl Fn(&str, &ObjectKey) -> bool) {
        self.0.retain(|uid, progress| exists(uid, &progress.key));
    }
}
