//! The pullRequest generator: one parameter set per open pull request of a repository.

use regex::Regex;
use serde_json::{Map, Value};

use super::element::{Failure, list_of};
use super::fields::Fields;
use super::provider_fields::{self as read, Named};
use super::scm_provider::short;
use super::scope::{Generator, GeneratorScope, ParameterSets};
use crate::desired::queries::{Answer, PullRequest, PullRequests, Query, QueryKind, compile};
use crate::desired::texts::Texts;
use gotemplate::slugify_name;

const PROVIDERS: [Named; 6] = [
    ("github", QueryKind::GitHub),
    ("gitlab", QueryKind::GitLab),
    ("gitea", QueryKind::Gitea),
    ("bitbucketServer", QueryKind::BitbucketServer),
    ("bitbucket", QueryKind::Bitbucket),
    ("azuredevops", QueryKind::AzureDevOps),
];

/// The longest slug of a branch: a name of 63 characters has room for a prefix.
const SLUG: usize = 50;

/// The pullRequest generator.
pub(super) static PULL_REQUEST: Generator = Generator {
    declare,
    ..Generator::new(
        "pullRequest",
        &[
            "github",
            "gitlab",
            "gitea",
            "bitbucketServer",
            "bitbucket",
            "azuredevops",
            "filters",
            "continueOnRepoNotFoundError",
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
    let filters = filters(generator)?;
    let goes_on = match &generator["continueOnRepoNotFoundError"] {
        Value::Null => false,
        Value::Bool(value) => *value,
        _ => {
            let cause = "must be a boolean";
            return Err(Failure::new("continueOnRepoNotFoundError", cause));
        }
    };
    let (query, labels) = query(generator, scope)?;
    let place = Query::PullRequests(query.clone()).place();
    let Some(answer) = scope.ask(Query::PullRequests(query))? else { return Ok(Vec::new()) };
    let requests = match &*answer {
        Answer::PullRequests(requests) => {
            scope.may_end();
            requests.as_slice()
        }
        Answer::NoRepository(cause) if goes_on => {
            scope.warn(&format!("pullRequest: {cause}; it has no pull requests"));
            &[]
        }
        Answer::NoRepository(cause) => {
            let cause = format!(
                "{cause}; continueOnRepoNotFoundError: true generates nothing for it instead"
            );
            return Err(Failure::new("", cause));
        }
        _ => return Err(Failure::new("", format!("{place}: is no list of pull requests"))),
    };
    let mut elements = Vec::new();
    for request in requests {
        let has_labels = labels.iter().all(|label| request.labels.contains(label));
        let is_selected = filters.is_empty() || filters.iter().any(|one| one.selects(request));
        if !has_labels || !is_selected {
            continue;
        }
        let values = parameters(request, scope.is_go());
        let field = format!("[{}]", request.number);
        elements.push(scope.element(generator, field, values, Texts::default())?);
    }
    Ok(elements)
}

fn parameters(request: &PullRequest, go: bool) -> Map<String, Value> {
    let PullRequest { number, title, branch, target_branch, head_sha, labels, author } = request;
    let slug = |text: &str| slugify_name(SLUG, true, text);
    let texts = [
        ("number", number.to_string()),
        ("title", title.clone()),
        ("branch", branch.clone()),
        ("branch_slug", slug(branch)),
        ("target_branch", target_branch.clone()),
        ("target_branch_slug", slug(target_branch)),
        ("head_sha", head_sha.clone()),
        ("head_short_sha", short(head_sha, 8).to_owned()),
        ("head_short_sha_7", short(head_sha, 7).to_owned()),
        ("author", author.clone()),
    ];
    let mut parameters: Map<String, Value> =
        texts.into_iter().map(|(key, text)| (key.to_owned(), text.into())).collect();
    if go {
        parameters.insert("labels".to_owned(), labels.clone().into());
    }
    parameters
}

/// The query, and the labels that its pull requests must have.
fn query(
    generator: &Value,
    scope: &GeneratorScope<'_, '_>,
) -> Result<(PullRequests, Vec<String>), Failure> {
    let (key, kind) = read::only(generator, &PROVIDERS)?;
    // Its fields, and which of them name the owner, the project and the repository.
    let (known, owner, project, repository): (&[&str], _, _, _) = match kind {
        QueryKind::GitHub => {
            let known = &["owner", "repo", "api", "tokenRef", "appSecretName", "labels"];
            (known, Some("owner"), None, "repo")
        }
        QueryKind::GitLab => {
            let known =
                &["project", "api", "tokenRef", "labels", "pullRequestState", "insecure", "caRef"];
            (known, None, None, "project")
        }
        QueryKind::Gitea => {
            let known = &["owner", "repo", "api", "tokenRef", "insecure", "labels"];
            (known, Some("owner"), None, "repo")
        }
        QueryKind::BitbucketServer => {
            let known =
                &["project", "repo", "api", "basicAuth", "bearerToken", "insecure", "caRef"];
            (known, Some("project"), None, "repo")
        }
        QueryKind::AzureDevOps => {
            let known = &["organization", "project", "repo", "api", "tokenRef", "labels"];
            (known, Some("organization"), Some("project"), "repo")
        }
        QueryKind::Bitbucket | QueryKind::CodeCommit => {
            (&["owner", "repo", "api", "basicAuth", "bearerToken"], Some("owner"), None, "repo")
        }
    };
    let fields = Fields::of(&generator[key], key, known)?;
    let named = |field: Option<&str>| field.map_or(Ok(String::new()), |key| fields.required(key));
    let (labels, state) = (fields.texts("labels")?, fields.text("pullRequestState")?);
    let login = match kind {
        QueryKind::GitHub => read::app_or_token(&fields)?,
        QueryKind::GitLab | QueryKind::Gitea | QueryKind::AzureDevOps => {
            read::token(&fields, "tokenRef")?
        }
        _ => read::bearer_or_basic(&fields)?,
    };
    let (project, owner) = (named(project)?, named(owner)?);
    let repository = fields.required(repository)?;
    let provider = read::provider(kind, key, &fields, login, scope)?;
    // GitLab compares them by rules of its own.
    let (asked, labels) = match kind {
        QueryKind::GitLab => (labels, Vec::new()),
        _ => (Vec::new(), labels),
    };
    let query = PullRequests { provider, owner, project, repository, labels: asked, state };
    Ok((query, labels))
}

/// A filter; absent conditions hold.
struct Filter {
    branch: Option<Regex>,
    target_branch: Option<Regex>,
    title: Option<Regex>,
}

impl Filter {
    fn selects(&self, request: &PullRequest) -> bool {
        let holds = |condition: &Option<Regex>, text: &str| {
            condition.as_ref().is_none_or(|expression| expression.is_match(text))
        };
        holds(&self.branch, &request.branch)
            && holds(&self.target_branch, &request.target_branch)
            && holds(&self.title, &request.title)
    }
}

fn filters(generator: &Value) -> Result<Vec<Filter>, Failure> {
    let known = ["branchMatch", "targetBranchMatch", "titleMatch"];
    let filter = |(index, filter): (usize, &Value)| {
        let place = format!("filters[{index}]");
        let fields = Fields::of(filter, &place, &known)?;
        let expression = |key: &str| {
            let text = fields.optional(key)?;
            let failed = |cause| Failure::new(format!("{place}.{key}"), cause);
            text.map(|text| compile(&text).map_err(failed)).transpose()
        };
        Ok(Filter {
            branch: expression("branchMatch")?,
            target_branch: expression("targetBranchMatch")?,
            title: expression("titleMatch")?,
        })
    };
    list_of(generator, "filters")?.iter().enumerate().map(filter).collect()
}
