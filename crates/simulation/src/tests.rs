use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use wavegate_api::run::RunPhase;
use wavegate_rollout::rollout::wait::WaitKind;

fn set(sizes: &[usize], max_update: Value) -> Value {
    let elements: Vec<Value> = sizes
        .iter()
        .enumerate()
        .flat_map(|(step, size)| {
            (0..*size).map(
                move |index| json!({"name": format!("s{step}-{index}"), "step": step.to_string()}),
            )
        })
        .collect();
    let steps: Vec<Value> = (0..sizes.len())
        .map(|step| {
            json!({
                "matchExpressions": [{"key": "step", "operator": "In", "values": [step.to_string()]}],
                "maxUpdate": max_update,
            })
        })
        .collect();
    json!({
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "ApplicationSet",
        "metadata": {"name": "shop", "namespace": "argocd"},
        "spec": {
            "goTemplate": true,
            "generators": [{"list": {"elements": elements}}],
            "strategy": {"type": "RollingSync", "rollingSync": {"steps": steps}},
            "template": {
                "metadata": {"name": "{{.name}}", "labels": {"step": "{{.step}}"}},
                "spec": {
                    "project": "default",
                    "source": {"repoURL": "https://example.com/shop.git", "path": "{{.name}}", "targetRevision": "main"},
                    "destination": {"server": "https://kubernetes.default.svc", "namespace": "{{.name}}"},
                    "syncPolicy": {"syncOptions": ["CreateNamespace=true"]},
                },
            },
        },
    })
}

fn scenario(sizes: &[usize], max_update: Value) -> Scenario {
    let behaviors = sizes.iter().enumerate().flat_map(|(step, size)| {
        (0..*size).map(move |index| {
            let behavior = Behavior {
                sync: Duration::ZERO,
                health: Duration::from_secs(30),
                outcome: WorkloadOutcome::Succeeds,
            };
            (format!("s{step}-{index}"), behavior)
        })
    });
    let project = json!({
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "AppProject",
        "metadata": {"name": "default", "namespace": "argocd"},
        "spec": {
            "sourceRepos": ["*"],
            "destinations": [{"namespace": "*", "server": "*"}],
            "clusterResourceWhitelist": [{"group": "*", "kind": "*"}],
        },
    });
    Scenario {
        namespace: "argocd".to_owned(),
        objects: vec![
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "argocd"}}),
            project,
            set(sizes, max_update),
        ],
        behaviors: behaviors.collect(),
        uncounted: BTreeSet::new(),
        start: "2026-01-05T09:00:00Z".parse().unwrap(),
        before: FleetBefore::RolledOut,
        actions: Vec::new(),
        limit: Duration::from_secs(7 * 24 * 3600),
        remedies: Vec::new(),
        replicas: 1,
        logs: false,
        seed: 1,
    }
}

#[test]
fn a_rollout_takes_its_time_by_the_clock_of_the_simulation() {
    let history = run(&scenario(&[2, 3], json!(1))).unwrap();
    assert_eq!(history.outcome, SpanEnd::Complete, "{history:#?}");
    let seconds = history.end.duration_since(history.start).as_secs();
    assert!((150..180).contains(&seconds), "5 of 30 s each, one after the other: {seconds} s");
}

#[test]
fn two_simulations_of_one_scenario_give_the_same_log() {
    let mut scenario = scenario(&[2, 3], json!("50%"));
    scenario.logs = true;
    let happens = |seconds: u64, action: FleetAction| ScheduledAction {
        at: Duration::from_secs(seconds),
        action,
    };
    scenario.actions = vec![
        happens(20, FleetAction::Restart),
        happens(40, FleetAction::ApiDown(Duration::from_secs(20))),
        happens(50, FleetAction::Push(None)),
    ];
    let [one, other] = [(); 2].map(|()| run(&scenario).unwrap());
    assert_eq!(one.outcome, SpanEnd::Complete, "{one:#?}");
    assert!(one.log.lines().count() > 300, "{}", one.log);
    let differs = one.log.lines().zip(other.log.lines()).find(|(one, other)| one != other);
    assert_eq!(differs, None);
    assert_eq!(one.log.len(), other.log.len());
}

