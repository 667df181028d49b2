//! The signature of a commit or of an annotated tag, as GnuPG reports it.

use std::collections::BTreeSet;

/// Starts a line about a signature; everything else is for people.
const STATUS: &str = "[GNUPG:] ";

/// Length of a long key ID, in hexadecimal digits.
const LONG_ID: usize = 16;

/// Who signed a commit or tag, and whether that can be relied on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// What was checked: a commit, or a tag object.
    pub is_tag: bool,
    /// The long ID of the key that signed, in upper case; empty when it is not known.
    pub key: String,
    /// The result.
    pub state: SignatureState,
}

/// The result of checking a signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SignatureState {
    /// There is none.
    Unsigned,
    /// It is valid, and so is the key.
    Good,
    /// It does not belong to the content.
    Bad,
    /// The key is not in the key ring.
    UnknownKey,
    /// It was valid until a time that is over.
    ExpiredSignature,
    /// The key has expired.
    ExpiredKey,
    /// The key was revoked.
    RevokedKey,
    /// It cannot be checked, for this reason.
    Unverifiable(String),
}

impl Signature {
    /// None at all.
    pub fn none() -> Self {
        Self { is_tag: false, key: String::new(), state: SignatureState::Unsigned }
    }

    /// Whether it is valid, by one of these keys.
    pub fn is_good_by(&self, keys: &BTreeSet<String>) -> bool {
        self.state == SignatureState::Good && keys.contains(&self.key)
    }

    /// Reads what `git verify-commit --raw`, or `git verify-tag --raw`, wrote to standard error.
    /// `succeeded` is whether it found the signature valid, and `cut` whether the text was too
    /// long to be read completely.
    pub fn read(is_tag: bool, raw: &str, succeeded: bool, cut: bool) -> Self {
        let unsure = |why: &str| Self {
            is_tag,
            key: String::new(),
            state: SignatureState::Unverifiable(why.to_owned()),
        };
        if cut {
            return unsure("the answer of gpg is too long");
        }
        let (mut found, mut signatures, mut is_valid) = (None, 0, false);
        for line in raw.lines().filter_map(|line| line.strip_prefix(STATUS)) {
            let mut words = line.split(' ');
            let word = words.next().unwrap_or_default();
            let key = words.next().map(long_id).unwrap_or_default();
            let state = match word {
                "NEWSIG" => {
                    signatures += 1;
                    continue;
                }
                "VALIDSIG" => {
                    is_valid = true;
                    continue;
                }
                "GOODSIG" => SignatureState::Good,
                "BADSIG" => SignatureState::Bad,
                "EXPSIG" => SignatureState::ExpiredSignature,
                "EXPKEYSIG" => SignatureState::ExpiredKey,
                "REVKEYSIG" => SignatureState::RevokedKey,
                // Followed by algorithms, class, time and reason: 9 is a missing key.
                "ERRSIG" => match words.nth(4) {
                    Some("9") => SignatureState::UnknownKey,
                    _ => SignatureState::Unverifiable("gpg cannot check its algorithm".to_owned()),
                },
                _ => continue,
            };
            if found.replace((key, state)).is_some() {
                signatures = usize::MAX;
            }
        }
        if signatures > 1 {
            return unsure("it has several signatures");
        }
        match found {
            Some((key, SignatureState::Good)) if !succeeded || !is_valid || key.is_empty() => {
                let why = "git does not accept the signature that gpg found valid";
                Self { key, ..unsure(why) }
            }
            Some((key, state)) => Self { is_tag, key, state },
            None if succeeded => unsure("gpg was not asked"),
            None => {
                let said = raw.trim();
                let is_unsigned = said.is_empty() || said == "error: no signature found";
                match is_unsigned {
                    true => Self { is_tag, ..Self::none() },
                    false => {
                        let said: String =
                            said.chars().filter(|c| !c.is_control()).take(200).collect();
                        unsure(&format!("it is no signature that gpg can check: {said}"))
                    }
                }
            }
        }
    }
}

