//! Syncs that act as service accounts of the project (SE-079).

use super::limits::settings;
use super::*;

const SWITCH: &str = "application.sync.impersonation.enabled";
const DEPLOYER: &str = "system:serviceaccount:web:deployer";

/// The clients of the requests that change objects of a kind, as `CLIENT VERB NAME`.
fn writers(world: &World, resource: &str) -> Vec<String> {
    let requests = world.server.requests().into_iter();
    let writes = requests.filter(|one| {
        one.resource == resource
            && one.client != "test"
            && !["get", "list", "watch"].contains(&one.verb.as_str())
    });
    writes.map(|one| format!("{} {} {}", one.client, one.verb, one.name)).collect()
}

/// There are writes of ConfigMaps, all with the rights of the controller.
fn controller_has_written(world: &World) {
    let written = writers(world, "configmaps");
    assert!(
        !written.is_empty() && written.iter().all(|one| one.starts_with(CONTROLLER)),
        "{written:?}"
    );
}

/// Every write of a sync, hooks and prunes included, is one of the service account; what is
/// read, and the Application itself, is not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sync_acts_as_the_service_account_of_the_project_as_se_079() {
    let world = World::with(settings(&[(SWITCH, "true")])).await;
    let hook = [
        ("argocd.argoproj.io/hook", "PreSync"),
        ("argocd.argoproj.io/hook-delete-policy", "HookSucceeded"),
    ];
    world.write("app/one.json", &config_map("one", "1", &[]));
    world.write("app/two.json", &config_map("two", "1", &[]));
    world.commit_file("app/before.json", &config_map("before", "1", &hook));
    let accounts = json!([
        {"server": "https://elsewhere", "namespace": "*", "defaultServiceAccount": "other"},
        {"server": "*", "namespace": "w*", "defaultServiceAccount": "deployer"},
        {"server": "*", "namespace": "web", "defaultServiceAccount": "later"},
    ]);
    world.patch_project(json!({ "destinationServiceAccounts": accounts })).await;
    // The project is known by then.
    world.rest().await;
    let mut app = world.application("app", "app");
    app["metadata"]["finalizers"] = json!([CASCADE]);
    world.create_app(&app).await;
    world.sync_until_good("app", json!({})).await;
    let written = writers(&world, "configmaps");
    // The name of a new object is in the body only.
    let created = written.iter().filter(|write| write.contains(" create "));
    assert_eq!(created.count(), 3, "{written:?}");
    assert!(written.iter().any(|write| write.ends_with("delete before")), "{written:?}");
    let foreign = written.iter().filter(|write| !write.starts_with(DEPLOYER));
    assert_eq!(foreign.count(), 0, "{written:?}");
    let applications = writers(&world, "applications");
    assert!(applications.iter().all(|write| !write.starts_with(DEPLOYER)), "{applications:?}");
    let reads = world.server.requests();
    let read = |one: &&RequestRecord| one.client == DEPLOYER && one.verb == "watch";
    assert_eq!(reads.iter().filter(read).count(), 0, "comparisons read with their own rights");

    // A prune is a write of the sync, too.
    world.server.forget_requests();
    world.remove("app/two.json");
    world.commit();
    world.sync("app", json!({"prune": true})).await;
    world
        .until("app", "pruned", |app| {
            settled(app) && app["status"]["resources"].as_array().is_some_and(|all| all.len() == 1)
        })
        .await;
    let written = writers(&world, "configmaps");
    assert!(written.contains(&format!("{DEPLOYER} delete two")), "{written:?}");

    // What the account may not do fails with the words of the API server.
    let forbidden = |request: &RequestRecord| request.client == DEPLOYER && request.name == "one";
    world.server.inject(InjectedFault::new(Effect::Status(403), forbidden).times(usize::MAX));
    world.commit_file("app/one.json", &config_map("one", "2", &[]));
    world.sync("app", json!({})).await;
    let app = world.until("app", "failed", |app| phase(app) == "Failed").await;
    let rows = app["status"]["operationState"]["syncResult"]["resources"].as_array().unwrap();
    let row = rows.iter().find(|row| row["name"] == "one").unwrap();
    assert_eq!(row["status"], "SyncFailed", "{app}");
    assert!(row["message"].as_str().unwrap().contains("injected refusal"), "{row}");
    world.server.clear_faults();

    world.server.forget_requests();
    world.delete_app("app").await;
    world.until("app", "gone", Value::is_null).await;
    let written = writers(&world, "configmaps");
    assert!(written.iter().any(|write| write == &format!("{DEPLOYER} delete one")), "{written:?}");
}

