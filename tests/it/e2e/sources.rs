//! Applications with several sources, one of them a `ref` (SE-011, SE-034, SE-052).

use serde_json::{Value, json};

use crate::support::invariants::{self, Steps};
use crate::support::manifests::{VERSION, plain, rolling, set};
use crate::support::{Kind, Setup, World};

const APPS: [(&str, &str); 3] = [("a", "dev"), ("b", "dev"), ("c", "prod")];

/// A reference, and two directories of manifests.
fn of_several_sources(world: &World, set: &mut Value) {
    let source = set["spec"]["template"]["spec"].as_object_mut().unwrap().remove("source").unwrap();
    let with = |field: &str, value: &str| {
        let mut source = source.clone();
        source[field] = value.into();
        source
    };
    let reference = json!({
        "repoURL": world.repository.url(), "targetRevision": "HEAD", "ref": "values",
    });
    let more = with("path", "more/{{.dir}}");
    set["spec"]["template"]["spec"]["sources"] = json!([reference, source, more]);
}

fn commit(world: &World, version: &str) -> String {
    let mut files = vec![("values/all.yaml".to_owned(), format!("version: {version}\n"))];
    for (name, _) in APPS {
        files.extend(plain(name, version));
        let more = plain(&format!("{name}-more"), version);
        let more = more.into_iter().map(|(_, text)| (format!("more/{name}/more.yaml"), text));
        files.extend(more);
    }
    world.repository.commit(version, &files)
}

pub async fn several_sources_are_rolled_out_and_rolled_back(mut world: World) {
    let first = commit(&world, "v1");
    let strategy = rolling(&[("dev", json!(1)), ("prod", json!(null))]);
    let mut fleet = set(&world, "fleet", &APPS, &strategy);
    of_several_sources(&world, &mut fleet);
    world.create(Kind::ApplicationSet, fleet).await;
    world.start(&Setup::default()).await;
    let steps = Steps::default().step(["a", "b"], Some(1)).step(["c"], None);
    rolled_out(&world, &steps, &first, "v1").await;

    let second = commit(&world, "v2");
    world.refresh("a").await;
    rolled_out(&world, &steps, &second, "v2").await;
    world.recorder.read(|log| {
        invariants::check(log, &steps);
        let app = log.get(Kind::Application, "c").unwrap();
        let all = |revision: &str| json!([revision, revision, revision]);
        assert_eq!(app["status"]["sync"]["revisions"], all(&second));
        assert_eq!(app["status"]["sync"]["comparedTo"]["sources"], app["spec"]["sources"]);
        let asked = &app["status"]["operationState"]["operation"]["sync"];
        assert_eq!(asked["revisions"], all(&second), "the rollout names what it decided on");
        let result = &app["status"]["operationState"]["syncResult"];
        assert_eq!(result["revisions"], all(&second));
        assert_eq!(result["sources"], app["spec"]["sources"]);
        let entry = &app["status"]["history"][1];
        assert_eq!(
            (&entry["revisions"], &entry["sources"]),
            (&result["revisions"], &result["sources"])
        );
        assert_eq!(app["status"]["history"][0]["revisions"], all(&first));
    });

    // A rollback contains revisions and sources of the history.
    let before = world.recorder.read(|log| log.get(Kind::Application, "c").unwrap().clone());
    let then = &before["status"]["history"][0];
    let sync = json!({ "revisions": then["revisions"], "sources": then["sources"] });
    let operation = json!({ "initiatedBy": { "username": "admin" }, "sync": sync });
    world.patch(Kind::Application, "c", &json!({ "operation": operation })).await;
    world
        .until("c is back at the first commit", |log| {
            let app = log.get(Kind::Application, "c")?;
            let state = &app["status"]["operationState"];
            let done = state["phase"] == "Succeeded"
                && invariants::revision(&state["syncResult"]) == Some(&first)
                && app["status"]["sync"]["status"] == "OutOfSync";
            done.then_some(())
        })
        .await;
    until_versions(&world, "c", "v1").await;
    until_versions(&world, "b", "v2").await;

    // Revisions that do not match the sources are an error and prune nothing.
    let sync = json!({ "revisions": [second], "prune": true });
    let operation = json!({ "initiatedBy": { "username": "admin" }, "sync": sync });
    world.patch(Kind::Application, "c", &json!({ "operation": operation })).await;
    world
        .until("a revision is missed", |log| {
            let state = &log.get(Kind::Application, "c")?["status"]["operationState"];
            let message = state["message"].as_str().unwrap_or_default();
            (state["phase"] == "Error" && message.contains("1 revisions are given for 3 sources"))
                .then_some(())
        })
        .await;
    until_versions(&world, "c", "v1").await;
    world.finish().await;
}

async fn rolled_out(world: &World, steps: &Steps, revision: &str, version: &str) {
    world.until_rolled_out("fleet", steps, revision).await;
    for (name, _) in APPS {
        until_versions(world, name, version).await;
    }
}

/// Waits until both directories are applied: the recorder watches each kind on its own, so
/// the Application may be seen before its objects.
async fn until_versions(world: &World, application: &str, version: &str) {
    let names = [format!("{application}-config"), format!("{application}-more-config")];
    world
        .until(&format!("{names:?} are those of {version}"), |log| {
            let is_applied = |name: &String| {
                let object = log.get(Kind::ConfigMap, name)?;
                (object["metadata"]["annotations"][VERSION] == version).then_some(())
            };
            names.iter().try_for_each(is_applied)
        })
        .await;
}
