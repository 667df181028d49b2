//! What steers the rollout of a set, read from the caches: its policies, its runs, and what other
//! sets take of limits that they share.

use std::sync::Arc;

use jiff::Timestamp;

use super::context::Context;
use crate::act::rollout_run::{self, NewRun, Written};
use crate::api::ObjectKey;
use crate::api::steering::{RolloutPolicySpec, RolloutRunSpec, RolloutRunStatus, RunPhase};
use crate::controller::error::Error;
use crate::decide::application_set::generated::{Generated, labels_of};
use crate::decide::application_set::stored::Set;
use crate::decide::rollout::steer::rules::{Policy, Rules, Selectable};
use crate::decide::rollout::steer::{RunDecision, number_of};
use crate::decide::rollout::steering::{CurrentRun, Pool, Steering};
use crate::watch::failure::reason;
use crate::watch::object::Object;

/// What steers a set. It can be read again at any time.
#[derive(Debug, Default)]
pub struct Steered {
    /// The versions of the policies, and the generation, that the rules were made of.
    from: (Vec<(String, String)>, usize, std::collections::BTreeMap<String, String>),
    /// What the policies amount to.
    rules: Arc<Rules>,
    /// Its runs, the oldest first.
    runs: Vec<Run>,
    /// The states of the ended ones before the latest.
    history: Vec<RolloutRunStatus>,
    has_runs: bool,
    /// What other sets take.
    pub(super) pools: Vec<Pool>,
    /// When the status of a run was written last.
    written_at: Option<Timestamp>,
}

#[derive(Debug)]
struct Run {
    object: Object,
    spec: RolloutRunSpec,
    status: RolloutRunStatus,
}

impl Run {
    fn read(object: Object) -> Self {
        #[derive(serde::Deserialize)]
        struct Fields {
            #[serde(default)]
            spec: RolloutRunSpec,
            #[serde(default)]
            status: RolloutRunStatus,
        }
        // One that cannot be read says nothing; its name counts.
        let fields = object.read::<Fields>();
        let (spec, status) = fields.map_or_else(
            |error| {
                tracing::warn!(run = %object.key(), %error, "cannot read the RolloutRun");
                Default::default()
            },
            |fields| (fields.spec, fields.status),
        );
        Self { object, spec, status }
    }

    fn number(&self) -> Option<u64> {
        number_of(self.object.name())
    }
}

impl Steered {
    /// Reads what has changed.
    pub fn observe(&mut self, set: &Set, generated: &Arc<Generated>, context: &Context) {
        let plane = &context.core.control_plane;
        self.has_runs = plane.has_runs();
        let policies = plane.policies.in_namespace(&set.id.namespace);
        let version =
            |object: &Object| (object.uid().to_owned(), object.resource_version().to_owned());
        let from = (
            policies.values().map(version).collect::<Vec<_>>(),
            Arc::as_ptr(generated) as usize,
            set.labels.clone(),
        );
        if self.from != from {
            self.rules = match policies.is_empty() {
                true => Arc::default(),
                false => Arc::new(rules(policies.into_values(), set, generated)),
            };
            self.from = from;
            context.policies.report(&set.id.namespace, &set.id.name, &self.rules);
        }
        self.observe_runs(plane.runs.owned_by(&set.id.uid));
    }

    fn observe_runs(&mut self, objects: Vec<Object>) {
        let is_known = |object: &Object| {
            self.runs.iter().any(|run| {
                run.object.uid() == object.uid()
                    && run.object.resource_version() == object.resource_version()
            })
        };
        if objects.len() == self.runs.len() && objects.iter().all(is_known) {
            return;
        }
        let mut known = std::mem::take(&mut self.runs);
        let mut runs: Vec<Run> = objects
            .into_iter()
            .map(|object| {
                let at = known.iter().position(|run| {
                    run.object.uid() == object.uid()
                        && run.object.resource_version() == object.resource_version()
                });
                at.map_or_else(|| Run::read(object), |at| known.swap_remove(at))
            })
            .collect();
        runs.sort_by_key(Run::number);
        let before = runs.len().saturating_sub(1);
        self.history = runs.iter().take(before).map(|run| run.status.clone()).collect();
        self.runs = runs;
    }

    /// What the policies amount to.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// The input of a decision; `None` when nothing can be said about the set.
    pub fn input<'a>(&'a self, set: &'a Set) -> Option<Steering<'a>> {
        if !self.has_runs && self.rules.is_empty() && set.paused.is_none() {
            return None;
        }
        let current = self.runs.last();
        Some(Steering {
            set: &set.id.name,
            rules: &self.rules,
            paused: set.paused.as_deref(),
            run: current.map(|run| CurrentRun {
                name: run.object.name(),
                spec: &run.spec,
                status: &run.status,
            }),
            records_runs: self.has_runs,
            pools: &self.pools,
            history: &self.history,
            written_at: self.written_at,
        })
    }
}

