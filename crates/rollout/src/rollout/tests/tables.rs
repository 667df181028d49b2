//! Tables A.7 to A.9 of the ApplicationSet specification.

use super::Phase::{Healthy, Pending, Progressing, Waiting};
use super::*;
use health::Status as H;

fn phases(plan: &RolloutPlan) -> Vec<(&str, Phase)> {
    plan.entries.iter().map(|entry| (entry.application.as_str(), entry.phase)).collect()
}

/// An observation that does not change an entry of this phase.
fn quiet(phase: Phase) -> Observed {
    match phase {
        Waiting | Pending => seen(H::Healthy, SyncStatusCode::OutOfSync),
        Progressing => seen(H::Progressing, SyncStatusCode::Synced),
        Healthy => seen(H::Healthy, SyncStatusCode::Synced),
    }
}

#[test]
fn transitions_are_those_of_table_a_9() {
    let rules = RolloutSettings::default().rules;
    let off = Rules { progressing_timeout: None, ..rules };
    let no_drift = Rules { capture_drift: false, ..rules };
    let stored = |phase| entry("app", phase);
    let since = |phase, seconds| Entry { since: ago(seconds), ..stored(phase) };
    let at = |phase, revisions: &[&str]| Entry {
        target_revisions: revisions.iter().map(|text| (*text).into()).collect(),
        ..stored(phase)
    };
    let timed_out = Entry { mark: Some(phase::EntryMark::TimedOut), ..stored(Healthy) };
    let healthy = seen(H::Healthy, SyncStatusCode::Synced);
    let out = seen(H::Healthy, SyncStatusCode::OutOfSync);
    let with = |operation, seen: &Observed| Observed { operation: Some(operation), ..seen.clone() };
    let error = |at| Observed { has_error_condition: true, reconciled_at: at, ..out.clone() };
    let none = Observed {
        revisions: Vec::new(),
        compared: Compared::Never,
        ..seen(H::Missing, SyncStatusCode::Unknown)
    };
    let spec = |seen: &Observed| Observed { spec_differs: true, ..seen.clone() };
    use OperationPhase::{Error, Failed, Running, Succeeded};

    // Row, stored entry, observation, rules, expected phase and revisions.
    type Case<'a> = (u32, Option<Entry>, Observed, &'a Rules, Phase, &'a [&'a str]);
    let cases: Vec<Case> = vec![
        (152, None, healthy.clone(), &rules, Healthy, &["next"]),
        (153, None, seen(H::Degraded, SyncStatusCode::Synced), &rules, Progressing, &["next"]),
        (154, None, out.clone(), &rules, Waiting, &["next"]),
        (155, None, none, &rules, Waiting, &[]),
        (156, Some(stored(Waiting)), healthy.clone(), &rules, Healthy, &["next"]),
        (157, Some(at(Healthy, &["previous"])), healthy.clone(), &rules, Healthy, &["next"]),
        (158, Some(at(Healthy, &["previous"])), out.clone(), &rules, Waiting, &["next"]),
        (159, Some(at(Healthy, &["previous", "removed"])), out.clone(), &rules, Waiting, &["next"]),
        (
            160,
            Some(stored(Healthy)),
            with(operation(Succeeded, 60), &out),
            &rules,
            Waiting,
            &["next"],
        ),
        (
            160,
            Some(stored(Healthy)),
            with(operation(Succeeded, 60), &out),
            &no_drift,
            Healthy,
            &["next"],
        ),
        (161, Some(timed_out), out.clone(), &rules, Healthy, &["next"]),
        (
            162,
            Some(stored(Pending)),
            with(operation(Running, 60), &out),
            &rules,
            Progressing,
            &["next"],
        ),
        (
            163,
            Some(stored(Pending)),
            with(operation(Succeeded, 60), &healthy),
            &rules,
            Progressing,
            &["next"],
        ),
        (
            164,
            Some(stored(Pending)),
            with(operation(Failed, 60), &out),
            &rules,
            Progressing,
            &["next"],
        ),
        (
            165,
            Some(stored(Pending)),
            with(operation(Error, 60), &out),
            &rules,
            Progressing,
            &["next"],
        ),
        (166, Some(since(Pending, 60)), error(None), &rules, Progressing, &["next"]),
        (167, Some(since(Pending, 60)), error(Some(now())), &rules, Progressing, &["next"]),
        (
            168,
            Some(since(Pending, 0)),
            with(operation(Succeeded, 300), &seen(H::Progressing, SyncStatusCode::Synced)),
            &rules,
            Pending,
            &["next"],
        ),
        (
            169,
            Some(since(Pending, 120)),
            Observed { reconciled_at: Some(ago(300)), ..with(operation(Succeeded, 60), &out) },
            &rules,
            Pending,
            &["next"],
        ),
        (170, Some(since(Pending, 299)), out.clone(), &rules, Pending, &["next"]),
        (171, Some(since(Pending, 300)), out.clone(), &rules, Healthy, &["next"]),
        (172, Some(since(Pending, 3600)), out.clone(), &off, Pending, &["next"]),
        (
            173,
            Some(since(Pending, 600)),
            with(operation(Running, 60), &out),
            &rules,
            Progressing,
            &["next"],
        ),
        (174, Some(stored(Progressing)), healthy.clone(), &rules, Healthy, &["next"]),
        (
            175,
            Some(stored(Progressing)),
            seen(H::Degraded, SyncStatusCode::Synced),
            &rules,
            Progressing,
            &["next"],
        ),
        (
            176,
            Some(stored(Progressing)),
            with(operation(Failed, 60), &out),
            &rules,
            Progressing,
            &["next"],
        ),
        (177, Some(at(Progressing, &["old"])), out.clone(), &rules, Waiting, &["next"]),
        (178, Some(at(Pending, &["old"])), out.clone(), &rules, Waiting, &["next"]),
        (
            179,
            Some(stored(Healthy)),
            seen(H::Degraded, SyncStatusCode::Synced),
            &rules,
            Healthy,
            &["next"],
        ),
        (180, Some(stored(Healthy)), spec(&out), &rules, Waiting, &["next"]),
        (181, Some(stored(Healthy)), healthy.clone(), &rules, Healthy, &["next"]),
        (182, Some(at(Healthy, &["abc"])), spec(&out), &rules, Waiting, &["next"]),
        (
            183,
            Some(stored(Healthy)),
            seen(H::Healthy, SyncStatusCode::Unknown),
            &rules,
            Healthy,
            &["next"],
        ),
    ];
    for (row, stored, seen, rules, want, revisions) in cases {
        let got = phase::advance("app", stored.as_ref(), Some(0), &seen, rules, now());
        assert_eq!(
            (got.phase, got.target_revisions),
            (want, revisions.iter().map(|text| (*text).to_owned()).collect()),
            "row {row}"
        );
        if stored.is_some_and(|stored| stored.phase == want) && row != 157 {
            continue;
        }
        assert_eq!(got.since, now(), "row {row}: a new phase begins now");
    }
}