/// A hook of a deletion is a tenant's manifest like any other: with the rights of the controller it
/// could bind itself to any role. Without an account nothing is written, and the deletion waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deletion_acts_as_the_service_account_of_the_project_as_se_079() {
    let world = World::with(settings(&[(SWITCH, "true")])).await;
    let accounts =
        json!([{"server": "*", "namespace": "web", "defaultServiceAccount": "deployer"}]);
    world.patch_project(json!({ "destinationServiceAccounts": accounts })).await;
    world.rest().await;
    world.write("app/one.json", &config_map("one", "1", &[]));
    world.write("app/before.json", &config_map("before", "1", &[(HOOK, "PreDelete")]));
    let cleaned = [(HOOK, "PostDelete"), (POLICY, "HookSucceeded")];
    world.commit_file("app/after.json", &config_map("after", "1", &cleaned));
    let mut app = world.application("app", "app");
    app["metadata"]["finalizers"] = json!([CASCADE]);
    world.create_app(&app).await;
    world.sync_until_good("app", json!({})).await;
    world.patch_project(json!({ "destinationServiceAccounts": [] })).await;
    world.rest().await;
    world.server.forget_requests();
    world.delete_app("app").await;
    let none = "failed to find a matching service account to impersonate: no matching";
    world.until("app", "held", |app| condition(app, "DeletionError", none)).await;
    assert_eq!(writers(&world, "configmaps"), [""; 0]);

    world.patch_project(json!({ "destinationServiceAccounts": accounts })).await;
    world.until("app", "gone", Value::is_null).await;
    let written = writers(&world, "configmaps");
    let foreign = written.iter().filter(|write| !write.starts_with(DEPLOYER));
    assert_eq!(foreign.count(), 0, "{written:?}");
    // Both hooks; the name of a new object is in the body only.
    assert_eq!(written.iter().filter(|write| write.contains(" create ")).count(), 2, "{written:?}");
    for name in ["one", "after"] {
        assert!(written.contains(&format!("{DEPLOYER} delete {name}")), "{name}: {written:?}");
    }
}

/// Without its project nobody knows which account it is: a tenant that names another project gets
/// no more rights by it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_its_project_a_deletion_writes_nothing_as_se_079() {
    for enforced in ["true", "false"] {
        let keys = [(SWITCH, "true"), ("application.sync.impersonation.enforced", enforced)];
        let world = World::with(settings(&keys)).await;
        let accounts =
            json!([{"server": "*", "namespace": "web", "defaultServiceAccount": "deployer"}]);
        world.patch_project(json!({ "destinationServiceAccounts": accounts })).await;
        world.rest().await;
        world.commit_file("app/one.json", &config_map("one", "1", &[]));
        let mut app = world.application("app", "app");
        app["metadata"]["finalizers"] = json!([CASCADE]);
        world.create_app(&app).await;
        world.sync_until_good("app", json!({})).await;
        world.patch("app", json!({"spec": {"project": "nowhere"}})).await;
        world.until("app", "refused", |app| condition(app, "InvalidSpecError", "")).await;
        world.server.forget_requests();
        world.delete_app("app").await;
        let told = "project 'nowhere' does not exist or is not for this application; create";
        world.until("app", "held", |app| condition(app, "DeletionError", told)).await;
        assert_eq!(writers(&world, "configmaps"), [""; 0], "{enforced}");
        world.patch("app", json!({"spec": {"project": "default"}})).await;
        world.until("app", "gone", Value::is_null).await;
        let deleted = format!("{DEPLOYER} delete one");
        assert_eq!(writers(&world, "configmaps"), [deleted], "{enforced}");
    }
}

/// Without an account nothing is written with the rights of the controller: the operation
/// ends with Argo CD's words, and the comparison goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_service_account_nothing_is_synced_as_se_079() {
    let mut world = World::with(settings(&[(SWITCH, "true")])).await;
    world.commit_file("app/one.json", &config_map("one", "1", &[]));
    world.create_app(&world.application("app", "app")).await;
    world.sync("app", json!({})).await;
    let none = "failed to find a matching service account to impersonate: no matching service \
                account found for destination server https://kubernetes.default.svc and namespace \
                web";
    world.until("app", "failed", |app| phase(app) == "Error" && message(app) == none).await;
    let bad = &json!([{"server": "*", "namespace": "*", "defaultServiceAccount": "*"}]);
    world.patch_project(json!({ "destinationServiceAccounts": bad })).await;
    world.rest().await;
    world.sync("app", json!({})).await;
    let text = "default service account contains invalid chars '*'";
    let app = world.until("app", "failed", |app| message(app).contains(text)).await;
    assert_eq!(phase(&app), "Error", "{app}");
    world.until("app", "compared", |app| is(app, "OutOfSync", "Missing")).await;
    assert_eq!(writers(&world, "configmaps"), [""; 0]);

    // Not enforced, it acts with the rights of the controller where no entry matches.
    world.patch_project(json!({ "destinationServiceAccounts": [] })).await;
    world.crash().await;
    let free = settings(&[(SWITCH, "true"), ("application.sync.impersonation.enforced", "false")]);
    world.settings.impersonation_enforced = free.impersonation_enforced;
    world.run();
    world.sync_until_good("app", json!({})).await;
    controller_has_written(&world);
    world.server.forget_requests();
    world.patch_project(json!({ "destinationServiceAccounts": bad })).await;
    world.rest().await;
    world.commit_file("app/one.json", &config_map("one", "2", &[]));
    world.refresh("app").await;
    world.sync("app", json!({})).await;
    let refused = |app: &Value| phase(app) == "Error" && message(app).contains(text);
    world.until("app", "failed", refused).await;
    assert_eq!(writers(&world, "configmaps"), [""; 0]);

    // Switched off, the field has no effect, as in Argo CD.
    world.crash().await;
    world.settings.impersonation = settings(&[(SWITCH, "false")]).impersonation;
    world.run();
    world.sync_until_good("app", json!({})).await;
    controller_has_written(&world);
}
