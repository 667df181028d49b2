//! The order in which the Applications of a deleted set are deleted.

pub mod approval;
pub(super) mod delete_set;
pub mod deletion_guard;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::application_set::generate::generated::labels_of;
use crate::application_set::generate::policy::Policy;
use crate::application_set::plan::observe;
use crate::application_set::plan::owner::{ApplicationOwner, Identity, guard, patch_of_owners};
use crate::application_set::plan::write_plan::{Delete, Patch, WritePlan};
use crate::rollout::budget::Limit;
use crate::rollout::steps::StepStrategy;
use wavegate_api::annotations::finalizers_of;
use wavegate_api::conditions::application::{DELETION_ERROR, DELETION_WARNING};
use wavegate_api::live::{LiveCondition, LiveMetadata, LiveOwner};
use wavegate_api::{Raw, read_leniently};

/// An Application that is being deleted for longer is read from the API server: the cache
/// may be outdated, or its deletion is stuck (AS-383).
pub const TAKES_LONG: SignedDuration = SignedDuration::from_secs(120);

/// The most finalizers in a message.
const FINALIZERS_SHOWN: usize = 5;

/// The next step of a deletion.
#[derive(Clone, Debug, PartialEq)]
pub enum DeletionStage {
    /// Apply these writes.
    Act(WritePlan),
    /// Delete in reverse order.
    Reverse(Reverse),
    /// Wait until these Applications are deleted.
    Wait(Vec<String>),
    /// Remove the finalizer of the set.
    Done,
}

/// The state of a deletion in reverse order: the Applications of one step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reverse {
    /// The Applications to delete now.
    pub deletes: Vec<Delete>,
    /// Those that are being deleted.
    pub waits: Vec<String>,
    /// Those of them to read from the API server first.
    pub unsure: Vec<Unsure>,
    /// Those of them that the API server still has after a long time, or that cannot be
    /// read.
    pub stuck: Vec<Stuck>,
}

/// An Application that should be gone for a long time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsure {
    /// Its name.
    pub name: String,
    /// Its UID: another Application of the same name is a new one.
    pub uid: String,
}

/// What the API server answered about such an Application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It is still there.
    Exists,
    /// It could not be read, for this reason.
    Unreadable(String),
}

/// An Application whose deletion takes too long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stuck {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Its deletion.
    pub going: Going,
    /// Whether it could be read from the API server.
    pub presence: Presence,
}

impl Stuck {
    /// What it waits for, as the end of a sentence that begins with its name.
    pub fn why(&self) -> String {
        match self.presence {
            // The error may differ between tries and is logged.
            Presence::Unreadable(_) => {
                format!("{}; it cannot be read from the API server", self.going)
            }
            Presence::Exists => self.going.to_string(),
        }
    }
}

/// The deletion of an Application.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Going {
    /// When it was requested, as in the object.
    pub since: String,
    /// The finalizers that hold it.
    pub finalizers: Vec<String>,
    /// The message of its condition `DeletionError`, or of `DeletionWarning`.
    pub error: Option<String>,
}

impl Going {
    /// From an Application; `None` when it is not being deleted.
    pub fn read(live: &Value) -> Option<Self> {
        let since = Some(live.text("/metadata/deletionTimestamp")).filter(|at| !at.is_empty())?;
        let conditions = live.items("/status/conditions").iter();
        let conditions: Vec<LiveCondition> = conditions.map(read_leniently).collect();
        let of = |kind: &str| conditions.iter().find(|condition| condition.type_ == kind);
        let error = of(DELETION_ERROR).or_else(|| of(DELETION_WARNING));
        Some(Self {
            since: since.to_owned(),
            finalizers: finalizers_of(live).map(str::to_owned).collect(),
            error: error.map(|condition| condition.message.clone()),
        })
    }

    fn takes_long(&self, now: Timestamp) -> bool {
        let since: Option<Timestamp> = self.since.parse().ok();
        since.is_some_and(|since| now.duration_since(since) > TAKES_LONG)
    }
}

