//! The waits of the ApplicationSet controller, as its decisions make them: a wait that is
//! not listed here does not compile.

use std::time::Duration;

use super::*;
use crate::application_set::decision::{NextReconcile, Snapshot};
use crate::application_set::deletion::Leaving;
use crate::application_set::plan::windows::Facts;
use crate::application_set::reconcile;
use crate::application_set::status::stored::StoredApplicationSet;
use wavegate_engine::wait::{WaitFor, WakeEvent};

fn at(second: i64) -> jiff::Timestamp {
    jiff::Timestamp::from_second(1_700_000_000 + second).unwrap()
}

struct Case {
    set: Value,
    error: bool,
    generate_at: Option<jiff::Timestamp>,
}

fn next(case: &Case) -> NextReconcile {
    let Case { set, error, generate_at } = case;
    let settings = DecisionSettings { progressive_syncs: true, ..DecisionSettings::default() };
    let wanted = match set["spec"]["strategy"].is_object() {
        true => vec![super::generated("a", json!({}))],
        false => Vec::new(),
    };
    let mut generated = generated_by(set, &settings, &wanted);
    if *error {
        generated.error = Some(crate::desired::GenerateError::Options("line 3".into()));
    }
    let projects = BTreeMap::new();
    let owned = live(&super::generated("a", json!({})));
    let leaving = [Leaving::read(&owned, &Identity::of(set), &generated.strategy)];
    let windows = Facts { projects: &projects, clusters: &[] };
    let set = StoredApplicationSet::read(set);
    let first = Snapshot::first(&set, &generated, &settings, windows, at(0));
    let snapshot = Snapshot { leaving: &leaving, generate_at: *generate_at, ..first };
    reconcile::reconcile(&snapshot).next
}

#[test]
fn every_wait_of_a_set_has_an_end() {
    for reason in WaitFor::ALL {
        let mut case = Case { set: set(), error: false, generate_at: None };
        match reason {
            WaitFor::SetChange => {}
            WaitFor::ValidSet => case.error = true,
            WaitFor::Generators => case.generate_at = Some(at(5)),
            WaitFor::SetDeletion => {
                case.set["metadata"]["deletionTimestamp"] = "2023-11-14T22:13:20Z".into();
                case.set["metadata"]["finalizers"] =
                    json!(["resources-finalizer.argocd.argoproj.io"]);
                case.set["spec"]["strategy"] = json!({
                    "type": "RollingSync", "deletionOrder": "Reverse",
                    "rollingSync": {"steps": [{}]},
                });
            }
            WaitFor::Rollout => {
                case.set["spec"]["strategy"] =
                    json!({"type": "RollingSync", "rollingSync": {"steps": [{}]}});
            }
            // They are made with `Next::After` as well, which has no form without a time.
            WaitFor::PostponedWrites | WaitFor::StatusWrite => continue,
            WaitFor::NextAttempt
            | WaitFor::RunningOperation
            | WaitFor::OperationWindow
            | WaitFor::OperationInputs
            | WaitFor::OtherApplications
            | WaitFor::MoreChanges
            | WaitFor::Repository
            | WaitFor::FailedComparison
            | WaitFor::ValidSpec
            | WaitFor::SelfHeal
            | WaitFor::AutomatedSyncWindow
            | WaitFor::Deletion
            | WaitFor::FailedDeletion
            | WaitFor::Revision
            | WaitFor::ApplicationChange => continue,
        }
        match next(&case) {
            NextReconcile::On(events) => {
                assert_eq!(*reason, WaitFor::SetChange);
                assert_eq!(events, [WakeEvent::ApplicationSet]);
            }
            NextReconcile::After(found, after) => {
                assert_eq!(found, *reason);
                assert!(after > Duration::ZERO);
            }
            other => panic!("{reason:?}: {other:?}"),
        }
    }
}
