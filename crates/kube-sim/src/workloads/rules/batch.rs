//! Jobs and CronJobs.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{condition, present, time};
use crate::workloads::view::{View, WorkloadStage};

/// A Job: its Pods run, then have succeeded or failed. A finished Job never
/// changes again, and a suspended one has no Pods.
pub(in crate::workloads) fn job(
    object: &View<'_>,
    stage: WorkloadStage,
    now: Timestamp,
) -> Option<Value> {
    let has = |kind: &str| object.condition(kind)["status"] == "True";
    if has("Complete") || has("Failed") {
        return None;
    }
    if object.spec["suspend"] == true {
        return Some(json!({
            "active": null, "ready": 0, "startTime": null,
            "conditions": [condition(object, "Suspended", "True", "JobSuspended", "Job suspended", now)],
        }));
    }
    let started = match &object.status["startTime"] {
        Value::Null => time(now),
        started => started.clone(),
    };
    // One that was suspended keeps saying that it no longer is.
    let resumed = (!object.condition("Suspended").is_null())
        .then(|| condition(object, "Suspended", "False", "JobResumed", "Job resumed", now));
    let parallelism = object.spec["parallelism"].as_i64().unwrap_or(1).max(0);
    // Without completions, the first Pod to succeed decides for all.
    let completions = object.spec["completions"].as_i64().unwrap_or(parallelism);
    Some(match stage {
        WorkloadStage::Progressing => {
            let active = parallelism.min(completions);
            json!({
                "startTime": started, "active": present(active), "ready": active,
                "uncountedTerminatedPods": {}, "conditions": resumed.map(|resumed| vec![resumed]),
            })
        }
        WorkloadStage::Succeeded => {
            let (reason, message) =
                ("CompletionsReached", "Reached expected number of succeeded pods");
            json!({
                "startTime": started, "completionTime": time(now), "active": null, "ready": 0, "terminating": 0,
                "succeeded": present(completions), "uncountedTerminatedPods": {},
                "conditions": resumed.into_iter().chain([
                    condition(object, "SuccessCriteriaMet", "True", reason, message, now),
                    condition(object, "Complete", "True", reason, message, now),
                ]).collect::<Vec<_>>(),
            })
        }
        WorkloadStage::Failed => {
            let (reason, message) =
                ("BackoffLimitExceeded", "Job has reached the specified backoff limit");
            let retries = object.spec["backoffLimit"].as_i64().unwrap_or(6);
            json!({
                "startTime": started, "active": null, "ready": 0, "terminating": 0,
                "failed": retries + 1, "uncountedTerminatedPods": {},
                "conditions": resumed.into_iter().chain([
                    condition(object, "FailureTarget", "True", reason, message, now),
                    condition(object, "Failed", "True", reason, message, now),
                ]).collect::<Vec<_>>(),
            })
        }
    })
}

/// A CronJob that has never run: an empty status, which shows that a controller
/// has seen it.
pub(in crate::workloads) fn cron_job(object: &View<'_>) -> Option<Value> {
    object.status.is_null().then(|| json!({}))
}
