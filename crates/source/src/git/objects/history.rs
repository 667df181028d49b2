//! The commits that lead to a commit, without their files.
//!
//! They are in a directory of their own: commits that are deployed are fetched alone, so that
//! their repository has no history.

use std::ffi::OsString;

use super::{ALL_REFS, Objects, Remote, Revision, SourceError, is_full_hash};

/// Files are left out where the server supports that.
const COMMITS_ONLY: &str = "--filter=tree:0";

/// How the message of a commit begins a line that approves all commits before it.
const SEAL: &str = "--grep=^Argocd-gpg-seal:";

/// Bytes of the hashes of a listing.
const LISTING: usize = 1 << 20;

impl Objects {
    /// Fetches a commit with all that lead to it, if they are not present, and returns its full
    /// hash.
    ///
    /// # Errors
    ///
    /// Also when the repository does not have all of them.
    pub(crate) async fn fetch_history(
        &mut self,
        remote: Remote<'_>,
        revision: &Revision,
    ) -> Result<String, SourceError> {
        let sha = &revision.sha;
        self.ready(remote, sha.len() == 64).await?;
        // Only the reference says that all commits are there: without them `git` does not set it.
        let reference = format!("refs/wavegate/{sha}");
        let mut complete = reference.as_str();
        if self.commit(remote, &reference).await.is_err() {
            let refspec = format!("+{sha}:{reference}");
            let mut outcome = self.fetch_commits(remote, &[refspec]).await;
            if let Err(SourceError::MissingRevision { detail, .. }) = &outcome
                && detail.contains("unadvertised")
            {
                outcome = self.fetch_commits(remote, &ALL_REFS.map(str::to_owned)).await;
                complete = sha;
            }
            outcome.map_err(|error| match error {
                SourceError::MissingRevision { repo, detail, .. } => {
                    SourceError::missing_revision(repo, sha.clone(), detail)
                }
                error => error,
            })?;
        }
        // A repository that was cloned in part ends its history earlier, and says nothing.
        let cut = tokio::fs::try_exists(self.directory.path().join("shallow")).await;
        match self.commit(remote, complete).await {
            Ok(commit) if matches!(cut, Ok(false)) => Ok(commit),
            Ok(_) | Err(SourceError::Git { .. }) => {
                self.dirty = true;
                Err(SourceError::git(
                    &remote.address.shown,
                    "reading the history",
                    "the repository does not give out all commits that lead to the target \
                             revision; it may be a shallow clone",
                ))
            }
            Err(error) => Err(error),
        }
    }

    /// The only commit of all branches and tags that starts with an abbreviated hash.
    ///
    /// # Errors
    ///
    /// When they cannot be fetched.
    pub(crate) async fn expand_fetched(
        &mut self,
        remote: Remote<'_>,
        short: &str,
        is_sha256: bool,
    ) -> Result<Option<String>, SourceError> {
        self.ready(remote, is_sha256).await?;
        self.fetch_commits(remote, &ALL_REFS.map(str::to_owned)).await?;
        Ok(self.commit(remote, short).await.ok())
    }

    /// Fetches commits with all that lead to them, without their files.
    async fn fetch_commits(
        &mut self,
        remote: Remote<'_>,
        refspecs: &[String],
    ) -> Result<(), SourceError> {
        self.dirty = true;
        self.fetches += 1;
        let config = self.directory.path().join("config");
        let failed = |error: std::io::Error| {
            SourceError::cache(
                &remote.address.shown,
                "keep the configuration of the repository cache",
                error.kind(),
            )
        };
        let before = tokio::fs::read(&config).await.map_err(failed)?;
        let outcome = self.git_fetch(remote, COMMITS_ONLY, refspecs).await;
        // It has recorded that the server may be asked for what was left out. Older versions
        // would do that for any missing object, without the credentials.
        tokio::fs::write(&config, before).await.map_err(failed)?;
        self.fetched(&outcome).await;
        outcome
    }

    /// The newest of the commits that lead to a fetched one, itself included, without those that
    /// lead to the `known` ones.
    pub(crate) async fn history(
        &self,
        remote: Remote<'_>,
        commit: &str,
        known: &[String],
        most: usize,
    ) -> Result<Vec<String>, SourceError> {
        self.listed(remote, &[], commit, known, most).await
    }

    /// The same, of those whose message approves all commits before them.
    pub(crate) async fn seals(
        &self,
        remote: Remote<'_>,
        commit: &str,
        known: &[String],
        most: usize,
    ) -> Result<Vec<String>, SourceError> {
        self.listed(remote, &[SEAL, "--regexp-ignore-case"], commit, known, most).await
    }

    async fn listed(
        &self,
        remote: Remote<'_>,
        options: &[&str],
        commit: &str,
        known: &[String],
        most: usize,
    ) -> Result<Vec<String>, SourceError> {
        let most = format!("--max-count={most}");
        let mut args: Vec<OsString> = vec!["rev-list".into(), most.into()];
        args.extend(options.iter().map(OsString::from));
        args.push(commit.into());
        args.push("--not".into());
        args.extend(known.iter().map(OsString::from));
        args.push("--".into());
        let mut call = self.call(remote, "git rev-list", args);
        call.stdout_limit = LISTING;
        let listing = remote.git.run(call).await?;
        let hashes: Vec<String> =
            String::from_utf8_lossy(&listing).lines().map(str::to_owned).collect();
        if hashes.iter().all(|hash| is_full_hash(hash)) {
            return Ok(hashes);
        }
        Err(SourceError::git(
            &remote.address.shown,
            "git rev-list",
            "the output is not a list of commits",
        ))
    }
}
