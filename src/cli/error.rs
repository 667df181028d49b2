//! Errors of the command line: what, where, why, and the exit code.

use std::fmt;
use std::io::Write;
use std::process::ExitCode;

use super::output::printable;

/// The exit code when what was checked does not hold.
pub(super) const DOES_NOT_HOLD: u8 = 1;
/// The exit code for wrong use and unreadable input.
const WRONG_USE: u8 = 2;

/// Why a command could not do what was asked; shown as `what: where: why`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Error {
    what: String,
    place: String,
    why: String,
    code: u8,
}

impl Error {
    /// Wrong use or unreadable input. `why` also says what to do about it,
    /// unless that is plain.
    pub fn input(
        what: impl Into<String>,
        place: impl Into<String>,
        why: impl fmt::Display,
    ) -> Self {
        Self { what: what.into(), place: place.into(), why: why.to_string(), code: WRONG_USE }
    }

    /// The input could be read and does not hold what was checked.
    pub fn check(
        what: impl Into<String>,
        place: impl Into<String>,
        why: impl fmt::Display,
    ) -> Self {
        Self { code: DOES_NOT_HOLD, ..Self::input(what, place, why) }
    }
}

impl Error {
    /// The same error where it says that a check did not hold.
    pub fn of_a_check(self) -> Self {
        Self { code: DOES_NOT_HOLD, ..self }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.what, self.place, self.why)
    }
}

impl std::error::Error for Error {}

/// Prints an error to standard error and gives the exit code that it leads to:
/// 2, unless a check did not hold.
pub fn report(error: &anyhow::Error) -> ExitCode {
    complain("error", &crate::watch::failure::chain(error.as_ref()));
    let code = error.downcast_ref::<Error>().map_or(WRONG_USE, |error| error.code);
    ExitCode::from(code)
}

/// Tells something besides: what was left out, what is odd.
pub(super) fn note(text: &str) {
    complain("note", text);
}

/// Tells that something checked does not hold, where more may follow.
pub(super) fn fault(error: &Error) {
    complain("error", &error.to_string());
}

fn complain(kind: &str, text: &str) {
    // A closed standard error leaves nobody to tell.
    let text = crate::redact::text(text);
    let _ = writeln!(std::io::stderr(), "{kind}: {}", printable(&text));
}
