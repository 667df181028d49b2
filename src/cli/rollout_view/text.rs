//! Coloured text, independent of the terminal's support for colours.
//!
//! Widths are columns of a terminal: East Asian characters and emoji take two, combining
//! characters none.

use unicode_width::UnicodeWidthChar;

use wavegate_net::terminal::is_hostile;

/// Most combining characters that are kept after a character. Scripts need up to three;
/// more would draw over the lines above and below.
const COMBINING: usize = 4;

/// Style of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Style {
    Plain,
    Bold,
    Dim,
    Green,
    Yellow,
    Red,
    Cyan,
}

/// A line of styled texts without line breaks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::cli) struct StyledLine {
    pieces: Vec<(Style, String)>,
    is_continued: bool,
}

impl StyledLine {
    /// A line with a single text.
    pub fn of(style: Style, text: impl AsRef<str>) -> Self {
        Self::default().and(style, text)
    }

    /// Appends a text, without credentials: before anything is cut, which could hide that it
    /// is one. Characters that could move the cursor or reorder the text are replaced.
    #[must_use]
    pub fn and(mut self, style: Style, text: impl AsRef<str>) -> Self {
        let mut combining = 0;
        let text = wavegate_net::redact::redact_text(text.as_ref());
        let clean = text.chars().filter_map(|c| {
            combining = if columns(c) == 0 && !is_hostile(c) { combining + 1 } else { 0 };
            match c {
                '\n' | '\t' => Some(' '),
                c if is_hostile(c) => Some('\u{fffd}'),
                c => (combining <= COMBINING).then_some(c),
            }
        });
        self.pieces.push((style, clean.collect()));
        self
    }

    /// The same as a full line of a text that the next line continues: both are copied as one.
    #[must_use]
    pub fn continued(self) -> Self {
        Self { is_continued: true, ..self }
    }

    /// Whether the next line continues its text.
    pub fn is_continued(&self) -> bool {
        self.is_continued
    }

    /// Appends another line.
    #[must_use]
    pub fn followed_by(mut self, other: Self) -> Self {
        self.pieces.extend(other.pieces);
        self
    }

    /// The number of columns.
    pub fn width(&self) -> usize {
        self.pieces.iter().map(|(_, text)| width(text)).sum()
    }

    /// Truncates the line to a width, with an ellipsis.
    #[must_use]
    pub fn cut(self, columns: usize) -> Self {
        if self.width() <= columns {
            return self;
        }
        let mut left = columns;
        let mut pieces = Vec::new();
        for (style, text) in self.pieces {
            let size = width(&text);
            if size < left {
                left -= size;
                pieces.push((style, text));
            } else {
                pieces.push((style, ellipsis(&text, left, true)));
                break;
            }
        }
        Self { pieces, is_continued: false }
    }

    /// Truncates the line to a width in its middle, in the style of its beginning.
    #[must_use]
    pub fn cut_within(self, columns: usize) -> Self {
        if self.width() <= columns {
            return self;
        }
        let style = self.pieces.first().map_or(Style::Plain, |(style, _)| *style);
        let text: String = self.pieces.into_iter().map(|(_, text)| text).collect();
        Self::of(style, middle(&text, columns))
    }

    /// The line in up to `most` lines of a width, broken between words; the last one is cut.
    pub fn wrapped(self, columns: usize, most: usize) -> Vec<Self> {
        let (mut lines, mut rest) = (Vec::new(), self);
        while columns > 0 && lines.len() + 1 < most && rest.width() > columns {
            let text: String = rest.pieces.iter().map(|(_, text)| text.as_str()).collect();
            let end = break_of(&text, columns);
            let line = text[..end].trim_end().len();
            let after = text.len() - text[end..].trim_start().len();
            lines.push(rest.part(0, line));
            rest = rest.part(after, text.len());
        }
        if lines.is_empty() || rest.width() > 0 {
            lines.push(rest.cut(columns));
        }
        lines
    }

    /// The part from one byte to another one of its text.
    fn part(&self, start: usize, end: usize) -> Self {
        let mut at = 0;
        let mut pieces = Vec::new();
        for (style, text) in &self.pieces {
            let within = |byte: usize| byte.saturating_sub(at).min(text.len());
            let part = &text[within(start)..within(end)];
            at += text.len();
            if !part.is_empty() {
                pieces.push((*style, part.to_owned()));
            }
        }
        Self { pieces, is_continued: false }
    }

