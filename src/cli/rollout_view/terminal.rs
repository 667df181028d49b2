//! Draws a screen in place, without flicker.
//!
//! It uses the alternate screen of the terminal, as `top` and `less` do: nothing of it is
//! in the scrollback, whatever the size of the window becomes, and the previous content
//! returns at the end. The previous lines are overwritten and not cleared first; terminals
//! with support for synchronized output show each screen at once.

use std::io::{self, Write};

use nix::unistd::{getpgrp, getppid, getsid, tcgetpgrp};
use rustix::termios::tcgetwinsize;

use super::text::StyledLine;

/// Starts a synchronized update without automatic line breaks, at the top.
const BEGIN: &str = "\u{1b}[?2026h\u{1b}[?7l\u{1b}[H";
const END: &str = "\u{1b}[?7h\u{1b}[?2026l";
/// The terminal begins another line after a full one, until it does not.
const WRAP: &str = "\u{1b}[?7h";
const NO_WRAP: &str = "\u{1b}[?7l";
/// Shows the alternate screen, hides the cursor.
const ENTER: &str = "\u{1b}[?1049h\u{1b}[?25l\u{1b}[2J";
/// Shows the cursor, and the main screen again.
const LEAVE: &str = "\u{1b}[?25h\u{1b}[?1049l";
/// Erases from the cursor to the end of its line, and of the screen.
const ERASE_LINE: &str = "\u{1b}[K";
const ERASE_REST: &str = "\u{1b}[J";

/// A terminal with lines drawn on its alternate screen. Dropping it restores the terminal.
#[derive(Debug)]
pub(in crate::cli) struct Terminal<W: Write> {
    out: W,
    colour: bool,
    /// The lines and the size of the last drawing; `None` when the main screen is shown.
    drawn: Option<(Vec<StyledLine>, (usize, usize))>,
}

impl<W: Write> Terminal<W> {
    /// A terminal without drawn lines.
    pub fn new(out: W, colour: bool) -> Self {
        Self { out, colour, drawn: None }
    }

    /// Draws the lines, if they or the size (columns, rows) changed. Lines that do not fit
    /// are omitted; no line may be wider than the screen.
    ///
    /// # Errors
    ///
    /// Like all functions here: the terminal is closed.
    pub fn draw(&mut self, lines: Vec<StyledLine>, size: (usize, usize)) -> io::Result<()> {
        let is_same =
            |(drawn, of): &(Vec<StyledLine>, (usize, usize))| *of == size && *drawn == lines;
        if self.drawn.as_ref().is_some_and(is_same) {
            return Ok(());
        }
        let mut text = String::new();
        match &self.drawn {
            None => text.push_str(ENTER),
            // The terminal may have moved or wrapped the previous lines.
            Some((_, drawn)) if *drawn != size => text.push_str("\u{1b}[2J"),
            Some(_) => {}
        }
        text.push_str(BEGIN);
        let (columns, rows) = size;
        let mut wraps = false;
        for (row, line) in lines.iter().take(rows).enumerate() {
            // Without a line break after the last row, which would scroll; and where the terminal
            // itself goes on in the next row, so that both are copied as one line.
            if row > 0 && !wraps {
                text.push_str("\r\n");
            }
            let continues = line.is_continued() && row + 1 < rows.min(lines.len());
            if continues && !wraps {
                text.push_str(WRAP);
            }
            text.push_str(&line.drawn(self.colour));
            if wraps && !continues {
                text.push_str(NO_WRAP);
            }
            wraps = continues;
            // After a full line the cursor is still on its last character.
            if line.width() < columns {
                text.push_str(ERASE_LINE);
            }
        }
        if lines.len() < rows {
            text.push_str("\r\n");
            text.push_str(ERASE_REST);
        }
        text.push_str(END);
        self.drawn = Some((lines, size));
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }

    /// Shows the main screen and the cursor, as at the end and while the program is
    /// stopped. The next drawing returns to the alternate screen.
    pub fn leave(&mut self) -> io::Result<()> {
        if self.drawn.take().is_none() {
            return Ok(());
        }
        self.out.write_all(LEAVE.as_bytes())?;
        self.out.flush()
    }
}

impl<W: Write> Drop for Terminal<W> {
    fn drop(&mut self) {
        // Errors of a closed terminal are ignored.
        let _ = self.leave();
    }
}

/// Lets a panic of the main thread, which ends the program, be reported on the main screen:
/// the alternate one is gone before anybody could read it.
pub(super) fn leave_on_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if std::thread::current().name() == Some("main") {
            // Errors of a closed terminal are ignored.
            let _ = io::stdout().write_all(LEAVE.as_bytes());
            let _ = io::stdout().flush();
        }
        report(panic);
    }));
}

