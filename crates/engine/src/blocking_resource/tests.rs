//! Reasons, from the status of an Application.

mod table;

use serde_json::{Value, json};

use super::{Attempt, blocking_of};

fn result(name: &str, status: &str, phase: &str, hook: bool) -> Value {
    json!({"kind": "Job", "name": name, "status": status, "hookPhase": phase,
            "hookType": if hook { "PreSync" } else { "" }, "message": "why"})
}

fn resource(name: &str, sync: &str, health: &str) -> Value {
    json!({"group": "apps", "kind": "Deployment", "namespace": "n", "name": name, "status": sync,
            "health": {"status": health, "message": "so"}})
}

/// An Application with an operation of this phase.
fn application(phase: &str, results: Value, resources: Value) -> Value {
    let operation = json!({"phase": phase, "startedAt": "2026-01-01T00:00:00Z",
            "syncResult": {"resources": results}});
    json!({"status": {"operationState": operation, "resources": resources}})
}

#[test]
fn the_resource_is_found_in_order_of_importance() {
    let ill = json!([
        resource("a", "OutOfSync", "Healthy"),
        resource("b", "Synced", "Progressing"),
        resource("c", "Synced", "Degraded"),
        resource("d", "Synced", "Degraded"),
    ]);
    let failed = json!([result("x", "Synced", "", false), result("y", "SyncFailed", "", false)]);
    let out = json!([resource("a", "OutOfSync", "Healthy")]);
    let running = json!([
        result("done", "Synced", "Succeeded", true),
        result("plain", "Synced", "Running", false),
        result("hook", "", "Running", true),
    ]);
    let waits = json!([{"group": "apps", "kind": "Deployment", "namespace": "n", "name": "b",
            "status": "Synced", "hookPhase": "Running"}]);
    let unknown = json!([result("z", "Synced", "Paused", false)]);
    let cases = [
        ("a failure comes first", "Failed", &failed, &ill, Some(("y", "SyncFailed"))),
        ("of a success it is history", "Succeeded", &failed, &ill, Some(("c", "Degraded"))),
        ("a failed result while it runs", "Running", &failed, &ill, Some(("y", "SyncFailed"))),
        ("a hook before a resource", "Running", &running, &ill, Some(("hook", "Running"))),
        ("the one that the sync waits for", "Running", &waits, &ill, Some(("b", "Progressing"))),
        ("what ran when it failed is over", "Failed", &running, &out, Some(("a", "OutOfSync"))),
        ("an unknown phase runs nothing", "Paused", &running, &out, Some(("a", "OutOfSync"))),
        ("an unknown result runs nothing", "Running", &unknown, &out, Some(("a", "OutOfSync"))),
        ("not synced", "", &json!([]), &out, Some(("a", "OutOfSync"))),
        ("nothing", "", &json!([]), &json!([resource("a", "Synced", "Healthy")]), None),
    ];
    for (why, phase, results, resources, want) in cases {
        let got = blocking_of(&application(phase, results.clone(), resources.clone())).resource;
        let got = got.as_ref().map(|one| (one.name.as_str(), one.status.as_str()));
        assert_eq!(got, want, "{why}");
    }
}

/// A hook that is kept after it failed, and objects whose health is ignored, were named.
#[test]
fn a_resource_that_does_not_count_is_not_named() {
    let mut hook = resource("hook", "", "Degraded");
    hook["hook"] = true.into();
    let list = json!([
        hook,
        resource("ignored", "Synced", "Degraded"),
        resource("lost", "Synced", "Missing"),
        resource("web", "Synced", "Progressing"),
    ]);
    let named = |health: &str| {
        let mut application = application("Succeeded", json!([]), list.clone());
        application["status"]["health"]["status"] = health.into();
        blocking_of(&application).resource.map(|resource| resource.name).unwrap_or_default()
    };
    for (health, want) in [
        ("Progressing", "web"),
        ("Degraded", "ignored"),
        ("Unknown", "ignored"),
        ("Healthy", ""),
        ("", "ignored"),
    ] {
        assert_eq!(named(health), want, "{health}");
    }
}

