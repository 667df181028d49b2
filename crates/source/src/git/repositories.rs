//! What `git` and `helm` read, and artifacts of registries: each repository is resolved and fetched
//! once, however many Applications use it.
//!
//! Each repository has one lock for resolving and one for fetching: a second caller waits
//! and shares the result of the first one, including failures. All calls are cancel-safe;
//! the next caller does the work.

mod history;
mod short;
mod words;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use data_encoding::HEXLOWER;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tokio::sync::Mutex as AsyncMutex;

use crate::answer::{Answer, Failures, Freshness};
use crate::cache::Cache;
use crate::deadline;
use crate::error::SourceError;
use crate::git::address::{Address, Allow, Transport};
use crate::git::checkout::{Checkout, CheckoutCache, CheckoutKey};
use crate::git::command::{Call, Git, Remote};
use crate::git::objects::{Objects, Tag};
use crate::git::refs::{Found, Refs, Revision, RevisionTarget, is_full_hash, is_short_hash};
use crate::git::signatures::{RefusedCommits, Signatures, Signed};
use crate::helm::charts::Charts;
use crate::hosts::{Availability, Hosts};
use crate::http::credentials::RepoCredentials;
use crate::limits::SourceSettings;
use crate::network::Shared;
use crate::oci::Artifacts;
use crate::packages::Surroundings;
use crate::snapshot;
use wavegate_api::repository::signature::Signature;

/// Longest accepted `targetRevision`, in bytes.
const MAX_REVISION: usize = 256;

/// Limit on the bytes of a server's references: about 400,000 of them.
const REFS_LIMIT: usize = 32 << 20;

/// The repositories, and what is kept of them.
#[derive(Debug)]
pub(crate) struct GitRepositories {
    pub(crate) git: Git,
    pub(crate) settings: SourceSettings,
    hosts: Arc<Hosts>,
    pub(crate) network: Arc<Shared>,
    known: Mutex<HashMap<String, Arc<Repository>>>,
    pub(crate) kept: CheckoutCache,
    clock: AtomicU64,
    pub(crate) cache: Arc<Cache>,
    pub(crate) charts: Charts,
    pub(crate) artifacts: Artifacts,
    signatures: Signatures,
    /// The hash of the work tree that is tried, once it was read.
    work_tree: AsyncMutex<Option<String>>,
}

/// State of one repository, by URL and credentials.
#[derive(Debug)]
struct Repository {
    id: String,
    refs: AsyncMutex<Option<Answer<Arc<Refs>>>>,
    objects: AsyncMutex<Fetched>,
    /// Commits with all that lead to them.
    history: AsyncMutex<Objects>,
    /// Commits by their abbreviated hashes, and the listing in which others were not found.
    short: AsyncMutex<Short>,
    /// Availability of the repository.
    availability: Mutex<Availability>,
    /// Bytes on disk, readable without waiting for a fetch.
    bytes: AtomicU64,
    /// The same of the history.
    history_bytes: AtomicU64,
    used: AtomicU64,
}

impl Repository {
    fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed) + self.history_bytes.load(Ordering::Relaxed)
    }
}

/// What is known about abbreviated hashes.
#[derive(Debug, Default)]
struct Short {
    commits: HashMap<String, String>,
    absent: HashMap<String, Arc<Refs>>,
}

#[derive(Debug)]
struct Fetched {
    objects: Objects,
    failures: Failures,
}

