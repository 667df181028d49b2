//! What `git`, `ssh` and `git-lfs` need to log in: variables, and files with mode 0600 that
//! are removed after the call.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::cache::{private_directory, write_private};
use crate::error::SourceError;
use crate::git::address::{Address, Transport};
use crate::http::credentials::RepoCredentials;

/// Environment that refers to private files, and the files.
pub(crate) struct Login {
    pub env: Vec<(OsString, OsString)>,
    _directory: Option<tempfile::TempDir>,
}

/// Answers a prompt of `git` for the host of the credentials only, not for the target of
/// a redirect.
const ASKPASS: &str = r#"#!/bin/sh
d=${0%/*}
{ read -r scheme; read -r host; } < "$d/origin"
case "$1" in
"Username for '$scheme$host': ") file=username ;;
"Password for '$scheme$host': " | "Password for '$scheme"*"@$host': ") file=password ;;
*) exit 1 ;;
esac
IFS= read -r answer < "$d/$file"
printf '%s\n' "$answer"
"#;

impl Login {
    /// Writes the files below `secrets`. A `proactive` login is sent at once, and not only to
    /// a server that asks for it.
    ///
    /// # Errors
    ///
    /// [`SourceError::Cache`], and [`SourceError::Refused`] for a proxy that cannot be used.
    pub(crate) fn write(
        secrets: &Path,
        address: &Address,
        credentials: Option<&RepoCredentials>,
        proactive: bool,
    ) -> Result<Self, SourceError> {
        let none = RepoCredentials::default();
        let credentials = credentials.unwrap_or(&none);
        let proxy = match address.transport {
            Transport::Ssh => socks(&credentials.proxy)
                .map_err(|why| SourceError::refused(&address.shown, why))?,
            Transport::Http { .. } | Transport::Local(_) => None,
        };
        let written = write_all(secrets, address, credentials, proactive, proxy);
        let (env, directory) = written.map_err(|error| {
            SourceError::cache(&address.shown, "write the credentials files for git", error.kind())
        })?;
        Ok(Self { env, _directory: directory })
    }
}

type Written = (Vec<(OsString, OsString)>, Option<tempfile::TempDir>);

fn write_all(
    secrets: &Path,
    address: &Address,
    credentials: &RepoCredentials,
    proactive: bool,
    proxy: Option<Socks>,
) -> std::io::Result<Written> {
    let mut env: Vec<(OsString, OsString)> = Vec::new();
    let (name, password) = address.login(credentials);
    let directory = private_directory("call-", secrets)?;
    let file = |file: &str, text: &str, mode: u32| {
        let path = directory.path().join(file);
        write_private(&path, text, mode).map(|()| path)
    };
    match &address.transport {
        Transport::Local(_) => return Ok((env, None)),
        Transport::Http { scheme, host } => {
            let mut config = HttpConfig { proxy: &credentials.proxy, ..HttpConfig::default() };
            if credentials.insecure_skip_server_verification {
                env.push(("GIT_SSL_NO_VERIFY".into(), "1".into()));
            }
            if !credentials.ca_certificates.is_empty() {
                let path = file("ca.pem", &credentials.ca_certificates, 0o600)?;
                env.push(("GIT_SSL_CAINFO".into(), path.into()));
            }
            if !credentials.client_certificate.is_empty() {
                let path = file("client.pem", &credentials.client_certificate, 0o600)?;
                config.certificate = Some(path.clone());
                env.push(("GIT_SSL_CERT".into(), path.into()));
            }
            if !credentials.client_key.is_empty() {
                let path = file("client.key", &credentials.client_key, 0o600)?;
                config.key = Some(path.clone());
                env.push(("GIT_SSL_KEY".into(), path.into()));
            }
            let has_password = !(name.is_empty() && password.is_empty());
            if !credentials.bearer_token.is_empty() {
                config.authorization = format!("Bearer {}", credentials.bearer_token);
            } else if has_password && (credentials.force_basic || proactive) {
                config.authorization =
                    format!("Basic {}", STANDARD.encode(format!("{name}:{password}")));
            }
            if let Some(config) = config.text(scheme, host) {
                let path = file("config", &config, 0o600)?;
                env.push(("GIT_CONFIG_GLOBAL".into(), path.into()));
            }
            if !credentials.proxy.is_empty() {
                for name in ["NO_PROXY", "no_proxy"] {
                    env.push((name.into(), credentials.no_proxy.clone().into()));
                }
            }
            // Without an answer, `git` would try other ways to prompt.
            file("username", &format!("{name}\n"), 0o600)?;
            file("password", &format!("{password}\n"), 0o600)?;
            file("origin", &format!("{scheme}://\n{host}\n"), 0o600)?;
            let script = file("askpass", ASKPASS, 0o700)?;
            if has_password {
                env.push(("GIT_ASKPASS".into(), script.into()));
            }
        }
        Transport::Ssh => {
            let command = ssh_command(credentials, proxy.as_ref(), &file)?;
            env.push(("GIT_SSH_COMMAND".into(), command.into()));
            env.push(("GIT_SSH_VARIANT".into(), "ssh".into()));
            if let Some((user, password)) = proxy.and_then(|proxy| proxy.login) {
                env.push(("SOCKS5_USER".into(), user.into()));
                env.push(("SOCKS5_PASSWD".into(), password.into()));
            }
        }
    }
    Ok((env, Some(directory)))
}

/// The configuration of one call that contains secrets.
#[derive(Default)]
struct HttpConfig<'a> {
    proxy: &'a str,
    /// The header `Authorization`.
    authorization: String,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
}

impl HttpConfig<'_> {
    /// `None` without any. The header is sent to the host of the URL only: `git` would send it
    /// to the target of a redirect, too, so that no redirect is followed with one.
    fn text(&self, scheme: &str, host: &str) -> Option<String> {
        let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
        let mut config = String::new();
        if !self.proxy.is_empty() {
            config.push_str(&format!("\tproxy = \"{}\"\n", quoted(self.proxy)));
        }
        if !self.authorization.is_empty() {
            config.push_str("\tfollowRedirects = false\n");
        }
        if !config.is_empty() {
            config.insert_str(0, "[http]\n");
        }
        let mut own = String::new();
        if !self.authorization.is_empty() {
            let header = quoted(&self.authorization);
            own.push_str(&format!("\textraHeader = \"Authorization: {header}\"\n"));
        }
        for (key, path) in [("sslCert", &self.certificate), ("sslKey", &self.key)] {
            if let Some(path) = path {
                own.push_str(&format!("\t{key} = \"{}\"\n", quoted(&path.display().to_string())));
            }
        }
        if !own.is_empty() {
            config.push_str(&format!("[http \"{scheme}://{host}/\"]\n{own}"));
        }
        (!config.is_empty()).then_some(config)
    }
}

/// A SOCKS5 proxy for ssh.
struct Socks {
    place: String,
    login: Option<(String, String)>,
}

/// Reads the proxy of an ssh repository.
fn socks(proxy: &str) -> Result<Option<Socks>, &'static str> {
    if proxy.is_empty() {
        return Ok(None);
    }
    let wrong = "proxy: the proxy of an ssh repository is a SOCKS5 proxy: write socks5:// \
                 with host and port";
    let rest = proxy.strip_prefix("socks5://").ok_or(wrong)?;
    let rest = rest.trim_end_matches('/');
    let (login, place) = match rest.rsplit_once('@') {
        Some((login, place)) => (Some(login), place),
        None => (None, rest),
    };
    let (host, port) = place.split_once(':').unwrap_or((place, "1080"));
    // They become part of a command line.
    let plain = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
    if host.is_empty()
        || host.starts_with('-')
        || !host.chars().all(plain)
        || port.parse::<u16>().is_err()
        || !port.bytes().all(|b| b.is_ascii_digit())
    {
        return Err(wrong);
    }
    let decoded =
        |text| percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned();
    let login = login.map(|login| {
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        (decoded(user), decoded(password))
    });
    Ok(Some(Socks { place: format!("{host}:{port}"), login }))
}

/// The ssh command line: only the given key, no user configuration, no agent, and strict
/// host key checking.
fn ssh_command(
    credentials: &RepoCredentials,
    proxy: Option<&Socks>,
    file: &dyn Fn(&str, &str, u32) -> std::io::Result<PathBuf>,
) -> std::io::Result<String> {
    let mut command = String::from(
        "ssh -F /dev/null -o BatchMode=yes -o IdentityAgent=none -o IdentitiesOnly=yes \
         -o ConnectTimeout=20 -o ServerAliveInterval=10 -o ServerAliveCountMax=2",
    );
    if credentials.ssh_private_key.is_empty() {
        command.push_str(" -o IdentityFile=none");
    } else {
        // ssh rejects a key without a trailing newline, and one with those of Windows.
        let key = credentials.ssh_private_key.replace("\r\n", "\n");
        let path = file("key", &format!("{}\n", key.trim_end()), 0o600)?;
        command.push_str(&format!(" -i {}", shell_quote(&path.display().to_string())));
    }
    if credentials.insecure_skip_server_verification {
        command.push_str(" -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null");
    } else {
        command.push_str(" -o StrictHostKeyChecking=yes");
    }
    if !credentials.ssh_known_hosts.is_empty() && !credentials.insecure_skip_server_verification {
        let path = file("known_hosts", &credentials.ssh_known_hosts, 0o600)?;
        let option = format!("UserKnownHostsFile=\"{}\"", path.display());
        command.push_str(&format!(" -o GlobalKnownHostsFile=none -o {}", shell_quote(&option)));
    }
    if let Some(Socks { place, .. }) = proxy {
        let option = format!("ProxyCommand=connect-proxy -S {place} -5 %h %p");
        command.push_str(&format!(" -o {}", shell_quote(&option)));
    }
    Ok(command)
}

fn shell_quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}
