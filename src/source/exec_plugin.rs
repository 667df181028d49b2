//! Runs programs that provide credentials of clusters: without a shell, bounded in time and
//! output, and confined to the network and to what such programs read.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use super::process::{Failure, Run};
use super::tools::Programs;
use crate::confined::Policy;

/// Limit on the time of one run.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Limit on the output, in bytes.
const OUTPUT: usize = 1 << 20;

/// Limit on what it may write, in bytes.
const DISK: u64 = 64 << 20;

/// How much of its standard error is shown, in characters.
const SHOWN: usize = 500;

/// Variables that it gets from this process: where programs and certificates are, proxies, and
/// the identities that clouds give to Pods.
const PASSED: [&str; 12] = [
    "PATH",
    "HOME",
    "LANG",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "KUBERNETES_SERVICE_HOST",
];
/// The same by their beginnings.
const PASSED_OF: [&str; 5] = ["AWS_", "AZURE_", "GOOGLE_", "GCE_", "CLOUDSDK_"];

/// Folders with programs outside of the usual ones, and the tokens of Pods.
const READ: [&str; 4] = ["/usr", "/opt", "/var/run/secrets", "/run/secrets"];

/// Folders of `HOME` in which such programs keep what they have got.
const CACHES: [&str; 4] = [".aws/cli/cache", ".aws/sso/cache", ".config/gcloud", ".azure"];

/// Folders of `HOME` with their configuration.
const CONFIGURATIONS: [&str; 3] = [".aws", ".config", ".azure"];

/// One run of one program.
#[derive(Clone, Debug)]
pub struct Invocation {
    /// A path, or a name that is looked up in `PATH`.
    pub program: String,
    /// Arguments.
    pub args: Vec<String>,
    /// Variables in addition to those that all such programs get.
    pub env: Vec<(String, String)>,
}

/// Why there is no output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The program is not installed.
    NotInstalled,
    /// Anything else.
    Other(String),
}

/// Runs a program and returns its output.
///
/// # Errors
///
/// All of [`Problem`]. What the program says of its failure is cut to a line.
pub async fn run(programs: &Programs, invocation: Invocation) -> Result<Vec<u8>, Problem> {
    let Invocation { program, args, env } = invocation;
    let timeout = TIMEOUT.min(programs.timeout);
    let other = |why: String| Problem::Other(format!("{program}: {why}"));
    let scratch = tempfile::Builder::new().prefix("wavegate-credentials-").tempdir();
    let scratch = scratch.map_err(|error| other(format!("no temporary folder: {error}")))?;
    let mut all: Vec<(OsString, OsString)> = std::env::vars_os()
        .filter(|(name, _)| {
            let name = name.to_string_lossy();
            PASSED.contains(&name.as_ref()) || PASSED_OF.iter().any(|first| name.starts_with(first))
        })
        .collect();
    all.push(("TMPDIR".into(), scratch.path().into()));
    for (name, value) in env {
        all.retain(|(known, _)| *known != *name);
        all.push((name.into(), value.into()));
    }
    let values = all.iter().filter(|(name, _)| name != "PATH").map(|(_, value)| value);
    // The files that variables name, such as AWS_WEB_IDENTITY_TOKEN_FILE.
    let named = values.map(PathBuf::from).filter(|path| path.is_absolute() && path.is_file());
    let home = all.iter().find(|(name, _)| name == "HOME").map(|(_, home)| PathBuf::from(home));
    let home = home.filter(|home| home.is_absolute());
    let below = |folders: &[&str]| -> Vec<PathBuf> {
        home.iter().flat_map(|home| folders.iter().map(|folder| home.join(folder))).collect()
    };
    let caches = below(&CACHES).into_iter().filter(|folder| folder.is_dir());
    let write = caches.chain([scratch.path().to_owned()]).collect();
    let read = READ.map(PathBuf::from).into_iter().chain(named).chain(below(&CONFIGURATIONS));
    let policy = Policy {
        read: read.filter(|path| path.exists()).collect(),
        write,
        network: true,
        confinement: programs.confinement,
        memory: programs.memory_bytes,
        cpu_seconds: timeout.as_secs().max(1),
        file_bytes: DISK,
    };
    let run = Run {
        program: program.as_ref(),
        args: args.into_iter().map(OsString::from).collect(),
        directory: scratch.path(),
        env: all,
        timeout,
        stdout_limit: OUTPUT,
        disk: Some((scratch.path().to_owned(), DISK)),
        policy,
        helper: programs.helper.clone(),
    };
    let seconds = timeout.as_secs();
    let output = run.wait().await.map_err(|failure| match failure {
        Failure::Start(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Problem::NotInstalled
        }
        Failure::Start(error) => other(format!("cannot be started: {error}")),
        Failure::TimedOut => other(format!("no answer within {seconds} s")),
        Failure::OutputLimit => other(format!("its output is larger than {OUTPUT} bytes")),
        Failure::DiskLimit => other(format!("it writes more than {DISK} bytes")),
        Failure::CpuLimit => other(format!("it computes for more than {seconds} s")),
        Failure::Read(error) => other(format!("its output cannot be read: {error}")),
    })?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let said = output
        .stderr
        .lines()
        .map(str::trim)
        .rfind(|line| !line.is_empty())
        .unwrap_or("without a message");
    let said: String = said.chars().take(SHOWN).collect();
    Err(other(format!("{}: {said}", output.status)))
}
