//! Ignore rules (`ignoreDifferences`): jq expressions, and the effect of invalid rules.

use super::*;

/// A map with many values to iterate over.
fn large_map(name: &str, value: &str) -> String {
    let mut data: BTreeMap<String, String> =
        (0..200).map(|i| (format!("k{i}"), "x".repeat(500))).collect();
    data.insert("value".to_owned(), value.to_owned());
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
        .to_string()
}

async fn drift(world: &World, name: &str) {
    let drift = Patch::Merge(json!({"data": {"value": "changed"}}));
    world.api("v1", "ConfigMap", "web").patch(name, &PatchParams::default(), &drift).await.unwrap();
}

fn with_rule(mut application: Value, expression: &str) -> Value {
    application["spec"]["ignoreDifferences"] =
        json!([{"kind": "ConfigMap", "jqPathExpressions": [expression]}]);
    application
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_jq_expressions_are_supported_se_173() {
    let world = World::start().await;
    let revision = world.commit_file("app/one.json", &config_map("one", "1", &[]));
    let rule = r#"if .metadata.name | IN("one", "two") then .data.nope // .data | (.[keys[] | select(ascii_downcase | startswith("val"))]) else empty end"#;
    world.create_app(&with_rule(world.application("app", "app"), rule)).await;
    world.sync_until_good("app", json!({"revision": revision})).await;
    drift(&world, "one").await;
    world.refresh("app").await;
    let app = world.app("app").await;
    assert!(is(&app, "Synced", "Healthy"), "the rule holds: {}", app["status"]);
    assert!(app["status"]["conditions"].as_array().is_none_or(Vec::is_empty), "{}", app["status"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rule_over_the_limits_is_a_condition_and_ignored_fields_are_not_overwritten() {
    // Cloning the input for each branch would take gigabytes for a small object, and
    // exhaust memory for a large one.
    let settings = ApplicationSettings {
        jq_timeout: Duration::from_millis(900),
        ..ApplicationSettings::default()
    };
    let world = World::with(settings).await;
    world.write("app/one.json", &large_map("one", "1"));
    let revision = world.commit_file("other/two.json", &large_map("two", "1"));
    let more = json!({"spec": {"syncPolicy": {"automated": {"selfHeal": true}}}});
    world.create_with("app", "app", more).await;
    world.create_app(&world.application("other", "other")).await;
    world.until_good("app").await;

    let eight = ["(.,.,.,.,.,.,.,.)"; 8].join("|");
    let hostile = format!(r#"select({eight} | .data.value == "nothing")"#);
    let rules = with_rule(json!({}), &hostile)["spec"]["ignoreDifferences"].clone();
    world.patch("app", json!({"spec": {"ignoreDifferences": rules}})).await;
    drift(&world, "one").await;
    let reported = |app: &Value| {
        condition(app, "ComparisonError", "ignoreDifferences: jqPathExpressions")
            && condition(app, "ComparisonError", "limit exceeded: it takes longer than 900ms")
            && condition(app, "ComparisonError", "on ConfigMap/one")
    };
    world.until("app", "reported the rule and the limit", reported).await;
    world.sync_until_good("other", json!({"revision": revision})).await;
    let map = world.get("v1", "ConfigMap", "web", "one").await;
    assert_eq!(map["data"]["value"], "changed", "the rule may have been about this very field");

    world.sync("app", json!({"revision": revision})).await;
    let app = world.until("app", "refused", |app| phase(app) == "Error").await;
    assert!(message(&app).contains("limit exceeded"), "{app}");
    world.patch("app", json!({"spec": {"ignoreDifferences": null}})).await;
    world.sync_until_good("app", json!({"revision": revision})).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rule_that_selects_no_path_is_skipped_and_the_others_hold_se_173() {
    let world = World::start().await;
    let revision = world.commit_file("app/one.json", &config_map("one", "1", &[]));
    let mut application = world.application("app", "app");
    // A value, a path that this object does not have, and the whole language.
    let rules = [
        ".data | to_entries",
        ".data.value.deep",
        "def named($n): .[$n]; reduce (\"da\", \"ta\") as $part (\"\"; . + $part) as $name \
         | named($name) | .[to_entries[] | select(.value | test(\"^CHANGED$\"; \"i\")).key]",
    ];
    application["spec"]["ignoreDifferences"] =
        json!([{"kind": "ConfigMap", "jqPathExpressions": rules}]);
    world.create_app(&application).await;
    world.sync_until_good("app", json!({"revision": revision})).await;
    drift(&world, "one").await;
    world.refresh("app").await;
    let app = world.until("app", "different", |app| is(app, "OutOfSync", "Healthy")).await;
    // The last rule ignores the field in the live object only, so that the target still
    // has it: what a rule selects is found in each of the two by itself.
    assert!(is(&app, "OutOfSync", "Healthy"), "{}", app["status"]);
    assert!(app["status"]["conditions"].as_array().is_none_or(Vec::is_empty), "{}", app["status"]);

    let both = json!([{"kind": "ConfigMap", "jqPathExpressions":
        [".data | to_entries", ".data | .[to_entries[] | select(.key == \"value\").key]"]}]);
    world.patch("app", json!({"spec": {"ignoreDifferences": both}})).await;
    world.until("app", "in sync by the second rule", |app| is(app, "Synced", "Healthy")).await;
    // SE-331: the live value stays in a sync, too.
    let options = ["RespectIgnoreDifferences=true"];
    world.sync_until_good("app", json!({"revision": revision, "syncOptions": options})).await;
    let map = world.get("v1", "ConfigMap", "web", "one").await;
    assert_eq!(map["data"]["value"], "changed");

    let invalid = json!([{"kind": "ConfigMap", "jqPathExpressions": [".data["]}]);
    world.patch("app", json!({"spec": {"ignoreDifferences": invalid}})).await;
    let reported = |app: &Value| {
        condition(app, "ComparisonError", "spec.ignoreDifferences[0].jqPathExpressions[0]")
    };
    world.until("app", "reported the rule that is no expression (V-258)", reported).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_time_of_an_expression_is_a_setting_se_572() {
    let settings = ApplicationSettings {
        jq_timeout: Duration::from_millis(70),
        ..ApplicationSettings::default()
    };
    let world = World::with(settings).await;
    let revision = world.commit_file("app/one.json", &config_map("one", "1", &[]));
    world.create_app(&with_rule(world.application("app", "app"), "def f: f; f")).await;
    world.create_app(&world.application("other", "app")).await;
    world.sync("other", json!({"revision": revision})).await;
    let reported = |app: &Value| {
        condition(app, "ComparisonError", "limit exceeded: it takes longer than 70ms")
    };
    world.until("app", "reported the limit", reported).await;
}

/// A rule that is about no object of the Application ignores nothing: it is reported, and stops
/// nothing (SE-171).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rule_that_matches_no_object_is_a_warning_se_171() {
    let world = World::start().await;
    let revision = world.commit_file("app/one.json", &config_map("one", "1", &[]));
    let mut app = world.application("app", "app");
    app["spec"]["ignoreDifferences"] = json!([
        {"kind": "ConfigMap", "jsonPointers": ["/data/a"]},
        {"group": "apps", "kind": "Deploymnet", "name": "web", "jsonPointers": ["/spec/replicas"]},
        {"group": "*", "kind": "*", "jsonPointers": ["/metadata/labels/x"]},
        {"kind": "ConfigMap", "namespace": "elsewhere", "jsonPointers": ["/data/a"]},
    ]);
    world.create_app(&app).await;
    let app = world.sync_until_good("app", json!({"revision": revision})).await;
    let conditions = app["status"]["conditions"].as_array().unwrap();
    let reported: Vec<&str> =
        conditions.iter().map(|one| one["message"].as_str().unwrap()).collect();
    assert_eq!(
        reported,
        [
            "spec.ignoreDifferences[1]: the Application has no Deploymnet of group apps named web, \
             so that the rule ignores nothing; correct or remove it",
            "spec.ignoreDifferences[3]: the Application has no ConfigMap in namespace elsewhere, \
             so that the rule ignores nothing; correct or remove it",
        ]
    );
    assert!(conditions.iter().all(|one| one["type"] == "SyncWarning"), "{conditions:?}");
}
