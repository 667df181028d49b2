//! Log lines of a rollout (AS-613 to AS-615).

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::{Patch, PatchParams};

use super::arguments::Running;
use super::embedded::Cluster;
use super::metrics::compare;
use super::*;
use crate::support::manifests::IN_CLUSTER;

/// The lines of a JSON log with this message.
fn lines(log: &str, message: &str) -> Vec<Value> {
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter(|line| line["message"] == message).collect()
}

fn fleet() -> Value {
    let steps = json!([selects(&["a"], Value::Null), selects(&["b", "c"], json!(1))]);
    let mut fleet: Value = serde_json::from_str(&set(&["a", "b", "c"], steps)).unwrap();
    fleet["spec"]["template"]["spec"]["destination"] =
        json!({"server": IN_CLUSTER, "namespace": "default"});
    fleet["spec"]["template"]["spec"]["syncPolicy"] = json!({"automated": {"prune": true}});
    fleet
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollout_is_logged_with_the_fields_of_as_613_to_615() {
    let cluster = Cluster::start().await;
    cluster.knows("default", "https://1").await;
    let mut running = Running::start(
        &cluster,
        &[
            "--probe-addr=",
            "--metrics-addr=",
            "--webhook-addr=",
            "--sync-engine=external",
            "--enable-progressive-syncs",
            "--loglevel=debug",
            "--max-resources-status-count=2",
        ],
        &[],
    );
    cluster.create("ApplicationSet", fleet()).await;
    for name in ["a", "b", "c"] {
        let new = format!(r#""message":"application status changes","app.name":"{name}""#);
        running.until_logged(&new).await;
    }
    compare(&cluster, "a", "Synced", "Healthy").await;
    compare(&cluster, "b", "OutOfSync", "Missing").await;
    compare(&cluster, "c", "OutOfSync", "Missing").await;
    running.until_logged("Applications are not allowed to sync yet").await;
    running.until_logged("triggering sync").await;

    // A changed spec with a credential: the patch is logged without it.
    let sets = cluster.api("ApplicationSet");
    let source = json!({"repoURL": "https://robot:s3cr3t-w0rd@r"});
    let patch = Patch::Merge(json!({"spec": {"template": {"spec": {"source": source}}}}));
    sets.patch("set", &PatchParams::default(), &patch).await.unwrap();
    let log = running.until_logged("\"message\":\"updated\"").await;

    let one = |message: &str, fields: &[(&str, Value)]| {
        let found = lines(&log, message)
            .into_iter()
            .find(|line| fields.iter().all(|(name, value)| &line[*name] == value));
        found.unwrap_or_else(|| panic!("no {message:?} with {fields:?} in\n{log}"))
    };
    // AS-613
    let automated: Vec<Value> = log
        .lines()
        .filter(|line| line.contains("syncPolicy.automated is disabled by RollingSync"))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(automated.len(), 6, "once for each Application and each of two specs: {log}");
    assert!(automated.iter().all(|line| line["level"] == "WARN"), "{automated:?}");
    let truncated = one(
        "status.resources is truncated; see --max-resources-status-count",
        &[("level", "WARN".into()), ("resources", 3.into()), ("listed", 2.into())],
    );
    assert_eq!(truncated["span"]["applicationset"], "argocd/set");
    // AS-614
    one(
        "generated Applications",
        &[("generator", "spec.generators[0]".into()), ("applications", 3.into())],
    );
    one("Applications of the step", &[("step", 1.into()), ("apps", "a".into())]);
    one("Applications of the step", &[("step", 2.into()), ("apps", "b,c".into())]);
    let change = one(
        "application status changes",
        &[("app.name", "b".into()), ("new_status.status", "Pending".into())],
    );
    for (field, want) in [
        ("level", "INFO"),
        ("app.health", "Missing"),
        ("app.sync", "OutOfSync"),
        ("status.status", "Waiting"),
        ("status.step", "2"),
        ("new_status.step", "2"),
        ("new_status.targetRevisions", "r1"),
        ("cause", "StepOpened"),
    ] {
        assert_eq!(change[field], want, "{field}: {change}");
    }
    for field in ["status.message", "new_status.message"] {
        assert!(change[field].as_str().is_some_and(|text| !text.is_empty()), "{change}");
    }
    assert!(change["status.targetRevisions"].is_string(), "{change}");
    one("triggering sync", &[("app.name", "b".into()), ("step", 2.into()), ("prune", true.into())]);
    one(
        "Applications are not allowed to sync yet",
        &[
            ("step", 2.into()),
            ("in_flight", 1.into()),
            ("allowed", "1".into()),
            ("count", 1.into()),
        ],
    );
    let end = one("end of reconcile", &[("level", "INFO".into())]);
    assert!(end["requeue_after"].is_string() && end["duration"].is_string(), "{end}");
    // AS-615
    let patch =
        one("patching the Application", &[("level", "DEBUG".into()), ("app.name", "a".into())]);
    assert!(patch["patch"].as_str().unwrap().contains("repoURL"), "{patch}");
    assert!(!log.contains("s3cr3t-w0rd"), "AS-615: credentials are removed: {log}");
    for line in log.lines().filter(|line| line.contains("application_set::log")) {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["span"]["applicationset"], "argocd/set", "{line}");
    }

    // What repeats in each reconcile is not logged again at info.
    let steps = lines(&log, "Applications of the step").len();
    assert_eq!(steps, 4, "two steps of two specs: {log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_generation_is_an_error_with_its_generator_as_615() {
    let cluster = Cluster::start().await;
    let mut running =
        Running::start(&cluster, &["--probe-addr=", "--metrics-addr=", "--webhook-addr="], &[]);
    let mut broken: Value = serde_json::from_str(&set(&["a"], json!([{}]))).unwrap();
    broken["spec"]["generators"] = json!([{"list": {"elementsYaml": "- {"}}]);
    cluster.create("ApplicationSet", broken).await;
    let log = running.until_logged("spec.generators[0].list").await;
    let line = log.lines().find(|line| line.contains("spec.generators[0].list")).unwrap();
    let line: Value = serde_json::from_str(line).unwrap();
    assert_eq!(
        (&line["level"], &line["span"]["applicationset"]),
        (&json!("ERROR"), &json!("argocd/set"))
    );
}

/// Each line is a JSON object: texts with quotes and URLs in them, from which credentials are
/// removed, and the error that ends the program.
#[tokio::test(flavor = "multi_thread")]
async fn each_line_is_json_until_the_end() {
    let cluster = Cluster::start().await;
    let mut running = Running::start(
        &cluster,
        &["--probe-addr=", "--metrics-addr=", "--webhook-addr=", "--enable-leader-election"],
        &[],
    );
    let mut odd: Value = serde_json::from_str(&set(&["a"], json!([{}]))).unwrap();
    odd["spec"]["template"]["spec"]["project"] = "see \"http://foo:bar\" of git@h".into();
    cluster.create("ApplicationSet", odd).await;
    running.until_logged("does not exist in namespace").await;
    let leases: Api<Lease> = Api::namespaced(cluster.client.clone(), "argocd");
    let other = Patch::Merge(json!({"spec": {"holderIdentity": "other"}}));
    let name = wavegate_controller::leader::LEASE;
    leases.patch(name, &PatchParams::default(), &other).await.unwrap();
    let log = running.until_logged("the lease was lost: ").await;
    for line in log.lines() {
        let line =
            serde_json::from_str::<Value>(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(line["level"].is_string() && line["message"].is_string(), "{line}");
    }
}

/// Redis is away for one reason and then for another, such as a password that it has since its
/// restart: each of them is logged, once.
#[tokio::test(flavor = "multi_thread")]
async fn each_reason_why_redis_is_away_is_logged() {
    let cluster = Cluster::start().await;
    let redis = unused_address();
    let flag = format!("--redis={redis}");
    let mut running = Running::start(
        &cluster,
        &["--probe-addr=", "--metrics-addr=", "--webhook-addr=", &flag],
        &[],
    );
    running.until_logged("Connection refused").await;
    let listener = std::net::TcpListener::bind(&redis).unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut request = [0; 4096];
            while std::io::Read::read(&mut stream, &mut request).is_ok_and(|read| read > 0) {
                // As many as a client might wait for.
                let refused = "-NOAUTH Authentication required.\r\n".repeat(8);
                if stream.write_all(refused.as_bytes()).is_err() {
                    break;
                }
            }
        }
    });
    let log = running.until_logged("Authentication required").await;
    assert_eq!(log.matches("Connection refused").count(), 1, "{log}");
}

/// A field `message` would be a second one of the line, of which readers keep one.
#[test]
fn no_line_has_two_messages() {
    let call = regex::Regex::new(r"(?s)(?:info|warn|error|debug|trace)!\([^;]*?\);").unwrap();
    let field = regex::Regex::new(r"[(,]\s*[%?]?message\s*(?:,|= )").unwrap();
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders = vec![root.join("src"), root.join("crates")];
    let mut count = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            if path.extension().is_none_or(|extension| extension != "rs") {
                continue;
            }
            let source = std::fs::read_to_string(&path).unwrap();
            for call in call.find_iter(&source).map(|call| call.as_str()) {
                count += 1;
                assert!(!field.is_match(call), "{}: {call}", path.display());
            }
        }
    }
    assert!(count > 100, "{count}");
}
