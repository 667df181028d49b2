//! One comparison: facts in, fields of the status out.

use jiff::Timestamp;
use serde_json::Value;

use super::context::{Context, Draft, Memory, off_worker};
use super::observe::{self, Destination, Trouble};
use crate::api::ObjectKey;
use crate::api::{annotations, conditions};
use crate::decide::app_state::refresh::{Level, Request};
use crate::decide::app_state::{
    self, Comparison, Condition, auto_sync, condition, deletion, operation, status,
};
use tokio::time::Instant;

/// Why a comparison is made.
#[derive(Clone, Copy, Debug)]
pub struct Reason {
    /// How thoroughly.
    pub request: Request,
    /// When it was trigger for.
    pub asked_at: Instant,
    /// Whether an operation has just ended.
    pub after_operation: bool,
    /// Whether somebody trigger: by annotation or by another spec.
    pub asked_for: bool,
}

/// Compares and writes the outcome into the draft. Gives back when automated
/// sync wants another look.
pub async fn compare(
    ctx: &Context,
    key: &ObjectKey,
    memory: &mut Memory,
    draft: &mut Draft,
    reason: Reason,
) -> Option<Timestamp> {
    let found = look(ctx, key, memory, draft, reason).await;
    let finished = operation::finished_at(&draft.wanted);
    let now = ctx.now();
    let now = finished.filter(|_| reason.after_operation).map_or(now, |at| at.max(now));
    let first = draft.base["status"]["reconciledAt"].is_null();
    let forced = reason.asked_for || reason.after_operation || first;
    match found {
        Ok(found) => {
            memory.failing_since = None;
            memory.owed = Request::default();
            let before = operation::given(&draft.base["status"]["sync"]);
            let moved = before != found.revisions;
            let about = status::About {
                revisions: &found.revisions,
                source_types: &found.types,
                resource_health: ctx.settings.resource_health,
                controller_namespace: &ctx.settings.control_plane_namespace,
                reconciled: forced || moved,
                now,
            };
            memory.told_failure = None;
            status::write(&mut draft.wanted, &found.comparison, &found.conditions, &about);
            answer(draft, reason.request);
            let full = reason.request.level > Level::Live;
            if let Some(finalizers) = found.finalizers.clone()
                && draft.base["metadata"]["deletionTimestamp"].is_null()
            {
                draft.wanted["metadata"]["finalizers"] = finalizers.into();
            }
            // A drift that was seen on the way is healed as well.
            let heals = found.place.spec.is_automated();
            let mut conditions = found.conditions.iter().chain(&found.comparison.conditions);
            if (full || heals) && conditions.all(|c| !c.is_error()) {
                return automate(ctx, key, memory, draft, &found, now);
            }
            None
        }
        Err(trouble) => {
            memory.owed = memory.owed.and(reason.request);
            if is_tolerated(ctx, memory, &trouble, forced) {
                let error = trouble.message();
                tracing::warn!(application = %key, %error, "comparison failed, still within its grace period");
                return memory.failing_since.map(|_| now + jiff::SignedDuration::from_secs(10));
            }
            let conditions = trouble.conditions();
            let judged = match &trouble {
                // What was last rendered still tells whether things work.
                Trouble::Source { .. } => last_health(ctx, key, memory, draft).await,
                Trouble::Spec(_) | Trouble::Live(_) => None,
            };
            status::write_failure(&mut draft.wanted, &conditions, judged.as_ref(), forced, now);
            answer(draft, reason.request);
            let error = trouble.message();
            // Told once: the condition says that it still is so.
            if memory.told_failure.as_ref() == Some(&error) {
                tracing::debug!(application = %key, %error, "comparison failed again");
            } else {
                tracing::warn!(application = %key, %error, "comparison failed");
                memory.told_failure = Some(error);
            }
            // Spec errors heal by an event; the others are tried again.
            let again = jiff::SignedDuration::from_secs(match trouble {
                Trouble::Spec(_) => return None,
                Trouble::Source { transient: false, .. } => 60,
                Trouble::Source { transient: true, .. } => 10,
                Trouble::Live(_) => 3,
            });
            Some(now + again)
        }
    }
}

struct Found {
    comparison: Comparison,
    conditions: Vec<Condition>,
    revisions: Vec<String>,
    types: Vec<String>,
    finalizers: Option<Vec<String>>,
    place: Destination,
}

