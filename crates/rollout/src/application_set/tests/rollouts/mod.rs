//! Rollouts in a simulated cluster, with the real functions of a reconcile:
//! random sets, events, faults and crashes. The invariants of Appendix C of the
//! specification are checked at each decision and each write.
//!
//! Other cases add policies, runs and people; what must always hold of these (section 6 of
//! the specification of policies and runs) is checked as well, and what they come to when everybody stops.
//!
//! `WAVEGATE_CASES` sets the number of cases, `WAVEGATE_SEED` the first seed. A
//! failure names the seed of its case; run this one alone with
//! `WAVEGATE_SEED=… WAVEGATE_CASES=1`.

mod cases;
mod checks;
mod cluster;
mod guards;
mod history;
mod limits;
mod people;
mod plain;
mod rest;
mod spec;
mod stories;
mod trace;
mod turns;
mod world;

use std::panic::AssertUnwindSafe;

use proptest::prelude::TestCaseError;
use proptest::strategy::{BoxedStrategy, Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};

/// The number of cases of one run of the tests: a minute of two processors in a debug build. The
/// fleets with faults check the same, with the controllers, in an optimized one.
const CASES: u64 = 4_000;
/// The same of those with policies, which take longer.
const WITH_POLICIES: u64 = 400;

fn number(variable: &str, default: u64) -> u64 {
    let set = std::env::var(variable).ok();
    set.map_or(default, |text| {
        text.parse().unwrap_or_else(|_| panic!("{variable}={text} is no number"))
    })
}

/// Runs the part `part` of `parts` of all cases, each with its own seed.
fn run(part: u64, parts: u64, count: u64, cases: &BoxedStrategy<cases::Case>) {
    let (first, count) = (number("WAVEGATE_SEED", 0), number("WAVEGATE_CASES", count));
    for seed in (first..first + count).filter(|seed| (seed - first) % parts == part) {
        let config = Config { failure_persistence: None, ..Config::default() };
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
        let mut runner = TestRunner::new_with_rng(config, rng);
        let tree = cases.new_tree(&mut runner).unwrap();
        let original = tree.current();
        let ended = runner.run_one(tree, |case| {
            std::panic::catch_unwind(AssertUnwindSafe(|| case.run()))
                .map_err(|panic| TestCaseError::fail(message(&*panic)))
        });
        if let Err(error) = ended {
            let (why, smallest) = match error {
                TestError::Fail(why, smallest) => (why.to_string(), smallest),
                TestError::Abort(why) => (why.to_string(), original),
            };
            let history = history::of(|| {
                let _ = std::panic::catch_unwind(AssertUnwindSafe(|| smallest.clone().run()));
            });
            panic!(
                "WAVEGATE_SEED={seed} WAVEGATE_CASES=1 repeats it: {why}\nsmallest case: {smallest:#?}\n{history}"
            );
        }
    }
}

fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
}

// Four tests, since tests run in parallel.

#[test]
fn rollouts_keep_the_invariants_i1_to_i15_first_quarter() {
    run(0, 4, CASES, &cases::cases().boxed());
}

#[test]
fn rollouts_keep_the_invariants_i1_to_i15_second_quarter() {
    run(1, 4, CASES, &cases::cases().boxed());
}

#[test]
fn rollouts_keep_the_invariants_i1_to_i15_third_quarter() {
    run(2, 4, CASES, &cases::cases().boxed());
}

#[test]
fn rollouts_keep_the_invariants_i1_to_i15_fourth_quarter() {
    run(3, 4, CASES, &cases::cases().boxed());
}

#[test]
fn rollouts_with_policies_keep_what_must_always_hold_first_half() {
    run(0, 2, WITH_POLICIES, &cases::cases_with_policies().boxed());
}

#[test]
fn rollouts_with_policies_keep_what_must_always_hold_second_half() {
    run(1, 2, WITH_POLICIES, &cases::cases_with_policies().boxed());
}
