//! What users could do to a worker, and what must not come of it.

mod attacks;
pub(super) use attacks::attack;

/// Not a test: the worker of all tests of this crate, which have no other program.
#[test]
#[ignore = "only for processes that a pool starts"]
fn serve_as_a_worker() {
    crate::serve_in_test();
}
