//! Commits are deployed when they are signed as the project demands (SE-080), verified by the
//! real `git` and `gpg`.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use super::*;

/// Whether `gpg` is installed; says so when it is not.
pub(super) fn has_gpg() -> bool {
    let found = Command::new("gpg").arg("--version").output().is_ok();
    if !found {
        eprintln!("skipped: gpg is not installed; tests/run installs gnupg");
    }
    found
}

/// People with private keys.
struct Signers(tempfile::TempDir);

impl Signers {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        std::fs::set_permissions(home.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
        Self(home)
    }

    fn gpg(&self, args: &[&str]) -> String {
        let fixed = ["--batch", "--no-tty", "--quiet", "--passphrase", "", "--pinentry-mode"];
        let output = Command::new("gpg")
            .args(fixed)
            .arg("loopback")
            .args(args)
            .env("GNUPGHOME", self.0.path())
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "gpg {args:?}: {stderr}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Makes a key that signs; its fingerprint.
    fn key(&self, name: &str) -> String {
        self.make(&[], name, "never")
    }

    /// The same of another time, with an end.
    fn make(&self, time: &[&str], name: &str, end: &str) -> String {
        let user = format!("{name} <{name}@example.com>");
        self.gpg(&[time, &["--quick-gen-key", &user, "ed25519", "sign", end]].concat());
        let listed = self.gpg(&["--list-keys", "--with-colons", &user]);
        let line = listed.lines().find(|line| line.starts_with("fpr:")).unwrap();
        line.split(':').nth(9).unwrap().to_owned()
    }

    /// The public key as it is in the ConfigMap.
    fn public(&self, key: &str) -> String {
        self.gpg(&["--armor", "--export", key])
    }

    /// Revokes a key with the certificate that was made together with it.
    fn revoke(&self, key: &str) {
        let made = self.0.path().join("openpgp-revocs.d").join(format!("{key}.rev"));
        let text = std::fs::read_to_string(made).unwrap().replace(":-----BEGIN", "-----BEGIN");
        let file = self.0.path().join("revocation");
        std::fs::write(&file, text).unwrap();
        self.gpg(&["--import", file.to_str().unwrap()]);
    }

    /// A program that signs at another time.
    fn at(&self, time: &str) -> PathBuf {
        let file = self.0.path().join("gpg-at");
        let text = format!("#!/bin/sh\nexec gpg --faked-system-time {time} \"$@\"\n");
        std::fs::write(&file, text).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o700)).unwrap();
        file
    }

    /// Runs `git` in the repository, with a key to sign with.
    fn git(&self, world: &World, key: &str, program: &str, args: &[&str]) -> String {
        let output = Command::new("git")
            .current_dir(world.repo.path())
            .args(["-c", "user.name=Test", "-c", "user.email=test@example.com"])
            .args([
                "-c",
                &format!("user.signingkey={key}"),
                "-c",
                &format!("gpg.program={program}"),
            ])
            .args(args)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GNUPGHOME", self.0.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Commits everything, signed.
    fn commit(&self, world: &World, key: &str) -> String {
        self.commit_by(world, key, "gpg")
    }

    fn commit_by(&self, world: &World, key: &str, program: &str) -> String {
        git(world.repo.path(), &["add", "--all"]);
        let args = ["commit", "--quiet", "--allow-empty", "--message=change", "--gpg-sign"];
        self.git(world, key, program, &args);
        git(world.repo.path(), &["rev-parse", "HEAD"])
    }
}

impl Drop for Signers {
    fn drop(&mut self) {
        let mut stop = Command::new("gpgconf");
        let _ = stop.args(["--kill", "all"]).env("GNUPGHOME", self.0.path()).status();
    }
}

fn id(key: &str) -> &str {
    &key[key.len() - 16..]
}

/// The ConfigMap of some keys, with an entry that is none.
fn ring(signers: &Signers, keys: &[&str]) -> Value {
    let entries = keys.iter().map(|key| (id(key).to_owned(), json!(signers.public(key))));
    entries.chain([("0000000000000000".to_owned(), json!("garbage"))]).collect()
}

async fn refused(world: &World, text: &str) {
    let is_refused = |app: &Value| condition(app, "ComparisonError", text);
    world.until("app", text, is_refused).await;
}

async fn value(world: &World) -> Value {
    world.get("v1", "ConfigMap", "web", "one").await["data"]["value"].clone()
}

