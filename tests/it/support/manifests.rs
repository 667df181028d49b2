//! Sets, and the manifests of their Applications.

use serde_json::{Value, json};

use super::World;

/// The server of the cluster that the controller runs in.
pub const IN_CLUSTER: &str = "https://kubernetes.default.svc";

/// A set of Applications, given as `(name, value of the label "env")`, with manifests in
/// `apps/NAME`.
pub fn set(world: &World, name: &str, members: &[(&str, &str)], strategy: &Value) -> Value {
    let elements: Vec<Value> = members
        .iter()
        .map(|(name, env)| json!({ "name": world.tagged(name), "dir": name, "env": env }))
        .collect();
    let mut set = json!({
        "metadata": { "name": name },
        "spec": {
            "goTemplate": true,
            "goTemplateOptions": ["missingkey=error"],
            "generators": [{ "list": { "elements": elements } }],
            "template": {
                "metadata": { "name": "{{.name}}", "labels": { "env": "{{.env}}" } },
                "spec": {
                    "project": "my-project",
                    "source": {
                        "repoURL": world.repository.url(),
                        "targetRevision": "HEAD",
                        "path": "apps/{{.dir}}",
                    },
                    "destination": { "server": IN_CLUSTER, "namespace": world.target },
                },
            },
        },
    });
    if !strategy.is_null() {
        set["spec"]["strategy"] = strategy.clone();
    }
    set
}

/// A RollingSync with one step per `(value of the label "env", maxUpdate)`.
pub fn rolling(steps: &[(&str, Value)]) -> Value {
    let step = |(env, max_update): &(&str, Value)| {
        let mut step =
            json!({ "matchExpressions": [{ "key": "env", "operator": "In", "values": [env] }] });
        if !max_update.is_null() {
            step["maxUpdate"] = max_update.clone();
        }
        step
    };
    let steps: Vec<Value> = steps.iter().map(step).collect();
    json!({ "type": "RollingSync", "rollingSync": { "steps": steps } })
}

/// Members `ENV-00`, `ENV-01`, … of one environment.
pub fn members(env: &str, count: usize) -> Vec<(String, String)> {
    (0..count).map(|number| (format!("{env}-{number:02}"), env.to_owned())).collect()
}

/// The manifests of an Application with one ConfigMap.
pub fn plain(application: &str, version: &str) -> Vec<(String, String)> {
    let text = config_map(application, "config", version, 0);
    vec![(format!("apps/{application}/config.yaml"), text)]
}

/// An Application with a Deployment, which may be annotated to fail.
pub fn with_deployment(application: &str, version: &str, outcome: &str) -> Vec<(String, String)> {
    let text = deployment(application, version, 0, outcome);
    vec![(format!("apps/{application}/deployment.yaml"), text)]
}

/// An Application with a PreSync and a PostSync Job, and three waves: a
/// ConfigMap, a Deployment, a Service.
pub fn with_waves(application: &str, version: &str) -> Vec<(String, String)> {
    let documents = [
        job(application, "pre", "PreSync", version),
        config_map(application, "config", version, -1),
        deployment(application, version, 0, "succeed"),
        service(application, version, 1),
        job(application, "post", "PostSync", version),
    ];
    vec![(format!("apps/{application}/all.yaml"), documents.join("---\n"))]
}

/// An Application with a ConfigMap and a smoke test, a PostSync Job, which may be annotated
/// to fail.
pub fn with_smoke_test(application: &str, version: &str, outcome: &str) -> Vec<(String, String)> {
    let mut smoke: Value =
        serde_json::from_str(&job(application, "smoke", "PostSync", version)).unwrap();
    smoke["metadata"]["annotations"]["simulate.wavegate.dev/outcome"] = outcome.into();
    smoke["spec"]["template"]["metadata"]["annotations"] =
        json!({ "simulate.wavegate.dev/outcome": outcome });
    let documents = [config_map(application, "config", version, 0), text(&smoke)];
    vec![(format!("apps/{application}/all.yaml"), documents.join("---\n"))]
}

/// The annotation with the commit of an object.
pub const VERSION: &str = "example.com/version";

fn text(object: &Value) -> String {
    // JSON is YAML.
    format!("{object:#}\n")
}

fn config_map(application: &str, name: &str, version: &str, wave: i32) -> String {
    text(&json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": format!("{application}-{name}"),
            "annotations": { VERSION: version, "argocd.argoproj.io/sync-wave": wave.to_string() },
        },
        "data": { "version": version },
    }))
}

fn service(application: &str, version: &str, wave: i32) -> String {
    text(&json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {
            "name": application,
            "annotations": { VERSION: version, "argocd.argoproj.io/sync-wave": wave.to_string() },
        },
        "spec": { "selector": { "app": application }, "ports": [{ "port": 80 }] },
    }))
}

fn deployment(application: &str, version: &str, wave: i32, outcome: &str) -> String {
    let simulate = json!({ "simulate.wavegate.dev/outcome": outcome });
    // Short where it matters, so that a failure is detected soon on a server with real
    // controllers; a loaded one takes its time for what succeeds.
    let deadline = if outcome == "succeed" { 600 } else { 5 };
    text(&json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "name": application,
            "annotations": {
                VERSION: version,
                "argocd.argoproj.io/sync-wave": wave.to_string(),
                "simulate.wavegate.dev/outcome": outcome,
            },
        },
        "spec": {
            "replicas": 1,
            "progressDeadlineSeconds": deadline,
            "selector": { "matchLabels": { "app": application } },
            "template": {
                "metadata": { "labels": { "app": application }, "annotations": simulate },
                "spec": { "containers": [{ "name": "main", "image": format!("example.invalid/main:{version}") }] },
            },
        },
    }))
}

fn job(application: &str, name: &str, hook: &str, version: &str) -> String {
    text(&json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {
            "name": format!("{application}-{name}"),
            "annotations": { VERSION: version, "argocd.argoproj.io/hook": hook },
        },
        "spec": {
            "backoffLimit": 0,
            "template": {
                "metadata": { "labels": { "job-of": application } },
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{ "name": "main", "image": "example.invalid/job:1" }],
                },
            },
        },
    }))
}
