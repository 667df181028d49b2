//! Reads a `repoURL`: what kind of place it names, and how to show it.
//!
//! Whatever comes out of here is safe to hand to `git` after `--`, and holds
//! no password: those of the URL are split off first.

use std::path::{Path, PathBuf};

use super::credentials::Credentials;
use super::error::Error;

/// Longest accepted URL, in bytes. No server has longer ones in practice.
const MAX_URL: usize = 2048;

/// Where a repository is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// Over https (or http, when switched on).
    Http {
        /// `https` or `http`.
        scheme: &'static str,
        /// Host with its port, as `git` prints it in a password prompt.
        host: String,
    },
    /// Over ssh, in URL or in `user@host:path` form.
    Ssh,
    /// A directory of this machine.
    Local(PathBuf),
}

/// A `repoURL` after all checks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Address {
    /// What `git` is given: no password in it.
    pub url: String,
    /// What people are shown: no user name or password in it.
    pub shown: String,
    /// The kind of place.
    pub place: Place,
    /// User name and password written into the URL, percent-decoded.
    pub embedded: Option<(String, String)>,
}

/// Which kinds of place may be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Allow {
    /// Directories of this machine, by absolute path or `file://` URL. For
    /// the demo and the command line; never for a controller, since an
    /// Application could name any directory of its machine.
    pub local: bool,
    /// `http://` without encryption. Passwords are sent in the clear.
    pub http: bool,
}

impl Address {
    /// Checks a `repoURL`.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidUrl`] and [`Error::LocalNotAllowed`]; both permanent.
    pub(super) fn parse(repo_url: &str, allow: Allow) -> Result<Self, Error> {
        // Whatever is said about it from now on, by us or by a program.
        crate::redact::know_url(repo_url);
        let shown = printable(&crate::redact::url(repo_url));
        let invalid =
            |reason: &str| Error::InvalidUrl { repo: shown.clone(), reason: reason.to_owned() };
        if repo_url.is_empty() {
            return Err(invalid("the URL is empty"));
        }
        if repo_url.len() > MAX_URL {
            return Err(invalid("the URL is longer than 2048 bytes"));
        }
        if repo_url.starts_with('-') {
            return Err(invalid("a URL cannot start with '-'"));
        }
        if repo_url.chars().any(char::is_control) {
            return Err(invalid("a URL cannot hold control characters"));
        }
        if let Some(path) = local_path(repo_url) {
            if !allow.local {
                return Err(Error::LocalNotAllowed { repo: shown });
            }
            let path = PathBuf::from(path);
            let plain = path.components().all(|part| {
                matches!(part, std::path::Component::RootDir | std::path::Component::Normal(_))
            });
            if !path.is_absolute() || !plain {
                return Err(invalid(
                    "a local directory is written as an absolute path without '..'",
                ));
            }
            // As a path: git would percent-decode a file URL once more.
            let url = path.display().to_string();
            return Ok(Self { url, shown, place: Place::Local(path), embedded: None });
        }
        if repo_url.contains(char::is_whitespace) {
            return Err(invalid("a URL cannot hold blanks"));
        }
        // Servers and clients resolve these, and another repository is reached
        // than the one that a project was asked about.
        let dots = |part: &str| matches!(percent_decode(part).as_str(), "." | "..");
        if repo_url.split(['/', ':', '\\']).any(dots) {
            return Err(invalid("a URL cannot hold '.' or '..' as a part of its path"));
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
        invalid: &dyn Fn(&str) -> Error,
    ) -> Result<Self, Error> {
        let scheme = match scheme.to_ascii_lowercase().as_str() {
            "https" => "https",
            "http" if allow.http => "http",
            "http" => return Err(invalid("http is not encrypted and not allowed, use https")),
            "ssh" => "ssh",
            _ => return Err(invalid("only https and ssh URLs can be read")),
        };
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        check_host(host, invalid)?;
        if path.is_empty() {
            return Err(invalid("the URL names a host but no repository"));
        }
        // What a server decodes leads to another repository than the one that a
        // project was asked about. A blank and other characters that no path can
        // hold as they are remain.
        let mut escapes = path.split('%').skip(1).map(|after| percent_decode(&format!("%{after}")));
        let plain = |c: char| c.is_ascii_alphanumeric() || "-._~/%".contains(c);
        if escapes.any(|decoded| decoded.starts_with(plain)) {
            return Err(invalid(
                "a URL cannot hold letters, digits or slashes as %XX; write the characters themselves",
            ));
        }
        if scheme == "ssh" {
            // git decodes all of it before it looks for the host.
            if rest.contains('%') {
                return Err(invalid(
                    "an ssh URL cannot hold '%'; write user@host:path for such a path",
                ));
            }
            let name = user.map(|user| user.split_once(':').map_or(user, |(name, _)| name));
            if name.is_some_and(|name| name.starts_with('-')) {
                return Err(invalid("a user name cannot start with '-'"));
            }
            // ssh does not take a password from here, but whoever writes another
            // one means another repository, and it is not told either.
            let embedded = user.and_then(|user| user.split_once(':'));
            let embedded =
                embedded.map(|(name, word)| (percent_decode(name), percent_decode(word)));
            let user = name.map(|name| format!("{name}@")).unwrap_or_default();
            let url = format!("ssh://{user}{host}/{path}");
            return Ok(Self { url, shown, place: Place::Ssh, embedded });
        }
        let embedded = user.filter(|user| !user.is_empty()).map(|user| {
            let (name, password) = user.split_once(':').unwrap_or((user, ""));
            (percent_decode(name), percent_decode(password))
        });
        let url = format!("{scheme}://{host}/{path}");
        let place = Place::Http { scheme, host: host.to_owned() };
        Ok(Self { url, shown, place, embedded })
    }

    /// `user@host:path`, which ssh users write.
    fn scp_form(text: &str, shown: String, invalid: &dyn Fn(&str) -> Error) -> Result<Self, Error> {
        let Some((front, path)) = text.split_once(':') else {
            return Err(invalid("write an https or ssh URL, such as https://host/team/repo"));
        };
        // `helper::address` would start a remote helper program.
        if path.starts_with(':') || path.starts_with('-') || path.is_empty() {
            return Err(invalid("the part after ':' is no path of a repository"));
        }
        let (user, host) = front.rsplit_once('@').unwrap_or(("", front));
        check_host(host, invalid)?;
        if user.starts_with('-') || user.contains(['/', ':']) {
            return Err(invalid("the user name is not usable"));
        }
        Ok(Self { url: text.to_owned(), shown, place: Place::Ssh, embedded: None })
    }

    /// The user name and password that are sent over https: those of the URL,
    /// and what it leaves out from `credentials`.
    pub(super) fn login<'a>(&'a self, credentials: &'a Credentials) -> (&'a str, &'a str) {
        match &self.embedded {
            Some((name, password)) if password.is_empty() => (name, &credentials.password),
            Some((name, password)) => (name, password),
            None => (&credentials.username, &credentials.password),
        }
    }