    /// The text without styles.
    pub fn plain(&self) -> String {
        self.pieces.iter().map(|(_, text)| text.as_str()).collect::<String>().trim_end().to_owned()
    }

    /// The text with or without colours.
    pub fn show(&self, colour: bool) -> String {
        if colour { self.escaped(true, false) } else { self.plain() }
    }

    /// The text for a line of a screen that starts in the first column. Terminals differ in
    /// the width of characters beyond ASCII, so what follows one is put into its column.
    pub fn drawn(&self, colour: bool) -> String {
        self.escaped(colour, true)
    }

    fn escaped(&self, colour: bool, is_placed: bool) -> String {
        let mut out = String::new();
        let (mut column, mut is_sure) = (0, true);
        for (style, text) in &self.pieces {
            if is_placed && !is_sure && !text.is_empty() {
                out.push_str(&format!("\u{1b}[{}G", column + 1));
                is_sure = true;
            }
            match style.code().filter(|_| colour) {
                // Spaces have no colour, and are trimmed at the end.
                Some(_) | None if text.trim().is_empty() => out.push_str(text),
                Some(code) => out.extend(["\u{1b}[", code, "m", text, "\u{1b}[0m"]),
                None => out.push_str(text),
            }
            column += width(text);
            is_sure &= text.is_ascii();
        }
        if !self.is_continued {
            out.truncate(out.trim_end().len());
        }
        out
    }
}

impl Style {
    fn code(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Bold => Some("1"),
            Self::Dim => Some("2"),
            Self::Green => Some("32"),
            Self::Yellow => Some("33"),
            Self::Red => Some("31"),
            Self::Cyan => Some("36"),
        }
    }
}

/// Where a text is broken that is wider than the columns: before a word, or within one that is
/// longer than a line.
fn break_of(text: &str, columns: usize) -> usize {
    let mut used = 0;
    let fits = text.char_indices().take_while(|(_, c)| {
        used += self::columns(*c);
        used <= columns
    });
    // At least one character, so that it ends.
    let first = text.chars().next().map_or(0, char::len_utf8);
    let end = fits.last().map_or(first, |(at, c)| at + c.len_utf8());
    let is_between = text[end..].starts_with(' ') || text[..end].ends_with(' ');
    text[..end].rfind(' ').filter(|blank| *blank > 0 && !is_between).unwrap_or(end)
}

/// The number of columns of a character; 0 for a combining one.
fn columns(c: char) -> usize {
    c.width().unwrap_or_default()
}

/// The number of columns of a text.
pub(in crate::cli) fn width(text: &str) -> usize {
    text.chars().map(columns).sum()
}

/// A text in at most `width` columns; `always` adds an ellipsis even when it fits, since
/// later text is omitted.
pub(in crate::cli) fn ellipsis(text: &str, columns: usize, always: bool) -> String {
    if width(text) <= columns && !always {
        return text.to_owned();
    }
    if columns == 0 {
        return String::new();
    }
    let (mut cut, mut used) = (String::new(), 1);
    for c in text.chars() {
        used += self::columns(c);
        if used > columns {
            break;
        }
        cut.push(c);
    }
    cut.push('…');
    cut
}

/// A text in at most `columns` columns, with an ellipsis in its middle when it is longer: names
/// often begin alike.
pub(in crate::cli) fn middle(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let tail = columns.saturating_sub(1) / 2;
    let mut used = 0;
    let fits = text.char_indices().rev().take_while(|(_, c)| {
        used += self::columns(*c);
        used <= tail
    });
    let from = fits.last().map_or(text.len(), |(at, _)| at);
    // Without what combines with a character that is cut off.
    let end = text[from..].trim_start_matches(|c| self::columns(c) == 0);
    ellipsis(text, columns - tail, true) + end
}

/// With a capital letter at the beginning.
pub(in crate::cli) fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

/// A number with a noun: `1 Application`, `2 Applications`.
pub(in crate::cli) fn count(number: usize, thing: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {thing}{plural}")
}

/// Pads or truncates a text to exactly `width` columns.
pub(in crate::cli) fn cell(text: &str, width: usize) -> String {
    padded(&ellipsis(text, width, false), width)
}

