//! Runs programs that provide credentials of clusters: without a shell, bounded in time and
//! output, and confined to the network and to what such programs read.

use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::process::run::{Failure, Run};
use crate::process::tools::Programs;
use wavegate_net::redact;
use wavegate_sandbox::SandboxPolicy;

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

/// Folders with programs outside of the usual ones.
const READ: [&str; 2] = ["/usr", "/opt"];

/// Variables whose file, or folder, is read: the tokens and certificates of an identity, and
/// the configuration of the clouds' programs. Nothing else below `/var/run/secrets` is.
const FILES: [&str; 15] = [
    "AWS_CA_BUNDLE",
    "AWS_CONFIG_FILE",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AZURE_CLIENT_CERTIFICATE_PATH",
    "AZURE_CONFIG_DIR",
    "AZURE_FEDERATED_TOKEN_FILE",
    "CLOUDSDK_AUTH_CREDENTIAL_FILE_OVERRIDE",
    "CLOUDSDK_CONFIG",
    "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE",
    GOOGLE,
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
];

/// The variable whose file may name another one that has the token.
const GOOGLE: &str = "GOOGLE_APPLICATION_CREDENTIALS";

/// The longest such file, in bytes.
const GOOGLE_FILE: u64 = 64 << 10;

/// What no variable can open: processes, and the token of the controller itself.
const CLOSED: [&str; 4] =
    ["/proc", "/sys", "/run/secrets/kubernetes.io", "/var/run/secrets/kubernetes.io"];

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
pub enum ExecPluginProblem {
    /// The program is not installed.
    NotInstalled,
    /// Anything else.
    Other(String),
}

