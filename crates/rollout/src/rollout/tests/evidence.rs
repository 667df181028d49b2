//! What may be concluded from the status of Applications, and what may not:
//! failed comparisons, previous operations, lost entries.

use super::Phase::{Healthy, Pending, Progressing, Waiting};
use super::*;
use health::Status as H;

/// A plan for Applications: name, step counted from 1, entry, and what is
/// observed.
fn plan(applications: &[(&str, &str, Option<Entry>, Observed)]) -> RolloutPlan {
    let strategy = steps_of(&[json!(null), json!(null)]);
    let snapshot = Snapshot {
        strategy: &strategy,
        generated: &applications
            .iter()
            .map(|(name, step, ..)| ((*name).to_owned(), generated(step)))
            .collect(),
        current: &applications
            .iter()
            .map(|(name, _, _, seen)| ((*name).to_owned(), seen.clone()))
            .collect(),
        entries: &applications
            .iter()
            .filter_map(|(name, _, entry, _)| Some(((*name).to_owned(), entry.clone()?)))
            .collect(),
        settings: RolloutSettings::default(),
    };
    step(&snapshot, now())
}

fn at(phase: Phase, name: &str, revision: &str) -> Option<Entry> {
    Some(Entry {
        target_revisions: vec![revision.to_owned()],
        since: ago(60),
        ..entry(name, phase)
    })
}

fn with_revision(revision: &str, seconds: i64, seen: &Observed) -> Observed {
    Observed {
        revisions: vec![revision.to_owned()],
        reconciled_at: Some(ago(seconds)),
        ..seen.clone()
    }
}

#[test]
fn a_failed_comparison_does_not_outdate_successful_ones() {
    // The new commit breaks the manifests of development: its status still
    // names the old revision, with the time of the failure.
    let failed = with_revision("old", 5, &seen(H::Healthy, SyncStatusCode::Unknown));
    let healthy = with_revision("new", 10, &seen(H::Healthy, SyncStatusCode::Synced));
    let plan = plan(&[
        ("dev", "1", at(Healthy, "dev", "old"), failed),
        ("prod", "2", at(Healthy, "prod", "new"), healthy),
    ]);
    assert_eq!(plan.refreshes, Vec::<String>::new(), "both would be compared forever");
}

#[test]
fn an_application_that_failed_to_be_compared_with_the_new_commit_holds_its_step() {
    let out = with_revision("new", 10, &seen(H::Healthy, SyncStatusCode::OutOfSync));
    let unknown = seen(H::Healthy, SyncStatusCode::Unknown);
    let cases = [
        ("it names the previous revision", with_revision("old", 5, &unknown), vec![]),
        ("it names none", Observed { revisions: vec![], ..with_revision("", 5, &unknown) }, vec![]),
        ("it failed before the commit", with_revision("old", 30, &unknown), vec!["dev"]),
    ];
    for (name, failed, refreshes) in cases {
        let plan = plan(&[
            ("dev", "1", at(Healthy, "dev", "old"), failed),
            ("prod", "2", at(Healthy, "prod", "old"), out.clone()),
        ]);
        assert_eq!(plan.starts, [], "{name}: production goes before development");
        assert_eq!(plan.open_step, Some(0), "{name}");
        assert!(plan.waiting[0].message.contains("revision new"), "{name}: {:?}", plan.waiting);
        assert_eq!(plan.refreshes, refreshes, "{name}");
    }
}

