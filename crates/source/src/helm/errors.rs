//! What `helm` says when it fails.

use http::StatusCode;

use crate::error::SourceError;
use crate::helm::chart_address::ChartAddress;
use wavegate_api::repository::RepositoryUrl;

/// Beginnings of lines on standard output that report no failure, or what standard error has.
const PROGRESS: [&str; 7] = [
    "Hang tight",
    "...Successfully got",
    "Update Complete",
    "Saving ",
    "Downloading ",
    "Deleting ",
    "Save error occurred",
];

/// What the network says, in the words of Go.
const NETWORK: [&str; 15] = [
    "dial tcp",
    "dial udp",
    "connection refused",
    "connection reset",
    "connection timed out",
    "broken pipe",
    "client connection lost",
    "no such host",
    "server misbehaving",
    "temporary failure in name resolution",
    "timeout",
    "timed out",
    "deadline exceeded",
    "unexpected eof",
    "unreachable",
];

/// Why `helm` or `kustomize` failed, from standard error: without the warnings before it, of which
/// there may be more than a message has room for.
pub(crate) fn cause(stderr: &str) -> &str {
    let begins = match stderr.starts_with("Error: ") {
        true => Some(0),
        false => stderr.find("\nError: "),
    };
    stderr[begins.unwrap_or(0)..].trim()
}

/// Why `helm` failed: standard output has the cause, and standard error what it led to.
pub(crate) fn reason(stdout: &str, stderr: &str) -> String {
    let lines = stdout.lines().map(str::trim).filter(|line| !line.is_empty());
    let telling = lines.filter(|line| !PROGRESS.iter().any(|begin| line.starts_with(begin)));
    telling.chain([cause(stderr)]).collect::<Vec<_>>().join(" ")
}

/// The kind of an error, from what `helm` says.
pub(crate) fn classified(address: Option<&ChartAddress>, what: &str, said: String) -> SourceError {
    let repo = address.map(|address| address.shown.clone()).unwrap_or_default();
    // Names, ports and versions in a URL may be any number or word.
    let plain = without_urls(&said).to_ascii_lowercase();
    let any = |words: &[&str]| words.iter().any(|word| plain.contains(word));
    let status = status(&plain);
    if any(&["x509:", "failed to verify certificate"]) {
        let host = address.map(|address| RepositoryUrl::of(&address.url).host).unwrap_or_default();
        let host = host.trim_matches(['[', ']']);
        let detail = format!(
            "the certificate of {host} is not trusted: add that of its CA to the ConfigMap \
             argocd-tls-certs-cm with the key {host}: {said}"
        );
        return SourceError::Untrusted { repo, detail };
    }
    if matches!(status, Some(401 | 403 | 407))
        || any(&["unauthorized", "forbidden", "denied:", "access denied", "tls: bad certificate"])
        || any(&["certificate required", "unknown certificate", "certificate input"])
        || any(&["credential required", "credential not found", "no basic auth"])
    {
        return SourceError::refused(repo, said);
    }
    if matches!(status, Some(408 | 425 | 429 | 500..)) || is_network(&plain) {
        return SourceError::unreachable(repo, said);
    }
    if any(&["no chart version found", "improper constraint", "could not locate a version"])
        || any(&["chart version not found", "manifest unknown"])
    {
        return SourceError::missing_revision(repo, String::new(), said);
    }
    if matches!(status, Some(404 | 410)) || any(&["not found"]) {
        return SourceError::missing_repository(repo, said);
    }
    SourceError::git(repo, what, said)
}

/// Whether a program that fetches something failed since a server did not answer, or answered
/// that it cannot at the moment.
pub(crate) fn is_away(said: &str) -> bool {
    let plain = without_urls(said).to_ascii_lowercase();
    let busy = status(&plain).is_some_and(|status| matches!(status, 408 | 425 | 429 | 500..));
    busy || is_network(&plain) || plain.contains("could not resolve host")
}

fn is_network(plain: &str) -> bool {
    let is_end = |word: &str| word.trim_matches(|c: char| !c.is_ascii_alphanumeric()) == "eof";
    NETWORK.iter().any(|words| plain.contains(words)) || plain.split_whitespace().any(is_end)
}

/// The status of an answer, as clients word it: `404 Not Found`, or `status code 404`.
fn status(plain: &str) -> Option<u16> {
    let words: Vec<&str> = plain.split_whitespace().collect();
    words.iter().enumerate().find_map(|(at, word)| {
        let number = word.trim_matches([':', ',', ';', '.', '(', ')', '"']);
        if number.len() != 3 {
            return None;
        }
        let status = StatusCode::from_bytes(number.as_bytes()).ok()?;
        if !(status.is_client_error() || status.is_server_error()) {
            return None;
        }
        let before = at.checked_sub(1).map(|before| words[before].trim_end_matches(':'));
        let reason = status.canonical_reason().unwrap_or_default().to_ascii_lowercase();
        let first = reason.split(' ').next().unwrap_or_default();
        let after = words.get(at + 1).map(|word| word.trim_matches([':', ',', '.', '(', ')', '"']));
        let is_named = !first.is_empty() && after == Some(first);
        (is_named || matches!(before, Some("code" | "status"))).then_some(status.as_u16())
    })
}

