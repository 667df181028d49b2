//! What a report says of a whole rollout, line by line.

use jiff::Timestamp;

use super::*;
use crate::rollout::report::StepStatus;

/// All that a report says, with the state of each step and Application.
fn line(report: &Report) -> String {
    let now: Timestamp = "2026-01-02T03:05:05Z".parse().unwrap();
    let status = |step: usize| match report.step_status(step) {
        StepStatus::Done => "done",
        StepStatus::Open => "open",
        StepStatus::Closed => "closed",
    };
    let steps: Vec<String> = (0..report.steps.len())
        .map(|step| {
            let count = report.steps[step].count;
            let (total, done) = (count.total, count.done);
            format!("{} {done}/{total} ({}, {})", status(step), count.in_flight, count.promoted)
        })
        .collect();
    let members: Vec<String> = report
        .ordered()
        .into_iter()
        .map(|(name, member)| {
            let live = member.live.as_ref();
            let (since, until) = report.age_of(member);
            let age = |at: Option<Timestamp>| at.map_or("-".to_owned(), |at| at.to_string());
            format!(
                "{name}: {:?} {:?} [{}]{}{}{}{} {}..{}",
                report.kind(member),
                report.why(member).message,
                live.map(|live| live.operation_text()).unwrap_or_default(),
                if report.is_waited_for(member) { " waited" } else { "" },
                if report.is_outside(member) { " outside" } else { "" },
                if live.is_some_and(|live| live.is_stuck()) { " stuck" } else { "" },
                if live.is_some_and(|live| live.may_be_outdated()) { " old" } else { "" },
                age(since),
                age(until),
            )
        })
        .collect();
    let total = report.total();
    let foremost = report.foremost().map(|wait| {
        format!("{} in {} since {:?}: {}", wait.application, wait.step, wait.since, wait.message)
    });
    format!(
        "{:?} {}, progress {:?}, span {:?}, total {}/{}, changed {}, outdated {}, in flight {}, \
         waiting {}, health {:?}\n  steps {steps:?}, empty {:?}, behind {:?}, passed {}\n  \
         foremost {foremost:?}\n  {}",
        report.state(),
        word(&report.outcome()),
        report.progress(),
        report.span(now).map(|(from, to)| (to.duration_since(from)).as_secs()),
        total.done,
        total.total,
        report.has_changed(),
        report.may_be_outdated(),
        report.in_flight(),
        report.waiting_count(),
        report.health(),
        report.empty_steps(),
        report.behind(),
        report.passed(),
        members.join("\n  "),
    )
}

fn with(mut object: Value, changes: &Value) -> Value {
    json_patch::merge(&mut object, changes);
    object
}