impl std::fmt::Display for Going {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let count = self.finalizers.len();
        let shown = self.finalizers.iter().take(FINALIZERS_SHOWN).map(String::as_str);
        let shown: Vec<&str> = shown.collect();
        write!(f, "is being deleted since {}, held by ", self.since)?;
        match count {
            0 => write!(f, "no finalizer")?,
            1 => write!(f, "the finalizer {}", shown.join(", "))?,
            _ => write!(f, "the finalizers {}", shown.join(", "))?,
        }
        if count > shown.len() {
            write!(f, " and {} more", count - shown.len())?;
        }
        self.error.iter().try_for_each(|error| write!(f, ": {error}"))
    }
}

/// An Application that is deleted with its set, or orphaned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaving {
    name: String,
    uid: String,
    /// Its deletion, if it was requested.
    going: Option<Going>,
    /// The step selected by its live labels.
    step: Option<usize>,
    /// The merge patch that removes our owner reference only.
    release: String,
    /// The merge patch that removes the reference to the Namespace, if there is one:
    /// otherwise garbage collection would not delete it with the set.
    unguard: Option<String>,
    /// The merge patch that removes the finalizers for its resources, if it has any.
    keep: Option<String>,
    /// What the API server answered in this reconcile, if it was asked.
    presence: Option<Presence>,
}

impl Leaving {
    /// From an Application that the set controls.
    pub fn read(live: &Value, set: &Identity, strategy: &StepStrategy) -> Self {
        let metadata = LiveMetadata::of(live);
        let is_ours = |owner: &LiveOwner| owner.uid == set.uid || set.is_namespace_owner(owner);
        let mut others = metadata.owners().to_vec();
        others.retain(|owner| !is_ours(owner));
        let release = patch_of_owners(&metadata, &others).to_string();
        let labels = labels_of(live);
        let unguard = guard(&metadata, set, Policy::Sync).map(|patch| patch.to_string());
        Self {
            name: metadata.name,
            uid: metadata.uid,
            going: Going::read(live),
            step: strategy.steps().iter().position(|step| step.selects(&labels)),
            release,
            unguard,
            keep: observe::without_finalizers(live, observe::is_for_resources),
            presence: None,
        }
    }

    /// Whether an Application is one of the set from which garbage collection removed the
    /// reference to the set, so that only the reference to the Namespace is left.
    pub fn is_released(live: &Value, set: &Identity) -> bool {
        let metadata = LiveMetadata::of(live);
        let is_guarded = metadata.owners().iter().any(|owner| set.is_namespace_owner(owner));
        is_guarded && ApplicationOwner::of(&metadata, set) == ApplicationOwner::None
    }

    /// Its UID.
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// The same with an answer of the API server.
    #[must_use]
    pub fn with(self, presence: Option<Presence>) -> Self {
        Self { presence, ..self }
    }
}

/// The input of a deletion.
#[derive(Clone, Copy, Debug)]
pub struct Deletion<'a> {
    /// The finalizers of the set.
    pub finalizers: &'a [String],
    /// The Applications that it controls.
    pub owned: &'a [Leaving],
    /// The effective policy.
    pub policy: Policy,
    /// Whether the resources of an Application stay when it is deleted.
    pub keeps_resources: bool,
    /// The steps, if they are deleted in reverse order.
    pub reverse: Option<&'a StepStrategy>,
    /// The time.
    pub now: Timestamp,
}