#[test]
fn the_reason_is_the_operations_the_resources_or_a_conditions() {
    let ill = json!([resource("web", "Synced", "Degraded")]);
    let reason = |phase: &str| {
        let mut application = application(phase, json!([]), ill.clone());
        application["status"]["operationState"]["message"] = "the operation's".into();
        blocking_of(&application).reason
    };
    let own = "Deployment n/web is Degraded: so";
    for (phase, want) in [
        ("Running", "the operation's"),
        ("Terminating", "the operation's"),
        ("Failed", "its sync failed: the operation's"),
        ("Error", "its sync failed: the operation's"),
        ("Succeeded", own),
        ("Paused", own),
    ] {
        assert_eq!(reason(phase), want, "{phase}");
    }
    let condition = json!({"status": {"conditions": [
            {"type": "SharedResourceWarning", "message": "a warning"},
            {"type": "ComparisonError", "message": "cannot read the repository"}]}});
    assert_eq!(blocking_of(&condition).reason, "cannot read the repository");
    assert_eq!(blocking_of(&json!({"status": {"health": {"message": "m"}}})).reason, "m");
    assert_eq!(blocking_of(&Value::Null), super::Blocking::default());
}

#[test]
fn the_reason_names_the_resource_in_the_words_of_its_health() {
    let result = |hook: &str, status: &str, phase: &str, message: &str| {
        json!([{"group": "apps", "kind": "Deployment", "namespace": "n", "name": "web",
                "hookType": hook, "status": status, "hookPhase": phase, "message": message}])
    };
    let resources = |state: &str| match state {
        "OutOfSync" => json!([resource("web", "OutOfSync", "Healthy")]),
        health => json!([resource("web", "Synced", health)]),
    };
    let cases = [
        (
            "the health of now, which a failed sync stored as its message",
            ("Failed", result("", "Synced", "Failed", "old")),
            "Degraded",
            "its sync failed: Deployment n/web is Degraded: so",
        ),
        (
            "it is Healthy by now",
            ("Failed", result("", "Synced", "Failed", "old")),
            "Healthy",
            "its sync failed: Deployment n/web failed: old",
        ),
        (
            "it is Healthy and differs by now",
            ("Failed", result("", "Synced", "Failed", "old")),
            "OutOfSync",
            "its sync failed: Deployment n/web failed: old",
        ),
        (
            "a failure whose words the message has already",
            ("Running", result("", "SyncFailed", "Failed", "for x")),
            "Healthy",
            "Deployment n/web cannot be applied: for x",
        ),
        (
            "a failure without words",
            ("Running", result("", "SyncFailed", "Failed", "")),
            "Healthy",
            "waiting for x; Deployment n/web cannot be applied",
        ),
        (
            "the words of the API server",
            ("Failed", result("", "SyncFailed", "Failed", "denied by a webhook")),
            "Healthy",
            "its sync failed: Deployment n/web cannot be applied: denied by a webhook",
        ),
        (
            "a hook",
            ("Error", result("PostSync", "", "Failed", "backoff limit")),
            "Healthy",
            "its sync failed: PostSync hook Deployment n/web failed: backoff limit",
        ),
        (
            "the resource that a sync waits for",
            ("Running", result("", "Synced", "Running", "created")),
            "Progressing",
            "Deployment n/web is Progressing: so",
        ),
        (
            "a failure that is retried",
            ("Running", result("", "SyncFailed", "Failed", "no")),
            "Healthy",
            "waiting for x; Deployment n/web cannot be applied: no",
        ),
    ];
    for (name, (phase, results), health, want) in cases {
        let mut application = application(phase, results, resources(health));
        application["status"]["operationState"]["message"] = "waiting for x".into();
        assert_eq!(blocking_of(&application).reason, want, "{name}");
    }
    let mut failed = json!([resource("web", "OutOfSync", "Healthy")]);
    failed[0]["kind"] = "ConfigMap".into();
    failed[0]["group"] = "".into();
    let mut application = application("Succeeded", json!([]), failed);
    assert_eq!(blocking_of(&application).reason, "ConfigMap n/web is OutOfSync");
    application["status"]["conditions"] =
        json!([{"type": "ComparisonError", "message": "cannot read the repository"}]);
    assert_eq!(blocking_of(&application).reason, "cannot read the repository");
}

