//! The request of a sync: what identifies it, what it is about, and why it was not made.

use serde_json::Value;

use crate::cli::console::error::Error;
use wavegate_api::Raw;
use wavegate_application::manual;
use wavegate_cluster::act::commands::operation;

/// Exit code after Ctrl-C, as of a shell.
pub(in crate::cli) const INTERRUPTED: u8 = 130;

/// The error of an option that is not valid.
pub(super) fn unusable(error: manual::Invalid) -> Error {
    Error::input("cannot use", error.place, error.why)
}

/// The error of a request that was not made.
pub(super) fn not_requested(error: operation::RequestError, place: String) -> Error {
    match error {
        operation::RequestError::Invalid(error) => unusable(error),
        error => Error::check("cannot sync", place, error),
    }
}

/// `Application argocd/web`.
pub(in crate::cli) fn place(application: &Value) -> String {
    format!("Application {}/{}", application.namespace(), application.name())
}

/// A random identifier of a request.
pub(super) fn request_id() -> String {
    match getrandom::u64() {
        Ok(id) => format!("{id:016x}"),
        // Without random numbers, the time is used.
        Err(_) => format!("{:x}", wavegate_net::clock::Clock::system().now().as_nanosecond()),
    }
}
