//! Which objects are hooks, of which phases, and in which waves: as `order` prints it.

use serde_json::{Value, json};

use super::with_input;

const HOOK: &str = "argocd.argoproj.io/hook";
const WAVE: &str = "argocd.argoproj.io/sync-wave";
const HELM_HOOK: &str = "helm.sh/hook";
const WEIGHT: &str = "helm.sh/hook-weight";

fn object(kind: &str, name: &str, annotations: &[(&str, &str)]) -> Value {
    let mut object = json!({
        "apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "web"},
    });
    for (key, value) in annotations {
        object["metadata"]["annotations"][*key] = (*value).into();
    }
    object
}

fn order(objects: &[Value], more: &[&str]) -> Vec<Value> {
    let documents: Vec<String> = objects.iter().map(Value::to_string).collect();
    let arguments = [&["order", "-f", "-", "-o", "json"], more].concat();
    let run = with_input(&arguments, documents.join("\n---\n"));
    assert_eq!(run.code, 0, "{}", run.err);
    run.json().as_array().unwrap().clone()
}

fn text<'a>(row: &'a Value, field: &str) -> &'a str {
    row[field].as_str().unwrap_or_default()
}

/// SE-180, SE-181, SE-182, SE-184, SE-190: a hook runs once in each of its phases; one without a
/// known type is no object of a sync, and neither is one that is skipped.
#[test]
fn the_annotations_of_a_hook_name_its_phases_se_180_to_se_184_se_190() {
    type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a [&'a str]);
    let cases: [Case<'_>; 20] = [
        ("no hook", &[], &["Sync"]),
        ("SE-180 one", &[(HOOK, "PreSync")], &["PreSync"]),
        ("SE-180 trimmed, and once", &[(HOOK, " Sync , ,Sync")], &["Sync"]),
        ("SE-180 an unknown one is dropped", &[(HOOK, "Sync,Garbage")], &["Sync"]),
        ("SE-180 case counts", &[(HOOK, "presync")], &[]),
        ("SE-180 only unknown ones", &[(HOOK, "Garbage")], &[]),
        ("SE-180 a deletion", &[(HOOK, "PreDelete")], &[]),
        ("SE-180 both", &[(HOOK, "PostDelete,PostSync")], &["PostSync"]),
        ("SE-184 two", &[(HOOK, "PostSync,PreSync")], &["PreSync", "PostSync"]),
        ("SE-184 three", &[(HOOK, "SyncFail,Sync,PreSync")], &["PreSync", "Sync", "SyncFail"]),
        ("SE-190 skipped", &[(HOOK, "Skip")], &[]),
        ("SE-182 not skipped", &[(HOOK, "Skip,PreSync")], &["PreSync"]),
        ("SE-181 before", &[(HELM_HOOK, "pre-install,pre-upgrade")], &["PreSync"]),
        ("SE-181 after", &[(HELM_HOOK, "post-upgrade")], &["PostSync"]),
        ("SE-181 a definition", &[(HELM_HOOK, "crd-install")], &["Sync"]),
        ("SE-181 a test", &[(HELM_HOOK, "test")], &[]),
        ("SE-181 a rollback", &[(HELM_HOOK, "pre-rollback")], &[]),
        ("SE-181 a deletion", &[(HELM_HOOK, "post-delete")], &[]),
        ("SE-181 ours counts", &[(HOOK, "Sync"), (HELM_HOOK, "pre-install")], &["Sync"]),
        ("SE-181 ours is none", &[(HOOK, "Garbage"), (HELM_HOOK, "pre-install")], &["PreSync"]),
    ];
    for (case, annotations, want) in cases {
        let rows = order(&[object("ConfigMap", "x", annotations), object("Secret", "y", &[])], &[]);
        let phases: Vec<&str> =
            rows.iter().filter(|row| row["name"] == "x").map(|row| text(row, "phase")).collect();
        assert_eq!(phases, want, "{case}");
        let is_hook = !annotations.is_empty() && !case.contains("a definition");
        for row in rows.iter().filter(|row| row["name"] == "x") {
            assert_eq!(row["hook"], is_hook, "{case}");
        }
    }
}

/// SE-186: a wave is a whole number; what is none is not read, and Helm's weight counts in its
/// place.
#[test]
fn waves_are_whole_numbers_se_186() {
    let cases: [(&[(&str, &str)], i64); 14] = [
        (&[(WAVE, "5")], 5),
        (&[(WAVE, "+3")], 3),
        (&[(WAVE, "-4")], -4),
        (&[(WAVE, "007")], 7),
        (&[(WAVE, "abc")], 0),
        (&[(WAVE, "1.5")], 0),
        (&[(WAVE, " 2")], 0),
        (&[(WAVE, "")], 0),
        (&[(WEIGHT, "5")], 5),
        (&[(WEIGHT, "-5")], -5),
        (&[(WEIGHT, "x")], 0),
        (&[(WAVE, "2"), (WEIGHT, "5")], 2),
        (&[(WAVE, "x"), (WEIGHT, "5")], 5),
        (&[], 0),
    ];
    for (annotations, want) in cases {
        for hook in [false, true] {
            let mut annotations = annotations.to_vec();
            if hook {
                annotations.push((HOOK, "PreSync"));
            }
            let rows = order(&[object("ConfigMap", "x", &annotations)], &[]);
            assert_eq!(rows[0]["wave"], want, "SE-186: {annotations:?}");
        }
    }
}

/// SE-215, SE-592: by phase, wave, kind and name, then by namespace and group, in whatever order
/// the manifests come.
#[test]
fn equal_objects_have_an_order_of_their_own_se_215_se_592() {
    let place = |mut object: Value, namespace: &str, group: &str| {
        object["metadata"]["namespace"] = namespace.into();
        object["apiVersion"] =
            if group.is_empty() { "v1".into() } else { format!("{group}/v1").into() };
        object
    };
    let mut objects = vec![
        object("Job", "late", &[(HOOK, "PostSync"), (WAVE, "-3")]),
        object("Deployment", "first", &[(WAVE, "-1")]),
        object("Secret", "web", &[]),
        object("ConfigMap", "web-2", &[]),
        object("ConfigMap", "web-10", &[]),
        object("ConfigMap", "WEB", &[]),
        object("ConfigMap", "last", &[(WAVE, "1")]),
        object("Job", "early", &[(HOOK, "PreSync"), (WAVE, "5")]),
        object("Job", "failed", &[(HOOK, "SyncFail"), (WAVE, "-9")]),
        place(object("Gadget", "same", &[]), "b", "a.example.com"),
        place(object("Gadget", "same", &[]), "a", "b.example.com"),
        place(object("Gadget", "same", &[]), "a", "a.example.com"),
        place(object("Widget", "aaa", &[]), "z", "example.com"),
    ];
    let want = [
        "PreSync early web ",
        "Sync first web ",
        "Sync web web ",
        "Sync WEB web ",
        "Sync web-10 web ",
        "Sync web-2 web ",
        "Sync aaa z example.com",
        "Sync same a a.example.com",
        "Sync same a b.example.com",
        "Sync same b a.example.com",
        "Sync last web ",
        "PostSync late web ",
        "SyncFail failed web ",
    ];
    for round in 0..objects.len() {
        objects.rotate_left(1);
        if round % 2 == 0 {
            objects.reverse();
        }
        let rows = order(&objects, &[]);
        let row = |row: &Value| {
            let field = |field| text(row, field);
            format!(
                "{} {} {} {}",
                field("phase"),
                field("name"),
                field("namespace"),
                field("group")
            )
        };
        let rows: Vec<String> = rows.iter().map(row).collect();
        assert_eq!(rows, want, "SE-215, SE-592 in round {round}");
    }
}

/// SE-191: no object with the annotation of a hook is pruned.
#[test]
fn hooks_are_not_pruned_se_191() {
    let objects = [
        object("ConfigMap", "plain", &[]),
        object("ConfigMap", "hook", &[(HOOK, "PreSync")]),
        object("ConfigMap", "of-helm", &[(HELM_HOOK, "post-install")]),
    ];
    let rows = order(&objects, &["--prune"]);
    let names: Vec<&str> = rows.iter().map(|row| text(row, "name")).collect();
    assert_eq!(names, ["plain"], "SE-191");
}
