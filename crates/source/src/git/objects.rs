//! The local repository: fetches single commits and exports their files.
//!
//! The directory is only a cache and can be deleted at any time, which also repairs what
//! an interrupted or failed `git` left in it.

mod history;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use crate::cache::OwnedDirectory;
use crate::error::SourceError;
use crate::git::command::{Call, Remote, too_large};
use crate::git::gitmodules::{Submodule, urls};
use crate::git::lfs;
use crate::git::refs::{Revision, is_full_hash};
use crate::process::run::disk_use;

/// Number of fetches before the repository is created again, since each fetch adds a pack.
const MAX_FETCHES: usize = 64;

/// Depth of fetching all branches, for servers that do not serve a commit by its hash.
const FALLBACK_DEPTH: &str = "--depth=1000";

/// All branches and tags.
const ALL_REFS: [&str; 2] =
    ["+refs/heads/*:refs/wavegate/heads/*", "+refs/tags/*:refs/wavegate/tags/*"];

/// Disables all attributes that change the exported files.
const NO_ATTRIBUTES: &str = "* -text -eol -crlf -ident -filter -working-tree-encoding\n";

/// The file with the URLs of submodules.
const SUBMODULES: &str = ".gitmodules";

/// Disk space that a directory counts for, in bytes.
const DIRECTORY_BYTES: u64 = 4096;

/// Limit on the bytes of a file listing: enough for 200,000 files with paths of 250 bytes.
const LISTING_LIMIT: usize = 64 << 20;

/// What a commit says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommitWords {
    /// The name of its author.
    pub author: String,
    /// The first line of its message.
    pub subject: String,
}

/// The local directory of one repository, and its state.
#[derive(Debug)]
pub(crate) struct Objects {
    directory: OwnedDirectory,
    format: Option<Format>,
    /// Set while `git` writes; still set afterwards when it was interrupted.
    dirty: bool,
    fetches: usize,
    /// Size after the last fetch.
    pub bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Sha1,
    Sha256,
}

/// An annotated tag.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tag {
    /// Its full name.
    pub name: String,
    /// The hash of its object.
    pub object: String,
}

impl Objects {
    /// Directories are created on demand.
    pub(crate) fn new(directory: OwnedDirectory) -> Self {
        Self { directory, format: None, dirty: false, fetches: 0, bytes: 0 }
    }

    /// The only local commit that starts with an abbreviated hash.
    pub(crate) async fn expand(&self, remote: Remote<'_>, short: &str) -> Option<String> {
        if self.dirty || self.format.is_none() {
            return None;
        }
        self.commit(remote, short).await.ok()
    }

    /// Fetches exactly one commit, if it is not present, and returns its full hash.
    pub(crate) async fn fetch(
        &mut self,
        remote: Remote<'_>,
        revision: &Revision,
    ) -> Result<String, SourceError> {
        let format = self.ready(remote, revision.sha.len() == 64).await?;
        if let Ok(commit) = self.commit(remote, &revision.sha).await {
            return Ok(commit);
        }
        let fresh = self.fetches == 0;
        let outcome = self.fetch_missing(remote, revision).await;
        match outcome {
            // Existing data may be invalid, or too large together with the new data:
            // retry once with an empty repository.
            Err(SourceError::TooLarge { .. } | SourceError::Git { .. }) if !fresh => {
                self.recreate(remote, format).await?;
                self.fetch_missing(remote, revision).await
            }
            outcome => outcome,
        }
    }

    async fn fetch_missing(
        &mut self,
        remote: Remote<'_>,
        revision: &Revision,
    ) -> Result<String, SourceError> {
        self.dirty = true;
        self.fetches += 1;
        let sha = &revision.sha;
        let refspec = format!("+{sha}:refs/wavegate/{sha}");
        let mut outcome = self.git_fetch(remote, "--depth=1", &[refspec]).await;
        if let Err(SourceError::MissingRevision { detail, .. }) = &outcome
            && detail.contains("unadvertised")
        {
            outcome = self.fetch_by_name(remote, revision).await;
        }
        self.fetched(&outcome).await;
        let missing = |detail: String| {
            SourceError::missing_revision(&remote.address.shown, sha.clone(), detail)
        };
        match outcome {
            Ok(()) => {}
            Err(SourceError::MissingRevision { detail, .. }) => {
                return Err(missing(format!(
                    "{detail}; push the commit, or use an existing revision"
                )));
            }
            Err(error) => return Err(error),
        }
        let found = self.commit(remote, sha).await;
        if found.is_err() && self.peeled(remote, sha, "object").await.is_ok() {
            let detail = "it is the hash of a file or a folder, or of a tag of one; name a commit, \
                          or a branch or tag of one";
            return Err(missing(detail.to_owned()));
        }
        found.map_err(|error| match error {
            // `git` exited with an error.
            SourceError::Git { .. } => missing(format!(
                "the server gives out no commit by its hash, and it is not among the last \
                 {} of a branch or tag; name a branch or tag instead",
                FALLBACK_DEPTH.trim_start_matches("--depth=")
            )),
            error => error,
        })
    }

