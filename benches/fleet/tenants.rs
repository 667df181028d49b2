//! Forty tenants on a real API server, of which five do what could block the others: a server that
//! answers a byte a second, a file that is slow to read, a cluster that hangs, objects that a foreign
//! finalizer holds, and receivers of notifications that never answer. How long the other thirty-five
//! take for a new revision, alone and beside them, and that no object is lost.

use std::path::Path;
use std::time::{Duration, Instant};

use http::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use wavegate_api::permissive_project;

use crate::fleet::inert;
use crate::process::Process;
use crate::site::{Cluster, Site};
use crate::support::cluster::{JSON, send};
use crate::support::manifests::IN_CLUSTER;
use crate::table::Table;

/// Tenants that do nothing wrong, and the Applications of each.
const QUIET: usize = 35;
const EACH: usize = 4;
/// Applications of each of the others.
const LOUD: usize = 30;
/// Revisions that are measured, of which the median counts.
const REVISIONS: u64 = 3;
const LIMIT: Duration = Duration::from_secs(600);
const POLL: Duration = Duration::from_millis(50);
/// The annotation that asks for a comparison.
const REFRESH: &str = "argocd.argoproj.io/refresh";

pub async fn measure(table: &mut Table, binary: &Path, cluster: &Cluster) {
    let case = format!("{QUIET} tenants of {EACH} Applications beside 5 that could block them");
    let site = Site::real(cluster).await;
    let mut files = quiet_files(0);
    files.extend(loud_files("1"));
    site.repository.commit("0", &files);
    let mut run = site.run_with(binary, "embedded", &["--allow-private-sinks=true"]);
    for tenant in 0..QUIET {
        create_project(&site, &project(tenant)).await;
        for number in 0..EACH {
            let app = application(&site, &name(tenant, number), &project(tenant), json!({}));
            site.create("applications", &app).await;
        }
    }
    deployed(&site, &mut run, 0, &files).await;
    let alone = revisions(&site, &mut run, 1, "1").await;
    run.until_at_rest(Duration::from_secs(30)).await;
    let before = run.resident();

    let silent = listen(Answer::Nothing).await;
    let slow = listen(Answer::Drip).await;
    loud(&site, &mut run, silent, slow).await;
    let beside = revisions(&site, &mut run, 1 + REVISIONS, "2").await;
    let (alone, beside) = (median(alone), median(beside));
    table.add(&case, "a revision alone", "s", alone, None);
    table.add(&case, "a revision beside them", "s", beside, None);
    table.add(&case, "times that alone", "×", beside / alone, Some(2.0));
    table.add(&case, "resident size alone", "MiB", before.now, None);
    table.add(&case, "highest resident size", "MiB", run.resident().peak, Some(1024.0));
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64()
}

fn project(tenant: usize) -> String {
    format!("tenant-{tenant:02}")
}

fn name(tenant: usize, number: usize) -> String {
    format!("quiet-{tenant:02}-{number}")
}

/// What the quiet tenants deploy at a commit.
fn quiet_files(commit: u64) -> Vec<(String, String)> {
    let names = (0..QUIET).flat_map(|tenant| (0..EACH).map(move |number| name(tenant, number)));
    let file = |name: String| {
        let mut objects = inert(&name);
        objects[0]["data"]["commit"] = commit.to_string().into();
        (format!("{name}/all.yaml"), objects.map(|object| object.to_string()).join("\n---\n"))
    };
    names.map(file).collect()
}

/// What the others deploy; another version replaces each object that is held.
fn loud_files(version: &str) -> Vec<(String, String)> {
    let mut files = vec![("values/all.yaml".to_owned(), format!("{{}}{}", "\n0".repeat(250_000)))];
    for number in 0..LOUD {
        let held = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": format!("held-{number}"),
                "finalizers": ["example.com/hold"],
                "annotations": {"argocd.argoproj.io/sync-options": "Force=true,Replace=true"},
            },
            "data": {"version": version},
        });
        files.push((format!("held-{number}/all.yaml"), held.to_string()));
        let plain = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("far-{number}")},
        });
        files.push((format!("far-{number}/all.yaml"), plain.to_string()));
        files.push((
            format!("notified-{number}/all.yaml"),
            plain.to_string().replace("far-", "notified-"),
        ));
    }
    files
}

