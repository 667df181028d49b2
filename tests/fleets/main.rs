//! Fleets of Applications on a clock that jumps, with faults: whole rollouts of the real
//! controllers, drawn from seeds, and judged by the record of the API server alone.
//!
//! ```sh
//! cargo test --test fleets                                        # a minute of each size
//! WAVEGATE_CASES=1000000 cargo test --test fleets fleets::small   # a night
//! WAVEGATE_SEED=17 WAVEGATE_CASES=1 cargo test --test fleets fleets::small
//! ```
//!
//! A seed is the same fleet in each build; one with `--release` runs more of them.
//!
//! Each run prints how many faults of each kind a request or a watch noticed, and fails when 500
//! seeds have none of a kind. `WAVEGATE_MUTATIONS=IgnoresPause,ListsHot` runs these mutations only.
//!
//! A failure names the seed, prints the smallest case that still fails, and what happened in it;
//! with `WAVEGATE_SHRINK=0`, which saves the search, only the seed.

mod app;
mod case;
mod counts;
mod fleets;
mod intercept;
mod judges;
mod mutations;
mod panics;
mod run;
mod scenario;
mod shrink;
mod story;
mod strikes;
mod track;
mod world;

/// As in the program.
#[cfg(not(target_env = "msvc"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;
