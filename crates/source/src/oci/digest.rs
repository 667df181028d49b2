//! Digests of content, by which registries name manifests and blobs.

use data_encoding::HEXLOWER;
use sha2::{Digest as _, Sha256, Sha512};

/// A digest that can be verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ContentDigest(String);

/// Computes the digest of content, part by part.
#[derive(Debug)]
pub(super) enum Hasher {
    Sha256(Box<Sha256>),
    Sha512(Box<Sha512>),
}

impl ContentDigest {
    /// Reads `sha256:…` or `sha512:…`, in lower case.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (algorithm, digits) = text.split_once(':')?;
        let length = match algorithm {
            "sha256" => 64,
            "sha512" => 128,
            _ => return None,
        };
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let is_digest = digits.len() == length && digits.bytes().all(is_digit);
        is_digest.then(|| Self(text.to_owned()))
    }

    /// The digest of some bytes, as registries compute it.
    pub(super) fn of(bytes: &[u8]) -> Self {
        let mut hasher = Hasher::Sha256(Box::default());
        hasher.update(bytes);
        hasher.finish()
    }

    /// As it is written.
    pub(super) fn text(&self) -> &str {
        &self.0
    }

    /// Computes a digest of the same algorithm.
    pub(super) fn hasher(&self) -> Hasher {
        match self.0.starts_with("sha512:") {
            true => Hasher::Sha512(Box::default()),
            false => Hasher::Sha256(Box::default()),
        }
    }
}

impl Hasher {
    pub(super) fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha256(hash) => hash.update(bytes),
            Self::Sha512(hash) => hash.update(bytes),
        }
    }

    pub(super) fn finish(self) -> ContentDigest {
        ContentDigest(match self {
            Self::Sha256(hash) => format!("sha256:{}", HEXLOWER.encode(&hash.finalize())),
            Self::Sha512(hash) => format!("sha512:{}", HEXLOWER.encode(&hash.finalize())),
        })
    }
}
