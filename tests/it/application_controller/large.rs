//! Applications that are larger than what an API server stores (SE-062, SE-597).

use std::fmt::Write;

use kube::ResourceExt;
use kube::api::ListParams;

use super::*;

/// Objects whose results take more than an Application may.
const OBJECTS: usize = 2500;

/// A ConfigMap with a long name.
fn long(index: usize) -> String {
    format!("{}-{index:05}", "x".repeat(230))
}

fn many(wave: usize) -> String {
    (0..OBJECTS).fold(String::new(), |mut text, index| {
        let wave = (wave + index / (OBJECTS - 1)).to_string();
        let object = config_map(&long(index), "1", &[("argocd.argoproj.io/sync-wave", &wave)]);
        writeln!(text, "---\n{object}").unwrap();
        text
    })
}

/// How many writes of ConfigMaps there were.
fn applied(world: &World) -> usize {
    world.writes().iter().filter(|write| write.contains(" configmaps/")).count()
}

/// How many hooks were created.
fn hooks(world: &World) -> usize {
    world.made().iter().filter(|made| *made == "jobs").count()
}

fn rows<'a>(app: &'a Value, pointer: &str) -> &'a [Value] {
    app.pointer(pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

const RESULTS: &str = "/status/operationState/syncResult/resources";

/// SE-597: everything is applied once, also by a controller that was killed between the waves,
/// hooks run once, and the Application says how much of it is not listed.
#[tokio::test(flavor = "multi_thread")]
async fn an_application_that_is_too_large_for_its_status_is_synced() {
    let mut world = World::start().await;
    world.write("app/many.yaml", &many(0));
    world.write("app/hook.json", &job("migrate", &[("argocd.argoproj.io/hook", "PreSync")]));
    let last = [("argocd.argoproj.io/hook", "PostSync"), HANGS];
    world.commit_file("app/last.json", &job("smoke", &last));
    world.create_app(&world.application("app", "app")).await;
    world.sync("app", json!({})).await;

    let waits = |app: &Value| message(app).contains("completion of hook batch/Job/smoke");
    let app = world.until("app", "at its last hook", waits).await;
    let listed = rows(&app, RESULTS).len();
    assert!((100..OBJECTS).contains(&listed), "{listed}");
    let left = format!("; {} applied resources before it are not listed", OBJECTS + 2 - listed);
    let says = |row: &Value| row["message"].as_str().is_some_and(|text| text.contains(&left));
    assert!(rows(&app, RESULTS).iter().any(says), "{left}");
    assert_eq!(applied(&world), OBJECTS);

    // What it reads then is only what is stored.
    world.crash().await;
    world.run();
    let done = json!({"metadata": {"annotations": {"simulate.wavegate.dev/outcome": null}}});
    world.patch_object(("batch/v1", "Job"), "web", "smoke", done).await;
    let app = world.until("app", "synced", settled).await;
    assert_eq!(phase(&app), "Succeeded", "{}", message(&app));
    assert_eq!(applied(&world), OBJECTS, "nothing is applied twice");
    assert_eq!(hooks(&world), 2, "each runs once");
    let total = OBJECTS + 2;
    let says = format!("of {total} resources are not listed in syncResult)");
    assert!(message(&app).contains(&says), "{}", message(&app));

    let app = world.until("app", "compared", |app| is(app, "Synced", "Healthy")).await;
    assert!(condition(&app, "SyncWarning", &format!("{total} resources; only ")), "{app}");
    assert!(rows(&app, "/status/resources").len() > 1000);
    assert!(rows(&app, "/status/resources").iter().any(|row| row["kind"] == "Job"));

    // The waves of what is pruned, and that it is, take as much.
    world.remove("app/many.yaml");
    world.remove("app/last.json");
    world.commit_file("app/one.json", &config_map("one", "1", &[]));
    world.refresh("app").await;
    let pruned = |app: &Value| {
        rows(app, RESULTS).iter().filter(|row| row["hookPhase"] == "Succeeded").count() > 400
    };
    world.sync("app", json!({"prune": true})).await;
    world.until("app", "in the middle of its prunes", pruned).await;
    world.crash().await;
    world.run();
    let app = world.until_good("app").await;
    assert_eq!(phase(&app), "Succeeded", "{}", message(&app));
    let left = world.api("v1", "ConfigMap", "web").list(&ListParams::default()).await.unwrap();
    let left = left.items.iter().filter(|object| object.name_any().contains("xxx")).count();
    assert_eq!(left, 0);
}
