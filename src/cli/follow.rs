//! `status --watch` and `explain --watch`: follow rollouts in a cluster until they are
//! complete, or until only a person can continue them.

pub(super) mod newest;
mod reasons;
mod summary;

use std::collections::BTreeMap;
use std::io;
use std::process::ExitCode;
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use self::newest::Answer;
use self::reasons::Reasons;
use super::cluster::ClusterConnection;
use super::error::{CHECK_FAILED, Error};
use super::explain;
use super::rollout_view::events::{self, Scope, WatchEvent, Watched};
use super::rollout_view::fleet::{Fleet, Source};
use super::rollout_view::plain::{Columns, Stamp};
use super::rollout_view::screen::Frame;
use super::rollout_view::set::Set;
use super::rollout_view::signals::{READER_GONE, Signals, Wake};
use super::rollout_view::transition::Transition;
use super::rollout_view::ui::{self, Ui, is_closed};
use super::watch_args::{Request, View, until};
use wavegate_api::{ObjectKey, Raw};
use wavegate_rollout::rollout::report::Outcome;

/// Interval of drawing the screen, and of looking for a new reason: a change is shown after
/// this time at the latest.
const FRAME: Duration = Duration::from_millis(100);
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
pub(super) fn run(request: &Request<'_>) -> anyhow::Result<ExitCode> {
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

async fn follow(request: &Request<'_>) -> anyhow::Result<ExitCode> {
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
    let draws = request.view == View::Screen && ui::can_draw();
    let mut signals = Signals::new(draws)?;
    let stop = CancellationToken::new();
    let _stopped_at_the_end = stop.clone().drop_guard();
    let name = set.map(|set| set.name);
    let scope = Scope {
        namespace: namespace.clone(),
        set: name.clone(),
        runs: true,
        ends_on_refusal: true,
    };
    let mut changes = events::watch(cluster.client(), &scope, &stop);
    let mut show = match (request.view, draws) {
        (View::Reason, _) => Show::Reasons(Reasons::default()),
        (_, true) => Show::Ui(Ui::screen()),
        (_, false) => Show::Ui(Ui::plain(Columns::for_names([]), Stamp::Clock, LINES)),
    };
    let mut followed = Followed::new(name, namespace);
    followed.client = (!request.no_refresh).then(|| cluster.client().clone());
    let ending = followed.run(&mut show, &mut signals, &mut changes, request.timeout).await?;
    show.look_below(&followed, &ending, &cluster).await;
    if ending != Ending::ReaderGone && is_closed(show.finish(&followed, &ending))? {
        return Ok(ExitCode::from(READER_GONE));
    }
    Ok(ExitCode::from(ending.code()))
}

/// The rollouts and the state of their watches.
struct Followed {
    name: Option<String>,
    namespace: Option<String>,
    fleet: Fleet,
    began: Instant,
    listed: Vec<Watched>,
    lost: BTreeMap<Watched, String>,
    has_had_sets: bool,
    /// The outcomes that would end it, and since when they are so.
    settling: Option<(Ending, Instant)>,
    /// Asks for newer comparisons; `None` when those from before the start count.
    client: Option<Client>,
    /// When each Application was last compared before the start.
    compared: BTreeMap<ObjectKey, String>,
    newest: Newest,
    /// What is waited for besides the rollouts.
    notes: Vec<String>,
}

/// Whether comparisons are newer than the start.
#[derive(Debug)]
enum Newest {
    NotAsked,
    Asked(JoinHandle<Answer>),
    /// With `true`, something was compared.
    Known(bool),
    /// Not all could be compared.
    Unknown,
}

impl Drop for Followed {
    fn drop(&mut self) {
        if let Newest::Asked(asking) = &self.newest {
            asking.abort();
        }
    }
}

impl Followed {
    fn new(name: Option<String>, namespace: Option<String>) -> Self {
        Self {
            fleet: Fleet::new(Source::Cluster(name.clone())),
            name,
            namespace,
            began: Instant::now(),
            listed: Vec::new(),
            lost: BTreeMap::new(),
            has_had_sets: false,
            settling: None,
            client: None,
            compared: BTreeMap::new(),
            newest: Newest::NotAsked,
            notes: Vec::new(),
        }
    }

    async fn run(
        &mut self,
        show: &mut Show,
        signals: &mut Signals,
        changes: &mut tokio::sync::mpsc::Receiver<WatchEvent>,
        timeout: Option<Duration>,
    ) -> Result<Ending, Error> {
        let mut ticks = tokio::time::interval(FRAME);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut is_changed = true;
        loop {
            let over = until(timeout.map(|time| self.began + time));
            tokio::select! {
                biased;
                wake = signals.next() => {
                    let ended = match wake {
                        Wake::End(code) => return Ok(Ending::Signal(code)),
                        Wake::Stop => is_closed(show.stop(signals).await)?,
                        // The terminal may show anything: it is drawn anew.
                        Wake::Continued => is_closed(show.leave())?,
                    };
                    if ended {
                        return Ok(Ending::ReaderGone);
                    }
                }
                () = over => return Ok(Ending::TimedOut(timeout.unwrap_or_default())),
                _ = ticks.tick() => {
                    if is_closed(show.refresh(self, is_changed))? {
                        return Ok(Ending::ReaderGone);
                    }
                    is_changed = false;
                    if let Some(ending) = self.ending() {
                        match self.confirm(&ending) {
                            None => return Ok(ending),
                            Some(text) => {
                                if is_closed(show.say(self, &text))? {
                                    return Ok(Ending::ReaderGone);
                                }
                                is_changed = !text.is_empty();
                            }
                        }
                    }
                }
                answer = self.newest.answer() => {
                    is_changed = true;
                    self.notes.clear();
                    self.settling = None;
                    self.newest = match answer {
                        Answer::Compared(is_any) => Newest::Known(is_any),
                        Answer::Unknown(_) => Newest::Unknown,
                    };
                    if let Answer::Unknown(why) = answer {
                        let text = format!("what follows is of the last comparisons: {why}");
                        if is_closed(show.say(self, &text))? {
                            return Ok(Ending::ReaderGone);
                        }
                        self.notes.push(text);
                    }
                }
                Some(event) = changes.recv() => {
                    is_changed = true;
                    if is_closed(self.apply(event, show)?)? {
                        return Ok(Ending::ReaderGone);
                    }
                }
            }
        }
    }

    /// Applies an event, and prints the transitions that follow from it. The state at the
    /// start is no transition.
    fn apply(&mut self, event: WatchEvent, show: &mut Show) -> Result<io::Result<()>, Error> {
        let was_listed = self.is_listed();
        let (at, now) = (self.began.elapsed(), Timestamp::now());
        let transitions = match event {
            WatchEvent::Set(set) => {
                self.has_had_sets = true;
                self.fleet.set(&set, now, at)
            }
            WatchEvent::SetGone(set) => {
                self.fleet.set_gone(&set.key());
                vec![Transition {
                    at,
                    set: set.name().to_owned(),
                    step: None,
                    application: String::new(),
                    phase: String::new(),
                    text: format!("ApplicationSet {} was deleted", set.key()),
                }]
            }
            WatchEvent::Application(application) => {
                if !was_listed {
                    let at = application.parse().text("/status/reconciledAt").to_owned();
                    self.compared.insert(application.key(), at);
                }
                self.fleet.application(&application, at)
            }
            WatchEvent::ApplicationGone(application) => {
                self.fleet.application_gone(&application, at)
            }
            WatchEvent::Run(run) => self.fleet.run(&run, at),
            WatchEvent::RunGone(run) => {
                self.fleet.run_gone(&run);
                Vec::new()
            }
            WatchEvent::Listed(watched) => {
                self.lost.remove(&watched);
                if watched == Watched::Runs {
                    self.fleet.runs_listed();
                } else if !self.listed.contains(&watched) {
                    self.listed.push(watched);
                }
                if self.is_listed() && !was_listed {
                    return Ok(show.begin(self));
                }
                Vec::new()
            }
            // The first connection must succeed; with a name, it has.
            WatchEvent::Lost(_, why) if self.listed.is_empty() && self.name.is_none() => {
                return Err(Error::input("cannot watch", "ApplicationSets", why));
            }
            WatchEvent::Lost(watched, why) => {
                self.lost.insert(watched, why);
                self.settling = None;
                // What does not arrive is no silence of the controller: it is asked again, also
                // when the request has failed just before.
                if let Newest::Asked(asking) = &self.newest {
                    asking.abort();
                }
                if matches!(self.newest, Newest::Asked(_) | Newest::Unknown) {
                    self.newest = Newest::NotAsked;
                    self.notes.clear();
                }
                Vec::new()
            }
            WatchEvent::Refused(watched, why) => {
                let kind = match watched {
                    Watched::Sets => "ApplicationSets",
                    Watched::Applications => "Applications",
                    Watched::Runs => "RolloutRuns",
                };
                let place = match &self.namespace {
                    Some(namespace) => format!("{kind} of namespace {namespace}"),
                    None => format!("{kind} of all namespaces"),
                };
                return Err(Error::input("cannot watch", place, why));
            }
        };
        if !was_listed {
            return Ok(Ok(()));
        }
        Ok(show.log(&transitions, now))
    }

    fn is_listed(&self) -> bool {
        self.listed.len() == Watched::ALL.len() && self.fleet.are_runs_listed()
    }

    /// Why there are no news, if so.
    fn disconnected(&self) -> Option<&str> {
        self.lost.values().next().map(String::as_str)
    }

    /// What the first set waits for, or why that is not known; `None` before it is listed.
    fn reason(&self) -> Option<String> {
        let first = self.fleet.known().next().map(|set| explain::summary(&set.report));
        let lost = self.disconnected().map(|why| format!("disconnected, retrying: {why}"));
        lost.or(first).filter(|_| self.is_listed())
    }

    /// Whether it is over: complete, or settled without a way to continue.
    fn ending(&mut self) -> Option<Ending> {
        let (ending, time) =
            if self.is_listed() && self.lost.is_empty() { self.reached() } else { None }?;
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
        let sets: Vec<ObjectKey> = self.fleet.known().map(Set::key).collect();
        let known = self.compared.clone();
        let asking = async move { newest::compare(&client, &sets, &known).await };
        self.newest = Newest::Asked(tokio::spawn(asking));
        let text = "waiting for comparisons that are newer than this command, to see commits \
                    that were just pushed"
            .to_owned();
        self.notes = vec![text.clone()];
        Some(text)
    }

    /// What has been reached, and for how long it must stay so.
    fn reached(&mut self) -> Option<(Ending, Duration)> {
        let outcomes = self.fleet.outcomes();
        let is_running = |(_, outcome): &(ObjectKey, Outcome)| *outcome == Outcome::Running;
        if outcomes.is_empty() {
            let is_gone = self.has_had_sets || self.name.is_some();
            return is_gone.then_some((Ending::Deleted, Duration::ZERO));
        }
        if outcomes.iter().any(is_running) {
            self.settling = None;
            return None;
        }
        let mut sets = outcomes.iter().filter_map(|(key, _)| self.fleet.sets.get(key));
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
        let mut sets = self.fleet.known();
        let only = sets.next().filter(|_| sets.next().is_none());
        only.and_then(|set| set.duration(now)).unwrap_or_else(|| self.began.elapsed())
    }

    fn frame(&self) -> Frame<'_> {
        let now = Timestamp::now();
        Frame {
            fleet: &self.fleet,
            elapsed: self.elapsed(now),
            now,
            notes: &self.notes,
            disconnected: self.disconnected(),
        }
    }
}

