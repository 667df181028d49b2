//! Where a sink is, and how messages for it are authenticated: what its policy and its Secret
//! say. No error contains a part of a URL besides its host, since the rest may be a credential.

use std::collections::BTreeMap;
use std::net::IpAddr;

use data_encoding::HEXLOWER;
use http::{HeaderName, HeaderValue, Uri, header};
use ring::hmac;
use sha2::{Digest, Sha256};

use super::address;
use wavegate_api::policy::{NO_ADDRESS, Sink};

/// The header with the signature of a message.
pub const SIGNATURE: &str = "x-wavegate-signature";
/// The keys of a Secret.
const KEYS: [&str; 4] = ["url", "header", "hmac", "ca.crt"];
/// The shortest key of signatures, in bytes: a shorter one can be found from a message.
const SHORTEST_KEY: usize = 16;
/// The longest header, in bytes.
const LONGEST_HEADER: usize = 8192;
/// Headers that the request itself needs.
const OWN_HEADERS: [HeaderName; 10] = [
    header::HOST,
    header::CONTENT_LENGTH,
    header::CONTENT_TYPE,
    header::CONTENT_ENCODING,
    header::TRANSFER_ENCODING,
    header::CONNECTION,
    header::UPGRADE,
    header::EXPECT,
    header::TE,
    header::TRAILER,
];

/// Where messages are sent to.
#[derive(Clone, PartialEq, Eq)]
pub struct Target {
    /// Whether by https.
    pub is_encrypted: bool,
    /// Name or address of the host, without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Host and port as in the URL.
    pub authority: String,
    /// Path and query, which may be credentials.
    pub path: String,
}

/// Without what may be a credential.
impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Target").field(&self.shown()).finish()
    }
}

impl Target {
    /// Reads a URL.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn read(url: &str) -> Result<Self, String> {
        let uri: Uri = url.trim().parse().map_err(|_| "it is no http or https URL".to_owned())?;
        let is_encrypted = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err("it is no http or https URL".to_owned()),
        };
        let Some(authority) = uri.authority().filter(|authority| !authority.host().is_empty())
        else {
            return Err("it names no host".to_owned());
        };
        if authority.as_str().contains('@') {
            return Err("it contains a user: write a header into the Secret instead".to_owned());
        }
        let port = match &authority.as_str()[authority.host().len()..] {
            "" | ":" if is_encrypted => 443,
            "" | ":" => 80,
            _ => authority.port_u16().ok_or_else(|| "its port is no number".to_owned())?,
        };
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        Ok(Self {
            is_encrypted,
            host: authority.host().trim_matches(['[', ']']).to_owned(),
            port,
            authority: authority.as_str().to_owned(),
            path: path.to_owned(),
        })
    }

    /// What may be shown of it.
    pub fn shown(&self) -> String {
        let scheme = if self.is_encrypted { "https" } else { "http" };
        format!("{scheme}://{}", self.authority)
    }

    /// The address, if the URL names one.
    pub fn address(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }

    /// Why nothing is sent there, as far as that is known without its addresses.
    fn refusal(&self, allow_private: bool) -> Option<String> {
        if !self.is_encrypted && !allow_private {
            return Some(format!(
                "{} is not encrypted: use https, or --allow-private-sinks for a private address",
                self.shown()
            ));
        }
        address::address_refusal(self.address()?, self.is_encrypted, allow_private)
    }
}

/// What the Secret of a sink has.
#[derive(Clone, Default)]
pub struct SinkCredentials {
    url: Option<String>,
    /// A header of each request.
    pub header: Option<(HeaderName, HeaderValue)>,
    hmac: Option<hmac::Key>,
    /// Certificates that servers are trusted by as well, as PEM.
    pub certificates: Option<String>,
}

/// Without values.
impl std::fmt::Debug for SinkCredentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
}

