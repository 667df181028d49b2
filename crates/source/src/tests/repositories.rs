//! Resolving and fetching, with the real program and with wrapper scripts that count
//! calls, fail, or hang.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use super::{Counted, Upstream, config_map, repositories, script, settings, walk, write};
use crate::Allow;
use crate::DirectoryOptions;
use crate::Freshness;
use crate::RepoCredentials;
use crate::Repositories;
use crate::Revision;
use crate::RevisionTarget;
use crate::SourceError;
use crate::SourceLimits;
use crate::SourceSettings;
use crate::TriedContent;
use crate::TriedSource;
use crate::directory::manifests::read_directory;
use crate::git::address::Address;
use crate::git::repositories::identity;

const HOUR: Freshness = Freshness(Duration::from_secs(3600));

fn objects(root: &Path) -> Vec<String> {
    let manifests = read_directory(root, "", &DirectoryOptions::default()).unwrap();
    let name = |object: &serde_json::Value| object["metadata"]["name"].as_str().unwrap().to_owned();
    manifests.iter().map(|manifest| name(&manifest.object)).collect()
}

#[tokio::test]
async fn each_kind_of_target_revision_is_resolved_and_read() {
    let upstream = Upstream::new();
    upstream.write("a.yaml", &config_map("first"));
    let first = upstream.commit();
    upstream.git(&["tag", "v1.0.0"]);
    upstream.git(&["tag", "-a", "-m", "x", "v1.1.0"]);
    upstream.write("a.yaml", &config_map("second"));
    let second = upstream.commit();
    upstream.git(&["branch", "feature/x", "HEAD"]);
    upstream.git(&["tag", "v2.0.0-rc.1"]);
    upstream.write("a.yaml", &config_map("third"));
    let third = upstream.commit();
    let (_cache, repositories) = repositories(settings());
    let url = upstream.url();
    let upper = first.to_uppercase();
    let cases = [
        ("", &third, "third"),
        ("HEAD", &third, "third"),
        ("main", &third, "third"),
        ("refs/heads/main", &third, "third"),
        ("feature/x", &second, "second"),
        ("v1.0.0", &first, "first"),
        ("v1.1.0", &first, "first"),
        ("1.x", &first, "first"),
        (">=1.0.0-0", &second, "second"),
        (&second, &second, "second"),
        (&upper, &first, "first"),
        (&first[..7], &first, "first"),
    ];
    for (target, want, content) in cases {
        let revision = repositories.resolve(&url, target, None).await.unwrap();
        assert_eq!(&revision.sha, want, "{target}");
        let checkout = repositories.checkout(&url, &revision, None).await.unwrap();
        assert_eq!(objects(checkout.root()), [content], "{target}");
        assert_eq!(checkout.revision(), want);
        assert!(!checkout.root().join(".git").exists());
    }
    // A short hash that is not a tip is known once its commit was fetched.
    upstream.git(&["tag", "-d", "v1.0.0", "v1.1.0"]);
    let short = repositories.resolve(&url, &first[..8], None).await.unwrap();
    assert_eq!(short, Revision::pinned(&first));
}

/// A short hash of any commit of a branch or tag, in both formats; asked for once.
#[tokio::test]
async fn a_short_hash_names_a_commit_that_is_no_tip() {
    for format in ["sha1", "sha256"] {
        let upstream = Upstream::with_format(format);
        let mut commits = Vec::new();
        for name in ["first", "second", "third"] {
            upstream.write("a.yaml", &config_map(name));
            commits.push(upstream.commit());
        }
        let counted = Counted::new("");
        let (_cache, repositories) = repositories(counted.settings());
        let url = upstream.url();
        for _ in 0..3 {
            let short = commits[0][..8].to_ascii_uppercase();
            let revision = repositories.resolve(&url, &short, None).await.unwrap();
            assert_eq!(revision, Revision::pinned(&commits[0]));
        }
        assert_eq!(counted.count("fetch"), 1, "{format}");
        let revision = Revision::pinned(&commits[0]);
        let checkout = repositories.checkout(&url, &revision, None).await.unwrap();
        assert_eq!(objects(checkout.root()), ["first"]);
        let fetched = counted.count("fetch");
        for _ in 0..3 {
            let error = repositories.resolve(&url, "0123456789", None).await.unwrap_err();
            assert!(error.to_string().contains("give the full commit hash"), "{error}");
        }
        assert_eq!(counted.count("fetch"), fetched + 1, "once for each listing");
    }
}

