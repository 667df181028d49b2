//! Writes the elements of an SVG document: all texts are escaped here, and nowhere else.

use crate::cli::rollout_view::text::{Style, StyledLine, ellipsis, middle, width};

/// The width of a column of a text of 12 px and of 11 px, in pixels. Fonts differ, so it is that
/// of a wide one.
pub(super) const TEXT: f64 = 7.3;
pub(super) const SMALL: f64 = 6.7;

/// Where the position of a text is within it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// A part of a document.
#[derive(Debug, Default)]
pub(super) struct Writer {
    out: String,
}

impl Writer {
    /// The document begins.
    pub fn root(&mut self, width: f64, height: f64, title: &str) {
        let (width, height) = (number(width), number(height));
        self.raw(&format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"wg\" width=\"{width}\" \
             height=\"{height}\" viewBox=\"0 0 {width} {height}\" role=\"img\">\n"
        ));
        self.title(title);
        self.raw("\n");
    }

    /// Text that is XML already.
    pub fn raw(&mut self, xml: &str) {
        self.out.push_str(xml);
    }

    pub fn append(&mut self, other: Self) {
        self.out.push_str(&other.out);
    }

    pub fn finish(self) -> String {
        self.out
    }

    pub fn open(&mut self, element: &str, class: &str) {
        self.raw(&format!("<{element} class=\"{class}\">"));
    }

    pub fn close(&mut self, element: &str) {
        self.raw(&format!("</{element}>\n"));
    }

    /// What a reader shows for the element that it is in.
    pub fn title(&mut self, text: &str) {
        self.raw("<title>");
        self.escaped(text);
        self.raw("</title>");
    }

    pub fn rect(&mut self, class: &str, x: f64, y: f64, width: f64, height: f64) {
        self.raw(&format!("<rect {}/>\n", position(class, x, y, width, height)));
    }

    pub fn rounded(&mut self, class: &str, x: f64, y: f64, width: f64, height: f64, radius: f64) {
        let position = position(class, x, y, width, height);
        self.raw(&format!("<rect {position} rx=\"{}\"/>\n", number(radius)));
    }

    /// A rectangle with a tooltip.
    pub fn bar(&mut self, class: &str, x: f64, y: f64, size: (f64, f64), tooltip: &str) {
        self.raw(&format!("<rect {}>", position(class, x, y, size.0, size.1)));
        self.title(tooltip);
        self.raw("</rect>\n");
    }

    pub fn line(&mut self, class: &str, x1: f64, y1: f64, x2: f64, y2: f64) {
        let [x1, y1, x2, y2] = [x1, y1, x2, y2].map(number);
        let line = format!("x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\"");
        self.raw(&format!("<line class=\"{class}\" {line}/>\n"));
    }

    pub fn path(&mut self, class: &str, data: &str) {
        self.raw(&format!("<path class=\"{class}\" d=\"{data}\"/>"));
    }

    pub fn text(&mut self, x: f64, y: f64, class: &str, anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let (x, y) = (number(x), number(y));
        self.raw(&format!("<text class=\"{class}\" x=\"{x}\" y=\"{y}\"{anchor}>"));
        self.escaped(text);
        self.raw("</text>\n");
    }

    /// A text that is cut in its middle to a number of pixels, and shown as a whole by a tooltip then.
    pub fn fitted(&mut self, x: f64, y: f64, class: &str, text: &str, pixels: f64, column: f64) {
        let text = clean(text);
        let most = (pixels / column) as usize;
        if width(&text) <= most {
            return self.text(x, y, class, Anchor::Start, &text);
        }
        self.raw("<g>");
        self.title(&tooltip_of(&text));
        self.text(x, y, class, Anchor::Start, &middle(&text, most));
        self.close("g");
    }

    fn escaped(&mut self, text: &str) {
        for c in text.chars() {
            match c {
                '<' => self.out.push_str("&lt;"),
                '>' => self.out.push_str("&gt;"),
                '&' => self.out.push_str("&amp;"),
                '"' => self.out.push_str("&quot;"),
                '\n' => self.out.push('\n'),
                c if wavegate_net::terminal::is_hostile(c) || is_no_character(c) => {
                    self.out.push('\u{fffd}');
                }
                c => self.out.push(c),
            }
        }
    }
}

fn position(class: &str, x: f64, y: f64, width: f64, height: f64) -> String {
    let [x, y, width, height] = [x, y, width, height].map(number);
    format!("class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"")
}

/// Not allowed in XML, or reserved.
fn is_no_character(c: char) -> bool {
    u32::from(c) & 0xfffe == 0xfffe
}

/// A number with up to two digits after the point.
pub(super) fn number(number: f64) -> String {
    let text = format!("{number:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// A text in a single line, without credentials and without what reorders it.
pub(super) fn clean(text: &str) -> String {
    StyledLine::of(Style::Plain, text).plain()
}

/// A text in at most so many columns.
pub(super) fn cut(text: &str, columns: usize) -> String {
    ellipsis(&clean(text), columns, false)
}

/// A text in up to `most` lines.
pub(super) fn wrapped(text: &str, columns: usize, most: usize) -> Vec<String> {
    let lines = StyledLine::of(Style::Plain, text).wrapped(columns, most);
    lines.iter().map(StyledLine::plain).collect()
}

/// The columns of a text.
pub(super) fn columns(text: &str) -> f64 {
    width(text) as f64
}

/// Longest name within a tooltip: as long as that of an Application can be.
const TOOLTIP: usize = 253;

/// A text for a tooltip.
pub(super) fn tooltip_of(text: &str) -> String {
    cut(text, TOOLTIP)
}
