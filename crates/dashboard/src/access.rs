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

    /// Whether the request is for this page, and from no other one: a name that was made to resolve
    /// to this address is not its host.
    pub(crate) fn check_origin(&self, method: &Method, headers: &HeaderMap) -> Result<(), Denial> {
        let hosts = self.hosts();
        let one = |name: &HeaderName| {
            let mut all = headers.get_all(name).iter();
            let first = all.next().map(|value| value.to_str().unwrap_or("?"));
            if all.next().is_some() { Some("?") } else { first }
        };
        if !one(&HOST).is_some_and(|host| hosts.iter().any(|own| own == host)) {
            let why = "this page answers only to the address that wavegate dashboard printed";
            return Err(Denial { status: StatusCode::MISDIRECTED_REQUEST, why });
        }
        let forbidden = |why| Err(Denial { status: StatusCode::FORBIDDEN, why });
        if let Some(origin) = one(&ORIGIN)
            && !hosts.iter().any(|own| origin.strip_prefix("http://") == Some(own))
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
        Ok(())
    }

    /// Whether the request has the cookie of this start.
    pub(crate) fn is_known(&self, headers: &HeaderMap) -> bool {
        let name = self.cookie_name();
        let texts = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs =
            texts.flat_map(|text| text.split(';')).filter_map(|one| one.split_once('='));
        pairs.any(|(key, value)| key.trim() == name && is_same(&self.session, value.trim()))
    }

    fn hosts(&self) -> [String; 2] {
        [self.address.to_string(), format!("localhost:{}", self.address.port())]
    }
}

/// Whether two secrets are the same, in a time that does not depend on where they differ.
fn is_same(secret: &str, given: &str) -> bool {
    let differing = secret.bytes().zip(given.bytes()).fold(0, |all, (a, b)| all | (a ^ b));
    secret.len() == given.len() && differing == 0
}

fn secret() -> std::io::Result<String> {
    let mut bytes = [0_u8; SECRET];
    getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
    Ok(bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    }))
}