#[test]
fn a_stale_status_never_makes_an_application_healthy() {
    let healthy = seen(H::Healthy, SyncStatusCode::Synced);
    let own =
        |phase, promotion| ObservedOperation { promotion: Some(promotion), ..operation(phase, 60) };
    let cases = [
        (
            "the generated spec is not written yet",
            Observed { spec_differs: true, ..healthy.clone() },
        ),
        (
            "the status is of the previous spec",
            Observed { compared: Compared::Stale, ..healthy.clone() },
        ),
        (
            "an operation is requested",
            Observed {
                requested: Some(phase::RequestedOperation { promotion: None, is_partial: false }),
                ..healthy.clone()
            },
        ),
        (
            "an operation is running",
            Observed { operation: Some(operation(OperationPhase::Running, 10)), ..healthy.clone() },
        ),
        (
            "compared before the operation ended",
            Observed {
                operation: Some(operation(OperationPhase::Succeeded, 60)),
                reconciled_at: Some(ago(55)),
                ..healthy.clone()
            },
        ),
    ];
    for (why, seen) in &cases {
        for stored in [None, Some(entry("app", Waiting)), Some(entry("app", Progressing))] {
            let rules = RolloutSettings::default().rules;
            let got = phase::advance("app", stored.as_ref(), Some(0), seen, &rules, now());
            assert_ne!(got.phase, Healthy, "{why}, from {:?}", stored.map(|entry| entry.phase));
        }
    }
    // Nor does the phase of a later version count as a success.
    for phase in [OperationPhase::Failed, OperationPhase::Error, OperationPhase::Unknown] {
        let failed = Observed { operation: Some(own(phase, ago(60))), ..healthy.clone() };
        let (rules, stored) = (RolloutSettings::default().rules, entry("app", Progressing));
        let got = phase::advance("app", Some(&stored), Some(0), &failed, &rules, now());
        assert_eq!(
            got.phase, Progressing,
            "{phase:?}: a failed smoke test leaves the Application Synced and Healthy"
        );
    }
}

