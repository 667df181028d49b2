//! Who may ask a page in a cluster (PG-003): the requests come through a proxy that has signed the
//! person in. Either it sends a bearer token that the API server accepts, or it proves itself and
//! names a user and groups to impersonate.

use std::time::Duration;

use axum::http::header::{AUTHORIZATION, HeaderName};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use sha2::{Digest as _, Sha256};

use crate::access::{
    Denial, PagePlace, check_place, cookie_values, hexadecimal, is_same, secret, single_value,
};
use crate::people::{PersonCredentials, PersonKey};

/// What all headers of an impersonation begin with.
const IMPERSONATE: &str = "impersonate-";
/// What Kubernetes keeps for its own users and groups.
const RESERVED: &str = "system:";
/// The most characters of a name of a user or a group.
const NAME: usize = 512;
/// The most groups of a person.
const GROUPS: usize = 300;

/// An address by which browsers reach the page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicUrl {
    scheme: &'static str,
    host: String,
}

impl PublicUrl {
    /// Reads `https://HOST` or `https://HOST:PORT`.
    ///
    /// # Errors
    ///
    /// What is wrong with it, and how it is written.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || "is not an address such as https://rollouts.example.org".to_owned();
        let uri: Uri = text.parse().map_err(|_| wrong())?;
        let (scheme, port) = match uri.scheme_str() {
            Some("https") => ("https", ":443"),
            Some("http") => ("http", ":80"),
            _ => return Err(wrong()),
        };
        let authority = uri.authority().map(|host| host.as_str()).unwrap_or_default();
        if authority.is_empty() || authority.contains('@') {
            return Err(wrong());
        }
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            return Err("has a path; the page needs a host of its own".to_owned());
        }
        let host = authority.strip_suffix(port).unwrap_or(authority).to_ascii_lowercase();
        Ok(Self { scheme, host })
    }

    /// As browsers write it.
    pub fn as_text(&self) -> String {
        format!("{}://{}", self.scheme, self.host)
    }
}

/// How the proxy shows that a request is of it.
#[derive(Clone)]
pub enum ProxyProof {
    /// It sends a secret that only it and the page know.
    Secret {
        /// The header with the secret.
        header: HeaderName,
        /// The secret.
        secret: String,
    },
    /// Its connection has a certificate of the authority and the name that the listener asks for.
    Certificate,
}

/// How the person of a request is known.
#[derive(Clone)]
pub enum SignInMethod {
    /// By the bearer token of the request.
    Token,
    /// By headers of a proxy.
    Headers {
        /// The header with the user.
        user: HeaderName,
        /// The header with the groups, separated by commas.
        groups: HeaderName,
        /// Without it, all who reach the page could be any user.
        proof: ProxyProof,
    },
}

/// Whether the connection of a request has the certificate of the proxy.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ProxyCertificate(pub bool);

/// Who may ask, and at which addresses.
pub struct TeamAccess {
    urls: Vec<PublicUrl>,
    method: SignInMethod,
    secret: String,
}

/// A cookie that is to be set, and the word of forms that goes with it.
pub(crate) struct FormWord {
    pub word: String,
    /// A new cookie, when the request has none.
    pub cookie: Option<String>,
}

const PROXY: &str =
    "the request does not come from the proxy of this page: open the address of the proxy";

impl TeamAccess {
    /// With new secrets.
    ///
    /// # Errors
    ///
    /// When the operating system has no random bytes.
    pub fn new(urls: Vec<PublicUrl>, method: SignInMethod) -> std::io::Result<Self> {
        Ok(Self { urls, method, secret: secret()? })
    }

    /// Whether the request is for this page, and from no other one.
    pub(crate) fn check_origin(&self, method: &Method, headers: &HeaderMap) -> Result<(), Denial> {
        self.place(method, headers).map(drop)
    }

    fn place(&self, method: &Method, headers: &HeaderMap) -> Result<usize, Denial> {
        let place = |url| {
            let PublicUrl { scheme, host }: &PublicUrl = url;
            PagePlace { scheme, host }
        };
        let places: Vec<PagePlace<'_>> = self.urls.iter().map(place).collect();
        let other = "this page answers only to the addresses of its option --public-url";
        check_place(&places, other, method, headers)
    }

    /// Who the request is of, as its proxy says.
    pub(crate) fn credentials(
        &self,
        headers: &HeaderMap,
        certificate: ProxyCertificate,
    ) -> Result<PersonCredentials, Denial> {
        let refuse = |status, why| Err(Denial { status, why });
        if headers.keys().any(|name| name.as_str().starts_with(IMPERSONATE)) {
            let why = "the request has headers Impersonate-…, which this page never takes";
            return refuse(StatusCode::BAD_REQUEST, why);
        }
        match &self.method {
            SignInMethod::Token => bearer_token(headers),
            SignInMethod::Headers { user, groups, proof } => {
                let is_proven = match proof {
                    ProxyProof::Secret { header, secret } => {
                        single_value(headers, header).is_some_and(|given| is_same(secret, given))
                    }
                    ProxyProof::Certificate => certificate.0,
                };
                match is_proven {
                    true => named_person(headers, user, groups),
                    false => refuse(StatusCode::UNAUTHORIZED, PROXY),
                }
            }
        }
    }

