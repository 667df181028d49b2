//! What generators ask of services: servers of source code, plugins, and the API server.
//!
//! A [`Query`] is a value, and so is its [`Answer`]: the caller asks, and the generator makes
//! parameters of what it is told. Which paths of a repository must be looked up depends on
//! its branches, so [`Filters`] says while the caller lists them what is still needed.

use std::collections::BTreeMap;

use regex::{Regex, RegexBuilder};
use serde_json::{Map, Value};

/// Limit on the memory of a compiled expression of a filter.
const MAX_EXPRESSION: usize = 1 << 20;

/// What a generator asks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Query {
    /// The repositories of an organization, with their branches.
    Repositories(ScmRepositories),
    /// The pull requests of a repository.
    PullRequests(PullRequests),
    /// The parameters that a plugin gives.
    Plugin(Plugin),
    /// The decisions of placement resources.
    Decisions(Decisions),
}

impl Query {
    /// What is asked, and of whom, without credentials: for messages, and to find out whether
    /// two sets ask the same.
    pub fn place(&self) -> String {
        match self {
            Self::Repositories(query) => format!("{} {}", query.provider.shown(), query.owner),
            Self::PullRequests(query) => {
                format!("{} {}/{}", query.provider.shown(), query.owner, query.repository)
            }
            Self::Plugin(query) => format!("plugin of ConfigMap {}", query.config_map),
            Self::Decisions(query) => format!("resources of ConfigMap {}", query.config_map),
        }
    }
}

/// A kind of server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum QueryKind {
    /// GitHub, or GitHub Enterprise.
    GitHub,
    /// GitLab.
    GitLab,
    /// Gitea, or Forgejo.
    Gitea,
    /// Bitbucket Cloud.
    Bitbucket,
    /// Bitbucket Server, or Data Center.
    BitbucketServer,
    /// Azure DevOps.
    AzureDevOps,
    /// AWS CodeCommit.
    CodeCommit,
}

impl QueryKind {
    /// Its name, for users.
    pub const fn name(self) -> &'static str {
        match self {
            Self::GitHub => "GitHub",
            Self::GitLab => "GitLab",
            Self::Gitea => "Gitea",
            Self::Bitbucket => "Bitbucket",
            Self::BitbucketServer => "Bitbucket Server",
            Self::AzureDevOps => "Azure DevOps",
            Self::CodeCommit => "AWS CodeCommit",
        }
    }
}

/// A server of source code.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Provider {
    /// What it is.
    pub kind: QueryKind,
    /// Address of its API; empty for the public one.
    pub api: String,
    /// Who asks.
    pub login: Login,
    /// Whether its certificate is not verified.
    pub insecure: bool,
    /// The key of a ConfigMap with certificates to trust.
    pub ca: Option<KeyRef>,
}

impl Provider {
    fn shown(&self) -> String {
        match self.api.is_empty() {
            true => self.kind.name().to_owned(),
            false => format!("{} {}", self.kind.name(), self.api),
        }
    }
}

/// How a request is authenticated.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Login {
    /// Not at all.
    None,
    /// By a token.
    Token(KeyRef),
    /// By a user name and a password.
    Basic {
        /// The name.
        user: String,
        /// Where the password is.
        password: KeyRef,
    },
    /// As a GitHub App, whose credentials are in this Secret of the control plane.
    App(String),
    /// As an AWS role, or with the identity of the controller when it is empty.
    Role {
        /// The ARN of the role.
        role: String,
        /// The region; empty for that of the controller.
        region: String,
    },
}

/// A key of a Secret or a ConfigMap.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyRef {
    /// Name of the object.
    pub name: String,
    /// Key within it.
    pub key: String,
}

/// Asks for the repositories of an organization.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScmRepositories {
    /// The server.
    pub provider: Provider,
    /// The organization, group, workspace or owner.
    pub owner: String,
    /// The project of an organization, for Azure DevOps; empty otherwise.
    pub project: String,
    /// Whether all branches are listed, and not only the default one.
    pub all_branches: bool,
    /// `ssh`, `https`, or empty for what is usual.
    pub clone_protocol: String,
    /// What is only known to one kind of server.
    pub scope: Scope,
    /// Which of them count.
    pub filters: Vec<Filter>,
}

/// Which repositories an organization has, as far as that differs between servers.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope {
    /// Whether archived repositories count.
    pub archived: bool,
    /// Whether those of groups below a group count.
    pub subgroups: bool,
    /// Whether those that are shared with a group count.
    pub shared: bool,
    /// Only those with this topic, unless it is empty.
    pub topic: String,
    /// Only those with these tags: values by key, any value when there are none.
    pub tags: BTreeMap<String, Vec<String>>,
}

/// A filter of repositories as it is written; absent conditions hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Filter {
    /// Expression of the repository's name.
    pub repository: Option<String>,
    /// Expression of a label.
    pub label: Option<String>,
    /// Expression of the branch.
    pub branch: Option<String>,
    /// Paths that must exist.
    pub exist: Vec<String>,
    /// Paths that must not exist.
    pub not_exist: Vec<String>,
}

