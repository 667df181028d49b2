//! What was measured, as one table: a column per program, and the target.

use std::fmt::Write as _;

/// One line. Values are numbers in the unit, by column.
struct Row {
    case: String,
    what: String,
    unit: &'static str,
    values: Vec<Option<f64>>,
    target: Option<f64>,
}

/// The table of all programs.
#[derive(Default)]
pub struct Table {
    columns: Vec<String>,
    rows: Vec<Row>,
}

impl Table {
    /// What comes now is about this program.
    pub fn begin(&mut self, column: &str) {
        self.columns.push(column.to_owned());
    }

    /// Adds a value of the current program, and prints it at once, since the
    /// whole table takes long. `target` is the most that it should be.
    pub fn add(
        &mut self,
        case: &str,
        what: &str,
        unit: &'static str,
        value: f64,
        target: Option<f64>,
    ) {
        eprintln!("  {case}: {what}: {} {unit}", number(value));
        let row = self.rows.iter().position(|row| row.case == case && row.what == what);
        let row = row.unwrap_or_else(|| {
            let (case, what) = (case.to_owned(), what.to_owned());
            self.rows.push(Row { case, what, unit, values: Vec::new(), target });
            self.rows.len() - 1
        });
        let values = &mut self.rows[row].values;
        values.resize(self.columns.len() - 1, None);
        values.push(Some(value));
    }

    /// In Markdown. With two programs the last column is how much the last one
    /// takes of what the first one takes.
    pub fn print(&self) -> String {
        let compared = self.columns.len() > 1;
        let mut heads = vec!["case", "measured", "unit"];
        heads.extend(self.columns.iter().map(String::as_str));
        heads.extend(compared.then_some("ratio"));
        heads.push("target");
        let mut text = format!("| {} |\n|{}\n", heads.join(" | "), "---|".repeat(heads.len()));
        let mut last = "";
        for row in &self.rows {
            let case = if row.case == last { "" } else { row.case.as_str() };
            last = &row.case;
            let value = |at: usize| row.values.get(at).copied().flatten();
            let shown = |value: Option<f64>| value.map_or("-".to_owned(), number);
            let _ = write!(text, "| {case} | {} | {} |", row.what, row.unit);
            for column in 0..self.columns.len() {
                let _ = write!(text, " {} |", shown(value(column)));
            }
            if compared {
                let pair = value(0).zip(value(self.columns.len() - 1));
                let ratio =
                    pair.filter(|(first, _)| *first > 0.0).map(|(first, last)| last / first);
                let _ = write!(text, " {} |", shown(ratio));
            }
            let target = row.target.map_or(String::new(), |target| format!("≤ {}", number(target)));
            let _ = writeln!(text, " {target} |");
        }
        text
    }
}

/// Three digits that count.
fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 || size == size.trunc() => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.1 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}