/// Runs a program and returns its output.
///
/// # Errors
///
/// All of [`ExecPluginProblem`]. What the program says of its failure is cut to a line.
pub async fn run_exec_plugin(
    programs: &Programs,
    invocation: Invocation,
) -> Result<Vec<u8>, ExecPluginProblem> {
    let Invocation { program, args, env } = invocation;
    let timeout = TIMEOUT.min(programs.timeout);
    let other = |why: String| ExecPluginProblem::Other(format!("{program}: {why}"));
    let scratch = tempfile::Builder::new().prefix("wavegate-credentials-").tempdir();
    let scratch = scratch.map_err(|error| other(format!("no temporary folder: {error}")))?;
    let mut all: Vec<(OsString, OsString)> = std::env::vars_os()
        .filter(|(name, _)| {
            let name = name.to_string_lossy();
            PASSED.contains(&name.as_ref()) || PASSED_OF.iter().any(|first| name.starts_with(first))
        })
        .collect();
    all.push(("TMPDIR".into(), scratch.path().into()));
    let named = named(&all, &env).map_err(other)?;
    for (name, value) in env {
        all.retain(|(known, _)| *known != *name);
        all.push((name.into(), value.into()));
    }
    let home = all.iter().find(|(name, _)| name == "HOME").map(|(_, home)| PathBuf::from(home));
    let home = home.filter(|home| home.is_absolute());
    let below = |folders: &[&str]| -> Vec<PathBuf> {
        home.iter().flat_map(|home| folders.iter().map(|folder| home.join(folder))).collect()
    };
    let caches = below(&CACHES).into_iter().filter(|folder| folder.is_dir());
    let write = caches.chain([scratch.path().to_owned()]).collect();
    let read = READ.map(PathBuf::from).into_iter().chain(named).chain(below(&CONFIGURATIONS));
    let policy = SandboxPolicy {
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
            ExecPluginProblem::NotInstalled
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
    let said = redact::redact_text(said);
    let said: String = said.chars().take(SHOWN).collect();
    Err(other(format!("{}: {said}", output.status)))
}

/// The files that the variables of this process and those of a Secret name; folders only of
/// this process. The error says which one cannot be used.
fn named(
    passed: &[(OsString, OsString)],
    own: &[(String, String)],
) -> Result<Vec<PathBuf>, String> {
    let is_own = |name: &OsString| own.iter().any(|(known, _)| name.as_os_str() == known.as_str());
    let passed = passed.iter().filter(|(name, _)| !is_own(name));
    let passed = passed.map(|(name, value)| (name.to_string_lossy(), Path::new(value), false));
    let own = own.iter().map(|(name, value)| (name.into(), Path::new(value), true));
    let mut named = Vec::new();
    for (name, value, is_own) in passed.chain(own) {
        let refused = |path: &Path| {
            format!(
                "the variable {name} names {}, which is for the controller only; mount a token \
                 for the program",
                path.display()
            )
        };
        if name == "PATH" {
            // Its folders can be read.
            let folders: Vec<PathBuf> = std::env::split_paths(value).collect();
            let closed =
                folders.iter().find(|path| real(path).is_some_and(|path| is_closed(&path)));
            if let Some(folder) = closed.filter(|_| is_own) {
                return Err(refused(folder));
            }
        }
        if !FILES.contains(&name.as_ref()) {
            continue;
        }
        let Some(found) = real(value).filter(|found| !is_own || found.is_file()) else { continue };
        if is_closed(&found) {
            return Err(refused(value));
        }
        if name == GOOGLE
            && let Some(token) = token_of(&found).and_then(|token| real(&token))
            && token.is_file()
            && !is_closed(&token)
        {
            named.push(token);
        }
        named.push(found);
    }
    Ok(named)
}

/// An existing path without symbolic links: of projected tokens, the names are links.
fn real(path: &Path) -> Option<PathBuf> {
    path.is_absolute().then(|| std::fs::canonicalize(path).ok()).flatten()
}

/// Whether a path is in a closed folder, or has one.
fn is_closed(path: &Path) -> bool {
    let folders = CLOSED.iter().map(PathBuf::from);
    let all = folders.clone().chain(folders.filter_map(|folder| real(&folder)));
    all.into_iter().any(|folder| path.starts_with(&folder) || folder.starts_with(path))
}

/// The token that a file of Google names, by workload identity federation.
fn token_of(file: &Path) -> Option<PathBuf> {
    let mut text = String::new();
    std::fs::File::open(file).ok()?.take(GOOGLE_FILE).read_to_string(&mut text).ok()?;
    let content: Value = serde_json::from_str(&text).ok()?;
    content.pointer("/credential_source/file")?.as_str().map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Of variables of a Secret, in place of those of this process.
    fn of(variables: &[(&str, &Path)]) -> Result<Vec<PathBuf>, String> {
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        let own: Vec<(String, String)> =
            variables.iter().map(|(name, path)| ((*name).to_owned(), text(path))).collect();
        let passed = ["SSL_CERT_FILE", "AZURE_CONFIG_DIR"].map(|name| (name.into(), "/".into()));
        named(&passed[..usize::from(variables[0].0 == "SSL_CERT_FILE")], &own)
    }

    #[test]
    fn only_files_of_known_variables_are_opened() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let file = |name: &str, text: &str| {
            std::fs::write(root.join(name), text).unwrap();
            root.join(name)
        };
        let token = file("token", "t");
        let link = root.join("link");
        std::os::unix::fs::symlink(&token, &link).unwrap();
        let source = json!({"credential_source": {"file": link}}).to_string();
        let google = file("google.json", &source);
        assert_eq!(of(&[("AWS_WEB_IDENTITY_TOKEN_FILE", &link)]), Ok(vec![token.clone()]));
        assert_eq!(of(&[(GOOGLE, &google)]), Ok(vec![token.clone(), google]));
        for name in ["HOME", "X", "AWS_PROFILE"] {
            assert_eq!(of(&[(name, &token)]), Ok(Vec::new()), "{name}");
        }
        let absent = root.join("absent");
        assert_eq!(of(&[("SSL_CERT_FILE", &absent)]), Ok(Vec::new()));
        assert_eq!(of(&[("SSL_CERT_FILE", Path::new("token"))]), Ok(Vec::new()));
    }

    #[test]
    fn no_variable_opens_what_is_the_controllers() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("/proc/self/environ", &link).unwrap();
        for path in [Path::new("/proc/self/environ"), &link] {
            let error = of(&[("SSL_CERT_FILE", path)]).unwrap_err();
            assert!(error.contains("SSL_CERT_FILE") && error.contains("mount a token"), "{error}");
        }
        for path in ["/", "/bin:/proc", "/run"].map(Path::new) {
            let error = of(&[("PATH", path)]).unwrap_err();
            assert!(error.contains("the variable PATH names"), "{error}");
        }
        // Of a Secret, a folder is none.
        assert_eq!(of(&[("SSL_CERT_FILE", Path::new("/"))]), Ok(Vec::new()));
        let azure = [("AZURE_CONFIG_DIR".into(), folder.path().into())];
        assert_eq!(named(&azure, &[]).map(|all| all.len()), Ok(1));
        // Neither does a file of Google.
        let google = folder.path().canonicalize().unwrap().join("google.json");
        let source = json!({"credential_source": {"file": "/proc/self/environ"}}).to_string();
        std::fs::write(&google, source).unwrap();
        assert_eq!(of(&[(GOOGLE, &google)]), Ok(vec![google]));
        let own = "/var/run/secrets/kubernetes.io/serviceaccount/token";
        assert!(is_closed(Path::new(own)) && is_closed(Path::new("/run/secrets")));
        assert!(!is_closed(Path::new("/var/run/secrets/eks.amazonaws.com/serviceaccount/token")));
    }
}
