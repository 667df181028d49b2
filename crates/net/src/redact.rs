//! Removes credentials from texts for users.
//!
//! All output passes through this module where it leaves the program: conditions and
//! operation messages, Events, log lines, and the text output of the command line. It
//! hides:
//!
//! - URLs and credentials that are known: from a Secret, or from a field for URLs
//!   ([`know_url`], [`know_secret`]);
//! - user names and passwords in texts of the form of a URL or of `user:password@host:path`;
//! - values of URL parameters whose names indicate credentials.
//!
//! Where the end of a password is ambiguous, it hides more rather than less. Redacting is
//! idempotent.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, LazyLock};

use parking_lot::RwLock;
use serde_json::Value;

/// Replacement of a credential.
pub const HIDDEN: &str = "***";

/// Most known credentials; the oldest are removed first. Each takes some hundred bytes.
const MAX_KNOWN: usize = 8192;
/// Minimum length of a known credential: shorter ones would hide ordinary words.
const MIN_SECRET: usize = 8;
/// Longest known URL, in bytes.
const MAX_URL: usize = 2048;
/// How far after a space the `@` of a password is searched for, in bytes.
const REACH: usize = 512;

/// What may follow a URL in a sentence.
const PUNCTUATION: [char; 7] = [',', ';', '.', ':', '!', ')', '}'];

/// Fields that contain one URL or a list of them.
const URL_FIELDS: [&str; 5] = ["repoURL", "server", "url", "sourceRepos", "proxy"];
/// Fields of statuses and reports that contain messages.
const WORDS: [&str; 5] = ["message", "reason", "error", "why", "warning"];
/// Parts of parameter names that indicate credentials, in lower case.
const SENSITIVE: [&str; 11] =
    ["token", "key", "secret", "pass", "pwd", "auth", "sig", "cred", "jwt", "session", "sas"];

/// Texts that are, or contain, credentials.
#[derive(Default)]
struct Known {
    /// Indexed by their first bytes: long ones, since most start with `https://`, and
    /// short ones for shorter texts.
    long: HashMap<[u8; LONG_START], Vec<Secret>>,
    short: HashMap<[u8; MIN_SECRET], Vec<Secret>>,
    order: VecDeque<Secret>,
}

/// Length of the long index, in bytes.
const LONG_START: usize = 16;

/// A text and its replacement.
type Secret = Arc<(String, String)>;

static KNOWN: LazyLock<RwLock<Known>> = LazyLock::new(RwLock::default);

impl Known {
    /// Entries with the same first bytes.
    fn alike(&self, text: &[u8]) -> impl Iterator<Item = &Secret> {
        let long = text.first_chunk().and_then(|start| self.long.get(start));
        let short = text.first_chunk().and_then(|start| self.short.get(start));
        long.into_iter().chain(short).flatten()
    }

    fn has(&self, text: &str) -> bool {
        self.alike(text.as_bytes()).any(|known| known.0 == text)
    }

    /// The list of a text; `None` when the text is too short.
    fn list(&mut self, text: &str) -> Option<&mut Vec<Secret>> {
        match text.as_bytes().first_chunk().copied() {
            Some(start) => Some(self.long.entry(start).or_default()),
            None => Some(self.short.entry(*text.as_bytes().first_chunk()?).or_default()),
        }
    }

    fn add(&mut self, text: &str, shown: &str) {
        if self.has(text) {
            return;
        }
        let known = Arc::new((text.to_owned(), shown.to_owned()));
        let Some(list) = self.list(text) else { return };
        list.push(Arc::clone(&known));
        // Longest match first.
        list.sort_by_key(|known| std::cmp::Reverse(known.0.len()));
        self.order.push_back(known);
        while self.order.len() > MAX_KNOWN {
            let Some(old) = self.order.pop_front() else { return };
            let Some(list) = self.list(&old.0) else { continue };
            list.retain(|known| !Arc::ptr_eq(known, &old));
            if list.is_empty() {
                self.long.retain(|_, list| !list.is_empty());
                self.short.retain(|_, list| !list.is_empty());
            }
        }
    }

    fn hide<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.order.is_empty() {
            return Cow::Borrowed(text);
        }
        let bytes = text.as_bytes();
        let mut shown: Option<String> = None;
        let (mut at, mut copied) = (0, 0);
        while at + MIN_SECRET <= bytes.len() {
            let rest = &bytes[at..];
            let found = self.alike(rest).find(|known| rest.starts_with(known.0.as_bytes()));
            match found {
                Some(known) => {
                    // Both are at character boundaries.
                    let shown = shown.get_or_insert_default();
                    shown.push_str(&text[copied..at]);
                    shown.push_str(&known.1);
                    at += known.0.len();
                    copied = at;
                }
                None => at += 1,
            }
        }
        match shown {
            Some(shown) => Cow::Owned(shown + &text[copied..]),
            None => Cow::Borrowed(text),
        }
    }
}

