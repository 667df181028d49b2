//! Logs: to standard error, as text or JSON lines, never to standard output,
//! which belongs to the data that a command prints.

use std::io::{IsTerminal, Write};
use std::str::FromStr;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::EnvFilter;

use crate::terminal;

/// How a log line is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

impl FromStr for Format {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            other => Err(Error::Format(other.to_owned())),
        }
    }
}

/// Why logs cannot be set up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No such format.
    #[error("log format: \"{0}\" is neither text nor json")]
    Format(String),
    /// No such level.
    #[error("log level: \"{level}\" is none of trace, debug, info, warn, error, off: {reason}")]
    Level {
        /// What was asked for.
        level: String,
        /// Why it cannot be used.
        reason: String,
    },
}

/// Starts logging. The environment's `RUST_LOG` wins over `level`; a `RUST_LOG`
/// that cannot be read does not.
///
/// The first call counts, later ones change nothing.
///
/// # Errors
///
/// When there is no such level; nothing is logged then.
pub fn init(format: Format, level: &str) -> Result<(), Error> {
    let wrong =
        |reason: String| Error::Level { level: level.to_owned(), reason: reason.to_lowercase() };
    let asked = EnvFilter::builder().parse(level).map_err(|error| wrong(error.to_string()))?;
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| told_once(asked, level));
    let colour = std::io::stderr().is_terminal() && !is_set("NO_COLOR");
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(move || Redacted(std::io::stderr(), format))
        .with_ansi(colour)
        // A closed standard error is no reason to panic.
        .log_internal_errors(false);
    let started = match format {
        Format::Text => lines.try_init(),
        Format::Json => lines.json().flatten_event(true).try_init(),
    };
    // The only way to fail is that logging was started before.
    drop(started);
    Ok(())
}

/// What the client library says by itself, and is left out: a line for each
/// request that failed and each attempt to watch, where we say it once for each
/// reason, and one for each connection whose certificate need not be trusted.
const TOLD_BY_US: [(&str, &str); 2] =
    [("kube_client", "kube_client=off"), ("kube_runtime", "kube_runtime::watcher=off")];

/// Leaves that out. Whoever asks for the library by its name, or for more than
/// information of everything, gets all of it; so does `RUST_LOG`.
fn told_once(filter: EnvFilter, asked: &str) -> EnvFilter {
    let everything = asked.split(',').map(str::trim).any(|part| {
        matches!(part.parse(), Ok(LevelFilter::DEBUG | LevelFilter::TRACE | LevelFilter::OFF))
    });
    let left_out = TOLD_BY_US.into_iter().filter(|(name, _)| !everything && !asked.contains(name));
    left_out
        .filter_map(|(_, directive)| directive.parse().ok())
        .fold(filter, EnvFilter::add_directive)
}

/// Standard error, without credentials and without what a terminal would obey.
struct Redacted(std::io::Stderr, Format);

impl Write for Redacted {
    /// Takes a whole line at a time, as log lines are written.
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        let text = crate::redact::text(&text);
        // The library has escaped what would start a colour in the fields.
        let text = match self.1 {
            Format::Text => terminal::printable_lines(&text, true),
            Format::Json => terminal::json(&text).into_owned(),
        };
        self.0.write_all(text.as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

fn is_set(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_to_watch_are_not_told_one_by_one_unless_asked_for() {
        let filter = |level: &str| told_once(EnvFilter::new(level), level).to_string();
        assert_eq!(filter("info"), "kube_runtime::watcher=off,kube_client=off,info");
        assert_eq!(filter("error"), "kube_runtime::watcher=off,kube_client=off,error");
        assert_eq!(filter("off"), "off");
        assert_eq!(filter("debug"), "debug");
        assert_eq!(filter("trace"), "trace");
        let only_us = filter("info,wavegate=debug");
        assert!(only_us.contains("kube_client=off"), "{only_us}");
        let named = filter("info,kube_client=warn");
        assert!(
            named.contains("kube_client=warn") && !named.contains("kube_client=off"),
            "{named}"
        );
    }

    #[test]
    fn formats_and_levels_are_checked() {
        assert_eq!("json".parse(), Ok(Format::Json));
        assert_eq!(
            "JSON".parse::<Format>().unwrap_err().to_string(),
            "log format: \"JSON\" is neither text nor json"
        );
        let wrong = init(Format::Text, "wavegate=loud").unwrap_err();
        assert!(
            wrong.to_string().starts_with("log level: \"wavegate=loud\" is none of"),
            "{wrong}"
        );
        assert_eq!(init(Format::Text, "warn"), Ok(()));
        assert_eq!(init(Format::Json, "info"), Ok(()), "the first call counts");
    }
}
