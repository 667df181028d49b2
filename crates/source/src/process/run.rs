//! Runs a program with limits on time, output, memory and disk space, and confined to the
//! files and the network that it needs ([`wavegate_sandbox`]).
//!
//! The program has only the given environment, no standard input, and its own process
//! group, which is killed as a whole on timeout, on too much output, and when the call is
//! dropped. Arguments and variables are never logged.

use std::convert::Infallible;
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{OnceLock, mpsc};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};

use wavegate_sandbox::SandboxPolicy;

/// Interval of checking the disk space of a running program: a fast network adds at most
/// a few hundred megabytes in between.
const WATCH_EVERY: Duration = Duration::from_millis(250);

/// Most files and directories below the watched directory.
const MAX_FILES: u64 = 400_000;

/// How long to wait for a killed program, so that it does not write while its files are
/// removed.
const KILL_WAIT: Duration = Duration::from_secs(5);

/// How much of standard error is kept, from its beginning and from its end, where a program says
/// why it failed; the rest is read and discarded, so that the program does not block.
pub(crate) const STDERR_LIMIT: usize = 16 * 1024;

/// One program run, with its limits.
#[derive(Debug)]
pub(crate) struct Run<'a> {
    /// The program: a path, or a name looked up in the `PATH` of `env`.
    pub program: &'a Path,
    /// Arguments after the program name.
    pub args: Vec<OsString>,
    /// The working directory.
    pub directory: &'a Path,
    /// The whole environment.
    pub env: Vec<(OsString, OsString)>,
    /// Limit on the time until the program has exited and its output was read.
    pub timeout: Duration,
    /// Limit on standard output, in bytes; the program is stopped beyond it.
    pub stdout_limit: usize,
    /// Directory with a size limit in bytes during the run.
    pub disk: Option<(PathBuf, u64)>,
    /// What the program may do, and the program that confines it; without one, only the size
    /// of its files is limited.
    pub policy: SandboxPolicy,
    /// The helper of [`wavegate_sandbox`].
    pub helper: Option<PathBuf>,
}

/// Takes the memory of a program, in bytes.
pub(crate) type Used<'a> = &'a (dyn Fn(u64) + Sync);

/// Result of a program that exited by itself.
#[derive(Debug)]
pub(crate) struct Output {
    /// Exit status.
    pub status: ExitStatus,
    /// All of standard output.
    pub stdout: Vec<u8>,
    /// Beginning of standard error, with invalid UTF-8 replaced.
    pub stderr: String,
}

/// Why a program did not exit by itself.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It could not be started.
    Start(std::io::Error),
    /// It ran longer than its timeout.
    TimedOut,
    /// It wrote more than `stdout_limit` to standard output.
    OutputLimit,
    /// The watched directory grew over its limit.
    DiskLimit,
    /// It used more CPU time than allowed.
    CpuLimit,
    /// Its output could not be read.
    Read(std::io::Error),
}

/// The folders where programs are searched.
pub(crate) fn search_path() -> OsString {
    std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into())
}

