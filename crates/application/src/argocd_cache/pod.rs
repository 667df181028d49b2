//! What is shown of a Pod (CA-322).

use super::facts::requests;
use super::parts::Info;
use wavegate_api::pod::{
    ContainerStatusView, ContainerTerminated, ContainerView, PodView, find_condition,
};

/// The images of all containers, each once.
pub(super) fn images(pod: &PodView) -> Vec<String> {
    let containers = pod.spec.init_containers.iter().chain(&pod.spec.containers);
    let mut images: Vec<String> = containers.map(|container| container.image.clone()).collect();
    images.retain(|image| !image.is_empty());
    images.sort();
    images.dedup();
    images
}

/// Status, node, containers, restarts and requests, in this order. `is_going`: whether it is
/// being deleted.
pub(super) fn info(pod: &PodView, is_going: bool) -> Vec<Info> {
    let Status { reason, ready, total, restarts } = status(pod, is_going);
    let mut all = Vec::new();
    if !reason.is_empty() {
        all.push(Info::new("Status Reason", reason));
    }
    all.push(Info::new("Node", &*pod.spec.node_name));
    all.push(Info::new("Containers", format!("{ready}/{total}")));
    if restarts > 0 {
        all.push(Info::new("Restart Count", restarts.to_string()));
    }
    if !pod.status.has_ended() {
        let requested = requests(pod);
        for resource in ["cpu", "memory"] {
            let amount = requested.get(resource).copied().unwrap_or_default();
            all.push(Info::new(resource, amount.to_string()));
        }
    }
    all
}

struct Status {
    reason: String,
    ready: usize,
    total: usize,
    restarts: i64,
}

/// What `kubectl get pods` shows of a Pod, but that restarts of init containers always count.
fn status(pod: &PodView, is_going: bool) -> Status {
    let PodView { spec, status } = pod;
    let condition = |type_: &str| find_condition(&status.conditions, type_);
    let is_true = |type_: &str| condition(type_).is_some_and(|found| found.status == "True");
    let mut reason = if status.reason.is_empty() { &status.phase } else { &status.reason }.clone();
    if condition("PodScheduled").is_some_and(|found| found.reason == "SchedulingGated") {
        reason = "SchedulingGated".to_owned();
    }
    // One that restarts always runs beside the others.
    let is_always = |init: &&ContainerView| init.restart_policy == "Always";
    let is_sidecar = |status: &ContainerStatusView| {
        let own = spec.init_containers.iter().find(|container| container.name == status.name);
        own.as_ref().is_some_and(is_always)
    };
    let total = spec.containers.len() + spec.init_containers.iter().filter(is_always).count();
    let (mut ready, mut restarts) = (0, 0);

    let mut initializing = None;
    for (at, one) in status.init_container_statuses.iter().enumerate() {
        restarts += one.restart_count;
        if is_sidecar(one) && one.started {
            ready += usize::from(one.ready);
            continue;
        }
        let waiting = one.state.waiting.as_ref().map_or("", |waiting| &waiting.reason);
        initializing = Some(match &one.state.terminated {
            Some(ended) if ended.exit_code == Some(0) => continue,
            Some(ended) => format!("Init:{}", end_of(ended)),
            None if !matches!(waiting, "" | "PodInitializing") => format!("Init:{waiting}"),
            None => format!("Init:{at}/{}", spec.init_containers.len()),
        });
        break;
    }
    match initializing {
        Some(why) if !is_true("Initialized") => reason = why,
        _ => {
            let mut is_running = false;
            for one in status.container_statuses.iter().rev() {
                restarts += one.restart_count;
                let waiting = one.state.waiting.as_ref().map_or("", |waiting| &waiting.reason);
                if !waiting.is_empty() {
                    reason = waiting.to_owned();
                } else if let Some(ended) = &one.state.terminated {
                    reason = end_of(ended);
                } else if one.ready && one.state.running.is_some() {
                    is_running = true;
                    ready += 1;
                }
            }
            if reason == "Completed" && is_running {
                reason = if is_true("Ready") { "Running" } else { "NotReady" }.to_owned();
            }
        }
    }
    if is_going {
        if status.reason == "NodeLost" {
            reason = "Unknown".to_owned();
        } else if !status.has_ended() {
            reason = "Terminating".to_owned();
        }
    }
    Status { reason, ready, total, restarts }
}