#[test]
fn learning_a_revision_is_not_a_change_of_it() {
    let rules = RolloutSettings::default().rules;
    let own = |revisions: &[&str]| ObservedOperation {
        promotion: Some(ago(60)),
        revisions: revisions.iter().map(|text| (*text).into()).collect(),
        ..operation(OperationPhase::Running, 60)
    };
    let out = seen(H::Healthy, SyncStatusCode::OutOfSync);
    let pending = |revisions: &[&str]| Entry {
        since: ago(60),
        target_revisions: revisions.iter().map(|text| (*text).into()).collect(),
        ..entry("app", Pending)
    };
    let running = |revisions| Observed { operation: Some(own(revisions)), ..out.clone() };
    let cases = [
        ("the first revision that is seen", pending(&[]), running(&["next"]), Progressing),
        ("what our own operation resolved", pending(&["old"]), running(&["next"]), Progressing),
        ("a newer one than our operation syncs", pending(&["old"]), running(&["old"]), Waiting),
        (
            "no revision, since the comparison failed",
            pending(&["old"]),
            Observed { revisions: Vec::new(), ..out.clone() },
            Pending,
        ),
    ];
    for (name, stored, seen, want) in cases {
        let got = phase::advance("app", Some(&stored), Some(0), &seen, &rules, now());
        assert_eq!(got.phase, want, "{name}");
    }
}

