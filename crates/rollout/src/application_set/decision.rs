//! What a reconcile is decided on ([`Snapshot`]), and what is decided ([`Decision`]).

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use crate::application_set::deletion::deletion_guard::HeldDeletions;
use crate::application_set::deletion::{Leaving, Stuck, Unsure};
use crate::application_set::generate::generated::Generated;
use crate::application_set::generate::refresh_requests::Asked;
use crate::application_set::plan::observe::Existing;
use crate::application_set::plan::ownership_transfer::{Other, Releases};
use crate::application_set::plan::windows;
use crate::application_set::plan::write_plan::WritePlan;
use crate::application_set::settings::DecisionSettings;
use crate::application_set::status::events::SetEvent;
use crate::application_set::status::findings::Failure;
use crate::application_set::status::stored::{Status, StoredApplicationSet};
use crate::application_set::status::write_failures::Failing;
use crate::rollout::RolloutPlan;
use crate::rollout::listed::Listed;
use crate::rollout::run::RunDecision;
use crate::rollout::run_input::RunInput;
use crate::rollout::wait::RolloutWait;
use wavegate_engine::wait::{WaitFor, WakeEvent};

/// The input of one reconcile.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot<'a> {
    /// The set.
    pub set: &'a StoredApplicationSet,
    /// The result of reading its spec.
    pub generated: &'a Generated,
    /// The settings.
    pub settings: &'a DecisionSettings,
    /// The existing Applications that the set owns or generates, by name.
    pub existing: &'a [Existing],
    /// The Applications that it owns, if it is being deleted.
    pub leaving: &'a [Leaving],
    /// Validation errors of generated Applications, by name ([`Generated::invalid`]).
    pub invalid: &'a BTreeMap<String, String>,
    /// The Applications that the last reconcile could not write.
    pub failing: &'a Failing,
    /// The Applications that were asked to be compared again.
    pub asked: &'a Asked,
    /// The sync windows.
    pub windows: windows::Facts<'a>,
    /// Removes credentials from a text.
    pub redact: fn(&str) -> String,
    /// When the status was written last, as far as this controller knows.
    pub written_at: Option<Timestamp>,
    /// When repositories are read again, if ever.
    pub generate_at: Option<Timestamp>,
    /// Why the refresh annotation could not be removed, if that failed.
    pub refresh_failure: Option<&'a str>,
    /// The other sets of the namespace, if an Application may change its owner.
    pub others: &'a [Other],
    /// Since when the set owns Applications that it does not generate.
    pub releases: &'a Releases,
    /// The sources of the controllers' settings that are gone, whose last settings stay in force.
    pub absent_settings: &'a [&'static str],
    /// What policies and people say about its rollout, if anything can be said.
    pub run_input: Option<RunInput<'a>>,
    /// The time.
    pub now: Timestamp,
}

/// What is known before anything was reported or released.
static NO_PROBLEMS: BTreeMap<String, String> = BTreeMap::new();
static NO_FAILURES: Failing = Failing::NONE;
static NONE_ASKED: Asked = Asked::NONE;
static NO_RELEASES: Releases = Releases::NONE;

impl<'a> Snapshot<'a> {
    /// That of a set without Applications, for a controller that has done nothing yet.
    pub fn first(
        set: &'a StoredApplicationSet,
        generated: &'a Generated,
        settings: &'a DecisionSettings,
        windows: windows::Facts<'a>,
        now: Timestamp,
    ) -> Self {
        Self {
            set,
            generated,
            settings,
            existing: &[],
            leaving: &[],
            invalid: &NO_PROBLEMS,
            failing: &NO_FAILURES,
            asked: &NONE_ASKED,
            windows,
            redact: str::to_owned,
            written_at: None,
            generate_at: None,
            refresh_failure: None,
            others: &[],
            releases: &NO_RELEASES,
            absent_settings: &[],
            run_input: None,
            now,
        }
    }
}

/// The decision of one reconcile.
#[derive(Clone, Debug, Default)]
pub struct Decision {
    /// The finalizers of the set, if they change. Nothing else is done then,
    /// except for [`Self::next`].
    pub finalizers: Option<Vec<String>>,
    /// The status, to be written first; `None` leaves it unchanged.
    pub status: Option<Status>,
    /// The Applications to write.
    pub writes: WritePlan,
    /// The annotations of the set, as a merge patch of them, if they change. Nothing else is
    /// done then: the next reconcile decides with what they say.
    pub annotations: Option<Value>,
    /// Whether the refresh annotation of the set is removed by that (AS-420).
    pub ends_refresh: bool,
    /// The Events, sent once the status is written.
    pub events: Vec<SetEvent>,
    /// Stalled waits to report: repeated until the Event is known to be
    /// written, and recorded in the status then.
    pub stalled: Vec<RolloutWait>,
    /// The decisions of the rollout.
    pub rollout: Option<RolloutPlan>,
    /// The run that ends because the set has no rollout any more.
    pub ended_run: Option<RunDecision>,
    /// The Applications that a deletion waits for.
    pub leaving: Vec<String>,
    /// The Applications to read from the API server before the next decision: they
    /// should be gone for a long time (AS-383).
    pub unsure: Vec<Unsure>,
    /// The Applications whose deletion takes too long: the reconcile fails.
    pub stuck: Vec<Stuck>,
    /// What follows if all writes succeed.
    pub next: NextReconcile,
    /// The deletions that wait for an approval.
    pub emptied: Option<HeldDeletions>,
    /// Whether it is not known yet whether deletions are held.
    pub(super) keeps_hold: bool,
    pub(super) listed: Listed,
    pub(super) failure: Option<Failure>,
}

impl Decision {
    /// What is to be recorded of runs.
    pub fn run(&self) -> Option<&RunDecision> {
        let of_rollout = self.rollout.as_ref().and_then(|plan| plan.run.as_ref());
        of_rollout.or(self.ended_run.as_ref())
    }

    /// The Applications that are behind others, the most urgent first.
    pub fn behind(&self) -> &[String] {
        self.rollout.as_ref().map_or(&[], |plan| &plan.refreshes)
    }
}

/// What follows a reconcile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextReconcile {
    /// The set is gone.
    Gone,
    /// Nothing until one of these events arrives.
    On(&'static [WakeEvent]),
    /// Another reconcile soon: something has changed in the meantime.
    Again,
    /// Another reconcile after this time, without an event.
    After(WaitFor, Duration),
}

impl Default for NextReconcile {
    fn default() -> Self {
        Self::On(&[WakeEvent::ApplicationSet])
    }
}
