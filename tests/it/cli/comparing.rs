//! What is a difference, and in which order manifests are applied, by the numbers of the
//! specification of the sync engine: on files, as a user tries them.

use serde_json::{Value, json};

use super::{folder, in_folder, wavegate, with_input};

const APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

fn object(api_version: &str, kind: &str, body: &Value) -> Value {
    let mut object = json!({
        "apiVersion": api_version, "kind": kind, "metadata": {"name": "x", "namespace": "web"},
    });
    merge(&mut object, body);
    object
}

fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from.clone(),
    }
}

/// The live object after this one was applied by kubectl.
fn applied(mut live: Value, last: &Value) -> Value {
    live["metadata"]["annotations"][APPLIED] = last.to_string().into();
    live
}

/// Whether the command finds a difference between two objects.
fn differs(row: &str, desired: &Value, live: &Value) -> bool {
    let files = folder(&[("desired.json", &desired.to_string()), ("live.json", &live.to_string())]);
    let (desired, live) = (in_folder(&files, "desired.json"), in_folder(&files, "live.json"));
    let run = wavegate(&["diff", "--desired", &desired, "--live", &live, "-o", "json"]);
    assert!(matches!(run.code, 0 | 1) && run.err.is_empty(), "{row}: {} {}", run.code, run.err);
    let differs = run.code == 1;
    if differs {
        assert_eq!(run.json()["modified"], true, "{row}: {}", run.out);
    }
    differs
}

