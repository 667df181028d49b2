//! Screens and outcomes, from objects of a watch.

mod holding;
mod policies;

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::fleet::Fleet;
use super::screen::{Frame, Screen};
use super::transition::Transition;
use crate::cli::demo::summary::{self, SummaryFacts};
use wavegate_api::ObjectKey;
use wavegate_rollout::rollout::report::{RolloutOutcome, Why};
use wavegate_rollout::rollout::wait::WaitKind;

/// A set with a step for dev without limit, and one for prod with maxUpdate 50%.
fn set(status: Value) -> Value {
    let step = |env: &str| json!([{"key": "env", "operator": "In", "values": [env]}]);
    json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet",
        "metadata": {"name": "shop", "namespace": "argocd"},
        "spec": {
            "generators": [{"list": {"elements": [
                {"name": "dev-eu", "env": "dev"},
                {"name": "prod-eu", "env": "prod"}, {"name": "prod-us", "env": "prod"},
            ]}}],
            "template": {
                "metadata": {"name": "{{name}}", "labels": {"env": "{{env}}"}},
                "spec": {"project": "default"},
            },
            "strategy": {"type": "RollingSync", "rollingSync": {"steps": [
                {"matchExpressions": step("dev")},
                {"matchExpressions": step("prod"), "maxUpdate": "50%"},
            ]}},
        },
        "status": status,
    })
}

/// The status with the kinds of its waits.
fn with_kinds(mut status: Value, kinds: &[WaitKind]) -> Value {
    for (at, kind) in kinds.iter().enumerate() {
        status["rollout"]["waitingFor"][at]["kind"] = kind.name().into();
    }
    status
}

/// A status with the current step, counted from 1, and the phase of each Application.
fn set_status(step: u64, phases: [&str; 3], waiting: &[(&str, &str)]) -> Value {
    let names = ["dev-eu", "prod-eu", "prod-us"];
    let entry = |(name, phase): (&&str, &&str)| json!({"application": name, "status": phase, "message": "as reported", "step": "1", "targetRevisions": []});
    let waiting = waiting.iter().map(|(who, why)| json!({"application": who, "reason": why}));
    let complete = phases.iter().all(|phase| *phase == "Healthy");
    json!({
        "applicationStatus": names.iter().zip(&phases).map(entry).collect::<Value>(),
        "rollout": {"step": step, "steps": 2, "waitingFor": waiting.collect::<Value>()},
        "conditions": [{
            "type": "RolloutProgressing", "status": if complete { "False" } else { "True" },
            "reason": "x", "message": "y",
        }],
    })
}

fn application(name: &str, status: Value) -> Value {
    json!({
        "metadata": {
            "name": name, "namespace": "argocd",
            "ownerReferences": [{"kind": "ApplicationSet", "name": "shop", "uid": "u", "controller": true}],
        },
        "spec": {"project": "default", "destination": {}},
        "status": status,
    })
}

fn untouched(name: &str) -> Value {
    let compared = json!({"status": "OutOfSync", "comparedTo": {"destination": {}}});
    application(name, json!({"sync": compared, "health": {"status": "Missing"}}))
}

fn syncing(name: &str, result: Value, message: &str) -> Value {
    application(
        name,
        json!({
            "sync": {"status": "OutOfSync"}, "health": {"status": "Progressing"},
            "operationState": {
                "phase": "Running", "message": message,
                "operation": {"info": [{"name": "RollingSync", "value": "2026-01-01T00:00:00Z"}]},
                "startedAt": "2026-01-01T00:00:00Z",
                "syncResult": {"revision": "a", "resources": [result]},
            },
        }),
    )
}

fn migrating(name: &str) -> Value {
    let hook = json!({
        "group": "batch", "kind": "Job", "namespace": name, "name": "migrate", "version": "v1",
        "syncPhase": "PreSync", "hookPhase": "Running", "hookType": "PreSync",
    });
    syncing(name, hook, "waiting for completion of hook batch/Job/migrate")
}

