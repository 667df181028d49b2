//! Random functions. Their bytes come from the environment of the run.

use super::prelude::*;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

pub(super) const FUNCTIONS: &[Function] = &[
    f("randAlphaNum", "i", |run, a| {
        pick(run, a.int(0), b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789")
    }),
    f("randAlpha", "i", |run, a| {
        pick(run, a.int(0), b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
    }),
    f("randNumeric", "i", |run, a| pick(run, a.int(0), b"0123456789")),
    f("randAscii", "i", |run, a| {
        let printable: Vec<u8> = (b' '..=b'~').collect();
        pick(run, a.int(0), &printable)
    }),
    f("randBytes", "i", |run, a| {
        let mut bytes = vec![0; size(run, a.int(0))?];
        run.random(&mut bytes)?;
        Ok(Value::str(STANDARD.encode(bytes)))
    }),
    f("uuidv4", "", |run, _| {
        let mut b = [0; 16];
        run.random(&mut b)?;
        b[6] = (b[6] & 0x0f) | 0x40;
        b[8] = (b[8] & 0x3f) | 0x80;
        let hex = data_encoding::HEXLOWER.encode(&b);
        Ok(Value::str(format!(
            "{}-{}-{}-{}-{}",
            &hex[..8],
            &hex[8..12],
            &hex[12..16],
            &hex[16..20],
            &hex[20..]
        )))
    }),
];

fn size(run: &mut Run<'_>, count: i64) -> Outcome<usize> {
    let size = usize::try_from(count).map_err(|_| "the count must not be negative")?;
    run.charge_bytes(size)?;
    run.charge(size)?;
    Ok(size)
}

fn pick(run: &mut Run<'_>, count: i64, from: &[u8]) -> Outcome {
    let mut out = Vec::new();
    for _ in 0..size(run, count)? {
        let index = run.random_below(from.len() as u64)?;
        out.extend(usize::try_from(index).ok().and_then(|i| from.get(i)));
    }
    Ok(Value::str(out))
}
