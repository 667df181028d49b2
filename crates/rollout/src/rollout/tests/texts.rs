//! What steps, previews, limits and waits are in words, and what of a later version stays.

use super::*;
use crate::rollout::entry::EntryMark;
use crate::rollout::observed::RequestedOperation;
use crate::rollout::policy::{Max, Policy, Rules, Selectable};
use crate::rollout::preview::preview_steps;
use crate::rollout::run_input::Unreadable;
use crate::rollout::snapshot::{Excluded, SlotCount, Unwritten};
use crate::rollout::unknown_fields::keep_unknown_of_run;
use crate::rollout::wait::{StepCapacity, WaitKind};
use health::Status as H;
use wavegate_api::run::RolloutRunStatus;

fn by(key: &str, operator: &str, values: &[&str]) -> Value {
    json!({"key": key, "operator": operator, "values": values})
}

/// A step is shown by what it selects.
#[test]
fn a_step_is_shown_by_what_it_selects() {
    for (expressions, want) in [
        (vec![], "all Applications"),
        (vec![by("env", "In", &["dev"])], "env = dev"),
        (vec![by("env", "In", &["dev", "test"])], "env in dev, test"),
        (vec![by("env", "NotIn", &["dev"])], "env not in dev"),
        (vec![by("env", "NotIn", &["a", "b"])], "env not in a, b"),
        (vec![by("env", "Exists", &[])], "env Exists?"),
        (vec![by("a", "In", &["1"]), by("b", "In", &["2"])], "a = 1 and b = 2"),
        (
            vec![by("a", "In", &["1"]), by("b", "NotIn", &["2"]), by("c", "In", &["3"])],
            "a = 1 and b not in 2 and c = 3",
        ),
    ] {
        let strategy = strategy(json!([{"matchExpressions": expressions}]));
        assert_eq!(strategy.steps()[0].to_string(), want);
    }
}

/// A preview shows what each step begins with, in which batches, and who waits for a person.
#[test]
fn a_preview_shows_the_batches_of_each_step() {
    let step = |values: &[&str], most: Value| json!({"matchExpressions": [by("step", "In", values)], "maxUpdate": most});
    let strategy = strategy(json!([
        step(&["1"], json!(2)),
        step(&["1", "2"], json!("50%")),
        step(&["3"], json!(0)),
        step(&["9"], json!(null)),
        step(&["2"], json!(1)),
    ]));
    let labels = |step: &str| [("step".to_owned(), step.to_owned())].into();
    let all =
        [("a", "1"), ("b", "1"), ("c", "1"), ("d", "2"), ("e", "2"), ("f", "3"), ("g", "none")];
    let generated = all.map(|(name, step)| (name.to_owned(), labels(step))).into();
    let preview = preview_steps(&strategy, Vec::new(), &generated);
    let shown: Vec<(String, u64, String, bool, usize)> = preview
        .steps
        .iter()
        .map(|step| {
            let batches: Vec<String> = step.batches.iter().map(|batch| batch.concat()).collect();
            (step.applications.concat(), step.limit, batches.join(" "), step.has_own, batches.len())
        })
        .collect();
    let want = [
        ("abc", 2, "ab c", true, 2),
        // What an earlier step has is waited for, and not started again.
        ("abcde", 1, "d e", true, 2),
        ("f", 0, "", true, 0),
        ("", 0, "", false, 0),
        ("de", 0, "", false, 0),
    ]
    .map(|(all, limit, batches, own, count)| {
        (all.to_owned(), limit, batches.to_owned(), own, count)
    });
    assert_eq!(shown, want);
    assert_eq!(preview.unmatched, ["g"]);
    assert!(!preview.problems.is_empty(), "several steps select the same");
    let at_once = preview_steps(&StepStrategy::AllAtOnce, Vec::new(), &generated);
    assert!(at_once.steps.is_empty() && at_once.unmatched.is_empty());
}

/// What cannot be read is named by its field, so that a person finds it.
#[test]
fn an_unreadable_field_is_named_by_its_path() {
    for (is_in_status, field, want) in [
        (true, "gates[0].name", "status.gates[0].name: no text"),
        (false, "skip", "spec.skip: no text"),
        (true, ".", "status: no text"),
        (false, ".", "spec: no text"),
    ] {
        let found = Unreadable {
            run: "shop-1".to_owned(),
            is_in_status,
            field: field.to_owned(),
            reason: "no text".to_owned(),
        };
        assert_eq!(found.to_string(), want);
    }
}

