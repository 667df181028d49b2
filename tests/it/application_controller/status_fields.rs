//! Fields of the status that other programs read.

use super::*;

fn row<'a>(app: &'a Value, name: &str) -> &'a Value {
    let rows = app["status"]["resources"].as_array().map(Vec::as_slice).unwrap_or_default();
    rows.iter().find(|row| row["name"] == name).unwrap_or(&Value::Null)
}

/// It stayed where it was for as long as nobody asked, while the revision was checked (SE-061).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn checks_of_the_revision_move_the_time_of_the_comparison_now_and_then_se_061() {
    is_compared_now_and_then(World::start().await, &[], |_| true).await;
}

/// Its message differs from the stored one at each check, which wrote it each time (SE-061).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_condition_with_credentials_causes_no_write_per_check_se_061() {
    let option = "Unknown=https://user:password@example.com/x";
    is_compared_now_and_then(World::start().await, &[option], |app| {
        let conditions = app["status"]["conditions"].to_string();
        assert!(!conditions.contains("password"), "{conditions}");
        conditions.contains("unknown sync option") && conditions.contains("***")
    })
    .await;
}

/// Such as one of an older Argo CD: the field was written at each check (SE-061).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_definition_that_lacks_a_field_causes_no_write_per_check_se_061() {
    let world = World::start().await;
    let definitions: Api<crds::CustomResourceDefinition> = Api::all(world.client.clone());
    let name = "applications.argoproj.io";
    let definition = serde_json::to_value(definitions.get(name).await.unwrap()).unwrap();
    let mut versions = definition["spec"]["versions"].clone();
    let schema = &mut versions[0]["schema"]["openAPIV3Schema"];
    let fields = schema["properties"]["status"]["properties"].as_object_mut().unwrap();
    assert!(fields.remove("controllerNamespace").is_some());
    let patch = Patch::Merge(json!({"spec": {"versions": versions}}));
    definitions.patch(name, &PatchParams::default(), &patch).await.unwrap();
    is_compared_now_and_then(world, &[], |app| {
        assert_eq!(app["status"]["controllerNamespace"], Value::Null);
        true
    })
    .await;
}

/// Checks of the revision that change nothing write the time of the comparison after some time,
/// not each time. `is_as_meant` holds for the compared Application.
async fn is_compared_now_and_then(
    mut world: World,
    options: &[&str],
    is_as_meant: impl Fn(&Value) -> bool,
) {
    world.crash().await;
    world.settings.reconciliation_timeout = Duration::from_millis(500);
    world.settings.reconciliation_jitter = Duration::ZERO;
    world.write("app/one.json", &config_map("one", "1", &[]));
    world.commit();
    world.run();
    let mut app = world.application("app", "app");
    app["spec"]["syncPolicy"] = json!({"syncOptions": options});
    world.create_app(&app).await;
    let is_compared = |app: &Value| is(app, "OutOfSync", "Missing") && is_as_meant(app);
    let first = world.until("app", "compared", is_compared).await;
    let at = |app: &Value| app["status"]["reconciledAt"].as_str().unwrap_or_default().to_owned();
    let version = |app: &Value| app["metadata"]["resourceVersion"].clone();
    let later = world.until("app", "compared again", |app| at(app) > at(&first)).await;
    assert_eq!(row(&first, "one"), row(&later, "one"));
    // What changes nothing else is not written each time.
    let last = world.until("app", "compared again", |app| at(app) > at(&later)).await;
    assert_ne!(version(&later), version(&last));
    let seconds = |app: &Value| at(app).parse::<jiff::Timestamp>().unwrap().as_second();
    assert!(seconds(&last) - seconds(&later) >= 2, "{} {}", at(&later), at(&last));
}

