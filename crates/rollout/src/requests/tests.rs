//! What people's words come to, as tables.

mod policies;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::application_set::status::report_input;
use wavegate_api::annotations::{APPROVED_DELETIONS, PAUSED, PAUSED_BY, RESUMED_BY};
use wavegate_api::run::{Retry, RevisionCount};

const AT: &str = "2026-01-02T03:04:05Z";
const PERSON: Actor<'_> = Actor { by: "ann", at: Timestamp::constant(1_767_323_045, 0) };

/// A set of two steps whose rollout is at 12 of 30.
fn set(annotations: Value, status: Value) -> Value {
    let step = |env: &str| json!({"matchExpressions": [{"key": "env", "operator": "In", "values": [env]}]});
    json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet",
        "metadata": {"name": "shop", "namespace": "argocd", "uid": "u1", "resourceVersion": "5",
            "labels": {"tier": "prod"},
            "annotations": annotations},
        "spec": {"strategy": {"type": "RollingSync", "rollingSync": {"steps": [step("dev"), step("prod")]}}},
        "status": status,
    })
}

fn rolling() -> Value {
    json!({"rollout": {"step": 1, "steps": 2, "progress": "12/30"}})
}

fn run(name: &str, spec: Value, status: Value) -> Value {
    let owner = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet", "name": "shop", "uid": "u1",
        "controller": true});
    json!({
        "apiVersion": "wavegate.dev/v1alpha1", "kind": "RolloutRun",
        "metadata": {"name": name, "namespace": "argocd", "uid": "u2", "resourceVersion": "7",
            "ownerReferences": [owner]},
        "spec": spec, "status": status,
    })
}

/// The verdict in one line: what it says, and what it writes.
fn told(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Change { says, .. } => format!("will {says}"),
        Verdict::Already(how) => format!("already: {how}"),
        Verdict::Refused(why) => format!("refused: {why}"),
    }
}

#[track_caller]
fn written(verdict: Verdict) -> RequestedChange {
    match verdict {
        Verdict::Change { change, .. } => change,
        other => panic!("nothing is written: {other:?}"),
    }
}

fn policy(spec: Value) -> Arc<Value> {
    Arc::new(json!({"metadata": {"name": "night", "namespace": "argocd"}, "spec": spec}))
}

/// ST-020.
#[test]
fn pausing_and_resuming() {
    let running = set(json!({}), rolling());
    let paused = set(json!({PAUSED: "freeze (bob)"}), rolling());
    let of_policy = [policy(json!({"paused": true}))];
    let of_others = [policy(json!({"paused": true, "applicationSets": {"names": ["other"]}}))];
    let none: [Arc<Value>; 0] = [];
    let cases = [
        (
            pause_set(&running, None, "ann"),
            "will pause it: nothing is promoted; 18 of 30 Applications are not complete; running syncs end by themselves",
        ),
        (
            pause_set(&set(json!({}), json!({})), Some("x"), "ann"),
            "will pause it: nothing is promoted; running syncs end by themselves",
        ),
        (pause_set(&paused, None, "ann"), "already: it is paused: freeze (bob)"),
        (pause_set(&paused, Some("freeze"), "bob"), "already: it is paused: freeze (bob)"),
        (
            pause_set(&paused, Some("audit"), "ann"),
            "will keep it paused, and replace the reason \"freeze (bob)\" with \"audit (ann)\"",
        ),
        (
            resume_set(&paused, &none, "ann"),
            "will resume it, which was paused: freeze (bob); 18 of 30 Applications are not complete",
        ),
        (resume_set(&running, &none, "ann"), "already: it is not paused"),
        (resume_set(&running, &of_others, "ann"), "already: it is not paused"),
        (
            resume_set(&running, &of_policy, "ann"),
            "refused: it is not paused by its annotation, but RolloutPolicy night pauses it: kubectl -n argocd patch \
             rolloutpolicy night --type merge -p '{\"spec\":{\"paused\":false}}'",
        ),
        (
            resume_set(&paused, &of_policy, "ann"),
            "will resume it, which was paused: freeze (bob); 18 of 30 Applications are not complete; it stays paused, \
             since RolloutPolicy night pauses it: kubectl -n argocd patch rolloutpolicy night --type merge -p \
             '{\"spec\":{\"paused\":false}}'",
        ),
    ];
    for (verdict, want) in cases {
        assert_eq!(told(&verdict), want);
    }
    let patch = |value: Value, paused: Value, resumed: Value| {
        json!({"metadata": {"uid": "u1", "resourceVersion": "5", "annotations":
            {PAUSED: value, PAUSED_BY: paused, RESUMED_BY: resumed}}})
    };
    let change = written(pause_set(&running, Some("audit"), "ann"));
    assert_eq!(change.patch(&running), patch(json!("audit (ann)"), json!("ann"), Value::Null));
    let change = written(resume_set(&paused, &none, "ann"));
    assert_eq!(change.patch(&paused), patch(Value::Null, Value::Null, json!("ann")));
}

/// What another person said since is not what was confirmed; how far the rollout is does not count.
#[test]
fn a_pause_is_resumed_and_replaced_as_it_was_shown() {
    let running = set(json!({}), rolling());
    let later = json!({"rollout": {"step": 2, "steps": 2, "progress": "20/30"}});
    let paused = set(json!({PAUSED: "freeze (bob)"}), rolling());
    let same = set(json!({PAUSED: "freeze (bob)"}), later);
    let other = set(json!({PAUSED: "incident (bob)"}), rolling());
    let none: [Arc<Value>; 0] = [];
    let of_resume = |set: &Value| written(resume_set(set, &none, "ann"));
    let of_pause = |set: &Value| written(pause_set(set, Some("audit"), "ann"));
    assert!(of_resume(&same).is_within(&of_resume(&paused)));
    assert!(!of_resume(&other).is_within(&of_resume(&paused)));
    assert!(of_pause(&same).is_within(&of_pause(&paused)));
    assert!(!of_pause(&other).is_within(&of_pause(&paused)));
    assert!(!of_pause(&paused).is_within(&of_pause(&running)), "it was not paused");
}

fn gate(name: &str, more: Value) -> Value {
    let mut gate = json!({"name": name, "policy": "p", "applications": 12, "covers": "c1", "approvals": 1,
        "waitingSince": "2026-01-02T03:00:00Z"});
    for (field, value) in more.as_object().unwrap() {
        gate[field] = value.clone();
    }
    gate
}

fn waiting(gates: &[Value], approvals: Value) -> Run {
    let status = json!({"phase": "AwaitingApproval", "total": 30, "done": 12, "gates": gates});
    Run::read(&run("shop-7", json!({"applicationSet": "shop", "approvals": approvals}), status))
}

