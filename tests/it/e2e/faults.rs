//! Failed requests, lost responses and lost watches, pseudo-random and reproducible.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kube_sim::{Effect, InjectedFault, RequestRecord, Server};
use serde_json::json;

use crate::support::invariants::{self, Steps};
use crate::support::manifests::{VERSION, members, rolling, set, with_waves};
use crate::support::{Kind, Setup, World};

use super::external::is_complete;

/// Faults per thousand requests.
const PER_MILLE: u64 = 15;

/// AS-305, AS-307, AS-308: the steps are in order, and each Application is synced once per
/// revision, also when writes of the status are lost.
pub async fn failed_requests_and_lost_watches_have_no_effect(mut world: World, seed: u64) {
    let (dev, prod) = (members("dev", 3), members("prod", 6));
    let apps: Vec<(String, String)> = dev.iter().chain(&prod).cloned().collect();
    let all: Vec<(&str, &str)> =
        apps.iter().map(|(name, env)| (name.as_str(), env.as_str())).collect();
    let commit = |world: &World, version: &str| {
        let files: Vec<_> = apps.iter().flat_map(|(name, _)| with_waves(name, version)).collect();
        world.repository.commit(version, &files)
    };
    let steps = Steps::default()
        .step(dev.iter().map(|(name, _)| name), None)
        .step(prod.iter().map(|(name, _)| name), Some(2));
    let strategy = rolling(&[("dev", json!(null)), ("prod", json!(2))]);
    let first = commit(&world, "v1");
    world.create(Kind::ApplicationSet, set(&world, "fleet", &all, &strategy)).await;

    let server = world.server().unwrap().clone();
    inject(&server, seed);
    world.start(&Setup::default()).await;
    let drops = tokio::spawn(lose_watches(server.clone()));
    world.until_rolled_out("fleet", &steps, &first).await;
    let second = commit(&world, "v2");
    world.refresh("dev-00").await;
    world
        .until("the second commit is everywhere in spite of faults", |log| {
            // The recorder watches each kind on its own, also after a lost watch.
            let is_applied = |(name, _): &(String, String)| {
                let live = log.get(Kind::Deployment, name);
                live.is_some_and(|live| live["metadata"]["annotations"][VERSION] == "v2")
            };
            let is_done = invariants::all_done(log, &steps, &second) && is_complete(log, "fleet");
            (is_done && apps.iter().all(is_applied)).then_some(())
        })
        .await;
    drops.abort();
    server.clear_faults();
    world.recorder.read(|log| invariants::check(log, &steps));
    let refused = server.requests().iter().filter(|request| request.code >= 409).count();
    assert!(refused > 20, "only {refused} requests were refused; nothing was shown");
    world.finish().await;
}

fn inject(server: &Server, seed: u64) {
    let is_write = |request: &RequestRecord| {
        matches!(request.verb.as_str(), "create" | "update" | "patch" | "apply" | "delete")
    };
    let effects = [
        Effect::Status(409),
        Effect::Status(429),
        Effect::Status(500),
        Effect::DropAfterApplying,
        Effect::Latency(Duration::from_millis(30)),
    ];
    let chance = Arc::new(Chance(AtomicU64::new(seed)));
    for effect in effects {
        let chance = Arc::clone(&chance);
        // Reads fail, too, but cannot conflict.
        let writes_only = matches!(effect, Effect::Status(409) | Effect::DropAfterApplying);
        let matcher = move |request: &RequestRecord| {
            // Discovery sends some twenty requests at once: at this rate, it would hardly
            // ever succeed.
            request.client == "controller"
                && !request.resource.is_empty()
                && (is_write(request) || !writes_only)
                && chance.next() % 1000 < PER_MILLE
        };
        server.inject(InjectedFault::new(effect, matcher).times(usize::MAX));
    }
}

/// Closes all watches repeatedly, including the recorder's, which resumes.
async fn lose_watches(server: Server) {
    let mut seen = server.revision();
    loop {
        tokio::time::sleep(Duration::from_millis(20)).await;
        // After a number of writes, not after a time.
        if server.revision() >= seen + 60 {
            seen = server.revision();
            server.drop_watches();
        }
    }
}

/// SplitMix64.
struct Chance(AtomicU64);

impl Chance {
    fn next(&self) -> u64 {
        let mut z = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}
