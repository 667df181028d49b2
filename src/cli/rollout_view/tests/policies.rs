//! Runs, and what policies and people say about them (ST-080).

use super::*;
use crate::cli::rollout_view::fleet::FleetSource;

/// A run of the set, in a phase that it has entered at 00:00:00.
fn run(name: &str, phase: &str, message: &str, more: Value) -> Value {
    let mut status = json!({
        "phase": phase, "message": message, "progress": "1/3", "total": 3, "done": 1, "failed": 0,
        "timeline": [
            {"at": "2025-12-31T23:59:00Z", "what": "Progressing"},
            {"at": "2026-01-01T00:00:00Z", "what": phase, "message": message},
        ],
    });
    for (key, value) in more.as_object().unwrap() {
        status[key] = value.clone();
    }
    json!({
        "apiVersion": "wavegate.dev/v1alpha1", "kind": "RolloutRun",
        "metadata": {
            "name": name, "namespace": "argocd",
            "ownerReferences": [{"kind": "ApplicationSet", "name": "shop", "uid": "u", "controller": true}],
        },
        "spec": {"applicationSet": "shop"},
        "status": status,
    })
}

/// dev is done, and something holds prod, which the status of the set says with this kind.
fn held(kind: WaitKind, message: &str) -> Watch {
    let waiting = [("prod-eu", message), ("prod-us", message)];
    let status = set_status(2, ["Healthy", "Waiting", "Waiting"], &waiting);
    Watch::default()
        .observe(&works("dev-eu"))
        .observe(&untouched("prod-eu"))
        .observe(&untouched("prod-us"))
        .observe(&set(with_kinds(status, &[kind, kind])))
}

fn last_line(watch: &Watch) -> String {
    watch.screen(240, None).lines().last().unwrap_or_default().to_owned()
}

#[test]
fn what_holds_a_run_is_said_with_what_ends_it() {
    let gate = json!({"gates": [{"name": "production", "policy": "p", "applications": 2,
        "covers": "c", "approvals": 1, "waitingSince": "2026-01-01T00:00:00Z"}]});
    let soak = json!({"gates": [{"name": "production", "policy": "p", "applications": 2,
        "covers": "c", "soakingSince": "2026-01-01T00:00:00Z", "soaksUntil": "2026-01-01T00:01:00Z"}]});
    let failures = json!({"failed": 1, "failures": [{"signature": "s", "count": 1,
        "applications": ["prod-eu"], "message": "no image"}]});
    let approve =
        "gate production (policy p) waits for 1 of 1 approvals: wavegate approve -n argocd shop";
    let cases = [
        (
            WaitKind::Approval,
            run("shop-2", "AwaitingApproval", approve, gate),
            format!("Run shop-2 is AwaitingApproval for 5s: {approve}"),
        ),
        (
            WaitKind::Soak,
            run("shop-2", "Soaking", "gate production (policy p) soaks for 1m0s", soak),
            "Run shop-2 is Soaking for 5s: gate production (policy p) soaks for 1m0s; it opens in 55s"
                .to_owned(),
        ),
        (
            WaitKind::Paused,
            run("shop-2", "Paused", "paused: freeze: wavegate resume -n argocd shop", json!({})),
            "Run shop-2 is Paused for 5s: paused: freeze: wavegate resume -n argocd shop".to_owned(),
        ),
        (
            WaitKind::RollingBack,
            run("shop-2", "RollingBack", "1 of 2 are back", json!({})),
            "Run shop-2 is RollingBack for 5s: 1 of 2 are back".to_owned(),
        ),
        (
            WaitKind::FailureBudget,
            run("shop-2", "Held", "1 failed, and 0 may", failures),
            "Run shop-2 is Held: 1 failed, and 0 may; to start what failed again: wavegate retry \
             -n argocd shop; to go on without one of them: wavegate skip -n argocd prod-eu; to take \
             back what was started: wavegate rollback -n argocd shop; to end it, and leave all as it \
             is: wavegate abort -n argocd shop"
                .to_owned(),
        ),
    ];
    for (kind, run, want) in cases {
        let watch = held(kind, "it is held").observe(&run);
        let screen = watch.screen(400, None);
        assert!(screen.ends_with(&format!("\n{want}\n")), "{kind:?}: {screen}");
        // A soak and a way back end by themselves; a person is expected to end the others.
        let is_stuck = kind == WaitKind::FailureBudget;
        assert_eq!(watch.outcome().is_stuck(), is_stuck, "{kind:?}: {:?}", watch.outcome());
    }
}

