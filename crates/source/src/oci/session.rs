//! Requests to a registry: how they log in, follow redirects, and what their errors say.
//!
//! User name and password, and the token that they are exchanged for, go to the registry and to
//! the server that it names for tokens, never to the target of a redirect.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{ACCEPT, AUTHORIZATION, LOCATION, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, Method, StatusCode, Uri};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::Value;

use super::challenge::Challenge;
use crate::error::SourceError;
use crate::helm::chart_address::ChartAddress;
use crate::http::client::{HttpRequest, HttpResponse, Save, TransportError, download};
use crate::http::credentials::RepoCredentials;
use wavegate_api::read_leniently;

/// Largest manifest, page of tags and answer with a token, in bytes.
const MAX_TEXT: usize = 4 << 20;

/// Most redirects and logins of one request.
const MAX_HOPS: usize = 8;

/// Longest token, in bytes.
const MAX_TOKEN: usize = 32 << 10;

/// Longest part of an answer in an error, in characters.
const DETAIL: usize = 200;

/// An answer of the server that gives tokens, which uses either name.
#[derive(Default, Deserialize)]
#[serde(default)]
struct TokenAnswer {
    token: String,
    access_token: String,
}

/// An answer without success.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ErrorAnswer {
    errors: Vec<RegistryError>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RegistryError {
    code: String,
    message: String,
}

/// Requests about one artifact of a registry, within one time limit.
#[derive(Debug)]
pub(super) struct Session<'a> {
    pub address: &'a ChartAddress,
    name: &'a str,
    credentials: &'a RepoCredentials,
    /// Scheme and host of the registry.
    pub base: String,
    within: Duration,
    deadline: Instant,
    /// The header `Authorization`, once the registry has asked for it.
    authorization: Option<String>,
}

/// What is asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call<'a> {
    /// For messages.
    pub what: &'a str,
    pub method: &'a Method,
    pub path: &'a str,
    pub accept: &'a str,
}

impl<'a> Session<'a> {
    pub(super) fn new(
        address: &'a ChartAddress,
        name: &'a str,
        credentials: &'a RepoCredentials,
        within: Duration,
    ) -> Self {
        let scheme = if credentials.plain_http { "http" } else { "https" };
        // As in other clients: the name that people write is not that of the API.
        let host = match address.host.as_str() {
            "docker.io" => "registry-1.docker.io",
            host => host,
        };
        let (base, deadline) = (format!("{scheme}://{host}"), Instant::now() + within);
        Self { address, name, credentials, base, within, deadline, authorization: None }
    }

    /// A successful answer as a whole.
    pub(super) async fn text(
        &mut self,
        call: Call<'_>,
        revision: &str,
    ) -> Result<Vec<u8>, SourceError> {
        let (said, text) = self.read(call).await?;
        self.succeeded(call, &said, &text, revision).map(|()| text)
    }

    /// An answer as a whole, whatever its status.
    pub(super) async fn read(
        &mut self,
        call: Call<'_>,
    ) -> Result<(HttpResponse, Vec<u8>), SourceError> {
        let mut text = Vec::new();
        let said = self.send(call, &mut limited(&mut text)).await?;
        if !said.status.is_success() {
            text = said.body.to_vec();
        }
        Ok((said, text))
    }

    /// Sends a request, logs in when the registry asks for it, and follows redirects.
    pub(super) async fn send(
        &mut self,
        call: Call<'_>,
        save: Save<'_>,
    ) -> Result<HttpResponse, SourceError> {
        let mut url = format!("{}{}", self.base, call.path);
        let (mut is_own, mut may_log_in) = (true, true);
        for _ in 0..MAX_HOPS {
            let mut said = self.once(call, (&url, is_own), save).await?;
            if said.status == StatusCode::UNAUTHORIZED && is_own && may_log_in {
                may_log_in = false;
                if self.log_in(&said.headers).await? {
                    continue;
                }
            }
            if !matches!(said.status.as_u16(), 301 | 302 | 303 | 307 | 308) {
                if !is_own {
                    // What another server says may be nothing for users.
                    said.body = hyper::body::Bytes::new();
                }
                return Ok(said);
            }
            let target = said.headers.get(LOCATION).and_then(|text| text.to_str().ok());
            let Some(target) = target else {
                return Err(self.protocol_error(call.what, "a redirect without a target"));
            };
            let (next, stays) = self.resolved(&url, target);
            // Once away, credentials do not come back.
            (url, is_own) = (next, is_own && stays);
        }
        Err(self.protocol_error(call.what, &format!("more than {MAX_HOPS} redirects")))
    }