/// A cluster that cannot be read was hidden by the last known health of a resource.
#[test]
fn without_a_comparison_the_error_is_the_reason() {
    let error = json!([{"type": "ComparisonError", "message": "http://far cannot be reached"}]);
    for (sync, want) in [
        ("Unknown", "http://far cannot be reached"),
        ("Synced", "Deployment n/a is Progressing: so"),
    ] {
        let resources = json!([resource("a", "Synced", "Progressing")]);
        let mut application = application("Succeeded", json!([]), resources);
        application["status"]["sync"] = json!({"status": sync});
        application["status"]["conditions"] = error.clone();
        assert_eq!(blocking_of(&application).reason, want, "{sync}");
    }
}

#[test]
fn a_resource_that_nothing_prunes_is_named_with_the_reason() {
    let of_sync = |automated: Value, result: Value, more: Option<Value>| {
        let mut extra = resource("old", "OutOfSync", "Healthy");
        extra["requiresPruning"] = true.into();
        let resources: Vec<Value> = [extra].into_iter().chain(more).collect();
        let mut application = application("Succeeded", result, resources.into());
        application["spec"]["syncPolicy"]["automated"] = automated;
        blocking_of(&application)
    };
    let skipped = |message: &str| {
        json!([{"group": "apps", "kind": "Deployment", "namespace": "n", "name": "old",
                "status": "PruneSkipped", "message": message}])
    };
    let pruned = || json!([{"group": "apps", "kind": "Deployment", "namespace": "n", "name": "old", "status": "Pruned"}]);
    let (on, off) = (json!({"enabled": false, "prune": true}), Value::Null);
    let requires = "ignored (requires pruning)";
    let kept = "Deployment n/old is not in the source any more, and";
    let out = "Deployment n/old is OutOfSync".to_owned();
    for (name, automated, result, want) in [
        ("never synced", &off, json!([]), format!("{kept} pruning is not enabled")),
        ("skipped", &off, skipped(requires), format!("{kept} pruning is not enabled")),
        (
            "a sync by hand without prune",
            &on,
            skipped(requires),
            format!("{kept} the last sync did not prune it"),
        ),
        (
            "its own option",
            &on,
            skipped("ignored (no prune)"),
            format!("{kept} its sync option Prune=false keeps it"),
        ),
        ("a sync will prune it", &on, json!([]), out.clone()),
        ("it is being deleted", &off, pruned(), out),
    ] {
        let blocking = of_sync(automated.clone(), result, None);
        assert_eq!(blocking.reason, want, "{name}");
        // An automated sync may be about to prune what one by hand has left.
        let by_a_person = want.contains("source") && !want.contains("the last sync");
        let found = blocking.resource.is_some_and(|resource| resource.needs_a_person_to_prune());
        assert_eq!(found, by_a_person, "{name}");
    }
    // A dry run has pruned nothing, whatever it says.
    let mut tried =
        application("Succeeded", pruned(), json!([resource("old", "OutOfSync", "Healthy")]));
    tried["status"]["resources"][0]["requiresPruning"] = true.into();
    for (dry_run, want) in [(true, true), (false, false)] {
        tried["status"]["operationState"]["operation"]["sync"]["dryRun"] = dry_run.into();
        let resource = blocking_of(&tried).resource.unwrap();
        assert_eq!(resource.requires_pruning(), want, "dry run {dry_run}");
    }
    let other = resource("other", "OutOfSync", "Healthy");
    let blocking = of_sync(off, json!([]), Some(other));
    assert_eq!(blocking.reason, "Deployment n/other is OutOfSync", "what a sync may change");
}

#[test]
fn a_deletion_to_be_confirmed_and_a_terminated_hook_are_named() {
    let mut old = resource("old", "OutOfSync", "Healthy");
    old["requiresPruning"] = true.into();
    let mut waits = application("Running", json!([]), json!([old]));
    waits["status"]["operationState"]["message"] =
        "waiting for pruning confirmation of apps/Deployment/old and 1 more resource".into();
    assert_eq!(
        blocking_of(&waits).reason,
        "Deployment n/old is not in the source any more, and its deletion has to be confirmed"
    );
    let hook = json!([{"kind": "Job", "name": "migrate", "hookType": "PreSync",
            "hookPhase": "Failed", "message": "Terminated"}]);
    let mut ended = application("Failed", hook, json!([]));
    ended["status"]["operationState"]["message"] = "Operation terminated".into();
    assert_eq!(blocking_of(&ended).reason, "its sync failed: Operation terminated");
}