/// Fields that are only live, what the API server adds, and what means the same are no
/// differences; what was removed from the source is one.
#[test]
fn differences_are_those_of_a_three_way_comparison_se_151_to_se_167() {
    let map = |labels: Value| object("v1", "ConfigMap", &json!({"metadata": {"labels": labels}}));
    let deployment = |spec: Value| object("apps/v1", "Deployment", &json!({ "spec": spec }));
    let pod = |fields: Value| {
        let mut container = json!({"name": "main"});
        merge(&mut container, &fields);
        deployment(json!({"template": {"spec": {"containers": [container]}}}))
    };
    let cpu = |cpu: &str| pod(json!({"resources": {"limits": {"cpu": cpu}}}));
    let custom = |spec: Value| object("example.com/v1", "Widget", &json!({ "spec": spec }));
    let secret = |body: Value| object("v1", "Secret", &body);
    let rules =
        |rules: Value| object("rbac.authorization.k8s.io/v1", "Role", &json!({ "rules": rules }));
    let claims = |claim: Value| {
        object("apps/v1", "StatefulSet", &json!({"spec": {"volumeClaimTemplates": [claim]}}))
    };
    let endpoints = |subsets: Value| object("v1", "Endpoints", &json!({ "subsets": subsets }));
    let one = json!({"a": "1"});
    let both = json!({"a": "1", "b": "2"});
    let replicas = json!({"replicas": 5});
    let nulls = json!({"a": null, "b": {"c": null}});
    let claim =
        json!({"metadata": {"name": "d"}, "spec": {"resources": {"requests": {"storage": "1Gi"}}}});
    let mut defaulted = claim.clone();
    merge(
        &mut defaulted,
        &json!({"spec": {"volumeMode": "Filesystem", "storageClassName": "fast"},
            "status": {"phase": "Pending"}}),
    );
    let port = |protocol: Value| json!([{"addresses": [{"ip": "1"}], "ports": [{"port": 1, "protocol": protocol}]}]);
    let rows = [
        ("SE-151 the same", custom(json!({"a": 1})), custom(json!({"a": 1})), false),
        (
            "SE-152 only live",
            map(one.clone()),
            applied(map(both.clone()), &map(one.clone())),
            false,
        ),
        ("SE-152 removed from the source", map(one), applied(map(both.clone()), &map(both)), true),
        ("SE-152 never applied", deployment(json!({})), deployment(replicas.clone()), false),
        (
            "SE-152 was applied",
            deployment(json!({})),
            applied(deployment(replicas.clone()), &deployment(replicas)),
            true,
        ),
        (
            "SE-153 a list of a custom resource",
            custom(json!({"routes": [{"path": "/"}]})),
            custom(json!({"routes": [{"path": "/"}, {"path": "/x"}]})),
            true,
        ),
        ("SE-154 claims", claims(claim), claims(defaulted), false),
        ("SE-155 a quantity", cpu("1000m"), cpu("1"), false),
        ("SE-155 a typo", deployment(json!({"foo": 1})), deployment(json!({})), true),
        ("SE-155 no type", custom(json!({"cpu": "1000m"})), custom(json!({"cpu": "1"})), true),
        ("SE-156 1 and 1.0", custom(json!({"n": 1})), custom(json!({"n": 1.0})), false),
        (
            "SE-160 the time of creation",
            object("example.com/v1", "Widget", &json!({"metadata": {"creationTimestamp": null}})),
            object(
                "example.com/v1",
                "Widget",
                &json!({"metadata": {"creationTimestamp": "2024-01-01T00:00:00Z"}}),
            ),
            false,
        ),
        (
            "SE-161 fields of the server",
            object("example.com/v1", "Widget", &json!({"metadata": {"uid": "a", "generation": 1}})),
            object("example.com/v1", "Widget", &json!({"metadata": {"uid": "b", "generation": 2}})),
            false,
        ),
        ("SE-162 empty", custom(json!({"a": ""})), custom(json!({})), true),
        ("SE-162 null", custom(json!({"a": null})), custom(json!({})), false),
        (
            "SE-162 null of a custom resource and a value of its controller",
            custom(json!({"a": null, "b": {"c": null, "d": 1}})),
            custom(json!({"a": 1, "b": {"c": 2, "d": 1}})),
            false,
        ),
        (
            "SE-162 the same after an apply",
            custom(nulls.clone()),
            applied(custom(json!({"a": 1, "b": {"c": 2}})), &custom(nulls)),
            false,
        ),
        (
            "SE-162 null in place of a value that was applied",
            custom(json!({"b": {"c": null}})),
            applied(custom(json!({"b": {"c": 2}})), &custom(json!({"b": {"c": 2}}))),
            true,
        ),
        (
            "SE-162 null in an element of a list",
            custom(json!({"l": [{"n": "x", "v": null}]})),
            custom(json!({"l": [{"n": "x", "v": 1}]})),
            false,
        ),
        (
            "SE-160 a namespace of a cluster-scoped object",
            object("rbac.authorization.k8s.io/v1", "ClusterRole", &json!({"rules": []})),
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                "metadata": {"name": "x"}, "rules": []}),
            false,
        ),
        (
            "SE-164 stringData",
            secret(json!({"stringData": {"a": "b"}})),
            secret(json!({"data": {"a": "Yg=="}})),
            false,
        ),
        ("SE-165 no rules", rules(json!([])), rules(Value::Null), false),
        ("SE-166 protocol", endpoints(port(Value::Null)), endpoints(port(json!("TCP"))), false),
        (
            "SE-167 imagePullPolicy",
            pod(json!({"image": "x:latest"})),
            pod(json!({"image": "x:latest", "imagePullPolicy": "Always"})),
            false,
        ),
    ];
    for (row, desired, live, want) in rows {
        assert_eq!(differs(row, &desired, &live), want, "{row}");
    }
}

/// The kinds in the order of their application.
const RANKS: [&str; 31] = [
    "Namespace",
    "NetworkPolicy",
    "ResourceQuota",
    "LimitRange",
    "PodSecurityPolicy",
    "PodDisruptionBudget",
    "ServiceAccount",
    "Secret",
    "ConfigMap",
    "StorageClass",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "CustomResourceDefinition",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "Service",
    "DaemonSet",
    "Pod",
    "ReplicationController",
    "ReplicaSet",
    "Deployment",
    "HorizontalPodAutoscaler",
    "StatefulSet",
    "Job",
    "CronJob",
    "IngressClass",
    "Ingress",
    "APIService",
    "Widget",
];

fn ordered(manifests: &[Value], more: &[&str]) -> Vec<(String, i64)> {
    let documents: Vec<String> = manifests.iter().map(Value::to_string).collect();
    let run = with_input(
        &[&["order", "-f", "-", "-o", "json"], more].concat(),
        documents.join("\n---\n"),
    );
    assert_eq!(run.code, 0, "{}", run.err);
    let rows = run.json();
    let row = |row: &Value| {
        let text = |field: &str| row[field].as_str().unwrap_or_default().to_owned();
        (format!("{} {}", text("kind"), text("name")), row["wave"].as_i64().unwrap())
    };
    rows.as_array().unwrap().iter().map(row).collect()
}

