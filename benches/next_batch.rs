//! From "the last Application of a batch turned Healthy" to "the operations of
//! the next batch are written", as a watch sees both.
//!
//! Sixty Applications in twenty steps of three, rolled out again and again; a
//! stand-in for Argo CD's application controller does the syncs, so that what is
//! measured is the decision and its writes. On the embedded API server, and on
//! a real one when `WAVEGATE_TEST_KUBECONFIG` names its kubeconfig.

#[path = "../tests/it/support/mod.rs"]
#[allow(dead_code, reason = "the end-to-end cases use the rest of it")]
#[allow(clippy::unwrap_used, reason = "a measurement that cannot go on has failed")]
mod support;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::Value;
use support::invariants::{is_done, is_in_flight};
use support::manifests::{rolling, set};
use support::stand_in::StandIn;
use support::{Kind, Log, Setup, World};

/// design.md, section 8.
const TARGET: Duration = Duration::from_millis(100);
const STEPS: usize = 20;
const PER_STEP: usize = 3;
/// Rollouts besides the first, which also creates everything.
const ROLLOUTS: usize = 5;

fn main() {
    // Asked by `cargo test --benches`, which only wants to know that it builds.
    if std::env::args().any(|argument| argument == "--test" || argument == "--list") {
        return;
    }
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime can be built").block_on(async {
        report("embedded API server", measure(World::embedded("next_batch").await).await);
        if let Some(world) = World::cluster("next_batch").await {
            report("real API server", measure(world).await);
        }
    });
}

/// How long each step but the first waited, over all rollouts.
async fn measure(mut world: World) -> Vec<Duration> {
    let names: Vec<(String, String)> = (0..STEPS * PER_STEP)
        .map(|number| (format!("app-{number:03}"), format!("step-{:02}", number / PER_STEP)))
        .collect();
    let members: Vec<(&str, &str)> =
        names.iter().map(|(name, step)| (name.as_str(), step.as_str())).collect();
    let labels: Vec<String> = (0..STEPS).map(|step| format!("step-{step:02}")).collect();
    let steps: Vec<(&str, Value)> =
        labels.iter().map(|label| (label.as_str(), Value::Null)).collect();
    world.create(Kind::ApplicationSet, set(&world, "fleet", &members, &rolling(&steps))).await;
    let argo = StandIn::start(&world, &revision(0), &[]);
    world.start(&Setup::external()).await;
    for rollout in 0..=ROLLOUTS {
        let revision = revision(rollout);
        argo.commit(&revision);
        world
            .until(&format!("rollout {rollout} is complete"), |log| {
                let done = |(name, _): &(String, String)| {
                    log.get(Kind::Application, name).is_some_and(|app| is_done(app, &revision))
                };
                names.iter().all(done).then_some(())
            })
            .await;
    }
    let waits = world.recorder.read(|log| {
        (1..=ROLLOUTS).flat_map(|rollout| waits(log, &names, &revision(rollout))).collect()
    });
    world.finish().await;
    waits
}

fn revision(rollout: usize) -> String {
    format!("{:040x}", rollout + 1)
}

/// For each step but the first: from the last Application of the step before
/// being done to the last operation of this one being written.
fn waits(log: &Log, names: &[(String, String)], revision: &str) -> Vec<Duration> {
    let mut done: BTreeMap<&str, Instant> = BTreeMap::new();
    let mut begun: BTreeMap<&str, Instant> = BTreeMap::new();
    for record in log.of(Kind::Application) {
        let operation = &record.object["operation"]["sync"]["revision"];
        if is_in_flight(&record.object) && *operation == revision {
            begun.entry(record.name()).or_insert(record.seen);
        }
        if is_done(&record.object, revision) {
            done.entry(record.name()).or_insert(record.seen);
        }
    }
    let of = |at: &BTreeMap<&str, Instant>, chunk: &[(String, String)]| {
        chunk.iter().map(|(name, _)| at[name.as_str()]).max()
    };
    let chunks: Vec<&[(String, String)]> = names.chunks(PER_STEP).collect();
    let wait = |pair: &[&[(String, String)]]| {
        Some(of(&begun, pair[1])?.saturating_duration_since(of(&done, pair[0])?))
    };
    chunks.windows(2).filter_map(wait).collect()
}

fn report(server: &str, mut waits: Vec<Duration>) {
    waits.sort_unstable();
    let at = |share: f64| {
        let last = waits.len() - 1;
        waits[((last as f64) * share).round() as usize]
    };
    let line = |name: &str, wait: Duration| {
        let ratio = wait.as_secs_f64() / TARGET.as_secs_f64();
        println!("  {name}  {:8.2} ms   {ratio:5.2} of the target", wait.as_secs_f64() * 1e3);
    };
    println!(
        "healthy to next batch, {} applications, {server}, {} batches, target p99 {} ms",
        STEPS * PER_STEP,
        waits.len(),
        TARGET.as_millis()
    );
    line("p50", at(0.50));
    line("p99", at(0.99));
}
