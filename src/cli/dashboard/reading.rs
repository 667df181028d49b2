//! What the page shows beside the reports of the commands, as it is in the cluster: the Events of an
//! Application, and the end of the log of a Pod.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, Pod};
use kube::Api;
use kube::api::{ListParams, LogParams};
use serde_json::Value;

use crate::cli::cluster::ClusterConnection;
use crate::cli::cluster::live_app::{ControlPlaneArgs, Destinations};
use wavegate_api::Raw;
use wavegate_api::time::to_rfc3339;
use wavegate_cluster::watch::failure::error_reason;
use wavegate_dashboard::reports::{EventDocument, LogDocument};
use wavegate_engine::blocking_resource::below::WorkloadCause;

/// The most Events that are read.
const EVENTS: u32 = 50;
/// Lines of a log, and the most bytes of them.
const LINES: i64 = 20;
const BYTES: i64 = 16 << 10;
/// Reasons of containers that have not run yet.
const STARTING: [&str; 2] = ["ContainerCreating", "PodInitializing"];
/// Time limit for a log.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The Events of an Application, the newest first.
///
/// # Errors
///
/// Why they cannot be read, for people.
pub(super) async fn events(
    connection: &ClusterConnection,
    application: &Value,
) -> Result<Vec<EventDocument>, String> {
    let api: Api<Event> = Api::namespaced(connection.client().clone(), application.namespace());
    let of = format!("involvedObject.uid={}", application.uid());
    let listed = api.list(&ListParams::default().fields(&of).limit(EVENTS)).await;
    let listed = listed.map_err(|error| format!("Events: {}", error_reason(&error)))?;
    let mut events: Vec<EventDocument> = listed.items.iter().map(event).collect();
    events.sort_by(|a, b| b.at.cmp(&a.at));
    Ok(events)
}

fn event(event: &Event) -> EventDocument {
    let series = event.series.as_ref();
    let last = series.and_then(|series| series.last_observed_time.as_ref()).map(|time| time.0);
    let last = last.or_else(|| event.last_timestamp.as_ref().map(|time| time.0));
    let last = last.or_else(|| event.event_time.as_ref().map(|time| time.0));
    let count = series.and_then(|series| series.count).or(event.count).unwrap_or(1);
    EventDocument {
        at: last.map(to_rfc3339).unwrap_or_default(),
        is_warning: event.type_.as_deref() == Some("Warning"),
        reason: event.reason.clone().unwrap_or_default(),
        message: event.message.clone().unwrap_or_default(),
        count: count.into(),
    }
}

/// The end of the log of the Pod that holds a workload; `None` when the cause is no Pod.
pub(super) async fn log(
    connection: &ClusterConnection,
    application: Option<&Arc<Value>>,
    cause: &WorkloadCause,
) -> Option<LogDocument> {
    let starts = STARTING.contains(&cause.reason.as_str());
    let application = application.filter(|_| cause.kind == "Pod" && !starts)?;
    let mut of = format!("{}/{}", cause.namespace, cause.name);
    if !cause.container.is_empty() {
        of = format!("{of}, container {}", cause.container);
    }
    let read = tokio::time::timeout(TIMEOUT, read_log(connection, application, cause)).await;
    let read = read.unwrap_or_else(|_| Err(format!("no answer within {} s", TIMEOUT.as_secs())));
    Some(match read {
        Ok(lines) => LogDocument { of, lines, unread: String::new() },
        Err(unread) => LogDocument { of, lines: String::new(), unread },
    })
}

async fn read_log(
    connection: &ClusterConnection,
    application: &Value,
    cause: &WorkloadCause,
) -> Result<String, String> {
    let args = ControlPlaneArgs::default();
    let destinations = Destinations::of(connection, &args, application).await;
    let cluster = destinations.resolve(application).await?;
    let api: Api<Pod> = Api::namespaced(cluster.client().clone(), &cause.namespace);
    let params = LogParams {
        container: Some(cause.container.clone()).filter(|name| !name.is_empty()),
        tail_lines: Some(LINES),
        limit_bytes: Some(BYTES),
        ..LogParams::default()
    };
    // One that was restarted has said why in its former run.
    let former = LogParams { previous: true, ..params.clone() };
    if let Ok(lines) = api.logs(&cause.name, &former).await
        && !lines.is_empty()
    {
        return Ok(lines);
    }
    api.logs(&cause.name, &params).await.map_err(|error| error_reason(&error))
}
