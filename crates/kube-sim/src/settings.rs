//! How a server is made.

use super::clock::ServerClock;
use super::definitions::Definitions;

/// How a server is made: see [`Server::with`](super::Server::with).
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// Its time; by default the system's, which goes on with tokio's clock.
    pub clock: ServerClock,
    /// What identifiers and generated names are made from: the same seed gives
    /// the same ones, in the same order.
    pub seed: u64,
    /// Whether [`Server::requests`](super::Server::requests) and
    /// [`Server::counts`](super::Server::counts) remember requests; the default.
    pub request_log: bool,
    /// Whether requests and objects are refused that are larger than those of a real server may
    /// be; the default.
    pub size_limits: bool,
    /// Custom kinds that it has from the beginning, as if these had just been created.
    pub definitions: Definitions,
}

impl Default for ServerSettings {
    fn default() -> Self {
        Self {
            clock: ServerClock::default(),
            seed: 0x5741_5645_4741_5445,
            request_log: true,
            size_limits: true,
            definitions: Definitions::default(),
        }
    }
}
