//! Runs the tests that reach a mutant with it.
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{fs, thread};

use crate::build::Program;
use crate::{Fault, Id, Verdict};

/// A test that takes longer judges nothing.
const SLOW: Duration = Duration::from_secs(10);
/// How long tests of one process take together without a mutant: one that fails first saves the
/// others, and a process costs some milliseconds.
const TOGETHER: Duration = Duration::from_millis(500);

/// A test, how long it takes, and the mutants that it reaches.
struct Test {
    name: String,
    takes: Option<Duration>,
    reached: Vec<Id>,
}

/// What is known of `ids`, which are the mutants of the crate of `program`.
pub fn judge(program: &Program, ids: &[Id], jobs: usize) -> Result<Vec<(Id, Verdict)>, Fault> {
    let list = Command::new(&program.path).arg("--list").current_dir(&program.folder).output()?;
    let list = String::from_utf8(list.stdout)?;
    let names: Vec<&str> = list.lines().filter_map(|line| line.strip_suffix(": test")).collect();
    eprintln!("{}: {} tests, {} mutants", program.package, names.len(), ids.len());

    let mut tests = each(&names, jobs, |name| record(program, name))?;
    tests.sort_by_key(|test| test.takes);
    let mut reaching: BTreeMap<Id, Vec<&Test>> = BTreeMap::new();
    for test in &tests {
        for id in &test.reached {
            reaching.entry(*id).or_default().push(test);
        }
    }
    each(ids, jobs, |id| {
        let tests = reaching.get(id).map_or(&[][..], Vec::as_slice);
        Ok((*id, verdict(program, *id, tests)?))
    })
}

fn verdict(program: &Program, id: Id, tests: &[&Test]) -> Result<Verdict, Fault> {
    let fast: Vec<(&str, Duration)> =
        tests.iter().filter_map(|test| Some((test.name.as_str(), test.takes?))).collect();
    match (tests.is_empty(), fast.is_empty()) {
        (true, _) => return Ok(Verdict::Survives("no test reaches it")),
        (_, true) => {
            return Ok(Verdict::NotJudged("only tests of more than 10 seconds reach them"));
        }
        _ => {}
    }
    let mut rest = fast.as_slice();
    while !rest.is_empty() {
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
        // One that does not end is caught.
        if run(program, &names, ("MUTANT", id.to_string().as_ref()), SLOW.max(takes * 5))?
            != Some(true)
        {
            return Ok(Verdict::Caught);
        }
    }
    Ok(Verdict::Survives("no test fails"))
}

/// Runs a test without a mutant.
fn record(program: &Program, name: &str) -> Result<Test, Fault> {
    // Beside the program; `:` is no part of a file's name everywhere.
    let path = program.path.with_extension(name.replace("::", "."));
    let start = Instant::now();
    let passed = run(program, &[name], ("MUTANT_RECORD", &path), SLOW)?;
    if passed == Some(false) {
        return Err(format!("{name} of {} fails without a mutant", program.package).into());
    }
    let takes = passed.map(|_| start.elapsed());
    // There is none when it reaches none.
    let text = fs::read_to_string(&path).unwrap_or_default();
    if path.exists() {
        fs::remove_file(&path)?;
    }
    let reached = text.lines().filter_map(|line| line.parse().ok()).collect();
    Ok(Test { name: name.to_owned(), takes, reached })
}

/// Whether tests pass; none when they take longer than `limit`.
fn run(
    program: &Program,
    tests: &[&str],
    (key, value): (&str, &Path),
    limit: Duration,
) -> Result<Option<bool>, Fault> {
    let start = Instant::now();
    // A loop without an end may take all memory before its time is up.
    let mut child = Command::new("sh")
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
