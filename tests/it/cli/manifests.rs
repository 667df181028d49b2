//! Commands on manifests and objects: order, health, diff.

use serde_json::{Value, json};

use super::{folder, in_folder, says, wavegate, with_input};

/// Manifests for every criterion of the order.
const MANIFESTS: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Service, metadata: {name: web, namespace: shop}}
- {apiVersion: v1, kind: Namespace, metadata: {name: shop}}
---
apiVersion: batch/v1
kind: Job
metadata: {generateName: smoke-, namespace: shop, annotations: {argocd.argoproj.io/hook: PostSync}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: migrate, namespace: shop, annotations: {argocd.argoproj.io/hook: PreSync, argocd.argoproj.io/sync-wave: "-1"}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: late, namespace: shop, annotations: {argocd.argoproj.io/sync-wave: "5"}}
"#;

#[test]
fn manifests_are_ordered_by_phase_wave_kind_and_name() {
    let table = "\
PHASE      WAVE   KIND         NAMESPACE   NAME
PreSync    -1     Namespace    -           shop
PreSync    -1     Job          shop        migrate
Sync       0      Service      shop        web
Sync       0      Deployment   shop        web
Sync       5      ConfigMap    shop        late
PostSync   0      Job          shop        smoke-
";
    let run = with_input(&["order", "-f", "-"], MANIFESTS);
    assert_eq!((run.code, run.out.as_str(), run.err.as_str()), (0, table, ""));
    let rows = with_input(&["order", "-f", "-", "-o", "json"], MANIFESTS).json();
    let job = json!({"phase": "PreSync", "wave": -1, "group": "batch", "kind": "Job", "namespace": "shop", "name": "migrate", "hook": true});
    assert_eq!((&rows[1], rows.as_array().unwrap().len()), (&job, 6));

    let prune = with_input(&["order", "--prune", "-f", "-", "-o", "json"], MANIFESTS).json();
    let names: Vec<&str> =
        prune.as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(names[0], "late", "the last wave goes first");
    assert!(!names.contains(&"migrate"), "hooks are not pruned");
}

#[test]
fn a_directory_is_read_in_lexical_order_without_following_links() {
    let map = |wave: u8| {
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: x, annotations: {{argocd.argoproj.io/sync-wave: \"{wave}\"}}}}\n"
        )
    };
    let outside =
        folder(&[("secret.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: outside}\n")]);
    let files = folder(&[
        ("a.yaml", &map(1)),
        ("b/c.yml", &map(2)),
        ("b.json", r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"y"}}"#),
        ("notes.txt", "{"),
    ]);
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(
            in_folder(&outside, "secret.yaml"),
            in_folder(&files, "link.yaml"),
        )
        .unwrap();
        std::os::unix::fs::symlink(outside.path(), in_folder(&files, "up")).unwrap();
    }
    let run = wavegate(&["order", "-f", files.path().to_str().unwrap()]);
    let table = "PHASE   WAVE   KIND        NAMESPACE   NAME\nSync    0      ConfigMap   -           y\nSync    2      ConfigMap   -           x\n";
    assert_eq!(
        (run.code, run.out.as_str()),
        (0, table),
        "of two with one name the last file counts: {}",
        run.err
    );
    assert_eq!(
        run.err.matches("skipped, since symbolic links are not followed").count(),
        2,
        "{}",
        run.err
    );
    let empty = folder(&[("notes.txt", "x")]);
    wavegate(&["order", "-f", empty.path().to_str().unwrap()])
        .fails(2, &["contains no .yaml, .yml, .json or .jsonnet file"]);
    let half = folder(&[("good.yaml", &map(1)), ("values.yaml", "replicas: 3\n")]);
    wavegate(&["order", "-f", half.path().to_str().unwrap()])
        .fails(2, &["values.yaml: line 1: not a Kubernetes object: kind is missing"]);
}

/// SE-467: a ConfigMap has no health.
#[test]
fn health_is_printed_for_each_object() {
    let objects = r#"
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: ns}
spec: {restartPolicy: Always}
status: {phase: Running, conditions: [{type: Ready, status: "True"}]}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: c, namespace: ns}
status: {phase: Lost}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: m}
"#;
    let run = with_input(&["health", "-f", "-", "-o", "json"], objects);
    let row = |kind: &str, namespace: &str, name: &str, status: Value| json!({"group": "", "kind": kind, "namespace": namespace, "name": name, "status": status, "message": ""});
    let want = json!([
        row("Pod", "ns", "p", json!("Healthy")),
        row("PersistentVolumeClaim", "ns", "c", json!("Degraded")),
        row("ConfigMap", "", "m", Value::Null)
    ]);
    assert_eq!((run.code, run.json()), (0, want));
    assert_eq!(with_input(&["health", "-f", "-", "--require-healthy"], objects).code, 1);
    let table = with_input(&["health", "-f", "-"], objects).out;
    assert!(table.starts_with("STATUS     KIND                    NAMESPACE   NAME   MESSAGE\nHealthy    Pod                     ns          p\n"), "{table}");
}

