use serde_json::{Value, json};

use super::*;

fn application(spec: Value, status: Value) -> Value {
    json!({"metadata": {"name": "web", "namespace": "argocd"}, "spec": spec, "status": status})
}

fn request() -> SyncRequest {
    SyncRequest { username: "ann".to_owned(), id: "1".to_owned(), ..SyncRequest::default() }
}

fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).to_vec()
}

/// A manual operation uses only its own options (SE-304), so they are copied.
#[test]
fn an_operation_has_the_options_and_the_retry_of_the_application() {
    let spec = json!({"source": {"repoURL": "r"}, "syncPolicy": {
        "syncOptions": ["CreateNamespace=true", "Prune=false"], "retry": {"limit": 3},
    }});
    let request = SyncRequest {
        prune: true,
        force: true,
        dry_run: true,
        options: words(["Prune=confirm", "PruneLast=true"]),
        info: words(["ticket=A=1"]),
        revisions: words(["v2"]),
        ..request()
    };
    let want = json!({
        "initiatedBy": {"username": "ann"},
        "info": [{"name": "wavegate-sync", "value": "1"}, {"name": "ticket", "value": "A=1"}],
        "retry": {"limit": 3},
        "sync": {
            "revision": "v2", "prune": true, "dryRun": true,
            "syncStrategy": {"hook": {"force": true}},
            "syncOptions": ["CreateNamespace=true", "Prune=confirm", "PruneLast=true"],
        },
    });
    let made = requested_operation(&application(spec, Value::Null), &request).unwrap();
    assert_eq!(made, want);
    assert!(is_request(&made, "1") && !is_request(&made, "2") && !is_request(&Value::Null, "1"));
    let plain = requested_operation(&application(json!({}), Value::Null), &super::tests::request())
        .unwrap();
    assert_eq!(plain["sync"], json!({}), "nothing is added");
}

#[test]
fn unknown_options_and_resources_are_errors_with_near_matches() {
    let resource = |group: &str, kind: &str, name: &str| json!({"group": group, "kind": kind, "namespace": "shop", "name": name});
    let status = json!({"resources": [
        resource("apps", "Deployment", "web"), resource("", "Service", "web"),
        resource("apps", "Deployment", "db"),
        {"kind": "Namespace", "name": "shop"},
        {"group": "batch", "kind": "Job", "namespace": "shop", "name": "migrate", "hook": true},
    ]});
    let app = application(json!({"source": {"repoURL": "r"}}), status);
    let fail = |request: SyncRequest| requested_operation(&app, &request).unwrap_err().to_string();
    let option = |text: &str| fail(SyncRequest { options: words([text]), ..request() });
    let resource = |text: &str| fail(SyncRequest { resources: words([text]), ..request() });
    let cases = [
        (option("CreateNamspace=true"), "did you mean CreateNamespace=true?"),
        (option("prunelast=TRUE"), "did you mean PruneLast=true?"),
        (option("Prune=maybe"), "did you mean Prune=true?"),
        (option("CreateNamespace"), "did you mean CreateNamespace=true?"),
        (option("x"), "--option x: is not a known sync option"),
        (resource("apps:Deployment:wep"), "no such resource, but apps:Deployment:shop/web,"),
        (resource("batch:Job:migrate"), "no such resource"),
        (resource("Deployment/web"), "must have the form GROUP:KIND:NAME"),
        (resource("apps:Deployment:a/b/c"), "must have the form"),
        (
            fail(SyncRequest { revisions: words(["a", "b"]), ..request() }),
            "2 revisions are given for 1 sources",
        ),
        (fail(SyncRequest { info: words(["=x"]), ..request() }), "NAME=VALUE"),
    ];
    for (message, want) in cases {
        assert!(message.contains(want), "no {want:?} in {message}");
    }
    let chosen = |text: &str| {
        let request = SyncRequest { resources: words([text]), ..request() };
        requested_operation(&app, &request).unwrap()["sync"]["resources"]
            .as_array()
            .unwrap()
            .clone()
    };
    assert_eq!(
        chosen(":Service:web"),
        [json!({"kind": "Service", "name": "web", "namespace": "shop"})]
    );
    assert_eq!(chosen(":Namespace:shop"), [json!({"kind": "Namespace", "name": "shop"})]);
    assert_eq!(chosen("apps:*:shop/*").len(), 2);
    assert_eq!(chosen("*:*:*").len(), 4, "without hooks");
}

