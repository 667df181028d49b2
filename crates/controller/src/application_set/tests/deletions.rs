//! Deletions come last and wait for all other writes (AS-148).

use super::*;
use kube_sim::{Effect, InjectedFault};

fn generators(names: &[&str]) -> Value {
    let elements: Vec<Value> = names.iter().map(|name| json!({ "n": name })).collect();
    json!([{ "list": { "elements": elements } }])
}

async fn generate(world: &ClusterState, names: &[&str]) {
    let spec = json!({ "spec": { "generators": generators(names) } });
    world.patch("ApplicationSet", "set", spec).await;
}

#[tokio::test]
async fn the_old_name_goes_only_when_the_new_one_is_there() {
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    let mut spec = set(Value::Null);
    spec["generators"] = generators(&["app", "app-0"]);
    world.create("ApplicationSet", "set", spec).await;
    world.until("Application", "app-0", |_| true).await;
    // Owned by another client, rejected, or without a response.
    for (round, code) in [409, 403, 500].into_iter().enumerate() {
        let (old, new) = (format!("app-{round}"), format!("app-{}", round + 1));
        let is_create = |request: &RequestRecord| {
            request.client == "sets"
                && request.verb == "create"
                && request.resource == "applications"
        };
        world.server.inject(InjectedFault::new(Effect::Status(code), is_create).times(4));
        let before = world.server.requests().len();
        generate(&world, &["app", &new]).await;
        world.until("Application", &old, is_going).await;
        let requests = world.server.requests();
        let creates = requests[before..].iter().filter(|request| is_create(request));
        let codes: Vec<u16> = creates.map(|request| request.code).collect();
        assert_eq!(codes, [code, code, code, code, 201]);
        let at = |verb: &str, code: u16| {
            requests[before..].iter().position(|request| {
                request.client == "sets"
                    && request.resource == "applications"
                    && (request.verb.as_str(), request.code) == (verb, code)
            })
        };
        assert!(at("create", 201) < at("delete", 200), "{code}: deleted before it was created");
    }
}

#[tokio::test]
async fn deletions_wait_for_a_deletion_by_another_client_and_report_it() {
    let mut world = ClusterState::start(ApplicationSetSettings::default()).await;
    let mut spec = set(Value::Null);
    spec["generators"] = generators(&["app", "old"]);
    world.create("ApplicationSet", "set", spec).await;
    for name in ["app", "old"] {
        world.until("Application", name, |_| true).await;
    }
    // The watch of the set may be faster than that of the Applications: a controller that is
    // started afterwards observes both changes.
    world.stop();
    // Its finalizer blocks the deletion.
    world.api("Application").delete("app", &kube::api::DeleteParams::default()).await.unwrap();
    world.until("Application", "app", is_going).await;
    generate(&world, &["app"]).await;
    world.restart(ApplicationSetSettings::default());
    let set = world
        .until("ApplicationSet", "set", |set| {
            let conditions = set["status"]["conditions"].as_array().cloned().unwrap_or_default();
            conditions.iter().any(|condition| condition["reason"] == "DeletionsWait")
        })
        .await;
    let conditions = set["status"]["conditions"].as_array().unwrap();
    let condition =
        conditions.iter().find(|condition| condition["reason"] == "DeletionsWait").unwrap();
    let want = "1 application waits to be deleted until application app, which is being deleted, \
                is recreated: old";
    assert_eq!(
        (&condition["type"], &condition["message"]),
        (&json!("ResourcesUpToDate"), &json!(want))
    );
    let old = world.until("Application", "old", |_| true).await;
    assert!(!is_going(&old));
    // It is recreated after its deletion, and then the other one is deleted.
    world.patch("Application", "app", json!({"metadata": {"finalizers": null}})).await;
    world.until("Application", "old", is_going).await;
    let app = world.until("Application", "app", |_| true).await;
    assert!(!is_going(&app), "{}", app["metadata"]);
}