/// Pads a text to at least `width` columns.
pub(in crate::cli) fn padded(text: &str, width: usize) -> String {
    let missing = width.saturating_sub(self::width(text));
    format!("{text}{:missing$}", "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_cut_in_its_middle() {
        for (columns, want) in [
            (30, "payments-staging-eu"),
            (19, "payments-staging-eu"),
            (18, "payments-…aging-eu"),
            (5, "pa…eu"),
            (4, "pa…u"),
            (2, "p…"),
            (1, "…"),
            (0, ""),
        ] {
            assert_eq!(middle("payments-staging-eu", columns), want, "{columns}");
            assert!(width(want) <= columns);
        }
        assert_eq!(middle("日本語の名前", 8), "日本…前");
        assert_eq!(middle("az\u{301}\u{301}bcz\u{301}\u{301}", 3), "a…z\u{301}\u{301}");
        let line =
            StyledLine::of(Style::Yellow, "  gate ").and(Style::Plain, "qa-approval-of-people");
        let cut = line.cut_within(18);
        assert_eq!(cut.plain(), "  gate qa…f-people");
    }

    #[test]
    fn a_line_is_cut_to_its_width_and_keeps_its_colours() {
        let line = StyledLine::of(Style::Green, "✔")
            .and(Style::Plain, " prod-eu ")
            .and(Style::Dim, "waits");
        let cases = [
            (15, "✔ prod-eu waits"),
            (14, "✔ prod-eu wai…"),
            (11, "✔ prod-eu …"),
            (1, "…"),
            (0, ""),
        ];
        for (width, want) in cases {
            assert_eq!(line.clone().cut(width).plain(), want, "{width}");
        }
        assert_eq!(line.clone().cut(3).show(true), "\u{1b}[32m✔\u{1b}[0m …");
    }

    #[test]
    fn a_line_is_wrapped_between_words_and_keeps_its_colours() {
        let line = StyledLine::of(Style::Green, "Rollout complete")
            .and(Style::Plain, " after 22 s: 12 Applications, averylongword 日本語");
        let wrapped = |columns, most| -> Vec<String> {
            line.clone().wrapped(columns, most).iter().map(StyledLine::plain).collect()
        };
        assert_eq!(wrapped(100, 9), [line.plain()]);
        assert_eq!(
            wrapped(24, 9),
            ["Rollout complete after", "22 s: 12 Applications,", "averylongword 日本語"]
        );
        assert_eq!(wrapped(24, 2), ["Rollout complete after", "22 s: 12 Applications, …"]);
        assert_eq!(
            wrapped(6, 99),
            [
                "Rollou",
                "t",
                "comple",
                "te",
                "after",
                "22 s:",
                "12",
                "Applic",
                "ations",
                ",",
                "averyl",
                "ongwor",
                "d",
                "日本語"
            ]
        );
        assert_eq!(wrapped(0, 9), [""]);
        let first = line.clone().wrapped(24, 9).remove(0);
        assert_eq!(first.show(true), "\u{1b}[32mRollout complete\u{1b}[0m after");
        assert_eq!(StyledLine::default().wrapped(10, 9), [StyledLine::default()]);
    }

    #[test]
    fn wide_and_combining_characters_count_in_columns() {
        assert_eq!(width("e\u{301}日本✔"), 6);
        assert_eq!(cell("日本語", 5), "日本…");
        assert_eq!(cell("日本語", 4), "日… ");
        assert_eq!(cell("日", 4), "日  ");
        assert_eq!(cell("e\u{301}x", 2), "e\u{301}x");
        assert_eq!(ellipsis("日", 1, false), "…");
        let line = StyledLine::of(Style::Plain, "日本").and(Style::Plain, "x");
        assert_eq!((line.width(), line.clone().cut(4).plain()), (5, "日…".to_owned()));
        assert_eq!(line.drawn(false), "日本\u{1b}[5Gx", "placed after a wide character");
        assert_eq!(StyledLine::of(Style::Plain, "a").and(Style::Plain, "b").drawn(true), "ab");
        let zalgo = format!("a{}b", "\u{301}".repeat(100));
        assert_eq!(StyledLine::of(Style::Plain, zalgo).plain().chars().count(), 2 + COMBINING);
    }

    #[test]
    fn control_characters_are_replaced() {
        let line = StyledLine::of(Style::Plain, "a\u{1b}[2Jb\nc\u{202e}d");
        assert_eq!(line.show(true), "a\u{fffd}[2Jb c\u{fffd}d");
    }
}