#[tokio::test]
async fn a_sha256_repository_is_read() {
    let upstream = Upstream::with_format("sha256");
    upstream.write("a.yaml", &config_map("a"));
    let sha = upstream.commit();
    assert_eq!(sha.len(), 64);
    let (_cache, repositories) = repositories(settings());
    let revision = repositories.resolve(&upstream.url(), "main", None).await.unwrap();
    assert_eq!(revision.sha, sha);
    let checkout = repositories.checkout(&upstream.url(), &revision, None).await.unwrap();
    assert_eq!(objects(checkout.root()), ["a"]);
}

#[tokio::test]
async fn missing_objects_have_distinct_errors() {
    let upstream = Upstream::new();
    upstream.write("a.yaml", &config_map("a"));
    upstream.commit();
    let (_cache, repositories) = repositories(settings());
    let url = upstream.url();
    for target in ["nothing", "9.x", "abcdef1", "refs/heads/none"] {
        let error = repositories.resolve(&url, target, None).await.unwrap_err();
        assert!(matches!(error, SourceError::MissingRevision { .. }), "{target}: {error}");
        assert!(error.to_string().contains(target), "{error}");
        assert!(!error.is_transient());
    }
    let absent = Revision::pinned(&"1".repeat(40));
    let error = repositories.checkout(&url, &absent, None).await.unwrap_err();
    assert!(matches!(error, SourceError::MissingRevision { .. }), "{error}");
    let error = repositories.resolve("/nonexistent/repo", "main", None).await.unwrap_err();
    assert!(matches!(error, SourceError::MissingRepository { .. }), "{error}");
    // No server listens on the discard port of the local machine.
    let error =
        repositories.resolve("https://u:secret@127.0.0.1:9/r", "main", None).await.unwrap_err();
    assert!(matches!(error, SourceError::Unreachable { .. }), "{error:?}");
    assert!(error.is_transient() && !error.to_string().contains("secret"), "{error}");
    let empty = Upstream::new();
    let error = repositories.resolve(&empty.url(), "", None).await.unwrap_err();
    assert!(error.to_string().contains("may be empty"), "{error}");
}

#[tokio::test]
async fn local_directories_must_be_enabled() {
    let upstream = Upstream::new();
    upstream.commit();
    let (_cache, repositories) = repositories(SourceSettings::default());
    for url in [upstream.url(), upstream.path().display().to_string()] {
        let error = repositories.resolve(&url, "", None).await.unwrap_err();
        assert!(matches!(error, SourceError::LocalNotAllowed { .. }), "{error}");
    }
}