    /// A directory in which objects of the format can be fetched, made anew if need be.
    async fn ready(&mut self, remote: Remote<'_>, is_sha256: bool) -> Result<Format, SourceError> {
        let format = if is_sha256 { Format::Sha256 } else { Format::Sha1 };
        if self.dirty || self.fetches >= MAX_FETCHES || self.format != Some(format) {
            self.recreate(remote, format).await?;
        }
        Ok(format)
    }

    /// Records the end of a fetch.
    async fn fetched(&mut self, outcome: &Result<(), SourceError>) {
        if let Err(SourceError::MissingRevision { .. }) | Ok(()) = outcome {
            // `git` exited by itself, so no file is partially written.
            self.dirty = false;
        }
        self.bytes = disk_use(self.directory.path()).await;
    }

    /// Fetches the object of an annotated tag of a fetched commit, if it is not present.
    pub(crate) async fn fetch_tag(
        &mut self,
        remote: Remote<'_>,
        Tag { name, object }: &Tag,
        commit: &str,
    ) -> Result<(), SourceError> {
        if self.peeled(remote, object, "tag").await.is_err() {
            self.dirty = true;
            self.fetches += 1;
            let refspec = format!("+{name}:refs/wavegate/{object}");
            let outcome = self.git_fetch(remote, "--depth=1", &[refspec]).await;
            self.fetched(&outcome).await;
            outcome?;
        }
        let is_tag = self.peeled(remote, object, "tag").await.is_ok_and(|hash| hash == *object);
        let is_of_commit = self.commit(remote, object).await.is_ok_and(|hash| hash == commit);
        if is_tag && is_of_commit {
            return Ok(());
        }
        Err(SourceError::git(
            &remote.address.shown,
            "reading a tag",
            format!("{name} has moved since it was resolved"),
        ))
    }

    /// The directory of the repository.
    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// For servers that serve listed references only.
    async fn fetch_by_name(
        &self,
        remote: Remote<'_>,
        revision: &Revision,
    ) -> Result<(), SourceError> {
        if let Some(name) = &revision.reference {
            let refspec = format!("+{name}:refs/wavegate/{}", revision.sha);
            self.git_fetch(remote, "--depth=1", &[refspec]).await?;
            if self.commit(remote, &revision.sha).await.is_ok() {
                return Ok(());
            }
        }
        self.git_fetch(remote, FALLBACK_DEPTH, &ALL_REFS.map(str::to_owned)).await
    }

    async fn git_fetch(
        &self,
        remote: Remote<'_>,
        depth: &str,
        refspecs: &[String],
    ) -> Result<(), SourceError> {
        let fixed = [
            "fetch",
            "--quiet",
            "--force",
            "--no-tags",
            "--no-write-fetch-head",
            "--no-auto-maintenance",
            "--no-recurse-submodules",
            depth,
            "--",
            &remote.address.url,
        ];
        let args = fixed.into_iter().chain(refspecs.iter().map(String::as_str)).map(OsString::from);
        let call = Call {
            credentials: remote.credentials,
            watch: Some(self.directory.path()),
            ..self.call(remote, "git fetch", args.collect())
        };
        remote.git.run(call).await.map(drop)
    }

