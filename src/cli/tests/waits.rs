//! What `explain` and `status` say about waits, and what to do.

use super::*;
use wavegate_rollout::rollout::wait::WaitKind;

/// A status of the set, whose open step waits for `dev` to be healthy.
fn waits_for_dev(reason: &str) -> Value {
    waits_as(WaitKind::Health, reason)
}

/// A status of the set, whose open step waits for `dev`.
fn waits_as(kind: WaitKind, reason: &str) -> Value {
    json!({
        "rollout": {"step": 1, "steps": 2, "progress": "0/2", "message": "m",
            "waitingFor": [{"application": "dev", "kind": kind.name(), "reason": reason, "since": "2026-01-02T03:04:05Z"}]},
        "applicationStatus": [entry("dev", "1", "Progressing"), entry("prod", "2", "Waiting")],
    })
}

/// An Application after a sync of it that succeeded.
fn synced(resources: Value) -> Value {
    json!({
        "sync": {"status": "OutOfSync"}, "health": {"status": "Healthy"}, "resources": resources,
        "operationState": {"phase": "Succeeded", "message": "successfully synced", "operation": {"sync": {}}},
    })
}

fn extra() -> Value {
    json!({"kind": "ConfigMap", "namespace": "shop", "name": "old", "status": "OutOfSync", "requiresPruning": true})
}

/// The actions for `dev` with this status of its own.
fn advice(live: Value) -> Vec<String> {
    let explained = explained(waits_for_dev("x"), &[application("dev", live)]);
    texts(&explained)
}

/// The actions of the first wait.
fn texts(explained: &Explanation) -> Vec<String> {
    explained.waits[0].actions.iter().map(|action| action.text.clone()).collect()
}

#[test]
fn a_prune_that_needs_permission_is_explained_with_the_command() {
    let explained = explained(waits_for_dev("x"), &[application("dev", synced(json!([extra()])))]);
    assert_eq!(
        explained.summary,
        "shop waits in step 1 of 2: dev: ConfigMap shop/old is not in the source any more, and pruning is not enabled"
    );
    assert_eq!(
        texts(&explained),
        [
            "prune it: wavegate sync -n argocd dev --prune",
            "or set spec.syncPolicy.automated.prune: true in the template of the ApplicationSet, or restore \
             its manifest in the source",
        ]
    );
    let resource = explained.waits[0].resource.as_ref().unwrap();
    assert_eq!(resource.status, "RequiresPruning");

    let mut kept = synced(json!([extra()]));
    kept["operationState"]["syncResult"]["resources"] = json!([{"kind": "ConfigMap",
        "namespace": "shop", "name": "old", "status": "PruneSkipped", "message": "ignored (no prune)"}]);
    assert_eq!(advice(kept)[0], "delete it yourself: kubectl -n shop delete configmap old");
    // Nothing is advised that would be refused.
    let mut busy = synced(json!([extra()]));
    busy["operationState"]["phase"] = "Running".into();
    let running = advice(busy);
    assert!(running[0].starts_with("nothing to do: ") && running.len() == 1, "{running:?}");
    assert!(running[0].ends_with("wavegate terminate -n argocd dev"), "{running:?}");
}