fn deploying(name: &str) -> Value {
    let deployment = json!({
        "group": "apps", "kind": "Deployment", "namespace": name, "name": "web", "version": "v1",
        "syncPhase": "Sync", "hookPhase": "Running",
    });
    syncing(name, deployment, "waiting for healthy state of apps/Deployment/web")
}

fn works(name: &str) -> Value {
    let hook = json!({
        "group": "batch", "kind": "Job", "namespace": name, "name": "migrate", "version": "v1",
        "syncPhase": "PreSync", "hookPhase": "Succeeded", "hookType": "PreSync",
    });
    application(
        name,
        json!({
            "sync": {"status": "Synced"}, "health": {"status": "Healthy"},
            "operationState": {
                "phase": "Succeeded", "operation": {}, "startedAt": "2026-01-01T00:00:00Z",
                "syncResult": {"revision": "a", "resources": [hook]},
            },
        }),
    )
}

fn broken(name: &str) -> Value {
    application(
        name,
        json!({
            "sync": {"status": "OutOfSync"}, "health": {"status": "Degraded"},
            "resources": [{
                "group": "apps", "kind": "Deployment", "namespace": name, "name": "web",
                "health": {"status": "Degraded", "message": "it exceeded its progress deadline"},
            }],
            "operationState": {
                "phase": "Failed", "operation": {}, "message": "one or more tasks failed",
                "startedAt": "2026-01-01T00:00:00Z",
            },
        }),
    )
}

/// Sends events, one second apart.
#[derive(Default)]
struct Watch {
    fleet: Fleet,
    at: Duration,
    transitions: Vec<Transition>,
}

impl Watch {
    fn observe(mut self, object: &Value) -> Self {
        let seen = match object["kind"].as_str() {
            Some("ApplicationSet") => {
                self.fleet.set(&object.clone().into(), Timestamp::UNIX_EPOCH, self.at)
            }
            Some("RolloutRun") => self.fleet.run(&object.clone().into(), self.at),
            _ => self.fleet.application(&object.clone().into(), self.at),
        };
        self.transitions.extend(seen);
        self.at += Duration::from_secs(1);
        self
    }

    fn outcome(&self) -> RolloutOutcome {
        self.shop().outcome()
    }

    fn shop(&self) -> &super::set::WatchedSet {
        self.fleet.sets.values().find(|set| set.name() == "shop").unwrap()
    }

    fn screen(&self, width: usize, height: Option<usize>) -> String {
        let outcomes = self.fleet.outcomes();
        let (elapsed, now) = (self.at, "2026-01-01T00:00:05Z".parse().unwrap());
        let frame = Frame { fleet: &self.fleet, elapsed, now, notes: &[], disconnected: None };
        let screen = Screen { frame, outcomes: &outcomes };
        let lines = screen.lines(width, height);
        assert!(lines.iter().all(|line| line.width() <= width), "no line is wider than {width}");
        lines.iter().map(|line| line.plain() + "\n").collect()
    }

    fn summary(&self) -> String {
        let facts = SummaryFacts { elapsed: self.at, writes: 42, columns: None };
        summary::lines(&self.fleet, &facts).iter().map(|line| line.plain() + "\n").collect()
    }
}

/// dev is complete; of prod, one Application is syncing and one is waiting.
fn halfway() -> Watch {
    let second = [
        ("prod-eu", "OutOfSync, Progressing: Deployment web"),
        ("prod-us", "1 of 1 are in flight"),
    ];
    Watch::default()
        .observe(&set(set_status(1, ["Pending", "Waiting", "Waiting"], &[])))
        .observe(&untouched("prod-eu"))
        .observe(&untouched("prod-us"))
        .observe(&migrating("dev-eu"))
        .observe(&works("dev-eu"))
        .observe(&set(set_status(2, ["Healthy", "Pending", "Waiting"], &[])))
        .observe(&deploying("prod-eu"))
        .observe(&set(set_status(2, ["Healthy", "Progressing", "Waiting"], &second)))
}