    async fn recreate(&mut self, remote: Remote<'_>, format: Format) -> Result<(), SourceError> {
        self.dirty = true;
        let failed = |error: std::io::Error| {
            SourceError::cache(&remote.address.shown, "create the repository cache", error.kind())
        };
        match tokio::fs::remove_dir_all(self.directory.path()).await {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(failed(error));
            }
            _ => {}
        }
        let format_name = match format {
            Format::Sha1 => "--object-format=sha1",
            Format::Sha256 => "--object-format=sha256",
        };
        let mut args: Vec<OsString> =
            ["init", "--quiet", "--bare", "--template=", format_name, "--"].map(Into::into).into();
        args.push(self.directory.path().into());
        let call = Call { git_dir: None, ..self.call(remote, "git init", args) };
        remote.git.run(call).await?;
        // Takes precedence over every `.gitattributes`: files are exported as committed,
        // without keyword expansion, filters or encodings, each of which could make them
        // larger than listed.
        let info = self.directory.path().join("info");
        tokio::fs::create_dir_all(&info).await.map_err(failed)?;
        tokio::fs::write(info.join("attributes"), NO_ATTRIBUTES).await.map_err(failed)?;
        (self.dirty, self.fetches, self.format) = (false, 0, Some(format));
        Ok(())
    }

    /// Author and subject of a fetched commit.
    pub(crate) async fn words(
        &self,
        remote: Remote<'_>,
        commit: &str,
    ) -> Result<CommitWords, SourceError> {
        let args = ["log", "-1", "--no-show-signature", "--encoding=UTF-8", "--format=%an%x00%s"];
        let mut args: Vec<OsString> = args.map(OsString::from).into();
        args.extend(["--end-of-options", commit].map(OsString::from));
        let answer = remote.git.run(self.call(remote, "git log", args)).await?;
        let text = String::from_utf8_lossy(&answer);
        let (author, subject) = text.trim_end().split_once('\0').unwrap_or_default();
        Ok(CommitWords { author: author.to_owned(), subject: subject.to_owned() })
    }

    /// The full hash of a commit, from a hash that may be abbreviated.
    async fn commit(&self, remote: Remote<'_>, hash: &str) -> Result<String, SourceError> {
        self.peeled(remote, hash, "commit").await
    }

    async fn peeled(
        &self,
        remote: Remote<'_>,
        hash: &str,
        kind: &str,
    ) -> Result<String, SourceError> {
        let args = ["rev-parse", "--verify", "--quiet", "--end-of-options"].map(OsString::from);
        let mut args = Vec::from(args);
        args.push(format!("{hash}^{{{kind}}}").into());
        let answer = remote.git.run(self.call(remote, "git rev-parse", args)).await?;
        let commit = String::from_utf8_lossy(&answer).trim().to_owned();
        if is_full_hash(&commit) {
            return Ok(commit);
        }
        Err(SourceError::git(
            &remote.address.shown,
            "git rev-parse",
            format!("the output is not the hash of a {kind}"),
        ))
    }

    /// Exports the files of a fetched commit to a new directory.
    ///
    /// The listing is checked first, so that a tree that expands beyond the limit is
    /// rejected before anything is written; attributes of the repository have no effect.
    /// Returns the bytes on disk and the submodules.
    pub(crate) async fn export(
        &mut self,
        remote: Remote<'_>,
        commit: &str,
        target: &Path,
    ) -> Result<(u64, Vec<Submodule>), SourceError> {
        let args = ["ls-tree", "-r", "-l", "-z", "--full-tree", commit].map(OsString::from);
        let call =
            Call { stdout_limit: LISTING_LIMIT, ..self.call(remote, "git ls-tree", args.into()) };
        let listing = remote.git.run(call).await?;
        let Listing { bytes, files, mut submodules, has_urls } = Listing::read(&listing);
        if bytes > remote.limits.fetch_bytes {
            return Err(too_large(remote.address, "the checkout", remote.limits.fetch_bytes));
        }
        if files > remote.limits.checkout_files {
            return Err(SourceError::too_large(
                &remote.address.shown,
                "the checkout",
                format!("{} files and directories", remote.limits.checkout_files),
            ));
        }
        tokio::fs::create_dir(target).await.map_err(|error| {
            SourceError::cache(&remote.address.shown, "create the checkout directory", error.kind())
        })?;
        // A separate index: exports share no state.
        let index = target.with_extension("index");
        let env = vec![
            ("GIT_INDEX_FILE".into(), index.clone().into()),
            ("GIT_WORK_TREE".into(), target.into()),
        ];
        let mut outcome = Ok(Vec::new());
        let steps: [(&'static str, &[&str]); 2] = [
            ("git read-tree", &["read-tree", commit]),
            ("git checkout-index", &["checkout-index", "--all", "--force", "--quiet"]),
        ];
        for (what, args) in steps {
            if outcome.is_ok() {
                let args = args.iter().map(OsString::from).collect();
                let watch = Some(target).filter(|_| what == "git checkout-index");
                let call = Call { env: env.clone(), watch, ..self.call(remote, what, args) };
                outcome = remote.git.run(call).await;
            }
        }
        // Only a killed call leaves a lock, under a name that is not used again.
        let _ = tokio::fs::remove_file(index.with_extension("index.lock")).await;
        let _ = tokio::fs::remove_file(&index).await;
        outcome?;
        if has_urls && !submodules.is_empty() {
            let mut known = self.submodule_urls(remote, commit).await?;
            for module in &mut submodules {
                module.url = known.remove(&module.path).unwrap_or_default();
            }
        }
        if remote.credentials.is_some_and(|credentials| credentials.lfs) {
            lfs::fill(remote, self.directory.path(), commit, target).await?;
            self.bytes = disk_use(self.directory.path()).await;
        }
        // The actual size is limited, too, whatever was listed.
        let written = disk_use(target).await;
        if written > remote.limits.fetch_bytes {
            return Err(too_large(remote.address, "the checkout", remote.limits.fetch_bytes));
        }
        Ok((written.max(bytes), submodules))
    }

    /// The URLs of submodules, from the file of the commit itself: in a checkout it could be a
    /// link.
    async fn submodule_urls(
        &self,
        remote: Remote<'_>,
        commit: &str,
    ) -> Result<BTreeMap<String, String>, SourceError> {
        let blob = format!("--blob={commit}:{SUBMODULES}");
        let args = ["config", &blob, "--no-includes", "--null", "--list"].map(OsString::from);
        let read = remote.git.run(self.call(remote, "git config", args.into())).await;
        match read {
            Ok(listing) => Ok(urls(&listing)),
            // It is no configuration. Whoever needs one of the submodules is refused.
            Err(SourceError::Git { .. }) => Ok(BTreeMap::new()),
            Err(error) => Err(error),
        }
    }

    fn call<'a>(&'a self, remote: Remote<'a>, what: &'static str, args: Vec<OsString>) -> Call<'a> {
        let git_dir = Some(self.directory.path());
        Call { git_dir, ..Call::new(what, remote.address, args) }
    }
}

