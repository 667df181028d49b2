//! Parses and formats numbers and quoted text as Go does.

use super::ast::Number;

/// Reads a Go string literal with its quotes (double or back quotes).
pub(crate) fn unquote(text: &str) -> Option<Vec<u8>> {
    let quote = text.chars().next()?;
    let inner = text.strip_prefix(quote)?.strip_suffix(quote)?;
    if quote == '`' {
        return Some(inner.bytes().filter(|b| *b != b'\r').collect());
    }
    let mut out = Vec::with_capacity(inner.len());
    let mut rest = inner;
    while !rest.is_empty() {
        let (unit, tail) = unquote_char(rest, quote)?;
        match unit {
            Unit::Byte(b) => out.push(b),
            Unit::Char(c) => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
        rest = tail;
    }
    Some(out)
}

/// Value of an escape sequence.
pub(crate) enum Unit {
    Byte(u8),
    Char(char),
}

/// Parses one character or escape sequence of a quoted literal; returns the rest, too.
pub(crate) fn unquote_char(text: &str, quote: char) -> Option<(Unit, &str)> {
    let mut chars = text.chars();
    let c = chars.next()?;
    if c == quote {
        return None;
    }
    if c != '\\' {
        return Some((Unit::Char(c), chars.as_str()));
    }
    let c = chars.next()?;
    let rest = chars.as_str();
    let simple = |c| Some((Unit::Char(c), rest));
    match c {
        'a' => simple('\x07'),
        'b' => simple('\x08'),
        'f' => simple('\x0c'),
        'n' => simple('\n'),
        'r' => simple('\r'),
        't' => simple('\t'),
        'v' => simple('\x0b'),
        '\\' => simple('\\'),
        '\'' | '"' if c == quote => simple(c),
        'x' => {
            let digits = rest.get(..2)?;
            let value =
                u8::from_str_radix(digits.strip_prefix('+').map_or(digits, |_| ""), 16).ok()?;
            Some((Unit::Byte(value), &rest[2..]))
        }
        'u' | 'U' => {
            let n = if c == 'u' { 4 } else { 8 };
            let digits = rest.get(..n).filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()))?;
            let value = u32::from_str_radix(digits, 16).ok()?;
            Some((Unit::Char(char::from_u32(value)?), &rest[n..]))
        }
        '0'..='7' => {
            let digits =
                text.get(1..4).filter(|d| d.bytes().all(|b| (b'0'..=b'7').contains(&b)))?;
            let value = u8::try_from(u16::from_str_radix(digits, 8).ok()?).ok()?;
            Some((Unit::Byte(value), &text[4..]))
        }
        _ => None,
    }
}

/// Whether underscores are only between digits, or between a base prefix and a digit.
fn underscores_ok(text: &str) -> bool {
    let body = text.trim_start_matches(['+', '-']);
    let lower = body.to_ascii_lowercase();
    let (prefixed, digits) = match lower.get(..2) {
        Some("0x" | "0o" | "0b") => (true, &lower[2..]),
        _ => (false, lower.as_str()),
    };
    let hex = lower.starts_with("0x");
    let digit = |b: u8| b.is_ascii_digit() || (hex && b.is_ascii_hexdigit());
    let bytes = digits.as_bytes();
    bytes.iter().enumerate().filter(|(_, b)| **b == b'_').all(|(i, _)| {
        let before = if i == 0 { prefixed } else { digit(bytes[i - 1]) };
        before && bytes.get(i + 1).is_some_and(|b| digit(*b))
    })
}

/// Go's `ParseUint` with base 0: the base depends on the prefix, underscores are allowed.
fn parse_magnitude(text: &str) -> Option<u64> {
    if !underscores_ok(text) {
        return None;
    }
    let lower = text.to_ascii_lowercase();
    let (radix, digits) = if let Some(hex) = lower.strip_prefix("0x") {
        (16, hex)
    } else if let Some(octal) = lower.strip_prefix("0o") {
        (8, octal)
    } else if let Some(binary) = lower.strip_prefix("0b") {
        (2, binary)
    } else if lower.len() > 1 && lower.starts_with('0') {
        (8, &lower[1..])
    } else {
        (10, lower.as_str())
    };
    let digits = digits.replace('_', "");
    if digits.is_empty() || digits.starts_with(['+', '-']) {
        return None;
    }
    u64::from_str_radix(&digits, radix).ok()
}

