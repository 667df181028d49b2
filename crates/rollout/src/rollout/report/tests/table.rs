//! What a report says about an Application: of each phase, each state in which it may be seen, and
//! each wait that the status may name. `table.txt` is to be read with each change of it;
//! `WAVEGATE_REGENERATE=1` writes it.

use std::fmt::Write;

use jiff::Timestamp;

use super::*;
use crate::rollout::report::Report;
use crate::written;

fn with(mut object: Value, changes: &Value) -> Value {
    json_patch::merge(&mut object, changes);
    object
}

/// The statuses of an Application, with the changes of the whole object.
fn states() -> Vec<(&'static str, Value)> {
    let operation = |phase: &str, more: Value| {
        let ended = (phase != "Running").then_some("2026-01-02T03:06:00Z");
        let base = json!({"phase": phase, "message": "its words", "startedAt": AT,
            "finishedAt": ended, "syncResult": {"revision": "r2"},
            "operation": {"sync": {}, "initiatedBy": {"username": "RollingSync"},
                "info": [{"name": "RollingSync", "value": AT}]}});
        json!({"status": {"reconciledAt": "2026-01-02T03:07:00Z", "operationState": with(base, &more)}})
    };
    let status = |status: Value| json!({ "status": status });
    let healthy = |health: &str| status(json!({"health": {"status": health}}));
    let out = status(json!({"sync": {"status": "OutOfSync"}}));
    let ill = json!([{"kind": "Deployment", "group": "apps", "namespace": "n", "name": "web",
        "status": "Synced", "health": {"status": "Degraded", "message": "no image"}}]);
    let both = |one: Value, other: &Value| with(one, other);
    let partial = json!({"operation": {"sync": {"dryRun": true}, "info": null}});
    let person = json!({"operation": {"info": null, "initiatedBy": {"username": "alice"}}});
    let waits = json!({"message": "waiting for healthy state of apps/Deployment/web",
        "syncResult": {"resources": [{"kind": "Deployment", "group": "apps", "namespace": "n",
            "name": "web", "status": "Synced", "hookPhase": "Running", "syncPhase": "Sync"}]}});
    let confirm = json!({"message":
        "waiting for pruning confirmation of apps/Deployment/web and 1 more resource"});
    let error = status(json!({"conditions": [{"type": "ComparisonError", "message": "no file"}]}));
    let held = json!({"metadata": {"annotations": {wavegate_api::annotations::RUN: json!({
        "run": "run-1", "revisions": ["r2"], "at": AT, "goesBack": true, "good": ["r1"]
    }).to_string()}}});
    vec![
        ("Synced and Healthy", json!({})),
        ("OutOfSync", out.clone()),
        ("OutOfSync, compared", both(out.clone(), &status(json!({"reconciledAt": AT})))),
        ("Progressing", healthy("Progressing")),
        ("Suspended", healthy("Suspended")),
        ("Degraded", both(healthy("Degraded"), &status(json!({"resources": ill})))),
        ("no status", json!({"status": {"sync": null, "health": null}})),
        ("an error", both(out.clone(), &error)),
        ("an error, Synced", error),
        ("a sync is requested", both(out.clone(), &json!({"operation": {"sync": {}}}))),
        ("its sync runs", both(operation("Running", json!({})), &out)),
        ("its sync waits", both(operation("Running", waits), &status(json!({"resources": ill})))),
        ("its sync has to be confirmed", operation("Running", confirm)),
        ("its sync is terminated", operation("Terminating", json!({}))),
        ("its sync succeeded", operation("Succeeded", json!({}))),
        ("its sync succeeded, OutOfSync", both(operation("Succeeded", json!({})), &out)),
        (
            "its sync succeeded just now",
            both(
                operation("Succeeded", json!({})),
                &both(out.clone(), &status(json!({"reconciledAt": "2026-01-02T03:06:00Z"}))),
            ),
        ),
        (
            "its sync succeeded, Degraded",
            both(
                operation("Succeeded", json!({})),
                &both(healthy("Degraded"), &status(json!({"resources": ill}))),
            ),
        ),
        ("its sync failed", both(operation("Failed", json!({})), &out)),
        ("its sync failed, all is well", operation("Error", json!({}))),
        ("a dry run succeeded", operation("Succeeded", partial.clone())),
        ("a dry run failed", operation("Failed", partial)),
        ("a person's sync runs", both(operation("Running", person.clone()), &out)),
        ("a person's sync failed", both(operation("Failed", person), &out)),
        ("held after a rollback", both(out.clone(), &held)),
        ("automated", both(out, &json!({"spec": {"syncPolicy": {"automated": {}}}}))),
        ("it is deleted", json!({"metadata": {"deletionTimestamp": AT, "finalizers": ["x/y"]}})),
    ]
}

