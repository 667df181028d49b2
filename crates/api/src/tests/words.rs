use serde_json::{Value, json};

use super::super::annotations::{self, Cascade, Refresh};
use super::super::hooks::{
    DeletePolicy, HookType, Role, delete_policies, hook_role, without_effect,
};
use super::super::sync_options::{self, SyncOptions};
use super::super::tracking::{self, TrackingId, TrackingMethod};
use super::super::{ResourceKey, conditions, resource_key, time};

/// An object with these annotations.
fn annotated<const N: usize>(annotations: [(&str, &str); N]) -> Value {
    let annotations: serde_json::Map<String, Value> =
        annotations.into_iter().map(|(key, value)| (key.to_owned(), json!(value))).collect();
    json!({"kind": "Job", "metadata": {"annotations": annotations}})
}

const HOOK: &str = annotations::HOOK;
const HELM: &str = annotations::HELM_HOOK;

#[test]
fn waves() {
    // SE-186
    const WAVE: &str = annotations::SYNC_WAVE;
    const WEIGHT: &str = annotations::HELM_HOOK_WEIGHT;
    let cases = [
        (annotated([]), 0),
        (json!({}), 0),
        (json!({"metadata": {"annotations": {WAVE: 3}}}), 0),
        (annotated([(WAVE, "5")]), 5),
        (annotated([(WAVE, "+5")]), 5),
        (annotated([(WAVE, "-5")]), -5),
        (annotated([(WAVE, " 5")]), 0),
        (annotated([(WAVE, "")]), 0),
        (annotated([(WAVE, "1.5")]), 0),
        (annotated([(WAVE, "0x10")]), 0),
        (annotated([(WAVE, "five"), (WEIGHT, "7")]), 7),
        (annotated([(WAVE, "0"), (WEIGHT, "7")]), 0),
        (annotated([(WEIGHT, "-7")]), -7),
        (annotated([(WAVE, "3000000000")]), 3_000_000_000),
        (annotated([(WAVE, "-3000000001")]), -3_000_000_001),
        (annotated([(WAVE, "9223372036854775807")]), i64::MAX),
        (annotated([(WAVE, "-9223372036854775808")]), i64::MIN),
        (annotated([(WAVE, "9223372036854775808"), (WEIGHT, "2")]), 2),
        (annotated([(WAVE, "99999999999999999999"), (WEIGHT, "2")]), 2),
    ];
    for (object, expected) in cases {
        assert_eq!(annotations::sync_wave(&object), expected, "{object}");
    }
}

/// They were ignored in silence.
#[test]
fn misspelt_parts_of_annotations_about_hooks_and_waves_are_found() {
    use annotations::{HOOK_DELETE_POLICY as POLICY, SYNC_WAVE as WAVE};
    let cases: [(&str, &str, &[&str]); 12] = [
        (HOOK, "PreSync", &[]),
        (HOOK, " PostSync ,, PreSync ", &[]),
        (HOOK, "PreSync, PostSnc,presync", &["PostSnc", "presync"]),
        (HOOK, "Skip,PreSync", &[]),
        (POLICY, "HookSucceeded, BeforeHookCreation", &[]),
        (POLICY, "HookSuceeded", &["HookSuceeded"]),
        (POLICY, "hook-failed,HookFailed", &["hook-failed"]),
        (WAVE, "-5", &[]),
        (WAVE, "3000000000", &[]),
        (WAVE, "abc", &["abc"]),
        (WAVE, " 5", &[" 5"]),
        (HELM, "pre-rollback", &[]),
    ];
    for (key, text, expected) in cases {
        let object = annotated([(key, text)]);
        let found = without_effect(&object);
        assert_eq!(found.iter().map(|one| one.part).collect::<Vec<_>>(), expected, "{object}");
        assert!(found.iter().all(|one| one.annotation == key), "{object}");
    }
}

