//! The fields `operation` and `status.operationState` (SE-370 … SE-385).

pub mod auto_sync;
pub mod deployed;
pub(crate) mod engine_input;
pub mod held_back;
pub mod manual;
pub mod operate;
pub mod promoted;

use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use crate::app::{App, Fields};
use crate::normalize;
use wavegate_api::app_status::RevisionHistory;
use wavegate_api::operation::{
    OperationPhase, OperationState, RequestView, Requested, ResourceResult, ResultCode,
    SyncOperationResult, SyncPhase,
};
use wavegate_api::resource_key::ResourceKey;
pub use wavegate_api::sources::listed_revisions as given;
use wavegate_api::sources::{InEffect, by_field};
use wavegate_api::time::{Time, stored_time};
use wavegate_api::{GROUP, Raw, read_leniently};
use wavegate_engine::merge_patch::apply_change;
use wavegate_engine::promotion::promotion_of;
use wavegate_engine::sync;

/// Default of `spec.revisionHistoryLimit` (SE-028).
const HISTORY_LIMIT: i64 = 10;

/// The stage of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationStage {
    /// Nothing is requested and nothing is running.
    Idle,
    /// An operation is requested.
    Requested,
    /// An operation is running.
    InProgress,
}

/// The stage of the operation of an Application (SE-370).
pub fn operation_stage(app: &Fields) -> OperationStage {
    match &app.operation {
        _ if app.status.operation_state.phase.is_running() => OperationStage::InProgress,
        Some(_) => OperationStage::Requested,
        None => OperationStage::Idle,
    }
}

/// Writes the state of an operation that starts now. Two operations of one
/// Application never start in the same second, since the start identifies their
/// hooks.
pub fn begin_operation(app: &mut App, now: Timestamp) {
    let status = &app.status;
    let deployed = status.history.last().and_then(|last| last.deploy_started_at.as_ref());
    // A client may have removed the former state with its request.
    let before = status.operation_state.started_at.as_ref().or(deployed);
    let next = before.and_then(|at| at.0.checked_add(SignedDuration::from_secs(1)).ok());
    let started = next.map_or(stored_time(now), |next| next.max(stored_time(now)));
    let metadata = applied_metadata(&status.operation_state).cloned();
    app.replace_operation_state(OperationState {
        operation: app.operation.clone().unwrap_or_default(),
        phase: OperationPhase::Running,
        started_at: Some(Time(started)),
        sync_result: with_metadata(metadata),
        ..OperationState::default()
    });
}

/// The metadata that was last applied to the namespace (SE-025): it stays there, whatever follows.
fn applied_metadata(state: &OperationState) -> Option<&Value> {
    state.sync_result.as_ref()?.managed_namespace_metadata.as_ref()
}

/// A result of which nothing else is known yet.
fn with_metadata(metadata: Option<Value>) -> Option<SyncOperationResult> {
    metadata.map(|metadata| SyncOperationResult {
        managed_namespace_metadata: Some(metadata),
        ..SyncOperationResult::default()
    })
}

/// Records that the metadata of the namespace was applied, and that there is none any more: nothing
/// removes what was applied before.
pub(crate) fn record_metadata(app: &mut App, is_applied: bool) {
    let wanted = &app.spec_view().sync_policy.managed_namespace_metadata;
    let wanted = Some(wanted).filter(|metadata| metadata.is_object()).cloned();
    let state = &app.status.operation_state;
    let is_dry_run = state.operation.view().sync.as_ref().is_some_and(|sync| sync.dry_run);
    let counts = is_applied || (wanted.is_none() && !is_dry_run);
    if counts && applied_metadata(state) != wanted.as_ref() {
        let result = app.status.operation_state.sync_result.get_or_insert_default();
        result.managed_namespace_metadata = wanted;
    }
}

/// When the last operation ended, or the last attempt of a running one.
pub(crate) fn finished(state: &OperationState) -> Option<Timestamp> {
    state.finished_at.as_ref().map(|at| at.0)
}

