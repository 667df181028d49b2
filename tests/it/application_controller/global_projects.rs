//! Projects that inherit from global projects: `globalProjects` of the ConfigMap `argocd-cm`.

use super::limits::settings;
use super::*;

const PROJECT: (&str, &str) = ("argoproj.io/v1alpha1", "AppProject");
const SETTING: &str = "- labelSelector:\n    matchLabels: {tier: prod}\n  projectName: guard\n";

/// The controller with a global project for projects of a tier, and a project `team` of that tier.
async fn inheriting(global: Value, team: Value) -> World {
    let world = World::with(settings(&[("globalProjects", SETTING)])).await;
    let project = |name: &str, labels: Value, spec: Value| {
        json!({
            "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels}, "spec": spec,
        })
    };
    world.create(PROJECT.0, PROJECT.1, &project("guard", json!({}), global)).await;
    world.create(PROJECT.0, PROJECT.1, &project("team", json!({"tier": "prod"}), team)).await;
    world
}

async fn patch(world: &World, name: &str, patch: Value) {
    let api = world.api(PROJECT.0, PROJECT.1, NAMESPACE);
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

fn of_team(world: &World) -> Value {
    let mut app = world.application("app", "app");
    app["spec"]["project"] = "team".into();
    app
}

/// SE-070 … SE-074: sources, destinations and kinds that a global project permits or denies, as
/// they, the labels and the existence of the projects change.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_project_inherits_lists_of_its_global_projects_as_they_change() {
    let open = json!({
        "sourceRepos": ["*"], "destinations": [{"server": "*", "namespace": "web"}],
        "namespaceResourceBlacklist": [{"group": "", "kind": "ConfigMap", "name": "admin-*"}],
    });
    let world = inheriting(open, json!({})).await;
    world.commit_file("app/one.json", &config_map("admin-one", "1", &[]));
    world.create_app(&of_team(&world)).await;
    // Source and destination are permitted by the global project alone, and the kind is denied.
    world.until("app", "compared", |app| is(app, "OutOfSync", "Missing")).await;
    world.sync("app", json!({})).await;
    let app = world.until("app", "failed", |app| phase(app) == "Failed").await;
    let text = "spec.namespaceResourceBlacklist[0] of global project guard";
    assert!(app["status"]["operationState"].to_string().contains(text), "{app}");
    assert!(!world.has_map("admin-one").await);

    // Its lists, and the labels, act at once.
    patch(&world, "guard", json!({"spec": {"namespaceResourceBlacklist": null}})).await;
    world.sync_until_good("app", json!({})).await;
    let none = json!({"metadata": {"labels": {"tier": null}}});
    patch(&world, "team", none).await;
    let denied = "no entry of spec.sourceRepos permits it";
    world.until("app", "refused", |app| condition(app, "InvalidSpecError", denied)).await;
    patch(&world, "team", json!({"metadata": {"labels": {"tier": "prod"}}})).await;
    world.until_good("app").await;
    let repo = world.repo.path().to_str().unwrap();
    let source = json!({"spec": {"sourceRepos": ["*", format!("!{repo}")]}});
    patch(&world, "guard", source).await;
    let denied = format!("spec.sourceRepos[1] of global project guard (!{repo}) denies it");
    world.until("app", "refused", |app| condition(app, "InvalidSpecError", &denied)).await;
    patch(&world, "guard", json!({"spec": {"sourceRepos": ["*"]}})).await;
    world.until_good("app").await;

    // Without the global project, its restrictions are not known.
    let api = world.api(PROJECT.0, PROJECT.1, NAMESPACE);
    api.delete("guard", &DeleteParams::default()).await.unwrap();
    let missing = "global project guard does not exist";
    world.until("app", "refused", |app| condition(app, "InvalidSpecError", missing)).await;
    world.sync("app", json!({})).await;
    let app = world.until("app", "failed", |app| phase(app) == "Error").await;
    assert!(app["status"]["operationState"].to_string().contains(missing), "{app}");
}

/// SE-410, SE-411: sync windows of a global project count. Invalid ones of a project are named,
/// and a duplicate blocks nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sync_windows_of_a_global_project_count_as_se_410() {
    let always = |applications: &str| {
        json!({
            "kind": "deny", "schedule": "* * * * *", "duration": "1h", "applications": [applications],
        })
    };
    let elsewhere = always("other");
    let team = json!({
        "sourceRepos": ["*"], "destinations": [{"server": "*", "namespace": "*"}],
        "syncWindows": [elsewhere, elsewhere],
    });
    let world = inheriting(json!({"syncWindows": [always("*")]}), team).await;
    world.commit_file("app/one.json", &config_map("one", "1", &[]));
    world.create_app(&automated(of_team(&world))).await;
    world.until("app", "compared", |app| is(app, "OutOfSync", "Missing")).await;
    let twice = "spec.syncWindows[1]: the same as spec.syncWindows[0]";
    world.until("app", "SE-411: named", |app| condition(app, "InvalidProjectWarning", twice)).await;
    world.sync("app", json!({})).await;
    let is_blocked = |app: &Value| {
        app["status"]["operationState"]["message"] == "Sync operation blocked by sync window"
    };
    world.until("app", "held back", is_blocked).await;
    assert!(!world.has_map("one").await);
    patch(&world, "guard", json!({"spec": {"syncWindows": null}})).await;
    world.until_good("app").await;
}
