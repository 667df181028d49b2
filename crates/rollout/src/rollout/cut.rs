//! The length of messages in a status.

/// The most characters of a message in the status of a run.
const MESSAGE: usize = 500;

/// A message as it fits in the status of a run.
pub(super) fn cut(text: &str) -> String {
    text.chars().take(MESSAGE).collect()
}
