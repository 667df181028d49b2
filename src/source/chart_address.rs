//! The address of a chart repository: an https URL with an `index.yaml`, or an OCI registry.

use super::address::{Address, Allow, Transport};
use super::error::Error;

/// Where charts come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ChartAddress {
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
    /// [`Error::InvalidUrl`].
    pub(super) fn parse(repo_url: &str, allow: Allow) -> Result<Self, Error> {
        crate::redact::know_url(repo_url);
        let shown: String = super::redact(repo_url).chars().filter(|c| !c.is_control()).collect();
        let invalid =
            |reason: &str| Error::InvalidUrl { repo: shown.clone(), reason: reason.to_owned() };
        let (scheme, rest) = repo_url.split_once("://").unwrap_or(("oci", repo_url));
        let odd = |c: char| c.is_control() || c.is_whitespace() || "\"'\\#?,<>{}".contains(c);
        if repo_url.len() > 2048 || rest.is_empty() || rest.starts_with('-') {
            return Err(invalid("the URL is empty, longer than 2048 bytes, or starts with '-'"));
        }
        if rest.contains(odd) {
            return Err(invalid("the URL of a chart repository has quotes, spaces or a query"));
        }
        let (oci, scheme) = match scheme.to_ascii_lowercase().as_str() {
            "oci" => (true, "https"),
            "https" => (false, "https"),
            "http" if allow.http => (false, "http"),
            "http" => return Err(invalid("http is not encrypted and not allowed, use https")),
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
                "user name and password of a chart repository belong in its Secret, not in the URL",
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
pub(super) fn is_chart_name(name: &str) -> bool {
    let plain = |part: &str| {
        !part.is_empty()
            && !part.starts_with(['-', '.'])
            && part.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
    };
    name.len() <= 253 && name.split('/').all(plain)
}
