//! The steps of a reconcile: observe, decide and apply for operation, deletion and
//! comparison; one write at the end.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use jiff::Timestamp;
use serde_json::Value;

use super::context::{Context, off_worker};
use super::observe::{Deleting, Observed};
use super::queue::{ReconcileResult, Trigger};
use super::reconciliation::Reconciliation;
use super::target_state::{Deployed, revisions};
use crate::act::application_events::left_by_deletion;
use crate::act::execute::Executor;
use crate::api::annotations::is_skipped;
use crate::api::{self, ObjectKey};
use crate::controller::error::Error;
use crate::controller::runtime::panic_text;
use crate::decide::app_state::errors::ObserveError;
use crate::decide::app_state::finalize::{self, DeletionState, Plan};
use crate::decide::app_state::operate::{self, Decision, Next, Snapshot, Unobserved};
use crate::decide::app_state::operation::{self, Stage};
use crate::decide::app_state::owner::Owner;
use crate::decide::app_state::reconcile::{self as comparison, CompareFailure};
use crate::decide::app_state::refresh::{self, Due, Occasion, Reason, Request, digest};
use crate::decide::app_state::steps::{self, Step};
use crate::decide::app_state::{access, deletion, dry_run};
use crate::decide::wait::{Wait, WaitFor};

/// Maximum rounds of an operation in one reconcile; then other Applications are reconciled.
const ROUNDS: usize = 200;

