//! Support of the end-to-end cases and the benchmarks: a world with a cluster, a
//! repository and a controller, and a recorder of all objects.
//!
//! Checks use only the versions that the API server's watch reported, not the
//! controller's own messages.

pub mod cluster;
pub mod controller;
pub mod definitions;
pub mod held;
pub mod invariants;
pub mod kubectl;
pub mod manifests;
pub mod receiver;
pub mod recorder;
pub mod repository;
#[allow(dead_code, reason = "the benchmarks ask no services")]
pub mod service;
pub mod stand_in;
#[allow(dead_code, reason = "the benchmarks draw nothing")]
pub mod svg;
#[allow(dead_code, reason = "scripts of several suites use parts of it")]
pub mod terminal;
#[allow(dead_code, reason = "the benchmarks wait for less")]
pub mod waiting;
pub mod world;

#[allow(unused_imports, reason = "the benchmarks use ours")]
pub use cluster::Definitions;
#[allow(unused_imports, reason = "the benchmarks use the rest")]
pub use controller::Setup;
#[allow(unused_imports, reason = "the benchmarks use the rest")]
pub use recorder::{Kind, Log};
pub use world::World;

/// Lets this process, which is not the program, start workers for expressions of users.
pub fn use_workers() {
    wavegate_sandbox::start_workers_by(env!("CARGO_BIN_EXE_wavegate").into());
}
