//! Objects that are being deleted, or were deleted a moment ago, are not counted as applied
//! (SE-340, SE-361).

use http::Request;
use serde_json::{Value, json};

use crate::support::held::Watches;
use crate::support::{Kind, Setup, World};

use super::definitions::{delete_and_wait, objects};
use super::dry_run::{application, commit, phase, sync};

const HELD: &str = "example.com/held";

fn map(name: &str, value: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": name }, "data": { "value": value },
    })
}

/// The message of a row of the last sync.
fn said<'a>(app: &'a Value, kind: &str, name: &str) -> &'a str {
    let rows = app["status"]["operationState"]["syncResult"]["resources"].as_array().unwrap();
    let row = rows.iter().find(|row| row["kind"] == kind && row["name"] == name);
    row.unwrap_or_else(|| panic!("no row for {kind} {name}: {rows:#?}"))["message"]
        .as_str()
        .unwrap()
}

async fn get(world: &World, path: &str) -> Option<Value> {
    world.client.request(Request::get(path).body(Vec::new()).unwrap()).await.ok()
}

/// Sets the finalizers of an object.
async fn finalizers(world: &World, path: &str, finalizers: &Value) {
    let patch = json!({ "metadata": { "finalizers": finalizers } });
    let request = Request::patch(path).header("content-type", "application/merge-patch+json");
    let request = request.body(patch.to_string().into_bytes()).unwrap();
    let _: Value = world.client.request(request).await.unwrap_or_else(|e| panic!("{path}: {e}"));
}

async fn delete(world: &World, path: &str) {
    let request = Request::delete(path).body(Vec::new()).unwrap();
    let _: Value = world.client.request(request).await.unwrap();
}

/// Regression: a watch that had not yet reported a deletion left the object out of the sync,
/// as `unchanged`; with a definition, the sync failed with its first object.
pub async fn what_the_cache_still_shows_is_created_again(mut world: World) {
    let watches = Watches::default();
    let group = format!("{}.example.com", world.namespace);
    let mut manifests = objects(&group, &world.namespace);
    manifests.push(map("kept", "1"));
    manifests.push(map("lost", "1"));
    commit(&world, "dev", &manifests);
    application(&world, "dev").await;
    world.start_with(&Setup::default(), &watches).await;
    let app = sync(&world, "dev", &[]).await;
    assert_eq!(phase(&app).0, "Succeeded", "{}", phase(&app).1);

    watches.hold();
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    delete_and_wait(&world, &format!("{definitions}/towns.{group}")).await;
    let lost = format!("/api/v1/namespaces/{}/configmaps/lost", world.target);
    delete_and_wait(&world, &lost).await;
    let app = sync(&world, "dev", &[]).await;
    watches.release();
    assert_eq!(phase(&app).0, "Succeeded", "{}", phase(&app).1);
    assert_eq!(said(&app, "ConfigMap", "kept"), "configmap/kept unchanged");
    assert_eq!(said(&app, "ConfigMap", "lost"), "configmap/lost created");
    assert_eq!(said(&app, "Town", "one"), format!("town.{group}/one created"));
    assert_eq!(said(&app, "Region", "north"), format!("region.{group}/north unchanged"));
    let name = format!("towns.{group}");
    assert!(said(&app, "CustomResourceDefinition", &name).ends_with("created"));
    assert!(get(&world, &lost).await.is_some());

    for kind in ["regions", "towns"] {
        delete_and_wait(&world, &format!("{definitions}/{kind}.{group}")).await;
    }
    world.finish().await;
}