/// Asks for the pull requests of a repository.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PullRequests {
    /// The server.
    pub provider: Provider,
    /// The owner, organization, workspace or project; empty for GitLab.
    pub owner: String,
    /// The project of an organization, for Azure DevOps; empty otherwise.
    pub project: String,
    /// The repository, or the project of GitLab.
    pub repository: String,
    /// Labels that GitLab selects by; others are compared here.
    pub labels: Vec<String>,
    /// The state that GitLab selects by; empty for any.
    pub state: String,
}

/// Asks a plugin.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Plugin {
    /// The ConfigMap that describes it.
    pub config_map: String,
    /// Its input parameters as JSON.
    pub parameters: String,
}

/// Asks for placement resources.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Decisions {
    /// The ConfigMap that describes their kind.
    pub config_map: String,
    /// The name of the resource; empty to select by labels.
    pub name: String,
    /// The label selector, in the notation of the API server.
    pub selector: String,
}

/// What a service has answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Branches of repositories, those that the filters select.
    Branches(Vec<Branch>),
    /// Pull requests.
    PullRequests(Vec<PullRequest>),
    /// The repository does not exist, or must not be read: the words of the server.
    NoRepository(String),
    /// The parameters of a plugin.
    Parameters(Vec<Map<String, Value>>),
    /// Placement resources.
    Placements(Placements),
}

impl Answer {
    /// About its size in bytes.
    pub fn size(&self) -> usize {
        match self {
            Self::Branches(branches) => branches.iter().map(Branch::size).sum(),
            Self::PullRequests(requests) => requests.iter().map(PullRequest::size).sum(),
            Self::NoRepository(text) => text.len(),
            Self::Parameters(sets) => {
                sets.iter().flatten().map(|(key, value)| key.len() + size_of(value)).sum()
            }
            Self::Placements(found) => {
                found.resources.iter().map(|(name, list)| name.len() + size_of(list)).sum()
            }
        }
    }

    /// What tells its parts apart: something that was there and is not may have been missed
    /// between two pages.
    pub fn parts(&self) -> Vec<String> {
        match self {
            Self::Branches(branches) => branches
                .iter()
                .map(|one| {
                    let Repository { organization, name, .. } = &one.repository;
                    format!("{organization}/{name}@{}", one.name)
                })
                .collect(),
            Self::PullRequests(requests) => {
                requests.iter().map(|one| one.number.to_string()).collect()
            }
            Self::NoRepository(_) | Self::Parameters(_) | Self::Placements(_) => Vec::new(),
        }
    }
}

/// About the size of a value in memory.
fn size_of(value: &Value) -> usize {
    32 + match value {
        Value::String(text) => text.len(),
        Value::Array(list) => list.iter().map(size_of).sum(),
        Value::Object(object) => object.iter().map(|(key, value)| key.len() + size_of(value)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

/// A repository.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repository {
    /// Its organization, group, workspace, project or account.
    pub organization: String,
    /// Its name.
    pub name: String,
    /// What the server calls it in requests; the name when it is empty.
    pub slug: String,
    /// Its number or other identifier.
    pub id: String,
    /// Its URL.
    pub url: String,
    /// Its default branch; empty without commits.
    pub default_branch: String,
    /// Its labels or topics.
    pub labels: Vec<String>,
}

/// A branch of a repository.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Branch {
    /// Its repository.
    pub repository: Repository,
    /// Its name.
    pub name: String,
    /// Its last commit; empty where the server does not tell.
    pub sha: String,
}

impl Repository {
    /// What the server calls it in requests.
    pub fn slug(&self) -> &str {
        if self.slug.is_empty() { &self.name } else { &self.slug }
    }

    /// A branch of it.
    pub fn branch(&self, name: &str, sha: &str) -> Branch {
        Branch { repository: self.clone(), name: name.to_owned(), sha: sha.to_owned() }
    }
}

impl Branch {
    fn size(&self) -> usize {
        let Repository { organization, name, slug, id, url, default_branch, labels } =
            &self.repository;
        let texts = [organization, name, slug, id, url, default_branch, &self.name, &self.sha];
        texts.into_iter().chain(labels).map(|text| text.len() + 24).sum()
    }
}

/// A pull request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PullRequest {
    /// Its number.
    pub number: i64,
    /// Its title.
    pub title: String,
    /// The branch that it is about.
    pub branch: String,
    /// The branch that it is to be merged into.
    pub target_branch: String,
    /// The last commit of the branch.
    pub head_sha: String,
    /// Its labels.
    pub labels: Vec<String>,
    /// Who has opened it.
    pub author: String,
}

impl PullRequest {
    fn size(&self) -> usize {
        let texts = [&self.title, &self.branch, &self.target_branch, &self.head_sha, &self.author];
        texts.into_iter().chain(&self.labels).map(|text| text.len() + 24).sum()
    }
}

/// Placement resources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placements {
    /// The field of a decision that names a cluster.
    pub match_key: String,
    /// The field of the status with the decisions.
    pub list_key: String,
    /// The names of the resources, each with that field; null without one.
    pub resources: Vec<(String, Value)>,
}

