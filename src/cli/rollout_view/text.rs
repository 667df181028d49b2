//! Coloured text, independent of the terminal's support for colours.

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
pub(in crate::cli) struct Line {
    pieces: Vec<(Style, String)>,
}

impl Line {
    /// A line with a single text.
    pub fn of(style: Style, text: impl AsRef<str>) -> Self {
        Self::default().and(style, text)
    }

    /// Appends a text. Control characters, which could move the cursor, are replaced.
    #[must_use]
    pub fn and(mut self, style: Style, text: impl AsRef<str>) -> Self {
        let text = text.as_ref();
        let clean = text.chars().map(|c| match c {
            '\n' | '\t' => ' ',
            c if c.is_control()
                || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') =>
            {
                '\u{fffd}'
            }
            c => c,
        });
        self.pieces.push((style, clean.collect()));
        self
    }

    /// The number of columns, counting each character as one.
    pub fn width(&self) -> usize {
        self.pieces.iter().map(|(_, text)| text.chars().count()).sum()
    }

    /// Truncates the line to a width, with an ellipsis.
    #[must_use]
    pub fn cut(self, width: usize) -> Self {
        if self.width() <= width {
            return self;
        }
        let mut left = width;
        let mut pieces = Vec::new();
        for (style, text) in self.pieces {
            let size = text.chars().count();
            if size < left {
                left -= size;
                pieces.push((style, text));
            } else {
                pieces.push((style, ellipsis(&text, left, true)));
                break;
            }
        }
        Self { pieces }
    }

    /// The text without styles.
    pub fn plain(&self) -> String {
        self.pieces.iter().map(|(_, text)| text.as_str()).collect::<String>().trim_end().to_owned()
    }

    /// The text with escape codes.
    pub fn coloured(&self) -> String {
        let mut out = String::new();
        for (style, text) in &self.pieces {
            match style.code() {
                // Spaces have no colour, and are trimmed at the end.
                Some(_) | None if text.trim().is_empty() => out.push_str(text),
                Some(code) => out.extend(["\u{1b}[", code, "m", text, "\u{1b}[0m"]),
                None => out.push_str(text),
            }
        }
        out.truncate(out.trim_end().len());
        out
    }

    /// The text with or without colours.
    pub fn show(&self, colour: bool) -> String {
        if colour { self.coloured() } else { self.plain() }
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

/// A text in at most `width` columns; `always` adds an ellipsis even when it fits, since
/// later text is omitted.
pub(in crate::cli) fn ellipsis(text: &str, width: usize, always: bool) -> String {
    if text.chars().count() <= width && !always {
        return text.to_owned();
    }
    let mut cut: String = text.chars().take(width.saturating_sub(1)).collect();
    if width > 0 {
        cut.push('…');
    }
    cut
}

/// A number with a noun: `1 Application`, `2 Applications`.
pub(in crate::cli) fn count(number: usize, thing: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {thing}{plural}")
}

/// Pads or truncates a text to exactly `width` columns.
pub(in crate::cli) fn cell(text: &str, width: usize) -> String {
    format!("{:<width$}", ellipsis(text, width, false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_to_its_width_and_keeps_its_colours() {
        let line =
            Line::of(Style::Green, "✔").and(Style::Plain, " prod-eu ").and(Style::Dim, "waits");
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
        assert_eq!(line.clone().cut(3).coloured(), "\u{1b}[32m✔\u{1b}[0m …");
    }

    #[test]
    fn control_characters_are_replaced() {
        let line = Line::of(Style::Plain, "a\u{1b}[2Jb\nc\u{202e}d");
        assert_eq!(line.show(true), "a\u{fffd}[2Jb c\u{fffd}d");
    }
}
