//! One normal form of repository URLs, by which projects, credentials, webhooks and caches
//! compare them.
//!
//! `git` and its transports read many spellings of one address: as URL and as
//! `user@host:path`, with and without user name, default port, leading zeros of the port,
//! `.git`, `/.git`, repeated slashes, percent escapes, brackets, a dot after the host, an
//! address as number. A rule for one spelling applies to all of them.
//!
//! Pure; a text that is no URL is compared as it is written. Patterns have a normal form,
//! too: their special characters stay.

pub mod signature;

use std::net::{Ipv4Addr, Ipv6Addr};

/// Hosts on which a server offers ssh on port 443, and its own name.
const SSH_HOSTS: [(&str, &str); 3] = [
    ("ssh.github.com", "github.com"),
    ("altssh.bitbucket.org", "bitbucket.org"),
    ("altssh.gitlab.com", "gitlab.com"),
];

/// A repository URL in its parts, each in normal form. Case is kept in the path only.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RepositoryUrl {
    /// The scheme: `https`, `http`, `ssh` for all forms of ssh, empty for a local directory
    /// and for a text that is no URL.
    pub scheme: String,
    /// The host, without user name and port.
    pub host: String,
    /// The port; empty for the default one of the scheme.
    pub port: String,
    /// The path, without slashes at its ends and `.git`.
    pub path: String,
}

/// How a text is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Url,
    /// With `*`, `?`, `[…]`, `{…}` and `\` as special characters.
    Pattern,
}

/// How the path of a URL is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Path {
    /// With escapes, a query and a fragment.
    Escaped,
    /// As it is, in `user@host:path`.
    Plain,
    /// Of a directory.
    Local,
}

/// Limit on the nesting of brackets, escapes and suffixes that are removed.
const MAX_ROUNDS: usize = 64;

impl RepositoryUrl {
    /// Reads a URL.
    pub fn of(url: &str) -> Self {
        Self::read(url, Kind::Url)
    }

    /// Reads a pattern of URLs.
    pub fn of_pattern(pattern: &str) -> Self {
        Self::read(pattern, Kind::Pattern)
    }

    /// The normal form in lower case: servers like GitHub ignore case, so that a rule for
    /// one spelling must apply to the others.
    pub fn folded(&self) -> String {
        self.meant().to_string().to_lowercase()
    }

    /// Host and path in lower case, whatever the transport.
    pub fn place(&self) -> String {
        let Self { host, path, .. } = self.meant();
        let place = match (host.is_empty(), path.is_empty()) {
            (true, _) => path,
            (false, true) => host,
            (false, false) => format!("{host}/{path}"),
        };
        place.to_lowercase()
    }

    /// The same at the own name of the server, for its other hosts for ssh.
    fn meant(&self) -> Self {
        let is_default = self.port.is_empty() || self.port == "443";
        let own = SSH_HOSTS.iter().find(|(other, _)| *other == self.host);
        match own.filter(|_| self.scheme == "ssh" && is_default) {
            Some((_, own)) => Self { host: (*own).to_owned(), port: String::new(), ..self.clone() },
            None => self.clone(),
        }
    }

    /// What has a normal form is in normal form: it is read until nothing changes.
    fn read(text: &str, kind: Kind) -> Self {
        let mut read = Self::read_once(text, kind);
        for _ in 0..MAX_ROUNDS {
            let again = Self::read_once(&read.to_string(), kind);
            if again == read {
                break;
            }
            read = again;
        }
        read
    }

