//! What goes to standard output: tables, JSON, YAML.

use std::fmt::Write as _;
use std::io::{ErrorKind, IsTerminal, Write};

use comfy_table::Table;
use comfy_table::presets::NOTHING;
use serde::Serialize;

use super::error::Error;
use crate::yaml;

/// How data is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    /// For people
    #[default]
    Table,
    /// JSON, indented
    Json,
    /// YAML
    Yaml,
}

/// The option that chooses the format.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Output {
    /// How to print the result
    #[arg(short = 'o', long = "output", value_enum, default_value_t, value_name = "FORMAT")]
    pub format: Format,
}

impl Output {
    /// Prints data in the chosen format; `table` makes the one for people.
    pub fn print<T: Serialize>(
        &self,
        data: &T,
        table: impl FnOnce(&T) -> String,
    ) -> anyhow::Result<()> {
        print(&match self.format {
            // Data is given as it is, people are shown no credentials.
            Format::Table => crate::redact::text(&table(data)).into_owned(),
            Format::Json => json(data)?,
            Format::Yaml => yaml::to_string(&serde_json::to_value(data)?)?,
        })
    }
}

/// Data as indented JSON with a newline at its end.
pub(super) fn json<T: Serialize>(data: &T) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(data)? + "\n")
}

/// Writes a text to standard output. A reader that has gone away has seen what
/// it wanted, and is no error.
pub(super) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Error::input("cannot write", "standard output", error).into())
        }
        _ => Ok(()),
    }
}

/// Rows under a header, in columns; ends with a newline. Cells stay on one line
/// each, whatever is in them.
pub(super) fn table<const N: usize>(
    header: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(header.to_vec());
    for row in rows {
        table.add_row(row.iter().map(|cell| printable(cell)).collect::<Vec<_>>());
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 3));
    }
    table.trim_fmt() + "\n"
}

/// A text on one line that cannot move the cursor: control characters and what
/// reorders text are written as escapes.
pub(super) fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if is_hostile(c) => {
                let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out
}

/// As [`printable`], for a text of several lines that may hold our own colours.
pub(super) fn printable_lines(text: &str, colour: bool) -> String {
    let keep = |c: char| c == '\n' || (c == '\u{1b}' && colour) || !is_hostile(c);
    if text.chars().all(keep) {
        return text.to_owned();
    }
    text.chars().map(|c| if keep(c) { c.to_string() } else { printable(&c.to_string()) }).collect()
}

fn is_hostile(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Whether standard output may be coloured: a terminal, and nobody asked for
/// none by `NO_COLOR`.
pub(super) fn colour() -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    std::io::stdout().is_terminal() && !is_set("NO_COLOR") && !dumb
}

/// The first names and how many follow, so that a line stays a line.
pub(super) fn some_of<'a>(names: impl IntoIterator<Item = &'a str>, most: usize) -> String {
    let names: Vec<&str> = names.into_iter().collect();
    let shown = names.iter().take(most).copied().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(most) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// A cell for a text that may be empty.
pub(super) fn or_dash(text: &str) -> String {
    if text.is_empty() { "-".to_owned() } else { text.to_owned() }
}
