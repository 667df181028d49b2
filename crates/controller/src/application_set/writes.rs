//! The writes of Applications in a reconcile.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use super::context::Context;
use super::memory::SetMemory;
use super::written_part::WrittenPart;
use wavegate_api::ObjectKey;
use wavegate_cluster::act::control_plane::applications::Writer;
use wavegate_rollout::application_set::decision::Decision;
use wavegate_rollout::application_set::plan::outcome::WriteOutcome;
use wavegate_rollout::rollout::RolloutPlan;

/// A rollout decides again after this time at the latest, although it has still to write.
const WRITES_AT_MOST: Duration = Duration::from_secs(1);

/// While Applications of the open step are in flight, the writes take so many times as long as all
/// else in a reconcile, such as its status: what the rollout waits for comes again and again.
const WRITES_BESIDE: u32 = 4;

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
    let earliest = memory.pace.map_or(since, |pace| pace.writes_until);
    let rollout = decision.rollout.as_ref().filter(|_| !memory.part.is_planned_again(writes));
    // When the first of them was written, after the operations that start.
    let began = OnceLock::new();
    // Also what happened before it may give way.
    let has_news = AtomicBool::new(false);
    let gives_way = || {
        let Some(plan) = rollout else { return false };
        let is_waited_for = |news: &Option<String>| is_waited_for(plan, memory, news.as_deref());
        let is_new = context.take_news(key).iter().any(is_waited_for);
        let has_news = has_news.fetch_or(is_new, Ordering::Relaxed) || is_new;
        let now = Instant::now();
        let began = *began.get_or_init(|| now);
        let shares = plan.in_flight > 0 || !plan.starts.is_empty();
        let share = if shares { (began - since) * WRITES_BESIDE } else { Duration::ZERO };
        has_news && now >= earliest.max(began + share) || now >= began + WRITES_AT_MOST
    };
    let (outcomes, is_postponed) = writer.write(writes, gives_way).await;
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

/// Whether a decision may follow from a change of an Application, which is none of a later step; of
/// something else, without a name.
fn is_waited_for(plan: &RolloutPlan, memory: &SetMemory, changed: Option<&str>) -> bool {
    let Some(name) = changed else { return true };
    let Some(generated) = memory.generated.as_deref() else { return true };
    match generated.get(name).map(|wanted| wanted.steps.step()) {
        None => true,
        Some(step) => step.zip(plan.open_step).is_some_and(|(step, open)| step <= open),
    }
}
