//! A sync by a person to other revisions than those of the rollout (ST-065).

use super::*;

/// Times of an application controller whose clock is an hour behind or ahead.
pub(super) fn at(hours: i64) -> String {
    let now = jiff::Timestamp::now().as_second() + hours * 3600;
    jiff::Timestamp::from_second(now).unwrap().to_string()
}

/// An operation that `alice` has requested, and that has ended.
fn by_alice(sync: Value, revision: &str, hours: i64) -> Value {
    json!({
        "operation": {"initiatedBy": {"username": "alice"}, "sync": sync},
        "phase": "Succeeded", "startedAt": at(hours), "finishedAt": at(hours),
        "syncResult": {"revision": revision},
    })
}

/// The merge patch that makes `new` of `old`.
fn replacing(old: &Value, new: &Value) -> Value {
    let (Some(before), Some(after)) = (old.as_object(), new.as_object()) else {
        return new.clone();
    };
    let gone = before.keys().filter(|key| !after.contains_key(*key));
    let mut patch: serde_json::Map<String, Value> =
        gone.map(|key| (key.clone(), Value::Null)).collect();
    for (key, value) in after {
        patch.insert(key.clone(), replacing(&old[key], value));
    }
    patch.into()
}

impl ClusterState {
    /// The application controller reports the end of an operation and the comparison after
    /// it, in one write: times are whole seconds, so a comparison of the same second that was
    /// made before would count as one after it.
    pub(super) async fn ended(&self, name: &str, state: &Value, sync: &str, revision: &str) {
        let live = self.until("Application", name, |_| true).await;
        let spec = &live["spec"];
        let status = json!({
            "operationState": replacing(&live["status"]["operationState"], state),
            "sync": {
                "status": sync, "revision": revision,
                "comparedTo": {"source": spec["source"], "destination": spec["destination"]},
            },
            "health": {"status": "Healthy"}, "reconciledAt": state["finishedAt"],
        });
        self.patch("Application", name, json!({"operation": null, "status": status})).await;
    }

    /// Replaces the state of the operation, in one write.
    async fn reports(&self, name: &str, state: &Value) {
        let live = self.until("Application", name, |_| true).await;
        let state = replacing(&live["status"]["operationState"], state);
        let body = json!({"operation": null, "status": {"operationState": state}});
        self.patch("Application", name, body).await;
    }

    async fn compared_after(&self, name: &str, state: &Value, sync: &str, revision: &str) {
        self.compare(name, sync, "Healthy", revision).await;
        let at = json!({"status": {"reconciledAt": state["finishedAt"]}});
        self.patch("Application", name, at).await;
    }

    /// Completes the rollout of a revision.
    pub(super) async fn rolled_out(&self, name: &str, revision: &str) {
        let live = self.until("Application", name, |live| live["operation"].is_object()).await;
        let state = json!({
            "operation": live["operation"], "phase": "Succeeded",
            "startedAt": at(0), "finishedAt": at(0), "syncResult": {"revision": revision},
        });
        self.ended(name, &state, "Synced", revision).await;
        let name = name.to_owned();
        let is_done = |set: &Value| {
            let entry = entry_of(set, &name);
            entry["status"] == "Healthy" && entry["targetRevisions"] == json!([revision])
        };
        self.until("ApplicationSet", "set", is_done).await;
    }

    async fn until_held(&self, name: &str) -> Value {
        let is_held = |set: &Value| {
            let message = entry_of(set, name)["message"].as_str().unwrap_or_default();
            message.starts_with("HeldByPerson: ")
        };
        self.until("ApplicationSet", "set", is_held).await
    }

    pub(super) async fn is_left_alone(&self, name: &str) {
        self.reconcile().await;
        let live = self.until("Application", name, |_| true).await;
        assert_eq!(live["operation"], Value::Null, "ST-065: it is not synced over");
    }
}

