//! The scmProvider generator: one parameter set per repository of an organization, or per
//! branch of it.

use serde_json::{Map, Value};

use super::element::{Element, Failure};
use super::fields::Fields;
use super::git::requeue;
use super::provider_fields::{self as read, Named};
use super::scope::{Generator, GeneratorScope};
use crate::desired::inputs::PROVIDER_REQUEUE_AFTER;
use crate::desired::queries::{
    self, Answer, Branch, Filter, Filters, Login, Query, QueryKind, Repository, ScmRepositories,
};
use crate::desired::texts::Texts;
use gotemplate::normalize_name;

/// The scmProvider generator.
pub struct ScmProvider;

const PROVIDERS: [Named; 7] = [
    ("github", QueryKind::GitHub),
    ("gitlab", QueryKind::GitLab),
    ("gitea", QueryKind::Gitea),
    ("bitbucketServer", QueryKind::BitbucketServer),
    ("azureDevOps", QueryKind::AzureDevOps),
    ("bitbucket", QueryKind::Bitbucket),
    ("awsCodeCommit", QueryKind::CodeCommit),
];

impl Generator for ScmProvider {
    fn key(&self) -> &'static str {
        "scmProvider"
    }

    fn fields(&self) -> &'static [&'static str] {
        &[
            "github",
            "gitlab",
            "gitea",
            "bitbucket",
            "bitbucketServer",
            "azureDevOps",
            "awsCodeCommit",
            "filters",
            "cloneProtocol",
            "requeueAfterSeconds",
            "values",
            "template",
        ]
    }

    fn declare<'a>(
        &self,
        generator: &'a Value,
        scope: &mut GeneratorScope<'_, '_>,
    ) -> Result<&'a [Value], Failure> {
        read::enabled(scope)?;
        read::only(generator, &PROVIDERS)?;
        requeue(generator, PROVIDER_REQUEUE_AFTER, scope)?;
        Ok(&[])
    }

    fn generate(
        &self,
        generator: &Value,
        scope: &mut GeneratorScope<'_, '_>,
    ) -> Result<Vec<Element>, Failure> {
        read::enabled(scope)?;
        let query = query(generator, scope)?;
        Filters::new(&query.filters)
            .map_err(|(place, cause)| Failure::new(format!("filters{place}"), cause))?;
        let Some(answer) = scope.ask(Query::Repositories(query))? else { return Ok(Vec::new()) };
        let branches = match &*answer.map_err(|cause| Failure::new("", cause))? {
            Answer::Branches(branches) => branches.clone(),
            _ => return Err(Failure::new("", "was answered with something else than branches")),
        };
        let mut elements = Vec::with_capacity(branches.len());
        for branch in &branches {
            let Repository { organization, name, .. } = &branch.repository;
            let mut values = parameters(branch);
            let mut texts = Texts::default();
            scope.add_values(generator, &mut values, &mut texts)?;
            scope.count(&values)?;
            let field = format!("[{organization}/{name}@{}]", branch.name);
            elements.push(Element { field, values, texts });
        }
        Ok(elements)
    }
}

/// The first characters of a commit.
pub(super) fn short(sha: &str, length: usize) -> &str {
    sha.char_indices().nth(length).map_or(sha, |(at, _)| &sha[..at])
}

fn parameters(branch: &Branch) -> Map<String, Value> {
    let Branch { repository, name, sha } = branch;
    let texts = [
        ("organization", repository.organization.clone()),
        ("repository", repository.name.clone()),
        ("repository_id", repository.id.clone()),
        ("url", repository.url.clone()),
        ("branch", name.clone()),
        ("branchNormalized", normalize_name(name)),
        ("sha", sha.clone()),
        ("short_sha", short(sha, 8).to_owned()),
        ("short_sha_7", short(sha, 7).to_owned()),
        ("labels", repository.labels.join(",")),
    ];
    texts.into_iter().map(|(key, text)| (key.to_owned(), text.into())).collect()
}