impl Newest {
    /// The answer, once; pending while nothing is asked.
    async fn answer(&mut self) -> Answer {
        match self {
            Self::Asked(asking) => match asking.await {
                Ok(answer) => answer,
                Err(error) => Answer::Unknown(format!("it could not be asked for: {error}")),
            },
            Self::NotAsked | Self::Known(..) | Self::Unknown => std::future::pending().await,
        }
    }
}

/// A screen, lines, or reasons.
enum Show {
    Ui(Ui),
    Reasons(Reasons),
}

impl Show {
    /// The state at the start is known.
    fn begin(&mut self, followed: &Followed) -> io::Result<()> {
        let Self::Ui(ui) = self else { return Ok(()) };
        let members = followed.fleet.known().flat_map(|set| set.report.members.keys());
        let mut columns = Columns::for_names(members.map(String::as_str));
        columns.names_sets = followed.name.is_none();
        ui.begin(followed.frame(), columns)
    }

    fn log(&mut self, transitions: &[Transition], now: Timestamp) -> io::Result<()> {
        match self {
            Self::Ui(ui) => ui.log_transitions(transitions, now),
            Self::Reasons(_) => Ok(()),
        }
    }

    /// Prints a line, unless there is a screen: that shows it below.
    fn say(&mut self, followed: &Followed, text: &str) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        let at = followed.began.elapsed();
        let line = Transition {
            at,
            set: followed.name.clone().unwrap_or_default(),
            step: None,
            application: String::new(),
            phase: String::new(),
            text: text.to_owned(),
        };
        match self {
            Self::Ui(ui) => ui.log_transitions(&[line], Timestamp::now()),
            Self::Reasons(reasons) => reasons.say(text),
        }
    }

    /// Reads what is below the workloads that a rollout is stuck on.
    async fn look_below(
        &mut self,
        followed: &Followed,
        ending: &Ending,
        cluster: &ClusterConnection,
    ) {
        if let (Self::Reasons(reasons), Ending::Stuck, Some(set)) =
            (self, ending, followed.fleet.known().next())
        {
            reasons.look_below(&set.key(), cluster).await;
        }
    }

    fn refresh(&mut self, followed: &Followed, is_changed: bool) -> io::Result<()> {
        match self {
            // Lines begin with the state at the start.
            Self::Ui(Ui::Plain(_)) if !followed.is_listed() && followed.lost.is_empty() => Ok(()),
            Self::Ui(ui) => ui.refresh(followed.frame(), is_changed),
            Self::Reasons(reasons) => match is_changed.then(|| followed.reason()).flatten() {
                Some(reason) => reasons.refresh(reason),
                None => Ok(()),
            },
        }
    }

    fn leave(&mut self) -> io::Result<()> {
        match self {
            Self::Ui(ui) => ui.leave(),
            Self::Reasons(_) => Ok(()),
        }
    }

    async fn stop(&mut self, signals: &mut Signals) -> io::Result<()> {
        match self {
            Self::Ui(ui) => signals.stop(ui).await,
            Self::Reasons(_) => Ok(()),
        }
    }

    fn finish(&mut self, followed: &Followed, ending: &Ending) -> io::Result<()> {
        let mut summary = followed.summary(ending);
        // Others have printed these lines.
        if !matches!(self, Self::Ui(Ui::Screen(_))) {
            let notes = followed.notes.len().min(summary.len());
            if matches!(ending, Ending::Complete | Ending::Stuck) {
                summary.drain(..notes);
            }
        }
        match self {
            Self::Ui(ui) => {
                if matches!(ending, Ending::Stuck) {
                    ui.refresh(followed.frame(), true)?;
                }
                ui.finish(followed.frame(), &summary)
            }
            Self::Reasons(reasons) => match ending {
                Ending::Complete | Ending::Signal(_) | Ending::ReaderGone => Ok(()),
                Ending::Stuck | Ending::Deleted | Ending::TimedOut(_) => reasons.finish(&summary),
            },
        }
    }
}
