//! Go's package `fmt`: how one value is written under a verb with its flags.

use super::fail::Outcome;
use super::float::format_float;
use super::run::Run;
use super::strconv;
use super::value::{UintKind, Value, valid_text};
use super::{layout, methods};

/// The flags between `%` and the verb.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flags {
    pub sharp: bool,
    pub zero: bool,
    pub plus: bool,
    pub minus: bool,
    pub space: bool,
    /// `%#v`
    pub sharp_v: bool,
    /// `%+v`
    pub plus_v: bool,
    pub width: Option<usize>,
    pub precision: Option<usize>,
}

/// Writes values to a buffer.
pub(super) struct Printer<'p, 'e> {
    pub run: &'p mut Run<'e>,
    pub out: Vec<u8>,
    pub flags: Flags,
    charged: usize,
}

impl<'p, 'e> Printer<'p, 'e> {
    pub fn new(run: &'p mut Run<'e>) -> Self {
        Self { run, out: Vec::new(), flags: Flags::default(), charged: 0 }
    }

    pub fn clear_flags(&mut self) {
        self.flags = Flags::default();
    }

    /// Accounts for what has been written since the last time.
    pub fn check_size(&mut self) -> Outcome<()> {
        let new = self.out.len() - self.charged;
        self.charged = self.out.len();
        self.run.check_len(self.out.len())?;
        self.run.charge(1 + new / 64)
    }

