//! Small https requests of this program itself: to the servers that give out tokens for
//! repositories, and to registries.
//!
//! A request goes over a connection of its own, directly or through an HTTP proxy (`connect`),
//! follows no redirect, and is limited in time and size. What it sends and what it receives may
//! be secret: neither is logged, and errors name the host only.

use std::time::Duration;

use http::header::{CONTENT_LENGTH, CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, Error as TlsError};

use crate::http::credentials::RepoCredentials;
use wavegate_net::connect::{self, ConnectError, Connection, Proxy};
use wavegate_net::tls;

/// Timeout of a request with its answer.
const WITHIN: Duration = Duration::from_secs(20);
/// The largest answer, in bytes.
const MAX_ANSWER: usize = 4 << 20;
/// The longest head of an answer, in bytes.
const MAX_HEAD: usize = 16 << 10;
/// Who asks.
const AGENT: &str = concat!("wavegate/", env!("CARGO_PKG_VERSION"));

/// A request.
#[derive(Debug)]
pub(crate) struct HttpRequest<'a> {
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
pub(crate) struct HttpResponse {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Bytes,
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum TransportError {
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
pub(crate) type Save<'a> = &'a mut (dyn FnMut(&[u8]) -> Result<(), TransportError> + Send);

/// Sends a request whose answer is large or slow. The body of a successful one goes to `save`;
/// that of any other one is part of the answer.
pub(crate) async fn download(
    request: &HttpRequest<'_>,
    credentials: &RepoCredentials,
    allow_http: bool,
    within: Duration,
    save: Save<'_>,
) -> Result<HttpResponse, TransportError> {
    let attempt = attempt(request, credentials, allow_http, Some(save));
    tokio::time::timeout(within, attempt).await.unwrap_or_else(|_| {
        Err(TransportError::Unreachable(format!(
            "no whole answer within {} s",
            within.as_secs_f64()
        )))
    })
}

/// Sends a request with the proxy, the certificates and the client certificate of a
/// repository.
pub(crate) async fn ask(
    request: &HttpRequest<'_>,
    credentials: &RepoCredentials,
    allow_http: bool,
) -> Result<HttpResponse, TransportError> {
    let attempt = attempt(request, credentials, allow_http, None);
    tokio::time::timeout(WITHIN, attempt).await.unwrap_or_else(|_| {
        Err(TransportError::Unreachable(format!(
            "it does not answer within {} s",
            WITHIN.as_secs()
        )))
    })
}

async fn attempt(
    request: &HttpRequest<'_>,
    credentials: &RepoCredentials,
    allow_http: bool,
    save: Option<Save<'_>>,
) -> Result<HttpResponse, TransportError> {
    let unusable = |why: &str| TransportError::Unusable(why.to_owned());
    let url: Uri = request.url.parse().map_err(|_| unusable("it is no URL"))?;
    let is_encrypted = match url.scheme_str() {
        Some("https") => true,
        Some("http") if allow_http => false,
        _ => return Err(unusable("its URL must begin with https://")),
    };
    if url.host().is_none_or(str::is_empty) {
        return Err(unusable("no host"));
    }
    if is_encrypted && url.host().is_some_and(|host| !is_name(host)) {
        return Err(unusable("its host is no name for a certificate"));
    }
    let tls =
        trusting(credentials).map_err(|error| TransportError::Unusable(tls::error_text(&error)))?;
    let proxy = Proxy {
        url: credentials.proxy.clone(),
        except: credentials.no_proxy.clone(),
        or_environment: false,
    };
    let connection = Connection::new(&url, tls, &proxy, MAX_HEAD)
        .map_err(|why| TransportError::Unusable(format!("the proxy of the repository {why}")))?;
    exchange(&connection, request, url, save).await
}

/// Whether a certificate can be for a host.
fn is_name(host: &str) -> bool {
    ServerName::try_from(host.trim_matches(['[', ']'])).is_ok()
}

fn trusting(credentials: &RepoCredentials) -> Result<ClientConfig, TlsError> {
    let wrong = |what: &str| TlsError::General(format!("{what} is no PEM"));
    let certificates = |pem: &str| tls::parse_certificates(pem).map_err(|_| wrong("a certificate"));
    let config = match credentials.insecure_skip_server_verification {
        true => tls::trusting_any()?,
        false => tls::trusting_roots(certificates(&credentials.ca_certificates)?)?,
    };
    if credentials.client_certificate.is_empty() {
        return Ok(config.with_no_client_auth());
    }
    let key = PrivateKeyDer::from_pem_slice(credentials.client_key.as_bytes());
    let key = key.map_err(|_| wrong("tlsClientCertKey"))?;
    config.with_client_auth_cert(certificates(&credentials.client_certificate)?, key)
}

async fn exchange(
    connection: &Connection,
    ask: &HttpRequest<'_>,
    url: Uri,
    save: Option<Save<'_>>,
) -> Result<HttpResponse, TransportError> {
    let mut request =
        Request::builder().method(ask.method.clone()).uri(url).header(USER_AGENT, AGENT);
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
    let request =
        request.map_err(|_| TransportError::Unusable("a header cannot be sent".to_owned()))?;
    let answer = connection.send(request).await.map_err(|refused| match refused {
        ConnectError::Untrusted(why) => TransportError::Untrusted(format!("{why:?}")),
        ConnectError::Other(error) => {
            let way = match connection.is_proxied() && error.is_connect() {
                true => "through the proxy of the repository: ",
                false => "",
            };
            TransportError::Unreachable(format!("{way}{}", connect::error_chain(&error)))
        }
    })?;
    let (head, mut body) = answer.into_parts();
    if let Some(save) = save.filter(|_| head.status.is_success()) {
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| TransportError::Unreachable(error.to_string()))?;
            if let Some(data) = frame.data_ref() {
                save(data)?;
            }
        }
        return Ok(HttpResponse { status: head.status, headers: head.headers, body: Bytes::new() });
    }
    let body = Limited::new(body, MAX_ANSWER).collect().await;
    let body = body.map_err(|error| TransportError::Unreachable(error.to_string()))?;
    Ok(HttpResponse { status: head.status, headers: head.headers, body: body.to_bytes() })
}
