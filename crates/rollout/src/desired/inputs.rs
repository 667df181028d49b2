//! What generators read besides the ApplicationSet: clusters, repositories, projects, and
//! what services answer.
//!
//! The caller observes these facts. Which parts of which repositories are needed is known
//! only while generating, since the second generator of a matrix is interpolated with the
//! parameters of the first: [`GenerateError::Unread`](super::GenerateError::Unread) names the missing
//! ones, and the caller generates again when it has read them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use data_encoding::HEXLOWER;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::generators::path_pattern::{Globbing, PathPattern, PathSelection};
use super::queries::{Answer, Query, Rules};
use wavegate_api::cluster::ClusterSecret;

/// How often repositories are read for one generation: once for each nesting of generators,
/// since the parameters of one may name the repository of another. A template with a random
/// value names another repository each time.
pub const MAX_READS: usize = 6;

/// Default interval at which repositories are read again (AS-047, AS-503).
pub const REQUEUE_AFTER: Duration = Duration::from_secs(180);

/// Default interval at which services are asked again (AS-047).
pub const PROVIDER_REQUEUE_AFTER: Duration = Duration::from_secs(1800);

/// The AppProjects that exist, each with how its repositories may be read.
pub type Projects = BTreeMap<String, ProjectReads>;

/// How the repositories of an AppProject may be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ProjectReads {
    /// As they are.
    #[default]
    AsTheyAre,
    /// Commits must be signed (SE-080). The text changes with what is demanded of them.
    Signed(String),
    /// Not at all, for this reason, such as a guard that cannot be enforced.
    Refused(String),
}

/// The observed facts.
#[derive(Clone, Debug)]
pub struct Inputs {
    /// The cluster Secrets.
    pub clusters: Arc<[ClusterSecret]>,
    /// What was read of repositories, or why it could not be read.
    pub git: BTreeMap<GitRequest, Result<Arc<GitAnswer>, String>>,
    /// What services have answered, or why there is no answer.
    pub answers: BTreeMap<Query, Result<Arc<Answer>, String>>,
    /// Which servers of source code may be asked.
    pub providers: Rules,
    /// The AppProjects that exist, each with how its repositories may be read; `None` when they
    /// are not known, as for a file.
    pub projects: Option<Projects>,
    /// How the patterns of files are read (AS-096).
    pub globbing: Globbing,
    /// Whether directories whose names start with a dot count (AS-092).
    pub hidden_directories: bool,
    /// Interval at which a repository is read again when the generator has none.
    pub requeue_after: Duration,
}

impl Default for Inputs {
    fn default() -> Self {
        Self {
            clusters: Arc::default(),
            git: BTreeMap::new(),
            answers: BTreeMap::new(),
            providers: Rules::default(),
            projects: None,
            globbing: Globbing::Greedy,
            hidden_directories: false,
            requeue_after: REQUEUE_AFTER,
        }
    }
}

/// What must be read before a set can be generated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnreadRepository {
    /// Parts of repositories.
    pub git: BTreeSet<GitRequest>,
    /// Answers of services.
    pub queries: BTreeSet<Query>,
}

impl UnreadRepository {
    /// Whether there is nothing to read.
    pub fn is_empty(&self) -> bool {
        self.git.is_empty() && self.queries.is_empty()
    }
}

/// The part of a repository that a generator needs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GitRequest {
    /// URL of the repository.
    pub repo_url: String,
    /// Branch, tag or commit.
    pub revision: String,
    /// The AppProject whose credentials may be used besides those of all projects; empty
    /// when it is not known before rendering (AS-091).
    pub project: String,
    /// What the project demands of signatures, as in [`ProjectReads::Signed`]; empty for nothing.
    /// When it changes, what was read counts no more.
    pub signed: String,
    /// What is read.
    pub what: GitRead,
}

/// What is read of a repository.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GitRead {
    /// The paths of all directories.
    Directories {
        /// Whether those whose names start with a dot count.
        hidden: bool,
    },
    /// The contents of files.
    Files {
        /// Patterns of the files.
        include: BTreeSet<String>,
        /// Patterns of files that are not read, whatever others match.
        exclude: BTreeSet<String>,
        /// How they are read.
        globbing: Globbing,
    },
}

