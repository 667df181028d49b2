//! Which ApplicationSets a push concerns.

use serde_json::Value;

use super::repository::{fits, literals};
use super::{Push, Ref};

/// Generators are nested this deep at most.
const LEVELS: usize = 3;

/// Whether one of these generators reads the repository of a push at one of its revisions:
/// directly, or inside of matrix and merge generators.
pub fn uses(generators: &Value, push: &Push) -> bool {
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
        is_read
            || ["matrix", "merge"]
                .iter()
                .any(|kind| any(&generator[*kind]["generators"], push, levels))
    })
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
