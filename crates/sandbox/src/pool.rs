//! The pool: a few workers, each with a thread of this process that talks to it.
//!
//! A worker serves one request at a time and is kept. One that exceeds its time, dies, or
//! answers nonsense is killed and fails only its request; the next request starts another
//! one. Requests wait for a free worker by the turns of their callers (`crates/turns`): what may
//! take long and is not known to do so runs for a moment first, so that a short evaluation does
//! not wait for the ends of long ones. Nothing here depends on a runtime, so that several may share
//! a pool.

use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use futures::channel::oneshot;
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::Value;
use turns::{Caller, Turn, Turns, WorkLength};

use super::process::{Worker, WorkerProgram, WorkerState};
use super::request::{EvalError, EvalLimits};
use super::{Program, protocol};

/// The longest pause before a worker is started after others died.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// How many workers in a row may die before there is a pause.
const DEATHS_WITHOUT_PAUSE: u32 = 3;

/// The longest time without another attempt after workers could not be started.
const LONGEST_REFUSAL: Duration = Duration::from_secs(30);

/// How a pool starts workers.
#[derive(Clone, Debug)]
pub struct PoolSettings {
    /// Number of workers. Default 4: with fewer, one project could hold them all, or
    /// evaluations that run until their limit could take those of all others.
    pub workers: usize,
    /// Whether a worker is refused where the kernel cannot confine it. Default no.
    pub required: bool,
    /// Hard limit on the memory of evaluations, in bytes. Default 1 GiB.
    pub memory: u64,
}

impl Default for PoolSettings {
    fn default() -> Self {
        Self { workers: 4, required: false, memory: 1 << 30 }
    }
}

/// Workers. Clones share them; the last one ends them when it is dropped.
#[derive(Clone, Debug)]
pub struct WorkerPool {
    turns: Turns,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    settings: PoolSettings,
    /// Threads without a request.
    idle: Mutex<Vec<Sender<Job>>>,
    starts: Mutex<Starts>,
}

/// Workers that could not be started.
#[derive(Debug, Default)]
struct Starts {
    failed: u32,
    /// The last error, and until when no other attempt is made.
    refused: Option<(String, Instant)>,
}

struct Job {
    request: Vec<u8>,
    limits: EvalLimits,
    answer: oneshot::Sender<Result<Value, EvalError>>,
    /// Whether the caller counts as slow after an evaluation of this time.
    slow: Duration,
    /// Held until the worker is free again, also when nobody waits for the answer.
    turn: Turn,
    shared: Arc<Shared>,
    /// The thread, which takes the next request by it.
    thread: Sender<Job>,
}

static SHARED: OnceLock<WorkerPool> = OnceLock::new();
static SETTINGS: OnceLock<PoolSettings> = OnceLock::new();

impl WorkerPool {
    /// A pool; it starts workers when they are needed.
    pub fn new(settings: PoolSettings) -> Self {
        let turns = Turns::new(settings.workers);
        let idle = Mutex::default();
        let starts = Mutex::default();
        Self { turns, shared: Arc::new(Shared { settings, idle, starts }) }
    }

    /// The pool of this process.
    pub fn shared() -> &'static Self {
        SHARED.get_or_init(|| Self::new(SETTINGS.get().cloned().unwrap_or_default()))
    }

    /// Settings of [`WorkerPool::shared`], before its first use; later calls do nothing.
    pub fn set_up(settings: PoolSettings) {
        SETTINGS.get_or_init(|| settings);
    }

    /// Evaluates `input` in a worker. `caller` is on whose behalf, such as an Application of a
    /// project: callers take turns, and none of them can hold all workers.
    ///
    /// Cancel-safe: a dropped future leaves its worker busy until the limit at most.
    ///
    /// # Errors
    ///
    /// Every [`EvalError`]; those but `Refused` and `Unavailable` cost a worker.
    pub async fn evaluate(
        &self,
        program: Program,
        caller: &Caller,
        input: &(impl Serialize + Sync + ?Sized),
        limits: EvalLimits,
    ) -> Result<Value, EvalError> {
        let length = if program.may_take_long() { WorkLength::Long } else { WorkLength::Short };
        loop {
            // Before its turn, since a request that is too large takes none.
            let mut request = protocol::request(program, input, &limits)?;
            let turn = self.turns.take(caller, length).await;
            // How long it takes is not known before; if it is longer than a moment, it goes on
            // among the slow ones.
            let is_trial = length == WorkLength::Long && !turn.is_of_slow();
            let time = if is_trial { limits.time.min(program.slow_after()) } else { limits.time };
            let asked = EvalLimits { time, ..limits };
            if time < limits.time {
                request = protocol::request(program, input, &asked)?;
            }
            match self.run(request, asked, program.slow_after(), turn).await {
                Err(EvalError::TimedOut(_)) if time < limits.time => {}
                answer => return answer,
            }
        }
    }

    /// Has an idle worker answer a request.
    async fn run(
        &self,
        request: Vec<u8>,
        limits: EvalLimits,
        slow: Duration,
        turn: Turn,
    ) -> Result<Value, EvalError> {
        let (answer, result) = oneshot::channel();
        // There is an idle thread, or there are fewer threads than turns.
        let idle = self.shared.idle.lock().pop();
        let thread = idle.map_or_else(start_thread, Ok)?;
        let shared = self.shared.clone();
        let job = Job { request, limits, answer, slow, turn, shared, thread: thread.clone() };
        let ended = |_| EvalError::Unavailable("the thread of the worker has ended".to_owned());
        thread.send(job).map_err(ended)?;
        let lost = |_| EvalError::Unavailable("the thread of the worker has ended".to_owned());
        result.await.map_err(lost)?
    }

    /// [`WorkerPool::evaluate`] for callers that must not yield: the command line, and a simulated
    /// clock, which would advance meanwhile.
    ///
    /// # Errors
    ///
    /// As [`WorkerPool::evaluate`].
    pub fn evaluate_blocking(
        &self,
        program: Program,
        caller: &Caller,
        input: &(impl Serialize + Sync + ?Sized),
        limits: EvalLimits,
    ) -> Result<Value, EvalError> {
        futures::executor::block_on(self.evaluate(program, caller, input, limits))
    }

    /// What the kernel does not have of the restrictions of a worker; starts one.
    ///
    /// # Errors
    ///
    /// When no worker can be started.
    pub fn missing() -> std::io::Result<Vec<String>> {
        let program = worker_program().ok_or_else(|| std::io::Error::other(NO_PROGRAM))?;
        Worker::start(program, 1 << 20).map(|mut worker| std::mem::take(&mut worker.missing))
    }
}

