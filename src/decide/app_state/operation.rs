//! The fields `operation` and `status.operationState` (SE-370 … SE-385).

use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use super::status::{object, object_in, revisions};
use crate::api::operation::{OperationPhase, ResourceResult, SyncPhase};
use crate::api::sources::InEffect;
pub use crate::api::sources::revisions as given;
use crate::api::time::{from_rfc3339, stored, to_rfc3339};
use crate::decide::application_set::operation::promotion_of;
use crate::decide::sync;

/// Default of `spec.revisionHistoryLimit` (SE-028).
const HISTORY_LIMIT: i64 = 10;

/// The stage of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Nothing is requested and nothing is running.
    Idle,
    /// An operation is requested.
    Requested,
    /// An operation is running.
    InProgress,
}

/// The stage of the operation of an Application (SE-370).
pub fn stage(application: &Value) -> Stage {
    let state = &application["status"]["operationState"];
    if matches!(state["phase"].as_str(), Some("Running" | "Terminating")) {
        return Stage::InProgress;
    }
    let requested = application.get("operation").is_some_and(|operation| !operation.is_null());
    if requested { Stage::Requested } else { Stage::Idle }
}

/// Writes the state of an operation that starts now. Two operations of one
/// Application never start in the same second, since the start identifies their
/// hooks.
pub fn begin(application: &mut Value, now: Timestamp) {
    let status = &application["status"];
    let history = status["history"].as_array().and_then(|history| history.last());
    // A client may have removed the former state with its request.
    let before =
        time(&status["operationState"]["startedAt"]).or_else(|| time(&history?["deployStartedAt"]));
    let next = before.and_then(|at| at.checked_add(SignedDuration::from_secs(1)).ok());
    let started = next.map_or(stored(now), |next| next.max(stored(now)));
    let request = application["operation"].clone();
    object(application, "status").insert(
        "operationState".to_owned(),
        json!({
            "operation": request,
            "phase": "Running",
            "message": "",
            "startedAt": to_rfc3339(started),
        }),
    );
}

/// When the running operation started.
pub fn started_at(application: &Value) -> Option<Timestamp> {
    time(&application["status"]["operationState"]["startedAt"])
}

/// When the last operation ended, or the last attempt of a running one.
pub fn finished_at(application: &Value) -> Option<Timestamp> {
    time(&application["status"]["operationState"]["finishedAt"])
}

/// When the Application was compared last.
pub fn reconciled_at(application: &Value) -> Option<Timestamp> {
    time(&application["status"]["reconciledAt"])
}

fn time(value: &Value) -> Option<Timestamp> {
    value.as_str().and_then(from_rfc3339)
}

/// Identifies one operation across Applications; part of the stamps on hooks.
pub fn id(application: &Value, started_at: Timestamp, revision: &str) -> String {
    sync::operation_id(&uid(application), started_at, revision)
}

/// UID of an Application. Without an API server it is identified by its name.
pub fn uid(application: &Value) -> String {
    let text = |field: &str| application["metadata"][field].as_str().unwrap_or_default();
    match text("uid") {
        "" => format!("{}_{}", text("namespace"), text("name")),
        uid => uid.to_owned(),
    }
}

/// Pins what is synced (SE-374): revisions and sources, kept in the state.
pub fn pin(application: &mut Value, of: &[String]) {
    let operation = application["status"]["operationState"]["operation"]["sync"].clone();
    let spec = application["spec"].clone();
    let status = object(application, "status");
    let result = result_of(object_in(status, "operationState"));
    let chosen = |from: &Value| {
        let list = from["sources"].as_array().filter(|list| !list.is_empty());
        list.map(|list| ("sources", Value::Array(list.clone())))
            .or_else(|| from["source"].as_object().map(|_| ("source", from["source"].clone())))
    };
    let of_spec = || {
        let in_effect = InEffect::of(&spec);
        let field = in_effect.field;
        Some((field, in_effect.value())).filter(|(_, sources)| !sources.is_null())
    };
    let Some((field, sources)) = chosen(&operation).or_else(of_spec) else {
        revisions(result, false, of);
        return;
    };
    revisions(result, field == "sources", of);
    // Required in addition to `revisions`, and empty then (SE-052).
    result.entry("revision").or_insert_with(|| "".into());
    result.remove(if field == "sources" { "source" } else { "sources" });
    result.insert(field.to_owned(), sources);
    let metadata = &spec["syncPolicy"]["managedNamespaceMetadata"];
    if metadata.is_object() {
        result.insert("managedNamespaceMetadata".to_owned(), metadata.clone());
    }
}