/// Columns and rows of standard output; otherwise of the environment, or 80 by 24.
pub(in crate::cli) fn size() -> (usize, usize) {
    let variable = |name: &str| std::env::var(name).ok()?.parse().ok();
    let reported = tcgetwinsize(io::stdout()).ok();
    let pick = |reported: Option<u16>, name: &str, default: usize| {
        let reported = reported.map(usize::from).filter(|size| *size > 0);
        // As large as the size that a terminal can report.
        let largest = usize::from(u16::MAX);
        reported.or_else(|| variable(name)).unwrap_or(default).clamp(1, largest)
    };
    (
        pick(reported.map(|size| size.ws_col), "COLUMNS", 80),
        pick(reported.map(|size| size.ws_row), "LINES", 24),
    )
}

/// Whether the terminal can draw a screen: it has a type, and not the one without control
/// sequences.
pub(in crate::cli) fn can_draw() -> bool {
    std::env::var_os("TERM").is_some_and(|term| !term.is_empty() && term != "dumb")
}

/// Whether the terminal belongs to this process: not to a shell that runs it in the
/// background. Without job control it does.
pub(super) fn is_in_foreground() -> bool {
    tcgetpgrp(io::stdout()).map_or(true, |group| group == getpgrp())
}

/// Whether somebody can continue this process after a stop: a shell with job control is
/// its parent. The leader of a session, such as the only program of a window or of
/// a container, would be stopped for ever.
pub(super) fn can_stop() -> bool {
    let parent = getppid();
    // In a container the parent may be outside, and has the number 0.
    parent.as_raw() != 0
        && getsid(None).is_ok_and(|session| getsid(Some(parent)).is_ok_and(|of| of == session))
}

#[cfg(test)]
mod tests {
    use super::super::text::Style;
    use super::*;

    fn lines(texts: &[&str]) -> Vec<StyledLine> {
        texts.iter().map(|text| StyledLine::of(Style::Plain, text)).collect()
    }

    #[test]
    fn only_changes_are_written_and_the_terminal_is_restored() {
        let mut out = Vec::new();
        let mut terminal = Terminal::new(&mut out, false);
        terminal.draw(lines(&["a", "b"]), (80, 24)).unwrap();
        terminal.draw(lines(&["a", "b"]), (80, 24)).unwrap();
        terminal.draw(lines(&["c"]), (80, 24)).unwrap();
        terminal.draw(lines(&["c"]), (40, 24)).unwrap();
        drop(terminal);
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.matches(BEGIN).count(), 3, "unchanged lines are not written");
        assert!(text.starts_with(ENTER) && text.matches(ENTER).count() == 1, "{text:?}");
        assert!(text.contains("a\u{1b}[K\r\nb\u{1b}[K\r\n\u{1b}[J"), "{text:?}");
        assert!(text.contains("\u{1b}[Hc\u{1b}[K\r\n\u{1b}[J"), "{text:?}");
        assert_eq!(text.matches("\u{1b}[2J").count(), 2, "after a change of size: {text:?}");
        assert!(text.ends_with(LEAVE), "{text:?}");
    }

    #[test]
    fn full_lines_are_not_erased_and_a_full_screen_does_not_scroll() {
        let mut out = Vec::new();
        let mut terminal = Terminal::new(&mut out, false);
        terminal.draw(lines(&["abcd", "efgh", "lost"]), (4, 2)).unwrap();
        terminal.leave().unwrap();
        terminal.leave().unwrap();
        drop(terminal);
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, format!("{ENTER}{BEGIN}abcd\r\nefgh{END}{LEAVE}"));
    }

    /// A command to copy was in two lines in 80 columns, and its first half ran by itself.
    #[test]
    fn the_terminal_wraps_a_text_that_is_copied_as_one_line() {
        let drawn = |rows: usize| {
            let mut all = lines(&["a", "cd e", "fgh ", "i", "b"]);
            for line in &mut all[1..3] {
                *line = line.clone().continued();
            }
            let mut out = Vec::new();
            let mut terminal = Terminal::new(&mut out, false);
            terminal.draw(all, (4, rows)).unwrap();
            terminal.leave().unwrap();
            drop(terminal);
            String::from_utf8(out).unwrap()
        };
        let begin = format!("{ENTER}{BEGIN}a{ERASE_LINE}\r\n{WRAP}cd efgh ");
        let rest = format!("i{NO_WRAP}{ERASE_LINE}\r\nb{ERASE_LINE}{END}{LEAVE}");
        assert_eq!(drawn(5), format!("{begin}{rest}"));
        // The rest does not fit: nothing is written below the last row.
        assert_eq!(drawn(3), format!("{begin}{NO_WRAP}{END}{LEAVE}"));
    }
}
