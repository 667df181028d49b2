//! The address of a chart repository: an https URL with an `index.yaml`, or an OCI registry.

use crate::error::SourceError;
use crate::git::address::{Address, Allow, Transport};

/// Where charts come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChartAddress {
    /// Without user name and password; of a registry, `oci://host/path`.
    pub url: String,
    /// For messages.
    pub shown: String,
    /// Host with its port.
    pub host: String,
    /// Whether it is an OCI registry.
    pub oci: bool,
    /// For the limits of its server.
    pub server: Address,
}

impl ChartAddress {
    /// Reads a `repoURL`; one without a scheme is a registry, as in Argo CD.
    ///
    /// # Errors
    ///
    /// [`SourceError::InvalidUrl`].
    pub(crate) fn parse(repo_url: &str, allow: Allow) -> Result<Self, SourceError> {
        wavegate_net::redact::know_url(repo_url);
        let shown: String =
            crate::redact_urls(repo_url).chars().filter(|c| !c.is_control()).collect();
        let invalid = |reason: &str| SourceError::InvalidUrl {
            repo: shown.clone(),
            reason: reason.to_owned(),
        };
        let (scheme, rest) = repo_url.split_once("://").unwrap_or(("oci", repo_url));
        let odd = |c: char| c.is_control() || c.is_whitespace() || "\"'\\#?,<>{}".contains(c);
        if repo_url.len() > 2048 || rest.is_empty() || rest.starts_with('-') {
            return Err(invalid("the URL is empty, longer than 2048 bytes, or starts with '-'"));
        }
        if rest.contains(odd) {
            return Err(invalid("the URL has quotes, spaces or a query"));
        }
        let (oci, scheme) = match scheme.to_ascii_lowercase().as_str() {
            "oci" => (true, "https"),
            "https" => (false, "https"),
            "http" if allow.http => (false, "http"),
            "http" => {
                return Err(invalid(
                    "http is not encrypted and not allowed; use https, or start with \
                     --allow-http-sources",
                ));
            }
            _ => {
                let reason = "charts are read from https URLs and OCI registries (oci://) only";
                return Err(invalid(reason));
            }
        };
        let rest = rest.trim_end_matches('/');
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        if user.is_some() {
            return Err(invalid(
                "user name and password belong in the Secret of the repository, not in the URL",
            ));
        }
        let is_host = |c: char| c.is_ascii_alphanumeric() || ".-:[]".contains(c);
        if host.is_empty() || host.starts_with('-') || !host.chars().all(is_host) {
            return Err(invalid("the host is missing or not valid"));
        }
        let dots = |part: &str| {
            let decoded = percent_encoding::percent_decode_str(part).decode_utf8_lossy();
            matches!(&*decoded, "." | "..")
        };
        if path.split('/').any(dots) {
            return Err(invalid("the path of the URL must not contain '.' or '..'"));
        }
        let host = host.to_ascii_lowercase();
        let own = if oci { "oci" } else { scheme };
        let url = match path {
            "" => format!("{own}://{host}"),
            path => format!("{own}://{host}/{path}"),
        };
        // A host that a colon follows reads like a user name and a password.
        let shown =
            if path.is_empty() { format!("{}/", shown.trim_end_matches('/')) } else { shown };
        let server = Address {
            url: url.clone(),
            shown: shown.clone(),
            transport: Transport::Http { scheme, host: host.clone() },
            embedded: None,
        };
        Ok(Self { url, shown, host, oci, server })
    }
}

/// Whether a name of a chart can be part of a URL and of a command line.
pub(crate) fn is_chart_name(name: &str) -> bool {
    let plain = |part: &str| {
        !part.is_empty()
            && !part.starts_with(['-', '.'])
            && part.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
    };
    name.len() <= 253 && name.split('/').all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_urls_or_registries() {
        let allow = Allow { local: false, http: true };
        let cases = [
            ("https://charts.example.com", "https://charts.example.com", false),
            ("https://Charts.Example.com/stable/", "https://charts.example.com/stable", false),
            ("http://127.0.0.1:8080/x", "http://127.0.0.1:8080/x", false),
            ("registry.example.com:5000/team", "oci://registry.example.com:5000/team", true),
            (
                "oci://registry.example.com/team/charts",
                "oci://registry.example.com/team/charts",
                true,
            ),
        ];
        for (text, url, oci) in cases {
            let address = ChartAddress::parse(text, allow).unwrap();
            assert_eq!((address.url.as_str(), address.oci), (url, oci), "{text}");
        }
        for text in [
            "",
            "-x",
            "file:///etc",
            "git@example.com:team/charts",
            "ssh://example.com/charts",
            "s3://bucket",
            "https://me:secret@example.com/charts",
            "https://example.com/a/../b",
            "https://example.com/a/%2e%2E/b",
            "https://example.com/charts?token=secret",
            "https://exa mple.com",
            "https://example.com/\"x",
            "https:///x",
            "oci://-x/y",
        ] {
            let error = ChartAddress::parse(text, allow).unwrap_err().to_string();
            assert!(!error.contains("secret"), "{error}");
        }
        assert!(ChartAddress::parse("http://example.com", Allow::default()).is_err());
    }

    #[test]
    fn names_of_charts_have_no_way_out() {
        for name in ["web", "team/web", "a.b_c-1"] {
            assert!(is_chart_name(name), "{name}");
        }
        for name in ["", "/web", "web/", "../web", "a/../b", "-x", "a b", "a:1", "a@b", "a,b", ".x"]
        {
            assert!(!is_chart_name(name), "{name}");
        }
    }
}
