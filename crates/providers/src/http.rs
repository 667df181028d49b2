//! Requests to the API of one server.
//!
//! Credentials are sent to the server that a generator names and to no other: a redirect
//! elsewhere is an error, and all pages of a list are asked for at its own address. Time, bytes, pages and requests of one query are limited,
//! and a limit that the server announces is kept.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION, USER_AGENT,
};
use http::{HeaderMap, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use jiff::Timestamp;
use parking_lot::Mutex;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tokio_rustls::rustls::ClientConfig;

use super::failure::{ProviderError, ProviderErrorKind, existing};
use super::redirect::{absolute, origin, shown, unreachable};
use super::{app_token, error_text, rate_limit};
use wavegate_cluster::watch::connection::AGENT;
use wavegate_cluster::watch::failure::cause_chain;
use wavegate_net::clock::Clock;
use wavegate_net::connect::{ConnectError, Connection, Proxy};
use wavegate_net::redact;

/// Repositories of one query that are asked about in parallel.
pub(super) const PARALLEL: usize = 4;
/// Timeout of a request with its answer.
const REQUEST_WITHIN: Duration = Duration::from_secs(60);
/// The longest head of an answer, in bytes.
const MAX_HEAD: usize = 256 << 10;
/// Limit on the bytes of one answer.
const MAX_ANSWER: usize = 16 << 20;
/// Limit on the bytes of all answers to a query.
const MAX_BYTES: usize = 128 << 20;
/// Limit on the requests of a query.
const MAX_REQUESTS: usize = 30_000;
/// Limit on the pages of one list.
const MAX_PAGES: usize = 1_000;
/// Limit on the redirects of one request.
const MAX_REDIRECTS: usize = 5;
/// The error of AWS for a folder that does not exist.
const NO_FOLDER: &str = "FolderDoesNotExistException";
/// The headers with credentials.
const CREDENTIALS: [HeaderName; 2] = [AUTHORIZATION, HeaderName::from_static("private-token")];

/// Until when a server has asked not to be asked, by its origin and who asks.
pub(super) type Blocked = Arc<Mutex<BTreeMap<(String, [u8; 32]), Timestamp>>>;

/// The API of one server.
#[derive(Debug)]
pub(super) struct Api {
    connection: Connection,
    /// Its address, without a slash at its end.
    base: String,
    /// What only it gets.
    headers: HeaderMap,
    /// Where the token among them is kept for other queries.
    kept: Option<app_token::Kept>,
    limits: Limits,
    clock: Clock,
    pub timeout: Duration,
}

/// What is left of the limits of a query.
#[derive(Clone, Debug, Default)]
pub(super) struct Limits {
    bytes: Arc<AtomicUsize>,
    requests: Arc<AtomicUsize>,
    blocked: Blocked,
}

impl Limits {
    pub fn new(blocked: Blocked) -> Self {
        Self { blocked, ..Self::default() }
    }
}

/// The pages of a list, or why they are not read.
pub(super) type Listing<T> = Result<Pages<T>, ProviderError>;

/// An answer with a code of success.
#[derive(Debug)]
pub(super) struct Reply {
    pub status: StatusCode,
    pub headers: HeaderMap,
    body: Bytes,
    /// The address that answered.
    shown: String,
}

impl Reply {
    /// The body as JSON.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, ProviderError> {
        serde_json::from_slice(&self.body).map_err(|error| {
            // The error may quote a part of the answer.
            let error = error_text::shown(&error.to_string());
            ProviderError::new(format!("{}: the answer cannot be read: {error}", self.shown))
        })
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok().map(str::trim).filter(|text| !text.is_empty())
    }

    /// The next page by the header `Link`, of a list at a path.
    pub fn next_link(&self, path: &str) -> Option<String> {
        let links = self.headers.get_all("link").iter().filter_map(|link| link.to_str().ok());
        links.flat_map(|links| links.split(',')).find_map(|link| {
            let (url, parameters) = link.trim().strip_prefix('<')?.split_once('>')?;
            let is_next = |one: &str| {
                let one = one.trim();
                one == "rel=next" || one == "rel=\"next\""
            };
            parameters.split(';').any(is_next).then(|| continued(path, url))
        })
    }
}

