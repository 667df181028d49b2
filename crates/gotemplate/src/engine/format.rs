//! `print`, `println` and `printf`: Go's package `fmt`, its format strings.

use super::fail::Outcome;
use super::run::Run;
use super::value::Value;
use super::verbs::Printer;

/// Go's `fmt.Sprint`: a space between operands when neither is text.
pub(crate) fn print(run: &mut Run<'_>, args: &[Value]) -> Outcome<Vec<u8>> {
    let mut printer = Printer::new(run);
    let mut text_before = false;
    for (i, arg) in args.iter().enumerate() {
        let text = matches!(arg, Value::Str(_));
        if i > 0 && !text && !text_before {
            printer.out.push(b' ');
        }
        printer.argument(arg, 'v')?;
        text_before = text;
    }
    Ok(printer.out)
}

/// Go's `fmt.Sprintln`.
pub(super) fn println(run: &mut Run<'_>, args: &[Value]) -> Outcome<Vec<u8>> {
    let mut printer = Printer::new(run);
    for (i, arg) in args.iter().enumerate() {
        if i > 0 {
            printer.out.push(b' ');
        }
        printer.argument(arg, 'v')?;
    }
    printer.out.push(b'\n');
    Ok(printer.out)
}

/// One value under `%v`.
pub(crate) fn text(run: &mut Run<'_>, value: &Value) -> Outcome<Vec<u8>> {
    print(run, std::slice::from_ref(value))
}

/// Larger widths and precisions are invalid.
const TOO_LARGE: i64 = 1_000_000;

/// Go's `fmt.Sprintf`. An invalid format is not an error: the output describes it.
pub(crate) fn printf(run: &mut Run<'_>, format: &[u8], args: &[Value]) -> Outcome<Vec<u8>> {
    let printer = Printer::new(run);
    let mut formatter =
        Formatter { printer, format, args, i: 0, arg: 0, reordered: false, good_index: true };
    formatter.all()?;
    Ok(formatter.printer.out)
}

struct Formatter<'p, 'e> {
    printer: Printer<'p, 'e>,
    format: &'p [u8],
    args: &'p [Value],
    /// Position in the format.
    i: usize,
    /// The next argument.
    arg: usize,
    reordered: bool,
    good_index: bool,
}

impl Formatter<'_, '_> {
    fn here(&self) -> Option<u8> {
        self.format.get(self.i).copied()
    }

    fn put(&mut self, text: &str) {
        self.printer.out.extend_from_slice(text.as_bytes());
    }

    fn all(&mut self) -> Outcome<()> {
        while self.i < self.format.len() {
            let rest = &self.format[self.i..];
            let plain = rest.iter().position(|b| *b == b'%').unwrap_or(rest.len());
            self.printer.out.extend_from_slice(&rest[..plain]);
            self.i += plain;
            if self.here().is_none() {
                break;
            }
            self.i += 1;
            self.good_index = true;
            if !self.one()? {
                break;
            }
            self.printer.check_size()?;
        }
        if !self.reordered && self.arg < self.args.len() {
            self.extra()?;
        }
        Ok(())
    }

    fn extra(&mut self) -> Outcome<()> {
        self.printer.clear_flags();
        self.put("%!(EXTRA ");
        for (i, arg) in self.args[self.arg..].iter().enumerate() {
            if i > 0 {
                self.put(", ");
            }
            if !arg.is_nil() {
                self.put(arg.type_name());
                self.put("=");
            }
            self.printer.argument(arg, 'v')?;
        }
        self.put(")");
        Ok(())
    }

