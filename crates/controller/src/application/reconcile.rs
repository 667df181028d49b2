//! The steps of a reconcile: observe, decide and apply for operation, deletion and
//! comparison; one write at the end.

use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use futures::FutureExt;
use jiff::Timestamp;
use turns::{Caller, on_behalf_of};

use super::comparisons::ComparisonEnd;
use super::context::{Context, Evaluating, off_worker};
use super::destination::ResolvedDestination;
use super::left_hooks;
use super::observe::{Deleting, ObservedApplication, Reconnects};
use super::queue::{ReconcileResult, Trigger};
use super::reconciliation::Reconciliation;
use super::target_state::{Deployed, revisions};
use crate::argocd_cache::PublishedComparison;
use crate::error::ReconcileError;
use crate::runtime::panic_text;
use wavegate_api::ObjectKey;
use wavegate_api::app_status::ApplicationSummary;
use wavegate_application::errors::ObserveError;
use wavegate_application::finalize::{
    self, DeletionDecision, DeletionInput, DeletionSnapshot, DeletionState, Plan,
};
use wavegate_application::memory::digest_of;
use wavegate_application::observation::Observation;
use wavegate_application::operate::{self, Next, OperationDecision, OperationSnapshot};
use wavegate_application::operation;
use wavegate_application::reconcile::{
    self as comparison, CompareFailure, ComparisonDecision, ComparisonInput, ComparisonSnapshot,
    Shown,
};
use wavegate_application::refresh::{self, Due, Reason, RefreshTrigger};
use wavegate_application::request::{ComparisonRequest, Level};
use wavegate_application::steps::{self, ApplicationStep};
use wavegate_application::{access, dry_run};
use wavegate_cluster::act::application_events::left_by_deletion;
use wavegate_cluster::act::sync::execute::Executor;
use wavegate_engine::wait::Wait;

/// Maximum rounds of an operation in one reconcile; then other Applications are reconciled.
const ROUNDS: usize = 200;

/// How long the end of a refresh waits until its result can be read in Redis.
const PUBLISHED_WITHIN: Duration = Duration::from_secs(2);

/// Up to this number of resources, the values for Redis are made in a moment.
const FEW: usize = 20;

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
) -> Result<ReconcileResult, ReconcileError> {
    let cached = ctx.cached_state(key);
    let mut cached = cached.lock().await;
    let mark = ctx.comparisons.mark();
    let Some(stored) = ctx.application(key) else {
        left_hooks::release_of_gone(ctx, key, &cached).await;
        return Ok(ReconcileResult::Gone);
    };
    if steps::is_left_alone(&stored, |destination| ctx.clusters.is_skipped(destination)) {
        ctx.comparisons.ended(key, mark, ComparisonEnd::Unknown);
        return Ok(ReconcileResult::Success(ctx.wake(refresh::wait_idle())));
    }
    let mut this = Reconciliation::new(ctx, key, trigger, &mut cached, (stored, mark));
    steps::normalize_spec(&mut this.app);
    // Whatever it waits for deeper down, its project and it take their turns.
    let caller = Caller::new(access::project_of(this.app.raw()), &key.to_string());
    let wait = match ctx.settings.dry_run {
        true => on_behalf_of(caller, Box::pin(this.dry_run())).await,
        false => on_behalf_of(caller, Box::pin(this.run())).await?,
    };
    let wait = steps::wait_until(&this.app, &this.cached.memory, wait, &ctx.intervals(key));
    tracing::debug!(application = %key, ?wait, "end of reconcile");
    Ok(ReconcileResult::Success(ctx.wake(wait)))
}

