//! Logging: text or JSON lines on standard error, since standard output is for the data
//! of a command.

mod argo_cd;
mod json;

use std::io::{IsTerminal, Write};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};

use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::EnvFilter;

use crate::terminal;

/// Format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For humans.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
    /// The same with the keys of Argo CD's lines.
    ArgoCd,
}

impl FromStr for LogFormat {
    type Err = LoggingError;

    /// In any case, as in Argo CD.
    fn from_str(text: &str) -> Result<Self, LoggingError> {
        match text.to_ascii_lowercase().as_str() {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            "argocd" => Ok(Self::ArgoCd),
            _ => Err(LoggingError::Format(text.to_owned())),
        }
    }
}

/// Why logging cannot be configured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoggingError {
    /// Unknown format.
    #[error("log format: \"{0}\" is none of text, json, argocd")]
    Format(String),
    /// Unknown level.
    #[error("log level: \"{level}\" is not one of trace, debug, info, warn, error, off: {reason}")]
    Level {
        /// The given level.
        level: String,
        /// Why it is invalid.
        reason: String,
    },
}

/// Whether lines are JSON objects since logging was started.
static JSON: AtomicBool = AtomicBool::new(false);

/// Starts logging. `RUST_LOG` takes precedence over `level`, unless it is invalid.
///
/// Only the first call has an effect.
///
/// # Errors
///
/// When the level is unknown; nothing is logged then.
pub fn init_logging(format: LogFormat, level: &str) -> Result<(), LoggingError> {
    // Fails only when logging was started before.
    let started = tracing::subscriber::set_global_default(subscriber(format, level)?);
    if started.is_ok() && format != LogFormat::Text {
        JSON.store(true, Ordering::Relaxed);
        // What reads the log expects a JSON object in each line, also after a panic.
        std::panic::set_hook(Box::new(log_panic));
    }
    Ok(())
}

/// Logs an error that ends the program, where lines are JSON objects; `false` where they are not,
/// or errors are not logged.
pub fn log_last(error: &str) -> bool {
    let logs = JSON.load(Ordering::Relaxed) && tracing::enabled!(tracing::Level::ERROR);
    if logs {
        tracing::error!("{error}");
    }
    logs
}

fn log_panic(panic: &std::panic::PanicHookInfo<'_>) {
    let text = panic.payload_as_str().unwrap_or("no message");
    let location = panic.location().map(ToString::to_string).unwrap_or_default();
    // Empty unless RUST_BACKTRACE asks for it.
    let backtrace = std::backtrace::Backtrace::capture();
    match backtrace.status() {
        std::backtrace::BacktraceStatus::Captured => {
            tracing::error!(location, %backtrace, "panic: {text}");
        }
        _ => tracing::error!(location, "panic: {text}"),
    }
}

/// Logs on this thread until the guard is dropped: before all settings are known.
///
/// # Errors
///
/// When the level is unknown.
pub fn until_dropped(format: LogFormat, level: &str) -> Result<DefaultGuard, LoggingError> {
    Ok(tracing::subscriber::set_default(subscriber(format, level)?))
}

/// Checks that the log can have this level.
///
/// # Errors
///
/// When it is unknown.
pub fn check_level(level: &str) -> Result<(), LoggingError> {
    filter(level).map(drop)
}

fn filter(level: &str) -> Result<EnvFilter, LoggingError> {
    let wrong = |reason: String| LoggingError::Level {
        level: level.to_owned(),
        reason: reason.to_lowercase(),
    };
    // The library takes any other word for a part of the program, of which alone it logs then.
    let is_word = |part: &&str| !part.contains(['=', '[']) && part.parse::<LevelFilter>().is_err();
    if let Some(word) = level.split(',').map(str::trim).find(is_word) {
        return Err(wrong(format!("{word} is no level")));
    }
    EnvFilter::builder().parse(level).map_err(|error| wrong(error.to_string()))
}

fn subscriber(
    format: LogFormat,
    level: &str,
) -> Result<Box<dyn Subscriber + Send + Sync>, LoggingError> {
    let asked = filter(level)?;
    let filter =
        EnvFilter::try_from_default_env().unwrap_or_else(|_| without_library_logs(asked, level));
    let colour = std::io::stderr().is_terminal() && !is_set("NO_COLOR");
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(move || Redacted(std::io::stderr(), format))
        .with_ansi(colour)
        // A closed standard error must not cause a panic.
        .log_internal_errors(false);
    Ok(match format {
        LogFormat::Text => Box::new(lines.finish()),
        LogFormat::Json | LogFormat::ArgoCd => Box::new(lines.json().flatten_event(true).finish()),
    })
}

