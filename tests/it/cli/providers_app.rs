//! Tokens of GitHub Apps: one serves all queries of the controller until it is refused (AS-098).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};

use super::arguments::Running;
use super::providers_live::{FLAGS, names, start, until_names};
use super::*;
use crate::git_server::rsa_key;
use crate::support::service::{Asked, Service, code, json as document};

/// A server that gives out numbered tokens, and refuses those below a number.
fn server(refused_below: &Arc<AtomicUsize>) -> Service {
    let (given, below) = (AtomicUsize::new(0), Arc::clone(refused_below));
    Service::start(move |asked| match asked.place() {
        "/api/v3/repos/o/r/pulls" => {
            let token = asked.header("authorization").strip_prefix("Bearer ghs-s3cr3t-");
            let number: usize = token.and_then(|number| number.parse().ok()).unwrap_or_default();
            match number >= below.load(Ordering::SeqCst) && number > 0 {
                true => document(json!([{
                    "number": 1, "title": "t", "head": {"ref": "f", "sha": "1"},
                    "base": {"ref": "m"}, "user": null,
                }])),
                false => code(401, "Bad credentials"),
            }
        }
        place if place.ends_with("/access_tokens") => {
            let number = given.fetch_add(1, Ordering::SeqCst);
            // The first one cannot be sent, and must not be kept.
            if number == 0 {
                return document(json!({"token": "s3cr3t\nline"}));
            }
            document(json!({
                "token": format!("ghs-s3cr3t-{number}"), "expires_at": "2999-01-01T00:00:00Z",
            }))
        }
        _ => code(404, "Not Found"),
    })
}

fn count(server: &Service, is: impl Fn(&Asked) -> bool) -> usize {
    server.asked().iter().filter(|asked| is(asked)).count()
}

/// The queries that were answered with a token.
fn with_token(server: &Service, number: usize) -> usize {
    let header = format!("Bearer ghs-s3cr3t-{number}");
    count(server, |asked| asked.header("authorization") == header)
}

async fn until(running: &Running, what: &str, is: impl Fn() -> bool) {
    let limit = Instant::now() + WAIT;
    while !is() {
        assert!(Instant::now() < limit, "{what}: {}", running.log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_an_app_serves_all_queries_until_it_is_refused_as_098() {
    let refused_below = Arc::new(AtomicUsize::new(0));
    let server = server(&refused_below);
    let generator = json!({"pullRequest": {
        "github": {"owner": "o", "repo": "r", "appSecretName": "app"}, "requeueAfterSeconds": 1,
    }});
    let cluster = start(&server, generator).await;
    let secrets: Api<Secret> = Api::namespaced(cluster.client.clone(), "argocd");
    let app = json!({
        "metadata": {"name": "app"},
        "stringData": {
            "githubAppID": "7", "githubAppInstallationID": "42", "githubAppPrivateKey": rsa_key(),
        },
    });
    secrets.create(&PostParams::default(), &serde_json::from_value(app).unwrap()).await.unwrap();
    let running = Running::start(&cluster, &FLAGS, &[]);
    until_names(&cluster, &running, &["pr-1"]).await;
    until(&running, "three queries", || with_token(&server, 1) >= 3).await;
    let requests = |of: &str| {
        let place = format!("/api/v3/app/installations/{of}/access_tokens");
        count(&server, |asked| asked.place() == place)
    };
    assert!(running.log().contains("the answer has no token"), "{}", running.log());
    assert_eq!(requests("42"), 2, "the first one is not used, and one serves all queries");

    // It was revoked: one query fails, and the next one gets another token.
    refused_below.store(2, Ordering::SeqCst);
    until(&running, "queries with another token", || with_token(&server, 2) >= 2).await;
    assert_eq!(requests("42"), 3);
    assert_eq!(names(&cluster).await, ["pr-1"]);

    // Another installation has another token, and so has another private key.
    let change = async |data: Value| {
        let patch = Patch::Merge(json!({ "stringData": data }));
        secrets.patch("app", &PatchParams::default(), &patch).await.unwrap();
    };
    change(json!({"githubAppInstallationID": "43"})).await;
    until(&running, "queries of the installation", || with_token(&server, 3) >= 2).await;
    assert_eq!((requests("42"), requests("43")), (3, 1));
    change(json!({"githubAppPrivateKey": rsa_key()})).await;
    until(&running, "queries with the other key", || with_token(&server, 4) >= 2).await;
    assert_eq!((requests("42"), requests("43")), (3, 2));
    assert!(!running.log().contains("s3cr3t"), "{}", running.log());
}
