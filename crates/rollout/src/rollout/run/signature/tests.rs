//! The signatures of messages that clusters write.

use super::*;

/// In the words of kubelets, schedulers, registries, resolvers, webhooks and hooks.
#[test]
fn what_is_generated_is_no_part_of_a_signature_as_st_043() {
    let same = [
        ["Pod web-7d9f8b6c5d-xkqzp: CrashLoopBackOff", "Pod web-5c44dd9b7-bnmwv: CrashLoopBackOff"],
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
        ["the key web:80 is not valid", "the key api:80 is not valid"],
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

/// What is put in for a name in braces of `failure-messages.txt`, in three ways.
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

fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// ST-043: what differs between Applications is no part of the signature.
#[test]
fn two_hundred_messages_have_one_signature_each_however_they_are_filled() {
    let messages = include_str!("../../../../../../tests/data/failure-messages.txt");
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
    let pairs = include_str!("../../../../../../tests/data/failure-pairs.txt");
    let of = |message: &str| failure_signature(None, message, &["web-a", "team-a"]);
    let mut count = 0;
    for pair in lines(pairs) {
        let (one, other) = pair.split_once(" | ").unwrap();
        assert_ne!(of(one), of(other), "{pair}");
        count += 1;
    }
    assert!(count >= 50, "{count} pairs");
}
