//! Runs the `git` program; the only module that knows its command line.
//!
//! Repositories are not trusted: only our configuration is read, no hook, filter, helper
//! or submodule of a repository runs, there are no prompts, URLs and revisions cannot be
//! read as options, and `git` gets credentials through files with mode 0600. Requires
//! `git` 2.32 or later.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use std::io::Write;

use super::address::{Address, Transport, redact};
use super::credentials::Credentials;
use super::error::Error;
use super::limits::SourceSettings;
use super::process::{Failure, Output, Run};
use crate::confined::{self, Policy};
use crate::repository::RepositoryUrl;

/// Configuration of every call; overrides that of a repository.
const CONFIG: [&str; 17] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.attributesFile=/dev/null",
    "core.autocrlf=false",
    "core.protectHFS=true",
    "core.protectNTFS=true",
    // Larger blobs are streamed instead of loaded into memory.
    "core.bigFileThreshold=16m",
    "protocol.ext.allow=never",
    "submodule.recurse=false",
    "fetch.recurseSubmodules=false",
    "credential.helper=",
    // One pack per fetch; loose objects would expand a small pack on disk.
    "fetch.unpackLimit=1",
    "gc.auto=0",
    "maintenance.auto=false",
    "advice.detachedHead=false",
    // Aborts when a server sends nothing; a busy server sends a keep-alive every five seconds.
    "http.lowSpeedLimit=1",
    "http.lowSpeedTime=20",
];

/// Longest part of the output of `git` in an error, in bytes.
const DETAIL_LIMIT: usize = 600;

/// Settings of `git` and the directories of its private files.
#[derive(Debug)]
pub(super) struct Git {
    settings: SourceSettings,
    /// Cache of this process; its path is removed from all messages.
    root: PathBuf,
    /// An empty home directory.
    home: PathBuf,
    /// Directory of the credential files during a call; mode 0700.
    secrets: PathBuf,
}

/// One call, before limits and environment are added.
pub(super) struct Call<'a> {
    /// Name of the command for messages, such as `git fetch`.
    pub what: &'static str,
    /// Address of the repository.
    pub address: &'a Address,
    /// Credentials, when the call contacts a server.
    pub credentials: Option<&'a Credentials>,
    /// Directory of the cached repository; `None` when not needed.
    pub git_dir: Option<&'a Path>,
    /// Arguments after the configuration.
    pub args: Vec<OsString>,
    /// Additional environment variables.
    pub env: Vec<(OsString, OsString)>,
    /// Limit on standard output, in bytes.
    pub stdout_limit: usize,
    /// Directory whose size is limited during the call.
    pub watch: Option<&'a Path>,
}

