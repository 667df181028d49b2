//! What the controller does without an event (AS-390, AS-505), on a clock that jumps; and an event
//! that never reaches it.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::time::Instant;

use super::super::{ReconcileResult, Trigger};
use super::steps::{dev_and_prod, entry_of};
use super::*;
use crate::error::ReconcileError;
use crate::runtime::Wake;
use wavegate_api::ObjectKey;

/// The longest time without a reconcile while a rollout is not complete.
const POLL: Duration = Duration::from_secs(30);
/// For what follows at once: steps in the simulated time.
const AT_ONCE: Duration = Duration::from_secs(1);
/// Shorter than the time after which a stall is reported.
const QUIET: Duration = Duration::from_secs(240);

/// What the controller did, and whether it loses the next event.
#[derive(Debug, Default)]
struct Seen {
    loses: AtomicBool,
    began: Mutex<Vec<Instant>>,
    due: Mutex<Option<Instant>>,
}

/// The controller between whose cache and whose queue an event is lost.
struct Losing {
    inner: Controller,
    seen: Arc<Seen>,
}

impl Reconciler for Losing {
    type Request = Request;
    const FINISHES: bool = Controller::FINISHES;

    fn span(key: &ObjectKey) -> tracing::Span {
        Controller::span(key)
    }

    async fn gather(&self, key: &ObjectKey) {
        self.inner.gather(key).await;
    }

    async fn reconcile(
        &self,
        key: &ObjectKey,
        trigger: Trigger<Request>,
    ) -> Result<ReconcileResult, ReconcileError> {
        let is_event = trigger.request.0;
        if is_event && self.seen.loses.swap(false, Ordering::SeqCst) {
            // As if it had not come: what it is about is not known, and the time stays.
            self.inner.0.take_changed(key);
            let due = *self.seen.due.lock();
            return Ok(ReconcileResult::Success(due.map_or(Wake::On(&[]), Wake::At)));
        }
        self.seen.began.lock().push(Instant::now());
        let ended = self.inner.reconcile(key, trigger).await;
        *self.seen.due.lock() = match ended {
            Ok(ReconcileResult::Success(Wake::At(due))) => Some(due),
            _ => None,
        };
        ended
    }

    async fn report(&self, key: &ObjectKey, error: &ReconcileError) {
        self.inner.report(key, error).await;
    }

    async fn forget(&self, key: &ObjectKey) {
        self.inner.forget(key).await;
    }
}

struct Jumping {
    world: ClusterState,
    seen: Arc<Seen>,
}

impl Jumping {
    /// The controller on the clock of the server, with a timeout of Pending in seconds.
    async fn start(timeout: Option<i64>) -> Self {
        let mut world = ClusterState::start(ApplicationSetSettings::default()).await;
        let mut settings = progressive(ApplicationSetSettings::default());
        settings.decisions.rollout.rules.progressing_timeout =
            timeout.map(jiff::SignedDuration::from_secs);
        let (time, seen) = (world.server.clock(), Arc::<Seen>::default());
        let own = Arc::clone(&seen);
        world._stop = ClusterState::run_with(
            &world.server,
            settings,
            ClusterState::local(),
            Clock::of(move || time.now()),
            move |context| Losing { inner: Controller(context), seen: own },
        );
        Self { world, seen }
    }

    /// What a comparison writes to an Application, and the end of its operation, if it has one, in
    /// one event.
    async fn compare(&self, name: &str, sync: &str, health: &str) {
        let live = self.world.until("Application", name, |_| true).await;
        let now = jiff::Timestamp::from_second(self.world.server.clock().now().as_second());
        let now = now.unwrap().to_string();
        let spec = &live["spec"];
        let mut status = json!({
            "sync": {
                "status": sync, "revision": "r1",
                "comparedTo": {"source": spec["source"], "destination": spec["destination"]},
            },
            "health": {"status": health},
            "reconciledAt": now,
        });
        if live["operation"].is_object() {
            status["operationState"] = json!({
                "operation": live["operation"], "phase": "Succeeded", "startedAt": now,
                "finishedAt": now, "syncResult": {"revision": "r1"},
            });
        }
        let patch = json!({"operation": null, "status": status});
        self.world.patch("Application", name, patch).await;
    }

    /// How often it has reconciled.
    fn count(&self) -> usize {
        self.seen.began.lock().len()
    }

    /// Waits until it has done what follows from the last event.
    async fn calm(&self) {
        let calm = async {
            loop {
                let before = (self.count(), self.world.server.writes("sets"));
                tokio::time::sleep(3 * AT_ONCE).await;
                if (self.count(), self.world.server.writes("sets")) == before {
                    return;
                }
            }
        };
        tokio::time::timeout(LIMIT, calm).await.expect("it becomes calm");
    }