fn rules(spec: Result<Value, ()>, applications: &[Selectable]) -> Rules {
    let spec = match spec {
        Ok(spec) => Ok(serde_json::from_value(spec).unwrap()),
        Err(()) => {
            let wrong = json!({"gates": 7});
            Err(wavegate_api::read_typed::<wavegate_api::policy::RolloutPolicySpec>(&wrong)
                .unwrap_err())
        }
    };
    let policy = Policy { name: "p".to_owned(), spec };
    Rules::of(&[policy], "shop", &BTreeMap::new(), applications, 2)
}

/// ST-001: rules are empty while no policy selects the set, and nothing that cannot be read may.
#[test]
fn rules_are_empty_without_a_policy_st_001() {
    let one = Selectable { name: "a".to_owned(), labels: BTreeMap::new(), step: Some(0) };
    let all = [one];
    assert!(Rules::default().is_empty());
    assert!(rules(Ok(json!({"applicationSets": {"names": ["other"]}})), &all).is_empty());
    assert!(!rules(Ok(json!({})), &all).is_empty());
    assert!(!rules(Ok(json!({"paused": true})), &all).is_empty());
    assert!(!rules(Err(()), &all).is_empty(), "it holds all of the set");
}

/// A number or a share of a group, rounded down.
#[test]
fn a_limit_is_a_number_or_a_share() {
    let read = |value: Value| Max::read(&serde_json::from_value(value).unwrap());
    for (value, of_ten, shown) in [
        (json!(3), Some(3), "3"),
        (json!(-1), Some(0), "0"),
        (json!("3"), Some(3), "3"),
        (json!("25%"), Some(2), "25%"),
        (json!("0%"), Some(0), "0%"),
        (json!("x"), None, ""),
        (json!("x%"), None, ""),
        (json!("-5%"), None, ""),
    ] {
        let found = read(value.clone());
        assert_eq!(found.map(|max| max.of(10)), of_ten, "{value}");
        assert_eq!(found.map(|max| max.to_string()).unwrap_or_default(), shown);
    }
}

/// Places that are kept for a retry are named beside what is in flight, but not to whom they belong.
#[test]
fn places_are_shown_with_those_that_are_kept() {
    let places = |in_flight, kept| SlotCount { in_flight, kept };
    for (of, keeps, want) in [
        (places(2, 0), false, "2 of 3 are in flight"),
        (places(2, 1), true, "2 of 3 are in flight"),
        (places(2, 1), false, "2 of 3 are in flight, and 1 that is retried keeps its place"),
        (places(1, 2), false, "1 of 3 are in flight, and 2 that are retried keep their places"),
    ] {
        assert_eq!(of.shown(keeps, 3, ""), want);
    }
    let mut taken = places(1, 1);
    assert_eq!((taken.all(), taken.taken(true), taken.taken(false)), (2, 1, 2));
    taken.take(true);
    assert_eq!(taken, places(2, 0), "in its own place");
    taken.take(true);
    assert_eq!(taken, places(3, 0), "without one");
    taken.take(false);
    taken += places(1, 2);
    assert_eq!(taken, places(5, 2));
}

type Change<'a> = &'a dyn Fn(&mut Observed);

