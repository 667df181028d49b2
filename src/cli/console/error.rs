//! Errors of the command line, and their exit codes.

use std::fmt;
use std::io::Write;
use std::process::ExitCode;

use wavegate_net::terminal::printable_text;

/// Exit code of a failed check.
pub(in crate::cli) const CHECK_FAILED: u8 = 1;
/// Exit code of a usage error and of invalid input.
const USAGE_ERROR: u8 = 2;

/// What failed when an object of a cluster does not exist.
pub(in crate::cli) const NOT_FOUND: &str = "cannot find";

/// Why objects of a kind cannot be read whose definition is missing.
pub(in crate::cli) const UNDEFINED: &str =
    "the CustomResourceDefinition is not installed; apply the output of wavegate crds first";

/// An error of a command, printed as `what: where: why`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) struct Error {
    what: String,
    place: String,
    why: String,
    code: u8,
    /// Whether the user may not read something.
    pub is_forbidden: bool,
}

impl Error {
    /// A usage error or invalid input. `why` includes a remedy, unless that is obvious.
    pub fn input(
        what: impl Into<String>,
        place: impl Into<String>,
        why: impl fmt::Display,
    ) -> Self {
        let (place, why) = (cut(place.into()), cut(why.to_string()));
        Self { what: what.into(), place, why, code: USAGE_ERROR, is_forbidden: false }
    }

    /// A failed check of valid input.
    pub fn check(
        what: impl Into<String>,
        place: impl Into<String>,
        why: impl fmt::Display,
    ) -> Self {
        Self { code: CHECK_FAILED, ..Self::input(what, place, why) }
    }
}

/// Most characters of a place and of a reason: both may quote names and values of any size.
const MAX_TEXT: usize = 8192;

fn cut(mut text: String) -> String {
    if let Some((at, _)) = text.char_indices().nth(MAX_TEXT) {
        text.truncate(at);
        text.push('…');
    }
    text
}

impl Error {
    /// Whether the object does not exist, or is in another namespace.
    pub fn is_not_found(&self) -> bool {
        self.what == NOT_FOUND
    }

    /// Whether the definition of a kind is missing.
    pub fn is_undefined(&self) -> bool {
        self.why == UNDEFINED
    }

    /// Whether a check failed, and the input is valid.
    pub fn is_check(&self) -> bool {
        self.code == CHECK_FAILED
    }

    /// What is wrong, without what failed and where.
    pub fn why(&self) -> &str {
        &self.why
    }

    /// The same error with the exit code of a failed check.
    pub fn into_check(self) -> Self {
        Self { code: CHECK_FAILED, ..self }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.what, self.place, self.why)
    }
}

impl std::error::Error for Error {}

/// Prints an error to standard error, or logs it where the log has JSON lines, and returns its exit
/// code: 2, unless a check failed.
pub fn report(error: &anyhow::Error) -> ExitCode {
    let text = wavegate_cluster::watch::failure::cause_chain(error.as_ref());
    if !wavegate_net::telemetry::log_last(&text) {
        print_line("error", &text);
    }
    let code = error.downcast_ref::<Error>().map_or(USAGE_ERROR, |error| error.code);
    ExitCode::from(code)
}

/// Prints a note to standard error.
pub(in crate::cli) fn note(text: &str) {
    print_line("note", text);
}

/// Prints a failed check to standard error; more may follow.
pub(in crate::cli) fn fault(error: &Error) {
    print_line("error", &error.to_string());
}

fn print_line(kind: &str, text: &str) {
    // A closed standard error is ignored.
    let text = wavegate_net::redact::redact_text(text);
    let _ = writeln!(std::io::stderr(), "{kind}: {}", printable_text(&text));
}