/// How a container ended.
fn end_of(ended: &ContainerTerminated) -> String {
    match (ended.reason.as_str(), ended.signal) {
        ("", 0) => format!("ExitCode:{}", ended.exit_code.unwrap_or_default()),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use wavegate_api::read_leniently;

    /// What is shown: the reason, containers, and restarts if there are any.
    fn shown(pod: &Value, is_going: bool) -> String {
        let Status { reason, ready, total, restarts } = status(&read_leniently(pod), is_going);
        format!("{reason} {ready}/{total} {restarts}")
    }

    fn running(name: &str, ready: bool, restarts: i64) -> Value {
        json!({"name": name, "ready": ready, "started": true, "restartCount": restarts,
            "state": {"running": {}}})
    }

    fn ended(name: &str, how: Value) -> Value {
        json!({"name": name, "restartCount": 1, "state": {"terminated": how}})
    }

    fn waiting(name: &str, reason: &str) -> Value {
        json!({"name": name, "restartCount": 2, "state": {"waiting": {"reason": reason}}})
    }

    /// The columns of `kubectl get pods`, by what the containers do (CA-322).
    #[test]
    fn a_pod_shows_what_its_containers_do_ca_322() {
        let conditions = |true_: &[&str]| -> Value {
            true_.iter().map(|one| json!({"type": one, "status": "True"})).collect()
        };
        let pod = |phase: &str, true_: &[&str], init: Value, containers: Value| {
            json!({
                "spec": {"initContainers": [{"name": "i"}, {"name": "s", "restartPolicy": "Always"}],
                    "containers": [{"name": "a"}, {"name": "b"}]},
                "status": {"phase": phase, "conditions": conditions(true_),
                    "initContainerStatuses": init, "containerStatuses": containers},
            })
        };
        let done = ended("i", json!({"exitCode": 0}));
        let up = || json!([done, running("s", true, 3)]);
        let both = || json!([running("a", true, 1), running("b", true, 0)]);
        for (pod, want) in [
            (pod("Pending", &[], json!([]), json!([])), "Pending 0/3 0"),
            (pod("Running", &["Initialized"], up(), both()), "Running 3/3 5"),
            (
                pod("Running", &[], up(), json!([running("a", true, 1), running("b", false, 0)])),
                "Running 2/3 5",
            ),
            // A sidecar that is not ready.
            (pod("Running", &[], json!([done, running("s", false, 0)]), both()), "Running 2/3 2"),
            // The first init container that does not end well, whatever the others do.
            (
                pod("Pending", &[], json!([ended("i", json!({"exitCode": 1}))]), json!([])),
                "Init:ExitCode:1 0/3 1",
            ),
            (
                pod(
                    "Pending",
                    &[],
                    json!([ended("i", json!({"exitCode": 1, "signal": 9}))]),
                    both(),
                ),
                "Init:Signal:9 0/3 1",
            ),
            (
                pod(
                    "Pending",
                    &[],
                    json!([ended("i", json!({"exitCode": 1, "reason": "Error"}))]),
                    both(),
                ),
                "Init:Error 0/3 1",
            ),
            (
                pod(
                    "Pending",
                    &[],
                    json!([waiting("i", "CrashLoopBackOff"), running("s", true, 9)]),
                    both(),
                ),
                "Init:CrashLoopBackOff 0/3 2",
            ),
            (
                pod("Pending", &[], json!([waiting("i", "PodInitializing")]), json!([])),
                "Init:0/2 0/3 2",
            ),
            (pod("Pending", &[], json!([waiting("i", "")]), json!([])), "Init:0/2 0/3 2"),
            // One that is started and runs is no sidecar, without the policy.
            (pod("Pending", &[], json!([running("i", true, 0)]), json!([])), "Init:0/2 0/3 0"),
            // A sidecar that has not started yet.
            (pod("Pending", &[], json!([done, waiting("s", "")]), json!([])), "Init:1/2 0/3 3"),
            // It was initialized before.
            (
                pod("Running", &["Initialized"], json!([waiting("i", "CrashLoopBackOff")]), both()),
                "Running 2/3 3",
            ),
            (
                pod(
                    "Running",
                    &[],
                    up(),
                    json!([running("a", true, 0), waiting("b", "ImagePullBackOff")]),
                ),
                "ImagePullBackOff 2/3 6",
            ),
            (pod("Running", &[], up(), json!([waiting("a", "X"), waiting("b", "Y")])), "X 1/3 8"),
            (
                pod(
                    "Failed",
                    &[],
                    up(),
                    json!([ended("a", json!({"exitCode": 2})), ended("b", json!({"signal": 9}))]),
                ),
                "ExitCode:2 1/3 6",
            ),
            // One has ended well, and another runs.
            (
                pod(
                    "Running",
                    &["Ready"],
                    up(),
                    json!([ended("a", json!({"reason": "Completed"})), running("b", true, 0)]),
                ),
                "Running 2/3 5",
            ),
            (
                pod(
                    "Running",
                    &[],
                    up(),
                    json!([ended("a", json!({"reason": "Completed"})), running("b", true, 0)]),
                ),
                "NotReady 2/3 5",
            ),
            (
                pod(
                    "Running",
                    &["Ready"],
                    up(),
                    json!([ended("a", json!({"reason": "Completed"})), running("b", false, 0)]),
                ),
                "Completed 1/3 5",
            ),
            (
                pod(
                    "Running",
                    &["Ready"],
                    up(),
                    json!([ended("a", json!({"reason": "Error"})), running("b", true, 0)]),
                ),
                "Error 2/3 5",
            ),
        ] {
            assert_eq!(shown(&pod, false), want, "{pod}");
        }
    }

    /// The reason of the Pod comes before its phase, gates before both, and its deletion last.
    #[test]
    fn a_pod_shows_its_own_reason_ca_322() {
        let gate =
            |reason: &str| json!([{"type": "PodScheduled", "status": "False", "reason": reason}]);
        for (status, is_going, want) in [
            (json!({"phase": "Failed", "reason": "Evicted"}), false, "Evicted 0/0 0"),
            (
                json!({"phase": "Pending", "conditions": gate("SchedulingGated")}),
                false,
                "SchedulingGated 0/0 0",
            ),
            (
                json!({"phase": "Pending", "conditions": gate("Unschedulable")}),
                false,
                "Pending 0/0 0",
            ),
            (json!({"phase": "Running"}), true, "Terminating 0/0 0"),
            (json!({"phase": "Running", "reason": "NodeLost"}), true, "Unknown 0/0 0"),
            (json!({"phase": "Running", "reason": "NodeLost"}), false, "NodeLost 0/0 0"),
            (json!({"phase": "Succeeded"}), true, "Succeeded 0/0 0"),
            (json!({"phase": "Failed"}), true, "Failed 0/0 0"),
        ] {
            assert_eq!(shown(&json!({"status": status}), is_going), want, "{status}");
        }
    }

    /// All details in order, and the images once each.
    #[test]
    fn details_of_a_pod_are_listed_ca_322() {
        let mut pod = json!({
            "spec": {"nodeName": "n",
                "initContainers": [{"name": "i", "image": "z"}],
                "containers": [{"name": "a", "image": "x", "resources": {"requests": {"cpu": "100m", "memory": "1Ki"}}},
                    {"name": "b", "image": "z"}, {"name": "c"}]},
            "status": {"phase": "Running", "containerStatuses": [running("a", true, 2)]},
        });
        let lines = |pod: &Value| -> Vec<String> {
            let shown = serde_json::to_value(info(&read_leniently(pod), false)).unwrap();
            let text = |one: &Value| {
                format!("{}={}", one["name"].as_str().unwrap(), one["value"].as_str().unwrap())
            };
            shown.as_array().unwrap().iter().map(text).collect()
        };
        assert_eq!(images(&read_leniently(&pod)), ["x", "z"]);
        let first = ["Status Reason=Running", "Node=n", "Containers=1/3"];
        let requested = ["cpu=100", "memory=1024000"];
        let with = |rest: &[&'static str]| [&first[..], rest].concat();
        assert_eq!(lines(&pod), with(&[&["Restart Count=2"], &requested[..]].concat()));
        pod["status"]["containerStatuses"] = json!([running("a", true, 0)]);
        assert_eq!(lines(&pod), with(&requested));
        pod["status"]["phase"] = "Succeeded".into();
        assert_eq!(lines(&pod), ["Status Reason=Succeeded", "Node=n", "Containers=1/3"]);
        pod["status"] = json!({});
        pod["spec"]["containers"] = json!([]);
        assert_eq!(lines(&pod), ["Node=n", "Containers=0/0", "cpu=0", "memory=0"]);
    }
}
