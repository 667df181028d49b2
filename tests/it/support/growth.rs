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

/// Fails when work takes more than 2.5 times as long for twice the size, twice in a row: memory that
/// does not fit into a cache any more, or that is given back and asked for again, lengthens one
/// doubling, while a square lengthens each. `make` makes the input of a size, in time that does not
/// count.
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
    // Beside what a tick of the kernel is.
    let jumps = |one: u64, two: u64| 2 * two > 5 * one + 20_000_000;
    let measured = || {
        let [one, two, four] = [size, 2 * size, 4 * size].map(time);
        let mut times = vec![one, two, four];
        if jumps(two, four) && !jumps(one, two) {
            times.push(time(8 * size));
        }
        times
    };
    let is_linear = |times: &Vec<u64>| {
        !times.windows(3).any(|three| jumps(three[0], three[1]) && jumps(three[1], three[2]))
    };
    // A machine may become slower in between, but not each time.
    let tries: Vec<Vec<u64>> =
        (0..5).map(|_| measured()).take_while(|one| !is_linear(one)).collect();
    assert!(tries.len() < 5, "{what}: {tries:?} ns for once, twice, four and eight times the size");
}
