//! What a rollout observes of one Application: its status and its operation.

use jiff::Timestamp;

use wavegate_api::time::stored_time;
use wavegate_api::{OperationPhase, SyncStatusCode};
use wavegate_engine::health;

/// The last or current operation, from `status.operationState`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedOperation {
    /// Its phase.
    pub phase: OperationPhase,
    /// When it started.
    pub started_at: Timestamp,
    /// When it finished, if it did.
    pub finished_at: Option<Timestamp>,
    /// The promotion it was written for, if a rollout wrote it.
    pub promotion: Option<Timestamp>,
    /// The revisions it syncs, once resolved.
    pub revisions: Vec<String>,
    /// Its message, for users.
    pub message: String,
    /// A sync window keeps it from starting: nothing is applied yet.
    pub is_blocked: bool,
    /// It is a dry run, or syncs only some resources, without hooks: its result is not
    /// the one of a sync of the Application.
    pub is_partial: bool,
}

impl ObservedOperation {
    /// Whether it has finished without success. An unknown phase is neither
    /// running nor successful, and blocks the rollout.
    pub fn has_failed(&self) -> bool {
        !self.phase.is_running() && self.phase != OperationPhase::Succeeded
    }

    /// Whether it has synced the whole Application.
    pub fn has_synced(&self) -> bool {
        self.phase == OperationPhase::Succeeded && !self.is_partial
    }
}

/// A requested operation: the Application's `operation` field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestedOperation {
    /// The promotion it was written for, if a rollout wrote it.
    pub promotion: Option<Timestamp>,
    /// It is a dry run or a sync of some resources.
    pub is_partial: bool,
}

/// The last sync of the whole Application that succeeded, from `status.history`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deployed {
    /// None is recorded.
    Never,
    /// Of these revisions, completed at this time.
    At(Timestamp, Vec<String>),
    /// The Application keeps no history (`revisionHistoryLimit: 0`).
    NotKept,
}

/// The last sync of an Application, if a person requested it: not a dry run, and
/// not the sync of some resources to the target itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersonSync {
    /// The revisions that were synced, one for each source; empty if unknown.
    pub revisions: Vec<String>,
    /// It synced manifests of the person's machine, of no revision.
    pub is_local: bool,
    /// Whether the request named what to sync. A request that does not is one
    /// for the target, whatever it resolves to.
    pub is_explicit: bool,
    /// Who requested it; empty if unknown.
    pub by: String,
    /// When it started, by the clock of the application controller: its identity.
    pub started_at: Timestamp,
    /// How it ended.
    pub end: OperationEnd,
    /// Whether the observed revisions were deployed before it.
    pub is_after_target: bool,
}

/// How a sync by a person ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationEnd {
    /// Not yet.
    Running,
    /// With success.
    Succeeded,
    /// Without, after something was applied, or possibly.
    Failed,
    /// Without, before anything was applied: what was there before still is.
    Nothing,
}

/// What is known about one existing Application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// `status.health.status`; absent is Unknown.
    pub health: health::Status,
    /// `status.sync.status`; absent is Unknown.
    pub sync: SyncStatusCode,
    /// `status.sync.revisions`, else `[status.sync.revision]`, else none.
    pub revisions: Vec<String>,
    /// `status.reconciledAt`: when it was last compared in full.
    pub reconciled_at: Option<Timestamp>,
    /// Whether `sync`, `health` and `revisions` were computed for the current
    /// spec of the Application (`status.sync.comparedTo`).
    pub compared: Compared,
    /// Whether the generated spec differs from the live one (AS-353).
    pub spec_differs: bool,
    /// The `operation` field, when set.
    pub requested: Option<RequestedOperation>,
    /// `status.operationState`, when set.
    pub operation: Option<ObservedOperation>,
    /// The last success, which later operations do not replace.
    pub deployed: Deployed,
    /// The last sync, if a person requested it (ST-065).
    pub person: Option<Box<PersonSync>>,
    /// It has a condition `InvalidSpecError` or `UnknownError`.
    pub has_error_condition: bool,
    /// It has any error condition, such as for a source that cannot be read.
    pub has_error: bool,
    /// Its last sync took it back to other revisions than `revisions` (ST-061), and the comparison
    /// is of the same second: it may have been made before.
    pub went_back_just_now: bool,
    /// A rollback holds it, and its resources differ from its last good revisions (ST-061).
    pub has_left_its_hold: bool,
    /// Automated sync is enabled.
    pub is_automated: bool,
    /// Its operation waits until a person confirms its deletions.
    pub needs_confirmation: bool,
    /// A resource is left that only a person prunes.
    pub needs_a_prune: bool,
    /// What it is waiting for, for users: the resource and the reason. May be
    /// empty.
    pub detail: String,
    /// When that wait ends by itself, if it does: the next attempt of its operation.
    pub until: Option<Timestamp>,
    /// Its sources, to find Applications that should have seen the same
    /// revision. Same length as `revisions` once compared.
    pub sources: Vec<SourceKey>,
}

