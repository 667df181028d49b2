//! Checks the signatures of commits and annotated tags, by `git` and `gpg`.
//!
//! Each set of public keys has a private GNUPGHOME below the cache of this process, which is
//! made once and removed with its last user. Neither program gets the network, no agent is
//! started, and no key is looked up elsewhere. Commits that are signed in another way than with
//! GnuPG count as not verified.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsString;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tokio::sync::Mutex as AsyncMutex;

use crate::cache::{Cache, OwnedDirectory, write_private};
use crate::error::SourceError;
use crate::git::address::Address;
use crate::git::command::{Call, Git};
use crate::git::objects::{Objects, Tag};
use crate::process::run::STDERR_LIMIT;
use wavegate_api::repository::signature::Signature;

/// What `gpg` reads first. The keys of the ConfigMap are trusted, as in Argo CD.
const OPTIONS: &str = "batch\nno-tty\nno-greeting\nno-autostart\ndisable-dirmngr\n\
                       no-auto-key-retrieve\nno-auto-key-locate\nno-auto-check-trustdb\n\
                       trust-model always\n";

/// Options of `git`: no other program than GnuPG checks a signature.
const PROGRAMS: [&str; 4] = [
    "gpg.format=openpgp",
    "gpg.x509.program=/nonexistent/gpgsm",
    "gpg.ssh.program=/nonexistent/ssh-keygen",
    "gpg.minTrustLevel=fully",
];

/// How long a result is used again: a key may expire.
const KEPT: Duration = Duration::from_secs(300);

/// Most results that are kept.
const MOST_KEPT: usize = 10_000;

/// Most results about histories that are kept, each with at most [`MOST_REFUSED`] commits.
const MOST_HISTORIES: usize = 1000;

/// So many commits that are not signed as demanded are named.
pub(crate) const MOST_REFUSED: usize = 10;

/// Most commits of a history whose signatures are checked, since the last ones that approve all
/// before them. Each costs a run of `git` and `gpg`.
pub(crate) const MOST_COMMITS: usize = 1000;

/// Most commits that approve all before them which are looked at.
pub(crate) const MOST_SEALS: usize = 100;

/// Most keys, and most bytes of them.
const MOST_KEYS: usize = 1000;
const MOST_BYTES: usize = 4 << 20;

/// What is signed, and in which repository.
#[derive(Debug, Clone, Copy)]
pub struct Signed<'a> {
    /// The URL.
    pub repo_url: &'a str,
    /// The full hash of the commit.
    pub commit: &'a str,
    /// What the commit was asked for by, such as the `targetRevision`. If the first of them that
    /// still leads to the commit is an annotated tag, the signature of the tag counts.
    pub revisions: &'a [&'a str],
    /// The prefix of version tags.
    pub tag_prefix: &'a str,
}

/// A key ring.
#[derive(Debug)]
pub(crate) struct KeyRing {
    digest: [u8; 32],
    home: OwnedDirectory,
}

/// Repository, hash of the checked object, and keys.
pub(crate) type Checked = (String, String, [u8; 32]);

/// What of a history is not signed as demanded: commits, or a tag under the hash of its commit.
pub type RefusedCommits = Vec<(String, Signature)>;

/// The last key ring, and results.
#[derive(Debug, Default)]
pub(crate) struct Signatures {
    ring: AsyncMutex<Option<Arc<KeyRing>>>,
    pub(crate) known: Results<Signature, MOST_KEPT>,
    pub(crate) histories: Results<RefusedCommits, MOST_HISTORIES>,
}

/// Results that are still good, at most `MOST`.
#[derive(Debug)]
pub(crate) struct Results<T, const MOST: usize>(Mutex<HashMap<Checked, (Instant, T)>>);

impl<T, const MOST: usize> Default for Results<T, MOST> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Clone, const MOST: usize> Results<T, MOST> {
    /// A result that is still good.
    pub(crate) fn get(&self, checked: &Checked) -> Option<T> {
        let known = self.0.lock();
        let (at, result) = known.get(checked)?;
        (at.elapsed() < KEPT).then(|| result.clone())
    }

    /// Keeps a result.
    pub(crate) fn keep(&self, checked: Checked, result: &T) {
        let mut known = self.0.lock();
        if known.len() >= MOST {
            known.retain(|_, (at, _)| at.elapsed() < KEPT);
        }
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(checked, (Instant::now(), result.clone()));
    }
}

impl Signatures {
    /// The key ring of some public keys, by key ID.
    pub(crate) async fn ring(
        &self,
        git: &Git,
        cache: &Arc<Cache>,
        address: &Address,
        keys: &BTreeMap<String, String>,
    ) -> Result<Arc<KeyRing>, SourceError> {
        let digest = digest(keys);
        let mut last = self.ring.lock().await;
        if let Some(ring) = last.as_ref().filter(|ring| ring.digest == digest) {
            return Ok(Arc::clone(ring));
        }
        let ring = Arc::new(KeyRing::make(git, cache, address, keys, digest).await?);
        *last = Some(Arc::clone(&ring));
        Ok(ring)
    }
}