#[test]
fn steps_open_as_in_table_a_7() {
    let (none, w, pe, pr, h) =
        (None, Some(Waiting), Some(Pending), Some(Progressing), Some(Healthy));
    // Name, steps that select it, entry, whether it exists.
    type App = (&'static str, &'static [usize], Option<Phase>, bool);
    let cases: [(u32, usize, Vec<App>, &[usize]); 12] = [
        (129, 0, vec![], &[]),
        (130, 3, vec![("a", &[0], h, true), ("b", &[1], h, false), ("c", &[2], w, true)], &[0, 1]),
        (131, 2, vec![("a", &[0], h, false), ("b", &[1], w, true)], &[0]),
        (132, 2, vec![("a", &[0], none, true), ("b", &[1], none, true)], &[0]),
        (133, 2, vec![("b", &[1], w, true)], &[0, 1]),
        (
            134,
            3,
            vec![
                ("a", &[0], h, true),
                ("b", &[0], h, true),
                ("c", &[1], h, true),
                ("d", &[2], h, true),
            ],
            &[0, 1, 2],
        ),
        (135, 2, vec![("a", &[0], w, true), ("b", &[1], w, true)], &[0]),
        (135, 2, vec![("a", &[0], pe, true), ("b", &[1], w, true)], &[0]),
        (135, 2, vec![("a", &[0], pr, true), ("b", &[1], w, true)], &[0]),
        (136, 2, vec![("a", &[0], h, true), ("b", &[1], w, true), ("x", &[], pr, true)], &[0, 1]),
        (137, 3, vec![("a", &[0, 1], pr, true), ("b", &[1], h, true), ("c", &[2], w, true)], &[0]),
        (138, 3, vec![("a", &[0], w, true), ("b", &[1], pe, true), ("c", &[2], w, true)], &[0]),
    ];
    for (row, count, apps, want) in cases {
        let steps: Value = (0..count)
            .map(|index| json!({"matchExpressions": [{"key": format!("s{index}"), "operator": "In", "values": ["y"]}], "maxUpdate": 0}))
            .collect();
        let labels = |steps: &[usize]| {
            steps.iter().map(|step| (format!("s{step}"), "y".to_owned())).collect::<steps::Labels>()
        };
        let generated: BTreeMap<String, Generated> = apps
            .iter()
            .map(|(name, steps, ..)| {
                (
                    (*name).to_owned(),
                    Generated { labels: labels(steps), invalid: None, denied: None },
                )
            })
            .collect();
        let entries: BTreeMap<String, Entry> = apps
            .iter()
            .filter_map(|(name, _, phase, _)| {
                Some(((*name).to_owned(), Entry { since: ago(1), ..entry(name, (*phase)?) }))
            })
            .collect();
        let current: BTreeMap<String, Observed> = apps
            .iter()
            .filter(|(.., exists)| *exists)
            .map(|(name, _, phase, _)| ((*name).to_owned(), quiet(phase.unwrap_or(Waiting))))
            .collect();
        let strategy = strategy(steps);
        let snapshot = Snapshot {
            strategy: &strategy,
            generated: &generated,
            current: &current,
            entries: &entries,
            settings: RolloutSettings::default(),
        };
        let plan = step(&snapshot, now());
        let open: Vec<usize> =
            plan.steps.iter().enumerate().filter(|(_, step)| step.open).map(|(at, _)| at).collect();
        assert_eq!(open, want, "row {row}");
        if row == 138 {
            assert_eq!(plan.entries[1].phase, Pending, "row 138 keeps b Pending");
            assert_eq!(plan.starts, [], "row 138 starts nothing");
        }
    }
}

#[test]
fn promotions_are_those_of_table_a_8() {
    let cases: Vec<(u32, Value, Vec<Phase>, Vec<Phase>)> = vec![
        (139, json!(null), vec![Waiting, Waiting], vec![Pending, Pending]),
        (141, json!(null), vec![Healthy], vec![Healthy]),
        (
            142,
            json!(3),
            vec![Progressing, Waiting, Waiting, Pending],
            vec![Progressing, Pending, Waiting, Pending],
        ),
        (143, json!("50%"), vec![Waiting; 3], vec![Pending, Waiting, Waiting]),
        (144, json!(0), vec![Waiting; 3], vec![Waiting; 3]),
        (145, json!("100%"), vec![Waiting; 3], vec![Pending; 3]),
        (146, json!("1%"), vec![Waiting; 3], vec![Pending, Waiting, Waiting]),
        (147, json!("0%"), vec![Waiting; 3], vec![Waiting; 3]),
        (148, json!("abc"), vec![Waiting; 3], vec![Pending, Waiting, Waiting]),
        (149, json!("0"), vec![Waiting; 3], vec![Waiting; 3]),
        (
            151,
            json!(2),
            vec![Healthy, Waiting, Waiting, Waiting],
            vec![Healthy, Pending, Pending, Waiting],
        ),
    ];
    for (row, max_update, before, want) in cases {
        let names: Vec<String> = (1..=before.len()).map(|index| format!("app{index}")).collect();
        let generated = names.iter().map(|name| (name.clone(), super::generated("1"))).collect();
        let pairs = || names.iter().zip(&before);
        let strategy = steps_of(&[max_update]);
        let snapshot = Snapshot {
            strategy: &strategy,
            generated: &generated,
            current: &pairs().map(|(name, phase)| (name.clone(), quiet(*phase))).collect(),
            entries: &pairs()
                .map(|(name, phase)| {
                    // Recent, so that no timeout applies.
                    (name.clone(), Entry { since: ago(1), ..entry(name, *phase) })
                })
                .collect(),
            settings: RolloutSettings::default(),
        };
        let plan = step(&snapshot, now());
        let got: Vec<Phase> = phases(&plan).into_iter().map(|(_, phase)| phase).collect();
        assert_eq!(got, want, "row {row}");
    }
}

