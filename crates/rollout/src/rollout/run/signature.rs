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
mod tests {
    use super::*;

    /// In the words of kubelets, schedulers, registries, resolvers, webhooks and hooks.
    #[test]
    fn what_is_generated_is_no_part_of_a_signature_as_st_043() {
        let same = [
            [
                "Pod web-7d9f8b6c5d-xkqzp: CrashLoopBackOff",
                "Pod web-5c44dd9b7-bnmwv: CrashLoopBackOff",
            ],
            [
                "back-off 5m0s restarting failed container main in pod migrate-xkqzp",
                "back-off 40s restarting failed container main in pod migrate-bnmwv",
            ],
            [
                "dial tcp: lookup db.eu.example.com: no such host",
                "dial tcp: lookup db.us.corp.internal: no such host",
            ],
            [
                "lookup web.team.svc.cluster.local. on resolver failed",
                "lookup api.shop.svc on resolver failed",
            ],
            [
                "dial tcp db.example.de:5432: connect: connection refused",
                "dial tcp cache.shop:6379: connect: connection refused",
            ],
            [
                "dial tcp [fd00::abcd]:443: connection refused",
                "dial tcp [fe80::beef]:8443: connection refused",
            ],
            ["dial tcp [2001:db8:0:0:0:0:0:1]:443: timeout", "dial tcp [::1]:443: timeout"],
            [
                "volume 6f1c2b3a-aaaa-bbbb-cccc-deadbeefcafe not attached",
                "volume abcdefab-cdef-abcd-efab-cdefabcdefab not attached",
            ],
            [
                "image shop@sha256:aaaaaaaaaaaaaaaa not found",
                "image shop@sha256:1111111111111111 not found",
            ],
            ["checkout of deadbeef failed", "checkout of 6d0c1f2 failed"],
            [
                "Get https://git.example.com/a/info: 502 Bad Gateway",
                "Get http://10.0.0.1/b: 502 Bad Gateway",
            ],
            ["Get https://git.example.com/a: EOF", "Get https://other.example.org/b?x=y: EOF"],
            ["StatefulSet waits for db-0", "StatefulSet waits for db-11"],
            [
                "0/3 nodes are available: 3 Insufficient cpu",
                "0/12 nodes are available: 12 Insufficient cpu",
            ],
            ["timed out after 3m20s", "timed out after 1h0m0s"],
        ];
        let of = |message: &str| failure_signature(None, message, &[]);
        for [one, other] in same {
            assert_eq!(of(one), of(other), "{one} / {other}");
        }
        let different = [
            [
                "spec.template.spec.containers: Required value",
                "spec.template.spec.volumes: Required value",
            ],
            ["spec.replicas.min: Invalid value", "spec.replicas.max: Invalid value"],
            ["connection refused", "connection reset by peer"],
            ["Insufficient cpu", "Insufficient memory"],
            ["image not found", "image is denied"],
            ["dial tcp: no such host", "dial tcp: connection refused"],
            ["secret settings not found", "configmap settings not found"],
            ["container main: OOMKilled", "container main: Error"],
            ["sync failed: forbidden", "sync failed: conflict"],
            ["no-op: rejected", "time-out: rejected"],
            ["x509: unknown authority", "x509: certificate has expired"],
            ["readiness probe failed", "liveness probe failed"],
            ["add: bad: face", "add: bad: cafe not found"],
        ];
        for [one, other] in different {
            assert_ne!(of(one), of(other), "{one} / {other}");
        }
    }

    #[test]
    fn the_same_reason_has_one_signature_as_st_043() {
        let cases = [
            (
                "names and times",
                (
                    "apps/Deployment a/web-a",
                    "Deployment web-a of a exceeded 600s at 2026-01-02T03:04:05Z",
                ),
                (
                    "apps/Deployment b/web-b",
                    "Deployment web-b of b exceeded 300s at 2026-01-02T04:04:05Z",
                ),
                true,
            ),
            (
                "addresses",
                ("batch/Job a/check", "dial tcp 10.0.0.1:443: connection refused"),
                ("batch/Job b/check", "dial tcp 10.9.8.7:8443: connection refused"),
                true,
            ),
            (
                "hashes of Pods",
                ("apps/Deployment a/web", "Pod web-5d4f9c7b8-x2x1z: CrashLoopBackOff"),
                ("apps/Deployment b/web", "Pod web-7c9d8f6b5-y3y2w: CrashLoopBackOff"),
                true,
            ),
            (
                "another reason",
                ("apps/Deployment a/web", "Pod web: CrashLoopBackOff"),
                ("apps/Deployment b/web", "Pod web: ImagePullBackOff"),
                false,
            ),
            (
                "another kind",
                ("apps/Deployment a/web", "timed out"),
                ("batch/Job b/web", "timed out"),
                false,
            ),
        ];
        for (name, one, other, same) in cases {
            let signature = |(resource, message): (&str, &str), app: &str| {
                failure_signature(Some(resource), message, &[app, "shop"])
            };
            let (one, other) = (signature(one, "shop-a"), signature(other, "shop-b"));
            assert_eq!(one == other, same, "{name}: {one} / {other}");
        }
        assert!(patterns().is_some());
        assert!(failure_signature(None, &"long ".repeat(9999), &[]).len() < 400);
    }