/// Which servers may be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Whether the generators `scmProvider` and `pullRequest` may be used.
    pub enabled: bool,
    /// The addresses that generators may name; any when empty.
    pub allowed: Vec<String>,
}

impl Default for Rules {
    fn default() -> Self {
        Self { enabled: true, allowed: Vec::new() }
    }
}

/// The filters of a query, compiled.
#[derive(Debug, Default)]
pub struct Filters(Vec<Compiled>);

#[derive(Debug)]
struct Compiled {
    repository: Option<Regex>,
    label: Option<Regex>,
    branch: Option<Regex>,
    exist: Vec<String>,
    not_exist: Vec<String>,
}

/// Whether a branch counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selected {
    /// It does.
    Yes,
    /// It does not.
    No,
    /// Whether this path exists must be known first.
    Needs(String),
}

impl Filters {
    /// Compiles filters.
    ///
    /// # Errors
    ///
    /// The path of the expression that is invalid, such as `[1].branchMatch`, and why.
    pub fn new(filters: &[Filter]) -> Result<Self, (String, String)> {
        let compile = |(index, filter): (usize, &Filter)| {
            let expression = |field: &str, text: &Option<String>| {
                let place = || format!("[{index}].{field}");
                text.as_deref()
                    .map(|text| compile(text).map_err(|cause| (place(), cause)))
                    .transpose()
            };
            let paths = |paths: &[String]| -> Vec<String> {
                paths.iter().map(|path| path.trim_end_matches('/').to_owned()).collect()
            };
            Ok(Compiled {
                repository: expression("repositoryMatch", &filter.repository)?,
                label: expression("labelMatch", &filter.label)?,
                branch: expression("branchMatch", &filter.branch)?,
                exist: paths(&filter.exist),
                not_exist: paths(&filter.not_exist),
            })
        };
        filters.iter().enumerate().map(compile).collect::<Result<_, _>>().map(Self)
    }

    /// Whether a repository counts: the conditions on repositories of one of the filters that
    /// have some must hold, if there are any.
    pub fn repository(&self, repository: &Repository) -> bool {
        self.one_of_repositories(|one| one.holds_of(repository))
    }

    /// Whether a repository of this name may count, whatever its labels are.
    pub fn name(&self, name: &str) -> bool {
        self.one_of_repositories(|one| one.allows(name))
    }

    fn one_of_repositories(&self, holds: impl Fn(&Compiled) -> bool) -> bool {
        let mut of_repositories = self.0.iter().filter(|one| one.is_of_repositories()).peekable();
        of_repositories.peek().is_none() || of_repositories.any(holds)
    }

    /// Whether a branch of a repository that counts does: one of the filters with conditions
    /// on branches must hold, if there are any. `paths` are those that were looked up.
    ///
    /// The conditions on repositories of such a filter must hold, too, unless another filter,
    /// without conditions on branches, selects the repository: each branch that counts is
    /// selected by one filter as a whole.
    pub fn branch(&self, branch: &Branch, paths: &BTreeMap<String, bool>) -> Selected {
        let mut of_branches = self.0.iter().filter(|one| one.is_of_branches()).peekable();
        if of_branches.peek().is_none() {
            return Selected::Yes;
        }
        let mut others = self.0.iter().filter(|one| !one.is_of_branches());
        let is_selected =
            others.any(|one| one.is_of_repositories() && one.holds_of(&branch.repository));
        for filter in of_branches.filter(|one| is_selected || one.holds_of(&branch.repository)) {
            if filter.branch.as_ref().is_some_and(|name| !name.is_match(&branch.name)) {
                continue;
            }
            let wanted = filter.exist.iter().map(|path| (path, true));
            let mut all = wanted.chain(filter.not_exist.iter().map(|path| (path, false)));
            let undecided = all.find(|(path, wanted)| paths.get(*path) != Some(wanted));
            match undecided {
                None => return Selected::Yes,
                Some((path, _)) if !paths.contains_key(path) => {
                    return Selected::Needs(path.clone());
                }
                Some(_) => {}
            }
        }
        Selected::No
    }
}

impl Compiled {
    /// Whether it has conditions on repositories.
    fn is_of_repositories(&self) -> bool {
        self.repository.is_some() || self.label.is_some()
    }

    /// Whether it has conditions on branches.
    fn is_of_branches(&self) -> bool {
        self.branch.is_some() || !self.exist.is_empty() || !self.not_exist.is_empty()
    }

    /// Whether its conditions on repositories hold.
    fn holds_of(&self, repository: &Repository) -> bool {
        let label = self.label.as_ref();
        self.allows(&repository.name)
            && label.is_none_or(|label| repository.labels.iter().any(|one| label.is_match(one)))
    }

    /// Whether it says nothing against a name.
    fn allows(&self, name: &str) -> bool {
        self.repository.as_ref().is_none_or(|expression| expression.is_match(name))
    }
}

/// Compiles an expression.
pub(super) fn compile(text: &str) -> Result<Regex, String> {
    RegexBuilder::new(text)
        .size_limit(MAX_EXPRESSION)
        .build()
        .map_err(|error| format!("{text:?} is not a regular expression: {error}"))
}

#[cfg(test)]
mod tests;
