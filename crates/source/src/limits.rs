//! Settings and limits of reading repositories.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::git::address::Allow;
use crate::oci::settings::ArtifactSettings;
use crate::process::tools::Programs;
use crate::tried::TriedSource;
use wavegate_sandbox::Confinement;

/// Limits on time, disk space and parallelism.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceLimits {
    /// Longest run of one `git` command. Default 60 s.
    pub timeout: Duration,
    /// Limit on the disk space of one fetched repository, and of one checkout of it.
    /// Default 500 MiB.
    pub fetch_bytes: u64,
    /// Limit on the memory of one process of `git` or `ssh`, in bytes, without mapped files.
    /// Default 2 GiB.
    pub memory_bytes: u64,
    /// Limit on the files of one checkout. Default 200,000.
    pub checkout_files: usize,
    /// Number of cached checkouts. Default 64.
    pub kept_checkouts: usize,
    /// Bytes of cached checkouts; a larger checkout is removed when it is no longer in
    /// use. Default 2 GiB.
    pub kept_bytes: u64,
    /// Number of cached repositories. Default 256.
    pub kept_repositories: usize,
    /// Parallel `git` processes for all available repositories. Default 8.
    pub parallel: usize,
    /// Parallel `git` processes for repositories that have not answered yet or no longer
    /// answer; they mostly wait. Default 32.
    pub unconfirmed: usize,
    /// Parallel `git` processes per server. Default 4.
    pub per_host: usize,
    /// Longest pause of requests to a server or repository that does not answer; pauses
    /// start at 5 s and double. Default 60 s.
    pub backoff: Duration,
    /// How long a failure is returned again without a request, so that many Applications
    /// of an unavailable repository cost one attempt. Default 10 s; a request for
    /// [`Freshness::NOW`](crate::Freshness::NOW) shares only a failure that it waited
    /// for.
    pub failure_kept: Duration,
}

impl Default for SourceLimits {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(60),
            fetch_bytes: 500 << 20,
            memory_bytes: 2 << 30,
            checkout_files: 200_000,
            kept_checkouts: 64,
            kept_bytes: 2 << 30,
            kept_repositories: 256,
            parallel: 8,
            unconfirmed: 32,
            per_host: 4,
            backoff: Duration::from_secs(60),
            failure_kept: Duration::from_secs(10),
        }
    }
}

/// Settings of reading repositories.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceSettings {
    /// The `git` program, a path or a name. Default `git`.
    pub program: PathBuf,
    /// The `gpg` program, which verifies signatures of commits. Default `gpg`.
    pub gpg: PathBuf,
    /// Transports besides https and ssh. Default none.
    pub allow: Allow,
    /// Additional environment variables of `git`, such as `HTTPS_PROXY`. They do not
    /// override ours. Default none: the environment of this process is not passed on.
    pub environment: BTreeMap<String, String>,
    /// What is read in place of a repository. Default none.
    pub tried: Option<TriedSource>,
    /// The limits.
    pub limits: SourceLimits,
    /// Whether `git` is confined to the cache.
    pub confinement: Confinement,
    /// The program that confines it: this one, with [`wavegate_sandbox::enable_worker`].
    pub helper: Option<PathBuf>,
    /// The `helm` program, which reads chart repositories, and its limits.
    pub programs: Programs,
    /// Which artifacts of registries are read.
    pub artifacts: ArtifactSettings,
}

impl Default for SourceSettings {
    fn default() -> Self {
        Self {
            program: "git".into(),
            gpg: "gpg".into(),
            allow: Allow::default(),
            environment: BTreeMap::new(),
            tried: None,
            limits: SourceLimits::default(),
            confinement: Confinement::default(),
            helper: wavegate_sandbox::helper_path(),
            programs: Programs::default(),
            artifacts: ArtifactSettings::default(),
        }
    }
}
