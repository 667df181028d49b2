//! Standard output: tables, JSON, YAML.

use std::fmt::Write as _;
use std::io::{ErrorKind, IsTerminal, Write};
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use tokio::time::Instant;
use unicode_width::UnicodeWidthStr;

use crate::cli::console::error::Error;
use gotime::age;
pub(in crate::cli) use wavegate_net::terminal::{printable_lines, printable_text};

use wavegate_api::yaml;
use wavegate_net::terminal;

/// Output format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(in crate::cli) enum OutputFormat {
    /// Table for humans
    #[default]
    Table,
    /// Indented JSON
    Json,
    /// YAML
    Yaml,
}

/// The option for the output format.
#[derive(Clone, Debug, clap::Args)]
pub(in crate::cli) struct OutputArgs {
    /// How to print the result
    #[arg(short = 'o', long = "output", value_enum, default_value_t, value_name = "FORMAT")]
    pub format: OutputFormat,
}

impl OutputArgs {
    /// Prints data in the given format; `table` creates the text output.
    pub fn print<T: Serialize>(
        &self,
        data: &T,
        table: impl FnOnce(&T) -> String,
    ) -> anyhow::Result<()> {
        Ok(print(&match self.format {
            // Data is printed unchanged; text output contains no credentials.
            OutputFormat::Table => wavegate_net::redact::redact_text(&table(data)).into_owned(),
            OutputFormat::Json => json(data)?,
            OutputFormat::Yaml => yaml(&[serde_json::to_value(data)?])?,
        })?)
    }

    /// Checks that there are not several ApplicationSets where the format is for one.
    pub fn check_one_set(&self, what: &str, sets: &[&str]) -> Result<(), Error> {
        let ([first, second, ..], OutputFormat::Json | OutputFormat::Yaml) = (sets, self.format)
        else {
            return Ok(());
        };
        let why = format!(
            "contains {} ApplicationSets; select one by name, such as {first} or {second}",
            sets.len()
        );
        Err(Error::input(what, "-f", why))
    }

    /// Prints data, if it is asked for; its text was printed already, line by line.
    pub fn print_data<T: Serialize>(&self, data: &T) -> anyhow::Result<()> {
        match self.format {
            OutputFormat::Table => Ok(()),
            OutputFormat::Json | OutputFormat::Yaml => self.print(data, |_| String::new()),
        }
    }
}

/// Data as indented JSON with a newline at its end.
pub(in crate::cli) fn json<T: Serialize>(data: &T) -> anyhow::Result<String> {
    Ok(terminal::escape_json(&serde_json::to_string_pretty(data)?).into_owned() + "\n")
}

/// Data as YAML, one document for each value.
///
/// Plain YAML cannot escape control characters. A string that contains them is replaced
/// by a placeholder, which becomes a JSON string, since that is valid YAML.
pub(in crate::cli) fn yaml(values: &[Value]) -> anyhow::Result<String> {
    let text = yaml::to_string_all(values)?;
    if !text.chars().any(|c| c != '\n' && terminal::is_hostile(c)) {
        return Ok(text);
    }
    let mut mark = "wavegate".to_owned();
    while text.contains(&mark) {
        mark.push('x');
    }
    let mut hostile = Vec::new();
    let values: Vec<Value> =
        values.iter().map(|value| without_hostile(value, &mark, &mut hostile)).collect();
    let mut text = yaml::to_string_all(&values)?;
    for (index, string) in hostile.iter().enumerate() {
        let escaped = terminal::escape_json(&serde_json::to_string(string)?).into_owned();
        text = text.replace(&word(&mark, index), &escaped);
    }
    Ok(text)
}

fn word(mark: &str, index: usize) -> String {
    format!("{mark}n{index}n")
}

/// The text, or a placeholder for it.
fn safe(text: &str, mark: &str, hostile: &mut Vec<String>) -> String {
    if !text.chars().any(|c| !matches!(c, '\n' | '\t') && terminal::is_hostile(c)) {
        return text.to_owned();
    }
    hostile.push(text.to_owned());
    word(mark, hostile.len() - 1)
}

fn without_hostile(value: &Value, mark: &str, hostile: &mut Vec<String>) -> Value {
    match value {
        Value::String(text) => Value::String(safe(text, mark, hostile)),
        Value::Array(items) => {
            items.iter().map(|item| without_hostile(item, mark, hostile)).collect()
        }
        Value::Object(object) => {
            let mut out = serde_json::Map::new();
            for (key, value) in object {
                let key = safe(key, mark, hostile);
                out.insert(key, without_hostile(value, mark, hostile));
            }
            Value::Object(out)
        }
        other => other.clone(),
    }
}