    pub(super) async fn once(
        &self,
        call: Call<'_>,
        (url, is_own): (&str, bool),
        save: Save<'_>,
    ) -> Result<HttpResponse, SourceError> {
        let mut headers = vec![(ACCEPT.as_str(), call.accept.to_owned())];
        headers.extend(
            self.authorization.clone().filter(|_| is_own).map(|own| (AUTHORIZATION.as_str(), own)),
        );
        let request =
            HttpRequest { method: call.method.clone(), url, headers: &headers, body: None };
        self.fetched(call.what, &request, is_own, save).await
    }

    pub(super) async fn fetched(
        &self,
        what: &str,
        request: &HttpRequest<'_>,
        is_own: bool,
        save: Save<'_>,
    ) -> Result<HttpResponse, SourceError> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        let timed_out = || SourceError::TimedOut {
            repo: self.address.shown.clone(),
            what: format!("reading {what}"),
            limit: self.within,
        };
        if left.is_zero() {
            return Err(timed_out());
        }
        let other;
        let credentials = match is_own {
            true => self.credentials,
            false => {
                let (client_certificate, client_key) = Default::default();
                other =
                    RepoCredentials { client_certificate, client_key, ..self.credentials.clone() };
                &other
            }
        };
        let said = download(request, credentials, self.credentials.plain_http, left, save).await;
        let host = host(request.url);
        let repo = || self.address.shown.clone();
        said.map_err(|failed| match failed {
            TransportError::Unusable(why) => {
                SourceError::InvalidUrl { repo: repo(), reason: format!("{host}: {why}") }
            }
            TransportError::Untrusted(why) => SourceError::Untrusted {
                repo: repo(),
                detail: format!(
                    "the certificate of {host} is not trusted ({why}): add that of its CA to the \
                     ConfigMap argocd-tls-certs-cm, with the host of the repository as the key"
                ),
            },
            TransportError::Unreachable(_) if self.deadline <= Instant::now() => timed_out(),
            TransportError::Unreachable(why) => {
                let hint = match why.contains("InvalidContentType") {
                    true => "; it does not speak TLS: set insecureOCIForceHttp in its Secret",
                    false => "",
                };
                SourceError::unreachable(repo(), format!("{host}: {why}{hint}"))
            }
            TransportError::TooLarge(limit) => self.too_large(what, limit),
        })
    }

    /// Gets what a registry asks for; whether there is something to try again with.
    pub(super) async fn log_in(&mut self, headers: &HeaderMap) -> Result<bool, SourceError> {
        let asked = headers.get_all(WWW_AUTHENTICATE).iter();
        let asked = asked.filter_map(|header| header.to_str().ok()).filter_map(Challenge::parse);
        let asked: Vec<Challenge> = asked.collect();
        let RepoCredentials { username, password, .. } = self.credentials;
        let has_login = !username.is_empty() || !password.is_empty();
        let basic = format!("Basic {}", STANDARD.encode(format!("{username}:{password}")));
        let bearer = asked.iter().find(|one| matches!(one, Challenge::Bearer { .. }));
        let Some(Challenge::Bearer { realm, service, scope }) = bearer else {
            let is_possible = has_login && asked.contains(&Challenge::Basic);
            self.authorization = is_possible.then_some(basic);
            return Ok(is_possible);
        };
        if has_login && !self.may_know_password(realm) {
            return Err(SourceError::refused(
                self.address.shown.clone(),
                format!(
                    "the registry asks to send user name and password to {}, which is not of its \
                     domain; if that is right, name this host in ociTokenHosts of the Secret",
                    host(realm)
                ),
            ));
        }
        // Never more than reading this artifact, whatever the registry asks for.
        let own = format!("repository:{}:", self.name);
        let mut actions = vec!["pull"];
        let asked = scope.split(' ').filter_map(|scope| scope.strip_prefix(&own));
        if asked.flat_map(|actions| actions.split(',')).any(|action| action == "metadata_read") {
            actions.push("metadata_read");
        }
        let scope = format!("{own}{}", actions.join(","));
        let encoded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        let mut url = realm.clone();
        url.push(if realm.contains('?') { '&' } else { '?' });
        if !service.is_empty() {
            url.push_str(&format!("service={}&", encoded(service)));
        }
        url.push_str(&format!("scope={}", encoded(&scope)));
        let what = format!("a token from {}", host(realm));
        let headers = if has_login { vec![(AUTHORIZATION.as_str(), basic)] } else { Vec::new() };
        let request = HttpRequest { method: Method::GET, url: &url, headers: &headers, body: None };
        let mut text = Vec::new();
        let is_own = host(realm) == host(&self.base);
        let said = self.fetched(&what, &request, is_own, &mut limited(&mut text)).await?;
        let call = Call { what: &what, method: &Method::GET, path: "", accept: "" };
        self.succeeded(call, &said, b"", "")?;
        let answer: Value = serde_json::from_slice(&text).unwrap_or_default();
        let TokenAnswer { token, access_token } = read_leniently(&answer);
        let tokens = [token, access_token].into_iter();
        let mut tokens = tokens.filter(|token| !token.is_empty() && token.len() <= MAX_TOKEN);
        let Some(token) =
            tokens.next().filter(|token| token.bytes().all(|byte| byte.is_ascii_graphic()))
        else {
            return Err(self.protocol_error(&what, "there is no usable token in the answer"));
        };
        self.authorization = Some(format!("Bearer {token}"));
        Ok(true)
    }

    /// Whether user name and password may go to the server that gives tokens: the registry, a host
    /// of its domain, or one that the Secret names; by TLS, unless the registry has none.
    fn may_know_password(&self, realm: &str) -> bool {
        let is_safe = self.credentials.plain_http || scheme(realm).eq_ignore_ascii_case("https");
        let named = self.credentials.token_hosts.split(',').map(str::trim);
        let target = host(realm);
        let is_named = named.filter(|name| !name.is_empty()).any(|name| {
            name.eq_ignore_ascii_case(&target) || name.eq_ignore_ascii_case(name_of(&target))
        });
        is_safe && (is_named || is_same_domain(name_of(&host(&self.base)), name_of(&target)))
    }

    /// The error of an answer without success.
    pub(super) fn succeeded(
        &self,
        call: Call<'_>,
        said: &HttpResponse,
        body: &[u8],
        revision: &str,
    ) -> Result<(), SourceError> {
        let (status, what) = (said.status, call.what);
        if status.is_success() {
            return Ok(());
        }
        let repo = self.address.shown.clone();
        let (codes, detail) = self.error_detail(body);
        let answer = format!("asked for {what}, the registry answers {status}{detail}");
        let is_anonymous =
            self.credentials.username.is_empty() && self.credentials.password.is_empty();
        Err(match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                let advice = match is_anonymous {
                    true => {
                        "no username and password are known: add a repository Secret of type \
                             oci with this URL"
                    }
                    false => {
                        "it does not accept the username and password of its Secret, or \
                              these may not read the artifact"
                    }
                };
                SourceError::refused(repo, format!("{answer}; {advice}"))
            }
            StatusCode::NOT_FOUND if revision.is_empty() || codes.contains("NAME_UNKNOWN") => {
                SourceError::missing_repository(repo, answer)
            }
            StatusCode::NOT_FOUND => SourceError::missing_revision(
                repo,
                revision,
                format!("{answer}; push it, or correct targetRevision"),
            ),
            StatusCode::TOO_MANY_REQUESTS => {
                let after = said.headers.get(RETRY_AFTER).and_then(|text| text.to_str().ok());
                let after: String = after
                    .unwrap_or_default()
                    .chars()
                    .filter(char::is_ascii_digit)
                    .take(6)
                    .collect();
                let after = match after.is_empty() {
                    true => String::new(),
                    false => format!(", and asks to wait for {after} s"),
                };
                let advice = match is_anonymous {
                    true => {
                        "it limits requests: log in by a repository Secret of type oci, or ask \
                             less often (timeout.reconciliation)"
                    }
                    false => "it limits requests: ask less often (timeout.reconciliation)",
                };
                SourceError::unreachable(repo, format!("{answer}{after}; {advice}"))
            }
            status if status.is_server_error() => SourceError::unreachable(repo, answer),
            _ => SourceError::git(repo, format!("reading {what}"), answer),
        })
    }

    /// The codes and messages of an answer, without credentials.
    pub(super) fn error_detail(&self, body: &[u8]) -> (String, String) {
        let answer: Value = serde_json::from_slice(body).unwrap_or_default();
        let ErrorAnswer { errors } = read_leniently(&answer);
        let mut codes = String::new();
        let mut words = Vec::new();
        for RegistryError { code, message } in errors.into_iter().take(3) {
            codes.push_str(&format!("{code} "));
            words.push(format!("{code} {message}").trim().to_owned());
        }
        let mut words = words.join(", ");
        let token = self.authorization.as_deref().and_then(|own| own.split_once(' '));
        let secrets = [self.credentials.password.as_str(), token.map_or("", |(_, token)| token)];
        for secret in secrets.into_iter().filter(|secret| !secret.is_empty()) {
            words = words.replace(secret, "***");
        }
        let words: String = crate::redact_urls(&words)
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .take(DETAIL)
            .collect();
        (codes, if words.is_empty() { words } else { format!(" ({words})") })
    }

    /// A target that a server names, and whether it is on the registry.
    pub(super) fn resolved(&self, from: &str, target: &str) -> (String, bool) {
        let is_path = target.starts_with('/') && !target.starts_with("//");
        let scheme = self.base.split("://").next().unwrap_or_default();
        let full = if is_path {
            let origin = from.split_once("://").map(|(scheme, rest)| {
                format!("{scheme}://{}", rest.split('/').next().unwrap_or_default())
            });
            format!("{}{target}", origin.as_deref().unwrap_or(&self.base))
        } else if target.starts_with("//") {
            format!("{scheme}:{target}")
        } else if target.contains("://") {
            target.to_owned()
        } else {
            // Relative to the path, which some registries use for the next page.
            let path = from.split('?').next().unwrap_or_default();
            let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
            let folder = match folder.contains("://") {
                true => folder.to_owned(),
                false => format!("{}{folder}", self.base),
            };
            format!("{folder}/{target}")
        };
        let same = full.parse::<Uri>().ok().zip(self.base.parse::<Uri>().ok()).is_some_and(
            |(full, base)| full.scheme() == base.scheme() && full.authority() == base.authority(),
        );
        (full, same)
    }

    pub(super) fn protocol_error(&self, what: &str, detail: &str) -> SourceError {
        let repo = self.address.shown.clone();
        SourceError::git(repo, format!("reading {what}"), detail)
    }

    pub(super) fn too_large(&self, what: &str, limit: String) -> SourceError {
        SourceError::too_large(&self.address.shown, what, limit)
    }
}

