//! `status --watch` and `explain --watch`: follow rollouts in a cluster until they are
//! complete, or until only a person can continue them.

pub(in crate::cli) mod args;
mod reasons;
mod show;
mod summary;

use std::convert::Infallible;
use std::io;
use std::process::ExitCode;
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::reasons::Reasons;
use self::show::Show;
use crate::cli::cluster::ClusterConnection;
use crate::cli::console::error::{CHECK_FAILED, Error};
use crate::cli::explain;
use crate::cli::rollout_view::events::{self, WatchEvent, WatchScope};
use crate::cli::rollout_view::fleet::FleetSource;
use crate::cli::rollout_view::live::{LiveEvent, LiveLoop, LiveRollouts};
use crate::cli::rollout_view::newest::{ComparisonAnswer, Newest};
use crate::cli::rollout_view::plain::{Columns, Stamp};
use crate::cli::rollout_view::screen::Frame;
use crate::cli::rollout_view::set::WatchedSet;
use crate::cli::rollout_view::signals::{READER_GONE, Signals, Wake};
use crate::cli::rollout_view::transition::Transition;
use crate::cli::rollout_view::ui::{self, Ui, is_closed};
use crate::cli::watch::args::{WatchRequest, WatchView};
use wavegate_api::ObjectKey;
use wavegate_rollout::rollout::report::Outcome;

/// While something waits, a line is printed at least at this interval.
const LINES: Duration = Duration::from_secs(10);
/// A rollout that cannot continue must stay so for this time: a controller may be about to
/// try again.
const SETTLED: Duration = Duration::from_secs(2);
/// The same for a set without the status of a rollout, which a controller may be about to
/// start, and for comparisons that may be older than the end of a sync.
const STARTED: Duration = Duration::from_secs(10);

/// The same after a comparison that was asked for: a rollout may be about to start by it.
const COMPARED: Duration = Duration::from_secs(5);

/// Follows rollouts. Exit code 0 when they are complete, 1 when only a person can continue,
/// a set was deleted or the time is over, and 128 plus the number of a signal.
///
/// # Errors
///
/// A cluster that cannot be reached, a set that does not exist, missing permissions.
pub(in crate::cli) fn run(request: &WatchRequest<'_>) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let code = runtime.block_on(follow(request));
    runtime.shutdown_timeout(Duration::from_millis(100));
    code
}

/// Why following ended.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Ending {
    Complete,
    Stuck,
    Deleted,
    TimedOut(Duration),
    Signal(u8),
    ReaderGone,
}

impl Ending {
    fn code(&self) -> u8 {
        match self {
            Self::Complete => 0,
            Self::Stuck | Self::Deleted | Self::TimedOut(_) => CHECK_FAILED,
            Self::Signal(code) => *code,
            Self::ReaderGone => READER_GONE,
        }
    }
}

async fn follow(request: &WatchRequest<'_>) -> anyhow::Result<ExitCode> {
    let cluster = ClusterConnection::connect(request.cluster).await?;
    let set = match request.name {
        // The error says where it is.
        Some(name) => {
            let set = cluster.expect_application_set(name).await?;
            Some(ObjectKey::of(&set))
        }
        None => None,
    };
    let namespace = match &set {
        Some(set) => Some(set.namespace.clone()),
        None if request.all_namespaces => None,
        // As without --watch; what cannot be listed is reported by the watch.
        None => match cluster.application_sets_here().await {
            Ok((namespace, _)) => Some(namespace),
            Err(_) => Some(cluster.namespace.clone()),
        },
    };
    let draws = request.view == WatchView::Screen && ui::can_draw();
    let signals = Signals::new(draws)?;
    let stop = CancellationToken::new();
    let _stopped_at_the_end = stop.clone().drop_guard();
    let name = set.map(|set| set.name);
    let scope = WatchScope { namespace, set: name.clone(), runs: true, ends_on_refusal: true };
    let changes = events::watch(cluster.client(), &scope, &stop);
    let mut show = match (request.view, draws) {
        (WatchView::Reason, _) => Show::Reasons(Reasons::default()),
        (_, true) => Show::Ui(Ui::screen()),
        (_, false) => Show::Ui(Ui::plain(Columns::for_names([]), Stamp::Clock, LINES)),
    };
    let mut followed = FollowedRollouts {
        live: LiveRollouts::new(scope, FleetSource::Cluster(name)),
        has_had_sets: false,
        settling: None,
        client: (!request.no_refresh).then(|| cluster.client().clone()),
        newest: Newest::default(),
        notes: Vec::new(),
    };
    let deadline = request.timeout.map(|time| followed.live.began + time);
    let mut events = LiveLoop::new(signals, changes, deadline);
    let ending = followed.run(&mut show, &mut events, request.timeout).await?;
    show.look_below(&followed, &ending, &cluster).await;
    if ending != Ending::ReaderGone && is_closed(show.finish(&followed, &ending))? {
        return Ok(ExitCode::from(READER_GONE));
    }
    Ok(ExitCode::from(ending.code()))
}