#[test]
fn an_operation_that_is_retried_names_the_attempt_and_its_time() {
    let failed = || {
        json!([{"kind": "ConfigMap", "namespace": "n", "name": "conf", "status": "SyncFailed",
                "message": "no namespace"}])
    };
    let waits = "one or more objects failed, reason: no namespace. Retrying attempt #1 at 6:53PM.";
    let again = "Retrying operation. Attempt #1";
    let ended = Some("2026-01-01T18:53:04Z");
    let conf = "ConfigMap n/conf cannot be applied: no namespace";
    let cases = [
        ("waits", 3, ended, failed(), waits, format!("attempt 2 of 4 at 18:53:12Z: {conf}")),
        (
            "waits, without a resource",
            3,
            ended,
            json!([]),
            waits,
            "attempt 2 of 4 at 18:53:12Z: one or more objects failed, reason: no namespace"
                .to_owned(),
        ),
        ("no limit", -1, ended, failed(), waits, format!("attempt 2 at 18:53:12Z: {conf}")),
        (
            "waits for nothing else",
            3,
            ended,
            json!([]),
            again,
            "attempt 2 of 4 at 18:53:12Z".to_owned(),
        ),
        ("begins", 3, None, json!([]), again, "attempt 2 of 4 is running".to_owned()),
        ("runs", 3, None, json!([]), "waiting for x", "attempt 2 of 4: waiting for x".to_owned()),
        (
            "runs and waits for a hook",
            3,
            None,
            json!([result("migrate", "", "Running", true)]),
            "waiting for completion of hook /Job/migrate",
            "attempt 2 of 4: PreSync hook Job migrate is Running: why".to_owned(),
        ),
    ];
    for (name, limit, ended, results, message, want) in cases {
        let mut application = application("Running", results, json!([]));
        let state = &mut application["status"]["operationState"];
        state["message"] = message.into();
        state["retryCount"] = 1.into();
        state["finishedAt"] = ended.into();
        state["operation"]["retry"] = json!({"limit": limit, "backoff": {"duration": "8s"}});
        let blocking = blocking_of(&application);
        assert_eq!(blocking.reason, want, "{name}");
        let until = ended.map(|_| "2026-01-01T18:53:12Z".parse().unwrap());
        assert_eq!(blocking.until, until, "{name}");
        application["status"]["operationState"]["phase"] = "Terminating".into();
        assert_eq!(blocking_of(&application).until, None, "{name}: no attempt follows");
    }
}

#[test]
fn an_attempt_is_read_from_the_state_of_an_operation() {
    let state = |retries: i64| json!({"retryCount": retries, "operation": {"retry": {"limit": 2}}});
    let shown = |state: &Value| Attempt::read(state).map(|attempt| attempt.to_string());
    assert_eq!(shown(&state(0)), None, "the first one");
    assert_eq!(shown(&state(1)).as_deref(), Some("attempt 2 of 3"));
    assert_eq!(shown(&Value::Null), None);
}

#[test]
fn the_start_is_that_of_the_wait() {
    let mut waits = application("Running", json!([result("h", "", "Running", true)]), json!([]));
    let since = |application: &Value| blocking_of(application).since.map(|at| at.to_string());
    assert_eq!(since(&waits).as_deref(), Some("2026-01-01T00:00:00Z"), "the operation's start");
    waits["status"]["operationState"]["syncResult"]["resources"][0]["since"] =
        "2026-01-01T00:00:05Z".into();
    assert_eq!(since(&waits).as_deref(), Some("2026-01-01T00:00:05Z"), "the task's");
    let mut ill = application("Succeeded", json!([]), json!([resource("a", "Synced", "Missing")]));
    ill["status"]["health"]["lastTransitionTime"] = "2026-01-01T00:01:00Z".into();
    assert_eq!(since(&ill).as_deref(), Some("2026-01-01T00:01:00Z"), "the Application's health");
}
