//! What a reconcile decides about an Application: of each entry that it may have, and each state
//! in which it may be seen. `decisions.txt` is to be read with each change of it;
//! `WAVEGATE_REGENERATE=1` writes it.

use std::fmt::Write;

use super::*;
use crate::rollout::Transition;
use crate::rollout::observed::{OperationEnd, PersonSync, RequestedOperation};
use crate::written;
use health::Status as H;

/// Entries, by what is known of them.
fn entries() -> Vec<(&'static str, Option<Entry>)> {
    let at = |phase, seconds| Entry { since: ago(seconds), ..entry("app", phase) };
    let marked = |phase, mark: EntryMark| Entry {
        mark: Some(mark),
        message: format!("{mark:?} before"),
        ..at(phase, 60)
    };
    vec![
        ("no entry", None),
        ("Waiting", Some(at(Phase::Waiting, 60))),
        ("Waiting, its sync failed", Some(marked(Phase::Waiting, EntryMark::SyncFailed))),
        ("Waiting, held by a person", Some(marked(Phase::Waiting, EntryMark::HeldByPerson))),
        ("Waiting, its step closed", Some(marked(Phase::Waiting, EntryMark::StepClosed))),
        ("Pending", Some(at(Phase::Pending, 60))),
        ("Pending for long", Some(at(Phase::Pending, 300))),
        ("Pending, requested before", Some(marked(Phase::Pending, EntryMark::Requested))),
        ("Progressing", Some(at(Phase::Progressing, 60))),
        ("Progressing, found Synced", Some(marked(Phase::Progressing, EntryMark::FoundSynced))),
        ("Progressing, its sync failed", Some(marked(Phase::Progressing, EntryMark::SyncFailed))),
        ("Progressing, was Degraded", Some(marked(Phase::Progressing, EntryMark::Degraded))),
        ("Progressing, unknown", Some(marked(Phase::Progressing, EntryMark::ResultUnknown))),
        ("Healthy", Some(at(Phase::Healthy, 60))),
        (
            "Healthy at another target",
            Some(Entry { target_revisions: vec!["before".into()], ..at(Phase::Healthy, 60) }),
        ),
        ("Healthy by the timeout", Some(marked(Phase::Healthy, EntryMark::TimedOut))),
    ]
}