/// `syncResult` of a state, created if absent. Its `revision` is required, even
/// if empty (SE-052).
fn result_of(state: &mut Map<String, Value>) -> &mut Map<String, Value> {
    let result = object_in(state, "syncResult");
    result.entry("revision").or_insert_with(|| "".into());
    result
}

/// Whether the request names a commit for each of its sources, so that no
/// revision must be resolved.
pub fn is_complete(application: &Value) -> bool {
    let given = given(&application["status"]["operationState"]["operation"]["sync"]);
    let commits = given.iter().all(|revision| revision.len() >= 40);
    !given.is_empty() && commits && given.len() == sources(application).len()
}

/// The pinned revisions; empty if there are none yet.
pub fn pinned(application: &Value) -> Vec<String> {
    let result = &application["status"]["operationState"]["syncResult"];
    given(result)
}

/// The raw sources of an operation: its own, the pinned ones, or those of the
/// spec.
pub fn sources(application: &Value) -> Vec<Value> {
    let state = &application["status"]["operationState"];
    let of = |from: &Value| {
        let list = from["sources"].as_array().filter(|list| !list.is_empty()).cloned();
        list.or_else(|| from["source"].as_object().map(|_| vec![from["source"].clone()]))
    };
    of(&state["syncResult"]).or_else(|| of(&state["operation"]["sync"])).unwrap_or_else(|| {
        let in_effect = InEffect::of(&application["spec"]);
        in_effect.list.iter().filter(|source| source.is_object()).cloned().collect()
    })
}

/// The stored state of the wave engine: results and progress of this attempt.
pub fn stored_results(application: &Value) -> (Vec<ResourceResult>, sync::Progress) {
    let state = &application["status"]["operationState"];
    let list = state["syncResult"]["resources"].as_array().into_iter().flatten();
    let results =
        list.filter_map(|item| serde_json::from_value::<ResourceResult>(item.clone()).ok());
    // There is no task of an unknown phase.
    let results = results.filter(|result: &ResourceResult| result.sync_phase != SyncPhase::Unknown);
    let mut results = results.collect();
    let mut progress = serde_json::from_value(state["progress"].clone()).unwrap_or_default();
    sync::take_announced(&mut results, &mut progress);
    (results, progress)
}

/// Stores the decision of the wave engine.
pub fn store(application: &mut Value, plan: &sync::SyncPlan) {
    let status = object(application, "status");
    let state = object_in(status, "operationState");
    state.insert("message".to_owned(), plan.detailed_message().into());
    if !plan.phase.is_completed() {
        let phase = json!(plan.phase);
        state.insert("phase".to_owned(), phase);
    }
    match json!(plan.progress) {
        Value::Object(notes) if notes.is_empty() => state.remove("progress"),
        notes => state.insert("progress".to_owned(), notes),
    };
    let rows = sync::with_announced(&plan.results, &plan.progress);
    let mut results = json!(rows);
    for result in results.as_array_mut().into_iter().flatten() {
        for field in ["group", "kind", "name", "namespace", "version"] {
            // Required even if empty, as for the core group (SE-053).
            if result.get(field).is_none() {
                result[field] = "".into();
            }
        }
    }
    let result = result_of(state);
    if rows.is_empty() {
        result.remove("resources");
    } else {
        result.insert("resources".to_owned(), results);
    }
}

/// Fields of a result that the definitions of Argo CD lack.
const OWN_FIELDS: [&str; 3] = ["uid", "resourceVersion", "since"];

/// The state of the wave engine as written, with the operation that it belongs to. The
/// definitions of Argo CD lack its fields, so the server may drop them.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredProgress {
    /// Start and attempt of the operation.
    of: [Value; 2],
    progress: Option<Value>,
    /// Our fields of results, by what identifies a result.
    results: HashMap<[Value; 5], Map<String, Value>>,
}

impl StoredProgress {
    /// That of an Application; `None` without any.
    pub fn of(application: &Value) -> Option<Self> {
        let state = &application["status"]["operationState"];
        let progress = state.get("progress").filter(|progress| progress.is_object()).cloned();
        let rows = state["syncResult"]["resources"].as_array().into_iter().flatten();
        let mut results = HashMap::new();
        for row in rows {
            let fields = OWN_FIELDS.iter().filter_map(|field| Some((*field, row.get(*field)?)));
            let own = fields.map(|(field, value)| (field.to_owned(), value.clone()));
            let own: Map<String, Value> = own.collect();
            if !own.is_empty() {
                // Of rows for the same object, the first counts.
                results.entry(Self::identity(row)).or_insert(own);
            }
        }
        let is_any = progress.is_some() || !results.is_empty();
        is_any.then(|| Self { of: Self::operation(state), progress, results })
    }