fn application(site: &Site, name: &str, project: &str, more: Value) -> Value {
    let mut app = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
        "metadata": {"name": name, "labels": {"tenant": project}},
        "spec": {
            "project": project,
            "source": {"repoURL": site.repository.url(), "targetRevision": "HEAD", "path": name},
            "destination": {"server": IN_CLUSTER, "namespace": site.target},
            "syncPolicy": {"automated": {"prune": true}},
        },
    });
    for (field, value) in more.as_object().into_iter().flatten() {
        app["spec"][field] = value.clone();
    }
    app
}

async fn create_project(site: &Site, name: &str) {
    site.create("appprojects", &permissive_project(name, &site.namespace)).await;
}

/// Pushes the revisions from a number on; how long each took until all quiet tenants had it.
async fn revisions(site: &Site, run: &mut Process, first: u64, held: &str) -> Vec<Duration> {
    let mut times = Vec::new();
    for number in first..first + REVISIONS {
        let mut files = quiet_files(number);
        files.extend(loud_files(held));
        times.push(deployed(site, run, number, &files).await);
    }
    times
}

/// Commits the files unless it is the first commit, reports that as a webhook would, and waits until
/// the quiet tenants have deployed them.
async fn deployed(
    site: &Site,
    run: &mut Process,
    number: u64,
    files: &[(String, String)],
) -> Duration {
    let start = Instant::now();
    if number > 0 {
        site.repository.commit(&number.to_string(), files);
        let quiet = (0..QUIET).flat_map(|tenant| (0..EACH).map(move |one| name(tenant, one)));
        for name in quiet {
            let path = format!("{}/{name}", site.path("applications"));
            let asked = json!({"metadata": {"annotations": {REFRESH: "normal"}}});
            site.merge(&path, &asked).await.expect("a comparison is asked for");
        }
    }
    let path = format!("/api/v1/namespaces/{}/configmaps?resourceVersion=0", site.target);
    loop {
        let list = site.get(&path).await;
        let has_it = |object: &&Value| object["data"]["commit"] == *number.to_string();
        let all = list["items"].as_array().into_iter().flatten();
        let count = all.filter(has_it).count();
        if count == QUIET * EACH {
            break;
        }
        let lines = if start.elapsed() > LIMIT { run.last_lines() } else { String::new() };
        assert!(start.elapsed() < LIMIT, "{count} have revision {number}\n{lines}");
        tokio::time::sleep(POLL).await;
    }
    let took = start.elapsed();
    nothing_is_lost(site).await;
    took
}

/// Each quiet Application has its four objects.
async fn nothing_is_lost(site: &Site) {
    let core = format!("/api/v1/namespaces/{}", site.target);
    let of_group =
        |group: &str, plural: &str| format!("/apis/{group}/namespaces/{}/{plural}", site.target);
    let paths = [
        format!("{core}/configmaps"),
        format!("{core}/secrets"),
        of_group("rbac.authorization.k8s.io/v1", "roles"),
        of_group("networking.k8s.io/v1", "networkpolicies"),
    ];
    for path in paths {
        let start = Instant::now();
        loop {
            let list = site.get(&path).await;
            let names = list["items"].as_array().into_iter().flatten();
            let names = names.filter_map(|object| object["metadata"]["name"].as_str());
            let count = names.filter(|name| name.starts_with("quiet-")).count();
            if count == QUIET * EACH {
                break;
            }
            assert!(start.elapsed() < LIMIT, "{path}: {count} are left");
            tokio::time::sleep(POLL).await;
        }
    }
}