/// Go's `ParseInt(text, 0, 64)`: the base depends on the prefix, a leading 0 means octal.
pub(crate) fn parse_int_any_base(text: &str) -> Option<i64> {
    let (negative, magnitude) = match text.strip_prefix('-') {
        Some(rest) => (true, parse_magnitude(rest)?),
        None => (false, parse_magnitude(text.strip_prefix('+').unwrap_or(text))?),
    };
    if negative { 0_i64.checked_sub_unsigned(magnitude) } else { i64::try_from(magnitude).ok() }
}

/// Go's `ParseFloat(text, 64)`, hexadecimal floats included; out of range is `None`.
pub(crate) fn parse_float(text: &str) -> Option<f64> {
    let body = text.trim_start_matches(['+', '-']);
    if text.len() - body.len() > 1 {
        return None;
    }
    let negative = text.starts_with('-');
    let lower = body.to_ascii_lowercase();
    let value = match lower.as_str() {
        "inf" | "infinity" => f64::INFINITY,
        "nan" => f64::NAN,
        _ => {
            if !underscores_ok(body) {
                return None;
            }
            let digits = lower.replace('_', "");
            let value = match digits.strip_prefix("0x") {
                Some(hex) => parse_hex_float(hex)?,
                None if digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') => {
                    digits.parse().ok()?
                }
                None => return None,
            };
            if value == f64::INFINITY {
                return None;
            }
            value
        }
    };
    Some(if negative { -value } else { value })
}

fn parse_hex_float(hex: &str) -> Option<f64> {
    let (mantissa, exponent) = hex.split_once('p')?;
    let exponent: i32 = exponent.parse().ok()?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    if digits.is_empty() {
        return None;
    }
    let mut value = 0.0_f64;
    for c in digits.chars() {
        value = value * 16.0 + f64::from(c.to_digit(16)?);
    }
    let shift = exponent.checked_sub(4 * i32::try_from(fraction.len()).ok()?)?;
    Some(value * 2.0_f64.powi(shift))
}

/// Parses a number of the template; the error is Go's message.
pub(super) fn parse_number(text: &str) -> Result<Number, String> {
    let mut number = Number { text: text.to_owned(), ..Number::default() };
    if let Some(imaginary) = text.strip_suffix('i')
        && let Some(f) = parse_float(imaginary)
    {
        number.set_complex(0.0, f);
        return Ok(number);
    }
    if !text.starts_with(['+', '-']) {
        number.uint = parse_magnitude(text);
    }
    number.int = parse_int_any_base(text);
    if number.int == Some(0) {
        number.uint = Some(0);
    }
    if let Some(i) = number.int {
        number.float = Some(i as f64);
    } else if let Some(u) = number.uint {
        number.float = Some(u as f64);
    } else if let Some(f) = parse_float(text) {
        if !text.contains(['.', 'e', 'E', 'p', 'P']) {
            return Err(format!("integer overflow: {text:?}"));
        }
        number.set_float(f);
    }
    if number.int.is_none() && number.uint.is_none() && number.float.is_none() {
        return Err(format!("illegal number syntax: {text:?}"));
    }
    Ok(number)
}

/// Parses a quoted character constant; the error is Go's message.
pub(super) fn parse_char(text: &str) -> Result<Number, String> {
    let inner = text.strip_prefix('\'').unwrap_or(text);
    let (unit, tail) = unquote_char(inner, '\'').ok_or("invalid syntax")?;
    if tail != "'" {
        return Err(format!("malformed character constant: {text}"));
    }
    let code = match unit {
        Unit::Byte(b) => u32::from(b),
        Unit::Char(c) => u32::from(c),
    };
    Ok(Number {
        text: text.to_owned(),
        int: Some(i64::from(code)),
        uint: Some(u64::from(code)),
        float: Some(f64::from(code)),
        complex: None,
    })
}

