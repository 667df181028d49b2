//! `wavegate demo`: a complete rollout on the local machine, without a cluster.
//!
//! Everything runs in this process: an API server in memory, both controllers, and
//! simulated workloads. The output comes from watching that server, and not from the
//! controllers.
//!
//! The demo uses no cluster, configuration or network, and removes its temporary
//! directory at the end.

mod access;
mod environment;
mod files;
mod fixtures;
mod git;
pub(in crate::cli) mod summary;
mod update;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use jiff::Timestamp;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::environment::Environment;
use self::fixtures::Fixtures;
use self::summary::SummaryFacts;
use self::update::SecondCommit;
use crate::cli::console::commands::word;
use crate::cli::console::error::Error;
use crate::cli::dashboard::{self, OpenPage};
use crate::cli::rollout_view::events::{WatchEvent, WatchScope, Watched};
use crate::cli::rollout_view::fleet::FleetSource;
use crate::cli::rollout_view::live::{LiveEvent, LiveLoop, LiveRollouts};
use crate::cli::rollout_view::newest::Newest;
use crate::cli::rollout_view::plain::{Columns, Stamp};
use crate::cli::rollout_view::screen::Frame;
use crate::cli::rollout_view::set::WatchedSet;
use crate::cli::rollout_view::signals::{READER_GONE, Signals, Wake};
use crate::cli::rollout_view::transition::Transition;
use crate::cli::rollout_view::ui::{self, Ui, is_closed};
use crate::cli::rollout_view::{run, sentence, terminal, text};
use wavegate_api::{HealthStatus, ObjectKey};
use wavegate_rollout::requests::number_of;
use wavegate_rollout::rollout::report::{ApplicationReport, RolloutOutcome};

/// The rollout is stopped when nothing changes for this time, which is longer than any
/// reasonable delay in a demo.
const QUIET: Duration = Duration::from_secs(120);
/// The same limit while no Application is syncing or becoming healthy.
const IDLE: Duration = Duration::from_secs(20);
/// A rollout that cannot continue is given up after this time without a change: an error may
/// be over with the next event, such as that of a project that is observed after its set.
const FINAL: Duration = Duration::from_secs(1);
/// The same with policies: a failure may end the run, or take back what it started.
const DECIDED: Duration = Duration::from_secs(5);
/// The time limit while the word of a person is waited for, such as an approval.
const PEOPLE: Duration = Duration::from_secs(30 * 60);
/// Where the API is served for the commands of people, who a policy may ask.
const FOR_PEOPLE: &str = "127.0.0.1:0";
/// While something waits, a line is printed at least at this interval.
const LINES: Duration = Duration::from_secs(4);

/// Roll out Applications on this machine, without a cluster, and show the progress
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Exit codes: 0 the rollout completed; 1 it did not; 2 wrong use or unreadable input; \
                        130 interrupted (129, 131 and 143 for other signals); 141 standard output was closed, \
                        as by head.\n\nThe controllers' log is shown when RUST_LOG is set, for example to \
                        info; the demo then prints lines, as with --plain."
)]
pub struct DemoArgs {
    /// Roll out the ApplicationSets in these files instead of the demo's, together with
    /// the other objects; sources must be local directories or Git repositories. With
    /// RolloutPolicies, the demo prints the commands for another terminal that it waits for
    #[arg(short, long = "filename", value_name = "FILE")]
    filename: Vec<PathBuf>,
    /// Serve the API on this loopback address for kubectl, until Ctrl-C; port 0 selects a
    /// free port. Requires the credentials of the printed kubeconfig
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
    /// Allow --listen on addresses other than loopback: anyone with the kubeconfig can
    /// then change everything in the demo
    #[arg(long, requires = "listen", alias = "listen-without-authentication")]
    listen_anywhere: bool,
    /// Let the workloads of this Application fail; can be repeated
    #[arg(long, value_name = "APP")]
    fail: Vec<String>,
    /// Print one line per transition; the default when standard output is not a terminal, or
    /// one that cannot draw (TERM=dumb)
    #[arg(long)]
    plain: bool,
    /// Show the rollout on a page, too, with its verbs, until Ctrl-C
    #[arg(long)]
    dashboard: bool,
    /// With --dashboard: open the page in a browser
    #[arg(long, requires = "dashboard")]
    open: bool,
}

