//! What `explain` and `status` advise works: no verb that is refused, and no sync of what is in
//! quarantine.

use jiff::Timestamp;

use super::*;
use crate::cli::explain::of_none;
use crate::cli::rollout_view::run::commands_within;
use wavegate_api::ObjectKey;
use wavegate_rollout::requests::{
    Actor, RollbackScope, Verdict, abort_run, approve_gates, retry_applications, rollback_run,
    skip_applications,
};

fn run_of(spec: Value, status: Value) -> Run {
    let metadata = json!({"name": "shop-7", "namespace": "argocd"});
    let mut spec = spec;
    spec["applicationSet"] = "shop".into();
    Run::read(&json!({"metadata": metadata, "spec": spec, "status": status}))
}

fn gate(more: Value) -> Value {
    let mut gate =
        json!({"name": "prod", "policy": "p", "applications": 1, "covers": "c1", "approvals": 1});
    for (field, value) in more.as_object().unwrap() {
        gate[field] = value.clone();
    }
    gate
}

/// An Application with the start by a run, which can go back to `good`.
fn started(name: &str, run: &str, good: &[&str]) -> (String, Arc<Value>) {
    let live = json!({
        "sync": {"status": "OutOfSync", "revision": "r2"}, "health": {"status": "Healthy"},
        "operationState": {"phase": "Failed", "message": "Operation terminated", "operation": {"sync": {}},
            "startedAt": "2026-01-02T03:04:05Z", "finishedAt": "2026-01-02T03:04:06Z"},
    });
    let (name, live) = application(name, live);
    let mut live = Value::clone(&live);
    live["metadata"]["uid"] = json!("u");
    let start = json!({"run": run, "spec": "s", "revisions": ["r2"], "at": "2026-01-02T03:04:05Z",
        "before": "Healthy", "good": good, "goesBack": false, "uid": "u"});
    live["metadata"]["annotations"] = json!({wavegate_api::annotations::RUN: start.to_string()});
    (name, Arc::new(live))
}

/// What a verb of a command comes to.
fn verdict(command: &str, run: &Run, reach: &RollbackScope) -> Verdict {
    let words: Vec<&str> = command.split_whitespace().collect();
    let person = Actor { by: "ann", at: Timestamp::UNIX_EPOCH };
    let after = |option: &str| {
        let at = words.iter().position(|word| *word == option)?;
        words.get(at + 1).copied()
    };
    match words[1] {
        "approve" => approve_gates(run, after("--gate"), person),
        "retry" => retry_applications(run, &[], person),
        "skip" => skip_applications(run, &words[words.len() - 1..], person),
        "abort" => abort_run(run, false, person),
        "rollback" => rollback_run(run, Some(reach), person),
        "resume" => Verdict::Already("of the set".to_owned()),
        other => panic!("{other} is not known here: {command}"),
    }
}