const NO_PROGRAM: &str = "this process cannot start workers";

fn worker_program() -> Option<&'static WorkerProgram> {
    #[cfg(test)]
    super::start_workers_by_test("tests::serve_as_a_worker");
    super::WORKER_PROGRAM.get()
}

/// Starts the thread of a worker; the worker itself starts with the first request. The thread
/// ends with the pool, which has the last sender.
fn start_thread() -> Result<Sender<Job>, EvalError> {
    let (jobs, taken) = mpsc::channel::<Job>();
    let work = move || {
        let mut slot = Slot::default();
        while let Ok(job) = taken.recv() {
            let Job { request, limits, answer, slow, turn, shared, thread } = job;
            if !answer.is_canceled() {
                let (result, took) = slot.serve(&shared, &request, &limits);
                turn.took(took >= slow);
                // Not sent when nobody waits any more.
                let _ = answer.send(result);
            }
            shared.idle.lock().push(thread);
            drop(turn);
        }
    };
    std::thread::Builder::new()
        .name("confined-worker".to_owned())
        .spawn(work)
        .map_err(|error| EvalError::Unavailable(format!("cannot start a thread: {error}")))?;
    Ok(jobs)
}

/// The worker of a thread.
#[derive(Default)]
struct Slot {
    worker: Option<Worker>,
    /// How many died in a row.
    deaths: u32,
}

impl Slot {
    /// The answer, and how long the worker took for it.
    fn serve(
        &mut self,
        shared: &Shared,
        request: &[u8],
        limits: &EvalLimits,
    ) -> (Result<Value, EvalError>, Duration) {
        // Ended while it had nothing to do, which is no fault of this request. That may be seen only
        // once it is asked: a process is killed thread by thread.
        let mut kept =
            self.worker.take().and_then(|mut worker| worker.is_alive().then_some(worker));
        loop {
            let was_kept = kept.is_some();
            let mut worker = match kept.take().map_or_else(|| self.start(shared), Ok) {
                Ok(worker) => worker,
                Err(failure) => return (Err(failure), Duration::ZERO),
            };
            let began = Instant::now();
            let (result, state) = worker.ask(request, limits);
            if was_kept && state == WorkerState::EndedBefore {
                continue;
            }
            self.deaths = match &result {
                Err(EvalError::Died(_)) => self.deaths.saturating_add(1),
                _ => 0,
            };
            self.worker = (state == WorkerState::Usable).then_some(worker);
            return (result, began.elapsed());
        }
    }

    fn start(&self, shared: &Shared) -> Result<Worker, EvalError> {
        let program = worker_program().ok_or_else(|| EvalError::Unavailable(NO_PROGRAM.into()))?;
        // The user's text that kills workers is asked again with each comparison.
        if let Some(often) = self.deaths.checked_sub(DEATHS_WITHOUT_PAUSE) {
            let pause = Duration::from_millis(50 << often.min(8));
            std::thread::sleep(pause.min(LONGEST_PAUSE));
        }
        // One attempt at a time, so that all get to know its error.
        let mut starts = shared.starts.lock();
        if let Some((error, until)) = &starts.refused
            && Instant::now() < *until
        {
            return Err(EvalError::Unavailable(error.clone()));
        }
        let started = Worker::start(program, shared.settings.memory).and_then(|worker| {
            if shared.settings.required && !worker.missing.is_empty() {
                let missing = worker.missing.join("; ");
                return Err(std::io::Error::other(format!(
                    "confinement is required, and not available here: {missing}; use a newer \
                     kernel, allow it in the seccomp profile, or set confinement to auto"
                )));
            }
            Ok(worker)
        });
        match started {
            Ok(worker) => {
                *starts = Starts::default();
                Ok(worker)
            }
            Err(error) => {
                let error = format!("cannot start a worker process: {error}");
                let pause = Duration::from_millis(100 << starts.failed.min(16));
                let until = Instant::now() + pause.min(LONGEST_REFUSAL);
                starts.failed = starts.failed.saturating_add(1);
                starts.refused = Some((error.clone(), until));
                Err(EvalError::Unavailable(error))
            }
        }
    }
}