    /// The directory of this machine, if it is one.
    pub(super) fn local(&self) -> Option<&Path> {
        match &self.place {
            Place::Local(path) => Some(path),
            Place::Http { .. } | Place::Ssh => None,
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

fn check_host(host: &str, invalid: &dyn Fn(&str) -> Error) -> Result<(), Error> {
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => (name, port),
        _ => (host, "0"),
    };
    let usable = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
    // git takes brackets off any name, so that one host would have two.
    let inside = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    let bracketed = inside.is_some_and(|inside| inside.parse::<std::net::Ipv6Addr>().is_ok());
    if name.is_empty()
        || name.starts_with('-')
        || name.ends_with('.')
        || !name.chars().all(usable)
        || (name.contains([':', '[', ']']) && !bracketed)
        // A password with an unescaped '/' would look like this.
        || !port.chars().all(|c| c.is_ascii_digit())
    {
        return Err(invalid("the host name or port is not usable"));
    }
    Ok(())
}

fn percent_decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let digit = |at: usize| bytes.get(at).and_then(|b| char::from(*b).to_digit(16));
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        match (bytes[at], digit(at + 1), digit(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                // Two hexadecimal digits are at most 255.
                decoded.push((high * 16 + low) as u8);
                at += 3;
            }
            (byte, _, _) => {
                decoded.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

/// Takes credentials and control characters out of a text with URLs in it.
///
/// `scheme://user:password@host` becomes `scheme://***@host`, wherever it
/// stands. A plain `ssh://git@host` loses its user name too, which is harmless.
pub fn redact(text: &str) -> String {
    printable(&crate::redact::text(text))
}

fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' { '\u{fffd}' } else { c }).collect()
}