/// After a rollout, whatever the clocks say, after a restart, and without the fields that the
/// definitions of Argo CD do not have. The next target takes it back.
#[tokio::test]
async fn a_sync_by_a_person_is_not_synced_over_as_st_065() {
    for hours in [0, -1, 1] {
        let mut world = ClusterState::start(ApplicationSetSettings::default()).await;
        world.create("ApplicationSet", "set", set(rolling())).await;
        world.compare("app", "OutOfSync", "Missing", "r1").await;
        world.rolled_out("app", "r1").await;
        world.compare("app", "OutOfSync", "Healthy", "r2").await;
        world.rolled_out("app", "r2").await;

        let old = by_alice(json!({"revision": "r1"}), "r1", hours);
        world.ended("app", &old, "OutOfSync", "r2").await;
        let set = world.until_held("app").await;
        let entry = entry_of(&set, "app");
        let message = "HeldByPerson: alice synced it to r1; the rollout wants r2";
        assert_eq!((&entry["status"], &entry["message"]), (&json!("Waiting"), &json!(message)));
        assert_eq!(set["status"]["rollout"]["waitingFor"][0]["reason"], message);
        assert_eq!(condition(&set, "RolloutProgressing")["status"], "True", "not complete");
        world.is_left_alone("app").await;

        world.stop();
        world.patch("ApplicationSet", "set", json!({"status": {"rollout": null}})).await;
        world.restart_ahead(progressive(Default::default()), 7200);
        world.is_left_alone("app").await;
        world.until_held("app").await;

        world.compared_after("app", &old, "OutOfSync", "r3").await;
        world.rolled_out("app", "r3").await;
    }
}

/// During a rollout: in its step, before its step, and while it runs.
#[tokio::test]
async fn a_step_waits_for_an_application_that_a_person_holds_as_st_065() {
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    let two = steps(&[("dev", Value::Null), ("prod", Value::Null)]);
    world.create("ApplicationSet", "set", fleet(&[("dev", "dev"), ("prod", "prod")], two)).await;
    for name in ["dev", "prod"] {
        world.compare(name, "OutOfSync", "Missing", "r1").await;
    }
    for name in ["dev", "prod"] {
        world.rolled_out(name, "r1").await;
    }
    for name in ["dev", "prod"] {
        world.compare(name, "OutOfSync", "Healthy", "r2").await;
    }
    let both = |set: &Value| {
        ["dev", "prod"].iter().all(|name| entry_of(set, name)["targetRevisions"] == json!(["r2"]))
    };
    world.until("ApplicationSet", "set", both).await;
    // Before its step, to what it has: it is not the sync that was there before.
    let old = by_alice(json!({"revision": "r1"}), "r1", 0);
    world.ended("prod", &old, "OutOfSync", "r2").await;
    world.until_held("prod").await;
    // In its step, while the rollout syncs it; it runs first.
    let mut running = by_alice(json!({"revision": "r0"}), "r0", 0);
    running["phase"] = "Running".into();
    running.as_object_mut().unwrap().remove("finishedAt");
    world.reports("dev", &running).await;
    let set = world.until_held("dev").await;
    let message = entry_of(&set, "dev")["message"].clone();
    let message = message.as_str().unwrap();
    assert!(message.starts_with("HeldByPerson: alice is syncing it to r0 (since "), "{message}");
    assert!(message.ends_with("); the rollout wants r2"), "{message}");
    world.ended("dev", &by_alice(json!({"revision": "r0"}), "r0", 0), "OutOfSync", "r2").await;
    for name in ["dev", "prod"] {
        world.is_left_alone(name).await;
    }
    // A dry run and a sync of some resources do not take it back.
    let parts = [
        json!({"dryRun": true}),
        json!({"revision": "r2", "resources": [{"kind": "ConfigMap", "name": "a"}]}),
    ];
    for sync in parts {
        world.ended("dev", &by_alice(sync, "r2", 0), "OutOfSync", "r2").await;
        world.is_left_alone("dev").await;
        world.until_held("dev").await;
    }
    // A sync to the target does; the next step is that of an Application that is still held.
    world.ended("dev", &by_alice(json!({"revision": "r2"}), "r2", 0), "Synced", "r2").await;
    let is_done = |set: &Value| entry_of(set, "dev")["status"] == "Healthy";
    world.until("ApplicationSet", "set", is_done).await;
    world.is_left_alone("prod").await;
    let set = world.until_held("prod").await;
    assert_eq!(set["status"]["rollout"]["step"], 2);
    world.ended("prod", &by_alice(json!({}), "r2", 0), "Synced", "r2").await;
    let is_complete = |set: &Value| condition(set, "RolloutProgressing")["status"] == "False";
    world.until("ApplicationSet", "set", is_complete).await;
}

