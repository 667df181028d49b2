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

/// Quoted texts, times, addresses, hashes, words with digits, and numbers.
fn patterns() -> &'static [Regex] {
    static PATTERNS: OnceLock<Vec<Regex>> = OnceLock::new();
    PATTERNS.get_or_init(|| {
        [
            r#""[^"]{0,200}""#,
            r"\d{4}-\d\d-\d\dT[0-9:.]+(Z|[+-]\d\d:\d\d)?",
            r"\b\d{1,3}(\.\d{1,3}){3}(:\d+)?\b",
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
        assert!(failure_signature(None, &"long ".repeat(9999), &[]).len() < 400);
    }
}
