//! The first step of a rollout does not wait for the writes of the rest of the fleet.

use std::collections::BTreeMap;

use super::handed_over::run_sets;
use super::*;

/// The Application of the first step, which is the last by its name.
const FIRST: &str = "zz";
const REST: usize = 400;
const SLOW: Duration = Duration::from_millis(10);

fn set(path: &str, url: &str) -> Value {
    let step = |name: &str| json!({"matchExpressions": [{"key": "step", "operator": "In", "values": [name]}]});
    let mut one = step("rest");
    one["maxUpdate"] = json!(1);
    let rest = (0..REST).map(|number| {
        // Their namespaces do not exist, so they are not synced.
        let name = format!("app-{number:04}");
        json!({"name": name, "namespace": name, "step": "rest"})
    });
    let elements: Vec<Value> =
        rest.chain([json!({"name": FIRST, "namespace": "web", "step": "first"})]).collect();
    json!({
        "metadata": {"name": "set", "namespace": NAMESPACE},
        "spec": {
            "goTemplate": true,
            "strategy": {
                "type": "RollingSync", "rollingSync": {"steps": [step("first"), one]},
            },
            "generators": [{"list": {"elements": elements}}],
            "template": {
                "metadata": {"name": "{{.name}}", "labels": {"step": "{{.step}}"}},
                "spec": {
                    "project": "default",
                    "source": {"repoURL": url, "path": path, "targetRevision": "main"},
                    "destination": {
                        "server": "https://kubernetes.default.svc", "namespace": "{{.namespace}}",
                    },
                },
            },
        },
    })
}

/// The writes of Applications by their set, in order: verb and name.
fn writes(world: &World, since: u64) -> Vec<(String, String)> {
    let all = world.server.requests().into_iter().filter(|record| {
        record.seq > since
            && record.client == "sets"
            && record.resource == "applications"
            && ["create", "patch"].contains(&&*record.verb)
    });
    all.map(|record| (record.verb, record.name)).collect()
}

/// AS-361: the operation of the first step is requested while the rest of the fleet is created, and
/// while the rest gets a new spec.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_step_is_synced_while_the_rest_of_the_fleet_is_written() {
    let world = World::start().await;
    let _sets = run_sets(&world);
    // The writes of the rest take four seconds, one after the other.
    world.server.inject(
        InjectedFault::new(Effect::Latency(SLOW), |record| {
            let is_write = ["create", "patch"].contains(&&*record.verb);
            is_write
                && record.client == "sets"
                && record.resource == "applications"
                && record.name != FIRST
        })
        .times(usize::MAX),
    );
    world.write("one/one.json", &config_map("one", "1", &[]));
    world.commit_file("two/one.json", &config_map("one", "2", &[]));
    let url = world.repo.path().to_str().unwrap().to_owned();
    world.create("argoproj.io/v1alpha1", "ApplicationSet", &set("one", &url)).await;
    let last = format!("app-{:04}", REST - 1);
    world.until(&last, "created", Value::is_object).await;
    let all = writes(&world, 0);
    let at = |is: &dyn Fn(&(String, String)) -> bool| all.iter().position(is);
    let requested = at(&|(verb, name)| verb == "patch" && name == FIRST);
    let created = all.iter().rposition(|(verb, _)| verb == "create");
    assert!(requested.is_some() && requested < created, "{requested:?}, {created:?}");

    let since = world.server.requests().last().map_or(0, |record| record.seq);
    let spec = set("two", &url)["spec"].clone();
    let of = ("argoproj.io/v1alpha1", "ApplicationSet");
    world.patch_object(of, NAMESPACE, "set", json!({ "spec": spec })).await;
    world.until(FIRST, "synced", is_synced_with("two")).await;
    let is_written = |app: &Value| app["spec"]["source"]["path"] == "two";
    world.until(&last, "written", is_written).await;
    let mut patches = BTreeMap::<String, Vec<usize>>::new();
    for (at, (_, name)) in writes(&world, since).into_iter().enumerate() {
        patches.entry(name).or_default().push(at);
    }
    // The first patch of each is that of its spec; the operation of the first step follows.
    let requested = patches.remove(FIRST).map(|all| all[1]);
    let written = patches.values().map(|all| all[0]).max();
    assert_eq!(patches.len(), REST);
    assert!(requested < written, "{requested:?}, {written:?}");
}

fn is_synced_with(path: &str) -> impl Fn(&Value) -> bool + '_ {
    move |app| {
        settled(app)
            && app["status"]["sync"]["status"] == "Synced"
            && app["status"]["sync"]["comparedTo"]["source"]["path"] == path
    }
}
