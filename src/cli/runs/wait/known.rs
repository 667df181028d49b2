//! What the watches of a set know.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use kube::runtime::watcher::{self, Event};
use serde_json::Value;

use crate::cli::error::{Error, UNDEFINED, note};
use crate::cli::follow::newest;
use crate::cli::rollout_view::events::{WatchEvent, Watched};
use crate::cli::rollout_view::fleet::{Fleet, Source};
use wavegate_api::{ObjectKey, Raw};
use wavegate_application::operation::given;
use wavegate_cluster::watch::failure::has_code;
use wavegate_cluster::watch::follow::words;
use wavegate_cluster::watch::object::Object;
use wavegate_rollout::application_set::{is_owned, set_of};
use wavegate_rollout::steering::{Deployed, Run, number_of};

/// The state of the watches of a set.
pub(super) struct Known {
    set: ObjectKey,
    uid: String,
    pub fleet: Fleet,
    listed: Vec<Watched>,
    /// The watches that are disconnected, with the reason.
    lost: BTreeMap<Watched, String>,
    /// Runs by name.
    recorded: BTreeMap<String, Object>,
    are_runs_listed: bool,
    /// Runs can be read.
    pub has_runs: bool,
    /// The Applications of the set, by name.
    pub deployed: BTreeMap<String, Deployed>,
    /// When each Application was compared last before the start.
    pub compared: BTreeMap<ObjectKey, String>,
    /// Whether the set was deleted.
    pub is_gone: bool,
}

impl Known {
    /// Of a set of which nothing is known but that it exists.
    pub fn new(set: &Value) -> Self {
        Self {
            set: ObjectKey::of(set),
            uid: set.uid().to_owned(),
            fleet: Fleet::new(Source::Cluster(Some(set.name().to_owned()))),
            listed: Vec::new(),
            lost: BTreeMap::new(),
            recorded: BTreeMap::new(),
            are_runs_listed: false,
            has_runs: true,
            deployed: BTreeMap::new(),
            compared: BTreeMap::new(),
            is_gone: false,
        }
    }

    /// Why a watch is disconnected, if one is.
    pub fn disconnected(&self) -> Option<&str> {
        self.lost.values().next().map(String::as_str)
    }

    /// Whether everything is known, as it is now.
    pub fn is_current(&self) -> bool {
        self.is_listed() && self.are_runs_listed && self.lost.is_empty()
    }

    fn is_listed(&self) -> bool {
        self.listed.len() == Watched::ALL.len()
    }
    /// Takes a change. `at` is the time since the start.
    ///
    /// # Errors
    ///
    /// When something may not be watched.
    pub fn apply(&mut self, event: WatchEvent, at: Duration) -> Result<(), Error> {
        let now = Timestamp::now();
        match event {
            WatchEvent::Set(set) => {
                // One of the same name that was created anew is another one.
                self.is_gone = set.uid() != self.uid;
                self.fleet.set(&set, now, at);
            }
            WatchEvent::SetGone(set) => self.is_gone |= set.uid() == self.uid,
            WatchEvent::Application(application) => {
                let live = application.parse();
                if set_of(&live) == Some(self.set.name.as_str()) {
                    if !self.is_listed() {
                        let compared = live.text("/status/reconciledAt").to_owned();
                        self.compared.insert(application.key(), compared);
                    }
                    let deployed = Deployed {
                        source: newest::sources_of(&live),
                        revisions: given(&live["status"]["sync"]),
                    };
                    self.deployed.insert(application.name().to_owned(), deployed);
                }
                self.fleet.application(&application, at);
            }
            WatchEvent::ApplicationGone(application) => {
                self.deployed.remove(application.name());
                self.fleet.application_gone(&application, at);
            }
            WatchEvent::Listed(watched) => {
                if self.lost.remove(&watched).is_some() && self.lost.is_empty() {
                    note("connected again");
                }
                if !self.listed.contains(&watched) {
                    self.listed.push(watched);
                }
            }
            // Watched by itself.
            WatchEvent::Run(_) | WatchEvent::RunGone(_) => {}
            WatchEvent::Lost(watched, why) => {
                if self.lost.is_empty() {
                    note(&format!("disconnected, retrying: {why}"));
                }
                self.lost.insert(watched, why);
            }
            WatchEvent::Refused(watched, why) => {
                let kind = match watched {
                    Watched::Sets => "ApplicationSets",
                    Watched::Applications => "Applications",
                    Watched::Runs => "RolloutRuns",
                };
                let place = format!("{kind} of namespace {}", self.set.namespace);
                return Err(Error::input("cannot watch", place, why));
            }
        }
        Ok(())
    }
    /// Takes a change of the runs.
    pub fn apply_run(&mut self, event: Result<Event<Object>, watcher::Error>) {
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
                    false => words(&watcher::Error::InitialListFailed(error)),
                };
                note(&format!("runs cannot be read, and its Applications count instead: {why}"));
                (self.are_runs_listed, self.has_runs) = (true, false);
            }
            // The watch is tried again.
            Err(error) => tracing::debug!(reason = words(&error), "cannot watch runs"),
        }
    }
    /// The runs of the set, the newest first.
    pub fn runs(&self) -> Vec<Run> {
        let owner = serde_json::json!({"metadata": {"uid": self.uid}});
        let mut runs: Vec<Run> = self
            .recorded
            .values()
            .map(Object::parse)
            .filter(|run| is_owned(run, &owner))
            .map(|run| Run::read(&run))
            .collect();
        runs.sort_by_key(|run| std::cmp::Reverse(number_of(&run.name)));
        runs
    }
}
