//! Definitions that come with their first objects, and go again.

use http::{Method, Request};
use serde_json::{Value, json};

use crate::support::World;

use super::dry_run::{application, commit, phase, sync};

/// The definition of a cluster-scoped and of a namespaced kind, and an object of each: one in
/// a namespace that is not that of the destination.
pub fn objects(group: &str, namespace: &str) -> Vec<Value> {
    let definition = |kind: &str, scope: &str| {
        let singular = kind.to_lowercase();
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": { "name": format!("{singular}s.{group}") },
            "spec": {
                "group": group, "scope": scope,
                "names": { "kind": kind, "plural": format!("{singular}s"), "singular": singular, "listKind": format!("{kind}List") },
                "versions": [{ "name": "v1", "served": true, "storage": true, "schema": {
                    "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
                }}],
            },
        })
    };
    let object = |kind: &str, metadata: Value| {
        let api_version = format!("{group}/v1");
        json!({ "apiVersion": api_version, "kind": kind, "metadata": metadata })
    };
    vec![
        definition("Region", "Cluster"),
        definition("Town", "Namespaced"),
        object("Region", json!({ "name": "north" })),
        object("Town", json!({ "name": "one" })),
        object("Town", json!({ "name": "two", "namespace": namespace })),
    ]
}

/// Regression: the watch of a kind whose definition had been deleted, and was created again,
/// asked for a revision before the new definition; the sync failed with `too old resource
/// version`, although everything was there.
pub async fn definitions_return_with_their_objects(mut world: World) {
    let group = format!("{}.example.com", world.namespace);
    let manifests = objects(&group, &world.namespace);
    commit(&world, "dev", &manifests);
    application(&world, "dev").await;
    world.start(&crate::support::Setup::default()).await;
    for round in 0..3 {
        let app = sync(&world, "dev", &[]).await;
        assert_eq!(phase(&app).0, "Succeeded", "round {round}: {}", phase(&app).1);
        let rows = app["status"]["operationState"]["syncResult"]["resources"].as_array().unwrap();
        assert_eq!(rows.len(), 5, "round {round}: {rows:#?}");
        for kind in ["regions", "towns"] {
            let path =
                format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{kind}.{group}");
            delete_and_wait(&world, &path).await;
        }
    }
    world.finish().await;
}

/// Regression: a sync waited half a minute for the kind of a definition that serves none (SE-603).
pub async fn a_definition_without_a_served_version_is_not_waited_for(mut world: World) {
    let group = format!("{}.example.com", world.namespace);
    let mut definition = objects(&group, &world.namespace).swap_remove(0);
    definition["spec"]["versions"][0]["served"] = false.into();
    commit(&world, "dev", &[definition]);
    application(&world, "dev").await;
    world.start(&crate::support::Setup::default()).await;
    let app = sync(&world, "dev", &[]).await;
    assert_eq!(phase(&app).0, "Succeeded", "{}", phase(&app).1);
    let state = &app["status"]["operationState"];
    let at = |field: &str| state[field].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    let took = at("finishedAt").duration_since(at("startedAt")).as_secs();
    assert!(took < 29, "{took} s");
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    delete_and_wait(&world, &format!("{path}/regions.{group}")).await;
    world.finish().await;
}

/// Deletes an object, and waits until it is gone.
pub async fn delete_and_wait(world: &World, path: &str) {
    let request = |method| Request::builder().method(method).uri(path).body(Vec::new()).unwrap();
    let _: Value = world.client.request(request(Method::DELETE)).await.unwrap();
    let gone = async {
        while world.client.request::<Value>(request(Method::GET)).await.is_ok() {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    let limit = World::wait_limit();
    tokio::time::timeout(limit, gone).await.unwrap_or_else(|_| panic!("{path} stays"));
}
