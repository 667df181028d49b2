//! Output of the commands for a set and its Applications, without a cluster.

mod advised;
mod ended_runs;
mod outcomes;
mod waits;
mod words;

use std::collections::BTreeMap;
use std::sync::Arc;
use wavegate_engine::names::some_of;

use clap::CommandFactory;
use serde_json::{Value, json};

use crate::cli::console::commands::sync_commands;
use crate::cli::console::output;
use crate::cli::explain::{Explanation, explain_as, show, show_at};
use crate::cli::files::generate;
use crate::cli::plan::live_diff::{Change, Input, Seen, compare};
use crate::cli::status;
use crate::cli::status::SetSummary;
use wavegate_controller::settings::ApplicationSetSettings;
use wavegate_rollout::desired::Generation;
use wavegate_rollout::requests::Run;
use wavegate_rollout::rollout::policy::Rules;
use wavegate_rollout::rollout::report::ReportState;

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

fn explain(set: &Value, applications: &Applications, run: Option<&Run>) -> Explanation {
    explain_as(set, applications, run, &[], jiff::Timestamp::now(), false)
}

fn deployment(health: &str, message: &str) -> Value {
    json!({
        "group": "apps", "kind": "Deployment", "namespace": "shop", "name": "web", "status": "Synced",
        "health": {"status": health, "message": message},
    })
}

fn explained(status: Value, applications: &[(String, Arc<Value>)]) -> Explanation {
    explain(&set(status), &applications.iter().cloned().collect::<Applications>(), None)
}

