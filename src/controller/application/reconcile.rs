//! One pass over one Application: operation, comparison, one write.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt;
use jiff::Timestamp;
use tokio::time::Instant;

use super::compare::{self, Reason};
use super::context::{Context, Draft, Memory};
use super::dry_run;
use super::finalize;
use super::operate::{self, Driven};
use super::queue::{ReconcileResult, Trigger};
use crate::api::ObjectKey;
use crate::api::annotations::is_skipped;
use crate::controller::error::Error;
use crate::controller::runtime::panic_text;
use crate::decide::app_state::operation::{self, Stage};
use crate::decide::app_state::refresh::{Level, Request, asked_for};
use crate::decide::app_state::{deletion, spec};

/// Works on one Application until there is nothing to do but wait.
///
/// # Errors
///
/// When the pass has to be made again.
pub async fn reconcile(
    ctx: &Context,
    key: &ObjectKey,
    trigger: Trigger,
) -> Result<ReconcileResult, Error> {
    let memory = ctx.memory(key);
    let mut memory = memory.lock().await;
    let Some(application) = ctx.application(key) else {
        return Ok(ReconcileResult::Gone);
    };
    if is_skipped(&application) {
        return Ok(ReconcileResult::Well(None));
    }
    let mut draft = Draft::new(application);
    if ctx.settings.dry_run {
        let expires = dry_run::reconcile(ctx, key, &mut memory, &mut draft, trigger).await;
        return Ok(ReconcileResult::Well(expires));
    }
    let stage = operation::stage(&draft.wanted);
    let deleting = deletion::asked_at(&draft.wanted).is_some();
    if deleting && stage != Stage::InProgress {
        let again = finalize::finalize(ctx, key, &mut memory, &mut draft, trigger).await?;
        return finish(ctx, key, &mut memory, &mut draft, again).await;
    }
    if let Some(normal) = spec::normalized(&draft.wanted["spec"]) {
        draft.wanted["spec"] = normal;
    }
    let mut driven = match stage {
        Stage::Idle => None,
        Stage::Requested | Stage::InProgress => {
            Some(drive(ctx, key, &mut memory, &mut draft, trigger).await?)
        }
    };
    if deleting && driven == Some(Driven::ReconcileResult) {
        // It was this that the deletion waited for, and nothing else wakes it.
        ctx.save(key, &mut memory, &mut draft).await?;
        let again = finalize::finalize(ctx, key, &mut memory, &mut draft, trigger).await?;
        return finish(ctx, key, &mut memory, &mut draft, again).await;
    }
    let mut wake_at = None;
    loop {
        let over = driven == Some(Driven::ReconcileResult);
        if let Some(Driven::Waits(at)) = driven {
            wake_at = [wake_at, at].into_iter().flatten().min();
        }
        let was_idle = operation::stage(&draft.wanted) == Stage::Idle;
        if let Some(reason) = reason(ctx, key, &mut memory, &draft, trigger, over) {
            let again = compare::compare(ctx, key, &mut memory, &mut draft, reason).await;
            wake_at = [wake_at, again].into_iter().flatten().min();
        }
        // A sync that the comparison has asked for begins with the same write.
        if !was_idle || over || operation::stage(&draft.wanted) != Stage::Requested {
            break;
        }
        driven = Some(drive(ctx, key, &mut memory, &mut draft, trigger).await?);
        if driven != Some(Driven::ReconcileResult) {
            break;
        }
    }
    finish(ctx, key, &mut memory, &mut draft, wake_at).await
}

/// Drives the operation. Should the engine fail internally, the operation ends
/// with that as its error, and the controller goes on (SE-375).
async fn drive(
    ctx: &Context,
    key: &ObjectKey,
    memory: &mut Memory,
    draft: &mut Draft,
    trigger: Trigger,
) -> Result<Driven, Error> {
    let driven = AssertUnwindSafe(operate::drive(ctx, key, memory, draft, trigger));
    let panic = match driven.catch_unwind().await {
        Ok(driven) => return driven,
        Err(panic) => panic_text(panic.as_ref()),
    };
    tracing::error!(application = %key, error = %panic, "operation failed internally");
    if let Some(stored) = ctx.application(key) {
        *draft = Draft::new(stored);
    }
    match operation::stage(&draft.wanted) {
        Stage::InProgress => {}
        Stage::Requested => operation::begin(&mut draft.wanted, ctx.now()),
        Stage::Idle => return Err(Error::Panic(panic)),
    }
    let message = format!("internal error: {panic}");
    let phase = crate::api::operation::OperationPhase::Error;
    operation::finish(&mut draft.wanted, phase, &message, ctx.now());
    Ok(Driven::ReconcileResult)
}

/// Whether to compare, and why (SE-377).
pub(super) fn reason(
    ctx: &Context,
    key: &ObjectKey,
    memory: &mut Memory,
    draft: &Draft,
    trigger: Trigger,
    after_operation: bool,
) -> Option<Reason> {
    let wanted = asked_for(&draft.wanted);
    let mut request = trigger.request.and(memory.owed);
    if let Some(wanted) = wanted {
        request = request.and(wanted);
    }
    if memory.spec != draft.wanted["spec"] {
        request = request.and(Request::new(Level::Revision));
    }
    let mut asked_at = trigger.at;
    if after_operation {
        // What was synced may be newer than what was known: an answer counts
        // only when it was trigger for after the operation began (SE-372).
        request = request.and(Request::new(Level::Newest));
        let started = operation::started_at(&draft.wanted).filter(|_| wanted.is_none());
        let since = started.map(|at| ctx.now().duration_since(at));
        let since = since.and_then(|since| Duration::try_from(since).ok());
        asked_at = since.and_then(|since| trigger.at.checked_sub(since)).unwrap_or(trigger.at);
    }
    let respecified = !memory.spec.is_null() && memory.spec != draft.wanted["spec"];
    memory.spec = draft.wanted["spec"].clone();
    let now = Instant::now();
    if memory.checked_at.is_none() || ctx.expires(key, memory).is_some_and(|at| at <= now) {
        let hard = ctx.settings.hard_reconciliation_timeout;
        let hard = !hard.is_zero() && memory.rendered_at.is_some_and(|at| at.elapsed() >= hard);
        request = request.and(Request { level: Level::Revision, hard });
    }
    request.is_some().then_some(Reason {
        request,
        asked_at,
        after_operation,
        asked_for: wanted.is_some() || respecified,
    })
}

/// The write at the end of a pass, and when the next one is due.
async fn finish(
    ctx: &Context,
    key: &ObjectKey,
    memory: &mut Memory,
    draft: &mut Draft,
    wake_at: Option<Timestamp>,
) -> Result<ReconcileResult, Error> {
    ctx.save(key, memory, draft).await?;
    if operation::stage(&draft.wanted) == Stage::Requested {
        // Started by this pass itself, or put there while another one ran.
        ctx.queue.wake(key, Request::default());
    }
    let wake_at = wake_at.map(|at| ctx.instant(at));
    let expires = ctx.expires(key, memory);
    Ok(ReconcileResult::Well([wake_at, expires].into_iter().flatten().min()))
}
