//! What `wait` waits for (ST-072): the run of one commit, or the newest state of a set.
//!
//! A run is that of a commit when its targets contain it; of several, the newest one counts. A
//! run of another commit is never taken for it: also not one that the commit has only joined, and
//! that ends because its own run is about to be recorded. Without runs, which sets without steps
//! have not and which are missing where the definitions of `wavegate.dev` are, the Applications
//! count: all of them complete, and all of the same source at the commit. A set that has no steps
//! any more may have runs, which have ended: they are history.

use std::collections::BTreeMap;

use super::Run;
use crate::rollout::report::{Report, RolloutOutcome};
use crate::rollout::run::{REVISIONS, open_retries};
use wavegate_api::run::RunPhase;

/// What is waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Goal {
    /// The current run, or the newest state without one.
    Newest,
    /// The run of this commit, or of another revision.
    Revision(String),
    /// The run with this name.
    Run(String),
}

/// The source and the compared revisions of an Application.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeployedRevision {
    /// What identifies its commits: repositories and target revisions.
    pub source: String,
    /// The revisions that it was compared with.
    pub revisions: Vec<String>,
}

/// What is known of a set.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// Its runs, the newest first.
    pub runs: &'a [Run],
    /// Whether runs are recorded, as far as is known.
    pub has_runs: bool,
    /// The report of its rollout.
    pub report: &'a Report,
    /// Its Applications by name.
    pub deployed: &'a BTreeMap<String, DeployedRevision>,
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub enum WaitEnding {
    /// All Applications are complete.
    Complete,
    /// All are, apart from failed ones.
    CompleteWithFailures,
    /// Too many have failed.
    Held,
    /// A person or failures have ended the run.
    Aborted,
    /// It is taken back, or was.
    RolledBack,
    /// Another change has taken its place, or its set has no rollout any more.
    Superseded,
    /// Only a person can continue.
    Stuck,
    /// The run or the set was deleted.
    Deleted,
    /// The time is over.
    TimedOut,
}

/// How far a wait is.
#[derive(Clone, Debug, PartialEq)]
pub enum WaitProgress<'a> {
    /// For this run.
    Runs(&'a Run),
    /// For a run to appear.
    Expects,
    /// For Applications, of a set without runs.
    Members,
    /// It has ended. What is not final can still change by a newer comparison.
    Ended {
        /// How.
        ending: WaitEnding,
        /// The run, if one was recorded.
        run: Option<&'a Run>,
        /// Whether no newer comparison can change it.
        is_final: bool,
    },
}

/// The shortest prefix of a commit that stands for it.
const PREFIX: usize = 7;

/// Whether a revision, or one of several separated by commas, is meant: the same, or one that
/// begins with it.
pub fn is_revision(revision: &str, meant: &str) -> bool {
    let meant = meant.to_ascii_lowercase();
    revision.split(',').map(|one| one.trim().to_ascii_lowercase()).any(|one| {
        one == meant || (meant.len() >= PREFIX && one.strip_prefix(meant.as_str()).is_some())
    })
}

/// How far a wait is.
pub fn wait_progress<'a>(goal: &Goal, seen: &Seen<'a>) -> WaitProgress<'a> {
    let is_history = |run: &Run| !seen.report.is_rolling() && run.phase().has_ended();
    let runs = match goal {
        Goal::Newest | Goal::Revision(_) if seen.runs.first().is_some_and(is_history) => &[],
        Goal::Newest | Goal::Revision(_) | Goal::Run(_) => seen.runs,
    };
    match goal {
        Goal::Run(name) => match runs.iter().position(|run| run.name == *name) {
            Some(0) => of_current(&runs[0], seen),
            Some(at) => of_run(&runs[at], false),
            None => ended(WaitEnding::Deleted, None, true),
        },
        Goal::Revision(revision) => {
            let is_of =
                |run: &Run| run.status.to.iter().any(|to| is_revision(&to.revision, revision));
            match runs.iter().position(is_of) {
                // What the newest run is about is not recorded yet: maybe this commit.
                Some(at) if at > 0 && !runs[0].is_known => WaitProgress::Expects,
                Some(at) if at > 0 && runs[at].phase() == RunPhase::Complete => {
                    // A later run may be of another repository, or have replaced it.
                    let ending = match is_at(seen, revision, true) {
                        true => WaitEnding::Complete,
                        false => WaitEnding::Superseded,
                    };
                    ended(ending, Some(&runs[at]), true)
                }
                Some(0) => of_revision(&runs[0], revision, seen),
                Some(at) => of_run(&runs[at], false),
                None if is_unselected(seen) && is_at(seen, revision, false) => of_members(seen),
                None if is_at(seen, revision, true)
                    && seen.report.outcome() == RolloutOutcome::Complete =>
                {
                    ended(WaitEnding::Complete, None, false)
                }
                None if is_recorded(seen) => match runs.first() {
                    Some(run) if is_cut(run) && is_at(seen, revision, false) => {
                        of_newest(run, seen)
                    }
                    _ => WaitProgress::Expects,
                },
                None if is_at(seen, revision, false) => of_members(seen),
                None => WaitProgress::Members,
            }
        }
        Goal::Newest => match runs.first() {
            Some(run) => of_newest(run, seen),
            None => of_members(seen),
        },
    }
}

