//! The page over what was simulated, and its chart as a file (PG-002, PG-014).

use super::*;

fn example(name: &str) -> String {
    format!("{}/examples/steering/{name}.yaml", env!("CARGO_MANIFEST_DIR"))
}

/// PG-002: the page at the end of a simulation, and at any of its times by the address, which the links
/// keep; nothing needs a script, and nothing can be done.
#[tokio::test(flavor = "multi_thread")]
async fn pg_002_the_clock_of_a_simulation_is_in_the_address() {
    let file = example("gate");
    let mut command =
        program(&["simulate", "-f", &file, "--approve", "production@1h", "--dashboard"]);
    command.env_remove("KUBECONFIG");
    let page = PageServer::after(command, "The page: ").await;
    let fleet = page.get("/").await.body;
    says(&fleet, "simulation: complete");
    let set = fleet.split("href=\"/set/").nth(1).unwrap().split(['?', '"']).next().unwrap();
    let set = format!("/set/{set}");
    says(&fleet, "type=\"range\" name=\"at\" min=\"0\"");
    assert!(fleet.contains("<button type=\"submit\">Show"), "without scripts: {fleet}");
    assert!(!fleet.contains("data-stream"), "{fleet}");

    let end = page.get(&set).await.body;
    says(&end, "Complete");
    // The last second of the clock is the end, too.
    let last = fleet.split("min=\"0\" max=\"").nth(1).unwrap().split('"').next().unwrap();
    says(&page.get(&format!("{set}?at={last}")).await.body, "all 2 steps are complete");
    // In the middle it waits for the approval, and so do the links from there.
    let middle = page.get(&format!("{set}?at=1800")).await.body;
    says(&middle, "AwaitingApproval");
    says(&middle, "30m of ");
    says(&middle, format!("href=\"{set}/history?at=1800\""));
    says(&middle, "href=\"/?at=1800\"");
    says(&page.get("/?at=1800&q=x").await.body, "30m of ");
    let begin = page.get(&format!("{set}?at=0")).await.body;
    assert!(!begin.contains("AwaitingApproval"), "{begin}");
    // What is no time of it is the end, or the nearest one.
    for odd in ["x", "-5", "99999999999999999999", "99999999"] {
        assert_eq!(page.get(&format!("{set}?at={odd}")).await.status, 200, "{odd}");
    }
    let run = page.get(&format!("{set}/history?at=1800")).await.body;
    let run = run.split(&format!("href=\"{set}/history/")).nth(1).unwrap();
    let run = run.split(['?', '"']).next().unwrap();
    let run = page.get(&format!("{set}/history/{run}?at=1800")).await.body;
    for part in ["Over time", "Step 1", "Gate production", "class=\"at\"", "becoming healthy"] {
        says(&run, part);
    }
    says(&page.get(&format!("{set}/plan")).await.body, "this is a simulation");
    let app = end.split("href=\"/app/").nth(1).unwrap().split(['?', '"']).next().unwrap();
    says(&page.get(&format!("/app/{app}?at=1800")).await.body, "Resources");
    says(&page.get("/policies?at=1800").await.body, "production");
    assert_eq!(page.get(&format!("/act/pause?{}", set)).await.status, 403);
}

/// PG-014: the chart of a simulation is that of a run, in a file that needs nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn pg_014_a_simulation_is_exported_with_the_chart_of_a_run() {
    let folder = folder(&[]);
    let out = in_folder(&folder, "rollout.html");
    let file = example("gate");
    let args = ["simulate", "-f", &file, "--approve", "production@1h", "--export", &out];
    let done = finish(program(&args), b"");
    assert_eq!(done.code, 0, "{}", done.err);
    let html = std::fs::read_to_string(&out).unwrap();
    for part in [
        "<!DOCTYPE html>",
        "Simulated rollout of",
        "complete",
        "Step 1",
        "Gate production",
        "becoming healthy",
        "<svg class=\"bar one\"",
        "default-src 'none'",
    ] {
        says(&html, part);
    }
    for part in ["<script", "href=\"", "src=\"", "http://127"] {
        assert!(!html.contains(part), "{part}: {html}");
    }
}

/// PG-014: a run of a cluster has the same chart: its steps, its gates with who opened them, and when
/// each Application was deployed or failed.
#[tokio::test(flavor = "multi_thread")]
async fn pg_014_a_run_is_a_chart_of_steps_and_applications() {
    let world = World::start().await;
    let owner = world.set("shop", json!({})).await;
    let mut held = gate("production", 1);
    held["approvedBy"] = json!(["bob"]);
    held["openedAt"] = json!("2026-01-02T03:04:00Z");
    let run = json!({
        "phase": "Complete", "total": 3, "done": 2, "failed": 1, "startedAt": "2026-01-02T03:00:00Z", "endedAt": "2026-01-02T03:10:00Z",
        "gates": [held],
        "steps": [{"total": 3, "done": 2, "failed": 1, "gates": ["production"], "openedAt": "2026-01-02T03:00:00Z", "completedAt": "2026-01-02T03:08:00Z"}],
        "timeline": [
            {"at": "2026-01-02T03:04:00Z", "what": "GateApproved", "subject": "production", "by": "bob", "message": ""},
            {"at": "2026-01-02T03:06:00Z", "what": "Failed", "subject": "b", "by": "", "message": "it is Degraded"},
        ],
    });
    world.run(&owner, "shop-1", run).await;
    let deployed = |from: &str, until: &str| {
        json!({"history": [
            {"id": 0, "revision": "r", "deployStartedAt": "2025-01-02T03:00:00Z", "deployedAt": "2025-01-02T03:01:00Z"},
            {"id": 1, "revision": "r", "deployStartedAt": from, "deployedAt": until},
        ]})
    };
    world.application(&owner, "a", deployed("2026-01-02T03:01:00Z", "2026-01-02T03:03:00Z")).await;
    world.application(&owner, "b", deployed("2026-01-02T03:04:00Z", "2026-01-02T03:05:00Z")).await;
    world.application(&owner, "old", json!({})).await;
    let page = PageServer::start(&world, &[]).await;
    let body = page.until("/set/argocd/shop/history/1", "/app/argocd/b\"").await;
    for part in [
        "Step 1",
        "Gate production",
        "by bob",
        "waiting from 0s to 60s, syncing from 60s to 3m, deployed from 3m to 10m",
        "failed from 6m to 10m",
        "GateApproved",
    ] {
        says(&body, part);
    }
    assert!(!body.contains("/app/argocd/old\""), "it was not part of the run: {body}");
}
