//! Whether the time of reading grows with the input, and not with its square. Used by the tests of
//! several crates.

/// Processor time of this thread in nanoseconds, which a busy machine does not lengthen.
fn processor_time() -> u64 {
    // The kernel counts when it switches threads, and at its ticks of some milliseconds.
    std::thread::yield_now();
    #[allow(clippy::disallowed_methods, reason = "a test may measure its time")]
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split(' ').next().unwrap().parse().unwrap()
}

/// Fails when work takes more than 2.5 times as long for twice the size. `make` makes the input of a
/// size, in time that does not count.
pub fn assert_linear<T>(what: &str, size: usize, make: impl Fn(usize) -> T, work: impl Fn(&T)) {
    let time = |size: usize| {
        let input = make(size);
        let once = || {
            let began = processor_time();
            work(&input);
            processor_time() - began
        };
        (0..3).map(|_| once()).min().unwrap()
    };
    // A machine may become slower in between, but not each time; beside what a tick of the kernel is.
    let grows = |[one, two]: [u64; 2]| 2 * two <= 5 * one + 20_000_000;
    let measured = || [size, 2 * size, 4 * size].map(time);
    let is_linear = |&[one, two, four]: &[u64; 3]| grows([one, two]) && grows([two, four]);
    let tries: Vec<[u64; 3]> =
        (0..5).map(|_| measured()).take_while(|one| !is_linear(one)).collect();
    assert!(tries.len() < 5, "{what}: {tries:?} ns for once, twice and four times the size");
}
