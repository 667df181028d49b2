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

/// The number of cases: small fleets, those of about 30 Applications, those of about 200, and sets
/// that share a limit.
const CASES: [u64; 4] = if cfg!(debug_assertions) { [20, 1, 0, 5] } else { [1_840, 58, 2, 100] };
/// A case that takes longer by the clock of the machine will not end: something is done again and
/// again at one moment of its own clock.
const ENDLESS: Duration = Duration::from_secs(300);
/// Each kind of fault is noticed in so many cases.
const ENOUGH: u64 = 500;
/// A mutation is found within so many fleets that have what it breaks.
const MUTATED: usize = 500;

fn number(variable: &str, default: u64) -> u64 {
    let set = std::env::var(variable).ok();
    set.map_or(default, |text| {
        text.parse().unwrap_or_else(|_| panic!("{variable}={text} is no number"))
    })
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
                    "WAVEGATE_SEED={seed} WAVEGATE_CASES=1 cargo test --release --test fleets \
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

/// Runs the cases of a size, as many at a time as there are cores. With a limit of time in
/// seconds (`WAVEGATE_TIME`), a slow machine runs the first ones only, and a quarter at least.
fn all(size: Size, name: &'static str, count: u64) {
    let (first, count) = (number("WAVEGATE_SEED", 0), number("WAVEGATE_CASES", count));
    let limit = Duration::from_secs(number("WAVEGATE_TIME", u64::MAX));
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
                    let is_late = began.elapsed() > limit && seed >= first + count / 4;
                    if seed >= first + count || stops || is_late {
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
    let missing: Vec<&str> =
        KINDS.into_iter().filter(|kind| !strikes.contains_key(*kind)).collect();
    let mut failures = failures.into_inner();
    failures.sort_by_key(|(seed, _)| *seed);
    let Some((seed, violation)) = failures.first() else {
        assert!(count < ENOUGH || missing.is_empty(), "never noticed: {missing:?}");
        return;
    };
    let seeds: Vec<u64> = failures.iter().map(|(seed, _)| *seed).collect();
    let case = Case::of(*seed, size);
    let smallest = shrink(&case, violation.judge);
    panic!(
        "WAVEGATE_SEED={seed} WAVEGATE_CASES=1 cargo test --release --test fleets fleets::{name} \
         repeats it: {}: {}\nseeds that fail: {seeds:?}\n{}",
        violation.judge,
        violation.what,
        story::of(&smallest, violation.judge),
    );
}

#[test]
fn small() {
    all(Size::Small, "small", CASES[0]);
}

#[test]
fn middle() {
    all(Size::Middle, "middle", CASES[1]);
}

#[test]
fn large() {
    all(Size::Large, "large", CASES[2]);
}

#[test]
fn shared() {
    all(Size::Shared, "shared", CASES[3]);
}

#[test]
fn one_seed_gives_one_record() {
    let record = |seed: u64| {
        let lines: Arc<Mutex<Vec<String>>> = Arc::default();
        let into = Arc::clone(&lines);
        run(&Case::of(seed, Size::Small), None, move |entry| into.lock().push(entry.to_string()));
        std::mem::take(&mut *lines.lock())
    };
    let count = number("WAVEGATE_CASES", if cfg!(debug_assertions) { 5 } else { 40 });
    let first = number("WAVEGATE_SEED", 0);
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
    for (mutation, judge) in Mutation::ALL {
        let name = format!("{mutation:?}");
        if only.as_ref().is_some_and(|only| !only.split(',').any(|one| one == name)) {
            continue;
        }
        let mut seeds = (0..).filter(|seed| mutation.is_of(&Case::of(*seed, Size::Small)));
        let found = seeds.by_ref().take(MUTATED).find(|seed| {
            let ruling = run(&Case::of(*seed, Size::Small), Some(mutation), |_| {});
            ruling.first(Some(judge)).is_some()
        });
        let seed = found.unwrap_or_else(|| panic!("{judge} does not find {mutation:?}"));
        println!("{judge} finds {mutation:?} with seed {seed}");
    }
}
