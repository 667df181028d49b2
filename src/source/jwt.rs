//! Tokens that a private key signs (RFC 7519 with RS256), for servers that give out tokens
//! for repositories.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use serde_json::Value;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;

/// Largest private key that is read, in bytes: one of 16,384 bits has 13 KiB.
const MAX_KEY: usize = 64 << 10;

/// Signs the claims with an RSA key in PEM, of PKCS #1 or PKCS #8.
///
/// # Errors
///
/// What is wrong with the key; no part of it.
pub(super) fn signed(pem: &str, claims: &Value) -> Result<String, String> {
    if pem.len() > MAX_KEY {
        return Err(format!("is larger than {} KiB", MAX_KEY >> 10));
    }
    let key = PrivateKeyDer::from_pem_slice(pem.trim().as_bytes())
        .map_err(|_| "is no private key in PEM without a passphrase".to_owned())?;
    let key = match &key {
        PrivateKeyDer::Pkcs1(key) => RsaKeyPair::from_der(key.secret_pkcs1_der()),
        PrivateKeyDer::Pkcs8(key) => RsaKeyPair::from_pkcs8(key.secret_pkcs8_der()),
        _ => return Err("is no RSA key".to_owned()),
    };
    let key = key.map_err(|error| format!("is no RSA key that can be used: {error}"))?;
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let header = serde_json::json!({"alg": "RS256", "typ": "JWT"});
    let text = format!("{}.{}", part(&header), part(claims));
    let mut signature = vec![0; key.public().modulus_len()];
    key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text.as_bytes(), &mut signature)
        .map_err(|_| "cannot sign".to_owned())?;
    Ok(format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature)))
}
