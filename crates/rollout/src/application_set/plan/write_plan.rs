//! The writes of a reconcile: the result of [`plan_writes`](super::plan_writes()), and which of them
//! are allowed.

use serde_json::Value;

/// The writes of a reconcile, each list in name order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WritePlan {
    /// Applications to create, whole.
    pub creates: Vec<Create>,
    /// Applications to patch.
    pub patches: Vec<Patch>,
    /// The patches that only protect Applications from garbage collection: parts of those
    /// above, which are written also when nothing else is.
    pub guards: Vec<Patch>,
    /// Applications to delete, once all creates and patches have succeeded.
    pub deletes: Vec<Delete>,
    /// Applications whose deletion waits, and the reason.
    pub held: Option<Held>,
    /// Applications that cannot be written, with the reason.
    pub refused: Vec<(String, String)>,
    /// Refreshes beyond [`REFRESHES_PER_RECONCILE`](crate::application_set::plan::REFRESHES_PER_RECONCILE), left for the next reconcile.
    pub postponed: usize,
}

impl WritePlan {
    /// Whether everything is as generated.
    pub fn is_settled(&self) -> bool {
        self.is_written() && self.deletes.is_empty() && self.held.is_none()
    }

    /// Whether everything but deletions is as generated.
    pub fn is_written(&self) -> bool {
        self.creates.is_empty()
            && self.patches.iter().all(|patch| patch.only_records)
            && self.refused.is_empty()
            && self.postponed == 0
    }

    /// The same plan with the guards only: an error makes all other writes unsafe. Keeps
    /// the Applications that would be deleted, which wait `until` the error is
    /// fixed.
    pub fn frozen(self, until: &str) -> Self {
        let names: Vec<String> = self.deletes.into_iter().map(|delete| delete.name).collect();
        let held = (!names.is_empty())
            .then(|| Held { applications: names, until: until.to_owned() })
            .or(self.held);
        Self { held, patches: self.guards, ..Self::default() }
    }

    /// The same plan without deletions: they wait `until` the error is fixed.
    pub fn without_deletes(self, until: &str) -> Self {
        let Self { held, deletes, .. } = self.clone().frozen(until);
        Self { held, deletes, ..self }
    }

    /// Removes the writes that are not allowed.
    pub fn behind(self, gate: WriteGate) -> Self {
        match gate {
            WriteGate::Open => self,
            WriteGate::NoDeletes(until) => self.without_deletes(until),
            WriteGate::Shut(until) => self.frozen(until),
        }
    }
}

/// Which writes of a set as a whole are allowed. Other errors concern single
/// Applications.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteGate {
    /// All.
    Open,
    /// All but deletions, which wait until this condition.
    NoDeletes(&'static str),
    /// None, until this condition.
    Shut(&'static str),
}

/// An Application to create, kept as text, since there may be thousands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Create {
    /// Its name.
    pub name: String,
    /// Its JSON.
    pub json: String,
    /// The step that it is counted in, if it is in a rollout.
    pub step: Option<usize>,
}

/// A JSON merge patch of one Application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    /// Its name.
    pub name: String,
    /// The merge patch, as JSON. If it starts an operation, it contains the
    /// resource version that the decision is based on: at most one operation
    /// per promotion, and never over another one (AS-361).
    pub json: String,
    /// Whether it starts an operation.
    pub starts: bool,
    /// Whether an application controller takes up what it starts.
    pub is_taken_up: bool,
    /// Whether it changes more than the operation and our annotations.
    pub changes_spec: bool,
    /// Whether it only writes a rollout record.
    pub only_records: bool,
    /// Whether it asks for a comparison.
    pub refreshes: bool,
    /// The step that the Application is counted in, if it is in a rollout.
    pub step: Option<usize>,
}

impl Patch {
    /// The merge patch.
    pub fn body(&self) -> Value {
        // It was serialized here.
        serde_json::from_str(&self.json).unwrap_or_default()
    }
}

/// Deletions that wait.
#[derive(Clone, Debug, PartialEq)]
pub struct Held {
    /// The Applications, in name order; never empty.
    pub applications: Vec<String>,
    /// What has to happen first, as the end of a sentence after "until".
    pub until: String,
}

/// The most names of Applications to be deleted in a message, and the most
/// characters of them.
const NAMED: (usize, usize) = (5, 200);

impl std::fmt::Display for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let count = self.applications.len();
        let what = if count == 1 { "application waits" } else { "applications wait" };
        let (mut names, mut named) = (String::new(), 0);
        for name in self.applications.iter().take(NAMED.0) {
            if named > 0 && names.len() + name.len() > NAMED.1 {
                break;
            }
            names.push_str(if named > 0 { ", " } else { "" });
            names.push_str(name);
            named += 1;
        }
        let more =
            if named < count { format!(" and {} more", count - named) } else { String::new() };
        write!(f, "{count} {what} to be deleted until {}: {names}{more}", self.until)
    }
}

/// An Application to delete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delete {
    /// Its name.
    pub name: String,
    /// Its UID, so that only this object is deleted.
    pub uid: String,
    /// The resource version that the decision is based on: it may have another owner since.
    /// `None` if the set is deleted itself.
    pub version: Option<String>,
    /// Its resources are kept or cannot be deleted, so their finalizer is removed first (AS-160,
    /// AS-166).
    pub release: Option<Release>,
}

/// The removal of the finalizer `resources-finalizer.argocd.argoproj.io` from an Application
/// whose resources are kept, or whose cluster is unknown: nobody could delete the resources, and
/// the Application would stay forever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// The merge patch, as JSON, with the resource version that it is based on.
    pub json: String,
    /// Why.
    pub why: String,
}
