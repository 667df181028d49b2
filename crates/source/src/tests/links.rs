//! Links that lead out of a repository.

use std::os::unix::fs::symlink;

use serde_json::json;

use super::render::{ECHO, Source};
use super::{Upstream, repositories, settings, write};

/// SE-097: who writes a repository must not learn which files of the machine exist. So a link
/// out of it, itself or by another link, is refused in the same way when its target is missing.
#[tokio::test]
async fn a_link_out_does_not_say_what_is_there_se_097() {
    let outside = tempfile::tempdir().unwrap();
    write(outside.path(), "there", "a: 1\n");
    std::fs::create_dir(outside.path().join("folder")).unwrap();
    let edited = json!({"path": ".", "kustomize": {"namePrefix": "x-"}});
    let plain = json!({"path": "."});
    let cases: [(&str, &[&str], &serde_json::Value); 9] = [
        ("a.yaml", &["b.yaml"], &plain),
        (".argocd-source.yaml", &["b.yaml"], &plain),
        ("x.txt", &["Chart.yaml"], &plain),
        ("values.yaml", &["Chart.yaml"], &plain),
        ("Chart.yaml", &["b.yaml"], &plain),
        ("kustomization.yaml", &["b.yaml"], &plain),
        ("kustomization.yaml", &["b.yaml"], &edited),
        ("x.yaml", &["kustomization.yaml"], &plain),
        ("folder", &["b.yaml"], &json!({"path": "folder"})),
    ];
    for (link, files, source) in cases {
        for by in ["", "another"] {
            for target in ["there", "folder", "missing"] {
                if target == "folder" && link != "folder" {
                    continue;
                }
                let tree = Source::new(files).program("helm", ECHO).program("kustomize", ECHO);
                let place = outside.path().join(target);
                match by {
                    "" => symlink(place, tree.path().join(link)).unwrap(),
                    by => {
                        symlink(place, tree.path().join(by)).unwrap();
                        symlink(by, tree.path().join(link)).unwrap();
                    }
                }
                let error = tree.fails(source.clone()).await;
                assert!(error.contains("outside"), "{link} {by} {target}: {error}");
            }
        }
    }
}

/// Twenty thousand links that share one long chain of others held all who read the repository, for
/// minutes and beyond every limit of time.
#[tokio::test]
async fn links_through_long_targets_are_refused_with_the_checkout() {
    let upstream = Upstream::new();
    upstream.write("a/end.yaml", "");
    upstream.write("a/d/x", "");
    let far = format!("{}end.yaml", "d/../".repeat(700));
    symlink(far, upstream.path().join("a/far.yaml")).unwrap();
    upstream.commit();
    let (_cache, repositories) = repositories(settings());
    let revision = repositories.resolve(&upstream.url(), "main", None).await.unwrap();
    let error = repositories.checkout(&upstream.url(), &revision, None).await.unwrap_err();
    let error = error.to_string();
    assert!(
        error.contains("the checkout is over the limit of 1000 directories and links")
            && error.contains("a/far.yaml"),
        "{error}"
    );
}

/// Reading the files of a source asks for its time: the thread that does it is stopped by nobody.
#[test]
fn reading_files_ends_in_time() {
    let tree = tempfile::tempdir().unwrap();
    write(tree.path(), "a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n");
    let read = || crate::read_directory(tree.path(), ".", &crate::DirectoryOptions::default());
    assert_eq!(read().unwrap().len(), 1);
    let error = crate::deadline::limited(std::time::Duration::ZERO, read).unwrap_err();
    assert!(error.to_string().contains("takes more than 90 s; split it"), "{error}");
}
