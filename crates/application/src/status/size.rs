//! The size of an Application: an API server refuses one that its store does not take, and then
//! nothing of its status is stored (SE-062, SE-597).

use std::collections::BTreeSet;

use serde_json::Value;

use wavegate_api::app_status::ResourceStatus;
use wavegate_api::{OperationPhase, SyncStatusCode};
use wavegate_engine::json_size::json_bytes;
use wavegate_engine::sync;

/// Most bytes of an Application that is written whole. etcd takes requests of 1.5 MiB; the rest
/// is for `metadata.managedFields`, which no decision contains.
const MOST: usize = 1_400_000;

/// Most rows of `status.resources`.
pub(crate) const MAX_RESOURCES: usize = 5000;

/// Most bytes of them.
const RESOURCES: usize = 768 << 10;

/// Leaves out of an Application what makes it too large: the progress of the operation, which is
/// restored as where the API server drops it; results of the running operation or of the last one;
/// then the oldest entries of its history. When the operation has ended, its message says what is
/// missing; while it runs, a row does. Returns whether something was too large.
pub fn fit_size(application: &mut Value) -> bool {
    let surplus = |application: &Value| {
        // `managedFields` repeats the keys of its maps; lists have none.
        let progress = application.pointer("/status/operationState/progress");
        (json_bytes(application) + progress.map_or(0, json_bytes)).saturating_sub(MOST)
    };
    if surplus(application) == 0 {
        return false;
    }
    if let Some(state) = application.pointer_mut("/status/operationState") {
        state.as_object_mut().map(|state| state.remove("progress"));
    }
    let bytes = surplus(application);
    if bytes == 0 {
        return true;
    }
    let state = &mut application["status"]["operationState"];
    let phase = OperationPhase::from_word(state["phase"].as_str().unwrap_or_default());
    let mut statement = None;
    let rows = state.pointer_mut("/syncResult/resources").and_then(Value::as_array_mut);
    if let Some(rows) = rows {
        let all = rows.len();
        match sync::leave_out(rows, bytes) {
            0 => {}
            left => statement = Some(format!("{left} of {all} resources are not listed")),
        }
    }
    if let Some(statement) = statement.filter(|_| phase.is_completed()) {
        let message = state["message"].as_str().unwrap_or_default();
        state["message"] = format!("{message} ({statement} in syncResult)").into();
    }
    let bytes = surplus(application);
    let history = application.pointer_mut("/status/history").and_then(Value::as_array_mut);
    if let Some(history) = history.filter(|_| bytes > 0) {
        let mut saved = 0;
        while saved < bytes && history.len() > 1 {
            saved += json_bytes(&history.remove(0));
        }
    }
    true
}

