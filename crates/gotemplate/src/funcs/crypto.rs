//! Checksums, passwords and ciphers.

use aes::Aes256;
use aes::cipher::{BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac};
use sha2::Sha256;

use super::encoding::decode64;
use super::prelude::*;

pub(super) const FUNCTIONS: &[Function] = &[
    f("bcrypt", "s", |run, a| Ok(Value::str(hash_password(run, a.bytes(0))?))),
    f("htpasswd", "ss", |run, a| {
        let user = a.text(0);
        if user.contains(':') {
            return Ok(Value::str(format!("invalid username: {user}")));
        }
        Ok(Value::str(format!("{user}:{}", hash_password(run, a.bytes(1))?)))
    }),
    f("derivePassword", "ussss", derive_password),
    f("encryptAES", "ss", encrypt),
    f("decryptAES", "ss", decrypt),
];

/// Steps of a deliberately slow function: one execution allows a few calls.
const SLOW: usize = 300_000;

/// The default cost of Go's library.
const BCRYPT_COST: u32 = 10;

fn hash_password(run: &mut Run<'_>, password: &[u8]) -> Outcome<String> {
    run.charge(SLOW)?;
    if password.len() > 72 {
        return Ok(
            "failed to encrypt string with bcrypt: bcrypt: password length exceeds 72 bytes"
                .to_owned(),
        );
    }
    let mut salt = [0; 16];
    run.random(&mut salt)?;
    match bcrypt::hash_with_salt(password, BCRYPT_COST, salt) {
        Ok(parts) => Ok(parts.format_for_version(bcrypt::Version::TwoA)),
        Err(error) => Ok(format!("failed to encrypt string with bcrypt: {error}")),
    }
}

/// The patterns of the password types: each letter is a character class.
const PATTERNS: &[(&str, &[&str])] = &[
    ("maximum", &["anoxxxxxxxxxxxxxxxxx", "axxxxxxxxxxxxxxxxxno"]),
    (
        "long",
        &[
            "CvcvnoCvcvCvcv",
            "CvcvCvcvnoCvcv",
            "CvcvCvcvCvcvno",
            "CvccnoCvcvCvcv",
            "CvccCvcvnoCvcv",
            "CvccCvcvCvcvno",
            "CvcvnoCvccCvcv",
            "CvcvCvccnoCvcv",
            "CvcvCvccCvcvno",
            "CvcvnoCvcvCvcc",
            "CvcvCvcvnoCvcc",
            "CvcvCvcvCvccno",
            "CvccnoCvccCvcv",
            "CvccCvccnoCvcv",
            "CvccCvccCvcvno",
            "CvcvnoCvccCvcc",
            "CvcvCvccnoCvcc",
            "CvcvCvccCvccno",
            "CvccnoCvcvCvcc",
            "CvccCvcvnoCvcc",
            "CvccCvcvCvccno",
        ],
    ),
    ("medium", &["CvcnoCvc", "CvcCvcno"]),
    ("short", &["Cvcn"]),
    ("basic", &["aaanaaan", "aannaaan", "aaannaaa"]),
    ("pin", &["nnnn"]),
];

fn characters(class: u8) -> &'static [u8] {
    match class {
        b'V' => b"AEIOU",
        b'C' => b"BCDFGHJKLMNPQRSTVWXYZ",
        b'v' => b"aeiou",
        b'c' => b"bcdfghjklmnpqrstvwxyz",
        b'a' => b"AEIOUaeiouBCDFGHJKLMNPQRSTVWXYZbcdfghjklmnpqrstvwxyz",
        b'n' => b"0123456789",
        b'o' => b"@&%?,=[]_:-+*$#!'^~;()/.",
        _ => b"AEIOUaeiouBCDFGHJKLMNPQRSTVWXYZbcdfghjklmnpqrstvwxyz0123456789!@#$%^&*()",
    }
}

/// The Master Password algorithm.
fn derive_password(run: &mut Run<'_>, a: &[Value]) -> Outcome {
    const SEED: &[u8] = b"com.lyndir.masterpassword";
    let kind = a.text(1);
    let Some((_, patterns)) = PATTERNS.iter().find(|(name, _)| *name == kind) else {
        return Ok(Value::str(format!("cannot find password template {kind}")));
    };
    run.charge(SLOW)?;
    let sized = |text: &[u8]| {
        let len = u32::try_from(text.len()).unwrap_or(u32::MAX);
        [SEED, &len.to_be_bytes(), text].concat()
    };
    let mut key = [0; 64];
    let params = scrypt::Params::new(15, 8, 2).map_err(|error| error.to_string())?;
    scrypt::scrypt(a.bytes(2), &sized(a.bytes(3)), &params, &mut key)
        .map_err(|error| error.to_string())?;
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).map_err(|error| error.to_string())?;
    mac.update(&sized(a.bytes(4)));
    mac.update(&(a.int(0) as u32).to_be_bytes());
    let seed = mac.finalize().into_bytes();
    let pattern = patterns[usize::from(seed[0]) % patterns.len()];
    let password: Vec<u8> = pattern
        .bytes()
        .zip(&seed[1..])
        .map(|(class, byte)| {
            let characters = characters(class);
            characters[usize::from(*byte) % characters.len()]
        })
        .collect();
    Ok(Value::str(password))
}

const BLOCK: usize = 16;

fn cipher(password: &[u8]) -> Aes256 {
    let mut key = [0; 32];
    let len = password.len().min(key.len());
    key[..len].copy_from_slice(&password[..len]);
    Aes256::new(&key.into())
}

/// AES-256 in CBC mode with padding, the initialization vector before the text, in base64.
fn encrypt(run: &mut Run<'_>, a: &[Value]) -> Outcome {
    let mut text = a.bytes(1).to_vec();
    if text.is_empty() {
        return Ok(Value::str(""));
    }
    let padding = BLOCK - text.len() % BLOCK;
    text.extend(std::iter::repeat_n(padding as u8, padding));
    let cipher = cipher(a.bytes(0));
    let mut chained = [0; BLOCK];
    run.random(&mut chained)?;
    let mut out = chained.to_vec();
    for block in text.chunks(BLOCK) {
        for (byte, plain) in chained.iter_mut().zip(block) {
            *byte ^= plain;
        }
        let mut sealed = chained.into();
        cipher.encrypt_block(&mut sealed);
        chained = sealed.into();
        out.extend_from_slice(&chained);
    }
    Ok(Value::str(STANDARD.encode(out)))
}

fn decrypt(_: &mut Run<'_>, a: &[Value]) -> Outcome {
    if a.bytes(1).is_empty() {
        return Ok(Value::str(""));
    }
    let sealed =
        decode64(a.bytes(1)).map_err(|at| format!("illegal base64 data at input byte {at}"))?;
    if sealed.len() < 2 * BLOCK || !sealed.len().is_multiple_of(BLOCK) {
        return Err("crypto/cipher: input not full blocks".into());
    }
    let cipher = cipher(a.bytes(0));
    let mut text = Vec::with_capacity(sealed.len());
    for (before, block) in sealed.chunks(BLOCK).zip(sealed.chunks(BLOCK).skip(1)) {
        let mut bytes = [0; BLOCK];
        bytes.copy_from_slice(block);
        let mut opened = bytes.into();
        cipher.decrypt_block(&mut opened);
        text.extend(opened.iter().zip(before).map(|(byte, mask)| byte ^ mask));
    }
    let padding = usize::from(text.last().copied().unwrap_or(0));
    let len = text.len().checked_sub(padding).ok_or("slice bounds out of range")?;
    text.truncate(len);
    Ok(Value::str(text))
}
