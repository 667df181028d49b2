//! Attempts after a failed one.

use super::*;

/// A hook with the given outcome.
fn hook(outcome: &str) -> String {
    job(
        "hook",
        &[("argocd.argoproj.io/hook", "PreSync"), ("simulate.wavegate.dev/outcome", outcome)],
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retry_with_refresh_uses_the_newest_commit() {
    // SE-024
    let world = World::start().await;
    world.write("app/hook.json", &hook("fail"));
    let first = world.commit_file("app/one.json", &config_map("one", "1", &[]));
    let mut app = world.application("app", "app");
    app["spec"]["syncPolicy"] = json!({
        "automated": {},
        "retry": {"limit": 60, "refresh": true, "backoff": {"duration": "1s", "factor": 1}},
    });
    world.create_app(&app).await;
    let reached = |app: &Value| app["status"]["operationState"]["retryCount"].as_i64() >= Some(1);
    let tried = world.until("app", "tried again", reached).await;
    let started = &tried["status"]["operationState"]["startedAt"];
    let second = world.commit_file("app/hook.json", &hook("succeed"));
    let app = world
        .until("app", "synced by a retry", |app| {
            app["status"]["operationState"]["phase"] == "Succeeded" && settled(app)
        })
        .await;
    let state = &app["status"]["operationState"];
    assert_eq!(&state["startedAt"], started, "it is the same operation");
    assert_eq!(state["syncResult"]["revision"], *second);
    assert_ne!(first, second);
    world.until("app", "in sync", |app| is(app, "Synced", "Healthy")).await;
    world.rest().await;
    let app = world.app("app").await;
    assert_eq!(&app["status"]["operationState"]["startedAt"], started, "and not begun again");
}
