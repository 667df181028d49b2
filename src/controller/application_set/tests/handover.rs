//! An Application that one set generates no longer while another one does (C16): it changes
//! its owner, and its objects are not touched.

use super::*;

fn listing(names: &[&str], strategy: &Value, keeps: bool) -> Value {
    let mut spec = set(strategy.clone());
    spec["generators"] = of(names)["spec"]["generators"].clone();
    spec["syncPolicy"] = json!({"preserveResourcesOnDeletion": keeps});
    spec
}

fn of(names: &[&str]) -> Value {
    let elements: Vec<Value> = names.iter().map(|name| json!({"n": name})).collect();
    json!({"spec": {"generators": [{"list": {"elements": elements}}]}})
}

fn owner(live: &Value) -> &str {
    live["metadata"]["ownerReferences"][0]["name"].as_str().unwrap_or_default()
}

/// With and without finalizers, and with steps.
fn kinds() -> [(Value, bool); 3] {
    [(json!(null), false), (json!(null), true), (rolling(), false)]
}

#[tokio::test]
async fn the_new_set_starts_before_the_old_one_stops() {
    for (strategy, keeps) in kinds() {
        let world = ClusterState::start(ApplicationSetSettings::default()).await;
        world.create("ApplicationSet", "old", listing(&["x"], &strategy, keeps)).await;
        let x = world.until("Application", "x", |live| owner(live) == "old").await;
        let mut new = listing(&["x"], &strategy, keeps);
        new["template"]["spec"]["source"]["path"] = "q".into();
        world.create("ApplicationSet", "new", new).await;
        let is_refused = |set: &Value| {
            let message = condition(set, "ErrorOccurred")["message"].to_string();
            message.contains("it is owned by ApplicationSet old")
        };
        world.until("ApplicationSet", "new", is_refused).await;
        world.patch("ApplicationSet", "old", of(&[])).await;
        let is_new = |live: &Value| owner(live) == "new" && live["spec"]["source"]["path"] == "q";
        let taken = world.until("Application", "x", is_new).await;
        assert_eq!(taken["metadata"]["uid"], x["metadata"]["uid"], "it is the same one");
        assert!(taken["metadata"]["deletionTimestamp"].is_null());
        assert_eq!(world.sent("delete", "applications"), []);
        let has_no_error = |set: &Value| condition(set, "ErrorOccurred")["status"] == "False";
        world.until("ApplicationSet", "new", has_no_error).await;
    }
}

/// As one `kubectl apply` of both does.
#[tokio::test]
async fn the_old_set_stops_before_the_new_one_starts() {
    for (strategy, keeps) in kinds() {
        let mut world = ClusterState::start(ApplicationSetSettings::default()).await;
        world.create("ApplicationSet", "old", listing(&["x", "y"], &strategy, keeps)).await;
        world.create("ApplicationSet", "new", listing(&["z"], &strategy, keeps)).await;
        let x = world.until("Application", "x", |live| owner(live) == "old").await;
        world.until("Application", "z", |live| owner(live) == "new").await;
        // Both changes are there when the controller starts, which knows nothing about the
        // second set when it reads the first one.
        world.stop();
        world.patch("ApplicationSet", "old", of(&["y"])).await;
        world.patch("ApplicationSet", "new", of(&["x", "z"])).await;
        world.restart(ApplicationSetSettings { progressive_syncs: true, ..Default::default() });
        let taken = world.until("Application", "x", |live| owner(live) == "new").await;
        assert_eq!(taken["metadata"]["uid"], x["metadata"]["uid"], "it is the same one");
        assert_eq!(world.sent("delete", "applications"), []);
        // What nobody generates is deleted as before.
        world.patch("ApplicationSet", "old", of(&[])).await;
        let is_going = |live: &Value| !live["metadata"]["deletionTimestamp"].is_null();
        match keeps {
            true => world.until_gone("Application", "y").await,
            false => drop(world.until("Application", "y", is_going).await),
        }
    }
}

/// One `kubectl apply` may change a set and create the one that its Applications go to.
#[tokio::test]
async fn a_deletion_leaves_time_for_a_set_that_is_about_to_be_created() {
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    world.create("ApplicationSet", "old", listing(&["x"], &json!(null), true)).await;
    world.until("Application", "x", |live| owner(live) == "old").await;
    let start = std::time::Instant::now();
    world.patch("ApplicationSet", "old", of(&[])).await;
    world.until_gone("Application", "x").await;
    assert!(start.elapsed() >= Duration::from_secs(1), "{:?}", start.elapsed());
}
