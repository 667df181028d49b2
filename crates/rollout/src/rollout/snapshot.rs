//! What one reconcile of a rollout decides on, and where it stands.

use std::ops::AddAssign;

use jiff::{SignedDuration, Timestamp};

use super::entry::{Entry, Phase, Rules};
use super::observed::Observed;
use super::record::CompletionRecord;
use super::run::started::{Started, Target};
use super::run_input::{RowRun, RunInput};
use super::steps::{Membership, StepStrategy};

/// A wait counts as stalled after this time if there is no timeout (AS-611).
const STALLED: SignedDuration = SignedDuration::from_secs(300);

/// What a rollout needs to know about one Application: generated, existing, or
/// both.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    /// Its name.
    pub name: &'a str,
    /// The steps selected by its generated labels; live labels do not count
    /// (AS-310). `None` when it is not generated.
    pub steps: Option<&'a Membership>,
    /// Why it cannot be written, if validation rejected it (AS-180). Its step
    /// is not complete then (AS-182).
    pub invalid: Option<&'a str>,
    /// Why it could not be written, if the last write of it failed or it must not
    /// be written.
    pub unwritten: Option<&'a Unwritten>,
    /// Why sync windows deny a sync now, if they do.
    pub denied: Option<&'a Denied>,
    /// Why no application controller reconciles it, if that is known: it is waited for all
    /// the same, and the reason is reported.
    pub excluded: Option<&'a Excluded>,
    /// Whether it is being deleted: no operation of it is written any more.
    pub is_going: bool,
    /// The resource that it waits for, as `apps/Deployment shop/web`, if known.
    pub resource: Option<&'a str>,
    /// What is observed, if it exists and is owned by the set.
    pub observed: Option<&'a Observed>,
    /// Its entry of the last reconcile, listed in the status or implied by the
    /// record of the Application (`implied`).
    pub entry: Option<&'a Entry>,
    /// Whether that entry is listed.
    pub is_listed: bool,
    /// The rollout record that the Application carries.
    pub record: Option<&'a CompletionRecord>,
    /// The digest of its generated spec.
    pub spec: Option<&'a str>,
    /// The run that started it last.
    pub started: Option<&'a Started>,
}

impl Member<'_> {
    /// The step that it is counted in.
    pub(super) fn step(&self) -> Option<usize> {
        self.steps.and_then(Membership::step)
    }
}

/// A sync window denies a sync of an Application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denied {
    /// The window and its end, for users.
    pub reason: String,
    /// When to re-evaluate, if the time changes the result.
    pub until: Option<Timestamp>,
}

/// The input of one reconcile.
#[derive(Clone, Copy, Debug)]
pub struct RolloutSnapshot<'a> {
    /// The strategy and its steps.
    pub strategy: &'a StepStrategy,
    /// The generated Applications, and the existing ones that the set owns,
    /// sorted by name without duplicates.
    pub members: &'a [Member<'a>],
    /// The settings.
    pub settings: RolloutSettings,
    /// Which step was open after the last reconcile, and since when.
    pub opened: Option<(usize, Timestamp)>,
    /// How many bytes of entries in flight fit in the status.
    pub capacity: usize,
    /// What policies and people say, if anything can be said.
    pub run_input: Option<RunInput<'a>>,
}

impl<'a> RolloutSnapshot<'a> {
    /// With the deadline of a policy, an Application whose sync does not start fails at it
    /// (ST-040), and does not become Healthy by a timeout before (AS-356). There may be one that
    /// cannot be read now.
    pub(super) fn with_deadline(&self) -> RolloutSnapshot<'a> {
        let mut snapshot = *self;
        let has_deadline = |input: &RunInput<'_>| {
            let is_judged = input.records_runs || input.hides_runs;
            is_judged && input.rules.deadline.is_some() || !input.hidden_policies().is_empty()
        };
        if self.run_input.as_ref().is_some_and(has_deadline) {
            snapshot.settings.rules.progressing_timeout = None;
        }
        snapshot
    }
}

/// The settings of rollouts, from flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RolloutSettings {
    /// The state machine's settings.
    pub rules: Rules,
    /// Whether a step also requires its Applications to be Healthy now, not
    /// only to have been Healthy once (AS-331).
    pub require_live_health: bool,
    /// Whether an operation pins the revision that the promotion was decided on
    /// (AS-365), so that a later commit cannot be deployed ahead of its step.
    pub pin_revisions: bool,
}

impl Default for RolloutSettings {
    fn default() -> Self {
        Self {
            rules: Rules {
                progressing_timeout: Some(SignedDuration::from_secs(300)),
                capture_drift: true,
            },
            require_live_health: false,
            pin_revisions: true,
        }
    }
}

impl RolloutSettings {
    /// After which time a wait counts as stalled.
    pub fn stalled_after(&self) -> SignedDuration {
        self.rules.progressing_timeout.unwrap_or(STALLED)
    }
}

/// Why an Application could not be written, or must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unwritten {
    /// The reason.
    pub why: String,
    /// Whether it must not be written, so that nothing was tried.
    pub is_refused: bool,
}

