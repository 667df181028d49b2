//! The steps of one reconcile of an Application, and their order.

use serde_json::Value;

use super::deletion::asked_at;
use super::operation::{Stage, stage};
use super::spec::normalized;

/// A step of a reconcile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Write this spec instead (SE-030), and ask again.
    Normalize(Value),
    /// Rounds of the operation.
    Operate,
    /// A comparison, if there is a reason.
    Compare,
    /// A step of the deletion.
    Finalize,
    /// The write at the end.
    Finish,
}

/// The next step after those that were made; `is_over` is whether an operation has ended.
pub fn next(application: &Value, made: &[Step], is_over: bool) -> Step {
    let (stage, deleting) = (stage(application), asked_at(application).is_some());
    let (is_normal, made) = match made {
        [Step::Normalize(_), rest @ ..] => (true, rest),
        made => (false, made),
    };
    match made {
        [] if deleting && stage != Stage::InProgress => Step::Finalize,
        [] => match normalized(&application["spec"]).filter(|_| !is_normal) {
            Some(normal) => Step::Normalize(normal),
            None if stage == Stage::Idle => Step::Compare,
            None => Step::Operate,
        },
        // The deletion has waited for this operation, and no other event triggers it.
        [.., Step::Operate] if deleting && is_over => Step::Finalize,
        [.., Step::Operate] => Step::Compare,
        // A sync that the comparison has requested starts with the same write.
        [Step::Compare] if stage == Stage::Requested => Step::Operate,
        _ => Step::Finish,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
        use Step::{Compare, Finalize, Finish, Operate};
        let cases: Vec<(&str, &Value, &[Step], bool, Step)> = vec![
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
            assert_eq!(next(application, made, is_over), want, "{name}");
        }
        for (name, application, made, is_over, want) in [
            ("a deletion", &idle, vec![], false, Finalize),
            ("a request does not start", &requested, vec![], false, Finalize),
            ("a running operation goes on", &running, vec![], false, Operate),
            ("it waits", &running, vec![Operate], false, Compare),
            ("it has ended", &idle, vec![Operate], true, Finalize),
            ("the end", &idle, vec![Operate, Finalize], true, Finish),
        ] {
            assert_eq!(next(&deleting(application), &made, is_over), want, "deleting: {name}");
        }
        let odd = json!({"spec": {"project": ""}});
        let normal = Step::Normalize(json!({"project": "default"}));
        assert_eq!(next(&odd, &[], false), normal);
        assert_eq!(next(&odd, std::slice::from_ref(&normal), false), Compare, "only once");
        let requested = [normal, Compare];
        assert_eq!(next(&app(json!({"operation": {}})), &requested, false), Operate);
        assert_eq!(next(&deleting(&odd), &[], false), Finalize, "nobody needs it any more");
    }
}
