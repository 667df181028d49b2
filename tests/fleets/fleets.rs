//! The tests.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::case::{Case, Size};
use crate::judges::Court;
use crate::mutations::Mutation;
use crate::run::run;
use crate::shrink::shrink;
use crate::story;
use crate::strikes::KINDS;

/// How many fleets of a size are run: at most so many, and on a machine where they take longer than
/// [`TIME`] at least so many.
#[derive(Clone, Copy)]
struct Count {
    most: u64,
    least: u64,
}

/// What two processors do in about [`TIME`] while another test runs beside it.
const SMALL: Count = Count { most: 600, least: 100 };
/// Of about 30 Applications.
const MIDDLE: Count = Count { most: 20, least: 4 };
/// Of about 200 Applications.
const LARGE: Count = Count { most: 2, least: 1 };
/// Sets that share a limit.
const SHARED: Count = Count { most: 60, least: 12 };
/// Runs that are aborted.
const ABORTED: Count = Count { most: 150, least: 30 };
/// Seeds that are run twice.
const TWICE: u64 = 10;
/// The seconds after which a size starts no more fleets, unless their number is given.
const TIME: u64 = 60;
/// A case that takes longer by the clock of the machine will not end: something is done again and
/// again at one moment of its own clock. With room for the largest on a busy machine.
const ENDLESS: Duration = Duration::from_secs(600);
/// Each kind of fault is noticed in so many cases.
const ENOUGH: u64 = 500;
/// A mutation is found within so many fleets that have what it breaks. The longest search so far
/// ends with seed 111, and is over sooner: not each seed has a budget.
const MUTATED: usize = 150;

/// The number in a variable, if it is set.
fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable}={text} is no number")))
}

/// Ends the process when a case never ends: nothing else can.
struct Watchdog(Option<mpsc::Sender<()>>);

impl Watchdog {
    fn of(name: &'static str, seed: u64) -> Self {
        let (ended, end) = mpsc::channel::<()>();
        std::thread::spawn(move || {
            if end.recv_timeout(ENDLESS) == Err(mpsc::RecvTimeoutError::Timeout) {
                // Not captured by the test.
                let _ = writeln!(
                    std::io::stderr(),
                    "WAVEGATE_SEED={seed} WAVEGATE_CASES=1 cargo test --test fleets \
                     fleets::{name} repeats it: it has not ended after {} s",
                    ENDLESS.as_secs()
                );
                std::process::exit(101);
            }
        });
        Self(Some(ended))
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.0.take();
    }
}

/// Runs the cases of a size, as many at a time as there are cores: so many, or on a slow machine
/// those that begin within [`TIME`]. `WAVEGATE_CASES` runs as many as it says, `WAVEGATE_TIME` sets
/// another time in seconds, and both together run a quarter of them at least.
fn all(size: Size, name: &'static str, count: Count) {
    let (first, wanted) = (number("WAVEGATE_SEED").unwrap_or(0), number("WAVEGATE_CASES"));
    let Count { most, least } =
        wanted.map_or(count, |wanted| Count { most: wanted, least: wanted / 4 });
    let limit = number("WAVEGATE_TIME").or(wanted.is_none().then_some(TIME));
    let limit = limit.map_or(Duration::MAX, Duration::from_secs);
    let (next, ended) = (AtomicU64::new(first), AtomicU64::new(0));
    let (requests, rollouts) = (AtomicU64::new(0), AtomicU64::new(0));
    let has_failed = AtomicBool::new(false);
    let failures = Mutex::new(Vec::new());
    let strikes = Mutex::new(BTreeMap::<String, u64>::new());
    let began = Instant::now();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let keeps_going = std::env::var_os("WAVEGATE_KEEP_GOING").is_some();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let stops = has_failed.load(Ordering::Relaxed) && !keeps_going;
                    let is_late = began.elapsed() > limit && seed >= first + least;
                    if seed >= first + most || stops || is_late {
                        return;
                    }
                    let watchdog = Watchdog::of(name, seed);
                    let ruling = run(&Case::of(seed, size), None, |_| {});
                    drop(watchdog);
                    ended.fetch_add(1, Ordering::Relaxed);
                    requests.fetch_add(ruling.requests, Ordering::Relaxed);
                    rollouts.fetch_add(ruling.rollouts(), Ordering::Relaxed);
                    for (kind, count) in &ruling.strikes {
                        *strikes.lock().entry(kind.clone()).or_default() += count;
                    }
                    if let Some(violation) = ruling.first(None) {
                        has_failed.store(true, Ordering::Relaxed);
                        if keeps_going {
                            let what = &violation.what[..violation.what.len().min(300)];
                            eprintln!("{name} {seed}: {}: {what}", violation.judge);
                        }
                        failures.lock().push((seed, violation.clone()));
                    }
                }
            });
        }
    });
    let seconds = began.elapsed().as_secs_f64();
    let count = ended.into_inner();
    let (requests, rollouts) = (requests.into_inner(), rollouts.into_inner());
    let a_minute = |count: u64| count as f64 / seconds * 60.0;
    println!(
        "{count} fleets ({name}) from seed {first} with {rollouts} rollouts in {seconds:.1} s, \
         {:.0} and {:.0} a minute; {requests} requests",
        a_minute(count),
        a_minute(rollouts)
    );
    let strikes = strikes.into_inner();
    println!("faults that were noticed: {strikes:?}");
    // What is aborted meets a few of them only.
    let is_any = size != Size::Aborted;
    let is_missing = |kind: &&str| is_any && !strikes.contains_key(*kind);
    let missing: Vec<&str> = KINDS.into_iter().filter(is_missing).collect();
    let mut failures = failures.into_inner();
    failures.sort_by_key(|(seed, _)| *seed);
    let Some((seed, violation)) = failures.first() else {
        assert!(count < ENOUGH || missing.is_empty(), "never noticed: {missing:?}");
        return;
    };
    let seeds: Vec<u64> = failures.iter().map(|(seed, _)| *seed).collect();
    let case = Case::of(*seed, size);
    let story = match number("WAVEGATE_SHRINK") {
        Some(0) => String::new(),
        _ => story::of(&shrink(&case, violation.judge), violation.judge),
    };
    panic!(
        "WAVEGATE_SEED={seed} WAVEGATE_CASES=1 cargo test --test fleets fleets::{name} \
         repeats it: {}: {}\nseeds that fail: {seeds:?}\n{story}",
        violation.judge, violation.what,
    );
}