impl GitRepositories {
    /// What reading charts shares with reading commits.
    pub(crate) fn surroundings(&self) -> Surroundings<'_> {
        let (settings, hosts) = (&self.settings, &*self.hosts);
        Surroundings { settings, hosts, kept: &self.kept, cache: &self.cache }
    }

    pub(crate) fn open(cache_root: &Path, settings: SourceSettings) -> std::io::Result<Self> {
        let cache = Arc::new(Cache::open(cache_root)?);
        let limits = &settings.limits;
        let hosts = Arc::new(Hosts::new(limits));
        Ok(Self {
            git: Git::new(settings.clone(), cache.path())?,
            network: Arc::new(Shared::new(Arc::clone(&hosts), &settings.programs)),
            hosts,
            known: Mutex::default(),
            kept: CheckoutCache::new(limits.kept_checkouts, limits.kept_bytes),
            clock: AtomicU64::new(0),
            charts: Charts::default(),
            artifacts: Artifacts::default(),
            signatures: Signatures::default(),
            work_tree: AsyncMutex::default(),
            settings,
            cache,
        })
    }

    pub(crate) async fn resolve(
        &self,
        repo_url: &str,
        target: &RevisionTarget<'_>,
        credentials: Option<&RepoCredentials>,
        freshness: Freshness,
    ) -> Result<Revision, SourceError> {
        let address = self.address(repo_url, credentials)?;
        let tried = self.settings.tried.as_ref();
        let target = &tried.map_or(*target, |tried| tried.target(repo_url, *target));
        check_revision(&address, target.revision)?;
        check_revision(&address, target.tag_prefix)?;
        if let Some(directory) = self.directory(&address) {
            let sha = match self.is_work_tree(directory) {
                true => self.work_tree_hash(&address, directory).await?,
                false => self.snapshot(&address, directory.to_owned(), None).await?.hash,
            };
            return Ok(Revision { sha, reference: None });
        }
        if is_full_hash(target.revision) {
            return Ok(Revision::pinned(target.revision));
        }
        let repository = self.repository(&address, credentials);
        let refs = self.refs(&repository, &address, credentials, freshness).await?;
        let missing =
            |detail: &str| SourceError::missing_revision(&address.shown, target.revision, detail);
        match refs.find(target) {
            Found::One(revision) => Ok(revision),
            Found::Nothing if matches!(target.revision, "" | "HEAD") => Err(missing(
                "the repository has no HEAD: it may be empty, or its default branch does not exist; \
                 push a commit, or name a branch or tag in targetRevision",
            )),
            Found::Nothing => Err(missing("no branch, tag or version matches it")),
            Found::Ambiguous => {
                Err(missing("several commits match the abbreviated hash; use the full commit hash"))
            }
            Found::MaybeShort => {
                let short = target.revision.to_ascii_lowercase();
                // On the heap: it would make the future of each reconcile larger.
                let commit =
                    Box::pin(self.expanded(&address, &repository, credentials, (&short, &refs)));
                commit.await?.map(|sha| Revision::pinned(&sha)).ok_or_else(|| {
                    missing(
                        "no branch or tag of that name, and not the beginning of one commit only \
                         of a branch or tag; give the full commit hash",
                    )
                })
            }
        }
    }

    pub(crate) async fn checkout(
        &self,
        repo_url: &str,
        revision: &Revision,
        credentials: Option<&RepoCredentials>,
    ) -> Result<Arc<Checkout>, SourceError> {
        let arrived = Instant::now();
        let address = self.address(repo_url, credentials)?;
        if !is_full_hash(&revision.sha) {
            return Err(SourceError::InvalidRevision {
                repo: address.shown,
                revision: revision.sha.clone(),
                reason: "a checkout requires a full commit hash".into(),
            });
        }
        let repository = self.repository(&address, credentials);
        let key: CheckoutKey = (repository.id.clone(), revision.sha.clone());
        if let Some(found) = self.kept.get(&key) {
            return Ok(found);
        }
        let mut fetched = repository.objects.lock().await;
        if let Some(found) = self.kept.get(&key) {
            return Ok(found);
        }
        let failure_kept = self.settings.limits.failure_kept;
        if let Some(error) = fetched.failures.known(&revision.sha, arrived, failure_kept, true) {
            return Err(error);
        }
        let began = Instant::now();
        let made =
            self.make(&address, &repository, &mut fetched.objects, revision, credentials).await;
        repository.bytes.store(fetched.objects.bytes, Ordering::Relaxed);
        match made {
            Ok(checkout) => {
                let checkout = Arc::new(checkout.with_key(&key));
                self.kept.insert(key, &checkout);
                Ok(checkout)
            }
            Err(error) => {
                fetched.failures.add(&revision.sha, began, error.clone());
                Err(error)
            }
        }
    }

    pub(crate) async fn signature(
        &self,
        signed: &Signed<'_>,
        keys: &BTreeMap<String, String>,
        credentials: Option<&RepoCredentials>,
    ) -> Result<Signature, SourceError> {
        let address = self.address(signed.repo_url, credentials)?;
        if self.directory(&address).is_some() {
            return Ok(Signature::none());
        }
        let revision = Revision::pinned(signed.commit);
        if !is_full_hash(&revision.sha) {
            return Err(SourceError::InvalidRevision {
                repo: address.shown,
                revision: revision.sha,
                reason: "a signature is checked of a full commit hash".into(),
            });
        }
        let repository = self.repository(&address, credentials);
        let tag = self.signed_tag(&repository, &address, credentials, signed, &revision).await?;
        let ring = self.signatures.ring(&self.git, &self.cache, &address, keys).await?;
        let object = tag.as_ref().map_or(&revision.sha, |tag| &tag.object);
        let checked = ring.checked(&repository.id, object);
        if let Some(known) = self.signatures.known.get(&checked) {
            return Ok(known);
        }
        let mut fetched = repository.objects.lock().await;
        let _turn = self.hosts.acquire(&address, &repository.availability).await?;
        let remote = self.remote(&address, credentials);
        let commit = fetched.objects.fetch(remote, &revision).await;
        self.hosts.record_fetch(&address, &repository.availability, &commit);
        let commit = commit?;
        if let Some(tag) = &tag {
            fetched.objects.fetch_tag(remote, tag, &commit).await?;
        }
        repository.bytes.store(fetched.objects.bytes, Ordering::Relaxed);
        let git = &self.git;
        let signature = ring.check(git, &address, &fetched.objects, &commit, tag.as_ref()).await?;
        self.signatures.known.keep(checked, &signature);
        Ok(signature)
    }

    /// The annotated tag by which a commit was asked for.
    async fn signed_tag(
        &self,
        repository: &Repository,
        address: &Address,
        credentials: Option<&RepoCredentials>,
        signed: &Signed<'_>,
        revision: &Revision,
    ) -> Result<Option<Tag>, SourceError> {
        for name in signed.revisions.iter().filter(|name| !is_full_hash(name)) {
            check_revision(address, name)?;
            // The listing that the commit was found in, or a newer one.
            let fresh = Freshness(std::time::Duration::MAX);
            let refs = self.refs(repository, address, credentials, fresh).await?;
            let target = RevisionTarget { revision: name, tag_prefix: signed.tag_prefix };
            let Found::One(found) = refs.find(&target) else { continue };
            if found.sha != revision.sha {
                continue;
            }
            let Some(reference) = found.reference else { return Ok(None) };
            if is_short_hash(name) && !reference.ends_with(name) {
                // It names the commit itself.
                return Ok(None);
            }
            let name = reference;
            let object = refs.tag_object(&name).map(str::to_owned);
            return Ok(object.map(|object| Tag { name, object }));
        }
        Ok(None)
    }

    /// The directory of an address that is read as files, not as a repository.
    fn directory<'a>(&self, address: &'a Address) -> Option<&'a Path> {
        let as_files = |path: &&Path| self.is_work_tree(path) || !snapshot::is_repository(path);
        address.local().filter(as_files)
    }

    fn is_work_tree(&self, directory: &Path) -> bool {
        self.settings.tried.as_ref().is_some_and(|tried| tried.work_tree() == Some(directory))
    }

    /// The hash of the work tree: it is read once, since all are to see the same files.
    async fn work_tree_hash(
        &self,
        address: &Address,
        directory: &Path,
    ) -> Result<String, SourceError> {
        let mut known = self.work_tree.lock().await;
        if let Some(hash) = &*known {
            return Ok(hash.clone());
        }
        let taken = self.snapshot(address, directory.to_owned(), None).await?;
        Ok(known.insert(taken.hash).clone())
    }

    async fn make(
        &self,
        address: &Address,
        repository: &Repository,
        objects: &mut Objects,
        revision: &Revision,
        credentials: Option<&RepoCredentials>,
    ) -> Result<Checkout, SourceError> {
        let _turn = self.hosts.acquire(address, &repository.availability).await?;
        // OwnedDirectory when an operation below fails or is dropped.
        let target = self.cache.unused("checkout");
        let (repo, sha) = (address.shown.clone(), revision.sha.clone());
        if let Some(directory) = self.directory(address) {
            let taken = self.snapshot(address, directory.to_owned(), Some(target.path())).await?;
            if taken.hash != revision.sha {
                return Err(SourceError::missing_revision(
                    repo,
                    sha,
                    "the directory has changed since it was resolved; resolve it again",
                ));
            }
            return Checkout::new(target, repo, sha, taken.bytes).with_links_checked().await;
        }
        let remote = self.remote(address, credentials);
        let commit = objects.fetch(remote, revision).await;
        self.hosts.record_fetch(address, &repository.availability, &commit);
        let commit = commit?;
        let (bytes, submodules) = objects.export(remote, &commit, target.path()).await?;
        let paths = submodules.iter().map(|module| module.path.clone()).collect();
        let known = submodules.into_iter().filter(|module| !module.url.is_empty()).collect();
        let made = Checkout::new(target, repo, sha, bytes).with_submodules(paths, known);
        made.with_links_checked().await
    }

    async fn refs(
        &self,
        repository: &Repository,
        address: &Address,
        credentials: Option<&RepoCredentials>,
        freshness: Freshness,
    ) -> Result<Arc<Refs>, SourceError> {
        let arrived = Instant::now();
        let mut kept = repository.refs.lock().await;
        if let Some(answer) = &*kept
            && answer.serves(arrived, freshness, self.settings.limits.failure_kept)
        {
            return answer.outcome.clone();
        }
        if let Some(last) = &*kept {
            tokio::time::sleep(last.pause()).await;
        }
        let _turn = self.hosts.acquire(address, &repository.availability).await?;
        let began = Instant::now();
        let args = ["ls-remote", "--quiet", "--", &address.url].map(Into::into).into();
        let call = Call {
            credentials,
            stdout_limit: REFS_LIMIT,
            ..Call::new("git ls-remote", address, args)
        };
        let outcome = self.git.run(call).await;
        self.hosts.record_listing(address, &repository.availability, &outcome);
        let outcome = outcome.map(|text| Arc::new(Refs::parse(&String::from_utf8_lossy(&text))));
        *kept = Some(Answer { began, ended: Instant::now(), outcome: outcome.clone() });
        outcome
    }

    async fn snapshot(
        &self,
        address: &Address,
        directory: std::path::PathBuf,
        copy_to: Option<&Path>,
    ) -> Result<snapshot::DirectoryContent, SourceError> {
        let copy_to = copy_to.map(Path::to_owned);
        let (bytes, files) =
            (self.settings.limits.fetch_bytes, self.settings.limits.checkout_files);
        let work = move || {
            if let Some(copy_to) = &copy_to {
                std::fs::create_dir(copy_to)?;
            }
            snapshot::take(&directory, copy_to.as_deref(), bytes, files)
        };
        let repo = address.shown.clone();
        let failed =
            |detail: String| SourceError::cache(repo.clone(), "read the directory", detail);
        let taken = deadline::blocking(work).await;
        taken.map_err(|error| failed(error.to_string()))?.map_err(|failure| match failure {
            snapshot::Failure::Missing => {
                SourceError::missing_repository(repo.clone(), "the directory does not exist")
            }
            snapshot::Failure::TooLarge(limit) => {
                SourceError::too_large(repo.clone(), "the directory", limit)
            }
            snapshot::Failure::Io(error) => failed(error.to_string()),
        })
    }

    fn address(
        &self,
        repo_url: &str,
        credentials: Option<&RepoCredentials>,
    ) -> Result<Address, SourceError> {
        let tried = self.settings.tried.as_ref();
        if let Some(root) = tried.and_then(|tried| tried.work_tree_of(repo_url)) {
            return Address::parse(&root.display().to_string(), Allow::EVERYTHING);
        }
        let address = Address::parse(repo_url, self.settings.allow)?;
        if credentials.is_some_and(|credentials| !credentials.is_usable()) {
            let detail =
                "username, password, bearerToken, proxy and noProxy must be a single line each";
            return Err(SourceError::refused(address.shown, detail));
        }
        if let Some(detail) =
            credentials.map(|own| own.refusal.clone()).filter(|why| !why.is_empty())
        {
            return Err(SourceError::refused(address.shown, detail));
        }
        Ok(address)
    }

    fn remote<'a>(
        &'a self,
        address: &'a Address,
        credentials: Option<&'a RepoCredentials>,
    ) -> Remote<'a> {
        Remote { git: &self.git, limits: &self.settings.limits, address, credentials }
    }

    /// The entry of a repository; evicts the least recently used ones.
    fn repository(
        &self,
        address: &Address,
        credentials: Option<&RepoCredentials>,
    ) -> Arc<Repository> {
        let id = identity(address, credentials);
        let now = self.clock.fetch_add(1, Ordering::Relaxed);
        let mut known = self.known.lock();
        let found = known.entry(id).or_insert_with_key(|id| {
            let objects = Objects::new(self.cache.unused("repository"));
            Arc::new(Repository {
                id: id.clone(),
                refs: AsyncMutex::default(),
                objects: AsyncMutex::new(Fetched { objects, failures: Failures::default() }),
                availability: Mutex::default(),
                short: AsyncMutex::default(),
                history: AsyncMutex::new(Objects::new(self.cache.unused("history"))),
                bytes: AtomicU64::new(0),
                history_bytes: AtomicU64::new(0),
                used: AtomicU64::new(now),
            })
        });
        found.used.store(now, Ordering::Relaxed);
        let found = Arc::clone(found);
        let limits = &self.settings.limits;
        loop {
            let bytes: u64 = known.values().map(|r| r.bytes()).sum();
            if known.len() <= limits.kept_repositories && bytes <= limits.kept_bytes {
                break;
            }
            // Only the map refers to it: the repository is not in use.
            let idle = known.iter().filter(|(_, repository)| Arc::strong_count(repository) == 1);
            let oldest = idle.min_by_key(|(_, repository)| repository.used.load(Ordering::Relaxed));
            let Some(oldest) = oldest.map(|(id, _)| id.clone()) else { break };
            known.remove(&oldest);
        }
        found
    }
}

