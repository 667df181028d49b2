//! `wavegate demo`: a whole rollout on this machine, without a cluster.
//!
//! Everything runs for real in this process: an API server in memory, both
//! controllers, and workloads that only pretend to run. What is shown comes
//! from watching that server, as any user could: the demo never asks the
//! controllers what they did.
//!
//! It leaves nothing behind: no cluster, no configuration and no network is
//! touched, and the temporary folder is removed at the end.

mod access;
mod app_view;
mod environment;
mod files;
mod fixtures;
mod fleet;
mod outcome;
mod plain;
mod screen;
mod steps;
mod summary;
mod terminal;
#[cfg(test)]
mod tests;
mod text;
mod ui;

use std::io::{self, IsTerminal};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use jiff::Timestamp;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, MissedTickBehavior};

use self::app_view::AppView;
use self::environment::{Change, Environment};
use self::fixtures::Fixtures;
use self::fleet::{Fleet, Transition};
use self::outcome::Outcome;
use self::summary::Facts;
use self::ui::Ui;
use super::error::Error;
use super::output;
use crate::api::HealthStatus;

/// How often the picture is drawn, when it changed.
const FRAME: Duration = Duration::from_millis(100);
/// A rollout in which nothing at all changes for so long has come to an end
/// that nobody foresaw; longer than any delay that makes sense in a demo.
const QUIET: Duration = Duration::from_secs(120);
/// The same while no Application syncs or becomes healthy.
const IDLE: Duration = Duration::from_secs(20);
/// By convention 128 and the number of the signal.
const INTERRUPTED: u8 = 130;
const TERMINATED: u8 = 143;

/// Rolls out a fleet on this machine, without a cluster, and shows how
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Exit codes: 0 the rollout completed; 1 it did not; 2 wrong use or unreadable input; \
                        130 interrupted.\n\nThe controllers' log is shown when RUST_LOG is set, for example to \
                        info; the demo prints lines then, as with --plain."
)]
pub struct Args {
    /// Roll out these ApplicationSets instead of the demo's, with whatever else
    /// the files hold; sources are folders or Git repositories of this machine
    #[arg(short, long = "filename", value_name = "FILE")]
    filename: Vec<PathBuf>,
    /// Serve the API on this loopback address, for kubectl, until Ctrl-C; port
    /// 0 takes a free one. Only who has the printed kubeconfig is answered
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
    /// Allow --listen on other addresses than those of this machine: whoever
    /// gets hold of the kubeconfig may then change everything in the demo
    #[arg(long, requires = "listen", alias = "listen-without-authentication")]
    listen_anywhere: bool,
    /// Let the workloads of this Application fail; may be given several times
    #[arg(long, value_name = "APP")]
    fail: Vec<String>,
    /// Print one line per transition; the default when standard output is no
    /// terminal
    #[arg(long)]
    plain: bool,
}

/// Runs the demo to its end.
///
/// # Errors
///
/// Wrong use, files that cannot be used, a missing `git`, and a part of the
/// demo that stopped by itself. A rollout that does not complete is no error
/// but exit code 1.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let code = runtime.block_on(run_async(args));
    // A checkout under way must not keep a finished demo.
    runtime.shutdown_timeout(Duration::from_secs(1));
    code
}

async fn run_async(args: Args) -> anyhow::Result<ExitCode> {
    let mut signals = Signals::new()?;
    let listener = match &args.listen {
        Some(address) => Some(listen(address, args.listen_anywhere).await?),
        None => None,
    };
    // Elsewhere, since it may wait for standard input.
    let files = args.filename.clone();
    let mut making = tokio::task::spawn_blocking(move || Fixtures::make(&files));
    let world = tokio::select! {
        world = &mut making => world??,
        code = signals.next() => return Ok(ExitCode::from(code)),
    };
    let failing = world.check_failing(&args.fail)?;
    let stage = Environment::start(&world, failing).await?;

    let logged = std::env::var_os("RUST_LOG").is_some_and(|filter| !filter.is_empty());
    let mut show = if args.plain || logged || !io::stdout().is_terminal() {
        Ui::plain(world.applications.iter().map(String::as_str))
    } else {
        Ui::screen(output::colour())
    };
    let mut notes = Vec::new();
    if let Some(listener) = listener {
        let kubeconfig = world.folder.path().join("kubeconfig");
        let host = args.listen.as_deref().and_then(|listen| listen.rsplit_once(':'));
        let guard = access::guard(listener.local_addr()?, host.map(|(host, _)| host))?;
        let address = stage.serve(listener, guard, &kubeconfig)?;
        // The line to copy stays above the picture, where nothing cuts it.
        let hint = format!("export KUBECONFIG={}", kubeconfig.display());
        let look = "kubectl get applicationsets,applications,deployments -A -o wide".to_owned();
        notes.push(format!("Serving https://{address}; Ctrl-C ends the demo."));
        if done(show.announce(&[hint, look, String::new()]))? {
            return Ok(ExitCode::SUCCESS);
        }
    }
    let play = Play {
        fleet: Fleet::default(),
        start: Instant::now(),
        served: args.listen.is_some(),
        notes,
        settled: None,
    };
    let (stop, mut play) = play.run(&world, stage, &mut show, &mut signals).await?;
    let elapsed = play.settled.unwrap_or_else(|| play.start.elapsed());
    let summary = play.summary(&stop, elapsed);
    done(show.finish(&play.fleet, elapsed, &summary))?;
    drop(show);
    Ok(match stop.why {
        Why::Settled => ExitCode::from(u8::from(!play.is_complete())),
        Why::Quiet => ExitCode::from(1),
        Why::Signal(code) => ExitCode::from(code),
        Why::ReaderGone => ExitCode::SUCCESS,
    })
}