/// Log targets of the client library that are disabled by default: it logs each failed
/// request, each attempt to watch and each unverified connection, which we log once per
/// reason.
const LIBRARY_TARGETS: [(&str, &str); 2] =
    [("kube_client", "kube_client=off"), ("kube_runtime", "kube_runtime::watcher=off")];

/// Disables these targets, unless `asked` names the library or requests more than `info`
/// for everything. `RUST_LOG` is not affected.
fn without_library_logs(filter: EnvFilter, asked: &str) -> EnvFilter {
    let everything = asked.split(',').map(str::trim).any(|part| {
        matches!(part.parse(), Ok(LevelFilter::DEBUG | LevelFilter::TRACE | LevelFilter::OFF))
    });
    let left_out =
        LIBRARY_TARGETS.into_iter().filter(|(name, _)| !everything && !asked.contains(name));
    left_out
        .filter_map(|(_, directive)| directive.parse().ok())
        .fold(filter, EnvFilter::add_directive)
}

/// Standard error, with credentials removed and control characters escaped.
struct Redacted(std::io::Stderr, LogFormat);

impl Write for Redacted {
    /// Takes a whole line at a time, as log lines are written.
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        let text = match self.1 {
            LogFormat::Text => crate::redact::redact_text(&text),
            LogFormat::Json | LogFormat::ArgoCd => json::redacted(&text),
        };
        // The library has escaped control characters in fields, but for line breaks.
        let text = match self.1 {
            LogFormat::Text => one_line(&text),
            LogFormat::Json => terminal::escape_json(&text).into_owned(),
            LogFormat::ArgoCd => terminal::escape_json(&argo_cd::line(&text)).into_owned(),
        };
        self.0.write_all(text.as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

/// One event as one line: a line break in a text of others would forge the next one.
fn one_line(text: &str) -> String {
    let line = text.strip_suffix('\n').unwrap_or(text).replace('\n', "\\n");
    terminal::printable_lines(&line, true) + "\n"
}

fn is_set(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn library_logs_are_disabled_unless_requested() {
        let filter = |level: &str| without_library_logs(EnvFilter::new(level), level).to_string();
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
    fn an_event_is_one_line_whatever_it_says() {
        for (text, want) in [
            ("INFO a b=1\n", "INFO a b=1\n"),
            (
                "WARN bad\n2025-11-28 INFO gate approved\n",
                "WARN bad\\n2025-11-28 INFO gate approved\n",
            ),
            ("a\r\nb\n\n", "a\\r\\nb\\n\n"),
            ("a\u{2028}b\u{85}c\n", "a\\u{2028}b\\u{85}c\n"),
            ("no end", "no end\n"),
        ] {
            assert_eq!(one_line(text), want);
        }
    }

    #[test]
    fn formats_and_levels_are_checked() {
        assert_eq!("json".parse(), Ok(LogFormat::Json));
        assert_eq!("argocd".parse(), Ok(LogFormat::ArgoCd));
        assert_eq!("JSON".parse(), Ok(LogFormat::Json));
        assert_eq!(
            "XML".parse::<LogFormat>().unwrap_err().to_string(),
            "log format: \"XML\" is none of text, json, argocd"
        );
        for level in ["debug", "WARN", "off", "info,wavegate=debug", "wavegate[reconcile]=trace"] {
            assert_eq!(check_level(level), Ok(()), "{level}");
        }
        let typo = check_level("inof").unwrap_err().to_string();
        assert!(typo.contains("\"inof\" is not one of") && typo.contains("no level"), "{typo}");
        let wrong = init_logging(LogFormat::Text, "wavegate=loud").unwrap_err();
        assert!(
            wrong.to_string().starts_with("log level: \"wavegate=loud\" is not one of"),
            "{wrong}"
        );
        assert_eq!(init_logging(LogFormat::Text, "warn"), Ok(()));
        assert_eq!(
            init_logging(LogFormat::Json, "info"),
            Ok(()),
            "only the first call has an effect"
        );
    }
}
