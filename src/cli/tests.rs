//! Output of the commands for a set and its Applications, without a cluster.

use std::collections::BTreeMap;
use std::sync::Arc;

use clap::CommandFactory;
use serde_json::{Value, json};

use super::explain::{Explanation, explain, show};
use super::live_diff::{Change, Seen, compare};
use super::rollout_summary::{RolloutSummary, State};
use super::{generate, output, status};
use crate::desired::Generation;
use crate::settings::ApplicationSetSettings;

/// Applications of the set, by name.
type Applications = BTreeMap<String, Arc<Value>>;

/// A RollingSync of two steps, the second one with maxUpdate 0.
fn set(status: Value) -> Value {
    let step = |env: &str, max_update: Value| json!({"matchExpressions": [{"key": "env", "operator": "In", "values": [env]}], "maxUpdate": max_update});
    let steps = json!([step("dev", Value::Null), step("prod", json!(0))]);
    json!({
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "ApplicationSet",
        "metadata": {"name": "shop", "namespace": "argocd", "uid": "u1"},
        "spec": {"strategy": {"type": "RollingSync", "rollingSync": {"steps": steps}}},
        "status": status,
    })
}

fn entry(name: &str, step: &str, phase: &str) -> Value {
    json!({
        "application": name, "step": step, "status": phase, "message": format!("{name} is {phase}"),
        "targetRevisions": [], "lastTransitionTime": "2026-01-02T03:04:05Z",
    })
}

fn application(name: &str, status: Value) -> (String, Arc<Value>) {
    let owner = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet", "name": "shop", "uid": "u1", "controller": true,
        "blockOwnerDeletion": true,
    });
    let metadata = json!({"name": name, "namespace": "argocd", "ownerReferences": [owner]});
    (name.to_owned(), Arc::new(json!({"metadata": metadata, "status": status})))
}

fn deployment(health: &str, message: &str) -> Value {
    json!({
        "group": "apps", "kind": "Deployment", "namespace": "shop", "name": "web", "status": "Synced",
        "health": {"status": health, "message": message},
    })
}

fn explained(status: Value, applications: &[(String, Arc<Value>)]) -> Explanation {
    explain(&set(status), &applications.iter().cloned().collect::<Applications>())
}

#[test]
fn the_command_line_is_valid() {
    super::Cli::command().debug_assert();
}

#[test]
fn explain_summarizes_and_names_the_resource() {
    let progressing = || deployment("Progressing", "1 of 2 replicas are ready");
    let reported = json!({
        "rollout": {
            "step": 1, "steps": 2, "progress": "0/2", "message": "step 1 of 2",
            "waitingFor": [
                {"application": "dev", "reason": "OutOfSync, Progressing", "since": "2026-01-02T03:04:05Z", "until": "2026-01-02T03:09:05Z"},
            ],
        },
        "applicationStatus": [entry("dev", "1", "Progressing"), entry("prod", "2", "Waiting")],
    });
    let peer = |phase: &str| json!({"applicationStatus": [entry("dev", "1", phase), entry("prod", "2", "Waiting")]});
    let error = json!({"conditions": [
        {"type": "ErrorOccurred", "status": "True", "reason": "RenderTemplateParamsError", "message": "line 3"},
        {"type": "ResourcesUpToDate", "status": "True", "reason": "x", "message": "y"},
    ]});
    let resources = |resources: Value| json!({"sync": {"status": "Synced"}, "health": {"status": "Progressing"}, "resources": resources});
    let cases = [
        (
            "the status takes precedence, with the resource of the Application",
            reported.clone(),
            vec![application("dev", resources(json!([progressing()])))],
            "shop waits in step 1 of 2: dev: Deployment shop/web is Progressing: 1 of 2 replicas are ready",
        ),
        (
            "without a resource, the reason is used",
            reported,
            vec![application("dev", json!({}))],
            "shop waits in step 1 of 2: dev: OutOfSync, Progressing",
        ),
        (
            "the status of another controller is read as well",
            peer("Pending"),
            vec![application("dev", json!({}))],
            "shop waits in step 1 of 2: dev: dev is Pending",
        ),
        (
            "the worst resource is named",
            peer("Progressing"),
            vec![application(
                "dev",
                resources(json!([progressing(), deployment("Degraded", "image pull failed")])),
            )],
            "shop waits in step 1 of 2: dev: Deployment shop/web is Degraded: image pull failed",
        ),
        (
            "resources do not block an Application that has not started",
            peer("Healthy"),
            vec![application("prod", resources(json!([progressing()])))],
            "shop waits in step 2 of 2: prod: prod is Waiting",
        ),
        (
            "complete",
            json!({"rollout": {"step": 2, "steps": 2, "progress": "2/2"}, "applicationStatus": [entry("dev", "1", "Healthy")]}),
            vec![],
            "shop is not waiting: all 2 steps are complete",
        ),
        ("an error stops the rollout", error, vec![], "shop is stopped by an error: line 3"),
        (
            "no controller",
            json!({}),
            vec![],
            "shop does not roll out: no controller has reconciled it yet; check that a controller is running and watches its namespace",
        ),
        (
            "progressive syncs are disabled",
            json!({"conditions": []}),
            vec![],
            "shop does not roll out: strategy.type is RollingSync, but progressive syncs are disabled; start the controller with --enable-progressive-syncs",
        ),
    ];
    for (name, status, applications, want) in cases {
        assert_eq!(explained(status, &applications).summary, want, "{name}");
    }
}

