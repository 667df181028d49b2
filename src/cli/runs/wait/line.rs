//! What is waited for, in a line of the terminal.

use std::fmt;

use super::super::record::revisions;
use crate::cli::console::commands::wavegate;
use crate::cli::rollout_view::run::{estimate_text, gate_text};
use wavegate_api::ObjectKey;
use wavegate_api::run::{RunPhase, RunWait};
use wavegate_rollout::requests::Run;
use wavegate_rollout::rollout::wait::WaitKind;

/// What is waited for, in a line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct WaitLine {
    /// The state.
    pub what: String,
    /// Why it is so; may be empty.
    pub why: String,
}

impl From<String> for WaitLine {
    fn from(what: String) -> Self {
        Self { what, why: String::new() }
    }
}

impl fmt::Display for WaitLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.why.as_str() {
            "" => f.write_str(&self.what),
            why => write!(f, "{}: {why}", self.what),
        }
    }
}
/// A run and what it waits for, each reason once; what a person ends names the command.
pub(super) fn about_run(run: &Run, of: &ObjectKey) -> WaitLine {
    let (namespace, set) = (&of.namespace, &of.name);
    let command = |verb: &str| wavegate(verb, namespace, set);
    let (status, phase) = (&run.status, run.phase());
    let mut parts = Vec::new();
    if matches!(phase, RunPhase::AwaitingApproval | RunPhase::Soaking) {
        let gates = status
            .gates
            .iter()
            .filter(|gate| gate.waiting_since.is_some() || gate.soaking_since.is_some());
        let gates = gates.filter(|gate| gate.missing() > 0 || gate.soaks_until.is_some());
        let texts = gates.map(|gate| gate_text(gate, namespace, set));
        parts.extend(texts.filter(|text| !text.is_empty()));
    }
    let waits = &status.waiting_for;
    // The message of a run that goes on is its first wait.
    let is_first = phase == RunPhase::Progressing && !waits.is_empty();
    let others = waits.len().saturating_sub(1);
    let more = if others == 0 { String::new() } else { format!(" (and {others} more)") };
    if parts.is_empty() && !status.message.is_empty() {
        let more = if is_first { more.as_str() } else { "" };
        parts.push(format!("{}{more}", status.message));
    }
    match phase {
        RunPhase::Paused if status.message.is_empty() => parts.push(command("resume")),
        RunPhase::Held => {
            parts.push(format!("{} starts what failed again", command("retry")));
        }
        RunPhase::Aborted => {
            parts.push(format!("{} rolls the same out again", command("retry")));
        }
        _ => {}
    }
    // That the run is so, in the words of an Application.
    let said: &[WaitKind] = match phase {
        RunPhase::Paused => &[WaitKind::Paused],
        RunPhase::AwaitingApproval | RunPhase::Soaking => &[WaitKind::Approval, WaitKind::Soak],
        RunPhase::Held => &[WaitKind::FailureBudget],
        _ => &[],
    };
    let is_news =
        |wait: &&RunWait| WaitKind::from_name(&wait.kind).is_none_or(|kind| !said.contains(&kind));
    if let Some(wait) = waits.first().filter(is_news)
        && (!is_first || status.message.is_empty())
    {
        parts.push(format!("waits for {}: {}{more}", wait.application, wait.message));
    }
    if let Some(failure) = status.failures.first() {
        let names = failure.applications.join(", ");
        let is_said = waits.first().filter(is_news).is_some_and(|wait| {
            failure.applications.iter().map(String::as_str).any(|name| name == wait.application)
        });
        // While a run goes back, the status counts the ways back that failed.
        match (is_said, status.failed.max(status.failed_by_signature())) {
            (true, ..=1) => {}
            (true, failed) => parts.push(format!("{failed} failed: {names}")),
            (false, failed) => {
                parts.push(format!("{failed} failed: {names}: {}", failure.message));
            }
        }
    }
    if let Some(estimate) = status.estimate.as_ref().filter(|_| !phase.has_ended()) {
        parts.push(estimate_text(estimate));
    }
    let steps = match (status.step, status.steps.len()) {
        (Some(step), all) if all > 0 => format!(", step {step} of {all}"),
        _ => String::new(),
    };
    let what = format!(
        "run {} of {} is {phase}{steps}, {}/{} complete",
        run.name,
        revisions(&status.to),
        status.done,
        status.total
    );
    WaitLine { what, why: parts.join("; ") }
}
#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A line said the same up to three times.
    #[test]
    fn each_reason_is_said_once() {
        let line = |status: Value| {
            let run = json!({"metadata": {"name": "shop-1"}, "status": status});
            about_run(&Run::read(&run), &ObjectKey::new("argocd", "shop")).to_string()
        };
        let of = |phase: &str, message: &str, more: Value| {
            let mut status = json!({"phase": phase, "message": message, "total": 14, "done": 5,
                "to": [{"revision": "6d0c1f2", "applications": 14}]});
            for (field, value) in more.as_object().unwrap() {
                status[field] = value.clone();
            }
            line(status)
        };
        let wait = |name: &str, kind: &str, message: &str| json!({"application": name, "kind": kind, "message": message});
        let failed = |count: i64, names: &[&str]| {
            let failure = json!({"count": count, "applications": names, "message": "no image"});
            json!({"failed": count, "failures": [failure]})
        };
        let with = |mut status: Value, waits: Vec<Value>| {
            status["waitingFor"] = waits.into();
            status
        };
        let qa = || wait("qa", "FailedOperation", "its sync failed: no image");
        let gate = json!({"name": "prod", "applications": 8, "approvals": 1, "waitingSince": "2026-01-02T03:00:00Z"});
        let at_gate = json!({"gates": [gate],
            "waitingFor": [wait("web", "Approval", "gate prod (policy p) waits for 1 of 1 approvals")]});
        let cases = [
            (
                of(
                    "Progressing",
                    "qa: its sync failed: no image",
                    with(failed(1, &["qa"]), vec![qa()]),
                ),
                "is Progressing, 5/14 complete: qa: its sync failed: no image",
            ),
            (
                of(
                    "Progressing",
                    "qa: its sync failed: no image",
                    with(failed(2, &["dev", "qa"]), vec![qa(), wait("a", "Health", "it is new")]),
                ),
                "is Progressing, 5/14 complete: qa: its sync failed: no image (and 1 more); 2 failed: dev, qa",
            ),
            (
                of(
                    "Progressing",
                    "api: it is new",
                    with(failed(1, &["qa"]), vec![wait("api", "Health", "it is new")]),
                ),
                "is Progressing, 5/14 complete: api: it is new; 1 failed: qa: no image",
            ),
            (
                of(
                    "Paused",
                    "paused: db migration (ann): wavegate resume -n argocd shop",
                    with(json!({}), vec![wait("api", "Paused", "paused: db migration (ann)")]),
                ),
                "is Paused, 5/14 complete: paused: db migration (ann): wavegate resume -n argocd shop",
            ),
            (
                of(
                    "Paused",
                    "paused: db migration (ann): wavegate resume -n argocd shop",
                    with(failed(1, &["qa"]), vec![qa()]),
                ),
                "is Paused, 5/14 complete: paused: db migration (ann): wavegate resume -n argocd shop; waits for qa: its \
                 sync failed: no image",
            ),
            (
                of("AwaitingApproval", "gate prod (policy p) waits for 1 of 1 approvals", at_gate),
                "is AwaitingApproval, 5/14 complete: gate prod (8 Applications) waits, 1 of 1 approvals missing: wavegate approve -n \
                 argocd shop --gate prod",
            ),
            (
                of(
                    "Held",
                    "3 Applications have failed, and 2 may",
                    with(
                        failed(3, &["a", "b", "c"]),
                        vec![wait("d", "FailureBudget", "3 have failed")],
                    ),
                ),
                "is Held, 5/14 complete: 3 Applications have failed, and 2 may; wavegate retry -n argocd shop starts what \
                 failed again; 3 failed: a, b, c: no image",
            ),
            (
                of("RollingBack", "1 of 2 is back", {
                    let mut status = failed(2, &["a", "b"]);
                    // No way back has failed.
                    status["failed"] = json!(0);
                    status
                }),
                "is RollingBack, 5/14 complete: 1 of 2 is back; 2 failed: a, b: no image",
            ),
        ];
        for (said, want) in cases {
            assert_eq!(said, format!("run shop-1 of 6d0c1f2 {want}"));
        }
    }
}
