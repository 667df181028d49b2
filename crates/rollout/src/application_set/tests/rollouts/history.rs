//! What happens in a case, a line for each event and each decision: of the smallest case that
//! fails, it is printed.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt::{Display, Write};

use serde_json::Value;

use super::world::World;
use crate::application_set::decision::Decision;
use crate::rollout::phase::Entry;
use wavegate_api::run::RunStart;

thread_local! {
    static LINES: RefCell<Option<String>> = const { RefCell::new(None) };
    /// The entries that the last decision has shown.
    static SHOWN: RefCell<BTreeSet<String>> = const { RefCell::new(BTreeSet::new()) };
}

/// Records what `run` does.
pub fn of(run: impl FnOnce()) -> String {
    LINES.set(Some(String::new()));
    SHOWN.take();
    run();
    LINES.take().unwrap_or_default()
}

/// Adds a line, which is only made while something is recorded.
pub fn note<T: Display>(line: impl FnOnce() -> T) {
    let is_recorded = LINES.with_borrow(Option::is_some);
    if is_recorded {
        let line = line().to_string();
        LINES.with_borrow_mut(|lines| {
            lines.iter_mut().for_each(|lines| lines.extend([line.as_str(), "\n"]));
        });
    }
}

/// A decision, with what it was made from.
pub fn decision(world: &World, decision: &Decision) -> String {
    let mut text = format!("{} decides", world.cluster.now);
    if let Some(run) = decision.rollout.as_ref().and_then(|plan| plan.run.as_ref()) {
        let is_new = if run.new.is_some() { "new " } else { "" };
        let _ = write!(text, ", {is_new}run {} {:?}", run.name, run.status.phase);
    }
    for patch in decision.writes.patches.iter().filter(|patch| patch.starts) {
        let _ = write!(text, ", starts {}", patch.name);
    }
    let line = |entry: &Entry| {
        let live = world.memory.cache.get(&entry.application).unwrap_or(&Value::Null);
        format!(
            "{} step {:?} {:?} {:?} ({}) since {}, seen {}",
            entry.application,
            entry.step.map(|step| step + 1),
            entry.phase,
            entry.target_revisions,
            entry.message,
            entry.since,
            seen(live),
        )
    };
    let lines: BTreeSet<String> = decision.listed.entries.iter().map(line).collect();
    let shown = SHOWN.replace(lines.clone());
    for line in lines.difference(&shown) {
        let _ = write!(text, "\n    {line}");
    }
    text
}

fn seen(live: &Value) -> String {
    let (status, state) = (&live["status"], &live["status"]["operationState"]);
    let promotion = |operation: &Value| operation["info"][1]["value"].as_str().map(str::to_owned);
    let mut text = format!(
        "{} {} {} at {}",
        status["sync"]["status"],
        status["sync"]["revision"],
        status["health"]["status"],
        status["reconciledAt"],
    );
    if !live["operation"].is_null() {
        let _ = write!(text, ", asked for {:?}", promotion(&live["operation"]));
    }
    if !state.is_null() {
        let _ = write!(
            text,
            ", {} {} {:?} by {} from {} to {}",
            state["phase"],
            state["syncResult"]["revision"],
            promotion(&state["operation"]),
            state["operation"]["initiatedBy"]["username"],
            state["startedAt"],
            state["finishedAt"],
        );
    }
    if let Some(start) = RunStart::of(live) {
        let RunStart { run, revisions, at, goes_back, .. } = start;
        let _ = write!(text, ", started by {run} at {at} for {revisions:?}, back: {goes_back}");
    }
    text
}
