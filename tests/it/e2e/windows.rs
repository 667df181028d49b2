//! A sync window that denies one Application does not delay others (AS-341, AS-366).

use serde_json::json;

use crate::support::manifests::{plain, rolling, set};
use crate::support::{Kind, Setup, World};

pub async fn a_denying_window_uses_no_slot(mut world: World) {
    let all = [plain("a", "v1"), plain("b", "v1"), plain("c", "v1")].concat();
    world.repository.commit("first", &all);
    let windows = |windows| json!({ "spec": { "syncWindows": windows } });
    let always = json!([{
        "kind": "deny", "schedule": "* * * * *", "duration": "24h", "applications": [world.tagged("a")],
    }]);
    world.patch(Kind::AppProject, "my-project", &windows(always)).await;
    let strategy = rolling(&[("dev", json!(1))]);
    let members = [("a", "dev"), ("b", "dev"), ("c", "dev")];
    world.create(Kind::ApplicationSet, set(&world, "fleet", &members, &strategy)).await;
    world.start(&Setup::default()).await;
    synced(&world, &["b", "c"]).await;
    let reason = world
        .until("the set names the denying window", |log| {
            let set = log.get(Kind::ApplicationSet, "fleet")?;
            let wait = &set["status"]["rollout"]["waitingFor"][0];
            (wait["application"] == world.tagged("a")).then(|| wait["reason"].to_string())
        })
        .await;
    assert!(reason.contains("a sync window denies it: "), "{reason}");
    world.recorder.read(|log| {
        let asked = log.of(Kind::Application).filter(|record| record.name() == "a");
        for record in asked {
            assert!(record.object["operation"].is_null(), "asked for at {}", record.version());
        }
    });
    // Without the window, it syncs.
    world.patch(Kind::AppProject, "my-project", &windows(json!(null))).await;
    synced(&world, &["a"]).await;
    world.finish().await;
}

/// Waits until the Applications are Synced and Healthy.
async fn synced(world: &World, names: &[&str]) {
    world
        .until(&format!("{names:?} are synced"), |log| {
            let is_synced = |name: &&str| {
                log.get(Kind::Application, name).is_some_and(|application| {
                    application["status"]["sync"]["status"] == "Synced"
                        && application["status"]["health"]["status"] == "Healthy"
                })
            };
            names.iter().all(is_synced).then_some(())
        })
        .await;
}
