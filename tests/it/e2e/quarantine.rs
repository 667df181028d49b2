//! What stays out after an abort, through the program: what `explain` and `history` say of it
//! (ST-060).

use http::Method;
use serde_json::json;

use super::policies::{Members, commit, create, environments, phase, policy, until_run, wavegate};
use crate::support::cluster::send;
use crate::support::invariants::is_done;
use crate::support::{Kind, Setup, World};

/// The first commit is everywhere, and the second one, which is at `dev`, is aborted behind a gate.
async fn with_an_aborted_run(world: &mut World) -> (Members, String, String) {
    let members = environments(&[("dev", 2), ("prod", 3)]);
    let gate = json!({"name": "production", "steps": [2], "approvals": 1});
    let first = commit(world, &members, "v1");
    create(world, "fleet", &members, &[("dev", json!(null)), ("prod", json!(null))]).await;
    world.start(&Setup::default()).await;
    until_run(world, "fleet", "the first commit is everywhere", |run| phase(run) == "Complete")
        .await;
    policy(world, "careful", json!({ "gates": [gate] })).await;
    let second = commit(world, &members, "v2");
    refresh(world, &members).await;
    until_run(world, "fleet", "the second waits", |run| {
        phase(run) == "AwaitingApproval" && run["status"]["to"][0]["revision"] == second.as_str()
    })
    .await;
    wavegate(world, &["abort", "fleet", "--yes"]).await;
    until_run(world, "fleet", "it is aborted", |run| phase(run) == "Aborted").await;
    let opened = json!({"spec": {"gates": null}});
    let path = format!("{}/rolloutpolicies/careful", group(world));
    send(&world.client, Method::PATCH, &path, MERGE, &opened).await.unwrap();
    (members, first, second)
}

const MERGE: &str = "application/merge-patch+json";

fn group(world: &World) -> String {
    format!("/apis/wavegate.dev/v1alpha1/namespaces/{}", world.namespace)
}

async fn refresh(world: &World, members: &Members) {
    for (name, _) in members {
        world.refresh(name).await;
    }
}

async fn until_all(world: &World, members: &Members, revision: &str) {
    world
        .until(&format!("all are at {revision}"), |log| {
            let is_there = |(name, _): &(String, String)| {
                log.get(Kind::Application, name).is_some_and(|live| is_done(live, revision))
            };
            members.iter().all(is_there).then_some(())
        })
        .await;
}

/// Waits until all are compared with a revision that none of them is promoted to.
async fn until_held_back(world: &World, members: &Members, revision: &str) {
    world
        .until(&format!("all wait for {revision}"), |log| {
            let waits = |(name, _): &(String, String)| {
                let live = log.get(Kind::Application, name)?;
                let sync = &live["status"]["sync"];
                (sync["status"] == "OutOfSync" && sync["revision"] == revision).then_some(())
            };
            members.iter().all(|member| waits(member).is_some()).then_some(())
        })
        .await;
    world.until_calm("nothing is promoted to it").await;
    world.recorder.read(|log| {
        for (name, _) in members {
            let live = log.get(Kind::Application, name).unwrap();
            let synced = &live["status"]["operationState"]["syncResult"]["revision"];
            assert_ne!(synced, revision, "{name}\n{}", log.state());
        }
    });
}

/// A reset to the former commit, and a push of the aborted one: nothing of the fleet, nor one that is
/// new, is promoted to it, until a person retries it. A corrected spec is another target.
pub async fn an_aborted_commit_that_is_pushed_again_waits_for_a_person_as_st_060(mut world: World) {
    let (members, first, second) = with_an_aborted_run(&mut world).await;
    world.repository.reset(&first);
    refresh(&world, &members).await;
    until_all(&world, &members, &first).await;
    until_run(&world, "fleet", "all are back", |run| {
        run["metadata"]["name"] == "fleet-3" && phase(run) == "Complete"
    })
    .await;
    world.repository.reset(&second);
    refresh(&world, &members).await;
    until_held_back(&world, &members, &second).await;
    let said = wavegate(&world, &["explain", "fleet"]).await;
    let retry = format!("wavegate retry -n {} fleet", world.namespace);
    assert!(said.contains("run fleet-2 was ended before") && said.contains(&retry), "{said}");
    let history = wavegate(&world, &["history", "fleet"]).await;
    let line = history.lines().find(|line| line.contains("fleet-2")).unwrap_or_default();
    assert!(line.contains("Aborted"), "{history}");

    wavegate(&world, &["retry", "fleet", "--yes"]).await;
    until_all(&world, &members, &second).await;
    let last = until_run(&world, "fleet", "it is complete", |run| phase(run) == "Complete").await;
    let name = last["metadata"]["name"].as_str().unwrap();
    let number = name.rsplit('-').next().unwrap();
    let mut told = String::new();
    for number in ["3", number] {
        told += &wavegate(&world, &["history", "fleet", number]).await;
    }
    assert!(told.contains("the quarantine of fleet-2 is lifted"), "{told}");
    world.finish().await;
}

/// After many runs with many Applications a status has no room for the first ones.
pub async fn what_is_not_remembered_any_more_is_told_as_st_060(mut world: World) {
    let (members, first, second) = with_an_aborted_run(&mut world).await;
    world.repository.reset(&first);
    refresh(&world, &members).await;
    until_all(&world, &members, &first).await;
    let back = until_run(&world, "fleet", "all are back", |run| {
        run["metadata"]["name"] == "fleet-3" && phase(run) == "Complete"
    })
    .await;
    world.repository.reset(&second);
    refresh(&world, &members).await;
    until_held_back(&world, &members, &second).await;
    let many: Vec<u8> = (0..9_999_u32).flat_map(|number| number.to_be_bytes()).collect();
    let many = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, many);
    let own = back["status"]["quarantine"].as_str().unwrap();
    let full = json!({"status": {"quarantine": format!("{own};3:{many}")}});
    let path = format!("{}/rolloutruns/fleet-3/status", group(&world));
    send(&world.client, Method::PATCH, &path, MERGE, &full).await.unwrap();
    world.wait_for_reconcile("fleet").await;
    until_all(&world, &members, &second).await;
    let history = wavegate(&world, &["history", "fleet", "3"]).await;
    let want =
        "the targets of run fleet-2 are promoted to again: more than 10000 are not remembered";
    assert!(history.contains(want), "{history}");
    world.finish().await;
}