impl Run<'_> {
    /// The program and its arguments, with the helper before them.
    fn call(&self) -> Result<(PathBuf, Vec<OsString>), Failure> {
        let Some(helper) = &self.helper else {
            // Started slowly, so that the limit on its files is there before it writes.
            return Ok((self.program.to_owned(), self.args.clone()));
        };
        let program = self.path().map_err(Failure::Start)?;
        let mut policy = self.policy.clone();
        // A script or a binary outside of the usual folders.
        policy.read.push(program.canonicalize().map_err(Failure::Start)?);
        let path = self.env.iter().find(|(key, _)| key == "PATH").map(|(_, folders)| folders);
        let mut args = policy.with_system(path).arguments(&program).map_err(Failure::Start)?;
        args.extend(self.args.iter().cloned());
        Ok((helper.clone(), args))
    }

    /// The path of the program.
    fn path(&self) -> std::io::Result<PathBuf> {
        let is_path = self.program.components().nth(1).is_some();
        let searched = self.env.iter().find(|(key, _)| key == "PATH").filter(|_| !is_path);
        let folders = searched.into_iter().flat_map(|(_, folders)| std::env::split_paths(folders));
        let mut candidates =
            folders.map(|folder| folder.join(self.program)).filter(|path| path.is_absolute());
        let is_executable = |path: &PathBuf| {
            let mode = path.metadata().map(|meta| (meta.is_file(), meta.permissions().mode()));
            matches!(mode, Ok((true, mode)) if mode & 0o111 != 0)
        };
        if is_path {
            // A missing program gives the error of the operating system.
            return self.program.metadata().map(|_| self.program.to_owned());
        }
        candidates.find(is_executable).ok_or_else(|| {
            std::io::Error::from_raw_os_error(rustix::io::Errno::NOENT.raw_os_error())
        })
    }

    /// Runs the program until it exits.
    ///
    /// Cancel-safe: dropping the future kills the whole process group.
    pub(crate) async fn wait(self) -> Result<Output, Failure> {
        self.watched(None).await
    }

    /// The same; `used` gets the memory that it uses, in bytes, again and again.
    pub(crate) async fn watched(self, used: Option<Used<'_>>) -> Result<Output, Failure> {
        let (program, args) = self.call()?;
        let mut command = Command::new(program);
        command
            .args(args)
            .current_dir(self.directory)
            .env_clear()
            .envs(self.env.iter().map(|(key, value)| (key, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        let mut child = start(command).await.map_err(Failure::Start)?;
        // Armed until the leader is reaped: before that, its process group ID cannot be reused.
        let mut group = Group(child.id());
        let child_id = child.id();
        if self.helper.is_none() {
            limit_files(child.id(), self.policy.file_bytes).map_err(Failure::Start)?;
        }
        let stdout = child.stdout.take();
        let stderr = child.stderr.take();

        let finished = async {
            let (stdout, stderr) =
                tokio::try_join!(read_bounded(stdout, self.stdout_limit), read_ends(stderr))?;
            // Reaped only after both pipes are closed, for the reason above, and after what it
            // left running is killed.
            exited(child.id()).await;
            drop(Group(child.id()));
            let status = child.wait().await.map_err(Failure::Read)?;
            let ended_by =
                |signal: rustix::process::Signal| status.signal() == Some(signal.as_raw());
            if ended_by(rustix::process::Signal::XFSZ) {
                return Err(Failure::DiskLimit);
            }
            if ended_by(rustix::process::Signal::XCPU) {
                return Err(Failure::CpuLimit);
            }
            Ok(Output { status, stdout, stderr })
        };
        let outcome = tokio::select! {
            outcome = finished => outcome,
            () = tokio::time::sleep(self.timeout) => Err(Failure::TimedOut),
            () = grown_over(&self.disk) => Err(Failure::DiskLimit),
            never = resident(child_id, used) => match never {},
        };
        if outcome.is_ok() {
            group.0 = None;
        } else {
            drop(group);
            // A process survives SIGKILL only while it is blocked in the kernel.
            let _ = tokio::time::timeout(KILL_WAIT, child.wait()).await;
        }
        // The program may have ended, or its child may have been stopped by the limit on its
        // files, before its directory was checked.
        let unchecked = |output: &Output| self.helper.is_none() || !output.status.success();
        if let Some((directory, limit)) = &self.disk
            && outcome.as_ref().is_ok_and(unchecked)
            && is_over(directory, *limit).await
        {
            return Err(Failure::DiskLimit);
        }
        outcome
    }
}

/// Work of the thread that starts programs.
type Start = Box<dyn FnOnce() + Send>;

/// Starts a program on a thread that lives as long as this process. The helper has its program
/// killed with the thread that started it, also when this process is killed, and threads of the
/// runtime end while it runs.
async fn start(mut command: Command) -> std::io::Result<Child> {
    static STARTER: OnceLock<mpsc::Sender<Start>> = OnceLock::new();
    let starter = STARTER.get_or_init(|| {
        let (send, receive) = mpsc::channel::<Start>();
        std::thread::spawn(move || receive.into_iter().for_each(|start| start()));
        send
    });
    let runtime = tokio::runtime::Handle::current();
    let (done, started) = tokio::sync::oneshot::channel();
    let start = move || {
        let _runtime = runtime.enter();
        // A child that nobody waits for any more is killed.
        let _ = done.send(command.spawn());
    };
    let gone = || std::io::Error::other("the thread that starts programs has ended");
    starter.send(Box::new(start)).map_err(|_| gone())?;
    started.await.map_err(|_| gone())?
}

/// Limits the size of the files that a process and its children may write.
fn limit_files(process: Option<u32>, limit: u64) -> std::io::Result<()> {
    let id = process.and_then(|id| i32::try_from(id).ok());
    let Some(pid) = id.and_then(rustix::process::Pid::from_raw) else { return Ok(()) };
    let limit = rustix::process::Rlimit { current: Some(limit), maximum: Some(limit) };
    match rustix::process::prlimit(Some(pid), rustix::process::Resource::Fsize, limit) {
        // The process has exited already.
        Ok(_) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Returns when a child has exited; it is not reaped, so that its number is not given to
/// another process.
async fn exited(process: Option<u32>) {
    let id = process.and_then(|id| i32::try_from(id).ok());
    let Some(pid) = id.and_then(rustix::process::Pid::from_raw) else { return };
    let options = rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT;
    let wait = move || {
        while let Err(rustix::io::Errno::INTR) =
            rustix::process::waitid(rustix::process::WaitId::Pid(pid), options)
        {}
    };
    // Fails only when the runtime is shutting down.
    let _ = tokio::task::spawn_blocking(wait).await;
}

/// Kills a process group when dropped, unless disarmed.
struct Group(Option<u32>);

impl Drop for Group {
    fn drop(&mut self) {
        let id = self.0.take().and_then(|id| i32::try_from(id).ok());
        if let Some(pid) = id.and_then(rustix::process::Pid::from_raw) {
            // Fails only when all processes have exited.
            let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
        }
    }
}

/// Reads to the end; fails when the limit is exceeded.
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

/// Reads all, and keeps the beginning and the end.
async fn read_ends(pipe: Option<impl AsyncRead + Unpin>) -> Result<String, Failure> {
    const HALF: usize = STDERR_LIMIT / 2;
    let (mut first, mut last) = (Vec::new(), Vec::new());
    let mut is_cut = false;
    if let Some(mut pipe) = pipe {
        let mut chunk = [0; 4096];
        loop {
            let read = pipe.read(&mut chunk).await.map_err(Failure::Read)?;
            if read == 0 {
                break;
            }
            let length = HALF.saturating_sub(first.len()).min(read);
            first.extend_from_slice(&chunk[..length]);
            last.extend_from_slice(&chunk[length..read]);
            let over = last.len().saturating_sub(HALF);
            is_cut |= over > 0;
            last.drain(..over);
        }
    }
    if is_cut {
        first.extend_from_slice("\n…\n".as_bytes());
    }
    first.extend(last);
    Ok(String::from_utf8_lossy(&first).into_owned())
}

/// Returns once the directory exceeds its limit; never without a limit.
async fn grown_over(disk: &Option<(PathBuf, u64)>) {
    let Some((directory, limit)) = disk else { return std::future::pending().await };
    loop {
        tokio::time::sleep(WATCH_EVERY).await;
        if is_over(directory, *limit).await {
            return;
        }
    }
}

/// Says again and again how much memory a process has; for ever.
async fn resident(process: Option<u32>, used: Option<Used<'_>>) -> Infallible {
    let Some((process, used)) = process.zip(used) else { return std::future::pending().await };
    let path = format!("/proc/{process}/status");
    loop {
        tokio::time::sleep(WATCH_EVERY).await;
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        used(kib.unwrap_or_default().saturating_mul(1024));
    }
}

/// Whether a directory contains more bytes, or more files, than allowed.
async fn is_over(directory: &Path, limit: u64) -> bool {
    let directory = directory.to_owned();
    let counted = tokio::task::spawn_blocking(move || count(&directory)).await;
    counted.is_ok_and(|(bytes, files)| bytes > limit || files > MAX_FILES)
}

/// Bytes of all regular files below a directory; files that are deleted meanwhile count
/// as empty.
pub(crate) async fn disk_use(directory: &Path) -> u64 {
    let directory = directory.to_owned();
    let counted = tokio::task::spawn_blocking(move || count(&directory)).await;
    counted.map_or(0, |(bytes, _)| bytes)
}

/// Bytes of all regular files, and number of all entries.
fn count(directory: &Path) -> (u64, u64) {
    let Ok(entries) = std::fs::read_dir(directory) else { return (0, 0) };
    entries.flatten().fold((0, 0), |(bytes, files), entry| match entry.metadata() {
        Ok(meta) if meta.is_dir() => {
            let (inner, below) = count(&entry.path());
            (bytes + inner, files + below + 1)
        }
        Ok(meta) if meta.is_file() => (bytes + meta.len(), files + 1),
        _ => (bytes, files + 1),
    })
}