#[test]
fn a_difference_has_exit_code_1_and_defaults_are_ignored() {
    let desired =
        "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {ports: [{port: 80}]}\n";
    let live = "apiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: ns, uid: u, resourceVersion: '4'}\n\
                spec: {type: ClusterIP, ports: [{port: 80, protocol: TCP, targetPort: 80}], sessionAffinity: None}\nstatus: {loadBalancer: {}}\n";
    let config = "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: a}\nspec:\n  ignoreDifferences:\n  - {kind: Service, jsonPointers: [/spec/ports/0/targetPort]}\n";
    let secret = |value: &str| {
        format!("apiVersion: v1\nkind: Secret\nmetadata: {{name: s}}\ndata: {{key: {value}}}\n")
    };
    let files = folder(&[
        ("desired.yaml", desired),
        ("live.yaml", live),
        ("changed.yaml", &desired.replace("port: 80", "port: 80, targetPort: 81")),
        ("config.yaml", config),
        (
            "by-jq.yaml",
            &config.replace(
                "jsonPointers: [/spec/ports/0/targetPort]",
                "jqPathExpressions: ['.spec.ports[] | select(.port == 80) | .targetPort']",
            ),
        ),
        (
            "by-worker.yaml",
            &config.replace(
                "jsonPointers: [/spec/ports/0/targetPort]",
                "jqPathExpressions: ['first(.spec.ports[] | select(.port < 81)) | .targetPort']",
            ),
        ),
        ("typo.yaml", &config.replace("/spec/ports/0/targetPort", "spec")),
        (
            "bad.yaml",
            &config.replace(
                "jsonPointers: [/spec/ports/0/targetPort]",
                "jqPathExpressions: ['.spec[']",
            ),
        ),
        ("empty.yaml", ""),
        ("one.yaml", &secret("b25l")),
        ("two.yaml", &secret("dHdv")),
    ]);
    let diff = |desired: &str, live: &str, more: &[&str]| {
        let (desired, live) = (in_folder(&files, desired), in_folder(&files, live));
        wavegate(&[&["diff", "--desired", &desired, "--live", &live], more].concat())
    };
    let same = diff("desired.yaml", "live.yaml", &[]);
    assert_eq!((same.code, same.out.as_str(), same.err.as_str()), (0, "", ""));
    let changed = diff("changed.yaml", "live.yaml", &[]);
    assert_eq!(changed.code, 1);
    assert!(
        changed.out.starts_with("--- live\n+++ desired\n@@ "),
        "no colour into a pipe: {:?}",
        changed.out
    );
    says(&changed.out, "\n-        \"targetPort\": 80\n+        \"targetPort\": 81\n");
    let report = diff("changed.yaml", "live.yaml", &["-o", "json"]).json();
    assert_eq!(
        (&report["modified"], &report["kind"], &report["changes"][0]["path"]),
        (&json!(true), &json!("Service"), &json!("/spec/ports/0/targetPort"))
    );
    let config = in_folder(&files, "config.yaml");
    assert_eq!(
        diff("changed.yaml", "live.yaml", &["--config", &config]).code,
        0,
        "an ignored difference is none"
    );
    // SE-173: jq, in this process and in one of its own.
    for config in ["by-jq.yaml", "by-worker.yaml"] {
        let by_jq = in_folder(&files, config);
        let ignored = diff("changed.yaml", "live.yaml", &["--config", &by_jq]);
        assert_eq!((ignored.code, ignored.err.as_str()), (0, ""), "{config}");
    }
    let bad = in_folder(&files, "bad.yaml");
    diff("changed.yaml", "live.yaml", &["--config", &bad])
        .fails(2, &["error: cannot use --config: ", "ignoreDifferences"]);
    // SE-172: a pointer that names nothing has no effect.
    let typo = in_folder(&files, "typo.yaml");
    let typo = diff("changed.yaml", "live.yaml", &["--config", &typo]);
    assert_eq!(typo.code, 1);
    assert!(typo.err.contains("\"spec\": a JSON pointer starts with '/'"), "{}", typo.err);
    assert_eq!(diff("desired.yaml", "empty.yaml", &[]).code, 1, "it would be created");
    assert_eq!(diff("empty.yaml", "live.yaml", &[]).code, 1, "it would be pruned");
    diff("empty.yaml", "empty.yaml", &[]).fails(2, &["both are empty"]);
    diff("desired.yaml", "one.yaml", &[])
        .fails(2, &["Service web and Secret s are different objects"]);
    let masked = diff("one.yaml", "two.yaml", &["-o", "json"]);
    assert_eq!(masked.code, 1);
    assert!(!masked.out.contains("b25l") && !masked.out.contains("dHdv"), "{}", masked.out);
}

