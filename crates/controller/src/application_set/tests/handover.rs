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
    let owners = live["metadata"]["ownerReferences"].as_array();
    let owner = owners.and_then(|all| all.iter().find(|one| one["kind"] == "ApplicationSet"));
    owner.and_then(|owner| owner["name"].as_str()).unwrap_or_default()
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
        world.restart(progressive(Default::default()));
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

async fn has_new_owner(world: &ClusterState, name: &str, uid: &Value) {
    let taken = world.until("Application", name, |live| owner(live) == "new").await;
    assert_eq!(taken["metadata"]["uid"], *uid, "{name} is the same one");
    assert!(!is_going(&taken), "{name}");
    assert_eq!(world.sent("delete", "applications"), []);
}

/// The pause counts from the change that released an Application, not from an earlier one whose
/// deletion waits for something else.
#[tokio::test]
async fn a_deletion_that_waits_for_long_leaves_time_for_a_new_set_too() {
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    world.create("ApplicationSet", "old", listing(&["x", "y"], &json!(null), true)).await;
    let mut uids = Vec::new();
    for name in ["x", "y"] {
        let live = world.until("Application", name, |live| owner(live) == "old").await;
        uids.push(live["metadata"]["uid"].clone());
    }
    // A name that is invalid holds the deletion of x.
    world.patch("ApplicationSet", "old", of(&["y", "In Valid"])).await;
    let is_held = |set: &Value| {
        let message = condition(set, "ResourcesUpToDate")["message"].to_string();
        message.contains("waits to be deleted")
    };
    world.until("ApplicationSet", "old", is_held).await;
    // Longer than the pause, which must not count from here.
    tokio::time::sleep(Duration::from_millis(1200)).await;
    world.patch("ApplicationSet", "old", of(&[])).await;
    world.create("ApplicationSet", "new", listing(&["x", "y"], &json!(null), true)).await;
    for (name, uid) in ["x", "y"].iter().zip(&uids) {
        has_new_owner(&world, name, uid).await;
    }
}

/// The request for a deletion is on its way while the Application changes its owner.
#[tokio::test]
async fn an_application_that_has_another_owner_by_now_is_not_deleted() {
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    world.create("ApplicationSet", "old", listing(&["x"], &json!(null), true)).await;
    world.create("ApplicationSet", "new", listing(&[], &json!(null), true)).await;
    let x = world.until("Application", "x", |live| owner(live) == "old").await;
    let new = world.until("ApplicationSet", "new", |_| true).await;
    let is_deletion = |request: &RequestRecord| {
        request.client == "sets" && request.verb == "delete" && request.resource == "applications"
    };
    let slow = kube_sim::Effect::Latency(Duration::from_secs(8));
    world.server.inject(kube_sim::InjectedFault::new(slow, is_deletion));
    world.patch("ApplicationSet", "old", of(&[])).await;
    let is_sent = async {
        while world.sent("delete", "applications").is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LIMIT, is_sent).await.expect("it is deleted");
    let mut owners = x["metadata"]["ownerReferences"].clone();
    owners[0]["name"] = "new".into();
    owners[0]["uid"] = new["metadata"]["uid"].clone();
    world.patch("Application", "x", json!({"metadata": {"ownerReferences": owners}})).await;
    world.patch("ApplicationSet", "new", of(&["x"])).await;
    let is_answered = async {
        while world.sent("delete", "applications")[0].code == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LIMIT, is_answered).await.expect("it is answered");
    let left = world.until("Application", "x", |live| owner(live) == "new").await;
    assert_eq!(left["metadata"]["uid"], x["metadata"]["uid"]);
    assert!(!is_going(&left));
    assert_eq!(world.sent("delete", "applications")[0].code, 409);
}

/// One commit moves a directory from the part of one set to that of another, which reads its
/// repository at an interval of its own.
#[tokio::test]
async fn a_directory_that_moves_to_another_set_keeps_its_application() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["team-a/x", "team-a/y", "team-b/z"] {
        std::fs::create_dir_all(folder.path().join(name)).unwrap();
        std::fs::write(folder.path().join(name).join("kustomization.yaml"), "").unwrap();
    }
    let of_team = |team: &str| {
        let mut spec = set(json!(null));
        spec["goTemplate"] = true.into();
        spec["generators"] = json!([{"git": {
            "repoURL": folder.path().display().to_string(), "revision": "HEAD",
            "requeueAfterSeconds": 3600, "directories": [{"path": format!("{team}/*")}],
        }}]);
        spec["template"]["metadata"]["name"] = "{{.path.basename}}".into();
        spec["syncPolicy"] = json!({"preserveResourcesOnDeletion": true});
        spec
    };
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    world.create("ApplicationSet", "set", of_team("team-a")).await;
    world.create("ApplicationSet", "new", of_team("team-b")).await;
    let x = world.until("Application", "x", |live| owner(live) == "set").await;
    world.until("Application", "z", |live| owner(live) == "new").await;
    std::fs::rename(folder.path().join("team-a/x"), folder.path().join("team-b/x")).unwrap();
    world.reconcile().await;
    has_new_owner(&world, "x", &x["metadata"]["uid"]).await;
}

