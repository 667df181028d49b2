//! `health --argocd-cm`: scripts are tried without a cluster (SE-480, SE-482, SE-484).

#![cfg(feature = "lua")]

use super::*;

const CONFIG: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: argocd-cm}
data:
  resource.customizations.health.example.com_Backup: |
    if obj.status == nil then return {status = "Progressing", message = "no status"} end
    return {status = "Healthy", message = "took " .. obj.status.seconds .. " s"}
  resource.customizations.health.Pod: while true do end
  resource.customizations.useOpenLibs.Pod: "perhaps"
  resource.customizations: |
    "*.io/*":
      health.lua: return {status = "Degraded", message = obj.kind:upper()}
      health.lua.useOpenLibs: true
"#;

const OBJECTS: &str = r#"
apiVersion: example.com/v1
kind: Backup
metadata: {name: one}
---
apiVersion: example.com/v1
kind: Backup
metadata: {name: two}
status: {seconds: 90}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: three}
---
apiVersion: v1
kind: Pod
metadata: {name: four}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: five}
"#;

#[test]
fn scripts_of_a_file_are_run() {
    let files = folder(&[("argocd-cm.yaml", CONFIG), ("live.yaml", OBJECTS)]);
    let path = |name: &str| files.path().join(name).to_str().unwrap().to_owned();
    let (config, live) = (path("argocd-cm.yaml"), path("live.yaml"));
    let run = with_input(&["health", "-f", &live, "--argocd-cm", &config, "-o", "json"], "");
    let rows: Vec<Value> = serde_json::from_value(run.json()).unwrap();
    let said = |row: &Value| (row["status"].as_str().map(str::to_owned), row["message"].clone());
    let want = [
        (Some("Progressing"), "no status"),
        (Some("Healthy"), "took 90 s"),
        (Some("Degraded"), "CERTIFICATE"),
        (Some("Unknown"), "the script was stopped after 1000 ms"),
        (None, ""),
    ];
    let want = want.map(|(status, message)| (status.map(str::to_owned), Value::from(message)));
    assert_eq!(rows.iter().map(said).collect::<Vec<_>>(), want);
    assert_eq!(run.code, 0);
    assert!(run.err.contains("useOpenLibs.Pod: \"perhaps\" is not a switch"), "{}", run.err);

    let wrong = with_input(&["health", "-f", &live, "--argocd-cm", &live], "");
    assert!(wrong.code == 0, "the one ConfigMap of a file counts: {}", wrong.err);
    let none = folder(&[("none.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\n")]);
    let none = none.path().join("none.yaml");
    let none = with_input(&["health", "-f", &live, "--argocd-cm", none.to_str().unwrap()], "");
    assert_eq!(none.code, 2);
    assert!(none.err.contains("must contain one ConfigMap"), "{}", none.err);
}
