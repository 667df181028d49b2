//! The health of an Application from that of its resources (SE-145, SE-490 to SE-494).

use super::*;

fn message(app: &Value) -> &str {
    app["status"]["health"]["message"].as_str().unwrap_or_default()
}

/// Waits until a Deployment has failed.
async fn until_failed(world: &World, name: &str) {
    let api = world.api("apps/v1", "Deployment", "web");
    until("it has failed", async || {
        let found = api.get_opt(name).await.unwrap();
        let conditions = found.map(|found| found.data["status"]["conditions"].to_string());
        conditions.is_some_and(|text| text.contains("ProgressDeadlineExceeded"))
    })
    .await;
}

/// SE-145, SE-490, SE-492, SE-493, SE-494: what counts for the health, and how it is named.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_worst_resource_that_counts_is_the_health_se_490_to_se_494() {
    let world = World::start().await;
    let ignored = ("argocd.argoproj.io/ignore-healthcheck", "true");
    world.write("ignored/web.json", &deployment("ignored", &[FAILS, ignored]));
    world.write("ignored/map.json", &config_map("plain", "1", &[]));
    world.write("skipped/web.json", &deployment("skipped", &[FAILS, (HOOK, "Skip")]));
    world.write("skipped/map.json", &config_map("beside", "1", &[]));
    world.write("hook/job.json", &job("hook", &[(HOOK, "PostSync"), FAILS]));
    world.write("hook/map.json", &config_map("hooked", "1", &[]));
    world.write("hooks/job.json", &job("alone", &[(HOOK, "PostSync")]));
    world.write("empty/none.txt", "nothing");
    for name in ["many-a", "many-b", "many-c", "many-d", "many-e"] {
        world.write(&format!("many/{name}.json"), &deployment(name, &[FAILS]));
    }
    world.write("mixed/web.json", &deployment("slow", &[HANGS]));
    world.write("mixed/bad.json", &deployment("mixed", &[FAILS]));
    world.write("left/web.json", &deployment("left", &[FAILS]));
    world.write("left/map.json", &config_map("left-map", "1", &[]));
    world.commit_file("copied/map.json", &config_map("copied", "1", &[]));
    let names = ["ignored", "skipped", "hook", "many", "mixed", "left", "copied"];
    for name in names.into_iter().chain(["empty", "hooks"]) {
        world.create_app(&world.application(name, name)).await;
    }
    for name in ["empty", "hooks"] {
        let app = world.until(name, "SE-492", |app| is(app, "Synced", "Healthy")).await;
        assert_eq!(message(&app), "", "SE-492");
    }
    // Where a hook is not created, too, and where it is.
    for name in names.into_iter().chain(["hooks"]) {
        world.sync(name, json!({})).await;
    }
    // A copy of an object of an Application, which nobody asked for.
    let mut copy: Value = serde_json::from_str(&deployment("copy", &[FAILS])).unwrap();
    copy["metadata"]["namespace"] = "web".into();
    copy["metadata"]["annotations"]["argocd.argoproj.io/tracking-id"] =
        "copied:/ConfigMap:web/copied".into();
    world.create("apps/v1", "Deployment", &copy).await;
    let degraded = |app: &Value| app["status"]["health"]["status"] == "Degraded";
    let three = "Caused by apps/Deployment:web/many-a, apps/Deployment:web/many-b, \
                 apps/Deployment:web/many-c and 2 more";
    world.until("many", three, |app| degraded(app) && message(app) == three).await;
    let worst = "Caused by apps/Deployment:web/mixed";
    world.until("mixed", worst, |app| degraded(app) && message(app) == worst).await;

    // SE-494: what is no longer in the source counts as long as it is there.
    world.until("left", "failed", degraded).await;
    world.remove("left/web.json");
    world.commit();
    world.refresh("left").await;
    let left = |app: &Value| row(app, "left")["requiresPruning"] == true;
    let app = world.until("left", "with something to prune", left).await;
    assert_eq!(app["status"]["health"]["status"], "Degraded", "SE-494: {app}");
    assert_eq!(message(&app), "Caused by apps/Deployment:web/left", "SE-494");

    until_failed(&world, "ignored").await;
    until_failed(&world, "copy").await;
    world.until("hook", "failed", |app| phase(app) == "Failed").await;
    world.rest().await;
    for name in ["ignored", "skipped", "hook", "copied"] {
        world.refresh(name).await;
        let app = world.app(name).await;
        assert_eq!(app["status"]["health"]["status"], "Healthy", "SE-490 {name}: {app}");
        assert_eq!(message(&app), "", "SE-493 {name}");
        assert_eq!(app["status"]["sync"]["status"], "Synced", "SE-145 {name}: {app}");
    }
    for (app, name) in [("skipped", "skipped"), ("hook", "hook"), ("copied", "copy")] {
        let app = world.app(app).await;
        assert_eq!(row(&app, name)["status"], Value::Null, "SE-145 {name}: {app}");
    }
}