/// SE-163, SE-170: the ConfigMap `argocd-cm` in the file of `--config` counts, beside an Application
/// or alone.
#[test]
fn a_difference_follows_the_settings_of_argocd_cm_se_163_se_170() {
    let map = |value: &str| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"},
            "data": {"value": value},
        })
        .to_string()
    };
    let settings = |text: &str| {
        let key = "resource.customizations.ignoreDifferences.ConfigMap";
        let data = json!({ key: text });
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "argocd-cm"}, "data": data})
            .to_string()
    };
    let files = folder(&[
        ("desired.json", &map("1")),
        ("live.json", &map("2")),
        ("config.json", &settings("jsonPointers: [/data/value]\n")),
        ("other.json", &settings("jsonPointers: [/data/other]\n")),
        ("typo.json", &settings("jsonPointers: [data]\n")),
        ("wrong.json", &settings("jsonPointers: data\n")),
    ]);
    let diff = |config: &str| {
        let [desired, live, config] =
            ["desired.json", "live.json", config].map(|name| in_folder(&files, name));
        wavegate(&["diff", "--desired", &desired, "--live", &live, "--config", &config])
    };
    assert_eq!(diff("config.json").code, 0);
    assert_eq!(diff("other.json").code, 1);
    diff("wrong.json").fails(2, &["error: cannot use --config: ", "ignoreDifferences.ConfigMap"]);
    // SE-172: it has no effect.
    let typo = diff("typo.json");
    assert_eq!(typo.code, 1);
    assert!(typo.err.contains("\"data\": a JSON pointer starts with '/'"), "{}", typo.err);
    assert_eq!(diff("live.json").code, 1, "no setting is in it");
}

/// A stream is split at its `---` lines: each document may begin with a byte order mark, as in
/// files that were put together (SE-099).
#[test]
fn each_document_may_begin_with_a_byte_order_mark_se_099() {
    let map = |name: &str| format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n");
    for text in [
        format!("\u{feff}{}---\n\u{feff}{}", map("a"), map("b")),
        format!("\u{feff}{}\u{feff}---\n{}", map("a"), map("b")),
        format!("{}---\r\n# c\r\n\u{feff}{}---\n\u{feff}", map("a"), map("b")),
    ] {
        let run = with_input(&["order", "-f", "-", "-o", "json"], &text);
        assert_eq!((run.code, run.err.as_str()), (0, ""), "{text:?}");
        let rows = run.json();
        let names: Vec<&Value> = rows.as_array().unwrap().iter().map(|row| &row["name"]).collect();
        assert_eq!(names, ["a", "b"], "{text:?}");
    }
    // Within a document it is none.
    let run = with_input(&["order", "-f", "-"], format!("{}\u{feff}data: {{}}\n", map("a")));
    assert_eq!(run.code, 2, "{}", run.out);
}

/// Waves are numbers of 64 bits (SE-186).
#[test]
fn waves_have_64_bits_se_186() {
    let waves = ["3000000000", "3000000001", "-3000000000", "9223372036854775807", "1"];
    let map = |(index, wave): (usize, &&str)| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("m{index}"),
            "annotations": {"argocd.argoproj.io/sync-wave": wave}}})
        .to_string()
    };
    let text: Vec<String> = waves.iter().enumerate().map(map).collect();
    let text = text.join("\n---\n");
    let rows = with_input(&["order", "-f", "-", "-o", "json"], &text).json();
    let names: Vec<&Value> = rows.as_array().unwrap().iter().map(|row| &row["name"]).collect();
    assert_eq!(names, ["m2", "m4", "m0", "m1", "m3"]);
    assert_eq!(rows[3]["wave"], 3_000_000_001_i64);
    let rows = with_input(&["order", "--prune", "-f", "-", "-o", "json"], &text).json();
    let names: Vec<&Value> = rows.as_array().unwrap().iter().map(|row| &row["name"]).collect();
    assert_eq!(names, ["m3", "m1", "m0", "m4", "m2"]);
}