/// The next page of a list at a path, of which a server gives the URL: the same path with the
/// parameters that the URL has besides those of the path.
///
/// The URL itself may be that of another address of the server, such as the public one, which
/// must not get the token. One without further parameters is returned as it is.
pub(super) fn continued(path: &str, url: &str) -> String {
    let own: BTreeSet<&str> = parameters(path).map(name).collect();
    let further = parameters(url).filter(|one| !own.contains(name(one)));
    let further = further.collect::<Vec<_>>().join("&");
    match (further.is_empty(), own.is_empty()) {
        (true, _) => url.to_owned(),
        (false, true) => format!("{path}?{further}"),
        (false, false) => format!("{path}&{further}"),
    }
}

/// The parameters of a URL, such as `page=2`.
fn parameters(url: &str) -> impl Iterator<Item = &str> {
    let url = url.split('#').next().unwrap_or_default();
    let (_, parameters) = url.split_once('?').unwrap_or_default();
    parameters.split('&').filter(|one| !one.is_empty())
}

/// The name of a parameter.
fn name(parameter: &str) -> &str {
    parameter.split('=').next().unwrap_or_default()
}

/// A list over several pages.
#[derive(Debug)]
pub(super) struct Pages<T> {
    /// Its items.
    pub items: Vec<T>,
    /// Whether there was more than one page.
    pub several: bool,
}

/// The items of a page, and where the next one is: a path, or a URL of this server.
pub(super) type Page<T> = Result<(Vec<T>, Option<String>), ProviderError>;

impl<T> Pages<T> {
    /// Items that were not listed in pages.
    pub fn one(items: impl IntoIterator<Item = T>) -> Self {
        Self { items: items.into_iter().collect(), several: false }
    }

    /// The same list of what is made of each item.
    pub fn map<U>(self, made: impl FnMut(T) -> U) -> Pages<U> {
        Pages { items: self.items.into_iter().map(made).collect(), several: self.several }
    }

    /// The same list of what is made of some items.
    pub fn filter_map<U>(self, made: impl FnMut(T) -> Option<U>) -> Pages<U> {
        Pages { items: self.items.into_iter().filter_map(made).collect(), several: self.several }
    }

    /// The same list of what is made of each item, unless one fails.
    pub fn try_map<U>(self, made: impl FnMut(T) -> Result<U, ProviderError>) -> Listing<U> {
        let items: Result<Vec<U>, ProviderError> = self.items.into_iter().map(made).collect();
        Ok(Pages { items: items?, several: self.several })
    }
}

impl Api {
    /// The API at an address.
    pub fn new(
        base: &str,
        tls: ClientConfig,
        proxy: &Proxy,
        limits: Limits,
        clock: Clock,
    ) -> Result<Self, ProviderError> {
        let shown = redact::redact_url(base);
        let invalid =
            || ProviderError::new(format!("{shown}: is not an address such as https://host"));
        let uri: Uri = base.parse().map_err(|_| invalid())?;
        let is_http = matches!(uri.scheme_str(), Some("https" | "http"));
        let authority = uri.authority().filter(|_| is_http).ok_or_else(invalid)?;
        if authority.as_str().contains('@') {
            let text = format!("{shown}: must not contain credentials; use a Secret");
            return Err(ProviderError::new(text));
        }
        let connection = Connection::new(&uri, tls, proxy, MAX_HEAD).map_err(|why| {
            ProviderError::new(format!("{shown}: the proxy (--scm-proxy-url) {why}"))
        })?;
        let mut headers = HeaderMap::new();
        headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        let base = base.trim_end_matches('/').to_owned();
        let (kept, timeout) = (None, REQUEST_WITHIN);
        Ok(Self { connection, base, headers, kept, limits, clock, timeout })
    }

