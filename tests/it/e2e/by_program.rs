//! What is asked for with `kubectl` or another program that does not write who asks (ST-071).

use http::Method;
use serde_json::{Value, json};

use super::policies::{commit, create, environments, phase, policy, until_run};
use crate::support::cluster::{MERGE, send};
use crate::support::{Kind, Setup, World};

/// Changes an object of the control plane as a program does that names itself.
async fn patch_as(world: &World, program: &str, path: &str, patch: Value) {
    let path = format!("{path}?fieldManager={program}");
    send(&world.client, Method::PATCH, &path, MERGE, &patch).await.unwrap();
}

/// Who did something last, by the timeline of a run; `None` while it has no such entry.
fn by(run: &Value, what: &str, subject: &str) -> Option<String> {
    let entries = run["status"]["timeline"].as_array()?;
    let is_it = |entry: &&Value| {
        entry["what"] == what && entry["subject"].as_str().unwrap_or_default() == subject
    };
    let last = entries.iter().rev().find(is_it)?;
    Some(last["by"].as_str().unwrap_or_default().to_owned())
}

/// Number 10 of what users found: a pause and a skip by `kubectl` had nobody in the timeline. The
/// managed fields name the program, until somebody gives a name.
pub async fn requests_without_a_name_are_of_their_program(mut world: World) {
    let members = environments(&[("dev", 1), ("prod", 3)]);
    policy(
        &world,
        "gate",
        json!({"gates": [{"name": "production", "steps": [2], "approvals": 1}]}),
    )
    .await;
    commit(&world, &members, "v1");
    create(&world, "fleet", &members, &[("dev", json!(null)), ("prod", json!(null))]).await;
    world.start(&Setup::default()).await;
    let held =
        until_run(&world, "fleet", "the gate waits", |run| phase(run) == "AwaitingApproval").await;
    let set = format!("{}/fleet", Kind::ApplicationSet.path(&world.namespace));
    let paused =
        |value: Value| json!({"metadata": {"annotations": {"wavegate.dev/paused": value}}});
    patch_as(&world, "kubectl-annotate", &set, paused(json!("a look"))).await;
    let is_paused = |run: &Value| by(run, "Paused", "").is_some();
    let run = until_run(&world, "fleet", "it is paused", is_paused).await;
    assert_eq!(by(&run, "Paused", "").unwrap(), "kubectl-annotate", "{run:#}");
    patch_as(&world, "kubectl-annotate", &set, paused(Value::Null)).await;

    let name = held["metadata"]["name"].as_str().unwrap();
    let path =
        format!("/apis/wavegate.dev/v1alpha1/namespaces/{}/rolloutruns/{name}", world.namespace);
    let prod: Vec<String> = members
        .iter()
        .filter(|(_, env)| env == "prod")
        .map(|(name, _)| world.tagged(name))
        .collect();
    let [first, second, third] = prod.as_slice() else { panic!("{prod:?}") };
    let skip = |names: &[&String]| json!({"spec": {"skip": names}});
    patch_as(&world, "kubectl-patch", &path, skip(&[first])).await;
    let is_skipped = |run: &Value| by(run, "Skipped", first).is_some();
    let run = until_run(&world, "fleet", "the first is skipped", is_skipped).await;
    assert_eq!(by(&run, "Skipped", first).unwrap(), "kubectl-patch", "{run:#}");
    // While others wait, too.
    let (_, text, error) = world.wavegate(&["explain", first, "-n", &world.namespace]).await;
    let skipped = format!("{first} is not waited for: run {name} skips it");
    assert!(text.starts_with(&skipped), "{text}{error}");
    assert!(!text.contains("it can start now"), "{text}");
    // The command gives a name.
    let (code, _, error) = world.wavegate(&["skip", second, "-y", "-n", &world.namespace]).await;
    assert_eq!(code, 0, "{error}");
    let is_skipped = |run: &Value| by(run, "Skipped", second).is_some();
    let run = until_run(&world, "fleet", "the second is skipped", is_skipped).await;
    let person = by(&run, "Skipped", second).unwrap();
    assert!(!person.is_empty() && !person.contains("wavegate"), "{person}: {run:#}");
    // And the program that acts after it is not that person.
    patch_as(&world, "lens", &path, skip(&[second, third])).await;
    let is_undone =
        |run: &Value| by(run, "Unskipped", first).is_some() && by(run, "Skipped", third).is_some();
    let run = until_run(&world, "fleet", "the first is taken in again", is_undone).await;
    for (what, subject) in [("Unskipped", first), ("Skipped", third)] {
        assert_eq!(by(&run, what, subject).unwrap(), "lens", "{run:#}");
    }
    let (_, text, error) =
        world.wavegate(&["history", "fleet", name, "-n", &world.namespace]).await;
    for program in ["kubectl-annotate", "kubectl-patch", "lens"] {
        assert!(text.contains(program), "{program}: {text}{error}");
    }
    world.finish().await;
}
