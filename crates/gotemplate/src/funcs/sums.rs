//! Check sums.

use super::prelude::*;
use data_encoding::HEXLOWER;
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha512};

pub(super) const FUNCTIONS: &[Function] = &[
    f("sha1sum", "s", |_, a| Ok(Value::str(HEXLOWER.encode(&Sha1::digest(a.bytes(0)))))),
    f("sha256sum", "s", |_, a| Ok(Value::str(HEXLOWER.encode(&Sha256::digest(a.bytes(0)))))),
    f("sha512sum", "s", |_, a| Ok(Value::str(HEXLOWER.encode(&Sha512::digest(a.bytes(0)))))),
    f("adler32sum", "s", |_, a| Ok(Value::str(adler2::adler32_slice(a.bytes(0)).to_string()))),
];