    /// Adds it to the stored version of the Application, where it is missing.
    pub fn restore(&self, application: &mut Value) {
        let state = application.pointer_mut("/status/operationState");
        let Some(state) = state.filter(|state| Self::operation(state) == self.of) else { return };
        let is_running = matches!(state["phase"].as_str(), Some("Running" | "Terminating"));
        let Some(fields) = state.as_object_mut().filter(|_| is_running) else { return };
        if let Some(progress) = &self.progress {
            fields.entry("progress").or_insert_with(|| progress.clone());
        }
        let rows =
            fields.get_mut("syncResult").and_then(|result| result["resources"].as_array_mut());
        for row in rows.into_iter().flatten() {
            let own = self.results.get(&Self::identity(row));
            let (Some(own), Some(row)) = (own, row.as_object_mut()) else { continue };
            for (field, value) in own {
                row.entry(field.as_str()).or_insert_with(|| value.clone());
            }
        }
    }

    fn identity(row: &Value) -> [Value; 5] {
        ["group", "kind", "namespace", "name", "syncPhase"]
            .map(|field| row.get(field).cloned().unwrap_or_default())
    }

    fn operation(state: &Value) -> [Value; 2] {
        ["startedAt", "retryCount"].map(|field| state.get(field).cloned().unwrap_or_default())
    }
}

/// Whether a retry resolves the revisions again (SE-024): not those that a
/// rollout has decided on, since a newer commit would be ahead of its step, and
/// not for self-heal of some resources, which runs no hooks. Of other requests, what a
/// user goes back to is kept: a branch is resolved again, a commit is not.
pub fn is_refreshed(application: &Value) -> bool {
    let request = &application["status"]["operationState"]["operation"];
    let sync = &request["sync"];
    let decided = promotion_of(request).is_some() && !given(sync).is_empty();
    let healing =
        is_automated(request) && sync["resources"].as_array().is_some_and(|r| !r.is_empty());
    request["retry"]["refresh"] == true && !decided && !healing
}

/// Whether an operation is automated.
pub(super) fn is_automated(request: &Value) -> bool {
    request["initiatedBy"]["automated"] == true
}

/// Starts the next attempt (SE-390): results and progress are removed, and with
/// [`is_refreshed`] the revisions, too.
pub fn next_attempt(application: &mut Value, attempt: u64) {
    let refresh = is_refreshed(application);
    if refresh && !goes_back(application) {
        unname(application);
    }
    let status = object(application, "status");
    let state = object_in(status, "operationState");
    state.remove("finishedAt");
    state.remove("progress");
    state.insert("message".to_owned(), sync::retrying(attempt, refresh).into());
    if refresh {
        state.remove("syncResult");
    } else {
        result_of(state).remove("resources");
    }
}

/// Whether the request goes back to what was deployed before: other sources than those of
/// the spec, or commits of the history. Argo CD's clients name a commit in every request,
/// so that a commit alone does not mean that its user wants no other.
fn goes_back(application: &Value) -> bool {
    let request = &application["status"]["operationState"]["operation"];
    if is_automated(request) {
        return false;
    }
    let sync = &request["sync"];
    let in_effect = InEffect::of(&application["spec"]);
    let (field, sources) = (in_effect.field, in_effect.value());
    let differs = |name: &str| !sync[name].is_null() && (name != field || sync[name] != sources);
    let history = application["status"]["history"].as_array().into_iter().flatten();
    let named = given(sync);
    let newest = given(&application["status"]["sync"]);
    let deployed = history.into_iter().any(|entry| given(entry) == named);
    differs("source") || differs("sources") || (deployed && named != newest)
}

/// Removes the revisions from the request: from the state, which is used, and
/// from `operation`, which is removed at the end if it is the same.
fn unname(application: &mut Value) {
    let same = application["operation"] == application["status"]["operationState"]["operation"];
    let mut places = vec!["/status/operationState/operation/sync"];
    if same {
        places.push("/operation/sync");
    }
    for place in places {
        if let Some(sync) = application.pointer_mut(place).and_then(Value::as_object_mut) {
            sync.remove("revision");
            sync.remove("revisions");
        }
    }
}

/// Records that an attempt failed and another one follows.
pub fn announce_attempt(application: &mut Value, attempt: u64, message: &str, now: Timestamp) {
    let status = object(application, "status");
    let state = object_in(status, "operationState");
    state.insert("phase".to_owned(), "Running".into());
    state.insert("message".to_owned(), message.into());
    state.insert("finishedAt".to_owned(), to_rfc3339(now).into());
    state.insert("retryCount".to_owned(), attempt.into());
    state.remove("progress");
    drop_announced(state);
}

