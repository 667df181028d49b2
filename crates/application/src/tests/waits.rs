//! All waits of the Application controller, each as a decision makes it: a wait that is
//! not listed here does not compile, and one without an end fails.

use super::rounds::{Facts, begin, recorded, requested, round};
use super::*;
use crate::errors::ObserveError;
use crate::finalize::DeletionState;
use crate::operate::Next;
use crate::reconcile::{
    CompareFailure, ComparisonInput, ComparisonSettings, ComparisonSnapshot, reconcile,
};
use wavegate_engine::wait::{Ends, Wait, WaitFor};
use wavegate_engine::windows;

/// The time of all decisions.
const NOW: i64 = 100;

fn wait_of(next: Next) -> Wait {
    match next {
        Next::Wait(wait) => wait,
        other => panic!("{other:?}"),
    }
}

/// A window of an hour that denies syncs of the Application, and is open now.
pub(super) fn closed() -> Vec<windows::Window> {
    let window = json!({
        "kind": "deny", "schedule": "0 22 * * *", "duration": "1h", "applications": ["*"],
    });
    windows::project_windows(&json!({"spec": {"syncWindows": [window]}}))
}

/// An operation that is in progress, with these objects of the source.
fn running(facts: &Facts, app: &mut Value) -> Next {
    begin(app, at(NOW));
    changed(app, |app| operation::pin(app, &["a".repeat(40)]));
    let observation = facts.observation();
    let mut outcomes = Vec::new();
    for _ in 0..9 {
        let next = round(app, Ok(&observation), &outcomes, at(NOW), at(NOW));
        let Next::Act(act) = next else { return next };
        let actions = act.groups.iter().flat_map(|group| &group.actions);
        let done = |action: &wavegate_engine::sync::Action| wavegate_engine::sync::ActionOutcome {
            action: action.id(),
            result: wavegate_engine::sync::ActionResult::Done {
                message: "done".into(),
                uid: "u".into(),
                resource_version: "1".into(),
            },
        };
        outcomes = actions.map(done).collect();
    }
    panic!("it does not wait: {app}")
}

fn comparison(
    app: &mut Value,
    seen: Result<&Facts, ObserveError>,
    repo_error_grace: std::time::Duration,
) -> Wait {
    let occasion = RefreshTrigger {
        request: ComparisonRequest::new(Level::Revision),
        ..RefreshTrigger::default()
    };
    let memory = &ApplicationMemory { checked_at: Some(at(NOW)), ..ApplicationMemory::default() };
    let mut reason = super::reason(memory, app, &occasion, at(NOW)).unwrap();
    reason.asked_for = false;
    app["status"]["reconciledAt"] = "2023-11-14T22:13:20Z".into();
    let settings = ComparisonSettings {
        self_heal: SelfHeal::default(),
        resource_health: true,
        repo_error_grace,
        reconciled_every: std::time::Duration::ZERO,
    };
    let compare = |seen: Result<&ComparisonInput<'_>, &CompareFailure<'_>>| {
        let app = &App::of(app.clone());
        let (diffs, now) = (&DiffCache::default(), at(NOW));
        let (reason, settings) = (&reason, &settings);
        reconcile(&ComparisonSnapshot { app, memory, seen, reason, diffs, settings, now }).wait
    };
    match seen {
        Ok(facts) => compare(Ok(&ComparisonInput {
            observation: facts.observation(),
            revisions: vec!["abc".to_owned()],
            types: vec!["Directory".to_owned()],
            warnings: Vec::new(),
            below: Default::default(),
            held: None,
        })),
        Err(error) => compare(Err(&CompareFailure { error, last: None })),
    }
}