/// Identifies one operation across Applications; part of the stamps on hooks.
pub(crate) fn id(application: &Value, started_at: Timestamp, revision: &str) -> String {
    sync::operation_id(&uid_of(application), started_at, revision)
}

/// UID of an Application. Without an API server it is identified by its name.
pub fn uid_of(application: &Value) -> String {
    match application.uid() {
        "" => format!("{}_{}", application.namespace(), application.name()),
        uid => uid.to_owned(),
    }
}

/// Whether a live object is the Application itself, which its own source may contain. In another
/// cluster, an Application of the same name is another one; so UIDs are compared, and an absent
/// one is that of no object.
pub fn is_itself(application: &Value, key: &ResourceKey, live: &Value) -> bool {
    let own = application.uid();
    key.kind == "Application" && key.group == GROUP && !own.is_empty() && live.uid() == own
}

/// Pins what is synced (SE-374): revisions and sources, kept in the state.
pub(crate) fn pin(app: &mut App, of: &[String]) {
    let spec = app.spec();
    let (field, mut sources) =
        requested_sources(app).unwrap_or_else(|| (InEffect::of(spec).field, of_spec(spec)));
    let is_list = field == "sources" && !sources.is_empty();
    let result = app.status.operation_state.sync_result.get_or_insert_default();
    // `revision` is required in addition to `revisions`, and empty then (SE-052).
    (result.revision, result.revisions) = by_field(is_list, of);
    if sources.is_empty() {
        return;
    }
    (result.source, result.sources) = match is_list {
        true => (None, sources),
        false => (sources.pop(), Vec::new()),
    };
}

/// The raw sources of the request, with the field that holds them; `None` when it has none.
fn requested_sources(app: &Fields) -> Option<(&'static str, Vec<Value>)> {
    let sync = app.status.operation_state.operation.view().sync.as_ref()?;
    own_sources(sync.sources.as_array().map(Vec::as_slice), Some(&sync.source))
}

fn own_sources(list: Option<&[Value]>, one: Option<&Value>) -> Option<(&'static str, Vec<Value>)> {
    let list = list.filter(|list| !list.is_empty());
    let one = one.filter(|one| one.is_object());
    list.map(|list| ("sources", list.to_vec())).or_else(|| Some(("source", vec![one?.clone()])))
}

/// Whether the request names a commit for each of its sources, so that no
/// revision must be resolved.
pub fn is_complete(app: &App) -> bool {
    let given = requested_revisions(&app.status.operation_state);
    let own = requested_sources(app);
    let sources = own.map_or_else(|| of_spec(app.spec()), |(_, sources)| sources);
    let commits = given.iter().all(|revision| revision.len() >= 40);
    !given.is_empty() && commits && given.len() == sources.len()
}

/// The revisions that are requested; empty for none.
pub fn requested_revisions(state: &OperationState) -> Vec<String> {
    state.operation.view().revisions()
}

/// The pinned revisions; empty if there are none yet.
pub fn pinned_revisions(state: &OperationState) -> Vec<String> {
    state.sync_result.as_ref().map(SyncOperationResult::revisions).unwrap_or_default()
}

/// The raw sources of an operation: its own, the pinned ones, or those of the
/// spec.
pub fn operation_sources(app: &App) -> Vec<Value> {
    let result = app.status.operation_state.sync_result.as_ref();
    let pinned = result.and_then(|own| own_sources(Some(&own.sources), own.source.as_ref()));
    let own = pinned.or_else(|| requested_sources(app));
    own.map_or_else(|| of_spec(app.spec()), |(_, sources)| sources)
}

/// Whether comparisons go on with the manifests that the last operation was given in place of the
/// source (SE-046): until the next operation, or until the spec names another source. Then what was
/// deployed is not what is asked for any more.
pub fn keeps_manifests(app: &App) -> bool {
    let sync = app.status.operation_state.operation.sync.as_ref();
    let is_given = sync.is_some_and(|sync| !sync.manifests.is_empty() && !sync.dry_run);
    is_given && normalize::equal_parts(&operation_sources(app).into(), &of_spec(app.spec()).into())
}

