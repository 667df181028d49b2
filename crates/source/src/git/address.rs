//! Parses a `repoURL`: the transport, and a form that is safe to show.
//!
//! A parsed address is safe to pass to `git` after `--` and contains no password:
//! credentials in the URL are split off first.

use std::path::{Path, PathBuf};

use crate::error::SourceError;
use crate::http::credentials::RepoCredentials;
use wavegate_api::repository::RepositoryUrl;

/// Longest accepted URL, in bytes.
const MAX_URL: usize = 2048;

/// Transport and location of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Transport {
    /// Over https (or http, if enabled).
    Http {
        /// `https` or `http`.
        scheme: &'static str,
        /// Host with its port, as `git` prints it in a password prompt.
        host: String,
    },
    /// Over ssh, as URL or as `user@host:path`.
    Ssh,
    /// A local directory.
    Local(PathBuf),
}

/// A validated `repoURL`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    /// URL for `git`, without password.
    pub url: String,
    /// URL for messages, without user name and password.
    pub shown: String,
    /// Transport and location.
    pub transport: Transport,
    /// User name and password from the URL, percent-decoded.
    pub embedded: Option<(String, String)>,
}

/// Which transports besides https and ssh are allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Allow {
    /// Local directories, by absolute path or `file://` URL. For the demo and the command
    /// line only: in a controller, an Application could read any directory of the
    /// machine.
    pub local: bool,
    /// `http://` without encryption: passwords are sent in plain text.
    pub http: bool,
}

impl Allow {
    /// All of them: a user may read what is on their own machine.
    pub const EVERYTHING: Self = Self { local: true, http: true };
}

impl Address {
    /// Validates a `repoURL`.
    ///
    /// # Errors
    ///
    /// [`SourceError::InvalidUrl`] and [`SourceError::LocalNotAllowed`]; both permanent.
    pub(crate) fn parse(repo_url: &str, allow: Allow) -> Result<Self, SourceError> {
        // Redacts everything that is reported about the URL from here on.
        wavegate_net::redact::know_url(repo_url);
        let shown = printable(&wavegate_net::redact::redact_url(repo_url));
        let invalid = |reason: &str| SourceError::InvalidUrl {
            repo: shown.clone(),
            reason: reason.to_owned(),
        };
        if repo_url.is_empty() {
            return Err(invalid("the URL is empty"));
        }
        if repo_url.len() > MAX_URL {
            return Err(invalid("the URL is longer than 2048 bytes"));
        }
        if repo_url.starts_with('-') {
            return Err(invalid("the URL must not start with '-'"));
        }
        if repo_url.chars().any(char::is_control) {
            return Err(invalid("the URL must not contain control characters"));
        }
        if let Some(path) = local_path(repo_url) {
            if !allow.local {
                return Err(SourceError::LocalNotAllowed { repo: shown });
            }
            let path = PathBuf::from(path);
            let plain = path.components().all(|part| {
                matches!(part, std::path::Component::RootDir | std::path::Component::Normal(_))
            });
            if !path.is_absolute() || !plain {
                return Err(invalid("a local directory must be an absolute path without '..'"));
            }
            // As a path, since git would percent-decode a file URL again.
            let url = path.display().to_string();
            return Ok(Self { url, shown, transport: Transport::Local(path), embedded: None });
        }
        if repo_url.contains(char::is_whitespace) {
            return Err(invalid("the URL must not contain spaces"));
        }
        // Parts that clients read as something else than a path. A query is sent to the
        // server, and may be a token; it is no part of the normal form.
        if repo_url.contains(['#', '\\']) {
            return Err(invalid("the URL must not contain '#' or '\\'"));
        }
        // Servers and clients resolve these parts, which would reach another repository
        // than the one that the project was checked for.
        let dots = |part: &str| matches!(percent_decode(part).as_str(), "." | "..");
        if repo_url.split(['/', ':', '\\']).any(dots) {
            return Err(invalid("the path of the URL must not contain '.' or '..'"));
        }
        match repo_url.split_once("://") {
            Some((scheme, rest)) => Self::with_scheme(scheme, rest, shown.clone(), allow, &invalid),
            None => Self::scp_form(repo_url, shown.clone(), &invalid),
        }
    }

