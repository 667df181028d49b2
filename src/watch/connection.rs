//! The one place where a client of an API server is made, be it that of the
//! control plane, of a destination, or of the command line.

use std::panic::AssertUnwindSafe;

use http::header::{HeaderValue, USER_AGENT};
use kube::config::AuthInfo;

use super::failure::reason;

/// How requests name this program to servers and to their audit logs.
pub const AGENT: &str = concat!("wavegate/", env!("CARGO_PKG_VERSION"));

/// Why there can be no client. No text holds a credential.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// The address of the server is none.
    #[error("is not an address such as https://host:6443")]
    Server,
    /// The bearer token cannot be sent.
    #[error(
        "holds a line break or another character that an HTTP header cannot hold; write it on one line"
    )]
    Token,
    /// Certificates or other credentials cannot be used.
    #[error("{0}")]
    Credentials(String),
}

/// A client. Blanks and line breaks around a bearer token are dropped, as
/// `kubectl` does with a token from a file.
///
/// # Errors
///
/// All of [`Unusable`].
pub fn client(mut config: kube::Config) -> Result<kube::Client, Unusable> {
    // Without these two no request has an address, and the library panics.
    let scheme = config.cluster_url.scheme_str();
    if !matches!(scheme, Some("https" | "http")) || config.cluster_url.authority().is_none() {
        return Err(Unusable::Server);
    }
    if let Some(token) = token(&config.auth_info) {
        let token = token.trim();
        // As the library will do it, which panics when it cannot.
        HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| Unusable::Token)?;
        config.auth_info.token = Some(token.to_owned().into());
    }
    // Who repeats a request is decided where it is known to be safe: the library
    // would repeat any for minutes, creations too.
    config.default_retry = false;
    config.headers.push((USER_AGENT, HeaderValue::from_static(AGENT)));
    let made = AssertUnwindSafe(move || kube::Client::try_from(config));
    match std::panic::catch_unwind(made) {
        Ok(Ok(client)) => Ok(client),
        Ok(Err(error)) => Err(Unusable::Credentials(reason(&error))),
        Err(_) => Err(Unusable::Credentials("cannot be used".to_owned())),
    }
}

/// The token as written. The library keeps it in a type of its own, which can
/// be read by writing it out.
fn token(auth: &AuthInfo) -> Option<String> {
    auth.token.as_ref()?;
    let written = serde_json::to_value(auth).ok()?;
    written["token"].as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(server: &str, token: &str) -> Result<(), Unusable> {
        let mut config = kube::Config::new(server.parse().unwrap());
        config.auth_info.token = (!token.is_empty()).then(|| token.to_owned().into());
        client(config).map(drop)
    }

    #[tokio::test]
    async fn what_cannot_be_sent_is_an_error_and_no_panic() {
        for (server, token, want) in [
            ("https://host:6443", "", Ok(())),
            ("https://host:6443", "abc\n", Ok(())),
            ("https://host:6443", " abc\r\n", Ok(())),
            ("https://host:6443", "a\nb", Err(Unusable::Token)),
            ("https://host:6443", "a\u{0}b", Err(Unusable::Token)),
            ("host", "", Err(Unusable::Server)),
            ("host:6443", "", Err(Unusable::Server)),
            ("/path", "", Err(Unusable::Server)),
            ("ftp://host", "", Err(Unusable::Server)),
        ] {
            assert_eq!(made(server, token), want, "{server} {token:?}");
        }
    }
}
