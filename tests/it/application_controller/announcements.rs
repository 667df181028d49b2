//! Events of an operation exist when its end is announced.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use http::Method;

use super::gates::{Gate, patches_application};
use super::*;

/// How the Events begin that tests wait for; whole sentences are pinned by
/// `events_have_the_words_of_argo_cd_se_541`.
const SYNC_STATUS: &str = "Normal ResourceUpdated Updated sync status: ";
const HEALTH_STATUS: &str = "Normal ResourceUpdated Updated health status: ";
const COMPLETED: &str = "Normal OperationCompleted ";

/// Whether the end of an operation is reported that has deployed a revision.
fn reports_end(all: &[String], revision: &str) -> bool {
    all.iter().any(|event| event.starts_with(COMPLETED) && event.contains(revision))
}

/// A client read the Events right after the sync had ended, and they were not there yet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_of_an_operation_come_before_the_status_that_announces_its_end_se_541() {
    let (world, revision) = World::with_app().await;
    world.sync("app", json!({"revision": revision})).await;
    world.until("app", "over", |app| phase(app) == "Succeeded").await;
    let all = events(&world, "app").await;
    assert!(reports_end(&all, &revision), "{all:#?}");
    assert!(all.iter().any(|event| event.starts_with(SYNC_STATUS)), "{all:#?}");
}

/// So it was when the comparison after the end came with a later write, or the health with one
/// still later: whoever waits for a good state finds the Event of it (K-07).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_come_before_the_state_that_clients_wait_for_k_07() {
    let world = World::start().await;
    let first = world.commit_file("app/one.json", &deployment("one", &[]));
    world.create_app(&world.application("app", "app")).await;
    world.until("app", "compared", |app| is(app, "OutOfSync", "Missing")).await;
    // One resource is synced while its Deployment is not ready: the good state comes later.
    let one = json!([{"group": "apps", "kind": "Deployment", "name": "one"}]);
    world.sync_until_good("app", json!({"revision": first, "resources": one})).await;
    let all = events(&world, "app").await;
    let reported = |all: &[String], start: &str, state: &str| {
        all.iter().any(|event| event.starts_with(start) && event.ends_with(state))
    };
    assert!(reported(&all, SYNC_STATUS, " Synced"), "{all:#?}");
    assert!(reported(&all, HEALTH_STATUS, " Healthy"), "{all:#?}");

    // Again, with the same texts: each good state has its own Event.
    for round in 0..2 {
        let count = events(&world, "app").await.len();
        let drifted = json!({"spec": {"minReadySeconds": 1 + round}});
        world.patch_object(("apps/v1", "Deployment"), "web", "one", drifted).await;
        world.write(
            "app/one.json",
            &deployment("one", &[("example.com/round", &round.to_string())]),
        );
        let revision = world.commit();
        world.refresh("app").await;
        world.until("app", "different", |app| app["status"]["sync"]["status"] == "OutOfSync").await;
        world.sync("app", json!({"revision": revision})).await;
        let is_new = |app: &Value| {
            app["status"]["operationState"]["syncResult"]["revision"] == *revision
                && settled(app)
                && is(app, "Synced", "Healthy")
        };
        world.until("app", "good again", is_new).await;
        let all = events(&world, "app").await;
        assert!(reported(&all, SYNC_STATUS, " Synced"), "{round}: {all:#?}");
        assert!(all.len() > count && reports_end(&all, &revision), "{round}: {all:#?}");
    }
}

/// All Events about an Application, as `type reason note`.
async fn events(world: &World, name: &str) -> Vec<String> {
    let api = world.api("events.k8s.io/v1", "Event", NAMESPACE);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let all =
        api.list(&Default::default()).await.unwrap().items.into_iter().map(|event| event.data);
    all.filter(|event| event["regarding"]["name"] == name)
        .map(|event| {
            format!("{} {} {}", text(&event["type"]), text(&event["reason"]), text(&event["note"]))
        })
        .collect()
}

/// A gate that holds the writes of Applications after the next Event since it is shut.
async fn gate_after_events(world: &mut World) -> Gate {
    let is_announced = AtomicBool::new(false);
    Gate::start(world, move |request| {
        let is_event =
            request.method() == Method::POST && request.uri().path().ends_with("/events");
        is_announced.fetch_or(is_event, Ordering::Relaxed);
        patches_application(request) && is_announced.load(Ordering::Relaxed)
    })
    .await
}

