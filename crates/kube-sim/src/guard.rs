//! Who may talk to the server over the network.
//!
//! A page in a browser can send requests to this machine, and by a name of its
//! own that leads here it can even read the answers. So a request must name a
//! host that is meant, must not come from a page, must say what it carries, and
//! must show the token of the kubeconfig.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use http::{HeaderMap, Method, header, request};
use sha2::{Digest, Sha256};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::errors::ApiError;

/// What is asked of requests over the network.
#[derive(Clone)]
pub struct Guard {
    token: String,
    certificate: String,
    names: Vec<String>,
    pub(super) tls: TlsAcceptor,
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guard").field("names", &self.names).finish_non_exhaustive()
    }
}

/// Why there can be no guard.
#[derive(Debug, thiserror::Error)]
#[error("the certificate of the API server cannot be used: {0}")]
pub struct Unusable(String);

impl Guard {
    /// Asks for this bearer token. `certificate` and `key` are PEM, for TLS;
    /// `names` are names of hosts that requests may be addressed to, besides
    /// `localhost` and the address of the listener.
    ///
    /// # Errors
    ///
    /// When certificate or key cannot be read or do not fit.
    pub fn new(
        token: String,
        certificate: String,
        key: &str,
        names: Vec<String>,
    ) -> Result<Self, Unusable> {
        let failed = |error: &dyn std::fmt::Display| Unusable(error.to_string());
        let chain = CertificateDer::from_pem_slice(certificate.as_bytes());
        let chain = vec![chain.map_err(|error| failed(&error))?];
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|error| failed(&error))?;
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
            .map_err(|error| failed(&error))?;
        let tls = TlsAcceptor::from(Arc::new(config));
        Ok(Self { token, certificate, names, tls })
    }

    /// A kubeconfig for a server that listens on an address and has this guard.
    /// It holds the token; `name` is that of its cluster, user and context, which is in `namespace`.
    pub fn kubeconfig(&self, name: &str, address: SocketAddr, namespace: &str) -> String {
        use base64::Engine;
        let authority = base64::engine::general_purpose::STANDARD.encode(&self.certificate);
        // A wildcard is no address to connect to.
        let ip = match address.ip() {
            ip if !ip.is_unspecified() => ip,
            IpAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
        };
        let address = SocketAddr::new(ip, address.port());
        let cluster =
            format!("server: https://{address}\n    certificate-authority-data: {authority}");
        kubeconfig(name, &cluster, &format!("\n    token: {}", self.token), namespace)
    }

    /// Whether a request that reached `listener` may be answered.
    ///
    /// # Errors
    ///
    /// `Forbidden` for a foreign host and for a page of a browser, `Unauthorized`
    /// without the token, `UnsupportedMediaType` for a body of no known type.
    pub(super) fn check(
        &self,
        listener: Option<SocketAddr>,
        request: &request::Parts,
    ) -> Result<(), ApiError> {
        let headers = &request.headers;
        if headers.contains_key(header::ORIGIN) {
            let message = "requests of web pages are refused: the header Origin is set";
            return Err(ApiError::new(403, "Forbidden", message));
        }
        let named = header_text(headers, header::HOST);
        let target = request.uri.authority().map(http::uri::Authority::as_str);
        // Of a whole URL in the first line the header is a mere copy.
        if !target.into_iter().chain([named]).all(|host| self.is_meant(listener, host)) {
            let message = "the header Host names another host; use the address of the kubeconfig";
            return Err(ApiError::new(403, "Forbidden", message));
        }
        if !self.is_authorized(headers) {
            let message = "Unauthorized: send the bearer token of the kubeconfig";
            return Err(ApiError::new(401, "Unauthorized", message));
        }
        let writes = matches!(request.method, Method::POST | Method::PUT | Method::PATCH);
        // They have no body, and are refused with better words.
        let enters = ["/exec", "/attach", "/portforward"];
        let writes = writes && !enters.iter().any(|end| request.uri.path().ends_with(end));
        let type_ = header_text(headers, header::CONTENT_TYPE);
        if writes && !type_.trim_start().to_ascii_lowercase().starts_with("application/") {
            let message =
                "the header Content-Type must say what the body is, such as application/json";
            return Err(ApiError::unsupported_media_type(message));
        }
        Ok(())
    }

    /// Whether `host`, with or without a port, is a name of this server that
    /// no other server can have.
    fn is_meant(&self, listener: Option<SocketAddr>, host: &str) -> bool {
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.chars().all(|c| c.is_ascii_digit()) => name,
            _ => host,
        };
        let name = name.trim_end_matches('.');
        let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        match (address, listener.map(|listener| listener.ip())) {
            (Ok(address), Some(ip)) if address == ip || ip.is_unspecified() => true,
            (Ok(address), _) => address.is_loopback(),
            (Err(_), _) => {
                name.eq_ignore_ascii_case("localhost")
                    || self.names.iter().any(|known| known.eq_ignore_ascii_case(name))
            }
        }
    }

    fn is_authorized(&self, headers: &HeaderMap) -> bool {
        let (scheme, given) =
            header_text(headers, header::AUTHORIZATION).split_once(' ').unwrap_or_default();
        let (given, wanted) = (Sha256::digest(given.trim()), Sha256::digest(&self.token));
        // All of it is compared, so that the time reveals nothing.
        let differs = given.iter().zip(wanted.iter()).fold(0, |all, (a, b)| all | (a ^ b));
        scheme.eq_ignore_ascii_case("bearer") && differs == 0
    }
}

/// A kubeconfig with one context.
pub(super) fn kubeconfig(name: &str, cluster: &str, user: &str, namespace: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\nclusters:\n- name: {name}\n  cluster:\n    {cluster}\nusers:\n- name: {name}\n  \
         user:{user}\ncontexts:\n- name: {name}\n  context:\n    cluster: {name}\n    user: {name}\n    \
         namespace: {namespace}\ncurrent-context: {name}\n"
    )
}

/// The value of a header; empty without one, and for one that is no text.
pub(super) fn header_text(headers: &HeaderMap, name: header::HeaderName) -> &str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}