#[test]
fn no_sync_is_advised_while_one_runs_or_is_requested() {
    let failed = json!({
        "sync": {"status": "OutOfSync"}, "health": {"status": "Missing"},
        "operationState": {"phase": "Failed", "message": "no"},
    });
    let mut status = waits_for_dev("x");
    status["applicationStatus"][0]["message"] =
        "Sync failed, waiting for one that succeeds: no".into();
    let advised = |change: &dyn Fn(&mut Value), status: &Value| {
        let (name, mut live) = application("dev", failed.clone());
        change(Arc::make_mut(&mut live));
        explained(status.clone(), &[(name, live)]).waits[0].advice.contains("wavegate sync")
    };
    assert!(advised(&|_| {}, &status));
    let phase = |phase: &'static str| {
        move |live: &mut Value| live["status"]["operationState"]["phase"] = phase.into()
    };
    assert!(!advised(&phase("Running"), &status), "it would be refused");
    assert!(!advised(&phase("Terminating"), &status));
    let requested = |live: &mut Value| live["operation"] = json!({"sync": {}});
    assert!(!advised(&requested, &status));

    // The same in a step that is held.
    let held = json!({"applicationStatus": [entry("prod", "2", "Waiting")]});
    let held = |change: &dyn Fn(&mut Value)| {
        let (name, mut live) = application("prod", json!({"sync": {"status": "OutOfSync"}}));
        change(Arc::make_mut(&mut live));
        explained(held.clone(), &[(name, live)]).waits[0].advice.contains("wavegate sync")
    };
    assert!(held(&|_| {}));
    assert!(!held(&requested) && !held(&phase("Running")));
    let done = |live: &mut Value| {
        live["status"] = json!({"sync": {"status": "Synced"}, "health": {"status": "Healthy"}});
    };
    assert!(!held(&done), "it is synced already");
    let prunes = |live: &mut Value| live["status"] = synced(json!([extra()]));
    assert!(held(&prunes));
}

#[test]
fn an_attempt_that_is_waited_for_has_its_time() {
    let resource = json!([{"kind": "ConfigMap", "namespace": "web", "name": "conf",
        "status": "SyncFailed", "message": "namespaces \"web\" not found"}]);
    let live = json!({
        "sync": {"status": "OutOfSync"}, "health": {"status": "Missing"},
        "operationState": {
            "phase": "Running", "retryCount": 1, "finishedAt": "2026-01-02T03:04:10Z",
            "message": "one or more objects failed to apply, reason: namespaces \"web\" not found. Retrying attempt #1 at 3:04AM.",
            "operation": {"retry": {"limit": 3, "backoff": {"duration": "8s"}}},
            "syncResult": {"resources": resource},
        },
    });
    let explained = explained(waits_for_dev("older"), &[application("dev", live)]);
    let wait = &explained.waits[0];
    let want = "attempt 2 of 4 at 03:04:18Z: ConfigMap web/conf cannot be applied: namespaces \"web\" not found";
    assert_eq!((wait.reason.as_str(), wait.until.as_str()), (want, "2026-01-02T03:04:18Z"));
    assert_eq!(
        texts(&explained),
        [
            "create the namespace: kubectl create namespace web, or commit the sync option CreateNamespace=true"
        ]
    );
    let text = show_at(&explained, "2026-01-02T03:04:12Z".parse().unwrap());
    let row = text.lines().nth(3).unwrap_or_default();
    assert!(row.contains("   7s    6s     attempt 2 of 4 at 03:04:18Z: "), "{text}");
}

#[test]
fn a_deletion_that_needs_confirmation_has_the_command() {
    let live = json!({"operationState": {"phase": "Running", "operation": {},
        "message": "waiting for pruning confirmation of /ConfigMap/old"}});
    let want = "confirm the deletion: kubectl -n argocd annotate application dev --overwrite \
                argocd.argoproj.io/deletion-approved=$(date -u +%FT%TZ)";
    assert_eq!(advice(live), [want]);
}

#[test]
fn a_source_that_cannot_be_read_has_advice() {
    let unread =
        json!({"conditions": [{"type": "ComparisonError", "message": "app path does not exist"}]});
    let actions = advice(unread);
    assert!(actions[0].starts_with("correct its source"), "{actions:?}");
    assert!(actions[0].ends_with("wavegate refresh -n argocd dev"), "{actions:?}");
}

