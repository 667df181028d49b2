//! Draws pictures in place on a terminal, without flicker.
//!
//! The previous picture is overwritten line by line and never cleared first;
//! terminals that know how show each picture at once.

use std::io::{self, Write};

use rustix::termios::tcgetwinsize;

use super::text::Line;

const BEGIN: &str = "\u{1b}[?2026h\u{1b}[?7l";
const END: &str = "\u{1b}[?7h\u{1b}[?2026l";
const HIDE_CURSOR: &str = "\u{1b}[?25l";
const SHOW_CURSOR: &str = "\u{1b}[?25h";

/// A terminal with a picture at the bottom of what it shows.
#[derive(Debug)]
pub(super) struct Terminal<W: Write> {
    out: W,
    colour: bool,
    drawn: Vec<Line>,
    size: (usize, usize),
}

impl<W: Write> Terminal<W> {
    /// Nothing is drawn yet.
    pub fn new(out: W, colour: bool) -> Self {
        Self { out, colour, drawn: Vec::new(), size: (0, 0) }
    }

    /// Overwrites the picture, unless it is the same. The lines must be fewer
    /// than the terminal's.
    pub fn draw(&mut self, lines: Vec<Line>, size: (usize, usize)) -> io::Result<()> {
        let resized = size != self.size && !self.drawn.is_empty();
        if lines == self.drawn && !resized {
            return Ok(());
        }
        let mut text = String::from(BEGIN);
        if self.drawn.is_empty() {
            text.push_str(HIDE_CURSOR);
        } else if resized {
            // Where the old picture went is not known any more.
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
            // A terminal that is gone needs no cursor.
            let _ = self.out.write_all(SHOW_CURSOR.as_bytes()).and_then(|()| self.out.flush());
        }
    }
}

/// Columns and rows of standard output; what the environment says, or 80 by
/// 24, when it does not tell.
pub(super) fn size() -> (usize, usize) {
    let variable = |name: &str| std::env::var(name).ok()?.parse().ok();
    let told = tcgetwinsize(io::stdout()).ok();
    let pick = |told: Option<u16>, name: &str, default: usize| {
        let told = told.map(usize::from).filter(|size| *size > 0);
        told.or_else(|| variable(name)).unwrap_or(default)
    };
    (
        pick(told.map(|size| size.ws_col), "COLUMNS", 80),
        pick(told.map(|size| size.ws_row), "LINES", 24),
    )
}

#[cfg(test)]
mod tests {
    use super::super::text::Look;
    use super::*;

    fn lines(texts: &[&str]) -> Vec<Line> {
        texts.iter().map(|text| Line::of(Look::Plain, text)).collect()
    }

    #[test]
    fn only_changes_are_written_and_the_cursor_comes_back() {
        let mut out = Vec::new();
        let mut terminal = Terminal::new(&mut out, false);
        terminal.draw(lines(&["a", "b"]), (80, 24)).unwrap();
        terminal.draw(lines(&["a", "b"]), (80, 24)).unwrap();
        terminal.draw(lines(&["c"]), (80, 24)).unwrap();
        terminal.draw(lines(&["c"]), (40, 24)).unwrap();
        drop(terminal);
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.matches(BEGIN).count(), 3, "an unchanged picture costs nothing");
        assert!(text.contains("a\u{1b}[K\r\nb\u{1b}[K\r\n\u{1b}[J"), "{text:?}");
        assert!(text.contains("\u{1b}[2A\rc\u{1b}[K\r\n\u{1b}[J"), "{text:?}");
        assert!(text.contains("\u{1b}[2J\u{1b}[Hc"), "drawn anew after a change of size: {text:?}");
        assert!(text.ends_with(SHOW_CURSOR), "{text:?}");
    }
}