/// The raw sources of a spec.
pub(crate) fn of_spec(spec: &Value) -> Vec<Value> {
    let in_effect = InEffect::of(spec);
    in_effect.list.iter().filter(|source| source.is_object()).cloned().collect()
}

/// The number of retries before this attempt.
pub(crate) fn attempt(state: &OperationState) -> u64 {
    u64::try_from(state.retry_count).unwrap_or(0)
}

/// The stored state of the wave engine: results and progress of this attempt.
pub fn stored_results(state: &OperationState) -> (Vec<ResourceResult>, sync::SyncProgress) {
    let results = state.sync_result.iter().flat_map(|result| &result.resources);
    // There is no task of an unknown phase.
    let results = results.filter(|result| result.sync_phase != SyncPhase::Unknown);
    let mut results: Vec<ResourceResult> = results.cloned().collect();
    let progress = Value::Object(state.progress.clone());
    let mut progress = serde_json::from_value(progress).unwrap_or_default();
    sync::take_announced(&mut results, &mut progress);
    sync::take_unlisted(&mut results, &mut progress);
    (results, progress)
}

/// Stores the decision of the wave engine.
pub(crate) fn store(state: &mut OperationState, plan: &sync::SyncPlan) {
    state.message = plan.detailed_message();
    if !plan.phase.is_completed() {
        state.phase = plan.phase;
    }
    state.progress = match json!(plan.progress) {
        Value::Object(progress) => progress,
        _ => Map::new(),
    };
    let rows = sync::with_announced(&plan.results, &plan.progress);
    state.sync_result.get_or_insert_default().resources = rows;
}

/// The state of the wave engine as written, with the operation that it belongs to. The
/// definitions of Argo CD lack its fields, so the server may drop them.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredProgress {
    /// Start and attempt of the operation.
    of: (Option<Time>, i64),
    progress: Map<String, Value>,
    /// Our fields of results: UID, version and time of the object.
    results: HashMap<sync::TaskKey, (String, String, Option<Timestamp>)>,
    /// All results, when those that are stored are not all; else none.
    whole: Vec<ResourceResult>,
}

impl StoredProgress {
    /// That of a running operation, of which the API server lists so many results; `None` without
    /// any.
    pub fn of(state: &OperationState, listed: usize) -> Option<Self> {
        if !state.phase.is_running() {
            return None;
        }
        let all = state.sync_result.as_ref().map_or(&[][..], |result| &result.resources);
        let whole = if listed < all.len() { all.to_vec() } else { Vec::new() };
        let own = |row: &ResourceResult| {
            let key = sync::TaskKey::of(row);
            let own = (row.uid.clone(), row.resource_version.clone(), row.since);
            (own != Default::default()).then_some((key, own))
        };
        // Of rows for the same object, the first counts.
        let rows = state.sync_result.iter().flat_map(|result| result.resources.iter().rev());
        let results: HashMap<_, _> = rows.filter_map(own).collect();
        let is_any = !state.progress.is_empty() || !results.is_empty();
        let of = (state.started_at.clone(), state.retry_count);
        is_any.then_some(Self { of, progress: state.progress.clone(), results, whole })
    }

    /// Whether it has results that are not stored.
    pub fn adds_results(&self) -> bool {
        !self.whole.is_empty()
    }

