//! Base64 and base32. A decoding error is returned as text.

use super::prelude::*;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use data_encoding::BASE32;

pub(super) const FUNCTIONS: &[Function] = &[
    f("b64enc", "s", |_, a| Ok(Value::str(STANDARD.encode(a.bytes(0))))),
    f("b64dec", "s", |_, a| {
        Ok(match decode64(a.bytes(0)) {
            Ok(bytes) => Value::str(bytes),
            Err(at) => Value::str(format!("illegal base64 data at input byte {at}")),
        })
    }),
    f("b32enc", "s", |_, a| Ok(Value::str(BASE32.encode(a.bytes(0))))),
    f("b32dec", "s", |_, a| {
        let text: Vec<u8> =
            a.bytes(0).iter().copied().filter(|b| !matches!(b, b'\r' | b'\n')).collect();
        Ok(match BASE32.decode(&text) {
            Ok(bytes) => Value::str(bytes),
            Err(error) => {
                let at = if error.kind == data_encoding::DecodeKind::Length {
                    0
                } else {
                    error.position
                };
                Value::str(format!("illegal base32 data at input byte {at}"))
            }
        })
    }),
];

/// Decodes as Go does: skips newlines and ignores trailing bits; the error is the
/// position of the invalid byte.
pub(super) fn decode64(text: &[u8]) -> Result<Vec<u8>, usize> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let mut group = Vec::with_capacity(4);
    let mut bytes = text.iter().copied().enumerate().filter(|(_, b)| !matches!(b, b'\r' | b'\n'));
    while let Some((at, b)) = bytes.next() {
        let six = match b {
            b'A'..=b'Z' => b - b'A',
            b'a'..=b'z' => b - b'a' + 26,
            b'0'..=b'9' => b - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            b'=' if group.len() >= 2 => {
                if group.len() == 2 {
                    match bytes.next() {
                        Some((_, b'=')) => {}
                        Some((at, _)) => return Err(at),
                        None => return Err(text.len()),
                    }
                }
                if let Some((at, _)) = bytes.next() {
                    return Err(at);
                }
                flush(&mut out, &mut group);
                return Ok(out);
            }
            _ => return Err(at),
        };
        group.push(six);
        if group.len() == 4 {
            flush(&mut out, &mut group);
        }
    }
    if group.is_empty() { Ok(out) } else { Err(text.len() - group.len()) }
}

fn flush(out: &mut Vec<u8>, group: &mut Vec<u8>) {
    let bits = group.iter().fold(0_u32, |bits, six| bits << 6 | u32::from(*six))
        << (6 * (4 - group.len()));
    out.extend_from_slice(&bits.to_be_bytes()[1..group.len()]);
    group.clear();
}