    /// The same with a header.
    pub fn with(mut self, name: HeaderName, value: &str) -> Result<Self, ProviderError> {
        let invalid = |_| {
            let text = format!("{}: {name} cannot be sent: it has a line break", self.base);
            ProviderError::new(text)
        };
        let mut value = HeaderValue::try_from(value).map_err(invalid)?;
        value.set_sensitive(true);
        self.headers.insert(name, value);
        Ok(self)
    }

    /// The same with a token that is kept, and forgotten when the server refuses it.
    pub fn with_kept(self, kept: app_token::Kept) -> Self {
        Self { kept: Some(kept), ..self }
    }

    /// The address of the API.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// The time.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The failure of a request that this server refuses because of too many.
    pub fn limited(&self) -> ProviderError {
        let base: Uri = self.base.parse().unwrap_or_default();
        rate_limit::failure_now(&origin(&base), self.now())
    }

    /// Gets what is at a path, which begins with a slash.
    pub async fn get(&self, path: &str) -> Result<Reply, ProviderError> {
        self.get_url(&format!("{}{path}", self.base)).await
    }

    /// Gets the document at a path.
    pub async fn get_json<T: DeserializeOwned>(&self, path: &str) -> Result<T, ProviderError> {
        self.get(path).await?.json()
    }

    /// Gets the document at a path; `None` when there is none.
    pub async fn find_json<T: DeserializeOwned>(
        &self,
        path: &str,
    ) -> Result<Option<T>, ProviderError> {
        existing(self.get(path).await)?.map(|reply| reply.json()).transpose()
    }

    /// Whether there is something at a path. A page of HTML with a code of success, such as that
    /// of a proxy or of a sign-in, is no answer to that.
    pub async fn has(&self, path: &str) -> Result<bool, ProviderError> {
        Ok(self.find_json::<IgnoredAny>(path).await?.is_some())
    }

    /// Posts a document to a path.
    pub async fn post(&self, path: &str, body: &Value) -> Result<Reply, ProviderError> {
        let headers = [(CONTENT_TYPE, HeaderValue::from_static("application/json"))];
        let url = format!("{}{path}", self.base);
        let body = Bytes::from(body.to_string());
        self.send(&Method::POST, &url, HeaderMap::from_iter(headers), body).await
    }

    /// Posts a body with these headers.
    pub async fn post_raw(
        &self,
        path: &str,
        headers: HeaderMap,
        body: String,
    ) -> Result<Reply, ProviderError> {
        let url = format!("{}{path}", self.base);
        self.send(&Method::POST, &url, headers, body.into()).await
    }

    /// All pages of a list, from the one at `path`. `read` gets `path`, a page and its number,
    /// from 1.
    pub async fn pages<T>(
        &self,
        path: &str,
        read: impl Fn(&str, &Reply, usize) -> Page<T>,
    ) -> Listing<T> {
        let mut items = Vec::new();
        let mut url = format!("{}{path}", self.base);
        let mut seen = BTreeSet::new();
        loop {
            let shown = redact::redact_url(&url);
            if seen.len() >= MAX_PAGES || !seen.insert(url.clone()) {
                let why = match seen.len() >= MAX_PAGES {
                    true => format!("limit exceeded: the list has more than {MAX_PAGES} pages"),
                    false => "the server names the same page again as the next one".to_owned(),
                };
                return Err(ProviderError::new(format!("{shown}: {why}")));
            }
            let page = seen.len();
            let read = match self.get_url(&url).await {
                Ok(reply) => read(path, &reply, page),
                // A list that exists has all of its pages.
                Err(failure) if page > 1 => Err(ProviderError {
                    kind: match failure.kind {
                        ProviderErrorKind::NotFound => ProviderErrorKind::Other,
                        kind => kind,
                    },
                    ..failure
                }),
                Err(failure) => Err(failure),
            };
            let (more, next) = match read {
                Err(failure) if page > 1 => return Err(failure.of(&format!("page {page}"))),
                read => read?,
            };
            items.extend(more);
            match next {
                None => return Ok(Pages { items, several: page > 1 }),
                Some(next) if next.starts_with('/') => url = format!("{}{next}", self.base),
                Some(next) => url = next,
            }
        }
    }

    async fn get_url(&self, url: &str) -> Result<Reply, ProviderError> {
        self.send(&Method::GET, url, HeaderMap::new(), Bytes::new()).await
    }

