//! What users could do to a worker, and what must not come of it.

use super::*;

/// The variable that makes this test program a worker.
pub(super) const MEMORY: &str = "WAVEGATE_TEST_WORKER";

/// Not a test: the worker of all tests of the library, which have no other program.
#[test]
#[ignore = "only for processes that a pool starts"]
fn serve_as_a_worker() {
    let Ok(memory) = std::env::var(MEMORY) else { return };
    let _ = worker::serve(&memory);
    std::process::exit(0);
}

mod attacks;
pub(super) use attacks::attack;
