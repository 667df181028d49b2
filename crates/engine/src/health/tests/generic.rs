//! The generic assessment, and the choices about it (SE-468, SE-478).

use super::*;

/// A resource of a kind without a rule.
fn custom(parts: Value) -> Value {
    object("example.com/v1", "Backup", parts)
}

fn condition(kind: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": kind, "status": status, "reason": reason, "message": message})
}

fn conditions(list: &[Value]) -> Value {
    custom(json!({"status": {"conditions": list}}))
}

#[test]
fn a_kind_without_a_rule_is_assessed_by_what_it_reports() {
    let ready = || condition("Ready", "True", "Ok", "all is well");
    check(&[
        ("no status", custom(json!({})), None, ""),
        ("an empty status", custom(json!({"status": {}})), None, ""),
        ("a status that is a text", custom(json!({"status": "x"})), None, ""),
        ("ready", conditions(&[ready()]), Some(Healthy), "all is well"),
        (
            "an older generation",
            custom(json!({"metadata": {"generation": 2}, "status": {
                "observedGeneration": 1, "conditions": [ready()]}})),
            Some(Progressing),
            "Waiting for the spec update to be observed",
        ),
        (
            "the default of a definition: never observed",
            custom(json!({"status": {"observedGeneration": -1}})),
            Some(Progressing),
            "Waiting for the spec update to be observed",
        ),
        (
            "a condition of an older generation",
            custom(json!({"metadata": {"generation": 2}, "status": {"conditions": [
                {"type": "Ready", "status": "True", "observedGeneration": 1}]}})),
            Some(Progressing),
            "Waiting for condition Ready of this generation",
        ),
        (
            "one that is False by design is of this generation",
            conditions(&[condition("Active", "False", "NoTraffic", "")]),
            Some(Healthy),
            "",
        ),
        (
            "or False because something is missing",
            conditions(&[condition("Active", "False", "FlavorNotFound", "no flavor a")]),
            Some(Degraded),
            "no flavor a",
        ),
        (
            "unknown is not ready",
            conditions(&[condition("Ready", "Unknown", "", "starting")]),
            Some(Progressing),
            "starting",
        ),
        (
            "not ready yet",
            conditions(&[condition("Ready", "False", "Creating", "")]),
            Some(Progressing),
            "Ready: Creating",
        ),
        (
            "failed",
            conditions(&[condition("Ready", "False", "CreateFailed", "no quota")]),
            Some(Degraded),
            "no quota",
        ),
        (
            "negative polarity",
            conditions(&[condition("Stalled", "True", "x", "gave up"), ready()]),
            Some(Degraded),
            "gave up",
        ),
        (
            "negative polarity, not true",
            conditions(&[condition("Stalled", "False", "", ""), ready()]),
            Some(Healthy),
            "all is well",
        ),
        (
            "work goes on",
            conditions(&[condition("Reconciling", "True", "x", "step 2 of 3"), ready()]),
            Some(Progressing),
            "step 2 of 3",
        ),
        (
            "another condition of known polarity",
            conditions(&[ready(), condition("Synced", "False", "ReconcileError", "denied")]),
            Some(Degraded),
            "denied",
        ),
        (
            "paused",
            conditions(&[condition("Paused", "True", "ByUser", "")]),
            Some(Suspended),
            "Paused: ByUser",
        ),
        (
            "unknown polarity holds nothing",
            conditions(&[condition("Shiny", "False", "Dull", "is dull")]),
            Some(Healthy),
            "",
        ),
        (
            "optional conditions hold nothing",
            conditions(&[ready(), condition("Active", "False", "", "no traffic")]),
            Some(Healthy),
            "all is well",
        ),
        ("a phase", custom(json!({"status": {"phase": "Pending"}})), Some(Progressing), "Pending"),
        (
            "a phase with a message",
            custom(json!({"status": {"phase": "UpdateFailed", "message": "disk is full"}})),
            Some(Degraded),
            "disk is full",
        ),
        ("an unknown phase", custom(json!({"status": {"phase": "Foo"}})), Some(Healthy), ""),
        (
            "a phase beside conditions that are true",
            custom(json!({"status": {"phase": "Updating", "conditions": [ready()]}})),
            Some(Progressing),
            "Updating",
        ),
        (
            "replicas",
            custom(json!({"spec": {"replicas": 3}, "status": {"readyReplicas": 1}})),
            Some(Progressing),
            "Waiting for replicas: readyReplicas is 1 of 3",
        ),
        (
            "ready as a field",
            custom(json!({"status": {"ready": false}})),
            Some(Progressing),
            "Waiting for status.ready",
        ),
        (
            "each parent of a route",
            custom(json!({"status": {"parents": [
                {"conditions": [condition("Accepted", "True", "Accepted", "")]},
                {"conditions": [condition("Accepted", "False", "NotAllowedByListeners", "no")]},
            ]}})),
            Some(Degraded),
            "no",
        ),
        (
            "a group of Kubernetes keeps having no health",
            object("v1", "Namespace", json!({"status": {"phase": "Terminating"}})),
            None,
            "",
        ),
        (
            "deletion goes first",
            custom(json!({"metadata": {"deletionTimestamp": "2024-01-01T00:00:00Z"},
                "status": {"conditions": [ready()]}})),
            Some(Progressing),
            "Pending deletion",
        ),
    ]);
}

