//! A program under measurement, and what the system says about it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Ticks per second of the processor times in `/proc`; the same on all
/// architectures that Linux shows them on.
const TICKS: f64 = 100.0;
/// A process that used no processor time for so long has nothing left to do.
const AT_REST: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(20);

/// Seconds of processor time, in user space and in the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Cpu(pub f64);

impl std::ops::Sub for Cpu {
    type Output = Self;
    fn sub(self, earlier: Self) -> Self {
        Self(self.0 - earlier.0)
    }
}

impl std::ops::Add for Cpu {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

/// What a process used so far, its own threads only; `None` when it is gone.
pub fn cpu_of(pid: u32) -> Option<Cpu> {
    times(pid, 11)
}

/// What this process used so far.
pub fn cpu_of_self() -> Cpu {
    cpu_of(std::process::id()).unwrap_or_default()
}

/// What children of this process used that have ended and were waited for.
fn cpu_of_ended_children() -> Cpu {
    times(std::process::id(), 13).unwrap_or_default()
}

/// Two neighbouring fields of `/proc/PID/stat`, counted behind the name of the
/// program, which may hold spaces.
fn times(pid: u32, field: usize) -> Option<Cpu> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    let ticks = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some(Cpu((ticks(field)? + ticks(field + 1)?) as f64 / TICKS))
}

/// Resident size in MiB, now and at its highest.
#[derive(Clone, Copy, Debug, Default)]
pub struct Resident {
    pub now: f64,
    pub peak: f64,
}

/// `None` when the process is gone.
pub fn resident(pid: u32) -> Option<Resident> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        let kib: f64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
        Some(kib / 1024.0)
    };
    Some(Resident { now: field("VmRSS:")?, peak: field("VmHWM:")? })
}

/// A process that ends with its handle.
pub struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts a program; what it prints goes to a file.
    pub fn start(command: &mut Command, log: &Path) -> Self {
        let file = File::create(log).expect("the log can be written");
        let errors = file.try_clone().expect("the log can be shared");
        let child = command.stdin(Stdio::null()).stdout(file).stderr(errors).spawn();
        let child = child.unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        Self { child, log: log.to_owned() }
    }

    pub fn cpu(&mut self) -> Cpu {
        self.check();
        cpu_of(self.child.id()).unwrap_or_default()
    }

    pub fn resident(&mut self) -> Resident {
        self.check();
        resident(self.child.id()).unwrap_or_default()
    }

    /// A program that ended by itself measures nothing any more.
    fn check(&mut self) {
        if let Ok(Some(status)) = self.child.try_wait() {
            panic!("the program ended: {status}\n{}", self.last_lines());
        }
    }

    pub fn last_lines(&self) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }

    /// Waits until it has nothing left to do, at most for `limit`.
    pub async fn until_at_rest(&mut self, limit: Duration) {
        let deadline = Instant::now() + limit;
        let (mut used, mut since) = (self.cpu(), Instant::now());
        while since.elapsed() < AT_REST && Instant::now() < deadline {
            tokio::time::sleep(POLL).await;
            let now = self.cpu();
            // One tick is what timers of an idle program take now and then.
            if (now - used).0 > 1.5 / TICKS {
                (used, since) = (now, Instant::now());
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a program used that ran to its end.
pub struct Ran {
    pub wall: Duration,
    pub cpu: Cpu,
    /// As it was last seen, and at its highest.
    pub resident: Resident,
    pub success: bool,
}

/// Runs a program to its end, or until `limit` has passed, and no other child
/// besides.
pub fn run_to_end(command: &mut Command, log: &Path, limit: Duration) -> Ran {
    let (start, before) = (Instant::now(), cpu_of_ended_children());
    let mut process = Process::start(command, log);
    let mut seen = Resident::default();
    let success = loop {
        if let Ok(Some(status)) = process.child.try_wait() {
            break status.success();
        }
        if start.elapsed() > limit {
            // Its time counts all the same; the caller says that it did not end.
            let _ = process.child.kill();
            let _ = process.child.wait();
            break false;
        }
        seen = resident(process.child.id()).filter(|found| found.now > 0.0).unwrap_or(seen);
        std::thread::sleep(POLL);
    };
    Ran { wall: start.elapsed(), cpu: cpu_of_ended_children() - before, resident: seen, success }
}
