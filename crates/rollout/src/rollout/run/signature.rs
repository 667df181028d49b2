//! The signature of a failure (ST-043): what two Applications have in common that fail for the
//! same reason, without their names, numbers, hashes, times and addresses.

use std::borrow::Cow;
use std::net::Ipv6Addr;
use std::sync::OnceLock;

use regex::{Captures, Regex};
use sha2::{Digest, Sha256};

/// The most characters of a signature without its hash.
const LIMIT: usize = 160;

/// What is read of a message, in bytes.
const READ: usize = 8192;

/// Stands for what was taken out.
const GAP: &str = "…";

/// A quoted text of so many words is a sentence, and a shorter one a name.
const SENTENCE: usize = 3;

/// Words before the name of a host.
const BEFORE_HOSTS: [&str; 8] =
    ["lookup", "host", "dial", "tcp", "udp", "connecting to", "connection to", "connect to"];

/// The same before one of a single word, with a port.
const BEFORE_PORTS: [&str; 4] = [" to", " for", " from", " with"];

/// The signature: the kind of the resource at fault, and the message without what differs
/// between Applications. `names` are the names of the Application and its namespace. A message that
/// is longer than what is shown ends with a hash of the whole.
pub fn failure_signature(resource: Option<&str>, message: &str, names: &[&str]) -> String {
    let kind = resource.and_then(kind_of).unwrap_or("Application");
    let object = resource.and_then(|resource| resource.split_whitespace().nth(1));
    let of_object = object.into_iter().flat_map(|object| object.split('/'));
    let own: Vec<&str> = names.iter().copied().chain(of_object).collect();
    let text = common(&message[..message.floor_char_boundary(READ)], &own);
    match text.char_indices().nth(LIMIT) {
        None => format!("{kind}: {text}"),
        Some((end, _)) => {
            let hash = data_encoding::HEXLOWER.encode(&Sha256::digest(&text)[..4]);
            format!("{kind}: {}{GAP} #{hash}", &text[..end])
        }
    }
}

/// The kind of `group/Kind namespace/name`.
fn kind_of(resource: &str) -> Option<&str> {
    resource.split_whitespace().next()?.rsplit('/').next()
}

/// A message without what differs between Applications.
fn common(message: &str, own: &[&str]) -> String {
    let Some(patterns) = patterns() else { return message.to_owned() };
    let text = patterns.quoted.replace_all(message, |found: &Captures<'_>| {
        let inner = found.get(2).or(found.get(3)).map_or("", |inner| inner.as_str());
        match inner.split_whitespace().count() < SENTENCE {
            true => format!("{}{GAP}", &found[1]),
            false => found[0].to_owned(),
        }
    });
    let text = patterns.urls.replace_all(&text, GAP);
    let text = patterns.times.replace_all(&text, GAP);
    let text = patterns.images.replace_all(&text, |found: &Captures<'_>| {
        // `templates/deployment.yaml:12` is a line.
        let place = found[0].rsplit_once(':').map_or("", |(place, _)| place);
        if is_file(place) { found[0].to_owned() } else { GAP.to_owned() }
    });
    let text = patterns.addresses.replace_all(&text, |found: &Captures<'_>| {
        let is_address = found[1].parse::<Ipv6Addr>().is_ok();
        if is_address { GAP.to_owned() } else { found[0].to_owned() }
    });
    let text = without_hosts(&text, &patterns.hosts);
    let text = patterns.words.replace_all(&text, |found: &Captures<'_>| word(&found[0], own));
    let text = patterns.gaps.replace_all(&text, GAP);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A text without the names of hosts. What is in a group of the API has the form of one, too: the
/// names of kinds and fields stay.
fn without_hosts<'t>(text: &'t str, pattern: &Regex) -> Cow<'t, str> {
    pattern.replace_all(text, |found: &Captures<'_>| {
        let (whole, name) = (&found[0], &found[1]);
        let place = found.get(0).map(|one| (one.start(), one.end())).unwrap_or_default();
        let before = text[..place.0].trim_end_matches([' ', ':', '(', '[']);
        let is_named = BEFORE_HOSTS.iter().any(|word| before.ends_with(word));
        let has_port = whole.len() > name.len();
        let last = name.rsplit('.').next().unwrap_or_default();
        let is_dotted = name.contains('.');
        // As `pods.metrics.k8s.io`, or a label `node.kubernetes.io/disk-pressure`.
        let plural = name.split('.').next().is_some_and(|first| first.ends_with('s'));
        let is_of_api = !has_port && (plural || text[place.1..].starts_with('/'));
        let is_host = match (is_named, is_dotted) {
            (true, _) => is_dotted || has_port,
            (false, true) => !is_file(name) && (has_port || DOMAINS.contains(&last) && !is_of_api),
            (false, false) => has_port && BEFORE_PORTS.iter().any(|word| before.ends_with(word)),
        };
        if is_host { GAP.to_owned() } else { whole.to_owned() }
    })
}