#[test]
fn what_a_run_left_is_said_at_the_end() {
    let cases = [
        (
            WaitKind::Quarantined,
            "Aborted",
            "Run shop-2 was aborted by ann: aborted by ann; to roll the same out again: wavegate retry -n argocd shop",
        ),
        (
            WaitKind::HeldBack,
            "RolledBack",
            "Run shop-2 was rolled back by ann: 2 of 2 are back; to roll the same out again: wavegate retry -n argocd shop",
        ),
    ];
    for (kind, phase, want) in cases {
        let message = if phase == "Aborted" { "aborted by ann" } else { "2 of 2 are back" };
        let watch = held(kind, "it is held")
            .observe(&run("shop-1", "Complete", "", json!({})))
            .observe(&run("shop-2", phase, message, json!({"endedBy": "ann"})));
        assert_eq!(last_line(&watch), want);
        assert!(watch.outcome().is_stuck(), "{:?}", watch.outcome());
    }
    let complete = || {
        let status = set_status(2, ["Healthy", "Healthy", "Healthy"], &[]);
        Watch::default()
            .observe(&works("dev-eu"))
            .observe(&works("prod-eu"))
            .observe(&works("prod-us"))
            .observe(&set(status))
    };
    // Of a run that had started nothing that can go back, every step is complete.
    for (kind, phase, want) in cases {
        let message = if phase == "Aborted" { "aborted by ann" } else { "2 of 2 are back" };
        let watch = complete().observe(&run("shop-2", phase, message, json!({"endedBy": "ann"})));
        assert_eq!(last_line(&watch).trim_end_matches('.'), want);
        assert_eq!(
            (watch.outcome(), watch.outcome().is_stuck()),
            (RolloutOutcome::RunEnded, true),
            "{kind:?}"
        );
    }
    let back = complete().observe(&run("shop-2", "RollingBack", "0 of 2 are back", json!({})));
    assert_eq!(back.outcome(), RolloutOutcome::Running);
    let failures = json!({"failed": 1, "timeline": [
        {"at": "2026-01-01T00:00:00Z", "what": "Failed", "subject": "prod-us", "message": "no image"},
    ]});
    let watch = complete().observe(&run(
        "shop-2",
        "CompleteWithFailures",
        "1 failed, within the budget",
        failures,
    ));
    let want = "Run shop-2 is complete: 1 failed, within the budget; prod-us failed: no image.";
    assert_eq!(last_line(&watch), want);
    assert_eq!(watch.outcome(), RolloutOutcome::Complete);
}

/// Without policies and failures, a screen is as it was before there were runs.
#[test]
fn a_run_without_anything_to_say_changes_nothing() {
    for phase in ["Progressing", "Complete", "Superseded"] {
        let run = run("shop-1", phase, "prod-eu: Deployment web", json!({}));
        let plain = halfway();
        let screen = |watch: &Watch| {
            watch.screen(100, None).lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(screen(&halfway().observe(&run)), screen(&plain), "{phase}");
        let more = halfway().observe(&run).transitions.len() - plain.transitions.len();
        assert_eq!(more, usize::from(phase == "Superseded"), "{phase}");
    }
}

#[test]
fn transitions_of_a_run_are_lines_once() {
    let of = |entries: &[Value]| run("shop-2", "Progressing", "", json!({ "timeline": entries }));
    let entries = [
        json!({"at": "2026-01-01T00:00:00Z", "what": "Progressing"}),
        json!({"at": "2026-01-01T00:00:01Z", "what": "AwaitingApproval", "message": "gate production"}),
        json!({"at": "2026-01-01T00:00:02Z", "what": "GateApproved", "subject": "production", "by": "ann"}),
        json!({"at": "2026-01-01T00:00:02Z", "what": "GateOpened", "subject": "production"}),
        json!({"at": "2026-01-01T00:00:03Z", "what": "Skipped", "subject": "prod-eu"}),
        json!({"at": "2026-01-01T00:00:04Z", "what": "Failed", "subject": "prod-us"}),
    ];
    let watch = held(WaitKind::Approval, "gate production").observe(&of(&entries[..2]));
    let watch = watch.observe(&of(&entries[..2])).observe(&of(&entries));
    let lines: Vec<&str> = watch.transitions.iter().map(|line| line.text.as_str()).collect();
    let last = &lines[lines.len() - 4..];
    let want = [
        "run shop-2 is AwaitingApproval: gate production",
        "gate production is approved by ann",
        "gate production opens",
        "prod-eu is skipped",
    ];
    assert_eq!(last, want, "{lines:?}");
    // What was so before a command of a cluster began is no news.
    let mut fleet = Fleet::new(FleetSource::Cluster(None));
    assert_eq!(fleet.run(&of(&entries[..2]).into(), Duration::ZERO), []);
    fleet.are_runs_listed = true;
    assert_eq!(fleet.run(&of(&entries).into(), Duration::ZERO).len(), 3);
    let new = run("shop-3", "Soaking", "gate qa", json!({}));
    assert_eq!(fleet.run(&new.into(), Duration::ZERO).len(), 1);
}