#[test]
fn a_failed_manual_sync_is_reported_until_there_is_another_revision() {
    let failed = |revision: &str| ObservedOperation {
        revisions: vec![revision.to_owned()],
        message: "namespace web is missing".to_owned(),
        ..operation(OperationPhase::Failed, 10)
    };
    let wait = "maxUpdate is 0: it waits for a manual sync";
    for (synced, want) in [
        (Some(failed("new")), format!("{wait}; its sync failed: namespace web is missing")),
        (Some(failed("old")), wait.to_owned()),
        (None, wait.to_owned()),
    ] {
        let out = with_revision("new", 5, &seen(H::Missing, SyncStatusCode::OutOfSync));
        let strategy = steps_of(&[json!(0)]);
        let snapshot = Snapshot {
            strategy: &strategy,
            generated: &[("app".to_owned(), generated("1"))].into(),
            current: &[("app".to_owned(), Observed { operation: synced, ..out })].into(),
            entries: &BTreeMap::new(),
            settings: RolloutSettings::default(),
        };
        assert_eq!(step(&snapshot, now()).waiting[0].message, want);
    }
}

#[test]
fn an_application_that_cannot_start_yet_is_not_stalled_as_611() {
    let out = Observed {
        operation: Some(operation(OperationPhase::Succeeded, 800)),
        ..with_revision("new", 5, &seen(H::Healthy, SyncStatusCode::OutOfSync))
    };
    let plan_of = |limit: Value, first: Phase, opened| {
        let strategy = steps_of(&[limit]);
        let entry =
            |name: &str, phase| Entry { since: ago(900), ..at(phase, name, "new").unwrap() };
        let rules =
            Rules { progressing_timeout: Some(SignedDuration::from_secs(60)), capture_drift: true };
        let snapshot = Snapshot {
            strategy: &strategy,
            generated: &["a", "b"].map(|name| (name.to_owned(), generated("1"))).into(),
            current: &["a", "b"].map(|name| (name.to_owned(), out.clone())).into(),
            entries: &[("a".to_owned(), entry("a", first)), ("b".to_owned(), entry("b", Waiting))]
                .into(),
            settings: RolloutSettings { rules, ..RolloutSettings::default() },
        };
        step_opened(&snapshot, Some((0, opened)), now())
    };
    let stalled = |plan: &RolloutPlan| -> Vec<(String, Timestamp)> {
        let of = plan.stalled.iter();
        of.map(|wait| (wait.application.clone(), wait.since.unwrap())).collect()
    };
    let at_work = plan_of(json!(1), Progressing, ago(1000));
    assert_eq!((at_work.waiting.len(), at_work.waiting_count), (2, 2), "{:?}", at_work.waiting);
    assert_eq!(stalled(&at_work), [("a".to_owned(), ago(900))], "b cannot start yet");
    let later = plan_of(json!(1), Progressing, ago(60));
    assert_eq!(stalled(&later), [("a".to_owned(), ago(60))], "the step opened later");
    let just_now = plan_of(json!(1), Progressing, ago(59));
    assert_eq!(stalled(&just_now), [], "the timeout counts from then");
    let held = plan_of(json!(0), Waiting, ago(60));
    let both = [("a".to_owned(), ago(60)), ("b".to_owned(), ago(60))];
    assert_eq!(stalled(&held), both, "nothing moves");
}

#[test]
fn earlier_steps_are_compared_again_first() {
    let new = with_revision("new", 10, &seen(H::Healthy, SyncStatusCode::OutOfSync));
    let old = with_revision("old", 30, &seen(H::Healthy, SyncStatusCode::Synced));
    let plan = plan(&[
        ("a", "3", at(Healthy, "a", "old"), old.clone()),
        ("b", "2", at(Healthy, "b", "old"), old.clone()),
        ("c", "none", at(Healthy, "c", "old"), old.clone()),
        ("d", "1", at(Healthy, "d", "old"), old.clone()),
        ("e", "2", at(Healthy, "e", "old"), old),
        ("f", "1", at(Healthy, "f", "old"), new),
    ]);
    assert_eq!(plan.refreshes, ["d", "b", "e", "a", "c"]);
}

