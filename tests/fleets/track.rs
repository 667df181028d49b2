//! What becomes of each Application, by its own versions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use crate::app;
use crate::world::{Changed, Kind};

/// An operation that began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Begun {
    /// The commit.
    pub commit: u64,
    pub at: Timestamp,
    pub is_by_rollout: bool,
    /// Whether it takes the Application back.
    pub goes_back: bool,
    /// The commit that it was compared with then.
    pub compared: Option<u64>,
}

/// What a version of an Application means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Moment {
    /// An operation was requested.
    Begins(Begun),
    /// It is Synced and Healthy with this commit for the first time.
    Done(u64),
    /// It was deleted.
    Gone,
}

/// The operation that these begin, if one.
pub fn begun(moments: &[Moment]) -> Option<&Begun> {
    moments.iter().find_map(|moment| match moment {
        Moment::Begins(begun) => Some(begun),
        Moment::Done(_) | Moment::Gone => None,
    })
}

/// An Application.
#[derive(Clone, Debug, Default)]
pub struct Tracked {
    /// The newest version.
    pub object: Arc<Value>,
    /// The start by the rollout that is not complete: neither Healthy, nor is it compared with
    /// another commit.
    pub running: Option<Begun>,
    /// The commits with which it was Synced and Healthy.
    pub done: BTreeSet<u64>,
    /// All operations.
    pub begun: Vec<Begun>,
    /// Since when it was compared with its newest commit.
    pub compared_at: Option<(u64, Timestamp)>,
    /// Since when its last operation has failed, or what that deployed.
    pub failed_since: Option<Timestamp>,
    /// How often operations for a commit were tried again by themselves: those before the last
    /// operation, and the last one.
    retried: BTreeMap<u64, (u64, u64)>,
}

impl Tracked {
    /// How often operations for a commit were tried again by themselves.
    pub fn retries(&self, commit: u64) -> u64 {
        self.retried.get(&commit).map(|(before, last)| before + last).unwrap_or_default()
    }
}

/// All Applications, by name.
#[derive(Debug, Default)]
pub struct Track {
    pub apps: BTreeMap<String, Tracked>,
}

impl Track {
    /// Takes a change of any object; what it means for its Application.
    pub fn take(&mut self, changed: &Changed) -> Vec<Moment> {
        if changed.key.kind != Kind::Application {
            return Vec::new();
        }
        let name = changed.key.name.to_string();
        let Some(now) = &changed.after else {
            self.apps.remove(&name);
            return vec![Moment::Gone];
        };
        let tracked = self.apps.entry(name).or_default();
        let before = std::mem::replace(&mut tracked.object, Arc::clone(now));
        let mut moments = Vec::new();
        if let Some(commit) = app::done(now)
            && tracked.done.insert(commit)
        {
            moments.push(Moment::Done(commit));
        }
        if let Some(commit) = app::compared(now)
            && tracked.compared_at.is_none_or(|(known, _)| known != commit)
        {
            tracked.compared_at = Some((commit, changed.at));
        }
        if let Some(running) = &tracked.running {
            let is_done = app::done(now) == Some(running.commit);
            // What goes back is compared with the target all the same.
            let is_elsewhere = match running.goes_back {
                true => app::health(now) == "Healthy" || app::compared(now) != running.compared,
                false => app::compared(now) != Some(running.commit),
            };
            if is_done || is_elsewhere && !app::is_busy(now) {
                tracked.running = None;
            }
        }
        let failed_since = tracked.failed_since.unwrap_or(changed.at);
        tracked.failed_since = app::has_failed(now).then_some(failed_since);
        let state = &now["status"]["operationState"];
        if let (Some(retries), Some(commit)) = (state["retryCount"].as_u64(), app::target(now)) {
            let (_, known) = tracked.retried.entry(commit).or_default();
            *known = retries.max(*known);
        }
        let is_new = now["operation"].is_object() && !before["operation"].is_object();
        if is_new || app::is_busy(now) && !app::is_busy(&before) {
            let begun = Begun {
                commit: app::target(now).unwrap_or_default(),
                at: changed.at,
                is_by_rollout: app::is_by_rollout(now),
                compared: app::compared(now),
                goes_back: app::start(now).is_some_and(|start| start["goesBack"] == true),
            };
            let (before, last) = tracked.retried.entry(begun.commit).or_default();
            *before += std::mem::take(last);
            if begun.is_by_rollout {
                tracked.running = Some(begun.clone());
            }
            tracked.begun.push(begun.clone());
            moments.push(Moment::Begins(begun));
        }
        moments
    }
}
