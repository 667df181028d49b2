//! Submodules: the repositories that a commit names in `.gitmodules`, in their place of its
//! checkout, with their own submodules.
//!
//! Who writes a repository chooses these URLs. So each must be one that the Application may
//! use, has its own credentials and its own checkout, and the whole is a new directory of hard
//! links to all of them. `git submodule` does not run.

use std::future::Future;
use std::path::{Component, Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use crate::deadline;
use crate::error::SourceError;
use crate::git::access::RepositoryAccess;
use crate::git::address::Address;
use crate::git::checkout::{Checkout, CheckoutKey};
use crate::git::gitmodules::Submodule;
use crate::git::refs::Revision;
use crate::git::repositories::GitRepositories;

/// How deep submodules may contain submodules.
const MAX_DEPTH: usize = 8;
/// The most submodules of one commit.
const MAX_SUBMODULES: usize = 100;
/// All submodules of a checkout may take this many times the time of one command.
const TIMES: u32 = 5;

/// The URL of a submodule, which may be relative to that of its repository.
///
/// # Errors
///
/// When it leads out of the server of the repository.
fn resolved(parent: &str, url: &str) -> Result<String, String> {
    if !url.starts_with("./") && !url.starts_with("../") {
        return Ok(url.to_owned());
    }
    let parent = parent.trim_end_matches('/');
    // What is kept, and the separator between it and the path.
    let (front, path) = match parent.split_once("://") {
        Some((scheme, rest)) => {
            let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
            (format!("{scheme}://{authority}/"), path)
        }
        None if parent.starts_with('/') => ("/".to_owned(), &parent[1..]),
        None => match parent.split_once(':') {
            Some((host, path)) if path.starts_with('/') => (format!("{host}:/"), &path[1..]),
            Some((host, path)) => (format!("{host}:"), path),
            None => return Err(format!("the URL {url} is relative to no URL")),
        },
    };
    let mut parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    for part in url.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop().ok_or_else(|| format!("the URL {url} leads out of the server"))?;
            }
            part => parts.push(part),
        }
    }
    Ok(format!("{front}{}", parts.join("/")))
}

/// A checkout with its place in another one.
type Part = (String, Arc<Checkout>);

impl GitRepositories {
    /// A checkout with its submodules.
    ///
    /// # Errors
    ///
    /// [`SourceError::Submodule`].
    pub(crate) async fn with_submodules(
        &self,
        repo_url: &str,
        base: Arc<Checkout>,
        access: &dyn RepositoryAccess,
    ) -> Result<Arc<Checkout>, SourceError> {
        if base.modules().is_empty() {
            return Ok(base);
        }
        let limit = self.settings.limits.timeout.saturating_mul(TIMES);
        let repo = base.repo().to_owned();
        let all = self.completed(repo_url, base, access, 0);
        tokio::time::timeout(limit, all).await.unwrap_or_else(|_| {
            Err(SourceError::TimedOut { repo, what: "fetching the submodules".into(), limit })
        })
    }

    fn completed<'a>(
        &'a self,
        repo_url: &'a str,
        base: Arc<Checkout>,
        access: &'a dyn RepositoryAccess,
        depth: usize,
    ) -> Pin<Box<dyn Future<Output = Result<Arc<Checkout>, SourceError>> + Send + 'a>> {
        Box::pin(async move {
            if base.modules().is_empty() {
                return Ok(base);
            }
            let repo = base.repo().to_owned();
            if depth >= MAX_DEPTH || base.modules().len() > MAX_SUBMODULES {
                let limit = format!("{MAX_SUBMODULES} in a commit, and {MAX_DEPTH} levels");
                return Err(SourceError::too_large(repo, "the number of submodules", limit));
            }
            let mut parts: Vec<Part> = Vec::new();
            // What the submodules lack is missing in the whole.
            let mut missing_below = Vec::new();
            let mut bytes = base.bytes();
            let mut hash = Sha256::new();
            hash.update(base.key());
            for module in base.modules() {
                let part = self.part(repo_url, module, access, depth).await;
                let part = part.map_err(|error| SourceError::Submodule {
                    repo: repo.clone(),
                    path: module.path.clone(),
                    error: Box::new(error),
                })?;
                for text in [module.path.as_str(), part.key()] {
                    hash.update((text.len() as u64).to_le_bytes());
                    hash.update(text);
                }
                bytes = bytes.saturating_add(part.bytes());
                let below = part.submodules().iter();
                missing_below.extend(below.map(|path| format!("{}/{path}", module.path)));
                parts.push((module.path.clone(), part));
            }
            let key = HEXLOWER.encode(&hash.finalize());
            let key: CheckoutKey = (key, base.revision().to_owned());
            if let Some(found) = self.kept.get(&key) {
                return Ok(found);
            }
            let limits = &self.settings.limits;
            if bytes > limits.fetch_bytes {
                let limit = format!("{} MiB", limits.fetch_bytes >> 20);
                let what = "the checkout with its submodules";
                return Err(SourceError::too_large(repo, what, limit));
            }
            let target = self.cache.unused("checkout");
            let (root, files) = (target.path().to_owned(), limits.checkout_files);
            let failed = |detail: String| {
                SourceError::cache(repo.clone(), "put the submodules into the checkout", detail)
            };
            let shared = Arc::clone(&base);
            let put = deadline::blocking(move || put_together(&root, &shared, &parts, files));
            put.await
                .map_err(|error| failed(error.to_string()))?
                .map_err(|error| failed(error.to_string()))?;
            let is_put = |path: &&String| base.modules().iter().any(|module| module.path == **path);
            let mut missing: Vec<String> =
                base.submodules().iter().filter(|path| !is_put(path)).cloned().collect();
            missing.extend(missing_below);
            let made = Checkout::new(target, repo.clone(), base.revision().to_owned(), bytes)
                .with_submodules(missing, Vec::new())
                .with_key(&key)
                .with_links_checked()
                .await?;
            let made = Arc::new(made);
            self.kept.insert(key, &made);
            Ok(made)
        })
    }

    async fn part(
        &self,
        repo_url: &str,
        module: &Submodule,
        access: &dyn RepositoryAccess,
        depth: usize,
    ) -> Result<Arc<Checkout>, SourceError> {
        let invalid = |reason: String| SourceError::InvalidUrl {
            repo: crate::redact_urls(&module.url).chars().take(200).collect(),
            reason,
        };
        let url = resolved(repo_url, &module.url).map_err(invalid)?;
        let address = Address::parse(&url, self.settings.allow)?;
        let is_local = |url: &str| {
            Address::parse(url, self.settings.allow).is_ok_and(|found| found.local().is_some())
        };
        // A repository of a server must not choose a folder of this machine.
        if address.local().is_some() && !is_local(repo_url) {
            return Err(SourceError::LocalNotAllowed { repo: address.shown });
        }
        let credentials = access.credentials(&url);
        let credentials =
            credentials.map_err(|detail| SourceError::refused(&address.shown, detail))?;
        let revision = Revision::pinned(&module.commit);
        let found = self.checkout(&url, &revision, credentials.as_ref()).await?;
        self.completed(&url, found, access, depth + 1).await
    }
}