impl Git {
    /// Creates the private directories below `root`, which must exist.
    pub(super) fn new(settings: SourceSettings, root: &Path) -> std::io::Result<Self> {
        let home = root.join("home");
        let secrets = root.join("secrets");
        for directory in [&home, &secrets] {
            std::fs::create_dir_all(directory)?;
            std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o700))?;
        }
        Ok(Self { settings, root: root.to_owned(), home, secrets })
    }

    /// Runs one call and maps a non-zero exit status to an error.
    ///
    /// # Errors
    ///
    /// All of [`Error`]; errors about a revision have an empty revision, which the caller sets.
    pub(super) async fn run(&self, call: Call<'_>) -> Result<Vec<u8>, Error> {
        let repo = || call.address.shown.clone();
        // Dropped after the call has ended, which removes its files.
        let private = self.private_files(call.address, call.credentials)?;
        let mut args: Vec<OsString> = Vec::with_capacity(call.args.len() + 38);
        for entry in CONFIG {
            args.push("-c".into());
            args.push(entry.into());
        }
        if let Some(directory) = call.git_dir {
            args.push("--git-dir".into());
            args.push(directory.into());
        }
        args.extend(call.args);
        let mut env = self.environment();
        env.extend(private.env);
        env.extend(call.env);
        let limits = &self.settings.limits;
        let run = Run {
            program: &self.settings.program,
            args,
            directory: &self.home,
            env,
            timeout: limits.timeout,
            stdout_limit: call.stdout_limit,
            policy: self.policy(),
            helper: self.settings.helper.clone(),
            disk: call.watch.map(|directory| (directory.to_owned(), limits.fetch_bytes)),
        };
        tracing::debug!(repository = call.address.shown, "running {}", call.what);
        let output = run.wait().await.map_err(|failure| match failure {
            Failure::Start(error) => Error::MissingProgram {
                repo: repo(),
                program: self.settings.program.display().to_string(),
                detail: error.to_string(),
            },
            Failure::TimedOut => {
                Error::TimedOut { repo: repo(), what: call.what.into(), limit: limits.timeout }
            }
            Failure::OutputLimit => Error::TooLarge {
                repo: repo(),
                what: format!("the output of {}", call.what),
                limit: format!("{} bytes", call.stdout_limit),
            },
            Failure::DiskLimit if call.watch == call.git_dir => {
                too_large(call.address, "the fetched repository", limits.fetch_bytes)
            }
            Failure::DiskLimit => too_large(call.address, "the checkout", limits.fetch_bytes),
            Failure::CpuLimit => Error::Git {
                repo: repo(),
                what: call.what.into(),
                detail: "stopped, since it used too much CPU time".into(),
            },
            Failure::Read(error) => {
                Error::Git { repo: repo(), what: call.what.into(), detail: error.to_string() }
            }
        })?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        let mut detail = detail_of(&output.stderr, call.address, call.credentials);
        detail = detail.replace(&self.root.display().to_string(), "(cache)");
        if let Some(advice) = advice(&output.stderr, call.address) {
            detail = format!("{detail}; {advice}");
        }
        Err(failed(call.what, call.address, &output, detail))
    }

    /// Reads everywhere but credentials of this process: certificates, keys of hosts, and
    /// local repositories may be in any folder. Writes only below the cache.
    fn policy(&self) -> Policy {
        let limits = &self.settings.limits;
        Policy {
            // The cache may be below what is left out.
            read: confined::machine().into_iter().chain([self.root.clone()]).collect(),
            write: vec![self.root.clone()],
            network: true,
            confinement: self.settings.confinement,
            memory: limits.memory_bytes,
            cpu_seconds: limits.timeout.as_secs().saturating_mul(2).max(1),
            // The whole directory is limited, too; a larger file of another one is a mistake.
            file_bytes: limits.fetch_bytes.saturating_mul(2),
        }
    }

    fn environment(&self) -> Vec<(OsString, OsString)> {
        let path =
            std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
        let protocols = if self.settings.allow.http { "https:ssh:http" } else { "https:ssh" };
        let protocols = match self.settings.allow.local {
            true => format!("{protocols}:file"),
            false => protocols.to_owned(),
        };
        let fixed: [(&str, &OsStr); 15] = [
            ("PATH", &path),
            ("HOME", self.home.as_os_str()),
            ("XDG_CONFIG_HOME", self.home.as_os_str()),
            ("TMPDIR", self.home.as_os_str()),
            // The messages are parsed below, so their language is fixed.
            ("LC_ALL", "C".as_ref()),
            ("GIT_ALLOW_PROTOCOL", protocols.as_ref()),
            ("GIT_ATTR_NOSYSTEM", "1".as_ref()),
            ("GIT_CEILING_DIRECTORIES", self.home.as_os_str()),
            ("GIT_CONFIG_GLOBAL", "/dev/null".as_ref()),
            ("GIT_CONFIG_NOSYSTEM", "1".as_ref()),
            ("GIT_LFS_SKIP_SMUDGE", "1".as_ref()),
            ("GIT_NO_LAZY_FETCH", "1".as_ref()),
            ("GIT_NO_REPLACE_OBJECTS", "1".as_ref()),
            ("GIT_TERMINAL_PROMPT", "0".as_ref()),
            ("GIT_OPTIONAL_LOCKS", "0".as_ref()),
        ];
        let given = self.settings.environment.iter();
        given
            .map(|(key, value)| (key.into(), value.into()))
            .chain(fixed.map(|(key, value)| (key.into(), value.to_owned())))
            .collect()
    }

    /// Writes the files that `git` and `ssh` need to log in, with mode 0600.
    fn private_files(
        &self,
        address: &Address,
        credentials: Option<&Credentials>,
    ) -> Result<Private, Error> {
        let mut env: Vec<(OsString, OsString)> = Vec::new();
        let none = Credentials::default();
        let credentials = credentials.unwrap_or(&none);
        let (name, password) = address.login(credentials);
        let mut write_all = || -> std::io::Result<Option<tempfile::TempDir>> {
            let directory = tempfile::Builder::new()
                .prefix("call-")
                .permissions(std::fs::Permissions::from_mode(0o700))
                .tempdir_in(&self.secrets)?;
            let file = |file: &str, text: &str, mode: u32| {
                let path = directory.path().join(file);
                let mut options = std::fs::OpenOptions::new();
                let mut file = options.write(true).create_new(true).mode(mode).open(&path)?;
                file.write_all(text.as_bytes()).map(|()| path)
            };
            match &address.transport {
                Transport::Local(_) => return Ok(None),
                Transport::Http { scheme, host } => {
                    if credentials.insecure_skip_server_verification {
                        env.push(("GIT_SSL_NO_VERIFY".into(), "1".into()));
                    }
                    if !credentials.ca_certificates.is_empty() {
                        let path = file("ca.pem", &credentials.ca_certificates, 0o600)?;
                        env.push(("GIT_SSL_CAINFO".into(), path.into()));
                    }
                    if !credentials.client_certificate.is_empty() {
                        let path = file("client.pem", &credentials.client_certificate, 0o600)?;
                        env.push(("GIT_SSL_CERT".into(), path.into()));
                    }
                    if !credentials.client_key.is_empty() {
                        let path = file("client.key", &credentials.client_key, 0o600)?;
                        env.push(("GIT_SSL_KEY".into(), path.into()));
                    }
                    if let Some(config) = http_config(credentials, scheme, host) {
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
                    if !(name.is_empty() && password.is_empty()) {
                        env.push(("GIT_ASKPASS".into(), script.into()));
                    }
                }
                Transport::Ssh => {
                    let command = ssh_command(credentials, &file)?;
                    env.push(("GIT_SSH_COMMAND".into(), command.into()));
                    env.push(("GIT_SSH_VARIANT".into(), "ssh".into()));
                }
            }
            Ok(Some(directory))
        };
        let directory = write_all().map_err(|error| Error::Cache {
            repo: address.shown.clone(),
            what: "write the credentials files for git".into(),
            detail: error.kind().to_string(),
        })?;
        Ok(Private { env, _directory: directory })
    }
}

