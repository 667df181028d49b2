//! To what Applications go back.

use serde_json::json;

use super::policies::{commit, create, environments, phase, until_run, wavegate};
use crate::support::invariants::is_done;
use crate::support::{Kind, Setup, World};

/// ST-061: a spec that needed no sync is deployed, too. A run that changes the revision afterwards can
/// be taken back, and what goes back keeps that spec.
pub async fn over_a_spec_that_needed_no_sync_as_st_061(mut world: World) {
    let members = environments(&[("dev", 1), ("prod", 2)]);
    let first = commit(&world, &members, "v1");
    create(&world, "fleet", &members, &[("dev", json!(null)), ("prod", json!(null))]).await;
    world.start(&Setup::default()).await;
    until_run(&world, "fleet", "the first is everywhere", |run| phase(run) == "Complete").await;

    let info = json!([{"name": "owner", "value": "the shop"}]);
    let changed = json!({"spec": {"template": {"spec": {"info": info}}}});
    world.patch(Kind::ApplicationSet, "fleet", &changed).await;
    world
        .until("all have the spec", |log| {
            let has = |(name, _): &(String, String)| {
                log.get(Kind::Application, name).is_some_and(|app| app["spec"]["info"] == info)
            };
            members.iter().all(has).then_some(())
        })
        .await;
    world.until_calm("nothing had to be synced").await;

    let second = commit(&world, &members, "v2");
    for (name, _) in &members {
        world.refresh(name).await;
    }
    let last = until_run(&world, "fleet", "the second is everywhere", |run| {
        phase(run) == "Complete" && run["status"]["to"][0]["revision"] == second.as_str()
    })
    .await;
    let planned = wavegate(&world, &["rollback", "fleet", "--dry-run"]).await;
    assert!(planned.contains("3 of 3"), "{planned}\n{last:#}");
    wavegate(&world, &["rollback", "fleet", "--yes"]).await;
    until_run(&world, "fleet", "all went back", |run| phase(run) == "RolledBack").await;
    world.recorder.read(|log| {
        for (name, _) in &members {
            let app = log.get(Kind::Application, name).unwrap();
            assert_eq!(app["status"]["operationState"]["syncResult"]["revision"], *first, "{name}");
            assert!(app["spec"]["info"] == info && !is_done(app, &second), "{name}: {app:#}");
        }
    });
    world.finish().await;
}