/// The kind of the wait of one of a set without steps follows from how it is.
#[test]
fn without_steps_an_application_waits_for_what_it_lacks() {
    let ended = |phase: OperationPhase| Some(operation(phase, 20));
    let cases: [(&str, Change<'_>, WaitKind); 12] = [
        ("Synced and Healthy", &|_| {}, WaitKind::Health),
        (
            "an operation runs",
            &|one| one.operation = ended(OperationPhase::Running),
            WaitKind::Operation,
        ),
        (
            "a person has to confirm",
            &|one| {
                one.operation = ended(OperationPhase::Running);
                one.needs_confirmation = true;
            },
            WaitKind::Confirmation,
        ),
        (
            "one is requested",
            &|one| one.requested = Some(RequestedOperation { promotion: None, is_partial: false }),
            WaitKind::Operation,
        ),
        (
            "it failed",
            &|one| {
                one.operation = ended(OperationPhase::Failed);
                one.health = H::Missing;
            },
            WaitKind::FailedOperation,
        ),
        (
            "it failed, with an error",
            &|one| {
                one.operation = ended(OperationPhase::Error);
                (one.health, one.has_error) = (H::Missing, true);
            },
            WaitKind::FailedOperation,
        ),
        (
            "an error",
            &|one| (one.health, one.has_error) = (H::Missing, true),
            WaitKind::ErrorCondition,
        ),
        ("an error of a good one", &|one| one.has_error = true, WaitKind::Health),
        (
            "Degraded after its sync",
            &|one| {
                one.operation = ended(OperationPhase::Succeeded);
                one.health = H::Degraded;
            },
            WaitKind::Degraded,
        ),
        ("OutOfSync", &|one| one.sync = SyncStatusCode::OutOfSync, WaitKind::ManualSync),
        (
            "OutOfSync, and automated",
            &|one| (one.sync, one.is_automated) = (SyncStatusCode::OutOfSync, true),
            WaitKind::Health,
        ),
        (
            "a resource is left",
            &|one| {
                one.needs_a_prune = true;
                (one.sync, one.is_automated) = (SyncStatusCode::OutOfSync, true);
            },
            WaitKind::OutOfSync,
        ),
    ];
    for (name, change, want) in cases {
        let mut found = seen(H::Healthy, SyncStatusCode::Synced);
        change(&mut found);
        assert_eq!(WaitKind::without_steps(&found), want, "{name}");
    }
    let mut never = seen(H::Missing, SyncStatusCode::OutOfSync);
    never.reconciled_at = None;
    assert_eq!(WaitKind::without_steps(&never), WaitKind::Health, "it was not compared");
    // Nothing has to wait for another one.
    assert!(StepCapacity::UNLIMITED.is_free());
}

/// The words of a wait: what the sync failed on, what a write failed with, and which annotation
/// excludes it.
#[test]
fn a_wait_names_its_cause() {
    let failed = Entry {
        mark: Some(EntryMark::SyncFailed),
        message: format!("{}: no such image", EntryMark::SyncFailed.prefix()),
        ..entry("a", Phase::Waiting)
    };
    let out = Observed {
        detail: "Deployment web is OutOfSync".to_owned(),
        ..seen(H::Healthy, SyncStatusCode::OutOfSync)
    };
    let plan = |stored: &Entry, observed: &Observed, change: &dyn Fn(&mut Member<'_>)| {
        let strategy = steps_of(&[json!(1)]);
        let first = Entry { application: "0".to_owned(), ..entry("0", Phase::Pending) };
        let own = Observed {
            requested: Some(RequestedOperation { promotion: Some(first.since), is_partial: false }),
            ..seen(H::Healthy, SyncStatusCode::OutOfSync)
        };
        let membership = steps::Membership { steps: vec![0] };
        let member = |name: &'static str, observed, entry| Member {
            name,
            steps: None,
            invalid: None,
            unwritten: None,
            denied: None,
            excluded: None,
            is_going: false,
            resource: Some("apps/Deployment shop/web"),
            observed: Some(observed),
            entry: Some(entry),
            is_listed: true,
            record: None,
            spec: None,
            started: None,
        };
        let mut members = [member("0", &own, &first), member("a", observed, stored)];
        members.iter_mut().for_each(|one| one.steps = Some(&membership));
        change(&mut members[1]);
        let capacity = listed::ENTRIES_BYTES;
        let snapshot = super::super::RolloutSnapshot {
            strategy: &strategy,
            members: &members,
            settings: RolloutSettings::default(),
            opened: None,
            capacity,
            run_input: None,
        };
        let plan = super::super::step(&snapshot, now());
        plan.waiting.iter().find(|wait| wait.application == "a").cloned().unwrap()
    };
    // It would start but for the place of the other one.
    let wait = plan(&failed, &out, &|_| {});
    assert_eq!((wait.kind, wait.message.as_str()), (WaitKind::MaxUpdate, "1 of 1 are in flight"));
    let differs = Observed { spec_differs: true, ..out.clone() };
    let wait = plan(&failed, &differs, &|_| {});
    assert_eq!(
        (wait.kind, wait.message.as_str()),
        (WaitKind::Comparison, "its new spec is being written")
    );
    for (is_refused, kind) in [(false, WaitKind::FailedWrite), (true, WaitKind::Refused)] {
        let unwritten = Unwritten { why: "422: no".to_owned(), is_refused };
        let wait = plan(&failed, &differs, &|member| {
            // Leaked for the member: it lives as long as the test.
            member.unwritten = Some(Box::leak(Box::new(unwritten.clone())));
        });
        let want = "its new spec cannot be written: 422: no";
        assert_eq!((wait.kind, wait.message.as_str(), wait.resource), (kind, want, None));
    }
    // An annotation of its cluster keeps the controller from what it waits for.
    let stale = Observed { compared: Compared::Stale, ..out.clone() };
    for (secret, want) in
        [(None, "apps/Deployment shop/web"), (Some("Secret argocd/c"), "Secret argocd/c")]
    {
        let secret = secret.map(str::to_owned);
        let excluded = Excluded { why: "its annotation excludes it".to_owned(), secret };
        let wait = plan(&failed, &stale, &|member| {
            member.excluded = Some(Box::leak(Box::new(excluded.clone())));
        });
        assert_eq!((wait.kind, wait.resource.as_deref()), (WaitKind::Excluded, Some(want)));
        assert!(wait.message.ends_with("; its annotation excludes it"), "{}", wait.message);
    }
    let excluded = Excluded { why: "x".to_owned(), secret: None };
    let wait = plan(&failed, &differs, &|member| {
        member.excluded = Some(Box::leak(Box::new(excluded.clone())));
    });
    assert!(!wait.message.contains("; x") || wait.kind == WaitKind::Excluded, "{wait:?}");
}

