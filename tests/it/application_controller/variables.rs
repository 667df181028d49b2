//! Environment variables of Argo CD's controller, by what they change (SE-560 to SE-571).

use wavegate_controller::config::{Config, Flags};

use super::*;

/// A world whose settings are those of these variables only.
async fn world(variables: &[(&str, &str)]) -> World {
    let variables: BTreeMap<&str, &str> = variables.iter().copied().collect();
    let read = |name: &str| variables.get(name).map(|text| (*text).to_owned());
    let config = Config::resolve(Flags::default(), &read, &BTreeMap::new()).unwrap();
    assert!(config.warnings.is_empty(), "{:?}", config.warnings);
    let mut world = World::start().await;
    world.crash().await;
    world.settings = ApplicationSettings { allow_local: true, ..config.applications };
    world.run();
    world
}

const SELF_HEAL: &str = "ARGOCD_APPLICATION_CONTROLLER_SELF_HEAL_TIMEOUT_SECONDS";
const BACKOFF: &str = "ARGOCD_APPLICATION_CONTROLLER_SELF_HEAL_BACKOFF_TIMEOUT_SECONDS";
const FACTOR: &str = "ARGOCD_APPLICATION_CONTROLLER_SELF_HEAL_BACKOFF_FACTOR";
const CAP: &str = "ARGOCD_APPLICATION_CONTROLLER_SELF_HEAL_BACKOFF_CAP_SECONDS";

/// An Application `name` with two waves, synced by hand.
async fn waves(world: &World, name: &str) {
    world.write(&format!("{name}/one.json"), &config_map(&format!("{name}-one"), "1", &[]));
    let two = config_map(&format!("{name}-two"), "1", &[(WAVE, "1")]);
    world.commit_file(&format!("{name}/two.json"), &two);
    world.create_app(&world.application(name, name)).await;
    world.sync(name, json!({})).await;
}

/// SE-560: the pause between waves. SE-569: the time of an operation. SE-571: where the health of
/// resources is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn variables_of_operations_se_560_se_569_se_571() {
    let world = world(&[
        ("ARGOCD_SYNC_WAVE_DELAY", "3600"),
        ("ARGOCD_APPLICATION_CONTROLLER_SYNC_TIMEOUT", "15"),
        ("ARGOCD_APPLICATION_CONTROLLER_PERSIST_RESOURCE_HEALTH", "false"),
        ("REDIS_SERVER", "127.0.0.1:1"),
    ])
    .await;
    waves(&world, "app").await;
    let app = world.until("app", "over", |app| phase(app) == "Failed").await;
    let message = app["status"]["operationState"]["message"].as_str().unwrap();
    assert!(message.ends_with("triggered by controller sync timeout"), "SE-569: {message}");
    assert!(world.get("v1", "ConfigMap", "web", "app-one").await.is_object(), "SE-560");
    assert!(world.get("v1", "ConfigMap", "web", "app-two").await.is_null(), "SE-560");
    let app = world.until("app", "compared", |app| is(app, "OutOfSync", "Healthy")).await;
    assert_eq!(app["status"]["resourceHealthSource"], "appTree", "SE-571");
}

/// SE-560: without a pause the next wave follows. SE-561, SE-563: a commit is found by time, at
/// most the jitter later. SE-564: without patience an error is told at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn variables_of_comparisons_se_561_se_563_se_564() {
    let world = world(&[
        ("ARGOCD_SYNC_WAVE_DELAY", "0"),
        ("ARGOCD_RECONCILIATION_TIMEOUT", "1s"),
        ("ARGOCD_RECONCILIATION_JITTER", "1s"),
        ("ARGOCD_REPO_ERROR_GRACE_PERIOD_SECONDS", "0"),
    ])
    .await;
    waves(&world, "app").await;
    world.until("app", "SE-560", |app| phase(app) == "Succeeded").await;
    let began = std::time::Instant::now();
    let revision = world.commit();
    let found = |app: &Value| app["status"]["sync"]["revision"] == *revision;
    world.until("app", "SE-561, SE-563", found).await;
    // The default would be two minutes, and up to one more.
    assert!(began.elapsed() < Duration::from_secs(110), "SE-561, SE-563: {:?}", began.elapsed());
    let began = std::time::Instant::now();
    world.commit_file("app/one.json", "{");
    let told = |app: &Value| condition(app, "ComparisonError", "one.json");
    world.until("app", "SE-564", told).await;
    assert!(began.elapsed() < Duration::from_secs(110), "SE-564: {:?}", began.elapsed());
}

