//! Which Applications a push concerns, by their sources and by the annotation
//! `argocd.argoproj.io/manifest-generate-paths` (SE-422).

use serde_json::Value;

use super::generators::is_at;
use super::{Push, Repository};
use wavegate_api::annotations::MANIFEST_GENERATE_PATHS;
use wavegate_api::glob::Glob;
use wavegate_api::live::LiveSource;
use wavegate_api::sources::InEffect;
use wavegate_api::{Raw, read_leniently};

/// Paths of one annotation that are compared; with more, every file counts.
const MAX_PATHS: usize = 100;
/// Steps of the comparison of files with paths for one Application, as of [`Glob::cost`];
/// beyond, every file counts.
const MAX_STEPS: u64 = 10_000_000;

/// Whether an Application deploys the repository of a push at one of its revisions, and may
/// use one of the changed files.
///
/// Only with the annotation the files decide: without it, or when the event does not report
/// all of them, each push counts.
pub fn deploys_push(application: &Value, push: &Push) -> bool {
    let annotation = application.annotation(MANIFEST_GENERATE_PATHS).unwrap_or_default();
    InEffect::of(application.spec()).list.iter().any(|source| {
        let LiveSource { repo_url, target_revision, path, .. } = read_leniently(source);
        !repo_url.is_empty()
            && push.repositories.iter().any(|repository| repository.is(&repo_url))
            && push.refs.iter().any(|changed| is_at(changed, &target_revision))
            && may_use(annotation, &path, &push.files)
    })
}

/// The repositories that an Application deploys; `None` for one that only a comparison finds.
pub fn deployed_repositories(application: &Value) -> Vec<Option<Repository>> {
    let sources = InEffect::of(application.spec());
    let urls = sources.list.iter().map(|source| {
        let LiveSource { repo_url, .. } = read_leniently(source);
        repo_url
    });
    urls.filter(|url: &String| !url.is_empty())
        .map(|url| Repository::without_templates(&url))
        .collect()
}

/// Whether one of the files is below one of the paths, or fits it as a pattern. A path that
/// begins with `/` starts at the root of the repository, another one at the path of the source.
fn may_use(annotation: &str, source: &str, files: &[String]) -> bool {
    let paths: Vec<String> = annotation
        .split(';')
        .map(str::trim)
        .filter(|path| !path.is_empty())
        .take(MAX_PATHS + 1)
        .map(|path| match path.strip_prefix('/') {
            Some(rooted) => cleaned(rooted),
            None => cleaned(&format!("{source}/{path}")),
        })
        .collect();
    if paths.is_empty() || paths.len() > MAX_PATHS || files.is_empty() {
        return true;
    }
    let mut steps: u64 = 0;
    let mut is_bounded = |cost: u64| {
        steps = steps.saturating_add(cost);
        steps <= MAX_STEPS
    };
    paths.iter().any(|path| {
        let pattern = path.contains(['*', '?', '[']).then(|| Glob::new(path));
        match pattern {
            // What is no pattern protects nobody from a refresh.
            Some(Err(_)) => true,
            Some(Ok(glob)) => {
                files.iter().any(|file| !is_bounded(glob.cost(file.len())) || glob.matches(file))
            }
            None => files.iter().any(|file| !is_bounded(1) || is_below(file, path)),
        }
    })
}

fn is_below(file: &str, folder: &str) -> bool {
    let rest = file.strip_prefix(folder);
    folder.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// A path without `.`, `..` and empty parts.
fn cleaned(path: &str) -> String {
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::{MAX_PATHS, may_use};

    #[test]
    fn the_annotation_limits_the_files_as_422() {
        let cases = [
            ("no annotation", "", "apps/a", "x.yaml", true),
            ("the path of the source", ".", "apps/a", "apps/a/x.yaml", true),
            ("a folder with a longer name", ".", "apps/a", "apps/ab/x.yaml", false),
            ("a relative path", "../base", "apps/a", "apps/base/x.yaml", true),
            ("a path from the root", "/shared", "apps/a", "shared/x.yaml", true),
            ("elsewhere", ".;/shared", "apps/a", "apps/b/x.yaml", false),
            ("a pattern", "/shared/*-secret.yaml", "apps/a", "shared/a-secret.yaml", true),
            ("a pattern that does not fit", "/shared/*-x.yaml", "apps/a", "shared/a.yaml", false),
            ("the root", "/", "apps/a", "x.yaml", true),
        ];
        for (name, annotation, source, file, want) in cases {
            assert_eq!(may_use(annotation, source, &[file.to_owned()]), want, "SE-422: {name}");
        }
        assert!(may_use(".", "apps/a", &[]), "SE-422: files that are not known");
        let paths = |count: usize| vec!["/shared"; count].join(";");
        let file = ["apps/a/x.yaml".to_owned()];
        assert!(!may_use(&paths(MAX_PATHS), "apps/a", &file));
        assert!(may_use(&paths(MAX_PATHS + 1), "apps/a", &file), "too many are as none");
    }
}