#[test]
fn hooks_and_ordinary_resources() {
    use HookType::{PostDelete, PostSync, PreDelete, PreSync, Sync, SyncFail};
    let hook = |types: &[HookType]| Role::Hook(types.to_vec());
    let cases = [
        // SE-180
        (annotated([]), Role::Resource),
        (annotated([(HOOK, "PreSync")]), hook(&[PreSync])),
        (annotated([(HOOK, " PostSync ,PreSync,, PostSync")]), hook(&[PostSync, PreSync])),
        (
            annotated([(HOOK, "Sync,SyncFail,PreDelete,PostDelete")]),
            hook(&[Sync, SyncFail, PreDelete, PostDelete]),
        ),
        (annotated([(HOOK, "PreSync,Nonsense")]), hook(&[PreSync])),
        // SE-181
        (annotated([(HELM, "pre-install")]), hook(&[PreSync])),
        (annotated([(HELM, "pre-install, pre-upgrade,post-upgrade")]), hook(&[PreSync, PostSync])),
        (annotated([(HELM, "pre-delete,post-delete")]), hook(&[PreDelete, PostDelete])),
        (annotated([(HELM, "crd-install")]), Role::Resource),
        (annotated([(HELM, "test")]), Role::Ignored),
        (annotated([(HELM, "pre-rollback,test-success")]), Role::Ignored),
        (annotated([(HELM, "")]), Role::Ignored),
        (annotated([(HOOK, "PostSync"), (HELM, "pre-install")]), hook(&[PostSync])),
        (annotated([(HOOK, "Nonsense"), (HELM, "pre-install")]), hook(&[PreSync])),
        // SE-182, SE-190
        (annotated([(HOOK, "Skip")]), Role::Skip),
        (annotated([(HOOK, "Skip"), (HELM, "pre-install")]), Role::Skip),
        (annotated([(HOOK, "Skip,Sync")]), hook(&[Sync])),
        // SE-183
        (annotated([(HOOK, "presync")]), Role::Ignored),
        (annotated([(HOOK, "")]), Role::Ignored),
        (annotated([(HOOK, "x"), (HELM, "crd-install")]), Role::Ignored),
    ];
    for (object, expected) in cases {
        assert_eq!(hook_role(&object), expected, "{object}");
    }
    assert!(Role::Ignored.is_hook() && !Role::Skip.is_hook() && !Role::Resource.is_hook());
}

#[test]
fn hook_deletion_policies() {
    // SE-185, V-053 to V-055
    use DeletePolicy::{BeforeHookCreation, HookFailed, HookSucceeded};
    const OURS: &str = annotations::HOOK_DELETE_POLICY;
    const HELMS: &str = annotations::HELM_HOOK_DELETE_POLICY;
    let cases = [
        (annotated([]), vec![BeforeHookCreation]),
        (annotated([(OURS, "hooksucceeded,x")]), vec![BeforeHookCreation]),
        (annotated([(OURS, "HookSucceeded")]), vec![HookSucceeded]),
        (annotated([(OURS, "HookSucceeded, HookFailed")]), vec![HookFailed, HookSucceeded]),
        (
            annotated([(HELMS, "hook-succeeded,before-hook-creation")]),
            vec![BeforeHookCreation, HookSucceeded],
        ),
        (
            annotated([(OURS, "HookFailed"), (HELMS, "hook-succeeded")]),
            vec![HookFailed, HookSucceeded],
        ),
    ];
    for (object, expected) in cases {
        assert_eq!(Vec::from_iter(delete_policies(&object)), expected, "{object}");
    }
}

