//! Runs the tests that reach a mutant with it.
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{fs, thread};

use crate::build::Program;
use crate::{Fault, Id};

/// A test that takes longer judges nothing.
const SLOW: Duration = Duration::from_secs(10);
/// How long tests of one process take together without a mutant: one that fails first saves the
/// others, and a process costs some milliseconds.
const TOGETHER: Duration = Duration::from_millis(500);
/// How long the tests of a dependent take for one mutant, about: hundreds may reach it, and most of
/// them for other reasons.
const OF_OTHERS: Duration = Duration::from_secs(5);
/// How many fleets a test of them runs.
const FLEETS: &str = "4";

/// A test, and the mutants that it reaches.
struct Test {
    name: String,
    result: Recorded,
    reached: Vec<Id>,
}

/// What a test does without a mutant.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Recorded {
    /// It takes so long.
    Passed(Duration),
    Failed,
    Slow,
}

impl Test {
    fn takes(&self) -> Option<Duration> {
        match self.result {
            Recorded::Passed(takes) => Some(takes),
            Recorded::Failed | Recorded::Slow => None,
        }
    }
}

/// What a program finds out about mutants.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Finding {
    NotReached,
    /// Only by tests that take too long.
    NotInTime,
    Missed,
    Caught,
}

/// Whose tests a program has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// Of the crate of the mutants. Each of them passes without one.
    Own,
    /// Of a dependent, where some need what is not here. They have more in them that may fail by
    /// itself under load, so one that fails is run once more.
    Other,
}

/// What `program` finds out about `ids`.
pub fn judge(
    program: &Program,
    whose: Whose,
    ids: &[Id],
    jobs: usize,
) -> Result<Vec<(Id, Finding)>, Fault> {
    let list = Command::new(&program.path).arg("--list").current_dir(&program.folder).output()?;
    let list = String::from_utf8(list.stdout)?;
    let names: Vec<&str> = list.lines().filter_map(|line| line.strip_suffix(": test")).collect();
    eprintln!("{}: {} tests, {} mutants", program.name, names.len(), ids.len());

    let recorded = each(&names, jobs, |name| record(program, name))?;
    let failed: Vec<&str> = recorded
        .iter()
        .filter(|test| test.result == Recorded::Failed)
        .map(|test| test.name.as_str())
        .collect();
    if whose == Whose::Own && !failed.is_empty() {
        let names = failed.join(", ");
        return Err(format!("tests of {} fail without a mutant: {names}", program.name).into());
    }
    let slow = recorded.iter().filter(|test| test.result == Recorded::Slow).count();
    if !failed.is_empty() || slow > 0 {
        eprintln!(
            "{}: left out are {} tests that fail without a mutant, and {slow} that take more than \
             {} seconds",
            program.name,
            failed.len(),
            SLOW.as_secs()
        );
    }
    let mut tests: Vec<&Test> =
        recorded.iter().filter(|test| test.result != Recorded::Failed).collect();
    tests.sort_by_key(|test| match whose {
        Whose::Own => (0, test.takes()),
        // Those that are about little else.
        Whose::Other => (test.reached.len(), test.takes()),
    });
    let mut reaching: BTreeMap<Id, Vec<&Test>> = BTreeMap::new();
    for test in tests {
        for id in &test.reached {
            reaching.entry(*id).or_default().push(test);
        }
    }
    each(ids, jobs, |id| {
        let tests = reaching.get(id).map_or(&[][..], Vec::as_slice);
        Ok((*id, find(program, whose, *id, tests)?))
    })
}

fn find(program: &Program, whose: Whose, id: Id, tests: &[&Test]) -> Result<Finding, Fault> {
    let fast: Vec<(&str, Duration)> =
        tests.iter().filter_map(|test| Some((test.name.as_str(), test.takes()?))).collect();
    match (tests.is_empty(), fast.is_empty()) {
        (true, _) => return Ok(Finding::NotReached),
        (_, true) => return Ok(Finding::NotInTime),
        _ => {}
    }
    let (mut rest, mut spent) = (fast.as_slice(), Duration::ZERO);
    while !rest.is_empty() && (whose == Whose::Own || spent < OF_OTHERS) {
        let mut sum = Duration::ZERO;
        let fits = |(_, takes): &&(&str, Duration)| {
            sum += *takes;
            sum <= TOGETHER
        };
        let count = rest.iter().take_while(fits).count().max(1);
        let (group, others) = rest.split_at(count);
        rest = others;
        let names: Vec<&str> = group.iter().map(|(name, _)| *name).collect();
        let takes: Duration = group.iter().map(|(_, takes)| *takes).sum();
        spent += takes;
        // One that does not end is caught.
        let fails = || -> Result<bool, Fault> {
            let mutant = ("MUTANT", id.to_string());
            let passed = run(program, &names, (mutant.0, mutant.1.as_ref()), SLOW.max(takes * 5))?;
            Ok(passed != Some(true))
        };
        if fails()? && (whose == Whose::Own || fails()?) {
            return Ok(Finding::Caught);
        }
    }
    Ok(Finding::Missed)
}

/// Runs a test without a mutant.
fn record(program: &Program, name: &str) -> Result<Test, Fault> {
    // Beside the program; `:` is no part of a file's name everywhere.
    let path = program.path.with_extension(name.replace("::", "."));
    let remove = || match path.exists() {
        true => fs::remove_file(&path),
        false => Ok(()),
    };
    // What a run that was ended has left.
    remove()?;
    let start = Instant::now();
    let result = match run(program, &[name], ("MUTANT_RECORD", &path), SLOW)? {
        Some(true) => Recorded::Passed(start.elapsed()),
        Some(false) => Recorded::Failed,
        None => Recorded::Slow,
    };
    // There is none when it reaches none.
    let text = fs::read_to_string(&path).unwrap_or_default();
    remove()?;
    let reached = text.lines().filter_map(|line| line.parse().ok()).collect();
    Ok(Test { name: name.to_owned(), result, reached })
}

/// Whether tests pass; none when they take longer than `limit`.
fn run(
    program: &Program,
    tests: &[&str],
    (key, value): (&str, &Path),
    limit: Duration,
) -> Result<Option<bool>, Fault> {
    let start = Instant::now();
    let mut command = Command::new("sh");
    if program.is_fleets() {
        // The smallest fleet that fails is of no interest here.
        command.env("WAVEGATE_CASES", FLEETS).env("WAVEGATE_SHRINK", "0");
    }
    // A loop without an end may take all memory before its time is up.
    let mut child = command
        .args(["-c", "ulimit -v 8000000 2>/dev/null; exec \"$@\"", "sh"])
        .arg(&program.path)
        .args(["--exact", "--test-threads=1"])
        .args(tests)
        .current_dir(&program.folder)
        .env("CARGO_MANIFEST_DIR", &program.folder)
        .env("RUST_BACKTRACE", "0")
        .env(key, value)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status.success()));
        }
        if start.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// `work` of each, `jobs` at a time.
fn each<A: Sync, B: Send>(
    items: &[A],
    jobs: usize,
    work: impl Fn(&A) -> Result<B, Fault> + Sync,
) -> Result<Vec<B>, Fault> {
    let next = AtomicUsize::new(0);
    let one = || -> Result<Vec<B>, Fault> {
        let taken = std::iter::from_fn(|| items.get(next.fetch_add(1, Ordering::Relaxed)));
        taken.map(&work).collect()
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..jobs.max(1)).map(|_| scope.spawn(one)).collect();
        let mut all = Vec::new();
        for thread in threads {
            all.extend(thread.join().map_err(|_| "a thread panicked")??);
        }
        Ok(all)
    })
}
