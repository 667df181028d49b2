//! What is shown of a Pod (CA-322).

use serde_json::Value;

use super::facts::requests;
use super::parts::Info;
use wavegate_api::Raw;

/// The images of all containers, each once.
pub(super) fn images(pod: &Value) -> Vec<String> {
    let containers = ["/spec/initContainers", "/spec/containers"];
    let all = containers.iter().flat_map(|list| pod.items(list));
    let mut images: Vec<String> = all.map(|c| c.field("image").to_owned()).collect();
    images.retain(|image| !image.is_empty());
    images.sort();
    images.dedup();
    images
}

/// Status, node, containers, restarts and requests, in this order.
pub(super) fn info(pod: &Value) -> Vec<Info> {
    let Status { reason, ready, total, restarts } = status(pod);
    let mut all = Vec::new();
    if !reason.is_empty() {
        all.push(Info::new("Status Reason", reason));
    }
    all.push(Info::new("Node", pod.text("/spec/nodeName")));
    all.push(Info::new("Containers", format!("{ready}/{total}")));
    if restarts > 0 {
        all.push(Info::new("Restart Count", restarts.to_string()));
    }
    if !matches!(pod.text("/status/phase"), "Succeeded" | "Failed") {
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
fn status(pod: &Value) -> Status {
    let mut reason = match pod.text("/status/reason") {
        "" => pod.text("/status/phase").to_owned(),
        reason => reason.to_owned(),
    };
    let is_gated = pod.items("/status/conditions").iter().any(|condition| {
        condition["type"] == "PodScheduled" && condition["reason"] == "SchedulingGated"
    });
    if is_gated {
        reason = "SchedulingGated".to_owned();
    }
    let spec_of = |status: &Value| {
        let name = status.field("name").to_owned();
        pod.items("/spec/initContainers").iter().find(move |container| container["name"] == *name)
    };
    // One that restarts always runs beside the others.
    let is_sidecar =
        |status: &Value| spec_of(status).is_some_and(|init| init["restartPolicy"] == "Always");
    let inits = pod.items("/spec/initContainers");
    let sidecars = inits.iter().filter(|init| init["restartPolicy"] == "Always").count();
    let total = pod.items("/spec/containers").len() + sidecars;
    let (mut ready, mut restarts) = (0, 0);

    let mut initializing = None;
    for (at, status) in pod.items("/status/initContainerStatuses").iter().enumerate() {
        restarts += status["restartCount"].as_i64().unwrap_or_default();
        if is_sidecar(status) && status["started"] == true {
            if status["ready"] == true {
                ready += 1;
            }
            continue;
        }
        let state = &status["state"];
        let ended = &state["terminated"];
        if ended.is_object() && ended["exitCode"] == 0 {
            continue;
        }
        initializing = Some(if ended.is_object() {
            format!("Init:{}", end_of(ended))
        } else {
            match state["waiting"]["reason"].as_str() {
                Some(why) if !why.is_empty() && why != "PodInitializing" => format!("Init:{why}"),
                _ => format!("Init:{at}/{}", inits.len()),
            }
        });
        break;
    }
    let is_initialized = pod
        .items("/status/conditions")
        .iter()
        .any(|condition| condition["type"] == "Initialized" && condition["status"] == "True");
    match initializing {
        Some(why) if !is_initialized => reason = why,
        _ => {
            let mut is_running = false;
            for status in pod.items("/status/containerStatuses").iter().rev() {
                restarts += status["restartCount"].as_i64().unwrap_or_default();
                let state = &status["state"];
                let (waiting, ended) = (&state["waiting"], &state["terminated"]);
                if !waiting.field("reason").is_empty() {
                    reason = waiting.field("reason").to_owned();
                } else if ended.is_object() {
                    reason = end_of(ended);
                } else if status["ready"] == true && state["running"].is_object() {
                    is_running = true;
                    ready += 1;
                }
            }
            if reason == "Completed" && is_running {
                let is_ready = pod
                    .items("/status/conditions")
                    .iter()
                    .any(|condition| condition["type"] == "Ready" && condition["status"] == "True");
                reason = if is_ready { "Running" } else { "NotReady" }.to_owned();
            }
        }
    }
    if pod.is_deleting() {
        let is_lost = pod.text("/status/reason") == "NodeLost";
        let has_ended = matches!(pod.text("/status/phase"), "Succeeded" | "Failed");
        if is_lost {
            reason = "Unknown".to_owned();
        } else if !has_ended {
            reason = "Terminating".to_owned();
        }
    }
    Status { reason, ready, total, restarts }
}

/// How a container ended.
fn end_of(ended: &Value) -> String {
    match (ended.field("reason"), ended["signal"].as_i64().unwrap_or_default()) {
        ("", 0) => format!("ExitCode:{}", ended["exitCode"].as_i64().unwrap_or_default()),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}
