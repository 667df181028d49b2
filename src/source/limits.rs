//! The limits of reading repositories, and what may be read.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::address::Allow;

/// Bounds on time, disk and parallel work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Longest run of one `git` command. Default 60 s.
    pub timeout: Duration,
    /// Most bytes on disk of one fetched repository, and of one checkout of
    /// it. Default 500 MiB.
    pub fetch_bytes: u64,
    /// Most files in one checkout. Default 200,000.
    pub checkout_files: usize,
    /// Checkouts kept for later use. Default 64.
    pub kept_checkouts: usize,
    /// Bytes of kept checkouts; one that is larger is dropped as soon as
    /// nobody uses it. Default 2 GiB.
    pub kept_bytes: u64,
    /// Repositories whose objects and references are kept. Default 256.
    pub kept_repositories: usize,
    /// `git` programs at the same time, over all repositories that answer.
    /// Default 8.
    pub parallel: usize,
    /// The same for those that have not answered yet or no longer do. They
    /// mostly wait. Default 32.
    pub doubtful: usize,
    /// `git` programs at the same time that talk to one server. Default 4.
    pub per_host: usize,
    /// How long a server or repository that does not answer is left alone at
    /// most; the pause starts at 5 s and doubles. Default 60 s.
    pub backoff: Duration,
    /// How long a failure is answered again without asking the server, so
    /// that many Applications of a dead repository cost one attempt. Default
    /// 10 s; a request for [`Freshness::NOW`](super::Freshness::NOW) shares
    /// only a failure that it waited for.
    pub failure_kept: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(60),
            fetch_bytes: 500 << 20,
            checkout_files: 200_000,
            kept_checkouts: 64,
            kept_bytes: 2 << 30,
            kept_repositories: 256,
            parallel: 8,
            doubtful: 32,
            per_host: 4,
            backoff: Duration::from_secs(60),
            failure_kept: Duration::from_secs(10),
        }
    }
}

/// How repositories are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The `git` program, a path or a name. Default `git`.
    pub program: PathBuf,
    /// What may be read besides https and ssh. Default nothing.
    pub allow: Allow,
    /// Variables that `git` sees besides ours, such as `HTTPS_PROXY`. Ours
    /// win. Default none: the environment of this process is not passed on.
    pub environment: BTreeMap<String, String>,
    /// The limits.
    pub limits: Limits,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            program: "git".into(),
            allow: Allow::default(),
            environment: BTreeMap::new(),
            limits: Limits::default(),
        }
    }
}