#[test]
fn what_fails_hangs_or_is_held_ends_with_its_reason() {
    let end = |change: &dyn Fn(&mut Scenario)| {
        let mut scenario = scenario(&[1, 1], json!(null));
        change(&mut scenario);
        run(&scenario).unwrap().outcome
    };
    let fails = |outcome: WorkloadOutcome| {
        end(&move |scenario| scenario.behaviors.get_mut("s0-0").unwrap().outcome = outcome)
    };
    let words = |end: &SpanEnd| match end {
        SpanEnd::Stuck { message } => message.clone(),
        other => panic!("{other:?}"),
    };
    for outcome in [WorkloadOutcome::Fails, WorkloadOutcome::Hangs] {
        let message = words(&fails(outcome));
        assert!(message.contains("s0-0"), "{outcome:?}: {message}");
    }
    let paused = end(&|scenario| {
        scenario.actions =
            vec![ScheduledAction { at: Duration::from_secs(5), action: FleetAction::Pause }];
    });
    assert!(words(&paused).contains("paused"), "{paused:?}");
    let resumed = end(&|scenario| {
        let at = Duration::from_secs;
        scenario.actions = vec![
            ScheduledAction { at: at(5), action: FleetAction::Pause },
            ScheduledAction { at: at(3600), action: FleetAction::Resume },
        ];
    });
    assert_eq!(resumed, SpanEnd::Complete);
}

/// Found by simulated fleets: an Application whose status could not be written, since its kind was
/// not served for a moment, was never looked at again.
#[test]
fn a_kind_that_is_not_served_for_a_while_stops_no_rollout() {
    for code in [403, 404] {
        let mut scenario = scenario(&[2], json!(null));
        let lasting = Duration::from_secs(60);
        let vanishes = FleetFault::Vanishes { resource: "applications", code, lasting };
        scenario.actions = vec![ScheduledAction {
            at: Duration::from_secs(10),
            action: FleetAction::Fault(vanishes),
        }];
        assert_eq!(run(&scenario).unwrap().outcome, SpanEnd::Complete, "{code}");
    }
}

#[test]
fn another_replica_goes_on_when_the_leader_stands_still() {
    let mut scenario = scenario(&[2, 2], json!(1));
    scenario.replicas = 2;
    let frozen = FleetAction::Fault(FleetFault::LeaderFrozen(Duration::from_secs(45)));
    scenario.actions = vec![ScheduledAction { at: Duration::from_secs(10), action: frozen }];
    let history = run(&scenario).unwrap();
    assert_eq!(history.outcome, SpanEnd::Complete);
    let seconds = history.end.duration_since(history.start).as_secs();
    assert!((120..175).contains(&seconds), "4 of 30 s each, and at most the Lease: {seconds} s");
}

fn happens(seconds: u64, action: FleetAction) -> ScheduledAction {
    ScheduledAction { at: Duration::from_secs(seconds), action }
}

#[test]
fn an_api_server_that_is_down_ends_the_watches_that_are_open() {
    let mut scenario = scenario(&[2], json!(null));
    scenario.logs = true;
    scenario.actions = vec![happens(10, FleetAction::ApiDown(Duration::from_secs(20)))];
    let history = run(&scenario).unwrap();
    assert_eq!(history.outcome, SpanEnd::Complete);
    // They are asked for again, as long as it is down in vain.
    let mut lines = history.log.lines();
    assert!(lines.any(|line| line.contains(" watch ") && line.contains("-> 503")));
}