    fn read_once(text: &str, kind: Kind) -> Self {
        let text = text.trim();
        if let Some((scheme, rest)) = text.split_once("://") {
            let scheme = match scheme.to_lowercase().as_str() {
                "git+ssh" | "ssh+git" => "ssh".to_owned(),
                other => other.to_owned(),
            };
            if scheme == "file" {
                return Self::local(&path(strip_local_host(rest), kind, Path::Local));
            }
            let is_end = |c: char| c == '/' || (kind == Kind::Url && "?#\\".contains(c));
            let (front, rest) = rest.split_at(rest.find(is_end).unwrap_or(rest.len()));
            let authority = unescaped(front);
            let (authority, more) = authority.split_once('/').unwrap_or((&authority, ""));
            let rest = format!("{more}{rest}");
            return Self::at(&scheme, authority, &rest, kind, Path::Escaped);
        }
        // `user@host:path`; brackets may contain colons.
        let first_slash = text.find('/').unwrap_or(text.len());
        let closing = text[..first_slash].find("]:").map(|at| at + 1);
        if let Some(colon) = closing.or_else(|| text[..first_slash].find(':')) {
            return Self::at("ssh", &text[..colon], &text[colon + 1..], kind, Path::Plain);
        }
        // The beginning of a URL, as in credential templates.
        if let Some((user, host)) = text.split_once('@')
            && !user.is_empty()
            && !text.contains('/')
        {
            return Self::at("ssh", host, "", kind, Path::Plain);
        }
        if text.starts_with('/') {
            return Self::local(&path(text, kind, Path::Local));
        }
        Self { path: path(text, kind, Path::Local), ..Self::default() }
    }

    fn local(path: &str) -> Self {
        Self { path: format!("/{path}"), ..Self::default() }
    }

    fn at(scheme: &str, authority: &str, rest: &str, kind: Kind, how: Path) -> Self {
        let authority = authority.to_lowercase();
        let (host, port) = host_and_port(&authority);
        let (host, port) = (normal_host(host), normal_port(scheme, port));
        Self { scheme: scheme.to_owned(), host, port, path: path(rest, kind, how) }
    }
}

impl std::fmt::Display for RepositoryUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { scheme, host, port, path } = self;
        if scheme.is_empty() {
            return f.write_str(path);
        }
        write!(f, "{scheme}://{host}")?;
        if !port.is_empty() {
            write!(f, ":{port}")?;
        }
        if !path.is_empty() {
            write!(f, "/{path}")?;
        }
        Ok(())
    }
}

/// The path of a `file` URL without the name of this machine.
fn strip_local_host(rest: &str) -> &str {
    let host = rest.get(..9).filter(|host| host.eq_ignore_ascii_case("localhost"));
    host.map_or(rest, |_| &rest[9..])
}

/// Host and port of an authority. `git` accepts brackets around the host, around host and
/// port, and around all of it with the user name.
fn host_and_port(authority: &str) -> (&str, &str) {
    let (inner, after) = match (authority.find('['), authority.rfind(']')) {
        (Some(open), Some(close))
            if open < close
                && (open == 0 || authority[..open].ends_with('@'))
                && (authority[close + 1..].is_empty()
                    || authority[close + 1..].starts_with(':')) =>
        {
            (&authority[open + 1..close], &authority[close + 1..])
        }
        _ => (authority.rsplit_once('@').map_or(authority, |(_, host)| host), ""),
    };
    let inner = inner.rsplit_once('@').map_or(inner, |(_, host)| host);
    if let Some(port) = after.strip_prefix(':') {
        return (inner, port);
    }
    if without_zone(inner).parse::<Ipv6Addr>().is_ok() {
        return (inner, "");
    }
    match inner.rsplit_once(':') {
        Some((host, port)) if port.chars().all(is_port) => (host, port),
        _ => (inner, ""),
    }
}

/// A digit, or what `git` skips before one. `\0` stands for a part that is not known yet.
fn is_port(c: char) -> bool {
    c.is_ascii_digit() || matches!(c, '+' | ' ' | '\0')
}

fn without_zone(host: &str) -> &str {
    host.split_once('%').map_or(host, |(host, _)| host)
}

fn normal_port(scheme: &str, port: &str) -> String {
    let port = port.trim_start_matches(['+', ' ', '0']);
    let default = match scheme {
        "https" => "443",
        "http" => "80",
        "ssh" => "22",
        "git" => "9418",
        _ => "",
    };
    if port == default { String::new() } else { port.to_owned() }
}

fn normal_host(host: &str) -> String {
    let host = host.trim_end_matches('.');
    if let Ok(address) = without_zone(host).parse::<Ipv6Addr>() {
        return match address.to_ipv4_mapped() {
            Some(address) => address.to_string(),
            None => format!("[{address}]"),
        };
    }
    if let Some(address) = number_address(host) {
        return address.to_string();
    }
    host.split(['.', '\u{3002}', '\u{ff0e}', '\u{ff61}'])
        .map(ascii_label)
        .collect::<Vec<_>>()
        .join(".")
}

