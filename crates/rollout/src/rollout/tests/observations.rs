//! What may be concluded from the status of an Application: of its last operation, of its
//! comparison, and of its history.

use super::*;
use crate::rollout::observed::RequestedOperation;
use health::Status as H;

type Change<'a> = &'a dyn Fn(&mut Observed);

/// Synced and Healthy, compared 10 seconds after the end of a sync of the whole Application.
fn after_sync() -> Observed {
    let synced = ObservedOperation {
        revisions: vec!["next".into()],
        finished_at: Some(ago(10)),
        ..operation(OperationPhase::Succeeded, 20)
    };
    Observed { operation: Some(synced), ..seen(H::Healthy, SyncStatusCode::Synced) }
}

fn changed(change: Change<'_>) -> Observed {
    let mut found = after_sync();
    change(&mut found);
    found
}

fn of_operation(found: &mut Observed) -> &mut ObservedOperation {
    found.operation.as_mut().unwrap()
}

fn requested(promotion: Option<Timestamp>, is_partial: bool) -> Option<RequestedOperation> {
    Some(RequestedOperation { promotion, is_partial })
}

/// AS-361: whatever is requested or runs keeps its place, and nothing starts over it; only one of
/// the whole Application says something about what is rolled out.
#[test]
fn an_operation_in_flight_is_requested_or_runs_as_361() {
    let cases: [(&str, Change<'_>, bool, bool, bool); 8] = [
        ("over", &|_| {}, false, false, false),
        ("none", &|one| one.operation = None, false, false, false),
        ("runs", &|one| of_operation(one).phase = OperationPhase::Running, true, true, false),
        ("ends", &|one| of_operation(one).phase = OperationPhase::Terminating, true, true, false),
        (
            "a dry run",
            &|one| {
                of_operation(one).phase = OperationPhase::Running;
                of_operation(one).is_partial = true;
            },
            true,
            false,
            true,
        ),
        ("a dry run is over", &|one| of_operation(one).is_partial = true, false, false, true),
        ("requested", &|one| one.requested = requested(None, false), true, true, false),
        (
            "a dry run is requested",
            &|one| one.requested = requested(None, true),
            true,
            false,
            false,
        ),
    ];
    for (name, change, any, whole, partial) in cases {
        let found = changed(change);
        assert_eq!(found.has_operation_in_flight(), any, "{name}");
        assert_eq!(found.has_sync_in_flight(), whole, "{name}");
        assert_eq!(found.is_partial(), partial, "{name}");
    }
}

/// AS-355: a state counts when it is of the spec that is rolled out, and from after the operation.
#[test]
fn a_state_counts_for_what_it_was_computed_for_as_355() {
    // (current, may be started, ready to start, result unknown)
    type Want = (bool, bool, bool, bool);
    let fine: Want = (true, false, true, false);
    let stale: Want = (false, true, false, false);
    let cases: [(&str, Change<'_>, Want); 13] = [
        ("after its sync", &|_| {}, fine),
        ("without a sync", &|one| one.operation = None, fine),
        ("never compared", &|one| one.compared = Compared::Never, stale),
        ("of another spec", &|one| one.compared = Compared::Stale, stale),
        ("its spec is to be written", &|one| one.spec_differs = true, stale),
        ("an operation is requested", &|one| one.requested = requested(None, true), stale),
        ("in the second of its end", &|one| one.reconciled_at = Some(ago(10)), fine),
        ("before its end", &|one| one.reconciled_at = Some(ago(11)), (false, true, false, true)),
        (
            "before the end of a dry run",
            &|one| {
                one.reconciled_at = Some(ago(11));
                of_operation(one).is_partial = true;
            },
            stale,
        ),
        (
            "before the end of a sync that failed",
            &|one| {
                one.reconciled_at = Some(ago(11));
                of_operation(one).phase = OperationPhase::Failed;
            },
            stale,
        ),
        ("when is not known", &|one| one.reconciled_at = None, fine),
        ("when it ended is not known", &|one| of_operation(one).finished_at = None, fine),
        // Its health and its revisions are of before.
        (
            "a failed comparison",
            &|one| one.sync = SyncStatusCode::Unknown,
            (true, true, false, false),
        ),
    ];
    for (name, change, want) in cases {
        let found = changed(change);
        let is = (
            found.is_current(),
            found.may_be_started(),
            found.is_ready_to_start(),
            found.result_is_unknown(),
        );
        assert_eq!(is, want, "{name}");
    }
    // One that is in sync starts again when the sync that made it so has failed, as in a hook.
    let hook = changed(&|one| of_operation(one).phase = OperationPhase::Failed);
    assert!(hook.may_be_started());
}

/// AS-357: a failure is one of a rollout, or one of these revisions, no matter whose request it was; a dry run
/// deploys nothing, so that it fails nothing.
#[test]
fn a_failed_operation_is_one_of_the_whole_application_as_357() {
    // (of the rollout or of these revisions, of these revisions)
    let failed = |change: Change<'_>| {
        let mut found = after_sync();
        of_operation(&mut found).phase = OperationPhase::Failed;
        change(&mut found);
        (found.failed_operation().is_some(), found.failed_sync().is_some())
    };
    let of_rollout = Some(ago(30));
    let cases: [(&str, Change<'_>, (bool, bool)); 10] = [
        ("of these revisions", &|_| {}, (true, true)),
        ("an error", &|one| of_operation(one).phase = OperationPhase::Error, (true, true)),
        ("a later phase", &|one| of_operation(one).phase = OperationPhase::Unknown, (true, true)),
        (
            "it succeeded",
            &|one| of_operation(one).phase = OperationPhase::Succeeded,
            (false, false),
        ),
        ("it runs", &|one| of_operation(one).phase = OperationPhase::Running, (false, false)),
        ("a dry run", &|one| of_operation(one).is_partial = true, (false, false)),
        (
            "a dry run of a rollout",
            &|one| {
                of_operation(one).is_partial = true;
                of_operation(one).promotion = of_rollout;
            },
            (false, false),
        ),
        ("of others", &|one| of_operation(one).revisions = vec!["old".into()], (false, false)),
        (
            "of others, by a rollout",
            &|one| {
                of_operation(one).revisions = vec!["old".into()];
                of_operation(one).promotion = of_rollout;
            },
            (true, false),
        ),
        (
            "of none, where none is known",
            &|one| {
                of_operation(one).revisions.clear();
                one.revisions.clear();
            },
            (false, false),
        ),
    ];
    for (name, change, want) in cases {
        assert_eq!(failed(change), want, "{name}");
    }
}

/// A dry run takes the place of a sync in the status: then the history says how it ended.
#[test]
fn the_history_says_how_a_sync_ended_that_a_dry_run_has_replaced() {
    let at = |seconds: i64| Deployed::At(ago(seconds), vec!["next".into()]);
    let old = Deployed::At(ago(5), vec!["old".into()]);
    let start = ago(30);
    // (deployed, compared, the result is hidden, judged after its sync)
    for (name, deployed, compared, hidden, judged) in [
        ("since", at(20), 10, false, true),
        ("just then", at(30), 10, false, true),
        ("before", at(31), 10, true, false),
        ("of others", old, 1, true, false),
        ("never", Deployed::Never, 10, true, false),
        ("not kept", Deployed::NotKept, 10, false, true),
        ("compared in its second", at(20), 20, false, true),
        ("compared before it", at(20), 21, false, false),
    ] {
        let found = changed(&|one| {
            of_operation(one).is_partial = true;
            of_operation(one).finished_at = Some(ago(4));
            one.deployed = deployed.clone();
            one.reconciled_at = Some(ago(compared));
        });
        assert_eq!(found.hides_its_result(start), hidden, "{name}");
        assert_eq!(found.is_judged_after_sync(start), judged, "{name}");
    }
    let runs = changed(&|one| {
        of_operation(one).is_partial = true;
        of_operation(one).phase = OperationPhase::Running;
    });
    assert!(!runs.hides_its_result(start), "it has not replaced anything for good");
    assert!(!after_sync().hides_its_result(start), "it is the sync itself");
    let cases: [(&str, Change<'_>, bool); 4] = [
        ("its own sync", &|_| {}, true),
        ("without one", &|one| one.operation = None, false),
        ("not compared since", &|one| one.reconciled_at = Some(ago(11)), false),
        ("it failed", &|one| of_operation(one).phase = OperationPhase::Failed, false),
    ];
    for (name, change, want) in cases {
        assert_eq!(changed(change).is_judged_after_sync(start), want, "{name}");
    }
}

/// Times of a status are whole seconds: an equal one may be from before or after.
#[test]
fn a_comparison_of_the_same_second_may_be_from_before_its_end() {
    let cases: [(&str, Change<'_>, bool, bool, bool); 7] = [
        ("after", &|_| {}, true, false, true),
        ("in its second", &|one| one.reconciled_at = Some(ago(10)), true, true, true),
        ("before", &|one| one.reconciled_at = Some(ago(11)), false, false, false),
        ("never", &|one| one.reconciled_at = None, false, false, false),
        ("it has not ended", &|one| of_operation(one).finished_at = None, false, false, false),
        ("without an operation", &|one| one.operation = None, false, false, false),
        (
            "a failed one",
            &|one| of_operation(one).phase = OperationPhase::Error,
            true,
            false,
            false,
        ),
    ];
    for (name, change, judged, at_once, degraded) in cases {
        let found = changed(&|one| {
            one.health = H::Degraded;
            change(one);
        });
        assert_eq!(found.is_judged(), judged, "{name}");
        assert_eq!(found.is_judged_at_once(), at_once, "{name}");
        assert_eq!(found.is_degraded(), degraded, "{name}");
    }
    assert!(!after_sync().is_degraded(), "it is Healthy");
}

/// One that stays OutOfSync waits for a person; whatever may still change it does not.
#[test]
fn an_application_stays_out_of_sync_when_nothing_requests_a_sync() {
    let cases: [(&str, Change<'_>, bool); 7] = [
        ("after its sync", &|_| {}, true),
        ("without one", &|one| one.operation = None, true),
        ("not compared since", &|one| one.reconciled_at = Some(ago(11)), false),
        ("automated", &|one| one.is_automated = true, false),
        ("Synced", &|one| one.sync = SyncStatusCode::Synced, false),
        ("it makes progress", &|one| one.health = H::Progressing, false),
        ("Degraded", &|one| one.health = H::Degraded, true),
    ];
    for (name, change, want) in cases {
        let found = changed(&|one| {
            one.sync = SyncStatusCode::OutOfSync;
            change(one);
        });
        assert_eq!(found.stays_out_of_sync(), want, "{name}");
        let both = found.sync == SyncStatusCode::Synced && found.health == H::Healthy;
        assert_eq!(found.is_synced_and_healthy(), both, "{name}");
    }
    for (sync, health) in
        [(SyncStatusCode::Synced, H::Degraded), (SyncStatusCode::OutOfSync, H::Healthy)]
    {
        assert!(!seen(health, sync).is_synced_and_healthy(), "{sync:?} {health:?}");
    }
}

/// AS-366: an operation of a rollout that has applied nothing yet may be withdrawn; one of a person
/// may not, nor one that has begun.
#[test]
fn only_an_idle_operation_of_a_rollout_is_withdrawn_as_366() {
    let own = Some(ago(30));
    let running = |promotion: Option<Timestamp>, is_blocked: bool| {
        changed(&|one| {
            let last = of_operation(one);
            (last.phase, last.promotion, last.is_blocked) =
                (OperationPhase::Running, promotion, is_blocked);
        })
    };
    for (name, found, want) in [
        ("blocked by a window", running(own, true), true),
        ("it has begun", running(own, false), false),
        ("of a person", running(None, true), false),
        ("requested", changed(&|one| one.requested = requested(own, false)), true),
        ("requested by a person", changed(&|one| one.requested = requested(None, false)), false),
        (
            "requested first",
            Observed { operation: None, requested: requested(own, false), ..after_sync() },
            true,
        ),
        ("over", changed(&|one| of_operation(one).promotion = own), false),
    ] {
        assert_eq!(found.has_idle_promotion(), want, "{name}");
    }
    assert_eq!(after_sync().why_degraded(), "it is Degraded");
    assert_eq!(changed(&|one| one.detail = "Pod p crashes".into()).why_degraded(), "Pod p crashes");
}
