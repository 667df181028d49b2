//! Faults: what the client sees of them, and what was done all the same.

use std::time::Duration;

use ::http::{Request, header};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::watches::open;
use super::{MAPS, get, map, post, with_maps};
use crate::{Effect, InjectedFault, RequestRecord, Server};

fn creates(request: &RequestRecord) -> bool {
    request.verb == "create"
}

/// Tries to create a ConfigMap within a minute: the code, if one came.
async fn create(client: &kube::Client, name: &str) -> Option<u16> {
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let object = serde_json::from_value(map(name)).unwrap();
    let params = PostParams::default();
    let asked = maps.create(&params, &object);
    match tokio::time::timeout(Duration::from_secs(60), asked).await.ok()? {
        Ok(_) => Some(201),
        Err(kube::Error::Api(status)) => Some(status.code),
        Err(_) => None,
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_that_fails_is_done_or_not_as_its_fault_says() {
    let second = Duration::from_secs(1);
    // (effect, code that the client sees, whether the object is there, seconds)
    let cases = [
        (Effect::Latency(second), Some(201), true, 1),
        (Effect::LatencyAfterApplying(second), Some(201), true, 1),
        (Effect::Status(500), Some(500), false, 0),
        (Effect::StatusRetryAfter(503, 7), Some(503), false, 0),
        (Effect::Forbidden, Some(403), false, 0),
        (Effect::Absent, Some(404), false, 0),
        (Effect::StatusAfterApplying(504), Some(504), true, 0),
        (Effect::Drop, None, false, 0),
        (Effect::DropAfterApplying, None, true, 0),
        (Effect::CutAnswer, None, true, 0),
        (Effect::Hang, None, false, 60),
        (Effect::HangAfterApplying, None, true, 60),
    ];
    for (effect, code, is_there, seconds) in cases {
        let server = Server::new();
        let client = server.client();
        server.inject(InjectedFault::new(effect.clone(), creates));
        let began = tokio::time::Instant::now();
        assert_eq!(create(&client, "a").await, code, "{effect:?}");
        assert_eq!(began.elapsed().as_secs(), seconds, "{effect:?}");
        let (found, _) = get(&client, &format!("{MAPS}/a")).await;
        assert_eq!(found == 200, is_there, "{effect:?}");
        assert_eq!(server.requests()[0].code, code.unwrap_or(0), "{effect:?}");
        assert_eq!(create(&client, "b").await, Some(201), "{effect:?} is over");
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_says_when_to_come_back() {
    let server = Server::new();
    let client = server.client();
    server.inject(InjectedFault::new(Effect::StatusRetryAfter(429, 30), |_| true));
    let response = client.send(Request::get(MAPS).body(kube::client::Body::empty()).unwrap()).await;
    let response = response.unwrap();
    assert_eq!(
        (response.status().as_u16(), &response.headers()[header::RETRY_AFTER]),
        (429, &30.into())
    );
    let body = response.into_body().collect_bytes().await.unwrap();
    let status: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(status["details"]["retryAfterSeconds"], json!(30));
}

#[tokio::test(start_paused = true)]
async fn faults_last_for_a_time_or_for_a_number_of_requests_in_it() {
    let server = Server::new();
    let client = server.client();
    let tries = async |seconds: &[u64]| {
        let began = tokio::time::Instant::now();
        let mut codes = Vec::new();
        for at in seconds {
            tokio::time::sleep_until(began + Duration::from_secs(*at)).await;
            codes.push(get(&client, MAPS).await.0);
        }
        codes
    };
    let minute = Duration::from_secs(60);
    server.inject(InjectedFault::new(Effect::Status(503), |_| true).lasting(minute));
    assert_eq!(tries(&[0, 1, 59, 60, 61]).await, [503, 503, 503, 200, 200]);
    server.inject(InjectedFault::new(Effect::Status(503), |_| true).times(2).lasting(minute));
    assert_eq!(tries(&[0, 1, 2]).await, [503, 503, 200]);
    let until = tokio::time::Instant::now() + minute;
    server.inject(InjectedFault::new(Effect::Status(503), |_| true).until(until).times(2));
    assert_eq!(tries(&[0, 60, 61]).await, [503, 200, 200]);
    server.inject(InjectedFault::new(Effect::Status(503), |_| true).lasting(Duration::MAX));
    assert_eq!(tries(&[0, 100_000]).await, [503, 503]);
    server.clear_faults();
    // A matcher may count: each third of the requests here.
    let mut count = 0;
    let third = move |_: &RequestRecord| {
        count += 1;
        count % 3 == 0
    };
    server.inject(InjectedFault::new(Effect::Status(503), third).lasting(minute));
    assert_eq!(tries(&[0, 0, 0, 0, 0, 0]).await, [200, 200, 503, 200, 200, 503]);
}

/// Permissions of one client that vanish and return.
#[tokio::test(start_paused = true)]
async fn access_that_is_gone_is_refused_in_the_words_of_the_real_one() {
    let (server, other) = with_maps(1).await;
    let client = server.client_as("lost");
    let mut events = open(&client, "").await;
    let hour = Duration::from_secs(3600);
    server.inject(InjectedFault::new(Effect::Forbidden, |r| r.client == "lost").lasting(hour));
    let all = "/apis/apps/v1/deployments";
    let cases = [
        (
            get(&client, &format!("{MAPS}/m0")).await,
            "configmaps \"m0\" is forbidden: \
            User \"lost\" cannot get resource \"configmaps\" in API group \"\" in the namespace \"default\"",
        ),
        (
            post(&client, MAPS, &map("a")).await,
            "configmaps is forbidden: \
            User \"lost\" cannot create resource \"configmaps\" in API group \"\" in the namespace \"default\"",
        ),
        (
            get(&client, all).await,
            "deployments.apps is forbidden: \
            User \"lost\" cannot list resource \"deployments\" in API group \"apps\" at the cluster scope",
        ),
        (get(&client, "/version").await, "forbidden: User \"lost\" cannot get path \"/version\""),
    ];
    for ((code, status), message) in cases {
        assert_eq!((code, &status["reason"]), (403, &json!("Forbidden")));
        assert_eq!(status["message"], message);
    }
    post(&other, MAPS, &map("b")).await;
    let seen: Vec<_> =
        events.by_ref().take(2).map(|(_, o)| o["metadata"]["name"].clone()).collect().await;
    assert_eq!(seen, ["m0", "b"]);
    tokio::time::sleep(hour).await;
    assert_eq!(get(&client, MAPS).await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn effects_add_up_until_one_refuses() {
    let server = Server::new();
    let client = server.client();
    for effect in [Effect::Latency(Duration::from_secs(2)), Effect::Status(500), Effect::Drop] {
        server.inject(InjectedFault::new(effect, creates));
    }
    let began = tokio::time::Instant::now();
    assert_eq!(post(&client, MAPS, &map("a")).await.0, 500);
    assert_eq!(began.elapsed().as_secs(), 2);
}

#[tokio::test]
async fn an_answer_over_the_network_is_cut_in_the_middle() {
    let server = Server::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = server.clone();
    tokio::spawn(async move { serving.serve(listener, CancellationToken::new()).await });
    let kubeconfig = kube::config::Kubeconfig::from_yaml(&server.kubeconfig(address)).unwrap();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await;
    let client = kube::Client::try_from(config.unwrap()).unwrap();
    server.inject(InjectedFault::new(Effect::CutAnswer, creates));
    assert_eq!(create(&client, "a").await, None);
    assert_eq!(create(&client, "a").await, Some(409), "it was done");
}

/// A definition that is gone is missing in discovery, too.
#[tokio::test(start_paused = true)]
async fn a_kind_can_be_left_out_of_discovery() {
    let server = Server::new();
    let client = server.client();
    let names = async |path: &str| {
        let (_, found) = get(&client, path).await;
        let resources = found["resources"].as_array().cloned().unwrap_or_default();
        resources.iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let before = names("/apis/apps/v1").await;
    assert!(before.iter().any(|name| name == "deployments/scale"), "{before:?}");
    let lasting = Duration::from_secs(60);
    let discovers = |request: &RequestRecord| request.resource.starts_with('/');
    server.inject(InjectedFault::new(Effect::Unlisted("deployments"), discovers).lasting(lasting));
    let left = names("/apis/apps/v1").await;
    let is_left = |name: &&String| !name.starts_with("deployments");
    assert_eq!(left, before.iter().filter(is_left).cloned().collect::<Vec<_>>());
    assert_ne!(left, before);
    tokio::time::sleep(lasting).await;
    assert_eq!(names("/apis/apps/v1").await, before);
}
