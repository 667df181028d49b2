//! Creates all clients of API servers: those of the control plane, of destinations, and
//! of the command line.

use std::error::Error;
use std::fmt;
use std::panic::AssertUnwindSafe;

use http::Uri;
use http::header::{HeaderValue, USER_AGENT};
use hyper_util::client::legacy;
use kube::client::{AuthError, ClientBuilder};
use kube::config::AuthInfo;
use tower::BoxError;
use tower::util::MapErrLayer;

use super::failure::error_reason;
use super::{busy, time_limit};

/// User agent of all requests, as shown in audit logs.
pub const AGENT: &str = concat!("wavegate/", env!("CARGO_PKG_VERSION"));

/// Why a client cannot be created. No message contains a credential.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnusableConnection {
    /// The address of the server is invalid.
    #[error("is not an address such as https://host:6443")]
    Server,
    /// The bearer token cannot be sent.
    #[error(
        "contains a line break or another character that is invalid in an HTTP header; write it on one line"
    )]
    Token,
    /// Certificates or other credentials cannot be used.
    #[error("{0}")]
    Credentials(String),
}

/// Creates a client. Blanks and line breaks around a bearer token are removed, as
/// `kubectl` does with a token file.
///
/// # Errors
///
/// All of [`UnusableConnection`].
pub fn connected_client(mut config: kube::Config) -> Result<kube::Client, UnusableConnection> {
    // Without these two, requests have no address, and the library panics.
    let scheme = config.cluster_url.scheme_str();
    if !matches!(scheme, Some("https" | "http")) || config.cluster_url.authority().is_none() {
        return Err(UnusableConnection::Server);
    }
    if let Some(token) = token(&config.auth_info) {
        let token = token.trim();
        // The library does the same, and panics on an error.
        HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| UnusableConnection::Token)?;
        config.auth_info.token = Some(token.to_owned().into());
    }
    // Retries are done where they are known to be safe: the library would retry any
    // request for minutes, creations included, whatever the error was.
    config.default_retry = false;
    let program = config.auth_info.exec.as_ref().and_then(|exec| exec.command.clone());
    config.headers.push((USER_AGENT, HeaderValue::from_static(AGENT)));
    let server = address(&config.cluster_url);
    let unreachable = MapErrLayer::new(move |error: BoxError| match error.downcast() {
        Ok(cause) => Unreachable::of(&server, *cause),
        Err(other) => other,
    });
    let made = AssertUnwindSafe(move || {
        ClientBuilder::try_from(config).map(|builder| builder.with_layer(&unreachable).build())
    });
    match std::panic::catch_unwind(made) {
        Ok(Ok(client)) => Ok(careful_client(client)),
        // The library does not name it.
        Ok(Err(kube::Error::Auth(AuthError::AuthExecStart(cause))))
            if let Some(program) = &program =>
        {
            let why = format!("the credential program {program} cannot be started: {cause}");
            Err(UnusableConnection::Credentials(why))
        }
        Ok(Err(error)) => Err(UnusableConnection::Credentials(error_reason(&error))),
        Err(_) => Err(UnusableConnection::Credentials("cannot be used".to_owned())),
    }
}

/// The same client for a server that is busy, and for one that does not answer.
pub fn careful_client(client: kube::Client) -> kube::Client {
    busy::waiting_client(time_limit::limited_client(client))
}

/// A server that cannot be connected to: which one it is, is the first thing to check.
#[derive(Debug)]
struct Unreachable {
    server: String,
    cause: legacy::Error,
}

impl Unreachable {
    fn of(server: &str, cause: legacy::Error) -> BoxError {
        match cause.is_connect() {
            true => Box::new(Self { server: server.to_owned(), cause }),
            false => Box::new(cause),
        }
    }
}

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cannot be reached", self.server)
    }
}

impl Error for Unreachable {
    /// The cause itself says only that connecting failed.
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.cause.source()
    }
}

/// Scheme, host and port, without a user.
fn address(server: &Uri) -> String {
    let port = server.port().map(|port| format!(":{port}")).unwrap_or_default();
    let (scheme, host) = (server.scheme_str().unwrap_or_default(), server.host());
    format!("{scheme}://{}{port}", host.unwrap_or_default())
}

/// The token as written. The type of the library makes it accessible only by serialization.
fn token(auth: &AuthInfo) -> Option<String> {
    auth.token.as_ref()?;
    let written = serde_json::to_value(auth).ok()?;
    written["token"].as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(server: &str, token: &str) -> Result<(), UnusableConnection> {
        let mut config = kube::Config::new(server.parse().unwrap());
        config.auth_info.token = (!token.is_empty()).then(|| token.to_owned().into());
        connected_client(config).map(drop)
    }

    #[tokio::test]
    async fn a_server_that_cannot_be_reached_is_named_without_credentials() {
        // Bound, so that nothing else uses the port, and not listening.
        let bound = tokio::net::TcpSocket::new_v4().unwrap();
        bound.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let free = bound.local_addr().unwrap();
        let server = format!("http://me:s3cr3t@{free}/proxy");
        let client = connected_client(kube::Config::new(server.parse().unwrap())).unwrap();
        let error = client.apiserver_version().await.unwrap_err();
        let want = format!("http://{free} cannot be reached: tcp connect error: ");
        let said = error_reason(&error);
        assert!(said.starts_with(&want) && said.contains("refused"), "{said}");
        assert!(crate::watch::failure::is_unknown(&error), "it may be tried again");
    }

    #[tokio::test]
    async fn a_credential_program_that_does_not_exist_is_named() {
        let mut config = kube::Config::new("https://127.0.0.1:1".parse().unwrap());
        let exec = serde_json::json!({"command": "/nonexistent/login", "interactiveMode": "Never",
            "apiVersion": "client.authentication.k8s.io/v1"});
        config.auth_info.exec = Some(serde_json::from_value(exec).unwrap());
        let Err(error) = connected_client(config) else { panic!("it cannot be started") };
        let said = error.to_string();
        let want = "the credential program /nonexistent/login cannot be started: No such file";
        assert!(said.starts_with(want), "{said}");
    }

    #[tokio::test]
    async fn invalid_settings_are_errors_not_panics() {
        for (server, token, want) in [
            ("https://host:6443", "", Ok(())),
            ("https://host:6443", "abc\n", Ok(())),
            ("https://host:6443", " abc\r\n", Ok(())),
            ("https://host:6443", "a\nb", Err(UnusableConnection::Token)),
            ("https://host:6443", "a\u{0}b", Err(UnusableConnection::Token)),
            ("host", "", Err(UnusableConnection::Server)),
            ("host:6443", "", Err(UnusableConnection::Server)),
            ("/path", "", Err(UnusableConnection::Server)),
            ("ftp://host", "", Err(UnusableConnection::Server)),
        ] {
            assert_eq!(made(server, token), want, "{server} {token:?}");
        }
    }
}
