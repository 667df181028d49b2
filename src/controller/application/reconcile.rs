//! The steps of a reconcile: observe, decide and apply for operation, deletion and
//! comparison; one write at the end.

use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use serde_json::Value;

use super::context::{Context, off_worker};
use super::execute::Executor;
use super::observe::{Deleting, Observed, Stop};
use super::queue::{ReconcileResult, Trigger};
use super::reconciliation::Reconciliation;
use crate::act::events::EventRecord;
use crate::api::annotations::is_skipped;
use crate::api::conditions::application::DELETION_ERROR;
use crate::api::{self, ObjectKey};
use crate::controller::error::Error;
use crate::controller::runtime::panic_text;
use crate::decide::app_state::errors::ObserveError;
use crate::decide::app_state::finalize::{self, DeletionState};
use crate::decide::app_state::operate::{self, Next};
use crate::decide::app_state::operation::{self, Stage};
use crate::decide::app_state::reconcile::{self as comparison, CompareFailure};
use crate::decide::app_state::refresh::{self, Circumstances, Reason, Request, digest};
use crate::decide::app_state::{deletion, spec};
use crate::decide::wait::{Wait, WaitFor};
use crate::watch::object::Object;

/// Maximum rounds of an operation in one reconcile; then other Applications are reconciled.
const ROUNDS: usize = 200;

/// Reconciles one Application until only waiting is left.
///
/// # Errors
///
/// When the reconcile has to be repeated.
pub async fn reconcile(
    ctx: &Context,
    key: &ObjectKey,
    trigger: Trigger,
) -> Result<ReconcileResult, Error> {
    let cached = ctx.cached_state(key);
    let mut cached = cached.lock().await;
    let Some(stored) = ctx.application(key) else {
        return Ok(ReconcileResult::Gone);
    };
    if is_skipped(&stored) {
        return Ok(ReconcileResult::Success(ctx.wake(comparison::idle())));
    }
    // Without a valid destination, the reconcile reports what is wrong with it.
    if api::read(&stored["spec"]["destination"]).is_ok_and(|to| ctx.clusters.is_skipped(&to)) {
        tracing::debug!(application = %key, "the Secret of its cluster excludes it from reconciling");
        return Ok(ReconcileResult::Success(ctx.wake(comparison::idle())));
    }
    let mut this = Reconciliation::new(ctx, key, trigger, &mut cached, stored);
    let wait = match ctx.settings.dry_run {
        true => this.dry_run().await,
        false => this.run().await?,
    };
    let expires = ctx.expires(key, this.cached).map(|at| Wait::until(WaitFor::Revision, at));
    let wait = expires.map_or(wait, |expires| wait.or_earlier(expires));
    tracing::debug!(application = %key, ?wait, "end of reconcile");
    Ok(ReconcileResult::Success(ctx.wake(wait)))
}