/// A text without its URLs.
fn without_urls(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let before = rest[..at].trim_end_matches(|c: char| c.is_ascii_alphanumeric() || c == '+');
        out.push_str(before);
        let after = &rest[at..];
        let is_end = |c: char| c.is_whitespace() || "\"'`<>()[]{}".contains(c);
        rest = &after[after.find(is_end).unwrap_or(after.len())..];
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::address::Allow;

    #[test]
    fn an_error_has_its_cause_first() {
        let stdout = "Hang tight while we grab the latest from your chart repositories...\n\
            ...Successfully got an update from the \"repository-1\" chart repository\n\
            ...Unable to get an update from the \"repository-0\" chart repository (https://h/c):\n\
            \tfailed to fetch https://h/c/index.yaml : 401 Unauthorized\n\
            Update Complete. ⎈Happy Helming!⎈\n";
        let stderr = "Error: no cached repository for repository-0 found.\n";
        assert_eq!(
            reason(stdout, stderr),
            "...Unable to get an update from the \"repository-0\" chart repository (https://h/c): \
             failed to fetch https://h/c/index.yaml : 401 Unauthorized \
             Error: no cached repository for repository-0 found."
        );
        assert_eq!(reason("", "Error: x\n"), "Error: x");
        // Warnings about charts of the index, and about values.
        let warned = "index.go:370: skipping loading invalid entry for chart \"timeout\"\n\
            Error: chart \"c\" not found\nError: more\n";
        assert_eq!(reason("", warned), "Error: chart \"c\" not found\nError: more");
        assert_eq!(
            cause("fatal error: runtime: out of memory\n"),
            "fatal error: runtime: out of memory"
        );
    }

    #[test]
    fn an_error_is_what_helm_says_and_not_a_number_of_its_url() {
        let address = ChartAddress::parse("https://charts.example.com:8443/c", Allow::default());
        let address = address.unwrap();
        let cases = [
            (
                "tls: failed to verify certificate: x509: certificate signed by unknown authority",
                "the certificate of charts.example.com is not trusted: add that of its CA to the \
                 ConfigMap argocd-tls-certs-cm with the key charts.example.com",
            ),
            ("remote error: tls: certificate required", "access refused, check its credentials"),
            ("GET \"https://h/v2/\": basic credential not found", "access refused"),
            ("failed to fetch https://h/c/index.yaml : 401 Unauthorized", "access refused"),
            ("GET \"https://h/v2/c\": response status code 403: denied: no", "access refused"),
            ("lookup h: no such host", "not reachable"),
            (
                "\"https://h/projects/40312345/forbidden\" is not a valid chart repository or \
                 cannot be reached: Get \"https://h/projects/40312345/forbidden/\
                 index.yaml\": dial tcp: lookup h on 10.0.0.10:53: server misbehaving",
                "not reachable",
            ),
            (
                "Get \"https://h:8403/c/index.yaml\": dial tcp 10.1.4.4:8403: connect: connection \
                 refused",
                "not reachable",
            ),
            ("failed to fetch https://h/c-1.404.0.tgz : 503 Service Unavailable", "not reachable"),
            ("failed to fetch https://h/401/c.tgz : 429 Too Many Requests", "not reachable"),
            ("GET \"https://h/v2/c\": response status code 502: Bad Gateway", "not reachable"),
            ("Get \"https://h/c/index.yaml\": EOF", "not reachable"),
            ("failed to fetch https://h/403/c.tgz : 404 Not Found", "not found, or not visible"),
            ("chart \"c\" matching 1.404.0 not found in h index", "not found, or not visible"),
            ("chart c version 403 is broken, see https://h/401", "helm pull failed"),
            ("a chart of typeof i/o has 404 files", "helm pull failed"),
        ];
        for (said, want) in cases {
            let error = classified(Some(&address), "helm pull", said.to_owned()).to_string();
            assert!(error.contains(want) && error.contains(said), "{error}");
        }
        assert!(is_away("fatal: unable to access 'https://h/x/': Could not resolve host: h"));
        assert!(is_away("Error: failed to fetch https://h/v.yaml : 503 Service Unavailable"));
        assert!(!is_away("Error: template: c/templates/a.yaml:404:3: function \"x\" not defined"));
        assert!(!is_away("Error: failed to fetch https://h/503 : 404 Not Found"));
    }
}