/// Creates a directory with the files of all parts.
fn put_together(root: &Path, base: &Checkout, parts: &[Part], files: usize) -> std::io::Result<()> {
    let mut left = files;
    std::fs::create_dir(root)?;
    link_tree(base.root(), root, &mut left)?;
    for (path, part) in parts {
        let mut place = PathBuf::from(root);
        for component in Path::new(path).components() {
            let Component::Normal(name) = component else {
                return Err(std::io::Error::other(format!("{path}: is no path of a submodule")));
            };
            place.push(name);
            match place.symlink_metadata() {
                Ok(meta) if meta.is_dir() => {}
                Ok(_) => {
                    return Err(std::io::Error::other(format!("{path}: is not a directory")));
                }
                Err(_) => std::fs::create_dir(&place)?,
            }
        }
        link_tree(part.root(), &place, &mut left)?;
    }
    Ok(())
}

/// Adds the content of one directory to another one, without following links.
fn link_tree(from: &Path, to: &Path, left: &mut usize) -> std::io::Result<()> {
    for entry in std::fs::read_dir(from)? {
        deadline::check()?;
        let entry = entry?;
        *left = left.checked_sub(1).ok_or_else(|| {
            std::io::Error::other("the checkout with its submodules has too many files")
        })?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_dir() {
            std::fs::create_dir(&target)?;
            link_tree(&source, &target, left)?;
        } else if kind.is_symlink() {
            std::os::unix::fs::symlink(std::fs::read_link(&source)?, &target)?;
        } else if std::fs::hard_link(&source, &target).is_err() {
            // A file system may permit few links to a file, or none.
            std::fs::copy(&source, &target)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nothing else stops a thread that may block.
    #[test]
    fn files_are_put_together_within_a_time() {
        let directory = tempfile::tempdir().unwrap();
        let (from, to) = (directory.path().join("from"), directory.path().join("to"));
        std::fs::create_dir_all(from.join("below")).unwrap();
        std::fs::create_dir(&to).unwrap();
        let link = || link_tree(&from, &to, &mut 10);
        let error = deadline::limited(std::time::Duration::ZERO, link).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
        link().unwrap();
        assert!(to.join("below").is_dir());
    }

    #[test]
    fn relative_urls_stay_on_their_server() {
        let cases = [
            ("https://h/org/repo.git", "../other.git", Ok("https://h/org/other.git")),
            ("https://h/org/repo", "./sub", Ok("https://h/org/repo/sub")),
            ("https://h/org/repo/", "../../x/y", Ok("https://h/x/y")),
            ("https://me:word@h/org/repo", "../y", Ok("https://me:word@h/org/y")),
            ("git@h:org/repo.git", "../other", Ok("git@h:org/other")),
            ("git@h:org/repo.git", "../../x", Ok("git@h:x")),
            ("git@h:/org/repo", "../x", Ok("git@h:/org/x")),
            ("ssh://git@h:22/org/repo", "../x", Ok("ssh://git@h:22/org/x")),
            ("/tmp/a/repo", "../b", Ok("/tmp/a/b")),
            ("https://h/repo", "https://e/x", Ok("https://e/x")),
            ("https://h/repo", "../../x", Err(())),
            ("git@h:repo", "../../x", Err(())),
            ("repo", "../x", Err(())),
        ];
        for (parent, url, want) in cases {
            let got = resolved(parent, url).map_err(drop);
            assert_eq!(got.as_deref(), want.as_ref().copied(), "{parent} {url}");
        }
    }
}