/// Keeps an answer of limited size. A request that is repeated begins anew only after an answer
/// without success, whose body does not come here.
fn limited(text: &mut Vec<u8>) -> impl FnMut(&[u8]) -> Result<(), TransportError> + Send {
    move |bytes: &[u8]| {
        if text.len() + bytes.len() > MAX_TEXT {
            return Err(TransportError::TooLarge(format!("{} MiB", MAX_TEXT >> 20)));
        }
        text.extend_from_slice(bytes);
        Ok(())
    }
}

/// The scheme of a URL.
fn scheme(url: &str) -> &str {
    url.split_once("://").map_or("", |(scheme, _)| scheme)
}

/// A host without its port.
fn name_of(host: &str) -> &str {
    match host.rsplit_once(':') {
        // An address of version 6 is in brackets.
        Some((name, port)) if !port.contains(']') => name,
        _ => host,
    }
}

/// Whether two hosts are the same, or one domain has both: that above the first one, if it has a
/// name of its own. `auth.docker.io` is of the domain of `registry-1.docker.io`.
pub(super) fn is_same_domain(registry: &str, other: &str) -> bool {
    let [registry, other] =
        [registry, other].map(|name| name.trim_end_matches('.').to_ascii_lowercase());
    if registry == other {
        return true;
    }
    let is_address = |name: &str| name.starts_with('[') || name.parse::<IpAddr>().is_ok();
    let above = registry.split_once('.').map(|(_, above)| above);
    let Some(domain) = above.filter(|above| above.contains('.')) else {
        // Directly below a top level there are strangers; a host below it is its own.
        return registry.contains('.') && !is_address(&registry) && is_below(&other, &registry);
    };
    !is_address(&registry) && (other == domain || is_below(&other, domain))
}

fn is_below(name: &str, domain: &str) -> bool {
    name.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'))
}

/// Host and port of a URL, for messages.
fn host(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    host.chars().filter(|c| !c.is_control()).take(256).collect()
}
