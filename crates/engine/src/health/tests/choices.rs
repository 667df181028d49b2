//! Which checks assess an object: scripts, rules, the status of an Application (SE-441, SE-468,
//! SE-480 … SE-485).

use std::sync::Arc;

use jiff::Timestamp;

use super::super::scripts::{Script, ScriptResult, ScriptResults, Scripts};
use super::*;

fn pod(version: &str) -> Value {
    object("v1", "Pod", json!({"metadata": {"uid": "u", "resourceVersion": version}}))
}

/// Checks with a script for Pods, which returned this for version 1 of one.
fn scripted(result: Option<ScriptResult>) -> Checks {
    let script = Script { setting: "s".to_owned(), text: "x".into(), open_libs: false };
    let (scripts, invalid) = Scripts::new([("Pod".to_owned(), script.clone())].into());
    assert_eq!(invalid, [""; 0]);
    let mut results = ScriptResults::default();
    if let Some(result) = result {
        results.insert(script.key(&pod("1")), result);
    }
    Checks { scripts: Arc::new(scripts), results: Arc::new(results), ..Checks::default() }
}

fn read(result: Value) -> Option<ScriptResult> {
    Some(ScriptResult::read(&result, Timestamp::UNIX_EPOCH))
}

/// Who evaluates no scripts sees only what is known.
#[test]
fn without_a_result_the_health_is_not_known_se_480() {
    let healthy = read(json!({"status": "Healthy", "message": "fine"}));
    let deleted = |version: &str| {
        let mut pod = pod(version);
        pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        pod
    };
    let service = object("v1", "Service", json!({}));
    let leaving = Health::new(Progressing, "Pending deletion");
    let fine = Health::new(Healthy, "fine");
    for (name, result, object, want) in [
        ("the script of this version", healthy.clone(), pod("1"), Some(fine)),
        ("of another version", healthy.clone(), pod("2"), None),
        ("none yet", None, pod("1"), None),
        ("no health at all", read(json!({})), pod("1"), None),
        ("a deletion goes before", healthy.clone(), deleted("1"), Some(leaving.clone())),
        ("a deletion is known", None, deleted("2"), Some(leaving)),
        ("another kind has its rule", healthy, service, Some(Health::new(Healthy, ""))),
    ] {
        assert_eq!(scripted(result).known(&object), want, "{name}");
    }
}

#[test]
fn the_error_of_a_script_is_that_of_its_last_result_se_442() {
    let now = Timestamp::UNIX_EPOCH;
    let mut deleted = pod("1");
    deleted["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    let failed = || read(json!({"error": "line 3"}));
    for (name, result, object, want) in [
        ("it failed", failed(), pod("1"), Some("line 3")),
        ("another version", failed(), pod("2"), None),
        ("it was slow", Some(ScriptResult::ended("slow", now)), pod("1"), Some("slow")),
        ("it was not run", Some(ScriptResult::not_run("no process", now)), pod("1"), None),
        ("it returned something", read(json!({"status": "Healthy"})), pod("1"), None),
        ("the object is being deleted", failed(), deleted, None),
        ("a kind without a script", failed(), object("v1", "Service", json!({})), None),
    ] {
        assert_eq!(scripted(result).script_error(&object), want, "{name}");
    }
    let waits = scripted(Some(ScriptResult::not_run("no process", now))).of(&pod("1")).unwrap();
    let message = "the health script cannot be run: no process";
    assert_eq!((waits.status, waits.message.as_str()), (Progressing, message));
}

/// An object that was not read from a server is its own version.
#[test]
fn a_result_is_of_one_object_se_480() {
    let script = Script { setting: "s".to_owned(), text: "x".into(), open_libs: false };
    let of = |uid: &str, version: &str, name: &str| {
        let metadata = json!({"uid": uid, "resourceVersion": version, "name": name});
        script.key(&json!({ "metadata": metadata }))
    };
    assert_eq!(of("u", "1", "a"), of("u", "1", "b"), "the same version of the same object");
    for (name, one, other) in [
        ("another version", of("u", "1", "a"), of("u", "2", "a")),
        ("another object", of("u", "1", "a"), of("v", "1", "a")),
        ("without a version", of("u", "", "a"), of("u", "", "b")),
        ("without a UID", of("", "1", "a"), of("", "1", "b")),
    ] {
        assert_ne!(one, other, "{name}");
    }
    let libs = Script { open_libs: true, ..script.clone() };
    assert_ne!(libs.key(&pod("1")), script.key(&pod("1")));
}

/// SE-468: the setting is about Applications of Argo CD, and about nothing of such a name.
#[test]
fn only_applications_of_argo_have_the_health_of_their_status_se_468() {
    let checks = Checks { applications: true, ..Checks::default() };
    let of = |api_version: &str, kind: &str| {
        let status = json!({"status": {"health": {"status": "Degraded", "message": "m"}}});
        let health = checks.of(&object(api_version, kind, status));
        health.map(|health| (health.status, health.message))
    };
    let degraded = Some((Degraded, "m".to_owned()));
    assert_eq!(of("argoproj.io/v1alpha1", "Application"), degraded);
    assert_ne!(of("argoproj.io/v1alpha1", "AppProject"), degraded);
    assert_ne!(of("example.com/v1", "Application"), degraded);
    // Without a status, what is no Application reports nothing.
    for (api_version, kind) in [("argoproj.io/v1alpha1", "AppProject"), ("a.io/v1", "Application")]
    {
        assert_eq!(checks.of(&object(api_version, kind, json!({}))), None, "{api_version} {kind}");
    }
}

/// By its kind alone, an object has the health of its fields also while it is being deleted.
#[test]
fn the_rule_of_a_kind_is_about_its_fields() {
    let mut service = object("v1", "Service", json!({}));
    service["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    assert_eq!(by_kind(&service).map(|health| health.status), Some(Healthy));
    assert_eq!(health_of(&service).map(|health| health.status), Some(Progressing));
    assert_eq!(by_kind(&object("v1", "ConfigMap", json!({}))), None);
    for (group, kind, want) in
        [("apps", "Deployment", true), ("", "ConfigMap", false), ("example.com", "Thing", true)]
    {
        assert_eq!(has_check(group, kind), want, "{group}/{kind}");
    }
}
