//! What an Application costs its API server.

use super::*;

/// The most requests that the first sync of an Application of four objects may
/// take, its comparisons included: each object is created once.
const FIRST_SYNC: usize = 8;

fn four_objects(world: &World, path: &str) {
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "runner"},
    });
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
    });
    world.write(&format!("{path}/account.json"), &account.to_string());
    world.write(&format!("{path}/config.json"), &config_map("settings", "1", &[]));
    world.write(&format!("{path}/service.json"), &service.to_string());
    // Nothing whose health changes after it was created: each change that is seen on its own,
    // as on a busy machine, is one more write.
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"}});
    world.write(&format!("{path}/secret.json"), &secret.to_string());
}

fn asked(world: &World) -> Vec<String> {
    let own = world.server.requests().into_iter();
    let own = own.filter(|request| request.client == CONTROLLER && request.resource != "events");
    own.map(|r| {
        format!("{} {} {}{}", r.code, r.verb, r.resource, if r.dry_run { " dry" } else { "" })
    })
    .collect()
}

/// A first sync in namespaces of its own, once everything that is watched is.
async fn first_sync(automated: bool) -> (World, Vec<String>) {
    let world = World::start().await;
    four_objects(&world, "app");
    let revision = world.commit();
    for name in ["before", "counted"] {
        world.rest().await;
        world.server.forget_requests();
        world.create("v1", "Namespace", &json!({"metadata": {"name": name}})).await;
        let mut app = world.application(name, "app");
        app["spec"]["destination"]["namespace"] = name.into();
        if automated {
            app["spec"]["syncPolicy"] = json!({"automated": {}});
        }
        world.create_app(&app).await;
        if !automated {
            // As a rollout does: compare first, then request the sync.
            world.until(name, "compared", |app| is(app, "OutOfSync", "Missing")).await;
            world.sync(name, json!({"revision": revision})).await;
        }
        world.until_good(name).await;
    }
    world.rest().await;
    let asked = asked(&world);
    (world, asked)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_first_sync_takes_few_requests_and_a_refresh_of_an_idle_application_none() {
    let (world, asked) = first_sync(false).await;
    assert!(asked.len() <= FIRST_SYNC, "{} requests: {asked:#?}", asked.len());

    world.server.forget_requests();
    let mark = json!({"metadata": {"annotations": {"example.com/mark": "1"}}});
    world.patch("counted", mark).await;
    world.rest().await;
    let requests = world.server.requests();
    let own: Vec<_> = requests.iter().filter(|request| request.client == CONTROLLER).collect();
    assert!(own.is_empty(), "{own:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_automated_first_sync_starts_with_the_write_of_its_comparison() {
    let (_world, asked) = first_sync(true).await;
    assert!(asked.len() <= FIRST_SYNC, "{} requests: {asked:#?}", asked.len());
}
