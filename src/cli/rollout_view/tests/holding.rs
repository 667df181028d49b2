//! What holds a rollout, and what only looks like it.

use super::*;
use crate::cli::rollout_view::fleet::FleetSource;

/// The rollout waits for dev-eu, whose sync is over; prod is in a closed step.
fn waits_for_dev() -> Watch {
    let mut crashes = works("dev-eu");
    crashes["status"]["sync"]["status"] = "OutOfSync".into();
    let waiting = [("dev-eu", "Pod dev-eu/crash is OutOfSync")];
    Watch::default()
        .observe(&set(set_status(1, ["Progressing", "Waiting", "Waiting"], &waiting)))
        .observe(&crashes)
        .observe(&untouched("prod-us"))
}

fn row<'a>(screen: &'a str, name: &str) -> &'a str {
    let is_it = |line: &&str| line.split_whitespace().nth(1) == Some(name);
    screen.lines().find(is_it).unwrap_or_else(|| panic!("no row of {name}: {screen}"))
}

/// The failure was that of an earlier revision, or of a manual sync.
#[test]
fn an_application_of_a_closed_step_is_not_what_the_rollout_waits_for() {
    let watch = waits_for_dev().observe(&broken("prod-eu"));
    let screen = watch.screen(120, None);
    assert!(screen.ends_with("\nWaiting for dev-eu: Pod dev-eu/crash is OutOfSync\n"), "{screen}");
    assert!(row(&screen, "prod-eu").trim_start().starts_with("○ prod-eu  Waiting"), "{screen}");
    let manual = waits_for_dev().observe(&deploying("prod-eu"));
    let screen = manual.screen(120, None);
    assert!(screen.contains("\nWaiting for dev-eu: "), "a sync of a closed step: {screen}");
    // In its own step, the same one is.
    let watch = watch.observe(&works("dev-eu")).observe(&set(set_status(
        2,
        ["Healthy", "Progressing", "Waiting"],
        &[],
    )));
    let screen = watch.screen(120, None);
    assert!(row(&screen, "prod-eu").trim_start().starts_with("✘ prod-eu"), "{screen}");
    assert!(screen.contains("Stopped in step 2: prod-eu: "), "{screen}");
}

/// It depended on when the watch was started.
#[test]
fn the_number_in_flight_follows_from_the_present_state() {
    let status = || set(set_status(2, ["Healthy", "Progressing", "Waiting"], &[]));
    let from_the_start = halfway().observe(&broken("prod-eu")).observe(&status());
    let late = Watch::default()
        .observe(&status())
        .observe(&works("dev-eu"))
        .observe(&broken("prod-eu"))
        .observe(&untouched("prod-us"));
    for watch in [from_the_start, late] {
        let screen = watch.screen(80, None);
        assert!(screen.contains("0/2 done  1 of 1 in flight  open"), "{screen}");
    }
    // Its sync has succeeded, and a Pod is not ready yet.
    let mut starts = works("prod-eu");
    starts["status"]["health"]["status"] = "Progressing".into();
    let starts = Watch::default()
        .observe(&status())
        .observe(&works("dev-eu"))
        .observe(&starts)
        .observe(&untouched("prod-us"));
    let screen = starts.screen(80, None);
    assert!(screen.contains("1 of 1 in flight") && screen.contains("● prod-eu"), "{screen}");
    // The status of the set follows: the next one may be in flight already.
    let next = starts.observe(&works("prod-eu")).observe(&deploying("prod-us"));
    assert!(next.screen(80, None).contains("1 of 1 in flight"), "{}", next.screen(80, None));
}

#[test]
fn a_refused_application_is_not_to_come() {
    let invalid = "the application is invalid: spec.project: AppProject nope does not exist";
    let owned = "it cannot be created: it is owned by ApplicationSet st";
    let waiting = [("prod-eu", invalid), ("prod-us", owned)];
    let status = set_status(2, ["Healthy", "Waiting", "Waiting"], &waiting);
    let status = with_kinds(status, &[WaitKind::Invalid, WaitKind::Refused]);
    let without_entries = || {
        let mut status = status.clone();
        status["applicationStatus"].as_array_mut().unwrap().truncate(1);
        status
    };
    let mut generated = set(without_entries());
    let mut elsewhere = generated.clone();
    elsewhere["spec"]["generators"] = json!([{"clusters": {}}]);
    generated["metadata"]["generation"] = 1.into();
    for raw in [generated, elsewhere] {
        let fleet = Fleet::new(FleetSource::Cluster(None));
        let watch = Watch { fleet, ..Watch::default() }.observe(&raw).observe(&works("dev-eu"));
        let screen = watch.screen(140, None);
        for (name, why) in waiting {
            let row = row(&screen, name);
            assert!(row.contains(&format!("✘ {name}  refused ")) && row.ends_with(why), "{screen}");
        }
        assert!(!screen.contains("to come"), "{screen}");
        assert!(screen.ends_with(&format!("Stopped in step 2: prod-eu: {invalid}\n")), "{screen}");
    }
}