/// An IPv4 address as resolvers read it: one to four numbers, decimal, octal or
/// hexadecimal, of which the last one fills the rest.
fn number_address(host: &str) -> Option<Ipv4Addr> {
    let number = |part: &str| {
        if let Some(digits) = part.strip_prefix("0x") {
            return u64::from_str_radix(if digits.is_empty() { "0" } else { digits }, 16).ok();
        }
        if !part.chars().all(|c| c.is_ascii_digit()) {
            return None;
        }
        match part.strip_prefix('0') {
            Some(digits) if !digits.is_empty() => u64::from_str_radix(digits, 8).ok(),
            _ => part.parse().ok(),
        }
    };
    let parts: Vec<u64> = host.split('.').map(number).collect::<Option<_>>()?;
    let (last, front) = parts.split_last()?;
    if front.len() > 3 || front.iter().any(|part| *part > 255) {
        return None;
    }
    let rest = 4 - front.len();
    if *last >= 1 << (8 * rest) {
        return None;
    }
    let start = front.iter().fold(0, |all, part| (all << 8) | part) << (8 * rest);
    u32::try_from(start | last).ok().map(Ipv4Addr::from)
}

/// A label of a host in ASCII: Punycode (RFC 3492) where it has other letters.
fn ascii_label(label: &str) -> String {
    if label.is_ascii() {
        return label.to_owned();
    }
    idna::punycode::encode_str(label)
        .map_or_else(|| label.to_owned(), |coded| format!("xn--{coded}"))
}

/// The text with its percent escapes decoded. Those of special characters of URLs and of
/// patterns, and those that are no text, stay, in lower case.
fn unescaped(text: &str) -> String {
    let decoded = String::from_utf8(unescaped_bytes(text, true));
    // The rest is ASCII and text that was there before.
    decoded.unwrap_or_else(|_| String::from_utf8_lossy(&unescaped_bytes(text, false)).into_owned())
}

fn unescaped_bytes(text: &str, all: bool) -> Vec<u8> {
    let bytes = text.as_bytes();
    let digit = |at: usize| bytes.get(at).and_then(|byte| char::from(*byte).to_digit(16));
    let mut decoded: Vec<u8> = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let (Some(high), Some(low), b'%') = (digit(at + 1), digit(at + 2), bytes[at]) else {
            decoded.push(bytes[at]);
            at += 1;
            continue;
        };
        // Two hexadecimal digits are at most 255.
        let byte = (high * 16 + low) as u8;
        let stays = b"%*?[]{}\\!,#".contains(&byte) || byte.is_ascii_control();
        if stays || (!all && !byte.is_ascii()) {
            decoded.extend(format!("%{byte:02x}").bytes());
        } else {
            decoded.push(byte);
        }
        at += 3;
    }
    decoded
}

/// A path without escapes, repeated slashes, `.` and `..`, and without what servers add:
/// `.git` and `/.git`.
fn path(text: &str, kind: Kind, how: Path) -> String {
    let decoded = match (how, kind) {
        (Path::Local, _) => text.to_owned(),
        (Path::Escaped, Kind::Pattern) => unescaped(text),
        // A server does not see what follows.
        (Path::Escaped, Kind::Url) => {
            let seen = text.split(['?', '#']).next().unwrap_or_default();
            unescaped(&seen.replace('\\', "/"))
        }
        (Path::Plain, Kind::Pattern) => text.replace('%', "%25").replace('#', "%23"),
        (Path::Plain, Kind::Url) => {
            let text = text.replace('%', "%25").replace('#', "%23");
            text.replace('?', "%3f").replace('\\', "%5c")
        }
    };
    let mut parts: Vec<&str> = Vec::new();
    for part in decoded.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    while let Some(last) = parts.pop() {
        match without_git(last) {
            None => {
                parts.push(last);
                break;
            }
            Some("") => {}
            Some(bare) => parts.push(bare),
        }
    }
    parts.join("/")
}

/// A name without the suffix `.git`, if it has that.
fn without_git(name: &str) -> Option<&str> {
    let at = name.len().checked_sub(4).filter(|at| name.is_char_boundary(*at))?;
    name[at..].eq_ignore_ascii_case(".git").then(|| &name[..at])
}

#[cfg(test)]
mod tests;
