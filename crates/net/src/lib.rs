//! The edges of the process, which know nothing of Applications: the clock and random bytes, whom
//! connections trust and how they are made, tokens, logs and the terminal, and the removal of
//! credentials from all that leaves.

pub mod clock;
pub mod connect;
pub mod entropy;
pub mod jwt;
pub mod redact;
pub mod telemetry;
pub mod terminal;
pub mod tls;
pub mod token_cache;
