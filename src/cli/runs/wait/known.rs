//! What the watches of a set know.

use std::collections::BTreeMap;

use kube::runtime::watcher::{self, Event};
use serde_json::Value;

use crate::cli::console::error::{Error, UNDEFINED, note};
use crate::cli::rollout_view::events::{WatchEvent, WatchScope, Watched};
use crate::cli::rollout_view::fleet::FleetSource;
use crate::cli::rollout_view::live::LiveRollouts;
use crate::cli::rollout_view::newest::sources_of;
use wavegate_api::sources::compared_revisions;
use wavegate_api::{ObjectKey, Raw};
use wavegate_cluster::watch::failure::has_code;
use wavegate_cluster::watch::follow::watch_error;
use wavegate_cluster::watch::object::StoredObject;
use wavegate_rollout::application_set::{is_owned, set_of};
use wavegate_rollout::requests::{DeployedRevision, Run, number_of};

/// What is known of a set.
pub(super) struct KnownSet {
    set: ObjectKey,
    uid: String,
    pub live: LiveRollouts,
    /// Runs by name.
    recorded: BTreeMap<String, StoredObject>,
    are_runs_listed: bool,
    /// Runs can be read.
    pub has_runs: bool,
    /// The Applications of the set, by name.
    pub deployed: BTreeMap<String, DeployedRevision>,
    /// Whether the set was deleted.
    pub is_gone: bool,
}

impl KnownSet {
    /// Of a set of which nothing is known but that it exists.
    pub fn new(set: &Value, scope: WatchScope) -> Self {
        Self {
            set: ObjectKey::of(set),
            uid: set.uid().to_owned(),
            live: LiveRollouts::new(scope, FleetSource::Cluster(Some(set.name().to_owned()))),
            recorded: BTreeMap::new(),
            are_runs_listed: false,
            has_runs: true,
            deployed: BTreeMap::new(),
            is_gone: false,
        }
    }

    /// Whether everything is known, as it is now.
    pub fn is_current(&self) -> bool {
        self.live.is_current() && self.are_runs_listed
    }

    /// Takes a change.
    ///
    /// # Errors
    ///
    /// When something may not be watched.
    pub fn apply(&mut self, event: WatchEvent) -> Result<(), Error> {
        match &event {
            // One of the same name that was created anew is another one.
            WatchEvent::Changed(Watched::Sets, set) => self.is_gone = set.uid() != self.uid,
            WatchEvent::Gone(Watched::Sets, set) => self.is_gone |= set.uid() == self.uid,
            WatchEvent::Changed(Watched::Applications, application) => {
                let live = application.parse();
                if set_of(&live) == Some(self.set.name.as_str()) {
                    let deployed = DeployedRevision {
                        source: sources_of(&live),
                        revisions: compared_revisions(&live),
                    };
                    self.deployed.insert(application.name().to_owned(), deployed);
                }
            }
            WatchEvent::Gone(Watched::Applications, application) => {
                self.deployed.remove(application.name());
            }
            _ => {}
        }
        let before = self.live.disconnected().map(str::to_owned);
        self.live.apply(event)?;
        match (&before, self.live.disconnected()) {
            (None, Some(why)) => note(&format!("disconnected, retrying: {why}")),
            (Some(_), None) => note("connected again"),
            _ => {}
        }
        Ok(())
    }

    /// Takes a change of the runs.
    pub fn apply_run(&mut self, event: Result<Event<StoredObject>, watcher::Error>) {
        match event {
            Ok(Event::Init) => self.recorded.clear(),
            Ok(Event::InitApply(run) | Event::Apply(run)) => {
                self.recorded.insert(run.name().to_owned(), run);
            }
            Ok(Event::InitDone) => (self.are_runs_listed, self.has_runs) = (true, true),
            Ok(Event::Delete(run)) => {
                self.recorded.remove(run.name());
            }
            Err(watcher::Error::InitialListFailed(error @ kube::Error::Api(_)))
                if self.has_runs =>
            {
                let why = match has_code(&error, 404) {
                    true => UNDEFINED.to_owned(),
                    false => watch_error(&watcher::Error::InitialListFailed(error)),
                };
                note(&format!("runs cannot be read, and its Applications count instead: {why}"));
                (self.are_runs_listed, self.has_runs) = (true, false);
            }
            // The watch is tried again.
            Err(error) => tracing::debug!(reason = watch_error(&error), "cannot watch runs"),
        }
    }

    /// The runs of the set, the newest first.
    pub fn runs(&self) -> Vec<Run> {
        let owner = serde_json::json!({"metadata": {"uid": self.uid}});
        let mut runs: Vec<Run> = self
            .recorded
            .values()
            .map(StoredObject::parse)
            .filter(|run| is_owned(run, &owner))
            .map(|run| Run::read(&run))
            .collect();
        runs.sort_by_key(|run| std::cmp::Reverse(number_of(&run.name)));
        runs
    }
}
