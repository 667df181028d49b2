//! The scmProvider generator: one parameter set per repository of an organization, or per
//! branch of it.

use serde_json::{Map, Value};

use super::element::Failure;
use super::fields::Fields;
use super::provider_fields::{self as read, Named};
use super::scope::{Generator, GeneratorScope, ParameterSets};
use crate::desired::queries::{
    self, Answer, Branch, Filter, Filters, Login, Query, QueryKind, Repository, ScmRepositories,
};
use crate::desired::texts::Texts;
use gotemplate::normalize_name;

const PROVIDERS: [Named; 7] = [
    ("github", QueryKind::GitHub),
    ("gitlab", QueryKind::GitLab),
    ("gitea", QueryKind::Gitea),
    ("bitbucketServer", QueryKind::BitbucketServer),
    ("azureDevOps", QueryKind::AzureDevOps),
    ("bitbucket", QueryKind::Bitbucket),
    ("awsCodeCommit", QueryKind::CodeCommit),
];

/// The scmProvider generator.
pub(super) static SCM_PROVIDER: Generator = Generator {
    declare,
    ..Generator::new(
        "scmProvider",
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
        ],
        generate,
    )
};

fn declare<'a>(
    generator: &'a Value,
    scope: &GeneratorScope<'_, '_>,
) -> Result<&'a [Value], Failure> {
    read::enabled(scope)?;
    read::only(generator, &PROVIDERS)?;
    Ok(&[])
}

fn generate(generator: &Value, scope: &mut GeneratorScope<'_, '_>) -> ParameterSets {
    read::enabled(scope)?;
    let query = query(generator, scope)?;
    Filters::new(&query.filters)
        .map_err(|(place, cause)| Failure::new(format!("filters{place}"), cause))?;
    let Some(answer) = scope.ask(Query::Repositories(query))? else { return Ok(Vec::new()) };
    let Answer::Branches(branches) = &*answer else {
        return Err(Failure::new("", "was answered with something else than branches"));
    };
    let mut elements = Vec::with_capacity(branches.len());
    for branch in branches {
        let Repository { organization, name, .. } = &branch.repository;
        let field = format!("[{organization}/{name}@{}]", branch.name);
        elements.push(scope.element(generator, field, parameters(branch), Texts::default())?);
    }
    Ok(elements)
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
    // Its fields, and which of them names the owner.
    let (known, owner): (&[&str], _) = match kind {
        QueryKind::GitHub => {
            let known = &[
                "organization",
                "api",
                "tokenRef",
                "appSecretName",
                "allBranches",
                "excludeArchivedRepos",
            ];
            (known, Some("organization"))
        }
        QueryKind::GitLab => {
            let known = &[
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
            (known, Some("group"))
        }
        QueryKind::Gitea => {
            let known =
                &["owner", "api", "tokenRef", "allBranches", "insecure", "excludeArchivedRepos"];
            (known, Some("owner"))
        }
        QueryKind::Bitbucket => {
            (&["owner", "user", "appPasswordRef", "allBranches"], Some("owner"))
        }
        QueryKind::BitbucketServer => {
            let known =
                &["project", "api", "basicAuth", "bearerToken", "allBranches", "insecure", "caRef"];
            (known, Some("project"))
        }
        QueryKind::AzureDevOps => {
            let known = &["organization", "api", "teamProject", "accessTokenRef", "allBranches"];
            (known, Some("organization"))
        }
        QueryKind::CodeCommit => (&["tagFilters", "role", "region", "allBranches"], None),
    };
    let fields = Fields::of(&generator[key], key, known)?;
    let mut found = queries::Scope {
        archived: match known.contains(&"excludeArchivedRepos") {
            true => !fields.switch("excludeArchivedRepos", false)?,
            false => fields.switch("includeArchivedRepos", false)?,
        },
        subgroups: fields.switch("includeSubgroups", false)?,
        shared: fields.switch("includeSharedProjects", kind == QueryKind::GitLab)?,
        topic: fields.text("topic")?,
        ..queries::Scope::default()
    };
    for (place, tag) in fields.objects("tagFilters")? {
        let tag = Fields::of(tag, &place, &["key", "value"])?;
        let values = found.tags.entry(tag.required("key")?).or_default();
        values.extend(Some(tag.text("value")?).filter(|value| !value.is_empty()));
    }
    let secret = |key: &str| fields.secret(key)?.ok_or_else(|| fields.missing(key));
    let login = match kind {
        QueryKind::GitHub => read::app_or_token(&fields)?,
        QueryKind::GitLab | QueryKind::Gitea => read::token(&fields, "tokenRef")?,
        QueryKind::Bitbucket => {
            let password = secret("appPasswordRef")?;
            Login::Basic { user: fields.required("user")?, password }
        }
        QueryKind::BitbucketServer => read::bearer_or_basic(&fields)?,
        QueryKind::AzureDevOps => Login::Token(secret("accessTokenRef")?),
        QueryKind::CodeCommit => {
            Login::Role { role: fields.text("role")?, region: fields.text("region")? }
        }
    };
    let project = match kind {
        QueryKind::AzureDevOps => fields.required("teamProject")?,
        _ => String::new(),
    };
    let owner = owner.map_or(Ok(String::new()), |owner| fields.required(owner))?;
    Ok(ScmRepositories {
        provider: read::provider(kind, key, &fields, login, scope)?,
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