/// The spec that a comparison was made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compared {
    /// Not compared yet.
    Never,
    /// For another spec than the current one of the Application.
    Stale,
    /// For its current spec.
    Current,
}

/// The origin of a revision: Applications with the same key see the same
/// revision at the same time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourceKey {
    /// `repoURL`.
    pub repository: String,
    /// `chart`, empty for Git.
    pub chart: String,
    /// `targetRevision`, empty for the default branch.
    pub target_revision: String,
}

impl Observed {
    /// An operation is requested or running.
    pub fn has_operation_in_flight(&self) -> bool {
        self.requested.is_some()
            || self.operation.as_ref().is_some_and(|operation| operation.phase.is_running())
    }

    /// A sync of the whole Application is requested or running.
    pub fn has_sync_in_flight(&self) -> bool {
        let runs = |last: &ObservedOperation| last.phase.is_running() && !last.is_partial;
        self.requested.as_ref().is_some_and(|requested| !requested.is_partial)
            || self.operation.as_ref().is_some_and(runs)
    }

    /// Whether the last operation is a dry run, or one of some resources: it says nothing about
    /// the sync that a rollout waits for.
    pub fn is_partial(&self) -> bool {
        self.operation.as_ref().is_some_and(|last| last.is_partial)
    }

    /// The revisions of the last sync that succeeded; none if they are not known.
    pub(super) fn deployed_revisions(&self) -> &[String] {
        match &self.deployed {
            Deployed::At(_, revisions) => revisions,
            Deployed::Never | Deployed::NotKept => &[],
        }
    }

    /// The promotions of the current and the last operation.
    pub(super) fn promotions(&self) -> impl Iterator<Item = Timestamp> + use<> {
        let requested = self.requested.as_ref().and_then(|operation| operation.promotion);
        let state = self.operation.as_ref().and_then(|operation| operation.promotion);
        [requested, state].into_iter().flatten()
    }

    /// Whether `sync` and `health` are current: of the spec being rolled out,
    /// and computed after the last operation finished.
    pub fn is_current(&self) -> bool {
        self.compared == Compared::Current
            && !self.spec_differs
            && !self.has_operation_in_flight()
            && self.is_after_operation()
    }

    /// Whether the last operation synced the whole Application and the comparison is older.
    pub(super) fn result_is_unknown(&self) -> bool {
        self.operation.as_ref().is_some_and(ObservedOperation::has_synced)
            && !self.is_after_operation()
    }

    /// Whether the comparison is newer than the end of the last operation.
    fn is_after_operation(&self) -> bool {
        match (&self.operation, self.reconciled_at) {
            (Some(operation), Some(at)) => {
                // Times in a status are whole seconds, so the same second may
                // be after.
                operation.finished_at.is_none_or(|finished| at >= stored_time(finished))
            }
            (None, _) | (_, None) => true,
        }
    }

    /// Whether `revisions` are what the sources of the current spec resolved to
    /// at the last comparison; not if it failed or used another spec.
    pub fn knows_its_revisions(&self) -> bool {
        self.compared == Compared::Current && self.sync != SyncStatusCode::Unknown
    }

    /// Whether the Application may be promoted: only if the spec being rolled
    /// out was compared successfully, no other operation is requested or
    /// running (AS-361), and the result of the last one is known. Without such
    /// a comparison the revision that the sync would deploy is unknown, and it
    /// might be ahead of its step.
    pub fn is_ready_to_start(&self) -> bool {
        self.is_current() && self.knows_its_revisions()
    }

    /// The last operation, if it failed to sync the whole Application: one that a rollout
    /// requested, or one of the observed revisions that anybody requested.
    pub fn failed_operation(&self) -> Option<&ObservedOperation> {
        let is_own = |last: &&ObservedOperation| {
            last.promotion.is_some() && last.has_failed() && !last.is_partial
        };
        self.operation.as_ref().filter(is_own).or_else(|| self.failed_sync())
    }