#[test]
fn applications_outside_every_step_do_not_count_as_344() {
    let strategy = steps_of(&[json!(1)]);
    let generated =
        [("app1".to_owned(), generated("1")), ("z".to_owned(), generated("none"))].into();
    let current =
        [("app1".to_owned(), quiet(Waiting)), ("z".to_owned(), quiet(Progressing))].into();
    let entries = [("z".to_owned(), entry("z", Progressing))].into();
    let snapshot = Snapshot {
        strategy: &strategy,
        generated: &generated,
        current: &current,
        entries: &entries,
        settings: RolloutSettings::default(),
    };
    let plan = step(&snapshot, now());
    assert_eq!(phases(&plan), [("app1", Pending), ("z", Progressing)], "row 150");
    assert_eq!(plan.entries[1].step, None);
}

#[test]
fn a_start_is_written_once_and_never_over_another_operation_as_361() {
    let promoted = Entry { since: ago(5), ..entry("app", Pending) };
    let requested = |promotion| Some(phase::RequestedOperation { promotion, is_partial: false });
    let state = |promotion, phase| {
        Some(ObservedOperation { promotion, started_at: ago(400), ..operation(phase, 400) })
    };
    let out = seen(H::Healthy, SyncStatusCode::OutOfSync);
    let cases = [
        ("nothing on the Application", out.clone(), 1),
        ("ours is requested", Observed { requested: requested(Some(ago(5))), ..out.clone() }, 0),
        (
            "ours ended",
            Observed { operation: state(Some(ago(5)), OperationPhase::Failed), ..out.clone() },
            0,
        ),
        (
            "a later one of ours ended",
            Observed { operation: state(Some(ago(2)), OperationPhase::Failed), ..out.clone() },
            0,
        ),
        (
            "one of an earlier promotion ended",
            Observed { operation: state(Some(ago(50)), OperationPhase::Failed), ..out.clone() },
            1,
        ),
        (
            "another operation is requested",
            Observed { requested: requested(None), ..out.clone() },
            0,
        ),
        (
            "another operation is running",
            Observed { operation: state(None, OperationPhase::Running), ..out.clone() },
            0,
        ),
    ];
    for (name, seen, want) in cases {
        let strategy = steps_of(&[json!(1)]);
        let snapshot = Snapshot {
            strategy: &strategy,
            generated: &[("app".to_owned(), generated("1"))].into(),
            current: &[("app".to_owned(), seen)].into(),
            entries: &[("app".to_owned(), promoted.clone())].into(),
            settings: RolloutSettings::default(),
        };
        let plan = step(&snapshot, now());
        assert_eq!(plan.starts.len(), want, "{name}");
        if let Some(start) = plan.starts.first() {
            assert_eq!(
                (start.promotion, start.revisions.clone()),
                (ago(5), vec!["next".to_owned()]),
                "{name}"
            );
        }
    }
}

