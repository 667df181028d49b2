//! A worker: gives up everything, then answers requests until its end of the socket closes.
//!
//! Requests and answers go over file descriptor 0, which is a socket. A program runs in a
//! thread with a large stack that is started before the restrictions; the main thread
//! watches over its time where a program has steps ([`Steps`]).

use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use rustix::process::{DumpableBehavior, Resource, Signal};
use rustix::time::ClockId;
use serde_json::Value;

use super::protocol::{self, Outcome, Ready, Request};
use super::restrict;

/// First argument of a worker; the second one is its hard limit on memory.
pub(super) const WORKER: &str = "__worker";

/// Stack of a program. Only what is used takes memory.
const STACK: usize = 64 << 20;

/// Memory of the worker itself, in bytes: before its first request, and for answers.
const OWN_MEMORY: u64 = 64 << 20;

/// By how much its priority is below the controller's.
const NICENESS: i32 = 5;

/// How many times the memory of a request its parsed form may take.
const PARSED: u64 = 12;

/// How often the time of a step is extended when other processes have the processor.
const PATIENCE: u32 = 10;

/// Serves requests; returns when the pool has closed its end.
pub(super) fn serve(options: &str) -> ExitCode {
    let Ok(memory) = options.parse::<u64>() else {
        eprintln!("{WORKER} is not a command for users");
        return ExitCode::from(2);
    };
    match run(memory) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("worker: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(memory: u64) -> std::io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    restrict::give_way(NICENESS)?;
    close_others();
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    let mut socket = File::from(rustix::stdio::stdin().as_fd().try_clone_to_owned()?);
    restrict::limit(Resource::Core, 0, 0)?;
    restrict::limit(Resource::Fsize, 0, 0)?;

    // Threads inherit the restriction of their parent, so it comes first.
    let files = restrict::files(&[], &[], false);
    let (requests, taken) = mpsc::channel();
    let (outcomes, done) = mpsc::channel();
    std::thread::Builder::new().stack_size(STACK).spawn(move || evaluate(&taken, &outcomes))?;
    restrict::limit(Resource::Nproc, 0, 0)?;
    restrict::limit(Resource::Nofile, 0, 0)?;
    let base = STACK as u64 + OWN_MEMORY;
    let most = base.saturating_add(memory).saturating_add(PARSED * protocol::MAX_REQUEST as u64);
    restrict::limit(Resource::Data, most, most)?;
    let calls = restrict::only_compute();

    let missing = [files, calls].into_iter().filter_map(Result::err).collect();
    let ready = protocol::encode(&Ready { missing }, protocol::ENVELOPE).unwrap_or_default();
    socket.write_all(&ready)?;
    while let Some(bytes) = protocol::read(&mut socket, protocol::MAX_REQUEST)? {
        // What a request needs to be read counts as well.
        let read = PARSED.saturating_mul(bytes.len() as u64);
        let request: Request = match serde_json::from_slice(&bytes) {
            Ok(request) => request,
            Err(error) => {
                let outcome = Outcome::Refused(format!("cannot read the request: {error}"));
                socket.write_all(&protocol::answer(outcome, false, protocol::ENVELOPE))?;
                continue;
            }
        };
        drop(bytes);
        let data = base.saturating_add(request.memory).saturating_add(read);
        restrict::limit(Resource::Data, data, most)?;
        let seconds = processor_time().saturating_add(request.time).as_secs() + 2;
        restrict::limit(Resource::Cpu, seconds, u64::MAX)?;
        let output = request.output;
        let answer = match requests.send(request) {
            Ok(()) => wait(&done),
            Err(_) => (Outcome::Died("the worker has no evaluator".to_owned()), true),
        };
        let (outcome, last) = answer;
        socket.write_all(&protocol::answer(outcome, last, output))?;
        if last {
            return Ok(());
        }
    }
    Ok(())
}

/// Runs requests one after the other.
fn evaluate(requests: &Receiver<Request>, outcomes: &Sender<(Outcome, bool)>) {
    while let Ok(Request { program, input, .. }) = requests.recv() {
        let run = AssertUnwindSafe(|| program.run(&input));
        let outcome = match catch_unwind(run) {
            Ok(Ok(value)) => (Outcome::Value(value), false),
            Ok(Err(message)) => (Outcome::Refused(message), false),
            // What it left behind is unknown.
            Err(_) => (Outcome::Died("an internal error of the evaluator".to_owned()), true),
        };
        Steps::end();
        if outcomes.send(outcome).is_err() {
            return;
        }
    }
}

/// The outcome of the request, or of its steps until one takes too long.
fn wait(done: &Receiver<(Outcome, bool)>) -> (Outcome, bool) {
    loop {
        let next = match Steps::lock(|steps| steps.as_ref().map(Steps::left)) {
            // A program without steps, or before its first one: the pool has the limit.
            None => Duration::from_millis(20),
            Some(Duration::ZERO) => {
                if let Some(done) = Steps::lock(Option::take) {
                    return (Outcome::Value(Value::Array(done.done)), true);
                }
                continue;
            }
            Some(left) => left,
        };
        match done.recv_timeout(next) {
            Ok(outcome) => return outcome,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return (Outcome::Died("the evaluator has ended".to_owned()), true);
            }
        }
    }
}

/// The steps of a program that evaluates many things in one request, each with a time limit.
///
/// When a step takes longer, the answer is the list of the results before it, and the worker
/// is replaced.
pub(super) struct Steps {
    limit: Duration,
    /// When the current step began, and the processor time of the process then.
    began: (Instant, Duration),
    done: Vec<Value>,
}

static STEPS: Mutex<Option<Steps>> = Mutex::new(None);

impl Steps {
    fn lock<T>(work: impl FnOnce(&mut Option<Steps>) -> T) -> T {
        work(&mut STEPS.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    /// Begins the first step.
    #[cfg(feature = "jq")]
    pub(super) fn begin(limit: Duration) {
        let began = (Instant::now(), processor_time());
        Self::lock(|steps| *steps = Some(Steps { limit, began, done: Vec::new() }));
    }

    /// The result of the current step; the next one begins.
    #[cfg(feature = "jq")]
    pub(super) fn next(result: Value) {
        let now = (Instant::now(), processor_time());
        Self::lock(|steps| {
            if let Some(steps) = steps {
                steps.done.push(result);
                steps.began = now;
            }
        });
    }

    /// The results of all steps; there is no other one.
    pub(super) fn end() -> Vec<Value> {
        Self::lock(Option::take).map_or_else(Vec::new, |steps| steps.done)
    }

    /// What is left of the time of the current step. Time during which other processes had
    /// the processor does not count, up to a point.
    fn left(&self) -> Duration {
        let (began, used) = self.began;
        let waited = began.elapsed();
        let used = processor_time().saturating_sub(used);
        let by_processor = self.limit.saturating_sub(used);
        by_processor.min((self.limit * PATIENCE).saturating_sub(waited))
    }
}

fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(ClockId::ProcessCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// Closes what was inherited, except for the socket and standard error.
fn close_others() {
    let listed = std::fs::read_dir("/proc/self/fd").map(|entries| {
        let names = entries.flatten().map(|entry| entry.file_name());
        names.filter_map(|name| name.to_str()?.parse().ok()).collect::<Vec<i32>>()
    });
    let open = listed.unwrap_or_else(|_| (3..1024).collect());
    for number in open.into_iter().filter(|number| *number > 2) {
        // The one that read the list is closed already.
        let _ = nix::unistd::close(number);
    }
}