/// The annotation that excludes an Application from reconciling, and what carries it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excluded {
    /// The reason in words.
    pub why: String,
    /// The cluster Secret that carries it, as a resource; `None` for the Application itself.
    pub secret: Option<String>,
}

/// The revision that an Application has not been compared with, and whether to
/// request a refresh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lag {
    /// The revision that another Application has seen.
    pub revision: String,
    /// Whether a refresh may help: the last comparison is older than that
    /// revision. If a later comparison failed, no refresh is requested, as it
    /// would fail again; the application controller retries by itself.
    pub refresh: bool,
}

/// A member during one reconcile.
#[derive(Debug)]
pub(super) struct Row<'a> {
    pub member: &'a Member<'a>,
    /// Its new entry, if it exists.
    pub entry: Option<Entry>,
    /// The revision that it has not been compared with.
    pub behind: Option<Lag>,
    /// It is Waiting only because the status has no room for it as Progressing.
    pub is_beyond_capacity: bool,
    /// What policies and people say about it.
    pub run: RowRun,
}

impl Row<'_> {
    /// Whether it counts against limits. One that its step does not wait for, and one that is
    /// tried again or goes back, counts only while it is promoted or has an operation.
    pub fn is_in_flight(&self) -> bool {
        let (seen, run) = (self.member.observed, &self.run);
        match run.is_excused() || run.is_over || run.retries() {
            true => {
                seen.is_some_and(Observed::has_operation_in_flight)
                    || self.phase() == Some(Phase::Pending)
            }
            false => {
                self.is_beyond_capacity
                    || self.entry.as_ref().is_some_and(|entry| entry.is_in_flight(seen))
            }
        }
    }

    /// Whether its place is kept until it is started again: nothing has excused its failure, so it
    /// was counted until its retry, and another one must not start in its place.
    pub fn keeps_place(&self) -> bool {
        let run = &self.run;
        let is_free = run.is_excused() || run.is_over || self.is_in_flight();
        run.keeps_place && !is_free && self.phase() != Some(Phase::Healthy)
    }

    /// Its target: its generated spec with the revisions that it resolves to.
    pub fn target(&self) -> Option<Target> {
        let (spec, revisions) = self.spec_and_revisions()?;
        Some(Target { spec: spec.to_owned(), revisions: revisions.to_vec() })
    }

    /// The same without a copy.
    pub fn spec_and_revisions(&self) -> Option<(&str, &[String])> {
        Some((self.member.spec?, &self.entry.as_ref()?.target_revisions))
    }

    /// Whether a target is its own.
    pub fn has_target(&self, target: &Target) -> bool {
        self.spec_and_revisions().is_some_and(|(spec, revisions)| target.is(spec, revisions))
    }

    /// Why sync windows deny a sync of it now; `None` also when nothing has to be synced.
    pub fn denied(&self) -> Option<&Denied> {
        let is_forced = self.run.retries() || self.run.back.is_some();
        let is_needed = is_forced || self.member.observed.is_some_and(Observed::may_be_started);
        self.member.denied.filter(|_| is_needed)
    }

    /// Whether a sync of a person holds it.
    pub fn is_held(&self) -> bool {
        self.entry.as_ref().is_some_and(Entry::is_held)
    }

    pub fn phase(&self) -> Option<Phase> {
        self.entry.as_ref().map(|entry| entry.phase)
    }
}

/// What is in flight: the number per step, and the size in the status.
#[derive(Debug)]
pub(super) struct InFlight {
    pub per_step: Vec<SlotCount>,
    pub bytes: usize,
    /// An Application was not promoted because the status is full.
    pub is_full: bool,
}

/// The places of a step that are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SlotCount {
    /// By what is in flight.
    pub in_flight: u64,
    /// By those that are started again ([`Row::keeps_place`]) as soon as their step is open.
    pub kept: u64,
}

impl SlotCount {
    /// How many are taken.
    pub fn all(&self) -> u64 {
        self.in_flight + self.kept
    }

    /// How many one that is to start finds taken. Those that keep their places compete only with
    /// what is in flight: otherwise each would wait for the others.
    pub fn taken(&self, keeps_place: bool) -> u64 {
        match keeps_place {
            true => self.in_flight,
            false => self.all(),
        }
    }

    /// The same in words, with its limit.
    pub fn shown(&self, keeps_place: bool, limit: u64, what: &str) -> String {
        let in_flight = format!("{} of {limit}{what} are in flight", self.in_flight);
        match self.kept {
            0 => in_flight,
            _ if keeps_place => in_flight,
            1 => format!("{in_flight}, and 1 that is retried keeps its place"),
            kept => format!("{in_flight}, and {kept} that are retried keep their places"),
        }
    }

    /// One more is in flight, in a place that was kept for it or a new one.
    pub fn take(&mut self, keeps_place: bool) {
        self.in_flight += 1;
        // Without a limit they are not counted.
        self.kept = self.kept.saturating_sub(u64::from(keeps_place));
    }
}

impl AddAssign for SlotCount {
    fn add_assign(&mut self, other: Self) {
        self.in_flight += other.in_flight;
        self.kept += other.kept;
    }
}