/// Removes what was announced and did not happen, or is not known to have happened.
fn drop_announced(state: &mut Map<String, Value>) {
    let result = state.get_mut("syncResult").and_then(Value::as_object_mut);
    let Some(result) = result.filter(|result| result.contains_key("resources")) else { return };
    if let Some(rows) = result["resources"].as_array_mut() {
        rows.retain(|row| row["status"].is_string() || row["hookPhase"].is_string());
        if rows.is_empty() {
            result.remove("resources");
        }
    }
}

/// Ends the operation (SE-372): sets phase, time and history, and removes the
/// request, unless it was replaced by another one in the meantime.
pub fn finish(application: &mut Value, phase: OperationPhase, message: &str, now: Timestamp) {
    let started = started_at(application).unwrap_or(now);
    let finished = stored(now).max(stored(started));
    let request = application["status"]["operationState"]["operation"].clone();
    {
        let state = object_in(object(application, "status"), "operationState");
        state.insert("phase".to_owned(), json!(phase));
        state.insert("message".to_owned(), message.into());
        state.insert("finishedAt".to_owned(), to_rfc3339(finished).into());
        state.remove("progress");
        drop_announced(state);
    }
    if phase == OperationPhase::Succeeded && is_full(&request) {
        record(application, finished);
    }
    if application.get("operation") == Some(&request)
        && let Some(fields) = application.as_object_mut()
    {
        fields.remove("operation");
    }
}

/// Whether an operation syncs the whole Application: not a dry run, and not only some
/// resources. If it succeeds, it is added to the history (SE-385).
pub fn is_full(request: &Value) -> bool {
    let sync = &request["sync"];
    let partial = sync["resources"].as_array().is_some_and(|list| !list.is_empty());
    sync["dryRun"] != true && !partial
}

fn record(application: &mut Value, deployed_at: Timestamp) {
    let limit = application["spec"]["revisionHistoryLimit"].as_i64().unwrap_or(HISTORY_LIMIT);
    let limit = usize::try_from(limit.max(0)).unwrap_or(usize::MAX);
    let state = application["status"]["operationState"].clone();
    let result = &state["syncResult"];
    let status = object(application, "status");
    let mut history: Vec<Value> =
        status.get("history").and_then(Value::as_array).cloned().unwrap_or_default();
    let last = history.last().and_then(|entry| entry["id"].as_i64());
    let mut entry = Map::new();
    entry.insert("id".to_owned(), last.map_or(0, |id| id.saturating_add(1)).into());
    for field in ["revision", "revisions", "source", "sources"] {
        if let Some(value) = result.get(field).filter(|value| *value != "") {
            entry.insert(field.to_owned(), value.clone());
        }
    }
    entry.insert("deployStartedAt".to_owned(), state["startedAt"].clone());
    entry.insert("deployedAt".to_owned(), to_rfc3339(deployed_at).into());
    if let Some(who) = state["operation"].get("initiatedBy") {
        entry.insert("initiatedBy".to_owned(), who.clone());
    }
    history.push(Value::Object(entry));
    let surplus = history.len().saturating_sub(limit);
    history.drain(..surplus);
    if history.is_empty() {
        status.remove("history");
    } else {
        status.insert("history".to_owned(), Value::Array(history));
    }
}

/// Whether an attempt has ended, and possibly the operation.
pub fn is_between_attempts(application: &Value) -> bool {
    application["status"]["operationState"]["finishedAt"].is_string()
}

/// Whether an operation is valid.
///
/// # Errors
///
/// As [`request`].
pub fn check(application: &Value) -> Result<(), String> {
    request(&application["status"]["operationState"], "", &[]).map(|_| ())
}

/// The request in the format of the wave engine.
///
/// # Errors
///
/// A message, when the request has no sync.
pub fn request(
    state: &Value,
    revision: &str,
    inherited: &[String],
) -> Result<sync::ResolvedOperation, String> {
    let operation = &state["operation"];
    if !operation["sync"].is_object() {
        return Err("Invalid operation request: no operation specified".to_owned());
    }
    let typed: crate::api::Operation = crate::api::read(operation)
        .map_err(|error| format!("Invalid operation request: operation.{error}"))?;
    let Some(wanted) = typed.sync else {
        return Err("Invalid operation request: no operation specified".to_owned());
    };
    let strategy = wanted.sync_strategy.unwrap_or_default();
    let apply_only = strategy.apply.is_some();
    let force = strategy.apply.or(strategy.hook).is_some_and(|chosen| chosen.force);
    Ok(sync::ResolvedOperation {
        revision: revision.to_owned(),
        prune: wanted.prune,
        dry_run: wanted.dry_run,
        apply_only,
        force,
        resources: wanted.resources,
        sync_options: wanted.sync_options.unwrap_or_else(|| inherited.to_vec()),
        retry: typed.retry,
    })
}