/// States of an Application.
fn states() -> Vec<(&'static str, Observed)> {
    use OperationPhase::{Error, Failed, Running, Succeeded, Terminating, Unknown};
    let synced = seen(H::Healthy, SyncStatusCode::Synced);
    let out = seen(H::Healthy, SyncStatusCode::OutOfSync);
    let progressing = seen(H::Progressing, SyncStatusCode::Synced);
    let degraded = seen(H::Degraded, SyncStatusCode::Synced);
    let with = |seen: &Observed, operation: ObservedOperation| Observed {
        operation: Some(operation),
        ..seen.clone()
    };
    let own = |phase, started: i64| ObservedOperation {
        promotion: Some(ago(60)),
        revisions: vec!["next".into()],
        message: "what it says".into(),
        ..operation(phase, started)
    };
    let other = |phase, started: i64| ObservedOperation {
        revisions: vec!["next".into()],
        message: "what it says".into(),
        ..operation(phase, started)
    };
    let partial = |phase| ObservedOperation { is_partial: true, ..other(phase, 30) };
    let requested = |promotion: Option<i64>, is_partial| Observed {
        requested: Some(RequestedOperation { promotion: promotion.map(ago), is_partial }),
        ..out.clone()
    };
    let person = |end, revision: &str, seconds: i64| {
        Some(Box::new(PersonSync {
            revisions: vec![revision.to_owned()],
            is_local: false,
            is_explicit: true,
            by: "alice".into(),
            started_at: ago(seconds),
            end,
            is_after_target: false,
        }))
    };
    let by_alice = |end, phase, revision: &str| Observed {
        person: person(end, revision, 30),
        operation: Some(ObservedOperation {
            revisions: vec![revision.to_owned()],
            ..operation(phase, 30)
        }),
        ..out.clone()
    };
    let detail = |seen: Observed| Observed { detail: "Deployment web is Degraded".into(), ..seen };
    vec![
        ("Synced and Healthy", synced.clone()),
        ("OutOfSync", out.clone()),
        ("Synced, Progressing", progressing.clone()),
        ("Synced, Degraded", detail(degraded.clone())),
        ("Synced, Missing", seen(H::Missing, SyncStatusCode::Synced)),
        ("Synced, Suspended", seen(H::Suspended, SyncStatusCode::Synced)),
        ("OutOfSync, Progressing", seen(H::Progressing, SyncStatusCode::OutOfSync)),
        (
            "Unknown, with an error",
            Observed {
                has_error: true,
                detail: "no repository".into(),
                ..seen(H::Healthy, SyncStatusCode::Unknown)
            },
        ),
        (
            "never compared",
            Observed {
                revisions: vec![],
                reconciled_at: None,
                compared: Compared::Never,
                ..seen(H::Missing, SyncStatusCode::Unknown)
            },
        ),
        ("compared with an older spec", Observed { compared: Compared::Stale, ..synced.clone() }),
        ("another spec is generated", Observed { spec_differs: true, ..synced.clone() }),
        (
            "an invalid spec",
            Observed {
                has_error_condition: true,
                has_error: true,
                detail: "invalid".into(),
                ..out.clone()
            },
        ),
        ("an old comparison", Observed { reconciled_at: Some(ago(200)), ..out.clone() }),
        ("two sources", Observed { revisions: vec!["next".into(), "chart".into()], ..out.clone() }),
        ("a newer target", Observed { revisions: vec!["newer".into()], ..out.clone() }),
        ("automated and OutOfSync", Observed { is_automated: true, ..out.clone() }),
        ("a prune is left", Observed { needs_a_prune: true, ..with(&out, own(Succeeded, 50)) }),
        ("requested by the rollout", requested(Some(60), false)),
        ("requested for an earlier promotion", requested(Some(500), false)),
        ("requested by a person", requested(None, false)),
        ("a dry run is requested", requested(None, true)),
        ("its sync runs", with(&out, own(Running, 50))),
        (
            "its sync waits for a window",
            with(&out, ObservedOperation { is_blocked: true, ..own(Running, 50) }),
        ),
        ("its sync is terminated", with(&out, own(Terminating, 50))),
        (
            "its sync waits for a confirmation",
            Observed {
                needs_confirmation: true,
                detail: "it has to be confirmed".into(),
                ..with(&out, own(Running, 50))
            },
        ),
        (
            "its sync is attempted again",
            Observed {
                until: Some(ago(-20)),
                detail: "attempt 2 of 4".into(),
                ..with(&out, own(Running, 50))
            },
        ),
        ("its sync succeeded", with(&synced, own(Succeeded, 50))),
        (
            "its sync succeeded, and it was not compared",
            Observed { reconciled_at: Some(ago(45)), ..with(&out, own(Succeeded, 50)) },
        ),
        (
            "its sync succeeded just now",
            Observed { reconciled_at: Some(ago(40)), ..with(&out, own(Succeeded, 50)) },
        ),
        ("its sync succeeded, it makes progress", with(&progressing, own(Succeeded, 50))),
        ("its sync succeeded, it is Degraded", detail(with(&degraded, own(Succeeded, 50)))),
        ("its sync succeeded, it is OutOfSync", with(&out, own(Succeeded, 50))),
        ("its sync failed", with(&out, own(Failed, 50))),
        ("its sync failed, with a resource", detail(with(&out, own(Failed, 50)))),
        ("its sync failed, all is well", with(&synced, own(Error, 50))),
        ("its sync ended somehow", with(&synced, own(Unknown, 50))),
        ("a sync before succeeded", with(&out, other(Succeeded, 500))),
        ("a sync before failed", with(&out, other(Failed, 500))),
        ("another sync runs", with(&out, other(Running, 30))),
        ("another sync succeeded", with(&synced, other(Succeeded, 30))),
        ("another sync failed", with(&out, other(Failed, 30))),
        (
            "a sync of another revision failed",
            with(&out, ObservedOperation { revisions: vec!["before".into()], ..other(Failed, 30) }),
        ),
        ("a dry run runs", with(&out, partial(Running))),
        ("a dry run succeeded", with(&out, partial(Succeeded))),
        ("a dry run failed", with(&synced, partial(Failed))),
        (
            "a dry run after a sync",
            Observed {
                deployed: Deployed::At(ago(40), vec!["next".into()]),
                ..with(&synced, partial(Succeeded))
            },
        ),
        (
            "a dry run after an old sync",
            Observed {
                deployed: Deployed::At(ago(400), vec!["next".into()]),
                ..with(&synced, partial(Succeeded))
            },
        ),
        (
            "a dry run, and no history",
            Observed { deployed: Deployed::NotKept, ..with(&progressing, partial(Succeeded)) },
        ),
        ("a person syncs something else", by_alice(OperationEnd::Running, Running, "before")),
        (
            "a person has synced something else",
            by_alice(OperationEnd::Succeeded, Succeeded, "before"),
        ),
        (
            "a person failed to sync something else",
            by_alice(OperationEnd::Failed, Failed, "before"),
        ),
        (
            "a person's sync of something else did nothing",
            by_alice(OperationEnd::Nothing, Failed, "before"),
        ),
        ("a person has synced the target", by_alice(OperationEnd::Succeeded, Succeeded, "next")),
        (
            "a person has synced files",
            Observed {
                person: Some(Box::new(PersonSync {
                    revisions: vec![],
                    is_local: true,
                    is_explicit: true,
                    by: String::new(),
                    started_at: ago(30),
                    end: OperationEnd::Succeeded,
                    is_after_target: false,
                })),
                ..with(&out, operation(Succeeded, 30))
            },
        ),
        (
            "a person had synced something else before",
            Observed {
                person: Some(Box::new(PersonSync {
                    revisions: vec!["before".into()],
                    is_local: false,
                    is_explicit: true,
                    by: "bob".into(),
                    started_at: ago(30),
                    end: OperationEnd::Succeeded,
                    is_after_target: true,
                })),
                ..with(&out, operation(Succeeded, 30))
            },
        ),
        (
            "it went back just now",
            Observed { went_back_just_now: true, ..with(&synced, other(Succeeded, 30)) },
        ),
        (
            "it has left its hold",
            Observed { has_left_its_hold: true, ..with(&out, other(Succeeded, 30)) },
        ),
    ]
}

