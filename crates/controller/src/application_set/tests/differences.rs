//! Insignificant differences are not written, and ignored fields stay (AS-153, AS-163).

use super::*;
use kube_sim::{Effect, InjectedFault};

fn is_patch(request: &RequestRecord) -> bool {
    request.client == "sets" && request.verb == "patch" && request.resource == "applications"
}

/// Number of Application patches by the controller. One that was decided on an outdated
/// Application, and refused, changes nothing.
fn patches(world: &ClusterState) -> usize {
    let requests = world.server.requests();
    requests.iter().filter(|request| is_patch(request) && request.code != 409).count()
}

#[tokio::test]
async fn dropped_zero_values_are_not_written_again_as_153() {
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
async fn an_ignored_value_stays_with_its_element_of_a_list_as_163() {
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
    let mut edited = json!([source("a"), source("b")]);
    edited[1]["targetRevision"] = "hotfix".into();
    world.patch("Application", "app", json!({"spec": {"sources": edited}})).await;

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

/// A merge patch replaces a list as a whole, so it undid the change of another client that
/// was made between observation and write.
#[tokio::test]
async fn an_ignored_value_that_changes_during_the_write_of_its_list_stays_as_163() {
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    let source = |path: &str, revision: &str| json!({"repoURL": "https://example.com/a", "path": path, "targetRevision": revision});
    let mut spec = set(Value::Null);
    spec["template"]["spec"]["source"] = Value::Null;
    spec["template"]["spec"]["sources"] = json!([source("p", "main")]);
    spec["ignoreApplicationDifferences"] =
        json!([{"jqPathExpressions": [".spec.sources[].targetRevision"]}]);
    world.create("ApplicationSet", "set", spec.clone()).await;
    world.until("Application", "app", |_| true).await;
    world.server.inject(InjectedFault::new(Effect::Latency(Duration::from_secs(1)), is_patch));
    spec["template"]["spec"]["sources"] = json!([source("q", "main")]);
    world.patch("ApplicationSet", "set", json!({ "spec": spec })).await;
    // It is decided, and not yet applied.
    let is_sent = async {
        while !world.server.requests().iter().any(is_patch) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LIMIT, is_sent).await.expect("the controller writes the new path");
    let edited = json!({"spec": {"sources": [source("p", "hotfix")]}});
    world.patch("Application", "app", edited).await;
    let is_new = |live: &Value| live["spec"]["sources"][0]["path"] == "q";
    let live = world.until("Application", "app", is_new).await;
    assert_eq!(live["spec"]["sources"][0]["targetRevision"], "hotfix");
}

#[tokio::test]
async fn zero_values_start_no_rollout_as_153() {
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    let mut spec = set(rolling());
    spec["template"]["spec"]["source"]["directory"] = json!({"recurse": false, "jsonnet": {}});
    spec["template"]["spec"]["source"]["helm"] = json!({"values": "", "parameters": []});
    spec["template"]["spec"]["syncPolicy"] =
        json!({"automated": {"prune": false}, "syncOptions": []});
    spec["template"]["spec"]["info"] = json!([]);
    world.create("ApplicationSet", "set", spec).await;
    world.until("Application", "app", |_| true).await;
    let dropped = json!({"spec": {
        "source": {"directory": null, "helm": null}, "info": null,
        "syncPolicy": {"automated": {"prune": null, "selfHeal": false}, "syncOptions": null},
        "destination": {"name": ""}, "revisionHistoryLimit": null,
    }});
    world.patch("Application", "app", dropped).await;
    world.compare("app", "Synced", "Healthy", "r1").await;
    let is_healthy = |set: &Value| entry(set)["status"] == "Healthy";
    let before = world.until("ApplicationSet", "set", is_healthy).await;
    for _ in 0..3 {
        world.reconcile().await;
    }
    assert_eq!(patches(&world), 0, "no patch");
    let after = world.until("ApplicationSet", "set", |_| true).await;
    assert_eq!(entry(&after), entry(&before), "no Waiting entry");
    // An empty sync policy is none (row 208).
    world.patch("Application", "app", json!({"spec": {"syncPolicy": null}})).await;
    let has_policy =
        |live: &Value| live["spec"]["syncPolicy"]["automated"]["enabled"] == json!(false);
    world.until("Application", "app", has_policy).await;
}

#[tokio::test]
async fn rules_apply_by_name_pointer_and_expression_as_162() {
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    let mut spec = fleet(&[("a", "x"), ("b", "x")], Value::Null);
    spec["template"]["spec"]["source"]["targetRevision"] = "main".into();
    spec["ignoreApplicationDifferences"] = json!([
        {"name": "a", "jsonPointers": ["/spec/source/targetRevision", "/metadata/labels/by-hand"]},
        {"jqPathExpressions": [
            "select(.kind == \"Application\" and .metadata.name == \"b\") | .spec.source.path",
        ]},
        // These are never altered by a rule.
        {"jsonPointers": ["/kind", "/apiVersion", "/metadata/name", "/operation", "/spec/absent/x"]},
    ]);
    world.create("ApplicationSet", "set", spec).await;
    let change = json!({
        "metadata": {"labels": {"by-hand": "1", "other": "1"}},
        "spec": {"source": {"targetRevision": "fix", "path": "own"}},
    });
    for name in ["a", "b"] {
        world.until("Application", name, |_| true).await;
        world.patch("Application", name, change.clone()).await;
    }
    let is_cleaned = |live: &Value| live["metadata"]["labels"]["other"].is_null();
    let a = world.until("Application", "a", is_cleaned).await;
    assert_eq!(a["spec"]["source"]["targetRevision"], "fix");
    assert_eq!(a["spec"]["source"]["path"], "p", "the rule is for b");
    assert_eq!(a["metadata"]["labels"], json!({"by-hand": "1", "env": "x"}));
    let b = world.until("Application", "b", is_cleaned).await;
    assert_eq!(b["spec"]["source"]["targetRevision"], "main", "the rule is for a");
    assert_eq!(b["spec"]["source"]["path"], "own");
    let before = patches(&world);
    world.reconcile().await;
    assert_eq!(patches(&world), before, "I4: written once");
}

#[tokio::test]
async fn an_ignored_revision_of_a_source_is_kept_by_a_rollout_as_163_as_165() {
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    let source = |repository: &str, revision: &str| {
        let repository = format!("https://example.com/{repository}");
        json!({"repoURL": repository, "path": "p", "targetRevision": revision})
    };
    let mut spec = set(rolling());
    spec["template"]["spec"]["source"] = Value::Null;
    spec["template"]["spec"]["sources"] = json!([source("r1", "main"), source("r2", "main")]);
    let rule = ".spec.sources[] | select(.repoURL == \"https://example.com/r1\").targetRevision";
    spec["ignoreApplicationDifferences"] = json!([{"jqPathExpressions": [rule]}]);
    world.create("ApplicationSet", "set", spec.clone()).await;
    world.until("Application", "app", |_| true).await;
    let edited = json!([source("r1", "fix"), source("r2", "main")]);
    world.patch("Application", "app", json!({"spec": {"sources": edited}})).await;
    world.reconcile().await;
    assert_eq!(patches(&world), 0, "row 214");
    spec["template"]["spec"]["sources"] = json!([source("r1", "main"), source("r2", "v2")]);
    world.patch("ApplicationSet", "set", json!({ "spec": spec })).await;
    let is_new = |live: &Value| live["spec"]["sources"][1]["targetRevision"] == "v2";
    let live = world.until("Application", "app", is_new).await;
    assert_eq!(live["spec"]["sources"][0]["targetRevision"], "fix", "row 215");
    world.reconcile().await;
    assert_eq!(patches(&world), 1, "the two comparisons agree");
}

/// Labels, annotations and finalizers of others that the set keeps are no difference, and neither
/// is an ignore rule that fails for the object: an Application that is as generated is not written
/// again (AS-153, AS-164).
#[tokio::test]
async fn an_application_as_generated_is_not_written_again_as_153() {
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    let mut spec = set(Value::Null);
    spec["preservedFields"] = json!({"annotations": ["kept"], "labels": ["kept"]});
    spec["ignoreApplicationDifferences"] =
        json!([{"jqPathExpressions": [".spec.source | to_entries[] | .value.none.at.all"]}]);
    world.create("ApplicationSet", "set", spec.clone()).await;
    world.until("Application", "app", |_| true).await;
    let others = json!({"metadata": {
        "labels": {"kept": "1"},
        "annotations": {"kept": "1", "notified.notifications.argoproj.io": "{}"},
        "finalizers": [
            "resources-finalizer.argocd.argoproj.io",
            "post-delete-finalizer.argocd.argoproj.io/cleanup",
        ],
    }});
    world.patch("Application", "app", others).await;
    for _ in 0..3 {
        world.reconcile().await;
    }
    assert_eq!(patches(&world), 0);
    // What a rule cannot be evaluated for is no change of the spec, and nothing is written.
    spec["ignoreApplicationDifferences"] = json!([{"jqPathExpressions": ["[.spec"]}]);
    world.patch("ApplicationSet", "set", json!({ "spec": spec })).await;
    let field = "spec.ignoreApplicationDifferences[0].jqPathExpressions";
    world.until_condition("ErrorOccurred", "True", "UpdateApplicationError", field).await;
    assert_eq!(patches(&world), 0);
}