    /// The times between the next three reconciles, of a calm controller.
    async fn next_gaps(&self) -> Vec<Duration> {
        let first = self.count() - 1;
        let next = async {
            while self.count() <= first + 3 {
                tokio::time::sleep(AT_ONCE).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(3600), next).await.expect("it reconciles");
        let began = &self.seen.began.lock()[first..];
        began.windows(2).map(|pair| pair[1] - pair[0]).collect()
    }

    /// A set whose first Application has an operation that nobody has begun.
    async fn promoted(timeout: Option<i64>) -> Self {
        let jumping = Self::start(timeout).await;
        jumping.world.create("ApplicationSet", "set", dev_and_prod()).await;
        for name in ["a", "b"] {
            jumping.compare(name, "OutOfSync", "Missing").await;
        }
        jumping.world.until_operation("a").await;
        jumping
    }
}

/// AS-390: the event that completes a step is lost, and the next step begins all the same.
#[tokio::test(start_paused = true)]
async fn a_lost_event_stops_no_rollout_as_390() {
    let jumping = Jumping::promoted(Some(300)).await;
    let Jumping { world, seen } = &jumping;
    tokio::time::sleep(AT_ONCE).await;
    jumping.calm().await;
    let (lost, writes) = (Instant::now(), world.server.writes("sets"));
    seen.loses.store(true, Ordering::SeqCst);
    jumping.compare("a", "Synced", "Healthy").await;
    jumping.calm().await;
    assert!(!seen.loses.load(Ordering::SeqCst), "AS-390: the event is lost");
    let set = world.until("ApplicationSet", "set", |_| true).await;
    assert_eq!(entry_of(&set, "a")["status"], "Pending", "AS-390: nobody knows it");
    assert_eq!(world.server.writes("sets"), writes);
    let before = *seen.began.lock().last().unwrap();
    world.until_operation("b").await;
    let (passed, since) = (lost.elapsed(), before.elapsed());
    assert!(passed > 3 * AT_ONCE && since <= POLL + AT_ONCE, "AS-390: {passed:?}, {since:?}");
}

/// AS-390: while an Application is Waiting, Pending or Progressing, half a minute passes at most
/// without a reconcile, and such a reconcile writes nothing. A complete rollout has no timer.
#[tokio::test(start_paused = true)]
async fn an_unfinished_rollout_is_decided_again_without_a_write_as_390() {
    for phase in ["Waiting", "Pending", "Progressing", "Healthy"] {
        let jumping = Jumping::start(None).await;
        let Jumping { world, seen } = &jumping;
        let max_update = if phase == "Waiting" { json!(0) } else { Value::Null };
        let set = fleet(&[("a", "dev")], steps(&[("dev", max_update)]));
        world.create("ApplicationSet", "set", set).await;
        jumping.compare("a", "OutOfSync", "Missing").await;
        if matches!(phase, "Progressing" | "Healthy") {
            world.until_operation("a").await;
            jumping.compare("a", "Synced", phase).await;
        }
        world.until_phase("a", phase).await;
        jumping.calm().await;
        let (first, writes) = (jumping.count() - 1, world.server.writes("sets"));
        tokio::time::sleep(QUIET).await;
        let began = seen.began.lock()[first..].to_vec();
        assert_eq!(world.server.writes("sets"), writes, "AS-390: {phase}");
        if phase == "Healthy" {
            let count = jumping.count();
            tokio::time::sleep(Duration::from_secs(3600)).await;
            assert_eq!(jumping.count(), count, "AS-390: {phase}");
            continue;
        }
        let gaps = began.windows(2).map(|pair| pair[1] - pair[0]);
        assert!(gaps.max() <= Some(POLL + AT_ONCE), "AS-390: {phase}: {began:?}");
        let least = QUIET.as_secs() / POLL.as_secs();
        assert!(began.len() as u64 >= least, "AS-390: {phase}: {began:?}");
    }
}

/// AS-390, AS-356: the deadline of a Pending Application comes between two of these reconciles,
/// and is kept.
#[tokio::test(start_paused = true)]
async fn the_deadline_of_a_pending_application_is_kept_as_390() {
    const TIMEOUT: i64 = 100;
    let jumping = Jumping::promoted(Some(TIMEOUT)).await;
    let promoted = Instant::now();
    jumping.world.until_operation("b").await;
    let passed = promoted.elapsed().as_secs_f64();
    // What is stored has whole seconds.
    assert!((passed - TIMEOUT as f64).abs() <= 1.5, "AS-390: after {passed} s");
}

/// AS-505: a set with an error is tried again after three minutes, and a deletion in reverse order
/// that waits looks again after ten seconds.
#[tokio::test(start_paused = true)]
async fn fixed_intervals_are_kept_as_505() {
    let mut broken = set(rolling());
    broken["goTemplate"] = true.into();
    broken["template"]["metadata"]["name"] = "{{.n".into();
    let without_steps = json!({"type": "RollingSync", "rollingSync": {"steps": []}});
    let mut reverse = steps(&[("dev", Value::Null)]);
    reverse["deletionOrder"] = "Reverse".into();
    let mut reverse = fleet(&[("a", "dev")], reverse);
    reverse["template"]["metadata"]["finalizers"] = json!(["example.com/hold"]);
    for (what, spec, is_deleted, seconds) in [
        ("a template", broken, false, 180),
        ("no steps", fleet(&[("a", "dev")], without_steps), false, 180),
        ("a deletion", reverse, true, 10),
    ] {
        let jumping = Jumping::start(Some(300)).await;
        jumping.world.create("ApplicationSet", "set", spec).await;
        jumping.calm().await;
        if is_deleted {
            jumping.world.delete("ApplicationSet", "set").await;
            jumping.world.until("Application", "a", is_going).await;
            jumping.calm().await;
        }
        let gaps = jumping.next_gaps().await;
        let wanted = Duration::from_secs(seconds);
        let is_kept = |gap: &Duration| gap.abs_diff(wanted) <= AT_ONCE;
        assert!(gaps.iter().all(is_kept), "AS-505: {what}: {gaps:?}");
    }
}