/// As `explain` counts: an Application of a later step waits, also one that has failed.
#[test]
fn all_of_later_steps_are_behind_a_failure() {
    let watch = Watch::default()
        .observe(&set(set_status(1, ["Progressing", "Waiting", "Waiting"], &[])))
        .observe(&broken("dev-eu"))
        .observe(&broken("prod-eu"))
        .observe(&untouched("prod-us"));
    let RolloutOutcome::Blocked { application, behind, .. } = watch.outcome() else {
        panic!("{:?}", watch.outcome())
    };
    assert_eq!((application.as_str(), behind), ("dev-eu", 2));
}

/// A later commit put it in sync again, which needs no sync.
#[test]
fn a_rollout_is_complete_although_an_operation_has_failed_before() {
    let mut reverted = works("prod-us");
    reverted["status"]["operationState"]["phase"] = "Failed".into();
    let watch = halfway().observe(&works("prod-eu")).observe(&reverted).observe(&set(set_status(
        2,
        ["Healthy"; 3],
        &[],
    )));
    assert_eq!(watch.outcome(), RolloutOutcome::Complete);
    let screen = watch.screen(80, None);
    assert!(screen.contains("2/2 done") && screen.contains("✔ prod-us"), "{screen}");
    // What changed after the end is not part of the rollout.
    let watch = watch.observe(&untouched("prod-eu"));
    assert_eq!(watch.outcome(), RolloutOutcome::Complete);
}

#[test]
fn a_retry_names_the_attempt_and_what_failed() {
    let mut retried = deploying("prod-eu");
    let state = &mut retried["status"]["operationState"];
    state["message"] =
        "one or more objects failed to apply, reason: denied. Retrying attempt #1 at 12:00AM."
            .into();
    state["retryCount"] = 1.into();
    state["finishedAt"] = "2026-01-01T00:00:01Z".into();
    state["operation"]["retry"] = json!({"limit": 3, "backoff": {"duration": "8s"}});
    state["syncResult"]["resources"][0]["status"] = "SyncFailed".into();
    state["syncResult"]["resources"][0]["message"] = "denied".into();
    let watch = halfway().observe(&retried);
    let why = "attempt 2 of 4 at 00:00:09Z: Deployment prod-eu/web cannot be applied: denied";
    let screen = watch.screen(160, None);
    assert!(row(&screen, "prod-eu").ends_with(&format!("Progressing  {why}")), "{screen}");
    assert!(screen.ends_with(&format!("\nWaiting for prod-eu: {why}\n")), "{screen}");
    assert_eq!(watch.transitions.last().map(|last| last.text.as_str()), Some(why));
    // Where it does not fit, it is said in full below.
    assert!(watch.screen(60, Some(24)).ends_with("cannot be applied: denied\n"));
}

/// The hint was for other generators than lists only.
#[test]
fn a_set_of_a_cluster_without_a_status_waits_for_a_controller() {
    let fleet = Fleet::new(FleetSource::Cluster(None));
    let watch = Watch { fleet, ..Watch::default() }.observe(&set(Value::Null));
    let screen = watch.screen(200, None);
    assert!(screen.contains("\nWaiting for a controller: none has reconciled the set"), "{screen}");
    let demo = Watch::default().observe(&set(Value::Null)).screen(200, None);
    assert!(demo.ends_with("\nWaiting for the controllers\n"), "{demo}");
}

/// Each had one line, most of it cut, above empty rows.
#[test]
fn sets_that_do_not_fit_use_the_rows_that_are_free() {
    let mut watch = halfway();
    let reason = "the source of all its Applications cannot be read, for a reason that is long";
    for name in ["a", "b", "c", "d"] {
        let mut raw = set(set_status(1, ["Waiting"; 3], &[("dev-eu", reason)]));
        raw["metadata"]["name"] = name.into();
        watch = watch.observe(&raw);
    }
    let screen = watch.screen(80, Some(24));
    assert_eq!(screen.matches("is long\n").count(), 4, "{screen}");
    assert!(screen.contains("● a, step 1 of 2, 0/3 done  Waiting for dev-eu"), "{screen}");
    for height in 1..24 {
        let lines = watch.screen(80, Some(height)).lines().count();
        assert!(lines <= height, "{height} rows: {lines} lines");
    }
    assert_eq!(watch.screen(80, Some(7)).lines().filter(|line| line.ends_with('…')).count(), 5);
}