#[test]
fn another_revision_is_refused_while_automated_sync_would_undo_it() {
    let with = |automated: Value| {
        let policy = json!({"automated": automated});
        application(
            json!({"source": {"repoURL": "r", "targetRevision": "main"}, "syncPolicy": policy}),
            Value::Null,
        )
    };
    let to = |revision: &str| SyncRequest { revisions: words([revision]), ..request() };
    let error = requested_operation(&with(json!({})), &to("v1")).unwrap_err().to_string();
    assert!(error.contains("would sync back to main"), "{error}");
    assert!(requested_operation(&with(json!({})), &to("main")).is_ok());
    assert!(requested_operation(&with(json!({"enabled": false})), &to("v1")).is_ok());
    let dry = SyncRequest { dry_run: true, ..to("v1") };
    assert!(requested_operation(&with(json!({})), &dry).is_ok());
    let two = json!({"sources": [{"repoURL": "a"}, {"repoURL": "b"}]});
    let both = SyncRequest { revisions: words(["1", "2"]), ..request() };
    let made = requested_operation(&application(two, Value::Null), &both).unwrap();
    assert_eq!(made["sync"], json!({"revisions": ["1", "2"]}));
}

#[test]
fn refusals_say_what_is_running() {
    let state = |phase: &str| {
        json!({"operationState": {
            "phase": phase, "startedAt": "2026-01-02T03:04:05Z", "message": "waiting for healthy state",
            "operation": {"initiatedBy": {"username": "bob"}},
        }})
    };
    let mut app = application(json!({}), state("Succeeded"));
    assert_eq!(operation_refusal(&app), None);
    app["status"] = state("Running");
    let busy = |phase: &str, by: &str, since: &str, message: &str| {
        let [phase, by, since, message] = [phase, by, since, message].map(str::to_owned);
        Some(Refusal::Busy { phase, by, since, message })
    };
    let running = busy("Running", "bob", "2026-01-02T03:04:05Z", "waiting for healthy state");
    assert_eq!(operation_refusal(&app), running);
    app["status"] = state("Failed");
    app["operation"] = json!({"initiatedBy": {"automated": true}, "sync": {}});
    assert_eq!(operation_refusal(&app), busy("", "automated sync", "", ""));
    app["operation"] =
        json!({"initiatedBy": {"automated": true, "username": "a-rollout"}, "sync": {}});
    assert_eq!(operation_refusal(&app), busy("", "a-rollout", "", ""));
    app["operation"] = json!({"sync": {}});
    assert_eq!(operation_refusal(&app), busy("", "", "", ""));
    app["metadata"]["annotations"]["argocd.argoproj.io/skip-reconcile"] = "true".into();
    assert_eq!(operation_refusal(&app), Some(Refusal::Skipped));
    app["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z".into();
    assert_eq!(operation_refusal(&app), Some(Refusal::Deleting));
}

#[test]
fn a_window_that_denies_manual_syncs_is_known_before_the_request() {
    let at: Timestamp = "2026-01-02T12:30:00Z".parse().unwrap();
    let app = application(
        json!({"destination": {"server": "https://kubernetes.default.svc", "namespace": "shop"}}),
        Value::Null,
    );
    let project = |manual: bool| {
        json!({"spec": {"syncWindows": [{
            "kind": "deny", "schedule": "0 12 * * *", "duration": "1h", "clusters": ["in-cluster"],
            "manualSync": manual,
        }]}})
    };
    assert!(!manual_window(&app, &project(false), at).allowed);
    assert!(manual_window(&app, &project(true), at).allowed);
    assert!(manual_window(&app, &Value::Null, at).allowed);
}