/// The wait as a decision makes it; `None` for a wait of the other controller.
fn decided(reason: WaitFor) -> Option<Wait> {
    let mut app = application();
    let automated = json!({"automated": {"selfHeal": true}});
    let hour = std::time::Duration::from_secs(3600);
    let none = std::time::Duration::ZERO;
    let source = |transient| ObserveError::Source { message: "down".to_owned(), transient };
    Some(match reason {
        WaitFor::NextAttempt => {
            let mut app = requested(json!({}));
            app["operation"]["retry"] = json!({"limit": 1});
            begin(&mut app, at(NOW));
            let wrong = ObserveError::Operation("no such thing".into());
            wait_of(round(&mut app, Err(&wrong), &[], at(NOW), at(NOW)));
            wait_of(begin(&mut app, at(NOW)))
        }
        WaitFor::RunningOperation => {
            let mut app = requested(json!({"revision": "a".repeat(40)}));
            let mut hook = map("hook");
            hook["apiVersion"] = "batch/v1".into();
            hook["kind"] = "Job".into();
            hook["metadata"]["annotations"] = json!({"argocd.argoproj.io/hook": "PreSync"});
            let mut facts = Facts::new(&app, &[hook, map("one")]);
            facts.live.extend([live(&facts.placed.targets[0])]);
            let wait = wait_of(running(&facts, &mut app));
            assert!(wait.at() <= Some(at(NOW + 30)), "SE-240: {wait:?}");
            wait
        }
        WaitFor::OperationWindow => {
            let mut app = requested(json!({"revision": "a".repeat(40)}));
            let mut facts = Facts::new(&app, &[map("one")]);
            facts.windows = closed();
            let wait = wait_of(running(&facts, &mut app));
            assert_eq!(wait.at(), Some(at(NOW + 30)), "SE-240: the window is open for longer");
            wait
        }
        WaitFor::OperationInputs => {
            let mut app = requested(json!({}));
            begin(&mut app, at(NOW));
            let error = ObserveError::Live("down".into());
            wait_of(round(&mut app, Err(&error), &[], at(NOW), at(NOW)))
        }
        WaitFor::OtherApplications => operate::after_others(at(NOW)),
        WaitFor::MoreChanges => {
            let occasion = RefreshTrigger {
                request: ComparisonRequest::new(Level::Live),
                ..RefreshTrigger::default()
            };
            app["status"]["sync"]["comparedTo"] = status::compared_to(&app["spec"]);
            let last_spec = Some(digest_of(&app["spec"]));
            let known = ApplicationMemory {
                last_spec,
                checked_at: Some(at(NOW)),
                ..ApplicationMemory::default()
            };
            let reason = super::reason(&known, &app, &occasion, at(NOW)).unwrap();
            reason.settles(Some(at(NOW)), at(NOW)).unwrap()
        }
        WaitFor::Repository => comparison(&mut app, Err(source(true)), hour),
        WaitFor::FailedComparison => {
            let errors = [source(true), source(false), ObserveError::Live("down".into())];
            let waits = errors.map(|error| comparison(&mut app, Err(error), none));
            waits.into_iter().reduce(Wait::or_earlier).unwrap()
        }
        WaitFor::ValidSpec => {
            let refusal = access::Refusal::of(vec![NewCondition::invalid_spec("wrong")]);
            let wait = comparison(&mut app, Err(ObserveError::Refused(refusal)), none);
            assert_eq!(wait.at(), None);
            wait
        }
        WaitFor::SelfHeal => {
            app["spec"]["syncPolicy"] = automated;
            app["status"]["operationState"] = json!({
                "phase": "Succeeded", "finishedAt": wavegate_api::time::to_rfc3339(at(NOW)),
                "operation": {"sync": {"autoHealAttemptsCount": 2}},
                "syncResult": {"revision": "abc", "source": app["spec"]["source"]},
            });
            let wait = comparison(&mut app.clone(), Ok(&Facts::new(&app, &[map("one")])), none);
            assert_eq!(wait.at(), Some(at(NOW + 6)), "SE-426");
            wait
        }
        WaitFor::AutomatedSyncWindow => {
            app["spec"]["syncPolicy"] = automated;
            let mut facts = Facts::new(&app, &[map("one")]);
            facts.windows = closed();
            comparison(&mut app, Ok(&facts), none)
        }
        WaitFor::Deletion => {
            let state = DeletionState::Waits { reason: "x".to_owned(), keep: false };
            let kept = DeletionState::Waits { reason: "x".to_owned(), keep: true };
            let kept = recorded(&mut app, kept, at(NOW));
            assert_eq!(kept, recorded(&mut app, state, at(NOW)), "SE-512");
            kept
        }
        WaitFor::FailedDeletion => {
            let state = DeletionState::Stuck { message: "x".to_owned(), next: None };
            recorded(&mut app, state, at(NOW))
        }
        // The controller adds it to every wait, from its settings.
        WaitFor::Revision => Wait::until(reason, at(NOW)),
        WaitFor::ApplicationChange => {
            let facts = Facts::new(&app, &[]);
            comparison(&mut app, Ok(&facts), none)
        }
        WaitFor::Rollout
        | WaitFor::ValidSet
        | WaitFor::PostponedWrites
        | WaitFor::StatusWrite
        | WaitFor::Generators
        | WaitFor::SetDeletion
        | WaitFor::SetChange => return None,
    })
}

#[test]
fn every_wait_of_an_application_has_an_end_se_240_se_426() {
    for reason in WaitFor::ALL {
        let Some(wait) = decided(*reason) else { continue };
        assert_eq!(wait.reason, *reason);
        match wait.ends {
            Ends::At(end) => assert!(end >= at(NOW), "{wait:?}"),
            Ends::On(events) => assert!(!events.is_empty(), "{wait:?}"),
        }
    }
}

/// The time of a wait came, and nothing was compared: it was slept through until another
/// event arrived.
#[test]
fn a_wait_whose_time_has_come_is_a_reason_to_compare_se_426() {
    let mut app = application();
    app["status"]["sync"]["comparedTo"] = status::compared_to(&app["spec"]);
    let last_spec = Some(digest_of(&app["spec"]));
    let known =
        ApplicationMemory { last_spec, checked_at: Some(at(0)), ..ApplicationMemory::default() };
    let calm = RefreshTrigger::default();
    assert!(reason(&known, &app, &calm, at(0)).is_none());
    let due = ApplicationMemory { wait: Some(Wait::until(WaitFor::MoreChanges, at(0))), ..known };
    let reason = reason(&due, &app, &calm, at(0)).unwrap();
    assert_eq!(reason.request.level, Level::Revision, "SE-426: level 2");
    assert_eq!(reason.settles(Some(at(0)), at(0)), None);
}