/// Environment that refers to private files, and the files.
struct Private {
    env: Vec<(OsString, OsString)>,
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

/// The configuration of one call that contains secrets; `None` without any. The token is
/// sent to the host of the URL only.
fn http_config(credentials: &Credentials, scheme: &str, host: &str) -> Option<String> {
    let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
    let mut config = String::new();
    if !credentials.proxy.is_empty() {
        config.push_str(&format!("[http]\n\tproxy = \"{}\"\n", quoted(&credentials.proxy)));
    }
    if !credentials.bearer_token.is_empty() {
        config.push_str(&format!(
            "[http \"{scheme}://{host}/\"]\n\textraHeader = \"Authorization: Bearer {}\"\n",
            quoted(&credentials.bearer_token)
        ));
    }
    (!config.is_empty()).then_some(config)
}

/// The ssh command line: only the given key, no user configuration, no agent, and strict
/// host key checking.
fn ssh_command(
    credentials: &Credentials,
    file: &dyn Fn(&str, &str, u32) -> std::io::Result<PathBuf>,
) -> std::io::Result<String> {
    let mut command = String::from(
        "ssh -F /dev/null -o BatchMode=yes -o IdentityAgent=none -o IdentitiesOnly=yes \
         -o ConnectTimeout=20 -o ServerAliveInterval=10 -o ServerAliveCountMax=2",
    );
    if credentials.ssh_private_key.is_empty() {
        command.push_str(" -o IdentityFile=none");
    } else {
        // ssh rejects a key without a trailing newline.
        let key = format!("{}\n", credentials.ssh_private_key.trim_end());
        let path = file("key", &key, 0o600)?;
        command.push_str(&format!(" -i {}", shell_quote(&path.display().to_string())));
    }
    if credentials.insecure_skip_server_verification {
        command.push_str(" -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null");
    } else {
        command.push_str(" -o StrictHostKeyChecking=yes");
    }
    if !credentials.ssh_known_hosts.is_empty() {
        let path = file("known_hosts", &credentials.ssh_known_hosts, 0o600)?;
        let option = format!("UserKnownHostsFile=\"{}\"", path.display());
        command.push_str(&format!(" -o GlobalKnownHostsFile=none -o {}", shell_quote(&option)));
    }
    Ok(command)
}

fn shell_quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// The error of a size limit, with a remedy.
pub(super) fn too_large(address: &Address, what: &str, limit: u64) -> Error {
    Error::TooLarge {
        repo: address.shown.clone(),
        what: what.to_owned(),
        limit: format!("{} MiB; use a smaller repository or raise the limit", limit >> 20),
    }
}

/// What to do about a server that is not trusted.
fn advice(stderr: &str, address: &Address) -> Option<String> {
    let said = stderr.to_ascii_lowercase();
    let host = RepositoryUrl::of(&address.url).host;
    let host = host.trim_matches(['[', ']']);
    if said.contains("host key verification failed") {
        return Some(format!(
            "the key of {host} is not known or has changed: add it to `ssh_known_hosts` of the \
             ConfigMap argocd-ssh-known-hosts-cm, from a source that you trust"
        ));
    }
    ["certificate verification failed", "ssl certificate problem"]
        .iter()
        .any(|text| said.contains(text))
        .then(|| {
            format!(
                "the certificate of {host} is not trusted: add that of its CA to the ConfigMap \
                 argocd-tls-certs-cm with the key {host}"
            )
        })
}

/// Determines the error from the output of `git`, most specific first: its exit code
/// says nothing about the cause.
fn failed(what: &'static str, address: &Address, output: &Output, detail: String) -> Error {
    let repo = address.shown.clone();
    let said = output.stderr.to_ascii_lowercase();
    let any = |needles: &[&str]| needles.iter().any(|needle| said.contains(needle));
    if any(&["couldn't find remote ref", "not our ref", "unadvertised object", "no such ref"]) {
        return Error::MissingRevision { repo, revision: String::new(), detail };
    }
    if any(&[
        "authentication failed",
        "could not read username",
        "could not read password",
        "terminal prompts disabled",
        "permission denied",
        "host key verification failed",
        "returned error: 401",
        "returned error: 403",
        "not allowed",
        "dubious ownership",
        "ssl certificate",
        "certificate verification failed",
    ]) {
        return Error::Refused { repo, detail };
    }
    if any(&[
        "could not resolve host",
        "connection refused",
        "connection reset",
        "connection timed out",
        "operation timed out",
        "operation too slow",
        "failed to connect",
        "unexpected disconnect",
        "early eof",
        "network is unreachable",
        "no route to host",
        "hung up unexpectedly",
        "returned error: 5",
        "returned error: 429",
    ]) && !any(&["not found", "does not exist", "does not appear to be a git"])
    {
        return Error::Unreachable { repo, detail };
    }
    if any(&["not found", "does not exist", "does not appear to be a git", "not a git repository"])
    {
        return Error::MissingRepository { repo, detail };
    }
    Error::Git { repo, what: what.to_owned(), detail }
}

/// Output of `git` as a single truncated line without secrets.
fn detail_of(stderr: &str, address: &Address, credentials: Option<&Credentials>) -> String {
    // The whole output first: it may contain anything.
    let mut text = stderr.replace(&address.url, &address.shown);
    let embedded = address.embedded.iter().map(|(_, password)| password.as_str());
    let given = credentials.map(|credentials| [&credentials.password, &credentials.bearer_token]);
    let given = given.into_iter().flatten().map(String::as_str);
    for secret in embedded.chain(given).filter(|secret| !secret.is_empty()) {
        text = text.replace(secret, "***");
    }
    let text = redact(&text);
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let mut joined = lines.collect::<Vec<_>>().join("; ");
    if joined.is_empty() {
        return "git reported no reason".into();
    }
    if joined.len() > DETAIL_LIMIT {
        let end = joined.floor_char_boundary(DETAIL_LIMIT);
        joined.truncate(end);
        joined.push('…');
    }
    joined
}
