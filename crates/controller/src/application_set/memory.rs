//! The cached state of an ApplicationSet between reconciles.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use jiff::Timestamp;

use super::log::Logged;
use super::pace::ReconcilePace;
use super::queries::Queries;
use super::repositories::Answers;
use super::run_observation::RunObservation;
use super::signed::ByProject;
use super::surroundings::Surroundings;
use super::written_part::WrittenPart;
use crate::credentials::RepositorySecrets;
use wavegate_api::cluster::ClusterSecret;
use wavegate_cluster::watch::object::StoredObject;
use wavegate_rollout::application_set::DecisionSettings;
use wavegate_rollout::application_set::decision::{Decision, Snapshot};
use wavegate_rollout::application_set::deletion::{Leaving, Presence};
use wavegate_rollout::application_set::generate::generated::Generated;
use wavegate_rollout::application_set::generate::refresh_requests::Asked;
use wavegate_rollout::application_set::plan::observe::Existing;
use wavegate_rollout::application_set::plan::ownership_transfer::{Other, Releases};
use wavegate_rollout::application_set::plan::windows::Facts;
use wavegate_rollout::application_set::reconcile::AFTER_BAD_INPUT;
use wavegate_rollout::application_set::status::report::Reported;
use wavegate_rollout::application_set::status::stored::{Status, StoredApplicationSet};
use wavegate_rollout::desired::inputs::Projects;

/// Minimum interval between two reads that a user asks for, after an error.
const REFRESH_PAUSE: Duration = Duration::from_secs(5);

/// Cached state of an ApplicationSet. It only saves work: everything can be computed again.
#[derive(Debug, Default)]
pub struct SetMemory {
    /// The UID of the ApplicationSet; another one of the same name starts without a cache.
    pub uid: String,
    /// The ApplicationSet as last read or written.
    pub(super) set: Option<Arc<StoredApplicationSet>>,
    /// When its status was written last.
    written_at: Option<Timestamp>,
    /// The status that was written last and what the API server stored of it, if that
    /// lacks something.
    answered: Option<(Status, Status)>,
    /// The Applications generated from its spec.
    pub(super) generated: Option<Arc<Generated>>,
    /// What they were generated from.
    pub(super) generated_from: GeneratedFrom,
    /// What was read of repositories.
    pub answers: Answers,
    /// What services have answered.
    pub queries: Queries,
    /// The Applications that it owns or generates, by name.
    pub(super) existing: Vec<Existing>,
    /// When all of them were observed last, whether an event named them or not.
    pub(super) all_observed_at: Option<Timestamp>,
    /// Its owned Applications, while it is being deleted.
    pub(super) leaving: Vec<Leaving>,
    /// What the API server answered about some of them in this reconcile, by UID.
    pub presence: BTreeMap<String, Presence>,
    /// The UIDs of those whose deletion was reported as stuck.
    pub reported_stuck: BTreeSet<String>,
    /// Whether everything was read for the refresh that the annotation asks for. It stays after
    /// an error.
    pub(super) was_refreshed: bool,
    /// Why the refresh annotation could not be removed.
    pub refresh_failure: Option<String>,
    /// Projects and clusters.
    pub(super) surroundings: Surroundings,
    /// Why generated Applications are invalid.
    pub(super) invalid: BTreeMap<String, String>,
    /// The Applications that were asked to be compared again.
    pub asked: Asked,
    /// What was already reported.
    pub reported: Reported,
    /// What was logged.
    pub logged: Logged,
    /// The last logged lines of a dry run.
    pub would: BTreeSet<String>,
    /// The other ApplicationSets, while an Application may change its owner.
    pub(super) others: Vec<Other>,
    /// Since when it owns Applications that it does not generate.
    pub(super) releases: Releases,
    /// The sources of the controllers' settings that are gone.
    pub(super) absent_settings: Vec<&'static str>,
    /// What policies and runs say of its rollout.
    pub(super) run_observation: RunObservation,
    /// What was generated when its sources were read ahead.
    pub(super) read_ahead: Weak<Generated>,
    /// What the last reconcile has written, if some was left for this one.
    pub part: WrittenPart,
    /// How long events are gathered before the next reconcile.
    pub pace: Option<ReconcilePace>,
}

/// The inputs of a generation besides the spec.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct GeneratedFrom {
    /// The versions of [`SetMemory::answers`] and [`SetMemory::queries`].
    pub(super) answers: (u64, u64),
    /// The cluster Secrets; `None` when they were not used.
    pub(super) clusters: Option<Arc<[ClusterSecret]>>,
    /// The AppProjects; `None` when they were not used.
    pub(super) projects: Option<Projects>,
}

impl SetMemory {
    /// An empty cache for the ApplicationSet with this UID.
    pub fn of(uid: &str) -> Self {
        Self { uid: uid.to_owned(), ..Self::default() }
    }

    /// The credentials of repositories.
    pub fn credentials(&self) -> Arc<RepositorySecrets> {
        Arc::clone(&self.surroundings.credentials)
    }

