//! Argo CD's own definitions of the three kinds, from ours, which know all of its fields:
//! without the fields and columns that only we have. The API server prunes these fields.

use serde_json::{Value, json};

/// Our fields, by kind.
const OURS: [(&str, &str); 7] = [
    ("ApplicationSet", "/status/rollout"),
    ("Application", "/status/operationState/progress"),
    ("Application", "/status/operationState/syncResult/resources/uid"),
    ("Application", "/status/operationState/syncResult/resources/resourceVersion"),
    ("Application", "/status/operationState/syncResult/resources/since"),
    ("AppProject", "/spec/namespaceResourceWhitelist/name"),
    ("AppProject", "/spec/namespaceResourceBlacklist/name"),
];

/// Argo CD's definitions from `ours`.
pub fn argo_cd(ours: Vec<Value>) -> Vec<Value> {
    ours.into_iter().map(theirs).collect()
}

/// Those of the versions before `name` in the lists of cluster-scoped kinds.
#[allow(dead_code, reason = "also included by tests that need only the newest ones")]
pub fn before_names(mut theirs: Vec<Value>) -> Vec<Value> {
    for definition in theirs.iter_mut().filter(|one| one["spec"]["names"]["kind"] == "AppProject") {
        let schema = &mut definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        for list in ["clusterResourceWhitelist", "clusterResourceBlacklist"] {
            remove(schema, "AppProject", &format!("/spec/{list}/name"));
        }
    }
    theirs
}

/// Those of a version to come, which has more fields in each status and in policies: any.
#[allow(dead_code, reason = "also included by tests that need only the newest ones")]
pub fn newer(mut ours: Vec<Value>) -> Vec<Value> {
    for definition in &mut ours {
        let is_policy = definition["spec"]["names"]["kind"] == "RolloutPolicy";
        for version in definition["spec"]["versions"].as_array_mut().unwrap() {
            let fields = &mut version["schema"]["openAPIV3Schema"]["properties"];
            let opened = if is_policy { &["status", "spec"][..] } else { &["status"][..] };
            for name in opened {
                // Not every kind has a status.
                if let Some(field) = fields.get_mut(name) {
                    open(field);
                }
            }
        }
    }
    ours
}

/// Lets all objects of a schema keep fields that it does not know.
fn open(schema: &mut Value) {
    if let Some(fields) = schema["properties"].as_object_mut() {
        fields.values_mut().for_each(open);
        schema["x-kubernetes-preserve-unknown-fields"] = true.into();
    }
    if schema["items"].is_object() {
        open(&mut schema["items"]);
    }
}

/// Removes a field from a schema; lists are passed through.
fn remove(schema: &mut Value, kind: &str, path: &str) {
    let (parents, field) = path[1..].rsplit_once('/').unwrap();
    let mut node = schema;
    for name in parents.split('/') {
        node = &mut node["properties"][name];
        if node["type"] == "array" {
            node = &mut node["items"];
        }
    }
    let removed = node["properties"].as_object_mut().unwrap().remove(field);
    assert!(removed.is_some(), "{kind}{path} is not defined");
}

/// Kinds that Argo CD does not have are ours under its definitions, too.
fn theirs(mut definition: Value) -> Value {
    definition["apiVersion"] = "apiextensions.k8s.io/v1".into();
    definition["kind"] = "CustomResourceDefinition".into();
    let kind = definition["spec"]["names"]["kind"].as_str().unwrap().to_owned();
    if definition["spec"]["group"] != "argoproj.io" {
        return definition;
    }
    let version = &mut definition["spec"]["versions"][0];
    for (_, path) in OURS.into_iter().filter(|(of, _)| *of == kind) {
        remove(&mut version["schema"]["openAPIV3Schema"], &kind, path);
    }
    let column = |name: &str, path: &str, priority: u8| json!({"name": name, "type": "string", "jsonPath": path, "priority": priority});
    version["additionalPrinterColumns"] = match kind.as_str() {
        "Application" => json!([
            column("Sync Status", ".status.sync.status", 0),
            column("Health Status", ".status.health.status", 0),
            column("Revision", ".status.sync.revision", 10),
            column("Project", ".spec.project", 10),
        ]),
        _ => json!([]),
    };
    definition
}