/// The rollouts, and what becomes of following them.
struct FollowedRollouts {
    live: LiveRollouts,
    has_had_sets: bool,
    /// The outcomes that would end it, and since when they are so.
    settling: Option<(Ending, Instant)>,
    /// Asks for newer comparisons; `None` when those from before the start count.
    client: Option<Client>,
    newest: Newest,
    /// What is waited for besides the rollouts.
    notes: Vec<String>,
}

impl FollowedRollouts {
    async fn run(
        &mut self,
        show: &mut Show,
        events: &mut LiveLoop,
        timeout: Option<Duration>,
    ) -> Result<Ending, Error> {
        let mut is_changed = true;
        loop {
            let event = events.next(&mut self.newest, std::future::pending::<Infallible>()).await;
            let written = match event {
                LiveEvent::Signal(Wake::End(code)) => return Ok(Ending::Signal(code)),
                LiveEvent::Signal(Wake::Stop) => show.stop(&mut events.signals).await,
                // The terminal may show anything: it is drawn anew.
                LiveEvent::Signal(Wake::Continued) => show.leave(),
                LiveEvent::TimedOut => return Ok(Ending::TimedOut(timeout.unwrap_or_default())),
                LiveEvent::Tick => {
                    if is_closed(show.refresh(self, is_changed))? {
                        return Ok(Ending::ReaderGone);
                    }
                    is_changed = false;
                    let Some(ending) = self.ending() else { continue };
                    let Some(text) = self.confirm(&ending) else { return Ok(ending) };
                    is_changed = !text.is_empty();
                    show.say(self, &text)
                }
                LiveEvent::Compared(answer) => {
                    is_changed = true;
                    self.notes.clear();
                    self.settling = None;
                    let ComparisonAnswer::Unknown(why) = answer else { continue };
                    let text = format!("what follows is of the last comparisons: {why}");
                    let written = show.say(self, &text);
                    self.notes.push(text);
                    written
                }
                LiveEvent::Watch(event) => {
                    is_changed = true;
                    self.apply(event, show)?
                }
                LiveEvent::Other(never) => match never {},
            };
            if is_closed(written)? {
                return Ok(Ending::ReaderGone);
            }
        }
    }

    /// Applies an event, and prints the transitions that follow from it. The state at the
    /// start is no transition.
    fn apply(&mut self, event: WatchEvent, show: &mut Show) -> Result<io::Result<()>, Error> {
        let was_listed = self.live.is_listed();
        let mut transitions = Vec::new();
        match &event {
            WatchEvent::Set(_) => self.has_had_sets = true,
            WatchEvent::SetGone(set) => {
                let text = format!("ApplicationSet {} was deleted", set.key());
                transitions.push(self.line(set.name().to_owned(), text));
            }
            // The first connection must succeed; with a name, it has.
            WatchEvent::Lost(_, why)
                if self.live.is_unknown() && self.live.scope().set.is_none() =>
            {
                return Err(Error::input("cannot watch", "ApplicationSets", why));
            }
            WatchEvent::Lost(..) => {
                self.settling = None;
                // It is asked again, also when the request has failed just before.
                if matches!(self.newest, Newest::Asked(_) | Newest::Unknown) {
                    self.newest = Newest::NotAsked;
                    self.notes.clear();
                }
            }
            _ => {}
        }
        transitions.extend(self.live.apply(event)?);
        match (was_listed, self.live.is_listed()) {
            (true, _) => Ok(show.log(&transitions, Timestamp::now())),
            (false, true) => Ok(show.begin(self)),
            (false, false) => Ok(Ok(())),
        }
    }