/// SE-080: only what a valid key of the list has signed is deployed; the list and the ConfigMap
/// of the keys act at once, also on what was rendered before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_commits_signed_by_listed_keys_are_deployed_as_se_080() {
    if !has_gpg() {
        return;
    }
    let signers = Signers::new();
    let [alice, bob, carol, dave] = ["alice", "bob", "carol", "dave"].map(|name| signers.key(name));
    let long_ago = ["--faked-system-time", "20200101T000000"];
    let past = signers.make(&long_ago, "past", "1y");
    let world = World::start().await;
    let listed = [&alice, &carol, &dave, &past].map(|key| json!({"keyID": id(key)}));
    world.patch_project(json!({"signatureKeys": listed})).await;
    let mut keys = ring(&signers, &[&alice, &bob, &carol, &past]);
    keys[id(&dave)] = json!("-----BEGIN PGP PUBLIC KEY BLOCK-----\n\ngarbage\n");
    world.config("argocd-gpg-keys-cm", keys).await;

    let unsigned = world.commit_file("app/one.json", &config_map("one", "1", &[]));
    world.create_app(&automated(world.application("app", "app"))).await;
    let text = format!(
        "GIT/GPG: Failed verifying revision {unsigned}: unsigned (key_id=); Target revision {unsigned} \
         in Git is not signed, but a signature"
    );
    refused(&world, &text).await;
    // OutOfSync and Missing as by Argo CD (K-16), and no automated sync begins.
    world.until("app", "compared", |app| is(app, "OutOfSync", "Missing")).await;
    world.rest().await;
    let app = world.app("app").await;
    assert!(is(&app, "OutOfSync", "Missing") && app["operation"].is_null(), "{app}");
    assert!(app["status"]["operationState"].is_null(), "{app}");

    signers.commit(&world, &bob);
    world.refresh("app").await;
    refused(&world, &format!("key {}, but this key is not allowed in AppProject", id(&bob))).await;
    refused(&world, &format!("signed with unallowed key (key_id={})", id(&bob))).await;
    signers.commit(&world, &dave);
    world.refresh("app").await;
    refused(&world, &format!("is signed with unknown key {}", id(&dave))).await;
    refused(&world, &format!("signed with key not in keyring (key_id={})", id(&dave))).await;
    let program = signers.at("20200301T000000");
    signers.commit_by(&world, &past, program.to_str().unwrap());
    world.refresh("app").await;
    refused(&world, &format!("is signed with key {}, which has expired", id(&past))).await;
    // The branch has this commit only when its key is revoked.
    git(world.repo.path(), &["checkout", "--quiet", "--detach"]);
    signers.commit(&world, &carol);
    signers.revoke(&carol);
    world.config("argocd-gpg-keys-cm", ring(&signers, &[&alice, &bob, &carol, &past])).await;
    git(world.repo.path(), &["checkout", "--quiet", "-B", "main"]);
    world.refresh("app").await;
    refused(&world, &format!("is signed with key {}, which was revoked", id(&carol))).await;
    world.sync("app", json!({})).await;
    world.until("app", "failed", |app| phase(app) == "Error").await;
    assert_eq!(value(&world).await, Value::Null, "nothing is deployed");

    signers.commit(&world, &alice);
    world.refresh("app").await;
    world.until_good("app").await;
    assert_eq!(value(&world).await, "1");

    // Both ConfigMap and project act without a restart, and without a new commit.
    world.config("argocd-gpg-keys-cm", ring(&signers, &[&bob])).await;
    refused(&world, &format!("is signed with unknown key {}", id(&alice))).await;
    world.config("argocd-gpg-keys-cm", ring(&signers, &[&alice, &bob, &dave])).await;
    world.until_good("app").await;
    world.patch_project(json!({"signatureKeys": [{"keyID": bob}]})).await;
    refused(&world, &format!("key {}, but this key is not allowed in AppProject", id(&alice)))
        .await;
    world.write("app/one.json", &config_map("one", "2", &[]));
    signers.commit(&world, &bob);
    world.refresh("app").await;
    world.until("app", "synced", |_| true).await;
    world.until_good("app").await;
    assert_eq!(value(&world).await, "2");

    // A commit whose content is not what was signed.
    let signed = git(world.repo.path(), &["cat-file", "commit", "HEAD"]);
    let forged = signed.replace("\nchange", "\nforged") + "\n";
    let file = world.repo.path().join(".git/forged");
    std::fs::write(&file, forged).unwrap();
    let args = ["hash-object", "-t", "commit", "-w", file.to_str().unwrap()];
    let forged = git(world.repo.path(), &args);
    git(world.repo.path(), &["update-ref", "refs/heads/main", &forged]);
    world.refresh("app").await;
    refused(&world, "has a bad signature").await;
}