#[tokio::test]
async fn revisions_and_urls_are_never_read_as_options() {
    let upstream = Upstream::new();
    upstream.commit();
    let counted = Counted::new("");
    let (_cache, repositories) = repositories(counted.settings());
    let url = upstream.url();
    let long = "x".repeat(300);
    for target in ["--upload-pack=touch x", "-h", "a\nb", "a\u{0}", &long] {
        let error = repositories.resolve(&url, target, None).await.unwrap_err();
        assert!(matches!(error, SourceError::InvalidRevision { .. }), "{target:?}: {error}");
    }
    let odd = Revision { sha: "--output=x".into(), reference: None };
    let error = repositories.checkout(&url, &odd, None).await.unwrap_err();
    assert!(matches!(error, SourceError::InvalidRevision { .. }), "{error}");
    assert!(repositories.resolve("--upload-pack=x", "", None).await.is_err());
    assert!(!counted.file("log").exists(), "git was never started");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_checkouts_of_one_revision_fetch_once() {
    let upstream = Upstream::new();
    upstream.write("a.yaml", &config_map("a"));
    upstream.commit();
    let counted = Counted::new("");
    let (_cache, repositories) = repositories(counted.settings());
    let url = upstream.url();
    let work = (0..50).map(|_| async {
        let revision = repositories.resolve_fresh(&url, &"main".into(), None, HOUR).await.unwrap();
        repositories.checkout(&url, &revision, None).await.unwrap()
    });
    let checkouts = futures::future::join_all(work).await;
    let root = checkouts[0].root();
    assert!(checkouts.iter().all(|checkout| checkout.root() == root));
    assert_eq!((counted.count("ls-remote"), counted.count("fetch")), (1, 1));
}

/// As when the Applications of a fleet are created one after the other: each must see what was
/// there when it was created.
#[tokio::test]
async fn callers_that_arrive_one_after_the_other_share_requests() {
    let upstream = Upstream::new();
    upstream.commit();
    let counted = Counted::new("");
    let (_cache, repositories) = repositories(counted.settings());
    let url = upstream.url();
    let calls = (0..30u64).map(|number| {
        let (repositories, url) = (&repositories, &url);
        async move {
            tokio::time::sleep(Duration::from_millis(number)).await;
            repositories.resolve(url, "main", None).await.unwrap()
        }
    });
    futures::future::join_all(calls).await;
    assert!(counted.count("ls-remote") <= 5, "{}", counted.count("ls-remote"));
}

#[tokio::test]
async fn a_result_is_shared_until_it_is_too_old() {
    let upstream = Upstream::new();
    let first = upstream.commit();
    let counted = Counted::new("");
    let (_cache, repositories) = repositories(counted.settings());
    let url = upstream.url();
    for target in ["main", "HEAD", "", "main"] {
        let found = repositories.resolve_fresh(&url, &target.into(), None, HOUR).await.unwrap();
        assert_eq!(found.sha, first);
    }
    assert_eq!(counted.count("ls-remote"), 1);
    let second = upstream.commit();
    let main: RevisionTarget<'_> = "main".into();
    let old = repositories.resolve_fresh(&url, &main, None, HOUR).await.unwrap();
    assert_eq!(old.sha, first, "a fresh result is reused");
    let new = repositories.resolve(&url, "main", None).await.unwrap();
    assert_eq!(new.sha, second);
    assert_eq!(counted.count("ls-remote"), 2);
    // A result is not shared between different credentials.
    let other = RepoCredentials {
        username: "u".into(),
        password: "p".into(),
        ..RepoCredentials::default()
    };
    let address = Address::parse("https://h/r", Allow::default()).unwrap();
    assert_ne!(identity(&address, Some(&other)), identity(&address, None));
    // Neither is a failure.
    let with = |password: &str| RepoCredentials { password: password.into(), ..other.clone() };
    let of = |url: &str, password: &str| {
        let address = Address::parse(url, Allow::default()).unwrap();
        identity(&address, Some(&with(password)))
    };
    for (url, another) in [
        ("https://u:one@h/r", "https://u:two@h/r"),
        ("https://one@h/r", "https://two@h/r"),
        ("https://h/r?access_token=one", "https://h/r?access_token=two"),
        ("ssh://u:one@h/r", "ssh://u:two@h/r"),
        ("one@h:r", "two@h:r"),
    ] {
        assert_ne!(of(url, "p"), of(another, "p"), "{url}");
    }
    assert_ne!(
        of("https://u@h/r", "one"),
        of("https://u@h/r", "two"),
        "the Secret completes the URL"
    );
}

#[tokio::test]
async fn a_failure_is_shared_for_a_limited_time() {
    let counted = Counted::new("");
    let (_cache, repositories) = repositories(counted.settings());
    let main: RevisionTarget<'_> = "main".into();
    for _ in 0..20 {
        let answer = repositories.resolve_fresh("/nonexistent", &main, None, HOUR).await;
        // A missing directory is reported without running git.
        assert!(matches!(answer, Err(SourceError::MissingRepository { .. })));
    }
    assert_eq!(counted.count("ls-remote"), 0);
    let counted = Counted::new("echo 'fatal: early EOF' >&2; exit 128");
    let upstream = Upstream::new();
    let sha = upstream.commit();
    let (_cache, repositories) = super::repositories(counted.settings());
    let url = upstream.url();
    for _ in 0..20 {
        let answer = repositories.resolve_fresh(&url, &main, None, HOUR).await;
        assert!(matches!(answer, Err(SourceError::Unreachable { .. })), "{answer:?}");
        let answer = repositories.checkout(&url, &Revision::pinned(&sha), None).await;
        assert!(matches!(answer, Err(SourceError::Unreachable { .. })), "{answer:?}");
    }
    assert_eq!((counted.count("ls-remote"), counted.count("init")), (1, 1));
    // A request for a fresh result is sent at once.
    repositories.resolve(&url, "main", None).await.unwrap_err();
    assert_eq!(counted.count("ls-remote"), 2);
}

/// Whether any process still has this text in its command line.
fn running(text: &str) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter_map(|process| std::fs::read(process.path().join("cmdline")).ok())
        .any(|line| String::from_utf8_lossy(&line).contains(text))
}