/// Writes to standard output. A closed pipe is not an error.
pub(in crate::cli) fn print(text: &str) -> Result<(), Error> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Error::input("cannot write", "standard output", error))
        }
        _ => Ok(()),
    }
}

/// Prints lines, each with the time since a start.
pub(in crate::cli) fn print_progress(
    since: Instant,
    lines: impl IntoIterator<Item = String>,
) -> Result<(), Error> {
    let clock = elapsed(since.elapsed());
    let lines = lines.into_iter().map(|text| {
        let text = format!("{clock} {text}");
        line(&wavegate_net::redact::redact_text(&text))
    });
    print(&lines.collect::<String>())
}

/// A time since a start, in front of a line.
pub(in crate::cli) fn elapsed(time: Duration) -> String {
    format!("[{:>5.1}s]", time.as_secs_f64())
}

/// A text as one line without control characters, with its line break.
pub(in crate::cli) fn line(text: &str) -> String {
    printable_text(text) + "\n"
}

/// The space between two columns of a table.
const GAP: usize = 3;

/// Rows under a header, in columns; ends with a newline. Every cell is a single line.
/// Words for a state are coloured on a terminal.
pub(in crate::cli) fn table<const N: usize>(
    header: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    table_in(header, rows, colour())
}

/// Like [`table`], with or without colours.
pub(in crate::cli) fn table_in<const N: usize>(
    header: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
    colour: bool,
) -> String {
    let rows: Vec<[String; N]> =
        rows.into_iter().map(|row| row.map(|cell| printable_text(&cell))).collect();
    let mut widths = header.map(UnicodeWidthStr::width);
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.width());
        }
    }
    let mut out = String::new();
    let mut line = |cells: [&str; N], is_data: bool| {
        let last = cells.iter().rposition(|cell| !cell.trim_end().is_empty());
        for (at, cell) in cells.iter().enumerate().take(last.map_or(0, |last| last + 1)) {
            let cell = if Some(at) == last { cell.trim_end() } else { cell };
            match colour_of(header[at], cell).filter(|_| colour && is_data) {
                Some(code) => {
                    let _ = write!(out, "\u{1b}[{code}m{cell}\u{1b}[0m");
                }
                None => out.push_str(cell),
            }
            if Some(at) != last {
                // Measured without the colour.
                let padding = widths[at] + GAP - cell.width();
                out.extend(std::iter::repeat_n(' ', padding));
            }
        }
        out.push('\n');
    };
    line(header, false);
    for row in &rows {
        line(row.each_ref().map(String::as_str), true);
    }
    out
}

/// The colour of a state in a column that holds states: green for the end that users
/// waits for, yellow for what is under way, red for what needs a person.
fn colour_of(column: &str, word: &str) -> Option<&'static str> {
    const STATES: [&str; 5] = ["HEALTH", "SYNC", "PHASE", "STATUS", "STATE"];
    if !STATES.contains(&column) {
        return None;
    }
    Some(match word {
        "Healthy" | "Synced" | "Succeeded" | "Complete" | "Pruned" => "32",
        "Progressing" | "Pending" | "Running" | "OutOfSync" | "Missing" | "Suspended"
        | "Terminating" | "Rolling" | "Deleting" => "33",
        "Degraded" | "Failed" | "Error" | "SyncFailed" | "PruneFailed" => "31",
        "Waiting" | "Unknown" => "2",
        _ => return None,
    })
}

/// How long ago a time in RFC 3339 was, as `kubectl get` prints it; a dash for none.
pub(in crate::cli) fn age(time: &str, now: Timestamp) -> String {
    if time.is_empty() { "-".to_owned() } else { age::age_since(time, now) }
}

/// How long a time in RFC 3339 is ahead; a dash for none.
pub(in crate::cli) fn ahead(time: &str, now: Timestamp) -> String {
    let Ok(time) = time.parse::<Timestamp>() else { return or_dash(time) };
    human(time.as_second() - now.as_second())
}

/// A number of seconds as `kubectl get` prints ages.
pub(in crate::cli) fn human(seconds: i64) -> String {
    age::human_duration(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
}

/// Whether standard output may be coloured: it is a terminal and `NO_COLOR` is not set.
pub(in crate::cli) fn colour() -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    std::io::stdout().is_terminal() && !is_set("NO_COLOR") && !dumb
}

/// A cell for a text that may be empty.
pub(in crate::cli) fn or_dash(text: &str) -> String {
    if text.is_empty() { "-".to_owned() } else { text.to_owned() }
}
