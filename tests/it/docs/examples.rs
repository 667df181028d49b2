//! The sets of `examples/`: each is listed, says what to watch for, and does what it says.

pub(super) mod live;

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::markdown::{files, root};

/// Runs the program in the repository; returns the exit code and all output.
fn wavegate(args: &[&str]) -> (i32, String) {
    let run = Command::new(env!("CARGO_BIN_EXE_wavegate"))
        .args(args)
        .env("KUBECONFIG", "/nonexistent")
        .env_remove("RUST_LOG")
        .current_dir(root())
        .output()
        .unwrap();
    let text = [run.stdout, run.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
    (run.status.code().unwrap(), text)
}

/// The files with an ApplicationSet, without the demo's own.
fn sets() -> Vec<(String, String)> {
    let of_examples = files("yaml").into_iter().filter(|path| path.starts_with("examples/"));
    of_examples
        .filter(|path| !path.starts_with("examples/demo/"))
        .map(|path| (std::fs::read_to_string(root().join(&path)).unwrap(), path))
        .filter(|(text, _)| text.contains("\nkind: ApplicationSet\n"))
        .map(|(text, path)| (path, text))
        .collect()
}

/// The command at the top of an example.
fn command(path: &str, text: &str) -> Vec<String> {
    let line = text.lines().find_map(|line| line.strip_prefix("#   wavegate "));
    let line = line.unwrap_or_else(|| panic!("{path}: it starts with a command"));
    line.split(' ').map(str::to_owned).collect()
}

#[test]
fn each_example_is_listed_and_says_what_to_watch_for() {
    let list = std::fs::read_to_string(root().join("examples/README.md")).unwrap();
    let sets = sets();
    assert!(sets.len() >= 25, "{}", sets.len());
    for (path, text) in &sets {
        let top: Vec<&str> = text.lines().take_while(|line| line.starts_with('#')).collect();
        let top = top.join(" ").replace("# ", "");
        assert!(top.contains("Watch for ") || top.contains("Watch with "), "{path}: {top}");
        assert!(command(path, text).contains(path), "{path}: its command names it");
        let link = format!("]({})", path.strip_prefix("examples/").unwrap());
        assert!(list.contains(&link), "examples/README.md lacks {link}");
    }
    let linked = list.matches(".yaml)").count();
    let policies = files("yaml").into_iter().filter(|path| path.starts_with("examples/steering/"));
    let alone: Vec<String> =
        policies.filter(|path| sets.iter().all(|(of_set, _)| of_set != path)).collect();
    for path in &alone {
        let link = format!("]({})", path.strip_prefix("examples/").unwrap());
        assert!(list.contains(&link), "examples/README.md lacks {link}");
    }
    assert_eq!(linked, sets.len() + alone.len(), "examples/README.md lists each example once");
}

/// The demo validates them against the definitions: it creates them in its API server.
#[test]
fn policies_are_part_of_a_plan() {
    let plan = |name: &str| {
        let (code, output) = wavegate(&["plan", "-f", &format!("examples/steering/{name}.yaml")]);
        assert_eq!(code, 0, "{name}: {output}");
        assert!(!output.contains("PROBLEM") && !output.contains("ignored"), "{output}");
        assert!(!output.contains("plan hash"), "of no cluster: {output}");
        output
    };
    let cases = [
        (
            "gate",
            "gate production (policy production) holds 2 until 1 approval: web-prod-eu, web-prod-us",
        ),
        ("soak", "gate soaked (policy soak) holds 2 until a soak of 10s: web-prod-eu, web-prod-us"),
        ("failures", "1 may fail, then Hold (policy budget)"),
        ("rollback", "0 may fail, then Rollback (policy budget)"),
        (
            "pace",
            "a step begins with 1, times 2 after each batch\n1 in flight for each value of region (policy pace)\n4 in flight in all sets of policy pace",
        ),
        ("deletions", "1 may be deleted without an approval (policy few)"),
    ];
    for (name, want) in cases {
        let output = plan(name);
        assert!(output.contains(want), "{output}");
    }
    plan("pause");
    let set = "examples/steering/gate.yaml";
    let (_, json) = wavegate(&["plan", "-o", "json", "-f", set]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["steering"]["gates"][0]["name"], "production", "{json}");
    assert_eq!(json["steering"].get("hash"), None, "{json}");
}

/// Those of a demo are run by the tests below, and those of remote repositories with a
/// local one by `cli::generator_examples`.
#[test]
fn commands_without_a_rollout_succeed() {
    for (path, text) in sets() {
        let args = command(&path, &text);
        let is_remote = path.starts_with("examples/generators/git-");
        if is_remote {
            continue;
        }
        if args[0] != "demo" {
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            let (code, output) = wavegate(&args);
            assert_eq!(code, 0, "{path}: {output}");
        }
        let [plan, rendered] = ["plan", "render"].map(|command| {
            let (code, output) = wavegate(&[command, "-o", "json", "-f", &path]);
            assert_eq!(code, 0, "{path}: {output}");
            output
        });
        assert!(rendered.contains("\"kind\": \"Application\""), "{path}: {rendered}");
        // Those at the top are the simple ones.
        if path.matches('/').count() == 1 {
            let plan: Value = serde_json::from_str(&plan).unwrap();
            assert_eq!((&plan["problems"], &plan["unmatched"]), (&json!([]), &json!([])), "{path}");
            assert!(!rendered.contains("{{"), "{path}: {rendered}");
        }
    }
}

/// Asserts that texts are in a text, one after the other.
#[track_caller]
fn in_order(output: &str, texts: &[&str]) {
    let mut rest = output;
    for text in texts {
        match rest.find(text) {
            Some(at) => rest = &rest[at + text.len()..],
            None => panic!("no {text:?} (after those before it) in:\n{output}"),
        }
    }
}

/// Rolls out an example; checks the exit code, and texts of the output in their order.
#[track_caller]
fn rolled_out(name: &str, args: &[&str], code: i32, texts: &[&str]) -> String {
    let file = format!("examples/{name}.yaml");
    assert!(Path::new(&file).exists(), "{file}");
    let (got, output) = wavegate(&[&["demo", "--plain", "-f", file.as_str()][..], args].concat());
    assert_eq!(got, code, "{file}\n{output}");
    in_order(&output, texts);
    output
}

#[test]
fn all_at_once_waits_for_nothing() {
    let output = rolled_out("strategies/all-at-once", &[], 0, &["Rollout complete", "3 syncs"]);
    assert!(!output.contains("step 2"), "{output}");
}

#[test]
fn steps_are_in_order_and_limited() {
    let step =
        |number: usize| [format!("step {number}  starts"), format!("step {number}  complete")];
    let steps: Vec<String> = (1..=3).flat_map(step).collect();
    let mut texts: Vec<&str> = steps.iter().map(String::as_str).collect();
    texts.push("Rollout complete");
    let output = rolled_out("strategies/rolling-sync", &[], 0, &texts);
    assert_eq!(in_flight(&output), ["2", "1", "1"]);
    let output = rolled_out("strategies/max-update-percent", &[], 0, &["Rollout complete"]);
    assert_eq!(in_flight(&output), ["2"]);
}

/// The column "Max in flight" of the summary.
fn in_flight(output: &str) -> Vec<&str> {
    let table = output.lines().skip_while(|line| !line.starts_with("Step  Selects"));
    let rows = table.skip(1).take_while(|line| line.starts_with(|c: char| c.is_ascii_digit()));
    let cells = rows.map(|row| row.split("  ").map(str::trim).filter(|cell| !cell.is_empty()));
    cells.map(|mut cells| cells.nth(4).unwrap()).collect()
}

#[test]
fn hooks_run_in_their_phases() {
    let phases =
        ["PreSync hook", "Job migrate", "Job warm-cache", "PostSync hook", "Job smoke-test"];
    let twice = [phases.as_slice(), &["step 2  starts"], &phases, &["Rollout complete"]].concat();
    rolled_out("features/hooks", &[], 0, &twice);
    let failed = ["Job migrate", "SyncFail hook", "Job notify-failure", "Stopped in step 1"];
    let output = rolled_out("features/hooks", &["--fail", "shop-dev"], 1, &failed);
    assert!(!output.contains("smoke-test"), "{output}");
}

#[test]
fn waves_are_in_order() {
    let (code, order) = wavegate(&["order", "-f", "examples/manifests/waves", "-o", "json"]);
    assert_eq!(code, 0, "{order}");
    let order: Value = serde_json::from_str(&order).unwrap();
    let waves: Vec<(i64, &str)> = order
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["wave"].as_i64().unwrap(), one["name"].as_str().unwrap()))
        .collect();
    assert_eq!(waves, [(-1, "settings"), (0, "database"), (1, "api")]);
    let texts = ["Sync wave 0", "Deployment database", "step 1  complete", "Rollout complete"];
    rolled_out("features/waves", &[], 0, &texts);
}