/// In a soak, `wavegate approve SET` was advised, and refused.
#[test]
fn no_advised_verb_is_refused_in_any_state_of_a_run() {
    let soaks =
        json!({"soakingSince": "2026-01-02T03:00:00Z", "soaksUntil": "2026-01-02T04:00:00Z"});
    let waits = json!({"waitingSince": "2026-01-02T03:00:00Z"});
    let open =
        json!({"openedAt": "2026-01-02T03:00:00Z", "openedFor": "c1", "approvedBy": ["bob"]});
    let gates = [
        json!([]),
        json!([gate(json!({}))]),
        json!([gate(soaks.clone())]),
        json!([gate(waits)]),
        json!([gate(open.clone()), gate(soaks)]),
        json!([gate(open)]),
        json!([gate(json!({"applications": 0}))]),
    ];
    let reaches =
        [vec![], vec![started("dev", "shop-7", &[])], vec![started("dev", "shop-7", &["r1"])]];
    let specs = [
        json!({}),
        json!({"skip": ["dev"]}),
        json!({"retries": [{"by": "bob", "at": "2026-01-02T03:00:00Z"}]}),
    ];
    let phases = [
        "Progressing",
        "Paused",
        "AwaitingApproval",
        "Soaking",
        "Held",
        "Complete",
        "CompleteWithFailures",
        "Superseded",
        "Aborted",
        "RollingBack",
        "RolledBack",
    ];
    let at = ObjectKey::new("argocd", "shop");
    for phase in phases {
        for gates in &gates {
            for (failed, spec) in
                [0, 1].iter().flat_map(|failed| specs.iter().map(move |spec| (failed, spec)))
            {
                let failures = json!([{"signature": "x", "applications": ["dev"], "message": "m"}]);
                let steps = json!([{"total": 2, "done": 1, "inFlight": 0, "failed": failed}]);
                let run = run_of(
                    spec.clone(),
                    json!({"phase": phase, "total": 2, "done": 1, "failed": failed,
                    "gates": gates, "failures": failures, "steps": steps}),
                );
                for applications in &reaches {
                    let reach = RollbackScope::of(
                        "shop-7",
                        applications.iter().map(|(_, live)| live.as_ref()),
                    );
                    for (what, command) in commands_within(&run, &at, Some(&reach)) {
                        let found = verdict(&command, &run, &reach);
                        let is_refused = matches!(found, Verdict::Refused(_));
                        assert!(
                            !is_refused,
                            "{phase} {gates} {failed} {spec}: {what}: {command}: {found:?}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn an_approval_in_a_soak_is_advised_with_its_gate_and_the_soak() {
    let until = json!({"soaksUntil": "2026-01-02T04:00:00Z"});
    let run = run_of(json!({}), json!({"phase": "AwaitingApproval", "gates": [gate(until)]}));
    let advised = commands_within(&run, &ObjectKey::new("argocd", "shop"), None);
    let want = (
        "to let go, when its soak has ended at 2026-01-02T04:00:00Z, 1 Application behind gate prod".to_owned(),
        "wavegate approve -n argocd shop --gate prod".to_owned(),
    );
    assert_eq!(advised, [want]);
}

/// The condition names a command of kubectl, and the documentation another one.
#[test]
fn held_deletions_are_advised_with_their_verb() {
    let message = "3 Applications would be deleted; to delete them: kubectl -n argocd annotate applicationset shop \
                   --overwrite wavegate.dev/approved-deletions=0123456789abcdef";
    let status = json!({"rollout": {"step": 2, "steps": 2, "progress": "2/2", "message": "m"}, "conditions": [
        {"type": "DeletionsHeld", "status": "True", "reason": "TooManyDeletions", "message": message}]});
    let text = show(&explain(&set(status), &Applications::new(), None));
    let want = "  shop: to let the deletions go that are held: wavegate approve -n argocd shop --deletions\n";
    assert!(text.contains(want), "{text}");
}

/// ST-080: without an Application of the open step that waits, nothing said what to do.
#[test]
fn a_held_run_names_its_verbs_when_no_application_waits() {
    let complete = json!({"rollout": {"step": 2, "steps": 2, "progress": "2/2", "message": "m"},
        "applicationStatus": [entry("dev", "1", "Healthy")]});
    let failed = json!([{"signature": "x", "applications": ["dev"], "message": "m"}]);
    let said = |phase: &str, good: &[&str]| {
        let run =
            run_of(json!({}), json!({"phase": phase, "failed": 1, "total": 2, "failures": failed}));
        let applications: Applications = [started("dev", "shop-7", good)].into();
        show(&explain(&set(complete.clone()), &applications, Some(&run)))
    };
    let held = said("Held", &["r1"]);
    for verb in [
        "retry -n argocd shop",
        "skip -n argocd dev",
        "rollback -n argocd shop",
        "abort -n argocd shop",
    ] {
        assert!(
            held.contains("  shop: to ") && held.contains(&format!("wavegate {verb}")),
            "{held}"
        );
    }
    assert!(!said("Held", &[]).contains("wavegate rollback"), "none could go back");
    let aborted = said("Aborted", &["r1"]);
    assert!(aborted.contains("wavegate retry -n argocd shop"), "{aborted}");
    assert!(aborted.contains("wavegate rollback -n argocd shop"), "{aborted}");
    assert!(!aborted.contains("wavegate skip") && !aborted.contains("wavegate abort"), "{aborted}");
}

/// An operation that an abort terminated was advised to be started again by a sync, once another
/// run had begun.
#[test]
fn no_sync_to_a_target_in_quarantine_is_advised() {
    // The digest of `dev` with the spec `s` and `r2`, for which run 6 was ended.
    let quarantined = "6:EYxEeQ==";
    let kinds = wavegate_rollout::rollout::wait::WaitKind::ALL;
    for kind in kinds {
        for phase in ["Waiting", "Progressing"] {
            let status = json!({
                "rollout": {"step": 1, "steps": 2, "progress": "0/2", "message": "m",
                    "waitingFor": [{"application": "dev", "kind": kind.name(), "reason": "it waits"}]},
                "applicationStatus": [entry("dev", "1", phase), entry("prod", "2", "Waiting")],
            });
            let mut set = set(status);
            set["spec"]["strategy"]["rollingSync"]["steps"][1]["maxUpdate"] = Value::Null;
            let applications: Applications = [started("dev", "shop-6", &["r1"])].into();
            let run = |quarantine: &str| {
                run_of(
                    json!({}),
                    json!({"phase": "Progressing", "total": 2, "quarantine": quarantine}),
                )
            };
            let said = |run: &Run| {
                let explained = show(&explain(&set, &applications, Some(run)));
                let summary = SetSummary::read(&set, &applications, Some(run), &[]);
                explained + &status::one(&summary)
            };
            let all = said(&run(quarantined));
            assert!(!all.contains("wavegate sync"), "{} {phase}: {all}", kind.name());
            if kind.name() == "FailedOperation" && phase == "Progressing" {
                assert!(all.contains("wavegate retry -n argocd shop"), "{all}");
                assert!(
                    said(&run("")).contains("wavegate sync"),
                    "without a quarantine it is advised"
                );
            }
        }
    }
}

/// What failed was in `history RUN` alone, and those that are back looked as if they were at fault.
#[test]
fn what_failed_comes_first_after_a_rollback_by_failures() {
    let commit = "0123456789abcdef0123456789abcdef01234567";
    let timeline = json!([
        {"what": "Failed", "subject": "dev", "message": "Deployment shop/web is Degraded: image not found"},
        {"what": "RollingBack", "message": "taken back: 1 failed, more than 0"},
        {"what": "Failed", "subject": "prod", "message": "Operation terminated"},
        {"what": "RolledBack", "message": "2 of 2 are back"},
    ]);
    let waits = json!({
        "rollout": {"step": 1, "steps": 2, "progress": "0/2", "message": "m",
            "waitingFor": [{"application": "dev", "kind": "HeldBack", "reason": "it is held at r1"}]},
        "applicationStatus": [entry("dev", "1", "Waiting"), entry("prod", "2", "Waiting")],
    });
    let of = |phase: &str, by: &str| {
        let status = json!({"phase": phase, "endedBy": by, "timeline": timeline, "failed": 0,
            "to": [{"revision": commit, "applications": 2}]});
        let applications: Applications = [started("dev", "shop-7", &["r1"])].into();
        let run = run_of(json!({}), status);
        let explained = show(&explain(&set(waits.clone()), &applications, Some(&run)));
        (
            explained,
            status::one(&SetSummary::read(&set(waits.clone()), &applications, Some(&run), &[])),
        )
    };
    let cause = "dev failed at 0123456: Deployment shop/web is Degraded: image not found";
    for (phase, how) in [
        ("RolledBack", "was taken back"),
        ("RollingBack", "is being taken back"),
        ("Aborted", "was aborted"),
    ] {
        let (explained, status) = of(phase, "Failures");
        assert!(
            explained.starts_with(&format!("run shop-7 {how}: {cause}; shop waits")),
            "{explained}"
        );
        assert!(status.contains(&format!("\ncause: {cause}\n")), "{status}");
        let fix =
            explained.find("commit a fix, which is rolled out by itself").unwrap_or(usize::MAX);
        let retry = explained.find("wavegate retry").unwrap_or(usize::MAX);
        assert!(phase == "RollingBack" || fix < retry, "{explained}");
    }
    // A person has ended it, and what had failed before was mended.
    let (explained, status) = of("Aborted", "ann");
    assert!(explained.starts_with("shop waits") && !status.contains("cause:"), "{explained}");
}

/// The first thing to know of an Application that another one undoes.
#[test]
fn two_owners_are_said_first() {
    let live = json!({
        "sync": {"status": "OutOfSync"}, "health": {"status": "Healthy"},
        "resources": [{"kind": "ConfigMap", "namespace": "n", "name": "c", "status": "OutOfSync"}],
        "conditions": [
            {"type": "SyncWarning", "message": "resource.customizations.actions has no effect"},
            {"type": "SharedResourceWarning", "message": "ConfigMap/c is part of applications argocd/dev and other"},
        ],
        "operationState": {"phase": "Succeeded", "operation": {"sync": {}}},
    });
    let status = json!({
        "rollout": {"step": 1, "steps": 2, "progress": "0/2", "message": "m",
            "waitingFor": [{"application": "dev", "kind": "OutOfSync", "reason": "ConfigMap n/c is OutOfSync"}]},
        "applicationStatus": [entry("dev", "1", "Progressing")],
    });
    let explained = explained(status, &[application("dev", live)]);
    let want = "shop waits in step 1 of 2: dev: ConfigMap/c is part of applications argocd/dev and other; ConfigMap n/c is OutOfSync";
    assert_eq!(explained.summary, want);
    let first = &explained.waits[0].actions[0].text;
    assert!(first.starts_with("leave it to one of the two"), "{first}");
}

/// A warning about a setting was the message of an Application that waits for something else.
#[test]
fn a_warning_about_settings_is_no_reason_of_a_wait() {
    let live = |kind: &str| {
        json!({
            "sync": {"status": "Synced"}, "health": {"status": "Progressing"},
            "resources": [{"group": "apps", "kind": "Deployment", "namespace": "n", "name": "web", "status": "Synced",
                "health": {"status": "Progressing", "message": "1 of 2 are ready"}}],
            "conditions": [{"type": kind, "message": "the warning"}],
            "operationState": {"phase": "Succeeded", "operation": {"sync": {}}},
        })
    };
    let detail = |kind: &str| {
        let (_, live) = application("dev", live(kind));
        wavegate_rollout::application_set::status::report_input::read_application(&live)
            .doing
            .detail
    };
    assert_eq!(detail("SyncWarning"), "Deployment n/web is Progressing: 1 of 2 are ready");
    assert_eq!(detail("SharedResourceWarning"), "the warning");
    assert_eq!(detail("ComparisonError"), "the warning");
}

/// A missing password was advised as a mistake in the template.
#[test]
fn a_missing_password_is_advised_as_a_repository_secret() {
    let advised = |message: &str| {
        let live = json!({
            "sync": {"status": "Unknown"}, "health": {"status": "Healthy"},
            "conditions": [{"type": "ComparisonError", "message": message}],
        });
        let (_, live) = application("alone", live);
        let mut live = Value::clone(&live);
        live["metadata"]["ownerReferences"] = Value::Null;
        of_none(&Arc::new(live), Timestamp::UNIX_EPOCH)
    };
    let refused = "Failed to load target state: repository https://e.invalid/r: access refused, check its credentials: ";
    for words in [
        "fatal: could not read Username for 'https://e.invalid': terminal prompts disabled",
        "git@e.invalid: Permission denied (publickey).",
        "fatal: Authentication failed for 'https://e.invalid/r/'",
        "The requested URL returned error: 403",
    ] {
        let explained = advised(&format!("{refused}{words}"));
        let advice = &explained.waits[0].advice;
        assert!(
            advice.starts_with("add a repository Secret with its password or private key"),
            "{advice}"
        );
        assert!(!advice.contains("template"), "{advice}");
    }
    let advice = advised("Failed to load target state: path dev: no such file or directory").waits
        [0]
    .advice
    .clone();
    assert!(
        advice.contains("commit what is missing") && advice.contains("the spec of the Application"),
        "{advice}"
    );
}

/// Nothing could explain an Application of no ApplicationSet.
#[test]
fn an_application_of_no_set_is_explained() {
    let (_, live) = application(
        "alone",
        json!({
            "sync": {"status": "OutOfSync"}, "health": {"status": "Missing"}, "reconciledAt": "2026-01-02T03:04:05Z",
            "resources": [{"kind": "ConfigMap", "namespace": "n", "name": "c", "status": "OutOfSync", "health": {"status": "Missing"}}],
        }),
    );
    let mut live = Value::clone(&live);
    live["metadata"]["ownerReferences"] = Value::Null;
    let explained = of_none(&Arc::new(live.clone()), Timestamp::UNIX_EPOCH);
    let text = show(&explained);
    assert!(text.starts_with("alone is not Synced and Healthy: "), "{text}");
    assert!(
        text.contains(
            "automated sync is not enabled, so sync it yourself: wavegate sync -n argocd alone"
        ),
        "{text}"
    );
    assert!(!text.contains("maxUpdate") && !text.contains("ApplicationSet"), "{text}");
    live["status"] = json!({"sync": {"status": "Synced"}, "health": {"status": "Healthy"}});
    let explained = of_none(&Arc::new(live), Timestamp::UNIX_EPOCH);
    assert_eq!(
        (explained.summary.as_str(), explained.waits.len()),
        ("alone is Synced and Healthy", 0)
    );
}