impl Reconciliation<'_> {
    /// Operation first, then deletion or comparison. Returns what follows.
    async fn run(&mut self) -> Result<Wait, Error> {
        let stage = operation::stage(&self.application);
        let deleting = deletion::asked_at(&self.application).is_some();
        if deleting && stage != Stage::InProgress {
            let wait = self.finalize().await;
            return self.finish(wait).await;
        }
        if let Some(normal) = spec::normalized(&self.application["spec"]) {
            self.application["spec"] = normal;
        }
        let mut next = match stage {
            Stage::Idle => Next::Idle,
            Stage::Requested | Stage::InProgress => self.operate().await?,
        };
        if deleting && matches!(next, Next::Over) {
            // The deletion has waited for this operation, and no other event triggers it.
            self.save().await?;
            let wait = self.finalize().await;
            return self.finish(wait).await;
        }
        let mut wait = self.compare_after(&next).await;
        // A sync that the comparison has requested starts with the same write.
        if stage == Stage::Idle && operation::stage(&self.application) == Stage::Requested {
            next = self.operate().await?;
            wait = wait.or_earlier(self.compare_after(&next).await);
        }
        self.finish(wait).await
    }

    /// Compares if there is a reason. Returns what follows.
    async fn compare_after(&mut self, next: &Next) -> Wait {
        let compared = match self.reason(matches!(next, Next::Over)) {
            Some(reason) => match reason.settles(self.cached.compared_at, self.now()) {
                None => self.compare(reason).await,
                Some(later) => {
                    self.cached.owed = self.cached.owed.and(reason.request);
                    later
                }
            },
            // What the last comparison waits for is still to come, whatever has triggered
            // this reconcile.
            None => self.cached.wait.unwrap_or_else(comparison::idle),
        };
        match next {
            Next::Wait(operation) => operation.or_earlier(compared),
            Next::Observe | Next::Act(_) | Next::Over | Next::Idle => compared,
        }
    }

    /// The write at the end of a reconcile.
    async fn finish(&mut self, wait: Wait) -> Result<Wait, Error> {
        self.save().await?;
        if operation::stage(&self.application) == Stage::Requested {
            // Requested while another operation was running.
            self.ctx.queue.enqueue(self.key, Request::default());
        }
        Ok(wait)
    }

    /// Whether to compare, and why.
    pub(super) fn reason(&mut self, after_operation: bool) -> Option<Reason> {
        let now = self.now();
        let hard = self.ctx.hard_at(self.cached);
        let expires = self.ctx.expires(self.key, self.cached);
        let about = Circumstances {
            request: self.trigger.request.and(self.cached.owed),
            last_spec: self.cached.last_spec,
            expired: self.cached.checked_at.is_none() || expires.is_some_and(|at| at <= now),
            hard: hard.is_some_and(|at| at <= now),
            after_operation,
            is_due: self.cached.wait.is_some_and(|wait| wait.is_due(now)),
        };
        self.cached.last_spec = Some(digest(&self.application["spec"]));
        refresh::reason(&self.application, &about)
    }

    /// One comparison: observe and decide. The result is in the Application. Returns what
    /// follows, and keeps it until the next comparison.
    pub(super) async fn compare(&mut self, reason: Reason) -> Wait {
        let wait = self.compared(reason).await;
        self.cached.wait = Some(wait);
        wait
    }

    async fn compared(&mut self, reason: Reason) -> Wait {
        self.cached.compared_at = Some(self.now());
        let observed = self.observe(&reason).await;
        let settings = self.ctx.settings.comparison();
        let now = self.now();
        let observed = match observed {
            Ok(observed) => observed,
            Err(error) => {
                self.cached.owed = self.cached.owed.and(reason.request);
                return self.compare_failed(error, &reason).await;
            }
        };
        let seen_for = comparison::Seen {
            observation: observed.observation(self.ctx, &self.tracking),
            revisions: observed.revisions.clone(),
            types: observed.rendered.types.to_vec(),
            warnings: observed.warnings(self.ctx),
        };
        let short = is_short(&self.application, &observed);
        let (application, diffs) = (&mut self.application, &mut self.cached.diffs);
        let done = off_worker(short, || {
            comparison::reconcile(application, Ok(&seen_for), &reason, diffs, &settings, now)
        });
        self.cached.failing_since = None;
        self.cached.owed = Request::default();
        self.checked = done.checked.or(self.checked);
        done.wait
    }

    async fn compare_failed(&mut self, error: ObserveError, reason: &Reason) -> Wait {
        let now = self.now();
        let since = match &error {
            ObserveError::Source { transient: true, .. } => {
                *self.cached.failing_since.get_or_insert(now)
            }
            _ => now,
        };
        tracing::debug!(application = %self.key, error = error.message(), "comparison failed");
        let last = match &error {
            // The last rendering is still used to determine health.
            ObserveError::Source { .. } => self.observe_last().await,
            _ => None,
        };
        let last = last.as_ref().map(|last| last.observation(self.ctx, &self.tracking));
        let settings = self.ctx.settings.comparison();
        let failure = CompareFailure { error, since, last };
        let (application, diffs) = (&mut self.application, &mut self.cached.diffs);
        let done = off_worker(false, || {
            comparison::reconcile(application, Err(&failure), reason, diffs, &settings, now)
        });
        if done.tolerated {
            let error = failure.error.message();
            tracing::warn!(application = %self.key, %error, "comparison failed, still within its grace period");
        }
        self.checked = done.checked.or(self.checked);
        done.wait
    }

    /// Runs the operation. When the engine panics, the operation ends with that error and
    /// the controller continues (SE-375).
    async fn operate(&mut self) -> Result<Next, Error> {
        let panic = match AssertUnwindSafe(self.rounds()).catch_unwind().await {
            Ok(next) => return next,
            Err(panic) => panic_text(panic.as_ref()),
        };
        tracing::error!(application = %self.key, error = %panic, "operation failed internally");
        self.reset();
        if operation::stage(&self.application) == Stage::Idle {
            return Err(Error::Panic(panic));
        }
        let message = format!("internal error: {panic}");
        operate::fail_internally(&mut self.application, &message, self.ctx.now());
        Ok(Next::Over)
    }

    /// Rounds of observe, decide and apply. The Application is written before each action
    /// that must be recorded first; the caller writes the remaining changes.
    async fn rounds(&mut self) -> Result<Next, Error> {
        let next = operate::begin(&mut self.application, self.ctx.now());
        if !matches!(next, Next::Observe) {
            return Ok(next);
        }
        let settings = self.ctx.settings.operation();
        let mut outcomes = Vec::new();
        let mut last = None;
        for _ in 0..ROUNDS {
            let observed = match last.take() {
                Some(observed) => Ok(observed),
                None => self.observe_for_operation().await,
            };
            let now = self.now();
            let next = match &observed {
                Ok(observed) => {
                    self.cached.unreadable_since = None;
                    let observation = observed.observation(self.ctx, &self.tracking);
                    let outcomes = std::mem::take(&mut outcomes);
                    let short = is_short(&self.application, observed);
                    let (application, diffs) = (&mut self.application, &mut self.cached.diffs);
                    off_worker(short, || {
                        operate::round(application, &observation, diffs, outcomes, &settings, now)
                    })
                }
                Err(Stop::Error(_)) => Next::Over,
                Err(Stop::Observe(error)) => {
                    let since = *self.cached.unreadable_since.get_or_insert(now);
                    tracing::warn!(application = %self.key, error = error.message(), "operation");
                    let next = operate::stopped(&mut self.application, error, since, now);
                    if operation::is_between_attempts(&self.application) {
                        self.cached.unreadable_since = None;
                    }
                    next
                }
            };
            let observed = match observed {
                Ok(observed) => observed,
                Err(Stop::Error(error)) => return Err(error),
                Err(Stop::Observe(_)) => return Ok(next),
            };
            self.log_operation();
            let Next::Act(act) = next else { return Ok(next) };
            for warning in &act.warnings {
                tracing::warn!(application = %self.key, %warning, "operation");
            }
            if act.persist || operate::is_new(&self.base, &self.application) {
                self.save().await?;
            }
            let uid = operation::uid(&self.application);
            let observation = observed.observation(self.ctx, &self.tracking);
            let executor = Executor {
                ctx: self.ctx,
                cluster: &observed.destination.destination.cluster,
                former_manager: &act.former_manager,
                owner: observation.owner(&uid),
            };
            outcomes = executor.run(&act, &observation.placed.targets).await;
            last = act.sends_nothing().then_some(observed);
        }
        // Others first; this Application is enqueued again.
        Ok(Next::Wait(operate::after_others(self.ctx.now())))
    }

    fn log_operation(&mut self) {
        let digest = operate::wait_digest(&self.application);
        if std::mem::replace(&mut self.cached.logged, digest) == digest {
            return;
        }
        let state = &self.application["status"]["operationState"];
        let phase = state["phase"].as_str().unwrap_or_default();
        let message = state["message"].as_str().unwrap_or_default();
        tracing::info!(application = %self.key, phase, message, "operation");
    }

    /// One step of the deletion; returns what follows. Errors and the remaining
    /// finalizers are in the Application.
    async fn finalize(&mut self) -> Wait {
        if !finalize::is_held(&self.application) {
            return finalize::released();
        }
        let state = self.finalize_step().await;
        match &state {
            Ok(DeletionState::Waits { reason, .. } | DeletionState::Held(reason)) => {
                tracing::info!(application = %self.key, %reason, "deletion");
            }
            Ok(DeletionState::Done) => {}
            Ok(DeletionState::Stuck { message: error, .. }) | Err(error) => {
                tracing::debug!(application = %self.key, %error, "deletion failed");
            }
        }
        finalize::report(&mut self.application, state, self.ctx.now())
    }

    async fn finalize_step(&mut self) -> Result<DeletionState, String> {
        let observed = self.observe_for_deletion().await.map_err(|error| error.message())?;
        let (observed, scope) = match observed {
            Deleting::In(observed, scope) => (observed, scope),
            Deleting::Nowhere(why) => {
                let text = finalize::give_up_cluster(&mut self.application, &why);
                self.report_deletion(text);
                return Ok(DeletionState::Done);
            }
        };
        let observation = observed.observation(self.ctx, &self.tracking);
        let now = self.now();
        let (application, tries) = (&mut self.application, &mut self.cached.tries);
        let plan = finalize::next(application, &observation, &scope, tries, now);
        let uid = operation::uid(&self.application);
        let executor = Executor {
            ctx: self.ctx,
            cluster: &observed.destination.destination.cluster,
            former_manager: "",
            owner: observation.owner(&uid),
        };
        executor.remove(&plan.removals).await?;
        for (at, (hook, attempt)) in plan.creations.iter().enumerate() {
            let made = executor.create(hook, *attempt).await;
            if made.is_err() {
                let rest = plan.creations[at..].iter().map(|(hook, _)| &hook.key);
                finalize::not_made(&mut self.cached.tries, rest);
            }
            made?;
        }
        if let Some(left) = plan.left {
            self.report_deletion(left);
        }
        Ok(plan.state)
    }

    /// Reports what a deletion does not delete. Its finalizers are about to go, and with
    /// them the Application and its conditions.
    fn report_deletion(&self, text: String) {
        tracing::warn!(application = %self.key, "deletion: {text}");
        let record = EventRecord { warning: true, reason: DELETION_ERROR, action: "Delete", text };
        self.ctx.events.publish(&Object::from(self.base.clone()), record);
    }
}

/// Up to this number of objects, a comparison without ignore rules of users is short.
const FEW: usize = 50;

/// Whether the decision takes only a moment.
fn is_short(application: &Value, observed: &Observed) -> bool {
    let rules = application["spec"]["ignoreDifferences"].as_array();
    rules.is_none_or(Vec::is_empty)
        && observed.state.placed.targets.len() + observed.state.live.len() <= FEW
}