/// A kind has its rank in every group; those without one are last, by name (SE-216). A definition
/// is moved before the first object of its kind, into its phase and wave (SE-219), a Namespace
/// before the first one in it (SE-218).
#[test]
fn kinds_have_ranks_and_what_others_need_comes_first_se_216_to_se_219() {
    let of = |kind: &str, name: &str, wave: &str| {
        json!({
            "apiVersion": "example.com/v1", "kind": kind,
            "metadata": {"name": name, "annotations": {"argocd.argoproj.io/sync-wave": wave}},
        })
    };
    let mut manifests: Vec<Value> = RANKS.iter().rev().map(|kind| of(kind, "b", "0")).collect();
    manifests.push(of("Another", "c", "0"));
    manifests.push(of("Xylem", "a", "0"));
    let kinds: Vec<String> = ordered(&manifests, &[]).into_iter().map(|(row, _)| row).collect();
    let mut want: Vec<String> =
        RANKS[..RANKS.len() - 1].iter().map(|kind| format!("{kind} b")).collect();
    want.extend(["Xylem a", "Widget b", "Another c"].map(str::to_owned));
    assert_eq!(kinds, want, "SE-216");

    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com",
            "annotations": {"argocd.argoproj.io/sync-wave": "3"}},
        "spec": {"group": "example.com", "names": {"kind": "Widget"}},
    });
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team",
        "annotations": {"argocd.argoproj.io/sync-wave": "4"}}});
    let mut inside = of("ConfigMap", "inside", "2");
    inside["metadata"]["namespace"] = "team".into();
    let rows = ordered(&[definition, of("Widget", "one", "-1"), namespace, inside], &[]);
    let want = [
        ("CustomResourceDefinition widgets.example.com", -1),
        ("Widget one", -1),
        ("Namespace team", 2),
        ("ConfigMap inside", 2),
    ];
    let want: Vec<(String, i64)> =
        want.into_iter().map(|(row, wave)| (row.to_owned(), wave)).collect();
    assert_eq!(rows, want, "SE-218, SE-219");
}

/// What is pruned goes from the last wave to the first, on the same numbers (SE-210), by the
/// annotations of the live objects (SE-212), and neither a definition nor a Namespace is moved
/// (SE-220).
#[test]
fn objects_are_pruned_in_reverse_se_210_se_212_se_220() {
    let of = |kind: &str, name: &str, wave: &str| {
        json!({
            "apiVersion": "v1", "kind": kind,
            "metadata": {"name": name, "annotations": {"argocd.argoproj.io/sync-wave": wave}},
        })
    };
    let mut inside = of("ConfigMap", "inside", "0");
    inside["metadata"]["namespace"] = "team".into();
    let manifests = [inside, of("Namespace", "team", "1"), of("Secret", "late", "7")];
    let rows: Vec<String> =
        ordered(&manifests, &["--prune"]).into_iter().map(|row| row.0).collect();
    assert_eq!(rows, ["Secret late", "Namespace team", "ConfigMap inside"]);
}

/// SE-260, SE-441: what is being deleted is Progressing, unless it is a hook whose finalizer keeps
/// it until its result is read.
#[test]
fn a_hook_that_is_being_deleted_has_its_own_health_se_260() {
    let job = |finalizers: Value| {
        json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": "x", "namespace": "web", "finalizers": finalizers,
                "deletionTimestamp": "2026-01-02T03:04:05Z"},
            "status": {"conditions": [{"type": "Complete", "status": "True"}]},
        })
    };
    for (finalizers, want, message) in [
        (json!(["argocd.argoproj.io/hook-finalizer"]), "Healthy", ""),
        (json!(["example.com/other"]), "Progressing", "Pending deletion"),
    ] {
        let run = with_input(&["health", "-f", "-", "-o", "json"], job(finalizers).to_string());
        let row = &run.json()[0];
        assert_eq!(row["status"], want, "SE-260: {row}");
        assert!(row["message"].as_str().unwrap().starts_with(message), "SE-441: {row}");
    }
}