/// Starts a sync, and waits until its end is announced and not stored, before the gate.
async fn announced_and_not_stored(world: &mut World, revision: &str) -> Gate {
    world.until("app", "compared", |app| is(app, "OutOfSync", "Missing")).await;
    until_reported(world, "app", HEALTH_STATUS).await;
    let gate = gate_after_events(world).await;
    world.rest().await;
    gate.shut();
    world.sync("app", json!({"revision": revision})).await;
    until_reported(world, "app", COMPLETED).await;
    until_reported(world, "app", &format!("{HEALTH_STATUS}Missing")).await;
    assert_eq!(phase(&world.app("app").await), "Running", "the end is stored");
    gate
}

/// Each Event is there once, also the one that a repeated write announces again.
fn assert_once(all: &[String]) {
    let unique: BTreeSet<&String> = all.iter().collect();
    assert_eq!(unique.len(), all.len(), "{all:#?}");
}

/// Waits until the announced end is stored: its Events are there, and none twice.
async fn ends_with_each_event_once(world: &World, revision: &str) {
    world.until_good("app").await;
    world.rest().await;
    let all = events(world, "app").await;
    assert_once(&all);
    assert!(reports_end(&all, revision), "{all:#?}");
}

/// The Events came before the status, the process was killed, and its successor wrote them again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_are_not_repeated_after_a_kill_between_them_and_the_status() {
    let (mut world, revision) = World::with_app().await;
    let _gate = announced_and_not_stored(&mut world, &revision).await;
    world.crash().await;
    world.run();
    ends_with_each_event_once(&world, &revision).await;
}

/// The write of the status met that of another client, and the reconcile announced all of it
/// again since a part of it was different then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_are_not_repeated_after_a_conflict() {
    let (mut world, revision) = World::with_app().await;
    let gate = announced_and_not_stored(&mut world, &revision).await;
    world.patch("app", json!({"status": {"health": {"status": "Unknown"}}})).await;
    gate.open();
    ends_with_each_event_once(&world, &revision).await;
}

/// Neither the first drift nor its end moves `reconciledAt`, and a start does not either: the
/// second drift had the name of the first one's Event, and was not reported.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_after_a_restart_is_not_taken_for_an_old_one_se_541() {
    let (mut world, revision) = World::with_app().await;
    world.sync("app", json!({"revision": revision})).await;
    let good = |app: &Value| settled(app) && is(app, "Synced", "Healthy");
    world.until("app", "good", good).await;
    world.rest().await;
    let maps = world.api("v1", "ConfigMap", "web");
    let value = |value: &str| Patch::Merge(json!({"data": {"value": value}}));
    let params = PatchParams::default();
    let start = format!("{SYNC_STATUS}Synced ");
    maps.patch("one", &params, &value("drifted")).await.unwrap();
    let first = world.until("app", "drifted", |app| is(app, "OutOfSync", "Healthy")).await;
    until_reported_times(&world, "app", &start, 1).await;
    make_events_old(&world).await;
    maps.patch("one", &params, &value("1")).await.unwrap();
    world.until("app", "good again", good).await;
    world.rest().await;
    world.crash().await;
    world.run();
    world.rest().await;

    maps.patch("one", &params, &value("drifted")).await.unwrap();
    let again = world.until("app", "drifted again", |app| is(app, "OutOfSync", "Healthy")).await;
    let times = [&first, &again].map(|app| &app["status"]["reconciledAt"]);
    assert_eq!(times[0], times[1], "otherwise nothing is proven");
    until_reported_times(&world, "app", &start, 2).await;
}

/// Moves all Events into the past.
async fn make_events_old(world: &World) {
    let api = world.api("events.k8s.io/v1", "Event", NAMESPACE);
    for event in api.list(&Default::default()).await.unwrap().items {
        let old = json!({"eventTime": "2020-01-01T00:00:00.000000Z", "series": null});
        let name = event.metadata.name.unwrap();
        world.patch_object(("events.k8s.io/v1", "Event"), NAMESPACE, &name, old).await;
    }
}

/// Waits for an Event that begins so.
async fn until_reported(world: &World, name: &str, start: &str) -> Vec<String> {
    until_reported_times(world, name, start, 1).await
}