#[test]
fn the_command_line_is_valid() {
    crate::cli::Cli::command().debug_assert();
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
            "the Application was read after the status",
            reported.clone(),
            vec![application("dev", resources(json!([progressing()])))],
            "shop waits in step 1 of 2: dev: Deployment shop/web is Progressing: 1 of 2 replicas are ready",
        ),
        (
            "the reason in the status takes precedence over an empty Application",
            reported.clone(),
            vec![application("dev", json!({}))],
            "shop waits in step 1 of 2: dev: OutOfSync, Progressing",
        ),
        (
            "the Application is done before the status says so",
            reported,
            vec![application(
                "dev",
                json!({"sync": {"status": "Synced"}, "health": {"status": "Healthy"}}),
            )],
            "shop waits in step 1 of 2: dev: it is Synced and Healthy, its step is being updated",
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
            vec![application("dev", {
                let failed = deployment("Degraded", "image pull failed");
                let mut status = resources(json!([progressing(), failed]));
                status["health"]["status"] = "Degraded".into();
                status
            })],
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
        (
            "complete, but for deletions",
            json!({"rollout": {"step": 2, "steps": 2, "progress": "2/2"},
                "conditions": [{"type": "DeletionsHeld", "status": "True", "reason": "TooManyDeletions", "message": "3 wait"}]}),
            vec![],
            "shop holds deletions until a person approves them: there is no Application: the generators find none",
        ),
        (
            "complete, but for one that no step selects",
            json!({"rollout": {"step": 2, "steps": 2, "progress": "1/1"},
                "applicationStatus": [entry("dev", "1", "Healthy"), entry("lab", "-1", "Waiting")]}),
            vec![application("lab", json!({"sync": {"status": "OutOfSync"}}))],
            "shop has completed all 2 steps and waits for lab: no step selects it: it waits for a manual sync",
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
fn a_controller_is_missed_after_some_seconds() {
    let status = json!({"applicationStatus": [entry("dev", "1", "Pending")]});
    let applications = [application("dev", json!({}))].into();
    for (now, want) in [
        ("2026-01-02T03:04:14Z", "nothing to do: its operation was just requested"),
        ("2026-01-02T03:04:15Z", "its operation was not started yet: check that "),
    ] {
        let explained =
            explain_as(&set(status.clone()), &applications, None, &[], now.parse().unwrap(), false);
        assert!(explained.waits[0].advice.starts_with(want), "{now}: {explained:?}");
    }
}

#[test]
fn a_command_names_all_applications_up_to_a_limit() {
    assert_eq!(sync_commands(&["a", "b"], "argocd"), "wavegate sync -n argocd a b");
    let many = sync_commands(&["a"; 12], "");
    assert_eq!(many, format!("wavegate sync{}  # and 2 more", " a".repeat(10)));
}

#[test]
fn explain_suggests_an_action() {
    let status =
        json!({"applicationStatus": [entry("dev", "1", "Healthy"), entry("prod", "2", "Waiting")]});
    let held =
        explained(status.clone(), &[application("dev", json!({})), application("prod", json!({}))]);
    assert_eq!(held.waits.len(), 1);
    let want = "maxUpdate of its step is 0, so sync it yourself: wavegate sync -n argocd prod";
    assert_eq!(held.waits[0].advice, want, "{held:?}");
    let text = show(&held);
    assert_eq!(text.lines().next(), Some(held.summary.as_str()));
    assert!(text.contains(&format!("\n  prod: {want}\n")), "{text}");

    let resources = json!([deployment("Degraded", "\u{1b}[2Jgone\nnext")]);
    let status = json!({"applicationStatus": [entry("dev", "1", "Progressing")]});
    let ill = explained(status, &[application("dev", json!({"resources": resources}))]);
    let want = "kubectl -n shop describe deployment.apps web; a commit that fixes the cause is rolled out by itself";
    assert_eq!(ill.waits[0].advice, want);
    let text = show(&ill);
    assert!(text.starts_with("shop waits in step 1 of 2: dev: Deployment shop/web is Degraded: \\u{1b}[2Jgone\\nnext\n"), "{text}");
    assert!(!text.contains('\u{1b}'), "control characters are escaped");

    let mut odd = deployment("Degraded", "");
    odd["name"] = "a'; rm -rf $HOME #".into();
    let status = json!({"applicationStatus": [entry("dev", "1", "Progressing")]});
    let ill = explained(status, &[application("dev", json!({"resources": [odd]}))]);
    let want = r"kubectl -n shop describe deployment.apps 'a'\''; rm -rf $HOME #'";
    assert_eq!(ill.waits[0].actions[0].text, want, "a shell takes it as one word");
}

#[test]
fn explain_says_how_to_go_on_after_a_failed_sync_and_who_waits_behind() {
    let mut entries = vec![entry("dev", "1", "Progressing"), entry("done", "2", "Healthy")];
    entries.extend((0..14).map(|number| entry(&format!("prod-{number:02}"), "2", "Waiting")));
    entries.push(entry("last", "4", "Waiting"));
    entries.push(entry("unlisted", "-1", "Waiting"));
    let failed = json!({
        "sync": {"status": "Synced"}, "health": {"status": "Degraded"},
        "resources": [deployment("Degraded", "image pull failed")],
        "operationState": {
            "phase": "Failed", "message": "one or more synchronization tasks completed unsuccessfully",
            "syncResult": {"resources": [{
                "group": "apps", "kind": "Deployment", "namespace": "shop", "name": "web",
                "status": "Synced", "hookPhase": "Failed", "message": "image pull failed",
            }]},
        },
    });
    let explained = explained(json!({"applicationStatus": entries}), &[application("dev", failed)]);
    let now = "2026-01-02T03:07:10Z".parse().unwrap();
    let want = "\
shop waits in step 1 of 2: dev: its sync failed: Deployment shop/web is Degraded: image pull failed

APPLICATION   STEP   PHASE         SYNC     HEALTH     FOR    LEFT   WAITS FOR
dev           1      Progressing   Synced   Degraded   3m5s   -      its sync failed: Deployment shop/web is Degraded: image pull failed

Behind it, in steps 2 to 4: prod-00, prod-01, prod-02, prod-03, prod-04, prod-05, prod-06, prod-07, prod-08, prod-09 and 5 more (--all shows them)

What to do:
  dev: kubectl -n shop describe deployment.apps web
  dev: a commit that fixes the cause is rolled out by itself
  dev: without a new commit, start a new sync: wavegate sync -n argocd dev
";
    assert_eq!(show_at(&explained, now), want);
    let json = serde_json::to_value(&explained).unwrap();
    assert_eq!((&json["behind"]["count"], &json["behind"]["lastStep"]), (&json!(15), &json!(4)));
}

#[test]
fn an_application_that_cannot_be_created_is_explained_and_listed() {
    let error = "application App_a: 422: invalid name";
    let status = json!({
        "conditions": [{"type": "ErrorOccurred", "status": "True", "reason": "CreateApplicationError", "message": error}],
        "rollout": {"step": 1, "steps": 2, "progress": "1/3", "message": "step 1 of 2; App_a waits: x",
            "waitingFor": [{"application": "App_a", "reason": "it cannot be created: 422: invalid name"}]},
        "applicationStatus": [entry("dev", "1", "Healthy"), entry("prod", "2", "Waiting")],
    });
    let applications = [application("dev", json!({})), application("prod", json!({}))];
    let explained = explained(status.clone(), &applications);
    assert_eq!(
        explained.summary,
        "shop waits in step 1 of 2: App_a: it cannot be created: 422: invalid name"
    );
    assert!(explained.waits[0].advice.starts_with("fix the cause"), "{explained:?}");
    assert_eq!(explained.behind.unwrap().applications, ["prod"]);
    let applications: Applications = applications.into();
    let summary = SetSummary::read(&set(status), &applications, None, &[]);
    assert_eq!(summary.message, "step 1 of 2; App_a waits: x", "as kubectl shows it");
    let rows: Vec<_> =
        summary.applications.iter().map(|one| (one.application.as_str(), one.step)).collect();
    assert_eq!(rows, [("App_a", Some(1)), ("dev", Some(1)), ("prod", Some(2))]);
    assert_eq!(summary.applications[0].message, "it cannot be created: 422: invalid name");
}

#[test]
fn the_latest_run_is_shown_as_st_080() {
    let run = |name: &str, phase: &str, uid: &str| {
        let owner = json!([{"kind": "ApplicationSet", "name": "shop", "uid": uid, "controller": true,
            "apiVersion": "argoproj.io/v1alpha1"}]);
        Arc::new(json!({
            "metadata": {"name": name, "namespace": "argocd", "ownerReferences": owner},
            "spec": {"applicationSet": "shop"},
            "status": {
                "phase": phase, "progress": "3/14", "total": 14, "done": 3, "failed": 1,
                "message": "gate production waits", "estimate": {
                    "leastSeconds": 60, "mostSeconds": 120, "runs": 2,
                },
            },
        }))
    };
    let set = set(json!({}));
    let uid = set["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
    let runs = [
        run("shop-9", "Complete", &uid),
        run("shop-10", "AwaitingApproval", &uid),
        run("shop-11", "Progressing", "another"),
    ];
    let summary = SetSummary::read(&set, &Applications::new(), None, &[]);
    assert_eq!(serde_json::to_value(&summary).unwrap().get("run"), None);
    let of_all = status::summaries(&[Arc::new(set)], Vec::new(), &runs, &[]);
    let [summary] = of_all.as_slice() else { panic!("{of_all:?}") };
    let text = status::one_at(summary, "2026-01-04T03:04:05Z".parse().unwrap());
    let line = text.lines().nth(1).unwrap();
    let want = "run shop-10 AwaitingApproval 3/14, 1 failed: gate production waits; about ";
    assert!(line.starts_with(want), "{text}");
    let json = serde_json::to_value(summary).unwrap();
    assert_eq!(
        (&json["run"]["name"], &json["run"]["phase"]),
        (&json!("shop-10"), &json!("AwaitingApproval"))
    );
    // The list has a column for it, if there is any run: the columns before it stay in place.
    let list = status::list(&of_all);
    assert!(list.contains("HEALTH   RUN                           MESSAGE\n"), "{list}");
    assert!(list.contains("   AwaitingApproval (1 failed)   "), "{list}");
    assert!(!status::list(&[SetSummary { run: None, ..summary.clone() }]).contains("RUN"));
}

#[test]
fn applications_are_listed_in_the_order_of_the_steps() {
    let entries = [("z", "1"), ("a", "2"), ("m", "1"), ("none", "-1"), ("b", "10")]
        .map(|(name, step)| entry(name, step, "Waiting"));
    let summary = SetSummary::read(
        &set(json!({"applicationStatus": entries})),
        &Applications::new(),
        None,
        &[],
    );
    let table = status::one_at(&summary, "2026-01-04T03:04:05Z".parse().unwrap());
    let rows: Vec<&str> = table.lines().skip(2).collect();
    let want = [
        "APPLICATION   STEP   PHASE     SYNC   HEALTH   OPERATION   FOR   MESSAGE",
        "m             1      Waiting   -      -        -           2d    m is Waiting",
        "z             1      Waiting   -      -        -           2d    z is Waiting",
        "a             2      Waiting   -      -        -           2d    a is Waiting",
        "b             10     Waiting   -      -        -           2d    b is Waiting",
        "none          -      Waiting   -      -        -           2d    no step selects it: it waits for a manual sync",
    ];
    assert_eq!(rows, want);
}

#[test]
fn the_operation_of_each_application_is_listed() {
    let running = json!({"phase": "Running", "operation": {}, "syncResult": {"resources": [
        {"kind": "Service", "namespace": "n", "name": "web", "syncPhase": "Sync", "hookPhase": "Running"}]}});
    let resources = json!([{"kind": "Service", "namespace": "n", "name": "web", "syncWave": 3}]);
    let (name, mut requested) = application("c", json!({}));
    Arc::make_mut(&mut requested)["operation"] = json!({"sync": {}});
    let applications = [
        application("a", json!({"operationState": running, "resources": resources})),
        application("b", json!({"operationState": {"phase": "Failed", "operation": {}}})),
        (name, requested),
        application("d", json!({})),
    ];
    let entries = ["a", "b", "c", "d"].map(|name| entry(name, "1", "Progressing"));
    let summary = SetSummary::read(
        &set(json!({"applicationStatus": entries})),
        &applications.into(),
        None,
        &[],
    );
    let found: Vec<&str> = summary.applications.iter().map(|one| one.operation.as_str()).collect();
    assert_eq!(found, ["Sync wave 3", "Failed", "Requested", ""]);
}

/// ST-020: a set that was paused after its run had ended looked as if it were not.
#[test]
fn a_paused_set_says_so_whatever_its_run_is() {
    let mut set = set(json!({"rollout": {"step": 2, "steps": 2, "progress": "1/1"}}));
    let paused = |set: &Value, phase: Option<&str>| {
        let run =
            phase.map(|phase| Run::read(&json!({"status": {"phase": phase, "progress": "1/1"}})));
        let summary = SetSummary::read(set, &Applications::new(), run.as_ref(), &[]);
        let explained = explain(set, &Applications::new(), run.as_ref());
        assert_eq!(explained.paused, summary.paused);
        let texts =
            [status::one(&summary), status::list(std::slice::from_ref(&summary)), show(&explained)];
        let is_said = |text: &String| summary.paused.as_ref().is_none_or(|why| text.contains(why));
        assert!(texts.iter().all(is_said), "{texts:?}");
        summary.paused
    };
    assert_eq!(paused(&set, Some("RolledBack")), None);
    set["metadata"]["annotations"] = json!({"wavegate.dev/paused": "db migration (ann)"});
    let why =
        "paused: db migration (ann): nothing is promoted until wavegate resume -n argocd shop";
    for phase in [None, Some("RolledBack"), Some("Complete"), Some("Aborted")] {
        assert_eq!(paused(&set, phase).as_deref(), Some(why), "{phase:?}");
    }
    assert_eq!(paused(&set, Some("Paused")), None, "its run says so");
    set["spec"]["strategy"] = Value::Null;
    assert_eq!(paused(&set, None), None, "nothing holds a set without steps");
}

/// ST-020: the same of a set that a policy pauses, which `resume` does not end.
#[test]
fn a_set_that_a_policy_pauses_says_so_whatever_its_run_is() {
    let mut set = set(json!({"rollout": {"step": 2, "steps": 2, "progress": "1/1"}}));
    let policy = |name: &str, spec: Value| {
        Arc::new(json!({"metadata": {"name": name, "namespace": "argocd"}, "spec": spec}))
    };
    let policies = [
        policy("freeze", json!({"paused": true, "applicationSets": {"names": ["shop"]}})),
        policy("other", json!({"paused": true, "applicationSets": {"names": ["other"]}})),
        policy("gates", json!({"paused": false})),
    ];
    let paused = |set: &Value, phase: Option<&str>| {
        let run =
            phase.map(|phase| Run::read(&json!({"status": {"phase": phase, "progress": "1/1"}})));
        let (none, now) = (Applications::new(), jiff::Timestamp::now());
        let summary = SetSummary::read(set, &none, run.as_ref(), &policies);
        let explained = explain_as(set, &none, run.as_ref(), &policies, now, false);
        assert_eq!(explained.paused, summary.paused);
        summary.paused
    };
    let why = "paused by RolloutPolicy freeze: nothing is promoted until kubectl -n argocd patch rolloutpolicy \
               freeze --type merge -p '{\"spec\":{\"paused\":false}}'";
    for phase in [None, Some("RolledBack"), Some("Complete")] {
        assert_eq!(paused(&set, phase).as_deref(), Some(why), "{phase:?}");
    }
    assert_eq!(paused(&set, Some("Paused")), None, "its run says so");
    set["metadata"]["annotations"] = json!({"wavegate.dev/paused": "db migration (ann)"});
    let by_person =
        "paused: db migration (ann): nothing is promoted until wavegate resume -n argocd shop";
    assert_eq!(paused(&set, None), Some(format!("{by_person}; {why}")));
    set["spec"]["strategy"] = Value::Null;
    assert_eq!(paused(&set, None), None, "nothing holds a set without steps");
}

#[test]
fn a_status_that_lists_only_some_applications_says_so_as_191() {
    let listed = json!([{"name": "a"}, {"name": "b"}]);
    let read = |count: usize| {
        let status = json!({"resources": listed, "resourcesCount": count});
        SetSummary::read(&set(status), &Applications::new(), None, &[])
    };
    let note = "note: status.resources is truncated: it does not list all 3 Applications";
    assert!(status::one(&read(3)).lines().any(|line| line.starts_with(note)));
    assert!(!status::one(&read(2)).contains("truncated"));
}

#[test]
fn states_are_coloured_without_a_change_of_the_columns() {
    let rows = || {
        [
            ["ü漢", "Healthy", "Healthy"].map(str::to_owned),
            ["b", "Degraded", "x"].map(str::to_owned),
            ["c", "", ""].map(str::to_owned),
        ]
    };
    let header = ["NAME", "HEALTH", "MESSAGE"];
    let plain = "NAME   HEALTH     MESSAGE\nü漢    Healthy    Healthy\nb      Degraded   x\nc\n";
    assert_eq!(output::table_in(header, rows(), false), plain);
    let coloured = output::table_in(header, rows(), true);
    assert!(coloured.contains("ü漢    \u{1b}[32mHealthy\u{1b}[0m    Healthy\n"), "{coloured:?}");
    assert!(coloured.contains("b      \u{1b}[31mDegraded\u{1b}[0m   x\n"), "{coloured:?}");
    let removed = ["\u{1b}[32m", "\u{1b}[31m", "\u{1b}[0m"];
    let without = removed.iter().fold(coloured, |text, code| text.replace(code, ""));
    assert_eq!(without, plain);
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
    assert_eq!(explained(rollout, &[]).state, ReportState::Rolling);
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
    let summaries = status::summaries(
        &[named("b", "x"), named("a", "z"), named("a", "y")],
        Vec::new(),
        &[],
        &[],
    );
    let want = "\
NAMESPACE   APPSET   STRATEGY      STEP   DONE   HEALTH   MESSAGE
a           y        RollingSync   1/2    1/3    -        running
a           z        RollingSync   1/2    1/3    -        running
b           x        RollingSync   1/2    1/3    -        running
";
    assert_eq!(status::list(&summaries), want);
}

/// Deletions that wait for a person (C16) show in the row, and with the command in `explain`.
#[test]
fn held_deletions_are_reported() {
    let held = json!({
        "type": "DeletionsHeld", "status": "True", "reason": "GeneratorFoundNothing",
        "message": "spec.generators[0].git found nothing; to delete them: kubectl annotate",
    });
    let status = json!({
        "rollout": {"step": 1, "steps": 2, "progress": "1/3", "message": "running"},
        "conditions": [held],
    });
    let summary = SetSummary::read(&set(status.clone()), &Applications::new(), None, &[]);
    assert!(summary.message.starts_with("running; deletions are held"), "{}", summary.message);
    let shown = show(&explained(status, &[]));
    let line = "DeletionsHeld (GeneratorFoundNothing): spec.generators[0].git found nothing;";
    assert!(shown.contains(line), "{shown}");
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
    let rules = Rules::default();
    let compare = |set: &Value, stored: Option<&Value>, generation: &Generation, invalid| {
        let (existing, settings) = (&existing, &settings);
        compare(&Seen {
            input: Input { set, stored, generation, rules: &rules },
            invalid,
            existing,
            clusters: &[],
            settings,
            others: &[],
        })
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
    assert_eq!((plan[4].phase, plan[4].sync.as_str()), ("Healthy", "Synced"));
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
        assert_eq!(output::printable_text(text), want);
    }
    let coloured = "\u{1b}[31m-a\u{1b}[0m\nb\u{9b}\n";
    assert_eq!(output::printable_lines(coloured, true), "\u{1b}[31m-a\u{1b}[0m\nb\\u{9b}\n");
    assert_eq!(output::printable_lines("a\u{1b}\n", false), "a\\u{1b}\n");
    assert_eq!(some_of(["a", "b", "c"], 2), "a, b and 1 more");
    assert_eq!(
        output::table(["A", "B"], [["x\ny".to_owned(), String::new()]]),
        "A      B\nx\\ny\n"
    );
}
