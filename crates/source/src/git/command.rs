//! Runs the `git` program; the only module that knows its command line.
//!
//! Repositories are not trusted: only our configuration is read, no hook, filter, helper
//! or submodule of a repository runs, there are no prompts, URLs and revisions cannot be
//! read as options, and `git` gets credentials through files with mode 0600. Requires
//! `git` 2.32 or later.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::error::SourceError;
use crate::git::address::{Address, redact_urls};
use crate::git::login::Login;
use crate::git::requests::GitRequests;
use crate::http::credentials::RepoCredentials;
use crate::http::tokens::Tokens;
use crate::limits::{SourceLimits, SourceSettings};
use crate::process::run::{Failure, Output, Run, search_path};
use wavegate_api::repository::RepositoryUrl;
use wavegate_sandbox::{self as confined, SandboxPolicy};

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
pub(crate) struct Git {
    settings: SourceSettings,
    /// Cache of this process; its path is removed from all messages.
    root: PathBuf,
    /// An empty home directory.
    home: PathBuf,
    /// Directory of the credential files during a call; mode 0700.
    secrets: PathBuf,
    /// What identities were exchanged for.
    tokens: Tokens,
    /// Counts requests to servers.
    pub requests: GitRequests,
}

/// One call, before limits and environment are added.
pub(crate) struct Call<'a> {
    /// Name of the command for messages, such as `git fetch`.
    pub what: &'static str,
    /// Address of the repository.
    pub address: &'a Address,
    /// Credentials, when the call contacts a server.
    pub credentials: Option<&'a RepoCredentials>,
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
    /// Whether the login is sent at once, and not only to a server that asks for it.
    pub proactive: bool,
}

/// Address, credentials and program of a request.
#[derive(Clone, Copy)]
pub(crate) struct Remote<'a> {
    pub git: &'a Git,
    pub limits: &'a SourceLimits,
    pub address: &'a Address,
    pub credentials: Option<&'a RepoCredentials>,
}

impl<'a> Call<'a> {
    /// Outside of a repository, without credentials and with a small output.
    pub(crate) fn new(what: &'static str, address: &'a Address, args: Vec<OsString>) -> Self {
        Self {
            what,
            address,
            credentials: None,
            git_dir: None,
            args,
            env: Vec::new(),
            stdout_limit: 1 << 20,
            watch: None,
            proactive: false,
        }
    }
}

