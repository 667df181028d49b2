//! Tests of the wave engine. Row numbers (V-…) and traces (E.…) are those of
//! the specification's appendices; `world.rs` applies plans.

mod crash;
mod half_waves;
mod hooks;
mod options;
mod order;
mod properties;
mod retry;
mod scenarios;
mod scenarios_ends;
mod stories;
mod traces;
pub(super) mod world;
