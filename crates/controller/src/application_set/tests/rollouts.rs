//! Blocked rollouts: disabled, denied by a window, or with a closed step (AS-184, AS-341,
//! AS-356, AS-366).

use jiff::SignedDuration;

use super::*;
use wavegate_application::global_projects::GlobalProjects;
use wavegate_engine::windows::BLOCKED;
use wavegate_rollout::rollout;

/// An ApplicationSet with the Applications `a` and `b`, each with its name as label `app`.
fn pair(strategy: Value) -> Value {
    let mut set = set(strategy);
    set["generators"] = json!([{"list": {"elements": [{"n": "a"}, {"n": "b"}]}}]);
    set["template"]["metadata"]["labels"] = json!({"app": "{{n}}"});
    set
}

fn one_at_a_time() -> Value {
    json!({"type": "RollingSync", "rollingSync": {"steps": [{"maxUpdate": 1}]}})
}

/// A window that is always open and denies this Application.
fn deny(application: &str) -> Value {
    let window = json!({
        "kind": "deny", "schedule": "* * * * *", "duration": "24h", "applications": [application],
    });
    json!({"spec": {"syncWindows": [window]}})
}

#[tokio::test]
async fn a_disabled_rollout_does_not_stay_progressing() {
    let mut world = ClusterState::start(ApplicationSetSettings::default()).await;
    world.create("ApplicationSet", "set", set(rolling())).await;
    let progresses = |status: &'static str| {
        move |set: &Value| condition(set, "RolloutProgressing")["status"] == status
    };
    world.until("ApplicationSet", "set", progresses("True")).await;
    world.restart(ApplicationSetSettings::default());
    let set = world.until("ApplicationSet", "set", progresses("False")).await;
    let found = condition(&set, "RolloutProgressing");
    assert_eq!(found["reason"], "ApplicationSetRolloutDisabled");
    assert!(
        found["message"].as_str().unwrap().contains("progressive syncs are disabled"),
        "{found}"
    );
}

#[tokio::test]
async fn an_application_denied_by_a_window_uses_no_slot_of_max_update() {
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    world.patch("AppProject", "default", deny("a")).await;
    world.create("ApplicationSet", "set", pair(one_at_a_time())).await;
    for name in ["a", "b"] {
        world.compare(name, "OutOfSync", "Missing", "r1").await;
    }
    world.until("Application", "b", |live| live["operation"].is_object()).await;
    let a = world.until("Application", "a", |_| true).await;
    assert!(a["operation"].is_null(), "{}", a["operation"]);
    let set = world.until("ApplicationSet", "set", |_| true).await;
    let waiting = set["status"]["rollout"]["waitingFor"].as_array().unwrap();
    let found = waiting.iter().find(|wait| wait["application"] == "a").unwrap();
    let reason = found["reason"].as_str().unwrap();
    assert!(
        reason.starts_with("a sync window denies it: ") && found["until"].is_string(),
        "{found}"
    );
}

/// AS-366: windows that a project inherits from a global project count, as they change; while they
/// are not known, nothing is synced.
#[tokio::test]
async fn windows_of_a_global_project_deny_as_366() {
    let list =
        json!([{"projectName": "guard", "labelSelector": {"matchLabels": {"tier": "prod"}}}]);
    let global_projects = std::sync::Arc::new(GlobalProjects::read(&list));
    let settings = ApplicationSetSettings { global_projects, ..ApplicationSetSettings::default() };
    let world = ClusterState::start(settings).await;
    let tier = json!({"metadata": {"labels": {"tier": "prod"}}});
    world.patch("AppProject", "default", tier).await;
    world.create("ApplicationSet", "set", pair(one_at_a_time())).await;
    for name in ["a", "b"] {
        world.compare(name, "OutOfSync", "Missing", "r1").await;
    }
    let waits = |text: &'static str| {
        move |set: &Value| {
            let waiting = set["status"]["rollout"]["waitingFor"].as_array();
            let mut all = waiting.into_iter().flatten();
            all.any(|wait| wait["reason"].as_str().is_some_and(|why| why.contains(text)))
        }
    };
    let missing = waits("global project guard does not exist");
    world.until("ApplicationSet", "set", missing).await;
    world.create("AppProject", "guard", deny("*")["spec"].clone()).await;
    let denied = waits("spec.syncWindows[0] of global project guard");
    world.until("ApplicationSet", "set", denied).await;
    for name in ["a", "b"] {
        let live = world.until("Application", name, |_| true).await;
        assert!(live["operation"].is_null(), "{}", live["operation"]);
    }
    world.patch("AppProject", "guard", json!({"spec": {"syncWindows": null}})).await;
    world.until("Application", "a", |live| live["operation"].is_object()).await;
}