/// ST-011.
#[test]
fn approving_gates() {
    let one = || gate("prod", json!({}));
    let early = || gate("prod", json!({"waitingSince": null}));
    let opened = || {
        let of_ann = json!({"waitingSince": null, "approvedBy": ["ann"], "openedFor": "c1",
            "openedAt": "2026-01-02T03:00:00Z"});
        gate("prod", of_ann)
    };
    let ended = |phase: &str, gate: Value, approval: &Value| {
        let status = json!({"phase": phase, "gates": [gate]});
        Run::read(&run("shop-7", json!({"approvals": [approval]}), status))
    };
    let mine = json!({"gate": "prod", "by": "ann", "covers": "c1"});
    let of_bob = json!({"gate": "prod", "by": "bob", "covers": "c1"});
    let old = json!({"gate": "prod", "by": "ann", "covers": "c0"});
    let cases = [
        (
            waiting(&[one()], json!([])),
            None,
            "will approve gate prod (12 Applications) of run shop-7 as ann",
        ),
        (
            waiting(&[one(), gate("eu", json!({"applications": 1}))], json!([])),
            None,
            "will approve gate prod (12 Applications) and gate eu (1 Application) of run shop-7 as ann",
        ),
        (
            waiting(
                &[gate("prod", json!({"approvals": 2, "approvedBy": ["bob"]}))],
                json!([of_bob]),
            ),
            None,
            "will approve gate prod (12 Applications, approval 2 of 2) of run shop-7 as ann",
        ),
        (
            // The status does not say so yet.
            waiting(&[one()], json!([mine])),
            None,
            "already: ann has approved these targets of gate prod of run shop-7",
        ),
        (
            waiting(&[gate("prod", json!({"approvals": 2}))], json!([mine])),
            None,
            "already: ann has approved these targets of gate prod of run shop-7; 1 of 2 approvals missing, of another person",
        ),
        (
            // A moment later the gate is open, and nothing waits for it.
            waiting(&[opened()], json!([mine])),
            None,
            "already: ann has approved these targets of gate prod of run shop-7",
        ),
        (
            waiting(&[opened(), gate("eu", json!({"waitingSince": null}))], json!([mine])),
            None,
            "already: ann has approved these targets of gate prod of run shop-7",
        ),
        (
            waiting(&[opened(), gate("eu", json!({}))], json!([mine])),
            None,
            "will approve gate eu (12 Applications) of run shop-7 as ann",
        ),
        (
            waiting(&[early()], json!([mine])),
            None,
            "already: ann has approved these targets of gate prod of run shop-7",
        ),
        (
            ended("Complete", opened(), &mine),
            Some("prod"),
            "already: ann has approved these targets of gate prod of run shop-7",
        ),
        (
            ended("Complete", gate("prod", json!({"approvedBy": ["bob"]})), &of_bob),
            Some("prod"),
            "refused: run shop-7 has ended (Complete): nothing waits for an approval",
        ),
        (
            ended("Aborted", opened(), &mine),
            None,
            "refused: run shop-7 has ended (Aborted): nothing waits for an approval",
        ),
        (
            waiting(&[gate("prod", json!({"approvals": 2, "approvedBy": ["ann"]}))], json!([mine])),
            Some("prod"),
            "already: ann has approved these targets of gate prod of run shop-7; 1 of 2 approvals missing, of another person",
        ),
        (
            // An approval of other targets is no approval of these.
            waiting(&[one()], json!([old])),
            None,
            "will approve gate prod (12 Applications) of run shop-7 as ann",
        ),
        (
            waiting(&[early()], json!([])),
            None,
            "refused: no gate of run shop-7 waits for an approval (AwaitingApproval); gate prod comes later: approve it \
             in advance with --gate prod",
        ),
        (
            waiting(&[early()], json!([])),
            Some("prod"),
            "will approve gate prod (12 Applications, before it is reached) of run shop-7 as ann",
        ),
        (
            waiting(&[one()], json!([])),
            Some("prdo"),
            "refused: run shop-7 has no gate prdo; did you mean prod?",
        ),
        (
            waiting(&[], json!([])),
            Some("prod"),
            "refused: run shop-7 has no gate prod; it has none",
        ),
        (
            waiting(
                &[gate("prod", json!({"openedAt": "2026-01-02T03:00:00Z", "openedFor": "c1"}))],
                json!([]),
            ),
            None,
            "already: gate prod of run shop-7 is open",
        ),
        (
            waiting(
                &[gate("prod", json!({"approvals": 0, "soaksUntil": "2026-01-02T04:00:00Z"}))],
                json!([]),
            ),
            Some("prod"),
            "refused: gate prod needs no approval; it waits until 2026-01-02T04:00:00Z",
        ),
        (
            waiting(&[gate("prod", json!({"applications": 0}))], json!([])),
            Some("prod"),
            "refused: no Application is behind gate prod of run shop-7",
        ),
        (
            waiting(&[gate("prod", json!({"approvedBy": ["bob"]}))], json!([of_bob])),
            Some("prod"),
            "already: gate prod of run shop-7 has its approvals",
        ),
        (
            waiting(&[gate("prod", json!({"covers": ""}))], json!([])),
            None,
            "refused: the targets behind gate prod of run shop-7 are not known yet: try again in a moment",
        ),
        (
            Run::read(&run("shop-7", json!({}), json!({"phase": "Complete", "gates": [one()]}))),
            None,
            "refused: run shop-7 has ended (Complete): nothing waits for an approval",
        ),
        (
            Run::read(&run("shop-7", json!({}), Value::Null)),
            None,
            "refused: run shop-7 has no status yet: try again in a moment",
        ),
    ];
    for (run, gate, want) in cases {
        assert_eq!(told(&approve_gates(&run, gate, PERSON)), want);
    }
}

/// Two people at once: the words of both are kept, and what one of them wrote with fields that
/// are not known here, too.
#[test]
fn an_entry_is_added_to_the_list_as_stored() {
    let of_bob = json!({"gate": "prod", "by": "bob", "covers": "c1", "ticket": 42});
    let status =
        json!({"phase": "AwaitingApproval", "gates": [gate("prod", json!({"approvals": 2}))]});
    let stored = run("shop-7", json!({"approvals": [of_bob]}), status);
    let change = written(approve_gates(&Run::read(&stored), None, PERSON));
    let of_ann = json!({"gate": "prod", "by": "ann", "at": AT, "covers": "c1"});
    assert_eq!(
        change.patch(&stored),
        json!({"metadata": {"uid": "u2", "resourceVersion": "7"}, "spec": {"approvals": [of_bob, of_ann]}})
    );
    // Other targets than the confirmed ones are not approved.
    let mut moved = stored;
    moved["status"]["gates"][0]["covers"] = "c2".into();
    assert!(!written(approve_gates(&Run::read(&moved), None, PERSON)).is_within(&change));
    assert!(change.is_within(&change));
}