#[test]
fn options_are_case_sensitive() {
    let object = annotated([(
        annotations::SYNC_OPTIONS,
        " Prune=false,Force=true ,, Prune=false,force=true",
    )]);
    let options = SyncOptions::of_object(&object);
    assert_eq!(options, SyncOptions::from_list(["Prune=false", "Force=true", "force=true"]));
    assert!(options.has(sync_options::PRUNE_FALSE) && options.has(sync_options::FORCE));
    assert!(!options.has("Replace=true") && !options.has("prune=false"));

    // SE-019: the first one is used, and items of a list are not split.
    let list = SyncOptions::from_list([
        "PrunePropagationPolicy=orphan",
        "PrunePropagationPolicy=background",
        " CreateNamespace=true",
        "PrunePropagationPolicyX=foreground",
    ]);
    assert_eq!(list.value("PrunePropagationPolicy"), Some("orphan"));
    assert_eq!(list.value("CreateNamespace"), None);
    assert!(!list.has(sync_options::CREATE_NAMESPACE));
    assert_eq!(SyncOptions::of_object(&json!({})), SyncOptions::default());
}

#[test]
fn tracking_ids() {
    // SE-111, SE-114
    let parsed = |instance: &str, group: &str, kind: &str, namespace: &str, name: &str| {
        let key = ResourceKey::new(group, kind, namespace, name);
        Some(TrackingId { instance: instance.to_owned(), key })
    };
    let cases = [
        ("my-app:/Service:default/svc", parsed("my-app", "", "Service", "default", "svc")),
        (
            "ns_a:rbac.authorization.k8s.io/ClusterRole:default/reader",
            parsed("ns_a", "rbac.authorization.k8s.io", "ClusterRole", "default", "reader"),
        ),
        ("a:g/K:/system:node", parsed("a", "g", "K", "", "system:node")),
        ("a:g/K:n/a:b:c", parsed("a", "g", "K", "n", "a:b:c")),
        ("a", None),
        ("a:g/K", None),
        ("a:K:n/x", None),
        ("a:g/h/K:n/x", None),
        ("a:g/K:x", None),
        ("a:g/K:n/x/y", None),
        ("", None),
    ];
    for (text, expected) in cases {
        let id = TrackingId::parse(text);
        assert_eq!(id, expected, "{text}");
        if let Some(id) = id {
            assert_eq!(id.to_string(), text);
        }
    }
    for (setting, method) in [
        ("", TrackingMethod::Annotation),
        ("annotation", TrackingMethod::Annotation),
        ("other", TrackingMethod::Annotation),
        ("label", TrackingMethod::Label),
        ("annotation+label", TrackingMethod::AnnotationAndLabel),
    ] {
        assert_eq!(TrackingMethod::from_setting(setting), method, "{setting}");
    }
}

#[test]
fn instance_names_and_labels() {
    // SE-005
    assert_eq!(tracking::instance_name("argocd", "a", "argocd"), "a");
    assert_eq!(tracking::instance_name("team", "a", "argocd"), "team_a");
    assert_eq!(tracking::from_instance_name("a", "argocd"), ("argocd", "a"));
    assert_eq!(tracking::from_instance_name("team_a", "argocd"), ("team", "a"));
    // SE-112
    let long = format!("{}-.b", "a".repeat(61));
    for (instance, expected) in [
        ("a", Some("a".to_owned())),
        (long.as_str(), Some("a".repeat(61))),
        ("a--", Some("a".to_owned())),
        ("-_.", None),
        ("", None),
    ] {
        assert_eq!(tracking::instance_label(instance), expected, "{instance}");
    }
}