#[test]
fn chance_is_drawn_for_each_commit() {
    let mut scenario = scenario(&[1], json!(null));
    scenario.behaviors.get_mut("s0-0").unwrap().outcome = WorkloadOutcome::Flaky(50);
    scenario.actions =
        (1..=3).map(|number| happens(number * 120, FleetAction::Push(None))).collect();
    let history = run(&scenario).unwrap();
    let runs = &history.runs["argocd/shop"];
    let complete = runs.iter().filter(|(_, run)| run.phase == RunPhase::Complete).count();
    assert!(runs.len() == 4 && (1..4).contains(&complete), "{runs:#?}");
}

#[test]
fn what_changes_nothing_after_the_end_does_not_defer_it() {
    let mut scenario = scenario(&[2], json!(null));
    scenario.actions = vec![happens(1800, FleetAction::Restart)];
    let history = run(&scenario).unwrap();
    assert_eq!((&history.outcome, history.happened.len()), (&SpanEnd::Complete, 1));
    let seconds = history.end.duration_since(history.start).as_secs();
    assert!((30..60).contains(&seconds), "{seconds} s");
}

/// A pause that was due after the limit was waited for, and so the rollout was not complete.
#[test]
fn a_simulation_ends_at_its_limit() {
    let ends = |limit: u64, at: u64| {
        let mut scenario = scenario(&[2], json!(null));
        scenario.limit = Duration::from_secs(limit);
        let at = Duration::from_millis(at);
        scenario.actions = vec![ScheduledAction { at, action: FleetAction::Restart }];
        let history = run(&scenario).unwrap();
        let seconds = history.end.duration_since(history.start).as_secs();
        (history.outcome, seconds, history.happened.len())
    };
    let (outcome, seconds, happened) = ends(20, 25_000);
    assert!(matches!(outcome, SpanEnd::TimeIsOver { .. }), "{outcome:?}");
    assert_eq!((seconds, happened), (20, 0));
    let (outcome, seconds, happened) = ends(60, 59_500);
    assert_eq!((outcome, happened), (SpanEnd::Complete, 1));
    assert!((30..40).contains(&seconds), "{seconds}");
}

#[test]
fn what_no_step_selects_is_not_counted() {
    for before in [FleetBefore::Nothing, FleetBefore::RolledOut] {
        let mut scenario = scenario(&[1, 1], json!(null));
        let elements = &mut scenario.objects[2]["spec"]["generators"][0]["list"]["elements"];
        elements.as_array_mut().unwrap().push(json!({"name": "alone", "step": "none"}));
        let behavior = scenario.behaviors["s0-0"].clone();
        scenario.behaviors.insert("alone".to_owned(), behavior);
        scenario.uncounted = BTreeSet::from(["alone".to_owned()]);
        scenario.before = before;
        let history = run(&scenario).unwrap();
        assert_eq!(history.outcome, SpanEnd::Complete, "{history:#?}");
        let seconds = history.end.duration_since(history.start).as_secs();
        assert!((60..70).contains(&seconds), "{seconds}");
        let last = history.applications["alone"].spans.last().map(|span| span.state);
        assert_eq!(last, Some(SpanKind::Waiting));
    }
}

#[test]
fn a_rollout_does_not_wait_for_what_is_skipped_in_flight() {
    let skipped = |names: &[&str], change: &dyn Fn(&mut Scenario)| {
        let mut scenario = scenario(&[2], json!(null));
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        scenario.actions = vec![happens(10, FleetAction::Skip(names))];
        change(&mut scenario);
        let history = run(&scenario).unwrap();
        assert_eq!(history.outcome, SpanEnd::Complete, "{history:#?}");
        history.end.duration_since(history.start).as_secs()
    };
    let all = skipped(&["s0-0", "s0-1"], &|_| {});
    assert!((9..15).contains(&all), "{all}");
    let hangs = skipped(&["s0-0"], &|scenario| {
        scenario.behaviors.get_mut("s0-0").unwrap().outcome = WorkloadOutcome::Hangs;
    });
    assert!((30..40).contains(&hangs), "{hangs}");
}