    /// The last operation, if it failed to sync the observed revisions, regardless of who
    /// requested it.
    pub(super) fn failed_sync(&self) -> Option<&ObservedOperation> {
        let failed = |last: &&ObservedOperation| {
            let is_of_these = !last.revisions.is_empty() && last.revisions == self.revisions;
            last.has_failed() && !last.is_partial && is_of_these
        };
        self.operation.as_ref().filter(failed)
    }

    /// Whether the result of a sync of the observed revisions is not known: an operation that
    /// is not of the whole Application has taken its place, and no success since `start` is
    /// recorded.
    pub(super) fn hides_its_result(&self, start: Timestamp) -> bool {
        let is_partial = |last: &ObservedOperation| last.is_partial && !last.phase.is_running();
        self.operation.as_ref().is_some_and(is_partial) && !self.has_deployed_since(start)
    }

    /// Whether the history has a sync of the observed revisions since `start`; also when no history
    /// is kept.
    fn has_deployed_since(&self, start: Timestamp) -> bool {
        match &self.deployed {
            Deployed::NotKept => true,
            Deployed::Never => false,
            Deployed::At(at, revisions) => *at >= start && *revisions == self.revisions,
        }
    }

    /// Whether a promotion is needed: not if the Application is in sync with
    /// what is being rolled out, unless its sync failed (such as in a PostSync hook).
    pub fn may_be_started(&self) -> bool {
        let is_in_sync = self.sync == SyncStatusCode::Synced && self.is_current();
        !is_in_sync || self.failed_sync().is_some()
    }

    /// Whether it has an operation of a rollout that has not applied anything
    /// yet: it is requested only, or a sync window keeps it from starting.
    pub fn has_idle_promotion(&self) -> bool {
        match &self.operation {
            Some(operation) if operation.phase.is_running() => {
                operation.promotion.is_some() && operation.is_blocked
            }
            Some(_) | None => {
                self.requested.as_ref().is_some_and(|request| request.promotion.is_some())
            }
        }
    }

    /// Whether it was compared after the end of its operation. Times have whole seconds, so
    /// an equal one may be later.
    pub fn is_judged(&self) -> bool {
        self.judged().is_some_and(|(compared, ended)| compared >= ended)
    }

    /// Whether it was compared in the second in which its operation ended, so that a newer
    /// comparison may be about to say something else.
    pub fn is_judged_at_once(&self) -> bool {
        self.judged().is_some_and(|(compared, ended)| compared == ended)
    }

    fn judged(&self) -> Option<(Timestamp, Timestamp)> {
        let ended = self.operation.as_ref()?.finished_at?;
        Some((stored_time(self.reconciled_at?), stored_time(ended)))
    }

    /// Whether it was compared after a sync of the whole Application that succeeded. A dry run or a
    /// sync of some resources takes its place in the status: then the history says whether there was
    /// one since `start`.
    pub fn is_judged_after_sync(&self, start: Timestamp) -> bool {
        let Some(last) = &self.operation else { return false };
        if !last.is_partial {
            return last.has_synced() && self.is_judged();
        }
        let is_compared = match &self.deployed {
            Deployed::At(at, _) => self.reconciled_at.is_some_and(|compared| compared >= *at),
            // Whatever it was: it has ended without a failure that was seen.
            Deployed::NotKept | Deployed::Never => true,
        };
        is_compared && self.has_deployed_since(stored_time(start))
    }

    /// What is Degraded, for users.
    pub fn why_degraded(&self) -> &str {
        if self.detail.is_empty() { "it is Degraded" } else { &self.detail }
    }

    /// Whether it is Degraded after an operation that succeeded.
    pub fn is_degraded(&self) -> bool {
        let last = self.operation.as_ref();
        last.is_some_and(|last| last.phase == OperationPhase::Succeeded)
            && self.is_judged()
            && self.health == health::Status::Degraded
    }

    /// Whether it stays OutOfSync: its sync is over, and nothing requests another one for the same
    /// revision.
    pub(super) fn stays_out_of_sync(&self) -> bool {
        (self.operation.is_none() || self.is_judged())
            && !self.is_automated
            && self.sync == SyncStatusCode::OutOfSync
            && self.health != health::Status::Progressing
    }

    /// Whether it is Synced and Healthy, whatever that was compared with.
    pub fn is_synced_and_healthy(&self) -> bool {
        self.sync == SyncStatusCode::Synced && self.health == health::Status::Healthy
    }
}
