//! Automated sync: after each full comparison (SE-420 … SE-431).

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use crate::app::App;
use crate::compared::ComparedResource;
use crate::condition::NewCondition;
use crate::deletion::asked_at;
use crate::operation;
use crate::pairs::ComparedApplication;
use wavegate_api::ApplicationSpec;
use wavegate_api::conditions::application as types;
use wavegate_api::operation::{OperationPhase, OperationState, SyncOperationResult};
use wavegate_api::sources::InEffect;
use wavegate_engine::diff::SyncStatus;
use wavegate_engine::sync::ObjectClass;

/// Most resources that one self-heal names: the operation is stored twice, as requested and in its
/// state, and has a limited size (SE-597). The next one names others.
const MOST_HEALED: usize = 1000;

/// Delays between attempts of self-heal (SE-426).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SelfHeal {
    /// Before the second attempt; zero disables the exponential backoff.
    pub initial: SignedDuration,
    /// The factor of each further delay.
    pub factor: u32,
    /// The longest.
    pub cap: SignedDuration,
    /// The delay without an exponential backoff.
    pub fixed: SignedDuration,
}

impl Default for SelfHeal {
    fn default() -> Self {
        Self {
            initial: SignedDuration::from_secs(2),
            factor: 3,
            cap: SignedDuration::from_secs(300),
            fixed: SignedDuration::ZERO,
        }
    }
}

impl SelfHeal {
    /// The delay after `attempts` attempts.
    pub fn pause(&self, attempts: i64) -> SignedDuration {
        if !self.initial.is_positive() {
            return self.fixed;
        }
        let mut pause = if attempts > 0 { self.initial } else { SignedDuration::ZERO };
        for _ in 1..attempts.min(64) {
            pause = pause.saturating_mul(i32::try_from(self.factor).unwrap_or(i32::MAX));
            if pause >= self.cap {
                break;
            }
        }
        pause.min(self.cap)
    }
}

/// The decision of automated sync.
#[derive(Clone, Debug, PartialEq)]
pub enum AutoSync {
    /// None, without a condition.
    Nothing,
    /// None, with a condition.
    Refuse(NewCondition),
    /// None before this time.
    Wait(Timestamp),
    /// Start this operation.
    Start(Value),
}

/// Decides after a full comparison. `allowed` states whether sync windows allow
/// an automated sync.
pub fn decide(
    app: &App,
    spec: &ApplicationSpec,
    comparison: &ComparedApplication,
    revisions: &[String],
    self_heal: &SelfHeal,
    allowed: bool,
    now: Timestamp,
) -> AutoSync {
    let policy = spec.sync_policy.as_ref();
    let Some(automated) = policy.and_then(|policy| policy.automated.as_ref()) else {
        return AutoSync::Nothing;
    };
    if !spec.is_automated()
        || !allowed
        || app.operation.is_some()
        || asked_at(app.raw()).is_some()
        || comparison.sync != SyncStatus::OutOfSync
    {
        return AutoSync::Nothing;
    }
    // Copies have no status: a sync does nothing about them (SE-116).
    let is_stale = |status: SyncStatus| status != SyncStatus::Synced;
    let stale = || counted(comparison).filter(|r| r.status().is_some_and(is_stale));
    if !automated.prune && stale().all(|resource| resource.requires_pruning()) {
        return AutoSync::Nothing;
    }
    let named = revisions.join(" ");
    let state = &app.status.operation_state;
    let attempted = is_attempted(app, revisions);
    let mut attempts = 0;
    let mut partial = None;
    if attempted {
        if is_of_commit(state) && state.phase != OperationPhase::Succeeded {
            let message = &state.message;
            return refuse(format!("Failed last sync attempt to [{named}]: {message}"));
        }
        if !automated.self_heal {
            return AutoSync::Nothing;
        }
        let request = state.operation.view().sync.as_ref();
        attempts = request.map_or(0, |sync| sync.auto_heal_attempts_count);
        let pause = self_heal.pause(attempts);
        let until = operation::finished(state).and_then(|at| at.checked_add(pause).ok());
        if let Some(until) = until.filter(|until| *until > now) {
            return AutoSync::Wait(until);
        }
        attempts += 1;
        let mut named: Vec<&ComparedResource> = stale().collect();
        if named.len() > MOST_HEALED {
            // What no sync changes would come first each time.
            named.sort_by_key(|resource| resource.requires_pruning() && !automated.prune);
            named.truncate(MOST_HEALED);
        }
        let resources: Vec<Value> = named
            .into_iter()
            .map(|resource| {
                json!({
                    "group": resource.key.group,
                    "kind": resource.key.kind,
                    "name": resource.key.name,
                    "namespace": resource.key.namespace,
                })
            })
            .collect();
        partial = Some(resources);
    }
    if automated.prune && !automated.allow_empty && nothing_is_left(comparison) {
        return refuse(wipes_out(&named));
    }
    AutoSync::Start(operation(app, revisions, automated.prune, attempts, partial))
}