/// SE-080: of an annotated tag, the signature of the tag counts; policies of `sourceIntegrity`
/// apply to the repositories that they name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signed_tags_and_policies_of_repositories_as_se_080() {
    if !has_gpg() {
        return;
    }
    let signers = Signers::new();
    let alice = signers.key("alice");
    let world = World::start().await;
    world.config("argocd-gpg-keys-cm", ring(&signers, &[&alice])).await;
    let repo = world.repo.path().to_str().unwrap().to_owned();
    let policy = |url: &str, gpg: Value| json!({"repos": [{"url": url}], "gpg": gpg});
    let head = json!({"mode": "head", "keys": [alice]});
    let integrity = |policies: Value| json!({"sourceIntegrity": {"git": {"policies": policies}}});
    world.patch_project(integrity(json!([policy(&format!("{repo}*"), head.clone())]))).await;

    world.commit_file("app/one.json", &config_map("one", "1", &[]));
    signers.git(&world, &alice, "gpg", &["tag", "--sign", "--message=v1", "v1.0.0"]);
    let mut app = world.application("app", "app");
    app["spec"]["source"]["targetRevision"] = json!("v1.0.0");
    app["spec"]["syncPolicy"] = json!({"automated": {}});
    world.create_until_good(&app).await;

    // The commit is signed, and its tag is not.
    world.write("app/one.json", &config_map("one", "2", &[]));
    let signed = signers.commit(&world, &alice);
    git(world.repo.path(), &["tag", "--annotate", "--message=v2", "v2.0.0"]);
    git(world.repo.path(), &["tag", "light"]);
    let target = |revision: &str| json!({"spec": {"source": {"targetRevision": revision}}});
    world.patch("app", target("2.*")).await;
    refused(&world, &format!("The tag of target revision {signed} in Git is not signed")).await;
    assert_eq!(value(&world).await, "1");
    world.patch("app", target("light")).await;
    world.until_good("app").await;
    assert_eq!(value(&world).await, "2");

    // A request may name a signed tag of an unsigned commit; it stays in force when the commit
    // is pinned.
    world.patch("app", json!({"spec": {"syncPolicy": null}})).await;
    world.sync("app", json!({"revision": "v1.0.0"})).await;
    let first = |app: &Value| {
        phase(app) == "Succeeded"
            && app["status"]["operationState"]["operation"]["sync"]["revision"] == "v1.0.0"
    };
    world.until("app", "synced to the tag", first).await;
    assert_eq!(value(&world).await, "1");

    // The first policy for the repository counts, and none for another one.
    world.commit();
    world.patch("app", target("main")).await;
    refused(&world, "is not signed, but a signature is required").await;
    let open = policy(&repo, json!({"mode": "none"}));
    world.patch_project(integrity(json!([open, policy("*", head.clone())]))).await;
    let compared = |app: &Value| app["status"]["sync"]["status"] == "OutOfSync";
    world.until("app", "compared", compared).await;
    world.patch_project(integrity(json!([policy("*", head.clone())]))).await;
    refused(&world, "is not signed, but a signature is required").await;
    world.patch_project(integrity(json!([policy("https://example.com/*", head)]))).await;
    world.until("app", "compared", compared).await;
}