#[test]
fn the_screen_fits_its_width() {
    let watch = halfway();
    assert_eq!(
        watch.screen(60, None),
        "\
Wavegate  ApplicationSet shop, 3 Applications            8 s

Step 1  env = dev  1/1 done  0 in flight  done
  ✔ dev-eu   Healthy      Synced

Step 2  env = prod  0/2 done  1 of 1 in flight  open
  ● prod-eu  Progressing  Sync wave 0  Deployment web for 5s
  ○ prod-us  Waiting      OutOfSync

Waiting for prod-eu (Sync wave 0): Deployment web for 5s
"
    );
    assert_eq!(
        watch.screen(80, None),
        "\
Wavegate  ApplicationSet shop, 3 Applications                                8 s

Step 1  env = dev  1/1 done  0 in flight  done
  ✔ dev-eu   Healthy      Synced       Healthy

Step 2  env = prod  maxUpdate 50%  0/2 done  1 of 1 in flight  open
  ● prod-eu  Progressing  Sync wave 0  Progressing  Deployment web for 5s
  ○ prod-us  Waiting      OutOfSync    Missing

Waiting for prod-eu (Sync wave 0): Deployment web for 5s
"
    );
    let gap = " ".repeat(200 - 45 - 3);
    assert_eq!(
        watch.screen(200, None),
        format!(
            "\
Wavegate  ApplicationSet shop, 3 Applications{gap}8 s

Step 1  env = dev  ━━━━━━━━━━━━  1/1 done  0 in flight  done
  ✔ dev-eu   Healthy      Synced       Healthy

Step 2  env = prod  maxUpdate 50%  ────────────  0/2 done  1 of 1 in flight  open
  ● prod-eu  Progressing  Sync wave 0  Progressing  Deployment web for 5s
  ○ prod-us  Waiting      OutOfSync    Missing

Waiting for prod-eu (Sync wave 0): Deployment web for 5s
"
        )
    );
}

#[test]
fn the_screen_fits_its_height_and_keeps_the_current_step_longest() {
    let watch = halfway();
    assert_eq!(
        watch.screen(60, Some(9)),
        "\
Wavegate  ApplicationSet shop, 3 Applications            8 s

Step 1  env = dev  1/1 done  0 in flight  done

Step 2  env = prod  0/2 done  1 of 1 in flight  open
  ● prod-eu  Progressing  Sync wave 0  Deployment web for 5s
  ○ prod-us  Waiting      OutOfSync

Waiting for prod-eu (Sync wave 0): Deployment web for 5s
"
    );
    for height in 1..12 {
        let lines = watch.screen(60, Some(height)).lines().count();
        assert!(lines <= height, "{height} rows: {lines} lines");
    }
}

#[test]
fn transitions_are_in_order() {
    let found: Vec<String> = halfway()
        .transitions
        .iter()
        .map(|t| format!("{} {} {} {}", t.at.as_secs(), t.application, t.phase, t.text))
        .collect();
    assert_eq!(
        found,
        [
            "0   starts: env = dev, 1 Application, all at once",
            "0 dev-eu Pending as reported",
            "4 dev-eu Pending Synced and Healthy",
            "5 dev-eu Pending → Healthy as reported",
            "5   complete",
            "5   starts: env = prod, 2 Applications, 1 at a time (maxUpdate 50%)",
            "5 prod-eu Waiting → Pending as reported",
            "6 prod-eu Pending Sync wave 0: Deployment web",
            "7 prod-eu Pending → Progressing Sync wave 0: Deployment web",
        ]
    );
}

#[test]
fn measurements_come_from_the_applications() {
    let watch = halfway();
    let set = watch.shop();
    let secs = |time: Option<Duration>| time.map(|time| time.as_secs());
    let measured: Vec<_> =
        set.measured.iter().map(|m| (secs(m.opened), secs(m.done), m.peak)).collect();
    assert_eq!(measured, [(Some(3), Some(5), 1), (Some(6), None, 1)]);
    assert_eq!((watch.fleet.syncs(), watch.fleet.hooks()), (1, 1));

    let watch = watch.observe(&migrating("prod-us"));
    assert_eq!(watch.shop().measured[1].peak, 2);
}