/// Of the newest run, whatever it rolls out.
fn of_newest<'a>(run: &'a Run, seen: &Seen<'a>) -> WaitProgress<'a> {
    match run.phase() {
        RunPhase::Complete if seen.report.outcome() == RolloutOutcome::Complete => {
            ended(WaitEnding::Complete, Some(run), false)
        }
        // No successor follows a time without steps, when nothing has changed.
        RunPhase::Superseded if seen.report.outcome() == RolloutOutcome::Complete => {
            ended(WaitEnding::Complete, None, false)
        }
        // Its successor is about to be recorded.
        RunPhase::Complete | RunPhase::Superseded => WaitProgress::Expects,
        _ => match of_current(run, seen) {
            WaitProgress::Ended { ending, run, .. } => ended(ending, run, false),
            goes_on => goes_on,
        },
    }
}

/// Of the newest run, whose targets contain the revision. A new target of Applications that it
/// has not started joins a run, and supersedes it as soon as a started one has it (ST-003): until
/// then its end is that of another commit.
fn of_revision<'a>(run: &'a Run, revision: &str, seen: &Seen<'_>) -> WaitProgress<'a> {
    let is_alone = run.status.to.iter().all(|to| is_revision(&to.revision, revision));
    match (run.phase(), of_current(run, seen)) {
        // Its end is stored before its successor; none follows a time without steps, when nothing
        // has changed.
        (RunPhase::Superseded, _) => match seen.report.outcome() {
            RolloutOutcome::Complete if is_at(seen, revision, true) => {
                ended(WaitEnding::Complete, None, false)
            }
            _ => WaitProgress::Expects,
        },
        (phase, WaitProgress::Ended { ending, run, is_final }) => {
            ended(ending, run, is_final && is_alone && phase != RunPhase::Held)
        }
        (_, goes_on) => goes_on,
    }
}

fn ended(ending: WaitEnding, run: Option<&Run>, is_final: bool) -> WaitProgress<'_> {
    WaitProgress::Ended { ending, run, is_final }
}

/// Of the newest run. One that has not ended is stuck by the rule of `status --watch`: nothing of
/// its step goes on, and no word that is asked for on purpose would continue it.
fn of_current<'a>(run: &'a Run, seen: &Seen<'_>) -> WaitProgress<'a> {
    match of_run(run, true) {
        WaitProgress::Runs(run) if !is_retried(run) && seen.report.outcome().is_stuck() => {
            ended(WaitEnding::Stuck, Some(run), false)
        }
        progress => progress,
    }
}

/// Of a run; `is_newest` when no other follows.
fn of_run(run: &Run, is_newest: bool) -> WaitProgress<'_> {
    let ending = match run.phase() {
        RunPhase::Complete => WaitEnding::Complete,
        RunPhase::CompleteWithFailures => WaitEnding::CompleteWithFailures,
        RunPhase::Superseded => WaitEnding::Superseded,
        RunPhase::Aborted => WaitEnding::Aborted,
        RunPhase::RollingBack | RunPhase::RolledBack => WaitEnding::RolledBack,
        _ if !is_newest => WaitEnding::Superseded,
        // A person has just asked for another attempt.
        RunPhase::Held if !is_retried(run) => WaitEnding::Held,
        RunPhase::Held
        | RunPhase::Progressing
        | RunPhase::Paused
        | RunPhase::AwaitingApproval
        | RunPhase::Soaking => return WaitProgress::Runs(run),
    };
    ended(ending, Some(run), true)
}

/// Whether a retry was asked for that no controller has acted on.
fn is_retried(run: &Run) -> bool {
    open_retries(&run.spec, &run.status).next().is_some()
}

/// Of a set without runs.
fn of_members<'a>(seen: &Seen<'a>) -> WaitProgress<'a> {
    let outcome = seen.report.outcome();
    match outcome {
        RolloutOutcome::Complete if is_unselected(seen) => ended(WaitEnding::Stuck, None, false),
        RolloutOutcome::Complete => ended(WaitEnding::Complete, None, false),
        outcome if outcome.is_stuck() && !is_recorded(seen) => {
            ended(WaitEnding::Stuck, None, false)
        }
        _ => WaitProgress::Members,
    }
}

/// Whether no step selects any Application, and some wait for a manual sync: all steps are
/// complete, and nothing was rolled out.
fn is_unselected(seen: &Seen<'_>) -> bool {
    let mut members = seen.report.members.values();
    members.all(|member| member.step.is_none()) && seen.report.outside().next().is_some()
}

/// Whether a run may have more targets than are recorded.
fn is_cut(run: &Run) -> bool {
    run.status.to.len() >= REVISIONS
}

/// Whether a rollout of the set has a run.
fn is_recorded(seen: &Seen<'_>) -> bool {
    seen.has_runs && seen.report.is_rolling()
}

/// Whether Applications are at a revision: some, and with `all` also every other one of the same
/// source.
fn is_at(seen: &Seen<'_>, revision: &str, all: bool) -> bool {
    let has =
        |one: &DeployedRevision| one.revisions.iter().any(|found| is_revision(found, revision));
    let sources: Vec<&str> =
        seen.deployed.values().filter(|one| has(one)).map(|one| one.source.as_str()).collect();
    let is_same = |one: &&DeployedRevision| sources.contains(&one.source.as_str());
    !sources.is_empty() && (!all || seen.deployed.values().filter(is_same).all(has))
}
