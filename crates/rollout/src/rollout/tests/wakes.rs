//! When a rollout is decided again without an event, and what a full status holds back.

use super::*;
use crate::rollout::entry::EntryMark;
use crate::rollout::listed::in_flight;
use crate::rollout::steps::{Membership, ProblemKind};
use health::Status as H;

/// Applications by name: their step, what is observed, the entry, and when a window that denies them
/// opens.
type App = (&'static str, Option<usize>, Observed, Option<Entry>, Option<i64>);

fn plan(apps: &[App], settings: RolloutSettings, capacity: usize) -> RolloutPlan {
    let strategy = steps_of(&[json!(null), json!(null)]);
    let memberships: Vec<Membership> =
        apps.iter().map(|app| Membership { steps: app.1.into_iter().collect() }).collect();
    let denied: Vec<Option<Denied>> = apps
        .iter()
        .map(|app| {
            let until = app.4.map(|seconds| ago(-seconds));
            until.map(|until| Denied { reason: "w".to_owned(), until: Some(until) })
        })
        .collect();
    let members: Vec<Member<'_>> = apps
        .iter()
        .zip(&memberships)
        .zip(&denied)
        .map(|((app, steps), denied)| Member {
            name: app.0,
            steps: Some(steps),
            invalid: None,
            unwritten: None,
            excluded: None,
            is_going: false,
            resource: None,
            denied: denied.as_ref(),
            observed: Some(&app.2),
            entry: app.3.as_ref(),
            is_listed: true,
            record: None,
            spec: None,
            started: None,
        })
        .collect();
    let snapshot = super::super::RolloutSnapshot {
        strategy: &strategy,
        members: &members,
        settings,
        opened: None,
        capacity,
        run_input: None,
    };
    super::super::step(&snapshot, now())
}

/// AS-390: as long as anything may still happen, it is decided again without an event; at the time at
/// which a window opens or a start is given up, at that time.
#[test]
fn a_rollout_is_decided_again_while_anything_may_happen_as_390() {
    let done = || seen(H::Healthy, SyncStatusCode::Synced);
    let out = || seen(H::Healthy, SyncStatusCode::OutOfSync);
    let at = |name: &str, phase: Phase, step: usize| {
        Some(Entry { step: Some(step), ..entry(name, phase) })
    };
    let no_drift = || {
        let mut settings = RolloutSettings::default();
        settings.rules.capture_drift = false;
        settings
    };
    let usual = RolloutSettings::default;
    let poll = Some(30);
    let pending = |since: i64| {
        let entry = entry("a", Phase::Pending);
        Some(Entry { since: ago(since), ..entry })
    };
    let requested = || Observed {
        requested: Some(phase::RequestedOperation { promotion: Some(ago(100)), is_partial: false }),
        ..out()
    };
    for (name, apps, settings, want) in [
        ("complete", vec![("a", Some(0), done(), at("a", Phase::Healthy, 0), None)], usual(), None),
        ("a step is open", vec![("a", Some(0), out(), None, None)], usual(), poll),
        // No step waits for it, and a person may start it.
        ("one of no step", vec![("a", None, out(), None, None)], usual(), poll),
        ("a window opens", vec![("a", Some(0), out(), None, Some(10))], usual(), Some(10)),
        ("much later", vec![("a", Some(0), out(), None, Some(99))], usual(), poll),
        (
            "that of a closed step",
            vec![("a", Some(0), out(), None, None), ("b", Some(1), out(), None, Some(10))],
            usual(),
            poll,
        ),
        (
            "that of one that is complete",
            vec![
                ("a", Some(0), out(), at("a", Phase::Healthy, 0), Some(10)),
                ("b", Some(1), out(), None, None),
            ],
            no_drift(),
            poll,
        ),
        (
            "it does not start",
            vec![("a", Some(0), requested(), pending(290), None)],
            usual(),
            Some(10),
        ),
    ] {
        let wake = plan(&apps, settings, listed::ENTRIES_BYTES).wake_at;
        assert_eq!(wake.map(|at| at.duration_since(now()).as_secs()), want, "{name}");
    }
}

/// ST-005: a status that is full holds no more entries in flight. What is Synced waits then, and
/// counts all the same, until it is Healthy; what is in flight already stays so.
#[test]
fn what_a_status_has_no_room_for_waits_and_counts() {
    let found = || seen(H::Progressing, SyncStatusCode::Synced);
    let one = in_flight(&entry("a", Phase::Progressing));
    let apps = |known: &[&str]| -> Vec<App> {
        ["a", "b", "c"]
            .map(|name| {
                let entry = Entry {
                    mark: Some(EntryMark::FoundSynced),
                    message: EntryMark::FoundSynced.prefix().to_owned(),
                    ..entry(name, Phase::Progressing)
                };
                (name, Some(0), found(), known.contains(&name).then_some(entry), None)
            })
            .to_vec()
    };
    for (name, known, room, want) in [
        ("room for all", &[][..], 3 * one, "PPP"),
        ("room for two", &[], 2 * one, "PPW"),
        ("a byte too few", &[], 2 * one - 1, "PWW"),
        ("no room", &[], 0, "WWW"),
        ("in flight already", &["c"], 2 * one, "PWP"),
        ("all in flight already", &["a", "b", "c"], 0, "PPP"),
    ] {
        let plan = plan(&apps(known), RolloutSettings::default(), room);
        let phases: String = plan.entries.iter().map(|entry| &entry.phase.name()[..1]).collect();
        assert_eq!(phases, want, "{name}");
        assert_eq!(plan.in_flight, 3, "{name}: each counts");
        assert_eq!(plan.steps[0].in_flight, 3, "{name}");
        let waits: u64 = plan.counts.waits.values().map(|kind| kind.count).sum();
        assert_eq!((waits, plan.waiting_count), (3, 3), "{name}");
    }
    // As soon as one is Healthy, it needs no room.
    let mut healthy = apps(&[]);
    healthy[2].2.health = H::Healthy;
    let plan = plan(&healthy, RolloutSettings::default(), 0);
    assert_eq!(plan.entries[2].phase, Phase::Healthy);
}

/// AS-007, AS-315: of the strategy itself only what makes it another one is named again; the rest
/// follows from its steps.
#[test]
fn the_problems_of_a_rollout_are_named_once_as_315() {
    let read = |strategy: Value| {
        let (strategy, problems) = StepStrategy::read(Some(&strategy));
        let found = all_problems(&problems, &strategy, &BTreeMap::new(), &Vec::new);
        found.iter().map(|problem| problem.kind).collect::<Vec<_>>()
    };
    assert_eq!(read(json!({"type": "Rolling"})), [ProblemKind::UnknownStrategy]);
    assert_eq!(read(json!({"type": "AllAtOnce"})), []);
    let steps = json!([{"maxUpdate": "abc"}]);
    let twice = read(json!({"type": "RollingSync", "rollingSync": {"steps": steps}}));
    let invalid = twice.iter().filter(|kind| **kind == ProblemKind::InvalidMaxUpdate).count();
    assert_eq!(invalid, 1, "{twice:?}");
}

/// AS-303: without steps nothing is in the status of a rollout.
#[test]
fn without_steps_no_entry_is_kept_as_303() {
    let strategy = StepStrategy::RollingSync(Vec::new());
    let current = [("a".to_owned(), seen(H::Healthy, SyncStatusCode::Synced))].into();
    let entries = [("a".to_owned(), entry("a", Phase::Healthy))].into();
    let snapshot = Snapshot {
        strategy: &strategy,
        generated: &BTreeMap::new(),
        current: &current,
        entries: &entries,
        settings: RolloutSettings::default(),
    };
    assert_eq!(step(&snapshot, now()).entries, []);
}
