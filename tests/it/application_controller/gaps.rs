//! Tracked objects of any kind are found (SE-432), or the gap is reported.

use super::*;

/// A tracked object of a kind that is in no source.
async fn left_over(world: &World, name: &str, installation: Option<&str>) {
    let id = format!("app:/ServiceAccount:web/{name}");
    let mut annotations = json!({"argocd.argoproj.io/tracking-id": id});
    if let Some(installation) = installation {
        annotations["argocd.argoproj.io/installation-id"] = installation.into();
    }
    let object =
        json!({"metadata": {"name": name, "namespace": "web", "annotations": annotations}});
    world.create("v1", "ServiceAccount", &object).await;
}

/// A world whose controller is not started, and must not list ServiceAccounts.
async fn without_accounts() -> World {
    let mut world = World::start().await;
    world.crash().await;
    let forbidden = requests("list", "serviceaccounts");
    world.server.inject(InjectedFault::new(Effect::Status(403), forbidden).times(usize::MAX));
    world.write("app/one.json", &config_map("one", "1", &[]));
    world
}

/// Whether an Application reports that gap.
fn reports_accounts(app: &Value) -> bool {
    condition(app, "UnlistedResourceWarning", "cannot list ServiceAccount")
}

fn lists(app: &Value, name: &str) -> bool {
    let rows = app["status"]["resources"].as_array().into_iter().flatten();
    rows.into_iter().any(|row| row["name"] == name && row["requiresPruning"] == true)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tracked_object_of_any_kind_is_found_after_a_start() {
    let mut world = World::start().await;
    world.crash().await;
    left_over(&world, "left", None).await;
    let revision = world.commit_file("app/one.json", &config_map("one", "1", &[]));
    world.run();
    world.create_app(&world.application("app", "app")).await;
    world.until("app", "reported of what is left", |app| lists(app, "left")).await;
    world.sync_until_good("app", json!({"revision": revision, "prune": true})).await;
    assert_eq!(world.get("v1", "ServiceAccount", "web", "left").await, Value::Null);

    // Deleting an Application deletes tracked objects that were never in its source, too.
    world.crash().await;
    left_over(&world, "again", None).await;
    let finalizer = "resources-finalizer.argocd.argoproj.io";
    world.patch("app", json!({"metadata": {"finalizers": [finalizer]}})).await;
    world.delete_app("app").await;
    world.run();
    world.until("app", "gone", Value::is_null).await;
    assert_eq!(world.get("v1", "ServiceAccount", "web", "again").await, Value::Null);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_without_the_installation_id_is_not_tracked() {
    // SE-113
    let settings = ApplicationSettings {
        installation_id: "here".to_owned(),
        ..ApplicationSettings::default()
    };
    let mut world = World::with(settings).await;
    world.crash().await;
    left_over(&world, "ours", Some("here")).await;
    left_over(&world, "theirs", Some("there")).await;
    left_over(&world, "nobodys", None).await;
    let revision = world.commit_file("app/one.json", &config_map("one", "1", &[]));
    world.run();
    world.create_app(&world.application("app", "app")).await;
    world.until("app", "reported of its own", |app| lists(app, "ours")).await;
    world.sync_until_good("app", json!({"revision": revision, "prune": true})).await;
    let left = world.api("v1", "ServiceAccount", "web").list(&Default::default()).await.unwrap();
    let left: Vec<String> = left.items.into_iter().filter_map(|o| o.metadata.name).collect();
    assert!(
        left.contains(&"theirs".to_owned()) && left.contains(&"nobodys".to_owned()),
        "{left:?}"
    );
    assert!(!left.contains(&"ours".to_owned()), "{left:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kind_that_cannot_be_listed_is_reported() {
    let mut world = without_accounts().await;
    let revision = world.commit();
    world.run();
    world.create_app(&world.application("app", "app")).await;
    world.until("app", "reported of the gap", reports_accounts).await;
    // Applications are not affected.
    world.sync("app", json!({"revision": revision, "prune": true})).await;
    world
        .until("app", "synced", |app| {
            settled(app) && is(app, "Synced", "Healthy") && reports_accounts(app)
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kind_whose_definition_comes_or_goes_is_listed_again_before_it_is_reported() {
    let mut world = World::start().await;
    world.crash().await;
    left_over(&world, "left", None).await;
    let unknown = requests("list", "serviceaccounts");
    world.server.inject(InjectedFault::new(Effect::Status(404), unknown).times(1));
    world.commit_file("app/one.json", &config_map("one", "1", &[]));
    world.run();
    world.create_app(&world.application("app", "app")).await;
    world
        .until("app", "listed at the second attempt", |app| {
            let reported = condition(app, "UnlistedResourceWarning", "");
            assert!(!reported, "{}", app["status"]["conditions"]);
            lists(app, "left")
        })
        .await;
}

/// The message names what is installed instead, also in another group (SE-208, K-09).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_version_that_is_not_installed_is_named_with_the_one_that_is() {
    for (api_version, kind, want) in [
        (
            "apps/v1alpha1",
            "Deployment",
            "The Kubernetes API could not find version \"v1alpha1\" of apps/Deployment for \
             requested resource web/one. Version \"v1\" of apps/Deployment is installed on the \
             destination cluster.",
        ),
        (
            "wrong.group/v1alpha1",
            "Deployment",
            "The Kubernetes API could not find version \"v1alpha1\" of wrong.group/Deployment \
             for requested resource web/one. Version \"v1\" of apps/Deployment is installed on \
             the destination cluster.",
        ),
        (
            "wrong.group/v1alpha1",
            "Fake",
            "The Kubernetes API could not find wrong.group/Fake for requested resource web/one. \
             Make sure the \"Fake\" CRD is installed on the destination cluster.",
        ),
    ] {
        let mut world = World::start().await;
        let manifest =
            json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "one"}});
        let revision = world.commit_file("app/one.json", &manifest.to_string());
        world.create_app(&world.application("app", "app")).await;
        world.sync("app", json!({"revision": revision})).await;
        let app = world.until("app", "failed", |app| phase(app) == "Failed").await;
        let rows = app["status"]["operationState"]["syncResult"]["resources"].as_array().unwrap();
        assert_eq!(rows[0]["message"], want, "{rows:#?}");
        world.crash().await;
    }
}

/// The condition stayed for ten minutes after the kind could be listed, on all Applications.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kind_that_is_listed_after_all_is_not_reported_any_more_se_432() {
    let mut world = without_accounts().await;
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "account"},
    });
    world.commit_file("other/account.json", &account.to_string());
    world.run();
    world.create_app(&world.application("app", "app")).await;
    world.until("app", "reported of the gap", reports_accounts).await;
    world.server.clear_faults();
    world.create_app(&world.application("other", "other")).await;
    for name in ["other", "app"] {
        let listed =
            |app: &Value| app["status"]["sync"]["status"] == "OutOfSync" && !reports_accounts(app);
        world.until(name, "listed", listed).await;
    }
}

/// A tracked object of a kind that no Application uses, which another client created while the
/// controller runs, is found by a hard refresh.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hard_refresh_finds_tracked_objects_of_other_kinds_se_432() {
    let world = World::start().await;
    let revision = world.commit_file("app/one.json", &config_map("one", "1", &[]));
    world.create_app(&world.application("app", "app")).await;
    world.sync_until_good("app", json!({"revision": revision})).await;
    world.rest().await;
    for name in ["first", "second"] {
        let id = format!("app:/Service:web/{name}");
        let late = json!({"metadata": {"name": name, "namespace": "web",
            "annotations": {"argocd.argoproj.io/tracking-id": id}},
            "spec": {"ports": [{"port": 80}]}});
        // The second one is watched, since the first one was found.
        world.create("v1", "Service", &late).await;
        if name == "first" {
            world.ask_refresh("app").await;
            world.rest().await;
            let app = world.app("app").await;
            assert!(row(&app, name).is_null(), "{}", app["status"]);
            world.refresh("app").await;
        }
        let found = |app: &Value| row(app, name)["requiresPruning"] == true;
        world.until("app", "found", found).await;
    }
}