#[test]
fn long_messages_are_cut() {
    let long = conditions(&[condition("Ready", "True", "", &"ä".repeat(5000))]);
    assert_eq!(health_of(&long).unwrap().message.chars().count(), 1024);
}

#[test]
fn the_generic_assessment_can_be_switched_off_for_all_and_for_some_kinds() {
    let waiting = conditions(&[condition("Ready", "False", "Creating", "")]);
    let off = Checks { generic: false, ..Checks::default() };
    assert_eq!(off.of(&waiting), None, "SE-478: as with Argo CD");
    assert!(!off.has_check("example.com", "Backup"));
    let certificate = object("cert-manager.io/v1", "Certificate", json!({}));
    assert!(off.of(&certificate).is_some(), "kinds with rules keep them");
    let table = object("karpenter.sh/v1", "NodePool", json!({}));
    assert!(off.of(&table).is_some(), "also those of the table");
    // A kind of Kubernetes has one by its rule, and an Application by the setting (SE-468).
    let all = Checks { applications: true, ..Checks::default() };
    for (group, kind, by_default, with_applications) in [
        ("argoproj.io", "Application", false, true),
        ("argoproj.io", "Sensor", true, true),
        ("app.k8s.io", "Application", true, true),
        ("apps", "Deployment", true, true),
        ("", "ConfigMap", false, false),
    ] {
        let found = (Checks::default().has_check(group, kind), all.has_check(group, kind));
        assert_eq!(found, (by_default, with_applications), "{group}/{kind}");
    }
    for (pattern, excluded) in [
        ("example.com/Backup", true),
        ("*.com/*", true),
        ("example.com/Restore", false),
        ("example.org/Backup", false),
    ] {
        let checks =
            Checks { not_generic: vec![KindPattern::parse(pattern).unwrap()], ..Checks::default() };
        assert_eq!(checks.of(&waiting).is_none(), excluded, "{pattern}");
    }
    for wrong in ["", "Backup", "a/b/c", "/Backup", "a/"] {
        assert!(KindPattern::parse(wrong).is_err(), "{wrong}");
    }
}

/// SE-468: none by default; by the setting that of the status, once no operation runs.
#[test]
fn applications_have_the_health_of_their_status_when_that_is_set() {
    let child = |parts: Value| object("argoproj.io/v1alpha1", "Application", parts);
    let healthy = || json!({"health": {"status": "Healthy"}});
    assert_eq!(health_of(&child(json!({"status": healthy()}))), None);
    let checks = Checks { applications: true, ..Checks::default() };
    let cases = [
        (json!({}), Progressing, "Waiting for the health of the Application to be reported"),
        (json!({"status": healthy()}), Healthy, ""),
        (
            json!({"status": {"health": {"status": "Degraded", "message": "Caused by x"}}}),
            Degraded,
            "Caused by x",
        ),
        (
            json!({"status": healthy(), "operation": {"sync": {}}}),
            Progressing,
            "Waiting for the requested operation to start",
        ),
        (
            json!({"status": {"health": {"status": "Healthy"},
                "operationState": {"phase": "Running", "message": "waiting for wave 1"}}}),
            Progressing,
            "waiting for wave 1",
        ),
        (
            json!({"status": {"health": {"status": "Healthy"},
                "operationState": {"phase": "Succeeded", "message": "done"}}}),
            Healthy,
            "",
        ),
    ];
    for (parts, status, message) in cases {
        let found = checks.of(&child(parts.clone())).unwrap();
        assert_eq!((found.status, found.message.as_str()), (status, message), "{parts}");
    }
}