/// What a later version has written of an element of a run stays with it, in each of its lists.
#[test]
fn fields_of_a_later_version_stay_with_their_element_of_a_run() {
    let status = |later: bool| -> RolloutRunStatus {
        let with = |mut one: Value, value: &str| {
            if later {
                one["later"] = value.into();
            }
            one
        };
        let two =
            |field: &str| json!([with(json!({field: "a"}), "1"), with(json!({field: "b"}), "2")]);
        let timeline = |what: &str, value: &str| {
            with(
                json!({"at": "2026-01-02T03:04:05Z", "what": what, "subject": "s", "by": "b"}),
                value,
            )
        };
        let wait = |name: &str, kind: &str, value: &str| {
            with(json!({"application": name, "kind": kind}), value)
        };
        let gate = |name: &str, policy: &str, value: &str| {
            with(json!({"name": name, "policy": policy}), value)
        };
        serde_json::from_value(json!({
            "steps": [with(json!({"total": 1}), "1"), with(json!({"total": 2}), "2")],
            "from": two("revision"), "to": two("revision"), "failures": two("signature"),
            "gates": [gate("g", "p", "1"), gate("g", "q", "2")],
            "waitingFor": [wait("a", "Health", "1"), wait("a", "Paused", "2")],
            "timeline": [timeline("Held", "1"), timeline("Paused", "2")],
        }))
        .unwrap()
    };
    let old = status(true);
    let mut new = status(false);
    keep_unknown_of_run(&old, &mut new);
    assert_eq!(json!(new), json!(old));
    // In another order, and without the first ones.
    let mut fewer = status(false);
    fewer.from.remove(0);
    fewer.to.reverse();
    fewer.gates.remove(0);
    fewer.waiting_for.remove(0);
    fewer.failures.remove(0);
    fewer.timeline.remove(0);
    keep_unknown_of_run(&old, &mut fewer);
    assert_eq!(json!(fewer.from), json!(old.from[1..]));
    assert_eq!(json!(fewer.to[0]), json!(old.to[1]));
    assert_eq!(json!(fewer.gates), json!(old.gates[1..]));
    assert_eq!(json!(fewer.waiting_for), json!(old.waiting_for[1..]));
    assert_eq!(json!(fewer.failures), json!(old.failures[1..]));
    assert_eq!(json!(fewer.timeline), json!(old.timeline[1..]));
}