#[tokio::test]
async fn a_hanging_git_is_killed_and_the_next_call_succeeds() {
    let upstream = Upstream::new();
    upstream.write("a.yaml", &config_map("a"));
    let sha = upstream.commit();
    // Hangs in a child process, with a lock taken, as a real fetch would.
    let marks = tempfile::tempdir().unwrap();
    let once = marks.path().join("hang");
    let nap = format!("{}", 100_000 + std::process::id());
    let extra = format!(
        "if [ \"$step\" = fetch ] && [ -e '{0}' ]; then rm '{0}'\n\
         for a in \"$@\"; do case \"$a\" in */repository-*) touch \"$a/shallow.lock\" ;; esac; done\n\
         sleep {nap} & wait; fi",
        once.display()
    );
    let counted = Counted::new(&extra);
    std::fs::write(&once, "").unwrap();
    let mut settings = counted.settings();
    // Enough for the steps that do not hang.
    settings.limits.timeout = Duration::from_secs(15);
    settings.limits.failure_kept = Duration::ZERO;
    let (_cache, repositories) = repositories(settings);
    let (url, revision) = (upstream.url(), Revision::pinned(&sha));

    let error = repositories.checkout(&url, &revision, None).await.unwrap_err();
    assert!(matches!(&error, SourceError::TimedOut { what, .. } if what == "git fetch"), "{error}");
    assert!(error.is_transient());
    until(|| !running(&nap)).await;
    let checkout = repositories.checkout(&url, &revision, None).await.unwrap();
    assert_eq!(objects(checkout.root()), ["a"]);
}

#[tokio::test]
async fn a_cancelled_call_leaves_no_processes_or_files() {
    let upstream = Upstream::new();
    upstream.write("a.yaml", &config_map("a"));
    let sha = upstream.commit();
    let marks = tempfile::tempdir().unwrap();
    let (hang, began) = (marks.path().join("hang"), marks.path().join("began"));
    let nap = format!("{}", 200_000 + std::process::id());
    let counted = Counted::new(&format!(
        "if [ \"$step\" = fetch ] && [ -e '{0}' ]; then rm '{0}'; sleep {nap} & touch '{1}'; wait; fi",
        hang.display(),
        began.display()
    ));
    std::fs::write(&hang, "").unwrap();
    let (_cache, repositories) = repositories(counted.settings());
    let (url, revision) = (upstream.url(), Revision::pinned(&sha));
    tokio::select! {
        _ = repositories.checkout(&url, &revision, None) => panic!("it hangs"),
        () = until(|| began.exists()) => {}
    }
    until(|| !running(&nap)).await;
    let checkout = repositories.checkout(&url, &revision, None).await.unwrap();
    assert_eq!(objects(checkout.root()), ["a"]);
}

/// Waits for a condition, with a limit.
async fn until(condition: impl Fn() -> bool) {
    let wait = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), wait).await.unwrap();
}

#[tokio::test]
async fn a_server_that_serves_no_hashes_is_read_by_name() {
    let upstream = Upstream::new();
    upstream.write("a.yaml", &config_map("old"));
    let old = upstream.commit();
    upstream.write("a.yaml", &config_map("new"));
    let new = upstream.commit();
    // The old protocol rejects commits that are not listed.
    let counted = Counted::new("set -- -c protocol.version=0 \"$@\"");
    let (_cache, repositories) = repositories(counted.settings());
    let url = upstream.url();
    for (sha, content) in [(&new, "new"), (&old, "old")] {
        let checkout = repositories.checkout(&url, &Revision::pinned(sha), None).await.unwrap();
        assert_eq!(objects(checkout.root()), [content]);
    }
    let absent = Revision::pinned(&"1".repeat(40));
    let error = repositories.checkout(&url, &absent, None).await.unwrap_err();
    assert!(matches!(error, SourceError::MissingRevision { .. }), "{error}");
    assert!(error.to_string().contains("name a branch or tag"), "{error}");
}

fn small(change: impl Fn(&mut SourceLimits)) -> SourceSettings {
    let mut settings = settings();
    change(&mut settings.limits);
    settings
}