#[test]
fn an_application_that_has_not_noticed_the_commit_holds_its_step() {
    // Production noticed the new commit first; development still reports the
    // previous one as Synced and Healthy.
    let at = |revision: &str, seconds| Observed {
        revisions: vec![revision.to_owned()],
        reconciled_at: Some(ago(seconds)),
        ..seen(
            H::Healthy,
            if revision == "new" { SyncStatusCode::OutOfSync } else { SyncStatusCode::Synced },
        )
    };
    for (name, dev_seconds, behind) in [
        ("development was compared before", 30, vec!["dev"]),
        ("in the same second", 10, vec!["dev", "prod"]),
    ] {
        let strategy = steps_of(&[json!(null), json!(null)]);
        let old =
            |name: &str| Entry { target_revisions: vec!["old".into()], ..entry(name, Healthy) };
        let snapshot = Snapshot {
            strategy: &strategy,
            generated: &[("dev".to_owned(), generated("1")), ("prod".to_owned(), generated("2"))]
                .into(),
            current: &[
                ("dev".to_owned(), at("old", dev_seconds)),
                ("prod".to_owned(), at("new", 10)),
            ]
            .into(),
            entries: &[("dev".to_owned(), old("dev")), ("prod".to_owned(), old("prod"))].into(),
            settings: RolloutSettings::default(),
        };
        let plan = step(&snapshot, now());
        assert_eq!(phases(&plan), [("dev", Healthy), ("prod", Waiting)], "{name}");
        assert_eq!(
            (plan.open_step, plan.refreshes, plan.starts),
            (Some(0), behind.into_iter().map(str::to_owned).collect(), vec![]),
            "{name}"
        );
        assert!(plan.waiting[0].message.contains("revision new"), "{name}: {:?}", plan.waiting);
    }
}

/// They were said to be able to start, and did not.
#[test]
fn what_keeps_a_waiting_application_from_its_promotion_is_named() {
    let current = || seen(H::Healthy, SyncStatusCode::OutOfSync);
    let stale = Observed {
        operation: Some(ObservedOperation {
            finished_at: Some(now()),
            ..operation(OperationPhase::Succeeded, 20)
        }),
        reconciled_at: Some(ago(5)),
        ..current()
    };
    let unhealthy = seen(H::Degraded, SyncStatusCode::Synced);
    let old = Observed { revisions: vec!["old".into()], reconciled_at: Some(ago(30)), ..current() };
    let cases = [
        (stale, "Comparison", "it has not been compared since the end of its operation"),
        (unhealthy, "Health", "Synced, Degraded"),
        (old, "Comparison", "it has not been compared with revision next yet"),
    ];
    for (observed, kind, message) in cases {
        let strategy = steps_of(&[json!(null), json!(null)]);
        let waiting = Entry { target_revisions: observed.revisions.clone(), ..entry("a", Waiting) };
        let snapshot = Snapshot {
            strategy: &strategy,
            generated: &[("a".to_owned(), generated("1")), ("b".to_owned(), generated("2"))].into(),
            current: &[("a".to_owned(), observed), ("b".to_owned(), current())].into(),
            entries: &[("a".to_owned(), waiting), ("b".to_owned(), entry("b", Waiting))].into(),
            settings: RolloutSettings::default(),
        };
        // The status can hold no more Applications that are in flight.
        let plan = with_members(&snapshot, |members| {
            let snapshot = super::super::RolloutSnapshot {
                strategy: &strategy,
                members,
                settings: RolloutSettings::default(),
                opened: None,
                capacity: 0,
                run_input: None,
            };
            super::super::step(&snapshot, now())
        });
        let said: Vec<(&str, &str)> =
            plan.waiting.iter().map(|wait| (wait.kind.name(), &*wait.message)).collect();
        assert_eq!(said, [(kind, message)]);
        assert_eq!(plan.starts, []);
    }
}