#[test]
fn nothing_is_started_on_a_revision_that_this_spec_did_not_resolve_to() {
    // Without this, a sync without a revision, or with a previous one, deployed
    // what no earlier step had: the API server had rejected some reads of a
    // comparison.
    let unknown = seen(H::Healthy, SyncStatusCode::Unknown);
    let stale = Observed {
        compared: Compared::Stale,
        has_error_condition: true,
        ..seen(H::Healthy, SyncStatusCode::OutOfSync)
    };
    let known = seen(H::Healthy, SyncStatusCode::OutOfSync);
    let pinned = vec![vec!["next".to_owned()]];
    for (name, seen, want) in [
        ("the comparison failed", unknown, vec![]),
        ("the comparison was of the previous spec", stale, vec![]),
        ("the comparison is of this spec", known, pinned),
    ] {
        let plan = plan(&[("app", "1", at(Waiting, "app", "next"), seen)]);
        let revisions: Vec<_> = plan.starts.iter().map(|start| start.revisions.clone()).collect();
        assert_eq!(revisions, want, "{name}");
        assert_eq!(plan.waiting.len(), 1, "{name}: it is reported");
    }
}

#[test]
fn what_is_promoted_starts_with_the_revisions_that_it_was_promoted_for() {
    // AS-365: the API server was away after the promotion, and the comparison of then failed: the
    // sync had no revision, and deployed a commit that no earlier step had.
    let failed = seen(H::Unknown, SyncStatusCode::Unknown);
    let stale =
        Observed { compared: Compared::Stale, ..seen(H::Healthy, SyncStatusCode::OutOfSync) };
    let newer = with_revision("newer", 1, &failed);
    for (name, seen, want, phase) in [
        ("the comparison failed since", failed, vec![vec!["next".to_owned()]], Pending),
        ("its spec was changed since", stale, vec![], Pending),
        ("it failed with a newer revision", newer, vec![], Waiting),
    ] {
        let plan = plan(&[("app", "1", at(Pending, "app", "next"), seen)]);
        let revisions: Vec<_> = plan.starts.iter().map(|start| start.revisions.clone()).collect();
        assert_eq!(revisions, want, "{name}");
        assert_eq!(plan.entries[0].phase, phase, "{name}");
        assert_eq!(plan.waiting.len(), 1, "{name}: it is reported");
    }
}

#[test]
fn an_operation_that_failed_before_does_not_hold_what_was_found_synced() {
    // The fix was deployed manually or by a revert; the last operation of a
    // rollout, that of the broken revision, has failed.
    let broken = ObservedOperation {
        promotion: Some(ago(400)),
        revisions: vec!["broken".into()],
        ..operation(OperationPhase::Failed, 400)
    };
    let rules = RolloutSettings::default().rules;
    let mut entry = entry("app", Waiting);
    for (health, want) in
        [(H::Progressing, Progressing), (H::Degraded, Progressing), (H::Healthy, Healthy)]
    {
        let seen =
            Observed { operation: Some(broken.clone()), ..seen(health, SyncStatusCode::Synced) };
        entry = phase::advance("app", Some(&entry), Some(0), &seen, &rules, now());
        assert_eq!(entry.phase, want, "{health:?}: {}", entry.message);
    }
}

#[test]
fn a_promotion_is_new_even_if_the_entry_was_lost_and_the_clock_is_behind() {
    // The status was removed; the operation of an earlier promotion is still
    // reported, with a time that is ahead.
    let ahead = now() + SignedDuration::from_secs(90);
    let earlier =
        ObservedOperation { promotion: Some(ahead), ..operation(OperationPhase::Succeeded, 400) };
    let seen = Observed { operation: Some(earlier), ..seen(H::Healthy, SyncStatusCode::OutOfSync) };
    let plan = plan(&[("app", "1", None, seen)]);
    assert_eq!(plan.entries[0].phase, Pending);
    assert_eq!(plan.starts.len(), 1, "or it would be taken for the earlier one, and never sync");
    assert!(plan.starts[0].promotion > ahead);
}