impl Git {
    /// Creates the private directories below `root`, which must exist.
    pub(crate) fn new(settings: SourceSettings, root: &Path) -> std::io::Result<Self> {
        let home = root.join("home");
        let secrets = root.join("secrets");
        for directory in [&home, &secrets] {
            std::fs::create_dir_all(directory)?;
            std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o700))?;
        }
        let (tokens, requests) = (Tokens::default(), GitRequests::default());
        Ok(Self { settings, root: root.to_owned(), home, secrets, tokens, requests })
    }

    /// Runs one call and maps a non-zero exit status to an error.
    ///
    /// # Errors
    ///
    /// All of [`SourceError`]; errors about a revision have an empty revision, which the caller sets.
    pub(crate) async fn run(&self, call: Call<'_>) -> Result<Vec<u8>, SourceError> {
        // Only these ask a server.
        let kind = match call.what {
            "git ls-remote" => "ls-remote",
            "git fetch" => "fetch",
            _ => return self.run_uncounted(call).await,
        };
        let (repo, began) = (call.address.shown.clone(), Instant::now());
        let answer = self.run_uncounted(call).await;
        self.requests.count(&repo, kind, answer.is_err(), began.elapsed());
        answer
    }

    async fn run_uncounted(&self, call: Call<'_>) -> Result<Vec<u8>, SourceError> {
        let exchanged = match call.credentials {
            None => None,
            Some(given) => self.tokens.exchanged(call.address, given, &self.settings).await?,
        };
        let credentials = exchanged.as_ref().or(call.credentials);
        // Dropped after the call has ended, which removes its files.
        let private = Login::write(&self.secrets, call.address, credentials, call.proactive)?;
        let run = self.start(&call, private.env.clone());
        tracing::debug!(repository = call.address.shown, "running {}", call.what);
        let output = run.wait().await.map_err(|failure| self.stopped(&call, failure))?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        let mut detail = detail_of(&output.stderr, call.address, credentials);
        detail = detail.replace(&self.root.display().to_string(), "(cache)");
        if let Some(advice) = advice(&output.stderr, call.address) {
            detail = format!("{detail}; {advice}");
        }
        let error = failed(call.what, call.address, &output, detail);
        if let Some(given) = call.credentials
            && let SourceError::Refused { .. } | SourceError::MissingRepository { .. } = &error
        {
            // It may have been revoked.
            self.tokens.forget(call.address, given).await;
        }
        Err(error)
    }

    /// The cache of this process.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The program that checks signatures.
    pub(crate) fn gpg_program(&self) -> &Path {
        &self.settings.gpg
    }

    /// Runs a call that checks a signature, with the key ring of a directory: whether it was found
    /// valid, and what was written to standard error. It gets no credentials and no network.
    ///
    /// # Errors
    ///
    /// When the program did not exit by itself.
    pub(crate) async fn check_signature(
        &self,
        call: Call<'_>,
        key_ring: &Path,
    ) -> Result<Output, SourceError> {
        let mut run = self.start(&call, Vec::new());
        run.env.push(("GNUPGHOME".into(), key_ring.into()));
        run.policy.network = false;
        run.wait().await.map_err(|failure| self.stopped(&call, failure))
    }

    /// Runs `gpg` with the key ring of a directory, without network.
    ///
    /// # Errors
    ///
    /// When it cannot be started, or did not exit by itself.
    pub(crate) async fn gpg(
        &self,
        address: &Address,
        key_ring: &Path,
        args: Vec<OsString>,
    ) -> Result<Output, SourceError> {
        let (program, call) = (self.settings.gpg.as_path(), Call::new("gpg", address, Vec::new()));
        let mut run = Run { program, args, ..self.start(&call, Vec::new()) };
        run.env.push(("GNUPGHOME".into(), key_ring.into()));
        run.policy.network = false;
        run.wait().await.map_err(|failure| match failure {
            Failure::Start(error) => SourceError::MissingProgram {
                repo: address.shown.clone(),
                program: program.display().to_string(),
                detail: format!("{error}; it verifies the signatures that the project demands"),
            },
            failure => self.stopped(&call, failure),
        })
    }

    /// The run of a call.
    fn start(&self, call: &Call<'_>, private: Vec<(OsString, OsString)>) -> Run<'_> {
        let mut args: Vec<OsString> = Vec::with_capacity(call.args.len() + 38);
        for entry in CONFIG {
            args.push("-c".into());
            args.push(entry.into());
        }
        if let Some(directory) = call.git_dir {
            args.push("--git-dir".into());
            args.push(directory.into());
        }
        args.extend(call.args.iter().cloned());
        let mut env = self.environment();
        env.extend(private);
        env.extend(call.env.iter().cloned());
        let limits = &self.settings.limits;
        Run {
            program: &self.settings.program,
            args,
            directory: &self.home,
            env,
            timeout: limits.timeout,
            stdout_limit: call.stdout_limit,
            policy: self.policy(),
            helper: self.settings.helper.clone(),
            disk: call.watch.map(|directory| (directory.to_owned(), limits.fetch_bytes)),
        }
    }

    /// The error of a program that did not exit by itself.
    fn stopped(&self, call: &Call<'_>, failure: Failure) -> SourceError {
        let limits = &self.settings.limits;
        let repo = || call.address.shown.clone();
        match failure {
            Failure::Start(error) => SourceError::MissingProgram {
                repo: repo(),
                program: self.settings.program.display().to_string(),
                detail: error.to_string(),
            },
            Failure::TimedOut => SourceError::TimedOut {
                repo: repo(),
                what: call.what.into(),
                limit: limits.timeout,
            },
            Failure::OutputLimit => SourceError::too_large(
                repo(),
                format!("the output of {}", call.what),
                format!("{} bytes", call.stdout_limit),
            ),
            Failure::DiskLimit if call.watch == call.git_dir => {
                too_large(call.address, "the fetched repository", limits.fetch_bytes)
            }
            Failure::DiskLimit => too_large(call.address, "the checkout", limits.fetch_bytes),
            Failure::CpuLimit => {
                SourceError::git(repo(), call.what, "stopped, since it used too much CPU time")
            }
            Failure::Read(error) => SourceError::git(repo(), call.what, error),
        }
    }

    /// Reads everywhere but credentials of this process: certificates, keys of hosts, and
    /// local repositories may be in any folder. Writes only below the cache.
    fn policy(&self) -> SandboxPolicy {
        let limits = &self.settings.limits;
        SandboxPolicy {
            // The cache may be below what is left out.
            read: confined::readable_machine().into_iter().chain([self.root.clone()]).collect(),
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
        let path = search_path();
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
}

/// The error of a size limit, with a remedy.
pub(crate) fn too_large(address: &Address, what: &str, limit: u64) -> SourceError {
    SourceError::too_large(
        &address.shown,
        what,
        format!("{} MiB; use a smaller repository or raise the limit", limit >> 20),
    )
}

/// What to do about a server that is not trusted.
fn advice(stderr: &str, address: &Address) -> Option<String> {
    let said = stderr.to_ascii_lowercase();
    let RepositoryUrl { host, port, .. } = RepositoryUrl::of(&address.url);
    let host = host.trim_matches(['[', ']']);
    if said.contains("host key verification failed") {
        // As in a line of `known_hosts`.
        let host = match port.is_empty() {
            true => host.to_owned(),
            false => format!("[{host}]:{port}"),
        };
        return Some(format!(
            "the key of {host} is not known or has changed: add it to `ssh_known_hosts` of the \
             ConfigMap argocd-ssh-known-hosts-cm, from a source that you trust"
        ));
    }
    if said.contains("connect-proxy: ") && said.contains("not found") {
        return Some(
            "a proxy for ssh needs the program connect-proxy, which is not installed".to_owned(),
        );
    }
    if said.contains("returned error: 30") {
        return Some(
            "the server redirects, and a token is not sent elsewhere: write the URL that it \
             redirects to"
                .to_owned(),
        );
    }
    let certificate = [
        "certificate verification failed",
        "certificate verify failed",
        "certificate signed by unknown authority",
        "ssl certificate problem",
        "does not match target host name",
        "no alternative certificate subject name matches",
    ];
    certificate.iter().any(|text| said.contains(text)).then(|| {
        format!(
            "the certificate of {host} is not trusted: add that of its CA to the ConfigMap \
             argocd-tls-certs-cm with the key {host}"
        )
    })
}

/// Determines the error from the output of `git`, most specific first: its exit code
/// says nothing about the cause.
fn failed(what: &'static str, address: &Address, output: &Output, detail: String) -> SourceError {
    let repo = address.shown.clone();
    let said = output.stderr.to_ascii_lowercase();
    let any = |needles: &[&str]| needles.iter().any(|needle| said.contains(needle));
    if any(&["couldn't find remote ref", "not our ref", "unadvertised object", "no such ref"]) {
        return SourceError::missing_revision(repo, String::new(), detail);
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
        "certificate verify failed",
        "no alternative certificate subject name matches",
        "certificate required",
        "returned error: 30",
        "too many authentication failures",
        "load key ",
    ]) {
        return SourceError::refused(repo, detail);
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
        return SourceError::unreachable(repo, detail);
    }
    if any(&["not found", "does not exist", "does not appear to be a git", "not a git repository"])
    {
        return SourceError::missing_repository(repo, detail);
    }
    SourceError::git(repo, what, detail)
}

/// Output of `git` as a single truncated line without secrets.
fn detail_of(stderr: &str, address: &Address, credentials: Option<&RepoCredentials>) -> String {
    // The whole output first: it may contain anything.
    let mut text = stderr.replace(&address.url, &address.shown);
    let embedded = address.embedded.iter().map(|(_, password)| password.as_str());
    let given = credentials.into_iter().flat_map(RepoCredentials::secrets);
    for secret in embedded.chain(given).filter(|secret| !secret.is_empty()) {
        text = text.replace(secret, "***");
    }
    let text = redact_urls(&text);
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
