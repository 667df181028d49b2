//! The signature of a failure (ST-043): what two Applications have in common that fail for the
//! same reason, without their names, numbers, hashes, times and addresses.

use std::sync::OnceLock;

use regex::Regex;

/// The most characters of a signature.
const LIMIT: usize = 160;

/// The signature: the kind of the resource at fault, and the message without what differs
/// between Applications. `names` are the names of the Application and its namespace.
pub fn failure_signature(resource: Option<&str>, message: &str, names: &[&str]) -> String {
    let kind = resource.and_then(kind_of).unwrap_or("Application");
    let object = resource.and_then(|resource| resource.split_whitespace().nth(1));
    let own: Vec<&str> = names
        .iter()
        .copied()
        .chain(object.into_iter().flat_map(|object| object.split('/')))
        .collect();
    let without_names = |word: &regex::Captures<'_>| match own.contains(&&word[0]) {
        true => "…".to_owned(),
        false => word[0].to_owned(),
    };
    let mut text = match word() {
        Some(word) => word.replace_all(message, without_names).into_owned(),
        None => message.to_owned(),
    };
    for pattern in patterns() {
        text = pattern.replace_all(&text, "…").into_owned();
    }
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let text: String = text.chars().take(LIMIT).collect();
    format!("{kind}: {text}")
}

/// The kind of `group/Kind namespace/name`.
fn kind_of(resource: &str) -> Option<&str> {
    resource.split_whitespace().next()?.rsplit('/').next()
}

/// A word, as names of objects are.
fn word() -> Option<&'static Regex> {
    static WORD: OnceLock<Option<Regex>> = OnceLock::new();
    WORD.get_or_init(|| Regex::new("[A-Za-z0-9][A-Za-z0-9_-]*(\\.[A-Za-z0-9_-]+)*").ok()).as_ref()
}

/// What differs between Applications that fail for one reason, the widest first: quoted texts, URLs,
/// times, UUIDs, hosts, addresses, generated names, hashes, words with digits, and numbers.
fn patterns() -> &'static [Regex] {
    static PATTERNS: OnceLock<Vec<Regex>> = OnceLock::new();
    PATTERNS.get_or_init(|| {
        [
            r#""[^"]{0,200}""#,
            r#"\b[a-z][a-z0-9+.-]*://[^\s"',;)]+"#,
            r"\d{4}-\d\d-\d\dT[0-9:.]+(Z|[+-]\d\d:\d\d)?",
            r"\b[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b",
            // With a port, or under a domain that hosts are under. A path of fields has neither.
            r"\b[a-zA-Z0-9-]+(\.[a-zA-Z0-9-]+)+:\d+\b",
            r"\b[a-z0-9-]+(\.[a-z0-9-]+)+\.(com|org|net|io|dev|cloud|internal|local|svc|lan|corp|invalid|test)\b\.?",
            r"\[?\b([0-9a-fA-F]{1,4}:){1,7}(:?[0-9a-fA-F]{1,4})(:[0-9a-fA-F]{1,4})*\b\]?(:\d+)?|\[?::([0-9a-fA-F]{1,4}:?)*\]?(:\d+)?",
            r"\b\d{1,3}(\.\d{1,3}){3}(:\d+)?\b",
            // As Kubernetes generates them: five characters without vowels, often without a digit.
            r"\b[a-zA-Z0-9][a-zA-Z0-9.-]*-[bcdfghjklmnpqrstvwxz2456789]{5}\b",
            r"\b[0-9a-fA-F]{7,}\b",
            r"[A-Za-z0-9_.-]*\d[A-Za-z0-9_.-]*",
        ]
        .iter()
        .filter_map(|pattern| Regex::new(pattern).ok())
        .collect()
    })
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
        assert_eq!(patterns().len(), 11);
        assert!(failure_signature(None, &"long ".repeat(9999), &[]).len() < 400);
    }
}