#[test]
fn small() {
    all(Size::Small, "small", SMALL);
}

#[test]
fn middle() {
    all(Size::Middle, "middle", MIDDLE);
}

#[test]
fn large() {
    all(Size::Large, "large", LARGE);
}

#[test]
fn shared() {
    all(Size::Shared, "shared", SHARED);
}

#[test]
fn aborted() {
    all(Size::Aborted, "aborted", ABORTED);
}

#[test]
fn one_seed_gives_one_record() {
    let record = |seed: u64| {
        let lines: Arc<Mutex<Vec<String>>> = Arc::default();
        let into = Arc::clone(&lines);
        run(&Case::of(seed, Size::Small), None, move |entry| into.lock().push(entry.to_string()));
        std::mem::take(&mut *lines.lock())
    };
    let count = number("WAVEGATE_CASES").unwrap_or(TWICE);
    let first = number("WAVEGATE_SEED").unwrap_or(0);
    let mut broken = Vec::new();
    for seed in first..first + count {
        let (one, other) = (record(seed), record(seed));
        assert!(one.len() > 100, "seed {seed} records {} entries", one.len());
        if let Some(at) = (0..one.len().max(other.len())).find(|at| one.get(*at) != other.get(*at))
        {
            let before = &one[at.saturating_sub(3)..at];
            broken.push(format!(
                "seed {seed}, entry {at}, after {before:#?}\n  {:?}\n  {:?}",
                one.get(at),
                other.get(at)
            ));
        }
    }
    assert!(broken.is_empty(), "{} differ:\n{}", broken.len(), broken.join("\n"));
}

#[test]
fn each_judge_finds_controllers_that_are_broken() {
    let only = std::env::var("WAVEGATE_MUTATIONS").ok();
    let judges = Court::names(&Case::of(0, Size::Small));
    for judge in judges {
        assert!(Mutation::ALL.iter().any(|(_, of)| *of == judge), "nothing breaks for {judge}");
    }
    let is_asked = |mutation: Mutation| {
        let name = format!("{mutation:?}");
        only.as_ref().is_none_or(|only| only.split(',').any(|one| one == name))
    };
    let asked = Mutation::ALL.into_iter().filter(|(mutation, _)| is_asked(*mutation));
    let next = Mutex::new(asked);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let work = || {
        loop {
            let Some((mutation, judge)) = next.lock().next() else { return };
            let size = mutation.size();
            let mut seeds = (0..).filter(|seed| mutation.is_of(&Case::of(*seed, size)));
            let found = seeds.by_ref().take(MUTATED).find(|seed| {
                let ruling = run(&Case::of(*seed, size), Some(mutation), |_| {});
                ruling.first(Some(judge)).is_some()
            });
            let seed = found.unwrap_or_else(|| panic!("{judge} does not find {mutation:?}"));
            println!("{judge} finds {mutation:?} with seed {seed}");
        }
    };
    // The scope panics when a thread does.
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
}