/// Adds a text in all its spellings.
fn know(text: &str, shown: &str) {
    let spellings = spellings(text);
    if spellings.iter().all(|spelling| KNOWN.read().has(spelling)) {
        return;
    }
    let mut known = KNOWN.write();
    spellings.iter().for_each(|spelling| known.add(spelling, shown));
}

/// Adds a URL as written if it contains credentials, so that it is recognized in texts
/// whatever characters it contains.
pub fn know_url(written: &str) {
    if written.len() < MIN_SECRET || written.len() > MAX_URL {
        return;
    }
    let shown = redact_url(written);
    if shown != written {
        know(written, &shown);
    }
}

/// Adds a password or a token, unless it is too short.
pub fn know_secret(secret: &str) {
    let secret = secret.trim();
    if secret.len() >= MIN_SECRET {
        know(secret, HIDDEN);
    }
}

/// Adds the URLs with credentials in the URL fields of a raw object.
pub fn know_urls_of(object: &Value) {
    let is_url = |field: &str| URL_FIELDS.contains(&field);
    match object {
        Value::Object(fields) => {
            for (field, value) in fields {
                match value {
                    Value::String(text) if is_url(field) => know_url(text),
                    Value::Array(list) if is_url(field) => {
                        list.iter().filter_map(Value::as_str).for_each(know_url);
                    }
                    other => know_urls_of(other),
                }
            }
        }
        Value::Array(list) => list.iter().for_each(know_urls_of),
        _ => {}
    }
}

/// A text unchanged, and as written inside quotes.
fn spellings(text: &str) -> Vec<String> {
    let quoted = format!("{text:?}");
    let quoted = quoted[1..quoted.len() - 1].to_owned();
    match quoted == text {
        true => vec![quoted],
        false => vec![text.to_owned(), quoted],
    }
}

/// Removes credentials from any text.
pub fn redact_text(text: &str) -> Cow<'_, str> {
    let known = KNOWN.read().hide(text);
    let parsed = if known.contains("://") { Cow::Owned(urls(&known)) } else { known };
    let shown = if parsed.contains('@') { Cow::Owned(scp_forms(&parsed)) } else { parsed };
    if shown == text { Cow::Borrowed(text) } else { shown }
}

/// Removes credentials from a text that is one URL. Its end is known, so a password may
/// contain a space.
pub fn redact_url(written: &str) -> String {
    match written.split_once("://") {
        Some((scheme, rest)) => format!("{scheme}://{}", without_credentials(rest)),
        None => scp_forms(written),
    }
}

/// Removes credentials from the message fields of a raw object.
pub fn redact_messages(object: &mut Value) {
    match object {
        Value::Object(fields) => {
            for (field, value) in fields.iter_mut() {
                match value {
                    Value::String(words) if WORDS.contains(&field.as_str()) => {
                        if let Cow::Owned(shown) = redact_text(words) {
                            *words = shown;
                        }
                    }
                    other => redact_messages(other),
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(redact_messages),
        _ => {}
    }
}

/// Redacts all URLs in a text.
fn urls(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (front, after) = rest.split_at(at + 3);
        shown.push_str(front);
        let word = &after[..end_of_url(after)];
        shown.push_str(&without_credentials(word));
        rest = &after[word.len()..];
    }
    shown.push_str(rest);
    shown
}

/// End of a URL in a text, from the part after `://`.
fn end_of_url(text: &str) -> usize {
    let end = end_of_word(text, 0);
    let word = &text[..end];
    let authority = authority_of(word);
    if word.contains('@') || !authority.contains(':') || is_host(authority) || is_no_host(word) {
        return end;
    }
    // A user name and the first part of a password with a space or a quote: the URL
    // extends to the next `@`.
    let line = &text[..text.find('\n').unwrap_or(text.len())];
    let next = line.find("://").unwrap_or(line.len());
    let reach = text.floor_char_boundary(next.min(end + REACH));
    match text[end..reach].find('@') {
        Some(at) => end_of_word(text, end + at),
        None => end,
    }
}

/// End of the word at `from`. A quote is part of a word when the word continues after it.
fn end_of_word(text: &str, from: usize) -> usize {
    let is_quote = |c: char| matches!(c, '\'' | '"' | '<' | '>' | '`');
    let mut characters = text[from..].char_indices().peekable();
    while let Some((at, c)) = characters.next() {
        let next = characters.peek().map(|(_, next)| *next);
        let closes = next.is_none_or(|next| {
            next.is_whitespace() || is_quote(next) || ",:;.)]}\\".contains(next)
        });
        let begins_another = text[from + at..].starts_with("://");
        if c.is_whitespace() || c.is_control() || (is_quote(c) && closes) || begins_another {
            return from + at;
        }
    }
    text.len()
}

fn authority_of(rest: &str) -> &str {
    &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())]
}

