//! A screen as a picture: SVG with the columns, rows and colours of a terminal.

use std::fmt::Write as _;

use super::terminal::{Cell, Screen};

const CHARACTER: (f64, f64) = (8.4, 18.0);
const MARGIN: f64 = 14.0;
const BACKGROUND: &str = "#0d1117";
const TEXT: &str = "#d5dbe3";

/// The picture.
pub fn svg(screen: &Screen) -> String {
    let rows = screen.lines.iter().rposition(|line| !line.is_empty()).map_or(1, |row| row + 1);
    let width = screen.size.0 as f64 * CHARACTER.0 + 2.0 * MARGIN;
    let height = rows as f64 * CHARACTER.1 + 2.0 * MARGIN;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" aria-label=\"wavegate demo\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"6\" fill=\"{BACKGROUND}\"/>\n\
         <g font-family=\"ui-monospace, SFMono-Regular, Menlo, Consolas, monospace\" font-size=\"14\" \
         fill=\"{TEXT}\" xml:space=\"preserve\">\n"
    );
    for (row, cells) in screen.cells.iter().take(rows).enumerate() {
        let baseline = MARGIN + (row as f64 + 0.75) * CHARACTER.1;
        for (column, text, style) in runs(cells) {
            let x = MARGIN + column as f64 * CHARACTER.0;
            let length = text.chars().count() as f64 * CHARACTER.0;
            let text = text.replace('&', "&amp;").replace('<', "&lt;");
            let style = attributes(&style);
            // Writing to a string cannot fail.
            let _ = writeln!(
                out,
                "<text x=\"{x:.1}\" y=\"{baseline:.1}\" textLength=\"{length:.1}\"{style}>{text}</text>"
            );
        }
    }
    out.push_str("</g>\n</svg>\n");
    out
}

/// Texts of one style, with their columns. Spaces at their ends belong to none.
fn runs(cells: &[Cell]) -> Vec<(usize, String, Cell)> {
    let same =
        |a: &Cell, b: &Cell| (a.colour, a.is_bold, a.is_dim) == (b.colour, b.is_bold, b.is_dim);
    let mut runs: Vec<(usize, String, Cell)> = Vec::new();
    let mut is_open = false;
    let mut blanks = 0;
    for (column, cell) in cells.iter().enumerate().filter(|(_, cell)| cell.width > 0) {
        if cell.character == ' ' {
            blanks += 1;
            // Columns of a table are texts of their own.
            is_open &= blanks < 2;
            continue;
        }
        match runs.last_mut() {
            Some((_, text, style)) if is_open && same(style, cell) => {
                text.push_str(&" ".repeat(blanks));
                text.push(cell.character);
            }
            _ => runs.push((column, cell.character.to_string(), *cell)),
        }
        (is_open, blanks) = (true, 0);
    }
    runs
}

fn attributes(style: &Cell) -> String {
    let colour = match style.colour {
        Some(1) => Some("#ff7b72"),
        Some(2) => Some("#7ee787"),
        Some(3) => Some("#e3b341"),
        Some(6) => Some("#79c0ff"),
        _ => None,
    };
    let mut out = colour.map(|colour| format!(" fill=\"{colour}\"")).unwrap_or_default();
    if style.is_bold {
        out.push_str(" font-weight=\"bold\"");
    }
    if style.is_dim {
        out.push_str(" fill-opacity=\"0.6\"");
    }
    out
}