/// With another sync engine, the comparison after a sync may take long. What was compared before
/// the sync was shown as its result.
#[test]
fn a_comparison_from_before_the_sync_is_not_shown_as_its_result() {
    let synced =
        ObservedOperation { finished_at: Some(now()), ..operation(OperationPhase::Succeeded, 20) };
    let stale = Observed {
        operation: Some(synced),
        reconciled_at: Some(ago(5)),
        ..seen(H::Healthy, SyncStatusCode::OutOfSync)
    };
    let strategy = steps_of(&[json!(null)]);
    let progressing =
        Entry { target_revisions: stale.revisions.clone(), ..entry("a", Progressing) };
    let snapshot = Snapshot {
        strategy: &strategy,
        generated: &[("a".to_owned(), generated("1"))].into(),
        current: &[("a".to_owned(), stale)].into(),
        entries: &[("a".to_owned(), progressing)].into(),
        settings: RolloutSettings::default(),
    };
    let plan = step(&snapshot, now());
    let said: Vec<(&str, &str)> =
        plan.waiting.iter().map(|wait| (wait.kind.name(), &*wait.message)).collect();
    let want = "it has not been compared since the end of its sync (OutOfSync, Healthy before it)";
    assert_eq!(said, [("Health", want)]);
}

/// The Secret of an excluded cluster was named as what a failed write waits for.
#[test]
fn a_failed_write_waits_for_no_resource() {
    let excluded = wait::RolloutWait {
        kind: wait::WaitKind::Excluded,
        application: "a".to_owned(),
        step: 0,
        resource: Some("Secret argocd/c1".to_owned()),
        message: "its cluster is excluded".to_owned(),
        since: None,
        until: None,
        write: Some(wait::Write::Start),
    };
    let failure = snapshot::Unwritten { why: "403: no".to_owned(), is_refused: false };
    let failed = excluded.after_failure(&failure);
    assert_eq!((failed.kind, failed.resource), (wait::WaitKind::FailedWrite, None));
    assert_eq!(failed.message, "its sync cannot be started: 403: no");
}

#[test]
fn a_step_waits_for_members_that_are_invalid_or_missing_as_182_as_332() {
    let strategy = steps_of(&[json!(null), json!(null)]);
    let invalid =
        Generated { invalid: Some("project nope does not exist".into()), ..generated("1") };
    let snapshot = Snapshot {
        strategy: &strategy,
        generated: &[
            ("bad".to_owned(), invalid),
            ("gone".to_owned(), generated("1")),
            ("prod".to_owned(), generated("2")),
        ]
        .into(),
        current: &[("bad".to_owned(), quiet(Healthy)), ("prod".to_owned(), quiet(Waiting))].into(),
        entries: &[("bad".to_owned(), entry("bad", Healthy))].into(),
        settings: RolloutSettings::default(),
    };
    let plan = step(&snapshot, now());
    let reasons: Vec<(&str, &str)> = plan
        .waiting
        .iter()
        .map(|wait| (wait.application.as_str(), wait.message.as_str()))
        .collect();
    assert_eq!(
        reasons,
        [
            ("bad", "the application is invalid: project nope does not exist"),
            ("gone", "the application is being created")
        ]
    );
    assert_eq!(plan.starts, []);
}

#[test]
fn the_next_reconcile_is_bounded_by_the_poll_and_the_deadline_as_390() {
    let plan = |phase, since: i64, timeout: Option<i64>| {
        let strategy = steps_of(&[json!(null)]);
        let rules = Rules {
            progressing_timeout: timeout.map(SignedDuration::from_secs),
            capture_drift: true,
        };
        let snapshot = Snapshot {
            strategy: &strategy,
            generated: &[("app".to_owned(), generated("1"))].into(),
            current: &[("app".to_owned(), quiet(phase))].into(),
            entries: &[("app".to_owned(), Entry { since: ago(since), ..entry("app", phase) })]
                .into(),
            settings: RolloutSettings { rules, ..RolloutSettings::default() },
        };
        step(&snapshot, now()).wake_at.map(|at| at.duration_since(now()).as_secs())
    };
    assert_eq!(plan(Pending, 299, Some(300)), Some(1), "row 170");
    assert_eq!(plan(Pending, 10, Some(300)), Some(30));
    assert_eq!(plan(Pending, 299, None), Some(30));
    assert_eq!(plan(Progressing, 10, Some(300)), Some(30));
    assert_eq!(plan(Healthy, 10, Some(300)), None, "a finished rollout costs no timer");
}