/// Regression: the sync succeeded, and the object was gone afterwards. Others of its wave are
/// applied, since it may be their old state that holds it.
pub async fn what_is_being_deleted_is_applied_when_it_is_gone(mut world: World) {
    let watches = Watches::default();
    let manifests = |value: &str| [map("a", value), map("b", value)];
    commit(&world, "dev", &manifests("0"));
    application(&world, "dev").await;
    world.start_with(&Setup::default(), &watches).await;
    let app = sync(&world, "dev", &[]).await;
    assert_eq!(phase(&app).0, "Succeeded", "{}", phase(&app).1);

    let path = format!("/api/v1/namespaces/{}/configmaps/a", world.target);
    // (the options, the value in the source, whether the cache does not know yet)
    for (round, (options, value, unseen)) in [
        (&[][..], "0", false),
        (&[][..], "1", true),
        (&[][..], "1", true),
        (&["ServerSideApply=true"][..], "1", true),
        (&["Replace=true"][..], "2", true),
        (&["ApplyOutOfSyncOnly=true"][..], "2", false),
    ]
    .into_iter()
    .enumerate()
    {
        let case = format!("round {round}: {options:?}, {value}, {unseen}");
        commit(&world, "dev", &manifests(value));
        let before = get(&world, &path).await.unwrap();
        finalizers(&world, &path, &json!([HELD])).await;
        if unseen {
            watches.hold();
        }
        delete(&world, &path).await;
        if !unseen {
            // The comparison shows that the controller knows.
            world.refresh("dev").await;
            world
                .until("its deletion is seen", |log| {
                    let app = log.get(Kind::Application, "dev")?;
                    (app["status"]["health"]["status"] == "Progressing").then_some(())
                })
                .await;
        }
        let watcher = async {
            let name = "the sync waits for the deletion";
            let waits = |log: &crate::support::Log| {
                let app = log.get(Kind::Application, "dev")?;
                let state = &app["status"]["operationState"];
                let waits = state["phase"] == "Running"
                    && state["message"].as_str()?.contains("deletion of /ConfigMap/a");
                waits.then_some(())
            };
            world.until(&format!("{case}: {name}"), waits).await;
            let other = path.replace("/configmaps/a", "/configmaps/b");
            let other = get(&world, &other).await.unwrap();
            assert_eq!(other["data"]["value"], value, "{case}: the other one is applied");
            finalizers(&world, &path, &Value::Null).await;
            watches.release();
        };
        let (app, ()) = tokio::join!(sync(&world, "dev", options), watcher);
        assert_eq!(phase(&app).0, "Succeeded", "{case}: {}", phase(&app).1);
        let after = get(&world, &path).await;
        let after = after.unwrap_or_else(|| panic!("{case}: it is gone"));
        assert_ne!(after["metadata"]["uid"], before["metadata"]["uid"], "{case}");
        assert!(after["metadata"]["deletionTimestamp"].is_null(), "{case}");
        assert_eq!(after["data"]["value"], value, "{case}");
    }
    world.finish().await;
}

/// Regression: a namespace that was being deleted, or that the cache still showed, counted as
/// there, and its objects failed.
pub async fn a_namespace_that_goes_is_created_again(mut world: World) {
    let watches = Watches::default();
    let namespace = format!("{}-made", world.namespace);
    commit(&world, "dev", &[map("a", "1")]);
    application(&world, "dev").await;
    let spec = json!({ "spec": { "destination": { "namespace": namespace } } });
    world.patch(Kind::Application, "dev", &spec).await;
    world.start_with(&Setup::default(), &watches).await;
    let create = ["CreateNamespace=true"];
    let app = sync(&world, "dev", &create).await;
    assert_eq!(phase(&app).0, "Succeeded", "{}", phase(&app).1);

    let path = format!("/api/v1/namespaces/{namespace}");
    let object = format!("{path}/configmaps/a");
    finalizers(&world, &object, &json!([HELD])).await;
    finalizers(&world, &path, &json!([HELD])).await;
    delete(&world, &path).await;
    let watcher = async {
        world
            .until("the sync waits for the namespace", |log| {
                let app = log.get(Kind::Application, "dev")?;
                let state = &app["status"]["operationState"];
                let words = format!("waiting for deletion of /Namespace/{namespace}");
                let waits =
                    state["phase"] == "Running" && state["message"].as_str()?.starts_with(&words);
                waits.then_some(())
            })
            .await;
        finalizers(&world, &object, &Value::Null).await;
        finalizers(&world, &path, &Value::Null).await;
    };
    let (app, ()) = tokio::join!(sync(&world, "dev", &create), watcher);
    assert_eq!(phase(&app).0, "Succeeded", "{}", phase(&app).1);
    assert!(get(&world, &object).await.is_some());

    watches.hold();
    delete_and_wait(&world, &path).await;
    let app = sync(&world, "dev", &create).await;
    watches.release();
    assert_eq!(phase(&app).0, "Succeeded", "{}", phase(&app).1);
    assert!(get(&world, &object).await.is_some());
    delete_and_wait(&world, &path).await;
    world.finish().await;
}
