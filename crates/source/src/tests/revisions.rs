//! Revisions that cannot be read, and what is said about them.

use super::{Upstream, repositories, settings};

/// SE-032: an empty repository, and one whose default branch is gone, by either way to name it.
#[tokio::test]
async fn a_repository_without_a_head_says_so_se_032() {
    let repo = Upstream::new();
    let (_cache, repositories) = repositories(settings());
    for revision in ["", "HEAD"] {
        let error = repositories.resolve(&repo.url(), revision, None).await.unwrap_err();
        let error = error.to_string();
        assert!(error.contains("the repository has no HEAD: it may be empty, or"), "{error}");
    }
    let error = repositories.resolve(&repo.url(), "main", None).await.unwrap_err().to_string();
    assert!(error.contains("no branch, tag or version matches it"), "{error}");
}

/// SE-032: a tag may be one of a file or a folder, and such a hash is none of a commit.
#[tokio::test]
async fn a_file_or_a_folder_is_no_commit_se_032() {
    let repo = Upstream::new();
    repo.write("a.yaml", "a: 1\n");
    repo.commit();
    let [file, folder] = ["HEAD:a.yaml", "HEAD^{tree}"].map(|name| repo.git(&["rev-parse", name]));
    repo.git(&["tag", "file", &file]);
    repo.git(&["tag", "-a", "-m", "folder", "folder", &folder]);
    let (_cache, repositories) = repositories(settings());
    for revision in ["file", "folder", &file, &folder] {
        let found = repositories.resolve(&repo.url(), revision, None).await.unwrap();
        let error = repositories.checkout(&repo.url(), &found, None).await.unwrap_err();
        let error = error.to_string();
        assert!(error.contains("not found: it is the hash of a file or a folder"), "{error}");
    }
}