/// What holds nothing: a sync before the target existed, one of the target, a dry run, and
/// one that failed before it applied anything.
#[tokio::test]
async fn syncs_that_hold_nothing_as_st_065() {
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    world.create("ApplicationSet", "set", set(rolling())).await;
    world.compare("app", "OutOfSync", "Missing", "r1").await;
    world.rolled_out("app", "r1").await;
    // By hand, to what is wanted; after a while there is another commit.
    world.ended("app", &by_alice(json!({"revision": "r1"}), "r1", -1), "Synced", "r1").await;
    world.reconcile().await;
    world.compare("app", "OutOfSync", "Healthy", "r2").await;
    world.rolled_out("app", "r2").await;
    // A sync that a later target has taken back holds nothing, also when it is seen again.
    world.ended("app", &by_alice(json!({"revision": "r1"}), "r1", 0), "OutOfSync", "r2").await;
    world.until_held("app").await;
    world.compare("app", "OutOfSync", "Healthy", "r3").await;
    world.rolled_out("app", "r3").await;
    // It applied nothing.
    let mut failed = by_alice(json!({"revision": "typo"}), "typo", 0);
    failed["phase"] = "Error".into();
    world.ended("app", &failed, "OutOfSync", "r3").await;
    world.rolled_out("app", "r3").await;
    // A dry run of an older revision.
    let dry = by_alice(json!({"revision": "r1", "dryRun": true}), "r1", 0);
    world.ended("app", &dry, "OutOfSync", "r3").await;
    world.until("Application", "app", |live| live["operation"].is_object()).await;
}

/// A second request that applies nothing, such as one with a typing mistake, gave the Application
/// back to the rollout, which synced over what the first one had done (ST-065).
#[tokio::test]
async fn a_request_that_applies_nothing_does_not_end_a_hold_as_st_065() {
    for user in [Some("alice"), None] {
        let world = ClusterState::start(ApplicationSetSettings::default()).await;
        world.create("ApplicationSet", "set", set(rolling())).await;
        world.compare("app", "OutOfSync", "Missing", "r1").await;
        world.rolled_out("app", "r1").await;
        world.compare("app", "OutOfSync", "Healthy", "r2").await;
        world.rolled_out("app", "r2").await;
        let of = |mut state: Value| {
            match user {
                Some(user) => state["operation"]["initiatedBy"]["username"] = user.into(),
                None => state["operation"]["initiatedBy"] = Value::Null,
            }
            state["syncResult"]["resources"] = json!([{
                "group": "", "version": "v1", "kind": "ConfigMap", "namespace": "web", "name": "a",
            }]);
            state
        };
        let mut gone_back =
            json!({"id": 1, "revision": "r1", "deployStartedAt": at(0), "deployedAt": at(0)});
        if let Some(user) = user {
            gone_back["initiatedBy"] = json!({"username": user});
        }
        let history = json!([{"id": 0, "revision": "r2", "deployedAt": at(-1)}, gone_back]);
        world.patch("Application", "app", json!({"status": {"history": history}})).await;
        world
            .ended("app", &of(by_alice(json!({"revision": "r1"}), "r1", 0)), "OutOfSync", "r2")
            .await;
        let held = world.until_held("app").await;
        let message = entry_of(&held, "app")["message"].clone();
        let mut typo = of(by_alice(json!({"revision": "typo"}), "", 0));
        typo["startedAt"] = at(1).into();
        typo["syncResult"] = json!({"revision": ""});
        for phase in ["Running", "Error"] {
            typo["phase"] = phase.into();
            world.reports("app", &typo).await;
            world.is_left_alone("app").await;
            let set = world.until_held("app").await;
            assert_eq!(entry_of(&set, "app")["message"], message, "{phase}");
        }
        world.compare("app", "OutOfSync", "Healthy", "r2").await;
        world.is_left_alone("app").await;
        world.until_held("app").await;
        // Neither does one for some resources of the target.
        let mut partial = typo.clone();
        partial["operation"]["sync"] =
            json!({"revision": "r2", "resources": [{"kind": "ConfigMap", "name": "a"}]});
        for phase in ["Running", "Error"] {
            partial["phase"] = phase.into();
            world.reports("app", &partial).await;
            world.is_left_alone("app").await;
            let set = world.until_held("app").await;
            assert_eq!(entry_of(&set, "app")["message"], message, "of some, {phase}");
        }
        // One for the target that fails so takes it back nevertheless: the rollout syncs it.
        let mut back = typo.clone();
        back["operation"]["sync"] = json!({"revision": "r2"});
        back["startedAt"] = at(2).into();
        back["finishedAt"] = at(2).into();
        world.ended("app", &back, "OutOfSync", "r2").await;
        world.rolled_out("app", "r2").await;
    }
}