/// Output of `git ls-tree` for a commit.
struct Listing {
    /// Bytes of all files and directories.
    bytes: u64,
    /// Number of files and directories.
    files: usize,
    /// The submodules, without their URLs.
    submodules: Vec<Submodule>,
    /// Whether there is a file with their URLs.
    has_urls: bool,
}

impl Listing {
    fn read(listing: &[u8]) -> Self {
        let mut read = Self { bytes: 0, files: 0, submodules: Vec::new(), has_urls: false };
        let mut before: &[u8] = b"";
        for entry in listing.split(|b| *b == 0).filter(|entry| !entry.is_empty()) {
            // `mode type hash size TAB path`; the size of a submodule is `-`.
            let tab = entry.iter().position(|b| *b == b'\t').unwrap_or(entry.len());
            let (front, path) = (&entry[..tab], entry.get(tab + 1..).unwrap_or_default());
            let size = front.rsplit(|b| *b == b' ').next().unwrap_or_default();
            let size = std::str::from_utf8(size).ok().and_then(|size| size.parse::<u64>().ok());
            if front.starts_with(b"160000 ") {
                let commit = front.split(|b| *b == b' ').nth(2).unwrap_or_default();
                read.submodules.push(Submodule {
                    path: String::from_utf8_lossy(path).into_owned(),
                    commit: String::from_utf8_lossy(commit).into_owned(),
                    url: String::new(),
                });
            }
            read.has_urls |= path == SUBMODULES.as_bytes();
            // The listing is sorted, so a directory is new when the previous path is not
            // inside it.
            let common = before.iter().zip(path).take_while(|(a, b)| a == b).count();
            let made = path[common..].iter().filter(|b| **b == b'/').count();
            read.bytes = read.bytes.saturating_add(size.unwrap_or(0));
            read.bytes = read.bytes.saturating_add(DIRECTORY_BYTES * made as u64);
            read.files += 1 + made;
            before = path;
        }
        read
    }
}
