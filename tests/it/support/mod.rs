//! What the end-to-end cases and the benchmarks stand on: a world with a
//! cluster, a repository and a controller, and a recorder of all that happens.
//!
//! Nothing here believes the controller: what is checked is what the API
//! server's watch told, version by version.

pub mod controller;
pub mod invariants;
pub mod manifests;
pub mod recorder;
pub mod repository;
pub mod stand_in;
pub mod world;

pub use controller::Setup;
pub use recorder::{Kind, Log};
pub use world::World;
