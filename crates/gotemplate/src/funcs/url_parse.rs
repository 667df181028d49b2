//! Parses and formats URLs as Go's `net/url` does.

use crate::engine::escape::{is_unreserved, percent};

/// A URL in parts, decoded.
#[derive(Debug, Default)]
pub(super) struct Url {
    pub scheme: String,
    pub opaque: String,
    pub user: Option<UserInfo>,
    pub host: String,
    pub path: String,
    /// The path as written, if encoding it again would differ.
    pub raw_path: String,
    pub query: String,
    pub fragment: String,
}

/// User and password.
#[derive(Debug)]
pub(super) struct UserInfo {
    name: String,
    password: Option<String>,
}

impl UserInfo {
    /// `user:password`, encoded.
    pub fn text(&self) -> String {
        let name = encode(&self.name, Part::User);
        self.password
            .as_ref()
            .map_or(name.clone(), |password| format!("{name}:{}", encode(password, Part::User)))
    }
}

/// The encoded part of a URL, which determines the unescaped characters.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Path,
    User,
    Host,
    Zone,
    Fragment,
}

fn keeps(b: u8, part: Part) -> bool {
    if is_unreserved(b) {
        return true;
    }
    match part {
        Part::Host | Part::Zone => b"!$&'()*+,;=:[]<>\"".contains(&b),
        Part::Path => b"$&+,/:;=@".contains(&b),
        Part::User => b"$&+,;=".contains(&b),
        Part::Fragment => b"$&+,/:;=?@!()*".contains(&b),
    }
}

fn encode(text: &str, part: Part) -> String {
    percent(text.as_bytes(), |b| keeps(b, part))
}

fn decode(text: &str, part: Part) -> Result<String, String> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut i = 0;
    while i < bytes.len() {
        let b = bytes[i];
        if b == b'%' {
            let digits =
                text.get(i + 1..i + 3).filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()));
            let bad = || {
                format!(
                    "invalid URL escape {:?}",
                    String::from_utf8_lossy(&bytes[i..bytes.len().min(i + 3)])
                )
            };
            let value = u8::from_str_radix(digits.ok_or_else(bad)?, 16).map_err(|_| bad())?;
            // In a host, only non-ASCII bytes, and the percent sign before a zone, may be
            // encoded.
            if part == Part::Host && value < 0x80 && digits != Some("25") {
                return Err(bad());
            }
            out.push(value);
            i += 3;
            continue;
        }
        if part == Part::Host && b < 0x80 && !keeps(b, part) {
            return Err(format!("invalid character {:?} in host name", char::from(b)));
        }
        out.push(b);
        i += 1;
    }
    Ok(String::from_utf8_lossy(&out).into_owned())
}