#[tokio::test]
async fn a_sync_blocked_by_a_window_releases_its_slot() {
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    world.create("ApplicationSet", "set", pair(one_at_a_time())).await;
    for name in ["a", "b"] {
        world.compare(name, "OutOfSync", "Missing", "r1").await;
    }
    let a = world.until("Application", "a", |live| live["operation"].is_object()).await;
    // The window closes before the first task.
    let now = jiff::Timestamp::from_second(jiff::Timestamp::now().as_second()).unwrap();
    let state = json!({
        "operation": a["operation"], "phase": "Running", "startedAt": now.to_string(), "message": BLOCKED,
    });
    world.patch("Application", "a", json!({"status": {"operationState": state}})).await;
    world.patch("AppProject", "default", deny("a")).await;
    let is_ended = |live: &Value| live["status"]["operationState"]["phase"] == "Terminating";
    world.until("Application", "a", is_ended).await;
    let b = world.until("Application", "b", |_| true).await;
    assert!(b["operation"].is_null(), "the slot is used until the other operation has ended");
    // The sync engine terminates it.
    let over = json!({"phase": "Failed", "finishedAt": now.to_string(), "message": "terminated"});
    let over = json!({"operation": null, "status": {"operationState": over}});
    world.patch("Application", "a", over).await;
    world.until("Application", "b", |live| live["operation"].is_object()).await;
    let set = world.until("ApplicationSet", "set", |_| true).await;
    assert_eq!(entry_of(&set, "a")["status"], "Waiting", "{}", set["status"]);
}

#[tokio::test]
async fn the_time_of_a_step_that_closed_does_not_count() {
    let mut settings = ApplicationSetSettings::default();
    let timeout = Some(SignedDuration::from_secs(2));
    settings.decisions.rollout.rules =
        rollout::phase::Rules { progressing_timeout: timeout, ..settings.decisions.rollout.rules };
    let world = ClusterState::start(settings).await;
    let by = |name: &str| json!([{"key": "app", "operator": "In", "values": [name]}]);
    let steps =
        json!([{"matchExpressions": by("a"), "maxUpdate": 0}, {"matchExpressions": by("b")}]);
    let strategy = json!({"type": "RollingSync", "rollingSync": {"steps": steps}});
    world.create("ApplicationSet", "set", pair(strategy)).await;
    world.compare("a", "Synced", "Healthy", "r1").await;
    world.compare("b", "OutOfSync", "Healthy", "r1").await;
    world.until("ApplicationSet", "set", |set| entry_of(set, "b")["status"] == "Pending").await;
    // The first step has a new revision and is blocked.
    world.patch("Application", "a", json!({"status": {"sync": {"status": "OutOfSync"}}})).await;
    let set = world
        .until("ApplicationSet", "set", |set| {
            entry_of(set, "a")["status"] == "Waiting" && entry_of(set, "b")["status"] != "Pending"
        })
        .await;
    let b = entry_of(&set, "b");
    assert_eq!(b["status"], "Waiting", "{b}");
    assert!(b["message"].as_str().unwrap().starts_with("Step closed"), "{b}");
}