#[test]
fn a_sync_window_holds_what_it_names() {
    let texts = [
        "web-prod-us",
        "Progressing → Healthy",
        "Waiting for web-prod-eu",
        "a sync window denies it",
    ];
    let output = rolled_out("features/sync-windows", &[], 1, &texts);
    assert_eq!(in_flight(&output), ["1", "1"]);
}

#[test]
fn other_examples_are_rolled_out() {
    let names = [
        "features/go-template",
        "features/selectors",
        "features/template-patch",
        "generators/list",
        "generators/nested",
    ];
    for name in names {
        rolled_out(name, &[], 0, &["Rollout complete"]);
    }
}

/// The generated Applications of an example.
fn rendered(name: &str) -> Vec<Value> {
    let (code, output) =
        wavegate(&["render", "-o", "json", "-f", &format!("examples/{name}.yaml")]);
    assert_eq!(code, 0, "{output}");
    let list: Value = serde_json::from_str(&output).unwrap();
    list["items"].as_array().unwrap().clone()
}

/// A field of each Application, after its name.
fn fields(name: &str, pointer: &str) -> Vec<(String, Value)> {
    let of = |app: &Value| {
        let name = app["metadata"]["name"].as_str().unwrap().to_owned();
        (name, app.pointer(pointer).cloned().unwrap_or_default())
    };
    rendered(name).iter().map(of).collect()
}