    fn put(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    /// Writes an argument.
    pub fn argument(&mut self, arg: &Value, verb: char) -> Outcome<()> {
        if arg.is_nil() {
            match verb {
                'T' | 'v' => self.pad(b"<nil>"),
                _ => self.bad_verb(arg, verb)?,
            }
            return Ok(());
        }
        if verb == 'T' {
            self.string(arg.type_name().as_bytes(), 's');
            return Ok(());
        }
        self.value(arg, verb, 0)
    }

    fn bad_verb(&mut self, arg: &Value, verb: char) -> Outcome<()> {
        self.put("%!");
        self.put(verb.encode_utf8(&mut [0; 4]));
        self.put("(");
        if arg.is_nil() {
            self.put("<nil>");
        } else {
            self.put(arg.type_name());
            self.put("=");
            self.value(arg, 'v', 0)?;
        }
        self.put(")");
        Ok(())
    }

    fn value(&mut self, value: &Value, verb: char, depth: usize) -> Outcome<()> {
        Run::check_depth(depth)?;
        self.check_size()?;
        if matches!(verb, 'v' | 's' | 'x' | 'X' | 'q')
            && !self.flags.sharp_v
            && let Some(text) = methods::display(value)
        {
            self.string(text.as_bytes(), verb);
            return Ok(());
        }
        match value {
            Value::Absent | Value::Nil => {
                self.put(if self.flags.sharp_v { "interface {}(nil)" } else { "<nil>" });
            }
            Value::Bool(b) => match verb {
                't' | 'v' => self.pad(if *b { b"true" } else { b"false" }),
                _ => self.bad_verb(value, verb)?,
            },
            Value::Int(_, n) => return self.integer(value, n.unsigned_abs(), *n < 0, true, verb),
            Value::Uint(_, n) => return self.integer(value, *n, false, false, verb),
            Value::Float(f) => return self.float_verb(value, *f, verb),
            Value::Complex(re, im) => return self.complex(value, *re, *im, verb),
            Value::Str(s) => match verb {
                'v' | 's' | 'x' | 'X' | 'q' => self.string(s.bytes(), verb),
                _ => self.bad_verb(value, verb)?,
            },
            Value::List(list) => {
                let open = if self.flags.sharp_v { "{" } else { "[" };
                if !self.opened(value, list.nil, open, verb)? {
                    return Ok(());
                }
                for (i, item) in list.items().iter().enumerate() {
                    self.separator(i);
                    self.value(item, verb, depth + 1)?;
                }
                self.put(if self.flags.sharp_v { "}" } else { "]" });
            }
            Value::Dict(dict) => {
                let open = if self.flags.sharp_v { "{" } else { "map[" };
                if !self.opened(value, dict.nil, open, verb)? {
                    return Ok(());
                }
                for (i, (key, item)) in self.run.entries(dict)?.iter().enumerate() {
                    self.separator(i);
                    self.value(&Value::str(key), verb, depth + 1)?;
                    self.put(":");
                    self.value(item, verb, depth + 1)?;
                }
                self.put(if self.flags.sharp_v { "}" } else { "]" });
            }
            Value::Time(time) => {
                let text = layout::go_syntax(time);
                self.put(&text);
            }
            Value::Version(_) => self.put("&semver.Version{}"),
            Value::Certificate(certificate) => {
                if self.flags.sharp_v {
                    self.put(value.type_name());
                }
                self.put("{");
                for (i, (name, field)) in certificate.fields().iter().enumerate() {
                    self.separator(i);
                    if self.flags.plus_v || self.flags.sharp_v {
                        self.put(name);
                        self.put(":");
                    }
                    self.value(field, verb, depth + 1)?;
                }
                self.put("}");
            }
        }
        Ok(())
    }

    /// Begins a list or a map; `false` when that is all of it.
    fn opened(&mut self, value: &Value, nil: bool, open: &str, verb: char) -> Outcome<bool> {
        if verb == 'p' {
            self.bad_verb(value, verb)?;
            return Ok(false);
        }
        if self.flags.sharp_v {
            self.put(value.type_name());
        }
        let all = nil && self.flags.sharp_v;
        self.put(if all { "(nil)" } else { open });
        Ok(!all)
    }

    fn separator(&mut self, index: usize) {
        if index > 0 {
            self.put(if self.flags.sharp_v { ", " } else { " " });
        }
    }

    fn padding(&mut self, count: usize) {
        // Zeros are only put on the left.
        let byte = if self.flags.zero && !self.flags.minus { b'0' } else { b' ' };
        self.out.extend(std::iter::repeat_n(byte, count));
    }

    /// Writes text, padded to the width, which counts characters.
    fn pad(&mut self, text: &[u8]) {
        let count = valid_text(text).chars().count();
        let missing = self.flags.width.unwrap_or(0).saturating_sub(count);
        if self.flags.minus {
            self.out.extend_from_slice(text);
            self.padding(missing);
        } else {
            self.padding(missing);
            self.out.extend_from_slice(text);
        }
    }

    /// Writes text, padded with spaces whatever the flags say.
    fn pad_with_spaces(&mut self, text: &str) {
        let zero = std::mem::take(&mut self.flags.zero);
        self.pad(text.as_bytes());
        self.flags.zero = zero;
    }

    /// Writes text under a verb for text.
    fn string(&mut self, text: &[u8], verb: char) {
        if matches!(verb, 'x' | 'X') {
            return self.hex(text, verb == 'X');
        }
        let text = self.truncate(text);
        if verb == 'q' || (verb == 'v' && self.flags.sharp_v) {
            let quoted = if self.flags.sharp && can_backquote(text) {
                [b"`", text, b"`"].concat()
            } else {
                strconv::quote(text, self.flags.plus)
            };
            self.pad(&quoted);
        } else {
            self.pad(text);
        }
    }

    /// Cuts text to the precision, which counts characters.
    fn truncate<'a>(&self, text: &'a [u8]) -> &'a [u8] {
        let Some(precision) = self.flags.precision else { return text };
        let mut left = precision;
        let mut len = 0;
        for chunk in text.utf8_chunks() {
            for c in
                chunk.valid().chars().map(char::len_utf8).chain(chunk.invalid().iter().map(|_| 1))
            {
                if left == 0 {
                    return &text[..len];
                }
                left -= 1;
                len += c;
            }
        }
        text
    }

    fn hex(&mut self, text: &[u8], upper: bool) {
        let text = &text[..text.len().min(self.flags.precision.unwrap_or(usize::MAX))];
        if text.is_empty() {
            self.padding(self.flags.width.unwrap_or(0));
            return;
        }
        let prefix = if self.flags.sharp { if upper { "0X" } else { "0x" } } else { "" };
        let mut hex = prefix.to_owned();
        for (i, byte) in text.iter().enumerate() {
            if i > 0 && self.flags.space {
                hex.push(' ');
                hex.push_str(prefix);
            }
            hex.push_str(&if upper { format!("{byte:02X}") } else { format!("{byte:02x}") });
        }
        self.pad(hex.as_bytes());
    }

    fn integer(
        &mut self,
        value: &Value,
        u: u64,
        negative: bool,
        signed: bool,
        verb: char,
    ) -> Outcome<()> {
        match verb {
            'v' if self.flags.sharp_v && !signed => {
                let sharp = std::mem::replace(&mut self.flags.sharp, true);
                self.digits(u, negative, 16, verb, false);
                self.flags.sharp = sharp;
            }
            'v' | 'd' => self.digits(u, negative, 10, verb, false),
            'b' => self.digits(u, negative, 2, verb, false),
            'o' | 'O' => self.digits(u, negative, 8, verb, false),
            'x' | 'X' => self.digits(u, negative, 16, verb, verb == 'X'),
            'c' => {
                let c = character(u, negative);
                self.pad(c.encode_utf8(&mut [0; 4]).as_bytes());
            }
            'q' => {
                let c = character(u, negative);
                let text = strconv::quote_with(
                    c.encode_utf8(&mut [0; 4]).as_bytes(),
                    '\'',
                    self.flags.plus,
                );
                self.pad(&text);
            }
            'U' => self.unicode(if negative { u.wrapping_neg() } else { u }),
            _ => self.bad_verb(value, verb)?,
        }
        Ok(())
    }

    fn digits(&mut self, u: u64, negative: bool, base: u32, verb: char, upper: bool) {
        let flags = self.flags;
        let mut min = 0;
        if let Some(precision) = flags.precision {
            min = precision;
            if precision == 0 && u == 0 {
                return self.pad_with_spaces("");
            }
        } else if flags.zero
            && !flags.minus
            && let Some(width) = flags.width
        {
            min = width;
            if negative || flags.plus || flags.space {
                min = min.saturating_sub(1);
            }
        }
        let mut text = match base {
            2 => format!("{u:b}"),
            8 => format!("{u:o}"),
            16 if upper => format!("{u:X}"),
            16 => format!("{u:x}"),
            _ => u.to_string(),
        };
        if text.len() < min {
            text = format!("{}{text}", "0".repeat(min - text.len()));
        }
        if flags.sharp {
            let prefix = match base {
                2 => "0b",
                8 if !text.starts_with('0') => "0",
                16 if upper => "0X",
                16 => "0x",
                _ => "",
            };
            text.insert_str(0, prefix);
        }
        if verb == 'O' {
            text.insert_str(0, "0o");
        }
        if negative {
            text.insert(0, '-');
        } else if flags.plus {
            text.insert(0, '+');
        } else if flags.space {
            text.insert(0, ' ');
        }
        self.pad_with_spaces(&text);
    }

    fn unicode(&mut self, u: u64) {
        let digits = self.flags.precision.unwrap_or(4).max(4);
        let mut text = format!("U+{u:0digits$X}");
        if self.flags.sharp
            && let Some(c) = u32::try_from(u).ok().and_then(char::from_u32)
            && strconv::is_print(c)
        {
            text.push_str(&format!(" '{c}'"));
        }
        self.pad_with_spaces(&text);
    }

    fn float_verb(&mut self, value: &Value, f: f64, verb: char) -> Outcome<()> {
        match verb {
            'v' => self.float(f, 'g', None),
            'b' | 'g' | 'G' | 'x' | 'X' => self.float(f, verb, None),
            'f' | 'e' | 'E' => self.float(f, verb, Some(6)),
            'F' => self.float(f, 'f', Some(6)),
            _ => self.bad_verb(value, verb)?,
        }
        Ok(())
    }

    fn float(&mut self, f: f64, verb: char, precision: Option<usize>) {
        let precision = self.flags.precision.or(precision);
        let text = format_float(f, verb, precision);
        let (sign, mut number) = match text.strip_prefix(['+', '-']) {
            Some(rest) => (text.as_bytes()[0], rest.to_owned()),
            None => (b'+', text.clone()),
        };
        let flags = self.flags;
        let sign = if flags.space && sign == b'+' && !flags.plus { b' ' } else { sign };
        if number.starts_with(['I', 'N']) {
            // An infinity always shows its sign.
            let bare = number.starts_with('N') && !flags.space && !flags.plus;
            let text = if bare { number } else { format!("{}{number}", char::from(sign)) };
            return self.pad_with_spaces(&text);
        }
        if flags.sharp && verb != 'b' {
            number = sharp_float(&number, verb, precision);
        }
        if flags.plus || sign != b'+' {
            let width = flags.width.unwrap_or(0);
            if flags.zero && !flags.minus && width > number.len() + 1 {
                self.out.push(sign);
                self.padding(width - number.len() - 1);
                self.put(&number);
                return;
            }
            number.insert(0, char::from(sign));
        }
        self.pad(number.as_bytes());
    }

    fn complex(&mut self, value: &Value, re: f64, im: f64, verb: char) -> Outcome<()> {
        if !matches!(verb, 'v' | 'b' | 'g' | 'G' | 'x' | 'X' | 'f' | 'F' | 'e' | 'E') {
            return self.bad_verb(value, verb);
        }
        let plus = self.flags.plus;
        self.put("(");
        self.float_verb(value, re, verb)?;
        self.flags.plus = true;
        self.float_verb(value, im, verb)?;
        self.put("i)");
        self.flags.plus = plus;
        Ok(())
    }
}

