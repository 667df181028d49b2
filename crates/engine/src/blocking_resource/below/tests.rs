//! The cause of a workload that is not ready, from what is below it.

use serde_json::{Value, json};

use super::{Below, has_pods, suspect_pods, workload_cause};

fn owned(kind: &str, name: &str, owner: &str, rest: Value) -> Value {
    let mut object = rest;
    object["kind"] = kind.into();
    let metadata = &mut object["metadata"];
    metadata["namespace"] = "shop".into();
    metadata["name"] = name.into();
    metadata["uid"] = format!("uid-{name}").into();
    metadata["ownerReferences"] = json!([{"uid": owner}]);
    object
}

fn deployment() -> Value {
    json!({"kind": "Deployment", "metadata": {"namespace": "shop", "name": "web", "uid": "uid-web"}, "spec": {"replicas": 2}})
}

fn replica_set(name: &str, revision: u32) -> Value {
    let annotations = json!({"deployment.kubernetes.io/revision": revision.to_string()});
    owned(
        "ReplicaSet",
        name,
        "uid-web",
        json!({"metadata": {"annotations": annotations}, "spec": {"replicas": 2}}),
    )
}

/// A Pod of the newest ReplicaSet.
fn pod(name: &str, status: Value) -> Value {
    let probe = json!([{"name": "main", "readinessProbe": {}}]);
    owned("Pod", name, "uid-new", json!({"spec": {"containers": probe}, "status": status}))
}

fn container(state: Value) -> Value {
    json!({"phase": "Pending", "containerStatuses": [{"name": "main", "ready": false, "state": state}]})
}

fn waiting(reason: &str, message: &str) -> Value {
    container(json!({"waiting": {"reason": reason, "message": message}}))
}

fn event(object: &str, reason: &str, message: &str, at: &str) -> Value {
    json!({"type": "Warning", "reason": reason, "message": message, "lastTimestamp": at,
        "involvedObject": {"uid": format!("uid-{object}")}})
}

fn ready() -> Value {
    json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]})
}

fn below(pods: Vec<Value>, events: Vec<Value>) -> Below {
    Below {
        workload: deployment(),
        replica_sets: vec![replica_set("old", 1), replica_set("new", 2)],
        pods,
        events,
    }
}

fn said(below: &Below) -> String {
    workload_cause(below).map(|cause| cause.to_string()).unwrap_or_default()
}

#[test]
fn the_pod_says_why_in_the_words_of_the_cluster() {
    let exit = |code: i64, reason: &str, message: &str| json!({"terminated": {"exitCode": code, "reason": reason, "message": message}});
    let mut crash = waiting("CrashLoopBackOff", "back-off 10s");
    crash["containerStatuses"][0]["lastState"] =
        exit(137, "OOMKilled", "one\ntwo\n\nthree\nfour\nfive\nsix\n");
    let mut init = waiting("PodInitializing", "");
    init["initContainerStatuses"] = json!([{"name": "wait", "state": {"waiting": {"reason": "ErrImagePull", "message": "no"}}}]);
    let mut failed = container(exit(3, "Error", "cannot reach the database"));
    failed["phase"] = "Failed".into();
    let unscheduled = json!({"phase": "Pending", "conditions": [{"type": "PodScheduled",
        "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available"}]});
    let running = container(json!({"running": {}}));
    let gate = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "False",
        "reason": "ReadinessGatesNotReady", "message": "the gate x is not True"}]});
    let evicted =
        json!({"phase": "Failed", "reason": "Evicted", "message": "The node was low on memory"});
    let cases = [
        (
            "an image",
            waiting("ImagePullBackOff", "Back-off pulling image \"a\""),
            "container main: ImagePullBackOff: Back-off pulling image \"a\"",
        ),
        (
            "a crash, with the last lines of what it said",
            crash,
            "container main: CrashLoopBackOff: back-off 10s; it exited with code 137 (OOMKilled): two; three; four; five; six",
        ),
        ("an init container", init, "container wait: ErrImagePull: no"),
        (
            "a Pod of a Job",
            failed,
            "container main: Error: it exited with code 3: cannot reach the database",
        ),
        ("no node", unscheduled, "Unschedulable: 0/3 nodes are available"),
        (
            "a probe without an Event",
            running,
            "container main: Unhealthy: it runs, and its readiness probe does not succeed",
        ),
        ("a gate", gate, "ReadinessGatesNotReady: the gate x is not True"),
        ("an eviction", evicted, "Evicted: The node was low on memory"),
        ("it starts", waiting("ContainerCreating", ""), "container main: ContainerCreating"),
    ];
    for (name, status, want) in cases {
        let found = below(vec![pod("a", status)], Vec::new());
        assert_eq!(said(&found), format!("Pod shop/a: {want}"), "{name}");
    }
}

