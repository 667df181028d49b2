//! What people have said in a run that is about nothing: an approval of a gate that there is not,
//! an Application that the set has not, anything that a run does not act on any more. The commands
//! refuse such words; `kubectl` writes them.

use std::cell::LazyCell;
use std::collections::BTreeSet;

use jiff::Timestamp;

use super::timeline::{self, Transition};
use super::{retries, run_status};
use crate::rollout::policy::Rules;
use crate::rollout::run_input::StaleRequests;
use crate::rollout::snapshot::Row;
use wavegate_api::Time;
use wavegate_api::run::{RolloutRunSpec, RolloutRunStatus, RunPhase, TimelineEntry};
use wavegate_api::time::of_word;
use wavegate_api::unknown::{meant_hint, nearest_name};

/// The most that are named. There may be many thousands, and each is compared with the names of all
/// Applications to find what was meant.
const NAMED: usize = 10;
/// The most characters of a name.
const NAME: usize = 100;

/// What has no effect, in words. The timeline of `status` says which approvals and skips had one
/// before the gate or the Application went; `before` is what was found before, and `reads_retries`
/// whether retries are read in this reconcile: what a name was at that time counts.
pub(crate) fn found(
    spec: &RolloutRunSpec,
    status: &RolloutRunStatus,
    before: &[String],
    reads_retries: bool,
    rules: &Rules,
    rows: &[Row<'_>],
) -> Vec<String> {
    let had_effect =
        |what: &str, subject: &str, by: &str| had_effect(&status.timeline, what, subject, by);
    let gates = || rules.gates.iter().map(|gate| gate.name.as_str());
    let names = || rows.iter().map(|row| row.member.name);
    let approvals = spec.approvals.iter().filter(|approval| {
        let (gate, by) = (approval.gate.as_str(), approval.by.as_str());
        !gates().any(|known| known == gate) && !had_effect("GateApproved", gate, by)
    });
    let approvals = approvals.take(NAMED).map(|approval| {
        let hint = meant_hint(nearest_name(&approval.gate, gates()));
        let begin = of_approval(&approval.gate, &approval.by);
        format!("{begin}: no policy of the set has this gate{hint}")
    });
    // Of all Applications, and hardly ever needed.
    let known = LazyCell::new(|| names().collect::<BTreeSet<_>>());
    let is_unknown = |name: &String| !known.contains(name.as_str());
    let no_such =
        |name: &str| format!("{}{}", no_application(name), meant_hint(nearest_name(name, names())));
    let skips = spec.skip.iter().filter(|name| is_unknown(name));
    let skips = skips
        .filter(|name| !had_skipped(&status.timeline, name))
        .take(NAMED)
        .map(|name| format!("skip: {}", no_such(name)));
    // Those of the time before it goes back are listed.
    let goes_back = status.phase == RunPhase::RollingBack;
    let late = spec.skip.iter().filter(|name| goes_back && known.contains(name.as_str()));
    let late = late.filter(|name| !was_skipped(status, name)).take(NAMED).map(|name| {
        format!("{}: the run goes back, and a skip keeps nothing from its way back", of_skip(name))
    });
    let retries = spec.retries.iter().flat_map(|retry| {
        let unknown = retry.applications.iter().filter(|name| is_unknown(name));
        unknown.map(|name| (retry.by.as_str(), name))
    });
    let retries = retries.take(NAMED);
    let retries = retries.map(|(by, name)| format!("the retry by {}: {}", cut(by), no_such(name)));
    let retries = retries.filter(|text| reads_retries || before.contains(text));
    let mut all: Vec<String> = Vec::new();
    for text in approvals.chain(skips).chain(late).chain(retries) {
        if all.len() < NAMED && !all.contains(&text) {
            all.push(text);
        }
    }
    all
}

/// What people said to a run that had ended, or that a later run has followed, in words; without
/// what its status names already. Of one that is current, aborts, rollbacks and retries are left
/// out: a run that has ended acts on some of them.
pub fn found_late(
    spec: &RolloutRunSpec,
    status: &RolloutRunStatus,
    is_current: bool,
) -> Vec<String> {
    let why = match is_current {
        true => has_ended(status),
        false => "a later run has followed this one".to_owned(),
    };
    let is_named = |begin: &str| status.without_effect.iter().any(|known| known.starts_with(begin));
    let is_open = |gate: &str| status.gates.iter().any(|one| one.name == gate && one.is_open());
    let has_read = |gate: &str, by: &str| {
        let of_gate = status.gates.iter().filter(|one| one.name == gate);
        let mut read = of_gate.flat_map(|one| one.approved_by.iter().chain(&one.void));
        read.any(|read| read == by) || had_effect(&status.timeline, "GateApproved", gate, by)
    };
    let approvals = spec.approvals.iter().filter_map(|approval| {
        let (gate, by) = (approval.gate.as_str(), approval.by.as_str());
        let begin = of_approval(gate, by);
        (!is_open(gate) && !has_read(gate, by) && !is_named(&begin)).then_some(begin)
    });
    let skips = spec.skip.iter().filter_map(|name| {
        let begin = of_skip(name);
        let is_known =
            was_skipped(status, name) || is_named(&format!("skip: {}", no_application(name)));
        (!is_known && !is_named(&begin)).then_some(begin)
    });
    let is_new = |at: &Option<Time>, acted: &Option<Time>| {
        !is_current && acted.as_ref() != Some(&of_word(at.as_ref()))
    };
    let abort = spec.abort.as_ref().filter(|said| is_new(&said.at, &status.aborted_at));
    let abort = abort.map(|said| format!("the abort by {}", cut(&said.by)));
    let rollback = spec.rollback.as_ref().filter(|said| is_new(&said.at, &status.rollback_at));
    let rollback = rollback.map(|said| format!("the rollback by {}", cut(&said.by)));
    let retries = retries::open_retries(spec, status).filter(|_| !is_current);
    let retries = retries.map(|said| format!("the retry by {}", cut(&said.by)));
    let others = abort.into_iter().chain(rollback).chain(retries);
    let others = others.filter(|begin| !is_named(begin));
    let room = room(status);
    let mut all: Vec<String> = Vec::new();
    for begin in approvals.chain(skips).chain(others) {
        let text = format!("{begin}: {why}");
        if all.len() < room && !all.contains(&text) {
            all.push(text);
        }
    }
    all
}

/// How many more the status of a run may name.
pub(crate) fn room(status: &RolloutRunStatus) -> usize {
    NAMED.saturating_sub(status.without_effect.len())
}

/// Why a word to a run that has ended has no effect.
pub fn has_ended(status: &RolloutRunStatus) -> String {
    format!("the run has ended ({})", status.phase)
}

/// The status of an earlier run with more words without effect, and the transitions that are new.
pub(crate) fn recorded(
    status: &RolloutRunStatus,
    found: &[String],
    now: Timestamp,
) -> (RolloutRunStatus, Vec<TimelineEntry>) {
    let mut status = status.clone();
    for message in found {
        let (what, message) = ("WithoutEffect", message.clone());
        timeline::add(&mut status, Transition { what, message, ..Transition::default() }, now);
    }
    let news = status.timeline[status.timeline.len().saturating_sub(found.len())..].to_vec();
    status.without_effect.extend_from_slice(found);
    (status, news)
}

/// Whether a word had its effect, as the timeline says.
fn had_effect(timeline: &[TimelineEntry], what: &str, subject: &str, by: &str) -> bool {
    timeline.iter().any(|entry| entry.what == what && entry.subject == subject && entry.by == by)
}

/// Whether the run has read a skip in time to act on it.
fn was_skipped(status: &RolloutRunStatus, name: &String) -> bool {
    // Of many, the status has the first ones only.
    status.skipped.len() >= run_status::NAMES
        || status.skipped.contains(name)
        || had_skipped(&status.timeline, name)
}

/// The same of a skip, whoever has asked for it.
fn had_skipped(timeline: &[TimelineEntry], name: &str) -> bool {
    timeline.iter().any(|entry| entry.what == "Skipped" && entry.subject == name)
}

/// How the message about a skip that comes too late begins.
fn of_skip(name: &str) -> String {
    format!("the skip of {}", cut(name))
}

/// How the message about an approval begins.
fn of_approval(gate: &str, by: &str) -> String {
    format!("the approval of gate {} by {}", cut(gate), cut(by))
}

fn no_application(name: &str) -> String {
    format!("the set has no Application {}", cut(name))
}

fn cut(name: &str) -> String {
    name.chars().take(NAME).collect()
}

impl StaleRequests {
    /// Of a run that is not the current one.
    pub fn of(run: &str, spec: &RolloutRunSpec, status: &RolloutRunStatus) -> Option<Self> {
        // Without a status, nothing of it was read.
        status.started_at.as_ref()?;
        let found = found_late(spec, status, false);
        let is_any = !found.is_empty();
        is_any.then(|| Self { run: run.to_owned(), status: status.clone(), found })
    }
}