/// Identity of a repository as seen with certain credentials.
pub(crate) fn identity(address: &Address, credentials: Option<&RepoCredentials>) -> String {
    let mut hash = Sha256::new();
    hash.update(&address.url);
    let local = matches!(address.transport, Transport::Local(_));
    if !local && (credentials.is_some() || address.embedded.is_some()) {
        let given = credentials.cloned().unwrap_or_default();
        let (username, password) = address.login(&given);
        let (username, password) = (username.to_owned(), password.to_owned());
        hash.update([0]);
        hash.update(RepoCredentials { username, password, ..given }.fingerprint());
    }
    HEXLOWER.encode(&hash.finalize())
}

fn check_revision(address: &Address, revision: &str) -> Result<(), SourceError> {
    let reason = if revision.len() > MAX_REVISION {
        "longer than 256 bytes"
    } else if revision.starts_with('-') {
        "the revision must not start with '-'"
    } else if revision.chars().any(char::is_control) {
        "the revision must not contain control characters"
    } else {
        return Ok(());
    };
    let revision = revision.chars().take(64).map(|c| if c.is_control() { '\u{fffd}' } else { c });
    let (repo, revision) = (address.shown.clone(), revision.collect());
    Err(SourceError::InvalidRevision { repo, revision, reason: reason.into() })
}
