//! What entries say by their marks and causes, and what evidence of other Applications counts.

use super::*;
use crate::rollout::entry::{Earlier, EntryMark};
use crate::rollout::manual_override::hold;
use crate::rollout::observed::{OperationEnd, PersonSync};
use crate::rollout::policy::{Policy, Rules, Selectable};
use crate::rollout::policy_limits::limit_texts;
use crate::rollout::revision_skew::behind;
use health::Status as H;

/// A mark is stored as the begin of a message, which means it in some phases only.
#[test]
fn marks_are_read_from_the_phase_and_the_message() {
    use Phase::{Healthy, Pending, Progressing, Waiting};
    for (mark, phases) in [
        (EntryMark::TimedOut, &[Healthy][..]),
        (EntryMark::StepClosed, &[Waiting, Pending]),
        (EntryMark::FoundSynced, &[Progressing]),
        (EntryMark::Requested, &[Pending]),
        (EntryMark::SyncFailed, &[Waiting, Progressing]),
        (EntryMark::Degraded, &[Progressing]),
        (EntryMark::ResultUnknown, &[Progressing]),
        (EntryMark::HeldByPerson, &[Waiting]),
    ] {
        for phase in [Waiting, Pending, Progressing, Healthy] {
            let message = format!("{}: and more", mark.prefix());
            let want = phases.contains(&phase).then_some(mark);
            assert_eq!(EntryMark::of(phase, &message), want, "{phase:?} {message}");
            assert_eq!(EntryMark::of(phase, "Application is healthy"), None);
        }
    }
}

/// ST-065: whether a sync of a person is newer than a target whose order to it is not known.
#[test]
fn a_sync_of_unknown_order_is_newer_when_it_started_later_as_st_065() {
    let person = |started: i64, is_explicit: bool, is_after_target: bool| PersonSync {
        revisions: vec!["old".to_owned()],
        is_local: false,
        is_explicit,
        by: "ann".to_owned(),
        started_at: ago(started),
        end: OperationEnd::Succeeded,
        is_after_target,
    };
    let target = || vec!["next".to_owned()];
    for (name, target, sync, want) in [
        ("after the entry", target(), person(299, true, false), true),
        ("in its second", target(), person(300, true, false), true),
        ("before the entry", target(), person(301, true, false), false),
        ("before it, after the target", target(), person(301, true, true), true),
        ("to no revision", target(), person(299, false, false), false),
        ("no target is known", Vec::new(), person(299, true, false), false),
        ("neither", Vec::new(), person(299, false, false), false),
    ] {
        let stored = Entry {
            earlier: Earlier::Unknown,
            target_revisions: target,
            ..entry("a", Phase::Healthy)
        };
        let start = sync.started_at;
        let is_newer = sync.is_after_target || start >= ago(300);
        let found = Observed {
            person: Some(Box::new(sync)),
            ..seen(H::Healthy, SyncStatusCode::OutOfSync)
        };
        let mut entry = stored.clone();
        let message = hold(Some(&stored), &mut entry, &found, false);
        assert_eq!(message.is_some(), want, "{name}: {message:?}");
        if !is_newer {
            assert_eq!(entry.earlier, Earlier::Sync(start), "{name}");
        }
    }
}