#[test]
fn explain_suggests_an_action() {
    let status =
        json!({"applicationStatus": [entry("dev", "1", "Healthy"), entry("prod", "2", "Waiting")]});
    let held =
        explained(status.clone(), &[application("dev", json!({})), application("prod", json!({}))]);
    assert_eq!(held.waits.len(), 1);
    assert!(held.waits[0].advice.starts_with("maxUpdate of its step is 0"), "{held:?}");
    let text = show(&held);
    assert_eq!(text.lines().next(), Some(held.summary.as_str()));
    let plain = r#"patch application prod --type merge -p '{"operation":{"sync":{}}}'"#;
    assert!(text.contains(plain), "{text}");
    let (name, prod) = application("prod", json!({}));
    let mut prod = (*prod).clone();
    prod["metadata"]["namespace"] = "argocd".into();
    prod["spec"]["syncPolicy"]["syncOptions"] = json!(["CreateNamespace=true", "Odd='"]);
    let held = explained(status, &[application("dev", json!({})), (name, Arc::new(prod))]);
    assert_eq!(
        held.waits[0].advice,
        r#"maxUpdate of its step is 0: sync the Application manually, for example: kubectl -n argocd patch application prod --type merge -p '{"operation":{"sync":{"syncOptions":["CreateNamespace=true","Odd='\''"]}}}'"#
    );

    let resources = json!([deployment("Degraded", "\u{1b}[2Jgone\nnext")]);
    let status = json!({"applicationStatus": [entry("dev", "1", "Progressing")]});
    let ill = explained(status, &[application("dev", json!({"resources": resources}))]);
    assert_eq!(ill.waits[0].advice, "kubectl -n shop describe deployment.apps web");
    let text = show(&ill);
    assert!(text.starts_with("shop waits in step 1 of 2: dev: Deployment shop/web is Degraded: \\u{1b}[2Jgone\\nnext\n"), "{text}");
    assert!(!text.contains('\u{1b}'), "control characters are escaped");
}

#[test]
fn a_set_without_steps_waits_for_unhealthy_applications() {
    let mut all_at_once = set(json!({"conditions": []}));
    all_at_once["spec"] = json!({});
    let applications: Applications = [
        application("a", json!({"health": {"status": "Healthy"}})),
        application("b", json!({"health": {"status": "Missing"}})),
        ("c".to_owned(), Arc::new(json!({"metadata": {"name": "c"}}))),
    ]
    .into();
    let explanation = explain(&all_at_once, &applications);
    assert_eq!(
        explanation.summary,
        "shop has no steps and waits for b: sync status Unknown, health status Missing"
    );
    let summary = RolloutSummary::read(&all_at_once, &applications);
    assert_eq!(
        (summary.state, summary.complete, summary.total),
        (State::AllAtOnce, 1, 2),
        "c is not owned by the set"
    );
}

#[test]
fn no_status_causes_a_panic() {
    let odd = [
        json!(7),
        json!([]),
        json!({"rollout": 1, "conditions": {}, "applicationStatus": [1, {}]}),
    ];
    for status in odd {
        let explanation = explained(status.clone(), &[application("dev", json!([]))]);
        assert!(!explanation.summary.is_empty(), "{status}");
    }
    let rollout = json!({"rollout": {"step": u64::MAX, "progress": "9/x", "waitingFor": [1, {}]}});
    assert_eq!(explained(rollout, &[]).state, State::Rolling);
}