/// ST-050.
#[test]
fn approving_deletions() {
    let message = "3 applications wait to be deleted until a person approves it: a, b, c; to delete them: kubectl -n \
                   argocd annotate applicationset shop --overwrite wavegate.dev/approved-deletions=0123456789abcdef";
    let held = |message: &str, annotations: Value| {
        let condition =
            json!({"type": "DeletionsHeld", "status": "True", "reason": "x", "message": message});
        set(annotations, json!({"conditions": [condition]}))
    };
    let stored = held(message, json!({}));
    let verdict = approve_deletions(&stored);
    assert_eq!(
        told(&verdict),
        "will approve these deletions (0123456789abcdef): 3 applications wait to be deleted until a person approves \
         it: a, b, c"
    );
    assert_eq!(
        written(verdict).patch(&stored)["metadata"]["annotations"][APPROVED_DELETIONS],
        "0123456789abcdef"
    );
    let cases = [
        (set(json!({}), json!({})), "refused: no deletions are held"),
        (
            held(message, json!({APPROVED_DELETIONS: "0123456789abcdef"})),
            "already: these deletions are approved; no controller has acted yet",
        ),
        (held("odd", json!({})), "refused: its condition DeletionsHeld names no approval: odd"),
        (
            held("x; to delete them: kubectl rm -rf=$(id)", json!({})),
            "refused: its condition DeletionsHeld names no approval: x; to delete them: kubectl rm -rf=$(id)",
        ),
    ];
    for (set, want) in cases {
        assert_eq!(told(&approve_deletions(&set)), want);
    }
}

fn in_phase(phase: &str, spec: Value, more: Value) -> Run {
    let mut status = json!({"phase": phase, "total": 30, "done": 12, "failed": 2,
        "steps": [{"total": 10, "done": 10}, {"total": 20, "done": 2, "inFlight": 3, "failed": 2}]});
    for (field, value) in more.as_object().unwrap() {
        status[field] = value.clone();
    }
    Run::read(&run("shop-7", spec, status))
}

/// ST-060, ST-061.
#[test]
fn ending_a_run() {
    let going = || in_phase("Progressing", json!({}), json!({}));
    let one_step = json!({"steps": [{"total": 30, "done": 12, "inFlight": 1}]});
    let alone = in_phase("Progressing", json!({}), one_step);
    let by_bob = json!({"abort": {"by": "bob"}});
    let by_bob_back = json!({"rollback": {"by": "bob"}});
    let (by_bob_at, acted) = (json!({"abort": {"by": "bob", "at": AT}}), json!({"abortedAt": AT}));
    let back_at = json!({"rollback": {"by": "bob", "at": AT}});
    // What others wrote, with fractions of a second and without a time.
    let at_fraction = json!({"abort": {"by": "bob", "at": "2026-01-02T03:04:05.123Z"}});
    let without_at = json!({"rollback": {"by": "bob"}});
    let back = |run: &Run| rollback_run(run, None, PERSON);
    let cases = [
        (
            abort_run(&going(), false, PERSON),
            "will abort run shop-7: 18 of 30 Applications are not complete and stay as they are; 3 Applications in flight \
             end by themselves",
        ),
        (
            abort_run(&alone, false, PERSON),
            "will abort run shop-7: 18 of 30 Applications are not complete and stay as they are; 1 Application in flight \
             ends by itself",
        ),
        (
            abort_run(&going(), true, PERSON),
            "will abort run shop-7: 18 of 30 Applications are not complete and stay as they are; the syncs of 3 \
             Applications in flight are terminated",
        ),
        (
            abort_run(&in_phase("Progressing", by_bob.clone(), json!({})), false, PERSON),
            "already: run shop-7 is ended by bob (Progressing)",
        ),
        (
            // Who aborted may want more.
            abort_run(&in_phase("Aborted", by_bob, json!({})), true, PERSON),
            "will abort run shop-7: 18 of 30 Applications are not complete and stay as they are; the syncs of 3 \
             Applications in flight are terminated",
        ),
        (
            abort_run(&in_phase("RollingBack", json!({}), json!({})), true, PERSON),
            "refused: run shop-7 goes back, and promotes nothing any more; only a pause stops that: wavegate pause",
        ),
        (
            abort_run(&in_phase("Complete", json!({}), json!({})), false, PERSON),
            "refused: run shop-7 has ended (Complete): there is nothing to abort; wavegate rollback takes it back",
        ),
        (
            // It was retried since, and can be ended again.
            abort_run(&in_phase("Progressing", by_bob_at, acted.clone()), false, PERSON),
            "will abort run shop-7: 18 of 30 Applications are not complete and stay as they are; 3 Applications in flight \
             end by themselves",
        ),
        (
            abort_run(&in_phase("Progressing", at_fraction, acted), false, PERSON),
            "will abort run shop-7: 18 of 30 Applications are not complete and stay as they are; 3 Applications in flight \
             end by themselves",
        ),
        (
            back(&in_phase(
                "Progressing",
                without_at,
                json!({"rollbackAt": "1970-01-01T00:00:00Z"}),
            )),
            "will roll back run shop-7: up to 17 Applications that it started go back to their last good revisions, in \
             the reverse order of steps",
        ),
        (
            back(&going()),
            "will roll back run shop-7: up to 17 Applications that it started go back to their last good revisions, in \
             the reverse order of steps",
        ),
        (
            back(&in_phase("Paused", json!({}), json!({}))),
            "will roll back run shop-7: up to 17 Applications that it started go back to their last good revisions, in \
             the reverse order of steps; the ApplicationSet is paused: nothing goes back before it is resumed",
        ),
        (
            back(&in_phase("Held", by_bob_back, json!({}))),
            "already: run shop-7 is taken back by bob (Held)",
        ),
        (
            back(&in_phase("Progressing", back_at, json!({"rollbackAt": AT}))),
            "will roll back run shop-7: up to 17 Applications that it started go back to their last good revisions, in \
             the reverse order of steps",
        ),
        (
            back(&in_phase("RolledBack", json!({}), json!({}))),
            "already: run shop-7 is taken back (RolledBack)",
        ),
        (
            back(&in_phase("Progressing", json!({}), json!({"steps": [{"total": 3}]}))),
            "refused: run shop-7 has started no Application: abort it instead",
        ),
        (
            back(&in_phase("Superseded", json!({}), json!({}))),
            "refused: run shop-7 is superseded, and no other one has begun yet",
        ),
    ];
    for (verdict, want) in cases {
        assert_eq!(told(&verdict), want);
    }
    assert_eq!(
        written(abort_run(&going(), true, PERSON)),
        RequestedChange::Field {
            field: "abort",
            value: json!({"by": "ann", "at": AT, "terminate": true})
        }
    );
}