/// The long ID of a key, from its ID or fingerprint; empty when it is neither.
pub fn long_id(key: &str) -> String {
    let is_id = key.len() >= LONG_ID && key.bytes().all(|b| b.is_ascii_hexdigit());
    if is_id { key[key.len() - LONG_ID..].to_ascii_uppercase() } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "4AEE18F83AFDEB23";
    const VALID: &str = "[GNUPG:] VALIDSIG 5DE3E0509C47EA3CF04A42D34AEE18F83AFDEB23 2026-01-01";

    fn state(raw: &str, succeeded: bool) -> SignatureState {
        Signature::read(false, raw, succeeded, false).state
    }

    #[test]
    fn only_one_valid_signature_that_git_accepts_is_good() {
        let good = format!("[GNUPG:] NEWSIG\n[GNUPG:] GOODSIG {ID} A <a@b>\n{VALID}\n");
        let read = Signature::read(true, &good, true, false);
        assert_eq!(
            read,
            Signature { is_tag: true, key: ID.to_owned(), state: SignatureState::Good }
        );
        let unsure = [
            (good.clone(), false, false),
            (good.clone(), true, true),
            (format!("{good}{good}"), true, false),
            (format!("{good}[GNUPG:] GOODSIG {ID} A\n"), true, false),
            (format!("{good}[GNUPG:] NEWSIG\n"), true, false),
            (format!("[GNUPG:] GOODSIG {ID} A\n"), true, false),
            (format!("[GNUPG:] GOODSIG 3AFDEB23 A\n{VALID}\n"), true, false),
            // Not at the start of a line.
            (format!("x [GNUPG:] GOODSIG {ID} A\n{VALID}\n"), true, false),
            (String::new(), true, false),
            ("error: cannot run gpg".to_owned(), false, false),
            (format!("[GNUPG:] ERRSIG {ID} 1 8 00 1700000000 4 -\n"), false, false),
        ];
        for (raw, succeeded, cut) in unsure {
            let read = Signature::read(false, &raw, succeeded, cut);
            assert!(matches!(read.state, SignatureState::Unverifiable(_)), "{raw}: {read:?}");
        }
    }

    #[test]
    fn the_other_results_are_told_apart() {
        let cases = [
            ("BADSIG", SignatureState::Bad),
            ("EXPSIG", SignatureState::ExpiredSignature),
            ("EXPKEYSIG", SignatureState::ExpiredKey),
            ("REVKEYSIG", SignatureState::RevokedKey),
        ];
        for (word, want) in cases {
            // Whatever the exit code says.
            for succeeded in [true, false] {
                let raw = format!("[GNUPG:] NEWSIG\n[GNUPG:] {word} {ID} A\n{VALID}\n");
                assert_eq!(state(&raw, succeeded), want, "{word}");
            }
        }
        let missing =
            format!("[GNUPG:] ERRSIG {ID} 22 8 00 1700000000 9 5DE3\n[GNUPG:] NO_PUBKEY {ID}\n");
        assert_eq!(state(&missing, false), SignatureState::UnknownKey);
        assert_eq!(state("", false), SignatureState::Unsigned);
        assert_eq!(state("error: no signature found\n", false), SignatureState::Unsigned);
    }

    #[test]
    fn ids_and_fingerprints_have_the_same_long_id() {
        assert_eq!(long_id("5de3e0509c47ea3cf04a42d34aee18f83afdeb23"), ID);
        assert_eq!(long_id(ID), ID);
        for wrong in ["", "3AFDEB23", "4AEE18F83AFDEB2G", "0x4AEE18F83AFDEB23", "ÄÄÄÄÄÄÄÄÄÄÄÄ"]
        {
            assert_eq!(long_id(wrong), "", "{wrong}");
        }
    }
}
