//! The messages that wait, by sink, and what became of the others.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::failure::DeliveryFailure;
use super::message::Message;
use super::progress::{Runs, stored_marks};
use super::sink_key::SinkKey;
use wavegate_api::ObjectKey;
use wavegate_api::policy::Sink;
use wavegate_rollout::notify::{self, Run};
use wavegate_rollout::rollout::policy::SinkRule;

/// The most messages that wait for a sink.
pub(super) const MAX_WAITING: usize = 100;
/// How long a message is tried to be delivered.
const TRIED_FOR: Duration = Duration::from_secs(3600);
/// How often the log says of a sink that messages fail.
const SAY_AGAIN: Duration = Duration::from_secs(300);

/// What became of the messages of a sink since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NotificationCounts {
    /// How many wait.
    pub waiting: usize,
    /// How many were delivered.
    pub sent: u64,
    /// How many were given up, and why.
    pub failed: BTreeMap<DeliveryFailure, u64>,
    /// How many attempts have failed that were repeated, and why.
    pub attempts: BTreeMap<DeliveryFailure, u64>,
}

/// The messages that wait for a sink.
#[derive(Default)]
struct Queue {
    waiting: VecDeque<(Arc<Message>, Instant)>,
    is_worked_on: bool,
}

/// What is kept of a sink of an existing policy.
#[derive(Default)]
struct Kept {
    counts: NotificationCounts,
    /// When the log last said that messages fail.
    said_at: Option<Instant>,
}

/// All that is known of messages and sinks.
#[derive(Default)]
pub(super) struct State {
    queues: BTreeMap<SinkKey, Queue>,
    kept: BTreeMap<(ObjectKey, usize), Kept>,
    pub runs: Runs,
    sinks: BTreeMap<ObjectKey, Vec<Sink>>,
    checks: BTreeSet<ObjectKey>,
    /// When sinks with problems are checked again.
    again: BTreeMap<ObjectKey, Instant>,
}

impl State {
    pub fn is_empty(&self) -> bool {
        self.sinks.is_empty() && self.runs.is_empty()
    }

