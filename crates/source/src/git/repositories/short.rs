//! Commits by the beginning of their hash.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Address, GitRepositories, Refs, RepoCredentials, Repository, SourceError};

/// Most abbreviated hashes of one repository that are remembered.
const MAX_KNOWN: usize = 256;

impl GitRepositories {
    /// The commit that an abbreviated hash names; `None` if there is none, or more than one. All
    /// branches and tags are fetched without files, once for each hash that is found, and for
    /// others once for each listing.
    pub(super) async fn expanded(
        &self,
        address: &Address,
        repository: &Repository,
        credentials: Option<&RepoCredentials>,
        (short, refs): (&str, &Arc<Refs>),
    ) -> Result<Option<String>, SourceError> {
        let mut known = repository.short.lock().await;
        if let Some(commit) = known.commits.get(short) {
            return Ok(Some(commit.clone()));
        }
        if known.absent.get(short).is_some_and(|listing| listing == refs) {
            return Ok(None);
        }
        let remote = self.remote(address, credentials);
        let local = repository.objects.lock().await.objects.expand(remote, short).await;
        let found = match local {
            Some(commit) => Some(commit),
            None => {
                let mut history = repository.history.lock().await;
                let _turn = self.hosts.acquire(address, &repository.availability).await?;
                let found = history.expand_fetched(remote, short, refs.is_sha256()).await;
                self.hosts.record_fetch(address, &repository.availability, &found);
                repository.history_bytes.store(history.bytes, Ordering::Relaxed);
                found?
            }
        };
        if known.commits.len() + known.absent.len() >= MAX_KNOWN {
            known.commits.clear();
            known.absent.clear();
        }
        match &found {
            Some(commit) => {
                known.absent.remove(short);
                known.commits.insert(short.to_owned(), commit.clone());
            }
            None => drop(known.absent.insert(short.to_owned(), Arc::clone(refs))),
        }
        Ok(found)
    }
}