    async fn send(
        &self,
        method: &Method,
        url: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Reply, ProviderError> {
        let mut url = url.to_owned();
        for _ in 0..=MAX_REDIRECTS {
            let target = self.target(&url)?;
            let sent = self.send_once(method, &target, &headers, body.clone()).await?;
            match sent {
                Sent::Answer(reply) => return Ok(reply),
                Sent::Elsewhere(location) if *method == Method::GET => {
                    url = absolute(&target, location)?;
                }
                Sent::Elsewhere(location) => {
                    let to = redact::redact_url(&location);
                    let text = format!("{}: redirects a POST request to {to}", shown(&target));
                    return Err(ProviderError::new(text));
                }
            }
        }
        let shown = redact::redact_url(&url);
        Err(ProviderError::new(format!("{shown}: more than {MAX_REDIRECTS} redirects")))
    }

    /// A URL of this server; of another one it is an error, since it would get the token.
    fn target(&self, url: &str) -> Result<Uri, ProviderError> {
        let invalid = || ProviderError::new(format!("{}: is not a URL", redact::redact_url(url)));
        let target: Uri = url.parse().map_err(|_| invalid())?;
        let base: Uri = self.base.parse().map_err(|_| invalid())?;
        if origin(&target) == origin(&base) {
            return Ok(target);
        }
        Err(ProviderError::new(format!(
            "{}: redirects to {} and that server gets no credentials; write its address if it is \
             the right one",
            self.base,
            origin(&target)
        )))
    }

    async fn send_once(
        &self,
        method: &Method,
        target: &Uri,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<Sent, ProviderError> {
        let blocked = self.key(target);
        let now = self.clock.now();
        let until = self.limits.blocked.lock().get(&blocked).copied();
        if let Some(until) = until.filter(|until| *until > now) {
            return Err(rate_limit::failure(&blocked.0, until));
        }
        if self.limits.requests.fetch_add(1, Ordering::Relaxed) >= MAX_REQUESTS {
            let text = format!(
                "limit exceeded: the generator sends more than {MAX_REQUESTS} requests; select \
                 fewer repositories"
            );
            return Err(ProviderError::new(text));
        }
        let mut request = Request::builder().method(method.clone()).uri(target.clone());
        if let Some(into) = request.headers_mut() {
            into.extend(self.headers.clone());
            into.extend(headers.clone());
        }
        let failed = |text: String| ProviderError::new(format!("{}: {text}", shown(target)));
        let request = request.body(Full::new(body)).map_err(|error| failed(error.to_string()))?;
        let answer = async {
            let sent = self.connection.send(request).await;
            let sent = sent.map_err(|refused| match refused {
                ConnectError::Untrusted(why) => failed(format!(
                    "its certificate is not trusted ({why:?}); add the authority to the ConfigMap \
                     of caRef, where the generator has it, or to --scm-root-ca-path"
                )),
                ConnectError::Other(error) => failed(unreachable(target, cause_chain(&error))),
            });
            self.read(target, sent?).await
        };
        match tokio::time::timeout(self.timeout, answer).await {
            Ok(answer) => answer,
            Err(_) => {
                let seconds = self.timeout.as_secs();
                Err(failed(format!("does not answer within {seconds} s")))
            }
        }
    }

    async fn read(
        &self,
        target: &Uri,
        answer: http::Response<Incoming>,
    ) -> Result<Sent, ProviderError> {
        let (parts, body) = answer.into_parts();
        let place = shown(target);
        if parts.status.is_redirection() {
            let location = parts.headers.get(LOCATION).and_then(|value| value.to_str().ok());
            return match location {
                Some(location) => Ok(Sent::Elsewhere(location.to_owned())),
                None => Err(ProviderError::new(format!(
                    "{place}: {}, without a location",
                    parts.status
                ))),
            };
        }
        let left = MAX_BYTES.saturating_sub(self.limits.bytes.load(Ordering::Relaxed));
        let limit = MAX_ANSWER.min(left);
        let read = Limited::new(body, limit).collect().await;
        let body = match read {
            Ok(read) => read.to_bytes(),
            Err(error) if error.is::<http_body_util::LengthLimitError>() => {
                let text =
                    format!("{place}: limit exceeded: the answer has more than {limit} bytes");
                return Err(ProviderError::new(text));
            }
            Err(error) => {
                return Err(ProviderError::new(format!("{place}: the answer is cut off: {error}")));
            }
        };
        self.limits.bytes.fetch_add(body.len(), Ordering::Relaxed);
        let reply = Reply { status: parts.status, headers: parts.headers, body, shown: place };
        // 203 is the sign-in page of Azure DevOps.
        if reply.status.is_success() && reply.status != StatusCode::NON_AUTHORITATIVE_INFORMATION {
            return Ok(Sent::Answer(reply));
        }
        let now = self.clock.now();
        if let Some(until) = rate_limit::until(reply.status, &reply.headers, &reply.body, now) {
            let key = self.key(target);
            let failure = rate_limit::failure(&key.0, until);
            let mut blocked = self.limits.blocked.lock();
            blocked.retain(|_, until| *until > now);
            blocked.insert(key, until);
            return Err(failure);
        }
        let is_refused = matches!(reply.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        if let Some(kept) = self.kept.as_ref().filter(|_| is_refused) {
            kept.forget().await;
        }
        let mut text = format!("{}: {}", reply.shown, reply.status);
        if let Some(said) = error_text::said(&reply.body) {
            text.push_str(": ");
            text.push_str(&error_text::shown(&self.without_credentials(said)));
        }
        let hint = match reply.status {
            StatusCode::UNAUTHORIZED | StatusCode::NON_AUTHORITATIVE_INFORMATION => {
                "; check the token in the Secret"
            }
            StatusCode::FORBIDDEN => "; check what the token permits",
            _ => "",
        };
        let error = error_text::code_of_aws(&reply.body);
        let is_not_found =
            reply.status == StatusCode::NOT_FOUND || error.as_deref() == Some(NO_FOLDER);
        let is_throttled = rate_limit::is_throttled(reply.status, error.as_deref());
        let kind = match (is_not_found, is_throttled) {
            (true, _) => ProviderErrorKind::NotFound,
            (false, true) => ProviderErrorKind::Throttled,
            (false, false) => ProviderErrorKind::Other,
        };
        Err(ProviderError { text: format!("{text}{hint}"), kind })
    }

    /// A text of the server without the credentials that were sent to it.
    fn without_credentials(&self, said: String) -> String {
        let sent = CREDENTIALS.into_iter().filter_map(|name| self.headers.get(name)?.to_str().ok());
        sent.fold(said, |said, value| {
            // After the scheme, such as Bearer.
            let credential = value.rsplit(' ').next().unwrap_or(value);
            match credential.is_empty() {
                true => said,
                false => said.replace(credential, redact::HIDDEN),
            }
        })
    }

    /// Whose limit counts for a request.
    fn key(&self, target: &Uri) -> (String, [u8; 32]) {
        let mut hash = Sha256::new();
        for name in CREDENTIALS {
            hash.update(self.headers.get(name).map(HeaderValue::as_bytes).unwrap_or_default());
            hash.update([0]);
        }
        (origin(target), hash.finalize().into())
    }
}

enum Sent {
    Answer(Reply),
    Elsewhere(String),
}

/// A part of a path.
pub(super) fn segment(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, SEGMENT).to_string()
}

/// A path whose parts are encoded, without `.` and `..`, which a server might resolve.
pub(super) fn path_segments(path: &str) -> Result<String, ProviderError> {
    let parts = path.split('/').filter(|part| !part.is_empty());
    let parts: Vec<&str> = parts.collect();
    match parts.iter().any(|part| matches!(*part, "." | "..")) {
        true => Err(ProviderError::new(format!("path {path:?}: must not contain . or .."))),
        false => Ok(parts.into_iter().map(segment).collect::<Vec<_>>().join("/")),
    }
}

const SEGMENT: &percent_encoding::AsciiSet =
    &percent_encoding::NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
