//! Which Applications count against `maxUpdate`, and for how long the rollout
//! waits for them (AS-341, AS-356, AS-366).

use super::*;

fn pending(name: &str, step: usize, since: i64) -> Entry {
    Entry { step: Some(step), since: ago(since), ..entry(name, Phase::Pending) }
}

fn out() -> Observed {
    seen(health::Status::Healthy, SyncStatusCode::OutOfSync)
}

fn plan(
    generated: &[(&str, Generated)],
    current: &[(&str, Observed)],
    entries: &[Entry],
) -> RolloutPlan {
    let strategy = steps_of(&[json!(1), json!(1)]);
    let own = |name: &str| name.to_owned();
    step(
        &Snapshot {
            strategy: &strategy,
            generated: &generated.iter().map(|(name, app)| (own(name), app.clone())).collect(),
            current: &current.iter().map(|(name, seen)| (own(name), seen.clone())).collect(),
            entries: &entries
                .iter()
                .map(|entry| (own(&entry.application), entry.clone()))
                .collect(),
            settings: RolloutSettings::default(),
        },
        now(),
    )
}

fn phase_of<'a>(plan: &'a RolloutPlan, name: &str) -> (Phase, &'a str) {
    let entry = plan.entries.iter().find(|entry| entry.application == name).unwrap();
    (entry.phase, &entry.message)
}

#[test]
fn a_pending_entry_of_a_step_that_closed_is_not_moved_on_unsynced() {
    // The first step has a new commit, so the second one closes.
    let two = [("dev", generated("1")), ("prod", generated("2"))];
    let entries = [entry("dev", Phase::Healthy), pending("prod", 1, 900)];
    let closed = plan(&two, &[("dev", out()), ("prod", out())], &entries);
    assert_eq!(phase_of(&closed, "prod").0, Phase::Waiting, "{closed:?}");
    // Before that it stays Pending (row 138), and has the full timeout again.
    let entries = [entry("dev", Phase::Healthy), pending("prod", 1, 299)];
    let soon = plan(&two, &[("dev", out()), ("prod", out())], &entries);
    assert_eq!(phase_of(&soon, "prod").0, Phase::Pending);
    assert_eq!(soon.starts.len(), 1, "of dev alone: {:?}", soon.starts);
    let done = || seen(health::Status::Healthy, SyncStatusCode::Synced);
    let open = plan(&two, &[("dev", done()), ("prod", out())], &soon.entries);
    assert_eq!(open.starts[0].promotion, now());
    let entries = [entry("dev", Phase::Healthy), pending("prod", 1, 900)];
    assert!(closed.transitions.iter().all(|transition| !transition.timed_out));

    // In an open step it is moved on after the timeout, unless nobody was asked yet (AS-356).
    let request = Some(phase::RequestedOperation { promotion: Some(ago(900)), is_partial: false });
    let asked = Observed { requested: request, ..out() };
    let open = plan(&two, &[("dev", done()), ("prod", asked)], &entries);
    assert_eq!(phase_of(&open, "prod").0, Phase::Healthy);
    let open = plan(&two, &[("dev", done()), ("prod", out())], &entries);
    assert_eq!(phase_of(&open, "prod").0, Phase::Pending);
    assert_eq!(open.starts[0].promotion, now(), "with the full timeout");
}

#[test]
fn an_operation_requested_before_its_step_closed_is_waited_for_again() {
    let two = [("dev", generated("1")), ("prod", generated("2"))];
    let request = |at| Some(phase::RequestedOperation { promotion: Some(at), is_partial: false });
    let asked = Observed { requested: request(ago(900)), ..out() };
    let entries = [entry("dev", Phase::Healthy), pending("prod", 1, 900)];
    let closed = plan(&two, &[("dev", out()), ("prod", asked.clone())], &entries);
    assert_eq!(phase_of(&closed, "prod").0, Phase::Waiting);
    assert_eq!(closed.steps[1].in_flight, 1, "it may begin at any time");

    let done = seen(health::Status::Healthy, SyncStatusCode::Synced);
    let entries = [entry("dev", Phase::Healthy), closed.entries[1].clone()];
    let open = plan(&two, &[("dev", done), ("prod", asked)], &entries);
    let again = open.entries.iter().find(|entry| entry.application == "prod").unwrap();
    assert_eq!((again.phase, again.since), (Phase::Pending, now() + SignedDuration::from_secs(1)));
    assert!(open.starts.is_empty(), "it is requested already");
}

#[test]
fn an_application_denied_by_a_window_does_not_count_as_366() {
    let denied = |step| Generated {
        denied: Some(Denied { reason: "window x is open".to_owned(), until: Some(ago(-60)) }),
        ..generated(step)
    };
    let two = [("a", denied("1")), ("b", generated("1"))];
    let waiting = [entry("a", Phase::Waiting), entry("b", Phase::Waiting)];
    let first = plan(&two, &[("a", out()), ("b", out())], &waiting);
    assert_eq!(first.starts.iter().map(|start| &start.application).collect::<Vec<_>>(), ["b"]);
    assert_eq!(first.waiting[0].message, "a sync window denies it: window x is open");
    assert_eq!(first.waiting[0].until, Some(ago(-60)));

    // Promoted before the window closed, and not written yet.
    let entries = [pending("a", 0, 5), entry("b", Phase::Waiting)];
    let taken_back = plan(&two, &[("a", out()), ("b", out())], &entries);
    assert_eq!(taken_back.starts.len(), 1);
    assert_eq!(
        (taken_back.starts[0].application.as_str(), phase_of(&taken_back, "a").0),
        ("b", Phase::Waiting)
    );

    // Written: it counts until it is withdrawn.
    let request = Some(phase::RequestedOperation { promotion: Some(ago(5)), is_partial: false });
    let blocked = |is_blocked| ObservedOperation {
        promotion: Some(ago(5)),
        is_blocked,
        ..operation(OperationPhase::Running, 5)
    };
    for seen in [
        Observed { requested: request, ..out() },
        Observed { operation: Some(blocked(true)), ..out() },
    ] {
        let plan = plan(&two, &[("a", seen), ("b", out())], &entries);
        assert_eq!(
            (plan.withdrawals.as_slice(), plan.starts.len()),
            (["a".to_owned()].as_slice(), 0)
        );
        assert_eq!(phase_of(&plan, "a").0, Phase::Waiting);
    }
    // Started: it continues.
    let running = Observed { operation: Some(blocked(false)), ..out() };
    let going_on = plan(&two, &[("a", running), ("b", out())], &entries);
    assert_eq!((going_on.withdrawals.len(), going_on.starts.len()), (0, 0));
    assert_eq!(phase_of(&going_on, "a").0, Phase::Progressing);
}