impl Reconciliation<'_> {
    /// Operation first, then deletion or comparison. Returns what follows.
    ///
    /// These are on the heap: the future of a reconcile would contain each of them, and
    /// overflow the stack of a worker when it is moved.
    async fn run(&mut self) -> Result<Wait, ReconcileError> {
        let (mut made, mut operation, mut wait) = (Vec::new(), Next::Idle, None::<Wait>);
        loop {
            let is_over = matches!(operation, Next::Over);
            let step = steps::next_step(&self.app, &made, is_over);
            let next = match step {
                ApplicationStep::Operate => {
                    operation = self.operate().await?;
                    None
                }
                ApplicationStep::Compare => Some(self.compare_after(&operation).await),
                ApplicationStep::Finalize => {
                    if is_over {
                        self.save().await?;
                    }
                    Some(Box::pin(self.finalize()).await?)
                }
                ApplicationStep::Finish => break,
            };
            wait = wait.into_iter().chain(next).reduce(Wait::or_earlier);
            made.push(step);
        }
        self.finish(wait.unwrap_or_else(refresh::wait_idle)).await
    }

    /// Compares the Application as a normal reconcile does, and logs the intended writes
    /// (AS-161). Returns what follows.
    async fn dry_run(&mut self) -> Wait {
        let wait = match steps::of_dry_run(&self.app) {
            ApplicationStep::Compare => self.compare_after(&Next::Idle).await,
            _ => self.cached.memory.wait.unwrap_or_else(refresh::wait_idle),
        };
        let (stored, written) = (self.app.stored(), self.app.written());
        let lines = dry_run::intended_writes(stored, written.as_ref().unwrap_or(stored));
        for line in lines.iter().filter(|line| !self.cached.would.contains(&digest_of(line))) {
            tracing::info!(application = %self.key, "dry run: would {line}");
        }
        self.cached.would = lines.iter().map(digest_of::<String>).collect();
        wait
    }

    /// Compares if there is a reason. Returns what follows.
    async fn compare_after(&mut self, operation: &Next) -> Wait {
        let occasion = RefreshTrigger {
            request: self.trigger.request,
            intervals: self.ctx.intervals(self.key),
            after_operation: matches!(operation, Next::Over),
        };
        let now = self.now();
        operation.and_compared(match self.cached.memory.due(&self.app, &occasion, now) {
            Due::Now(reason) => Box::pin(self.compare(reason)).await,
            Due::Wait(wait) => {
                self.announce_last();
                wait
            }
        })
    }

    /// The write at the end of a reconcile.
    async fn finish(&mut self, wait: Wait) -> Result<Wait, ReconcileError> {
        self.save().await?;
        if steps::is_operation_next(&self.app) {
            self.ctx.queue.enqueue(self.key, ComparisonRequest::default());
        }
        Ok(wait)
    }

    /// One comparison: observe and decide. Returns what follows.
    async fn compare(&mut self, reason: Reason) -> Wait {
        let began = Instant::now();
        let mut observed = self.observe(&reason).await;
        self.announce(&observed, reason.request.level);
        if let Ok(observed) = &mut observed {
            let is_asked_for = reason.asked_for && reason.request.level >= Level::Newest;
            let afresh = reason.request.hard || is_asked_for;
            self.predict(observed, afresh).await;
        }
        let now = self.now();
        let mut below = ApplicationSummary::default();
        let evaluating = match &observed {
            Ok(_) => self.evaluating().await,
            Err(_) => None,
        };
        let decision = match &observed {
            Ok(observed) => {
                below = observed.below(self.ctx, &self.tracking.instance);
                let seen = ComparisonInput {
                    observation: observed.observation(self.ctx, &self.tracking),
                    revisions: observed.revisions.clone(),
                    types: observed.rendered.types.to_vec(),
                    warnings: observed.warnings(self.ctx),
                    below: below.clone(),
                    held: observed.held.as_ref().map(|held| {
                        let state = held.state.as_ref();
                        let tracking = &self.tracking;
                        let seen = |state| observed.observation_of(state, self.ctx, tracking);
                        (held.revisions.as_slice(), state.map(seen))
                    }),
                };
                self.next_of_comparison(Ok(&seen), &reason, now)
            }
            Err(error) => {
                // Also when this reconcile is given up before it decides.
                let memory = &mut self.cached.memory;
                memory.postponed = memory.postponed.and(reason.request);
                self.compare_failed(error.clone(), &reason, now).await
            }
        };
        Evaluating::end(evaluating).await;
        self.publish((&observed, &below), decision.shown.as_ref(), &reason).await;
        self.app = decision.app;
        self.cached.memory = decision.memory;
        if let Ok(observed) = &observed {
            self.release_left_hooks(observed).await;
        }
        self.checked = decision.checked.or(self.checked);
        self.ctx.core.metrics.compared(self.key, self.app.raw(), began.elapsed());
        decision.wait
    }

    /// Writes the comparison for Argo CD's API server. One that was asked for is there before the
    /// request is removed, since readers look for it then (CA-403, CA-501); but Redis holds up
    /// nothing for long.
    async fn publish(
        &self,
        (observed, below): (&Result<ObservedApplication, ObserveError>, &ApplicationSummary),
        shown: Option<&Shown>,
        reason: &Reason,
    ) {
        let Some(publisher) = &self.ctx.publisher else { return };
        let is_asked_for = reason.request.level >= Level::Newest;
        let written = match (observed, shown) {
            (Ok(observed), Some(Shown { resources, config, summary })) => {
                let ResolvedDestination { spec, destination, project, .. } = &observed.destination;
                let compared = PublishedComparison {
                    instance: &self.tracking.instance,
                    resources,
                    tracking: &self.tracking,
                    config,
                    cluster: &destination.cluster,
                    namespace: &spec.destination.namespace,
                    project: &project.spec,
                    own: summary,
                    below,
                    is_asked_for,
                };
                off_worker(resources.len() <= FEW, || publisher.compared(&compared))
            }
            (Err(ObserveError::Refused(_)), _) => publisher.refused(&self.tracking.instance),
            _ => return,
        };
        if is_asked_for {
            let written = tokio::time::timeout(PUBLISHED_WITHIN, written);
            // Written later, if at all.
            let _ = self.ctx.lend_slot(written).await;
        }
    }

    async fn compare_failed(
        &mut self,
        error: ObserveError,
        reason: &Reason,
        now: Timestamp,
    ) -> ComparisonDecision {
        tracing::debug!(application = %self.key, error = error.message(), "comparison failed");
        let last = match error.is_of_source() {
            // The last rendering is still used to determine health.
            true => self.observe_last().await,
            false => None,
        };
        let evaluating = self.evaluating().await;
        let decision = {
            let last = last.as_ref().map(|last| last.observation(self.ctx, &self.tracking));
            let failure = CompareFailure { error, last };
            let decision = self.next_of_comparison(Err(&failure), reason, now);
            if decision.tolerated {
                let error = failure.error.message();
                tracing::warn!(application = %self.key, %error, "comparison failed, still within its grace period");
            }
            decision
        };
        Evaluating::end(evaluating).await;
        decision
    }

    /// Before a decision with expressions of users, if there may be some.
    async fn evaluating(&self) -> Option<Evaluating> {
        let own = self.app.spec_view().ignore_differences.as_array();
        let evaluates = own.is_some_and(|rules| !rules.is_empty())
            || !self.ctx.settings.compared.rules.is_empty();
        match evaluates {
            true => Some(self.ctx.evaluating().await),
            false => None,
        }
    }

    fn next_of_comparison(
        &self,
        seen: Result<&ComparisonInput<'_>, &CompareFailure<'_>>,
        reason: &Reason,
        now: Timestamp,
    ) -> ComparisonDecision {
        let snapshot = ComparisonSnapshot {
            app: &self.app,
            memory: &self.cached.memory,
            seen,
            reason,
            diffs: &self.cached.diffs,
            settings: &self.ctx.settings.comparison(),
            now,
        };
        let is_short = seen.is_ok_and(|seen| seen.observation.is_short());
        off_worker(is_short, || comparison::reconcile(&snapshot))
    }

    /// Runs the operation. When the engine panics, the operation ends with that error and
    /// the controller continues (SE-375).
    async fn operate(&mut self) -> Result<Next, ReconcileError> {
        let panic = match AssertUnwindSafe(Box::pin(self.rounds())).catch_unwind().await {
            Ok(next) => return next,
            Err(panic) => panic_text(panic.as_ref()),
        };
        tracing::error!(application = %self.key, error = %panic, "operation failed internally");
        self.reset();
        let now = self.now();
        operate::fail_internally(&mut self.app, &panic, now).ok_or(ReconcileError::Panic(panic))
    }

    /// Keeps a decision about the operation. Returns what follows.
    fn keep(&mut self, decision: OperationDecision) -> Next {
        self.app = decision.app;
        self.cached.memory = decision.memory;
        decision.next
    }

    /// Rounds of observe, decide and apply. The Application is written before each action
    /// that must be recorded first; the caller writes the remaining changes.
    async fn rounds(&mut self) -> Result<Next, ReconcileError> {
        let settings = self.ctx.settings.operation();
        let begun = operate::begin_round(&self.app, &self.cached.memory, &settings, self.now());
        let begun = self.keep(begun);
        if !matches!(begun, Next::Observe) {
            return Ok(begun);
        }
        let mut outcomes = Vec::new();
        let mut last = None;
        for _ in 0..ROUNDS {
            let (commits, observed) = match last.take() {
                Some(observed) => (None, Ok(observed)),
                None => {
                    let (commits, mut observed) = self.observe_round().await?;
                    if let Ok(observed) = &mut observed
                        && operate::skips_unchanged(&self.app)
                    {
                        self.predict(observed, false).await;
                    }
                    (commits, observed)
                }
            };
            let evaluating = self.evaluating().await;
            let decision = {
                let observation =
                    observed.as_ref().map(|seen| seen.observation(self.ctx, &self.tracking));
                let snapshot = OperationSnapshot {
                    app: &self.app,
                    memory: &self.cached.memory,
                    commits: commits.as_deref(),
                    observed: observation.as_ref().map_err(|error| *error),
                    diffs: &self.cached.diffs,
                    outcomes: &outcomes,
                    settings: &settings,
                    now: self.now(),
                };
                let is_short = snapshot.observed.is_ok_and(Observation::is_short);
                off_worker(is_short, || operate::operate_round(&snapshot))
            };
            Evaluating::end(evaluating).await;
            let next = self.keep(decision);
            let observed = match observed {
                Ok(observed) => observed,
                Err(error) => {
                    tracing::warn!(application = %self.key, error = error.message(), "operation");
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
            let uid = operation::uid_of(self.app.raw());
            let Ok(client) = observed.destination.client() else {
                // The next round says so: it is refused before anything is observed.
                return Ok(Next::Wait(operate::after_others(self.ctx.now())));
            };
            let executor = self.executor(&observed, &client, &act.former_manager, &uid);
            let work = executor.run(&act, &observed.state.placed.targets);
            // Until the cluster answers, or what is replaced is gone.
            outcomes = self.ctx.lend_slot_of_sync(work).await;
            last = act.sends_nothing().then_some(observed);
        }
        // Others first; this Application is enqueued again.
        Ok(Next::Wait(operate::after_others(self.ctx.now())))
    }

    /// What a round of the operation is decided on: the commits, if they are known, and the
    /// rest; from the next connection to the cluster when one ends. While a repository takes
    /// long, the start of the operation is written, so that the user sees it.
    async fn observe_round(
        &mut self,
    ) -> Result<(Option<Vec<String>>, Result<ObservedApplication, ObserveError>), ReconcileError>
    {
        let mut reconnects = Reconnects::default();
        loop {
            let (commits, observed) = self.observe_round_once().await?;
            if !reconnects.repeats(&observed) {
                return Ok((commits, observed));
            }
        }
    }

    async fn observe_round_once(
        &mut self,
    ) -> Result<(Option<Vec<String>>, Result<ObservedApplication, ObserveError>), ReconcileError>
    {
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

    pub(super) fn executor<'e>(
        &'e self,
        observed: &'e ObservedApplication,
        client: &'e kube::Client,
        former_manager: &'e str,
        uid: &'e str,
    ) -> Executor<'e> {
        let ResolvedDestination { spec, destination, .. } = &observed.destination;
        let project = access::project_name(spec);
        let meter = self.ctx.core.metrics.meter(self.key, project, &destination.server);
        let owner = self.ctx.owner(&self.tracking, uid);
        let mut executor = self.ctx.executor(&destination.cluster, client, owner, meter);
        executor.applier.former_manager = former_manager;
        executor
    }

    fn log_operation(&mut self) {
        let state = &self.app.status.operation_state;
        let digest = operate::wait_digest(state);
        if std::mem::replace(&mut self.cached.logged, digest) != digest {
            let (phase, message) = (state.phase.as_str(), state.message.as_str());
            tracing::info!(application = %self.key, phase, result = message, "operation");
        }
    }

    /// One step of the deletion; returns what follows. Errors and the remaining
    /// finalizers are in the Application.
    async fn finalize(&mut self) -> Result<Wait, ReconcileError> {
        // It has nothing in its source any more, as far as others are concerned.
        self.ctx.comparisons.forget(self.key);
        if let Some(cluster) = &self.cached.cluster {
            cluster.claim(&self.tracking.instance, [], &[]);
        }
        if !finalize::is_held(&self.app) {
            return Ok(finalize::wait_released());
        }
        let observed = self.observe_for_deletion().await;
        let decision = match &observed {
            Err(error) => self.next_of_deletion(Err(&error.message())),
            Ok(Deleting::Nowhere(why)) => self.next_of_deletion(Ok(DeletionInput::Nowhere(why))),
            Ok(Deleting::In(seen, scope, unlisted)) => {
                let observation = seen.observation(self.ctx, &self.tracking);
                self.next_of_deletion(Ok(DeletionInput::In(&observation, scope, unlisted)))
            }
        };
        let plan = decision.plan;
        let ends_step = decision.app.metadata.finalizers != self.app.metadata.finalizers;
        self.app = decision.app;
        // A step that has ended is stored before the next one deletes its hooks, or they would
        // run again after a restart (SE-298).
        if ends_step && plan.acts() {
            self.save().await?;
        }
        self.cached.memory = decision.memory;
        let done = match &observed {
            Ok(Deleting::In(seen, ..)) => self.delete(seen, &plan).await,
            _ => Ok(()),
        };
        if let Some(left) = plan.left.filter(|_| done.is_ok()) {
            left_by_deletion(&self.ctx.events, self.app.stored(), left);
        }
        // Nothing announces what this process has created itself, if it does not change afterwards.
        let is_made = done.is_ok() && !plan.creations.is_empty();
        let state = plan.state.after(done);
        match &state {
            DeletionState::Waits { reason, .. } | DeletionState::Held(reason) => {
                tracing::info!(application = %self.key, %reason, "deletion");
            }
            DeletionState::Done => {}
            DeletionState::Stuck { message: error, .. } => {
                tracing::debug!(application = %self.key, %error, "deletion failed");
            }
        }
        let now = self.now();
        let wait = finalize::record_deletion(&mut self.app, state, now);
        Ok(if is_made { wait.or_earlier(finalize::wait_made(now)) } else { wait })
    }

    fn next_of_deletion(&self, observed: Result<DeletionInput<'_>, &str>) -> DeletionDecision {
        finalize::finalize_deletion(&DeletionSnapshot {
            app: &self.app,
            memory: &self.cached.memory,
            observed,
            clean_hooks: self.ctx.settings.clean_delete_hooks,
            now: self.now(),
        })
    }

    /// Deletes objects and creates hooks.
    async fn delete(&mut self, observed: &ObservedApplication, plan: &Plan) -> Result<(), String> {
        if !plan.acts() {
            return Ok(());
        }
        let uid = operation::uid_of(self.app.raw());
        let client = match observed.destination.client() {
            Ok(client) => client,
            Err(why) => {
                let hooks = plan.creations.iter().map(|(hook, _)| &hook.key);
                finalize::not_made(&mut self.cached.memory.tries, hooks);
                return Err(why);
            }
        };
        let executor = self.executor(observed, &client, "", &uid);
        self.ctx.lend_slot_of_sync(executor.remove(&plan.removals)).await?;
        let (mut rest, mut made) = (plan.creations.as_slice(), Ok(()));
        while let [(hook, attempt), others @ ..] = rest {
            made = self.ctx.lend_slot_of_sync(executor.create(hook, *attempt)).await;
            if made.is_err() {
                break;
            }
            rest = others;
        }
        finalize::not_made(&mut self.cached.memory.tries, rest.iter().map(|(hook, _)| &hook.key));
        made
    }
}