    pub fn has_sinks<'a>(&self, policy: &ObjectKey, sinks: impl Iterator<Item = &'a Sink>) -> bool {
        let known = self.sinks.get(policy).map(Vec::as_slice).unwrap_or_default();
        known.iter().eq(sinks)
    }

    /// Other sinks of a policy. What is known of policies that are gone is forgotten.
    pub fn set_sinks(
        &mut self,
        policy: ObjectKey,
        sinks: Vec<Sink>,
        exists: impl Fn(&ObjectKey) -> bool,
    ) {
        self.sinks.retain(|policy, _| exists(policy));
        self.again.retain(|policy, _| exists(policy));
        self.kept.retain(|(policy, _), _| exists(policy));
        self.checks.insert(policy.clone());
        match sinks.is_empty() {
            true => self.sinks.remove(&policy),
            false => self.sinks.insert(policy, sinks),
        };
    }

    pub fn take_checks(&mut self) -> BTreeSet<ObjectKey> {
        std::mem::take(&mut self.checks)
    }

    /// A policy is checked again at a time.
    pub fn look_again(&mut self, policy: &ObjectKey, at: Instant) {
        self.again.entry(policy.clone()).or_insert(at);
    }

    /// The policies that are due to be checked.
    pub fn check_again(&mut self, now: Instant) {
        let due: Vec<_> = self.again.extract_if(.., |_, at| *at <= now).collect();
        self.checks.extend(due.into_iter().map(|(policy, _)| policy));
    }

    /// When something is to be done without a change.
    pub fn due(&self) -> Option<Instant> {
        self.runs.due().into_iter().chain(self.again.values().copied()).min()
    }

    /// Adds the transitions of a run that were not added before; returns whether there are any.
    pub fn offer(&mut self, sinks: &[SinkRule], run: Run<'_>, now: Instant) -> bool {
        let count = notify::transition_count(run.status);
        if sinks.is_empty() {
            // Nothing is sent until there is a sink.
            if let Some(progress) = self.runs.get_mut(run.uid) {
                progress.offered = count;
            }
            return false;
        }
        let progress = self.runs.get_mut(run.uid);
        let is_new = progress.is_none();
        let after = match progress {
            Some(progress) => {
                progress.stored = stored_marks(run.status);
                progress.offered
            }
            // Without a mark there was no sink yet.
            None => match run.status.notified {
                Some(mark) => mark,
                None => return false,
            },
        };
        if after >= count {
            return false;
        }
        let uid: Arc<str> = run.uid.into();
        let transitions = notify::transitions_since(run, after);
        let messages: Vec<_> = transitions.map(|one| Arc::new(Message::new(&uid, &one))).collect();
        let missing = count - after - i64::try_from(messages.len()).unwrap_or(count);
        if missing > 0 {
            tracing::warn!(
                run = %run.key,
                count = missing,
                "transitions are not notified of, since the timeline of the run has them no more"
            );
        }
        // What a sink has got from an earlier process is not sent to it again, since another one has
        // not.
        let had = |key: &SinkKey| {
            let marks = run.status.notified_sinks.iter().filter(|_| is_new);
            marks.filter(|mark| mark.sink == key.id()).map(|mark| mark.notified).max()
        };
        let of_sink = |rule: &SinkRule| {
            let key = SinkKey::of(&run.key.namespace, rule);
            let had = had(&key).unwrap_or(after);
            let left = messages.iter().filter(|message| message.number > had).cloned();
            (key, left.collect::<Vec<_>>())
        };
        let added: Vec<(SinkKey, Vec<Arc<Message>>)> = sinks.iter().map(of_sink).collect();
        let numbers = |(key, left): &(SinkKey, Vec<Arc<Message>>)| {
            (key.clone(), left.iter().map(|message| message.number).collect())
        };
        self.runs.add(&run, after, added.iter().map(numbers).collect(), now);
        let mut dropped = Vec::new();
        for (key, left) in added {
            if left.is_empty() {
                continue;
            }
            let queue = self.queues.entry(key.clone()).or_default();
            let until = now + TRIED_FOR;
            queue.waiting.extend(left.into_iter().map(|message| (message, until)));
            let surplus = queue.waiting.len().saturating_sub(MAX_WAITING);
            let surplus = queue.waiting.drain(..surplus);
            dropped.extend(surplus.map(|(message, _)| (key.clone(), message)));
        }
        for (key, message) in dropped {
            self.gave_up(&key, key.index, &message, DeliveryFailure::Dropped, now);
        }
        true
    }

    /// The sinks with messages that nobody works on; from now on, somebody does.
    pub fn take_idle(&mut self) -> Vec<SinkKey> {
        let idle = self.queues.iter_mut().filter(|(_, queue)| !queue.is_worked_on);
        idle.map(|(key, queue)| {
            queue.is_worked_on = true;
            key.clone()
        })
        .collect()
    }

    /// The next message of a sink; without one, the work on it has ended. Those that were tried
    /// for too long are given up.
    pub fn next(&mut self, key: &SinkKey, now: Instant) -> Option<Arc<Message>> {
        loop {
            let queue = self.queues.get_mut(key)?;
            let Some((message, until)) = queue.waiting.front().cloned() else {
                self.queues.remove(key);
                return None;
            };
            if now < until {
                return Some(message);
            }
            self.end(key, &message);
            self.gave_up(key, key.index, &message, DeliveryFailure::Expired, now);
        }
    }

    /// A message was delivered.
    pub fn sent(&mut self, key: &SinkKey, index: usize, message: &Arc<Message>, now: Instant) {
        self.end(key, message);
        self.settle(key, message, now);
        let kept = self.kept.entry((key.policy.clone(), index)).or_default();
        kept.counts.sent += 1;
        kept.said_at = None;
    }

    /// A message is refused.
    pub fn refused(&mut self, key: &SinkKey, index: usize, message: &Arc<Message>, now: Instant) {
        self.end(key, message);
        self.gave_up(key, index, message, DeliveryFailure::Refused, now);
    }

    /// An attempt has failed that is repeated. Returns whether it is to be said.
    pub fn failed(
        &mut self,
        key: &SinkKey,
        index: usize,
        why: DeliveryFailure,
        now: Instant,
    ) -> bool {
        let kept = self.kept.entry((key.policy.clone(), index)).or_default();
        *kept.counts.attempts.entry(why).or_default() += 1;
        is_said(&mut kept.said_at, now)
    }

    /// Whether it is to be said that messages of a sink were given up.
    pub fn is_said(&mut self, key: &SinkKey, index: usize, now: Instant) -> bool {
        is_said(&mut self.kept.entry((key.policy.clone(), index)).or_default().said_at, now)
    }

    /// A sink is gone, and with it what waits for it.
    pub fn forget_sink(&mut self, key: &SinkKey, now: Instant) {
        let queue = self.queues.remove(key).unwrap_or_default();
        queue.waiting.iter().for_each(|(message, _)| self.settle(key, message, now));
        self.runs.forget_sink(key);
    }

    /// The work on a sink has ended by a bug: its first message is not tried again.
    pub fn drop_first(&mut self, key: &SinkKey, now: Instant) {
        let Some(queue) = self.queues.get_mut(key) else { return };
        queue.is_worked_on = false;
        if let Some((message, _)) = queue.waiting.pop_front() {
            self.gave_up(key, key.index, &message, DeliveryFailure::Refused, now);
        }
    }

    pub fn counts(&self) -> Vec<(ObjectKey, usize, NotificationCounts)> {
        let waiting = |policy: &ObjectKey, index: usize| {
            let of = self.queues.iter().filter(|(key, _)| key.policy == *policy);
            of.filter(|(key, _)| key.index == index).map(|(_, queue)| queue.waiting.len()).sum()
        };
        let mut all: BTreeMap<(ObjectKey, usize), NotificationCounts> = BTreeMap::new();
        for ((policy, index), kept) in &self.kept {
            all.insert((policy.clone(), *index), kept.counts.clone());
        }
        for (policy, sinks) in &self.sinks {
            for index in 0..sinks.len() {
                all.entry((policy.clone(), index)).or_default();
            }
        }
        let with_waiting =
            |((policy, index), mut counts): ((ObjectKey, usize), NotificationCounts)| {
                counts.waiting = waiting(&policy, index);
                (policy, index, counts)
            };
        all.into_iter().map(with_waiting).collect()
    }

    /// Removes a message that is at the front, if it was not dropped in the meantime.
    fn end(&mut self, key: &SinkKey, message: &Arc<Message>) {
        let Some(queue) = self.queues.get_mut(key) else { return };
        if queue.waiting.front().is_some_and(|(first, _)| Arc::ptr_eq(first, message)) {
            queue.waiting.pop_front();
        }
    }

    fn gave_up(
        &mut self,
        key: &SinkKey,
        index: usize,
        message: &Arc<Message>,
        why: DeliveryFailure,
        now: Instant,
    ) {
        self.settle(key, message, now);
        let kept = self.kept.entry((key.policy.clone(), index)).or_default();
        *kept.counts.failed.entry(why).or_default() += 1;
        if matches!(why, DeliveryFailure::Dropped | DeliveryFailure::Expired)
            && is_said(&mut kept.said_at, now)
        {
            tracing::warn!(
                policy = %key.policy, sink = index, id = message.id, reason = why.label(),
                "notifications are given up, since the sink takes none"
            );
        }
    }

    /// Nothing more is done about a message for a sink.
    fn settle(&mut self, key: &SinkKey, message: &Message, now: Instant) {
        if let Some(progress) = self.runs.get_mut(&message.run) {
            progress.settle(key, message.number, now);
        }
    }
}

fn is_said(said_at: &mut Option<Instant>, now: Instant) -> bool {
    let is_due = said_at.is_none_or(|at| now.duration_since(at) >= SAY_AGAIN);
    if is_due {
        *said_at = Some(now);
    }
    is_due
}
