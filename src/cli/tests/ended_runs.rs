//! The advice for each state of a run (ST-080): out of a rollback nothing leads forward.

use super::*;
use wavegate_api::run::RunPhase;
use wavegate_rollout::rollout::wait::{EndedBy, WaitKind};

const PHASES: [RunPhase; 11] = [
    RunPhase::Progressing,
    RunPhase::Paused,
    RunPhase::AwaitingApproval,
    RunPhase::Soaking,
    RunPhase::Held,
    RunPhase::Complete,
    RunPhase::CompleteWithFailures,
    RunPhase::Superseded,
    RunPhase::Aborted,
    RunPhase::RollingBack,
    RunPhase::RolledBack,
];

fn run(phase: RunPhase, failed: i64) -> Run {
    let status = json!({"phase": phase, "message": "m", "total": 2, "done": 1, "failed": failed});
    let metadata = json!({"name": "shop-7", "namespace": "argocd"});
    Run::read(&json!({"metadata": metadata, "spec": {"applicationSet": "shop"}, "status": status}))
}

/// What `explain` advises while the open step waits for `dev` in this way.
fn advice(
    run: &Run,
    kind: WaitKind,
    phase: &str,
    live: Option<&Value>,
) -> (Option<WaitKind>, String) {
    let reason = "it is held: wavegate retry -n argocd shop";
    let status = json!({
        "rollout": {"step": 1, "steps": 2, "progress": "0/2", "message": "m",
            "waitingFor": [{"application": "dev", "kind": kind.name(), "reason": reason}]},
        "applicationStatus": [entry("dev", "1", phase), entry("prod", "2", "Waiting")],
    });
    let mut set = set(status);
    set["spec"]["strategy"]["rollingSync"]["steps"][1]["maxUpdate"] = Value::Null;
    let applications: Applications =
        live.map(|live| application("dev", live.clone())).into_iter().collect();
    let explained = explain(&set, &applications, Some(run));
    let Some(wait) = explained.waits.first() else { return (None, String::new()) };
    let texts: Vec<&str> = wait.actions.iter().map(|action| action.text.as_str()).collect();
    (WaitKind::from_name(wait.kind), texts.join("; "))
}

#[test]
fn no_advice_leads_forward_out_of_a_rollback_as_st_062() {
    let operation = |phase: &str| {
        json!({"phase": phase, "message": "m", "operation": {"sync": {}},
            "startedAt": "2026-01-02T03:04:05Z", "finishedAt": "2026-01-02T03:04:06Z"})
    };
    let state = |sync: &str, health: &str, phase: &str| {
        json!({"sync": {"status": sync}, "health": {"status": health},
            "operationState": operation(phase)})
    };
    let lives = [
        None,
        Some(state("OutOfSync", "Healthy", "Succeeded")),
        Some(state("OutOfSync", "Degraded", "Succeeded")),
        Some(state("OutOfSync", "Healthy", "Failed")),
        Some(state("Synced", "Degraded", "Succeeded")),
        Some(state("Synced", "Healthy", "Succeeded")),
    ];
    for phase in PHASES {
        let is_back = phase == RunPhase::RollingBack;
        let is_over = matches!(phase, RunPhase::RolledBack | RunPhase::Aborted);
        for (kind, failed) in WaitKind::ALL.iter().flat_map(|kind| [(*kind, 0), (*kind, 1)]) {
            for (live, entry) in lives.iter().flat_map(|live| {
                ["Waiting", "Progressing", "Pending"].map(|entry| (live.as_ref(), entry))
            }) {
                let run = run(phase, failed);
                let (shown, all) = advice(&run, kind, entry, live);
                let what = format!("{phase:?} {kind:?} {entry} {live:?}: {all}");
                if is_back || is_over {
                    assert!(!all.contains("wavegate sync"), "{what}");
                    assert!(!all.contains("wavegate skip"), "{what}");
                    assert!(!all.contains("sync it yourself"), "{what}");
                }
                if is_back {
                    assert!(!all.contains("roll the same out"), "{what}");
                }
                // The others wait for the one whose way back has failed.
                if is_back && failed > 0 && kind == WaitKind::RollingBack && entry == "Waiting" {
                    assert!(all.contains("wavegate retry"), "{what}");
                }
                if kind == WaitKind::RollbackFailed && entry == "Waiting" {
                    assert!(all.contains("wavegate retry"), "{what}");
                }
                // A confirmation is one of an operation that runs.
                let shown = shown.filter(|kind| *kind != WaitKind::Confirmation);
                let by_person = shown.is_some_and(|kind| kind.ended_by() == EndedBy::Person);
                if by_person && live.is_some() && (is_back || is_over) {
                    assert!(!all.starts_with("nothing to do"), "{what}");
                }
            }
        }
    }
    // A run that goes forward is advised as before.
    let forward = |kind| {
        let live = state("OutOfSync", "Healthy", "Failed");
        advice(&run(RunPhase::Held, 1), kind, "Progressing", Some(&live)).1
    };
    assert!(forward(WaitKind::FailedOperation).contains("wavegate sync"));
    assert!(forward(WaitKind::FailedOperation).contains("wavegate skip"));
}

/// Of each step, and before the status of the set says so.
#[test]
fn status_says_what_is_held_back_in_every_step_as_st_080() {
    let back = |name: &str, goes_back: bool| {
        let live = json!({"sync": {"status": "OutOfSync", "revision": "r2"}, "health": {"status": "Healthy"}});
        let (name, live) = application(name, live);
        let mut live = Value::clone(&live);
        live["metadata"]["uid"] = json!("u");
        let start = json!({"run": "shop-7", "spec": "s", "revisions": ["r2"], "at": "2026-01-02T03:04:05Z",
            "before": "Healthy", "good": ["r1"], "goesBack": goes_back, "uid": "u"});
        let annotations = json!({wavegate_api::annotations::RUN: start.to_string()});
        live["metadata"]["annotations"] = annotations;
        (name, Arc::new(live))
    };
    let reported = json!({
        "rollout": {"step": 1, "steps": 2, "progress": "0/2", "message": "m", "waitingFor": []},
        "applicationStatus": [entry("dev", "1", "Waiting"), entry("prod", "2", "Waiting")],
    });
    let said = |goes_back: bool| {
        let all: Applications = [back("dev", goes_back), back("prod", goes_back)].into();
        let run = run(RunPhase::RolledBack, 0);
        let summary = SetSummary::read(&set(reported.clone()), &all, Some(&run), &[]);
        summary.applications.iter().map(|row| row.message.clone()).collect::<Vec<_>>()
    };
    assert_eq!(said(true), ["it is held at r1 after a rollback"; 2]);
    assert_eq!(said(false), ["dev is Waiting", "prod is Waiting"]);
}