fn set_at_rest() -> Value {
    set(set_status(1, ["Waiting", "Waiting", "Waiting"], &[]))
}

#[test]
fn a_rollout_ends_when_no_change_is_possible() {
    let done = |last: Value, status: Value| {
        halfway().observe(&works("prod-eu")).observe(&last).observe(&set(status)).outcome()
    };
    let failed = set_status(2, ["Healthy", "Healthy", "Progressing"], &[]);
    let blocked = |message: &str, behind| RolloutOutcome::Blocked {
        step: Some(1),
        application: "prod-us".to_owned(),
        why: Why { kind: WaitKind::FailedOperation, message: message.to_owned() },
        behind,
    };
    let stopped = |behind| {
        blocked("Deployment prod-us/web is Degraded: it exceeded its progress deadline", behind)
    };
    let mut dry_run = works("prod-us");
    dry_run["status"]["operationState"]["operation"] = json!({"sync": {"dryRun": true}});
    let unknown = "Sync failed, waiting for one that succeeds: smoke test";
    let held = set_status(2, ["Healthy", "Healthy", "Progressing"], &[("prod-us", unknown)]);
    let held = with_kinds(held, &[WaitKind::FailedOperation]);
    let held = halfway().observe(&works("prod-eu")).observe(&dry_run).observe(&set(held));
    let shown = held.screen(100, None);
    assert!(shown.contains(&format!("Stopped in step 2: prod-us: {unknown}")), "{shown}");
    let cases = [
        ("one is in progress", halfway().outcome(), RolloutOutcome::Running),
        (
            "only a sync of the whole Application says how it is",
            held.outcome(),
            blocked(unknown, 0),
        ),
        (
            "all are done",
            done(works("prod-us"), set_status(2, ["Healthy", "Healthy", "Healthy"], &[])),
            RolloutOutcome::Complete,
        ),
        (
            "the set says so and an Application does not",
            done(deploying("prod-us"), set_status(2, ["Healthy", "Healthy", "Healthy"], &[])),
            RolloutOutcome::Running,
        ),
        (
            "all are healthy and the set is not updated yet",
            done(works("prod-us"), set_status(2, ["Healthy", "Healthy", "Progressing"], &[])),
            RolloutOutcome::Running,
        ),
        ("one failed", done(broken("prod-us"), failed.clone()), stopped(0)),
        (
            "one failed and uses the only slot",
            halfway()
                .observe(&untouched("prod-eu"))
                .observe(&broken("prod-us"))
                .observe(&set(set_status(2, ["Healthy", "Waiting", "Progressing"], &[])))
                .outcome(),
            stopped(1),
        ),
        (
            "one failed and there is a free slot",
            halfway()
                .observe(&untouched("prod-eu"))
                .observe(&broken("prod-us"))
                .observe(&set(set_status(2, ["Healthy", "Waiting", "Healthy"], &[])))
                .outcome(),
            RolloutOutcome::Running,
        ),
    ];
    for (name, found, want) in cases {
        assert_eq!(found, want, "{name}");
    }
}

