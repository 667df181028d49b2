//! The permissions of deploy/rbac.yaml are those that the program needs (AS-506).

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::core::DynamicObject;

use super::arguments::Running;
use super::embedded::Cluster;
use super::*;

/// The rules of the role that is needed without the embedded sync engine.
fn rules() -> Vec<Value> {
    let text = std::fs::read_to_string(repository("deploy/rbac.yaml")).unwrap();
    let documents = wavegate_api::yaml::parse_documents(&text).unwrap();
    let role = documents.into_iter().map(|document| document.value).find(|object| {
        object["kind"] == "ClusterRole" && object["metadata"]["name"] == "wavegate-controller"
    });
    role.unwrap()["rules"].as_array().unwrap().clone()
}

fn allows(rules: &[Value], group: &str, resource: &str, verb: &str) -> bool {
    let has = |rule: &Value, field: &str, text: &str| {
        rule[field].as_array().is_some_and(|list| list.iter().any(|one| one == text))
    };
    rules.iter().any(|rule| {
        has(rule, "apiGroups", group)
            && has(rule, "resources", resource)
            && has(rule, "verbs", verb)
    })
}

#[test]
fn the_role_has_the_permissions_of_as_506() {
    let rules = rules();
    let all = ["get", "list", "watch", "create", "update", "patch", "delete"];
    let read = ["get", "list", "watch"];
    let wanted: [(&str, &str, &[&str]); 13] = [
        ("argoproj.io", "applicationsets", &all),
        ("argoproj.io", "applicationsets/status", &["get", "update", "patch"]),
        ("argoproj.io", "applications", &all),
        ("argoproj.io", "applications/finalizers", &all),
        ("argoproj.io", "appprojects", &read),
        ("wavegate.dev", "rolloutpolicies", &read),
        ("wavegate.dev", "rolloutpolicies/status", &["get", "update", "patch"]),
        ("wavegate.dev", "rolloutruns", &all),
        ("wavegate.dev", "rolloutruns/status", &["get", "update", "patch"]),
        ("", "secrets", &read),
        ("", "configmaps", &read),
        ("events.k8s.io", "events", &["create", "patch"]),
        ("coordination.k8s.io", "leases", &["get", "create", "update"]),
    ];
    for (group, resource, verbs) in wanted {
        for verb in verbs {
            assert!(allows(&rules, group, resource, verb), "{verb} {resource}.{group}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollout_requests_nothing_that_the_role_does_not_allow_as_506() {
    let cluster = Cluster::start().await;
    cluster.knows("default", "https://1").await;
    let args = ["--probe-addr=", "--metrics-addr=", "--webhook-addr=", "--sync-engine=external"];
    let args = [&args[..], &["--enable-progressive-syncs", "--enable-leader-election"]].concat();
    // As in a Pod.
    let environment = [("KUBERNETES_SERVICE_HOST", "127.0.0.1")];
    let running = Running::start(&cluster, &args, &environment);
    let steps = json!([selects(&["a"], Value::Null), selects(&["b"], Value::Null)]);
    cluster.create("ApplicationSet", refreshed_fleet(steps)).await;
    let api = |kind: &str| -> Api<DynamicObject> { cluster.api(kind) };
    let until = Instant::now() + 2 * WAIT;
    let wait = async |what: &str, kind: &str, name: &str| {
        while api(kind).get_opt(name).await.unwrap().is_none() {
            assert!(Instant::now() < until, "{what}: {}", running.log());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    // Both may be created at the same time.
    wait("a is created", "Application", "a").await;
    wait("b is created", "Application", "b").await;
    let elements = json!([{"list": {"elements": [{"name": "a"}]}}]);
    let fewer = Patch::Merge(json!({"spec": {"generators": elements}}));
    api("ApplicationSet").patch("set", &PatchParams::default(), &fewer).await.unwrap();
    // There is no application controller that would remove the finalizers.
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    api("Application").patch("a", &PatchParams::default(), &free).await.unwrap();
    while api("Application").get_opt("b").await.unwrap().is_some() {
        // The template adds the finalizer again until the controller has seen the change.
        let _ = api("Application").patch("b", &PatchParams::default(), &free).await;
        assert!(Instant::now() < until, "b is not deleted: {}", running.log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    api("ApplicationSet").delete("set", &DeleteParams::default()).await.unwrap();
    while api("ApplicationSet").get_opt("set").await.unwrap().is_some() {
        // The template of the set adds the finalizer again until the set is deleted.
        let _ = api("Application").patch("a", &PatchParams::default(), &free).await;
        assert!(Instant::now() < until, "the set is not deleted: {}", running.log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }

    let rules = rules();
    let all_sent = || -> BTreeSet<(String, String, String)> {
        let requests = cluster.server.requests().into_iter();
        requests
            .filter(|request| request.client != "test" && !request.resource.starts_with('/'))
            .map(|request| {
                let subresource = match request.subresource.as_str() {
                    "" => request.resource,
                    sub => format!("{}/{sub}", request.resource),
                };
                let verb = if request.verb == "apply" { "patch".to_owned() } else { request.verb };
                (request.group, subresource, verb)
            })
            .collect()
    };
    for (kind, verb) in [("applications", "create"), ("applications", "delete")]
        .into_iter()
        .chain([("applicationsets/status", "patch"), ("events", "create"), ("leases", "create")])
    {
        // Events are sent beside the rest.
        while !all_sent().iter().any(|(_, sent, with)| sent == kind && with == verb) {
            assert!(Instant::now() < until, "no {verb} of {kind} in {:?}", all_sent());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    for (group, resource, verb) in &all_sent() {
        assert!(allows(&rules, group, resource, verb), "{verb} {resource}.{group} is not allowed");
    }
}