    /// Adds it to the stored version of the Application, where it is missing.
    pub fn restore(&self, application: &mut Value) {
        let Some(stored) = application.pointer_mut("/status/operationState") else { return };
        let before: OperationState = read_leniently(stored);
        let mut state = before.clone();
        let is_same = (&state.started_at, state.retry_count) == (&self.of.0, self.of.1);
        if !is_same || !state.phase.is_running() {
            return;
        }
        if state.progress.is_empty() {
            state.progress.clone_from(&self.progress);
        }
        if let Some(result) = state.sync_result.as_mut().filter(|_| !self.whole.is_empty()) {
            result.resources.clone_from(&self.whole);
        }
        for row in state.sync_result.iter_mut().flat_map(|result| &mut result.resources) {
            let own = self.results.get(&sync::TaskKey::of(row)).cloned();
            let (uid, version, since) = own.unwrap_or_default();
            for (field, own) in [(&mut row.uid, uid), (&mut row.resource_version, version)] {
                if field.is_empty() {
                    *field = own;
                }
            }
            row.since = row.since.or(since);
        }
        apply_change(stored, &json!(before), &json!(state));
    }
}

/// Whether a retry resolves the revisions again (SE-024): not those that a
/// rollout has decided on, since a newer commit would be ahead of its step, and
/// not for self-heal of some resources, which runs no hooks. Of other requests, what a
/// user goes back to is kept: a branch is resolved again, a commit is not.
pub fn is_refreshed(state: &OperationState) -> bool {
    let request = &state.operation;
    let decided = promotion_of(request.raw()).is_some() && !requested_revisions(state).is_empty();
    let healing = is_automated(request)
        && request.sync.as_ref().is_some_and(|sync| !sync.resources.is_empty());
    request.retry.as_ref().is_some_and(|retry| retry.refresh) && !decided && !healing
}

/// Whether an operation is automated.
pub(crate) fn is_automated(request: &Requested) -> bool {
    request.initiated_by.as_ref().is_some_and(|by| by.automated)
}

/// Starts the next attempt (SE-390): results and progress are removed, and with
/// [`is_refreshed`] the revisions, too.
pub fn next_attempt(app: &mut App, attempt: u64) {
    let refresh = is_refreshed(&app.status.operation_state);
    if refresh && !goes_back(app) {
        forget_revisions(app);
    }
    let state = &mut app.status.operation_state;
    state.finished_at = None;
    state.progress.clear();
    state.message = sync::retry_message(attempt, refresh);
    match refresh {
        true => state.sync_result = with_metadata(applied_metadata(state).cloned()),
        false => state.sync_result.get_or_insert_default().resources.clear(),
    }
}

/// Whether the request goes back to what was deployed before: other sources than those of
/// the spec, or commits of the history. Argo CD's clients name a commit in every request,
/// so that a commit alone does not mean that its user wants no other.
fn goes_back(app: &App) -> bool {
    let status = &app.status;
    if is_automated(&status.operation_state.operation) {
        return false;
    }
    let request = status.operation_state.operation.view();
    let Some(sync) = &request.sync else { return false };
    let in_effect = InEffect::of(app.spec());
    let (field, sources) = (in_effect.field, in_effect.value());
    let differs = |name: &str, own: &Value| !own.is_null() && (name != field || *own != sources);
    let named = request.revisions();
    let deployed = status.history.iter().any(|entry| entry.revisions() == named);
    differs("source", &sync.source)
        || differs("sources", &sync.sources)
        || (deployed && named != status.sync.revisions())
}

/// Removes the revisions from the request: from the state, which is used, and
/// from `operation`, which is removed at the end if it is the same.
fn forget_revisions(app: &mut App) {
    let Fields { operation, status, .. } = &mut **app;
    let state = &mut status.operation_state;
    if let Some(request) = operation.as_mut().filter(|own| **own == state.operation) {
        request.forget_revisions();
    }
    state.operation.forget_revisions();
}

/// Records that an attempt failed and another one follows.
pub fn announce_attempt(state: &mut OperationState, attempt: u64, message: String, now: Timestamp) {
    state.phase = OperationPhase::Running;
    state.message = message;
    state.finished_at = Some(Time(stored_time(now)));
    state.retry_count = i64::try_from(attempt).unwrap_or(i64::MAX);
    drop_announced(state);
}