fn line(report: &Report) -> String {
    let member = &report.members["a"];
    let minute = |at: Timestamp| at.strftime("%M:%S").to_string();
    let why = report.why(member);
    let mut text = format!("{:?} {:?}, by {:?}", why.kind, why.message, report.ended_by(member));
    let flags = [
        (report.is_waited_for(member), "waited for"),
        (report.is_done(member), "done"),
        (report.is_in_flight(member), "in flight"),
        (report.is_outside(member), "outside"),
        (report.may_be_held(member), "may be held"),
        (member.is_seen_done(), "seen done"),
        (member.is_operating(), "operating"),
        (member.live.as_ref().is_some_and(|live| live.is_stuck()), "stuck"),
        (member.live.as_ref().is_some_and(|live| live.has_failed()), "failed"),
        (report.may_be_outdated(), "old"),
        (report.has_changed(), "changed"),
    ];
    for (_, flag) in flags.iter().filter(|(is_so, _)| *is_so) {
        let _ = write!(text, ", {flag}");
    }
    if let (Some(since), until) = report.age_of(member) {
        let _ = write!(text, ", {}..{}", minute(since), until.map(minute).unwrap_or_default());
    }
    if let Some(hold) = report.hold(member) {
        let _ = write!(text, ", holds {:?} {:?}", hold.kind, hold.message);
    }
    if let Some(operation) = member.live.as_ref().map(|live| live.operation_text()) {
        let _ = write!(text, " [{operation}]");
    }
    let waits: Vec<String> = report
        .waits(false)
        .iter()
        .map(|wait| format!("{} {:?} {}", wait.application, wait.kind, wait.message))
        .collect();
    let _ = write!(text, "; {:?}; {}", report.outcome(), waits.join(" | "));
    let _ = write!(text, "; {:?} {:?}", report.progress(), report.total().in_flight);
    text
}

/// `a` is in this phase and state; dev is complete, and `b` in flight.
fn report(max: Value, phase: &str, state: &Value, reported: Option<WaitKind>) -> Report {
    let b = after("Running", "");
    let phase = if phase.is_empty() { None } else { Some(phase) };
    let mut listed = entries(phase.unwrap_or("Waiting"), "Progressing");
    if phase.is_none() {
        listed.as_array_mut().unwrap().remove(1);
    }
    let mut status = json!({"applicationStatus": listed});
    if let Some(kind) = reported {
        status["rollout"] = waits(kind, "the reported reason");
    }
    let a = with(live("prod", done()), state);
    read(&set(max, status), &[("dev", live("dev", done())), ("a", a), ("b", live("prod", b))])
}

#[test]
fn each_phase_with_each_state_and_each_wait_is_reported_as_written() {
    let mut text = String::new();
    let phases = ["", "Waiting", "Pending", "Progressing", "Healthy"];
    for phase in phases {
        for (name, state) in states() {
            let _ = writeln!(
                text,
                "{phase} {name}\n  {}",
                line(&report(json!(3), phase, &state, None))
            );
            for max in [json!(0), json!(1)] {
                if phase == "Waiting" {
                    let _ = writeln!(
                        text,
                        "  {max}: {}",
                        line(&report(max.clone(), phase, &state, None))
                    );
                }
            }
        }
    }
    let some = ["OutOfSync", "its sync runs", "its sync failed", "Synced and Healthy"];
    for kind in WaitKind::ALL {
        for (name, state) in states().iter().filter(|(name, _)| some.contains(name)) {
            for phase in ["Waiting", "Progressing"] {
                let report = report(json!(1), phase, state, Some(*kind));
                let _ = writeln!(text, "{kind:?} {phase} {name}\n  {}", line(&report));
            }
        }
    }
    written::compare("src/rollout/report/tests/table.txt", &text);
}