/// SE-080: the mode `strict` demands signatures of all commits that lead to the target revision, back
/// to those that approve what is before them; a tag must be signed, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whole_histories_are_verified_as_se_080() {
    if !has_gpg() {
        return;
    }
    let signers = Signers::new();
    let [alice, bob] = ["alice", "bob"].map(|name| signers.key(name));
    let world = World::start().await;
    world.config("argocd-gpg-keys-cm", ring(&signers, &[&alice, &bob])).await;
    let strict = |keys: &[&String]| {
        let gpg = json!({"mode": "strict", "keys": keys});
        json!({"sourceIntegrity": {"git": {"policies": [{"repos": [{"url": "*"}], "gpg": gpg}]}}})
    };
    world.patch_project(strict(&[&alice])).await;
    let sealed = |key: &str, message: &str| {
        let args = ["commit", "--quiet", "--allow-empty", "--gpg-sign", "--message", message];
        signers.git(&world, key, "gpg", &args)
    };
    const SEAL: &str = "approved\n\nArgocd-gpg-seal: reviewed";

    let unsigned = world.commit_file("app/one.json", &config_map("one", "1", &[]));
    signers.commit(&world, &bob);
    let head = signers.commit(&world, &alice);
    world.create_app(&automated(world.application("app", "app"))).await;
    // The head is signed, and what leads to it is not.
    let text =
        format!("Commit {unsigned}, which leads to target revision {head} in Git is not signed");
    refused(&world, &text).await;
    refused(&world, &format!("key {}, but this key is not allowed in AppProject", id(&bob))).await;
    // An approval by somebody who may not sign, or without a signature, counts for nothing.
    sealed(&bob, SEAL);
    signers.commit(&world, &alice);
    world.refresh("app").await;
    refused(&world, &format!("Commit {unsigned}, which leads to target revision")).await;
    let args = ["commit", "--quiet", "--allow-empty", "--message", SEAL];
    signers.git(&world, &alice, "gpg", &args);
    let head = signers.commit(&world, &alice);
    world.refresh("app").await;
    refused(&world, &format!("Commit {unsigned}, which leads to target revision {head}")).await;
    assert_eq!(value(&world).await, Value::Null, "nothing is deployed");

    // With an approval, what is before it counts no more.
    sealed(&alice, "approved\n\nargocd-GPG-seal: reviewed");
    world.refresh("app").await;
    world.until_good("app").await;
    assert_eq!(value(&world).await, "1");
    world.write("app/one.json", &config_map("one", "2", &[]));
    signers.commit(&world, &alice);
    world.refresh("app").await;
    let is_two = |app: &Value| is(app, "Synced", "Healthy");
    world.until("app", "synced", is_two).await;
    world.until_good("app").await;

    // Of a merge, each branch counts: what another branch has that was not approved.
    git(world.repo.path(), &["checkout", "--quiet", "-b", "side", &format!("{unsigned}^0")]);
    world.write("app/side.json", &config_map("side", "1", &[]));
    git(world.repo.path(), &["add", "--all"]);
    signers.git(&world, &alice, "gpg", &["commit", "--quiet", "--message=side"]);
    let side = git(world.repo.path(), &["rev-parse", "HEAD"]);
    git(world.repo.path(), &["checkout", "--quiet", "main"]);
    let args = ["merge", "--quiet", "--no-ff", "--gpg-sign", "--message=merge", "side"];
    signers.git(&world, &alice, "gpg", &args);
    world.refresh("app").await;
    refused(&world, &format!("Commit {side}, which leads to target revision")).await;
    assert!(!world.has_map("side").await);
    sealed(&alice, SEAL);
    world.refresh("app").await;
    world.until("app", "synced", is_two).await;
    world.until_good("app").await;
    assert!(world.has_map("side").await);

    // The project acts at once; and of a tag, tag and history count.
    world.patch_project(strict(&[&bob])).await;
    refused(&world, &format!("key {}, but this key is not allowed in AppProject", id(&alice)))
        .await;
    world.patch_project(strict(&[&alice])).await;
    world.until_good("app").await;
    git(world.repo.path(), &["tag", "--annotate", "--message=v1", "v1.0.0"]);
    let target = json!({"spec": {"source": {"targetRevision": "v1.0.0"}}});
    world.patch("app", target).await;
    refused(&world, "The tag of target revision").await;

    // A repository that does not have the whole history.
    let shallow = tempfile::tempdir().unwrap();
    let url = format!("file://{}", world.repo.path().display());
    let at = shallow.path().join("clone");
    git(shallow.path(), &["clone", "--quiet", "--depth=1", &url, at.to_str().unwrap()]);
    let source = json!({"repoURL": at.to_str().unwrap(), "targetRevision": "main"});
    world.patch("app", json!({"spec": {"source": source}})).await;
    let is_refused = |app: &Value| {
        app["status"]["sync"]["status"] == "Unknown" && condition(app, "ComparisonError", "shallow")
    };
    world.until("app", "refused", is_refused).await;
}

/// SE-080: without the program, nothing is deployed, and the program is named.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_gpg_nothing_is_deployed_as_se_080() {
    if !has_gpg() {
        return;
    }
    let signers = Signers::new();
    let alice = signers.key("alice");
    let mut world = World::start().await;
    world.crash().await;
    let cache = tempfile::tempdir().unwrap();
    let settings = source::SourceSettings {
        allow: Allow { local: true, http: true },
        gpg: "wavegate-no-such-gpg".into(),
        ..source::SourceSettings::default()
    };
    world.sources = Arc::new(Repositories::open(cache.path(), settings).unwrap());
    world.run();
    world.config("argocd-gpg-keys-cm", ring(&signers, &[&alice])).await;
    world.patch_project(json!({"signatureKeys": [{"keyID": id(&alice)}]})).await;
    world.write("app/one.json", &config_map("one", "1", &[]));
    signers.commit(&world, &alice);
    world.create_app(&automated(world.application("app", "app"))).await;
    let text = "cannot start the program wavegate-no-such-gpg";
    refused(&world, text).await;
    world.sync("app", json!({})).await;
    world.until("app", "failed", |app| matches!(phase(app), "Error" | "Failed")).await;
    assert_eq!(value(&world).await, Value::Null, "nothing is deployed");
}
