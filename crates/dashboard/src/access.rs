//! Who may ask (PG-001, PG-004): a token of this start is exchanged for a cookie, the host that a
//! browser asks must be this page's, and a write needs a word that only the page has.

use std::fmt::Write as _;
use std::net::SocketAddr;

use axum::http::header::{COOKIE, HOST, HeaderName, ORIGIN};
use axum::http::{HeaderMap, Method, StatusCode};

/// Bytes of each secret.
const SECRET: usize = 32;

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// The secrets of one start, and the addresses that it answers to.
pub struct PageAccess {
    token: String,
    session: String,
    written_by_page: String,
    address: SocketAddr,
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Denial {
    pub status: StatusCode,
    pub why: &'static str,
}

impl PageAccess {
    /// With new secrets, for a listener on this address.
    ///
    /// # Errors
    ///
    /// When the operating system has no random bytes.
    pub fn new(address: SocketAddr) -> std::io::Result<Self> {
        Ok(Self { token: secret()?, session: secret()?, written_by_page: secret()?, address })
    }

    /// The address to open, with the token. Its parameter has a name of its own: what is printed hides
    /// the value of one that is named as a secret.
    pub fn url(&self) -> String {
        format!("http://{}/?start={}", self.address, self.token)
    }

    /// Whether this is the token of this start.
    pub(crate) fn is_token(&self, given: &str) -> bool {
        is_same(&self.token, given)
    }

    /// The cookie that the token is exchanged for. Cookies are shared by all ports of a host, so its
    /// name has the port; it has no lifetime, so that it ends with the browser.
    pub(crate) fn cookie(&self) -> String {
        format!("{}={}; Path=/; HttpOnly; SameSite=Strict", self.cookie_name(), self.session)
    }

    fn cookie_name(&self) -> String {
        format!("wavegate-{}", self.address.port())
    }

    /// The word that forms of the page send with a write.
    pub(crate) fn form_word(&self) -> &str {
        &self.written_by_page
    }

    /// Whether a form is of this page.
    pub(crate) fn is_form_word(&self, given: &str) -> bool {
        is_same(&self.written_by_page, given)
    }

    /// Whether the request is for this page, and from no other one.
    pub(crate) fn check_origin(&self, method: &Method, headers: &HeaderMap) -> Result<(), Denial> {
        let hosts = self.hosts();
        let places = hosts.iter().map(|host| PagePlace { scheme: "http", host });
        let other = "this page answers only to the address that wavegate dashboard printed";
        check_place(&places.collect::<Vec<_>>(), other, method, headers).map(drop)
    }

    /// Whether the request has the cookie of this start.
    pub(crate) fn is_known(&self, headers: &HeaderMap) -> bool {
        let name = self.cookie_name();
        cookie_values(headers, &name).any(|value| is_same(&self.session, value))
    }

    fn hosts(&self) -> [String; 2] {
        [self.address.to_string(), format!("localhost:{}", self.address.port())]
    }
}

/// An address that a page has for browsers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PagePlace<'a> {
    pub scheme: &'a str,
    /// With a port, unless it is that of the scheme.
    pub host: &'a str,
}

/// The value of a header; `?`, which is never a valid one, when it is sent more than once.
pub(crate) fn single_value<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut all = headers.get_all(name).iter();
    let first = all.next().map(|value| value.to_str().unwrap_or("?"));
    if all.next().is_some() { Some("?") } else { first }
}

/// Whether a request is for one of these places, and of a page of it: a name that was made to resolve
/// to this address is not its host. Gives which place it is.
pub(crate) fn check_place(
    places: &[PagePlace<'_>],
    other: &'static str,
    method: &Method,
    headers: &HeaderMap,
) -> Result<usize, Denial> {
    let one = |name: &HeaderName| single_value(headers, name);
    let host = one(&HOST).unwrap_or_default();
    let Some(index) = places.iter().position(|own| own.host == host) else {
        return Err(Denial { status: StatusCode::MISDIRECTED_REQUEST, why: other });
    };
    let forbidden = |why| Err(Denial { status: StatusCode::FORBIDDEN, why });
    if let Some(origin) = one(&ORIGIN)
        && !places.iter().any(|own| {
            let rest = origin.strip_prefix(own.scheme).and_then(|rest| rest.strip_prefix("://"));
            rest == Some(own.host)
        })
    {
        return forbidden("the request comes from another page");
    }
    let site = one(&FETCH_SITE).unwrap_or("none");
    let is_visit = *method == Method::GET
        && one(&FETCH_MODE) == Some("navigate")
        && one(&FETCH_DEST) == Some("document");
    // Other ports of this host are the same site, but another page.
    if !matches!(site, "none" | "same-origin") && !is_visit {
        return forbidden("the request comes from another page");
    }
    Ok(index)
}

/// The values of a cookie.
pub(crate) fn cookie_values<'a>(
    headers: &'a HeaderMap,
    name: &'a str,
) -> impl Iterator<Item = &'a str> {
    let texts = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs = texts.flat_map(|text| text.split(';')).filter_map(|one| one.split_once('='));
    pairs.filter(move |(key, _)| key.trim() == name).map(|(_, value)| value.trim())
}

/// Whether two secrets are the same, in a time that does not depend on where they differ.
pub(crate) fn is_same(secret: &str, given: &str) -> bool {
    let differing = secret.bytes().zip(given.bytes()).fold(0, |all, (a, b)| all | (a ^ b));
    secret.len() == given.len() && differing == 0
}

/// A secret of its own, in hexadecimal.
pub(crate) fn secret() -> std::io::Result<String> {
    let mut bytes = [0_u8; SECRET];
    getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
    Ok(hexadecimal(&bytes))
}

pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
