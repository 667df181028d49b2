//! Which ApplicationSets a push or a changed pull request concerns.

use serde_json::Value;

use super::repository::{fits, literals};
use super::{ChangedPullRequest, Provider, Push, Ref};

/// Generators are nested this deep at most.
const LEVELS: usize = 3;

/// Whether one of these generators reads the repository of a push at one of its revisions, or
/// the pull requests of which one has changed: directly, or inside of matrix and merge
/// generators. What a plugin reads is not known, so it is asked after each event.
pub fn uses_push(generators: &Value, push: &Push) -> bool {
    any(generators, push, LEVELS)
}

fn any(generators: &Value, push: &Push, levels: usize) -> bool {
    let Some(levels) = levels.checked_sub(1) else { return false };
    let generators = generators.as_array().map(Vec::as_slice).unwrap_or_default();
    generators.iter().any(|generator| {
        let git = &generator["git"];
        let is_read = git.is_object() && {
            let text = |field: &str| git[field].as_str().unwrap_or_default();
            let (url, revision) = (text("repoURL"), text("revision"));
            push.repositories.iter().any(|repository| repository.is(url))
                && push.refs.iter().any(|changed| is_at(changed, revision))
        };
        let is_listed = push
            .pull_request
            .as_ref()
            .is_some_and(|changed| lists(&generator["pullRequest"], push, changed));
        is_read
            || is_listed
            || generator["plugin"].is_object()
            || ["matrix", "merge"]
                .iter()
                .any(|kind| any(&generator[*kind]["generators"], push, levels))
    })
}

/// Whether a pullRequest generator lists this pull request.
fn lists(generator: &Value, push: &Push, changed: &ChangedPullRequest) -> bool {
    let key = match changed.provider {
        Provider::GitHub => "github",
        Provider::GitLab => "gitlab",
        Provider::AzureDevOps => "azuredevops",
        // Only their pushes are read, as in Argo CD.
        Provider::Gogs | Provider::Bitbucket | Provider::BitbucketServer => return false,
    };
    let of = &generator[key];
    let text = |field: &str| of[field].as_str().unwrap_or_default();
    if !of.is_object() {
        return false;
    }
    let server = |public: &str, suffix: &str| match text("api").trim_end_matches('/') {
        "" => public.to_owned(),
        api => api.strip_suffix(suffix).unwrap_or(api).replacen("://api.", "://", 1),
    };
    let url = match changed.provider {
        Provider::GitHub => {
            let server = server("https://github.com", "/api/v3");
            format!("{server}/{}/{}", text("owner"), text("repo"))
        }
        Provider::GitLab => {
            let project = text("project");
            if let (Ok(number), Some(changed)) = (project.parse::<u64>(), changed.project) {
                return number == changed;
            }
            format!("{}/{project}", server("https://gitlab.com", "/api/v4"))
        }
        Provider::AzureDevOps => {
            let server = server("https://dev.azure.com", "");
            let path = [text("organization"), text("project"), "_git", text("repo")].join("/");
            format!("{server}/{path}")
        }
        Provider::Gogs | Provider::Bitbucket | Provider::BitbucketServer => return false,
    };
    push.repositories.iter().any(|repository| repository.is(&url))
}

/// Whether a revision of a generator is this branch or tag, as far as that is known.
pub(super) fn is_at(changed: &Ref, revision: &str) -> bool {
    let revision = revision.trim();
    if let Some(pattern) = literals(revision) {
        let names = [changed.name.as_str(), changed.short()];
        let head = ["HEAD", ""].into_iter().filter(|_| changed.is_default);
        return names.into_iter().chain(head).any(|name| fits(&pattern, name));
    }
    match revision {
        "" | "HEAD" => changed.is_default,
        _ if revision.starts_with("refs/") => revision == changed.name,
        _ => revision == changed.short() || (changed.is_tag() && may_be_range(revision)),
    }
}

/// Whether a revision may be a range of versions, which any new tag may change.
fn may_be_range(revision: &str) -> bool {
    let is_operator = |c: char| c.is_whitespace() || "*^~<>=|!,".contains(c);
    let is_part =
        |part: &str| part.chars().all(|c| c.is_ascii_digit()) || matches!(part, "x" | "X");
    revision.contains(is_operator) || revision.trim_start_matches('v').split('.').all(is_part)
}
