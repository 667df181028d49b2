//! Safeguards against accidental changes.

use serde_json::json;

use crate::support::manifests::{plain, rolling, set};
use crate::support::recorder::Change;
use crate::support::{Kind, Log, Setup, World};

use super::external::is_complete;

/// A commit without manifests prunes nothing in an automated sync; a manual sync may
/// prune (SE-018).
pub async fn a_commit_without_manifests_prunes_nothing(mut world: World) {
    const APPS: [(&str, &str); 2] = [("a", "dev"), ("b", "prod")];
    let files: Vec<_> = APPS.iter().flat_map(|(name, _)| plain(name, "v1")).collect();
    world.repository.commit("first", &files);
    let strategy = rolling(&[("dev", json!(null)), ("prod", json!(null))]);
    let mut fleet = set(&world, "fleet", &APPS, &strategy);
    fleet["spec"]["template"]["spec"]["syncPolicy"] =
        json!({ "automated": { "prune": true, "selfHeal": true } });
    world.create(Kind::ApplicationSet, fleet).await;
    world.start(&Setup::default()).await;
    world.until("it is rolled out", |log| is_complete(log, "fleet").then_some(())).await;

    let nothing = APPS.map(|(name, _)| (format!("apps/{name}/README.md"), "gone\n".to_owned()));
    world.repository.commit("nothing", &nothing);
    world.refresh("a").await;
    let reason = world
        .until("the rollout holds and says why", |log| {
            let set = log.get(Kind::ApplicationSet, "fleet")?;
            let waiting = &set["status"]["rollout"]["waitingFor"][0];
            let reason = waiting["reason"].as_str()?;
            (waiting["application"] == world.tagged("a") && reason.contains("wipe out"))
                .then(|| reason.to_owned())
        })
        .await;
    assert!(reason.contains("allowEmpty"), "{reason}");
    world.until_calm("it holds").await;
    world.recorder.read(|log| {
        let pruned = log.of(Kind::ConfigMap).find(|record| record.change == Change::Deleted);
        assert!(pruned.is_none(), "{:?}", pruned.map(|record| record.name().to_owned()));
        let state = &log.get(Kind::Application, "a").unwrap()["status"]["operationState"];
        assert_eq!(state["phase"], "Failed");
        assert!(state["retryCount"].is_null(), "trying again does not help: {state}");
        let later = log.get(Kind::Application, "b").unwrap();
        assert!(later["status"]["operationState"]["retryCount"].is_null());
    });

    let operation = json!({ "initiatedBy": { "username": "admin" }, "sync": { "prune": true } });
    world.patch(Kind::Application, "a", &json!({ "operation": operation })).await;
    let reached = |log: &Log| log.get(Kind::ConfigMap, "a-config").is_none().then_some(());
    world.until("a person's sync prunes", reached).await;
    world.finish().await;
}

fn data(keys: &[&str]) -> String {
    let data: serde_json::Map<_, _> = keys.iter().map(|key| ((*key).into(), "1".into())).collect();
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "NAME" }, "data": data,
    })
    .to_string()
}

/// A field that was applied client-side is removed when the source no longer has it, also
/// after a change to server-side apply (SE-340, SE-346).
pub async fn a_removed_field_is_removed_after_a_change_to_server_side_apply(mut world: World) {
    let commit = |world: &World, later: &[&str], at_once: &[&str]| {
        let file = |name: &str, keys: &[&str]| {
            (format!("apps/{name}/one.json"), data(keys).replace("NAME", name))
        };
        world.repository.commit("change", &[file("later", later), file("at-once", at_once)])
    };
    let both: &[&str] = &["kept", "gone"];
    commit(&world, both, both);
    for name in ["later", "at-once"] {
        let mut application = set(&world, "none", &[(name, "dev")], &json!(null));
        let mut application = application["spec"]["template"].take();
        application["metadata"] = json!({ "name": world.tagged(name) });
        application["spec"]["source"]["path"] = format!("apps/{name}").into();
        world.create(Kind::Application, application).await;
    }
    world.start(&Setup::default()).await;
    let sync = async |name: &str, options: &[&str]| {
        let operation = json!({
            "initiatedBy": { "username": "admin" }, "sync": { "syncOptions": options },
        });
        let asked = world.patch(Kind::Application, name, &json!({ "operation": operation })).await;
        let before = crate::support::recorder::version(&asked);
        world
            .until(&format!("{name} is synced"), |log| {
                let app = log.get(Kind::Application, name)?;
                let done = crate::support::recorder::version(app) > before
                    && app["operation"].is_null()
                    && app["status"]["operationState"]["phase"] == "Succeeded"
                    && app["status"]["sync"]["status"] == "Synced";
                done.then_some(())
            })
            .await;
    };
    sync("later", &[]).await;
    sync("at-once", &[]).await;
    let server_side =
        json!({ "spec": { "syncPolicy": { "syncOptions": ["ServerSideApply=true"] } } });
    // One of them is first applied server-side with the field.
    world.patch(Kind::Application, "later", &server_side).await;
    sync("later", &["ServerSideApply=true"]).await;
    world.patch(Kind::Application, "at-once", &server_side).await;
    commit(&world, &["kept"], &["kept"]);
    for name in ["later", "at-once"] {
        world.refresh(name).await;
        world
            .until(&format!("{name} is out of sync"), |log| {
                let status = &log.get(Kind::Application, name)?["status"]["sync"]["status"];
                (status == "OutOfSync").then_some(())
            })
            .await;
        sync(name, &["ServerSideApply=true"]).await;
        // The recorder may see the Application before its object.
        world
            .until(&format!("{name} has only the field that is left"), |log| {
                let live = log.get(Kind::ConfigMap, name)?;
                (live["data"] == json!({ "kept": "1" })).then_some(())
            })
            .await;
    }
    world.finish().await;
}
