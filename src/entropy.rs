//! The one place where chance comes from.
//!
//! Only a few template functions ask for it (`uuidv4`, `genPrivateKey`, …), and
//! what they make may be a key: so it is the operating system's chance or none.

use jiff::Timestamp;

use crate::template::go::{Env, Random};

/// What templates may know of the world: the time that is given, the system's
/// chance, and how much time of the processor this thread has used.
pub fn environment(now: Timestamp) -> Env {
    Env::new(now, Box::new(SystemRandom), crate::clock::thread_time)
}

/// The operating system's source of random bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemRandom;

impl Random for SystemRandom {
    /// Fills the buffer, or ends the process: a template must not go on with
    /// keys that can be guessed. Systems that Wavegate runs on always answer.
    fn fill(&mut self, buffer: &mut [u8]) {
        if let Err(error) = getrandom::fill(buffer) {
            tracing::error!(%error, "the operating system gives no random bytes");
            std::process::abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_draws_differ() {
        let draw = || {
            let mut bytes = [0; 32];
            SystemRandom.fill(&mut bytes);
            bytes
        };
        assert_ne!(draw(), draw());
    }
}