/// The advice named an owner and the policy, whatever the reason was, and that of a promotion
/// said that its operation was not started yet.
#[test]
fn what_is_not_written_has_the_advice_of_its_reason() {
    let of = |kind: WaitKind, phase: &str, change: &dyn Fn(&mut Value)| {
        let mut status = waits_as(kind, "why");
        status["applicationStatus"][0]["status"] = phase.into();
        let (name, mut live) = application("dev", json!({}));
        change(Arc::make_mut(&mut live));
        explained(status, &[(name, live)]).waits[0].advice.clone()
    };
    let owners =
        |list: Value| move |live: &mut Value| live["metadata"]["ownerReferences"] = list.clone();
    let other = owners(
        json!([{"kind": "ApplicationSet", "name": "other", "uid": "u2", "controller": true}]),
    );
    let edit = ": kubectl -n argocd edit applicationset shop";
    for phase in ["Waiting", "Pending"] {
        for (change, want) in [
            (
                &other as &dyn Fn(&mut Value),
                "remove it from its other owner, or give it another name",
            ),
            (&owners(json!([])), "permit updates in the policy (spec.syncPolicy.applicationsSync)"),
            (&|_: &mut Value| {}, "correct spec.ignoreApplicationDifferences"),
        ] {
            let advice = of(WaitKind::Refused, phase, change);
            assert!(advice.starts_with(want) && advice.ends_with(edit), "{phase}: {advice}");
        }
        let failed = of(WaitKind::FailedWrite, phase, &|_| {});
        assert!(failed.starts_with("fix the cause: "), "{phase}: {failed}");
    }
    let started = of(WaitKind::OperationStart, "Pending", &|_| {});
    assert!(started.starts_with("its operation was not started yet"), "{started}");
    let absent = explained(waits_as(WaitKind::Refused, "why"), &[]).waits[0].advice.clone();
    assert!(absent.starts_with("correct the template"), "{absent}");
}

/// It was `null` as soon as the Application said something newer than the status.
#[test]
fn a_reason_of_the_application_has_its_own_kind() {
    let after = |phase: &str, health: &str| {
        json!({"sync": {"status": "OutOfSync"}, "health": {"status": health},
            "resources": [deployment(health, "m")],
            "operationState": {"phase": phase, "message": "m", "operation": {"sync": {}}}})
    };
    for (live, kind) in [
        (after("Running", "Progressing"), "Operation"),
        (after("Failed", "Degraded"), "FailedOperation"),
        (after("Succeeded", "Degraded"), "Health"),
    ] {
        for reported in [WaitKind::Operation, WaitKind::FailedOperation, WaitKind::Health] {
            let explained =
                explained(waits_as(reported, "old"), &[application("dev", live.clone())]);
            let json = serde_json::to_value(&explained).unwrap();
            assert_ne!(json["waits"][0]["reason"], "old", "{kind}");
            assert_eq!(json["waits"][0]["kind"], kind, "{reported:?}");
        }
    }
}

/// Its advice was to sync what cannot be written.
#[test]
fn a_held_application_has_the_command_of_the_hold_only_when_it_is_waited_for_because_of_it() {
    let held = "HeldByPerson: alice synced it to r1; the rollout wants r2";
    for (kind, reason, has_command) in [
        (WaitKind::HeldByPerson, held, true),
        (WaitKind::Invalid, "the application is invalid: there is no project nope", false),
        (WaitKind::FailedWrite, "its new spec cannot be written: 403", false),
    ] {
        let mut status = waits_as(kind, reason);
        let mut first = entry("dev", "1", "Waiting");
        first["message"] = held.into();
        status["applicationStatus"][0] = first;
        let applications = [application("dev", json!({"sync": {"revision": "r2"}}))];
        let advice = explained(status.clone(), &applications).waits[0].advice.clone();
        let row =
            SetSummary::read(&set(status), &applications.into(), None, &[]).applications.remove(0);
        let command = "to take it back now: wavegate sync -n argocd dev";
        assert_eq!(advice.contains(command), has_command, "{advice}");
        assert!(row.message.starts_with(reason), "{}", row.message);
        assert_eq!(row.message.contains(command), has_command, "{}", row.message);
    }
}