    /// The word of forms for a person in this browser, which its cookie stands for.
    pub(crate) fn form_word(
        &self,
        person: &PersonKey,
        headers: &HeaderMap,
    ) -> Result<FormWord, Denial> {
        let url = &self.urls[self.place(&Method::GET, headers)?];
        let name = cookie_name(url);
        let known = cookie_values(headers, name).next().filter(|value| !value.is_empty());
        if let Some(browser) = known {
            return Ok(FormWord { word: self.word(person, browser), cookie: None });
        }
        let failed = |_| Denial {
            status: StatusCode::INTERNAL_SERVER_ERROR,
            why: "the operating system has no random bytes",
        };
        let browser = secret().map_err(failed)?;
        let secure = if url.scheme == "https" { "; Secure" } else { "" };
        let cookie = format!("{name}={browser}; Path=/; HttpOnly; SameSite=Strict{secure}");
        Ok(FormWord { word: self.word(person, &browser), cookie: Some(cookie) })
    }

    /// Whether a form is of this page, for this person in this browser.
    pub(crate) fn is_form_word(
        &self,
        person: &PersonKey,
        headers: &HeaderMap,
        given: &str,
    ) -> bool {
        let Ok(place) = self.place(&Method::GET, headers) else { return false };
        let browsers = cookie_values(headers, cookie_name(&self.urls[place]));
        browsers.filter(|one| !one.is_empty()).any(|one| is_same(&self.word(person, one), given))
    }

    fn word(&self, person: &PersonKey, browser: &str) -> String {
        // All parts but the last have one length.
        let hash = Sha256::new().chain_update(&self.secret).chain_update(person);
        hexadecimal(&hash.chain_update(Sha256::digest(browser)).finalize())
    }
}

/// With the prefix, no other host of the domain can set it.
fn cookie_name(url: &PublicUrl) -> &'static str {
    match url.scheme {
        "https" => "__Host-wavegate",
        _ => "wavegate-team",
    }
}

fn bearer_token(headers: &HeaderMap) -> Result<PersonCredentials, Denial> {
    let refuse = |status, why| Err(Denial { status, why });
    let none = "the request has no bearer token: open the address of the proxy, which signs you in \
                and sends it in the header Authorization";
    if headers.get_all(AUTHORIZATION).iter().count() > 1 {
        return refuse(StatusCode::BAD_REQUEST, "the request has the header Authorization twice");
    }
    let given = single_value(headers, &AUTHORIZATION).unwrap_or_default();
    let (scheme, token) = given.split_once(' ').unwrap_or_default();
    let token = token.trim();
    let is_token = !token.is_empty() && token.chars().all(|c| c.is_ascii_graphic() && c != ',');
    if !scheme.eq_ignore_ascii_case("bearer") || !is_token {
        return refuse(StatusCode::UNAUTHORIZED, none);
    }
    Ok(PersonCredentials::Token(token.to_owned()))
}

fn named_person(
    headers: &HeaderMap,
    user: &HeaderName,
    groups: &HeaderName,
) -> Result<PersonCredentials, Denial> {
    let refuse = |why| Err(Denial { status: StatusCode::FORBIDDEN, why });
    // A proxy that adds its header to that of a browser sends both: neither of them counts.
    if [user, groups].iter().any(|name| headers.get_all(*name).iter().count() > 1) {
        return refuse(
            "the proxy sends a header of the user or the groups twice: it must replace what browsers send",
        );
    }
    let text = |name: &HeaderName| match headers.get(name).map(|value| value.to_str()) {
        None => Some(""),
        Some(Ok(text)) => Some(text.trim()),
        Some(Err(_)) => None,
    };
    let (Some(user), Some(groups)) = (text(user), text(groups)) else {
        return refuse("the name of the user or of a group has characters that no header can have");
    };
    if user.is_empty() {
        return refuse("the proxy names no user");
    }
    let groups = groups.split(',').map(str::trim).filter(|group| !group.is_empty());
    let groups: Vec<String> = groups.map(str::to_owned).collect();
    let any = |is: fn(&str) -> bool| is(user) || groups.iter().any(|group| is(group));
    if groups.len() > GROUPS || any(|name| name.len() > NAME) {
        return refuse("the proxy sends more groups, or longer names, than the page takes");
    }
    if any(|name| name.starts_with(RESERVED)) {
        return refuse(
            "the proxy names a user or a group that begins with system:, which are those of Kubernetes itself: give roles to groups of your own",
        );
    }
    Ok(PersonCredentials::Named { user: user.to_owned(), groups })
}

/// How long a proxy may take for its certificate.
pub(crate) const HANDSHAKE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests;
