//! Connections of this program's own requests by https, directly or through an HTTP proxy, for
//! repositories and generators.

use std::error::Error as _;
use std::time::Duration;

use http::{Request, Response, Uri};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::legacy::{Client, Error};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::TokioExecutor;
use tokio_rustls::rustls::{CertificateError, ClientConfig, Error as TlsError};

/// Timeout of a connection.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// A proxy, as settings name it.
#[derive(Clone, Default)]
pub struct Proxy {
    /// Its URL, which may have a user name and a password, or only its host and port. When it
    /// is empty, the variables of the environment count, or none.
    pub url: String,
    /// Hosts that are reached without it, separated by commas or spaces: names with their
    /// subdomains, also written `.example.com` or `*.example.com`, addresses, networks, and
    /// `*` for all.
    pub except: String,
    /// Whether the variables of the environment count without a URL.
    pub or_environment: bool,
}

impl std::fmt::Debug for Proxy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Proxy").field("except", &self.except).finish_non_exhaustive()
    }
}

impl Proxy {
    /// The proxy for a URL.
    ///
    /// # Errors
    ///
    /// When it cannot be used: nothing is sent without it then.
    fn of(&self, target: &Uri) -> Result<Option<Intercept>, String> {
        let found = if !self.url.is_empty() {
            let url = with_one_at(&self.url);
            let except = excepted(&self.except);
            let all = Matcher::builder().all(url.as_str()).build().intercept(target);
            let all = all.ok_or("is no URL with a host, such as http://proxy:3128")?;
            let is_excepted = Matcher::builder().all(url).no(except).build();
            is_excepted.intercept(target).map(|_| all)
        } else if self.or_environment {
            Matcher::from_env().intercept(target)
        } else {
            None
        };
        match found {
            Some(found) if found.uri().scheme_str() != Some("http") => {
                Err("must begin with http://".to_owned())
            }
            found => Ok(found),
        }
    }
}

/// Only the last `@` ends the login; others belong to the password.
fn with_one_at(url: &str) -> String {
    let end = url.find("://").map_or(0, |at| at + 3);
    let (scheme, rest) = url.split_at(end);
    match rest.rsplit_once('@') {
        Some((login, place)) => format!("{scheme}{}@{place}", login.replace('@', "%40")),
        None => url.to_owned(),
    }
}

/// The list in the form of the library, which knows commas, and `*` by itself only.
fn excepted(list: &str) -> String {
    let entries = list.split([',', ' ']).map(str::trim).filter(|entry| !entry.is_empty());
    let entries = entries.map(|entry| match entry {
        "*" => entry,
        entry => entry.trim_start_matches('*'),
    });
    entries.collect::<Vec<_>>().join(",")
}

/// A client of one server.
#[derive(Debug)]
pub enum Connection {
    /// By https.
    Direct(Client<HttpsConnector<HttpConnector>, Full<Bytes>>),
    /// The same, through an HTTP proxy.
    Proxy(Client<HttpsConnector<Tunnel<HttpConnector>>, Full<Bytes>>),
}

/// Why there is no answer.
#[derive(Debug)]
pub enum ConnectError {
    /// The certificate of the server is not trusted.
    Untrusted(CertificateError),
    /// Anything else.
    Other(Error),
}

impl Connection {
    /// A client of the server of a URL, whose answers have heads of so many bytes at most.
    ///
    /// # Errors
    ///
    /// What is wrong with the proxy, as in `the proxy {error}`.
    pub fn new(
        target: &Uri,
        tls: ClientConfig,
        proxy: &Proxy,
        head: usize,
    ) -> Result<Self, String> {
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_connect_timeout(Some(CONNECT_WITHIN));
        let tls = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1();
        let mut builder = Client::builder(TokioExecutor::new());
        builder.http1_max_buf_size(head);
        Ok(match proxy.of(target)? {
            None => Self::Direct(builder.build(tls.wrap_connector(http))),
            Some(found) => {
                let mut tunnel = Tunnel::new(found.uri().clone(), http);
                if let Some(auth) = found.basic_auth() {
                    tunnel = tunnel.with_auth(auth.clone());
                }
                Self::Proxy(builder.build(tls.wrap_connector(tunnel)))
            }
        })
    }

    /// Whether it leads through a proxy.
    pub fn is_proxied(&self) -> bool {
        matches!(self, Self::Proxy(_))
    }

