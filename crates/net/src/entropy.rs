//! The source of random bytes.
//!
//! Only some template functions use it (`uuidv4`, `genPrivateKey`, …). They may create
//! keys, so only random bytes of the operating system are used.

use jiff::Timestamp;

use gotemplate::go::{Env, Random};

/// Environment of templates: the given time, the system's random bytes, and the CPU time
/// of this thread.
pub fn template_environment(now: Timestamp) -> Env {
    Env::new(now, Box::new(SystemRandom), crate::clock::thread_time)
}

/// Random bytes of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemRandom;

impl Random for SystemRandom {
    /// Fills the buffer, or exits the process: a template must not create keys that can
    /// be guessed. Supported systems always return random bytes.
    fn fill(&mut self, buffer: &mut [u8]) {
        if let Err(error) = getrandom::fill(buffer) {
            tracing::error!(%error, "the operating system returned no random bytes");
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