/// Whether a URL ends with its scheme, as in `https://: this is no repository`.
fn is_no_host(rest: &str) -> bool {
    rest.chars().all(|c| PUNCTUATION.contains(&c))
}

/// `host`, `host:port`, `[address]:port`; also before the punctuation of a sentence.
fn is_host(authority: &str) -> bool {
    let alone = authority.trim_end_matches(PUNCTUATION);
    is_exact_host(authority) || is_exact_host(alone)
}

fn is_exact_host(authority: &str) -> bool {
    let (name, port) = match authority.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => (name, port),
        _ => (authority, ""),
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    let named = match address {
        Some(address) => address.chars().all(|c| c.is_ascii_hexdigit() || ":.%".contains(c)),
        None => !name.is_empty() && name.chars().all(plain),
    };
    named && port.chars().all(|c| c.is_ascii_digit())
}

/// A URL after its `://`.
fn without_credentials(rest: &str) -> String {
    let Some(at) = end_of_credentials(rest) else { return without_parameters(rest) };
    format!("{HIDDEN}{}", without_parameters(&rest[at..]))
}

/// Position of the `@` that ends user name and password.
fn end_of_credentials(rest: &str) -> Option<usize> {
    let authority = authority_of(rest);
    let own = authority.rfind('@');
    // A password may contain '/', '?', '#' and '@' unescaped. The text after the last '@'
    // decides: a host, or the end of a path.
    let clear = own.is_some() || is_host(authority);
    let before_query = &rest[..rest.find(['?', '#']).unwrap_or(rest.len())];
    let last = if clear { before_query.rfind('@') } else { rest.rfind('@') };
    match (own, last) {
        (Some(own), Some(last)) if last > own && is_behind_password(rest, last, true) => Some(last),
        (Some(own), _) => Some(own),
        (None, Some(last)) => {
            let colon = authority.contains(':');
            (!clear || is_behind_password(rest, last, colon)).then_some(last)
        }
        // A truncated password.
        (None, None) if !clear && authority.contains(':') && !is_no_host(rest) => {
            Some(authority.len())
        }
        (None, None) => None,
    }
}

/// Whether the text after an `@` is a host and not the end of a path.
fn is_behind_password(rest: &str, at: usize, colon: bool) -> bool {
    let after = &rest[at + 1..];
    let authority = authority_of(after);
    let name = authority.split(':').next().unwrap_or_default();
    let dotted = name.contains('.') && authority.len() < after.len();
    let letters = name.chars().any(|c| c.is_ascii_alphabetic());
    let number = name.split('.').count() == 4;
    is_host(authority) && (letters || number) && (colon || dotted)
}

/// Hides the values of credential parameters in query and fragment.
fn without_parameters(rest: &str) -> String {
    let Some(start) = rest.find(['?', '#']) else { return rest.to_owned() };
    let mut shown = rest[..=start].to_owned();
    let mut rest = &rest[start + 1..];
    loop {
        let end = rest.find(['&', ';', '#', '?']).unwrap_or(rest.len());
        match rest[..end].split_once('=') {
            Some((name, value)) if !value.is_empty() && is_sensitive(name) => {
                shown.push_str(name);
                shown.push('=');
                shown.push_str(HIDDEN);
            }
            _ => shown.push_str(&rest[..end]),
        }
        let Some(separator) = rest[end..].chars().next() else { return shown };
        shown.push(separator);
        rest = &rest[end + separator.len_utf8()..];
    }
}

/// Whether the name of a parameter or of a variable indicates a credential.
pub fn is_sensitive(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SENSITIVE.iter().any(|part| name.contains(part))
}

/// Hides user and password of each `user:password@host:path`, which ssh does not support
/// but users write.
fn scp_forms(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('@') {
        let before = &rest[..at];
        let is_end = |c: char| c.is_whitespace() || "'\"`<>(,=".contains(c);
        let start = before
            .rfind(is_end)
            .map_or(0, |end| end + before[end..].chars().next().map_or(1, char::len_utf8));
        let user = &before[start..];
        let host = &rest[at + 1..];
        let is_name = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        let host = &host[..host.find(|c| !is_name(c)).unwrap_or(host.len())];
        let path = rest[at + 1 + host.len()..].strip_prefix(':').unwrap_or_default();
        let written = user.split_once(':').is_some_and(|(name, password)| {
            !name.is_empty() && !password.is_empty() && !user.contains("//")
        });
        // An image with a digest has the same form.
        let digest = host.starts_with("sha") && host[3..].chars().all(|c| c.is_ascii_digit());
        let path = path.chars().next().is_some_and(|c| !c.is_whitespace());
        if written && path && !digest && is_host(host) {
            shown.push_str(&before[..start]);
            shown.push_str(HIDDEN);
        } else {
            shown.push_str(before);
        }
        shown.push('@');
        rest = &rest[at + 1..];
    }
    shown.push_str(rest);
    shown
}

#[cfg(test)]
mod tests;