fn without_repository() -> Value {
    let mut spec = listing(&["z"], &json!(null), true);
    spec["generators"] = json!([{"git": {
        "repoURL": "/nowhere/at/all", "revision": "HEAD", "directories": [{"path": "*"}],
    }}]);
    spec
}

/// Nothing is deleted because something could not be read: the set that is meant to take the
/// Application over has a repository that does not answer.
#[tokio::test]
async fn a_deletion_waits_for_a_set_that_was_changed_with_it_and_cannot_be_generated() {
    for is_approved in [false, true] {
        let mut world = ClusterState::start(ApplicationSetSettings::default()).await;
        world.create("ApplicationSet", "old", listing(&["x"], &json!(null), true)).await;
        let x = world.until("Application", "x", |live| owner(live) == "old").await;
        world.create("ApplicationSet", "new", without_repository()).await;
        world.patch("ApplicationSet", "old", of(&[])).await;
        let held = |set: &Value| {
            let held = condition(set, "DeletionsHeld");
            held["status"] == "True" && held["reason"] == "OtherApplicationSetUnknown"
        };
        world.until("ApplicationSet", "old", held).await;
        // Also after a restart.
        world.restart(progressive(Default::default()));
        let set = world.until("ApplicationSet", "old", held).await;
        let message = condition(&set, "DeletionsHeld")["message"].as_str().unwrap().to_owned();
        assert!(message.contains("ApplicationSet new cannot be generated"), "{message}");
        let (_, approval) = message.rsplit_once(" --overwrite ").unwrap();
        if is_approved {
            let (key, hash) = approval.split_once('=').unwrap();
            let approval = json!({"metadata": {"annotations": {key: hash}}});
            world.patch("ApplicationSet", "old", approval).await;
            world.until_gone("Application", "x").await;
            let is_over = |set: &Value| {
                condition(set, "DeletionsHeld").is_null()
                    && set["metadata"]["annotations"][key].is_null()
            };
            world.until("ApplicationSet", "old", is_over).await;
        } else {
            world.patch("ApplicationSet", "new", of(&["x"])).await;
            has_new_owner(&world, "x", &x["metadata"]["uid"]).await;
        }
    }
}

/// The set that generates it must not write it: the other one says for whom it waits, and
/// deletes it when that set is gone.
#[tokio::test]
async fn an_application_that_nobody_takes_over_waits_and_is_reported() {
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    world.create("ApplicationSet", "old", listing(&["x"], &json!(null), true)).await;
    world.until("Application", "x", |live| owner(live) == "old").await;
    let mut new = listing(&["x"], &json!(null), true);
    new["template"]["spec"]["project"] = "missing".into();
    world.create("ApplicationSet", "new", new).await;
    let has_failed = |set: &Value| condition(set, "ErrorOccurred")["status"] == "True";
    world.until("ApplicationSet", "new", has_failed).await;
    world.patch("ApplicationSet", "old", of(&[])).await;
    let reports = |set: &Value| {
        let message = condition(set, "ResourcesUpToDate")["message"].to_string();
        message.contains("until ApplicationSet new takes over what it generates: x")
    };
    world.until("ApplicationSet", "old", reports).await;
    assert_eq!(world.sent("delete", "applications"), []);
    world.delete("ApplicationSet", "new").await;
    world.until_gone("Application", "x").await;
}

/// The policy of the set that takes over does not matter: the old one must not delete what
/// another one generates.
#[tokio::test]
async fn a_set_that_may_not_update_takes_over_too() {
    for policy in ["create-only", "create-update", "create-delete"] {
        let world = ClusterState::start(ApplicationSetSettings::default()).await;
        world.create("ApplicationSet", "old", listing(&["x"], &json!(null), true)).await;
        let x = world.until("Application", "x", |live| owner(live) == "old").await;
        let mut new = listing(&["x"], &json!(null), true);
        new["syncPolicy"]["applicationsSync"] = policy.into();
        world.create("ApplicationSet", "new", new).await;
        world.patch("ApplicationSet", "old", of(&[])).await;
        has_new_owner(&world, "x", &x["metadata"]["uid"]).await;
        if policy != "create-delete" {
            let is_protected = |live: &Value| {
                let owners = live["metadata"]["ownerReferences"].as_array().unwrap();
                owners.iter().any(|owner| owner["kind"] == "Namespace")
            };
            world.until("Application", "x", is_protected).await;
        }
    }
}