    /// Sends a request.
    ///
    /// # Errors
    ///
    /// All of [`ConnectError`].
    pub async fn send(
        &self,
        mut request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, ConnectError> {
        *request.uri_mut() = with_port(std::mem::take(request.uri_mut()));
        let sent = match self {
            Self::Direct(client) => client.request(request).await,
            Self::Proxy(client) => client.request(request).await,
        };
        sent.map_err(|error| match certificate_error(&error) {
            Some(why) => ConnectError::Untrusted(why),
            None => ConnectError::Other(error),
        })
    }
}

/// What is wrong with the certificate of a server, if that is why a request failed.
fn certificate_error(error: &Error) -> Option<CertificateError> {
    let mut next = error.source();
    while let Some(error) = next {
        if let Some(TlsError::InvalidCertificate(why)) = error.downcast_ref() {
            return Some(why.clone());
        }
        // An error of the system that holds another one has the source of that one.
        let mut held = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        while let Some(inner) = held {
            if let Some(TlsError::InvalidCertificate(why)) = inner.downcast_ref() {
                return Some(why.clone());
            }
            held = inner.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        }
        next = error.source();
    }
    None
}

/// What an error says, with its causes.
pub fn error_chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        next = error.source();
    }
    text
}

/// A URL with its port where that is 80: a tunnel of a proxy would lead to 443 otherwise.
fn with_port(url: Uri) -> Uri {
    let Some(authority) = url.authority().filter(|authority| authority.port().is_none()) else {
        return url;
    };
    if url.scheme_str() != Some("http") {
        return url;
    }
    let authority = format!("{authority}:80");
    let mut parts = url.clone().into_parts();
    parts.authority = authority.parse().ok();
    Uri::from_parts(parts).unwrap_or(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(url: &str, except: &str, target: &str) -> Result<Option<Intercept>, String> {
        let proxy = Proxy { url: url.into(), except: except.into(), ..Proxy::default() };
        proxy.of(&target.parse().unwrap())
    }

    #[test]
    fn hosts_are_excepted_from_a_proxy_with_their_subdomains() {
        for (list, host, want) in [
            ("example.com", "example.com", true),
            ("EXAMPLE.com", "example.COM", true),
            ("a,.example.com", "git.example.com", true),
            ("a .example.com", "example.com", true),
            ("*.example.com", "git.example.com", true),
            ("*example.com", "example.com", true),
            ("example.com", "notexample.com", false),
            ("", "example.com", false),
            (",", "example.com", false),
            ("*", "example.com", true),
            ("127.0.0.1", "127.0.0.1", true),
            ("10.0.0.0/8, fd00::/8", "10.1.2.3", true),
            ("10.0.0.0/8, fd00::/8", "[fd00::1]", true),
            ("10.0.0.0/8", "11.1.2.3", false),
        ] {
            let found = of("http://proxy:3128", list, &format!("https://{host}/x"));
            assert_eq!(found.map(|found| found.is_none()), Ok(want), "{list} {host}");
        }
        let none = Proxy::default().of(&"https://example.com".parse().unwrap());
        assert!(none.is_ok_and(|found| found.is_none()));
    }

    #[test]
    fn the_login_of_a_proxy_is_taken_from_its_url() {
        for (url, want) in [
            ("http://me:pass@proxy:3128", "Basic bWU6cGFzcw=="),
            ("me:p%40ss@proxy:3128", "Basic bWU6cEBzcw=="),
            ("http://me:p@ss@proxy:3128", "Basic bWU6cEBzcw=="),
            ("http://me@proxy:3128", "Basic bWU6"),
            ("http://proxy:3128/", ""),
        ] {
            let found = of(url, "", "https://example.com").unwrap().unwrap();
            let auth = found.basic_auth().map(|auth| auth.to_str().unwrap());
            assert_eq!(auth.unwrap_or_default(), want, "{url}");
            assert_eq!(found.uri().authority().unwrap(), "proxy:3128", "{url}");
        }
    }

    /// A proxy that cannot be used is not left out.
    #[test]
    fn what_is_no_proxy_is_refused() {
        for (url, want) in [
            ("http://", "is no URL"),
            ("http://pro xy", "is no URL"),
            ("ftp://proxy", "is no URL"),
            ("socks5://proxy:1080", "must begin with http://"),
            ("https://proxy", "must begin with http://"),
        ] {
            let error = of(url, "", "https://example.com").err().unwrap_or_default();
            assert!(error.contains(want), "{url}: {error}");
        }
        let shown = format!("{:?}", Proxy { url: "http://me:s3cr3t@p".into(), ..Proxy::default() });
        assert!(!shown.contains("s3cr3t"), "{shown}");
    }
}