    fn with_scheme(
        scheme: &str,
        rest: &str,
        shown: String,
        allow: Allow,
        invalid: &dyn Fn(&str) -> SourceError,
    ) -> Result<Self, SourceError> {
        let scheme = match scheme.to_ascii_lowercase().as_str() {
            "https" => "https",
            "http" if allow.http => "http",
            "http" => {
                return Err(invalid(
                    "http is not encrypted and not allowed; use https, or start with --allow-http-sources",
                ));
            }
            "ssh" => "ssh",
            "oci" => {
                return Err(invalid(
                    "a registry is read only as the source of an Application, and not as a Git \
                     repository",
                ));
            }
            _ => return Err(invalid("only https and ssh URLs are supported")),
        };
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        check_host(host, invalid)?;
        let host = &normal_authority(scheme, host);
        if path.is_empty() {
            return Err(invalid("the URL names a host but no repository"));
        }
        // A percent-encoded part is decoded by the server and may reach another
        // repository than the one that the project was checked for. Only a space and
        // other characters that a path cannot contain literally may be encoded.
        let mut escapes = path.split('%').skip(1).map(|after| percent_decode(&format!("%{after}")));
        let plain = |c: char| c.is_ascii_alphanumeric() || "-._~/%".contains(c);
        if escapes.any(|decoded| decoded.starts_with(plain)) {
            return Err(invalid(
                "the URL must not contain percent-encoded letters, digits or slashes; write the characters themselves",
            ));
        }
        if scheme == "ssh" {
            // git decodes the whole URL before it looks for the host.
            if rest.contains('%') {
                return Err(invalid(
                    "an ssh URL must not contain '%'; write user@host:path instead",
                ));
            }
            let name = user.map(|user| user.split_once(':').map_or(user, |(name, _)| name));
            if name.is_some_and(|name| name.starts_with('-')) {
                return Err(invalid("the user name must not start with '-'"));
            }
            // ssh does not take a password from the URL. It is not passed on, but is part
            // of the repository's identity.
            let embedded = user.and_then(|user| user.split_once(':'));
            let embedded =
                embedded.map(|(name, word)| (percent_decode(name), percent_decode(word)));
            let user = name.map(|name| format!("{name}@")).unwrap_or_default();
            let url = format!("ssh://{user}{host}/{path}");
            return Ok(Self { url, shown, transport: Transport::Ssh, embedded });
        }
        let embedded = user.filter(|user| !user.is_empty()).map(|user| {
            let (name, password) = user.split_once(':').unwrap_or((user, ""));
            (percent_decode(name), percent_decode(password))
        });
        let url = format!("{scheme}://{host}/{path}");
        let transport = Transport::Http { scheme, host: host.to_owned() };
        Ok(Self { url, shown, transport, embedded })
    }

    /// The `user@host:path` form of ssh.
    fn scp_form(
        text: &str,
        shown: String,
        invalid: &dyn Fn(&str) -> SourceError,
    ) -> Result<Self, SourceError> {
        let Some((front, path)) = text.split_once(':') else {
            return Err(invalid("write an https or ssh URL, such as https://host/team/repo"));
        };
        // `helper::address` would start a remote helper program.
        if path.starts_with(':') || path.starts_with('-') || path.is_empty() {
            return Err(invalid("the part after ':' is not a repository path"));
        }
        let (user, host) = front.rsplit_once('@').unwrap_or(("", front));
        check_host(host, invalid)?;
        if user.starts_with('-') || user.contains(['/', ':', '[', ']']) {
            return Err(invalid("the user name is invalid"));
        }
        let user = if user.is_empty() { String::new() } else { format!("{user}@") };
        let url = format!("{user}{}:{path}", host.to_ascii_lowercase());
        Ok(Self { url, shown, transport: Transport::Ssh, embedded: None })
    }

    /// User name and password for https: those of the URL, completed from `credentials`.
    pub(crate) fn login<'a>(&'a self, credentials: &'a RepoCredentials) -> (&'a str, &'a str) {
        match &self.embedded {
            Some((name, password)) if password.is_empty() => (name, &credentials.password),
            Some((name, password)) => (name, password),
            None => (&credentials.username, &credentials.password),
        }
    }

    /// The local directory, if the address is one.
    pub(crate) fn local(&self) -> Option<&Path> {
        match &self.transport {
            Transport::Local(path) => Some(path),
            Transport::Http { .. } | Transport::Ssh => None,
        }
    }
}

/// The path of a `file://` URL or of a plain path.
fn local_path(url: &str) -> Option<&str> {
    if let Some(rest) = url.strip_prefix("file://") {
        return Some(rest.strip_prefix("localhost").unwrap_or(rest));
    }
    (url.starts_with('/') || url.starts_with("./") || url.starts_with("../") || url == ".")
        .then_some(url)
}

/// Host and port in normal form, so that one server has one entry in the caches.
fn normal_authority(scheme: &str, host: &str) -> String {
    let RepositoryUrl { host, port, .. } = RepositoryUrl::of(&format!("{scheme}://{host}/"));
    if port.is_empty() { host } else { format!("{host}:{port}") }
}

fn check_host(host: &str, invalid: &dyn Fn(&str) -> SourceError) -> Result<(), SourceError> {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => (name, port),
        _ => (host, "0"),
    };
    let usable = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
    // git removes brackets from any name, so one host would have two names.
    let inside = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    let bracketed = inside.is_some_and(|inside| inside.parse::<std::net::Ipv6Addr>().is_ok());
    if name.is_empty()
        || name.starts_with('-')
        || name.ends_with('.')
        || !name.chars().all(usable)
        || (name.contains([':', '[', ']']) && !bracketed)
        // A password with an unescaped '/' looks like this.
        || !port.chars().all(|c| c.is_ascii_digit())
        || (!port.is_empty() && port.parse::<u16>().is_err())
    {
        return Err(invalid("the host name or port is invalid"));
    }
    Ok(())
}

fn percent_decode(text: &str) -> String {
    percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// Removes credentials and control characters from a text that contains URLs.
///
/// `scheme://user:password@host` becomes `scheme://***@host`, anywhere in the text. A
/// plain `ssh://git@host` loses its user name, too.
pub fn redact_urls(text: &str) -> String {
    printable(&wavegate_net::redact::redact_text(text))
}

fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' { '\u{fffd}' } else { c }).collect()
}