/// The rows of `status.resources` that fit, in their order. One of each kind always does, since the
/// kinds in the status are searched for objects that the source has no longer; then come those that
/// are not in sync.
pub(crate) fn listed(rows: Vec<ResourceStatus>) -> Vec<ResourceStatus> {
    let sizes = rows.iter().map(|row| json_bytes(row) + 1).collect::<Vec<_>>();
    if rows.len() <= MAX_RESOURCES && sizes.iter().sum::<usize>() <= RESOURCES {
        return rows;
    }
    let mut kinds = BTreeSet::new();
    let rank = |row: &ResourceStatus| {
        let is_first = kinds.insert((row.group.clone(), row.version.clone(), row.kind.clone()));
        let is_synced = row.status == Some(SyncStatusCode::Synced);
        (!is_first, is_synced)
    };
    let ranks: Vec<(bool, bool)> = rows.iter().map(rank).collect();
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by_key(|at| ranks[*at]);
    let mut bytes = 0;
    let fits = |at: &usize| {
        bytes += sizes[*at];
        bytes <= RESOURCES
    };
    let mut kept: Vec<usize> = order.into_iter().take(MAX_RESOURCES).take_while(fits).collect();
    kept.sort_unstable();
    let mut kept = kept.into_iter().peekable();
    let rows = rows.into_iter().enumerate();
    rows.filter_map(|(at, row)| kept.next_if_eq(&at).map(|_| row)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn application(rows: usize, phase: &str) -> Value {
        let name = |index: usize| format!("{}-{index:05}", "x".repeat(100));
        let row = |index: usize| {
            json!({
                "group": "", "version": "v1", "kind": "ConfigMap", "namespace": "web",
                "name": name(index), "status": "Synced", "syncPhase": "Sync",
                "hookPhase": "Running", "message": format!("configmap/{} created", name(index)),
            })
        };
        let mut rows: Vec<Value> = (0..rows).map(row).collect();
        for (at, field, value) in [(3, "status", "SyncFailed"), (4, "hookType", "Sync")] {
            rows[at][field] = value.into();
        }
        let result = json!({"revision": "one", "resources": rows});
        let state = json!({"phase": phase, "message": "done", "syncResult": result});
        json!({"spec": {}, "status": {"operationState": state}})
    }

    #[test]
    fn what_fits_stays_as_it_is() {
        for phase in ["Running", "Succeeded"] {
            let whole = application(3000, phase);
            let mut fitted = whole.clone();
            assert!(!fit_size(&mut fitted));
            assert_eq!(fitted, whole, "{phase}");
        }
    }

    /// SE-597: of what does not fit, failures and hooks stay, and the rest is counted.
    #[test]
    fn what_does_not_fit_is_counted() {
        for (phase, says) in [("Running", "done"), ("Succeeded", "resources are not listed")] {
            let whole = application(20_000, phase);
            let mut fitted = whole.clone();
            fit_size(&mut fitted);
            assert!(json_bytes(&fitted) <= MOST, "{}", json_bytes(&fitted));
            assert!(
                json_bytes(&fitted) > MOST - 2000,
                "no more than that: {}",
                json_bytes(&fitted)
            );
            let state = &fitted["status"]["operationState"];
            assert!(state["message"].as_str().unwrap().contains(says), "{state}");
            let all = whole["status"]["operationState"]["syncResult"]["resources"].as_array();
            let rows = state["syncResult"]["resources"].as_array().unwrap();
            assert_eq!(rows[..2], all.unwrap()[3..5]);
            let count = format!("; {} applied resources before it", 20_000 - rows.len());
            assert!(rows[2]["message"].as_str().unwrap().contains(&count), "{}", rows[2]);
            assert_eq!(rows.last(), all.unwrap().last());
            let again = fitted.clone();
            fit_size(&mut fitted);
            assert_eq!(fitted, again);
        }
    }

    /// The results are worth more than what can be restored from them.
    #[test]
    fn the_progress_goes_first() {
        let whole = application(2000, "Running");
        let mut long = whole.clone();
        let waves = json!({"pruneWaves": {"x".repeat(400_000): 1}});
        long["status"]["operationState"]["progress"] = waves;
        assert!(fit_size(&mut long));
        let count = |one: &Value| {
            one["status"]["operationState"]["syncResult"]["resources"].as_array().unwrap().len()
        };
        assert_eq!(count(&long), count(&whole));
        assert!(long["status"]["operationState"].get("progress").is_none());
    }

    #[test]
    fn the_oldest_history_goes_when_nothing_else_helps() {
        let entry = |id: usize| json!({"id": id, "source": {"values": "x".repeat(200_000)}});
        let history: Vec<Value> = (0..10).map(entry).collect();
        let mut application = json!({"status": {"history": history}});
        fit_size(&mut application);
        let left = application["status"]["history"].as_array().unwrap();
        assert_eq!((left.len(), &left[0]["id"]), (6, &json!(4)));
    }

    /// SE-597: what is not in sync, and one of each kind.
    #[test]
    fn resources_that_matter_are_listed() {
        let row = |index: usize| ResourceStatus {
            kind: if index == 8000 { "Secret" } else { "ConfigMap" }.to_owned(),
            name: index.to_string(),
            status: Some(match index {
                9000 => SyncStatusCode::OutOfSync,
                _ => SyncStatusCode::Synced,
            }),
            ..ResourceStatus::default()
        };
        let few: Vec<ResourceStatus> = (0..MAX_RESOURCES).map(row).collect();
        assert_eq!(listed(few.clone()), few);
        let kept = listed((0..20_000).map(row).collect());
        assert_eq!(kept.len(), MAX_RESOURCES);
        let names: Vec<&str> = kept[4998..].iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names, ["8000", "9000"]);
        let long = |index| ResourceStatus { namespace: "n".repeat(400), ..row(index) };
        let kept = listed((0..4000).map(long).collect());
        assert!((1000..2000).contains(&kept.len()), "{}", kept.len());
    }
}
