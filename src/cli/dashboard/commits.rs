//! Author and subject of the commits that runs go from and to. Each is read once from its
//! repository, beside what is shown: a page does not wait for it.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;

use crate::cli::cluster::ClusterConnection;
use crate::cli::cluster::controller::{Controller, ControllerArgs};
use crate::cli::cluster::live_app::control_plane_of;
use crate::cli::console::error::Error;
use crate::cli::files::repositories::OpenedRepositories;
use crate::cli::runs::ReportedSet;
use wavegate_api::Raw;
use wavegate_api::sources::{InEffect, compared_revisions};
use wavegate_application::access::project_of;
use wavegate_controller::credentials::RepositorySecrets;
use wavegate_dashboard::reports::{KnownState, RevisionDocument, RunDocument};
use wavegate_source::CommitWords;

/// The revisions of a run that are shown, from and to.
const SHOWN: usize = 3;
/// The most commits that are known; more are not read.
const MOST: usize = 1000;

/// The commits that are known; those that cannot be read, or are read just now, have no words.
#[derive(Debug, Default)]
pub(super) struct KnownCommits(Mutex<BTreeMap<String, Option<CommitWords>>>);

impl KnownCommits {
    /// Gives revisions the words of their commits, and reads those that are not known yet, of the set
    /// that `found` gives; `state` counts what became known.
    pub(super) fn name_commits(
        self: &Arc<Self>,
        runs: &mut [RunDocument],
        connection: ClusterConnection,
        found: impl FnOnce() -> Option<ReportedSet>,
        state: &watch::Sender<KnownState>,
    ) {
        let shown = runs
            .iter_mut()
            .flat_map(|run| run.from.iter_mut().take(SHOWN).chain(run.to.iter_mut().take(SHOWN)));
        let mut unknown = Vec::new();
        {
            let mut known = self.0.lock();
            for revision in shown.filter(|one| is_commit(&one.revision)) {
                match known.get(&revision.revision) {
                    Some(words) => put(revision, words.as_ref()),
                    None if known.len() < MOST => {
                        known.insert(revision.revision.clone(), None);
                        unknown.push(revision.revision.clone());
                    }
                    None => {}
                }
            }
        }
        if unknown.is_empty() {
            return;
        }
        let Some(found) = found() else { return };
        let (commits, state) = (Arc::clone(self), state.clone());
        tokio::task::spawn_blocking(move || {
            tokio::runtime::Handle::current().block_on(async {
                let mut has_read = false;
                for revision in unknown {
                    // Where it is deployed, else where any Application of the set is from.
                    let has = |live: &&Arc<Value>| compared_revisions(live).contains(&revision);
                    let is_deployed = found.applications.values().find(has);
                    let Some(live) = is_deployed.or_else(|| found.applications.values().next())
                    else {
                        continue;
                    };
                    if let Ok(Some(words)) = read(&connection, live, &revision).await {
                        commits.0.lock().insert(revision, Some(words));
                        has_read = true;
                    }
                }
                if has_read {
                    // What is shown is made anew.
                    state.send_modify(|state| state.revision += 1);
                }
            });
        });
    }
}

fn put(revision: &mut RevisionDocument, words: Option<&CommitWords>) {
    if let Some(words) = words {
        revision.subject.clone_from(&words.subject);
        revision.author.clone_from(&words.author);
    }
}

fn is_commit(revision: &str) -> bool {
    matches!(revision.len(), 40 | 64) && revision.chars().all(|c| c.is_ascii_hexdigit())
}

/// A commit of one of the sources of an Application, with the credentials of its control plane.
async fn read(
    connection: &ClusterConnection,
    live: &Value,
    revision: &str,
) -> Result<Option<CommitWords>, Error> {
    let sources = InEffect::of(live.spec()).list;
    let revisions = compared_revisions(live);
    let at = revisions.iter().position(|one| one == revision).unwrap_or_default();
    let Some(source) = sources.get(at) else { return Ok(None) };
    if !source.field("chart").is_empty() {
        return Ok(None);
    }
    let args = ControllerArgs::default().in_namespace(&control_plane_of(live));
    let controller = Controller::read(connection, &args).await?;
    let secrets = controller.secrets().unwrap_or_default();
    let secrets = RepositorySecrets::read(secrets).trusting(Arc::clone(&controller.trust));
    let url = source.field("repoURL");
    let credentials = secrets.of(url, project_of(live));
    let opened = OpenedRepositories::open(controller.applications.artifacts.clone(), None)?;
    let read = opened.sources.commit_words(url, revision, credentials.as_ref()).await;
    Ok(read.unwrap_or_default())
}