#[test]
fn a_set_that_is_not_paused_is_not_resumed() {
    let mut scenario = scenario(&[1], json!(null));
    scenario.actions = vec![happens(10, FleetAction::Resume)];
    let history = run(&scenario).unwrap();
    assert_eq!(history.happened[0].refused.as_deref(), Some("it is not paused"));
}

#[test]
fn sync_windows_hold_what_is_simulated_and_not_what_was_there_before() {
    for (window, hours) in [
        (json!({"kind": "deny", "schedule": "0 9 * * *", "duration": "3h"}), 3),
        (json!({"kind": "allow", "schedule": "0 22 * * 1", "duration": "1h"}), 13),
    ] {
        let mut scenario = scenario(&[1], json!(null));
        let mut window = window;
        window["applications"] = json!(["*"]);
        scenario.objects[1]["spec"]["syncWindows"] = json!([window]);
        let history = run(&scenario).unwrap();
        assert_eq!(history.outcome, SpanEnd::Complete, "{history:#?}");
        let begins = history.start.duration_since(scenario.start).as_secs();
        assert!(begins < 60, "{begins} s after the time at which it shall begin");
        let took = history.end.duration_since(history.start).as_secs();
        assert!((hours * 3600 - 60..hours * 3600 + 120).contains(&took), "{took} s");
        let kinds = history.waits["argocd/shop"].iter().flat_map(|waits| &waits.kinds);
        assert!(kinds.into_iter().any(|kind| *kind == WaitKind::SyncWindow), "{:?}", history.waits);
    }
}

/// The namespaces that its Applications deploy to.
fn with_namespaces(mut scenario: Scenario) -> Scenario {
    let namespace = |name: &String| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    let namespaces: Vec<Value> = scenario.behaviors.keys().map(namespace).collect();
    scenario.objects.extend(namespaces);
    scenario
}

/// What the set of these sizes generates.
fn generated(sizes: &[usize]) -> DeployedBefore {
    let behaviors = scenario(sizes, json!(null)).behaviors;
    let spec = &set(sizes, json!(null))["spec"]["template"]["spec"];
    let of = |name: &String| {
        let mut spec = spec.clone();
        spec["source"]["path"] = name.as_str().into();
        spec["destination"]["namespace"] = name.as_str().into();
        let metadata = json!({"name": name, "labels": {"step": name[1..2]}});
        json!({"metadata": metadata, "spec": spec})
    };
    BTreeMap::from([("shop".to_owned(), behaviors.keys().map(of).collect())])
}

/// What makes another scenario of one.
type Alter = Box<dyn Fn(&mut Scenario)>;

/// The states of each Application, and when each began, in seconds since the start.
fn course(history: &History) -> BTreeMap<&String, Vec<(SpanKind, i64)>> {
    let since = |span: &HistorySpan| span.from.duration_since(history.start).as_secs();
    let states = |application: &ApplicationHistory| {
        application.spans.iter().map(|span| (span.state, since(span))).collect()
    };
    history.applications.iter().map(|(name, application)| (name, states(application))).collect()
}