async fn look(
    ctx: &Context,
    key: &ObjectKey,
    memory: &mut Memory,
    draft: &Draft,
    reason: Reason,
) -> Result<Found, Trouble> {
    let application = &draft.wanted;
    let place = observe::place(ctx, key, application).await?;
    let sources = place.spec.sources().to_vec();
    for gone in memory.sources.iter().filter(|old| !sources.contains(old)) {
        ctx.revisions.release(key, gone);
    }
    memory.sources = sources.clone();
    let Request { level, hard } = reason.request;
    let compared = operation::given(&application["status"]["sync"]);
    let known = if level <= Level::Live { compared } else { Vec::new() };
    if known.is_empty() {
        memory.checked_at = Some(Instant::now());
    }
    let fresh = observe::freshness(ctx, level, reason.asked_at);
    let revisions = observe::revisions(ctx, key, &sources, &known, fresh).await?;
    let raw = raw_sources(application);
    let namespace = &place.spec.destination.namespace;
    let rendered = observe::manifests(ctx, key, memory, &raw, &revisions, namespace, hard).await?;
    let tracking = ctx.tracking(key);
    let world = observe::world(memory, application, &place, &rendered, &tracking).await?;
    let (comparison, mut conditions) = off_worker(|| {
        let (config, conditions) = observe::rules(memory, application);
        let facts = observe::facts(ctx, application, &place, &world, &tracking, &config);
        (app_state::compare(&facts, &mut memory.diffs), conditions)
    });
    conditions.extend(world.placed.conditions.iter().cloned());
    conditions.extend(place.project.warnings(&place.project_name));
    conditions.extend(app_state::unlisted(&place.destination.cluster.unlisted()));
    let repeated = conditions::application::REPEATED_KEY_WARNING;
    conditions.extend(rendered.warnings.iter().map(|text| Condition::new(repeated, text.as_str())));
    Ok(Found {
        comparison,
        conditions,
        revisions: revisions.into_iter().map(|revision| revision.sha).collect(),
        types: rendered.types,
        finalizers: deletion::hook_finalizers(application, &world.placed.targets),
        place,
    })
}

/// The sources in effect, raw.
fn raw_sources(application: &Value) -> Vec<Value> {
    let spec = &application["spec"];
    match spec["sources"].as_array().filter(|sources| !sources.is_empty()) {
        Some(sources) => sources.clone(),
        None => vec![spec["source"].clone()],
    }
}

/// Takes the request out of the annotations (SE-379): the write is made for
/// the version in which it was read, so a newer one stays.
fn answer(draft: &mut Draft, request: Request) {
    if request.level < Level::Newest {
        return;
    }
    if let Some(annotations) =
        draft.wanted.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut)
    {
        annotations.remove(annotations::REFRESH);
        annotations.remove(annotations::REFRESH_TIMESTAMP);
    }
}

/// Whether a failure is too young to be shown (SE-107).
fn is_tolerated(ctx: &Context, memory: &mut Memory, trouble: &Trouble, forced: bool) -> bool {
    let Trouble::Source { transient: true, .. } = trouble else { return false };
    let since = *memory.failing_since.get_or_insert_with(Instant::now);
    !forced && since.elapsed() < ctx.settings.repo_error_grace
}

/// Health by the last rendering, when the source cannot be read.
async fn last_health(
    ctx: &Context,
    key: &ObjectKey,
    memory: &mut Memory,
    draft: &Draft,
) -> Option<crate::decide::health::Health> {
    let rendered = memory.rendered.last()?.clone();
    let application = &draft.wanted;
    let place = observe::place(ctx, key, application).await.ok()?;
    let tracking = ctx.tracking(key);
    let world = observe::world(memory, application, &place, &rendered, &tracking).await;
    let world = world.ok()?;
    off_worker(|| {
        let (config, _) = observe::rules(memory, application);
        let facts = observe::facts(ctx, application, &place, &world, &tracking, &config);
        Some(app_state::compare(&facts, &mut memory.diffs).health)
    })
}

/// Starts a sync that nobody trigger for, or says why not.
fn automate(
    ctx: &Context,
    key: &ObjectKey,
    memory: &mut Memory,
    draft: &mut Draft,
    found: &Found,
    now: Timestamp,
) -> Option<Timestamp> {
    let verdict = observe::windows(key, &found.place, None, now);
    let decision = auto_sync::decide(
        &draft.wanted,
        &found.place.spec,
        &found.comparison,
        &found.revisions,
        &ctx.settings.self_heal,
        verdict.allowed,
        now,
    );
    let mut conditions = Vec::new();
    let waits = !verdict.allowed && found.place.spec.is_automated();
    let mut wake_at = verdict.next_change.filter(|_| waits);
    match decision {
        auto_sync::Decision::Nothing => {}
        auto_sync::Decision::Refuse(condition) => conditions.push(condition),
        auto_sync::Decision::Wait(until) => wake_at = Some(until),
        auto_sync::Decision::Start(request) => {
            memory.last_started = operation::started_at(&draft.wanted).or(memory.last_started);
            draft.wanted["operation"] = request;
            if let Some(status) = draft.wanted["status"].as_object_mut() {
                status.remove("operationState");
            }
        }
    }
    if let Some(status) = draft.wanted["status"].as_object_mut() {
        status::conditions(status, condition::OF_AUTO_SYNC, &conditions, now);
    }
    wake_at
}