fn counted(comparison: &ComparedApplication) -> impl Iterator<Item = &ComparedResource> {
    comparison.resources.iter().filter(|r| !r.is_hook() && r.class != ObjectClass::Skipped)
}

/// The same without copies: an object whose tracking id names another object is
/// never pruned, so it does not count as remaining.
fn own(comparison: &ComparedApplication) -> impl Iterator<Item = &ComparedResource> {
    // A managed namespace stays without its source, so it does not count either (SE-144).
    let own =
        |r: &&ComparedResource| r.target.is_some() || (r.self_referenced && !r.managed_namespace);
    counted(comparison).filter(own)
}

/// Whether the source has none of the live resources any more.
fn nothing_is_left(comparison: &ComparedApplication) -> bool {
    own(comparison).all(ComparedResource::requires_pruning)
}

fn wipes_out(revisions: &str) -> String {
    format!("Skipping sync attempt to [{revisions}]: auto-sync will wipe out all resources")
}

/// Why an automated operation must stop: it would prune everything, and
/// `allowEmpty` does not permit it. Applies to automated syncs, rollouts and
/// retries (SE-018).
pub fn refuses_to_empty(
    state: &OperationState,
    spec: &ApplicationSpec,
    comparison: &ComparedApplication,
) -> Option<String> {
    let request = &state.operation;
    let policy = spec.sync_policy.as_ref().and_then(|policy| policy.automated.as_ref());
    let permitted = policy.is_some_and(|automated| automated.allow_empty);
    // The user has requested a known commit; a retry may use a newer one.
    let retried = state.retry_count > 0;
    let unasked = operation::is_automated(request) || (retried && operation::is_refreshed(state));
    let prunes = request.sync.as_ref().is_some_and(|sync| sync.prune && !sync.dry_run) && unasked;
    let something = own(comparison).next().is_some();
    (prunes && !permitted && something && nothing_is_left(comparison)).then(|| {
        // Argo CD has no such refusal of an operation, so its words can say what to do.
        let refused = wipes_out(&operation::pinned_revisions(state).join(" "));
        format!(
            "{refused}. To allow this, set spec.syncPolicy.automated.allowEmpty, or sync \
                 manually with prune"
        )
    })
}

fn refuse(message: String) -> AutoSync {
    AutoSync::Refuse(NewCondition::new(types::SYNC_ERROR, message))
}

/// Whether an operation deploys its commit: not a dry run, and no sync that a person limits to some
/// resources. Self-heal names resources of a commit that was deployed as a whole.
fn is_of_commit(state: &OperationState) -> bool {
    let request = &state.operation;
    let is_dry_run = request.sync.as_ref().is_some_and(|sync| sync.dry_run);
    request.is_full() || (operation::is_automated(request) && !is_dry_run)
}

/// Whether these revisions and sources were deployed already, or the last operation has tried to
/// (SE-422). After one that does not deploy its commit, the last deployment says so.
fn is_attempted(app: &App, revisions: &[String]) -> bool {
    let state = &app.status.operation_state;
    let in_effect = InEffect::of(app.spec());
    let is_same = |source: Option<&Value>, sources: &[Value], of: Vec<String>| {
        let is_same_source = match in_effect.is_list() {
            true => sources == &*in_effect.list,
            false => source.unwrap_or(&Value::Null) == &in_effect.value(),
        };
        is_same_source && of == revisions
    };
    if state.phase.is_completed() && !is_of_commit(state) {
        let last = app.status.history.last();
        return last
            .is_some_and(|last| is_same(last.source.as_ref(), &last.sources, last.revisions()));
    }
    let is_resolved = |result: &&SyncOperationResult| {
        result.source.is_some() || !result.sources.is_empty() || !result.revisions().is_empty()
    };
    let Some(result) = state.sync_result.as_ref().filter(is_resolved) else {
        return state.phase.is_completed();
    };
    is_same(result.source.as_ref(), &result.sources, result.revisions())
}

fn operation(
    app: &App,
    revisions: &[String],
    prune: bool,
    attempts: i64,
    resources: Option<Vec<Value>>,
) -> Value {
    let mut sync = Map::new();
    let mut set = |field: &str, value: Value| drop(sync.insert(field.to_owned(), value));
    let in_effect = InEffect::of(app.spec());
    set(in_effect.field, in_effect.value());
    match in_effect.is_list() {
        true => set("revisions", json!(revisions)),
        false => set("revision", json!(revisions.first().map_or("", String::as_str))),
    }
    if prune {
        set("prune", true.into());
    }
    if attempts > 0 {
        set("autoHealAttemptsCount", attempts.into());
    }
    if let Some(resources) = resources {
        set("resources", resources.into());
    }
    let policy = &app.spec_view().sync_policy;
    if !policy.sync_options.is_empty() {
        set("syncOptions", json!(policy.sync_options));
    }
    let retry = Some(&policy.retry).filter(|retry| !retry.is_null()).cloned();
    json!({
        "sync": sync,
        "initiatedBy": {"automated": true},
        "retry": retry.unwrap_or_else(|| json!({"limit": 5})),
    })
}
