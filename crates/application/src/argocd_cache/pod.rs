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