/// Runs the demo.
///
/// # Errors
///
/// Usage errors, invalid files, a missing `git`, and a part of the demo that failed. An
/// incomplete rollout is not an error but exit code 1.
pub fn run(args: DemoArgs) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let code = runtime.block_on(run_async(args));
    // A running checkout must not delay the exit.
    runtime.shutdown_timeout(Duration::from_secs(1));
    code
}

async fn run_async(args: DemoArgs) -> anyhow::Result<ExitCode> {
    let draws = !args.plain && ui::can_draw();
    let mut signals = Signals::new(draws)?;
    let mut listener = match &args.listen {
        Some(address) => Some(listen(address, args.listen_anywhere).await?),
        None => None,
    };
    // In another thread, since it may wait for standard input.
    let files = args.filename.clone();
    let mut making = tokio::task::spawn_blocking(move || Fixtures::make(&files));
    let world = tokio::select! {
        world = &mut making => world??,
        code = signals.end() => return Ok(ExitCode::from(code)),
    };
    let failing = world.check_failing(&args.fail)?;
    if listener.is_none() && (world.has_policies || args.dashboard) {
        listener = Some(listen(FOR_PEOPLE, false).await?);
    }
    let scope = WatchScope { runs: true, ..WatchScope::default() };
    let pods = args.listen.is_some() || args.dashboard;
    let (stage, changes) = Environment::start(&world, failing, pods, &scope).await?;

    let mut show = match draws {
        true => Ui::screen(),
        false => {
            let columns = Columns::for_names(world.applications.iter().map(String::as_str));
            Ui::plain(columns, Stamp::Elapsed, LINES)
        }
    };
    let (mut notes, mut prefix) = (Vec::new(), String::new());
    if let Some(listener) = listener {
        let kubeconfig = world.folder.path().join("kubeconfig");
        let host = args.listen.as_deref().and_then(|listen| listen.rsplit_once(':'));
        let guard = access::guard(listener.local_addr()?, host.map(|(host, _)| host))?;
        let address = stage.serve(listener, guard, &kubeconfig, &world.namespace)?;
        let hint = format!("export KUBECONFIG={}", kubeconfig.display());
        if args.listen.is_none() {
            // One line, to be copied.
            prefix = format!("KUBECONFIG={} ", word(&kubeconfig.display().to_string()));
        }
        let style = "kubectl get applicationsets,applications; kubectl get pods -A".to_owned();
        let lines = match &args.listen {
            Some(_) => {
                notes.push(format!("Serving https://{address}; Ctrl-C ends the demo."));
                notes.push(hint.clone());
                vec![hint, style, String::new()]
            }
            None => {
                notes.push(format!("For another terminal: {hint}"));
                vec![format!("For another terminal: {hint}"), String::new()]
            }
        };
        if is_closed(show.announce(&lines))? {
            return Ok(ExitCode::from(READER_GONE));
        }
    }
    let (mut opened, stop) = (None, CancellationToken::new());
    let _stopped_at_the_end = stop.clone().drop_guard();
    if args.dashboard {
        let page = OpenPage::start(0).await?;
        let url = page.url();
        let shown = dashboard::of_demo(stage.client_of_page(), &world.namespace, &stop);
        let stop = stop.clone();
        tokio::spawn(async move { page.serve(shown, true, stop).await });
        notes.push(format!("The page: {url}"));
        if is_closed(show.announce(&[format!("The page: {url}"), String::new()]))? {
            return Ok(ExitCode::from(READER_GONE));
        }
        opened = args.open.then(|| dashboard::open_in_browser(&url)).flatten();
    }
    let play = DemoRun {
        live: LiveRollouts::new(scope, FleetSource::Generated(world.inputs.clone())),
        served: args.listen.is_some() || args.dashboard,
        prefix,
        notes,
        advised: Vec::new(),
        settled: None,
        has_policies: world.has_policies,
        update: Some(world.update.clone()).filter(|update| !update.is_empty()),
        awaits_commit: false,
    };
    let events = (signals, changes);
    let (stop, play) = play.run(&world, stage, &mut show, events).await?;
    drop(opened);
    let elapsed = play.settled.unwrap_or_else(|| play.live.began.elapsed());
    let columns = draws.then(|| terminal::size().0);
    let summary = play.summary(&stop, elapsed, columns);
    if is_closed(show.finish(play.frame(elapsed), &summary))? {
        return Ok(ExitCode::from(READER_GONE));
    }
    Ok(match stop.why {
        StopReason::Settled => ExitCode::from(u8::from(!play.is_complete())),
        StopReason::Quiet => ExitCode::from(1),
        StopReason::Signal(code) => ExitCode::from(code),
        StopReason::ReaderGone => ExitCode::from(READER_GONE),
    })
}

