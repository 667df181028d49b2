//! The server's time and its unique identifiers.
//!
//! Time follows tokio's clock: under `start_paused` it stands still and jumps
//! with it, so that a whole simulation has one time. Identifiers come from a
//! seed, so that the same run gives the same names.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::random::SplitMix64;

/// A clock that follows tokio's. Clones are the same clock.
#[derive(Clone, Debug)]
pub struct ServerClock(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    started: Timestamp,
    at: Instant,
    shift: Mutex<SignedDuration>,
}

impl Default for ServerClock {
    /// A clock that shows the system's time now.
    fn default() -> Self {
        Self::starting_at(Timestamp::now())
    }
}

impl ServerClock {
    /// A clock that shows this time now.
    pub fn starting_at(time: Timestamp) -> Self {
        let shift = Mutex::new(SignedDuration::ZERO);
        Self(Arc::new(Shared { started: time, at: Instant::now(), shift }))
    }

    /// The time that it shows.
    pub fn now(&self) -> Timestamp {
        let time = self.unshifted();
        time.saturating_add(*self.0.shift.lock()).unwrap_or(time)
    }

    /// The time that it would show if it had never been shifted: never steps back.
    pub fn unshifted(&self) -> Timestamp {
        let Shared { started, at, .. } = &*self.0;
        let passed = Instant::now().saturating_duration_since(*at);
        let passed = SignedDuration::try_from(passed).unwrap_or_default();
        started.saturating_add(passed).unwrap_or(*started)
    }

    /// Sets it forward by this much, or back. Timers do not notice.
    pub fn shift(&self, by: SignedDuration) {
        let mut shift = self.0.shift.lock();
        *shift = shift.saturating_add(by);
    }
}

/// `metadata` times have whole seconds.
pub(crate) fn seconds(now: Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// A source of identifiers, from a seed.
#[derive(Debug)]
pub(crate) struct Ids {
    random: SplitMix64,
    /// The next UID; see [`super::Server::reserve_uid`].
    reserved: Option<String>,
}

impl Ids {
    pub fn new(seed: u64) -> Self {
        Self { random: SplitMix64::new(seed), reserved: None }
    }

    /// Sets the next UID.
    pub fn reserve(&mut self, uid: &str) {
        self.reserved = Some(uid.to_owned());
    }

    /// A version 4 UUID.
    pub fn uid(&mut self) -> String {
        if let Some(uid) = self.reserved.take() {
            return uid;
        }
        let (a, b) = (self.random.next(), self.random.next());
        format!(
            "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
            a >> 32,
            (a >> 16) & 0xffff,
            a & 0xfff,
            0x8000 | ((b >> 48) & 0x3fff),
            b & 0xffff_ffff_ffff
        )
    }

    /// What `generateName` appends: five letters that spell no word.
    pub fn suffix(&mut self) -> String {
        const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        let mut n = self.random.next();
        (0..5)
            .map(|_| {
                let letter = LETTERS[(n % LETTERS.len() as u64) as usize] as char;
                n /= LETTERS.len() as u64;
                letter
            })
            .collect()
    }
}