/// Two words in one second were one: the second was acknowledged, and acted on by nobody (ST-060).
#[test]
fn a_word_is_later_than_the_one_that_was_acted_on() {
    let stored = |verdict: Verdict| match verdict {
        Verdict::Change { change: RequestedChange::Field { value, .. }, .. } => value["at"].clone(),
        other => panic!("{other:?}"),
    };
    let next = json!("2026-01-02T03:04:06Z");
    let aborted = in_phase(
        "Progressing",
        json!({"abort": {"by": "bob", "at": AT}}),
        json!({"abortedAt": AT}),
    );
    assert_eq!(stored(abort_run(&aborted, false, PERSON)), next);
    let back = in_phase(
        "Progressing",
        json!({"rollback": {"by": "bob", "at": AT}}),
        json!({"rollbackAt": AT}),
    );
    assert_eq!(stored(rollback_run(&back, None, PERSON)), next);
    let earlier = json!({"abortedAt": "2026-01-02T03:04:00Z"});
    let earlier = in_phase("Progressing", json!({}), earlier);
    assert_eq!(stored(abort_run(&earlier, false, PERSON)), json!(AT));
}

/// ST-061: a rollback of nothing was confirmed, and ended the run.
#[test]
fn what_cannot_go_back_is_said_before_a_rollback() {
    let application = |name: &str, run: &str, good: &[&str]| {
        let start = json!({"run": run, "spec": "s", "revisions": ["r2"], "at": AT, "before": "Healthy",
            "good": good, "base": "b", "goesBack": false, "uid": name});
        json!({"metadata": {"name": name, "uid": name, "annotations": {"wavegate.dev/run": start.to_string()}}})
    };
    let (known, first) = (
        |name: &str| application(name, "shop-7", &["r1"]),
        |name: &str| application(name, "shop-7", &[]),
    );
    let earlier = application("old", "shop-6", &["r0"]);
    let copied = {
        let mut copied = known("copy");
        copied["metadata"]["uid"] = "another".into();
        copied
    };
    let plain = json!({"metadata": {"name": "plain", "uid": "plain"}});
    let cases = [
        (
            "Progressing",
            vec![first("a"), first("b"), earlier.clone(), copied, plain],
            "refused: none of 2 Applications that run shop-7 started can go back by itself: there is no revision before \
             it with which one was Healthy, or more than the revision has changed since; revert the change in the source \
             or in the ApplicationSet; wavegate abort ends the run, and leaves all as it is",
        ),
        (
            "Complete",
            vec![],
            "refused: run shop-7 has started no Application: there is nothing to take back",
        ),
        (
            "Complete",
            vec![known("a"), known("b"), earlier],
            "will roll back run shop-7: 2 of 2 Applications that it started go back to their last good revisions, in the \
             reverse order of steps",
        ),
        (
            "Progressing",
            vec![known("a"), first("b")],
            "will roll back run shop-7: 1 of 2 Applications that it started go back to their last good revisions, in the \
             reverse order of steps; b cannot go back by itself: revert the ApplicationSet",
        ),
        (
            "Progressing",
            vec![known("a"), first("b"), first("c"), first("d")],
            "will roll back run shop-7: 1 of 4 Applications that it started go back to their last good revisions, in the \
             reverse order of steps; b and 2 more cannot go back by themselves: revert the ApplicationSet",
        ),
    ];
    for (phase, applications, want) in cases {
        let reach = RollbackScope::of("shop-7", &applications);
        let run = in_phase(phase, json!({}), json!({}));
        assert_eq!(told(&rollback_run(&run, Some(&reach), PERSON)), want, "{phase}");
    }
}

/// ST-070: which verbs make sense in each phase. Out of a way back nothing leads forward (ST-062).
#[test]
fn the_verbs_of_each_phase_as_st_070() {
    // Whether retry, skip, abort and rollback are a change.
    let cases = [
        ("Progressing", [true, true, true, true]),
        ("Paused", [true, true, true, true]),
        ("AwaitingApproval", [true, true, true, true]),
        ("Soaking", [true, true, true, true]),
        ("Held", [true, true, true, true]),
        ("Complete", [true, false, false, true]),
        ("CompleteWithFailures", [true, false, false, true]),
        ("Superseded", [false, false, false, false]),
        ("Aborted", [true, false, false, true]),
        ("RollingBack", [true, false, false, false]),
        ("RolledBack", [true, false, false, false]),
    ];
    for (phase, want) in cases {
        let run = in_phase(phase, json!({}), json!({}));
        let verdicts = [
            retry_applications(&run, &[], PERSON),
            skip_applications(&run, &["web"], PERSON),
            abort_run(&run, false, PERSON),
            rollback_run(&run, None, PERSON),
        ];
        let is_change = |verdict: &Verdict| matches!(verdict, Verdict::Change { .. });
        assert_eq!(verdicts.each_ref().map(is_change), want, "{phase}");
        if phase == "RollingBack" {
            let said = told(&verdicts[0]);
            assert!(said.contains("repeat the way back of 2 Applications"), "{said}");
            assert!(!said.contains("promote"), "{said}");
        }
    }
    let going = |failed: i64| in_phase("RollingBack", json!({}), json!({ "failed": failed }));
    let said = told(&retry_applications(&going(0), &[], PERSON));
    assert!(said.starts_with("refused: run shop-7 goes back, and no way back"), "{said}");
    let said = told(&retry_applications(&going(1), &["web"], PERSON));
    assert!(said.contains("repeat the way back of web"), "{said}");
    // What earlier runs have left in quarantine is no promise.
    let left = json!({"failed": 0, "quarantine": "1:abcd"});
    let said = told(&retry_applications(&in_phase("Complete", json!({}), left), &[], PERSON));
    assert!(said.contains("what was aborted before, where it is the target now"), "{said}");
}