#[track_caller]
fn are(got: &[(String, Value)], want: &[(&str, &str)]) {
    let got: Vec<(&str, &str)> = got
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_str().unwrap_or_default()))
        .collect();
    assert_eq!(got, want);
}

#[test]
fn templates_and_generators_render_what_they_say() {
    are(
        &fields("features/go-template", "/spec/destination/namespace"),
        &[("blue-team-dev", "default-dev"), ("red-team-prod", "red")],
    );
    are(
        &fields("features/selectors", "/metadata/labels/track"),
        &[("web-ap", "canary"), ("web-eu", "stable"), ("web-us", "stable")],
    );
    let channel = "/metadata/annotations/notifications.argoproj.io~1subscribe.on-sync-failed.slack";
    are(&fields("features/template-patch", channel), &[("web-dev", ""), ("web-prod", "on-call")]);
    let prune = fields("features/template-patch", "/spec/syncPolicy/automated/prune");
    assert_eq!(prune[0].1, true);
    assert_ne!(prune[1].1, true);
    are(
        &fields("generators/list", "/metadata/labels/tier"),
        &[("web-dev", "bronze"), ("web-prod", "gold"), ("web-qa", "silver")],
    );
    are(
        &fields("generators/nested", "/metadata/labels/replicas"),
        &[("config-dev", "1"), ("config-prod", "3"), ("web-dev", "1"), ("web-prod", "3")],
    );
    are(
        &fields("generators/clusters", "/metadata/labels/tier"),
        &[("log-agent-east-1", "gold"), ("log-agent-west-1", "silver")],
    );
    are(
        &fields("generators/matrix", "/metadata/labels/region"),
        &[("backup-east", "east"), ("ingress-east", "east"), ("ingress-west", "west")],
    );
    for (index, [east, here, lab]) in [["90d", "7d", "7d"], ["3", "1", "1"]].iter().enumerate() {
        are(
            &fields("generators/merge", &format!("/spec/source/helm/parameters/{index}/value")),
            &[("metrics-east", east), ("metrics-in-cluster", here), ("metrics-lab", lab)],
        );
    }
    let (_, plan) = wavegate(&["plan", "-o", "json", "-f", "examples/features/selectors.yaml"]);
    let plan: Value = serde_json::from_str(&plan).unwrap();
    assert_eq!(plan["steps"][0]["applications"], json!(["web-ap"]));
    assert_eq!(plan["steps"][1]["batches"], json!([["web-eu"], ["web-us"]]));
}