/// A running demo.
struct DemoRun {
    live: LiveRollouts,
    served: bool,
    /// What a command of another terminal needs in front.
    prefix: String,
    notes: Vec<String>,
    /// The notes that were last shown, with the commands that continue a rollout.
    advised: Vec<String>,
    /// Time since when there was nothing left to do.
    settled: Option<Duration>,
    /// Whether there are policies or a pause.
    has_policies: bool,
    /// The commit that follows when all is rolled out.
    update: Option<SecondCommit>,
    /// No controller has seen that commit yet.
    awaits_commit: bool,
}

/// Why the demo ended, and its measurements.
struct Stop {
    why: StopReason,
    writes: u64,
}

enum StopReason {
    /// The rollout ended, complete or not.
    Settled,
    /// Nothing changes any more.
    Quiet,
    /// A signal was received.
    Signal(u8),
    /// Standard output was closed.
    ReaderGone,
}

impl DemoRun {
    /// Runs until the demo ends.
    async fn run(
        mut self,
        world: &Fixtures,
        mut stage: Environment,
        show: &mut Ui,
        (signals, changes): (Signals, mpsc::Receiver<WatchEvent>),
    ) -> anyhow::Result<(Stop, Self)> {
        stage.create(&world.objects).await?;
        let mut events = LiveLoop::new(signals, changes, None);
        // The controllers compare when it says so, and at once.
        let mut newest = Newest::Unknown;
        let mut moved = Instant::now();
        let mut is_changed = true;
        let why = loop {
            let written = match events.next(&mut newest, &mut stage.running).await {
                LiveEvent::Signal(Wake::End(code)) => break StopReason::Signal(code),
                LiveEvent::Signal(wake) => {
                    let written = match wake {
                        Wake::Stop => events.signals.stop(show).await,
                        // The terminal may show anything: it is drawn anew.
                        _ => show.leave(),
                    };
                    moved = Instant::now();
                    written
                }
                LiveEvent::Other(broken) => {
                    return Err(broken.unwrap_or_else(|error| {
                        anyhow::Error::from(error).context("the demo failed")
                    }));
                }
                LiveEvent::Tick => {
                    let elapsed = self.live.began.elapsed();
                    let over = self.is_settled();
                    if over != self.settled.is_some() {
                        self.settled = over.then_some(elapsed);
                    }
                    // The elapsed time stops when there is nothing to wait for.
                    let shown = self.settled.unwrap_or(elapsed);
                    if is_closed(show.refresh(self.frame(shown), is_changed))? {
                        break StopReason::ReaderGone;
                    }
                    is_changed = false;
                    // A run is described before the status of its set: until then, that is the
                    // status of the rollout before.
                    let is_complete = self.is_complete() && !self.has_live_run();
                    if over
                        && is_complete
                        && let Some(update) = self.update.take()
                    {
                        let line = self.commit(update, &stage).await?;
                        (moved, is_changed) = (Instant::now(), true);
                        show.log_transitions(&[line], Timestamp::now())
                    } else {
                        let is_final = || is_complete || moved.elapsed() >= self.final_after();
                        if over && !self.served && is_final() {
                            break StopReason::Settled;
                        }
                        if (self.served || self.has_policies) && is_closed(self.advise(over, show))?
                        {
                            break StopReason::ReaderGone;
                        }
                        if !self.served && moved.elapsed() > self.quiet_limit() {
                            break StopReason::Quiet;
                        }
                        continue;
                    }
                }
                LiveEvent::Watch(WatchEvent::Lost(..) | WatchEvent::Listed(_)) => continue,
                LiveEvent::Watch(change) => {
                    (moved, is_changed) = (Instant::now(), true);
                    let transitions = self.apply(change)?;
                    if !transitions.is_empty() {
                        // Later lines must not have an earlier time.
                        self.settled = None;
                    }
                    show.log_transitions(&transitions, Timestamp::now())
                }
                LiveEvent::TimedOut | LiveEvent::Compared(_) => continue,
            };
            if is_closed(written)? {
                break StopReason::ReaderGone;
            }
        };
        let writes = stage.writes();
        Ok((Stop { why, writes }, self))
    }