/// Each line is what a page or a command shows of such a rollout.
#[test]
fn a_report_of_each_state_of_a_rollout() {
    let rollout = |more: Value| {
        let base = json!({"step": 1, "steps": 2, "progress": "0/3", "message": "m",
            "startedAt": "2026-01-02T03:04:00Z"});
        with(base, &more)
    };
    let status = |entries: Value, rollout: Value| {
        json!({"applicationStatus": entries, "rollout": rollout, "health": {"status": "Progressing"},
            "conditions": [{"type": "ResourcesUpToDate", "status": "True"}]})
    };
    let open = json!([
        entry("dev", "1", "Progressing", "m"),
        entry("a", "2", "Waiting", "w"),
        entry("b", "2", "Waiting", "w")
    ]);
    let pending = json!([
        entry("dev", "1", "Pending", "p"),
        entry("a", "2", "Waiting", "w"),
        entry("b", "2", "Waiting", "w")
    ]);
    let whole = json!([
        entry("dev", "1", "Healthy", "m"),
        entry("a", "2", "Healthy", "m"),
        entry("b", "2", "Healthy", "m")
    ]);
    let running =
        with(after("Running", "x"), &json!({"operationState": {"syncResult": {"resources": []}}}));
    let world = |entries: &Value, rollout: Value, dev: &Value, a: Value, b: Value| {
        let set = set(json!(1), status(entries.clone(), rollout));
        read(
            &set,
            &[("dev", live("dev", dev.clone())), ("a", live("prod", a)), ("b", live("prod", b))],
        )
    };
    let wait = |application: &str, kind: WaitKind, until: bool| {
        let mut wait = json!({"application": application, "kind": kind.name(), "reason": "why",
            "since": AT});
        if until {
            wait["until"] = "2026-01-02T03:10:00Z".into();
        }
        json!({"waitingFor": [wait]})
    };
    let mut requested = live("dev", out_of_sync());
    requested["operation"] = json!({"sync": {}});
    let outside = live("other", out_of_sync());
    let no_strategy = json!({"metadata": {"name": "shop", "namespace": "argocd", "uid": "u"}, "spec": {},
        "status": {"conditions": [{"type": "ResourcesUpToDate", "status": "True"}], "health": {"status": "Healthy"}}});
    let rows = [
        (
            "open",
            world(&open, rollout(json!({})), &running, out_of_sync(), done()),
            r#"Rolling Running, progress (0, 3), span Some(65), total 0/3, changed true, outdated false, in flight 1, waiting 1, health "Progressing"
  steps ["open 0/1 (1, 1)", "closed 0/2 (0, 0)"], empty [], behind [("a", 1), ("b", 1)], passed 0
  foremost Some("dev in 0 since Some(2026-01-02T03:04:05Z): x")
  dev: Operation "x" [Running] waited 2026-01-02T03:04:05Z..-
  a: Promotion "w" [] -..-
  b: Health "w" [] -..-"#,
        ),
        (
            "open without rollout",
            world(&open, Value::Null, &running, out_of_sync(), done()),
            r#"Rolling Running, progress (0, 3), span None, total 0/3, changed true, outdated false, in flight 1, waiting 1, health "Progressing"
  steps ["open 0/1 (1, 1)", "closed 0/2 (0, 0)"], empty [], behind [("a", 1), ("b", 1)], passed 0
  foremost Some("dev in 0 since Some(2026-01-02T03:04:05Z): x")
  dev: Operation "x" [Running] waited 2026-01-02T03:04:05Z..-
  a: Promotion "w" [] -..-
  b: Health "w" [] -..-"#,
        ),
        (
            "failed",
            world(&open, rollout(json!({})), &after("Failed", "no"), out_of_sync(), out_of_sync()),
            r#"Rolling Blocked, progress (0, 3), span Some(65), total 0/3, changed true, outdated false, in flight 1, waiting 1, health "Degraded"
  steps ["open 0/1 (1, 1)", "closed 0/2 (0, 0)"], empty [], behind [("a", 1), ("b", 1)], passed 0
  foremost Some("dev in 0 since Some(2026-01-02T03:04:05Z): m")
  dev: FailedOperation "m" [Failed] waited stuck -..-
  a: Promotion "w" [] -..-
  b: Promotion "w" [] -..-"#,
        ),
        (
            "pending",
            world(
                &pending,
                rollout(wait("dev", WaitKind::OperationStart, true)),
                &out_of_sync(),
                out_of_sync(),
                out_of_sync(),
            ),
            r#"Rolling Running, progress (0, 3), span Some(65), total 0/3, changed true, outdated false, in flight 1, waiting 1, health "Progressing"
  steps ["open 0/1 (1, 1)", "closed 0/2 (0, 0)"], empty [], behind [("a", 1), ("b", 1)], passed 0
  foremost Some("dev in 0 since Some(2026-01-02T03:04:05Z): why")
  dev: OperationStart "why" [] waited 2026-01-02T03:04:05Z..2026-01-02T03:10:00Z
  a: Promotion "w" [] -..-
  b: Promotion "w" [] -..-"#,
        ),
        (
            "waits for one",
            world(
                &open,
                rollout(wait("dev", WaitKind::Health, true)),
                &done(),
                out_of_sync(),
                out_of_sync(),
            ),
            r#"Rolling Running, progress (0, 3), span Some(65), total 0/3, changed true, outdated false, in flight 0, waiting 1, health "Progressing"
  steps ["open 0/1 (0, 1)", "closed 0/2 (0, 0)"], empty [], behind [("a", 1), ("b", 1)], passed 0
  foremost Some("dev in 0 since Some(2026-01-02T03:04:05Z): it is Synced and Healthy, its step is being updated")
  dev: Health "it is Synced and Healthy, its step is being updated" [] waited 2026-01-02T03:04:05Z..-
  a: Promotion "w" [] -..-
  b: Promotion "w" [] -..-"#,
        ),
        (
            "complete without rollout",
            world(&whole, Value::Null, &done(), done(), done()),
            r#"Complete Complete, progress (3, 3), span None, total 3/3, changed false, outdated false, in flight 0, waiting 0, health "Progressing"
  steps ["done 1/1 (0, 0)", "done 2/2 (0, 0)"], empty [], behind [], passed 2
  foremost None
  dev: Health "m" [] -..-
  a: Health "m" [] -..-
  b: Health "m" [] -..-"#,
        ),
        (
            "outside",
            read(
                &set(
                    json!(1),
                    status(
                        json!([entry("dev", "1", "Healthy", "m"), entry("c", "-1", "Waiting", "")]),
                        Value::Null,
                    ),
                ),
                &[("dev", live("dev", done())), ("c", outside), ("d", live("other", done()))],
            ),
            r#"Complete Complete, progress (1, 1), span None, total 1/1, changed false, outdated false, in flight 0, waiting 1, health "Progressing"
  steps ["done 1/1 (0, 0)", "done 0/0 (0, 0)"], empty [1], behind [], passed 2
  foremost Some("c in 0 since Some(2026-01-02T03:04:05Z): no step selects it: it waits for a manual sync")
  dev: Health "m" [] -..-
  c: ManualSync "no step selects it: it waits for a manual sync" [] waited outside -..-
  d: Health "" [] -..-"#,
        ),
        (
            "requested",
            read(
                &set(json!(1), status(open.clone(), rollout(json!({})))),
                &[("dev", requested), ("a", live("prod", done()))],
            ),
            r#"Rolling Running, progress (0, 3), span Some(65), total 0/3, changed true, outdated false, in flight 1, waiting 1, health "Progressing"
  steps ["open 0/1 (1, 1)", "closed 0/2 (0, 0)"], empty [], behind [("a", 1), ("b", 1)], passed 0
  foremost Some("dev in 0 since Some(2026-01-02T03:04:05Z): m")
  dev: Operation "m" [Requested] waited -..-
  a: Health "w" [] -..-
  b: Creating "w" [] -..-"#,
        ),
        (
            "empty step",
            read(
                &set(
                    json!(1),
                    status(json!([entry("dev", "1", "Waiting", "w")]), rollout(json!({}))),
                ),
                &[("dev", live("dev", out_of_sync()))],
            ),
            r#"Rolling Running, progress (0, 3), span Some(65), total 0/1, changed true, outdated false, in flight 0, waiting 1, health "Progressing"
  steps ["open 0/1 (0, 0)", "closed 0/0 (0, 0)"], empty [1], behind [], passed 0
  foremost Some("dev in 0 since Some(2026-01-02T03:04:05Z): w")
  dev: Promotion "w" [] waited -..-"#,
        ),
        (
            "all at once",
            read(
                &no_strategy,
                &[
                    ("dev", live("dev", done())),
                    ("a", live("x", out_of_sync())),
                    ("b", live("x", after("Failed", "no"))),
                ],
            ),
            r#"AllAtOnce Running, progress (1, 3), span None, total 1/3, changed false, outdated false, in flight 0, waiting 2, health "Healthy"
  steps ["open 1/3 (0, 0)"], empty [], behind [], passed 0
  foremost Some("b in 0 since None: its sync failed: no")
  a: Health "" [] waited -..-
  b: FailedOperation "its sync failed: no" [Failed] waited stuck -..-
  dev: Health "" [] -..-"#,
        ),
        (
            "all at once, done",
            read(&no_strategy, &[("dev", live("dev", done()))]),
            r#"AllAtOnce Complete, progress (1, 1), span None, total 1/1, changed false, outdated false, in flight 0, waiting 0, health "Healthy"
  steps ["done 1/1 (0, 0)"], empty [], behind [], passed 0
  foremost None
  dev: Health "" [] -..-"#,
        ),
        (
            "all at once, none",
            read(&no_strategy, &[]),
            r#"AllAtOnce Complete, progress (0, 0), span None, total 0/0, changed false, outdated false, in flight 0, waiting 0, health "Unknown"
  steps ["open 0/0 (0, 0)"], empty [], behind [], passed 0
  foremost None"#,
        ),
        (
            "unseen",
            read(&json!({"metadata": {"name": "shop"}}), &[]),
            r#"Unseen Running, progress (0, 0), span None, total 0/0, changed false, outdated false, in flight 0, waiting 0, health ""
  steps ["open 0/0 (0, 0)"], empty [], behind [], passed 0
  foremost None"#,
        ),
        (
            "deleting",
            read(
                &with(
                    set(json!(1), status(open.clone(), rollout(json!({})))),
                    &json!({"metadata": {"deletionTimestamp": AT}}),
                ),
                &[
                    (
                        "dev",
                        with(
                            live("dev", done()),
                            &json!({"metadata": {"deletionTimestamp": AT, "finalizers": ["resources-finalizer.argocd.argoproj.io"]}}),
                        ),
                    ),
                    ("a", live("prod", done())),
                ],
            ),
            r#"Deleting Running, progress (0, 3), span Some(65), total 0/3, changed true, outdated false, in flight 0, waiting 1, health "Progressing"
  steps ["open 0/1 (0, 1)", "closed 0/2 (0, 0)"], empty [], behind [], passed 0
  foremost Some("dev in 0 since Some(2026-01-02T03:04:05Z): is being deleted since 2026-01-02T03:04:05Z, held by the finalizer resources-finalizer.argocd.argoproj.io")
  dev: Deletion "is being deleted since 2026-01-02T03:04:05Z, held by the finalizer resources-finalizer.argocd.argoproj.io" [] waited -..-
  a: Health "w" [] -..-
  b: Creating "w" [] -..-"#,
        ),
    ];
    for (name, report, want) in rows {
        assert_eq!(line(&report).trim_end(), want, "{name}");
    }
}

/// A set without steps may have entries of the time when it had some.
#[test]
fn a_set_without_a_rollout_has_nothing_in_steps() {
    let mut bare = set(json!(1), json!({"applicationStatus": entries("Waiting", "Waiting")}));
    bare["spec"] = json!({});
    let named = [("a", live("prod", done())), ("dev", live("dev", done()))];
    let report = read(&bare, &named);
    assert!(report.members.values().all(|member| member.step.is_none()));
    assert_eq!(report.behind(), []);
}

/// ST-064: what the run goes on without is not waited for, and its reason is the one of the run.
#[test]
fn a_report_names_why_an_application_was_left_out_st_064() {
    let status = json!({"applicationStatus": entries("Waiting", "Healthy")});
    let mut report = of(&set(Value::Null, status), out_of_sync(), done());
    assert!(report.is_waited_for(&report.members["a"]), "it is of the open step");
    report.leave_out(|name| (name == "a").then(|| "it was skipped by ann".to_owned()));
    assert!(!report.is_waited_for(&report.members["a"]));
    assert_eq!(report.members["b"].left_out, None, "only that one");
    report.leave_out(|_| None);
    assert!(report.is_waited_for(&report.members["a"]), "it was taken in again");
}