#[test]
fn a_step_with_max_update_zero_waits_for_a_manual_sync() {
    let mut raw = set(set_status(2, ["Healthy", "Waiting", "Waiting"], &[]));
    raw["spec"]["strategy"]["rollingSync"]["steps"][1]["maxUpdate"] = json!(0);
    let watch = Watch::default()
        .observe(&works("dev-eu"))
        .observe(&untouched("prod-eu"))
        .observe(&untouched("prod-us"))
        .observe(&raw);
    let applications = vec!["prod-eu".to_owned(), "prod-us".to_owned()];
    assert_eq!(watch.outcome(), RolloutOutcome::Manual { step: Some(1), applications });
    let summary = watch.summary();
    assert!(
        summary.contains("Step 2 waits for a manual sync of prod-eu, prod-us (maxUpdate is 0)")
    );
    assert!(summary.contains("\n  wavegate sync -n argocd prod-eu prod-us\n"), "{summary}");

    // A narrow terminal would break sentences within a word; commands stay in one piece.
    let facts = SummaryFacts { elapsed: watch.at, writes: 42, columns: Some(34) };
    let lines = summary::lines(&watch.fleet, &facts);
    let wide: Vec<String> =
        lines.iter().filter(|line| line.width() > 34).map(|line| line.plain()).collect();
    let [table @ .., command] = wide.as_slice() else { panic!("{wide:#?}") };
    assert_eq!(command, "  wavegate sync -n argocd prod-eu prod-us");
    assert!(table.iter().all(|row| row.contains("env = ") || row.contains("Selects")), "{wide:#?}");
}

#[test]
fn manual_syncs_are_not_measured() {
    let manual = |name: &str| {
        let mut syncing = migrating(name);
        syncing["status"]["operationState"]["operation"] = json!({"sync": {}});
        syncing
    };
    let watch = || Watch::default().observe(&set_at_rest()).observe(&untouched("dev-eu"));
    let both = watch().observe(&manual("prod-eu")).observe(&manual("prod-us"));
    assert_eq!(both.fleet.sets[&ObjectKey::new("argocd", "shop")].measured[1].peak, 0);
    // One of each.
    let mixed = watch()
        .observe(&works("dev-eu"))
        .observe(&manual("prod-eu"))
        .observe(&migrating("prod-us"));
    assert_eq!(mixed.fleet.sets[&ObjectKey::new("argocd", "shop")].measured[1].peak, 1);
}

#[test]
fn an_invalid_set_has_a_reason() {
    let mut raw = set_at_rest();
    raw["status"]["conditions"] = json!([{
        "type": "ErrorOccurred", "status": "True", "reason": "ApplicationValidationError",
        "message": "application dev-eu: there is no project shop",
    }]);
    let message = "application dev-eu: there is no project shop".to_owned();
    let want = RolloutOutcome::Invalid { message, is_off: false };
    assert_eq!(Watch::default().observe(&raw).outcome(), want);
    raw["status"]["conditions"][0]["reason"] = "UpdateApplicationError".into();
    assert_eq!(Watch::default().observe(&raw).outcome(), RolloutOutcome::Running, "it is retried");
}

#[test]
fn without_a_rolling_sync_all_applications_count() {
    let mut raw = set(Value::Null);
    raw["spec"]["strategy"] = Value::Null;
    let watch =
        || Watch::default().observe(&raw).observe(&works("dev-eu")).observe(&works("prod-eu"));
    assert_eq!(watch().outcome(), RolloutOutcome::Running, "one is not even created");
    assert_eq!(watch().observe(&works("prod-us")).outcome(), RolloutOutcome::Complete);
    assert_eq!(watch().observe(&deploying("prod-us")).outcome(), RolloutOutcome::Running);
    let stopped = watch().observe(&broken("prod-us")).outcome();
    assert!(matches!(stopped, RolloutOutcome::Blocked { step: None, .. }), "{stopped:?}");
    let mut manual = untouched("prod-us");
    manual["status"]["reconciledAt"] = "2026-01-01T00:00:00Z".into();
    let applications = vec!["prod-us".to_owned()];
    assert_eq!(
        watch().observe(&manual).outcome(),
        RolloutOutcome::Manual { step: None, applications }
    );
}

