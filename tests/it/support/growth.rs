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

/// The sizes that are measured, in quarters of the one that is asked for: the large one is sixteen
/// times the small one.
const SMALL: usize = 1;
const LARGE: usize = 16;

/// Whether times in nanoseconds for once and for sixteen times the size are not those of a square,
/// which are 256 times as long. The middle between 16 and 256: a machine that other guests slow
/// down, and memory that does not fit into a cache any more, lengthen one of both up to four times.
pub fn is_linear(small: u64, large: u64) -> bool {
    // Beside what a few ticks of the kernel are.
    large <= 64 * small + 20_000_000
}

/// Fails when the time of work grows with the square of the size. `make` makes the input of a size,
/// in time that does not count.
pub fn assert_linear<T>(what: &str, size: usize, make: impl Fn(usize) -> T, work: impl Fn(&T)) {
    let time = |quarters: usize| {
        let input = make(size * quarters / 4);
        let once = || {
            let began = processor_time();
            work(&input);
            processor_time() - began
        };
        (0..3).map(|_| once()).min().unwrap()
    };
    // A machine may become slower in between, but not each time.
    let tries: Vec<[u64; 2]> = (0..5)
        .map(|_| [time(SMALL), time(LARGE)])
        .take_while(|[small, large]| !is_linear(*small, *large))
        .collect();
    assert!(tries.len() < 5, "{what}: {tries:?} ns for once and sixteen times the size");
}
