//! The steps of one reconcile of an Application, and their order.

use serde_json::Value;

use super::app::App;
use super::deletion::asked_at;
use super::memory::ApplicationMemory;
use super::operation::{OperationStage, operation_stage};
use super::refresh::Intervals;
use wavegate_api as api;
use wavegate_api::annotations::is_skipped;
use wavegate_api::app_spec::ApplicationDestination;
use wavegate_engine::wait::Wait;

/// A step of a reconcile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApplicationStep {
    /// Rounds of the operation.
    Operate,
    /// A comparison, if there is a reason.
    Compare,
    /// A step of the deletion.
    Finalize,
    /// The write at the end.
    Finish,
}

/// Whether nothing is done with a stored Application: its annotation says so, or its cluster,
/// of which `is_skipped_by` knows. Without a valid destination, the reconcile reports what is
/// wrong with it.
pub fn is_left_alone(
    application: &Value,
    is_skipped_by: impl FnOnce(&ApplicationDestination) -> bool,
) -> bool {
    is_skipped(application)
        || application
            .pointer("/spec/destination")
            .is_some_and(|to| api::read_typed(to).is_ok_and(|to| is_skipped_by(&to)))
}

/// Writes the normal spec (SE-030), which a deletion does not require.
pub fn normalize_spec(app: &mut App) {
    if !is_deleted_now(app) {
        app.normalize();
    }
}

/// The next step after those that were made; `is_over` is whether an operation has ended.
pub fn next_step(app: &App, made: &[ApplicationStep], is_over: bool) -> ApplicationStep {
    let deleting = asked_at(app.raw()).is_some();
    match made {
        [] if is_deleted_now(app) => ApplicationStep::Finalize,
        [] if operation_stage(app) == OperationStage::Idle => ApplicationStep::Compare,
        [] => ApplicationStep::Operate,
        // The deletion has waited for this operation, and no other event triggers it.
        [.., ApplicationStep::Operate] if deleting && is_over => ApplicationStep::Finalize,
        [.., ApplicationStep::Operate] => ApplicationStep::Compare,
        // A sync that the comparison has requested starts with the same write.
        [ApplicationStep::Compare] if operation_stage(app) == OperationStage::Requested => {
            ApplicationStep::Operate
        }
        _ => ApplicationStep::Finish,
    }
}

/// Whether the next reconcile has an operation to begin: it was requested while another one
/// was running. What is being deleted begins none.
pub fn is_operation_next(app: &App) -> bool {
    operation_stage(app) == OperationStage::Requested && !is_deleted_now(app)
}

/// The only step of a dry run, which does not write.
pub fn of_dry_run(app: &App) -> ApplicationStep {
    if asked_at(app.raw()).is_some() { ApplicationStep::Finish } else { ApplicationStep::Compare }
}

/// The wait after a reconcile, which ends at the latest when the revision is resolved again. A
/// deletion resolves none: a revision that has expired would end each of its waits at once.
pub fn wait_until(
    app: &App,
    memory: &ApplicationMemory,
    wait: Wait,
    intervals: &Intervals,
) -> Wait {
    if is_deleted_now(app) { wait } else { memory.until_expired(wait, intervals) }
}

/// Whether its deletion waits for no operation.
fn is_deleted_now(app: &App) -> bool {
    asked_at(app.raw()).is_some() && operation_stage(app) != OperationStage::InProgress
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use wavegate_engine::wait::WaitFor;

    /// A deletion that took longer than the revision is valid was reconciled without a pause.
    #[test]
    fn an_expired_revision_ends_no_wait_of_a_deletion() {
        let now: jiff::Timestamp = "2026-01-01T00:10:00Z".parse().unwrap();
        let memory = ApplicationMemory {
            checked_at: Some("2026-01-01T00:00:00Z".parse().unwrap()),
            ..ApplicationMemory::default()
        };
        let revision = std::time::Duration::from_secs(120);
        let intervals =
            Intervals { revision, delay: Default::default(), manifests: Default::default() };
        let wait = Wait::for_time(WaitFor::Deletion, std::time::Duration::from_secs(5), now);
        let after = |app: Value| wait_until(&App::of(app), &memory, wait, &intervals);
        let running = json!({"operationState": {"phase": "Running"}});
        let deleted = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
        assert_eq!(after(json!({"metadata": deleted})), wait);
        for app in [json!({}), json!({"metadata": deleted, "status": running})] {
            let expired = Wait::until(WaitFor::Revision, "2026-01-01T00:02:00Z".parse().unwrap());
            assert_eq!(after(app), wait.or_earlier(expired));
        }
    }

    #[test]
    fn steps_follow_the_operation_and_the_deletion() {
        let app = |change: Value| {
            let mut app = json!({"spec": {"project": "default"}});
            json_patch::merge(&mut app, &change);
            app
        };
        let idle = app(json!({}));
        let requested = app(json!({"operation": {"sync": {}}}));
        let running = app(json!({"status": {"operationState": {"phase": "Running"}}}));
        let deleted = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
        let deleting = |app: &Value| {
            let mut app = app.clone();
            json_patch::merge(&mut app, &deleted);
            app
        };
        use ApplicationStep::{Compare, Finalize, Finish, Operate};
        let cases: Vec<(&str, &Value, &[ApplicationStep], bool, ApplicationStep)> = vec![
            ("nothing to do", &idle, &[], false, Compare),
            ("nothing was requested", &idle, &[Compare], false, Finish),
            ("a sync was requested by the comparison", &requested, &[Compare], false, Operate),
            ("it is compared, too", &running, &[Compare, Operate], false, Compare),
            ("once", &requested, &[Compare, Operate, Compare], false, Finish),
            ("a request", &requested, &[], false, Operate),
            ("a running operation", &running, &[Operate], false, Compare),
            ("one more request", &requested, &[Operate, Compare], true, Finish),
        ];
        for (name, application, made, is_over, want) in cases {
            assert_eq!(next_step(&App::of(application.clone()), made, is_over), want, "{name}");
        }
        for (application, want) in [(&idle, false), (&running, false), (&requested, true)] {
            assert_eq!(is_operation_next(&App::of(application.clone())), want, "{application}");
            assert!(!is_operation_next(&App::of(deleting(application))), "{application}");
        }
        for (name, application, made, is_over, want) in [
            ("a deletion", &idle, vec![], false, Finalize),
            ("a request does not start", &requested, vec![], false, Finalize),
            ("a running operation goes on", &running, vec![], false, Operate),
            ("it waits", &running, vec![Operate], false, Compare),
            ("it has ended", &idle, vec![Operate], true, Finalize),
            ("the end", &idle, vec![Operate, Finalize], true, Finish),
        ] {
            let app = App::of(deleting(application));
            assert_eq!(next_step(&app, &made, is_over), want, "deleting: {name}");
        }
        let odd = app(json!({"spec": {"project": ""}}));
        let project = |odd: Value| {
            let mut app = App::of(odd);
            normalize_spec(&mut app);
            app.raw()["spec"]["project"].clone()
        };
        assert_eq!(project(odd.clone()), "default");
        assert_eq!(project(deleting(&odd)), "", "nobody needs it any more");
    }
}
