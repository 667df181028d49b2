//! `wavegate simulate`: a rollout on a clock that jumps.

use super::embedded::Cluster;
use super::*;

const REGIONS: &str = "examples/regions.yaml";

fn simulate(args: &[&str]) -> Run {
    let file = super::repository(REGIONS);
    let mut all = vec!["simulate", "-f", &file];
    all.extend(args);
    with_input(&all, String::new())
}

#[test]
fn hours_are_simulated_in_seconds_and_what_took_them_is_said() {
    let began = std::time::Instant::now();
    let run = simulate(&["--health", "1h", "-o", "json"]);
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    let report = run.json();
    assert_eq!(report["outcome"]["end"], "Complete");
    // One batch, one of two, and two of one.
    let seconds = report["seconds"].as_i64().unwrap();
    assert!((14_400..14_460).contains(&seconds), "{seconds}");
    assert!(began.elapsed().as_secs() < 600, "{:?}", began.elapsed());
    let path: Vec<(i64, &str)> = report["criticalPath"]
        .as_array()
        .unwrap()
        .iter()
        .map(|part| (part["seconds"].as_i64().unwrap() / 3600, part["shorten"].as_str().unwrap()))
        .collect();
    assert_eq!(path.iter().map(|(hours, _)| *hours).collect::<Vec<_>>(), [1, 1, 2]);
    assert_eq!(path[2].1, "maxUpdate of step 3");
    let text = simulate(&["--health", "1h"]).out;
    assert!(text.contains("What would shorten it the most: maxUpdate of step 3."), "{text}");
}

/// A way back to the first commit took no time, and so a rollback was seconds where it is an hour
/// in a cluster.
#[test]
fn a_way_back_takes_the_time_that_syncs_take() {
    // Steps of four at once, two at once, and two one after the other, which has begun after 25 m.
    let ends = |args: &[&str]| {
        let run = simulate(&[&["--health", "10m", "-o", "json"], args].concat());
        let report = run.json();
        (
            report["outcome"]["end"].as_str().unwrap_or_default().to_owned(),
            report["seconds"].clone(),
        )
    };
    let cases: [(&[&str], i64); 6] = [
        // The last step goes back first, then the two others.
        (&["--rollback-at", "25m"], 55),
        (&["--sync", "5m", "--rollback-at", "37m"], 37 + 45),
        (&["--slow", "storefront-staging-us-east=30m", "--rollback-at", "35m"], 35 + 40),
        // Forward again: four batches.
        (&["--rollback-at", "25m", "--push", "2h"], 120 + 40),
        // The first deployment, and the way back from the second one.
        (&["--first"], 40),
        (&["--first", "--push", "1h", "--rollback-at", "75m"], 75 + 20),
    ];
    for (args, minutes) in cases {
        let (end, seconds) = ends(args);
        let seconds = seconds.as_i64().unwrap();
        let want = minutes * 60..minutes * 60 + 60;
        assert!(want.contains(&seconds), "{args:?}: {seconds} s, not {minutes} m: {end}");
    }
}

#[test]
fn a_rollout_that_would_stall_is_refused_with_its_reason() {
    let run = simulate(&["--fail", "storefront-*-us-west@2", "-o", "json"]);
    assert_eq!(run.code, 1);
    let report = run.json();
    assert_eq!(report["outcome"]["end"], "Stuck");
    let message = report["outcome"]["message"].as_str().unwrap();
    assert!(message.contains("step 2 of 3"), "{message}");
    assert!(message.contains("storefront-production-us-west"), "{message}");
    // Those of step 3 were never started.
    let last = &report["timeline"]["sets"][0]["steps"][2];
    assert_eq!(last["opened"], Value::Null, "{last}");
}