/// Seen through `sync APP` by hand: the step opened although the smoke test had failed.
#[test]
fn a_failed_sync_holds_its_application_whoever_requested_it_as_357_as_364() {
    let rules = RolloutSettings::default().rules;
    let last = |phase, revision: &str, is_partial| ObservedOperation {
        revisions: vec![revision.into()],
        message: "smoke test failed".into(),
        is_partial,
        ..operation(phase, 40)
    };
    let (failed, succeeded) = (OperationPhase::Failed, OperationPhase::Succeeded);
    let own = ObservedOperation { promotion: Some(ago(400)), ..last(failed, "r1", false) };
    let in_sync = |operation: Option<ObservedOperation>| Observed {
        operation,
        ..with_revision("r1", 5, &seen(H::Healthy, SyncStatusCode::Synced))
    };
    // Operations one after the other, and the phase after each.
    type Ended = (ObservedOperation, phase::Phase);
    let cases: [(&str, phase::Phase, &[Ended]); 7] = [
        (
            "its own, then one by hand, then one that succeeds",
            Progressing,
            &[
                (own.clone(), Progressing),
                (last(failed, "r1", false), Progressing),
                (last(succeeded, "r1", false), Healthy),
            ],
        ),
        (
            "its own, then dry runs or syncs of some resources",
            Progressing,
            &[
                (own.clone(), Progressing),
                (last(succeeded, "r1", true), Progressing),
                (last(failed, "r1", true), Progressing),
                (last(OperationPhase::Running, "r1", true), Progressing),
                (last(OperationPhase::Running, "r1", false), Progressing),
                (last(OperationPhase::Error, "", false), Progressing),
                (last(succeeded, "r1", false), Healthy),
            ],
        ),
        (
            "by hand in a held step",
            Waiting,
            &[
                (last(failed, "r1", false), Waiting),
                (last(succeeded, "r1", true), Waiting),
                (last(succeeded, "r1", false), Healthy),
            ],
        ),
        ("of an earlier revision", Waiting, &[(last(failed, "r0", false), Healthy)]),
        (
            "of a rollout, of an earlier revision",
            Waiting,
            &[(ObservedOperation { revisions: vec!["r0".into()], ..own.clone() }, Healthy)],
        ),
        ("a dry run only", Waiting, &[(last(failed, "r1", true), Healthy)]),
        ("one that could not begin", Waiting, &[(last(failed, "", false), Healthy)]),
    ];
    for (name, first, operations) in cases {
        let mut entry = Entry { target_revisions: vec!["r1".into()], ..entry("app", first) };
        for (operation, want) in operations {
            let mut seen = in_sync(Some(operation.clone()));
            if operation.phase.is_running() {
                seen.reconciled_at = Some(ago(50));
            }
            entry = phase::advance("app", Some(&entry), Some(0), &seen, &rules, now());
            // As it is read from the status.
            entry.mark = phase::EntryMark::of(entry.phase, &entry.message);
            assert_eq!(entry.phase, *want, "{name}: {operation:?}: {}", entry.message);
        }
    }
}

