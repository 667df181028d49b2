//! Tokens that a private key signs (RFC 7519 with RS256), for servers that exchange them for
//! other tokens.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use serde_json::Value;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;

/// Largest private key that is read, in bytes: one of 16,384 bits has 13 KiB.
const MAX_KEY: usize = 64 << 10;

/// Why a key cannot sign. No message contains a part of it.
#[derive(Debug, thiserror::Error)]
pub enum BadKey {
    /// It is larger than any key.
    #[error("is larger than {} KiB", MAX_KEY >> 10)]
    TooLarge,
    /// It is no private key, or has a passphrase.
    #[error("is no private key in PEM without a passphrase")]
    NoPem,
    /// It is a key of another kind.
    #[error("is no RSA key")]
    OtherKind,
    /// It is an RSA key that is not accepted, such as a short one.
    #[error("is no RSA key that can be used: {0}")]
    Rejected(String),
    /// It does not sign.
    #[error("cannot sign")]
    Unusable,
}

/// Signs the claims with an RSA key in PEM, of PKCS #1 or PKCS #8.
///
/// # Errors
///
/// All of [`BadKey`].
pub fn sign_token(pem: &str, claims: &Value) -> Result<String, BadKey> {
    if pem.len() > MAX_KEY {
        return Err(BadKey::TooLarge);
    }
    let key = PrivateKeyDer::from_pem_slice(pem.trim().as_bytes()).map_err(|_| BadKey::NoPem)?;
    let key = match &key {
        PrivateKeyDer::Pkcs1(key) => RsaKeyPair::from_der(key.secret_pkcs1_der()),
        PrivateKeyDer::Pkcs8(key) => RsaKeyPair::from_pkcs8(key.secret_pkcs8_der()),
        _ => return Err(BadKey::OtherKind),
    };
    let key = key.map_err(|error| BadKey::Rejected(error.to_string()))?;
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let header = serde_json::json!({"alg": "RS256", "typ": "JWT"});
    let text = format!("{}.{}", part(&header), part(claims));
    let mut signature = vec![0; key.public().modulus_len()];
    key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text.as_bytes(), &mut signature)
        .map_err(|_| BadKey::Unusable)?;
    Ok(format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature)))
}
