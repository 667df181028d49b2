//! Where servers redirect to, and how they are named in messages.

use http::Uri;

use super::error_text;
use super::failure::ProviderError;
use wavegate_net::redact;

/// Why a server cannot be reached; of one without TLS, the library says that its message is
/// corrupt.
pub(super) fn unreachable(target: &Uri, why: String) -> String {
    match target.scheme_str() == Some("https") && why.contains("InvalidContentType") {
        true => format!("{why}; it does not speak TLS: write its address with http://"),
        false => why,
    }
}

/// The URL that an answer of a URL redirects to. Servers write all of it, or its path.
pub(super) fn absolute(target: &Uri, location: String) -> Result<String, ProviderError> {
    if location.starts_with("//") {
        let scheme = target.scheme_str().unwrap_or_default();
        return Ok(format!("{scheme}:{location}"));
    }
    if location.starts_with('/') {
        return Ok(format!("{}{location}", origin(target)));
    }
    // Without a scheme, the first word would be read as a host.
    match location.parse::<Uri>().is_ok_and(|to| to.scheme().is_some()) {
        true => Ok(location),
        false => {
            let (from, to) = (shown(target), error_text::shown(&redact::redact_url(&location)));
            let why = "which is neither a URL nor a path that begins with /; write the address \
                       that the server has now";
            Err(ProviderError::new(format!("{from}: redirects to {to:?}, {why}")))
        }
    }
}

/// Scheme, host and port of a URL.
pub(super) fn origin(url: &Uri) -> String {
    let scheme = url.scheme_str().unwrap_or_default();
    let port = url.port_u16().unwrap_or(if scheme == "https" { 443 } else { 80 });
    format!("{scheme}://{}:{port}", url.host().unwrap_or_default().to_ascii_lowercase())
}

/// A URL without its parameters, for messages.
pub(super) fn shown(url: &Uri) -> String {
    let text = url.to_string();
    redact::redact_url(text.split(['?', '#']).next().unwrap_or_default())
}