#[test]
fn sets_are_listed_by_namespace_and_name() {
    let named = |namespace: &str, name: &str| {
        let mut set = set(
            json!({"rollout": {"step": 1, "steps": 2, "progress": "1/3", "message": "running"}}),
        );
        set["metadata"]["namespace"] = namespace.into();
        set["metadata"]["name"] = name.into();
        Arc::new(set)
    };
    let summaries =
        status::summaries(&[named("b", "x"), named("a", "z"), named("a", "y")], Vec::new());
    let want = "\
NAMESPACE   APPSET   STRATEGY      STEP   DONE   HEALTH   MESSAGE
a           y        RollingSync   1/2    1/3    -        running
a           z        RollingSync   1/2    1/3    -        running
b           x        RollingSync   1/2    1/3    -        running
";
    assert_eq!(status::list(&summaries), want);
}

#[test]
fn offline_validation_checks_names_and_destinations() {
    let application = |name: &str, destination: Value| {
        json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": {"name": name},
            "spec": {"project": "p", "destination": destination},
        })
    };
    let server = || json!({"server": "https://1/"});
    let found = generate::invalid(&Generation::of([
        application("a", server()),
        application("b", json!({"name": "prod"})),
        application("c", json!({"name": "prod"})),
        application("d", json!({"name": "prod", "server": "https://1"})),
        application("e", json!({})),
        application("f", server()),
        application("f", server()),
        application("", server()),
    ]));
    assert_eq!(found.keys().collect::<Vec<_>>(), ["d", "e", "elements[7]", "f"], "{found:?}");
}

#[test]
fn a_live_plan_lists_the_writes() {
    let file = set(Value::Null);
    let mut stored = set(json!({"applicationStatus": [entry("same", "1", "Healthy")]}));
    stored["metadata"]["uid"] = "u1".into();
    let mut unknown = file.clone();
    unknown["metadata"]["uid"] = Value::Null;
    let generated =
        |name: &str| json!({"metadata": {"name": name}, "spec": {"project": "default"}});
    let live = |name: &str, spec: Value| {
        let (name, mut live) = application(name, json!({"sync": {"status": "Synced"}}));
        Arc::make_mut(&mut live)["spec"] = spec;
        (name, live)
    };
    let existing: Applications = [
        live("same", json!({"project": "default"})),
        live("other", json!({"project": "else"})),
        live("gone", json!({})),
    ]
    .into();
    let applications = Generation::of(["same", "other", "new", "bad"].map(generated));
    let invalid = [("bad".to_owned(), "it is bad".to_owned())].into();
    let settings = ApplicationSetSettings::default();
    let compare = |set: &Value, stored: Option<&Value>, generation: &Generation, invalid| {
        let (existing, settings) = (&existing, &settings);
        compare(&Seen { set, stored, generation, invalid, existing, clusters: &[], settings })
    };
    let plan = compare(&file, Some(&stored), &applications, &invalid);
    let changes: Vec<(&str, Change)> =
        plan.iter().map(|live| (live.application.as_str(), live.change)).collect();
    let want = [
        ("bad", Change::Refuse),
        ("gone", Change::Wait),
        ("new", Change::Create),
        ("other", Change::Update),
        ("same", Change::None),
    ];
    assert_eq!(changes, want);
    assert_eq!((plan[4].phase.as_str(), plan[4].sync.as_str()), ("Healthy", "Synced"));
    assert_eq!(plan[1].message, "deleted once application bad is valid");
    let well = Generation::of(["same", "other"].map(generated));
    let none = BTreeMap::new();
    let plan = compare(&file, Some(&stored), &well, &none);
    assert_eq!((plan[0].application.as_str(), plan[0].change), ("gone", Change::Delete));
    // A set that does not exist in the cluster owns and deletes nothing.
    let plan = compare(&unknown, None, &applications, &invalid);
    assert!(plan.iter().all(|live| live.change != Change::Delete), "{plan:?}");
}

#[test]
fn hostile_text_is_shown_as_escapes() {
    let cases = [
        ("plain ü 漢", "plain ü 漢"),
        ("a\nb\tc\rd", "a\\nb\\tc\\rd"),
        ("\u{1b}[31m\u{9b}2J\u{7f}", "\\u{1b}[31m\\u{9b}2J\\u{7f}"),
        ("\u{202e}txt", "\\u{202e}txt"),
    ];
    for (text, want) in cases {
        assert_eq!(output::printable(text), want);
    }
    let coloured = "\u{1b}[31m-a\u{1b}[0m\nb\u{9b}\n";
    assert_eq!(output::printable_lines(coloured, true), "\u{1b}[31m-a\u{1b}[0m\nb\\u{9b}\n");
    assert_eq!(output::printable_lines("a\u{1b}\n", false), "a\\u{1b}\n");
    assert_eq!(output::some_of(["a", "b", "c"], 2), "a, b and 1 more");
    assert_eq!(
        output::table(["A", "B"], [["x\ny".to_owned(), String::new()]]),
        "A      B\nx\\ny\n"
    );
}
