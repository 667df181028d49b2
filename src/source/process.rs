//! Runs another program with every limit this room promises.
//!
//! The program sees an empty environment but for what is given, no standard
//! input, and its own process group, which is killed as a whole on timeout,
//! on too much output, and when the caller stops waiting. Never writes an
//! argument or a variable to the log.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;

/// How often the disk use of a running program is looked at. Short enough
/// that a fast network adds only a few hundred megabytes in between.
const WATCH_EVERY: Duration = Duration::from_millis(250);

/// How long a killed program is waited for, so that it is not still writing
/// when its files are removed.
const KILL_WAIT: Duration = Duration::from_secs(5);

/// How much of standard error is kept. Enough for a page of messages; the
/// rest is read and dropped so that the program does not block.
const STDERR_LIMIT: usize = 16 * 1024;

/// One program run, with its limits.
#[derive(Debug)]
pub(super) struct Run<'a> {
    /// The program: a path, or a name looked up in the `PATH` of `env`.
    pub program: &'a Path,
    /// Arguments after the program name.
    pub args: Vec<OsString>,
    /// The working directory.
    pub directory: &'a Path,
    /// The whole environment.
    pub env: Vec<(OsString, OsString)>,
    /// Longest time until the program has ended and its output was read.
    pub timeout: Duration,
    /// Most bytes of standard output; one more stops the program.
    pub stdout_limit: usize,
    /// A directory that may hold at most this many bytes while it runs.
    pub disk: Option<(PathBuf, u64)>,
    /// Most bytes of each file that it writes, wherever that is.
    pub file_limit: Option<u64>,
}

/// What a program left behind when it ended by itself.
#[derive(Debug)]
pub(super) struct Output {
    /// How it ended.
    pub status: ExitStatus,
    /// All of standard output.
    pub stdout: Vec<u8>,
    /// The beginning of standard error, invalid UTF-8 replaced.
    pub stderr: String,
}

/// Why a program did not end by itself.
#[derive(Debug)]
pub(super) enum Failure {
    /// It could not be started.
    Start(std::io::Error),
    /// It ran longer than its timeout.
    TimedOut,
    /// It wrote more than `stdout_limit` to standard output.
    OutputLimit,
    /// The watched directory grew over its limit.
    DiskLimit,
    /// Its output could not be read.
    Read(std::io::Error),
}

impl Run<'_> {
    /// Runs the program to its end.
    ///
    /// Safe to drop at any await: the whole process group is killed then.
    pub(super) async fn wait(self) -> Result<Output, Failure> {
        let mut child = Command::new(self.program)
            .args(&self.args)
            .current_dir(self.directory)
            .env_clear()
            .envs(self.env.iter().map(|(key, value)| (key, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(Failure::Start)?;
        // Armed until the leader has been reaped: before that its group
        // number cannot belong to anybody else.
        let mut group = Group(child.id());
        if let Some(limit) = self.file_limit {
            limit_files(child.id(), limit).map_err(Failure::Start)?;
        }
        let stdout = child.stdout.take();
        let stderr = child.stderr.take();

        let finished = async {
            let (stdout, stderr) =
                tokio::try_join!(read_bounded(stdout, self.stdout_limit), read_beginning(stderr))?;
            // Reaped only after both pipes closed, for the reason above.
            let status = child.wait().await.map_err(Failure::Read)?;
            if status.signal() == Some(rustix::process::Signal::XFSZ.as_raw()) {
                return Err(Failure::DiskLimit);
            }
            Ok(Output { status, stdout, stderr })
        };
        let outcome = tokio::select! {
            outcome = finished => outcome,
            () = tokio::time::sleep(self.timeout) => Err(Failure::TimedOut),
            () = grown_over(self.disk) => Err(Failure::DiskLimit),
        };
        if outcome.is_ok() {
            group.0 = None;
        } else {
            drop(group);
            // Nothing survives SIGKILL for long, short of a dead network disk.
            let _ = tokio::time::timeout(KILL_WAIT, child.wait()).await;
        }
        outcome
    }
}

/// Bounds the size of the files that a process and those it starts may write.
fn limit_files(process: Option<u32>, limit: u64) -> std::io::Result<()> {
    let id = process.and_then(|id| i32::try_from(id).ok());
    let Some(pid) = id.and_then(rustix::process::Pid::from_raw) else { return Ok(()) };
    let limit = rustix::process::Rlimit { current: Some(limit), maximum: Some(limit) };
    match rustix::process::prlimit(Some(pid), rustix::process::Resource::Fsize, limit) {
        // It has ended already.
        Ok(_) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Kills a process group when dropped, unless it was emptied before.
struct Group(Option<u32>);

impl Drop for Group {
    fn drop(&mut self) {
        let id = self.0.take().and_then(|id| i32::try_from(id).ok());
        if let Some(pid) = id.and_then(rustix::process::Pid::from_raw) {
            // Fails only when all of them are gone already.
            let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
        }
    }
}

/// Reads to the end, or fails at the first byte over the limit.
async fn read_bounded(
    pipe: Option<impl AsyncRead + Unpin>,
    limit: usize,
) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        let mut pipe = pipe.take(limit as u64 + 1);
        pipe.read_to_end(&mut bytes).await.map_err(Failure::Read)?;
    }
    if bytes.len() > limit { Err(Failure::OutputLimit) } else { Ok(bytes) }
}

/// Reads to the end and keeps the beginning.
async fn read_beginning(pipe: Option<impl AsyncRead + Unpin>) -> Result<String, Failure> {
    let mut kept = Vec::new();
    if let Some(mut pipe) = pipe {
        let mut chunk = [0; 4096];
        loop {
            let read = pipe.read(&mut chunk).await.map_err(Failure::Read)?;
            if read == 0 {
                break;
            }
            let room = STDERR_LIMIT.saturating_sub(kept.len()).min(read);
            kept.extend_from_slice(&chunk[..room]);
        }
    }
    Ok(String::from_utf8_lossy(&kept).into_owned())
}

/// Returns once the directory is over its limit; never without a limit.
async fn grown_over(disk: Option<(PathBuf, u64)>) {
    let Some((directory, limit)) = disk else { return std::future::pending().await };
    loop {
        tokio::time::sleep(WATCH_EVERY).await;
        if disk_use(&directory).await > limit {
            return;
        }
    }
}

/// The bytes of all regular files below a directory; what vanishes while it
/// is being counted counts as nothing.
pub(super) async fn disk_use(directory: &Path) -> u64 {
    let directory = directory.to_owned();
    tokio::task::spawn_blocking(move || count_bytes(&directory)).await.unwrap_or(0)
}

fn count_bytes(directory: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(directory) else { return 0 };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(meta) if meta.is_dir() => count_bytes(&entry.path()),
            Ok(meta) if meta.is_file() => meta.len(),
            _ => 0,
        })
        .sum()
}
