//! Messages of rejected requests: the server's message, once, and the client's name.

use kube_sim::{Effect, InjectedFault, RequestRecord};
use serde_json::json;

use crate::support::invariants::{self, Steps};
use crate::support::manifests::{members, plain, rolling, set};
use crate::support::{Kind, Setup, World};

/// Debug output such as `Invalid (Status { status: Some(Failure), code: 422, …` appeared
/// in conditions and Events, and the client library logged each failure again.
#[tokio::test(flavor = "multi_thread")]
async fn rejections_have_the_servers_message_and_requests_a_user_agent() {
    let mut world = World::embedded("words").await;
    let apps = members("dev", 2);
    let all: Vec<(&str, &str)> =
        apps.iter().map(|(name, env)| (name.as_str(), env.as_str())).collect();
    let files: Vec<_> = apps.iter().flat_map(|(name, _)| plain(name, "v1")).collect();
    let revision = world.repository.commit("first", &files);
    let server = world.server().unwrap().clone();
    let of = |verb: &'static str, resource: &'static str, subresource: &'static str| {
        move |request: &RequestRecord| {
            request.client == "wavegate"
                && request.verb == verb
                && request.resource == resource
                && request.subresource == subresource
        }
    };
    // Permanently rejected at first: reported by condition, Event and log.
    let refuse = of("create", "applications", "");
    server.inject(InjectedFault::new(Effect::Status(422), refuse).times(6));
    // A conflict is only a reason to decide again.
    let conflict = of("patch", "applicationsets", "status");
    server.inject(InjectedFault::new(Effect::Status(409), conflict).times(2));
    let troubled = of("create", "events", "");
    server.inject(InjectedFault::new(Effect::Status(500), troubled).times(3));
    let troubled = of("watch", "applications", "");
    server.inject(InjectedFault::new(Effect::Status(500), troubled).times(3));
    let steps = Steps::default().step(apps.iter().map(|(name, _)| name), None);
    let strategy = rolling(&[("dev", json!(null))]);
    world.create(Kind::ApplicationSet, set(&world, "fleet", &all, &strategy)).await;
    world.start_process(&Setup::default()).await;
    world
        .until("all are rolled out in spite of refusals", |log| {
            invariants::all_done(log, &steps, &revision).then_some(())
        })
        .await;

    let log = world.controller_log();
    let refusal = "the server rejected our request due to an error in our request: injected";
    assert!(log.contains(refusal), "{log}");
    let mut reported = vec![log];
    world.recorder.read(|log| {
        let statuses = log.records.iter().map(|record| format!("{record:?}"));
        reported.extend(statuses);
    });
    for text in &reported {
        for debris in ["Status {", "Some(Failure)", "ApiError", "ServiceError"] {
            assert!(!text.contains(debris), "{debris} in {text}");
        }
    }
    for noise in ["kube_client", "failed with status", "cannot write the status"] {
        assert!(!reported[0].contains(noise), "{noise} in {}", reported[0]);
    }
    assert!(server.requests().iter().any(|request| request.client == "wavegate"));
    world.finish().await;
}