/// `#` forces a decimal point, and keeps trailing zeros under `%g`.
fn sharp_float(number: &str, verb: char, precision: Option<usize>) -> String {
    let mut digits = match verb {
        'g' | 'G' | 'x' | 'X' => precision.map_or(6, |p| i64::try_from(p).unwrap_or(i64::MAX)),
        _ => 0,
    };
    let hex = matches!(verb, 'x' | 'X');
    let tail = number
        .find(|c: char| matches!(c, 'p' | 'P') || (!hex && matches!(c, 'e' | 'E')))
        .unwrap_or(number.len());
    let (head, tail) = number.split_at(tail);
    let mut nonzero = false;
    for c in head.chars().filter(|c| *c != '.') {
        nonzero |= c != '0';
        if nonzero {
            digits -= 1;
        }
    }
    let mut text = head.to_owned();
    if !head.contains('.') {
        if head == "0" {
            digits -= 1;
        }
        text.push('.');
    }
    text.extend(std::iter::repeat_n('0', usize::try_from(digits).unwrap_or(0)));
    text + tail
}

fn can_backquote(text: &[u8]) -> bool {
    std::str::from_utf8(text).is_ok_and(|text| {
        text.chars().all(|c| (c >= ' ' || c == '\t') && !matches!(c, '`' | '\u{7f}' | '\u{feff}'))
    })
}

fn character(u: u64, negative: bool) -> char {
    let code = if negative { None } else { u32::try_from(u).ok() };
    code.and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// Makes the value of a byte of text.
pub(super) fn byte(b: u8) -> Value {
    Value::Uint(UintKind::Uint8, b.into())
}
