//! The end of a set: its Applications go first, in reverse order if trigger
//! (AS-167, AS-168, AS-380 to AS-384).

use std::sync::Arc;
use std::time::Duration;

use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::reconcile::Next;
use super::{dry_run, events};
use crate::act::applications::Writer;
use crate::api::annotations::RESOURCES_FINALIZER;
use crate::controller::context::{Context, Memory};
use crate::controller::error::Error;
use crate::decide::application_set::deletion::{self, Stage};
use crate::decide::application_set::policy::Policy;
use crate::decide::application_set::status;
use crate::decide::rollout::steps;
use crate::watch::failure::reason;
use crate::watch::object::{Object, Parsed, resource};

/// How long to wait for Applications to go if no event arrives (AS-505).
const WHILE_DELETING: Duration = Duration::from_secs(10);

/// One pass over a set that is being deleted.
pub async fn reconcile(
    set: &Parsed,
    context: &Context,
    policy: Policy,
    memory: &mut Memory,
) -> Result<Next, Error> {
    if !has_finalizer(set) {
        // The rest is garbage collection's work, or somebody else's finalizer.
        return Ok(Next::Gone);
    }
    // In which order, and whether at once, is not known.
    if let Some(failure) = status::held(&steps::misspelt(set.value())) {
        let wanted = status::held_deletion(set.value(), &failure, context.clock.now());
        if context.settings.dry_run {
            dry_run::tell(dry_run::of_status(set.value(), &wanted), memory);
            return Ok(Next::Wait);
        }
        return match super::reconcile::record(set, context, &wanted).await? {
            Some(new) => {
                events::failures(&new, set.value(), context, Some(&failure)).await;
                Ok(Next::Wait)
            }
            None => Ok(Next::Again),
        };
    }
    let existing = context.in_namespace(&context.control_plane.applications, set.namespace());
    // Also when the feature is off: the finalizer was promised (AS-380).
    let reverse = deletion::is_reverse(set.value());
    let stage = deletion::stage(set.value(), &existing, policy, reverse);
    if context.settings.dry_run {
        dry_run::tell(dry_run::of_deletion(&stage), memory);
        return Ok(Next::Wait);
    }
    let writer = Writer::new(
        &context.client,
        set.namespace(),
        Arc::clone(&context.control_plane.applications),
        context.settings.concurrent_application_updates,
    );
    match stage {
        Stage::Done => {
            let finalizers = without_finalizer(set);
            patch_set(
                set,
                context,
                json!({
                    "metadata": {
                        "finalizers": finalizers,
                        "resourceVersion": set.resource_version(),
                    }
                }),
            )
            .await?;
            Ok(Next::Gone)
        }
        Stage::Act(plan) => {
            let outcomes = writer.carry_out(&plan).await;
            let failed = outcomes
                .iter()
                .find_map(|outcome| Some((&outcome.application, outcome.result.as_ref().err()?)));
            if let Some((application, error)) = failed {
                return Err(Error::Applications {
                    name: format!("{}/{}", set.namespace(), set.name()),
                    count: 1,
                    first: format!("application {application}: {}", reason(error)),
                });
            }
            Ok(Next::After(WHILE_DELETING))
        }
        Stage::Wait(applications) => {
            tracing::info!(applications = applications.join(","), "waiting for applications to go");
            Ok(Next::After(WHILE_DELETING))
        }
    }
}

/// Whether the set asks for reverse deletion and lacks the finalizer that makes
/// it effective.
pub fn needs_finalizer(set: &Parsed) -> bool {
    deletion::is_reverse(set.value()) && !has_finalizer(set)
}

/// Adds the finalizer.
pub async fn add_finalizer(set: &Parsed, context: &Context) -> Result<(), Error> {
    let mut finalizers = finalizers(set);
    finalizers.push(RESOURCES_FINALIZER.into());
    let patch = json!({
        "metadata": { "finalizers": finalizers, "resourceVersion": set.resource_version() }
    });
    patch_set(set, context, patch).await
}

/// Patches the set itself; a conflict is left to the next pass.
pub async fn patch_set(set: &Parsed, context: &Context, patch: Value) -> Result<(), Error> {
    let api: Api<Object> =
        Api::namespaced_with(context.client.clone(), set.namespace(), &resource("ApplicationSet"));
    let params = PatchParams::default();
    match api.patch(set.name(), &params, &Patch::Merge(&patch)).await {
        Ok(_) => Ok(()),
        Err(error) if crate::act::application_set_status::is_conflict(&error) => Ok(()),
        Err(error) => {
            let name = format!("{}/{}", set.namespace(), set.name());
            Err(Error::Patch { name, reason: reason(&error) })
        }
    }
}

fn finalizers(set: &Parsed) -> Vec<Value> {
    set.value()["metadata"]["finalizers"].as_array().cloned().unwrap_or_default()
}

fn has_finalizer(set: &Parsed) -> bool {
    finalizers(set).iter().any(|finalizer| finalizer == RESOURCES_FINALIZER)
}

fn without_finalizer(set: &Parsed) -> Vec<Value> {
    let mut finalizers = finalizers(set);
    finalizers.retain(|finalizer| finalizer != RESOURCES_FINALIZER);
    finalizers
}