/// The row is Unknown only for a kind that the project denies; an Application whose sync is
/// refused is not Synced (SE-146).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_denied_kind_is_unknown_and_a_denied_namespace_is_compared_se_146() {
    let world = World::start().await;
    let project = json!({
        "metadata": {"name": "narrow", "namespace": NAMESPACE},
        "spec": {
            "sourceRepos": ["*"], "destinations": [{"server": "*", "namespace": "web"}],
            "namespaceResourceBlacklist": [{"group": "", "kind": "Secret"}],
        },
    });
    world.create("argoproj.io/v1alpha1", "AppProject", &project).await;
    world.create("v1", "Namespace", &json!({"metadata": {"name": "victim"}})).await;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "denied"}});
    let mut elsewhere: Value = serde_json::from_str(&config_map("elsewhere", "1", &[])).unwrap();
    elsewhere["metadata"]["namespace"] = "victim".into();
    world.write("kind/secret.json", &secret.to_string());
    world.write("place/map.json", &elsewhere.to_string());
    world.commit();
    let refusals = [
        ("kind", "denied", "Unknown", "resource :Secret is not permitted in project narrow"),
        (
            "place",
            "elsewhere",
            "OutOfSync",
            "namespace victim is not permitted in project 'narrow'",
        ),
    ];
    for (name, object, status, why) in refusals {
        let mut app = world.application(name, name);
        app["spec"]["project"] = "narrow".into();
        app["spec"]["syncPolicy"] = json!({"automated": {}, "retry": {"limit": 0}});
        world.create_app(&app).await;
        let is_refused = |app: &Value| phase(app) == "Failed" && settled(app);
        let app = world.until(name, "refused once", is_refused).await;
        assert_eq!(row(&app, object)["status"], status, "{app}");
        assert_eq!(app["status"]["sync"]["status"], "OutOfSync", "{name}: it is not Synced");
        let rows = &app["status"]["operationState"]["syncResult"]["resources"];
        assert!(rows[0]["message"].as_str().unwrap().starts_with(why), "{rows}");
    }
    world.rest().await;
    assert!(world.get("v1", "ConfigMap", "victim", "elsewhere").await.is_null());
    assert!(world.get("v1", "Secret", "web", "denied").await.is_null());
}

/// The option of the Application counted although the resource says otherwise (SE-149): its row
/// asked for a confirmation, and its deletion waited for one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_confirmation_of_a_deletion_is_decided_by_the_resource_first_se_149() {
    let world = World::start().await;
    let option = "argocd.argoproj.io/sync-options";
    world.write("app/own.json", &config_map("own", "1", &[(option, "Delete=true,Prune=true")]));
    world.write("app/asks.json", &config_map("asks", "1", &[(option, "Prune=confirm")]));
    let revision = world.commit();
    let mut app = world.application("app", "app");
    app["metadata"]["finalizers"] = json!(["resources-finalizer.argocd.argoproj.io"]);
    app["spec"]["syncPolicy"] = json!({"syncOptions": ["Delete=confirm"]});
    world.create_app(&app).await;
    world.sync("app", json!({"revision": revision})).await;
    let app =
        world.until("app", "synced", |app| settled(app) && is(app, "Synced", "Healthy")).await;
    assert_eq!(row(&app, "own")["requiresDeletionConfirmation"], Value::Null, "{app}");
    assert_eq!(row(&app, "asks")["requiresDeletionConfirmation"], true, "{app}");

    // What asks is gone from the source: the rest needs no confirmation.
    world.patch("app", json!({"spec": {"syncPolicy": {"syncOptions": []}}})).await;
    let is_plain = |app: &Value| {
        app["status"]["reconciledAt"].is_string()
            && row(app, "own")["requiresDeletionConfirmation"].is_null()
            && row(app, "asks")["requiresDeletionConfirmation"] == true
    };
    world.until("app", "compared", is_plain).await;
    world.patch("app", json!({"spec": {"syncPolicy": {"syncOptions": ["Delete=confirm"]}}})).await;
    world.remove("app/asks.json");
    world.commit();
    world.refresh("app").await;
    let api = world.api("v1", "ConfigMap", "web");
    api.delete("asks", &DeleteParams::default()).await.unwrap();
    let is_alone = |app: &Value| row(app, "asks").is_null() && !row(app, "own").is_null();
    world.until("app", "alone", is_alone).await;
    let apps = world.api("argoproj.io/v1alpha1", "Application", NAMESPACE);
    apps.delete("app", &DeleteParams::default()).await.unwrap();
    let gone = async {
        while apps.get_opt("app").await.unwrap().is_some() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(LIMIT, gone).await.expect("it waits for no confirmation");
    assert!(world.get("v1", "ConfigMap", "web", "own").await.is_null(), "it is deleted, too");
}

/// The rows without health say where it is, and those of other waves say so (SE-058).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_have_the_fields_that_are_configured_se_058() {
    for persists in [true, false] {
        let mut world = World::start().await;
        world.crash().await;
        world.settings.resource_health = persists;
        world.run();
        world.write("app/one.json", &deployment("one", &[(WAVE, "-3")]));
        world.write("app/two.json", &config_map("two", "1", &[]));
        let revision = world.commit();
        world.create_app(&world.application("app", "app")).await;
        world.sync("app", json!({"revision": revision})).await;
        let app =
            world.until("app", "synced", |app| settled(app) && is(app, "Synced", "Healthy")).await;
        assert_eq!(row(&app, "one")["syncWave"], -3, "{app}");
        assert_eq!(row(&app, "two")["syncWave"], Value::Null, "{app}");
        let (health, place) = match persists {
            true => (json!("Healthy"), Value::Null),
            false => (Value::Null, json!("appTree")),
        };
        assert_eq!(row(&app, "one")["health"]["status"], health, "{app}");
        assert_eq!(app["status"]["resourceHealthSource"], place, "{app}");
        world.crash().await;
    }
}
