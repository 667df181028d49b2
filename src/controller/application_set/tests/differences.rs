//! Insignificant differences are not written, and ignored fields stay (AS-153, AS-163).

use super::*;

/// Number of Application patches by the controller.
fn patches(world: &ClusterState) -> usize {
    let of_application = |request: &&RequestRecord| {
        request.client == "sets" && request.verb == "patch" && request.resource == "applications"
    };
    world.server.requests().iter().filter(of_application).count()
}

#[tokio::test]
async fn dropped_zero_values_are_not_written_again() {
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    let mut spec = set(Value::Null);
    spec["template"]["spec"]["source"]["directory"] =
        json!({"recurse": false, "include": "*.yaml"});
    spec["template"]["spec"]["syncPolicy"] =
        json!({"automated": {"prune": false, "enabled": false}, "retry": {"limit": 0}});
    world.create("ApplicationSet", "set", spec).await;
    world.until("Application", "app", |_| true).await;
    // Like a client that writes the object with Argo CD's Go types.
    let dropped = json!({"spec": {
        "source": {"directory": {"recurse": null}, "helm": {"skipCrds": false}},
        "syncPolicy": {"automated": {"prune": null}, "retry": {"limit": null}},
    }});
    world.patch("Application", "app", dropped).await;
    for _ in 0..3 {
        world.reconcile().await;
    }
    assert_eq!(patches(&world), 0);
    // Zero values that differ from an absent field are written.
    let enabled = json!({"spec": {"syncPolicy": {"automated": {"enabled": null}}}});
    world.patch("Application", "app", enabled).await;
    world
        .until("Application", "app", |live| {
            live["spec"]["syncPolicy"]["automated"]["enabled"] == json!(false)
        })
        .await;
}

#[tokio::test]
async fn an_ignored_value_stays_with_its_element_of_a_list() {
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    let source = |repository: &str| {
        let repository = format!("https://example.com/{repository}");
        json!({"repoURL": repository, "path": "p", "targetRevision": "main"})
    };
    let mut spec = set(Value::Null);
    spec["template"]["spec"]["source"] = Value::Null;
    spec["template"]["spec"]["sources"] = json!([source("a"), source("b")]);
    let rule = ".spec.sources[] | select(.repoURL | endswith(\"/b\")) | .targetRevision";
    spec["ignoreApplicationDifferences"] = json!([{"jqPathExpressions": [rule]}]);
    world.create("ApplicationSet", "set", spec.clone()).await;
    world.until("Application", "app", |_| true).await;
    let mut by_hand = json!([source("a"), source("b")]);
    by_hand[1]["targetRevision"] = "hotfix".into();
    world.patch("Application", "app", json!({"spec": {"sources": by_hand}})).await;

    // Another element is inserted before it.
    spec["template"]["spec"]["sources"] = json!([source("new"), source("a"), source("b")]);
    world.patch("ApplicationSet", "set", json!({ "spec": spec })).await;
    let live =
        world.until("Application", "app", |live| live["spec"]["sources"][2].is_object()).await;
    let revisions: Vec<&Value> =
        (0..3).map(|at| &live["spec"]["sources"][at]["targetRevision"]).collect();
    assert_eq!(revisions, ["main", "main", "hotfix"]);
    for _ in 0..3 {
        world.reconcile().await;
    }
    assert_eq!(patches(&world), 1, "it is written once");
    let live = world.until("Application", "app", |_| true).await;
    assert_eq!(live["spec"]["sources"][2]["targetRevision"], "hotfix");
}