/// It named a Secret that does not exist when the annotation of the Application itself was gone.
#[test]
fn only_a_cluster_secret_is_annotated_to_include_a_cluster_again() {
    let of = |resource: &str, is_skipped: bool| {
        let mut status = waits_as(WaitKind::Excluded, "why");
        status["rollout"]["waitingFor"][0]["resource"] = resource.into();
        let (name, mut live) = application("dev", json!({}));
        if is_skipped {
            Arc::make_mut(&mut live)["metadata"]["annotations"] =
                json!({"argocd.argoproj.io/skip-reconcile": "true"});
        }
        explained(status, &[(name, live)]).waits[0].advice.clone()
    };
    let secret = of("Secret argocd/c1", false);
    assert!(secret.contains("kubectl -n argocd annotate secret c1 "), "{secret}");
    let own = of("apps/Deployment shop/web", true);
    assert!(own.contains("kubectl -n argocd annotate application dev "), "{own}");
    for resource in ["apps/Deployment shop/web", ""] {
        let gone = of(resource, false);
        assert!(gone.starts_with("remove the annotation argocd.argoproj.io/"), "{gone}");
        assert!(!gone.contains("kubectl"), "{gone}");
    }
}

#[test]
fn a_set_without_steps_waits_for_what_is_not_synced_and_healthy() {
    let mut all_at_once = set(json!({"conditions": []}));
    all_at_once["spec"] = json!({});
    let state = |sync: &str, health: &str, phase: &str| {
        json!({"sync": {"status": sync}, "health": {"status": health},
            "operationState": {"phase": phase, "message": "no"}})
    };
    let mut applications: Applications = [
        application("a", state("Synced", "Healthy", "Succeeded")),
        application("b", state("Synced", "Missing", "Succeeded")),
        // A missing resource alone is Healthy.
        application("c", state("OutOfSync", "Healthy", "Failed")),
        application("d", state("Synced", "Healthy", "Failed")),
        ("e".to_owned(), Arc::new(json!({"metadata": {"name": "e"}}))),
    ]
    .into();
    let explanation = explain(&all_at_once, &applications, None);
    let waits: Vec<_> = (explanation.waits.iter())
        .map(|wait| (wait.application.as_str(), wait.reason.as_str()))
        .collect();
    let want = [
        ("c", "its sync failed: no"),
        ("d", "its sync failed: no"),
        ("b", "sync status Synced, health status Missing"),
    ];
    assert_eq!(waits, want, "what a person ends is first; e is not owned by the set");
    let want = "automated sync is not enabled, so sync it yourself: wavegate sync -n argocd c";
    assert_eq!(explanation.waits[0].advice, want);
    let summary = SetSummary::read(&all_at_once, &applications, None, &[]);
    assert_eq!((summary.state, summary.complete, summary.total), (ReportState::AllAtOnce, 1, 4));
    assert_eq!(summary.message, "1 of 4 applications are Synced and Healthy; there are no steps");
    assert_eq!(summary.applications[3].message, "its sync failed: no");

    applications.retain(|name, _| name == "c");
    let live = Arc::make_mut(applications.get_mut("c").unwrap());
    live["spec"]["syncPolicy"]["automated"] = json!({});
    let explanation = explain(&all_at_once, &applications, None);
    assert_eq!(texts(&explanation)[0], "a commit that fixes the cause is rolled out by itself");
}

#[test]
fn what_a_failed_sync_said_stays_during_a_dry_run() {
    let known = "Sync failed, waiting for one that succeeds: Deployment shop/web is Degraded: image pull failed";
    for phase in ["Running", "Succeeded", "Failed"] {
        let live = json!({
            "sync": {"status": "OutOfSync"}, "health": {"status": "Degraded"},
            "resources": [deployment("Degraded", "image pull failed")],
            "operationState": {"phase": phase, "message": "one or more tasks are running",
                "operation": {"sync": {"dryRun": true}}},
        });
        let (name, live) = application("dev", live);
        let explained =
            explained(waits_as(WaitKind::FailedOperation, known), &[(name.clone(), live.clone())]);
        assert_eq!(explained.waits[0].reason, known, "{phase}");
        let status = waits_as(WaitKind::FailedOperation, known);
        let summary = SetSummary::read(&set(status), &[(name, live)].into(), None, &[]);
        assert_eq!(summary.applications[0].message, known, "{phase}");
    }
}