/// ST-064.
#[test]
fn a_run_goes_on_without_some() {
    let status = || json!({"skipped": ["web"], "unhealthyBefore": ["old"]});
    let skips = Some("run shop-7 skips it".to_owned());
    let ignored = Some("it was not Healthy before run shop-7, which goes on without it".to_owned());
    for phase in ["Progressing", "Held", "AwaitingApproval", "Soaking", "Paused"] {
        let run = in_phase(phase, json!({}), status());
        let found = ["web", "old", "api"].map(|name| run.goes_on_without(name));
        assert_eq!(found, [skips.clone(), ignored.clone(), None], "{phase}");
    }
    for phase in ["RollingBack", "Complete", "Aborted", "RolledBack", "Superseded"] {
        let run = in_phase(phase, json!({}), status());
        assert_eq!(["web", "old"].map(|name| run.goes_on_without(name)), [None, None], "{phase}");
    }
    // What is only asked for may have no effect.
    let asked = in_phase("Held", json!({"skip": ["web"]}), json!({}));
    assert_eq!(asked.goes_on_without("web"), None);
}

/// ST-063, ST-064.
#[test]
fn starting_again_and_leaving_out() {
    let held = || in_phase("Held", json!({}), json!({}));
    let asked = json!({"retries": [{"by": "bob", "at": "2026-01-02T03:00:00Z"}]});
    let of_web =
        json!({"retries": [{"by": "bob", "at": "2026-01-02T03:00:00Z", "applications": ["web"]}]});
    let skipped = json!({"skip": ["web"]});
    let acted = json!({"retried": ["2026-01-02T03:00:05Z"]});
    let cases = [
        (
            retry_applications(&held(), &[], PERSON),
            "will retry run shop-7: start 2 Applications that failed again",
        ),
        (
            retry_applications(
                &in_phase("Aborted", json!({}), json!({"quarantine": "abcd"})),
                &[],
                PERSON,
            ),
            "will retry run shop-7: start 2 Applications that failed again, and lift the quarantine of its targets",
        ),
        (
            retry_applications(
                &in_phase("RolledBack", json!({}), json!({"quarantine": "abcd", "failed": 0})),
                &[],
                PERSON,
            ),
            "will retry run shop-7: promote to its targets again, which are in quarantine",
        ),
        (
            retry_applications(&in_phase("Held", asked.clone(), json!({})), &[], PERSON),
            "already: bob has asked for it; no controller has acted yet",
        ),
        (
            // It may be one that has not failed, which the other one is not about.
            retry_applications(&in_phase("Held", asked.clone(), json!({})), &["web"], PERSON),
            "will retry web in run shop-7, once",
        ),
        (
            retry_applications(&in_phase("Held", of_web.clone(), json!({})), &["web"], PERSON),
            "already: bob has asked for it; no controller has acted yet",
        ),
        (
            retry_applications(&in_phase("Held", asked.clone(), acted), &[], PERSON),
            "will retry run shop-7: start 2 Applications that failed again",
        ),
        (
            // A moment later, when they have been started.
            retry_applications(
                &in_phase("Progressing", asked.clone(), json!({"failed": 0, "retried": [AT]})),
                &[],
                PERSON,
            ),
            "already: bob has asked for it, and nothing of run shop-7 has failed since (Progressing)",
        ),
        (
            retry_applications(&in_phase("Held", of_web.clone(), json!({})), &[], PERSON),
            "will retry run shop-7: start 2 Applications that failed again",
        ),
        (
            retry_applications(&in_phase("Held", of_web, json!({})), &["api"], PERSON),
            "will retry api in run shop-7, once",
        ),
        (
            retry_applications(
                &in_phase("Progressing", json!({}), json!({"failed": 0})),
                &[],
                PERSON,
            ),
            "refused: nothing of run shop-7 has failed (Progressing); wavegate retry APP is for one Application, such as \
             one that a person has synced",
        ),
        (
            retry_applications(&in_phase("Held", skipped.clone(), json!({})), &["web"], PERSON),
            "refused: run shop-7 skips web: wavegate skip web --undo takes it in again",
        ),
        (
            retry_applications(&in_phase("Complete", skipped.clone(), json!({})), &["web"], PERSON),
            "refused: run shop-7 skips web: wavegate skip web --undo takes it in again",
        ),
        (
            skip_applications(&held(), &["api", "web"], PERSON),
            "will skip api, web in run shop-7: not promoted, and not waited for; the next run takes it again",
        ),
        (
            skip_applications(
                &in_phase("Held", skipped.clone(), json!({})),
                &["api", "web"],
                PERSON,
            ),
            "will skip api in run shop-7: not promoted, and not waited for; the next run takes it again",
        ),
        (
            undo_skip(&in_phase("Held", skipped.clone(), json!({})), &["api", "web"], PERSON),
            "will take web into run shop-7 again: promoted, and waited for, also when its step was complete without it",
        ),
        (undo_skip(&held(), &["web"], PERSON), "already: run shop-7 does not skip web"),
        (
            undo_skip(&in_phase("Complete", skipped.clone(), json!({})), &["web"], PERSON),
            "will take web into run shop-7 again, which has ended (Complete): wavegate retry starts what it has started before",
        ),
        (
            skip_applications(&in_phase("Held", skipped.clone(), json!({})), &["web"], PERSON),
            "already: run shop-7 skips web",
        ),
        (
            skip_applications(&in_phase("Complete", skipped.clone(), json!({})), &["web"], PERSON),
            "already: run shop-7 skips web",
        ),
        (
            skip_applications(&in_phase("Aborted", skipped, json!({})), &["web"], PERSON),
            "refused: run shop-7 has ended (Aborted): there is nothing to skip",
        ),
        (
            skip_applications(&in_phase("Complete", json!({}), json!({})), &["web"], PERSON),
            "refused: run shop-7 has ended (Complete): there is nothing to skip",
        ),
    ];
    for (verdict, want) in cases {
        assert_eq!(told(&verdict), want);
    }
    // What others have added in the meantime stays.
    let undone = written(undo_skip(
        &in_phase("Held", json!({"skip": ["web", "api"]}), json!({})),
        &["web"],
        PERSON,
    ));
    let stored = json!({"metadata": {"uid": "u", "resourceVersion": "8"}, "spec": {"skip": ["api", "web", "db"]}});
    let said = json!({"by": "ann", "at": AT, "applications": ["web"], "undo": true});
    assert_eq!(undone.patch(&stored)["spec"], json!({"skip": ["api", "db"], "skips": [said]}));
    // Who said it is kept for the last hundred.
    let many: Vec<Value> = (0..100).map(|number| json!({"by": format!("p{number}")})).collect();
    let stored = json!({"metadata": {"uid": "u"}, "spec": {"skips": many}});
    let skip = written(skip_applications(&held(), &["api"], PERSON));
    let skips = &skip.patch(&stored)["spec"]["skips"];
    assert_eq!(
        (&skips[0]["by"], &skips[99]["by"], skips.as_array().unwrap().len()),
        (&json!("p1"), &json!("ann"), 100)
    );
    assert!(
        undone.is_within(&undone)
            && !undone.is_within(&written(skip_applications(&held(), &["web"], PERSON)))
    );
    let skips = |names: &[&str]| written(skip_applications(&held(), names, PERSON));
    assert!(skips(&["web"]).is_within(&skips(&["api", "web"])), "fewer than was confirmed");
    assert!(!skips(&["api", "web"]).is_within(&skips(&["web"])));
    assert_eq!(
        written(retry_applications(&held(), &["web"], PERSON)),
        RequestedChange::Entries {
            list: "retries",
            entries: vec![json!({"by": "ann", "at": AT, "applications": ["web"]})]
        }
    );
}

