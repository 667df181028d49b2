//! Links that lead out of a repository.

use std::os::unix::fs::symlink;

use serde_json::json;

use super::render::{ECHO, Source};
use super::write;

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
