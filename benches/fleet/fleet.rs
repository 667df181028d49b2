//! The ApplicationSet that is rolled out, and the manifests of its Applications.

use serde_json::{Value, json};

use crate::support::manifests::IN_CLUSTER;

/// One step of a rollout: how many Applications, and `maxUpdate`.
#[derive(Clone, Debug)]
pub struct Step {
    pub applications: usize,
    pub max_update: Value,
}

/// Steps of equal size without a limit.
pub fn even(applications: usize, steps: usize) -> Vec<Step> {
    let per_step = applications.div_ceil(steps).max(1);
    let sizes = (0..applications).step_by(per_step).map(|first| per_step.min(applications - first));
    sizes.map(|applications| Step { applications, max_update: Value::Null }).collect()
}

/// The name of an Application, by its place in the rollout.
pub fn name(number: usize) -> String {
    format!("app-{number:05}")
}

/// A set with a RollingSync of these steps. Without `namespace` it is created
/// where the request says.
pub fn set(steps: &[Step], repository: &str, target: &str) -> Value {
    let labels = steps.iter().enumerate();
    let labels = labels.flat_map(|(at, step)| std::iter::repeat_n(at, step.applications));
    let elements: Vec<Value> = labels
        .enumerate()
        // Short, so that 50,000 of them fit into an object of the API server.
        .map(|(number, step)| json!({ "n": format!("{number:05}"), "s": step.to_string() }))
        .collect();
    let steps: Vec<Value> = steps
        .iter()
        .enumerate()
        .map(|(at, step)| {
            let values = [format!("step-{at}")];
            let mut step_of = json!({ "matchExpressions": [{ "key": "step", "operator": "In", "values": values }] });
            if !step.max_update.is_null() {
                step_of["maxUpdate"] = step.max_update.clone();
            }
            step_of
        })
        .collect();
    json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet",
        "metadata": { "name": "fleet" },
        "spec": {
            "goTemplate": true,
            "goTemplateOptions": ["missingkey=error"],
            "generators": [{ "list": { "elements": elements } }],
            "strategy": { "type": "RollingSync", "rollingSync": { "steps": steps } },
            "template": {
                "metadata": { "name": "app-{{.n}}", "labels": { "step": "step-{{.s}}" } },
                "spec": {
                    "project": "default",
                    "source": { "repoURL": repository, "targetRevision": "HEAD", "path": "apps/app-{{.n}}" },
                    "destination": { "server": IN_CLUSTER, "namespace": target },
                },
            },
        },
    })
}

/// Four objects of four kinds on which no controller of the cluster acts, so
/// that a real server does nothing but what it is asked for.
pub fn inert(application: &str) -> [Value; 4] {
    let metadata = json!({ "name": application, "labels": { "app": application } });
    [
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata,
            "data": { "application": application, "currency": "EUR", "settings": "a: 1\nb: 2\n".repeat(20) },
        }),
        json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque",
            "data": { "token": "bm90IGEgc2VjcmV0" },
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": metadata,
            "rules": [{ "apiGroups": [""], "resources": ["configmaps"], "resourceNames": [application], "verbs": ["get"] }],
        }),
        json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": metadata,
            "spec": {
                "podSelector": { "matchLabels": { "app": application } },
                "policyTypes": ["Ingress"],
                "ingress": [{ "ports": [{ "protocol": "TCP", "port": 8080 }] }],
            },
        }),
    ]
}

/// Four objects of which one runs.
pub fn running(application: &str) -> [Value; 4] {
    let metadata = json!({ "name": application, "labels": { "app": application } });
    [
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata,
            "data": { "application": application, "currency": "EUR" },
        }),
        json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata }),
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata,
            "spec": {
                "replicas": 1,
                "selector": { "matchLabels": { "app": application } },
                "template": {
                    "metadata": { "labels": { "app": application } },
                    "spec": {
                        "serviceAccountName": application,
                        "containers": [{ "name": "main", "image": "example.invalid/main:1" }],
                    },
                },
            },
        }),
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": metadata,
            "spec": { "selector": { "app": application }, "ports": [{ "name": "http", "port": 80 }] },
        }),
    ]
}

/// The files of a repository that holds these objects for each Application.
pub fn files(applications: usize, objects: fn(&str) -> [Value; 4]) -> Vec<(String, String)> {
    let file = |number| {
        let name = name(number);
        // JSON is YAML.
        let documents = objects(&name).map(|object| object.to_string());
        (format!("apps/{name}/all.yaml"), documents.join("\n---\n"))
    };
    (0..applications).map(file).collect()
}
