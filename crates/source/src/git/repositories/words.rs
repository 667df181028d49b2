//! What a commit says of itself, for those who look at it.

use std::sync::atomic::Ordering;

use super::{GitRepositories, RepoCredentials, Revision, SourceError, is_full_hash};
use crate::git::objects::CommitWords;

impl GitRepositories {
    /// What a commit says of itself; `None` of a directory, which has none.
    pub(crate) async fn words(
        &self,
        repo_url: &str,
        commit: &str,
        credentials: Option<&RepoCredentials>,
    ) -> Result<Option<CommitWords>, SourceError> {
        let address = self.address(repo_url, credentials)?;
        if self.directory(&address).is_some() || !is_full_hash(commit) {
            return Ok(None);
        }
        let repository = self.repository(&address, credentials);
        let mut fetched = repository.objects.lock().await;
        let _turn = self.hosts.acquire(&address, &repository.availability).await?;
        let remote = self.remote(&address, credentials);
        let found = fetched.objects.fetch(remote, &Revision::pinned(commit)).await;
        self.hosts.record_fetch(&address, &repository.availability, &found);
        let found = found?;
        repository.bytes.store(fetched.objects.bytes, Ordering::Relaxed);
        fetched.objects.words(remote, &found).await.map(Some)
    }
}