/// The kind alone is enough for an advice, whatever the reason says.
#[test]
fn every_kind_of_wait_has_advice() {
    for &kind in WaitKind::ALL {
        for phase in ["Waiting", "Pending", "Progressing"] {
            for live in [json!({}), json!({"sync": {"status": "OutOfSync"}})] {
                let mut status = waits_as(kind, "why");
                status["applicationStatus"][0]["status"] = phase.into();
                let explained = explained(status, &[application("dev", live)]);
                assert!(!explained.waits[0].actions.is_empty(), "{kind:?} in {phase}");
                assert!(show(&explained).contains("What to do:"), "{kind:?} in {phase}");
            }
        }
        let absent = explained(waits_as(kind, "why"), &[]);
        assert!(!absent.waits[0].actions.is_empty(), "{kind:?} without the Application");
        assert_eq!(absent.waits[0].kind, kind.name());
    }
}

/// What a person has to change is named, with a command for the place where it is.
#[test]
fn denials_windows_and_what_is_missing_or_paused_have_their_advice() {
    let condition = |kind: &str, message: &str| json!({"sync": {"status": "Unknown"}, "conditions": [{"type": kind, "message": message}]});
    let resource = |kind: &str, group: &str, status: &str| {
        json!({"sync": {"status": "Synced"}, "health": {"status": status}, "resources": [{
            "group": group, "kind": kind, "namespace": "shop", "name": "it's", "status": "Synced",
            "health": {"status": status}}]})
    };
    let refused = |message: &str| {
        json!({"sync": {"status": "OutOfSync"}, "operationState": {"phase": "Failed", "operation": {},
            "message": "no", "syncResult": {"resources": [{"kind": "Service", "namespace": "shop",
            "name": "web", "status": "SyncFailed", "message": message}]}}})
    };
    let cases = [
        (
            "a project's denial of a repository",
            condition(
                "InvalidSpecError",
                "application repo https://r is not permitted in project 'default'",
            ),
            "permit it in spec.sourceRepos of AppProject default",
            "kubectl -n argocd edit appproject default",
        ),
        (
            "a project's denial of a resource",
            refused("resource :Service is not permitted in project default"),
            "permit it in spec.clusterResourceWhitelist or spec.namespaceResourceWhitelist",
            "edit appproject default",
        ),
        (
            "an invalid manifest",
            refused("Service \"web\" is invalid: spec.ports: Required value"),
            "correct the manifest of Service web in the source",
            "",
        ),
        (
            "a missing file",
            condition("ComparisonError", "values.yaml: no such file or directory"),
            "correct its source: commit what is missing, or correct its path",
            "wavegate refresh -n argocd dev",
        ),
        (
            "a paused Deployment",
            resource("Deployment", "apps", "Suspended"),
            "resume the resource: kubectl -n shop rollout resume deployment 'it'\\''s'",
            "spec.paused",
        ),
        (
            "a suspended Job",
            resource("Job", "batch", "Suspended"),
            "resume the resource: kubectl -n shop patch job.batch 'it'\\''s' --type merge -p ",
            "'{\"spec\":{\"suspend\":false}}'",
        ),
    ];
    for (name, live, what, command) in cases {
        let advice = advice(live).join("; ");
        assert!(advice.contains(what) && advice.contains(command), "{name}: {advice}");
    }
    let of = |kind: WaitKind, reason: &str| {
        let mut status = waits_as(kind, reason);
        status["applicationStatus"][0]["status"] = "Waiting".into();
        explained(status, &[application("dev", json!({}))]).waits[0].advice.clone()
    };
    let window = of(WaitKind::SyncWindow, "a sync window denies it: no sync at night");
    assert!(window.contains("spec.syncWindows of AppProject default"), "{window}");
    assert!(window.ends_with("wavegate sync -n argocd dev"), "{window}");
    let window = of(
        WaitKind::SyncWindow,
        "a sync window denies it: spec.syncWindows[0] of global project guard (deny) is active",
    );
    assert!(window.contains("spec.syncWindows of AppProject guard"), "{window}");
    let unknown = "a sync window denies it: globalProjects of ConfigMap argocd-cm: global project \
                   guard does not exist";
    let unknown = of(WaitKind::SyncWindow, unknown);
    assert!(unknown.ends_with("edit configmap argocd-cm"), "{unknown}");
    let denied = of(
        WaitKind::Invalid,
        "the application is invalid: application destination server 'x' and namespace \
                     'y' do not match any of the allowed destinations in project 'default'",
    );
    assert!(denied.contains("permit it in spec.destinations"), "{denied}");
    let template = of(WaitKind::Invalid, "the application is invalid: there is no project nope");
    assert!(template.ends_with("kubectl -n argocd edit applicationset shop"), "{template}");
}

