//! RollingSync through the controller: which steps select an Application, what is written,
//! and what is only written when its step is open (specification, sections 5.1 to 5.8).

use super::*;

/// A set with these Applications and their labels, which `templatePatch` adds.
pub fn fleet(elements: &[(&str, Value)], strategy: Value) -> Value {
    let element = |(name, labels): &(&str, Value)| json!({"n": name, "labels": labels});
    let elements: Vec<Value> = elements.iter().map(element).collect();
    let mut set = set(strategy);
    set["goTemplate"] = true.into();
    set["generators"] = json!([{"list": {"elements": elements}}]);
    set["template"]["metadata"] = json!({"name": "{{.n}}"});
    set["templatePatch"] = "metadata:\n  labels: {{ toJson .labels }}\n".into();
    // Nobody removes the finalizer here.
    set["syncPolicy"] = json!({"preserveResourcesOnDeletion": true});
    set
}

/// Steps that each select one value of the label `env`.
pub fn steps(values: &[&str]) -> Value {
    let step = |value: &&str| json!({"matchExpressions": [{"key": "env", "operator": "In", "values": [value]}]});
    json!({"type": "RollingSync", "rollingSync": {"steps": values.iter().map(step).collect::<Vec<_>>()}})
}

pub fn entry_of<'a>(set: &'a Value, name: &str) -> &'a Value {
    let entries = set["status"]["applicationStatus"].as_array();
    let found = entries.and_then(|all| all.iter().find(|entry| entry["application"] == name));
    found.unwrap_or(&Value::Null)
}

fn condition<'a>(set: &'a Value, kind: &str) -> &'a Value {
    let conditions = set["status"]["conditions"].as_array();
    let found = conditions.and_then(|all| all.iter().find(|condition| condition["type"] == kind));
    found.unwrap_or(&Value::Null)
}

/// Dev in step 1, prod in step 2.
pub fn dev_and_prod() -> Value {
    fleet(&[("a", json!({"env": "dev"})), ("b", json!({"env": "prod"}))], steps(&["dev", "prod"]))
}

impl ClusterState {
    pub async fn until_phase(&self, name: &str, phase: &str) -> Value {
        self.until("ApplicationSet", "set", |set| entry_of(set, name)["status"] == phase).await
    }

    pub async fn until_operation(&self, name: &str) -> Value {
        self.until("Application", name, |live| live["operation"].is_object()).await
    }

    /// Ends the requested operation of an Application.
    pub async fn end_operation(&self, name: &str, phase: &str, revision: &str) {
        let live = self.until_operation(name).await;
        let now =
            jiff::Timestamp::from_second(jiff::Timestamp::now().as_second()).unwrap().to_string();
        let state = json!({
            "operation": live["operation"], "phase": phase, "startedAt": now, "finishedAt": now,
            "syncResult": {"revision": revision},
        });
        self.patch(
            "Application",
            name,
            json!({"operation": null, "status": {"operationState": state}}),
        )
        .await;
    }
}