/// A dry run that starts and ends before anybody has seen the failure of the sync before it.
#[test]
fn a_failure_that_was_replaced_before_it_was_seen_holds_its_application_as_357() {
    let rules = RolloutSettings::default().rules;
    let since = ago(60);
    let of = |at, revision: &str| Deployed::At(at, vec![revision.to_owned()]);
    let after = |seconds| since + SignedDuration::from_secs(seconds);
    let cases = [
        ("no success is recorded", Deployed::Never, Progressing),
        ("of an earlier revision", of(after(10), "r0"), Progressing),
        ("of this revision, in an earlier rollout", of(after(-61), "r1"), Progressing),
        ("of this rollout", of(after(10), "r1"), Healthy),
        ("observed later than it happened", of(after(-60), "r1"), Healthy),
        ("no history is kept", Deployed::NotKept, Healthy),
    ];
    for (name, deployed, want) in cases {
        let of_progressing =
            Entry { target_revisions: vec!["r1".into()], since, ..entry("app", Progressing) };
        for phase in [OperationPhase::Succeeded, OperationPhase::Failed] {
            let last = ObservedOperation { is_partial: true, ..operation(phase, 40) };
            let seen = Observed {
                operation: Some(last),
                deployed: deployed.clone(),
                ..with_revision("r1", 5, &seen(H::Healthy, SyncStatusCode::Synced))
            };
            let entry = phase::advance("app", Some(&of_progressing), Some(0), &seen, &rules, now());
            assert_eq!(entry.phase, want, "{name}, {phase:?}: {}", entry.message);
            // What was found in sync needed no sync of its own.
            let found =
                Entry { mark: Some(phase::EntryMark::FoundSynced), ..of_progressing.clone() };
            let entry = phase::advance("app", Some(&found), Some(0), &seen, &rules, now());
            assert_eq!(entry.phase, Healthy, "{name}, {phase:?}, found in sync");
        }
    }
}

#[test]
fn an_application_found_in_sync_stays_so_while_a_dry_run_runs() {
    let rules = RolloutSettings::default().rules;
    let running = ObservedOperation {
        is_partial: true,
        finished_at: None,
        ..operation(OperationPhase::Running, 2)
    };
    let found = Entry {
        mark: Some(phase::EntryMark::FoundSynced),
        ..at(Progressing, "app", "r1").unwrap()
    };
    let in_sync = with_revision("r1", 5, &seen(H::Healthy, SyncStatusCode::Synced));
    let seen = Observed { operation: Some(running), deployed: Deployed::Never, ..in_sync.clone() };
    let entry = phase::advance("app", Some(&found), Some(0), &seen, &rules, now());
    assert_eq!((entry.phase, entry.mark), (Progressing, Some(phase::EntryMark::FoundSynced)));
    let over = ObservedOperation { is_partial: true, ..operation(OperationPhase::Succeeded, 20) };
    let seen = Observed { operation: Some(over), deployed: Deployed::Never, ..in_sync };
    let entry = phase::advance("app", Some(&entry), Some(0), &seen, &rules, now());
    assert_eq!(entry.phase, Healthy, "no sync of its own was needed: {}", entry.message);
}

/// The operation of a promotion ended, and a user's took its place, before the status
/// of the set was written.
#[test]
fn a_manual_sync_in_place_of_the_promotion_does_not_repeat_it_as_361() {
    let sync = |seconds, revision: &str, phase| ObservedOperation {
        started_at: ago(seconds),
        finished_at: Some(ago(seconds)),
        revisions: vec![revision.to_owned()],
        ..operation(phase, 0)
    };
    // Promotions may be ahead of the clock by a second.
    let pending = |seconds| Entry { since: ago(seconds), ..at(Pending, "app", "r1").unwrap() };
    let (out, synced) = (SyncStatusCode::OutOfSync, SyncStatusCode::Synced);
    let ended = OperationPhase::Succeeded;
    let cases = [
        ("not compared since", sync(10, "r1", ended), 11, out, (Pending, 0)),
        ("in sync", sync(10, "r1", ended), 9, synced, (Healthy, 0)),
        (
            "in sync, began before the promotion's time",
            sync(11, "r1", ended),
            9,
            synced,
            (Healthy, 0),
        ),
        ("still out of sync", sync(10, "r1", ended), 9, out, (Pending, 1)),
        ("another revision", sync(10, "r0", ended), 9, out, (Pending, 1)),
        ("a failure", sync(10, "r1", OperationPhase::Failed), 9, out, (Pending, 1)),
    ];
    for (name, operation, compared, sync, want) in cases {
        let seen = with_revision("r1", compared, &seen(H::Healthy, sync));
        let seen = Observed { operation: Some(operation), ..seen };
        let mut entry = pending(10);
        let mut starts = 0;
        // Two reconciles: the first one may go through Progressing.
        for _ in 0..2 {
            let next = plan(&[("app", "1", Some(entry), seen.clone())]);
            starts = next.starts.len();
            entry = next.entries[0].clone();
        }
        assert_eq!((entry.phase, starts), want, "{name}: {}", entry.message);
    }
}

