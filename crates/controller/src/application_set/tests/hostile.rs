//! Malicious and invalid templates and rules of users.

use super::*;

/// The condition of this type, if its message has the text.
fn reports(set: &Value, text: &str) -> bool {
    let conditions = set["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|condition| {
        condition["type"] == "ErrorOccurred"
            && condition["status"] == "True"
            && condition["message"].as_str().is_some_and(|message| message.contains(text))
    })
}

// With one thread, a blocking evaluation would stop all other tasks.
#[tokio::test]
async fn a_template_without_an_end_is_reported_and_does_not_block_others_as_135() {
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    let mut hostile = set(json!({}));
    hostile["goTemplate"] = true.into();
    hostile["template"]["metadata"]["name"] =
        r#"{{regexFindAll ".*[^A-Z]|[A-Z]" (repeat 1048500 "A") -1 | len}}"#.into();
    world.create("ApplicationSet", "hostile", hostile).await;
    let mut simple = set(json!({}));
    simple["template"]["metadata"]["name"] = "{{n}}-{{big}}".into();
    simple["template"]["metadata"]["annotations"] = json!({"a": "{{big}}".repeat(2000)});
    simple["generators"] = json!([{"list": {"elements": [{"n": "x", "big": "b".repeat(5000)}]}}]);
    world.create("ApplicationSet", "simple", simple).await;
    world.create("ApplicationSet", "healthy", set(json!({}))).await;

    world.until("Application", "app", |_| true).await;
    let limit = "limit exceeded: output longer than 1048576 bytes";
    until_reported(&world, "simple", &["spec.template.metadata.annotations.a", limit]).await;
    let limit = "error calling regexFindAll: limit exceeded: more than ";
    until_reported(&world, "hostile", &["spec.template.metadata.name", limit]).await;
}

/// Waits as long as a template may take in a debug build on a busy machine.
async fn until_reported(world: &ClusterState, name: &str, parts: &[&str]) {
    let api = world.api("ApplicationSet");
    let look = async {
        loop {
            let set = api.get(name).await.unwrap();
            if parts.iter().all(|part| reports(&set.parse(), part)) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(300), look).await.unwrap();
}

/// An ApplicationSet with the Applications `a` and `b`.
fn pair() -> Value {
    let mut spec = set(json!({}));
    spec["generators"] = json!([{"list": {"elements": [{"n": "a"}, {"n": "b"}]}}]);
    spec
}

async fn path_of(world: &ClusterState, name: &str) -> Value {
    world.until("Application", name, |_| true).await["spec"]["source"]["path"].clone()
}

#[tokio::test]
async fn a_rule_that_cannot_be_read_spares_all_other_applications_as_162() {
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    world.create("ApplicationSet", "set", pair()).await;
    for name in ["a", "b"] {
        assert_eq!(path_of(&world, name).await, "p");
    }
    let change = json!({"spec": {
        "template": {"spec": {"source": {"path": "q"}}},
        "ignoreApplicationDifferences": [{"name": "a", "jqPathExpressions": [".spec["]}],
    }});
    world.patch("ApplicationSet", "set", change).await;
    world.until("Application", "b", |b| b["spec"]["source"]["path"] == "q").await;
    let is_reported = |set: &Value| {
        reports(set, "spec.ignoreApplicationDifferences[0].jqPathExpressions: \".spec[\"")
    };
    world.until("ApplicationSet", "set", is_reported).await;
    assert_eq!(path_of(&world, "a").await, "p", "what is to be left alone in it is not known");

    let fixed = json!([{"name": "a", "jqPathExpressions": [
        r#".spec.source | if (.path | ascii_downcase | IN("p", "q")) then .path else empty end"#
    ]}]);
    world
        .patch("ApplicationSet", "set", json!({"spec": {"ignoreApplicationDifferences": fixed}}))
        .await;
    world.until("ApplicationSet", "set", |set| !reports(set, "")).await;
    assert_eq!(path_of(&world, "a").await, "p", "the rule holds");
}

#[tokio::test]
async fn a_rule_that_uses_up_too_much_is_named_and_its_application_left_alone_as_164() {
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    world.create("ApplicationSet", "set", pair()).await;
    for name in ["a", "b"] {
        assert_eq!(path_of(&world, name).await, "p");
    }
    let eight = ["(.,.,.,.,.,.,.,.)"; 8].join("|");
    let change = json!({"spec": {
        "template": {"spec": {"source": {"path": "q"}}},
        "ignoreApplicationDifferences":
            [{"name": "a", "jqPathExpressions": [format!(".spec | select({eight} | .x == 1)")]}],
    }});
    world.patch("ApplicationSet", "set", change).await;
    world.until("Application", "b", |b| b["spec"]["source"]["path"] == "q").await;
    let limit = "limit exceeded: it takes longer than 1s";
    let place = "spec.ignoreApplicationDifferences[0].jqPathExpressions";
    until_reported(&world, "set", &[place, limit]).await;
    assert_eq!(path_of(&world, "a").await, "p");
}