/// Ends of the names of files, which are followed by the number of a line.
const FILES: [&str; 20] = [
    "go",
    "yaml",
    "yml",
    "json",
    "tpl",
    "txt",
    "py",
    "js",
    "ts",
    "java",
    "kt",
    "rb",
    "rs",
    "sh",
    "sql",
    "conf",
    "toml",
    "lua",
    "jsonnet",
    "libsonnet",
];

fn is_file(name: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(_, end)| FILES.contains(&end))
}

/// Domains under which hosts are. A path of fields or a class has none of them.
const DOMAINS: [&str; 14] = [
    "com", "org", "net", "io", "dev", "cloud", "internal", "local", "svc", "lan", "corp",
    "invalid", "test", "app",
];

/// What is left of a word: it is one of the own names, has them at an end, has a digit, is a hash
/// or was generated.
fn word(word: &str, own: &[&str]) -> String {
    let mut rest = word.to_owned();
    for name in own.iter().filter(|name| !name.is_empty()) {
        if rest == *name {
            return GAP.to_owned();
        }
        if let Some(end) = rest.strip_prefix(name).filter(|end| end.starts_with('-')) {
            rest = format!("{GAP}{end}");
        }
        if let Some(start) = rest.strip_suffix(name).filter(|start| start.ends_with('-')) {
            rest = format!("{start}{GAP}");
        }
    }
    let is_hash = |part: &str| part.len() >= 7 && part.bytes().all(|b| b.is_ascii_hexdigit());
    match word.split('-').any(is_hash)
        || word.bytes().any(|byte| byte.is_ascii_digit())
        || is_generated(word)
    {
        true => GAP.to_owned(),
        false => rest,
    }
}

/// Whether the API server or a controller has generated the end of a name: five, or eight to ten
/// characters without vowels, often without a digit.
fn is_generated(word: &str) -> bool {
    let Some((_, end)) = word.rsplit_once('-') else { return false };
    matches!(end.len(), 5 | 8..=10)
        && end.bytes().all(|byte| b"bcdfghjklmnpqrstvwxz2456789".contains(&byte))
}

/// What differs between Applications, in the order in which it is taken out.
struct Patterns {
    quoted: Regex,
    urls: Regex,
    times: Regex,
    images: Regex,
    addresses: Regex,
    hosts: Regex,
    words: Regex,
    gaps: Regex,
}

fn patterns() -> Option<&'static Patterns> {
    static PATTERNS: OnceLock<Option<Patterns>> = OnceLock::new();
    let new = |pattern: &str| Regex::new(pattern).ok();
    let made = PATTERNS.get_or_init(|| {
        Some(Patterns {
            quoted: new(r#"(^|[\s(=:,\[{<])(?:"([^"]{0,300})"|['`]([^'`]{0,300})['`])"#)?,
            urls: new(r#"\b[a-z][a-z0-9+.-]*://[^\s"',;)>\]]*[^\s"',;)>\].:]"#)?,
            times: new(
                r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?([.,]\d+)?(Z|\s?[+-]\d\d:?\d\d)?(\sUTC)?\b",
            )?,
            images: new(
                r"\b[a-z0-9][a-z0-9._-]*(:\d+)?(/[a-z0-9._-]+)+(:[\w][\w.-]*\w|(:[\w.-]+)?@sha256:[0-9a-f]+)",
            )?,
            addresses: new(r"\[?\b?([0-9a-fA-F:.]*:[0-9a-fA-F:.]*:[0-9a-fA-F:.]*(?:[0-9a-fA-F]|::))(%\w+)?\]?(:\d+\b)?")?,
            hosts: new(r"\b([A-Za-z0-9][A-Za-z0-9-]*(?:\.[A-Za-z0-9][A-Za-z0-9-]*)*)(?:\.\B)?(?::\d+\b)?")?,
            words: new(r"[A-Za-z0-9…]+(?:[-+]+[A-Za-z0-9…]+)*")?,
            gaps: new(r"\[?…(?:[-._:/@%+\[\]]{1,3}…)*\]?")?,
        })
    });
    made.as_ref()
}

#[cfg(test)]
mod tests;
