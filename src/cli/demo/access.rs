//! Access to the demo's API: a token and a certificate, created at each start.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::Context as _;
use jiff::Timestamp;
use serde_json::{Map, json};

use gotemplate::go::{GoTemplate, Random, TemplateLimits, TemplateOptions};
use kube_sim::Guard;
use wavegate_net::entropy::{SystemRandom, template_environment};

/// Bytes of the token.
const TOKEN: usize = 32;

/// Template functions can create certificates. kubectl sends a token over TLS only.
const CERTIFICATE: &str = r#"{{ $c := genSelfSignedCertWithKey "wavegate-demo" .addresses .names 365 (genPrivateKey "ecdsa") }}{{ $c.Cert }}{{ $c.Key }}"#;

/// Start of the key, after the certificate.
const KEY: &str = "-----BEGIN EC PRIVATE KEY-----";

/// A guard for a listener; `host` is the name or address from the command line.
pub(super) fn guard(listener: SocketAddr, host: Option<&str>) -> anyhow::Result<Guard> {
    let name = host.filter(|host| {
        let address = host.trim_start_matches('[').trim_end_matches(']');
        !host.is_empty() && address.parse::<IpAddr>().is_err()
    });
    let mut addresses = vec!["127.0.0.1".to_owned(), "::1".to_owned()];
    if !listener.ip().is_loopback() && !listener.ip().is_unspecified() {
        addresses.push(listener.ip().to_string());
    }
    let mut names = vec!["localhost".to_owned()];
    names.extend(name.map(str::to_owned));
    let mut data = Map::new();
    data.insert("addresses".to_owned(), json!(addresses));
    data.insert("names".to_owned(), json!(names));
    let mut env = template_environment(Timestamp::now());
    let made = GoTemplate::parse(CERTIFICATE, &TemplateOptions::default())
        .and_then(|template| template.execute_in(&data, &TemplateLimits::default(), &mut env))
        .context("cannot create a certificate")?;
    let (certificate, key) = made.split_at(made.find(KEY).unwrap_or(made.len()));
    Ok(Guard::new(token(), certificate.to_owned(), key, names)?)
}

fn token() -> String {
    let mut bytes = [0; TOKEN];
    SystemRandom.fill(&mut bytes);
    bytes.iter().fold(String::new(), |mut token, byte| {
        // Writing to a string cannot fail.
        let _ = write!(token, "{byte:02x}");
        token
    })
}

/// Writes a file with mode 0600.
pub(super) fn write(path: &Path, text: &str) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600).open(path)?.write_all(text.as_bytes())
}