    /// What projects demand of the commits that generators read.
    pub fn demands(&self) -> Arc<ByProject> {
        Arc::clone(&self.surroundings.demands)
    }

    /// Whether the last generation failed.
    pub(super) fn has_failed(&self) -> bool {
        self.generated.as_ref().is_some_and(|made| made.error.is_some())
    }

    /// Whether this version of the ApplicationSet is known, with a policy that permits deletion.
    pub fn is_known_to_delete(&self, object: &StoredObject) -> bool {
        let (Some(set), Some(made)) = (&self.set, &self.generated) else { return false };
        set.version == object.resource_version()
            && made.generation == set.generation
            && made.policy.deletes()
    }

    /// When repositories are read and services asked again: at the interval of the generators, and after an
    /// error, which a commit may fix.
    pub(super) fn read_at(&self) -> Option<Timestamp> {
        let made = self.generated.as_ref()?;
        let of_services = self.queries.due_at(made.reads.requeue_after, AFTER_BAD_INPUT);
        [self.repositories_due_at(), of_services, self.refresh_at()].into_iter().flatten().min()
    }

    /// When a refresh takes place that a user asked for shortly after a failure.
    fn refresh_at(&self) -> Option<Timestamp> {
        let is_asked = self.set.as_ref().is_some_and(|set| set.is_refreshing);
        (is_asked && self.has_failed() && !self.was_refreshed).then(|| self.pause_ends())?
    }

    /// The end of the pause after the last read.
    pub(super) fn pause_ends(&self) -> Option<Timestamp> {
        let of_services = |at: Timestamp| at.checked_add(REFRESH_PAUSE).ok();
        let of_services = self.queries.asked_at().and_then(of_services);
        [self.answers.due_at(REFRESH_PAUSE), of_services].into_iter().flatten().max()
    }

    /// The same of repositories only.
    pub(super) fn repositories_due_at(&self) -> Option<Timestamp> {
        let made = self.generated.as_ref()?;
        let after_error = made.error.is_some().then_some(AFTER_BAD_INPUT);
        let interval = [made.reads.requeue_after, after_error].into_iter().flatten().min();
        self.answers.due_at(interval?)
    }

    /// Whether what the Applications were generated from has changed, besides the spec.
    pub(super) fn inputs_moved(&self) -> bool {
        let from = &self.generated_from;
        from.answers != self.versions()
            || from.clusters.as_ref().is_some_and(|used| *used != self.surroundings.clusters)
            || from
                .projects
                .as_ref()
                .is_some_and(|used| *used != self.surroundings.projects_for(self.namespace()))
    }

    /// The versions of what was read.
    pub(super) fn versions(&self) -> (u64, u64) {
        (self.answers.version, self.queries.version)
    }

    pub(super) fn namespace(&self) -> &str {
        self.set.as_ref().map_or("", |set| &set.id.namespace)
    }

    /// Sets the ApplicationSet as written.
    pub fn wrote(&mut self, set: Arc<StoredApplicationSet>, now: Timestamp) {
        self.set = Some(set);
        self.written_at = Some(now);
    }

    /// The API server has stored this status when another one was written.
    pub fn answered(&mut self, stored: &Status, wanted: &Status) {
        let lacks = stored != wanted;
        self.answered = lacks.then(|| (wanted.clone(), stored.clone()));
    }

    /// Whether the stored status is the answer to this very one, which has something that
    /// the installed definition does not know: it would be the answer again.
    pub fn was_answered(&self, stored: &Status, wanted: &Status) -> bool {
        let answered = self.answered.as_ref();
        answered.is_some_and(|(sent, answer)| sent == wanted && answer == stored)
    }

    /// How many Applications are in flight after a decision.
    pub(super) fn in_flight(&self, decision: &Decision) -> u64 {
        let is_running = |one: &&Existing| one.is_owned() && one.observed.has_operation_in_flight();
        decision.rollout.as_ref().map_or_else(
            || self.existing.iter().filter(is_running).count() as u64,
            |plan| plan.in_flight,
        )
    }

    /// The inputs of a decision; `None` before the first observation.
    pub fn snapshot<'a>(
        &'a self,
        set: &'a StoredApplicationSet,
        settings: &'a DecisionSettings,
        now: Timestamp,
    ) -> Option<Snapshot<'a>> {
        let windows = Facts {
            projects: &self.surroundings.windows,
            clusters: &self.surroundings.known.clusters,
        };
        let generated = self.generated.as_deref()?;
        let first = Snapshot::first(set, generated, settings, windows, now);
        Some(Snapshot {
            existing: &self.existing,
            leaving: &self.leaving,
            invalid: &self.invalid,
            failing: self.reported.failing(),
            asked: &self.asked,
            redact,
            written_at: self.written_at,
            generate_at: self.read_at(),
            refresh_failure: self.refresh_failure.as_deref(),
            others: &self.others,
            releases: &self.releases,
            absent_settings: &self.absent_settings,
            run_input: self.run_observation.input(set),
            ..first
        })
    }
}

/// Removes credentials from a text.
pub(crate) fn redact(text: &str) -> String {
    wavegate_net::redact::redact_text(text).into_owned()
}