/// A failed comparison says nothing, and one of other sources is not compared.
#[test]
fn what_cannot_be_compared_is_not_behind() {
    let newest = seen(H::Healthy, SyncStatusCode::Synced);
    let earlier = |change: &dyn Fn(&mut Observed)| {
        let mut found = Observed {
            revisions: vec!["old".to_owned()],
            reconciled_at: Some(ago(60)),
            ..seen(H::Healthy, SyncStatusCode::Synced)
        };
        change(&mut found);
        found
    };
    let source = newest.sources[0].clone();
    type Case<'a> = (&'a str, &'a dyn Fn(&mut Observed), Option<bool>);
    let changes: [Case<'_>; 6] = [
        ("an older comparison", &|_| {}, Some(true)),
        ("an older failed one", &|one| one.sync = SyncStatusCode::Unknown, Some(true)),
        (
            "a later failed one",
            &|one| (one.sync, one.reconciled_at) = (SyncStatusCode::Unknown, Some(now())),
            Some(false),
        ),
        (
            "of another spec",
            &|one| (one.sync, one.compared) = (SyncStatusCode::Unknown, Compared::Stale),
            None,
        ),
        (
            "of more sources",
            &|one| {
                one.sync = SyncStatusCode::Unknown;
                one.sources.push(source.clone());
            },
            None,
        ),
        ("of another repository", &|one| one.sources[0].repository.push('2'), None),
    ];
    for (name, change, want) in changes {
        let found = earlier(change);
        let current = BTreeMap::from([("a".to_owned(), newest.clone()), ("b".to_owned(), found)]);
        let all = ["a", "b"].map(|name| (name.to_owned(), generated("1"))).into();
        let snapshot = Snapshot {
            strategy: &steps_of(&[json!(null)]),
            generated: &all,
            current: &current,
            entries: &BTreeMap::new(),
            settings: RolloutSettings::default(),
        };
        let lags = with_members(&snapshot, behind);
        assert!(lags[0].is_none(), "{name}");
        assert_eq!(lags[1].as_ref().map(|lag| lag.refresh), want, "{name}");
        assert!(lags[1].iter().all(|lag| lag.revision == "next"), "{name}");
    }
}

/// AS-603: the word of a transition to Waiting is why it waits.
#[test]
fn a_transition_to_waiting_names_its_cause_as_603() {
    let out = seen(H::Healthy, SyncStatusCode::OutOfSync);
    let old = || Entry { target_revisions: vec!["old".into()], ..entry("b", Phase::Healthy) };
    for (name, stored, is_denied, want) in [
        ("new", None, false, "NewApplication"),
        ("new, and denied", None, true, "NewApplication"),
        ("a new revision", Some(old()), false, "NewRevision"),
        ("a window has shut", Some(entry("b", Phase::Pending)), true, "SyncWindow"),
    ] {
        let mut of_b = generated("2");
        of_b.denied =
            is_denied.then(|| Denied { reason: "window nightly".to_owned(), until: None });
        let all = [("a".to_owned(), generated("1")), ("b".to_owned(), of_b)].into();
        let current = ["a", "b"].map(|name| (name.to_owned(), out.clone())).into();
        let first = entry("a", Phase::Pending);
        let entries = stored.into_iter().chain([first]);
        let entries = entries.map(|entry| (entry.application.clone(), entry)).collect();
        let snapshot = Snapshot {
            strategy: &steps_of(&[json!(null), json!(null)]),
            generated: &all,
            current: &current,
            entries: &entries,
            settings: RolloutSettings::default(),
        };
        let plan = step(&snapshot, now());
        let of_b: Vec<(Phase, &str)> = (plan.transitions.iter())
            .filter(|transition| transition.application == "b")
            .map(|transition| (transition.to, transition.cause))
            .collect();
        assert_eq!(of_b, [(Phase::Waiting, want)], "{name}");
    }
}

/// Its promotion may be what has just ended: the comparison after that says so.
#[test]
fn nothing_starts_before_the_last_sync_is_compared() {
    for (compared, starts) in [(15, 0), (10, 1), (5, 1)] {
        let found = Observed {
            operation: Some(operation(OperationPhase::Succeeded, 20)),
            reconciled_at: Some(ago(compared)),
            ..seen(H::Healthy, SyncStatusCode::OutOfSync)
        };
        let pending = Entry { since: ago(5), ..entry("a", Phase::Pending) };
        let snapshot = Snapshot {
            strategy: &steps_of(&[json!(null)]),
            generated: &[("a".to_owned(), generated("1"))].into(),
            current: &[("a".to_owned(), found)].into(),
            entries: &[("a".to_owned(), pending)].into(),
            settings: RolloutSettings::default(),
        };
        assert_eq!(step(&snapshot, now()).starts.len(), starts, "{compared}");
    }
}

/// The first ten by name; the counts have all.
#[test]
fn a_status_names_the_first_that_are_waited_for() {
    let names: Vec<String> = (0..13).map(|number| format!("a-{number:02}")).collect();
    let all = names.iter().map(|name| (name.clone(), generated("1"))).collect();
    let found = seen(H::Progressing, SyncStatusCode::OutOfSync);
    let current = names.iter().map(|name| (name.clone(), found.clone())).collect();
    let snapshot = Snapshot {
        strategy: &steps_of(&[json!(1)]),
        generated: &all,
        current: &current,
        entries: &BTreeMap::new(),
        settings: RolloutSettings::default(),
    };
    let plan = step(&snapshot, now());
    let first: Vec<&str> = plan.waiting.iter().map(|wait| wait.application.as_str()).collect();
    assert_eq!(first, names[..10]);
}