#[test]
fn gates_and_people_are_simulated() {
    let folder = tempfile::tempdir().unwrap();
    let policy = folder.path().join("policy.yaml");
    let text = "apiVersion: wavegate.dev/v1alpha1\nkind: RolloutPolicy\n\
                metadata: {name: production, namespace: argocd}\n\
                spec:\n  gates:\n  - {name: production, steps: [2], approvals: 1, soak: 10m}\n";
    std::fs::write(&policy, text).unwrap();
    let policy = policy.display().to_string();
    let held = simulate(&["-f", &policy, "-o", "json"]);
    assert_eq!(held.code, 1);
    let message = held.json()["outcome"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("production"), "{message}");
    let file = folder.path().join("a.html").display().to_string();
    let approved =
        simulate(&["-f", &policy, "--approve", "production@1h", "--export", &file, "-o", "json"]);
    let report = approved.json();
    assert_eq!((approved.code, &report["outcome"]["end"]), (0, &json!("Complete")), "{report}");
    assert!(report["seconds"].as_i64().unwrap() > 3600, "{report}");
    let gate = &report["timeline"]["sets"][0]["steps"][1]["gates"][0];
    assert_eq!((&gate["name"], &gate["what"]), (&json!("production"), &json!("both")), "{gate}");
    let drawn = std::fs::read_to_string(&file).unwrap();
    assert!(drawn.contains("<svg") && drawn.contains("storefront-staging-us-east"), "{drawn}");
}

#[test]
fn the_same_options_give_the_same_log_byte_by_byte() {
    let folder = tempfile::tempdir().unwrap();
    let logs = ["one", "two"].map(|name| {
        let file = folder.path().join(name).display().to_string();
        let happens = ["--push", "45s", "--restart-at", "20s", "--api-down", "70s:30s"];
        let run = simulate(&[&happens[..], &["--log", &file]].concat());
        assert_eq!(run.code, 0, "{}", run.err);
        std::fs::read_to_string(&file).unwrap()
    });
    assert!(logs[0].lines().count() > 500);
    assert_eq!(logs[0].lines().zip(logs[1].lines()).find(|(one, other)| one != other), None);
    assert_eq!(logs[0].len(), logs[1].len());
}

#[test]
fn several_simulations_give_a_distribution() {
    let run = simulate(&["--runs", "6", "--flaky", "20%", "-o", "json"]);
    let all = run.json();
    assert_eq!(all["runs"], 6);
    let others: u64 =
        all["others"].as_array().unwrap().iter().map(|other| other["runs"].as_u64().unwrap()).sum();
    assert_eq!(all["complete"].as_u64().unwrap() + others, 6, "{all}");
    assert_eq!(run.code == 0, others == 0);
    assert_eq!(simulate(&["--runs", "6", "--flaky", "20%", "-o", "json"]).out, run.out);
}

