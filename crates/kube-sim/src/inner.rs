//! What all handles of one server share.

use std::sync::Arc;

use parking_lot::Mutex;

use super::clock::ServerClock;
use super::record::Recorder;
use super::requests::Ledger;
use super::state::State;

/// What all handles of one server share.
pub(crate) struct Inner {
    pub state: Mutex<State>,
    pub clock: ServerClock,
    pub ledger: Mutex<Ledger>,
    pub recorder: Arc<Recorder>,
    /// Room for answers over the network that wait to be read.
    pub unread: Arc<tokio::sync::Semaphore>,
    /// Whether the bodies of requests and the objects have a limit.
    pub has_size_limits: bool,
}