/// Number, expressions of each step, labels, and the wanted step and issues.
type Row = (u32, Vec<Value>, Value, &'static str, &'static [&'static str]);

/// A.6, rows 108 to 125, and AS-310 to AS-317: the step and the issues of one Application.
#[tokio::test]
async fn generated_labels_select_the_step_as_310_as_311_as_312_as_313_as_314_as_315_as_316_as_317()
{
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    let by = |key: &str, operator: &str, values: &[&str]| json!({"key": key, "operator": operator, "values": values});
    let dev = || by("env", "In", &["dev"]);
    let none: &[&'static str] = &[];
    let us = || by("region", "NotIn", &["us-west-2"]);
    let rows: Vec<Row> = vec![
        (108, vec![json!([dev()])], json!({"env": "dev"}), "1", none),
        (
            109,
            vec![
                json!([dev()]),
                json!([by("env", "In", &["qa"])]),
                json!([by("env", "In", &["prod"])]),
            ],
            json!({"env": "qa"}),
            "2",
            &[
                "step 1 selects no application and counts as done; the label env has the value qa",
                "step 3 selects no application",
            ],
        ),
        (110, vec![json!([dev(), by("region", "In", &["us"])])], json!({"env": "dev"}), "-1", none),
        (111, vec![json!([by("env", "In", &["dev", "qa"])])], json!({"env": "qa"}), "1", none),
        (112, vec![json!([by("env", "NotIn", &["prod"])])], json!({"env": "dev"}), "1", none),
        (113, vec![json!([by("env", "NotIn", &["prod"])])], json!({"x": "y"}), "1", none),
        (114, vec![json!([by("env", "NotIn", &["prod", "qa"])])], json!({"env": "qa"}), "-1", none),
        (
            115,
            vec![json!([by("env", "NotIn", &["prod"]), by("region", "NotIn", &["us"])])],
            json!({"env": "dev", "region": "us"}),
            "-1",
            none,
        ),
        (
            116,
            vec![json!([by("env", "In", &["qa", "prod"]), us()])],
            json!({"env": "qa", "region": "us-west-2"}),
            "-1",
            none,
        ),
        (
            117,
            vec![json!([by("env", "In", &["qa", "prod"]), us()])],
            json!({"env": "qa", "region": "us-east-2"}),
            "1",
            none,
        ),
        (
            118,
            vec![json!([by("env", "In", &["qa", "prod"]), us()])],
            json!({"env": "qa"}),
            "1",
            none,
        ),
        (
            119,
            vec![json!([dev()]), json!([by("region", "In", &["w"])])],
            json!({"env": "dev", "region": "w"}),
            "1",
            &["row-119", "1-2"],
        ),
        (
            120,
            vec![json!([by("env", "Invalid", &["dev"])]), json!([dev()])],
            json!({"env": "dev"}),
            "held",
            &["steps[0].matchExpressions[0].operator: \"Invalid\""],
        ),
        (121, vec![json!([by("env", "Exists", &[])])], json!({"x": "y"}), "held", &["Exists"]),
        (122, vec![json!([by("env", "Exists", &[])])], json!({"env": "dev"}), "held", &["Exists"]),
        (123, vec![json!([])], json!({"x": "y"}), "1", none),
        (124, vec![json!([by("env", "In", &[])])], json!({"env": "dev"}), "-1", none),
        (125, vec![json!([by("env", "in", &["dev"])])], json!({"env": "dev"}), "held", &["\"in\""]),
    ];
    for (row, expressions, labels, _, _) in &rows {
        let name = format!("row-{row}");
        let of_step = |expressions: &Value| json!({ "matchExpressions": expressions });
        let steps: Vec<Value> = expressions.iter().map(of_step).collect();
        let strategy = json!({"type": "RollingSync", "rollingSync": {"steps": steps}});
        world.create("ApplicationSet", &name, fleet(&[(&name, labels.clone())], strategy)).await;
    }
    for (row, _, _, step, issues) in &rows {
        let name = format!("row-{row}");
        // A guard that is not understood holds the set (AS-315).
        let is_held = *step == "held";
        let is_decided = |set: &Value| match is_held {
            true => condition(set, "ErrorOccurred")["status"] == "True",
            false => entry(set).is_object(),
        };
        let set = world.until("ApplicationSet", &name, is_decided).await;
        match is_held {
            true => {
                let found = world.api("Application").get_opt(&name).await.unwrap();
                assert!(found.is_none(), "row {row}: nothing is written");
            }
            false => assert_eq!(entry(&set)["step"], *step, "row {row}"),
        }
        let found = condition(&set, "InvalidRolloutConfig");
        let message = found["message"].as_str().unwrap();
        for issue in *issues {
            assert!(found["status"] == "True" && message.contains(issue), "row {row}: {found}");
        }
    }
}

/// AS-315, row 264: Applications of several steps by name.
#[tokio::test]
async fn applications_of_several_steps_are_named_in_order_as_314_as_315() {
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    let elements = [("foo", json!({"a": "1", "b": "1"})), ("bar", json!({"b": "1", "c": "1"}))];
    let by =
        |key: &str| json!({"matchExpressions": [{"key": key, "operator": "In", "values": ["1"]}]});
    let strategy =
        json!({"type": "RollingSync", "rollingSync": {"steps": [by("a"), by("b"), by("c")]}});
    world.create("ApplicationSet", "set", fleet(&elements, strategy)).await;
    let is_reported = |set: &Value| condition(set, "InvalidRolloutConfig")["status"] == "True";
    let set = world.until("ApplicationSet", "set", is_reported).await;
    let message = condition(&set, "InvalidRolloutConfig")["message"].as_str().unwrap();
    let at =
        |text: &str| message.find(text).unwrap_or_else(|| panic!("{text} is not in {message}"));
    assert!(
        at("bar") < at("(2-3)") && at("(2-3)") < at("foo") && at("foo") < at("(1-2)"),
        "{message}"
    );
}

/// AS-304, row 127: a RollingSync without steps writes nothing; AS-301, AS-303: entries are
/// removed with the strategy, and with the feature.
#[tokio::test]
async fn entries_end_with_the_steps_and_with_the_feature_as_301_as_303_as_304() {
    let mut world = ClusterState::start(ApplicationSetSettings::default()).await;
    world.create("ApplicationSet", "set", dev_and_prod()).await;
    world.until_phase("a", "Waiting").await;
    let has_no_entries = |set: &Value| {
        let entries = &set["status"]["applicationStatus"];
        entries.as_array().is_none_or(Vec::is_empty) && set["status"].is_object()
    };
    // Another path at the same time, which must not be written.
    let template = json!({"spec": {"source": {"path": "q"}}});
    let empty = json!({"type": "RollingSync", "rollingSync": {"steps": []}});
    let stuck = json!({"spec": {"strategy": empty, "template": template}});
    world.patch("ApplicationSet", "set", stuck).await;
    let set = world
        .until("ApplicationSet", "set", |set| {
            condition(set, "ErrorOccurred")["reason"] == "ApplicationSetRolloutError"
        })
        .await;
    assert!(has_no_entries(&set), "AS-304: {}", set["status"]);
    world.api("Application").delete("b", &DeleteParams::default()).await.unwrap();
    world.calm("sets").await;
    assert!(
        world.api("Application").get_opt("b").await.unwrap().is_none(),
        "AS-304: nothing is created"
    );
    let a = world.until("Application", "a", |_| true).await;
    assert_eq!(a["spec"]["source"]["path"], "p", "AS-304: nothing is updated");

    world
        .patch("ApplicationSet", "set", json!({"spec": {"strategy": steps(&["dev", "prod"])}}))
        .await;
    world.until_phase("a", "Waiting").await;
    world.until("Application", "a", |live| live["spec"]["source"]["path"] == "q").await;
    let all_at_once = json!({"spec": {"strategy": {"type": "AllAtOnce", "rollingSync": null}}});
    world.patch("ApplicationSet", "set", all_at_once).await;
    world.until("ApplicationSet", "set", has_no_entries).await;
    world
        .patch("ApplicationSet", "set", json!({"spec": {"strategy": steps(&["dev", "prod"])}}))
        .await;
    world.until_phase("a", "Waiting").await;
    world.restart(ApplicationSetSettings::default());
    world.until("ApplicationSet", "set", has_no_entries).await;
}

/// AS-306, AS-316, AS-330, AS-370: specs are written for all steps at once; syncs are not.
#[tokio::test]
async fn specs_are_written_for_all_steps_and_synced_in_turn_as_306_as_316_as_330_as_370() {
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    let elements = ["a", "b", "x"].map(|name| (name, json!({"env": name})));
    let mut spec = fleet(&elements, steps(&["a", "b"]));
    spec["template"]["spec"]["syncPolicy"] = json!({"automated": {"prune": true}});
    world.create("ApplicationSet", "set", spec).await;
    for name in ["a", "b", "x"] {
        world.compare(name, "OutOfSync", "Missing", "r1").await;
    }
    world.until_operation("a").await;
    world.move_source("q").await;
    for name in ["b", "x"] {
        let live =
            world.until("Application", name, |live| live["spec"]["source"]["path"] == "q").await;
        let automated = &live["spec"]["syncPolicy"]["automated"];
        assert_eq!(*automated, json!({"prune": true, "enabled": false}), "AS-370: {name}");
        assert_eq!(live["operation"], Value::Null, "AS-306, AS-316: {name} is not synced");
    }
    let set = world.until("ApplicationSet", "set", |set| entry_of(set, "x")["step"] == "-1").await;
    assert_eq!(entry_of(&set, "x")["status"], "Waiting");
    // The first spec ends first; x, which no step selects, is never waited for.
    world.end_operation("a", "Succeeded", "r1").await;
    for name in ["a", "b", "x"] {
        world.compare(name, "OutOfSync", "Healthy", "r1").await;
    }
    world.until_operation("a").await;
    world.end_operation("a", "Succeeded", "r1").await;
    world.compare("a", "Synced", "Healthy", "r1").await;
    world.until_operation("b").await;
    world.end_operation("b", "Succeeded", "r1").await;
    world.compare("b", "Synced", "Healthy", "r1").await;
    let is_complete = |set: &Value| condition(set, "RolloutProgressing")["status"] == "False";
    let set = world.until("ApplicationSet", "set", is_complete).await;
    assert_eq!(entry_of(&set, "x")["status"], "Waiting", "AS-316: it blocks nothing");
    let x = world.until("Application", "x", |_| true).await;
    assert_eq!(x["operation"], Value::Null, "AS-316: it is synced by hand");
}

/// AS-331: only the entry decides, unless the setting requires the live health.
#[tokio::test]
async fn live_health_closes_later_steps_only_with_the_setting_as_331() {
    for require in [false, true] {
        let mut settings = ApplicationSetSettings::default();
        settings.decisions.rollout.require_live_health = require;
        let world = ClusterState::start(settings).await;
        world.create("ApplicationSet", "set", dev_and_prod()).await;
        world.compare("a", "Synced", "Healthy", "r1").await;
        world.until_phase("a", "Healthy").await;
        world.compare("a", "Synced", "Degraded", "r1").await;
        world.reconcile().await;
        world.compare("b", "OutOfSync", "Missing", "r1").await;
        world
            .until("ApplicationSet", "set", |set| {
                entry_of(set, "b")["targetRevisions"] == json!(["r1"])
            })
            .await;
        world.reconcile().await;
        let b = world.until("Application", "b", |_| true).await;
        assert_eq!(b["operation"].is_object(), !require, "require-live-health={require}");
        let set = world.until("ApplicationSet", "set", |_| true).await;
        assert_eq!(entry_of(&set, "a")["status"], "Healthy", "the entry stays");
    }
}

/// AS-333: a new revision in an earlier step closes the later ones; what runs continues.
#[tokio::test]
async fn a_new_revision_in_an_earlier_step_closes_later_ones_as_333() {
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    let elements = [
        ("a", json!({"env": "dev"})),
        ("b", json!({"env": "prod"})),
        ("c", json!({"env": "prod"})),
    ];
    let mut strategy = steps(&["dev", "prod"]);
    strategy["rollingSync"]["steps"][1]["maxUpdate"] = json!(1);
    let mut spec = fleet(&elements, strategy);
    // Each follows its own branch, so that a new revision concerns a alone.
    spec["template"]["spec"]["source"]["targetRevision"] = "{{.n}}".into();
    world.create("ApplicationSet", "set", spec).await;
    world.compare("a", "Synced", "Healthy", "r1").await;
    world.compare("b", "OutOfSync", "Missing", "r1").await;
    world.compare("c", "OutOfSync", "Missing", "r1").await;
    let b = world.until_operation("b").await;
    world.compare("a", "OutOfSync", "Healthy", "r2").await;
    let a = world.until_operation("a").await;
    assert_eq!(a["operation"]["sync"]["revision"], "r2", "AS-365");
    let live = world.until("Application", "b", |_| true).await;
    assert_eq!(live["operation"], b["operation"], "AS-333: it is neither withdrawn nor repeated");
    world.end_operation("b", "Succeeded", "r1").await;
    world.compare("b", "Synced", "Healthy", "r1").await;
    world.until_phase("b", "Healthy").await;
    world.reconcile().await;
    let c = world.until("Application", "c", |_| true).await;
    assert_eq!(c["operation"], Value::Null, "AS-333: no new promotion in a closed step");
    world.end_operation("a", "Succeeded", "r2").await;
    world.compare("a", "Synced", "Healthy", "r2").await;
    world.until_operation("c").await;
}

/// AS-360, AS-362, AS-365, rows 190 to 195: the operation, by the sync policy.
#[tokio::test]
async fn an_operation_follows_the_sync_policy_as_360_as_362_as_365() {
    for pin in [true, false] {
        let mut settings = ApplicationSetSettings::default();
        settings.decisions.rollout.pin_revisions = pin;
        let world = ClusterState::start(settings).await;
        let mut spec = set(rolling());
        spec["template"]["spec"]["syncPolicy"] = json!({
            "retry": {"limit": 10}, "syncOptions": ["CreateNamespace=true"], "automated": {"prune": true},
        });
        world.create("ApplicationSet", "set", spec).await;
        world.compare("app", "OutOfSync", "Missing", "r1").await;
        let live = world.until_operation("app").await;
        let operation = &live["operation"];
        let by = json!({"username": "applicationset-controller", "automated": true});
        assert_eq!(operation["initiatedBy"], by, "AS-360");
        assert_eq!(operation["retry"], json!({"limit": 10}), "AS-362");
        let mut sync = json!({"prune": true, "syncOptions": ["CreateNamespace=true"]});
        if pin {
            sync["revision"] = "r1".into();
        }
        assert_eq!(operation["sync"], sync, "AS-360, AS-365: pinned {pin}");
        let info: Vec<&str> =
            [0, 1].iter().map(|at| operation["info"][at]["name"].as_str().unwrap()).collect();
        assert_eq!(info, ["Reason", "RollingSync"], "AS-361");
    }
}

/// AS-361: an operation of somebody else is not overwritten, and waited for.
#[tokio::test]
async fn an_operation_of_others_is_waited_for_as_361() {
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    world.create("ApplicationSet", "set", set(rolling())).await;
    let theirs = json!({"initiatedBy": {"username": "admin"}, "sync": {"revision": "r0"}});
    world.until("Application", "app", |_| true).await;
    world.patch("Application", "app", json!({ "operation": theirs })).await;
    world.compare("app", "OutOfSync", "Missing", "r1").await;
    let set = world
        .until("ApplicationSet", "set", |set| entry(set)["targetRevisions"] == json!(["r1"]))
        .await;
    assert_eq!(entry(&set)["status"], "Waiting");
    world.reconcile().await;
    let live = world.until("Application", "app", |_| true).await;
    assert_eq!(live["operation"], theirs, "AS-361");
    world.end_operation("app", "Failed", "r0").await;
    world.compare("app", "OutOfSync", "Missing", "r1").await;
    let live = world.until_operation("app").await;
    assert_eq!(live["operation"]["initiatedBy"]["username"], "applicationset-controller");
}

again_under_argo_cd_definitions! {
    generated_labels_select_the_step_as_310_as_311_as_312_as_313_as_314_as_315_as_316_as_317,
    applications_of_several_steps_are_named_in_order_as_314_as_315,
    entries_end_with_the_steps_and_with_the_feature_as_301_as_303_as_304,
    specs_are_written_for_all_steps_and_synced_in_turn_as_306_as_316_as_330_as_370,
    live_health_closes_later_steps_only_with_the_setting_as_331,
    a_new_revision_in_an_earlier_step_closes_later_ones_as_333,
    an_operation_follows_the_sync_policy_as_360_as_362_as_365,
    an_operation_of_others_is_waited_for_as_361,
}