#[test]
fn what_names_nothing_is_refused() {
    const CASES: &str = r#"
        --fail storefront-prodction-us-west => it is for none of the Applications; did you mean storefront-production-us-west?
        --hang web => none of the Applications; they are storefront-production-eu-central
        --fail storefront-*@4 => none of the Applications; those of this name are in step 1, 2, 3
        --skip storefront-prod-us-west@1m => did you mean storefront-production-us-west?
        --pause-at -5m => it must be longer than 0
        --at tomorrow => it is no time; write it such as 2026-01-05T09:00:00Z
        --at 9000-01-01T00:00:00Z => its year must be from 1970 to 2999
        --flaky -5 => write it as a whole number from 0 to 100
        --degrade storefront-stagin-us-west@1m => did you mean storefront-staging-us-west?
        --push storefront-x@1m => --push storefront-x@1m: it is for none
        --approve production@1h => it is none of the gates of the policies; there is none
        --pause-at 0s => it must be longer than 0
        --fail web@two => two is not the number of a step
        --slow storefront-* => write it as APP=5m
        --slow storefront-*=5 => write it with a unit
        --approve production => write it as NAME@10m
        --api-down 5m => write it as 5m:30s
        --flaky 120% => write it as a whole number from 0 to 100
        --runs 0 => it must be from 1
        --flaky 0.5% => write it as a whole number from 0 to 100
        --durations /nowhere => cannot read
        --at 9999-12-31T23:59:59Z => its year must be from 1970 to 2999
        --at 9999-12-31 => it is no time
        --pause-at 200h => --pause-at 200h: it does not happen before --limit, which is 7d
        --push 168h => --push 168h: it does not happen before --limit, which is 7d
        --degrade storefront-staging-us-west@200h => it does not happen before --limit
        --api-down 167h:1h => --api-down 167h:1h: it is not over before --limit
        --export - => --export -: standard output has the report; name a file
        --log - => --log -: standard output has the report; name a file
    "#;
    let empty = ("--pause-at ", "it is empty; write it with a unit");
    for (args, want) in rows(CASES).chain([empty]) {
        let (flag, value) = args.split_once(' ').unwrap();
        let run = simulate(&[flag, value]);
        assert_eq!((run.code, run.out.as_str()), (2, ""), "{args:?}: {}", run.err);
        assert!(run.err.contains(want), "{args:?}: {}", run.err);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_set_of_a_cluster_is_simulated_and_nothing_is_written() {
    let cluster = Cluster::start().await;
    let step = |name: &str| json!({"matchExpressions": [{"key": "app", "operator": "In", "values": [name]}]});
    let mut object: Value =
        serde_json::from_str(&set(&["a", "b"], json!([step("a"), step("b")]))).unwrap();
    object["metadata"]["namespace"] = "argocd".into();
    object["spec"]["template"]["spec"]["source"]["path"] = "web".into();
    cluster.create("ApplicationSet", object).await;
    let version = cluster.server.counts();
    let run = cluster.run(&["simulate", "--live", "set", "-o", "json"]).await;
    assert_eq!(run.code, 0, "{}", run.err);
    let report = run.json();
    assert_eq!(report["outcome"]["end"], "Complete");
    assert_eq!(report["timeline"]["sets"][0]["steps"].as_array().unwrap().len(), 2);
    let writes = |counts: &kube_sim::RequestCounts| -> u64 {
        let verbs = ["create", "update", "patch", "apply", "delete"];
        let is_write = |verb: &str| verbs.contains(&verb);
        counts.iter().filter(|((_, verb, _), _)| is_write(verb)).map(|(_, count)| *count).sum()
    };
    assert_eq!(writes(&cluster.server.counts()), writes(&version));
}

/// Writes a file of events, and simulates with it.
fn with_events(text: &str) -> Run {
    let folder = folder(&[("events.yaml", text)]);
    simulate(&["--events", &in_folder(&folder, "events.yaml"), "-o", "json"])
}

#[test]
fn a_file_of_events_says_what_options_say() {
    let text = "# A comment.\n\
                - {slow: 'storefront-production-*@2=3m'}\n\
                - {at: 20s, pause: true}\n\
                - {at: 2m, resume: true}\n\
                - {at: 4m, apiDown: 10s}\n\
                - {at: 5m, restart: true}\n";
    let file = with_events(text);
    let options = simulate(&[
        "--slow",
        "storefront-production-*@2=3m",
        "--pause-at",
        "20s",
        "--resume-at",
        "2m",
        "--api-down",
        "4m:10s",
        "--restart-at",
        "5m",
        "-o",
        "json",
    ]);
    assert_eq!((file.code, file.err.as_str()), (0, ""));
    assert_eq!(file.out, options.out);
    let marks = file.json()["timeline"]["marks"].clone();
    assert_eq!(marks.as_array().unwrap().len(), 4, "{marks}");
    // A pause holds the step that is open, which the chart shows.
    let step = &file.json()["timeline"]["sets"][0]["steps"][1];
    let spans = step["applications"][0]["spans"].as_array().unwrap().clone();
    assert!(spans.iter().any(|span| span["what"] == "held"), "{spans:?}");
}

#[test]
fn deployments_after_an_event_behave_in_its_way() {
    // Step 2 begins after 30 s, step 3 after a minute.
    let run = with_events(
        "- {at: 45s, fail: 'storefront-production-eu-*'}\n- {at: 45s, slow: 'storefront-*=5m'}\n",
    );
    assert_eq!(run.code, 1, "{}", run.err);
    let report = run.json();
    let message = report["outcome"]["message"].as_str().unwrap();
    assert!(message.contains("step 3 of 3") && message.contains("eu-central"), "{message}");
    let steps = report["timeline"]["sets"][0]["steps"].as_array().unwrap();
    let opened = |index: usize| {
        let time: jiff::Timestamp = steps[index]["opened"].as_str().unwrap().parse().unwrap();
        time.as_second()
    };
    // Those that were deployed before are as before.
    assert!((55..70).contains(&(opened(2) - opened(0))), "{steps:?}");
    let commit = with_events("- {at: 45s, push: storefront-staging-us-west}\n");
    assert_eq!(commit.code, 0, "{}", commit.err);
    let timeline = &commit.json()["timeline"];
    let syncs = |step: usize| -> Vec<usize> {
        let applications = timeline["sets"][0]["steps"][step]["applications"].as_array().unwrap();
        let of = |application: &Value| {
            let spans = application["spans"].as_array().unwrap();
            spans.iter().filter(|span| span["what"] == "becomingHealthy").count()
        };
        applications.iter().map(of).collect()
    };
    assert_eq!(syncs(0), [1, 1, 1, 2], "{timeline}");
}

#[test]
fn what_is_wrong_with_an_event_is_said_with_its_entry_and_field() {
    const CASES: &str = r#"
        # nothing\n => events.yaml: it is empty
        at: 5m\n => it is not a list of events
        - {at: 5m, push: true}\n---\n- {at: 5m, push: true}\n => it has several documents
        - 5m\n => entry 1: write it as a mapping
        - {at: 5m}\n => entry 1: it does not say what happens
        - {at: 5m, push: true}\n- {at: 5m, aprove: x}\n => entry 2: aprove: unknown field; did you mean approve?
        - {at: 5m, api-down: 30s, push: true}\n => entry 1: api-down: unknown field; did you mean apiDown?
        - {at: 5m, explode: true}\n => entry 1: explode: unknown field; the fields are at, fail
        - {at: 5m, pause: true, push: true}\n => entry 1: it says pause and push; write an entry for each
        - {at: 5, push: true}\n => entry 1: at: 
        - {at: 5, push: true}\n => write it with a unit
        - {at: -5m, push: true}\n => entry 1: at: it must be longer than 0
        - {push: true}\n => entry 1: at is missing: when push happens
        - {at: 5m, push: false}\n => entry 1: push: what does not happen is not written
        - {at: 5m, pause: now}\n => entry 1: pause: it needs no value: write pause: true
        - {at: 5m, apiDown: true}\n => entry 1: apiDown: 
        - {at: 5m, fail: [a]}\n => entry 1: fail: write one text
        - {slow: 'storefront-*'}\n => entry 1: slow: write it as APP=5m
        - {at: 5m, fail: storefront-stagin-us-west}\n => entry 1: fail: it is for none of the Applications; did you mean storefront-staging-us-west?
        - {at: 200h, push: true}\n => entry 1: push: it does not happen before --limit, which is 7d
        - {at: 5m, approve: production}\n => entry 1: approve: it is none of the gates
        - {at: 5m, fail: a, fail: b}\n => is duplicated
        - {at: 5m, push: true\n => events.yaml: line
    "#;
    let empty = ("", "events.yaml: it is empty");
    for (text, want) in rows(CASES).chain([empty]) {
        let text = &text.replace("\\n", "\n");
        let run = with_events(text);
        assert_eq!((run.code, run.out.as_str()), (2, ""), "{text}: {}", run.err);
        assert!(run.err.contains(want) && run.err.lines().count() == 1, "{text}: {}", run.err);
    }
    simulate(&["--events", "/nowhere"]).fails(2, &["cannot read: /nowhere: file not found"]);
}

/// A policy with a gate that holds a step, in a namespace.
fn policy(namespace: &str, sets: &str, step: u8) -> String {
    format!(
        "apiVersion: wavegate.dev/v1alpha1\nkind: RolloutPolicy\n\
         metadata: {{name: p, namespace: {namespace}}}\n\
         spec:\n  applicationSets: {{names: [{sets}]}}\n\
         \x20 gates:\n  - {{name: production, steps: [{step}], approvals: 1}}\n"
    )
}

#[test]
fn files_that_say_nothing_are_answered_in_one_line() {
    let regions = std::fs::read_to_string(super::repository(REGIONS)).unwrap();
    let (head, steps) = regions.split_once("  strategy:\n").unwrap();
    let template = steps.split_once("  goTemplate: true\n").unwrap().1;
    let no_steps = format!("{head}  goTemplate: true\n{template}");
    let elements = head.split_once("      elements:\n").unwrap().0;
    let none = format!("{elements}      elements: []\n  strategy:\n{steps}");
    let twin = regions.replace("name: storefront\n", "name: twin\n");
    let both = format!("{regions}---\n{twin}");
    let other_namespace = twin.replace("namespace: argocd", "namespace: team");
    let apart = format!("{regions}---\n{other_namespace}");
    let version = regions.replace("argoproj.io/v1alpha1", "argoproj.io/v1");
    let kind = regions.replace("kind: ApplicationSet", "kind: ApplicationSett");
    let same_name = super::set(&["a", "a"], json!([{}]));
    for (text, code, want) in [
        ("", 2, "cannot find an ApplicationSet: standard input: it is empty"),
        (
            version.as_str(),
            2,
            "ApplicationSet storefront is \"argoproj.io/v1\"; it must be argoproj",
        ),
        (kind.as_str(), 2, "contains only ApplicationSett storefront"),
        (
            same_name.as_str(),
            1,
            "cannot simulate: ApplicationSet set: application a: spec.template.metadata.name: 2 elements",
        ),
        ("{}\n", 2, "kind is missing"),
        ("kind: [\n", 2, "cannot read: standard input: line"),
        (none.as_str(), 2, "ApplicationSet storefront: no Applications are generated"),
        (no_steps.as_str(), 2, "no step selects storefront-production-eu-central"),
        (both.as_str(), 1, "ApplicationSets storefront and twin generate it"),
        (apart.as_str(), 2, "they are in namespaces argocd and team; use one"),
    ] {
        let run = with_input(&["simulate", "-f", "-"], text);
        assert_eq!((run.code, run.out.as_str()), (code, ""), "{want}: {}", run.err);
        assert!(run.err.contains(want) && run.err.lines().count() == 1, "{want}: {}", run.err);
    }
    simulate(&["storefrnt"]).fails(2, &["none is named storefrnt; did you mean storefront?"]);
    simulate(&["-f", &super::repository(REGIONS)]).fails(2, &["it is given twice"]);
    for (text, want) in [
        (policy("argocd", "other", 2), "note: RolloutPolicy p selects none of the ApplicationSets"),
        (policy("team", "storefront", 2), "note: RolloutPolicy team/p is not used"),
        (policy("argocd", "storefront", 9), "there is no step 9 of 3"),
    ] {
        let folder = folder(&[("policy.yaml", text.as_str())]);
        let run = simulate(&["-f", &in_folder(&folder, "policy.yaml")]);
        assert_eq!(run.code, 0, "{want}: {}", run.err);
        assert!(run.err.contains(want), "{want}: {}", run.err);
    }
}

#[test]
fn what_happens_at_the_edges_of_a_rollout_is_simulated() {
    let west = "storefront-staging-us-west";
    for (args, code, want) in [
        (vec!["--first"], 0, "Complete after 2m."),
        (vec!["--first", "--fail", west], 1, "After 30s: does not end: storefront: step 1 of 3"),
        // It fails at the end of its time, and nothing deploys it again.
        (
            vec!["--degrade", "*-staging-us-west@5m"],
            1,
            "ended: Complete without storefront-staging-us-west.",
        ),
        (vec!["--degrade", "*-staging-us-west@35s", "--push", "50s"], 0, "Complete after 2m50s."),
        // Its turn comes later, and what it deploys then is new.
        (vec!["--degrade", "storefront-production-us-west@10s"], 0, "Complete after 2m."),
        (vec!["--skip", "storefront-production-us-*@10s"], 0, "Complete after 1m30s."),
        (vec!["--skip", "storefront-*@10s"], 0, "Complete after 10s."),
        (vec!["--api-down", "1s:1h"], 0, "Complete after 1h2m"),
        (vec!["--hang", "*", "--limit", "10000h"], 1, "does not end: storefront: step 1 of 3"),
        (
            vec!["--health", "3h", "--limit", "2h"],
            1,
            "After 2h: not complete when the time was over",
        ),
    ] {
        let run = simulate(&args);
        assert_eq!((run.code, run.err.as_str()), (code, ""), "{args:?}: {}", run.out);
        assert!(run.out.contains(want), "{args:?}: {}", run.out);
    }
}

#[test]
fn what_a_run_completed_before_it_was_taken_back_took_its_own_time() {
    for what in ["--rollback-at", "--abort-at"] {
        let run = simulate(&[what, "40s", "-o", "json"]);
        assert_eq!(run.code, 1, "{what}: {}", run.err);
        let path = run.json()["criticalPath"].clone();
        let parts = path.as_array().unwrap().iter();
        let mut parts: Vec<_> =
            parts.map(|part| json!([part["step"], part["seconds"], part["what"]])).collect();
        let text = simulate(&[what, "40s"]).out;
        if what == "--rollback-at" {
            // Each of two steps becomes Healthy once more.
            assert_eq!(parts.pop(), Some(json!([2, 60, "what was started goes back"])), "{path}");
            // None was Healthy before that.
            assert_eq!(parts.last().unwrap()[2], "2 Applications at once", "{path}");
            assert!(text.contains("«") && text.contains("going back"), "{text}");
        }
        parts.iter_mut().for_each(|part| part[2] = Value::Null);
        assert_eq!(parts, [json!([1, 30, null]), json!([2, 10, null])], "{what}: {path}");
        assert!(text.contains("Step 1  4 Applications  opened 0s, completed 30s"), "{text}");
        // In 100 columns, no name of these is cut.
        assert!(text.contains("  storefront-production-eu-central "), "{text}");
    }
}

#[test]
fn what_no_step_selects_is_named_and_not_counted() {
    let regions = std::fs::read_to_string(super::repository(REGIONS)).unwrap();
    let others = "      elements:\n      - {env: other, region: eu-west, continent: europe}\n";
    let more = regions.replacen("      elements:\n", others, 1);
    let automated = "      syncPolicy:\n        automated: {}\n";
    let automatically = more.replacen("      syncPolicy:\n", automated, 1);
    for text in [&more, &automatically] {
        let run = with_input(&["simulate", "-f", "-"], text.as_str());
        assert_eq!(run.code, 0, "{}", run.out);
        let note = "note: ApplicationSet storefront: not counted, since no step selects it: \
                    storefront-other-eu-west\n";
        assert_eq!(run.err, note);
        assert!(run.out.contains("Complete after 2m."), "{}", run.out);
        assert!(run.out.contains("No step  1 Application  not opened"), "{}", run.out);
        assert!(run.out.contains("Applications, 3 steps, "), "{}", run.out);
    }
    let none = regions.replace("values: [staging]", "values: [x]");
    let none = none.replace("values: [production]", "values: [x]");
    for (text, code, want) in [
        (regions.replace("type: RollingSync", "type: Rolling"), 1, "\"Rolling\" is invalid"),
        (regions.replacen("operator: In,", "operator: Exists,", 1), 1, "\"Exists\" is invalid"),
        (regions.replacen("  strategy:", "  stratgy:", 1), 1, "did you mean strategy?"),
        (regions.replacen("matchExpressions", "matchExpresions", 1), 1, "matchExpresions: unknown"),
        (none, 2, "no step selects any of its Applications: storefront-production-eu-central"),
    ] {
        let run = with_input(&["simulate", "-f", "-"], text);
        assert_eq!((run.code, run.out.as_str()), (code, ""), "{want}: {}", run.err);
        assert!(run.err.contains(want) && run.err.lines().count() == 1, "{want}: {}", run.err);
    }
}

#[test]
fn a_table_of_durations_is_for_at_least_one_of_the_applications() {
    for (text, code, want) in [
        ("web-* 5m\n", 2, "none of its patterns is for an Application; they are storefront-"),
        ("# nothing\n", 2, "none of its patterns is for an Application"),
        ("web-* 5m\nstorefront-* 1m\n", 0, "line 1: web-* is no Application"),
    ] {
        let folder = folder(&[("table", text)]);
        let run = simulate(&["--durations", &in_folder(&folder, "table")]);
        assert_eq!(run.code, code, "{text}: {}", run.err);
        assert!(run.err.contains(want) && run.err.lines().count() == 1, "{text}: {}", run.err);
    }
}

/// The folder with a file, and its path.
fn file(text: &str) -> (tempfile::TempDir, String) {
    let folder = folder(&[("file.yaml", text)]);
    let path = in_folder(&folder, "file.yaml");
    (folder, path)
}

#[test]
fn what_people_say_is_for_the_sets_that_it_makes_sense_for() {
    let regions = std::fs::read_to_string(super::repository(REGIONS)).unwrap();
    let twin = regions.replace("name: storefront\n", "name: twin\n");
    let twin = twin.replace("'storefront-{{", "'twin-{{");
    let text = format!("{twin}---\n{}", policy("argocd", "storefront", 2));
    let (_folder, path) = file(&text);
    let args = ["-f", &path, "--approve", "production@5m", "-o", "json"];
    let run = simulate(&args);
    assert_eq!((run.code, run.err.as_str()), (0, ""), "{}", run.out);
    let marks = &run.json()["timeline"]["marks"];
    assert_eq!(marks[0]["text"], "gate production is approved", "{marks}");
}

#[test]
fn what_happens_after_the_end_does_not_make_it_longer() {
    let run = simulate(&["--restart-at", "30m"]);
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.out.contains("Complete after 2m."), "{}", run.out);
    assert!(run.out.contains("at 30m"), "{}", run.out);
}

fn project(window: &str) -> String {
    format!(
        "apiVersion: argoproj.io/v1alpha1\nkind: AppProject\n\
         metadata: {{name: default, namespace: argocd}}\n\
         spec:\n  syncWindows:\n  - {{{window}, applications: ['*']}}\n"
    )
}

#[test]
fn what_held_a_rollout_the_longest_is_what_would_shorten_it() {
    let deny = project("kind: deny, schedule: '0 9 * * *', duration: 3h");
    let allow = project("kind: allow, schedule: '0 22 * * 6', duration: 1h");
    let limited = "apiVersion: wavegate.dev/v1alpha1\nkind: RolloutPolicy\n\
                   metadata: {name: p, namespace: argocd}\nspec:\n  pace: {maxInFlight: 1}\n";
    let gates = "apiVersion: wavegate.dev/v1alpha1\nkind: RolloutPolicy\n\
                 metadata: {name: p, namespace: argocd}\n\
                 spec:\n  gates:\n  - {name: quiet, steps: [2], soak: 20m}\n\
                 \x20 - {name: people, steps: [2], approvals: 1}\n";
    for (text, args, want) in [
        (deny.as_str(), vec!["--at", "2026-01-05T11:40:00Z"], "the sync window"),
        (allow.as_str(), vec!["--at", "2026-01-10T21:40:00Z"], "the sync window"),
        (limited, vec![], "maxInFlight of the policy"),
        (
            gates,
            vec!["--approve", "people@21m"],
            "the soak of gate quiet, together with an earlier approval of gate people",
        ),
        (limited, vec!["--pause-at", "40s", "--resume-at", "20m"], "the pause"),
    ] {
        let (_folder, path) = file(text);
        let run = simulate(&[&["-f", path.as_str(), "-o", "json"], &args[..]].concat());
        assert_eq!(run.code, 0, "{want}: {} {}", run.err, run.out);
        let report = run.json();
        let parts = report["criticalPath"].as_array().unwrap();
        let seconds = |part: &&Value| part["seconds"].as_i64().unwrap();
        let longest = parts.iter().max_by_key(seconds).unwrap();
        assert_eq!(longest["shorten"], want, "{parts:?}");
        let total = report["seconds"].as_i64().unwrap();
        let sum: i64 = parts.iter().map(|part| seconds(&part)).sum();
        assert!((total - 5..=total).contains(&sum), "{want}: {sum} of {total}: {parts:?}");
    }
    let hangs = simulate(&["--hang", "storefront-staging-us-west"]);
    assert_eq!(hangs.code, 1);
    assert!(!hangs.out.contains("What would shorten it"), "{}", hangs.out);
}

#[test]
fn a_run_that_another_one_supersedes_ends_with_its_steps_and_gates() {
    let (folder, path) = file(&policy("argocd", "storefront", 2));
    let chart = in_folder(&folder, "a.html");
    let happens = ["--push", "5m", "--approve", "production@10m", "--export", &chart];
    let args = [&["-f", path.as_str()], &happens[..]].concat();
    let run = simulate(&[&args[..], &["-o", "json"]].concat());
    assert_eq!(run.code, 0, "{}", run.err);
    let report = run.json();
    let total = report["seconds"].as_i64().unwrap();
    let parts = report["criticalPath"].as_array().unwrap();
    let sum: i64 = parts.iter().map(|part| part["seconds"].as_i64().unwrap()).sum();
    assert!((total - 5..=total).contains(&sum), "{sum} of {total}: {parts:?}");
    let slowest = parts.iter().filter(|part| part["step"] == 1);
    for part in slowest {
        assert!(part["what"].as_str().unwrap().ends_with("with 30s"), "{part}");
    }
    let step = &report["timeline"]["sets"][0]["steps"][1];
    let time = |value: &Value| {
        let time: jiff::Timestamp = value.as_str().unwrap().parse().unwrap();
        let start: jiff::Timestamp = report["timeline"]["start"].as_str().unwrap().parse().unwrap();
        time.duration_since(start).as_secs()
    };
    assert!((295..=305).contains(&time(&step["earlier"][0]["ended"])), "{step}");
    let gates = step["gates"].as_array().unwrap();
    assert_eq!((gates.len(), &gates[0]["opened"]), (2, &Value::Null), "{step}");
    assert!((295..=305).contains(&time(&gates[0]["ended"])), "{step}");
    assert!(time(&step["opened"]) > 320, "{step}");
    let text = simulate(&args).out;
    assert!(text.contains("run ended") && !text.contains("not opened"), "{text}");
    assert!(text.contains("opened again 5m30s, completed 10m30s"), "{text}");
    assert!(text.contains("it the most: an earlier approval of gate production."), "{text}");
    assert!(std::fs::read_to_string(&chart).unwrap().contains("run ended"));
}

#[test]
fn of_several_simulations_the_first_is_drawn_and_logged() {
    let folder = tempfile::tempdir().unwrap();
    let [one, two, log] =
        ["one.html", "two.html", "log"].map(|name| folder.path().join(name).display().to_string());
    let several = simulate(&["--runs", "2", "--export", &two, "--log", &log]);
    assert_eq!(several.code, 0, "{}", several.err);
    assert!(several.out.contains("2 of 2 simulations complete"), "{}", several.out);
    assert_eq!(simulate(&["--export", &one]).code, 0);
    let [one, two, log] = [one, two, log].map(|file| std::fs::read_to_string(file).unwrap());
    assert!(one == two && one.contains("<svg"), "{two}");
    assert!(log.lines().count() > 300);
}

#[test]
fn what_cannot_be_done_is_an_error() {
    let early = ["--first", "--degrade", "storefront-production-eu-west@1s"];
    let why = "not done: at 1s: Degraded: storefront-production-eu-west: \
               storefront-production-eu-west has no workload yet";
    let run = simulate(&early);
    assert!(run.out.contains("Complete after 2m."), "{}", run.out);
    run.fails(2, &[why]);
    // It is so in all of several simulations.
    simulate(&[&early[..], &["--runs", "2"]].concat()).fails(2, &[why]);
    simulate(&["--abort-at", "1h"]).fails(2, &["not done: at 1h: a person aborts the run: "]);
    simulate(&["--resume-at", "10s"])
        .fails(2, &["not done: at 10s: the sets are resumed: it is not paused"]);
    let (_paused, pause) =
        file(&policy("argocd", "storefront", 1).replace("spec:", "spec:\n  paused: true"));
    simulate(&["-f", &pause, "--resume-at", "10s", "--limit", "1h"]).fails(2, &[
        "not done: at 10s: the sets are resumed: it is not paused by its annotation, but RolloutPolicy ",
    ]);
    // Nothing was deployed before, to which anything could go back.
    simulate(&["--first", "--rollback-at", "10s"]).fails(2, &[
        "not done: at 10s: a person takes the run back: none of 4 Applications that run storefront-1 started can go back",
    ]);
    simulate(&["--policy", "create"]).fails(
        2,
        &["policy: create is invalid; use sync, create-update, create-delete or create-only"],
    );
    // A gate of another set is none of these.
    let (_folder, path) = file(&policy("argocd", "other", 2));
    simulate(&["-f", &path, "--approve", "production@1h"])
        .fails(2, &["it is none of the gates of the policies; there is none"]);
}