impl KeyRing {
    async fn make(
        git: &Git,
        cache: &Arc<Cache>,
        address: &Address,
        keys: &BTreeMap<String, String>,
        digest: [u8; 32],
    ) -> Result<Self, SourceError> {
        let repo = || address.shown.clone();
        let bytes: usize = keys.values().map(String::len).sum();
        if keys.len() > MOST_KEYS || bytes > MOST_BYTES {
            let limit = format!("{MOST_KEYS} keys and {} MiB", MOST_BYTES >> 20);
            return Err(SourceError::too_large(repo(), "the key ring", limit));
        }
        let home = cache.unused("gnupg");
        write(home.path(), keys)
            .map_err(|error| SourceError::cache(repo(), "write the key ring", error.kind()))?;
        // One by one: an entry that is no key leaves the others as they are.
        for (index, id) in keys.keys().enumerate() {
            let file = home.path().join("keys").join(index.to_string());
            let args: Vec<OsString> = vec!["--import".into(), "--".into(), file.into()];
            let output = git.gpg(address, home.path(), args).await?;
            if !output.status.success() {
                let id: String = id.chars().take(64).collect();
                tracing::warn!(
                    key = id,
                    "ConfigMap argocd-gpg-keys-cm: this entry is no public key that gpg can \
                     import; commits that are signed with it are refused"
                );
            }
        }
        // Also without keys: whether the program works.
        let args = vec!["--list-keys".into(), "--with-colons".into()];
        let output = git.gpg(address, home.path(), args).await?;
        if output.status.success() {
            return Ok(Self { digest, home });
        }
        let detail: String = output.stderr.trim().chars().take(300).collect();
        let detail = detail.replace(&cache.path().display().to_string(), "(cache)");
        Err(SourceError::git(
            repo(),
            "gpg",
            format!("{detail}; signatures of commits cannot be verified"),
        ))
    }

    /// What identifies the result of a check of an object.
    pub(crate) fn checked(&self, repository: &str, object: &str) -> Checked {
        (repository.to_owned(), object.to_owned(), self.digest)
    }

    /// The same of a history, for those who accept signatures by some keys.
    pub(crate) fn checked_history(
        &self,
        repository: &str,
        commit: &str,
        tag: Option<&Tag>,
        accepted: &BTreeSet<String>,
    ) -> Checked {
        let tag = tag.map(|tag| tag.object.as_str()).unwrap_or_default();
        let accepted = accepted.iter().map(String::as_str).collect::<Vec<_>>().join(" ");
        (repository.to_owned(), format!("{commit} {tag} {accepted}"), self.digest)
    }

    /// The signature of a fetched commit, or of its tag.
    pub(crate) async fn check(
        &self,
        git: &Git,
        address: &Address,
        objects: &Objects,
        commit: &str,
        tag: Option<&Tag>,
    ) -> Result<Signature, SourceError> {
        let (what, command, object) = match tag {
            Some(tag) => ("git verify-tag", "verify-tag", tag.object.as_str()),
            None => ("git verify-commit", "verify-commit", commit),
        };
        let mut args: Vec<OsString> = Vec::new();
        for option in PROGRAMS {
            args.extend(["-c".into(), option.into()]);
        }
        let mut program = OsString::from("gpg.openpgp.program=");
        program.push(git.gpg_program());
        args.extend(["-c".into(), program]);
        args.extend([command, "--raw", object].map(OsString::from));
        let call = Call {
            what,
            address,
            credentials: None,
            git_dir: Some(objects.directory()),
            args,
            env: Vec::new(),
            stdout_limit: 1 << 20,
            watch: None,
            proactive: false,
        };
        let output = git.check_signature(call, self.home.path()).await?;
        let cut = output.stderr.len() >= STDERR_LIMIT;
        let is_valid = output.status.success();
        let said = output.stderr.replace(&git.root().display().to_string(), "(cache)");
        Ok(Signature::read(tag.is_some(), &said, is_valid, cut))
    }
}

/// Writes the options and the keys into a new private directory.
fn write(home: &Path, keys: &BTreeMap<String, String>) -> std::io::Result<()> {
    let mut private = std::fs::DirBuilder::new();
    private.mode(0o700).create(home)?;
    private.create(home.join("keys"))?;
    write_private(&home.join("gpg.conf"), OPTIONS, 0o600)?;
    for (index, key) in keys.values().enumerate() {
        write_private(&home.join("keys").join(index.to_string()), key, 0o600)?;
    }
    Ok(())
}

fn digest(keys: &BTreeMap<String, String>) -> [u8; 32] {
    let mut hash = Sha256::new();
    for text in keys.iter().flat_map(|(id, key)| [id, key]) {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text);
    }
    hash.finalize().into()
}