#[tokio::test]
async fn content_beyond_the_limits_is_rejected() {
    let upstream = Upstream::new();
    // Compresses to almost nothing, so that only the listing shows its size.
    upstream.write("big.yaml", &"#".repeat(4 << 20));
    let big = Revision::pinned(&upstream.commit());
    upstream.git(&["rm", "-q", "big.yaml"]);
    for n in 0..20 {
        upstream.write(&format!("{n}.yaml"), &config_map("a"));
    }
    let many = Revision::pinned(&upstream.commit());
    let url = upstream.url();
    let (_cache, bytes) = repositories(small(|limits| limits.fetch_bytes = 1 << 20));
    let error = bytes.checkout(&url, &big, None).await.unwrap_err();
    assert!(matches!(error, SourceError::TooLarge { .. }), "{error}");
    assert!(error.to_string().contains("limit of 1 MiB"), "{error}");
    bytes.checkout(&url, &many, None).await.unwrap();
    let (_cache, files) = repositories(small(|limits| limits.checkout_files = 10));
    let error = files.checkout(&url, &many, None).await.unwrap_err();
    assert!(error.to_string().contains("limit of 10 files"), "{error}");
}

#[tokio::test]
async fn a_fetch_that_fills_the_disk_is_stopped() {
    let upstream = Upstream::new();
    let sha = upstream.commit();
    // Grows until the process is killed.
    let counted = Counted::new(
        "if [ \"$step\" = fetch ]; then for a in \"$@\"; do case \"$a\" in */repository-*)\n\
         while :; do head -c 1000000 /dev/zero >> \"$a/tmp_pack\"; sleep 0.01; done ;; esac; done; fi",
    );
    let mut settings = counted.settings();
    settings.limits.fetch_bytes = 4 << 20;
    let (_cache, repositories) = repositories(settings);
    let error = repositories.checkout(&upstream.url(), &Revision::pinned(&sha), None).await;
    let error = error.unwrap_err();
    assert!(
        matches!(&error, SourceError::TooLarge { what, .. } if what == "the fetched repository"),
        "{error}"
    );
}

#[tokio::test]
async fn a_tree_bomb_is_rejected() {
    let upstream = Upstream::new();
    upstream.write("seed", "x");
    let blob = upstream.git(&["hash-object", "-w", "seed"]);
    // Each level refers to the one below ten times: 10^7 files in a few hundred bytes.
    let mut line = format!("100644 blob {blob}");
    for _ in 0..7 {
        let tree: String = (0..10).map(|n| format!("{line}\te{n}\n")).collect();
        upstream.write("tree", &tree);
        let hash = upstream.git(&["-c", "alias.mk=!git mktree < tree", "mk"]);
        line = format!("040000 tree {hash}");
    }
    let tree = line.rsplit(' ').next().unwrap();
    let commit = upstream.git(&["commit-tree", "-m", "bomb", tree]);
    upstream.git(&["update-ref", "refs/heads/bomb", &commit]);
    let (_cache, repositories) = repositories(settings());
    let error = repositories.checkout(&upstream.url(), &Revision::pinned(&commit), None).await;
    assert!(matches!(error, Err(SourceError::TooLarge { .. })), "{error:?}");
}

#[tokio::test]
async fn a_hostile_repository_runs_no_code_and_cannot_leave_its_directory() {
    let upstream = Upstream::new();
    let marks = tempfile::tempdir().unwrap();
    let mark = marks.path().join("ran");
    let touch = format!("touch {}", mark.display());
    upstream.write(".gitattributes", "* filter=evil\n*.sub export-ignore\n");
    upstream.write("a.yaml", &config_map("a"));
    upstream.write("kept.sub", "here");
    upstream.write(".gitmodules", "[submodule \"x\"]\n\tpath = x\n\turl = ext::sh\n");
    symlink("/etc/passwd", upstream.path().join("passwd.yaml")).unwrap();
    let sha = upstream.commit();
    // Configuration and hooks of the served repository.
    upstream.git(&["config", "filter.evil.smudge", &touch]);
    upstream.git(&["config", "core.fsmonitor", &touch]);
    upstream.git(&["config", "uploadpack.packObjectsHook", &touch]);
    for hook in ["post-checkout", "reference-transaction", "post-index-change"] {
        script(&upstream.path().join(".git/hooks"), hook, &touch);
    }
    let (_cache, repositories) = repositories(settings());
    let revision = repositories.resolve(&upstream.url(), &sha, None).await.unwrap();
    let checkout = repositories.checkout(&upstream.url(), &revision, None).await.unwrap();
    assert!(!mark.exists());
    assert!(checkout.root().join("kept.sub").exists(), "export-ignore has no effect");
    let link = checkout.root().join("passwd.yaml");
    assert!(std::fs::symlink_metadata(link).unwrap().is_symlink());
    let error = read_directory(checkout.root(), "", &DirectoryOptions::default()).unwrap_err();
    assert!(error.to_string().contains("passwd.yaml: symbolic link points outside"), "{error}");
}