    /// Shows how to go on as long as the server is there to be asked.
    fn advise(&mut self, over: bool, show: &Ui) -> io::Result<()> {
        let outcomes = self.live.fleet.outcomes();
        let prefix = &self.prefix;
        let manual = outcomes.iter().filter(|_| over).find_map(|(name, outcome)| {
            let command = summary::how_to_continue(self.live.fleet.sets.get(name)?, outcome)?;
            Some(vec![format!("To continue: {prefix}{command}")])
        });
        let of_run = || {
            let set = self.live.fleet.known().find(|set| set.waits_for_a_word())?;
            let commands = run::commands(set.run()?, &set.key()).into_iter();
            let place = if prefix.is_empty() { "" } else { ", in another terminal" };
            let line =
                |(what, command): (String, String)| format!("{what}{place}: {prefix}{command}");
            Some(commands.map(line).map(|line| text::capitalized(&line)).collect())
        };
        let lines: Vec<String> = manual.or_else(of_run).unwrap_or_default();
        self.notes.retain(|note| !self.advised.contains(note));
        self.notes.extend(lines.iter().cloned());
        // Once in a log.
        if self.advised == lines {
            return Ok(());
        }
        self.advised.clone_from(&lines);
        match show {
            Ui::Plain { .. } => show.announce(&lines),
            Ui::Screen { .. } => Ok(()),
        }
    }

    /// Commits what is rolled out next, and asks for newer comparisons.
    async fn commit(
        &mut self,
        update: SecondCommit,
        stage: &Environment,
    ) -> anyhow::Result<Transition> {
        tokio::task::spawn_blocking(move || update.apply()).await??;
        let known = self.live.fleet.known();
        let names = known.flat_map(|set| {
            let namespace = set.report.set.namespace.clone();
            set.report.members.keys().map(move |name| ObjectKey::new(&namespace, name))
        });
        let applications: Vec<ObjectKey> = names.collect();
        let asked = stage.refresh(&applications).await;
        asked.map_err(|why| anyhow::anyhow!("cannot ask for comparisons: {why}"))?;
        (self.awaits_commit, self.settled) = (true, None);
        let text = "All is rolled out: now a second commit, with other images".to_owned();
        self.notes.push(text.clone());
        Ok(Transition { at: self.live.began.elapsed(), text, ..Transition::default() })
    }

    /// For how long a rollout that cannot continue must stay so.
    fn final_after(&self) -> Duration {
        match self.has_live_run() {
            true => DECIDED,
            false => FINAL,
        }
    }

