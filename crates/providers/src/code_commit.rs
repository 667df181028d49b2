//! AWS CodeCommit: API 2015-04-13, and the tagging API 2017-01-26.

use serde::Deserialize;
use serde_json::{Value, json};

use super::aws::{self, Service};
use super::failure::{ProviderError, existing};
use super::http::{Listing, Pages, path_segments};
use super::providers::{Asker, Providers};
use wavegate_rollout::desired::queries::{Branch, Login, Repository, ScmRepositories};

/// Limit on the pages of a list.
const MAX_PAGES: usize = 1_000;
/// Before the host in URLs, and the same for validated cryptography.
const HOST: &str = "https://git-codecommit.";
const HOST_FIPS: &str = "https://git-codecommit-fips.";

/// The repositories of an account in a region.
#[derive(Debug)]
pub(super) struct CodeCommit {
    service: Service,
    tagging: Service,
    query: ScmRepositories,
}

/// A repository in a list of either service.
#[derive(Deserialize, Default)]
struct Listed {
    #[serde(rename = "repositoryName")]
    name: Option<String>,
    #[serde(rename = "ResourceARN")]
    arn: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Found {
    repository_metadata: Metadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    account_id: String,
    repository_name: String,
    repository_id: String,
    #[serde(default)]
    default_branch: Option<String>,
    clone_url_ssh: String,
    clone_url_http: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Folder {
    sub_folders: Vec<Entry>,
    files: Vec<Entry>,
    symbolic_links: Vec<Entry>,
    sub_modules: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    relative_path: String,
}

impl CodeCommit {
    pub async fn open(
        providers: &Providers,
        query: ScmRepositories,
        asker: &Asker,
    ) -> Result<Self, ProviderError> {
        let (role, region) = match &query.provider.login {
            Login::Role { role, region } => (role.as_str(), region.as_str()),
            _ => ("", ""),
        };
        let region = aws::region(providers, region)?;
        let identity = aws::identity(providers, role, &region, asker).await?;
        let pem = providers.root_ca().await?;
        let service = |name: &'static str| {
            Ok(Service {
                api: aws::api(providers, name, &region, asker, pem.as_deref())?,
                name,
                region: region.clone(),
                identity: identity.clone(),
            })
        };
        Ok(Self { service: service("codecommit")?, tagging: service("tagging")?, query })
    }

    async fn call<T: serde::de::DeserializeOwned>(
        &self,
        operation: &str,
        body: &Value,
    ) -> Result<T, ProviderError> {
        let target = format!("CodeCommit_20150413.{operation}");
        let reply = self.service.call(&target, body).await;
        reply.map_err(|failure| failure.of(operation))?.json()
    }

    /// The pages of a list in `field`; `token` is the field of both with the next one.
    async fn list(
        service: &Service,
        target: &str,
        mut body: Value,
        (field, token): (&str, &str),
    ) -> Listing<Value> {
        let operation = target.rsplit('.').next().unwrap_or(target);
        let mut items = Vec::new();
        for page in 1..=MAX_PAGES {
            let reply = service.call(target, &body).await;
            let reply: Value = reply.map_err(|failure| failure.of(operation))?.json()?;
            let Value::Array(more) = &reply[field] else {
                return Err(ProviderError::new(format!("the answer has no list {field}")));
            };
            items.extend(more.iter().cloned());
            match &reply[token] {
                Value::Null => return Ok(Pages { items, several: page > 1 }),
                Value::String(next) if next.is_empty() => {
                    return Ok(Pages { items, several: page > 1 });
                }
                Value::String(next) if body[token] == next.as_str() => {
                    let why = "the server names the same page again as the next one";
                    return Err(ProviderError::new(format!("{operation}: page {page}: {why}")));
                }
                // What follows would be missing.
                Value::String(next) => body[token] = next.as_str().into(),
                _ => {
                    let why = format!("{token} must be a string");
                    return Err(ProviderError::new(format!("{operation}: page {page}: {why}")));
                }
            }
        }
        Err(ProviderError::new(format!("limit exceeded: the list has more than {MAX_PAGES} pages")))
    }

    async fn names(&self) -> Listing<String> {
        let tags = &self.query.scope.tags;
        let listed = if tags.is_empty() {
            let target = "CodeCommit_20150413.ListRepositories";
            Self::list(&self.service, target, json!({}), ("repositories", "nextToken")).await?
        } else {
            let filters: Vec<Value> = tags
                .iter()
                .map(|(key, values)| match values.is_empty() {
                    true => json!({"Key": key}),
                    false => json!({"Key": key, "Values": values}),
                })
                .collect();
            let body = json!({
                "ResourceTypeFilters": ["codecommit:repository"], "TagFilters": filters,
            });
            let target = "ResourceGroupsTaggingAPI_20170126.GetResources";
            let fields = ("ResourceTagMappingList", "PaginationToken");
            Self::list(&self.tagging, target, body, fields).await?
        };
        listed.try_map(|item| {
            let Listed { name, arn } = serde_json::from_value(item).unwrap_or_default();
            // arn:aws:codecommit:REGION:ACCOUNT:NAME
            let of_arn = || Some(arn?.splitn(6, ':').nth(5)?.to_owned());
            let missing = || ProviderError::new("a repository of the answer has no name");
            name.or_else(of_arn).ok_or_else(missing)
        })
    }

    pub async fn repositories(&self) -> Listing<Repository> {
        let Pages { items, several } = self.names().await?;
        let mut repositories = Vec::new();
        for name in items {
            let body = json!({"repositoryName": name});
            let Found { repository_metadata: one } = self.call("GetRepository", &body).await?;
            // One without a default branch has no commits.
            let Some(default_branch) = one.default_branch.filter(|name| !name.is_empty()) else {
                continue;
            };
            let url = match self.query.clone_protocol.as_str() {
                "https" => one.clone_url_http,
                "https-fips" => match one.clone_url_http.strip_prefix(HOST) {
                    Some(rest) => format!("{HOST_FIPS}{rest}"),
                    None if one.clone_url_http.starts_with(HOST_FIPS) => one.clone_url_http,
                    None => {
                        let text = format!("{name}: its URL has no form for https-fips");
                        return Err(ProviderError::new(text));
                    }
                },
                _ => one.clone_url_ssh,
            };
            repositories.push(Repository {
                organization: one.account_id,
                name: one.repository_name,
                id: one.repository_id,
                url,
                default_branch,
                ..Repository::default()
            });
        }
        Ok(Pages { items: repositories, several })
    }

    /// The branches, without their commits: each would be a request.
    pub async fn branches(&self, repository: &Repository) -> Listing<Branch> {
        if !self.query.all_branches {
            return Ok(Pages::one([repository.branch(&repository.default_branch, "")]));
        }
        let body = json!({"repositoryName": repository.name});
        let target = "CodeCommit_20150413.ListBranches";
        let listed = Self::list(&self.service, target, body, ("branches", "nextToken")).await?;
        listed.try_map(|name| {
            let missing = || ProviderError::new("ListBranches: a branch of the answer has no name");
            Ok(repository.branch(name.as_str().ok_or_else(missing)?, ""))
        })
    }

    pub async fn has_path(&self, branch: &Branch, path: &str) -> Result<bool, ProviderError> {
        let path = path_segments(path).map(|_| path.trim_matches('/').to_owned())?;
        if path.is_empty() {
            return Ok(true);
        }
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", &path));
        let body = json!({
            "repositoryName": branch.repository.name,
            "commitSpecifier": branch.name,
            "folderPath": format!("/{parent}"),
        });
        let folder: Option<Folder> = existing(self.call("GetFolder", &body).await)?;
        let Some(folder) = folder else { return Ok(false) };
        let Folder { sub_folders, files, symbolic_links, sub_modules } = folder;
        let all = [sub_folders, files, symbolic_links, sub_modules];
        Ok(all.into_iter().flatten().any(|entry| entry.relative_path == name))
    }
}