/// Parses a complex constant such as `1+2i`; the error is Go's message.
pub(super) fn parse_complex(text: &str) -> Result<Number, String> {
    let bad = || format!("illegal number syntax: {text:?}");
    let body = text.strip_suffix('i').ok_or_else(bad)?;
    let split = body
        .char_indices()
        .skip(1)
        .filter(|(i, c)| {
            matches!(c, '+' | '-') && !matches!(body.as_bytes()[i - 1], b'e' | b'E' | b'p' | b'P')
        })
        .map(|(i, _)| i)
        .last()
        .ok_or_else(bad)?;
    let real = parse_float(&body[..split]).ok_or_else(bad)?;
    let imaginary = parse_float(&body[split..]).ok_or_else(bad)?;
    let mut number = Number { text: text.to_owned(), ..Number::default() };
    number.set_complex(real, imaginary);
    Ok(number)
}

impl Number {
    /// Sets the float, and the integers when it has no fraction.
    fn set_float(&mut self, f: f64) {
        self.float = Some(f);
        if self.int.is_none() && f.fract() == 0.0 && (-9.3e18..9.2e18).contains(&f) {
            self.int = Some(f as i64);
        }
        if self.uint.is_none() && f.fract() == 0.0 && (0.0..1.8e19).contains(&f) {
            self.uint = Some(f as u64);
        }
    }

    /// Sets a complex number, and the other types when its imaginary part is zero.
    fn set_complex(&mut self, real: f64, imaginary: f64) {
        self.complex = Some((real, imaginary));
        if imaginary == 0.0 {
            self.set_float(real);
        }
    }
}

/// Quotes text as `strconv.Quote` does; with `ascii` everything beyond ASCII is escaped.
pub(crate) fn quote(bytes: &[u8], ascii: bool) -> Vec<u8> {
    quote_with(bytes, '"', ascii)
}

/// Quotes text in the given quotes.
pub(crate) fn quote_with(bytes: &[u8], quote: char, ascii: bool) -> Vec<u8> {
    let mut out = String::with_capacity(bytes.len() + 2);
    out.push(quote);
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            quote_char(&mut out, c, quote, ascii);
        }
        for b in chunk.invalid() {
            out.push_str(&format!("\\x{b:02x}"));
        }
    }
    out.push(quote);
    out.into_bytes()
}

fn quote_char(out: &mut String, c: char, quote: char, ascii: bool) {
    match c {
        _ if c == quote || c == '\\' => {
            out.push('\\');
            out.push(c);
        }
        ' '..='~' => out.push(c),
        '\x07' => out.push_str("\\a"),
        '\x08' => out.push_str("\\b"),
        '\x0c' => out.push_str("\\f"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\x0b' => out.push_str("\\v"),
        _ if !ascii && is_print(c) => out.push(c),
        '\0'..='\x1f' | '\x7f' => out.push_str(&format!("\\x{:02x}", u32::from(c))),
        '\u{80}'..='\u{ffff}' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
        _ => out.push_str(&format!("\\U{:08x}", u32::from(c))),
    }
}

/// Go's `unicode.IsPrint`: letters, marks, numbers, punctuation, symbols and the ASCII space.
pub(crate) fn is_print(c: char) -> bool {
    use std::sync::LazyLock;
    static PRINT: LazyLock<regex::Regex> = LazyLock::new(|| {
        regex::Regex::new(r"^[\p{L}\p{M}\p{N}\p{P}\p{S}]$").expect("the pattern is fixed and valid")
    });
    if c.is_ascii() {
        return (' '..='~').contains(&c);
    }
    PRINT.is_match(c.encode_utf8(&mut [0; 4]))
}

/// Go's `ParseUint(text, 0, 64)`.
pub(crate) fn parse_uint_any_base(text: &str) -> Option<u64> {
    if text.starts_with(['+', '-']) { None } else { parse_magnitude(text) }
}
