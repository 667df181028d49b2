//! Standard output: tables, JSON, YAML.

use std::io::{ErrorKind, IsTerminal, Write};

use comfy_table::Table;
use comfy_table::presets::NOTHING;
use serde::Serialize;
use serde_json::Value;

use super::error::Error;
pub(super) use crate::terminal::{printable, printable_lines};
use crate::{terminal, yaml};

/// Output format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
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
pub(super) struct Output {
    /// How to print the result
    #[arg(short = 'o', long = "output", value_enum, default_value_t, value_name = "FORMAT")]
    pub format: Format,
}

impl Output {
    /// Prints data in the given format; `table` creates the text output.
    pub fn print<T: Serialize>(
        &self,
        data: &T,
        table: impl FnOnce(&T) -> String,
    ) -> anyhow::Result<()> {
        print(&match self.format {
            // Data is printed unchanged; text output contains no credentials.
            Format::Table => crate::redact::text(&table(data)).into_owned(),
            Format::Json => json(data)?,
            Format::Yaml => yaml(&[serde_json::to_value(data)?])?,
        })
    }
}

/// Data as indented JSON with a newline at its end.
pub(super) fn json<T: Serialize>(data: &T) -> anyhow::Result<String> {
    Ok(terminal::json(&serde_json::to_string_pretty(data)?).into_owned() + "\n")
}

/// Data as YAML, one document for each value.
///
/// Plain YAML cannot escape control characters. A string that contains them is replaced
/// by a placeholder, which becomes a JSON string, since that is valid YAML.
pub(super) fn yaml(values: &[Value]) -> anyhow::Result<String> {
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
        let escaped = terminal::json(&serde_json::to_string(string)?).into_owned();
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
pub(super) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Error::input("cannot write", "standard output", error).into())
        }
        _ => Ok(()),
    }
}

/// Rows under a header, in columns; ends with a newline. Every cell is a single line.
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

/// Whether standard output may be coloured: it is a terminal and `NO_COLOR` is not set.
pub(super) fn colour() -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    std::io::stdout().is_terminal() && !is_set("NO_COLOR") && !dumb
}

/// The first names and the number of the others.
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
