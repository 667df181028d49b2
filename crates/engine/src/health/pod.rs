//! Pod (SE-465).
//!
//! The meaning of a Pod's state depends on its purpose: a hook that is `Running` has not
//! finished, a server that is `Running` has started.

use serde_json::Value;

use super::read::{condition, count};
use super::status::Health;
use wavegate_api::Raw;
use wavegate_api::annotations::IGNORE_RESTART_POLICY;
use wavegate_api::hooks::hook_role;

/// SE-465, in the order of the specification.
pub(crate) fn pod(object: &Value) -> Health {
    let long_running = is_long_running(object);
    let message = object.text("/status/message");
    if long_running {
        let stuck = stuck_containers(object);
        if !stuck.is_empty() {
            return Health::degraded(stuck.join(", "));
        }
    }
    match object.text("/status/phase") {
        "Pending" => Health::progressing(message),
        "Succeeded" => Health::healthy(message),
        "Failed" if !message.is_empty() => Health::degraded(message),
        "Failed" => Health::degraded(failure(object)),
        "Running" if long_running => running(object),
        "Running" if is_finite(object) => Health::progressing(message),
        _ => Health::unknown(message),
    }
}

/// Whether the Pod is a server: its restart policy is Always, or an annotation declares
/// it, which has no effect on hooks, since a hook must end.
fn is_long_running(object: &Value) -> bool {
    let declared = object.annotation(IGNORE_RESTART_POLICY) == Some("true");
    object.text("/spec/restartPolicy") == "Always" || (declared && !hook_role(object).is_hook())
}

fn is_finite(object: &Value) -> bool {
    matches!(object.text("/spec/restartPolicy"), "OnFailure" | "Never")
}

/// Messages of the containers that wait for a reason that does not go away by
/// itself: a crash loop, an image that cannot be pulled, a bad reference.
fn stuck_containers(object: &Value) -> Vec<&str> {
    object
        .items("/status/containerStatuses")
        .iter()
        .filter(|container| {
            let reason = container.text("/state/waiting/reason");
            reason.starts_with("Err") || reason.ends_with("Error") || reason.ends_with("BackOff")
        })
        .map(|container| container.text("/state/waiting/message"))
        .collect()
}

fn running(object: &Value) -> Health {
    let message = object.text("/status/message");
    if condition(object, "Ready").is_some_and(|ready| ready.is_true()) {
        return Health::healthy(message);
    }
    let restarted = object
        .items("/status/containerStatuses")
        .iter()
        .any(|container| container.pointer("/lastState/terminated").is_some_and(Value::is_object));
    if restarted { Health::degraded(message) } else { Health::progressing(message) }
}

/// Why a Pod failed, from the first container with a reason.
fn failure(object: &Value) -> String {
    let init = object.items("/status/initContainerStatuses");
    let normal = object.items("/status/containerStatuses");
    init.iter().chain(normal).find_map(failure_of_container).unwrap_or_default()
}

fn failure_of_container(container: &Value) -> Option<String> {
    let ended = container.pointer("/state/terminated")?;
    let message = ended.text("/message");
    if !message.is_empty() {
        return Some(message.to_owned());
    }
    if ended.text("/reason") == "OOMKilled" {
        return Some("OOMKilled".to_owned());
    }
    let code = count(ended, "/exitCode");
    let name = container.text("/name");
    (code != 0).then(|| format!("container {name:?} failed with exit code {code}"))
}