#[test]
fn rows_that_are_cut_are_counted_with_the_flag_that_shows_them() {
    let entries: Vec<Value> =
        (0..14).map(|number| entry(&format!("dev-{number:02}"), "1", "Progressing")).collect();
    let applications: Vec<_> =
        (0..14).map(|number| application(&format!("dev-{number:02}"), json!({}))).collect();
    let some = explained(json!({"applicationStatus": entries}), &applications);
    assert_eq!((some.waits.len(), some.more), (10, 4));
    assert!(show(&some).contains("\n… 4 more of them: --all shows them\n"), "{}", show(&some));
    assert!(some.summary.ends_with("(and 13 more)"), "{}", some.summary);
}

/// A watch ended with an error while others of the step went on, or while it was not clear yet
/// what the person's sync does.
#[test]
fn a_held_application_ends_a_watch_when_nothing_else_of_its_step_goes_on_as_st_065() {
    let held = "HeldByPerson: alice synced it to r1; the rollout wants r2";
    let running = "HeldByPerson: alice is syncing it to r1; the rollout wants r2";
    let cases = [
        (held, "Healthy", "Degraded"),
        (held, "Waiting", "Degraded"),
        (held, "Pending", "Progressing"),
        (held, "Progressing", "Progressing"),
        (running, "Healthy", "Progressing"),
        (running, "Progressing", "Progressing"),
    ];
    for (message, other, want) in cases {
        let mut status = waits_as(WaitKind::HeldByPerson, message);
        let mut first = entry("dev", "1", "Waiting");
        first["message"] = message.into();
        status["applicationStatus"] = json!([first, entry("other", "1", other)]);
        status["health"] = json!({"status": "Progressing"});
        let phase = if message == running { "Running" } else { "Succeeded" };
        let dev = application("dev", json!({"operationState": {"phase": phase}}));
        let applications = [dev, application("other", json!({}))];
        let summary = SetSummary::read(&set(status), &applications.into(), None, &[]);
        assert_eq!(summary.health, want, "{message} {other}");
    }
}

/// `HEALTH` of a rollout that a failed Application holds was `Progressing`.
#[test]
fn the_health_of_a_rollout_that_is_stuck_is_degraded() {
    let of = |phase: &str, live: Value, stalled: Value| {
        let mut status = waits_for_dev("x");
        status["applicationStatus"][0]["status"] = phase.into();
        status["health"] = json!({"status": "Progressing"});
        status["rollout"]["stalled"] = stalled;
        SetSummary::read(&set(status), &[application("dev", live)].into(), None, &[]).health
    };
    let failed = || {
        json!({"sync": {"status": "OutOfSync"}, "health": {"status": "Degraded"},
            "operationState": {"phase": "Failed", "operation": {}}})
    };
    assert_eq!(of("Progressing", failed(), Value::Null), "Degraded");
    let mut running = failed();
    running["operationState"]["phase"] = "Running".into();
    assert_eq!(of("Progressing", running, Value::Null), "Progressing", "it is tried again");
    assert_eq!(
        of("Waiting", failed(), Value::Null),
        "Progressing",
        "that is of the revision before"
    );
    let stalled = json!([{"application": "dev", "since": "2026-01-02T03:04:05Z"}]);
    assert_eq!(of("Progressing", json!({}), stalled), "Degraded");
    assert_eq!(of("Progressing", json!({}), Value::Null), "Progressing");
}
