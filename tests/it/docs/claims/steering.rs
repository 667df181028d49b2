//! What is claimed of policies and of what people say to a run, by the examples themselves.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::examples::live::{APPLICATIONS, Demo};

fn time(value: &Value) -> Timestamp {
    value.as_str().unwrap_or_else(|| panic!("{value} is no time")).parse().unwrap()
}

fn is_in(run: &Value, phase: &str) -> bool {
    run["status"]["phase"] == phase
}

fn timeline(run: &Value) -> Vec<&Value> {
    run["status"]["timeline"].as_array().into_iter().flatten().collect()
}

/// The starts of the syncs of all Applications.
async fn syncs(demo: &Demo) -> Vec<Value> {
    let list = demo.get(APPLICATIONS).await.unwrap();
    let apps = list["items"].as_array().unwrap().iter();
    apps.map(|app| json!([app["metadata"]["name"], app["status"]["operationState"]["startedAt"]]))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_policy_production_holds_and_takes_nothing_back() {
    let fails = ["--fail", "dev-ap", "--fail", "dev-eu", "--fail", "dev-us"];
    let demo = Demo::start("steering/production", &fails).await;
    let run = demo.until_run("shop-1", "it is held", |run| is_in(run, "Held")).await;
    assert_eq!(run["status"]["failed"], 3, "{run}");
    let before = syncs(&demo).await;
    // A person decides, and until then nothing has happened.
    let (code, said) = demo.wavegate(&["abort", "-n", "argocd", "shop", "--yes"]);
    assert_eq!(code, 0, "{said}");
    let run = demo.until_run("shop-1", "it is aborted", |run| is_in(run, "Aborted")).await;
    assert_eq!(syncs(&demo).await, before);
    let back = |one: &&Value| one["what"].as_str().is_some_and(|what| what.starts_with("Roll"));
    assert_eq!(timeline(&run).into_iter().find(back), None, "{run}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_policy_production_waits_for_an_approval_and_half_an_hour() {
    // Two failures are within its budget.
    let demo = Demo::start("steering/production", &["--fail", "dev-ap", "--fail", "dev-eu"]).await;
    let awaits = |run: &Value| is_in(run, "AwaitingApproval");
    let run = demo.until_run("shop-1", "it awaits an approval", awaits).await;
    assert_eq!(run["status"]["failed"], 2, "{run}");
    let approve = ["approve", "-n", "argocd", "shop", "--gate", "production", "--yes"];
    let (code, said) = demo.wavegate(&approve);
    assert_eq!(code, 0, "{said}");
    let run = demo.until_run("shop-1", "it soaks", |run| is_in(run, "Soaking")).await;
    let gate = &run["status"]["gates"][0];
    assert_eq!(gate["openedAt"], Value::Null, "{run}");
    let (code, said) = demo.wavegate(&["status", "-n", "argocd", "shop", "-o", "json"]);
    assert_eq!(code, 0, "{said}");
    let status: Value = serde_json::from_str(&said).unwrap();
    let status = status.get(0).unwrap_or(&status);
    let soak = time(&status["run"]["until"]).duration_since(time(&gate["soakingSince"]));
    assert_eq!(soak.as_secs(), 30 * 60, "{run}\n{status}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_soak_begins_again_when_an_earlier_application_is_not_healthy() {
    let demo = Demo::start("steering/soak", &[]).await;
    demo.until_run("soak-1", "it soaks", |run| is_in(run, "Soaking")).await;
    demo.delete("/apis/apps/v1/namespaces/web-dev-eu/deployments/web").await;
    let begins_again = |run: &Value| timeline(run).iter().any(|one| one["what"] == "SoakRestarted");
    let run = demo.until_run("soak-1", "it begins again", begins_again).await;
    assert_eq!(run["status"]["gates"][0]["openedAt"], Value::Null, "{run}");
    let restarted = timeline(&run);
    let restarted = restarted.iter().rfind(|one| one["what"] == "SoakRestarted").unwrap();
    let restarted = time(&restarted["at"]);
    let is_complete = |run: &Value| is_in(run, "Complete");
    let run = demo.until_run("soak-1", "it is complete", is_complete).await;
    let opened = time(&run["status"]["gates"][0]["openedAt"]);
    assert!(opened.duration_since(restarted).as_secs() >= 10, "{run}");
    for name in ["web-prod-eu", "web-prod-us"] {
        let app = demo.get(&format!("{APPLICATIONS}/{name}")).await.unwrap();
        let started = time(&app["status"]["operationState"]["startedAt"]);
        assert!(started >= opened, "{app}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_skipped_application_is_left_out_of_this_run_only() {
    let demo = Demo::start("steering/gate", &[]).await;
    let awaits = |run: &Value| is_in(run, "AwaitingApproval");
    let ends = |run: &Value| run["status"]["phase"].as_str().unwrap_or_default() == "Complete";
    let synced = async |name: &str| {
        let app = demo.get(&format!("{APPLICATIONS}/{name}")).await.unwrap();
        app["status"]["operationState"]["phase"] == "Succeeded"
    };
    let say = |args: &[&str], want: &str| {
        let (code, said) = demo.wavegate(&[args, &["-n", "argocd", "--yes"]].concat());
        assert_eq!(code, 0, "{args:?}: {said}");
        assert!(said.contains(want), "{args:?}: {said}");
    };
    demo.until_run("gate-1", "it awaits an approval", awaits).await;
    say(&["skip", "web-prod-us"], "skipped (run gate-1)");
    say(&["skip", "web-prod-us"], "already: run gate-1 skips web-prod-us");
    say(&["approve", "gate", "--gate", "production"], "approved (run gate-1)");
    demo.until_run("gate-1", "it is complete", ends).await;
    assert!(synced("web-prod-eu").await && !synced("web-prod-us").await);

    // Who did what.
    let (code, said) = demo.wavegate(&["history", "-n", "argocd", "gate", "gate-1", "-o", "json"]);
    assert_eq!(code, 0, "{said}");
    let history: Value = serde_json::from_str(&said).unwrap();
    let by = |what: &str| {
        let timeline = history["timeline"].as_array().unwrap();
        let entry = timeline.iter().find(|entry| entry["what"] == what);
        let by = entry.unwrap_or_else(|| panic!("no {what} in {history}"))["by"].as_str();
        by.unwrap_or_default().to_owned()
    };
    assert!(!by("Skipped").is_empty(), "{history}");
    assert_eq!(by("GateApproved"), by("Skipped"), "{history}");
    let (_, printed) = demo.wavegate(&["history", "-n", "argocd", "gate", "gate-1"]);
    assert!(printed.contains(&by("Skipped")), "{printed}");

    let more = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: more}\n";
    std::fs::write(demo.files().join("manifests/web/more.yaml"), more).unwrap();
    for name in ["web-dev-eu", "web-prod-eu", "web-prod-us"] {
        demo.compare(name).await;
    }
    demo.until_run("gate-2", "it awaits an approval", awaits).await;
    say(&["approve", "gate", "--gate", "production"], "approved (run gate-2)");
    demo.until_run("gate-2", "it is complete", ends).await;
    assert!(synced("web-prod-us").await);
}