/// The status has only the second request, which applied nothing. The history has the
/// first one, whoever requested it; it was taken for that of nobody when it named no user, and
/// the rollout synced over it (ST-065).
#[tokio::test]
async fn a_sync_that_was_never_observed_holds_as_st_065() {
    for user in [Some("alice"), None] {
        let mut world = ClusterState::start(ApplicationSetSettings::default()).await;
        world.create("ApplicationSet", "set", set(rolling())).await;
        for revision in ["r1", "r2"] {
            world.compare("app", "OutOfSync", "Healthy", revision).await;
            world.rolled_out("app", revision).await;
        }
        world.stop();
        let rollout = json!({"username": "applicationset-controller", "automated": true});
        let mut gone_back =
            json!({"id": 1, "revision": "r1", "deployStartedAt": at(0), "deployedAt": at(0)});
        let mut typo = by_alice(json!({"revision": "typo"}), "", 1);
        typo["phase"] = "Error".into();
        match user {
            Some(user) => gone_back["initiatedBy"] = json!({"username": user}),
            None => typo["operation"]["initiatedBy"] = Value::Null,
        }
        let history = json!([
            {"id": 0, "revision": "r2", "deployedAt": at(-1), "initiatedBy": rollout}, gone_back,
        ]);
        world.patch("Application", "app", json!({"status": {"history": history}})).await;
        world.ended("app", &typo, "OutOfSync", "r2").await;
        world.restart(progressive(Default::default()));
        let held = world.until_held("app").await;
        let by = user.unwrap_or("a person");
        let message = entry_of(&held, "app")["message"].to_string();
        assert!(message.contains(by), "{message}");
        world.is_left_alone("app").await;
        // The next revision takes it back.
        world.compared_after("app", &typo, "OutOfSync", "r3").await;
        world.rolled_out("app", "r3").await;
    }
}

/// What a sync has applied until it failed is in no history, and its end may not be observed.
/// A second request that applies nothing gave the Application back to the rollout (ST-065).
#[tokio::test]
async fn a_sync_whose_end_was_not_observed_holds_as_st_065() {
    let mut world = ClusterState::start(ApplicationSetSettings::default()).await;
    world.create("ApplicationSet", "set", set(rolling())).await;
    for revision in ["r1", "r2"] {
        world.compare("app", "OutOfSync", "Healthy", revision).await;
        world.rolled_out("app", revision).await;
    }
    let unnamed = |revision: &str, phase: &str, hours: i64| {
        let mut state = by_alice(json!({"revision": revision}), "", hours);
        state["operation"]["initiatedBy"] = Value::Null;
        state["phase"] = phase.into();
        state
    };
    // One that ends with nothing itself holds nothing.
    let (begun, mut over) = (unnamed("r0", "Running", 0), unnamed("r0", "Error", 0));
    over["startedAt"] = begun["startedAt"].clone();
    world.reports("app", &begun).await;
    let set = world.until_held("app").await;
    let message = entry_of(&set, "app")["message"].to_string();
    assert!(message.contains("a person is syncing it to r0 (since "), "{message}");
    world.ended("app", &over, "OutOfSync", "r2").await;
    world.rolled_out("app", "r2").await;

    world.reports("app", &unnamed("r1", "Running", 1)).await;
    world.until_held("app").await;
    world.stop();
    let typo = unnamed("typo", "Error", 2);
    world.ended("app", &typo, "OutOfSync", "r2").await;
    world.restart(progressive(Default::default()));
    let message = "HeldByPerson: a person may have synced it to r1; the rollout wants r2";
    for _ in 0..2 {
        world.is_left_alone("app").await;
        let set = world.until_held("app").await;
        assert_eq!(entry_of(&set, "app")["message"], message);
        world.compared_after("app", &typo, "OutOfSync", "r2").await;
    }
    world.compared_after("app", &typo, "OutOfSync", "r3").await;
    world.rolled_out("app", "r3").await;
}