/// ST-002: by number, not by name or age; a run of another set of the same name is not its run.
#[test]
fn the_current_run_has_the_highest_number() {
    let mut foreign = run("shop-99", json!({}), json!({}));
    foreign["metadata"]["ownerReferences"][0]["uid"] = "u9".into();
    let runs: Vec<Arc<Value>> =
        [run("shop-9", json!({}), json!({})), run("shop-10", json!({}), json!({})), foreign]
            .map(Arc::new)
            .into();
    let found = current_run(&runs, &set(json!({}), json!({}))).unwrap();
    assert_eq!(found.name(), "shop-10");
    assert_eq!(current_run(&runs[2..], &set(json!({}), json!({}))), None);
    assert_eq!((number_of("a-b-12"), number_of("a-x"), number_of("a")), (Some(12), None, None));
}

/// ST-001.
#[test]
fn a_policy_selects_sets_by_name_and_labels() {
    let set = set(json!({}), json!({}));
    let expression = |operator: &str| json!({"matchExpressions": [{"key": "tier", "operator": operator, "values": ["prod"]}]});
    let cases = [
        (json!({}), Ok(true)),
        (json!({"names": ["a", "shop"]}), Ok(true)),
        (json!({"names": ["a"]}), Ok(false)),
        (json!({"matchLabels": {"tier": "prod"}}), Ok(true)),
        (json!({"names": ["shop"], "matchLabels": {"tier": "dev"}}), Ok(false)),
        (expression("In"), Ok(true)),
        (expression("NotIn"), Ok(false)),
        (expression("Odd"), Err(())),
    ];
    for (selector, want) in cases {
        let policy = policy(json!({"applicationSets": selector}));
        assert_eq!(selects_set(&policy, &set).map_err(|_| ()), want, "{selector}");
    }
    let mut elsewhere = Value::clone(&policy(json!({})));
    elsewhere["metadata"]["namespace"] = "other".into();
    assert_eq!(selects_set(&elsewhere, &set), Ok(false));
}

#[test]
fn a_commit_is_meant_by_at_least_seven_characters() {
    let commit = "6d0c1f2a9b8c7d6e5f40312213a4b5c6d7e8f901";
    for (revision, meant, want) in [
        (commit, commit, true),
        (commit, "6d0c1f2", true),
        (commit, "6D0C1F2", true),
        (commit, "6d0c1f", false),
        (commit, "d0c1f2a", false),
        ("1.2.3", "1.2.3", true),
        ("1.2.34", "1.2.3", false),
        (&format!("1.2.3, {commit}"), "6d0c1f2a", true),
        ("", "6d0c1f2", false),
    ] {
        assert_eq!(is_revision(revision, meant), want, "{revision} {meant}");
    }
}

/// What `wait` makes of runs and Applications.
#[derive(Default)]
struct World {
    runs: Vec<Run>,
    has_runs: bool,
    applications: BTreeMap<String, Arc<Value>>,
    status: Value,
    deployed: BTreeMap<String, DeployedRevision>,
    is_all_at_once: bool,
}

impl World {
    fn new() -> Self {
        Self { has_runs: true, status: json!({}), ..Self::default() }
    }

    /// The newest run is the last one.
    fn run(mut self, name: &str, phase: &str, to: &str) -> Self {
        let status = json!({"phase": phase, "to": [{"revision": to, "applications": 1}]});
        self.runs.insert(0, Run::read(&run(name, json!({}), status)));
        self
    }

    /// The newest run also has this target.
    fn joined(mut self, revision: &str) -> Self {
        let joined = RevisionCount {
            revision: revision.to_owned(),
            applications: 1,
            ..RevisionCount::default()
        };
        self.runs[0].status.to.push(joined);
        self
    }

    /// A run that is created, and has no status yet.
    fn created(mut self, name: &str) -> Self {
        self.runs.insert(0, Run::read(&run(name, json!({}), Value::Null)));
        self
    }

    /// All Applications are complete at a revision.
    fn at(mut self, revision: &str) -> Self {
        let owner = run("x", json!({}), json!({}))["metadata"]["ownerReferences"].clone();
        let live = json!({
            "metadata": {"name": "web", "namespace": "argocd", "ownerReferences": owner},
            "status": {"sync": {"status": "Synced", "revision": revision}, "health": {"status": "Healthy"}},
        });
        self.applications.insert("web".to_owned(), Arc::new(live));
        self.status = json!({
            "rollout": {"step": 2, "steps": 2, "progress": "1/1"},
            "applicationStatus": [{"application": "web", "step": "1", "status": "Healthy", "message": "",
                "targetRevisions": [revision], "lastTransitionTime": "2026-01-02T03:04:05Z"}],
        });
        let deployed =
            DeployedRevision { source: "r main".to_owned(), revisions: vec![revision.to_owned()] };
        self.deployed.insert("web".to_owned(), deployed);
        self
    }

    /// The only Application of the open step has failed, or waits in another way. `operation` is
    /// the phase of its last operation.
    fn waits(mut self, kind: &str, phase: &str, operation: &str) -> Self {
        let owner = run("x", json!({}), json!({}))["metadata"]["ownerReferences"].clone();
        let live = json!({
            "metadata": {"name": "web", "namespace": "argocd", "ownerReferences": owner},
            "status": {"sync": {"status": "OutOfSync"}, "health": {"status": "Degraded"},
                "reconciledAt": "2026-01-02T03:04:06Z",
                "operationState": {"phase": operation, "operation": {"sync": {}},
                    "finishedAt": "2026-01-02T03:04:05Z"}},
        });
        self.applications.insert("web".to_owned(), Arc::new(live));
        let wait = json!({"application": "web", "kind": kind, "reason": "why"});
        self.status = json!({
            "rollout": {"step": 1, "steps": 2, "progress": "0/1", "waitingFor": [wait]},
            "applicationStatus": [{"application": "web", "step": "1", "status": phase, "message": "m",
                "targetRevisions": ["r"], "lastTransitionTime": "2026-01-02T03:04:05Z"}],
        });
        self
    }