    /// What stands for a placeholder of `failure-messages.txt`, in three ways.
    const FILLED: [(&str, [&str; 3]); 28] = [
        ("app", ["web-a", "checkout", "payments-eu"]),
        ("namespace", ["team-a", "shop", "prod"]),
        ("pod", ["web-a-7d9f8b6c5d-xkqzp", "checkout-5c44dd9b7-bnmwv", "payments-eu-bdfcd-x2x1z"]),
        ("job", ["migrate-xkqzp", "backup-28394120-q7t4w", "import-presync-1767322800"]),
        ("set", ["db-0", "kafka-12", "payments-eu-1"]),
        ("replicas", ["web-a-7d9f8b6c5d", "checkout-bdfcdbfcd", "payments-eu-5c44dd9b7"]),
        (
            "node",
            ["ip-10-0-3-17.eu-west-1.compute.internal", "gke-prod-pool-8d2f7c1b-x7k2", "worker-3"],
        ),
        ("ip", ["10.0.0.1", "fd00::abcd", "192.168.130.4"]),
        ("address", ["10.0.0.1:443", "[2001:db8::8:800:200c:417a]:6443", "[fe80::1%eth0]:53"]),
        ("host", ["db.eu.example.com", "cache.shop.svc.cluster.local", "registry.acme.internal"]),
        ("service", ["db.eu.example.com:5432", "cache.shop:6379", "broker:9092"]),
        (
            "url",
            [
                "https://registry.example.com/v2/shop/web/manifests/1.2.3",
                "http://10.0.3.4:8080/healthz?full=true",
                "https://hooks.shop.svc:443/validate?timeout=10s",
            ],
        ),
        (
            "uuid",
            [
                "6f1c2b3a-aaaa-bbbb-cccc-deadbeefcafe",
                "ABCDEFAB-CDEF-ABCD-EFAB-CDEFABCDEFAB",
                "abcdefabcdefabcdefabcdefabcdefab",
            ],
        ),
        (
            "digest",
            [
                "b5b2b2c507a0944348e0303114d8d93aaaa081732b86451d9bce1f432a537bc7",
                "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
                "0123456789",
            ],
        ),
        ("hash", ["1234567890", "bdfcdbfcdb", "a1b2c3"]),
        ("hex", ["0x1", "0xffffffff", "0xdeadbeef"]),
        ("suffix", ["xkqzp", "q7t4w", "bnmwv"]),
        ("commit", ["deadbeef", "6d0c1f2e", "da39a3ee5e6b4b0d3255bfef95601890afd80709"]),
        (
            "image",
            [
                "registry.example.com/shop/web:1.2.3",
                "ghcr.io/acme/checkout@sha256:b5b2b2c507a0944348e0303114d8d93a",
                "localhost:5000/payments:latest",
            ],
        ),
        (
            "time",
            [
                "2026-01-02T03:04:05Z",
                "2026-11-30T23:59:59.123456789+01:00",
                "2026-01-02 03:04:05.678 +0000 UTC",
            ],
        ),
        ("duration", ["5m0s", "40s", "1h2m3.5s"]),
        ("number", ["3", "12", "4711"]),
        ("size", ["512Mi", "1Gi", "1048576"]),
        ("path", ["/srv/web-a/current", "/srv/checkout/current", "/srv/payments-eu/current"]),
        (
            "claim",
            [
                "pvc-6f1c2b3a-aaaa-bbbb-cccc-deadbeefcafe",
                "pvc-00000000-1111-2222-3333-444444444444",
                "pvc-abcdefab-cdef-abcd-efab-cdefabcdefab",
            ],
        ),
        ("account", ["123456789012", "210987654321", "000000000001"]),
        ("version", ["1.2.3", "v0.10.0-rc.1", "2.0.0+build"]),
        ("trace", ["4bf92f3577b34da6a3ce929d0e0e4736", "ffffffffffffffff", "a3ce929d0e0e4736"]),
    ];

    fn data(name: &str) -> String {
        let path = format!("{}/../../tests/data/{name}", env!("CARGO_MANIFEST_DIR"));
        // Decisions read no files; their tests do.
        #[allow(clippy::disallowed_methods)]
        std::fs::read_to_string(path).unwrap()
    }

    fn lines(text: &str) -> impl Iterator<Item = &str> {
        text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
    }

    /// ST-043: what differs between Applications is no part of the signature.
    #[test]
    fn two_hundred_messages_have_one_signature_each_however_they_are_filled() {
        let messages = &data("failure-messages.txt");
        let (mut count, mut differ) = (0_usize, Vec::new());
        for message in lines(messages) {
            let signature = |way: usize| {
                let mut filled = message.to_owned();
                for (name, ways) in FILLED {
                    filled = filled.replace(&format!("{{{name}}}"), ways[way]);
                }
                failure_signature(None, &filled, &[FILLED[0].1[way], FILLED[1].1[way]])
            };
            let all = [signature(0), signature(1), signature(2)];
            count += 1;
            assert_ne!(all[0], "Application: …", "{message}");
            if all.iter().any(|one| *one != all[0]) {
                differ.push(format!("{message}\n  {}", all.join("\n  ")));
            }
        }
        assert!(count >= 200, "{count} messages");
        assert!(
            differ.len() * 50 <= count,
            "{} of {count} differ:\n{}",
            differ.len(),
            differ.join("\n")
        );
    }

    /// ST-043: another reason has another signature.
    #[test]
    fn fifty_pairs_of_messages_keep_two_signatures() {
        let pairs = &data("failure-pairs.txt");
        let of = |message: &str| failure_signature(None, message, &["web-a", "team-a"]);
        let mut count = 0;
        for pair in lines(pairs) {
            let (one, other) = pair.split_once(" | ").unwrap();
            assert_ne!(of(one), of(other), "{pair}");
            count += 1;
        }
        assert!(count >= 50, "{count} pairs");
    }
}
