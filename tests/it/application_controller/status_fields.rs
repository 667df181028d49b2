//! Fields of the status that other programs read.

use super::*;

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
    world.commit_file("app/one.json", &config_map("one", "1", &[]));
    world.run();
    let more = json!({"spec": {"syncPolicy": {"syncOptions": options}}});
    world.create_with("app", "app", more).await;
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
    let rules = json!({"destinations": [{"server": "*", "namespace": "web"}], "namespaceResourceBlacklist": [{"group": "", "kind": "Secret"}]});
    world.project("narrow", rules).await;
    world.create("v1", "Namespace", &json!({"metadata": {"name": "victim"}})).await;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "denied"}});
    let mut elsewhere: Value = serde_json::from_str(&config_map("elsewhere", "1", &[])).unwrap();
    elsewhere["metadata"]["namespace"] = "victim".into();
    world.write("kind/secret.json", &secret.to_string());
    world.commit_file("place/map.json", &elsewhere.to_string());
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

/// The option of the Application counted although the resource says otherwise (CA-508, SE-149): its row
/// asked for a confirmation, and its deletion waited for one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_confirmation_of_a_deletion_is_decided_by_the_resource_first_se_149() {
    let world = World::start().await;
    let option = "argocd.argoproj.io/sync-options";
    world.write("app/own.json", &config_map("own", "1", &[(option, "Delete=true,Prune=true")]));
    world.write("app/asks.json", &config_map("asks", "1", &[(option, "Prune=confirm")]));
    let revision = world.commit();
    let mut app = world.application("app", "app");
    app["metadata"]["finalizers"] = json!([CASCADE]);
    app["spec"]["syncPolicy"] = json!({"syncOptions": ["Delete=confirm"]});
    world.create_app(&app).await;
    let app = world.sync_until_good("app", json!({"revision": revision})).await;
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
    world.delete_map("asks").await;
    let is_alone = |app: &Value| row(app, "asks").is_null() && !row(app, "own").is_null();
    world.until("app", "alone", is_alone).await;
    let apps = world.api("argoproj.io/v1alpha1", "Application", NAMESPACE);
    world.delete_app("app").await;
    until("it waits for no confirmation", async || apps.get_opt("app").await.unwrap().is_none())
        .await;
    assert!(world.get("v1", "ConfigMap", "web", "own").await.is_null(), "it is deleted, too");
}

/// The rows without health say where it is, and those of other waves say so (SE-058). Without a
/// Redis for trees, or with one that cannot be used, the health stays (CA-416).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_have_the_fields_that_are_configured_se_058() {
    for (persists, redis, is_used) in [
        (true, "127.0.0.1:1", true),
        (false, "", false),
        (false, "127.0.0.1:1", true),
        // Without a port.
        (false, "argocd-redis", false),
    ] {
        let mut world = World::start().await;
        world.crash().await;
        world.settings.resource_health = persists;
        world.settings.redis.server = redis.to_owned();
        world.run();
        world.write("app/one.json", &deployment("one", &[(WAVE, "-3")]));
        let revision = world.commit_file("app/two.json", &config_map("two", "1", &[]));
        world.create_app(&world.application("app", "app")).await;
        let app = world.sync_until_good("app", json!({"revision": revision})).await;
        assert_eq!(row(&app, "one")["syncWave"], -3, "{app}");
        assert_eq!(row(&app, "two")["syncWave"], Value::Null, "{app}");
        let (health, place) = match persists || !is_used {
            true => (json!("Healthy"), Value::Null),
            false => (Value::Null, json!("appTree")),
        };
        assert_eq!(row(&app, "one")["health"]["status"], health, "{app}");
        assert_eq!(app["status"]["resourceHealthSource"], place, "{app}");
        world.crash().await;
    }
}

/// Gives an Ingress the address of a load balancer, once it exists.
async fn balance(world: &World, name: &str, address: &str) {
    let api = world.api("networking.k8s.io/v1", "Ingress", "web");
    until("it is applied", async || api.get_opt(name).await.unwrap().is_some()).await;
    let status = json!({"status": {"loadBalancer": {"ingress": [{"ip": address}]}}});
    world.patch_status_of(("networking.k8s.io/v1", "Ingress"), "web", name, status.clone()).await;
}