    fn also(mut self, name: &str, source: &str, revision: &str) -> Self {
        let deployed =
            DeployedRevision { source: source.to_owned(), revisions: vec![revision.to_owned()] };
        self.deployed.insert(name.to_owned(), deployed);
        self
    }

    fn told(&self, goal: &Goal) -> String {
        let mut set = set(json!({}), self.status.clone());
        if self.is_all_at_once {
            set["spec"]["strategy"] = Value::Null;
            let is_written = json!({"type": "ResourcesUpToDate", "status": "True"});
            set["status"] = json!({ "conditions": [is_written] });
        }
        let report = report_input::read_report(&set, &self.applications, None);
        let seen = Seen {
            runs: &self.runs,
            has_runs: self.has_runs,
            report: &report,
            deployed: &self.deployed,
        };
        match wait_progress(goal, &seen) {
            WaitProgress::Runs(run) => format!("waits for {}", run.name),
            WaitProgress::Expects => "expects a run".to_owned(),
            WaitProgress::Members => "waits for Applications".to_owned(),
            WaitProgress::Ended { ending, run, is_final } => {
                let run = run.map(|run| format!(" {}", run.name)).unwrap_or_default();
                let end = if is_final { "" } else { ", if it stays so" };
                format!("{ending:?}{run}{end}")
            }
        }
    }
}

/// ST-072: a pipeline waited without end for what only a person continues, while `status --watch`
/// ended.
#[test]
fn a_wait_ends_when_only_a_person_can_continue() {
    let a = "aaaaaaa1";
    let going = |phase: &str| World::new().run("shop-1", phase, a);
    let failed = |phase: &str| going(phase).waits("FailedOperation", "Progressing", "Failed");
    let stuck = "Stuck shop-1, if it stays so";
    let goes_on = "waits for shop-1";
    let retried = || {
        let mut world = failed("Progressing");
        world.runs[0].spec.retries.push(Retry::default());
        world
    };
    let cases = [
        ("a failed sync", failed("Progressing"), stuck),
        ("a failed sync, and a pause that holds nothing else", failed("Paused"), stuck),
        (
            "Degraded after its sync",
            going("Progressing").waits("Degraded", "Progressing", "Succeeded"),
            stuck,
        ),
        ("a budget that is exceeded", failed("Held"), "Held shop-1, if it stays so"),
        ("a retry that no controller has acted on", retried(), goes_on),
        (
            "a sync that is tried again",
            going("Progressing").waits("Operation", "Progressing", "Running"),
            goes_on,
        ),
        ("a gate that soaks", going("Soaking").waits("Soak", "Waiting", "Succeeded"), goes_on),
        (
            "a gate that people open",
            going("AwaitingApproval").waits("Approval", "Waiting", "Succeeded"),
            goes_on,
        ),
        ("a pause", going("Paused").waits("Paused", "Waiting", "Succeeded"), goes_on),
        (
            "a limit of several sets",
            going("Progressing").waits("MaxInFlight", "Waiting", "Succeeded"),
            goes_on,
        ),
        (
            "a run that another one has followed",
            failed("Progressing").run("shop-2", "Progressing", "bbbbbbb2"),
            "Superseded shop-1",
        ),
    ];
    for (name, world, want) in cases {
        assert_eq!(world.told(&Goal::Revision(a.to_owned())), want, "{name}");
    }
    for goal in [Goal::Newest, Goal::Run("shop-1".to_owned())] {
        assert_eq!(failed("Progressing").told(&goal), stuck, "{goal:?}");
    }
}

/// ST-003, ST-072: a commit joins the run of another one with the Applications that this has not
/// started, until a started one has seen it; then its own run begins.
#[test]
fn a_commit_that_joins_the_run_of_another_one_waits_for_its_own() {
    let (a, b) = ("aaaaaaa1", "bbbbbbb2");
    let joined = |phase: &str| World::new().run("shop-1", phase, a).joined(b);
    let cases = [
        (joined("Held"), "Held shop-1, if it stays so"),
        (joined("Complete"), "Complete shop-1, if it stays so"),
        (joined("Aborted"), "Aborted shop-1, if it stays so"),
        (joined("Progressing"), "waits for shop-1"),
        // The requests of the controller, one after the other.
        (joined("Superseded"), "expects a run"),
        (joined("Superseded").created("shop-2"), "expects a run"),
        (joined("Complete").created("shop-2"), "expects a run"),
        (joined("Superseded").run("shop-2", "Progressing", b), "waits for shop-2"),
        (joined("Superseded").run("shop-2", "Complete", b), "Complete shop-2"),
        (joined("Superseded").run("shop-2", "Progressing", "ccccccc3"), "Superseded shop-1"),
    ];
    for (index, (world, want)) in cases.into_iter().enumerate() {
        assert_eq!(world.told(&Goal::Revision(b.to_owned())), want, "case {index}");
    }
}

/// ST-003, ST-072: a wait for the run of a set whose strategy was removed ended with its time only.
#[test]
fn the_applications_say_what_a_set_without_steps_any_more_is_at() {
    let (a, b) = ("aaaaaaa1", "bbbbbbb2");
    let of = |revision: &str| Goal::Revision(revision.to_owned());
    let named = || Goal::Run("shop-1".to_owned());
    let ended = || World::new().run("shop-1", "Superseded", a);
    let complete = "Complete, if it stays so";
    let waits = "waits for Applications";
    let cases = [
        (ended().at(a), of(a), complete, complete),
        (ended().at(b), of(a), waits, "expects a run"),
        (ended().at(b), of(b), complete, complete),
        (ended().at(a), of(b), waits, "expects a run"),
        (ended().waits("", "", "Running"), of(a), waits, "expects a run"),
        (ended().at(b), Goal::Newest, complete, complete),
        (ended().waits("", "", "Running"), Goal::Newest, waits, "expects a run"),
        (ended().at(a), named(), "Superseded shop-1", "Superseded shop-1"),
        // One that was aborted is no news of a set that is written all at once.
        (World::new().run("shop-1", "Aborted", a).at(a), of(a), complete, "Aborted shop-1"),
        // It is about to be ended, or the strategy is misspelt.
        (
            World::new().run("shop-1", "Soaking", a).at(a),
            of(a),
            "waits for shop-1",
            "waits for shop-1",
        ),
    ];
    for (index, (mut world, goal, without, with_steps)) in cases.into_iter().enumerate() {
        assert_eq!(world.told(&goal), with_steps, "case {index}: {goal:?}, its steps are back");
        world.is_all_at_once = true;
        assert_eq!(world.told(&goal), without, "case {index}: {goal:?}");
    }
}