#[test]
fn annotations_of_an_application() {
    // SE-377
    const REFRESH: &str = annotations::REFRESH;
    assert_eq!(annotations::requested_refresh(&annotated([])), None);
    assert_eq!(
        annotations::requested_refresh(&annotated([(REFRESH, "hard")])),
        Some(Refresh::Hard)
    );
    for word in ["normal", "", "x"] {
        let application = annotated([(REFRESH, word)]);
        assert_eq!(annotations::requested_refresh(&application), Some(Refresh::Normal));
    }
    // SE-380
    for (word, expected) in
        [("1", true), ("T", true), ("True", true), ("tRUE", false), ("yes", false), ("", false)]
    {
        let application = annotated([(annotations::SKIP_RECONCILE, word)]);
        assert_eq!(annotations::is_skipped(&application), expected, "{word}");
    }
    // SE-313
    for (word, expected) in
        [("2026-01-01T00:00:00Z", true), ("2026-01-01T01:00:00+01:00", true), ("true", false)]
    {
        let at =
            annotations::deletion_approved(&annotated([(annotations::DELETION_APPROVED, word)]));
        assert_eq!(at == "2026-01-01T00:00:00Z".parse().ok(), expected, "{word}");
    }
    assert!(annotations::is_kept_by_helm(&annotated([("helm.sh/resource-policy", "keep")])));
    // SE-510, SE-515
    let cases = [
        (json!([]), None),
        (json!(null), None),
        (json!(["other", "pre-delete-finalizer.argocd.argoproj.io"]), None),
        (json!(["resources-finalizer.argocd.argoproj.io"]), Some(Cascade::Foreground)),
        (json!(["resources-finalizer.argocd.argoproj.io/foreground"]), Some(Cascade::Foreground)),
        (
            json!([
                "x",
                "resources-finalizer.argocd.argoproj.io/background",
                "resources-finalizer.argocd.argoproj.io"
            ]),
            Some(Cascade::Background),
        ),
    ];
    for (finalizers, expected) in cases {
        let application = json!({"metadata": {"finalizers": finalizers}});
        assert_eq!(annotations::deletion_cascade(&application), expected, "{application}");
    }
}

#[test]
fn resource_keys() {
    let cases = [
        (
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"namespace": "a", "name": "b"}}),
            Some("apps/Deployment:a/b"),
        ),
        (
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "b"}}),
            Some("/Namespace:/b"),
        ),
        (
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "b-"}}),
            Some("/Pod:/"),
        ),
        (json!({"apiVersion": "v1", "kind": "Pod"}), Some("/Pod:/")),
        (json!({"apiVersion": "v1", "kind": ""}), None),
        (json!({"apiVersion": "v1"}), None),
        (json!("x"), None),
        (json!([1]), None),
    ];
    for (object, expected) in cases {
        let key = ResourceKey::from_object(&object).map(|key| key.tracking());
        assert_eq!(key.as_deref(), expected, "{object}");
    }
    for (parts, shown) in [
        (["apps", "Deployment", "a", "b"], "apps/Deployment a/b"),
        (["", "ConfigMap", "a", "b"], "ConfigMap a/b"),
        (["", "Namespace", "", "b"], "Namespace b"),
    ] {
        let [group, kind, namespace, name] = parts;
        assert_eq!(ResourceKey::new(group, kind, namespace, name).to_string(), shown);
    }
    let key = ResourceKey::new("", "Pod", "", "p").in_namespace("n");
    assert_eq!(key, ResourceKey::new("", "Pod", "n", "p"));
    for (text, parts) in [("v1", ("", "v1")), ("apps/v1", ("apps", "v1")), ("", ("", ""))] {
        assert_eq!(resource_key::split_api_version(text), parts);
    }
}

#[test]
fn times_are_whole_seconds_once_stored() {
    let at: jiff::Timestamp = "2026-01-01T00:00:00.987654321Z".parse().unwrap();
    assert_eq!(time::to_rfc3339(at), "2026-01-01T00:00:00Z");
    assert_eq!(time::from_rfc3339("2026-01-01T00:00:00.987654321Z"), Some(at));
    let before: jiff::Timestamp = "1969-12-31T23:59:58.5Z".parse().unwrap();
    assert_eq!(time::to_rfc3339(before), "1969-12-31T23:59:58Z");
    for text in ["", "now", "2026-01-01", "2026-01-01 00:00"] {
        assert_eq!(time::from_rfc3339(text), None, "{text}");
    }
}

#[test]
fn conditions_that_are_errors() {
    use conditions::application::{COMPARISON_ERROR, ERRORS, SHARED_RESOURCE_WARNING, is_error};
    assert!(is_error(COMPARISON_ERROR) && !is_error(SHARED_RESOURCE_WARNING));
    assert!(ERRORS.iter().all(|type_| type_.ends_with("Error")));
}