/// Others that change the decision.
#[derive(Clone, Copy, Default)]
struct Around<'a> {
    max_update: Option<i64>,
    denied: Option<&'a Denied>,
    requires_live_health: bool,
}

fn decide(stored: Option<&Entry>, seen: &Observed, around: Around<'_>) -> String {
    let strategy = steps_of(&[around.max_update.map_or(Value::Null, Value::from), Value::Null]);
    let app = Generated { denied: around.denied.cloned(), ..generated("1") };
    let names = [("app".to_owned(), app), ("later".to_owned(), generated("2"))];
    let later = super::seen(H::Healthy, SyncStatusCode::OutOfSync);
    let rest = Entry { step: Some(1), ..entry("later", Phase::Waiting) };
    let snapshot = Snapshot {
        strategy: &strategy,
        generated: &names.into(),
        current: &[("app".to_owned(), seen.clone()), ("later".to_owned(), later)].into(),
        entries: &stored
            .into_iter()
            .cloned()
            .chain([rest])
            .map(|entry| (entry.application.clone(), entry))
            .collect(),
        settings: RolloutSettings {
            require_live_health: around.requires_live_health,
            ..RolloutSettings::default()
        },
    };
    let plan = step_opened(&snapshot, Some((0, ago(400))), now());
    let at = |time: Timestamp| now().duration_since(time).as_secs();
    let Entry { phase, mark, target_revisions, since, message, .. } = &plan.entries[0];
    let mut text = format!("{phase:?} {target_revisions:?} {}s", at(*since));
    if let Some(mark) = mark {
        let _ = write!(text, " {mark:?}");
    }
    if mark.is_none() || !message.ends_with("before") {
        let _ = write!(text, " {message:?}");
    }
    for start in &plan.starts {
        let Start { application, revisions, promotion, .. } = start;
        let _ = write!(text, "; starts {application} {revisions:?} {}s", at(*promotion));
    }
    for name in &plan.withdrawals {
        let _ = write!(text, "; withdraws {name}");
    }
    for wait in plan.waiting.iter().filter(|wait| wait.application == "app") {
        let _ = write!(text, "; waits {:?} {:?}", wait.kind, wait.message);
        let _ = write!(text, " {:?} {:?}", wait.since.map(at), wait.until.map(at));
        if let Some(write) = wait.write {
            let _ = write!(text, " {write:?}");
        }
    }
    for transition in plan.transitions.iter().filter(|one| one.application == "app") {
        let Transition { from, to, cause, timed_out, health, sync, .. } = transition;
        let _ = write!(text, "; {from:?} to {to:?} by {cause}, {sync:?} {health:?}");
        if *timed_out {
            text.push_str(", timed out");
        }
    }
    for name in &plan.refreshes {
        let _ = write!(text, "; refreshes {name}");
    }
    if !plan.stalled.is_empty() {
        text.push_str("; stalled");
    }
    if plan.open_step != Some(0) {
        let _ = write!(text, "; step {:?}", plan.open_step);
    }
    if plan.in_flight > 0 {
        let _ = write!(text, "; {} in flight", plan.in_flight);
    }
    if plan.wake_at != now().checked_add(POLL).ok() {
        let _ = write!(text, "; wakes {:?}", plan.wake_at.map(at));
    }
    text
}