#[tokio::test]
async fn checkouts_are_kept_within_bounds_and_shared_while_in_use() {
    let upstream = Upstream::new();
    let mut revisions = Vec::new();
    for name in ["a", "b", "c"] {
        upstream.write("a.yaml", &config_map(name));
        revisions.push(Revision::pinned(&upstream.commit()));
    }
    let counted = Counted::new("");
    let mut settings = counted.settings();
    settings.limits.kept_checkouts = 1;
    let (_cache, repositories) = repositories(settings);
    let url = upstream.url();
    let held = repositories.checkout(&url, &revisions[0], None).await.unwrap();
    let dropped = repositories.checkout(&url, &revisions[1], None).await.unwrap();
    let path = dropped.root().to_owned();
    drop(dropped);
    repositories.checkout(&url, &revisions[2], None).await.unwrap();
    until(|| !path.exists()).await;
    // Evicted, too, but still in use: the same checkout is returned.
    let again = repositories.checkout(&url, &revisions[0], None).await.unwrap();
    assert_eq!(again.root(), held.root());
    assert_eq!(objects(again.root()), ["a"]);
    assert_eq!(counted.count("checkout-index"), 3);
    // Created again without a fetch: its commit is present.
    repositories.checkout(&url, &revisions[1], None).await.unwrap();
    assert_eq!((counted.count("checkout-index"), counted.count("fetch")), (4, 3));
}

#[tokio::test]
async fn a_plain_directory_has_a_content_revision() {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), "a.yaml", &config_map("a"));
    write(directory.path(), "sub/b.yaml", &config_map("b"));
    let counted = Counted::new("");
    let (_cache, repositories) = repositories(counted.settings());
    let path = directory.path().display().to_string();
    let first = repositories.resolve(&path, "main", None).await.unwrap();
    assert_eq!(repositories.resolve(&format!("file://{path}"), "", None).await.unwrap(), first);
    let checkout = repositories.checkout(&path, &first, None).await.unwrap();
    write(directory.path(), "a.yaml", &config_map("changed"));
    assert_eq!(objects(checkout.root()), ["a"], "a checkout is a copy");
    let second = repositories.resolve(&path, "", None).await.unwrap();
    assert_ne!(first, second);
    drop(checkout);
    let (_cache2, other) = super::repositories(counted.settings());
    let error = other.checkout(&path, &first, None).await.unwrap_err();
    assert!(error.to_string().contains("has changed since"), "{error}");
    // The same bytes under another path are different content.
    std::fs::rename(directory.path().join("sub"), directory.path().join("moved")).unwrap();
    assert_ne!(repositories.resolve(&path, "", None).await.unwrap(), second);
    let (_cache3, tiny) = super::repositories(small(|limits| limits.fetch_bytes = 8));
    let error = tiny.resolve(&path, "", None).await.unwrap_err();
    assert!(matches!(error, SourceError::TooLarge { .. }), "{error}");
    assert!(!counted.file("log").exists(), "git does not run");
}

#[tokio::test]
async fn a_missing_program_is_named() {
    let settings = SourceSettings { program: "/nonexistent/git".into(), ..settings() };
    let upstream = Upstream::new();
    let (_cache, repositories) = repositories(settings);
    let error = repositories.resolve(&upstream.url(), "main", None).await.unwrap_err();
    assert!(matches!(error, SourceError::MissingProgram { .. }), "{error}");
    assert!(error.to_string().contains("/nonexistent/git"), "{error}");
}

#[tokio::test]
async fn stale_caches_are_removed_and_used_ones_kept() {
    let root = tempfile::tempdir().unwrap();
    let left = root.path().join("wavegate-source-left");
    write(&left, "lock", "");
    write(&left, "repository-0/objects/pack/tmp_pack", "half");
    write(root.path(), "not-ours/file", "");
    let first = Repositories::open(root.path(), settings()).unwrap();
    assert!(!left.exists());
    let second = Repositories::open(root.path(), settings()).unwrap();
    let ours = || walk(root.path()).filter(|path| path.ends_with("/lock")).count();
    assert_eq!(ours(), 2);
    drop(first);
    assert_eq!(ours(), 1);
    drop(second);
    assert!(root.path().join("not-ours/file").exists());
}