fn rules(policies: impl Iterator<Item = Object>, set: &Set, generated: &Generated) -> Rules {
    #[derive(serde::Deserialize)]
    struct Fields {
        #[serde(default)]
        spec: RolloutPolicySpec,
    }
    let policies: Vec<Policy> = policies
        .map(|object| Policy {
            name: object.name().to_owned(),
            spec: object
                .read::<Fields>()
                .map(|fields| fields.spec)
                .map_err(|error| error.to_string()),
        })
        .collect();
    let selects_by_labels = |policy: &Policy| {
        policy.spec.as_ref().is_ok_and(|spec| {
            !spec.gates.is_empty() || spec.pace.as_ref().is_some_and(|pace| pace.spread.is_some())
        })
    };
    // Their labels are in their texts.
    let applications: Vec<Selectable> = match policies.iter().any(selects_by_labels) {
        false => Vec::new(),
        true => generated
            .applications
            .iter()
            .map(|wanted| Selectable {
                name: wanted.name.to_string(),
                labels: labels_of(&wanted.original()),
                step: wanted.steps.step(),
            })
            .collect(),
    };
    let steps = generated.strategy.steps().len();
    Rules::of(&policies, &set.id.name, &set.labels, &applications, steps)
}

/// What the reconcile does after the run was recorded.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Recorded {
    /// It goes on.
    Done,
    /// The run has changed in the meantime: it decides again.
    Outdated,
}

/// Records the run of a decision, before anything that follows from it.
///
/// # Errors
///
/// When something that people or the next decision depend on cannot be stored. What only
/// reports is tried again by the next reconcile.
pub(super) async fn record(
    set: &Set,
    steered: &mut Steered,
    decision: &RunDecision,
    context: &Context,
    now: Timestamp,
) -> Result<Recorded, Error> {
    let write = write(set, steered, decision, context).await;
    let failure = match write {
        Ok(Written::Done(_) | Written::Unchanged) => {
            steered.written_at = Some(now);
            steered.observe_runs(context.core.control_plane.runs.owned_by(&set.id.uid));
            log(decision);
            delete_old(steered, context).await;
            return Ok(Recorded::Done);
        }
        Ok(Written::Outdated) => return Ok(Recorded::Outdated),
        Ok(Written::Absent) => "its definition is not installed: wavegate crds".to_owned(),
        Ok(Written::Refused(reason)) => reason,
        Err(error) => reason(&error),
    };
    if decision.must_be_stored {
        let name = ObjectKey::new(&set.id.namespace, &decision.name).to_string();
        return Err(Error::Run { name, reason: failure });
    }
    tracing::warn!(run = decision.name, error = failure, "cannot record the RolloutRun");
    Ok(Recorded::Done)
}

async fn write(
    set: &Set,
    steered: &Steered,
    decision: &RunDecision,
    context: &Context,
) -> Result<Written, kube::Error> {
    let (client, cache) = (&context.core.client, &*context.core.control_plane.runs);
    if let Some((name, status)) = &decision.superseded
        && let Some(old) = steered.runs.iter().find(|run| run.object.name() == name)
    {
        match rollout_run::write_status(client, cache, &old.object, status).await? {
            Written::Done(_) | Written::Unchanged => {}
            other => return Ok(other),
        }
    }
    let object = match &decision.new {
        Some(new) => {
            let run = NewRun {
                key: ObjectKey::new(&set.id.namespace, &decision.name),
                set_uid: set.id.uid.clone(),
                spec: RolloutRunSpec {
                    application_set: new.application_set.clone(),
                    ..RolloutRunSpec::default()
                },
            };
            match rollout_run::create(client, cache, &run).await? {
                Written::Done(object) => object,
                other => return Ok(other),
            }
        }
        None => match steered.runs.iter().find(|run| run.object.name() == decision.name) {
            Some(run) => run.object.clone(),
            None => return Ok(Written::Outdated),
        },
    };
    rollout_run::write_status(client, cache, &object, &decision.status).await
}

/// Deletes the runs beyond the limit, but not the latest and the last complete one (ST-005).
async fn delete_old(steered: &mut Steered, context: &Context) {
    let limit =
        usize::try_from(context.settings.rollout_history_limit).unwrap_or(usize::MAX).max(1);
    let surplus = steered.runs.len().saturating_sub(limit);
    let is_complete =
        |run: &Run| matches!(run.status.phase, RunPhase::Complete | RunPhase::CompleteWithFailures);
    let last_complete = steered.runs.iter().rposition(is_complete);
    for (index, run) in steered.runs.iter().enumerate().take(surplus) {
        if Some(index) == last_complete || !run.status.phase.has_ended() {
            continue;
        }
        let (client, cache) = (&context.core.client, &*context.core.control_plane.runs);
        if let Err(error) = rollout_run::delete(client, cache, &run.object).await {
            tracing::debug!(run = run.object.name(), error = reason(&error), "cannot delete it");
        }
    }
}

fn log(decision: &RunDecision) {
    if decision.new.is_some() {
        tracing::info!(run = decision.name, "the run begins");
    }
    if decision.is_urgent {
        let RolloutRunStatus { phase, progress, message, .. } = &decision.status;
        tracing::info!(run = decision.name, %phase, progress, message, "run");
    }
}