    /// Formats one verb; `false` when the format ends within it.
    fn one(&mut self) -> Outcome<bool> {
        self.printer.clear_flags();
        while let Some(c) = self.here() {
            let flags = &mut self.printer.flags;
            match c {
                b'#' => flags.sharp = true,
                b'0' => flags.zero = true,
                b'+' => flags.plus = true,
                b'-' => flags.minus = true,
                b' ' => flags.space = true,
                _ => break,
            }
            self.i += 1;
        }
        let mut after_index = self.index();
        if self.here() == Some(b'*') {
            self.i += 1;
            let width = self.int_from_arg();
            match width {
                Some(n) => {
                    self.printer.flags.width = Some(n.unsigned_abs() as usize);
                    if n < 0 {
                        self.printer.flags.minus = true;
                        self.printer.flags.zero = false;
                    }
                }
                None => self.put("%!(BADWIDTH)"),
            }
            after_index = false;
        } else {
            self.printer.flags.width = self.number();
            if after_index && self.printer.flags.width.is_some() {
                self.good_index = false;
            }
        }
        if self.here() == Some(b'.') {
            self.i += 1;
            if after_index {
                self.good_index = false;
            }
            after_index = self.index();
            if self.here() == Some(b'*') {
                self.i += 1;
                match self.int_from_arg().and_then(|n| usize::try_from(n).ok()) {
                    Some(n) => self.printer.flags.precision = Some(n),
                    None => self.put("%!(BADPREC)"),
                }
                after_index = false;
            } else {
                self.printer.flags.precision = Some(self.number().unwrap_or(0));
            }
        }
        if !after_index {
            self.index();
        }
        let Some(verb) = self.verb() else {
            self.put("%!(NOVERB)");
            return Ok(false);
        };
        if verb == '%' {
            self.put("%");
        } else if !self.good_index {
            self.put(&format!("%!{verb}(BADINDEX)"));
        } else if let Some(arg) = self.args.get(self.arg) {
            if verb == 'v' {
                let flags = &mut self.printer.flags;
                flags.sharp_v = std::mem::take(&mut flags.sharp);
                flags.plus_v = std::mem::take(&mut flags.plus);
            }
            self.printer.argument(arg, verb)?;
            self.arg += 1;
        } else {
            self.put(&format!("%!{verb}(MISSING)"));
        }
        Ok(true)
    }

    fn verb(&mut self) -> Option<char> {
        let rest = self.format.get(self.i..).filter(|rest| !rest.is_empty())?;
        let chunk = rest.utf8_chunks().next()?;
        if let Some(c) = chunk.valid().chars().next() {
            self.i += c.len_utf8();
            return Some(c);
        }
        self.i += 1;
        Some(char::REPLACEMENT_CHARACTER)
    }

    /// Parses digits; a number that is too large ends the format, as in Go.
    fn number(&mut self) -> Option<usize> {
        let (number, next) = parse_number(self.format, self.i, self.format.len());
        self.i = next;
        number
    }

    /// Reads an explicit argument index such as `[2]`.
    fn index(&mut self) -> bool {
        if self.here() != Some(b'[') {
            return false;
        }
        self.reordered = true;
        let rest = &self.format[self.i..];
        let Some(close) = rest.iter().position(|b| *b == b']').filter(|_| rest.len() >= 3) else {
            self.good_index = false;
            self.i += 1;
            return false;
        };
        let (number, next) = parse_number(rest, 1, close);
        self.i += close + 1;
        let index = number.filter(|_| next == close);
        match index.and_then(|n| n.checked_sub(1)) {
            Some(n) if n < self.args.len() => {
                self.arg = n;
                true
            }
            _ => {
                self.good_index = false;
                index.is_some()
            }
        }
    }

    fn int_from_arg(&mut self) -> Option<i64> {
        let arg = self.args.get(self.arg)?;
        self.arg += 1;
        let number = match arg {
            Value::Int(_, n) => *n,
            Value::Uint(_, n) => i64::try_from(*n).ok()?,
            _ => return None,
        };
        (-TOO_LARGE..=TOO_LARGE).contains(&number).then_some(number)
    }
}

fn parse_number(text: &[u8], start: usize, end: usize) -> (Option<usize>, usize) {
    let mut number = None;
    let mut i = start;
    while i < end && text[i].is_ascii_digit() {
        let next = number.unwrap_or(0) * 10 + usize::from(text[i] - b'0');
        if next > TOO_LARGE as usize {
            return (None, end);
        }
        number = Some(next);
        i += 1;
    }
    (number, i)
}
