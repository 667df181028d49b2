//! Metrics of `wavegate run` during a rollout (AS-600 to AS-603).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::core::DynamicObject;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use wavegate_cluster::watch::object::kind_resource;

use super::arguments::Running;
use super::embedded::Cluster;
use super::*;
use crate::support::manifests::IN_CLUSTER;

/// Sends a request, and returns the response with its header; `None` without a server.
pub(super) async fn request(addr: &str, head: &str, body: &[u8]) -> Option<String> {
    let mut stream = TcpStream::connect(addr).await.ok()?;
    let head = format!("{head}\r\nHost: {addr}\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await.ok()?;
    // A server may respond before it has read everything.
    let _ = stream.write_all(body).await;
    let mut response = Vec::new();
    let _ = stream.read_to_end(&mut response).await;
    Some(String::from_utf8_lossy(&response).into_owned())
}

/// The series by name and labels.
pub(super) type Series = BTreeMap<String, f64>;

pub(super) async fn scrape(addr: &str) -> Option<Series> {
    let response = request(addr, "GET /metrics HTTP/1.1", b"").await?;
    // A client that stood still for long was given up.
    if response.is_empty() {
        return None;
    }
    assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
    assert!(response.contains("content-type: application/openmetrics-text"), "{response}");
    let series = response.lines().filter_map(|line| {
        let (name, value) = line.rsplit_once(' ')?;
        Some((name.to_owned(), value.parse().ok()?))
    });
    Some(series.filter(|(name, _)| !name.starts_with('#')).collect())
}

/// Waits until these series have these values; `None` is an absent series.
async fn until(addr: &str, running: &Running, wanted: &[(&str, Option<f64>)]) -> Series {
    let until = Instant::now() + WAIT;
    loop {
        let series = scrape(addr).await.unwrap_or_default();
        let wrong: Vec<_> = wanted
            .iter()
            .filter(|(name, value)| series.is_empty() || series.get(*name).copied() != *value)
            .collect();
        if wrong.is_empty() {
            return series;
        }
        let log = running.log();
        assert!(Instant::now() < until, "not so: {wrong:?} in {series:#?}\n{log}");
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
}

pub(super) async fn compare(cluster: &Cluster, name: &str, sync: &str, health: &str) {
    let api = cluster.api("Application");
    let until = Instant::now() + WAIT;
    let live = loop {
        if let Some(live) = api.get_opt(name).await.unwrap() {
            break live;
        }
        assert!(Instant::now() < until, "{name} is not created");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let spec = &live.data["spec"];
    let compared = json!({"source": spec["source"], "destination": spec["destination"]});
    let status = json!({
        "sync": {"status": sync, "revision": "r1", "comparedTo": compared},
        "health": {"status": health},
        "reconciledAt": "2026-01-02T03:04:05Z",
    });
    let patch = Patch::Merge(json!({ "status": status }));
    api.patch(name, &PatchParams::default(), &patch).await.unwrap();
}

async fn namespace(cluster: &Cluster, name: &str) {
    let namespace = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(cluster.client.clone());
    namespaces.create(&PostParams::default(), &namespace).await.unwrap();
}

fn fleet(labels: Value) -> Value {
    let steps = json!([selects(&["a"], Value::Null), selects(&["b"], Value::Null)]);
    let mut fleet: Value = serde_json::from_str(&set(&["a", "b"], steps)).unwrap();
    fleet["metadata"]["labels"] = labels;
    fleet["spec"]["template"]["spec"]["destination"] =
        json!({"server": IN_CLUSTER, "namespace": "default"});
    fleet
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_follow_a_rollout_as_600_to_603() {
    let cluster = Cluster::start().await;
    cluster.knows("default", "https://1").await;
    namespace(&cluster, "elsewhere").await;
    let addr = unused_address();
    let metrics_addr = format!("--metrics-addr={addr}");
    let running = Running::start(
        &cluster,
        &[
            &metrics_addr,
            "--probe-addr=",
            "--webhook-addr=",
            "--sync-engine=external",
            "--enable-progressive-syncs",
            "--applicationset-namespaces=team-*",
            "--allowed-scm-providers=https://git.example.com",
            "--metrics-applicationset-labels=team,example.com/cost-center",
            "--max-resources-status-count=1",
        ],
        &[],
    );
    let labels = json!({"team": "blue", "example.com/cost-center": "x-1"});
    // ST-085: a sink that is refused without --allow-private-sinks.
    let policy = json!({
        "apiVersion": "wavegate.dev/v1alpha1", "kind": "RolloutPolicy",
        "metadata": {"name": "sinks"}, "spec": {"notify": [{"url": "http://127.0.0.1:9/s3cr3t"}]},
    });
    cluster.create("RolloutPolicy", policy).await;
    cluster.create("ApplicationSet", fleet(labels)).await;
    // AS-601: it is in the cache, and not in an allowed namespace.
    let sets: Api<DynamicObject> =
        Api::namespaced_with(cluster.client.clone(), "elsewhere", &kind_resource("ApplicationSet"));
    let other = serde_json::from_value(fleet(json!({}))).unwrap();
    sets.create(&PostParams::default(), &other).await.unwrap();

    let of = r#"namespace="argocd",name="set""#;
    let info =
        format!(r#"argocd_appset_info{{{of},resource_update_status="ApplicationSetUpToDate"}}"#);
    let owned = format!("argocd_appset_owned_applications{{{of}}}");
    let shown = format!(
        r#"argocd_appset_labels{{{of},label_team="blue",label_example_com_cost_center="x-1"}}"#
    );
    let apps = |step: u8, state: &str| {
        format!(r#"argocd_appset_rollout_apps{{{of},step="{step}",state="{state}"}}"#)
    };
    let open = format!("argocd_appset_rollout_step{{{of}}}");
    let sink = r#"namespace="argocd",name="sinks",sink="0""#;
    until(
        &addr,
        &running,
        &[
            (&info, Some(1.0)),
            // AS-600, W34: the list in the status has one of them.
            (&owned, Some(2.0)),
            (&shown, Some(1.0)),
            (&open, Some(1.0)),
            // ST-085.
            (&format!(r#"wavegate_run_phase{{{of},phase="Progressing"}}"#), Some(1.0)),
            (&format!("wavegate_notifications_sent_total{{{sink}}}"), Some(0.0)),
            (&format!("argocd_appset_rollout_steps{{{of}}}"), Some(2.0)),
            (&apps(1, "Waiting"), Some(1.0)),
            (&apps(2, "Waiting"), Some(1.0)),
            (
                &format!(r#"argocd_appset_rollout_waiting_apps{{{of},reason="Comparison"}}"#),
                Some(1.0),
            ),
        ],
    )
    .await;
    // A reconcile is counted at its end.
    let counted = format!("argocd_appset_reconcile_count{{{of}}}");
    let series = scraped_with(&addr, &running, &counted).await;
    let count = |series: &Series| series.get(&counted).copied();
    assert!(count(&series).unwrap() >= 1.0, "{series:#?}");
    let bucket = format!(r#"argocd_appset_reconcile_bucket{{le="+Inf",{of}}}"#);
    assert_eq!(series.get(&bucket).copied(), count(&series), "{series:#?}");
    let waits = format!(r#"argocd_appset_rollout_waiting_seconds{{{of},reason="Comparison"}}"#);
    assert!(series[&waits] >= 0.0);
    assert!(!series.keys().any(|name| name.contains("elsewhere")), "AS-601: {series:#?}");
    assert!(series.contains_key(&format!("wavegate_notifications_waiting{{{sink}}}")));
    assert!(series.contains_key(r#"workqueue_depth{name="applicationset"}"#), "{series:#?}");
    assert!(series.contains_key(r#"workqueue_retries_total{name="applicationset"}"#));
    assert!(series[r#"rest_client_requests_total{method="POST",code="201"}"#] >= 2.0);

    // The first step completes, and the second one opens.
    compare(&cluster, "a", "Synced", "Healthy").await;
    compare(&cluster, "b", "OutOfSync", "Missing").await;
    let transitions = |from: &str, to: &str, cause: &str| {
        format!(
            r#"argocd_appset_rollout_transitions_total{{from="{from}",to="{to}",cause="{cause}"}}"#
        )
    };
    let first = format!(r#"argocd_appset_rollout_step_duration_seconds_count{{{of},step="1"}}"#);
    let of_argo_cd =
        |name: &str, labels: &str| format!("argocd_appset_progressive_sync_{name}{{{of}{labels}}}");
    until(
        &addr,
        &running,
        &[
            (&open, Some(2.0)),
            (&apps(1, "Healthy"), Some(1.0)),
            (&apps(2, "Pending"), Some(1.0)),
            (&apps(2, "Waiting"), None),
            (&first, Some(1.0)),
            (&of_argo_cd("app_status", r#",step="2",progressiveStatus="Pending""#), Some(1.0)),
            (&of_argo_cd("syncs_triggered_total", r#",step="2""#), Some(1.0)),
            (&of_argo_cd("detection_to_trigger_seconds_count", ""), Some(1.0)),
            (&transitions("", "Waiting", "NewApplication"), Some(2.0)),
            (&transitions("Waiting", "Healthy", "ApplicationHealthy"), Some(1.0)),
            (&transitions("Waiting", "Pending", "StepOpened"), Some(1.0)),
        ],
    )
    .await;
    let attempts =
        format!(r#"wavegate_notification_attempts_failed_total{{{sink},reason="Sink"}}"#);
    let limit = Instant::now() + WAIT;
    loop {
        let series = scrape(&addr).await.unwrap_or_default();
        assert!(!series.keys().any(|name| name.contains("s3cr3t")), "{series:#?}");
        if series.get(&attempts).is_some_and(|attempts| *attempts >= 1.0) {
            break;
        }
        assert!(Instant::now() < limit, "ST-085: {series:#?}\n{}", running.log());
        tokio::time::sleep(Duration::from_millis(30)).await;
    }

    // AS-601, W34: the series of a deleted set vanish, also those of histograms.
    let sets = cluster.api("ApplicationSet");
    sets.delete("set", &DeleteParams::default()).await.unwrap();
    let step_sum = format!(r#"argocd_appset_rollout_step_duration_seconds_sum{{{of},step="1"}}"#);
    let sum = format!("argocd_appset_reconcile_sum{{{of}}}");
    until(&addr, &running, &[(&info, None), (&sum, None), (&step_sum, None)]).await;
    // Those of its run vanish with the run, which is deleted after the set.
    let limit = Instant::now() + WAIT;
    loop {
        let series = scrape(&addr).await.unwrap_or_default();
        if !series.is_empty() && !series.keys().any(|name| name.contains(of)) {
            break;
        }
        assert!(Instant::now() < limit, "AS-601: {series:#?}\n{}", running.log());
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_without_labels_have_no_series_for_them_as_602() {
    let cluster = Cluster::start().await;
    let addr = unused_address();
    let metrics_addr = format!("--metrics-addr={addr}");
    let running =
        Running::start(&cluster, &[&metrics_addr, "--probe-addr=", "--webhook-addr="], &[]);
    cluster.create("ApplicationSet", fleet(json!({"team": "blue"}))).await;
    let owned = r#"argocd_appset_owned_applications{namespace="argocd",name="set"}"#;
    let series = scraped_with(&addr, &running, owned).await;
    assert!(!series.keys().any(|name| name.contains("appset_labels")), "{series:#?}");
    for path in ["/", "/metrics/x"] {
        let missing = request(&addr, &format!("GET {path} HTTP/1.1"), b"").await.unwrap();
        assert!(missing.starts_with("HTTP/1.1 404 "), "{missing}");
    }
    let written = request(&addr, "POST /metrics HTTP/1.1", b"").await.unwrap();
    assert!(written.starts_with("HTTP/1.1 405 "), "{written}");
}

/// Waits until a series exists.
async fn scraped_with(addr: &str, running: &Running, name: &str) -> Series {
    let until = Instant::now() + WAIT;
    loop {
        let series = scrape(addr).await.unwrap_or_default();
        if series.contains_key(name) {
            return series;
        }
        assert!(Instant::now() < until, "no {name} in {series:#?}\n{}", running.log());
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn applications_are_shown_with_their_state_as_se_545() {
    let cluster = Cluster::start().await;
    let application = json!({
        "metadata": {"name": "app"},
        "spec": {
            "project": "default",
            "source": {"repoURL": "https://user:s3cr3t@git.invalid/team/repo", "path": "p"},
            "destination": {"server": format!("{IN_CLUSTER}/"), "namespace": "default"},
            "syncPolicy": {"automated": {}},
        },
    });
    cluster.create("Application", application).await;
    let addr = unused_address();
    let metrics_addr = format!("--metrics-addr={addr}");
    let args = [metrics_addr.as_str(), "--probe-addr=", "--webhook-addr="];
    let running = Running::start(&cluster, &args, &[]);
    let until = Instant::now() + WAIT;
    let info = loop {
        let series = scrape(&addr).await.unwrap_or_default();
        if let Some(name) = series.into_keys().find(|name| name.starts_with("argocd_app_info{")) {
            break name;
        }
        assert!(Instant::now() < until, "SE-545: no argocd_app_info: {}", running.log());
        tokio::time::sleep(Duration::from_millis(30)).await;
    };
    for label in [
        r#"namespace="argocd",name="app",project="default",autosync_enabled="true""#,
        &format!(r#"dest_server="{IN_CLUSTER}",dest_namespace="default""#),
        r#"sync_status="Unknown""#,
        r#"operation="""#,
    ] {
        assert!(info.contains(label), "SE-545: {label} in {info}");
    }
    assert!(!info.contains("s3cr3t"), "{info}");
}
