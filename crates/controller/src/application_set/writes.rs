//! The writes of Applications in a reconcile.

use std::time::Duration;

use tokio::time::Instant;

use super::context::Context;
use super::giving_way::GivingWay;
use super::memory::SetMemory;
use super::written_part::{WrittenPart, patch_of};
use wavegate_api::ObjectKey;
use wavegate_cluster::act::control_plane::applications::Writer;
use wavegate_rollout::application_set::decision::Decision;
use wavegate_rollout::application_set::plan::outcome::{Ended, WriteAct, WriteOutcome};

/// Writes the Applications; whether some are left for the next reconcile, which begins at once: the
/// first step is synced while the rest is written. A decision goes over the whole set each time, so
/// only what it waits for interrupts the writes. The reconcile began at `since`.
pub(super) async fn write(
    (writer, key): (&Writer, &ObjectKey),
    context: &Context,
    decision: &Decision,
    memory: &mut SetMemory,
    since: Instant,
) -> (Vec<WriteOutcome>, bool) {
    let writes = &decision.writes;
    let giving_way = GivingWay::new((context, key), decision, memory, since);
    let (outcomes, is_postponed) = writer.write(writes, || giving_way.gives_way()).await;
    let began = giving_way.began();
    let started =
        outcomes.iter().filter(|one| (one.act, &one.ended) == (WriteAct::Start, &Ended::Written));
    let step_of = |outcome: &WriteOutcome| patch_of(writes, &outcome.application)?.step;
    let steps: Vec<Option<usize>> = started.map(step_of).collect();
    context.core.metrics.triggered(key, &steps, began.unwrap_or_else(Instant::now) - since);
    if is_postponed && let Some(pace) = &mut memory.pace {
        // What it gives way to has happened: nothing more is gathered.
        pace.lead = Duration::ZERO;
    }
    memory.part = match is_postponed {
        true => WrittenPart::of(writes, &outcomes),
        false => WrittenPart::default(),
    };
    (outcomes, is_postponed)
}