/// The other Applications are rolled out: it ends only what it holds.
#[test]
fn an_invalid_application_of_a_later_step_stops_nothing() {
    let reason = "the application is invalid: spec.project: AppProject nope does not exist";
    let with = |step: u64, phases: [&str; 3], waiting: &[(&str, &str)]| {
        let status = set_status(step, phases, waiting);
        let kinds: Vec<WaitKind> = waiting.iter().map(|_| WaitKind::Invalid).collect();
        let mut status = with_kinds(status, &kinds);
        status["conditions"].as_array_mut().unwrap().push(json!({
            "type": "ErrorOccurred", "status": "True", "reason": "ApplicationValidationError",
            "message": "application prod-eu: spec.project: AppProject nope does not exist",
        }));
        set(status)
    };
    let started = Watch::default()
        .observe(&with(1, ["Progressing", "Waiting", "Waiting"], &[]))
        .observe(&works("dev-eu"))
        .observe(&untouched("prod-us"));
    assert_eq!(started.outcome(), RolloutOutcome::Running, "dev-eu was not seen as Healthy yet");
    let held = started.observe(&with(2, ["Healthy", "Waiting", "Healthy"], &[("prod-eu", reason)]));
    let held = held.observe(&works("prod-us"));
    let RolloutOutcome::Blocked { application, why, .. } = held.outcome() else {
        panic!("{:?}", held.outcome())
    };
    assert_eq!((application.as_str(), why.kind), ("prod-eu", WaitKind::Invalid));
    assert_eq!(why.message, reason);
    // It may be beyond the listed waits.
    let unlisted = held.observe(&with(2, ["Healthy", "Waiting", "Healthy"], &[]));
    assert!(
        matches!(unlisted.outcome(), RolloutOutcome::Invalid { .. }),
        "{:?}",
        unlisted.outcome()
    );
}

#[test]
fn a_deletion_is_no_failure() {
    let mut going = broken("prod-eu");
    going["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z".into();
    let watch = halfway().observe(&works("prod-us")).observe(&going);
    assert_eq!(watch.outcome(), RolloutOutcome::Running);
    assert!(!watch.screen(100, None).contains("✘"), "{}", watch.screen(100, None));
}

/// The entry of a complete rollout stays Healthy while a new commit cannot be read.
#[test]
fn a_commit_that_cannot_be_rendered_stops_a_rollout_that_was_complete() {
    let mut unread = works("prod-us");
    unread["status"]["sync"]["status"] = "Unknown".into();
    unread["status"]["conditions"] =
        json!([{"type": "ComparisonError", "message": "no such file: values.yaml"}]);
    let waiting = [("prod-us", "its comparison failed: no such file: values.yaml")];
    let mut status = set_status(2, ["Healthy"; 3], &waiting);
    status["conditions"][0]["status"] = "True".into();
    let watch = halfway().observe(&works("prod-eu")).observe(&unread).observe(&set(status));
    let RolloutOutcome::Blocked { application, why, .. } = watch.outcome() else {
        panic!("{:?}", watch.outcome())
    };
    assert_eq!((application.as_str(), why.kind), ("prod-us", WaitKind::ErrorCondition));
    assert_eq!(why.message, "no such file: values.yaml");
    let screen = watch.screen(100, None);
    assert!(row(&screen, "prod-us").contains("✘ prod-us"), "{screen}");
}

#[test]
fn an_application_of_another_owner_ends_the_watch() {
    let owned = "it cannot be created: it is owned by ApplicationSet st";
    let of = |kind, reason| {
        let phases = ["Healthy", "Waiting", "Healthy"];
        let status = set_status(2, phases, &[("prod-eu", reason)]);
        let watch = Watch::default()
            .observe(&set(with_kinds(status, &[kind])))
            .observe(&works("dev-eu"))
            .observe(&works("prod-us"));
        watch.outcome()
    };
    let stopped = of(WaitKind::Refused, owned);
    let RolloutOutcome::Blocked { why, .. } = stopped else { panic!("{stopped:?}") };
    assert_eq!((why.kind, why.message.as_str()), (WaitKind::Refused, owned));
    // The controller tries again.
    let failed = of(WaitKind::FailedWrite, "it cannot be created: 500: no leader");
    assert_eq!(failed, RolloutOutcome::Running);
}