/// ST-072: a wait ended with 0 when a misspelt label kept all Applications out of the steps.
#[test]
fn a_set_without_an_application_in_a_step_is_not_rolled_out() {
    let a = "aaaaaaa1";
    let unselected = |sync: &str| {
        let mut world = World::new().at(a);
        let mut live = (*world.applications["web"]).clone();
        live["status"]["sync"]["status"] = sync.into();
        world.applications.insert("web".to_owned(), Arc::new(live));
        let entry = &mut world.status["applicationStatus"][0];
        (entry["step"], entry["status"]) = ("-1".into(), "Waiting".into());
        world.status["rollout"]["progress"] = "0/0".into();
        world
    };
    for goal in [Goal::Newest, Goal::Revision(a.to_owned())] {
        assert_eq!(unselected("OutOfSync").told(&goal), "Stuck, if it stays so", "{goal:?}");
        assert_eq!(unselected("Synced").told(&goal), "Complete, if it stays so", "{goal:?}");
    }
    let other = Goal::Revision("bbbbbbb2".to_owned());
    assert_eq!(unselected("OutOfSync").told(&other), "expects a run");
}

/// ST-005, ST-072: of more revisions than are recorded, the Applications say that it is rolled
/// out.
#[test]
fn a_run_of_many_revisions_is_also_that_of_one_that_is_not_recorded() {
    let b = "bbbbbbb2";
    let of_many = |phase: &str, count: usize| {
        let first = World::new().run("shop-1", phase, "1.0.0");
        (1..count).fold(first, |world, minor| world.joined(&format!("1.{minor}.0")))
    };
    let at = |world: World| world.also("api", "r main", b).also("web", "r main", "aaaaaaa1");
    let cases = [
        (at(of_many("Held", 10)), "Held shop-1, if it stays so"),
        (at(of_many("Aborted", 10)), "Aborted shop-1, if it stays so"),
        (at(of_many("RolledBack", 10)), "RolledBack shop-1, if it stays so"),
        (at(of_many("CompleteWithFailures", 10)), "CompleteWithFailures shop-1, if it stays so"),
        (at(of_many("Progressing", 10)), "waits for shop-1"),
        // Its own run is about to begin.
        (at(of_many("Complete", 10)), "expects a run"),
        (at(of_many("Superseded", 10)), "expects a run"),
        // All are recorded, or no Application has seen the commit.
        (at(of_many("Held", 9)), "expects a run"),
        (of_many("Held", 10), "expects a run"),
    ];
    for (index, (world, want)) in cases.into_iter().enumerate() {
        assert_eq!(world.told(&Goal::Revision(b.to_owned())), want, "case {index}");
    }
}

/// ST-072.
#[test]
fn a_run_of_another_commit_is_never_taken_for_it() {
    let (a, b) = ("aaaaaaa1", "bbbbbbb2");
    let of = |revision: &str| Goal::Revision(revision.to_owned());
    let world = World::new;
    let cases = [
        (world().run("shop-1", "Complete", b).at(b), of(a), "expects a run"),
        (world().run("shop-1", "Progressing", b), of(a), "expects a run"),
        (world().run("shop-1", "Progressing", a), of(a), "waits for shop-1"),
        (world().run("shop-1", "AwaitingApproval", a), of(a), "waits for shop-1"),
        (world().run("shop-1", "Paused", a), of(a), "waits for shop-1"),
        (world().run("shop-1", "Complete", a), of(a), "Complete shop-1"),
        (world().run("shop-1", "CompleteWithFailures", a), of(a), "CompleteWithFailures shop-1"),
        // The run of another commit may be about to begin.
        (world().run("shop-1", "Held", a), of(a), "Held shop-1, if it stays so"),
        (world().run("shop-1", "Aborted", a), of(a), "Aborted shop-1"),
        (world().run("shop-1", "RollingBack", a), of(a), "RolledBack shop-1"),
        (
            world().run("shop-1", "Superseded", a).run("shop-2", "Progressing", b),
            of(a),
            "Superseded shop-1",
        ),
        // The controller has not ended it yet.
        (
            world().run("shop-1", "Progressing", a).run("shop-2", "Progressing", b),
            of(a),
            "Superseded shop-1",
        ),
        (
            world().run("shop-1", "Complete", a).run("shop-2", "Progressing", b),
            of(a),
            "Superseded shop-1",
        ),
        // A revert, and a run of another repository.
        (
            world().run("shop-1", "Superseded", a).run("shop-2", "Progressing", a),
            of(a),
            "waits for shop-2",
        ),
        (
            world().run("shop-1", "Complete", a).run("shop-2", "Complete", b).at(a),
            of(a),
            "Complete shop-1",
        ),
        // It was complete before runs were recorded.
        (world().at(a), of(a), "Complete, if it stays so"),
        (world().at(a).also("api", "r main", b), of(a), "expects a run"),
        (world().at(a).also("api", "other main", b), of(a), "Complete, if it stays so"),
        (world().at(b), of(a), "expects a run"),
        (World { has_runs: false, ..world().at(b) }, of(a), "waits for Applications"),
        (World { has_runs: false, ..world().at(a) }, of(a), "Complete, if it stays so"),
        (world(), Goal::Newest, "waits for Applications"),
        (world().at(a), Goal::Newest, "Complete, if it stays so"),
        (
            world().run("shop-1", "Complete", a).at(a),
            Goal::Newest,
            "Complete shop-1, if it stays so",
        ),
        (world().run("shop-1", "Complete", a), Goal::Newest, "expects a run"),
        (world().run("shop-1", "Superseded", a), Goal::Newest, "expects a run"),
        (world().run("shop-1", "Aborted", a), Goal::Newest, "Aborted shop-1, if it stays so"),
        (world().run("shop-1", "Soaking", a), Goal::Newest, "waits for shop-1"),
        (world().run("shop-1", "Complete", a), Goal::Run("shop-1".to_owned()), "Complete shop-1"),
        (world().run("shop-1", "Complete", a), Goal::Run("shop-2".to_owned()), "Deleted"),
    ];
    for (index, (world, goal, want)) in cases.into_iter().enumerate() {
        assert_eq!(world.told(&goal), want, "case {index}: {goal:?}");
    }
    // A person has just asked for another attempt.
    let spec = json!({"retries": [{"by": "ann", "at": "2026-01-02T03:04:05Z"}]});
    let status = json!({"phase": "Held", "to": [{"revision": a}]});
    let mut retried = world();
    retried.runs = vec![Run::read(&run("shop-1", spec, status))];
    assert_eq!(retried.told(&of(a)), "waits for shop-1");
}
