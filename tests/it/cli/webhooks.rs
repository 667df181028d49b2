//! Webhooks of Git servers, over HTTP (AS-421).

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::PostParams;
use kube::core::DynamicObject;
use kube_sim::{Effect, InjectedFault, RequestRecord};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::arguments::Running;
use super::embedded::Cluster;
use super::metrics::request;
use super::*;
use crate::support::repository::Repository;

const REFRESH: &str = "argocd.argoproj.io/application-set-refresh";

/// A set that cannot be generated, since the repository does not exist: so the annotation
/// stays, and the test does not depend on when it is removed.
fn fleet(name: &str, generators: Value) -> Value {
    let mut fleet: Value = serde_json::from_str(&set(&[], json!([{}]))).unwrap();
    fleet["metadata"]["name"] = name.into();
    fleet["spec"]["generators"] = generators;
    fleet
}

fn git(url: &str, revision: &str) -> Value {
    json!({"git": {"repoURL": url, "revision": revision, "directories": [{"path": "*"}]}})
}

/// Starts the program, and waits until it answers webhooks.
async fn start(cluster: &Cluster, args: &[&str]) -> (Running, String) {
    let addr = unused_address();
    let webhook_addr = format!("--webhook-addr={addr}");
    let args = [&[webhook_addr.as_str(), "--probe-addr=", "--metrics-addr="], args].concat();
    let running = Running::start(cluster, &args, &[]);
    let until = Instant::now() + WAIT;
    while TcpStream::connect(&addr).await.is_err() {
        assert!(Instant::now() < until, "it does not listen: {}", running.log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    (running, addr)
}

/// Posts a body with these headers, and returns the status code.
pub(super) async fn post(addr: &str, headers: &[(&str, &str)], body: &str) -> u16 {
    let headers: String =
        headers.iter().map(|(name, value)| format!("\r\n{name}: {value}")).collect();
    let head = format!("POST /api/webhook HTTP/1.1{headers}\r\nContent-Length: {}", body.len());
    code(&request(addr, &head, body.as_bytes()).await.unwrap())
}

fn code(response: &str) -> u16 {
    let code = response.split(' ').nth(1).and_then(|code| code.parse().ok());
    code.unwrap_or_else(|| panic!("no status code in {response:?}"))
}

fn github(name: &str) -> String {
    json!({"ref": name, "repository": {
        "html_url": "https://git.invalid/team/repo",
        "clone_url": "https://git.invalid/team/repo.git",
        "ssh_url": "git@git.invalid:team/repo.git",
        "default_branch": "main",
    }})
    .to_string()
}

fn sets(cluster: &Cluster) -> Api<DynamicObject> {
    cluster.api("ApplicationSet")
}

async fn is_refreshed(cluster: &Cluster, name: &str) -> bool {
    let set = sets(cluster).get(name).await.unwrap();
    set.metadata.annotations.unwrap_or_default().contains_key(REFRESH)
}

async fn until_refreshed(cluster: &Cluster, running: &Running, name: &str) {
    let until = Instant::now() + WAIT;
    while !is_refreshed(cluster, name).await {
        assert!(Instant::now() < until, "{name} is not refreshed: {}", running.log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_refreshes_the_sets_that_use_it_as_421() {
    let cluster = Cluster::start().await;
    cluster.knows("default", "https://1").await;
    let url = "https://git.invalid/team/repo";
    let list = json!({"list": {"elements": [{"org": "team"}]}});
    let templated = git("https://git.invalid/{{org}}/repo", "main");
    for (name, generators) in [
        ("head", json!([git(url, "HEAD")])),
        ("branch", json!([git("git@git.invalid:team/repo.git", "dev")])),
        ("tag", json!([git(url, "v1.2.0")])),
        ("nested", json!([{"matrix": {"generators": [list, templated]}}])),
        ("other", json!([git("https://git.invalid/team/other", "HEAD")])),
    ] {
        cluster.create("ApplicationSet", fleet(name, generators)).await;
    }
    let (mut running, addr) = start(&cluster, &["--loglevel=debug"]).await;
    let push = [("X-GitHub-Event", "push")];

    assert_eq!(post(&addr, &push, &github("refs/heads/dev")).await, 200);
    until_refreshed(&cluster, &running, "branch").await;
    assert!(!is_refreshed(&cluster, "head").await, "HEAD is the default branch only");
    assert_eq!(post(&addr, &push, &github("refs/tags/v1.2.0")).await, 200);
    until_refreshed(&cluster, &running, "tag").await;
    assert!(!is_refreshed(&cluster, "head").await);
    let gitlab = json!({"object_kind": "push", "ref": "refs/heads/main", "project": {
        "web_url": "https://git.invalid/team/repo", "default_branch": "main",
    }});
    assert_eq!(post(&addr, &[("X-Gitlab-Event", "Push Hook")], &gitlab.to_string()).await, 200);
    until_refreshed(&cluster, &running, "head").await;
    until_refreshed(&cluster, &running, "nested").await;
    let azure = json!({"eventType": "git.push", "resource": {
        "refUpdates": [{"name": "refs/heads/main"}],
        "repository": {"remoteUrl": "https://git.invalid/team/none", "defaultBranch": "refs/heads/main"},
    }});
    assert_eq!(post(&addr, &[("X-Vss-Activityid", "1")], &azure.to_string()).await, 200);
    assert_eq!(post(&addr, &[("X-GitHub-Event", "ping")], "{}").await, 200);
    assert_eq!(post(&addr, &[("X-GitHub-Event", "pull_request")], "{}").await, 200);
    assert!(!is_refreshed(&cluster, "other").await);

    // Without a secret they are accepted, and that is named once for each server.
    let log = running.until_logged("refresh requested by a webhook").await;
    for server in ["GitHub", "GitLab", "Azure DevOps"] {
        let warned = format!("webhooks of {server} are accepted without verification");
        assert_eq!(log.matches(&warned).count(), 1, "{log}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_generates_applications_before_the_interval_ends_as_421() {
    let cluster = Cluster::start().await;
    cluster.knows("default", "https://1").await;
    let files = tempfile::tempdir().unwrap();
    let repository = Repository::new(files.path().join("repository"));
    repository.commit("first", &[("one/a.yaml".to_owned(), String::new())]);
    let url = repository.url();
    let mut source = git(&url, "HEAD");
    source["git"]["requeueAfterSeconds"] = json!(100_000);
    let mut fleet = fleet("fleet", json!([source]));
    fleet["spec"]["template"]["metadata"] = json!({"name": "{{path.basename}}"});
    fleet["spec"]["strategy"] = json!({});
    cluster.create("ApplicationSet", fleet).await;
    let args = ["--allow-local-sources", "--sync-engine=external"];
    let (running, addr) = start(&cluster, &args).await;
    let applications = cluster.api("Application");
    let until = Instant::now() + WAIT;
    let wait = async |name: &str| {
        while applications.get_opt(name).await.unwrap().is_none() {
            assert!(Instant::now() < until, "no Application {name}: {}", running.log());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    wait("one").await;
    repository.commit("second", &[("two/a.yaml".to_owned(), String::new())]);
    let push = json!({"ref": "refs/heads/trunk", "repository": {"html_url": url, "default_branch": "trunk"}});
    assert_eq!(post(&addr, &[("X-GitHub-Event", "push")], &push.to_string()).await, 200);
    wait("two").await;
    while is_refreshed(&cluster, "fleet").await {
        assert!(Instant::now() < until, "the annotation stays: {}", running.log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_refreshes_the_applications_that_deploy_it_as_se_422() {
    // The reader of the repositories waits for the lease, so that annotations stay.
    let cluster = Cluster::start().await;
    held_by_another(&cluster).await;
    let url = "git@git.invalid:team/repo.git";
    let applications = cluster.api("Application");
    for (name, url, revision, paths) in [
        ("head", url, "HEAD", ""),
        ("branch", url, "dev", ""),
        ("other", "https://git.invalid/team/other", "HEAD", ""),
        ("below", url, "main", "."),
        ("shared", url, "main", "../base;/shared/*.yaml"),
        ("beside", url, "main", "/elsewhere"),
    ] {
        let application = json!({
            "metadata": {"name": name, "annotations": {"argocd.argoproj.io/manifest-generate-paths": paths}},
            "spec": {
                "project": "default",
                "source": {"repoURL": url, "path": "apps/a", "targetRevision": revision},
                "destination": {"server": "https://1", "namespace": "default"},
            },
        });
        cluster.create("Application", application).await;
    }
    let (mut running, addr) = start(&cluster, &["--enable-leader-election"]).await;
    running.until_logged("waiting for the lease").await;
    let refreshed = async || -> Vec<String> {
        let list = applications.list(&Default::default()).await.unwrap();
        let is_asked = |one: &DynamicObject| {
            let annotations = one.metadata.annotations.as_ref();
            annotations.is_some_and(|all| all.contains_key("argocd.argoproj.io/refresh"))
        };
        let names = list.items.into_iter().filter(is_asked).filter_map(|one| one.metadata.name);
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    };
    let until_asked = async |wanted: &[&str]| {
        let until = Instant::now() + WAIT;
        while refreshed().await != wanted {
            let found = refreshed().await;
            assert!(Instant::now() < until, "SE-422: {found:?}, {wanted:?}: {}", running.log());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let mut push: Value = serde_json::from_str(&github("refs/heads/main")).unwrap();
    push["commits"] = json!([{"added": ["apps/a/x.yaml"]}, {"removed": ["apps/b/y.yaml"]}]);
    assert_eq!(post(&addr, &[("X-GitHub-Event", "push")], &push.to_string()).await, 200);
    until_asked(&["below", "head"]).await;
    push["commits"] = json!([{"modified": ["shared/x.yaml"]}]);
    assert_eq!(post(&addr, &[("X-GitHub-Event", "push")], &push.to_string()).await, 200);
    until_asked(&["below", "head", "shared"]).await;
    // Without files, all of them may have changed.
    let gitlab = json!({"object_kind": "push", "ref": "refs/heads/main", "total_commits_count": 30,
        "commits": [{"added": ["apps/c/x.yaml"]}],
        "project": {"web_url": "https://git.invalid/team/repo", "default_branch": "main"}});
    assert_eq!(post(&addr, &[("X-Gitlab-Event", "Push Hook")], &gitlab.to_string()).await, 200);
    until_asked(&["below", "beside", "head", "shared"]).await;
}

/// Creates the lease of another replica.
async fn held_by_another(cluster: &Cluster) {
    let now = k8s_openapi::jiff::Timestamp::now();
    let lease = json!({
        "metadata": {"name": "58ac56fa.applicationsets.argoproj.io"},
        "spec": {"holderIdentity": "another", "leaseDurationSeconds": 3600, "acquireTime": now.to_string(), "renewTime": now.to_string()},
    });
    let leases: Api<k8s_openapi::api::coordination::v1::Lease> =
        Api::namespaced(cluster.client.clone(), "argocd");
    leases.create(&PostParams::default(), &serde_json::from_value(lease).unwrap()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_are_not_understood_or_not_signed_are_refused_as_421() {
    let cluster = Cluster::start().await;
    cluster.knows("default", "https://1").await;
    let generators = json!([git("https://git.invalid/team/repo", "main")]);
    cluster.create("ApplicationSet", fleet("fleet", generators)).await;
    let secret = json!({
        "metadata": {"name": "argocd-secret"},
        "stringData": {"webhook.github.secret": "secret", "webhook.gitlab.secret": "token"},
    });
    let secrets: Api<Secret> = Api::namespaced(cluster.client.clone(), "argocd");
    let secret = serde_json::from_value(secret).unwrap();
    secrets.create(&PostParams::default(), &secret).await.unwrap();
    let (running, addr) = start(&cluster, &[]).await;

    let body = github("refs/heads/main");
    let push = ("X-GitHub-Event", "push");
    let signature = |body: &str| {
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, b"secret");
        let tag = ring::hmac::sign(&key, body.as_bytes());
        let hex: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        format!("sha256={hex}")
    };
    let right = signature(&body);
    let wrong = right.replace("sha256=", "sha256=00");
    for headers in [&[push][..], &[push, ("X-Hub-Signature-256", &wrong)]] {
        assert_eq!(post(&addr, headers, &body).await, 400, "{headers:?}");
    }
    let changed = body.replace("main", "mean");
    assert_eq!(post(&addr, &[push, ("X-Hub-Signature-256", &right)], &changed).await, 400);
    assert_eq!(post(&addr, &[("X-Gitlab-Event", "Push Hook")], &body).await, 400);
    assert_eq!(post(&addr, &[], &body).await, 400, "an unknown server");
    // Anyone may send these: once per server.
    for server in ["GitHub", "GitLab"] {
        let error = format!("{server}: signature, token or password is missing or wrong");
        assert_eq!(running.log().matches(&error).count(), 1, "{}", running.log());
    }
    for method in ["GET", "PUT", "DELETE"] {
        let response = request(&addr, &format!("{method} /api/webhook HTTP/1.1"), b"").await;
        assert_eq!(code(&response.unwrap()), 405, "{method}");
    }
    let elsewhere = request(&addr, "POST / HTTP/1.1\r\nContent-Length: 0", b"").await.unwrap();
    assert_eq!(code(&elsewhere), 404);
    assert!(!is_refreshed(&cluster, "fleet").await, "{}", running.log());

    // Where one server has a secret, the header of another one is no way around it.
    let azure = json!({"eventType": "git.push", "resource": {
        "refUpdates": [{"name": "refs/heads/main"}],
        "repository": {"remoteUrl": "https://git.invalid/team/repo", "defaultBranch": "refs/heads/main"},
    }});
    for (other, body) in [
        (("X-Gogs-Event", "push"), body.as_str()),
        (("X-Vss-Activityid", "1"), &azure.to_string()),
        (("X-Hook-UUID", "1"), "{}"),
    ] {
        assert_eq!(post(&addr, &[other], body).await, 400, "{other:?}");
    }
    let error = "Gogs: there is no secret for it in Secret argocd-secret, and there is one for \
                 another server; add webhook.gogs.secret";
    assert_eq!(running.log().matches(error).count(), 1, "{}", running.log());
    assert!(!is_refreshed(&cluster, "fleet").await, "{}", running.log());

    // Hostile bodies that are signed, as one of a Git server that is taken over.
    let deep = "[".repeat(200_000);
    for body in ["", "\u{0}", "{", "null", "5", "{\"ref\":{}}", "{\"commits\":{}}", &deep] {
        let signed = [push, ("X-Hub-Signature-256", &signature(body))];
        assert_eq!(post(&addr, &signed, body).await, 400, "{:.20}", body);
    }
    // Announced and not sent; the connection is closed without a response.
    let mut stream = TcpStream::connect(&addr).await.unwrap();
    stream
        .write_all(b"POST /api/webhook HTTP/1.1\r\nHost: a\r\nContent-Length: 99\r\n\r\n{")
        .await
        .unwrap();
    stream.shutdown().await.unwrap();
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest).await;
    // More than the limit, in chunks of unknown number.
    let mut stream = TcpStream::connect(&addr).await.unwrap();
    let head = "POST /api/webhook HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nX-Vss-Activityid: 1\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let chunk = [b"100000\r\n".as_slice(), &vec![b' '; 1 << 20], b"\r\n"].concat();
    let (mut reading, mut writing) = stream.split();
    let send = async {
        for _ in 0..30 {
            if writing.write_all(&chunk).await.is_err() {
                return;
            }
        }
    };
    let mut first = [0; 12];
    let receive = async { reading.read_exact(&mut first).await.map(drop) };
    let (received, ()) = tokio::join!(receive, send);
    received.unwrap();
    assert_eq!(&first, b"HTTP/1.1 413");

    assert_eq!(post(&addr, &[push, ("X-Hub-Signature-256", &right)], &body).await, 200);
    until_refreshed(&cluster, &running, "fleet").await;
}

/// A flood of events asks a set once per second, and then once more for the last of them.
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_events_asks_a_set_once_per_second_as_421() {
    let cluster = Cluster::start().await;
    cluster.knows("default", "https://1").await;
    let generators = json!([git("https://git.invalid/team/repo", "main")]);
    cluster.create("ApplicationSet", fleet("fleet", generators)).await;
    let (running, addr) = start(&cluster, &[]).await;
    let patches = || {
        let is_asked = |one: &RequestRecord| {
            let is_set = one.resource == "applicationsets" && one.subresource.is_empty();
            is_set && one.verb == "patch" && one.name == "fleet"
        };
        cluster.server.requests().iter().filter(|one| is_asked(one)).count()
    };
    let (body, push) = (github("refs/heads/main"), [("X-GitHub-Event", "push")]);
    let began = Instant::now();
    for _ in 0..200 {
        assert_eq!(post(&addr, &push, &body).await, 200);
    }
    let until = Instant::now() + WAIT;
    while patches() < 2 {
        assert!(Instant::now() < until, "{}", running.log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let most = usize::try_from(began.elapsed().as_secs()).unwrap() + 2;
    assert!(patches() <= most, "{} in {most} s: {}", patches(), running.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_waits_for_the_lease_requests_refreshes_as_421() {
    let cluster = Cluster::start().await;
    let generators = json!([git("https://git.invalid/team/repo", "main")]);
    cluster.create("ApplicationSet", fleet("fleet", generators)).await;
    held_by_another(&cluster).await;
    let (mut running, addr) = start(&cluster, &["--enable-leader-election"]).await;
    running.until_logged("waiting for the lease").await;
    assert_eq!(post(&addr, &[("X-GitHub-Event", "push")], &github("refs/heads/main")).await, 200);
    until_refreshed(&cluster, &running, "fleet").await;
}

/// A burst of events at a replica that waits: each would list all objects, many at once.
#[tokio::test(flavor = "multi_thread")]
async fn events_at_a_replica_that_waits_share_their_listings() {
    let cluster = Cluster::start().await;
    let generators = json!([git("https://git.invalid/team/repo", "main")]);
    cluster.create("ApplicationSet", fleet("fleet", generators)).await;
    held_by_another(&cluster).await;
    let (mut running, addr) = start(&cluster, &["--enable-leader-election"]).await;
    running.until_logged("waiting for the lease").await;
    let lists = |record: &RequestRecord| {
        record.verb == "list" && ["applicationsets", "applications"].contains(&&*record.resource)
    };
    let slow = Effect::Latency(Duration::from_secs(2));
    cluster.server.inject(InjectedFault::new(slow, lists).times(usize::MAX));
    cluster.server.forget_requests();
    let headers = [("X-GitHub-Event", "push")];
    let (first, rest) = (github("refs/heads/other"), github("refs/heads/main"));
    let posts = std::iter::once(&first).chain(std::iter::repeat_n(&rest, 39));
    let posts = posts.map(|body| post(&addr, &headers, body));
    for code in futures::future::join_all(posts).await {
        assert_eq!(code, 200);
    }
    until_refreshed(&cluster, &running, "fleet").await;
    let listed = cluster.server.requests().iter().filter(|record| lists(record)).count();
    assert!(listed <= 20, "{listed} lists for 40 events");
}