/// Waits for this number of Events that begin so.
async fn until_reported_times(world: &World, name: &str, start: &str, times: usize) -> Vec<String> {
    let reported = async {
        loop {
            let all = events(world, name).await;
            if all.iter().filter(|event| event.starts_with(start)).count() >= times {
                return all;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    match tokio::time::timeout(LIMIT, reported).await {
        Ok(all) => all,
        Err(_) => panic!("no {start:?} ({times}) in {:#?}", events(world, name).await),
    }
}

/// Tools compare whole texts: each field of the status has its own Event, the start of a short
/// sync is reported, health is never a warning, and an error of a deletion is (SE-518, SE-541).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_have_the_words_of_argo_cd_se_541() {
    let world = World::start().await;
    let revision = world.commit_file("app/one.json", &config_map("one", "1", &[]));
    world.create_until_good(&automated(world.application("app", "app"))).await;
    for reported in [
        format!("Normal OperationStarted Initiated automated sync to '{revision}'"),
        format!("Normal OperationCompleted Sync operation to {revision} succeeded"),
        "Normal ResourceUpdated Updated sync status: OutOfSync -> Synced".to_owned(),
        "Normal ResourceUpdated Updated health status: Missing -> Healthy".to_owned(),
    ] {
        let all = until_reported(&world, "app", &reported).await;
        assert!(all.contains(&reported), "{reported:?}: {all:#?}");
    }

    // Several sources have several revisions.
    let mut app = world.application("many", "app");
    let source = app["spec"]["source"].take();
    app["spec"].as_object_mut().unwrap().remove("source");
    let other = world.commit_file("more/two.json", &config_map("two", "1", &[]));
    let mut more = source.clone();
    more["path"] = "more".into();
    app["spec"]["sources"] = json!([more.clone(), more]);
    app["spec"]["sources"][1]["targetRevision"] = revision.clone().into();
    app["spec"]["sources"][1]["path"] = "app".into();
    world.create_app(&app).await;
    world.sync("many", json!({"revisions": [other, revision]})).await;
    let whole = format!("Normal OperationCompleted Sync operation to {other},{revision} succeeded");
    let all = until_reported(&world, "many", &whole).await;
    assert!(all.contains(&whole), "{all:#?}");

    world.write("bad/one.json", &deployment("bad", &[FAILS]));
    world.write("bad/ask.json", &job("ask", &[(HOOK, "PreDelete"), FAILS]));
    let revision = world.commit();
    world.create_with("bad", "bad", json!({"metadata": {"finalizers": [CASCADE]}})).await;
    let one = json!([{"group": "apps", "kind": "Deployment", "name": "bad"}]);
    world.sync("bad", json!({"revision": revision, "resources": one})).await;
    world.until("bad", "degraded", |app| is(app, "Synced", "Degraded")).await;
    let all = until_reported(&world, "bad", HEALTH_STATUS).await;
    assert!(!all.iter().any(|event| event.starts_with("Warning ResourceUpdated")), "{all:#?}");
    let all =
        until_reported(&world, "bad", "Normal OperationCompleted Partial sync operation").await;
    let whole = format!("Normal OperationCompleted Partial sync operation to {revision} succeeded");
    assert!(all.contains(&whole), "{all:#?}");

    world.delete_app("bad").await;
    let start =
        "Warning StatusRefreshed Unable to delete application resources: PreDelete hook(s) failed";
    until_reported(&world, "bad", start).await;
}

/// SE-540, SE-574: only the reasons of the setting are written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_events_of_the_wanted_reasons_are_written_se_540_se_574() {
    let reasons = ["OperationCompleted"].map(str::to_owned);
    let settings = ApplicationSettings {
        event_reasons: Some(BTreeSet::from(reasons)),
        ..ApplicationSettings::default()
    };
    let world = World::with(settings).await;
    world.commit_file("app/one.json", &config_map("one", "1", &[]));
    world.create_until_good(&automated(world.application("app", "app"))).await;
    until_reported(&world, "app", COMPLETED).await;
    world.rest().await;
    let all = events(&world, "app").await;
    assert_eq!(all.len(), 1, "{all:#?}");
    // As the web page finds them.
    let app = world.app("app").await;
    let api = world.api("v1", "Event", NAMESPACE);
    let found = api.list(&Default::default()).await.unwrap().items;
    let involved: Vec<&Value> = found.iter().map(|event| &event.data["involvedObject"]).collect();
    for field in ["name", "namespace", "uid"] {
        assert_eq!(involved[0][field], app["metadata"][field], "CA-514: {field}");
    }
}