/// An Application that no step selects was not mentioned at the end.
#[test]
fn applications_outside_of_the_steps_are_named_at_the_end() {
    let mut raw = set(set_status(2, ["Healthy"; 3], &[]));
    raw["spec"]["generators"][0]["list"]["elements"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "lab", "env": "lab"}));
    raw["status"]["applicationStatus"].as_array_mut().unwrap().push(json!({
        "application": "lab", "status": "Waiting", "message": "m", "step": "-1", "targetRevisions": [],
    }));
    let mut watch = Watch::default();
    for name in ["dev-eu", "prod-eu", "prod-us"] {
        watch = watch.observe(&works(name));
    }
    let watch = watch.observe(&untouched("lab")).observe(&raw);
    assert_eq!(watch.outcome(), RolloutOutcome::Complete);
    let want = "All steps are complete. No step selects lab: it waits for a manual sync.";
    assert!(watch.screen(100, None).contains(want), "{}", watch.screen(100, None));
    let outcomes = watch.fleet.outcomes();
    let frame = Frame {
        fleet: &watch.fleet,
        elapsed: watch.at,
        now: Timestamp::UNIX_EPOCH,
        notes: &[],
        disconnected: None,
    };
    let screen = Screen { frame, outcomes: &outcomes };
    // As many as in the status.
    assert_eq!(screen.state_of(&outcomes[0].0, &outcomes[0].1), format!("shop, 3/3 done. {want}"));
    assert_eq!(watch.observe(&works("lab")).shop().left_outside(), None, "it was synced");
}

#[test]
fn the_limit_is_that_of_the_start() {
    let start = "2026-01-01T00:00:04Z";
    let until = "2026-01-01T00:05:04Z";
    let mut raw = set(set_status(1, ["Pending", "Waiting", "Waiting"], &[]));
    raw["status"]["applicationStatus"][0]["lastTransitionTime"] = start.into();
    let reason = format!("the operation to start, until {until} at most");
    raw["status"]["rollout"]["waitingFor"] = json!([{"application": "dev-eu", "kind": "OperationStart", "reason": reason, "since": start, "until": until}]);
    let watch = Watch::default().observe(&raw).observe(&untouched("dev-eu"));
    let screen = watch.screen(200, None);
    assert!(
        screen.contains("Waiting for dev-eu for 1s of 5m: the operation to start\n"),
        "{screen}"
    );
    // The status of the set follows.
    let screen = watch.observe(&migrating("dev-eu")).screen(200, None);
    assert!(screen.contains("Job migrate for 5s\n"), "{screen}");
    assert!(!screen.contains("of 5m"), "{screen}");
}

#[test]
fn the_cause_is_shown_in_full_where_it_fits() {
    let watch = halfway()
        .observe(&works("prod-eu"))
        .observe(&broken("prod-us"))
        .observe(&set(set_status(2, ["Healthy", "Healthy", "Progressing"], &[])));
    let screen = watch.screen(60, Some(24));
    let want = "\nStopped in step 2: prod-us: Deployment prod-us/web is\nDegraded: it exceeded its progress deadline\n";
    assert!(screen.ends_with(want), "{screen}");
    assert!(watch.screen(60, Some(9)).ends_with("…\n"));
}

/// A demo that was interrupted at once said that its rollout was complete.
#[test]
fn before_a_set_is_known_nothing_is_complete() {
    let facts = SummaryFacts { elapsed: Duration::ZERO, writes: 0, columns: None };
    let lines = summary::lines(&Fleet::default(), &facts);
    assert!(lines.iter().any(|line| line.plain().starts_with("Rollout not complete after 0 s")));
}

#[test]
fn the_summary_shows_times_limits_and_the_reason() {
    let watch = halfway()
        .observe(&works("prod-eu"))
        .observe(&broken("prod-us"))
        .observe(&set(set_status(2, ["Healthy", "Healthy", "Progressing"], &[])));
    assert_eq!(
        watch.summary(),
        "
Rollout not complete after 11 s: 3 Applications, 3 syncs, 2 hooks, 42 API writes

Step  Selects     Done  Time  Max in flight  Limit
1     env = dev   1/1   2 s   1              none
2     env = prod  1/2   -     1              1 (50%)
Applications in flight are counted by watching them.
Stopped in step 2: prod-us: Deployment prod-us/web is Degraded: it exceeded its progress deadline
"
    );
}