/// Removes the progress, and what was announced and did not happen, or is not known to have
/// happened.
fn drop_announced(state: &mut OperationState) {
    state.progress.clear();
    if let Some(result) = &mut state.sync_result {
        result.resources.retain(|row| {
            row.status != ResultCode::Unknown || row.hook_phase != OperationPhase::Unknown
        });
    }
}

/// Ends the operation (SE-372): sets phase, time and history, and removes the
/// request, unless it was replaced by another one in the meantime.
pub(crate) fn finish(
    app: &mut App,
    phase: OperationPhase,
    message: impl Into<String>,
    now: Timestamp,
) {
    let limit = app.spec_view().revision_history_limit.unwrap_or(HISTORY_LIMIT);
    let state = &mut app.status.operation_state;
    let finished = stored_time(now).max(started(state).map_or(stored_time(now), stored_time));
    state.phase = phase;
    state.message = message.into();
    state.finished_at = Some(Time(finished));
    drop_announced(state);
    let request = state.operation.clone();
    if phase == OperationPhase::Succeeded && request.is_full() {
        record(app, limit, finished);
    }
    if app.operation.as_ref() == Some(&request) {
        app.operation = None;
    }
}

/// When the operation started.
pub(crate) fn started(state: &OperationState) -> Option<Timestamp> {
    state.started_at.as_ref().map(|at| at.0)
}

/// Whether an operation syncs the whole Application: not a dry run, and not only some
/// resources. If it succeeds, it is added to the history (SE-385).
pub fn is_full(request: &Value) -> bool {
    let sync = RequestView::of(request).sync;
    sync.is_none_or(|sync| !sync.dry_run && sync.resources.is_empty())
}

/// Adds a successful operation to the history (SE-385).
fn record(app: &mut App, limit: i64, deployed_at: Timestamp) {
    let status = &mut app.status;
    let state = &status.operation_state;
    let result = state.sync_result.clone().unwrap_or_default();
    status.history.push(RevisionHistory {
        id: status.history.last().map_or(0, |last| last.id.saturating_add(1)),
        revision: result.revision,
        revisions: result.revisions,
        source: result.source,
        sources: result.sources,
        deploy_started_at: state.started_at.clone(),
        deployed_at: Some(Time(deployed_at)),
        initiated_by: state.operation.initiated_by.clone(),
    });
    let limit = usize::try_from(limit.max(0)).unwrap_or(usize::MAX);
    let surplus = status.history.len().saturating_sub(limit);
    status.history.drain(..surplus);
}

/// Whether an operation is valid.
///
/// # Errors
///
/// As `request`.
pub fn check(state: &OperationState) -> Result<(), String> {
    request(&state.operation, "", &[]).map(drop)
}

/// The request in the format of the wave engine.
///
/// # Errors
///
/// A message, when the request has no sync.
pub(crate) fn request(
    operation: &Requested,
    revision: &str,
    inherited: &[String],
) -> Result<sync::ResolvedOperation, String> {
    let none = || "Invalid operation request: no operation specified".to_owned();
    if operation.view().sync.is_none() {
        return Err(none());
    }
    let wanted = operation.sync();
    let wanted = wanted.map_err(|error| format!("Invalid operation request: operation.{error}"))?;
    let wanted = wanted.ok_or_else(none)?;
    let strategy = wanted.sync_strategy.clone().unwrap_or_default();
    let apply_only = strategy.apply.is_some();
    let force = strategy.apply.or(strategy.hook).is_some_and(|chosen| chosen.force);
    Ok(sync::ResolvedOperation {
        revision: revision.to_owned(),
        prune: wanted.prune,
        dry_run: wanted.dry_run,
        apply_only,
        force,
        resources: wanted.resources.clone(),
        sync_options: wanted.sync_options.clone().unwrap_or_else(|| inherited.to_vec()),
        retry: operation.retry.clone(),
    })
}

#[cfg(test)]
mod tests;