/// Decides the next step of the deletion of a set.
///
/// If the policy forbids deletion, the Applications are orphaned first
/// (AS-167, AS-384). If the set keeps the resources, the finalizers for them are removed first,
/// also those from before it did.
pub fn deletion_stage(deletion: &Deletion<'_>) -> DeletionStage {
    let Deletion { finalizers, owned, policy, keeps_resources, reverse, now } = *deletion;
    if owned.is_empty() {
        return DeletionStage::Done;
    }
    if finalizers.iter().any(|finalizer| finalizer == "orphan") {
        // `kubectl delete --cascade=orphan`: garbage collection orphans the
        // Applications, so they are kept (AS-169).
        return DeletionStage::Wait(owned.iter().map(|one| one.name.clone()).collect());
    }
    let act = |patches: Vec<(&String, &String)>| DeletionStage::Act(patching(patches));
    if !policy.deletes() {
        return act(owned.iter().map(|one| (&one.name, &one.release)).collect());
    }
    if let Some(plan) = keep(owned).filter(|_| keeps_resources) {
        return DeletionStage::Act(plan);
    }
    // Left by a policy before this one.
    let guarded = owned.iter().filter_map(|one| Some((&one.name, one.unguard.as_ref()?)));
    let guarded: Vec<_> = guarded.collect();
    match reverse {
        Some(strategy) => DeletionStage::Reverse(in_reverse(owned, strategy, now)),
        None if !guarded.is_empty() => act(guarded),
        // Garbage collection deletes them by their owner reference.
        None => DeletionStage::Done,
    }
}

/// The removal of the finalizers for resources, if any of these Applications has one.
pub(super) fn keep(owned: &[Leaving]) -> Option<WritePlan> {
    let held = owned.iter().filter_map(|one| Some((&one.name, one.keep.as_ref()?)));
    let held: Vec<_> = held.collect();
    (!held.is_empty()).then(|| patching(held))
}

fn patching(patches: Vec<(&String, &String)>) -> WritePlan {
    let patch = |(name, json): (&String, &String)| Patch {
        name: name.clone(),
        json: json.clone(),
        starts: false,
        is_taken_up: false,
        changes_spec: true,
        step: None,
        only_records: false,
        refreshes: false,
    };
    let patches = patches.into_iter().map(patch).collect();
    WritePlan { patches, ..WritePlan::default() }
}

/// Applications without a step are deleted first, all at once; then those of the last
/// step, down to the first, each step when the ones after it are gone, and at most
/// `maxUpdate` of its Applications at a time (AS-381, AS-382).
fn in_reverse(owned: &[Leaving], strategy: &StepStrategy, now: Timestamp) -> Reverse {
    // `None` sorts last, so that it is first in reverse.
    let place = |one: &Leaving| one.step.unwrap_or(usize::MAX);
    let last = owned.iter().map(place).max();
    let mut group: Vec<&Leaving> = owned.iter().filter(|one| Some(place(one)) == last).collect();
    group.sort_by(|a, b| a.name.cmp(&b.name));
    let mut reverse = Reverse::default();
    for one in &group {
        let Some(going) = &one.going else { continue };
        reverse.waits.push(one.name.clone());
        if !going.takes_long(now) {
            continue;
        }
        let (name, uid) = (one.name.clone(), one.uid.clone());
        match &one.presence {
            None => reverse.unsure.push(Unsure { name, uid }),
            Some(presence) => {
                let (going, presence) = (going.clone(), presence.clone());
                reverse.stuck.push(Stuck { name, uid, going, presence });
            }
        }
    }
    let step = last.and_then(|last| strategy.steps().get(last));
    // A step with `maxUpdate: 0` waits for a manual sync; a deletion has none to wait for.
    let limit = match step.map(|step| step.max_update.limit(group.len() as u64)) {
        Some(Limit::AtMost(limit)) => usize::try_from(limit.max(1)).unwrap_or(usize::MAX),
        Some(Limit::Unlimited) | None => usize::MAX,
    };
    let left = limit.saturating_sub(reverse.waits.len());
    let rest = group.iter().filter(|one| one.going.is_none()).take(left);
    let delete = |one: &&Leaving| Delete {
        name: one.name.clone(),
        uid: one.uid.clone(),
        version: None,
        release: None,
    };
    reverse.deletes = rest.map(delete).collect();
    reverse
}

#[cfg(test)]
mod tests;
