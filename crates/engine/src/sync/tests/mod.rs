//! Tests of the wave engine. Row numbers (V-…) and traces (E.…) are those of
//! the specification's appendices; `world.rs` applies plans.

mod crash;
mod decisions;
mod half_waves;
mod hooks;
mod namespaces;
mod options;
mod order;
mod properties;
mod restored;
mod retry;
mod scenarios;
mod scenarios_ends;
mod stories;
mod traces;
mod words;
pub(super) mod world;