/// When a repository takes longer, the start of the operation is written first.
const SHOWN_AFTER: Duration = Duration::from_millis(500);

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
        return Ok(ReconcileResult::Success(ctx.wake(refresh::idle())));
    }
    // Without a valid destination, the reconcile reports what is wrong with it.
    if api::read(&stored["spec"]["destination"]).is_ok_and(|to| ctx.clusters.is_skipped(&to)) {
        tracing::debug!(application = %key, "the Secret of its cluster excludes it from reconciling");
        return Ok(ReconcileResult::Success(ctx.wake(refresh::idle())));
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
    ///
    /// These are on the heap: the future of a reconcile would contain each of them, and
    /// overflow the stack of a worker when it is moved.
    async fn run(&mut self) -> Result<Wait, Error> {
        let (mut made, mut operation, mut wait) = (Vec::new(), Next::Idle, None::<Wait>);
        loop {
            let is_over = matches!(operation, Next::Over);
            let step = steps::next(&self.application, &made, is_over);
            let next = match &step {
                Step::Normalize(spec) => {
                    Arc::make_mut(&mut self.application)["spec"] = spec.clone();
                    None
                }
                Step::Operate => {
                    operation = self.operate().await?;
                    None
                }
                Step::Compare => Some(self.compare_after(&operation).await),
                Step::Finalize => {
                    if is_over {
                        self.save().await?;
                    }
                    Some(Box::pin(self.finalize()).await)
                }
                Step::Finish => break,
            };
            wait = wait.into_iter().chain(next).reduce(Wait::or_earlier);
            made.push(step);
        }
        self.finish(wait.unwrap_or_else(refresh::idle)).await
    }

    /// Compares the Application as a normal reconcile does, and logs the intended writes
    /// (AS-161). Returns what follows.
    async fn dry_run(&mut self) -> Wait {
        if let Step::Normalize(spec) = steps::next(&self.application, &[], false) {
            Arc::make_mut(&mut self.application)["spec"] = spec;
        }
        let wait = match deletion::asked_at(&self.application) {
            None => self.compare_after(&Next::Idle).await,
            Some(_) => self.cached.known.wait.unwrap_or_else(refresh::idle),
        };
        let lines = dry_run::lines(&self.base, &self.application);
        for line in lines.iter().filter(|line| !self.cached.would.contains(&digest(line))) {
            tracing::info!(application = %self.key, "dry run: would {line}");
        }
        self.cached.would = lines.iter().map(digest::<String>).collect();
        wait
    }

    /// Compares if there is a reason. Returns what follows.
    async fn compare_after(&mut self, operation: &Next) -> Wait {
        let occasion = Occasion {
            request: self.trigger.request,
            expires: self.ctx.expires(self.key, self.cached),
            hard: self.ctx.hard_at(self.cached),
            after_operation: matches!(operation, Next::Over),
        };
        let now = self.now();
        let compared = match self.cached.known.due(&self.application, &occasion, now) {
            Due::Now(reason) => self.compare(reason).await,
            Due::Wait(wait) => wait,
        };
        match operation {
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

    /// One comparison: observe and decide. The result is in the Application. Returns what
    /// follows, and keeps it until the next comparison.
    pub(super) async fn compare(&mut self, reason: Reason) -> Wait {
        let wait = Box::pin(self.compared(reason)).await;
        self.cached.known.wait = Some(wait);
        wait
    }

    async fn compared(&mut self, reason: Reason) -> Wait {
        self.cached.known.compared_at = Some(self.now());
        let observed = self.observe(&reason).await;
        let now = self.now();
        let decision = match observed {
            Ok(observed) => {
                let seen = comparison::Seen {
                    observation: observed.observation(self.ctx, &self.tracking),
                    revisions: observed.revisions.clone(),
                    types: observed.rendered.types.to_vec(),
                    warnings: observed.warnings(self.ctx),
                };
                let short = is_short(&self.application, &observed);
                let decision = self.next_of_comparison(Ok(&seen), &reason, short, now);
                self.cached.failing_since = None;
                self.cached.known.postponed = Request::default();
                decision
            }
            Err(error) => {
                self.cached.known.postponed = self.cached.known.postponed.and(reason.request);
                self.compare_failed(error, &reason, now).await
            }
        };
        self.application = Arc::new(decision.application);
        self.checked = decision.checked.or(self.checked);
        decision.wait
    }

    async fn compare_failed(
        &mut self,
        error: ObserveError,
        reason: &Reason,
        now: Timestamp,
    ) -> comparison::Decision {
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
        let failure = CompareFailure { error, since, last };
        let decision = self.next_of_comparison(Err(&failure), reason, false, now);
        if decision.tolerated {
            let error = failure.error.message();
            tracing::warn!(application = %self.key, %error, "comparison failed, still within its grace period");
        }
        decision
    }

    fn next_of_comparison(
        &self,
        seen: Result<&comparison::Seen<'_>, &CompareFailure<'_>>,
        reason: &Reason,
        short: bool,
        now: Timestamp,
    ) -> comparison::Decision {
        let snapshot = comparison::Snapshot {
            application: &self.application,
            seen,
            reason,
            diffs: &self.cached.diffs,
            settings: &self.ctx.settings.comparison(),
            now,
        };
        off_worker(short, || comparison::reconcile(&snapshot))
    }

    /// Runs the operation. When the engine panics, the operation ends with that error and
    /// the controller continues (SE-375).
    async fn operate(&mut self) -> Result<Next, Error> {
        let panic = match AssertUnwindSafe(Box::pin(self.rounds())).catch_unwind().await {
            Ok(next) => return next,
            Err(panic) => panic_text(panic.as_ref()),
        };
        tracing::error!(application = %self.key, error = %panic, "operation failed internally");
        self.reset();
        if operation::stage(&self.application) == Stage::Idle {
            return Err(Error::Panic(panic));
        }
        let message = format!("internal error: {panic}");
        let failed = operate::fail_internally(&self.application, &message, self.ctx.now());
        self.application = Arc::new(failed.application);
        Ok(failed.next)
    }

    /// Rounds of observe, decide and apply. The Application is written before each action
    /// that must be recorded first; the caller writes the remaining changes.
    async fn rounds(&mut self) -> Result<Next, Error> {
        let now = self.ctx.now();
        if operation::stage(&self.application) == Stage::Requested {
            self.cached.known.operation_began = Some(now);
        }
        let begun = operate::begin(&self.application, now);
        self.application = Arc::new(begun.application);
        if !matches!(begun.next, Next::Observe) {
            return Ok(begun.next);
        }
        let settings = self.ctx.settings.operation();
        let mut outcomes = Vec::new();
        let mut last = None;
        for _ in 0..ROUNDS {
            let (commits, observed) = match last.take() {
                Some(observed) => (None, Ok(observed)),
                None => self.observe_round().await?,
            };
            let now = self.now();
            self.cached.unreadable_since = match &observed {
                Ok(_) => None,
                Err(_) => self.cached.unreadable_since.or(Some(now)),
            };
            let since = self.cached.unreadable_since.unwrap_or(now);
            let Decision { application, next } = {
                let short =
                    observed.as_ref().is_ok_and(|observed| is_short(&self.application, observed));
                let observation =
                    observed.as_ref().map(|seen| seen.observation(self.ctx, &self.tracking));
                let snapshot = Snapshot {
                    stored: &self.base,
                    application: &self.application,
                    commits: commits.as_deref(),
                    observed: observation.as_ref().map_err(|error| Unobserved { error, since }),
                    diffs: &self.cached.diffs,
                    outcomes: &outcomes,
                    settings: &settings,
                    now,
                };
                off_worker(short, || operate::operate(&snapshot))
            };
            self.application = Arc::new(application);
            let observed = match observed {
                Ok(observed) => observed,
                Err(error) => {
                    tracing::warn!(application = %self.key, error = error.message(), "operation");
                    if operation::is_between_attempts(&self.application) {
                        self.cached.unreadable_since = None;
                    }
                    return Ok(next);
                }
            };
            self.log_operation();
            let Next::Act(act) = next else { return Ok(next) };
            for warning in &act.warnings {
                tracing::warn!(application = %self.key, %warning, "operation");
            }
            if act.persist {
                self.save().await?;
            }
            let uid = operation::uid(&self.application);
            let executor = self.executor(&observed, &act.former_manager, &uid);
            outcomes = executor.run(&act, &observed.state.placed.targets).await;
            last = act.sends_nothing().then_some(observed);
        }
        // Others first; this Application is enqueued again.
        Ok(Next::Wait(operate::after_others(self.ctx.now())))
    }

    /// What a round of the operation is decided on: the commits, if they are known, and the
    /// rest. While a repository takes long, the start of the operation is written, so that the
    /// user sees it.
    async fn observe_round(
        &mut self,
    ) -> Result<(Option<Vec<String>>, Result<Observed, ObserveError>), Error> {
        let (destination, deployed) = match self.permitted_operation().await {
            Ok(permitted) => permitted,
            Err(error) => return Ok((None, Err(error))),
        };
        let (shas, commits) = match &deployed {
            Deployed::Manifests(_, given) => (given.clone(), Vec::new()),
            Deployed::Sources { sources, known, .. } => {
                let (ctx, key, age) = (self.ctx, self.key, self.age());
                let project = access::project_name(&destination.spec).to_owned();
                let read = revisions(ctx, (key, &project), sources, known, age);
                tokio::pin!(read);
                let commits = match tokio::time::timeout(SHOWN_AFTER, &mut read).await {
                    Ok(commits) => commits,
                    Err(_) => {
                        self.save().await?;
                        read.await
                    }
                };
                match commits {
                    Ok(commits) => {
                        (commits.iter().map(|commit| commit.sha.clone()).collect(), commits)
                    }
                    Err(error) => return Ok((None, Err(error))),
                }
            }
        };
        let observed = self.observe_for_operation(destination, deployed, &commits).await;
        Ok((Some(shas), observed))
    }

    fn executor<'e>(
        &'e self,
        observed: &'e Observed,
        former_manager: &'e str,
        uid: &'e str,
    ) -> Executor<'e> {
        let settings = &self.ctx.settings;
        Executor {
            cluster: &observed.destination.destination.cluster,
            manager: &settings.field_manager,
            former_manager,
            owner: Owner {
                tracking: &self.tracking,
                control_plane_namespace: &settings.control_plane_namespace,
                uid,
            },
            parallel: settings.parallel_applies,
            server_dry_run: settings.server_dry_run,
        }
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
        let observed = self.observe_for_deletion().await;
        let finalize::Decision { application, tries, plan } = match &observed {
            Err(error) => self.next_of_deletion(Err(&error.message())),
            Ok(Deleting::Nowhere(why)) => self.next_of_deletion(Ok(finalize::Seen::Nowhere(why))),
            Ok(Deleting::In(seen, scope)) => {
                let observation = seen.observation(self.ctx, &self.tracking);
                self.next_of_deletion(Ok(finalize::Seen::In(&observation, scope)))
            }
        };
        self.application = Arc::new(application);
        self.cached.tries = tries;
        let done = match &observed {
            Ok(Deleting::In(seen, _)) => self.delete(seen, &plan).await,
            _ => Ok(()),
        };
        if let Some(left) = plan.left.filter(|_| done.is_ok()) {
            left_by_deletion(&self.ctx.events, &self.base, left);
        }
        let state = match done {
            Ok(()) => plan.state,
            Err(message) => DeletionState::Stuck { message, next: None },
        };
        match &state {
            DeletionState::Waits { reason, .. } | DeletionState::Held(reason) => {
                tracing::info!(application = %self.key, %reason, "deletion");
            }
            DeletionState::Done => {}
            DeletionState::Stuck { message: error, .. } => {
                tracing::debug!(application = %self.key, %error, "deletion failed");
            }
        }
        finalize::record(Arc::make_mut(&mut self.application), state, self.ctx.now())
    }

    fn next_of_deletion(&self, observed: Result<finalize::Seen<'_>, &str>) -> finalize::Decision {
        finalize::finalize(&finalize::Snapshot {
            application: &self.application,
            observed,
            tries: &self.cached.tries,
            now: self.now(),
        })
    }

    /// Deletes objects and creates hooks.
    async fn delete(&mut self, observed: &Observed, plan: &Plan) -> Result<(), String> {
        let uid = operation::uid(&self.application);
        let executor = self.executor(observed, "", &uid);
        executor.remove(&plan.removals).await?;
        let (mut rest, mut made) = (plan.creations.as_slice(), Ok(()));
        while let [(hook, attempt), others @ ..] = rest {
            made = executor.create(hook, *attempt).await;
            if made.is_err() {
                break;
            }
            rest = others;
        }
        finalize::not_made(&mut self.cached.tries, rest.iter().map(|(hook, _)| &hook.key));
        made
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