#[test]
fn the_limits_of_policies_are_named_with_them() {
    let texts = |spec: Value| {
        let spec = serde_json::from_value(spec).unwrap();
        let policy = Policy { name: "p".to_owned(), spec: Ok(spec) };
        let application = Selectable {
            name: "a".to_owned(),
            labels: [("env".to_owned(), "dev".to_owned())].into(),
            step: Some(0),
        };
        limit_texts(&Rules::of(&[policy], "shop", &BTreeMap::new(), &[application], 1))
    };
    assert_eq!(texts(json!({})), [""; 0]);
    assert_eq!(texts(json!({"paused": true})), ["paused by policy p: spec.paused is true"]);
    let failures = texts(json!({"failures": {"max": 1, "deadline": "10m"}}));
    let deadline = "one fails that is not Healthy in 10m0s";
    assert_eq!(failures, ["1 may fail, then Hold (policy p)", deadline]);
    let spread = |label: &str| json!({"pace": {"spread": {"label": label, "max": 2}}});
    assert_eq!(texts(spread("env")), ["2 in flight for each value of env (policy p)"]);
    let want = "2 in flight for each value of envv, which no Application has (policy p)";
    assert_eq!(texts(spread("envv")), [want]);
    let want = "3 in flight in all sets of policy p";
    assert_eq!(texts(json!({"pace": {"maxInFlight": 3}})), [want]);
}

/// ST-065: the message of what a sync of a person holds names that person, by the beginning of a long
/// name, since a status has little room.
#[test]
fn a_long_name_of_a_person_is_cut_st_065() {
    for (length, shown) in
        [(0, None), (47, Some(47)), (48, Some(48)), (49, Some(47)), (500, Some(47))]
    {
        let sync = PersonSync {
            revisions: vec!["old".to_owned()],
            is_local: false,
            is_explicit: true,
            by: "é".repeat(length),
            started_at: ago(299),
            end: OperationEnd::Succeeded,
            is_after_target: false,
        };
        let stored = Entry {
            earlier: Earlier::Unknown,
            target_revisions: vec!["next".to_owned()],
            ..entry("a", Phase::Healthy)
        };
        let found = Observed {
            person: Some(Box::new(sync)),
            ..seen(H::Healthy, SyncStatusCode::OutOfSync)
        };
        let message = hold(Some(&stored), &mut stored.clone(), &found, false).unwrap();
        let name = match shown {
            None => "a person".to_owned(),
            Some(shown) if shown == length => "é".repeat(shown),
            Some(shown) => format!("{}…", "é".repeat(shown)),
        };
        assert!(message.contains(&format!(": {name} synced it to old")), "{length}: {message}");
    }
}

/// AS-361: an operation is the one of a promotion when it was written for it; one that was requested
/// before the step opened again counts, unless it had ended by then.
#[test]
fn an_operation_is_of_the_promotion_that_it_was_written_for_as_361() {
    let since = ago(100);
    let operation = |promotion: Option<i64>, finished: Option<i64>| ObservedOperation {
        phase: OperationPhase::Succeeded,
        started_at: ago(200),
        finished_at: finished.map(ago),
        promotion: promotion.map(ago),
        revisions: Vec::new(),
        message: String::new(),
        is_blocked: false,
        is_partial: false,
    };
    for (name, promotion, finished, promoted, requested) in [
        ("of a person", None, None, false, false),
        ("of this promotion", Some(100), Some(90), true, true),
        ("of a later one", Some(99), Some(90), true, true),
        ("of an earlier one", Some(101), Some(90), false, true),
        ("which runs", Some(101), None, false, true),
        ("which ended then, by clocks that differ", Some(200), Some(103), false, true),
        ("which had ended before", Some(200), Some(104), false, false),
    ] {
        for (mark, want) in [(None, promoted), (Some(EntryMark::Requested), requested)] {
            let entry = Entry { mark, since, ..entry("a", Phase::Pending) };
            assert_eq!(entry.owns(&operation(promotion, finished)), want, "{name}: {mark:?}");
        }
    }
}