impl SinkCredentials {
    /// Reads the data of a Secret.
    ///
    /// # Errors
    ///
    /// What is wrong with it, without values.
    pub fn read(data: &BTreeMap<String, Vec<u8>>) -> Result<Self, String> {
        if !KEYS.iter().any(|key| data.contains_key(*key)) {
            return Err(format!("has none of the keys {}", KEYS.join(", ")));
        }
        let text = |key: &str| {
            let bytes = data.get(key)?;
            let text = std::str::from_utf8(bytes).map(|text| text.trim().to_owned());
            Some(text.map_err(|_| format!("key {key}: is no text")))
        };
        let header = text("header").transpose()?.map(|line| read_header(&line)).transpose()?;
        let hmac = match data.get("hmac") {
            // The line break at the end of a file is no part of the key.
            Some(bytes) => {
                let key = bytes.trim_ascii_end();
                if key.len() < SHORTEST_KEY {
                    return Err(format!("key hmac: has less than {SHORTEST_KEY} bytes"));
                }
                Some(hmac::Key::new(hmac::HMAC_SHA256, key))
            }
            None => None,
        };
        let certificates = text("ca.crt").transpose()?;
        Ok(Self { url: text("url").transpose()?, header, hmac, certificates })
    }

    /// The value of [`SIGNATURE`] for a message, if it is signed.
    pub fn signature(&self, body: &[u8]) -> Option<String> {
        let tag = hmac::sign(self.hmac.as_ref()?, body);
        Some(format!("sha256={}", HEXLOWER.encode(tag.as_ref())))
    }
}

/// Reads `Name: value`.
fn read_header(line: &str) -> Result<(HeaderName, HeaderValue), String> {
    if line.len() > LONGEST_HEADER {
        return Err(format!("key header: is longer than {LONGEST_HEADER} bytes"));
    }
    let form = || "key header: is not of the form Authorization: Bearer TOKEN".to_owned();
    let (name, value) = line.split_once(':').ok_or_else(form)?;
    let name = HeaderName::from_bytes(name.trim().as_bytes()).map_err(|_| form())?;
    if OWN_HEADERS.contains(&name) || name == SIGNATURE {
        return Err(format!("key header: {name} cannot be set"));
    }
    let mut value = HeaderValue::from_str(value.trim()).map_err(|_| {
        "key header: contains a line break or another character that is invalid in a header"
            .to_owned()
    })?;
    value.set_sensitive(true);
    Ok((name, value))
}

/// Where the messages of a sink go.
///
/// # Errors
///
/// What is wrong with the sink, as far as it is known without the addresses of its host.
pub fn sink_target(
    sink: &Sink,
    credentials: &SinkCredentials,
    allow_private: bool,
) -> Result<Target, String> {
    let url = match (sink.url.as_str(), credentials.url.as_deref()) {
        ("", None) => {
            return Err("url: is absent, here and in the Secret".to_owned());
        }
        ("", Some(url)) => url,
        // A Secret can so be kept from being sent elsewhere.
        (url, Some(bound)) if url != bound => {
            return Err("url: differs from the key url of the Secret".to_owned());
        }
        (url, _) => url,
    };
    let target = Target::read(url).map_err(|problem| format!("url: {problem}"))?;
    match target.refusal(allow_private) {
        Some(refusal) => Err(format!("url: {refusal}")),
        None => Ok(target),
    }
}

/// What identifies a sink of a policy, as long as the policy says the same of it: in the status of a
/// run, so without its URL, which may be a credential.
pub fn sink_id(policy: &str, sink: &Sink) -> String {
    let secret = sink.secret_ref.as_ref().map_or("", |secret| secret.name.as_str());
    let mut hash = Sha256::new();
    for part in [policy, &sink.url, secret, sink.format.as_str()] {
        hash.update(part.as_bytes());
        hash.update(b"\n");
    }
    HEXLOWER.encode(&hash.finalize()[..8])
}

/// What is wrong with a sink by itself, whatever its Secret has and the controller permits: the
/// rest of the path of the field, such as `.url`, and what is wrong with it.
pub fn sink_problem(sink: &Sink) -> Option<(&'static str, String)> {
    let has_secret = sink.secret_ref.as_ref().is_some_and(|secret| !secret.name.is_empty());
    match sink.url.as_str() {
        "" if has_secret => None,
        "" => Some(("", NO_ADDRESS.to_owned())),
        url => Target::read(url).err().map(|problem| (".url", problem.to_string())),
    }
}