/// The five others begin, and are at it when this returns.
async fn loud(site: &Site, run: &mut Process, silent: u16, slow: u16) {
    for name in ["dripping", "quadratic", "hanging", "held", "notified"] {
        create_project(site, name).await;
    }
    let create = async |name: String, project: &str, more: Value| {
        site.create("applications", &application(site, &name, project, more)).await;
    };
    let secret = |name: &str, kind: &str, data: Value| {
        json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": name, "labels": {"argocd.argoproj.io/secret-type": kind}},
            "stringData": data,
        })
    };
    let cluster = json!({
        "name": "hanging", "server": format!("http://127.0.0.1:{silent}"), "config": "{}",
    });
    let secrets = format!("/api/v1/namespaces/{}/secrets", site.namespace);
    let cluster = secret("hanging", "cluster", cluster);
    send(&site.client, Method::POST, &secrets, JSON, &cluster).await.expect("it is created");
    for number in 0..LOUD {
        create(format!("held-{number}"), "held", json!({"syncPolicy": {}})).await;
        // Each by a name of its own.
        let host = format!("127.0.0.{}:{slow}", 1 + number % 5);
        let source = json!({
            "repoURL": format!("http://{host}/{number}"), "chart": "chart", "targetRevision": "1.0.0",
        });
        create(format!("dripping-{number}"), "dripping", json!({"source": source})).await;
        let path = json!({
            "repoURL": site.repository.url(), "targetRevision": "HEAD", "path": "values",
        });
        create(format!("quadratic-{number}"), "quadratic", json!({"source": path})).await;
        let far = json!({"name": "hanging", "namespace": "default"});
        create(format!("far-{number}"), "hanging", json!({"destination": far})).await;
    }
    let sinks: Vec<Value> = (0..10)
        .map(|number| {
            let url = format!("http://127.0.0.1:{silent}/{number}");
            json!({"url": url})
        })
        .collect();
    let policy = json!({
        "apiVersion": "wavegate.dev/v1alpha1", "kind": "RolloutPolicy",
        "metadata": {"name": "notified"},
        "spec": {"applicationSets": {"names": ["notified"]}, "notify": sinks},
    });
    let policies =
        format!("/apis/wavegate.dev/v1alpha1/namespaces/{}/rolloutpolicies", site.namespace);
    send(&site.client, Method::POST, &policies, JSON, &policy).await.expect("it is created");
    site.create("applicationsets", &notified(site)).await;
    until_held(site, run).await;
}

/// A set whose transitions are sent to receivers that never answer.
fn notified(site: &Site) -> Value {
    let elements: Vec<Value> = (0..LOUD).map(|number| json!({"n": number.to_string()})).collect();
    let mut template = application(site, "notified-{{.n}}", "notified", json!({"syncPolicy": {}}));
    template
        .as_object_mut()
        .expect("an object")
        .retain(|key, _| key == "metadata" || key == "spec");
    let step =
        json!({"matchExpressions": [{"key": "tenant", "operator": "In", "values": ["notified"]}]});
    json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet",
        "metadata": {"name": "notified"},
        "spec": {
            "goTemplate": true,
            "generators": [{"list": {"elements": elements}}],
            "strategy": {"type": "RollingSync", "rollingSync": {"steps": [step]}},
            "template": template,
        },
    })
}

/// Waits until the objects with foreign finalizers exist, and asks for their replacement again and
/// again.
async fn until_held(site: &Site, run: &mut Process) {
    let path = format!("/api/v1/namespaces/{}/configmaps", site.target);
    let start = Instant::now();
    let retry = json!({
        "limit": -1, "backoff": {"duration": "1s", "factor": 1, "maxDuration": "1s"},
    });
    let operation = json!({"operation": {"sync": {}, "retry": retry}});
    let ask = async || {
        for number in 0..LOUD {
            let app = format!("{}/held-{number}", site.path("applications"));
            site.merge(&app, &operation).await.expect("a sync is asked for");
        }
    };
    ask().await;
    loop {
        let list = site.get(&path).await;
        let is_held = |object: &&Value| {
            object["metadata"]["name"].as_str().is_some_and(|name| name.starts_with("held-"))
        };
        let held = list["items"].as_array().into_iter().flatten().filter(is_held).count();
        if held == LOUD {
            break;
        }
        assert!(start.elapsed() < LIMIT, "{held} are held\n{}", run.last_lines());
        tokio::time::sleep(POLL).await;
    }
    ask().await;
}

/// How a stranger answers.
#[derive(Clone, Copy)]
enum Answer {
    Nothing,
    /// A byte a second.
    Drip,
}

/// A server on all loopback addresses; its port.
async fn listen(answer: Answer) -> u16 {
    let listener = TcpListener::bind("0.0.0.0:0").await.expect("a port is free");
    let port = listener.local_addr().expect("the port is known").port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, answer));
        }
    });
    port
}

async fn serve(mut stream: TcpStream, answer: Answer) {
    let mut request = [0; 4096];
    let _ = stream.read(&mut request).await;
    if let Answer::Drip = answer {
        let head = "HTTP/1.1 200 OK\r\ncontent-length: 100000\r\ncontent-type: text/yaml\r\n\r\n";
        let _ = stream.write_all(head.as_bytes()).await;
        while stream.write_all(b"#").await.is_ok() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }
    // Until the other side gives up.
    while stream.read(&mut request).await.is_ok_and(|count| count > 0) {}
}
