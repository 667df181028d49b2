//! Tokens of GitHub Apps, and whose they are.

use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::failure::ProviderError;
use wavegate_net::token_cache::TokenCache;

/// Whose token it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub app: String,
    /// The digest of the private key: with another one, or the right one at last, the app is asked
    /// for another token.
    pub digest: [u8; 32],
    pub installation: Installation,
    /// The address of the API.
    pub base: String,
}

/// Which installation of the app.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Installation {
    Id(String),
    OfOwner(String),
}

/// The tokens of this process.
pub(super) type Tokens = Arc<TokenCache<Key, String, ProviderError>>;

/// A token that is sent, and where it is kept.
#[derive(Debug)]
pub(super) struct Kept {
    pub tokens: Tokens,
    pub key: Key,
    /// What it is recognized by.
    pub digest: [u8; 32],
}

impl Kept {
    /// Forgets it, since the server has refused it: it may have been revoked, or what the app may
    /// do has changed since.
    pub async fn forget(&self) {
        let is_this = |token: &String| digest(token) == self.digest;
        self.tokens.forget(self.key.clone(), is_this).await;
    }
}

pub(super) fn digest(text: &str) -> [u8; 32] {
    Sha256::digest(text).into()
}