    /// A line about a set as a whole.
    fn line(&self, set: String, text: String) -> Transition {
        Transition { at: self.live.began.elapsed(), set, text, ..Transition::default() }
    }

    /// What the first set waits for, or why that is not known; `None` before it is listed.
    fn reason(&self) -> Option<String> {
        let first = self.live.fleet.known().next().map(|set| explain::summary(&set.report));
        let lost = self.live.disconnected().map(|why| format!("disconnected, retrying: {why}"));
        lost.or(first).filter(|_| self.live.is_listed())
    }

    /// Whether it is over: complete, or settled without a way to continue.
    fn ending(&mut self) -> Option<Ending> {
        let (ending, time) = if self.live.is_current() { self.reached() } else { None }?;
        match &self.settling {
            Some((before, since)) if *before == ending => {
                (since.elapsed() >= time).then_some(ending)
            }
            _ => {
                self.settling = Some((ending.clone(), Instant::now()));
                time.is_zero().then_some(ending)
            }
        }
    }

    /// Before it ends, comparisons must be newer than its start: asks for them once. `None`
    /// when it can end, else what is waited for.
    fn confirm(&mut self, ending: &Ending) -> Option<String> {
        if !matches!(ending, Ending::Complete | Ending::Stuck) {
            return None;
        }
        let client = self.client.clone()?;
        match &self.newest {
            Newest::NotAsked => {}
            // Still waited for: nothing more is said.
            Newest::Asked(_) => return Some(String::new()),
            Newest::Known(..) | Newest::Unknown => return None,
        }
        let sets = self.live.fleet.known().map(WatchedSet::key).collect();
        self.newest = Newest::ask(&client, sets, &self.live.compared);
        let text = "waiting for comparisons that are newer than this command, to see commits \
                    that were just pushed"
            .to_owned();
        self.notes = vec![text.clone()];
        Some(text)
    }

    /// What has been reached, and for how long it must stay so.
    fn reached(&mut self) -> Option<(Ending, Duration)> {
        let outcomes = self.live.fleet.outcomes();
        let is_running = |(_, outcome): &(ObjectKey, Outcome)| *outcome == Outcome::Running;
        if outcomes.is_empty() {
            let is_gone = self.has_had_sets || self.live.scope().set.is_some();
            return is_gone.then_some((Ending::Deleted, Duration::ZERO));
        }
        if outcomes.iter().any(is_running) {
            self.settling = None;
            return None;
        }
        let mut sets = outcomes.iter().filter_map(|(key, _)| self.live.fleet.sets.get(key));
        let is_done = |outcome: &Outcome| matches!(outcome, Outcome::Complete | Outcome::RunEnded);
        if outcomes.iter().all(|(_, outcome)| is_done(outcome)) {
            // A controller may not have observed yet what is OutOfSync: it starts a rollout then.
            let time = match (sets.any(|set| set.report.has_changed()), &self.newest) {
                (true, Newest::Known(true)) => COMPARED,
                // A lost connection, which may be why, is about to be noticed.
                (true, _) | (false, Newest::Known(true) | Newest::Unknown) => SETTLED,
                (false, _) => Duration::ZERO,
            };
            let is_stuck = outcomes.iter().any(|(_, outcome)| outcome.is_stuck());
            return Some((if is_stuck { Ending::Stuck } else { Ending::Complete }, time));
        }
        let is_off = outcomes
            .iter()
            .any(|(_, outcome)| matches!(outcome, Outcome::Invalid { is_off: true, .. }));
        let is_early = is_off || sets.any(|set| set.report.may_be_outdated());
        Some((Ending::Stuck, if is_early { STARTED } else { SETTLED }))
    }

    /// The time that the screen shows: that of the rollout, if it is only one.
    fn elapsed(&self, now: Timestamp) -> Duration {
        let mut sets = self.live.fleet.known();
        let only = sets.next().filter(|_| sets.next().is_none());
        only.and_then(|set| set.duration(now)).unwrap_or_else(|| self.live.began.elapsed())
    }

    fn frame(&self) -> Frame<'_> {
        let now = Timestamp::now();
        Frame {
            fleet: &self.live.fleet,
            elapsed: self.elapsed(now),
            now,
            notes: &self.notes,
            disconnected: self.live.disconnected(),
        }
    }
}