/// SE-562: a hard comparison by time finds a commit, too, and needs no soft one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hard_comparison_by_time_se_562() {
    let world = world(&[
        ("ARGOCD_RECONCILIATION_TIMEOUT", "0"),
        ("ARGOCD_HARD_RECONCILIATION_TIMEOUT", "1s"),
        ("ARGOCD_RECONCILIATION_JITTER", "0"),
    ])
    .await;
    let first = world.commit_file("app/one.json", &config_map("one", "1", &[]));
    world.create_app(&world.application("app", "app")).await;
    world.until("app", "compared", |app| app["status"]["sync"]["revision"] == *first).await;
    let second = world.commit();
    world.until("app", "SE-562", |app| app["status"]["sync"]["revision"] == *second).await;
}

/// SE-567: a fixed pause before self-heal. SE-568: one that grows from attempt to attempt.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn variables_of_self_heal_se_567_se_568() {
    for (number, variables, heals) in [
        ("SE-567", vec![(BACKOFF, "0"), (SELF_HEAL, "3600")], 0),
        ("SE-567", vec![(BACKOFF, "0"), (SELF_HEAL, "0")], 3),
        ("SE-568", vec![(BACKOFF, "3600"), (CAP, "3600")], 1),
        ("SE-568", vec![(BACKOFF, "1"), (FACTOR, "3600"), (CAP, "3600")], 2),
        ("SE-568", vec![(BACKOFF, "3600"), (FACTOR, "3600"), (CAP, "1")], 3),
    ] {
        let mut world = world(&variables).await;
        world.commit_file("app/one.json", &config_map("one", "1", &[]));
        let mut app = world.application("app", "app");
        app["spec"]["syncPolicy"] = json!({"automated": {"selfHeal": true}});
        world.create_until_good(&app).await;
        let maps = world.api("v1", "ConfigMap", "web");
        let drift = async |value: &str| {
            let drift = Patch::Merge(json!({"data": {"value": value}}));
            maps.patch("one", &PatchParams::default(), &drift).await.unwrap();
        };
        for attempt in 1..=heals {
            drift(&format!("drift {attempt}")).await;
            let healed = |app: &Value| {
                let sync = &app["status"]["operationState"]["operation"]["sync"];
                settled(app)
                    && is(app, "Synced", "Healthy")
                    && sync["autoHealAttemptsCount"] == attempt
            };
            world.until("app", number, healed).await;
        }
        if heals < 3 {
            drift("at last").await;
            world.until("app", number, |app| is(app, "OutOfSync", "Healthy")).await;
            world.rest().await;
            let live = world.get("v1", "ConfigMap", "web", "one").await;
            assert_eq!(live["data"]["value"], "at last", "{number}: {variables:?}");
        }
        world.crash().await;
    }
}

/// SE-570: who compares: without the variable nothing is sent to the server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_variable_of_server_side_diff_se_570() {
    for value in ["true", "false"] {
        let mut world = world(&[("ARGOCD_APPLICATION_CONTROLLER_SERVER_SIDE_DIFF", value)]).await;
        world.commit_file("app/one.json", &config_map("one", "1", &[]));
        world.create_app(&world.application("app", "app")).await;
        world.sync_until_good("app", json!({})).await;
        world.refresh("app").await;
        let predicted = world.server.requests().into_iter().filter(|request| {
            request.client == CONTROLLER && request.verb == "apply" && request.dry_run
        });
        assert_eq!(predicted.count() > 0, value == "true", "SE-570: {value}");
        world.crash().await;
    }
}