#[test]
fn what_was_deployed_before_makes_no_difference_to_a_rollout() {
    let sizes = [2, 3];
    let behaves = |name: &'static str, outcome: WorkloadOutcome| {
        move |scenario: &mut Scenario| {
            scenario.behaviors.get_mut(name).unwrap().outcome = outcome;
        }
    };
    let happen = |actions: Vec<ScheduledAction>| {
        move |scenario: &mut Scenario| scenario.actions.clone_from(&actions)
    };
    let names = |name: &str| BTreeSet::from([name.to_owned()]);
    let policy = |spec: Value| {
        move |scenario: &mut Scenario| {
            scenario.objects.push(json!({
                "apiVersion": "wavegate.dev/v1alpha1",
                "kind": "RolloutPolicy",
                "metadata": {"name": "policy", "namespace": "argocd"},
                "spec": spec,
            }));
            scenario.behaviors.get_mut("s1-0").unwrap().outcome = WorkloadOutcome::Fails;
        }
    };
    let changes: Vec<(&str, Alter)> = vec![
        ("nothing", Box::new(|_| {})),
        ("a failure", Box::new(behaves("s0-1", WorkloadOutcome::Fails))),
        ("one that hangs", Box::new(behaves("s1-0", WorkloadOutcome::Hangs))),
        ("chance", Box::new(behaves("s0-0", WorkloadOutcome::Flaky(50)))),
        ("a second commit", Box::new(happen(vec![happens(40, FleetAction::Push(None))]))),
        (
            "a commit for one",
            Box::new(happen(vec![happens(40, FleetAction::Push(Some(names("s1-2"))))])),
        ),
        ("degraded", Box::new(happen(vec![happens(10, FleetAction::Degrade(names("s0-0")))]))),
        ("a rollback", Box::new(happen(vec![happens(50, FleetAction::Rollback)]))),
        ("an abort", Box::new(happen(vec![happens(50, FleetAction::Abort)]))),
        ("a skip", Box::new(happen(vec![happens(5, FleetAction::Skip(names("s1-1")))]))),
        (
            "a pause",
            Box::new(happen(vec![
                happens(5, FleetAction::Pause),
                happens(500, FleetAction::Resume),
            ])),
        ),
        ("a crash", Box::new(happen(vec![happens(35, FleetAction::Restart)]))),
        (
            "rolled back at a failure",
            Box::new(policy(json!({"failures": {"max": 0, "onFailure": "Rollback"}}))),
        ),
        (
            "a synced hook",
            Box::new(|scenario| {
                for behavior in scenario.behaviors.values_mut() {
                    behavior.sync = Duration::from_secs(20);
                }
            }),
        ),
    ];
    for (what, change) in changes {
        let mut scenario = with_namespaces(scenario(&sizes, json!(1)));
        change(&mut scenario);
        let before = run(&scenario).unwrap();
        scenario.before = FleetBefore::Deployed(generated(&sizes).into());
        let after = run(&scenario).unwrap();
        assert_eq!(course(&after), course(&before), "{what}");
        assert_eq!(std::mem::discriminant(&after.outcome), std::mem::discriminant(&before.outcome));
        let kinds = |history: &History| -> Vec<BTreeSet<WaitKind>> {
            history.waits.values().flatten().map(|waits| waits.kinds.clone()).collect()
        };
        assert_eq!(kinds(&after), kinds(&before), "{what}");
        assert_eq!(after.writes, before.writes, "{what}");
    }
}

#[test]
fn what_was_deployed_before_is_not_synced_again() {
    let sizes = [2, 2];
    let mut scenario = with_namespaces(scenario(&sizes, json!(null)));
    scenario.before = FleetBefore::Deployed(generated(&sizes).into());
    scenario.logs = true;
    let history = run(&scenario).unwrap();
    let creations = |one: &&str| one.contains(" create apps/deployments ");
    assert!(!history.log.lines().any(|line| creations(&line) && line.contains(" wavegate-0 ")));
    // Where syncs write in another way, the controllers deploy it.
    let mut deployed = generated(&sizes);
    for application in deployed.values_mut().flatten() {
        let options = ["CreateNamespace=true", "ServerSideApply=true"];
        application["spec"]["syncPolicy"]["syncOptions"] = json!(options);
    }
    scenario.objects[2]["spec"]["template"]["spec"] = json!({
        "project": "default",
        "source": {"repoURL": "https://example.com/shop.git", "path": "{{.name}}", "targetRevision": "main"},
        "destination": {"server": "https://kubernetes.default.svc", "namespace": "{{.name}}"},
        "syncPolicy": {"syncOptions": ["CreateNamespace=true", "ServerSideApply=true"]},
    });
    scenario.before = FleetBefore::Deployed(deployed.into());
    let history = run(&scenario).unwrap();
    assert_eq!(history.outcome, SpanEnd::Complete);
    assert!(history.log.lines().any(|line| line.contains(" wavegate-0 apply apps/deployments ")));
}