/// They were never written (SE-061).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn external_urls_and_an_app_of_apps_are_in_the_summary_se_061() {
    let world = World::start().await;
    // Its address is the test's: the simulation writes none.
    let ingress = |name: &str, tls: Value, annotations: &[(&str, &str)]| {
        let path = |path: &str| {
            json!({"path": path, "pathType": "Prefix", "backend": {
                "service": {"name": "web", "port": {"number": 80}}}})
        };
        let object = json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": name},
            "spec": {"tls": tls, "rules": [
                {"host": format!("{name}.example.com"), "http": {"paths": [path("/"), path("/api/*")]}},
                {"http": {"paths": [path("/other")]}},
            ]},
        });
        annotated(object, annotations)
    };
    world.write("app/plain.json", &ingress("plain", json!(null), &[HANGS]));
    world.write("app/tls.json", &ingress("tls", json!([{"secretName": "key"}]), &[HANGS]));
    let none = ("argocd.argoproj.io/ignore-default-links", "true");
    world.write("app/none.json", &ingress("none", json!(null), &[HANGS, none]));
    let links = [
        ("link.argocd.argoproj.io/docs", "https://docs.example.com/x"),
        ("link.argocd.argoproj.io/titled", "Dashboard|http://dash.example.com"),
        ("link.argocd.argoproj.io/script", "javascript:alert(1)"),
        ("example.com/link", "https://not.example.com"),
    ];
    let revision = world.commit_file("app/map.json", &config_map("map", "1", &links));
    let mut app = world.application("app", "app");
    app["metadata"]["annotations"] =
        json!({"link.argocd.argoproj.io/own": "https://own.example.com"});
    world.create_app(&app).await;
    world.sync("app", json!({"revision": revision})).await;
    for name in ["plain", "tls", "none"] {
        balance(&world, name, "192.0.2.7").await;
    }
    let want = json!([
        "Dashboard|http://dash.example.com",
        "http://192.0.2.7/other",
        "http://plain.example.com/",
        "http://plain.example.com/api/",
        "https://192.0.2.7/other",
        "https://docs.example.com/x",
        "https://own.example.com",
        "https://tls.example.com/",
        "https://tls.example.com/api/",
    ]);
    let has_all = |app: &Value| app["status"]["summary"]["externalURLs"] == want;
    let app = world.until("app", "summarised", has_all).await;
    assert_eq!(app["status"]["summary"]["isAppOfApps"], Value::Null);

    // An Application in the source; gone again, the field is, too.
    let mut child = world.application("child", "nowhere");
    child["apiVersion"] = "argoproj.io/v1alpha1".into();
    child["kind"] = "Application".into();
    world.commit_file("app/child.json", &child.to_string());
    world.refresh("app").await;
    let is_parent = |app: &Value| app["status"]["summary"]["isAppOfApps"] == true;
    world.until("app", "an app of apps", is_parent).await;
    world.remove("app/child.json");
    world.commit();
    world.refresh("app").await;
    let is_none = |app: &Value| app["status"]["summary"]["isAppOfApps"].is_null();
    world.until("app", "no app of apps", is_none).await;
}

/// As in Argo CD, each change of a live object leads to a comparison: also one that changes
/// neither health nor sync status (SE-061, SE-178).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_that_only_the_summary_shows_is_in_the_status_se_061() {
    let world = World::start().await;
    let ingress = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "web"},
        "spec": {"rules": [{"http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": {
            "service": {"name": "web", "port": {"number": 80}}}}]}}]},
    });
    world.write("app/ingress.json", &annotated(ingress, &[HANGS]));
    world.write("app/map.json", &config_map("map", "1", &[]));
    let pods = json!({"spec": {
        "restartPolicy": "Never", "containers": [{"name": "main", "image": "example.com/job:1"}],
        "initContainers": [{"name": "first", "image": "example.com/first:1"}],
    }});
    let job = json!({
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "nightly"},
        "spec": {"schedule": "0 3 * * *", "jobTemplate": {"spec": {"template": pods}}},
    });
    let revision = world.commit_file("app/job.json", &job.to_string());
    let mut app = world.application("app", "app");
    let image = "/spec/jobTemplate/spec/template/spec/containers/0/image";
    app["spec"]["ignoreDifferences"] =
        json!([{"group": "batch", "kind": "CronJob", "jsonPointers": [image]}]);
    world.create_app(&app).await;
    world.sync("app", json!({"revision": revision})).await;

    let urls = |app: &Value| app["status"]["summary"]["externalURLs"].clone();
    let state = |app: &Value| [app["status"]["sync"].clone(), app["status"]["health"].clone()];
    balance(&world, "web", "192.0.2.1").await;
    let is_ready = |app: &Value| {
        is(app, "Synced", "Healthy") && settled(app) && urls(app) == json!(["http://192.0.2.1/"])
    };
    let first = world.until("app", "Synced and Healthy", is_ready).await;
    balance(&world, "web", "192.0.2.2").await;
    let has_moved = |app: &Value| urls(app) == json!(["http://192.0.2.2/"]);
    world.until("app", "with the second address", has_moved).await;

    let link =
        json!({"metadata": {"annotations": {"link.argocd.argoproj.io/docs": "https://d.io"}}});
    world.patch_map("map", link.clone()).await;
    let is_linked = |app: &Value| urls(app) == json!(["http://192.0.2.2/", "https://d.io"]);
    world.until("app", "with the link", is_linked).await;

    let jobs = world.api("batch/v1", "CronJob", "web");
    let mut newer = serde_json::to_value(jobs.get("nightly").await.unwrap()).unwrap();
    *newer.pointer_mut(image).unwrap() = "example.com/job:2".into();
    let newer = json!({"spec": newer["spec"]});
    world.patch_object(("batch/v1", "CronJob"), "web", "nightly", newer.clone()).await;
    let has_image = |app: &Value| {
        app["status"]["summary"]["images"] == json!(["example.com/first:1", "example.com/job:2"])
    };
    let last = world.until("app", "with the new image", has_image).await;
    assert_eq!(state(&last), state(&first));
}
