//! One worker as seen by the pool: started, asked, and killed.

use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::protocol::{self, Answer, Ready};
use super::request::{EvalError, EvalLimits};

/// Time until a worker is ready; long, since the machine may be busy.
const START: Duration = Duration::from_secs(20);

/// How much of standard error is kept of a worker that died.
const STDERR: u64 = 4096;

/// What became of a worker that was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WorkerState {
    Usable,
    Ended,
    /// It ended without having read the request, which is no fault of the request.
    EndedBefore,
}

/// A running worker; killed when it is dropped.
#[derive(Debug)]
pub(super) struct Worker {
    child: Child,
    socket: UnixStream,
    stderr: Option<ChildStderr>,
    /// What the kernel does not have of its restrictions.
    pub missing: Vec<String>,
}

impl Worker {
    /// Starts a worker with a hard limit on memory and waits until it is ready.
    pub(super) fn start(program: &WorkerProgram, memory: u64) -> io::Result<Self> {
        let (socket, theirs) = UnixStream::pair()?;
        let mut child = program
            .command(memory)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()?;
        let stderr = child.stderr.take();
        let mut worker = Self { child, socket, stderr, missing: Vec::new() };
        let mut deadline = Deadline::new(&worker.socket, START);
        let frame = protocol::read(&mut deadline, protocol::ENVELOPE);
        let ready = match frame {
            Ok(Some(bytes)) => serde_json::from_slice::<Ready>(&bytes).map_err(io::Error::other),
            Ok(None) => Err(io::Error::other("it ended at its start")),
            Err(error) => Err(error),
        };
        match ready {
            Ok(ready) => worker.missing = ready.missing,
            Err(error) => {
                let why = worker.end();
                return Err(io::Error::new(error.kind(), format!("{error} ({why})")));
            }
        }
        Ok(worker)
    }

    /// Sends a request and waits for its answer; also what became of the worker.
    pub(super) fn ask(
        &mut self,
        request: &[u8],
        limits: &EvalLimits,
    ) -> (Result<serde_json::Value, EvalError>, WorkerState) {
        let mut stream = Deadline::new(&self.socket, limits.time);
        let most = limits.output.saturating_add(protocol::ENVELOPE * 4);
        let frame = stream.write_all(request).and_then(|()| protocol::read(&mut stream, most));
        let mut state = WorkerState::Ended;
        let failure = match frame {
            Ok(Some(bytes)) => match serde_json::from_slice::<Answer>(&bytes) {
                Ok(Answer { outcome, last }) => {
                    let state = if last { WorkerState::Ended } else { WorkerState::Usable };
                    return (outcome.result(limits), state);
                }
                Err(error) => EvalError::Died(format!("an invalid answer: {error}")),
            },
            Err(error) if is_timeout(&error) => EvalError::TimedOut(limits.time),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                EvalError::TooLarge(limits.output)
            }
            ended @ (Ok(None) | Err(_)) => {
                if ended.is_err_and(|error| is_closed_unread(&error)) {
                    state = WorkerState::EndedBefore;
                }
                let by_processor_time =
                    |status: &ExitStatus| status.signal() == Some(Signal::XCPU.as_raw());
                if self.status().as_ref().is_some_and(by_processor_time) {
                    EvalError::TimedOut(limits.time)
                } else {
                    EvalError::Died(self.end())
                }
            }
        };
        (Err(failure), state)
    }

    /// Whether it has not ended.
    pub(super) fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Its status, soon after it closed the socket.
    fn status(&mut self) -> Option<ExitStatus> {
        for _ in 0..100 {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(status);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        None
    }

    /// Ends it, and says why it ended.
    fn end(&mut self) -> String {
        let status = self.status();
        self.kill();
        let mut text = String::new();
        if let Some(stderr) = self.stderr.take() {
            let mut bytes = Vec::new();
            // Nobody holds the other end any more.
            let _ = stderr.take(STDERR).read_to_end(&mut bytes);
            text = String::from_utf8_lossy(&bytes).into_owned();
        }
        if text.contains("memory allocation of") {
            return "it used more memory than allowed".to_owned();
        }
        if text.contains("overflowed its stack") {
            return "it is nested or recurses too deeply".to_owned();
        }
        let signal = status.and_then(|status| status.signal());
        match (signal.and_then(Signal::from_named_raw), status) {
            (Some(Signal::KILL), _) => "it was killed, perhaps for lack of memory".to_owned(),
            (Some(Signal::SEGV | Signal::BUS), _) => {
                "it used more memory than allowed, or is nested too deeply".to_owned()
            }
            (_, Some(status)) => match text.lines().next() {
                Some(line) => format!("{status}: {line}"),
                None => status.to_string(),
            },
            (_, None) => "it closed its connection".to_owned(),
        }
    }

    fn kill(&mut self) {
        // Fails only when it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.kill();
    }
}

/// What is started as a worker.
#[derive(Debug)]
pub(super) struct WorkerProgram {
    pub(super) program: PathBuf,
    /// The test that serves, where the program is one of unit tests.
    pub(super) test: Option<&'static str>,
}

/// The variable with the limit of memory that makes a program of unit tests a worker.
pub(super) const MEMORY_OF_TEST: &str = "WAVEGATE_TEST_WORKER";

impl WorkerProgram {
    fn command(&self, memory: u64) -> Command {
        let mut command = Command::new(&self.program);
        command.env_clear();
        match self.test {
            Some(test) => {
                command.args(["--exact", test, "--nocapture", "--ignored"]);
                command.env(MEMORY_OF_TEST, memory.to_string());
            }
            None => {
                command.args([super::worker::WORKER, &memory.to_string()]);
                // Its threads are started before it gives up starting any.
                command.env("_RJEM_MALLOC_CONF", "background_thread:false");
            }
        }
        command
    }
}

/// Whether a worker closed its connection with a request, or a part of it, unread.
fn is_closed_unread(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// A stream whose reads and writes together take a limited time.
struct Deadline<'a> {
    socket: &'a UnixStream,
    until: Option<Instant>,
}

impl<'a> Deadline<'a> {
    fn new(socket: &'a UnixStream, limit: Duration) -> Self {
        // A time beyond what the clock can tell is no limit.
        Self { socket, until: Instant::now().checked_add(limit) }
    }

    fn left(&self) -> io::Result<Option<Duration>> {
        let Some(until) = self.until else { return Ok(None) };
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(Some(left)) }
    }
}

impl Read for Deadline<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.socket.set_read_timeout(self.left()?)?;
        self.socket.read(bytes)
    }
}

impl Write for Deadline<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.set_write_timeout(self.left()?)?;
        self.socket.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
