//! What policies hold of a set, and what is shown of the Applications that a run has ended for.

use super::*;
use crate::requests::is_quarantined;
use crate::rollout::report::ApplicationReport;

/// ST-020: a set is paused by each policy that selects it and says so; one that cannot be understood
/// may say so, too. Without steps a pause holds nothing.
#[test]
fn a_set_is_paused_by_the_policies_that_select_it_st_020() {
    let named = |name: &str, spec: Value| {
        Arc::new(json!({"metadata": {"name": name, "namespace": "argocd"}, "spec": spec}))
    };
    let pauses =
        |name: &str, sets: Value| named(name, json!({"paused": true, "applicationSets": sets}));
    let command = |name: &str| {
        format!(
            "kubectl -n argocd patch rolloutpolicy {name} --type merge -p '{{\"spec\":{{\"paused\":false}}}}'"
        )
    };
    let rolling = set(json!({}), rolling());
    let mut plain = rolling.clone();
    plain["spec"]["strategy"] = json!({"type": "AllAtOnce"});
    let mut stepless = rolling.clone();
    stepless["spec"]["strategy"]["rollingSync"]["steps"] = json!([]);
    let one = vec![pauses("night", json!({"names": ["shop"]}))];
    let two = vec![pauses("a", json!(null)), pauses("b", json!({"names": ["shop"]}))];
    let other = vec![pauses("night", json!({"names": ["other"]}))];
    let odd = vec![pauses("night", json!(7))];
    let calm = vec![named("night", json!({"paused": false}))];
    let want = |names: &str, commands: &[&str]| {
        let commands: Vec<String> = commands.iter().map(|one| command(one)).collect();
        Some(format!(
            "paused by RolloutPolicy {names}: nothing is promoted until {}",
            commands.join(" and ")
        ))
    };
    for (name, set, policies, want) in [
        ("one", &rolling, &one, want("night", &["night"])),
        ("two", &rolling, &two, want("a, b", &["a", "b"])),
        ("another set", &rolling, &other, None),
        ("not understood", &rolling, &odd, want("night", &["night"])),
        ("it does not pause", &rolling, &calm, None),
        ("all at once", &plain, &one, None),
        ("without steps", &stepless, &one, None),
    ] {
        assert_eq!(paused_by_policies(set, policies), want, "{name}");
    }
    // A pause would hold nothing of it.
    for set in [&plain, &stepless] {
        assert!(told(&pause_set(set, None, "ann")).starts_with("refused: it has no steps"));
    }
    assert!(told(&pause_set(&rolling, None, "ann")).starts_with("will pause it"));
}

/// How many are not complete is shown where it is known.
#[test]
fn a_pause_says_how_many_are_not_complete() {
    for (progress, want) in [
        ("12/30", "; 18 of 30 Applications are not complete"),
        ("0/1", "; 1 of 1 Application are not complete"),
        ("31/30", "; 0 of 30 Applications are not complete"),
        ("0/0", ""),
        ("x/30", ""),
        ("12", ""),
    ] {
        let status = json!({"rollout": {"step": 1, "steps": 2, "progress": progress}});
        let shown = told(&pause_set(&set(json!({}), status), None, "ann"));
        let want =
            format!("will pause it: nothing is promoted{want}; running syncs end by themselves");
        assert_eq!(shown, want, "{progress}");
    }
}

/// ST-060: only what a run that is known has ended for is in quarantine, for the spec that it was
/// started with.
#[test]
fn an_application_without_a_start_is_not_in_quarantine_st_060() {
    let live = |spec: Option<&str>| {
        let mut found = report_input::read_application(&json!({"metadata": {"name": "a"}}));
        found.started_spec = spec.map(str::to_owned);
        found
    };
    let ended = |quarantine: &str| Run {
        is_known: true,
        status: serde_json::from_value(json!({"quarantine": quarantine})).unwrap(),
        ..Run::default()
    };
    let found: ApplicationReport = live(Some("s"));
    assert!(!is_quarantined(&ended(""), "a", &found), "nothing is");
    assert!(!is_quarantined(&ended("x"), "a", &live(None)));
    assert!(!is_quarantined(&Run::default(), "a", &found));
}

/// A run as it is stored: what it has started, what is left, and why a word makes no sense now.
#[test]
fn a_run_says_how_far_it_is() {
    let step = |done: i64, in_flight: i64, failed: i64, total: i64| json!({"done": done, "inFlight": in_flight, "failed": failed, "total": total});
    let state = json!({
        "phase": "Progressing", "done": 3, "total": 8,
        "steps": [step(2, 1, 0, 3), step(1, 3, 4, 5), step(0, 0, 0, 2)],
    });
    let found = Run::read(&run("shop-3", json!({}), state));
    assert_eq!((found.left(), found.in_flight(), found.started()), (5, 4, 3 + 5));
    assert!(found.is_known && !found.is_paused);
    let over = Run::read(&run("shop-3", json!({}), json!({"done": 9, "total": 8})));
    assert_eq!(over.left(), 0);
    let unknown = Run::read(&run("shop-3", json!({}), Value::Null));
    assert!(!unknown.is_known && !unknown.is_paused);
    // Its set says whether it is paused before the controller has written it.
    let paused = Run::read(&run("shop-3", json!({}), json!({"phase": "Paused"})));
    assert!(paused.is_paused);
    let stored = run("shop-3", json!({}), json!({"phase": "Progressing"}));
    let held = set(json!({PAUSED: "x (ann)"}), Value::Null);
    assert!(Run::of(&held, &stored).is_paused);
    assert!(!Run::of(&set(json!({}), Value::Null), &stored).is_paused);
}

/// What a person has confirmed is written, and nothing more: the object may have changed since it was
/// shown. When it was written does not count.
#[test]
fn only_what_was_confirmed_is_written() {
    let entry =
        |gate: &str, covers: &str, at: &str| json!({"gate": gate, "covers": covers, "at": at});
    let approvals = |entries: &[Value]| RequestedChange::Entries {
        list: "approvals",
        entries: entries.to_vec(),
    };
    let skip = |names: &[&str], undo: bool, at: &str| RequestedChange::Skip {
        names: names.iter().map(|&one| one.to_owned()).collect(),
        undo,
        said: json!({"at": at}),
    };
    let one = || entry("prod", "c1", "1");
    let other_list = || RequestedChange::Entries { list: "retries", entries: vec![one()] };
    for (name, change, confirmed, want) in [
        ("the same", approvals(&[one()]), approvals(&[one()]), true),
        ("later", approvals(&[entry("prod", "c1", "2")]), approvals(&[one()]), true),
        ("fewer", approvals(&[one()]), approvals(&[one(), entry("qa", "c1", "1")]), true),
        ("more", approvals(&[one(), entry("qa", "c1", "1")]), approvals(&[one()]), false),
        ("other targets", approvals(&[entry("prod", "c2", "1")]), approvals(&[one()]), false),
        ("another list", other_list(), approvals(&[one()]), false),
        ("a plain one", approvals(&[json!("a")]), approvals(&[json!("a"), json!("b")]), true),
        ("another plain one", approvals(&[json!("c")]), approvals(&[json!("a")]), false),
        ("the same skip", skip(&["a"], false, "2"), skip(&["a", "b"], false, "1"), true),
        ("another skip", skip(&["a", "c"], false, "2"), skip(&["a", "b"], false, "1"), false),
        ("the other way", skip(&["a"], true, "1"), skip(&["a"], false, "1"), false),
        ("something else", skip(&["a"], true, "1"), approvals(&[one()]), false),
    ] {
        assert_eq!(change.is_within(&confirmed), want, "{name}");
    }
}
