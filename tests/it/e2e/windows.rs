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
    world.until_synced(&["b", "c"]).await;
    world
        .until("the set names the denying window", |log| {
            let set = log.get(Kind::ApplicationSet, "fleet")?;
            let wait = &set["status"]["rollout"]["waitingFor"][0];
            (wait["application"] == world.tagged("a") && wait["kind"] == "SyncWindow").then_some(())
        })
        .await;
    world.recorder.read(|log| {
        let asked = log.of(Kind::Application).filter(|record| record.name() == "a");
        for record in asked {
            assert!(record.object["operation"].is_null(), "asked for at {}", record.version());
        }
    });
    // Without the window, it syncs.
    world.patch(Kind::AppProject, "my-project", &windows(json!(null))).await;
    world.until_synced(&["a"]).await;
    world.finish().await;
}
