//! Whether a commit and all commits that lead to it are signed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

use super::{
    GitRepositories, RefusedCommits, RepoCredentials, Revision, Signature, Signed, SourceError,
};
use crate::git::signatures::{MOST_COMMITS, MOST_REFUSED, MOST_SEALS};

impl GitRepositories {
    /// As [`Repositories::refused_history`](crate::Repositories::refused_history).
    pub(crate) async fn refused_history(
        &self,
        signed: &Signed<'_>,
        keys: &BTreeMap<String, String>,
        accepted: &BTreeSet<String>,
        credentials: Option<&RepoCredentials>,
    ) -> Result<RefusedCommits, SourceError> {
        // Of the tag, or of the commit, first: most revisions are refused for these.
        let own = self.signature(signed, keys, credentials).await?;
        let address = self.address(signed.repo_url, credentials)?;
        let is_refused = !own.is_good_by(accepted);
        let mut refused: RefusedCommits = Vec::new();
        if is_refused {
            refused.push((signed.commit.to_owned(), own));
        }
        if self.directory(&address).is_some() {
            refused.push((signed.commit.to_owned(), Signature::none()));
            return Ok(refused);
        }
        let revision = Revision::pinned(signed.commit);
        let repository = self.repository(&address, credentials);
        let tag = self.signed_tag(&repository, &address, credentials, signed, &revision).await?;
        if is_refused && tag.is_none() {
            return Ok(refused);
        }
        let ring = self.signatures.ring(&self.git, &self.cache, &address, keys).await?;
        let whole = ring.checked_history(&repository.id, signed.commit, tag.as_ref(), accepted);
        if let Some(known) = self.signatures.histories.get(&whole) {
            return Ok(known);
        }
        let mut history = repository.history.lock().await;
        if let Some(known) = self.signatures.histories.get(&whole) {
            return Ok(known);
        }
        let remote = self.remote(&address, credentials);
        let fetched = {
            let _turn = self.hosts.acquire(&address, &repository.availability).await?;
            let fetched = history.fetch_history(remote, &revision).await;
            self.hosts.record_fetch(&address, &repository.availability, &fetched);
            fetched
        };
        repository.history_bytes.store(history.bytes, Ordering::Relaxed);
        let commit = fetched?;
        let check = async |commit: &str| {
            let checked = ring.checked(&repository.id, commit);
            if let Some(known) = self.signatures.known.get(&checked) {
                return Ok(known);
            }
            let signature = ring.check(&self.git, &address, &history, commit, None).await?;
            self.signatures.known.keep(checked, &signature);
            Ok::<_, SourceError>(signature)
        };
        let too_many = |what: &str, limit: usize| {
            SourceError::too_large(
                &address.shown,
                what,
                format!(
                    "{limit} commits; approve the history by a signed commit with the trailer \
                 Argocd-gpg-seal"
                ),
            )
        };
        // Only what is signed by an accepted key approves anything.
        let (mut seals, mut others) = (Vec::new(), BTreeSet::new());
        loop {
            // Those that approve nothing come again.
            let found = history.seals(remote, &commit, &seals, others.len() + 1).await?;
            let Some(next) = found.into_iter().find(|seal| !others.contains(seal)) else { break };
            if seals.len() + others.len() >= MOST_SEALS {
                return Err(too_many("the commits that approve a history", MOST_SEALS));
            }
            match check(&next).await?.is_good_by(accepted) {
                true => seals.push(next),
                false => drop(others.insert(next)),
            }
        }
        let commits = history.history(remote, &commit, &seals, MOST_COMMITS + 1).await?;
        if commits.len() > MOST_COMMITS {
            return Err(too_many("the history since the last approval", MOST_COMMITS));
        }
        for commit in commits {
            if refused.len() >= MOST_REFUSED {
                break;
            }
            let signature = check(&commit).await?;
            if !signature.is_good_by(accepted) {
                refused.push((commit, signature));
            }
        }
        self.signatures.histories.keep(whole, &refused);
        Ok(refused)
    }
}