    /// Whether a run goes on, by policies.
    fn has_live_run(&self) -> bool {
        let is_live = |set: &WatchedSet| set.run().is_some_and(|run| !run.phase().has_ended());
        self.has_policies && self.live.fleet.known().any(is_live)
    }

    fn apply(&mut self, change: WatchEvent) -> Result<Vec<Transition>, Error> {
        let is_run = matches!(change, WatchEvent::Changed(Watched::Runs, _));
        let transitions = self.live.apply(change)?;
        let is_second = |set: &WatchedSet| {
            set.run().is_some_and(|run| number_of(&run.name).is_some_and(|at| at > 1))
        };
        self.awaits_commit &= !(is_run && self.live.fleet.known().any(is_second));
        Ok(transitions)
    }

    fn frame(&self, elapsed: Duration) -> Frame<'_> {
        let now = Timestamp::now();
        Frame { fleet: &self.live.fleet, elapsed, now, notes: &self.notes, disconnected: None }
    }

    /// Nothing is in progress in any set, and there is at least one.
    fn is_settled(&self) -> bool {
        let is_awaited = self.awaits_commit || self.has_policies && self.waits_for_a_word();
        let outcomes = self.live.fleet.outcomes();
        let is_over =
            |(_, outcome): &(ObjectKey, RolloutOutcome)| *outcome != RolloutOutcome::Running;
        !is_awaited && !outcomes.is_empty() && outcomes.iter().all(is_over)
    }

    fn waits_for_a_word(&self) -> bool {
        self.live.fleet.known().any(WatchedSet::waits_for_a_word)
    }

    /// The time limit without a change.
    fn quiet_limit(&self) -> Duration {
        if self.waits_for_a_word() {
            return PEOPLE;
        }
        let moves = |live: &ApplicationReport| {
            live.is_operating() || live.observed.health == HealthStatus::Progressing
        };
        let mut members = self.live.fleet.known().flat_map(|set| set.report.members.values());
        if members.any(|member| member.live.as_ref().is_some_and(moves)) { QUIET } else { IDLE }
    }

    /// The rollout of every set is complete.
    fn is_complete(&self) -> bool {
        let outcomes = self.live.fleet.outcomes();
        outcomes.iter().all(|(_, outcome)| *outcome == RolloutOutcome::Complete)
    }

    fn summary(
        &self,
        stop: &Stop,
        elapsed: Duration,
        columns: Option<usize>,
    ) -> Vec<text::StyledLine> {
        let facts = SummaryFacts { elapsed, writes: stop.writes, columns };
        let mut lines = summary::lines(&self.live.fleet, &facts);
        if matches!(stop.why, StopReason::Quiet) {
            let waits: Vec<String> = self
                .live
                .fleet
                .known()
                .filter(|set| set.outcome() == RolloutOutcome::Running)
                .map(|set| sentence::waiting(set, Timestamp::now()))
                .collect();
            let text = format!("The rollout makes no progress. {}", waits.join("; "));
            lines.push(text::StyledLine::of(text::Style::Red, text));
        }
        lines
    }
}

/// Opens the port, on a loopback address unless others are allowed.
async fn listen(address: &str, anywhere: bool) -> Result<TcpListener, Error> {
    let wrong = |why: String| Error::input("--listen", address, why);
    let found: Vec<SocketAddr> = match tokio::net::lookup_host(address).await {
        Ok(found) => found.collect(),
        Err(error) => {
            return Err(wrong(format!(
                "{error}; give an address and a port, such as 127.0.0.1:8001"
            )));
        }
    };
    let Some(first) = found.first() else {
        return Err(wrong("the host name cannot be resolved".to_owned()));
    };
    if !anywhere && !found.iter().all(|address| address.ip().is_loopback()) {
        return Err(wrong(
            "only loopback addresses such as 127.0.0.1 are allowed; use --listen-anywhere for others"
                .to_owned(),
        ));
    }
    TcpListener::bind(first).await.map_err(|error| wrong(error.to_string()))
}
