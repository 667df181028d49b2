//! Rollout of Argo (SE-476).
//!
//! Application is omitted on purpose: it has no health of its own unless a script defines
//! one (SE-468).

use serde_json::Value;

use super::read::{condition, count, generation, is_true, number};
use super::status::Health;
use wavegate_api::Raw;

/// SE-476.
pub fn rollout_health(object: &Value) -> Health {
    if object.get("status").is_none_or(Value::is_null) {
        let message = "Waiting for rollout to finish: status has not been reconciled.";
        return Health::progressing(message);
    }
    if !rollout_is_observed(object) {
        return Health::progressing("Waiting for rollout spec update to be observed");
    }
    let message = object.text("/status/message");
    match object.text("/status/phase") {
        "Paused" => Health::suspended(message),
        "Progressing" => Health::progressing(message),
        "Healthy" => Health::healthy(message),
        "Degraded" => Health::degraded(message),
        "" => rollout_by_counts(object),
        other => Health::unknown(format!("unknown rollout phase {other:?}")),
    }
}

/// Whether the status is for the current spec, and for the current workload if the
/// Rollout refers to one.
fn rollout_is_observed(object: &Value) -> bool {
    let observed = observed(object, "/status/observedGeneration");
    let own = match observed {
        Observed::None => generation(object) == 0,
        Observed::Number(observed) => observed >= generation(object),
        Observed::Other => true,
    };
    let workload = object.annotation("rollout.argoproj.io/workload-generation").unwrap_or_default();
    let followed = match workload.parse::<i64>() {
        Ok(wanted) if object.pointer("/spec/workloadRef").is_some() => {
            match self::observed(object, "/status/workloadObservedGeneration") {
                Observed::Number(observed) => observed >= wanted,
                Observed::None | Observed::Other => false,
            }
        }
        _ => true,
    };
    own && followed
}

/// A Rollout stores generations as text; old versions stored a hash, which cannot be compared.
enum Observed {
    None,
    Number(i64),
    Other,
}

fn observed(object: &Value, pointer: &str) -> Observed {
    if let Some(number) = number(object, pointer) {
        return Observed::Number(number);
    }
    match object.text(pointer) {
        "" => Observed::None,
        digits => digits.parse().map_or(Observed::Other, Observed::Number),
    }
}

/// Rollouts of versions without `status.phase`.
fn rollout_by_counts(object: &Value) -> Health {
    if let Some(invalid) = condition(object, "InvalidSpec").filter(|c| c.is_true()) {
        return Health::degraded(invalid.message());
    }
    let stopped = condition(object, "Progressing")
        .filter(|c| ["ProgressDeadlineExceeded", "RolloutAborted"].contains(&c.reason()));
    if let Some(stopped) = stopped {
        return Health::degraded(stopped.message());
    }
    if is_true(object, "/spec/paused") || !object.items("/status/pauseConditions").is_empty() {
        return Health::suspended("Rollout is paused");
    }
    // The API's default for `replicas`.
    let wanted = number(object, "/spec/replicas").unwrap_or(1);
    let updated = count(object, "/status/updatedReplicas");
    let available = count(object, "/status/availableReplicas");
    if updated < wanted {
        return Health::progressing(
            "Waiting for roll out to finish: More replicas need to be updated",
        );
    }
    if available < updated {
        return Health::progressing(
            "Waiting for roll out to finish: updated replicas are still becoming available",
        );
    }
    if count(object, "/status/replicas") > updated {
        return Health::progressing(
            "Waiting for roll out to finish: old replicas are pending termination",
        );
    }
    // What is stable is the new template once all steps are done.
    let stable = ["/status/stableRS", "/status/canary/stableRS"].map(|field| object.text(field));
    let stable = stable.into_iter().find(|hash| !hash.is_empty());
    if stable.is_some_and(|hash| hash != object.text("/status/currentPodHash")) {
        return Health::progressing("Waiting for roll out to finish: not all steps are complete");
    }
    Health::healthy("")
}