/// A demo under way.
struct Play {
    fleet: Fleet,
    start: Instant,
    served: bool,
    notes: Vec<String>,
    /// When nothing was left to do, unless something moved since.
    settled: Option<Duration>,
}

/// Why the demo ended, and what was counted.
struct Stop {
    why: Why,
    writes: u64,
}

enum Why {
    /// The rollout is over, one way or the other.
    Settled,
    /// Nothing changes any more.
    Quiet,
    /// Somebody wants it to end.
    Signal(u8),
    /// Nobody reads what is printed.
    ReaderGone,
}

impl Play {
    /// Until it is over.
    async fn run(
        mut self,
        world: &Fixtures,
        mut stage: Environment,
        show: &mut Ui,
        signals: &mut Signals,
    ) -> anyhow::Result<(Stop, Self)> {
        stage.create(&world.objects).await?;
        let mut ticks = tokio::time::interval(FRAME);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut moved = Instant::now();
        let why = loop {
            tokio::select! {
                biased;
                code = signals.next() => break Why::Signal(code),
                broken = &mut stage.running => {
                    return Err(broken.unwrap_or_else(|error| anyhow::Error::from(error).context("the demo broke down")));
                }
                _ = ticks.tick() => {
                    let elapsed = self.start.elapsed();
                    let over = self.is_settled();
                    if over != self.settled.is_some() {
                        self.settled = over.then_some(elapsed);
                    }
                    // The clock stands still once there is nothing to wait for.
                    let shown = self.settled.unwrap_or(elapsed);
                    if done(show.refresh(&self.fleet, shown, &self.notes))? {
                        break Why::ReaderGone;
                    }
                    if over && !self.served {
                        break Why::Settled;
                    }
                    if !self.served && moved.elapsed() > self.patience() {
                        break Why::Quiet;
                    }
                }
                Some(change) = stage.changes.recv() => {
                    moved = Instant::now();
                    if done(show.tell(&self.learn(change)))? {
                        break Why::ReaderGone;
                    }
                }
            }
        };
        let writes = stage.writes();
        Ok((Stop { why, writes }, self))
    }

    fn learn(&mut self, change: Change) -> Vec<Transition> {
        let at = self.start.elapsed();
        match change {
            Change::Set(set) => self.fleet.set(&set, Timestamp::now(), at),
            Change::SetGone(set) => {
                self.fleet.set_gone(crate::desired::name_of(&set));
                Vec::new()
            }
            Change::Application(application) => self.fleet.application(&application, at),
            Change::ApplicationGone(application) => self.fleet.application_gone(&application, at),
        }
    }

    /// Nothing is under way in any set, and there is at least one.
    fn is_settled(&self) -> bool {
        let verdicts = outcome::of_fleet(&self.fleet);
        !verdicts.is_empty() && verdicts.iter().all(|(_, verdict)| *verdict != Outcome::Running)
    }

    /// How long nothing may change.
    fn patience(&self) -> Duration {
        let moves =
            |seen: &AppView| seen.is_operating() || seen.health == HealthStatus::Progressing;
        let mut members = self.fleet.known().flat_map(|set| set.members.values());
        if members.any(|member| member.seen.as_ref().is_some_and(moves)) { QUIET } else { IDLE }
    }

    /// All went as asked, and nothing broke a limit on the way.
    fn is_complete(&self) -> bool {
        let verdicts = outcome::of_fleet(&self.fleet);
        verdicts.iter().all(|(_, verdict)| *verdict == Outcome::Complete)
            && summary::is_kept(&self.fleet)
    }

    fn summary(&mut self, stop: &Stop, elapsed: Duration) -> Vec<text::Line> {
        let facts = Facts { elapsed, writes: stop.writes, served: self.served };
        let mut lines = summary::lines(&self.fleet, &facts);
        if matches!(stop.why, Why::Quiet) {
            let waits: Vec<String> = self
                .fleet
                .known()
                .filter(|set| outcome::of(set) == Outcome::Running)
                .map(screen::waiting)
                .collect();
            let text = format!("Nothing changes any more. {}", waits.join("; "));
            lines.push(text::Line::of(text::Look::Red, text));
        }
        lines
    }
}

/// Whether nobody reads standard output any more.
fn done(written: io::Result<()>) -> anyhow::Result<bool> {
    match written {
        Ok(()) => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(true),
        Err(error) => Err(Error::input("cannot write", "standard output", error).into()),
    }
}

/// Ctrl-C and its kin.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// The exit code that the next signal asks for.
    async fn next(&mut self) -> u8 {
        tokio::select! {
            _ = self.interrupt.recv() => INTERRUPTED,
            _ = self.terminate.recv() => TERMINATED,
            _ = self.hangup.recv() => TERMINATED,
        }
    }
}

/// Opens the port, on the loopback address unless somebody insists.
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
        return Err(wrong("the name has no address".to_owned()));
    };
    if !anywhere && !found.iter().all(|address| address.ip().is_loopback()) {
        return Err(wrong(
            "only loopback addresses such as 127.0.0.1 are served; --listen-anywhere lifts that"
                .to_owned(),
        ));
    }
    TcpListener::bind(first).await.map_err(|error| wrong(error.to_string()))
}
