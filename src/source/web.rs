//! Small https requests of this program itself: to the servers that give out tokens for
//! repositories, and to registries.
//!
//! A request goes over a connection of its own, directly or through an HTTP proxy, follows no
//! redirect, and is limited in time and size. What it sends and what it receives may be
//! secret: neither is logged, and errors name the host only.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HOST, USER_AGENT};
use http::{HeaderMap, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, Error as TlsError};

use super::credentials::Credentials;
use crate::tls;

/// Timeout of a request with its answer.
const WITHIN: Duration = Duration::from_secs(20);
/// The largest answer, in bytes.
const MAX_ANSWER: usize = 4 << 20;
/// The longest head of an answer, also of a proxy, in bytes.
const MAX_HEAD: usize = 16 << 10;
/// Who asks.
const AGENT: &str = concat!("wavegate/", env!("CARGO_PKG_VERSION"));

/// A request.
#[derive(Debug)]
pub(super) struct Ask<'a> {
    /// How.
    pub method: Method,
    /// Where, with `https://`, or `http://` where that is allowed.
    pub url: &'a str,
    /// Additional headers.
    pub headers: &'a [(&'static str, String)],
    /// The type of the body, and the body.
    pub body: Option<(&'static str, String)>,
}

/// An answer with any status.
#[derive(Debug)]
pub(super) struct Said {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Bytes,
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Failed {
    /// The address or the settings cannot be used.
    Unusable(String),
    /// The certificate of the server is not trusted.
    Untrusted(String),
    /// There is no connection, or it broke.
    Unreachable(String),
    /// The answer is larger than this limit, with its unit.
    TooLarge(String),
}

/// Takes the body of a successful answer, part by part. An error ends the request.
pub(super) type Save<'a> = &'a mut (dyn FnMut(&[u8]) -> Result<(), Failed> + Send);

/// Sends a request whose answer is large or slow. The body of a successful one goes to `save`;
/// that of any other one is part of the answer.
pub(super) async fn download(
    request: &Ask<'_>,
    credentials: &Credentials,
    allow_http: bool,
    within: Duration,
    save: Save<'_>,
) -> Result<Said, Failed> {
    let attempt = attempt(request, credentials, allow_http, Some(save));
    tokio::time::timeout(within, attempt).await.unwrap_or_else(|_| {
        Err(Failed::Unreachable(format!("no whole answer within {} s", within.as_secs_f64())))
    })
}

/// Sends a request with the proxy, the certificates and the client certificate of a
/// repository.
pub(super) async fn ask(
    request: &Ask<'_>,
    credentials: &Credentials,
    allow_http: bool,
) -> Result<Said, Failed> {
    let attempt = attempt(request, credentials, allow_http, None);
    tokio::time::timeout(WITHIN, attempt).await.unwrap_or_else(|_| {
        Err(Failed::Unreachable(format!("it does not answer within {} s", WITHIN.as_secs())))
    })
}

async fn attempt(
    request: &Ask<'_>,
    credentials: &Credentials,
    allow_http: bool,
    save: Option<Save<'_>>,
) -> Result<Said, Failed> {
    let unusable = |why: &str| Failed::Unusable(why.to_owned());
    let url: Uri = request.url.parse().map_err(|_| unusable("it is no URL"))?;
    let is_encrypted = match url.scheme_str() {
        Some("https") => true,
        Some("http") if allow_http => false,
        _ => return Err(unusable("its URL must begin with https://")),
    };
    let host = url.host().filter(|host| !host.is_empty()).ok_or_else(|| unusable("no host"))?;
    let port = url.port_u16().unwrap_or(if is_encrypted { 443 } else { 80 });
    let stream = connect((host, port), credentials).await?;
    if !is_encrypted {
        return exchange(stream, request, &url, save).await;
    }
    let tls = trusting(credentials).map_err(|error| Failed::Unusable(error.to_string()))?;
    let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned());
    let name = name.map_err(|_| unusable("its host is no name for a certificate"))?;
    let stream = TlsConnector::from(Arc::new(tls)).connect(name, stream).await;
    let stream = stream.map_err(|error| match tls_error(&error) {
        Some(TlsError::InvalidCertificate(why)) => Failed::Untrusted(format!("{why:?}")),
        _ => Failed::Unreachable(error.to_string()),
    })?;
    exchange(stream, request, &url, save).await
}

fn tls_error(error: &std::io::Error) -> Option<&TlsError> {
    error.get_ref()?.downcast_ref::<TlsError>()
}

