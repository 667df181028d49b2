//! The decision on a set that is being deleted.

use std::time::Duration;

use crate::application_set::decision::{Decision, NextReconcile, Snapshot};
use crate::application_set::deletion::{self, Deletion, DeletionStage, Reverse};
use crate::application_set::plan::write_plan::WritePlan;
use crate::application_set::status;
use crate::application_set::status::events;
use crate::application_set::status::findings::{self, Failure};
use wavegate_api::annotations::RESOURCES_FINALIZER;
use wavegate_api::conditions::application_set::{self as condition, reason};
use wavegate_engine::wait::WaitFor;

/// The delay while Applications are being deleted, without an event (AS-505).
const WHILE_DELETING: Duration = Duration::from_secs(10);

/// Decides on a set that is being deleted: its Applications are deleted first,
/// in reverse order if requested (AS-167, AS-168, AS-380 to AS-384).
pub(in crate::application_set) fn delete(snapshot: &Snapshot<'_>) -> Decision {
    let Snapshot { set, generated, now, .. } = *snapshot;
    if !set.has_finalizer() {
        // Garbage collection or the owner of another finalizer does the rest, but for what the set
        // keeps: another finalizer may hold it while its Applications are deleted.
        let writes = super::keep(snapshot.leaving).filter(|_| generated.keeps_resources);
        let next = match writes {
            Some(_) => NextReconcile::After(WaitFor::SetDeletion, WHILE_DELETING),
            None => NextReconcile::Gone,
        };
        return Decision { next, writes: writes.unwrap_or_default(), ..Decision::default() };
    }
    // The deletion order is unknown.
    if generated.policy.deletes()
        && let Some(failure) = findings::held(&generated.misspelt)
    {
        let status = status::with_error(set, &failure, snapshot.redact, now);
        let events =
            events::failure_event(&set.status, &status, Some(&failure)).into_iter().collect();
        return Decision { status: Some(status), events, ..Decision::default() };
    }
    // Also when the feature is disabled: the finalizer was set for it (AS-380).
    let deletion = Deletion {
        finalizers: &set.finalizers,
        owned: snapshot.leaving,
        policy: generated.policy,
        keeps_resources: generated.keeps_resources,
        reverse: generated.deletes_in_reverse.then_some(&generated.strategy),
        now,
    };
    match deletion::deletion_stage(&deletion) {
        DeletionStage::Done => {
            let mut finalizers = set.finalizers.clone();
            finalizers.retain(|finalizer| finalizer != RESOURCES_FINALIZER);
            Decision {
                finalizers: Some(finalizers),
                next: NextReconcile::Gone,
                ..Decision::default()
            }
        }
        DeletionStage::Act(writes) => Decision {
            writes,
            next: NextReconcile::After(WaitFor::SetDeletion, WHILE_DELETING),
            ..Decision::default()
        },
        DeletionStage::Wait(leaving) => Decision {
            leaving,
            next: NextReconcile::After(WaitFor::SetDeletion, WHILE_DELETING),
            ..Decision::default()
        },
        DeletionStage::Reverse(reverse) => delete_in_reverse(snapshot, reverse),
    }
}

fn delete_in_reverse(snapshot: &Snapshot<'_>, reverse: Reverse) -> Decision {
    let Reverse { deletes, waits, unsure, stuck } = reverse;
    let (set, redact, now) = (snapshot.set, snapshot.redact, snapshot.now);
    let failure = stuck.first().map(|first| {
        let more = match stuck.len() - 1 {
            0 => String::new(),
            more => format!(" (and {more} more)"),
        };
        let message = format!("application {} {}{more}", first.name, first.why());
        Failure { reason: reason::DELETE_APPLICATION_ERROR, message }
    });
    let failed = set.status.has(condition::ERROR_OCCURRED, "True");
    let status = match &failure {
        Some(failure) => Some(status::with_error(set, failure, redact, now)),
        None if failed && unsure.is_empty() => Some(status::without_error(set, now)),
        None => None,
    };
    let event = |status| events::failure_event(&set.status, status, failure.as_ref());
    let events = status.as_ref().and_then(event).into_iter().collect();
    let writes = WritePlan { deletes, ..WritePlan::default() };
    let next = NextReconcile::After(WaitFor::SetDeletion, WHILE_DELETING);
    Decision { status, events, writes, leaving: waits, unsure, stuck, next, ..Decision::default() }
}
