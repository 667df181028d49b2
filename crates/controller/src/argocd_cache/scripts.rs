//! Health by scripts of what lies below the resources of Applications (CA-308).
//!
//! The resources themselves have the health of their comparison. What controllers have created
//! from them is judged here, after the tree is written: nothing waits for it, one script runs
//! at a time, and a script that exceeds its limits for some objects is not run for a minute.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio_util::sync::CancellationToken;
use wavegate_api::Raw;

use super::publisher::{Judged, Publisher};
use crate::health_scripts::HealthScripts;
use wavegate_application::argocd_cache::NodeHealth;
use wavegate_engine::health::Checks;
use wavegate_engine::health::scripts::ScriptResult;
use wavegate_net::clock::Clock;

/// Objects of one Application that are judged before it is the turn of others.
const AT_ONCE: usize = 50;

/// How often a script exceeds a limit before it is paused.
const EXCEEDED: usize = 3;

/// Scripts that exceeded a limit: how often, until when that counts, and their last result.
type Paused = HashMap<Arc<str>, (usize, Timestamp, ScriptResult)>;

/// Judges the objects of Applications that have some which are not judged, until `stop`.
pub async fn run_health(
    publisher: Arc<Publisher>,
    mut wanted: UnboundedReceiver<String>,
    clock: &Clock,
    stop: CancellationToken,
) {
    let mut paused = Paused::new();
    let work = async {
        while let Some(first) = wanted.recv().await {
            let mut all = BTreeSet::from([first]);
            while let Ok(next) = wanted.try_recv() {
                all.insert(next);
            }
            for instance in all {
                let mut due = publisher.unjudged(&instance);
                due.truncate(AT_ONCE);
                if due.is_empty() {
                    continue;
                }
                let (checks, now) = (publisher.checks().clone(), clock.now());
                let before = std::mem::take(&mut paused);
                let judge = move || judge(&checks, due, before, now);
                let Ok((judged, after)) = tokio::task::spawn_blocking(judge).await else {
                    continue;
                };
                paused = after;
                if judged.is_empty() {
                    continue;
                }
                // Those that are left follow, since the tree is written again.
                publisher.judged(&instance, judged);
            }
        }
    };
    stop.run_until_cancelled(work).await;
}

/// By UID, the health of objects; and the scripts that are not to be run for a while.
fn judge(
    checks: &Checks,
    due: Vec<Value>,
    mut paused: Paused,
    now: Timestamp,
) -> (Vec<(String, Judged)>, Paused) {
    paused.retain(|_, (_, until, _)| now < *until);
    let scripts = HealthScripts::default();
    let mut all = Vec::new();
    for object in due.into_iter().map(Arc::new) {
        let (uid, version) = (object.uid().to_owned(), object.resource_version().to_owned());
        let Some(script) = checks.scripts.of_object(&object) else { continue };
        let result = match paused.get(&script.text) {
            Some((times, _, result)) if *times >= EXCEEDED => Some(result.clone()),
            _ => {
                let checked = scripts.checked_blocking(checks, [&object].into_iter(), now);
                checked.results.get(&script.key(&object)).cloned()
            }
        };
        let Some(result) = result else { continue };
        if let Some(until) = result.until.filter(|until| now < *until) {
            let text = Arc::clone(&script.text);
            let exceeded = paused.entry(text).or_insert_with(|| (0, until, result.clone()));
            exceeded.0 += 1;
        }
        let stays = result.until.is_none();
        all.push((uid, Judged { version, health: result.health.map(NodeHealth::from), stays }));
    }
    (all, paused)
}