/// A connection to a host, through the proxy of the repository if it has one for this host.
async fn connect(
    (host, port): (&str, u16),
    credentials: &Credentials,
) -> Result<TcpStream, Failed> {
    let unreachable = |error: std::io::Error| Failed::Unreachable(error.to_string());
    let direct = host.trim_matches(['[', ']']);
    if credentials.proxy.is_empty() || is_excepted(&credentials.no_proxy, direct) {
        return TcpStream::connect((direct, port)).await.map_err(unreachable);
    }
    let unusable = |why: &str| Failed::Unusable(format!("the proxy of the repository {why}"));
    let written = match credentials.proxy.contains("://") {
        true => credentials.proxy.clone(),
        false => format!("http://{}", credentials.proxy),
    };
    let (scheme, rest) = written.split_once("://").unwrap_or(("http", &written));
    if !scheme.eq_ignore_ascii_case("http") {
        return Err(unusable("must begin with http:// for requests to registries and for tokens"));
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let (login, place) = match authority.rsplit_once('@') {
        Some((login, place)) => (Some(login), place),
        None => (None, authority),
    };
    let place: http::uri::Authority = place.parse().map_err(|_| unusable("is no URL"))?;
    let address = (place.host().trim_matches(['[', ']']), place.port_u16().unwrap_or(80));
    let mut stream = TcpStream::connect(address).await.map_err(|error| {
        Failed::Unreachable(format!("the proxy of the repository cannot be reached: {error}"))
    })?;
    let mut head = format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n");
    if let Some(login) = login {
        let login = percent_encoding::percent_decode_str(login).collect::<Vec<u8>>();
        head.push_str(&format!("Proxy-Authorization: Basic {}\r\n", STANDARD.encode(login)));
    }
    head.push_str("\r\n");
    stream.write_all(head.as_bytes()).await.map_err(unreachable)?;
    // Byte by byte: what follows the head belongs to the server behind the proxy.
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        if answer.len() >= MAX_HEAD {
            return Err(unusable("answers with too long a head"));
        }
        answer.push(stream.read_u8().await.map_err(unreachable)?);
    }
    let first = String::from_utf8_lossy(&answer);
    let status = first.split(' ').nth(1).unwrap_or_default();
    if status.starts_with('2') {
        return Ok(stream);
    }
    let status: String = status.chars().filter(char::is_ascii_digit).take(3).collect();
    Err(Failed::Unreachable(format!("the proxy of the repository answers {status}")))
}

/// Whether a list such as `internal,.example.com,10.0.0.1` excepts a host from the proxy.
fn is_excepted(no_proxy: &str, host: &str) -> bool {
    let host = host.to_ascii_lowercase();
    no_proxy.split([',', ' ']).map(str::trim).filter(|entry| !entry.is_empty()).any(|entry| {
        let entry = entry.to_ascii_lowercase();
        let name = entry.trim_start_matches('*').trim_start_matches('.');
        entry == "*"
            || (!name.is_empty()
                && host
                    .strip_suffix(name)
                    .is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
    })
}

fn trusting(credentials: &Credentials) -> Result<ClientConfig, TlsError> {
    let wrong = |what: &str| TlsError::General(format!("{what} is no PEM"));
    let certificates = |pem: &str| tls::certificates(pem).map_err(|_| wrong("a certificate"));
    let config = match credentials.insecure_skip_server_verification {
        true => tls::trusting_any()?,
        false => tls::trusting(certificates(&credentials.ca_certificates)?)?,
    };
    if credentials.client_certificate.is_empty() {
        return Ok(config.with_no_client_auth());
    }
    let key = PrivateKeyDer::from_pem_slice(credentials.client_key.as_bytes());
    let key = key.map_err(|_| wrong("tlsClientCertKey"))?;
    config.with_client_auth_cert(certificates(&credentials.client_certificate)?, key)
}

async fn exchange<S>(
    stream: S,
    ask: &Ask<'_>,
    url: &Uri,
    save: Option<Save<'_>>,
) -> Result<Said, Failed>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let broken = |error: hyper::Error| Failed::Unreachable(error.to_string());
    let target = url.path_and_query().map_or("/", |target| target.as_str());
    let authority = url.authority().map_or("", |authority| authority.as_str());
    let authority = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let mut request = Request::builder()
        .method(ask.method.clone())
        .uri(target)
        .header(HOST, authority)
        .header(USER_AGENT, AGENT);
    for (name, value) in ask.headers {
        request = request.header(*name, value);
    }
    let (kind, body) = ask.body.clone().unwrap_or_default();
    if !kind.is_empty() {
        request = request.header(CONTENT_TYPE, kind);
    }
    if ask.method == Method::POST {
        request = request.header(CONTENT_LENGTH, body.len());
    }
    let request = request.body(Full::new(Bytes::from(body)));
    let request = request.map_err(|_| Failed::Unusable("a header cannot be sent".to_owned()))?;
    let (mut sender, connection) = http1::Builder::new()
        .max_buf_size(MAX_HEAD.max(8192))
        .handshake(TokioIo::new(stream))
        .await
        .map_err(broken)?;
    let answer = async {
        let answer = sender.send_request(request).await.map_err(broken)?;
        let (head, mut body) = answer.into_parts();
        if let Some(save) = save.filter(|_| head.status.is_success()) {
            while let Some(frame) = body.frame().await {
                if let Some(data) = frame.map_err(broken)?.data_ref() {
                    save(data)?;
                }
            }
            return Ok(Said { status: head.status, headers: head.headers, body: Bytes::new() });
        }
        let body = Limited::new(body, MAX_ANSWER).collect().await;
        let body = body.map_err(|error| Failed::Unreachable(error.to_string()))?;
        Ok(Said { status: head.status, headers: head.headers, body: body.to_bytes() })
    };
    tokio::pin!(answer, connection);
    tokio::select! {
        answer = &mut answer => answer,
        _ = &mut connection => answer.await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_excepted_from_a_proxy_with_their_subdomains() {
        for (list, host, want) in [
            ("example.com", "example.com", true),
            ("a,.example.com", "git.example.com", true),
            ("*.example.com", "git.example.com", true),
            ("example.com", "notexample.com", false),
            ("", "example.com", false),
            (",", "example.com", false),
            ("*", "example.com", true),
            ("127.0.0.1", "127.0.0.1", true),
        ] {
            assert_eq!(is_excepted(list, host), want, "{list} {host}");
        }
    }
}
