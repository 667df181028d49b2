//! `html`, `js` and `urlquery`.

use super::strconv::is_print;

/// Escapes text for HTML.
pub(super) fn html(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for b in text {
        let escaped: &[u8] = match b {
            0 => "\u{fffd}".as_bytes(),
            b'"' => b"&#34;",
            b'\'' => b"&#39;",
            b'&' => b"&amp;",
            b'<' => b"&lt;",
            b'>' => b"&gt;",
            _ => std::slice::from_ref(b),
        };
        out.extend_from_slice(escaped);
    }
    out
}

/// Escapes text for a JavaScript string.
pub(super) fn js(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' | '\'' | '"' => {
                out.push('\\');
                out.push(c);
            }
            '<' | '>' | '&' | '=' | '\0'..='\x1f' => {
                out.push_str(&format!("\\u{:04X}", u32::from(c)))
            }
            _ if c.is_ascii() || is_print(c) => out.push(c),
            _ => out.push_str(&format!("\\u{:04X}", u32::from(c))),
        }
    }
    out
}

/// Escapes text for the query of a URL.
pub(super) fn query(text: &[u8]) -> String {
    percent(text, |b| b == b' ' || is_unreserved(b)).replace(' ', "+")
}

/// Encodes the bytes of a text that it does not keep.
pub(crate) fn percent(text: &[u8], keeps: impl Fn(u8) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    for b in text {
        if keeps(*b) { out.push(char::from(*b)) } else { out.push_str(&format!("%{b:02X}")) }
    }
    out
}

/// Whether all parts of a URL keep the byte.
pub(crate) fn is_unreserved(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'~')
}