/// One that was synced by hand ahead of its step, and failed, is synced in its step.
#[test]
fn a_failed_sync_is_repeated_when_the_step_opens() {
    let failed =
        ObservedOperation { revisions: vec!["r1".into()], ..operation(OperationPhase::Failed, 40) };
    let in_sync = with_revision("r1", 5, &seen(H::Healthy, SyncStatusCode::Synced));
    let seen = Observed { operation: Some(failed), ..in_sync };
    let plan = plan(&[("app", "1", None, seen)]);
    assert_eq!((plan.entries[0].phase, plan.starts.len()), (Pending, 1));
}

/// Promoted, and then `maxUpdate` was reduced, or another Application was synced manually,
/// before the operations were written.
#[test]
fn a_promotion_without_its_operation_is_reverted_beyond_max_update_as_341() {
    let out = with_revision("r1", 5, &seen(H::Missing, SyncStatusCode::OutOfSync));
    let requested = |promotion| Observed {
        requested: Some(observed::RequestedOperation { promotion, is_partial: false }),
        ..out.clone()
    };
    let own = requested(Some(ago(20)));
    let cases = [
        ("no limit", json!(null), &out, "PPP", "abc"),
        ("two", json!(2), &out, "PPW", "ab"),
        ("one has its operation", json!(2), &own, "PPW", "b"),
        ("it is no reason to withdraw it", json!(0), &own, "PWW", ""),
        ("one is synced by hand", json!(1), &requested(None), "PWW", ""),
        ("none", json!(0), &out, "WWW", ""),
    ];
    for (name, limit, first, phases, starts) in cases {
        let strategy = steps_of(&[limit]);
        let entry = |name: &str| Entry { since: ago(20), ..at(Pending, name, "r1").unwrap() };
        let names = ["a", "b", "c"].map(str::to_owned);
        let seen = |name: &String| if name == "a" { first.clone() } else { out.clone() };
        let snapshot = Snapshot {
            strategy: &strategy,
            generated: &names.clone().map(|name| (name, generated("1"))).into(),
            current: &names.clone().map(|name| (name.clone(), seen(&name))).into(),
            entries: &names.map(|name| (name.clone(), entry(&name))).into(),
            settings: RolloutSettings::default(),
        };
        let plan = step(&snapshot, now());
        let letter = |entry: &Entry| if entry.phase == Pending { 'P' } else { 'W' };
        let got: String = plan.entries.iter().map(letter).collect();
        let started: String = plan.starts.iter().map(|start| start.application.as_str()).collect();
        assert_eq!((got.as_str(), started.as_str()), (phases, starts), "{name}: {plan:?}");
        assert!(
            plan.entries.iter().all(|one| one.phase == Pending || one.phase == Waiting),
            "{name}"
        );
    }
}