#[tokio::test]
async fn changes_that_nothing_depends_on_share_a_write_of_the_status() {
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    let held = json!({"type": "RollingSync", "rollingSync": {"steps": [{"maxUpdate": 0}]}});
    world.create("ApplicationSet", "set", pair(held)).await;
    world.compare("a", "OutOfSync", "Missing", "r1").await;
    let is_known = |set: &Value| entry_of(set, "a")["targetRevisions"] == json!(["r1"]);
    world.until("ApplicationSet", "set", is_known).await;

    let writes = || {
        let requests = world.server.requests().into_iter();
        let of_status =
            requests.filter(|r| r.client == "sets" && r.subresource == "status" && r.code == 200);
        of_status.count() as u64
    };
    let (before, start) = (writes(), tokio::time::Instant::now());
    let rounds = 20_u64;
    for round in 0..rounds {
        let health = json!({"status": "Missing", "message": format!("round {round}")});
        world.patch("Application", "a", json!({"status": {"health": health}})).await;
        // The annotation is removed by a reconcile that observed the message.
        let refresh = wavegate_api::annotations::APPLICATION_SET_REFRESH;
        let asked = json!({"metadata": {"annotations": {refresh: "true"}}});
        world.patch("ApplicationSet", "set", asked).await;
        let is_done = |set: &Value| set["metadata"]["annotations"][refresh].is_null();
        world.until("ApplicationSet", "set", is_done).await;
    }
    let (written, seconds) = (writes() - before, start.elapsed().as_secs());
    assert!(written <= seconds + 2, "{written} writes of {rounds} changes in {seconds} s");
    let last = format!("round {}", rounds - 1);
    let is_shown = |set: &Value| set["status"]["resources"].to_string().contains(&last);
    world.until("ApplicationSet", "set", is_shown).await;
}

/// Each is created again by the reconcile that sees that it is gone, and must not find the
/// entry of the one before it, whose sync has failed.
#[tokio::test]
async fn applications_that_are_created_again_start_anew() {
    const NAMES: [&str; 3] = ["a", "b", "c"];
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    let mut spec = fleet(&NAMES.map(|name| (name, "dev")), rolling());
    // Without a finalizer: no application controller runs that removes it.
    spec["syncPolicy"] = json!({"preserveResourcesOnDeletion": true});
    world.create("ApplicationSet", "set", spec).await;
    for name in NAMES {
        world.compare(name, "OutOfSync", "Missing", "r1").await;
    }
    let mut former = Vec::new();
    for name in NAMES {
        let live = world.until("Application", name, |live| live["operation"].is_object()).await;
        let now = jiff::Timestamp::now().to_string();
        let state = json!({
            "operation": live["operation"], "phase": "Failed", "message": "refused",
            "startedAt": now, "finishedAt": now, "syncResult": {"revision": "r1"},
        });
        world
            .patch(
                "Application",
                name,
                json!({"operation": null, "status": {"operationState": state}}),
            )
            .await;
        former.push(live["metadata"]["uid"].clone());
    }
    let has = |name: &'static str, phase: &'static str| {
        move |set: &Value| entry_of(set, name)["status"] == phase
    };
    for name in NAMES {
        world.until("ApplicationSet", "set", has(name, "Progressing")).await;
    }
    for name in NAMES {
        world.delete("Application", name).await;
    }
    for (name, uid) in NAMES.iter().zip(&former) {
        world.until("Application", name, |live| live["metadata"]["uid"] != *uid).await;
    }
    for name in NAMES {
        let set = world.until("ApplicationSet", "set", has(name, "Waiting")).await;
        assert!(!entry_of(&set, name)["message"].to_string().contains("refused"), "{set}");
        world.compare(name, "OutOfSync", "Missing", "r1").await;
    }
    for name in NAMES {
        world.until("Application", name, |live| live["operation"].is_object()).await;
    }
}

again_under_argo_cd_definitions! {
    a_disabled_rollout_does_not_stay_progressing,
    an_application_denied_by_a_window_uses_no_slot_of_max_update,
    a_sync_blocked_by_a_window_releases_its_slot,
    the_time_of_a_step_that_closed_does_not_count,
    changes_that_nothing_depends_on_share_a_write_of_the_status,
    applications_that_are_created_again_start_anew,
}