impl Url {
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.bytes().any(|b| b < b' ' || b == 0x7f) {
            return Err("net/url: invalid control character in URL".to_owned());
        }
        let (body, fragment) = text.split_once('#').unwrap_or((text, ""));
        let mut url = Self { fragment: decode(fragment, Part::Fragment)?, ..Self::default() };
        if body == "*" {
            url.path = "*".to_owned();
            return Ok(url);
        }
        let (scheme, rest) = scheme(body)?;
        url.scheme = scheme.to_ascii_lowercase();
        let mut rest = rest;
        if let Some((before, query)) = rest.split_once('?') {
            query.clone_into(&mut url.query);
            rest = before;
        }
        if !rest.starts_with('/') {
            if !url.scheme.is_empty() {
                rest.clone_into(&mut url.opaque);
                return Ok(url);
            }
            if rest.split('/').next().is_some_and(|segment| segment.contains(':')) {
                return Err("first path segment in URL cannot contain colon".to_owned());
            }
        }
        if (!url.scheme.is_empty() || !rest.starts_with("///"))
            && let Some(authority) = rest.strip_prefix("//")
        {
            let end = authority.find('/').unwrap_or(authority.len());
            url.authority(&authority[..end])?;
            rest = &authority[end..];
        }
        url.path = decode(rest, Part::Path)?;
        if encode(&url.path, Part::Path) != rest
            && rest.bytes().all(|b| keeps(b, Part::Path) || b"%!'()*[]".contains(&b))
        {
            rest.clone_into(&mut url.raw_path);
        }
        Ok(url)
    }

    fn authority(&mut self, text: &str) -> Result<(), String> {
        let host = match text.rsplit_once('@') {
            Some((user, host)) => {
                let valid = |c: char| c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c);
                if !user.chars().all(valid) {
                    return Err("net/url: invalid userinfo".to_owned());
                }
                let (name, password) = match user.split_once(':') {
                    Some((name, password)) => (name, Some(decode(password, Part::User)?)),
                    None => (user, None),
                };
                self.user = Some(UserInfo { name: decode(name, Part::User)?, password });
                host
            }
            None => text,
        };
        if let Some(inner) = host.strip_prefix('[') {
            let (address, port) = inner.rsplit_once(']').ok_or("missing ']' in host")?;
            check_port(port)?;
            if let Some((address, zone)) = address.split_once("%25") {
                let zone = decode(zone, Part::Zone)?;
                self.host = format!("[{}%{zone}]{port}", decode(address, Part::Host)?);
                return Ok(());
            }
        } else if let Some(colon) = host.rfind(':') {
            check_port(&host[colon..])?;
        }
        self.host = decode(host, Part::Host)?;
        Ok(())
    }

    /// The host without port and brackets.
    pub fn hostname(&self) -> &str {
        if let Some(inner) = self.host.strip_prefix('[') {
            return inner.split_once(']').map_or(inner, |(address, _)| address);
        }
        match self.host.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => host,
            _ => &self.host,
        }
    }

    pub fn text(&self) -> String {
        let mut out = String::new();
        if !self.scheme.is_empty() {
            out.push_str(&self.scheme);
            out.push(':');
        }
        if self.opaque.is_empty() {
            let path = if self.raw_path.is_empty() {
                if self.path == "*" { "*".to_owned() } else { encode(&self.path, Part::Path) }
            } else {
                self.raw_path.clone()
            };
            if !self.scheme.is_empty() || !self.host.is_empty() || self.user.is_some() {
                if !self.host.is_empty() || !self.path.is_empty() || self.user.is_some() {
                    out.push_str("//");
                }
                if let Some(user) = &self.user {
                    out.push_str(&user.text());
                    out.push('@');
                }
                out.push_str(&encode(&self.host, Part::Host));
            }
            if !path.is_empty() && !path.starts_with('/') && !self.host.is_empty() {
                out.push('/');
            }
            // A first segment with a colon would be parsed as a scheme.
            if out.is_empty() && path.split('/').next().is_some_and(|segment| segment.contains(':'))
            {
                out.push_str("./");
            }
            out.push_str(&path);
        } else {
            out.push_str(&self.opaque);
        }
        if !self.query.is_empty() {
            out.push('?');
            out.push_str(&self.query);
        }
        if !self.fragment.is_empty() {
            out.push('#');
            out.push_str(&encode(&self.fragment, Part::Fragment));
        }
        out
    }
}

fn check_port(port: &str) -> Result<(), String> {
    match port.strip_prefix(':') {
        Some(digits) if digits.bytes().all(|b| b.is_ascii_digit()) => Ok(()),
        None if port.is_empty() => Ok(()),
        _ => Err(format!("invalid port {port:?} after host")),
    }
}

/// Splits the scheme from the rest.
fn scheme(text: &str) -> Result<(&str, &str), String> {
    for (i, c) in text.char_indices() {
        match c {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if i > 0 => {}
            ':' if i == 0 => return Err("missing protocol scheme".to_owned()),
            ':' => return Ok((&text[..i], &text[i + 1..])),
            _ => break,
        }
    }
    Ok(("", text))
}
