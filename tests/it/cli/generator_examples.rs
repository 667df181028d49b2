//! The sets of `examples/generators` that read a repository; `docs/examples.rs` has the others.

use super::*;
use crate::support::repository::Repository;

/// Renders an example, with a local repository in place of the one that it names, and
/// returns each name with another field.
fn rendered(name: &str, remote: &str, local: &Repository, field: &str) -> Vec<(String, Value)> {
    let file = super::repository(&format!("examples/generators/{name}.yaml"));
    let text = std::fs::read_to_string(&file).unwrap();
    let named = format!("repoURL: {remote}");
    assert!(text.contains(&named), "{text}");
    let text = text.replace(&named, &format!("repoURL: {}", local.url()));
    let run = with_input(&["render", "-f", "-", "-o", "json"], text);
    assert_eq!((run.code, run.err.as_str()), (0, ""), "{name}");
    let items = run.json()["items"].as_array().unwrap().clone();
    let of = |app: &Value| {
        let name = app["metadata"]["name"].as_str().unwrap().to_owned();
        (name, app.pointer(field).cloned().unwrap_or_default())
    };
    items.iter().map(of).collect()
}

fn local(folder: &TempDir, files: &[(&str, &str)]) -> Repository {
    let repository = Repository::new(folder.path().join("repository"));
    let files: Vec<(String, String)> =
        files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
    repository.commit("files", &files);
    repository
}

#[track_caller]
fn is(got: &[(String, Value)], want: &[(&str, &str)]) {
    let got: Vec<(&str, &str)> =
        got.iter().map(|(name, value)| (name.as_str(), value.as_str().unwrap())).collect();
    assert_eq!(got, want);
}

#[test]
fn examples_of_git_directories_and_files_render() {
    let folder = tempfile::tempdir().unwrap();
    let repository = local(
        &folder,
        &[
            ("guestbook/app.yaml", ""),
            ("helm-guestbook/Chart.yaml", ""),
            ("Apps/inner/app.yaml", ""),
            (".github/workflow.yaml", ""),
        ],
    );
    let remote = "https://github.com/argoproj/argocd-example-apps.git";
    let got = rendered("git-directories", remote, &repository, "/spec/source/path");
    is(&got, &[("apps", "Apps"), ("guestbook", "guestbook")]);

    let folder = tempfile::tempdir().unwrap();
    let repository = local(
        &folder,
        &[
            ("teams/blue/app.yaml", "app: {name: shop, repoURL: https://git.example.com/shop}"),
            (
                "teams/red/dev/app.yaml",
                "- app: {name: one, repoURL: r1, revision: v1}\n- app: {name: two, repoURL: r2}",
            ),
            ("teams/archive/app.yaml", "app: {name: old, repoURL: r}"),
        ],
    );
    let remote = "https://git.example.com/platform/settings.git";
    let got = rendered("git-files", remote, &repository, "/spec/source/targetRevision");
    is(&got, &[("blue-shop", "HEAD"), ("red-one", "v1"), ("red-two", "HEAD")]);
}