#[test]
fn the_latest_event_says_what_the_status_does_not() {
    let events = vec![
        event("a", "Unhealthy", "Readiness probe failed: 500", "2026-01-01T00:00:01Z"),
        event("a", "Unhealthy", "Readiness probe failed: 503", "2026-01-01T00:00:02Z"),
        event("b", "Unhealthy", "of another Pod", "2026-01-01T00:00:09Z"),
    ];
    let running = container(json!({"running": {}}));
    let probe = below(vec![pod("a", running)], events);
    assert_eq!(said(&probe), "Pod shop/a: Unhealthy: Readiness probe failed: 503");
    let mount = vec![event("a", "FailedMount", "secret \"x\" not found", "2026-01-01T00:00:01Z")];
    let starting = below(vec![pod("a", waiting("ContainerCreating", ""))], mount);
    assert_eq!(said(&starting), "Pod shop/a: FailedMount: secret \"x\" not found");
}

#[test]
fn the_worst_pod_of_the_newest_version_counts_and_its_likes_are_counted() {
    let image = || waiting("ImagePullBackOff", "no");
    let mut gone = pod("gone", waiting("CrashLoopBackOff", "being deleted"));
    gone["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    let mut old = pod("old-1", waiting("CrashLoopBackOff", "of the version before"));
    old["metadata"]["ownerReferences"] = json!([{"uid": "uid-old"}]);
    let pods = vec![
        old,
        gone,
        pod("fine", ready()),
        pod("z", waiting("ContainerCreating", "")),
        pod("y", image()),
        pod("x", image()),
    ];
    let found = below(pods, Vec::new());
    assert_eq!(said(&found), "Pod shop/x (and 1 more): container main: ImagePullBackOff: no");
    let names: Vec<&Value> =
        suspect_pods(&found).into_iter().map(|pod| &pod["metadata"]["name"]).collect();
    assert_eq!(names, ["y", "x", "z"]);
    assert_eq!(workload_cause(&below(vec![pod("fine", ready())], Vec::new())), None);
}

/// A StatefulSet waits for a Pod of an older revision that never becomes ready, and nothing was
/// named.
#[test]
fn a_pod_of_an_older_revision_that_holds_a_stateful_set_is_named() {
    let of = |name: &str, revision: &str, status: Value| {
        let labels = json!({"controller-revision-hash": revision});
        owned("Pod", name, "uid-web", json!({"metadata": {"labels": labels}, "status": status}))
    };
    let crash = || waiting("CrashLoopBackOff", "no");
    let starts = || waiting("ContainerCreating", "");
    let old = || of("web-1", "a", crash());
    let set = |spec: Value, pods: Vec<Value>| {
        let mut workload = deployment();
        workload["kind"] = "StatefulSet".into();
        workload["status"] = json!({"updateRevision": "b"});
        workload["spec"] = spec;
        workload["spec"]["replicas"] = 2.into();
        Below { workload, pods, ..Below::default() }
    };
    let older = "Pod shop/web-1 of an older revision: container main: CrashLoopBackOff: no";
    let plainly = "Pod shop/web-1: container main: CrashLoopBackOff: no";
    let newer = "Pod shop/web-0 (and 1 more): container main: CrashLoopBackOff: no";
    let partition = json!({"updateStrategy": {"rollingUpdate": {"partition": 2}}});
    let parallel = json!({"podManagementPolicy": "Parallel"});
    for (name, spec, other, want) in [
        ("the newer ones are ready", json!({}), of("web-0", "b", ready()), older),
        ("the newer ones only start", json!({}), of("web-0", "b", starts()), older),
        ("a newer one says why", json!({}), of("web-0", "b", crash()), newer),
        ("it would come again", partition, of("web-0", "b", ready()), plainly),
        ("it is replaced", parallel, of("web-0", "b", ready()), plainly),
    ] {
        let found = set(spec, vec![old(), other]);
        assert_eq!(said(&found), want, "{name}");
        assert_eq!(workload_cause(&found).unwrap().has_to_be_deleted, want == older, "{name}");
    }
    let fine = set(json!({}), vec![of("web-1", "a", ready()), of("web-0", "b", ready())]);
    assert_eq!(said(&fine), "");
    // All of its Pods count: an Event from before is no cause while none is missing.
    let mut found = set(json!({}), vec![of("web-1", "a", ready()), of("web-0", "b", starts())]);
    found.events = vec![event("web", "FailedCreate", "quota", "2026-01-01T00:00:01Z")];
    assert_eq!(said(&found), "Pod shop/web-0: container main: ContainerCreating");
}

#[test]
fn pods_that_cannot_be_created_are_a_cause() {
    let quota = "pods \"web-\" is forbidden: exceeded quota: small";
    let mut found = below(Vec::new(), Vec::new());
    found.replica_sets[1]["status"] = json!({"conditions": [{"type": "ReplicaFailure",
        "status": "True", "reason": "FailedCreate", "message": quota}]});
    let want = format!("ReplicaSet shop/new: FailedCreate: {quota}");
    assert_eq!(said(&found), want);
    found.pods = vec![pod("a", waiting("ContainerCreating", ""))];
    assert_eq!(said(&found), want, "a Pod that starts says less");
    found.pods = vec![pod("a", waiting("ImagePullBackOff", "no"))];
    assert!(said(&found).starts_with("Pod shop/a"), "{}", said(&found));

    // Kinds without the condition have the Event only, which outlives its cause.
    for (kind, spec, status) in [
        ("StatefulSet", json!({"replicas": 1}), json!({})),
        ("DaemonSet", json!({}), json!({"desiredNumberScheduled": 1})),
        ("Job", json!({"parallelism": 1}), json!({})),
    ] {
        let mut workload = deployment();
        workload["kind"] = kind.into();
        workload["spec"] = spec;
        workload["status"] = status;
        let events = vec![event("web", "FailedCreate", quota, "2026-01-01T00:00:01Z")];
        let mut found = Below { workload, events, ..Below::default() };
        assert_eq!(said(&found), format!("{kind} shop/web: FailedCreate: {quota}"));
        let mut there = pod("web-0", ready());
        there["metadata"]["ownerReferences"] = json!([{"uid": "uid-web"}]);
        found.pods = vec![there];
        assert_eq!(said(&found), "", "{kind}: its Pod was created since");
        // One of two is not enough.
        for (at, count) in
            [("spec", "replicas"), ("spec", "parallelism"), ("status", "desiredNumberScheduled")]
        {
            if !found.workload[at][count].is_null() {
                found.workload[at][count] = 2.into();
            }
        }
        assert_eq!(said(&found), format!("{kind} shop/web: FailedCreate: {quota}"), "one of two");
    }
}

#[test]
fn odd_input_is_no_cause_and_long_messages_are_cut_at_their_start() {
    let odd = json!({"containerStatuses": "x", "conditions": [1, null], "phase": 7});
    let pods = vec![Value::Null, json!([]), pod("a", odd)];
    let found = Below { pods, ..Below::default() };
    assert!(said(&found).ends_with(": Pending"), "{}", said(&found));
    let long = "x".repeat(5000) + " the end";
    let found = below(vec![pod("a", waiting("CreateContainerError", &long))], Vec::new());
    let message = workload_cause(&found).unwrap().message;
    assert!(message.ends_with("the end") && message.chars().count() == 601, "{message}");
}

#[test]
fn kinds_that_have_pods() {
    for (group, kind, want) in [
        ("apps", "Deployment", true),
        ("apps", "StatefulSet", true),
        ("apps", "DaemonSet", true),
        ("apps", "ReplicaSet", true),
        ("batch", "Job", true),
        ("", "Pod", true),
        ("", "ReplicationController", true),
        ("", "Deployment", false),
        ("batch", "CronJob", false),
        ("argoproj.io", "Rollout", false),
        ("", "Service", false),
    ] {
        assert_eq!(has_pods(group, kind), want, "{group}/{kind}");
    }
}

/// A probe that fails may succeed yet; what no node takes, or no volume, does not start.
#[test]
fn pods_that_cannot_start_come_before_those_that_are_not_ready() {
    let unscheduled = json!({"phase": "Pending", "conditions": [{"type": "PodScheduled",
        "status": "False", "reason": "Unschedulable", "message": "no node"}]});
    let running = || container(json!({"running": {}}));
    let at = "2026-01-01T00:00:01Z";
    let two = |reason: &str| {
        let events = vec![event("a", reason, "m", at)];
        said(&below(vec![pod("a", running()), pod("b", unscheduled.clone())], events))
    };
    assert_eq!(two("Unhealthy"), "Pod shop/b: Unschedulable: no node");
    assert_eq!(two("FailedMount"), "Pod shop/a: FailedMount: m");
}

#[test]
fn a_container_that_runs_waits_for_its_probes() {
    let of = |probes: Value, started: bool| {
        let mut status = container(json!({"running": {}}));
        status["containerStatuses"][0]["started"] = started.into();
        let mut pod = pod("a", status);
        let mut main = json!({"name": "main"});
        main.as_object_mut().unwrap().extend(probes.as_object().unwrap().clone());
        pod["spec"]["containers"] = json!([main]);
        said(&below(vec![pod], Vec::new()))
    };
    let both = || json!({"startupProbe": {}, "readinessProbe": {}});
    for (probes, started, want) in [
        (both(), false, "it runs, and its startup probe has not succeeded yet"),
        (both(), true, "it runs, and its readiness probe does not succeed"),
        (json!({"readinessProbe": {}}), false, "it runs, and its readiness probe does not succeed"),
        (json!({"startupProbe": {}}), true, "it runs and is not ready"),
        (json!({}), false, "it runs and is not ready"),
    ] {
        let want = format!("Pod shop/a: container main: Unhealthy: {want}");
        assert_eq!(of(probes.clone(), started), want, "{probes} {started}");
    }
}

/// Events have their time in one of three places; what is not one is older than all others.
#[test]
fn the_latest_of_events_is_found_wherever_their_time_is() {
    let of = |message: &str, times: Value| {
        let mut event = event("a", "FailedMount", message, "");
        event.as_object_mut().unwrap().extend(times.as_object().unwrap().clone());
        event
    };
    let (early, late) = ("2026-01-01T00:00:01Z", "2026-01-01T00:00:02Z");
    let cases = [
        ("plain", json!({"lastTimestamp": early}), json!({"lastTimestamp": late})),
        (
            "a series",
            json!({"lastTimestamp": early}),
            json!({"series": {"lastObservedTime": late}}),
        ),
        ("an event time", json!({"eventTime": early}), json!({"lastTimestamp": late})),
        (
            "a series goes on after its first time",
            json!({"lastTimestamp": early}),
            json!({"eventTime": "2026-01-01T00:00:00Z", "series": {"lastObservedTime": late}}),
        ),
        ("no time", json!({}), json!({"eventTime": early})),
        ("what is no time", json!({"lastTimestamp": "soon"}), json!({"eventTime": early})),
    ];
    for (name, older, newer) in cases {
        let events = [of("older", older), of("newer", newer)];
        for events in [events.to_vec(), events.iter().rev().cloned().collect()] {
            let starting = below(vec![pod("a", waiting("ContainerCreating", ""))], events);
            assert_eq!(said(&starting), "Pod shop/a: FailedMount: newer", "{name}");
        }
    }
}
