//! A panic stays within its ApplicationSet (AS-149).

use std::sync::atomic::{AtomicUsize, Ordering};

use super::super::{ReconcileResult, Trigger};
use super::*;
use crate::error::ReconcileError;
use wavegate_api::ObjectKey;

/// The controller with a bug: it panics for one ApplicationSet, a few times.
struct Buggy {
    inner: Controller,
    left: AtomicUsize,
}

impl Reconciler for Buggy {
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
        let take = |left: usize| left.checked_sub(1);
        if key.name == "bad"
            && self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
        {
            panic!("index out of bounds");
        }
        self.inner.reconcile(key, trigger).await
    }

    async fn report(&self, key: &ObjectKey, error: &ReconcileError) {
        self.inner.report(key, error).await;
    }

    async fn forget(&self, key: &ObjectKey) {
        self.inner.forget(key).await;
    }
}

#[tokio::test]
async fn a_panic_is_reported_and_tried_again_and_spares_others_as_149() {
    let mut world = ClusterState::start(ApplicationSetSettings::default()).await;
    let buggy = |context| Buggy { inner: Controller(context), left: AtomicUsize::new(2) };
    let settings = ApplicationSetSettings::default();
    world._stop = ClusterState::run_with(
        &world.server,
        settings,
        ClusterState::local(),
        Clock::system(),
        buggy,
    );
    world.create("ApplicationSet", "bad", fleet(&[("of-bad", "x")], Value::Null)).await;
    world.create("ApplicationSet", "good", fleet(&[("of-good", "x")], Value::Null)).await;
    world.until("Application", "of-good", |_| true).await;
    let note = world.until_event("InternalError").await;
    assert!(note.contains("index out of bounds; this is a bug in wavegate"), "{note}");
    world.until("Application", "of-bad", |_| true).await;
    let is_over = |set: &Value| condition(set, "ErrorOccurred")["status"] == "False";
    world.until("ApplicationSet", "bad", is_over).await;
    let good = world.until("ApplicationSet", "good", |_| true).await;
    assert_ne!(condition(&good, "ErrorOccurred")["status"], "True");
}