/// The entry of an Application that was deleted and created again, when no reconcile has seen
/// that there was none.
#[test]
fn an_application_that_was_created_again_starts_anew() {
    let never = Observed {
        compared: Compared::Never,
        revisions: vec![],
        reconciled_at: None,
        ..seen(H::Missing, SyncStatusCode::Unknown)
    };
    let out = with_revision("r1", 5, &seen(H::Missing, SyncStatusCode::OutOfSync));
    let synced = |seen: &Observed| Observed {
        operation: Some(operation(OperationPhase::Succeeded, 40)),
        ..seen.clone()
    };
    let refused = Observed { has_error_condition: true, ..out.clone() };
    let found = Some(phase::EntryMark::FoundSynced);
    let failed = Some(phase::EntryMark::SyncFailed);
    let cases = [
        ("it was never compared", Progressing, failed, &never, Waiting),
        ("and complete", Healthy, None, &never, Waiting),
        ("and promoted", Pending, None, &never, Waiting),
        ("and found in sync", Progressing, found, &never, Waiting),
        ("and waits", Waiting, None, &never, Waiting),
        ("it has no operation", Progressing, failed, &out, Pending),
        ("it needed none", Progressing, found, &out, Progressing),
        ("it could not have one", Progressing, None, &refused, Progressing),
        ("it has one", Progressing, None, &synced(&out), Progressing),
        ("it has one, and was not compared", Healthy, None, &synced(&never), Healthy),
    ];
    for (name, phase, mark, seen, want) in cases {
        let entry = Entry { mark, ..at(phase, "app", "r1").unwrap() };
        let later = at(Waiting, "later", "r1");
        let plan =
            plan(&[("app", "1", Some(entry), seen.clone()), ("later", "2", later, synced(&out))]);
        assert_eq!(plan.entries[0].phase, want, "{name}: {}", plan.entries[0].message);
        let starts: Vec<&str> =
            plan.starts.iter().map(|start| start.application.as_str()).collect();
        let want: &[&str] = match want {
            Pending => &["app"],
            Healthy => &["later"],
            _ => &[],
        };
        assert_eq!(starts, want, "{name}");
    }
}

/// What takes the place of a failed operation does not take the place of its reason.
#[test]
fn the_resource_of_a_failed_sync_is_named_after_a_dry_run() {
    let cause = "Deployment web/web is Degraded: image pull failed";
    let failed = ObservedOperation {
        revisions: vec!["next".into()],
        message: "one or more tasks failed".into(),
        ..operation(OperationPhase::Failed, 40)
    };
    let out = seen(H::Degraded, SyncStatusCode::OutOfSync);
    let with = |operation: &ObservedOperation, detail: &str| Observed {
        operation: Some(operation.clone()),
        detail: detail.to_owned(),
        ..out.clone()
    };
    let first = plan(&[(
        "app",
        "1",
        at(Progressing, "app", "next"),
        with(&failed, &format!("its sync failed: {cause}")),
    )]);
    assert_eq!(first.waiting[0].message, format!("its sync failed: {cause}"));
    let dry_run = ObservedOperation { is_partial: true, ..operation(OperationPhase::Succeeded, 5) };
    let entry = Some(first.entries[0].clone());
    let second = plan(&[("app", "1", entry, with(&dry_run, cause))]);
    let wait = &second.waiting[0];
    assert!(
        wait.kind == wait::WaitKind::FailedOperation && wait.message.ends_with(cause),
        "{wait:?}"
    );
    // Without a resource, it is the message of the operation.
    let entry = at(Progressing, "app", "next");
    let unknown = plan(&[("app", "1", entry, with(&failed, "its sync failed"))]);
    let want = "Sync failed, waiting for one that succeeds: one or more tasks failed";
    assert_eq!(unknown.entries[0].message, want);
}

#[test]
fn the_next_attempt_is_the_end_of_the_wait() {
    let running = operation(OperationPhase::Running, 40);
    let seen = Observed {
        operation: Some(running),
        detail: "attempt 2 of 4 at 18:53:12Z: no namespace".into(),
        until: Some(ago(-8)),
        ..seen(H::Missing, SyncStatusCode::OutOfSync)
    };
    for (phase, want) in [
        (Progressing, "attempt 2 of 4 at 18:53:12Z: no namespace"),
        (Waiting, "another operation is running: attempt 2 of 4 at 18:53:12Z: no namespace"),
    ] {
        let plan = plan(&[("app", "1", at(phase, "app", "next"), seen.clone())]);
        let wait = &plan.waiting[0];
        assert_eq!((wait.message.as_str(), wait.until), (want, Some(ago(-8))), "{phase:?}");
    }
}