fn query(generator: &Value, scope: &GeneratorScope<'_, '_>) -> Result<ScmRepositories, Failure> {
    let (key, kind) = read::only(generator, &PROVIDERS)?;
    let provider = &generator[key];
    let fields = |known: &[&str]| Fields::of(provider, key, known);
    let mut found = queries::Scope::default();
    let (owner, project, login, fields) = match kind {
        QueryKind::GitHub => {
            let known = [
                "organization",
                "api",
                "tokenRef",
                "appSecretName",
                "allBranches",
                "excludeArchivedRepos",
            ];
            let fields = fields(&known)?;
            found.archived = !fields.switch("excludeArchivedRepos", false)?;
            let login = read::app_or_token(&fields)?;
            (fields.required("organization")?, String::new(), login, fields)
        }
        QueryKind::GitLab => {
            let known = [
                "group",
                "includeSubgroups",
                "api",
                "tokenRef",
                "allBranches",
                "insecure",
                "includeSharedProjects",
                "topic",
                "caRef",
                "includeArchivedRepos",
            ];
            let fields = fields(&known)?;
            found.archived = fields.switch("includeArchivedRepos", false)?;
            found.subgroups = fields.switch("includeSubgroups", false)?;
            found.shared = fields.switch("includeSharedProjects", true)?;
            found.topic = fields.text("topic")?;
            let login = read::token(&fields, "tokenRef")?;
            (fields.required("group")?, String::new(), login, fields)
        }
        QueryKind::Gitea => {
            let known =
                ["owner", "api", "tokenRef", "allBranches", "insecure", "excludeArchivedRepos"];
            let fields = fields(&known)?;
            found.archived = !fields.switch("excludeArchivedRepos", false)?;
            let login = read::token(&fields, "tokenRef")?;
            (fields.required("owner")?, String::new(), login, fields)
        }
        QueryKind::Bitbucket => {
            let fields = fields(&["owner", "user", "appPasswordRef", "allBranches"])?;
            let Some(password) = fields.secret("appPasswordRef")? else {
                return Err(fields.missing("appPasswordRef"));
            };
            let login = Login::Basic { user: fields.required("user")?, password };
            (fields.required("owner")?, String::new(), login, fields)
        }
        QueryKind::BitbucketServer => {
            let known =
                ["project", "api", "basicAuth", "bearerToken", "allBranches", "insecure", "caRef"];
            let fields = fields(&known)?;
            let login = read::bearer_or_basic(&fields)?;
            (fields.required("project")?, String::new(), login, fields)
        }
        QueryKind::AzureDevOps => {
            let known = ["organization", "api", "teamProject", "accessTokenRef", "allBranches"];
            let fields = fields(&known)?;
            let Some(token) = fields.secret("accessTokenRef")? else {
                return Err(fields.missing("accessTokenRef"));
            };
            let project = fields.required("teamProject")?;
            (fields.required("organization")?, project, Login::Token(token), fields)
        }
        QueryKind::CodeCommit => {
            let fields = fields(&["tagFilters", "role", "region", "allBranches"])?;
            for (place, tag) in fields.objects("tagFilters")? {
                let tag = Fields::of(tag, &place, &["key", "value"])?;
                let values = found.tags.entry(tag.required("key")?).or_default();
                values.extend(Some(tag.text("value")?).filter(|value| !value.is_empty()));
            }
            let login = Login::Role { role: fields.text("role")?, region: fields.text("region")? };
            (String::new(), String::new(), login, fields)
        }
    };
    let provider = read::provider(kind, key, &fields, login, scope)?;
    Ok(ScmRepositories {
        provider,
        owner,
        project,
        all_branches: fields.switch("allBranches", false)?,
        clone_protocol: clone_protocol(kind, generator)?,
        scope: found,
        filters: filters(generator)?,
    })
}

/// The protocol of the URLs.
fn clone_protocol(kind: QueryKind, generator: &Value) -> Result<String, Failure> {
    let protocol = super::element::text(generator, "cloneProtocol")?;
    match protocol {
        "" | "ssh" | "https" => Ok(protocol.to_owned()),
        "https-fips" if kind == QueryKind::CodeCommit => Ok(protocol.to_owned()),
        other => {
            let cause = format!(
                "{other:?} is not a protocol of {}; write ssh or https{}",
                kind.name(),
                if kind == QueryKind::CodeCommit { " or https-fips" } else { "" }
            );
            Err(Failure::new("cloneProtocol", cause))
        }
    }
}

fn filters(generator: &Value) -> Result<Vec<Filter>, Failure> {
    let known = ["repositoryMatch", "pathsExist", "pathsDoNotExist", "labelMatch", "branchMatch"];
    let list = super::element::list_of(generator, "filters")?;
    let filter = |(index, filter): (usize, &Value)| {
        let fields = Fields::of(filter, &format!("filters[{index}]"), &known)?;
        Ok(Filter {
            repository: fields.optional("repositoryMatch")?,
            label: fields.optional("labelMatch")?,
            branch: fields.optional("branchMatch")?,
            exist: fields.texts("pathsExist")?,
            not_exist: fields.texts("pathsDoNotExist")?,
        })
    };
    list.iter().enumerate().map(filter).collect()
}