#[tokio::test]
async fn attributes_of_a_repository_have_no_effect() {
    let upstream = Upstream::new();
    let keywords = "# $Id$\n".repeat(20_000);
    upstream.write(
        ".gitattributes",
        "*.yaml ident text eol=crlf\n*.txt working-tree-encoding=UTF-32 text\n",
    );
    upstream.write("a.yaml", &format!("{}{keywords}", config_map("a")));
    let sha = upstream.commit();
    let mut settings = settings();
    // With expanded keywords, the file would be seven times as large.
    settings.limits.fetch_bytes = 300_000;
    let (_cache, repositories) = repositories(settings);
    let checkout =
        repositories.checkout(&upstream.url(), &Revision::pinned(&sha), None).await.unwrap();
    let text = std::fs::read_to_string(checkout.root().join("a.yaml")).unwrap();
    assert!(text.contains("# $Id$\n") && !text.contains('\r'));
    assert!(checkout.bytes() < 300_000);
}

#[tokio::test]
async fn directories_count_towards_the_limits_of_a_checkout() {
    let upstream = Upstream::new();
    upstream.write(&format!("{}a.yaml", "d/".repeat(200)), &config_map("a"));
    let sha = upstream.commit();
    let mut settings = settings();
    settings.limits.checkout_files = 100;
    let (_cache, repositories) = repositories(settings);
    let error = repositories.checkout(&upstream.url(), &Revision::pinned(&sha), None).await;
    assert!(matches!(error, Err(SourceError::TooLarge { .. })), "{error:?}");
}

/// What is tried is read once, in place of each spelling and each revision of its repository.
#[tokio::test]
async fn a_work_tree_is_read_in_place_of_its_repository() {
    let tree = tempfile::tempdir().unwrap();
    let root = tree.path().canonicalize().unwrap();
    std::fs::write(root.join("a.yaml"), config_map("tried")).unwrap();
    std::fs::create_dir(root.join(".git")).unwrap();
    std::fs::write(root.join(".git/b.yaml"), config_map("of-git")).unwrap();
    let content = TriedContent::WorkTree(root.clone());
    let tried = TriedSource::new(["https://example.com/team/app.git"], content);
    let (_cache, repositories) = repositories(SourceSettings { tried: Some(tried), ..settings() });
    let mut found = std::collections::BTreeSet::new();
    for url in ["https://example.com/team/app", "git@example.com:team/app.git"] {
        for target in ["", "main", "v1.*", "0123456789012345678901234567890123456789"] {
            let revision = repositories.resolve(url, target, None).await.unwrap();
            let checkout = repositories.checkout(url, &revision, None).await.unwrap();
            assert_eq!(objects(checkout.root()), ["tried"], "{url} {target}");
            assert!(!checkout.root().join(".git").exists());
            found.insert(revision.sha);
            std::fs::write(root.join("a.yaml"), config_map("later")).unwrap();
        }
    }
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(repositories.is_work_tree("https://example.com/team/app"));
    assert!(!repositories.is_work_tree("https://example.com/team/other"));
}

/// A revision that is tried is resolved in place of each other one, of its repository alone.
#[tokio::test]
async fn a_revision_is_read_in_place_of_each_other() {
    let (upstream, other) = (Upstream::new(), Upstream::new());
    upstream.write("a.yaml", &config_map("first"));
    let first = upstream.commit();
    upstream.git(&["tag", "v1.0.0"]);
    upstream.write("a.yaml", &config_map("second"));
    let second = upstream.commit();
    other.write("a.yaml", &config_map("other"));
    let unrelated = other.commit();
    let url = upstream.url();
    let tried = TriedSource::new([url.as_str()], TriedContent::Revision("v1.0.0".to_owned()));
    let (_cache, repositories) = repositories(SourceSettings { tried: Some(tried), ..settings() });
    for target in ["main", "", second.as_str(), ">=2.0.0"] {
        let revision = repositories.resolve(&url, target, None).await.unwrap();
        assert_eq!(revision.sha, first, "{target}");
    }
    let revision = repositories.resolve(&other.url(), "main", None).await.unwrap();
    assert_eq!(revision.sha, unrelated);
}