impl GitRequest {
    /// Which files to read: a function of the path relative to the root of the repository,
    /// which fails when a limit is exceeded. Selects nothing for directories.
    ///
    /// # Errors
    ///
    /// The pattern that is invalid, and why.
    pub fn files(
        &self,
    ) -> Result<impl Fn(&str) -> Result<bool, String> + Send + Sync + use<>, String> {
        let (include, exclude) = match &self.what {
            GitRead::Directories { .. } => (Vec::new(), Vec::new()),
            GitRead::Files { include, exclude, globbing } => {
                let read = |patterns: &BTreeSet<String>| -> Result<Vec<PathPattern>, String> {
                    patterns.iter().map(|text| PathPattern::of_files(text, *globbing)).collect()
                };
                (read(include)?, read(exclude)?)
            }
        };
        let selection = PathSelection::new(&include, &exclude)?;
        Ok(move |path: &str| selection.selects(path))
    }
}

/// What was read of a repository, at one commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GitAnswer {
    /// Paths of directories, relative to the root, in the order of the repository.
    Directories(Vec<String>),
    /// Paths of files, relative to the root, and their contents.
    Files(BTreeMap<String, String>),
}

impl GitAnswer {
    /// Its size in bytes.
    pub fn size(&self) -> usize {
        match self {
            Self::Directories(paths) => paths.iter().map(String::len).sum(),
            Self::Files(files) => files.iter().map(|(path, text)| path.len() + text.len()).sum(),
        }
    }
}

/// What was used while generating.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reads {
    /// Whether the registered clusters were used.
    pub clusters: bool,
    /// Whether it mattered which AppProjects exist.
    pub projects: bool,
    /// The parts of repositories that were used.
    pub git: BTreeSet<GitRequest>,
    /// The answers of services that were used.
    pub queries: BTreeSet<Query>,
    /// After how long to generate again without a change (AS-047); `None` for never.
    pub requeue_after: Option<Duration>,
    /// What each generator found, by its path; of one inside of a matrix that contains
    /// parameters of the other one, by evaluation.
    pub found: BTreeMap<String, Finding>,
    /// What was ignored, with the field; at most 20.
    pub warnings: BTreeSet<String>,
}

/// What a generator found. The greatest of several evaluations counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Finding {
    /// Nothing, by a complete answer that is empty in the ordinary course of things: the last
    /// pull request was closed.
    Ended,
    /// Nothing, which may be a mistake.
    Nothing,
    /// At least one parameter set.
    Something,
}

impl Finding {
    /// Something, or nothing that may be a mistake.
    pub fn of(is_something: bool) -> Self {
        if is_something { Self::Something } else { Self::Nothing }
    }
}

/// The end of the path under which the cluster Secrets of a generator count by themselves.
pub const CLUSTER_SECRETS: &str = " (cluster Secrets)";

/// Most evaluations of one generator that are kept.
const MAX_EVALUATIONS: usize = 64;

/// Most warnings of one generation.
const MAX_WARNINGS: usize = 20;

impl Reads {
    /// Adds a warning, unless there are many already.
    pub fn warn(&mut self, warning: String) {
        if self.warnings.len() < MAX_WARNINGS {
            self.warnings.insert(warning);
        }
    }

    /// The path of one evaluation of a generator with these interpolated fields:
    /// `envs/prod/*` may be empty while `envs/dev/*` is not. Beyond 64 of one generator, all
    /// others count as one.
    pub fn evaluation(&self, path: String, fields: &Value) -> String {
        let hash = Sha256::digest(fields.to_string());
        let hash = HEXLOWER.encode(&hash[..4]);
        let one = format!("{path}[{hash}]");
        let prefix = format!("{path}[");
        let known = self.found.range(prefix.clone()..);
        let known = known.take_while(|(other, _)| other.starts_with(&prefix)).count();
        match known < MAX_EVALUATIONS || self.found.contains_key(&one) {
            true => one,
            false => path,
        }
    }

    /// Adds what an evaluation of a generator found.
    pub fn found(&mut self, place: String, found: Finding) {
        let known = self.found.entry(place).or_insert(found);
        *known = found.max(*known);
    }

    /// Shortens the interval; zero means no interval.
    pub fn requeue_after(&mut self, interval: Duration) {
        if !interval.is_zero() {
            let shortest = self.requeue_after.unwrap_or(interval).min(interval);
            self.requeue_after = Some(shortest);
        }
    }
}
