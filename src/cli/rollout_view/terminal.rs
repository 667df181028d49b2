//! Draws the screen of the demo in place, without flicker.
//!
//! The previous lines are overwritten and not cleared first; terminals with support for
//! synchronized output show each screen at once.

use std::io::{self, Write};

use rustix::termios::tcgetwinsize;

use super::text::Line;

const BEGIN: &str = "\u{1b}[?2026h\u{1b}[?7l";
const END: &str = "\u{1b}[?7h\u{1b}[?2026l";
const HIDE_CURSOR: &str = "\u{1b}[?25l";
const SHOW_CURSOR: &str = "\u{1b}[?25h";

/// A terminal with lines drawn at its bottom.
#[derive(Debug)]
pub(in crate::cli) struct Terminal<W: Write> {
    out: W,
    colour: bool,
    drawn: Vec<Line>,
    size: (usize, usize),
}

impl<W: Write> Terminal<W> {
    /// A terminal without drawn lines.
    pub fn new(out: W, colour: bool) -> Self {
        Self { out, colour, drawn: Vec::new(), size: (0, 0) }
    }

    /// Overwrites the lines, if they changed. There must be fewer lines than the terminal has.
    pub fn draw(&mut self, lines: Vec<Line>, size: (usize, usize)) -> io::Result<()> {
        let resized = size != self.size && !self.drawn.is_empty();
        if lines == self.drawn && !resized {
            return Ok(());
        }
        let mut text = String::from(BEGIN);
        if self.drawn.is_empty() {
            text.push_str(HIDE_CURSOR);
        } else if resized {
            // The position of the previous lines is unknown.
            text.push_str("\u{1b}[2J\u{1b}[H");
        } else {
            text.push_str(&format!("\u{1b}[{}A\r", self.drawn.len()));
        }
        for line in &lines {
            text.push_str(&line.show(self.colour));
            text.push_str("\u{1b}[K\r\n");
        }
        text.push_str("\u{1b}[J");
        text.push_str(END);
        (self.drawn, self.size) = (lines, size);
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }
}

impl<W: Write> Drop for Terminal<W> {
    fn drop(&mut self) {
        if !self.drawn.is_empty() {
            // Errors of a closed terminal are ignored.
            let _ = self.out.write_all(SHOW_CURSOR.as_bytes()).and_then(|()| self.out.flush());
        }
    }
}

/// Columns and rows of standard output; otherwise of the environment, or 80 by 24.
pub(in crate::cli) fn size() -> (usize, usize) {
    let variable = |name: &str| std::env::var(name).ok()?.parse().ok();
    let reported = tcgetwinsize(io::stdout()).ok();
    let pick = |reported: Option<u16>, name: &str, default: usize| {
        let reported = reported.map(usize::from).filter(|size| *size > 0);
        reported.or_else(|| variable(name)).unwrap_or(default)
    };
    (
        pick(reported.map(|size| size.ws_col), "COLUMNS", 80),
        pick(reported.map(|size| size.ws_row), "LINES", 24),
    )
}

#[cfg(test)]
mod tests {
    use super::super::text::Style;
    use super::*;

    fn lines(texts: &[&str]) -> Vec<Line> {
        texts.iter().map(|text| Line::of(Style::Plain, text)).collect()
    }

    #[test]
    fn only_changes_are_written_and_the_cursor_is_restored() {
        let mut out = Vec::new();
        let mut terminal = Terminal::new(&mut out, false);
        terminal.draw(lines(&["a", "b"]), (80, 24)).unwrap();
        terminal.draw(lines(&["a", "b"]), (80, 24)).unwrap();
        terminal.draw(lines(&["c"]), (80, 24)).unwrap();
        terminal.draw(lines(&["c"]), (40, 24)).unwrap();
        drop(terminal);
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.matches(BEGIN).count(), 3, "unchanged lines are not written");
        assert!(text.contains("a\u{1b}[K\r\nb\u{1b}[K\r\n\u{1b}[J"), "{text:?}");
        assert!(text.contains("\u{1b}[2A\rc\u{1b}[K\r\n\u{1b}[J"), "{text:?}");
        assert!(
            text.contains("\u{1b}[2J\u{1b}[Hc"),
            "drawn again after a change of size: {text:?}"
        );
        assert!(text.ends_with(SHOW_CURSOR), "{text:?}");
    }
}