#[test]
fn each_entry_with_each_state_is_decided_as_written() {
    let window = Denied { reason: "a window".to_owned(), until: Some(ago(-500)) };
    let rounds = [
        ("free", Around::default()),
        ("maxUpdate 0", Around { max_update: Some(0), ..Around::default() }),
        ("a window", Around { denied: Some(&window), ..Around::default() }),
        ("Healthy now", Around { requires_live_health: true, ..Around::default() }),
    ];
    let mut text = String::new();
    for (stored_name, stored) in entries() {
        let _ = writeln!(text, "{stored_name}");
        for (name, seen) in states() {
            let _ = writeln!(text, "  {name}");
            let mut before = String::new();
            let is_plain = stored.as_ref().is_some_and(|entry| entry.mark.is_none());
            for (round, around) in rounds.into_iter().take(if is_plain { 4 } else { 1 }) {
                let line = decide(stored.as_ref(), &seen, around);
                // What is around it makes no difference in most cases.
                if line != before {
                    let _ = writeln!(text, "    {round}: {line}");
                }
                if round == "free" {
                    before = line;
                }
            }
        }
    }
    written::compare("src/rollout/tests/decisions.txt", &text);
}

/// What is stored of a mark is its prefix, in the phases that have it.
#[test]
fn a_mark_is_found_by_its_prefix_in_its_phases() {
    use EntryMark as M;
    let phases = [Phase::Waiting, Phase::Pending, Phase::Progressing, Phase::Healthy];
    let (waiting, pending, progressing, healthy) = (
        [true, false, false, false],
        [false, true, false, false],
        [false, false, true, false],
        [false, false, false, true],
    );
    for (mark, want) in [
        (M::TimedOut, healthy),
        (M::StepClosed, [true, true, false, false]),
        (M::FoundSynced, progressing),
        (M::ResultUnknown, progressing),
        (M::Degraded, progressing),
        (M::Requested, pending),
        (M::HeldByPerson, waiting),
        (M::SyncFailed, [true, false, true, false]),
    ] {
        let message = format!("{}: more", mark.prefix());
        let found = phases.map(|phase| EntryMark::of(phase, &message) == Some(mark));
        assert_eq!(found, want, "{mark:?}");
        let other = phases.map(|phase| EntryMark::of(phase, &format!("x {message}")));
        assert_eq!(other, [None; 4], "{mark:?} is not at the start");
    }
}
