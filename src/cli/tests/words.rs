//! What `status` and `explain` say of a rollout that is not as it should be.

use super::*;
use crate::cli::rollout_view::run::RunSummary;
use wavegate_rollout::rollout::wait::WaitKind;

fn run(status: Value) -> Run {
    let metadata = json!({"name": "shop-7", "namespace": "argocd"});
    Run::read(&json!({"metadata": metadata, "spec": {"applicationSet": "shop"}, "status": status}))
}

fn live(name: &str, sync: &str, health: &str) -> (String, Arc<Value>) {
    let operation = json!({"phase": "Succeeded", "message": "m", "operation": {"sync": {}}});
    let status = json!({"sync": {"status": sync}, "health": {"status": health}, "operationState": operation});
    application(name, status)
}

/// After the run, nothing named an Application that it was complete without (ST-064).
#[test]
fn a_skipped_application_is_named_after_the_run_as_st_064() {
    let status = json!({
        "conditions": [{"type": "RolloutProgressing", "status": "False", "reason": "x", "message": "m"}],
        "health": {"status": "Degraded"},
        "rollout": {"step": 2, "steps": 2, "progress": "1/2",
            "message": "all 2 steps are complete; 1 skipped: dev; dev waits: run shop-7 skips it",
            "waitingFor": [{"application": "dev", "kind": "Skipped", "reason": "run shop-7 skips it"}]},
        "applicationStatus": [entry("dev", "1", "Progressing"), entry("prod", "2", "Healthy")],
    });
    let all = [live("dev", "Synced", "Degraded"), live("prod", "Synced", "Healthy")];
    let all: Applications = all.into_iter().collect();
    let run = run(json!({"phase": "Complete", "message": "1 skipped: dev", "progress": "1/2",
        "skipped": ["dev"], "total": 2, "done": 1}));
    let explained = explain(&set(status.clone()), &all, Some(&run));
    let want = "shop has completed all 2 steps without dev: run shop-7 skips it";
    assert_eq!(explained.summary, want);
    assert!(show(&explained).contains("run shop-7 Complete 1/2: 1 skipped: dev"), "{explained:?}");
    let summary = SetSummary::read(&set(status), &all, Some(&run), &[]);
    assert_eq!(summary.applications[0].message, "run shop-7 skips it");
    assert_eq!((summary.complete, summary.total, summary.health.as_str()), (1, 2, "Degraded"));
    let listed = status::list(&[summary]);
    for said in ["Complete (1 skipped)", "1/2", "1 skipped: dev"] {
        assert!(listed.contains(said), "{said}: {listed}");
    }
}

/// A set of nothing was Healthy, with all steps complete.
#[test]
fn a_set_without_applications_is_not_healthy() {
    let status = json!({
        "conditions": [{"type": "RolloutProgressing", "status": "False", "reason": "x", "message": "m"}],
        "health": {"status": "Healthy"}, "applicationStatus": [],
        "rollout": {"step": 2, "steps": 2, "progress": "0/0", "message": "all 2 steps are complete"},
    });
    let summary = SetSummary::read(&set(status), &Applications::new(), None, &[]);
    let want = "there is no Application: the generators find none";
    assert_eq!((summary.message.as_str(), summary.health.as_str()), (want, "Unknown"));
    let listed = status::list(&[summary]);
    assert!(!listed.contains("2/2") && !listed.contains("Healthy"), "{listed}");
}

/// An Application that hangs beyond its deadline was one that waits, with nothing to do (ST-080).
#[test]
fn what_failed_by_its_deadline_has_the_verbs_as_st_080() {
    let reason = "failed by its deadline of 20m: Deployment web is Progressing";
    let status = json!({
        "rollout": {"step": 1, "steps": 2, "progress": "0/2", "message": "m",
            "waitingFor": [{"application": "dev", "kind": WaitKind::Deadline.name(), "reason": reason}]},
        "applicationStatus": [entry("dev", "1", "Progressing"), entry("prod", "2", "Waiting")],
    });
    let advised = |phase: &str, operation: &str| {
        let (name, mut dev) = live("dev", "Synced", "Progressing");
        Arc::make_mut(&mut dev)["status"]["operationState"]["phase"] = operation.into();
        let all: Applications = [(name, dev)].into();
        let run = run(json!({"phase": phase, "message": "1 failed, and 0 may", "failed": 1}));
        let explained = explain(&set(status.clone()), &all, Some(&run));
        assert!(explained.summary.contains(reason), "{explained:?}");
        explained.waits[0].advice.clone()
    };
    for operation in ["Succeeded", "Running"] {
        let all = advised("Held", operation);
        for verb in ["retry -n argocd dev", "skip -n argocd dev", "rollback", "abort"] {
            assert!(all.contains(&format!("wavegate {verb}")), "{verb}: {all}");
        }
        assert!(!all.contains("nothing to do"), "{all}");
        assert_eq!(all.contains("wavegate terminate"), operation == "Running", "{all}");
    }
    // After an abort nothing leads to the target.
    let ended = advised("Aborted", "Succeeded");
    assert!(!ended.contains("wavegate sync") && !ended.contains("wavegate skip"), "{ended}");
}

/// Two of one were in flight after a rollback, and after a failure within the budget.
#[test]
fn what_rests_is_not_in_flight() {
    use wavegate_rollout::application_set::status::report_input::read_report;
    let held = |name: &str| {
        let (name, mut app) = live(name, "OutOfSync", "Healthy");
        let start = json!({"run": "shop-7", "spec": "s", "revisions": ["r2"], "at": "2026-01-02T03:04:05Z",
            "before": "Healthy", "good": ["r1"], "goesBack": true, "uid": "u"});
        let app = Arc::make_mut(&mut app);
        app["metadata"]["uid"] = json!("u");
        app["status"]["sync"]["revision"] = json!("r2");
        app["metadata"]["annotations"] = json!({wavegate_api::annotations::RUN: start.to_string()});
        (name, Arc::new(app.clone()))
    };
    let rollout = |step: u64| json!({"step": step, "steps": 2, "progress": "0/2", "message": "m", "waitingFor": []});
    let entries = json!([entry("dev", "1", "Progressing"), entry("prod", "2", "Progressing")]);
    let status = |step| json!({"rollout": rollout(step), "applicationStatus": entries});
    let back: Applications = [held("dev"), held("prod")].into();
    let report = read_report(&set(status(1)), &back, None);
    let counts = report.total();
    assert_eq!((counts.in_flight, counts.promoted), (0, 0));
    // The first step is complete without it.
    let failed: Applications =
        [live("dev", "Synced", "Degraded"), live("prod", "Synced", "Progressing")].into();
    let report = read_report(&set(status(2)), &failed, None);
    assert_eq!((report.total().in_flight, report.in_flight()), (1, 1));
}

#[test]
fn an_estimate_that_has_passed_is_no_time() {
    let estimated = |seconds: u64| {
        let estimate = json!({"leastSeconds": seconds, "mostSeconds": seconds, "runs": 3});
        let run = run(json!({"phase": "Progressing", "progress": "1/2", "estimate": estimate}));
        RunSummary::of(&run).unwrap().left.unwrap()
    };
    assert_eq!(estimated(0), "it takes longer than before, by 3 runs");
    assert_eq!(estimated(90), "about 90s left, from 3 runs");
}
