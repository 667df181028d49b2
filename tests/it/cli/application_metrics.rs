//! Metrics of Applications, clusters, repositories and work queues (SE-546 to SE-554), and the
//! log with the keys of Argo CD (SE-575).

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};

use super::arguments::Running;
use super::embedded::Cluster;
use super::metrics::{Series, scrape};
use super::*;
use crate::support::manifests::IN_CLUSTER;
use crate::support::repository::Repository;

fn map(name: &str) -> (String, String) {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    (format!("app/{name}.json"), object.to_string())
}

/// The series whose name begins so and has all of these labels.
fn found(series: &Series, name: &str, labels: &[String]) -> Option<f64> {
    let start = format!("{name}{{");
    let is_it = |series: &&String| {
        series.starts_with(&start) && labels.iter().all(|label| series.contains(label.as_str()))
    };
    series.keys().find(is_it).map(|name| series[name])
}

fn labels(labels: &[(&str, &str)]) -> Vec<String> {
    labels.iter().map(|(name, value)| format!("{name}=\"{value}\"")).collect()
}

/// Waits until a condition holds for the series.
async fn until(addr: &str, running: &Running, what: &str, is: impl Fn(&Series) -> bool) -> Series {
    let end = Instant::now() + WAIT;
    loop {
        let series = scrape(addr).await.unwrap_or_default();
        if is(&series) {
            return series;
        }
        assert!(Instant::now() < end, "not {what}: {series:#?}\n{}", running.log());
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
}

/// SE-545, SE-546, SE-547, SE-548, SE-549, SE-550, SE-551, SE-552, SE-553, SE-554.
#[tokio::test(flavor = "multi_thread")]
async fn what_applications_do_is_counted_se_546_to_se_554() {
    let cluster = Cluster::start().await;
    cluster.permits("web").await;
    let files = tempfile::tempdir().unwrap();
    let repository = Repository::new(files.path().join("repository"));
    repository.commit("first", &[map("one"), map("two")]);
    let mut application = json!({
        "metadata": {"name": "app", "labels": {"team": "blue", "example.com/cost": "x"}},
        "spec": {
            "project": "default",
            "source": {"repoURL": repository.url(), "path": "app", "targetRevision": "HEAD"},
            "destination": {"name": "in-cluster", "namespace": "web"},
            "syncPolicy": {"automated": {}},
        },
    });
    cluster.create("Application", application.clone()).await;
    application["metadata"]["name"] = "broken".into();
    application["spec"]["source"]["path"] = "nowhere".into();
    cluster.create("Application", application).await;
    let addr = unused_address();
    let metrics_addr = format!("--metrics-addr={addr}");
    let args = [
        metrics_addr.as_str(),
        "--probe-addr=",
        "--webhook-addr=",
        "--allow-local-sources",
        "--repo-error-grace-period-seconds=0",
        "--metrics-application-labels=team,example.com/cost",
        "--metrics-application-conditions=ComparisonError,SyncError,OrphanedResourceWarning",
    ];
    let running = Running::start(&cluster, &args, &[]);
    let app = labels(&[("namespace", "argocd"), ("name", "app"), ("project", "default")]);
    let with = |more: &[(&str, &str)]| [app.clone(), labels(more)].concat();
    let synced = with(&[("dest_server", IN_CLUSTER), ("phase", "Succeeded"), ("dry_run", "false")]);
    // What is counted by watches, queues and the ends of reconciles may be later than the sync.
    let own = labels(&[("server", IN_CLUSTER)]);
    let events = labels(&[("server", IN_CLUSTER), ("group", ""), ("kind", "ConfigMap")]);
    let broken = labels(&[("name", "broken"), ("condition", "ComparisonError")]);
    let queue = labels(&[("name", "app_reconciliation_queue")]);
    let to = labels(&[("namespace", "argocd"), ("dest_server", IN_CLUSTER)]);
    let fetches = labels(&[("request_type", "fetch")]);
    let (any, named_app) = (labels(&[]), labels(&[("name", "app")]));
    let least = [
        ("argocd_cluster_cache_age_seconds", &any, 0.0),
        ("argocd_app_sync_duration_seconds_total", &app, 0.0),
        ("argocd_app_orphaned_resources_count", &named_app, 0.0),
        ("argocd_app_info", &app, 1.0),
        ("argocd_app_labels", &app, 1.0),
        ("argocd_app_condition", &broken, 1.0),
        ("argocd_app_reconcile_count", &to, 1.0),
        ("argocd_cluster_api_resources", &own, 1.0),
        ("argocd_cluster_api_resource_objects", &own, 2.0),
        ("argocd_cluster_connection_status", &own, 1.0),
        ("argocd_cluster_events_total", &events, 2.0),
        ("argocd_git_request_total", &fetches, 1.0),
        ("workqueue_adds_total", &queue, 2.0),
        ("workqueue_work_duration_seconds_count", &queue, 2.0),
    ];
    let series = until(&addr, &running, "synced", |series| {
        found(series, "argocd_app_sync_total", &synced) == Some(1.0)
            && least.iter().all(|(name, of, least)| {
                found(series, name, of.as_slice()).is_some_and(|value| value >= *least)
            })
    })
    .await;
    let has = |name: &str, labels: &[String]| {
        found(&series, name, labels)
            .unwrap_or_else(|| panic!("no {name} with {labels:?} in {series:#?}"))
    };
    has("argocd_app_sync_duration_seconds_total", &with(&[("dest_server", IN_CLUSTER)]));
    assert!(has("argocd_app_reconcile_count", &to) >= 1.0, "SE-548");
    let bounds: Vec<String> = ["0.25", "0.5", "1.0", "2.0", "4.0", "8.0", "16.0", "+Inf"]
        .map(|bound| format!("le=\"{bound}\""))
        .into();
    for bound in bounds {
        has("argocd_app_reconcile_bucket", &[to.clone(), vec![bound]].concat());
    }
    let created = with(&[
        ("server", IN_CLUSTER),
        ("response_code", "201"),
        ("verb", "Create"),
        ("resource_kind", "configmaps"),
        ("resource_namespace", "web"),
        ("dry_run", "false"),
    ]);
    assert_eq!(has("argocd_app_k8s_request_total", &created), 2.0, "SE-549");
    let shown = with(&[("label_team", "blue"), ("label_example_com_cost", "x")]);
    assert_eq!(has("argocd_app_labels", &shown), 1.0, "SE-550");
    assert_eq!(has("argocd_app_condition", &broken), 1.0, "SE-550");
    assert_eq!(found(&series, "argocd_app_condition", &with(&[])), None, "SE-550");
    let info = with(&[("dest_server", IN_CLUSTER)]);
    assert_eq!(has("argocd_app_info", &info), 1.0, "SE-545: of a cluster that is named");

    // SE-552.
    let named = labels(&[("server", IN_CLUSTER), ("name", "in-cluster")]);
    assert_eq!(has("argocd_cluster_info", &named), 1.0);
    assert!(!series.keys().any(|name| name.contains("k8s_version=\"\"")), "SE-552: {series:#?}");
    assert!(has("argocd_cluster_api_resources", &own) >= 1.0);
    assert!(has("argocd_cluster_api_resource_objects", &own) >= 2.0);
    assert_eq!(has("argocd_cluster_connection_status", &own), 1.0);
    assert!(has("argocd_cluster_events_total", &events) >= 2.0);
    // SE-553.
    assert_eq!(has("argocd_kubectl_exec_total", &labels(&[("command", "apply")])), 2.0);
    assert_eq!(has("argocd_kubectl_exec_pending", &labels(&[("command", "apply")])), 0.0);
    for kind in ["ls-remote", "fetch"] {
        let of = labels(&[("request_type", kind)]);
        let count = has("argocd_git_request_total", &of);
        assert!(count >= 1.0);
        assert_eq!(has("argocd_git_request_duration_seconds_count", &of), count);
        // Without it, no quantile can be computed.
        let all = [of, labels(&[("le", "+Inf")])].concat();
        assert_eq!(has("argocd_git_request_duration_seconds_bucket", &all), count);
    }
    // SE-554.
    for (name, queue) in
        [("app_reconciliation_queue", "application"), ("applicationset", "applicationset")]
    {
        let of = labels(&[("name", name)]);
        for metric in [
            "workqueue_depth",
            "workqueue_adds_total",
            "workqueue_retries_total",
            "workqueue_queue_duration_seconds_count",
            "workqueue_work_duration_seconds_count",
            "workqueue_unfinished_work_seconds",
            "workqueue_longest_running_processor_seconds",
        ] {
            has(metric, &of);
        }
        let of = labels(&[("controller", queue)]);
        for metric in [
            "controller_runtime_reconcile_errors_total",
            "controller_runtime_reconcile_time_seconds_count",
            "controller_runtime_active_workers",
        ] {
            has(metric, &of);
        }
        for result in ["success", "requeue_after", "requeue", "error"] {
            let of = labels(&[("controller", queue), ("result", result)]);
            has("controller_runtime_reconcile_total", &of);
        }
    }
    assert!(has("workqueue_adds_total", &queue) >= 2.0);
    assert!(has("workqueue_work_duration_seconds_count", &queue) >= 2.0);

    // SE-551: they are counted with and without a warning.
    let orphaned = labels(&[("name", "app")]);
    assert_eq!(has("argocd_app_orphaned_resources_count", &orphaned), 0.0);
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), "web");
    for name in ["stray", "stray-too"] {
        let map = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
        maps.create(&PostParams::default(), &map).await.unwrap();
    }
    let projects = cluster.api("AppProject");
    for warns in [false, true] {
        let patch = Patch::Merge(json!({"spec": {"orphanedResources": {"warn": warns}}}));
        projects.patch("default", &PatchParams::default(), &patch).await.unwrap();
        until(&addr, &running, "orphans", |series| {
            let count = found(series, "argocd_app_orphaned_resources_count", &orphaned);
            let condition = labels(&[("name", "app"), ("condition", "OrphanedResourceWarning")]);
            let is_told = found(series, "argocd_app_condition", &condition) == Some(1.0);
            count == Some(2.0) && is_told == warns
        })
        .await;
    }

    // All series of what is deleted vanish.
    let applications = cluster.api("Application");
    for name in ["app", "broken"] {
        applications.delete(name, &DeleteParams::default()).await.unwrap();
    }
    until(&addr, &running, "gone", |series| {
        !series.is_empty()
            && found(series, "argocd_app_reconcile_count", &[]).is_none()
            && !series.keys().any(|name| name.contains("name=\"app\""))
    })
    .await;
}

/// An Application with an operation, whose repository does not exist.
fn without_a_repository() -> Value {
    json!({
        "metadata": {"name": "app"},
        "spec": {
            "project": "default",
            "source": {"repoURL": "https://git.invalid/x", "path": "p"},
            "destination": {"server": IN_CLUSTER, "namespace": "web"},
        },
        "operation": {"sync": {}},
    })
}

/// SE-575: lines with the keys that log pipelines of Argo CD read.
#[tokio::test(flavor = "multi_thread")]
async fn the_log_has_the_keys_of_argo_cd_se_575() {
    let cluster = Cluster::start().await;
    cluster.permits("web").await;
    cluster.create("Application", without_a_repository()).await;
    let args = ["--metrics-addr=", "--probe-addr=", "--webhook-addr=", "--logformat=argocd"];
    let mut running = Running::start(&cluster, &args, &[]);
    let log = running.until_logged("\"app-qualified-name\":\"argocd/app\"").await;
    let lines: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
        .collect();
    assert!(!lines.is_empty());
    for line in &lines {
        assert!(line["time"].is_string() && line["msg"].is_string(), "{line}");
        let level = line["level"].as_str().unwrap();
        assert!(["info", "warning", "error", "debug"].contains(&level), "{line}");
        assert!(line["message"].is_null() && line["timestamp"].is_null(), "{line}");
    }
    let about = lines.iter().find(|line| line["app-qualified-name"] == "argocd/app").unwrap();
    assert_eq!((&about["application"], &about["app-namespace"]), (&json!("app"), &json!("argocd")));
    let unknown = cluster.run(&["run", "--namespace=argocd", "--logformat=xml"]).await;
    assert_ne!(unknown.code, 0);
    assert!(unknown.err.contains("\"xml\" is none of text, json, argocd"), "{}", unknown.err);
}

/// SE-565, SE-576, SE-577, SE-578, SE-579, CA-512, CA-513: settings of Argo CD's controller that have no meaning
/// here are named in the log, with the reason.
#[tokio::test(flavor = "multi_thread")]
async fn settings_without_a_meaning_are_named_se_565_se_576_to_se_579() {
    let cluster = Cluster::start().await;
    let variables = [
        "ARGOCD_APPLICATION_CONTROLLER_OPERATION_PROCESSORS",
        "WORKQUEUE_BUCKET_SIZE",
        "WORKQUEUE_BASE_DELAY_NS",
        "ARGOCD_CLUSTER_CACHE_RESYNC_DURATION",
        "ARGOCD_CLUSTER_CACHE_WATCH_RESYNC_DURATION",
        "ARGOCD_CLUSTER_CACHE_LIST_PAGE_SIZE",
        "ARGOCD_CLUSTER_CACHE_LIST_SEMAPHORE",
        "ARGOCD_CLUSTER_SYNC_RETRY_TIMEOUT_DURATION",
        "ARGOCD_CLUSTER_CACHE_BATCH_EVENTS_PROCESSING",
        "ARGOCD_CLUSTER_CACHE_EVENTS_PROCESSING_INTERVAL",
        "ARGOCD_ENABLE_DYNAMIC_CLUSTER_DISTRIBUTION",
        "ARGOCD_CONTROLLER_HEARTBEAT_TIME",
        "ARGOCD_APPLICATION_CONTROLLER_NAME",
    ];
    let environment: Vec<(&str, &str)> = variables.iter().map(|name| (*name, "1")).collect();
    let args = ["--metrics-addr=", "--probe-addr=", "--webhook-addr="];
    let mut running = Running::start(&cluster, &args, &environment);
    for name in variables {
        running.until_logged(&format!("{name} is accepted without effect: ")).await;
    }
}

/// SE-575: format and level of the log by the names of Argo CD's application controller, of the
/// environment before those of the ConfigMap; a flag comes before both.
#[tokio::test(flavor = "multi_thread")]
async fn format_and_level_of_the_log_have_the_names_of_argo_cd_se_575() {
    const FORMAT: &str = "ARGOCD_APPLICATION_CONTROLLER_LOGFORMAT";
    const LEVEL: &str = "ARGOCD_APPLICATION_CONTROLLER_LOGLEVEL";
    let text =
        |level: &str| json!({"controller.log.format": "text", "controller.log.level": level});
    let none: [(&str, &str); 0] = [];
    for (keys, variables, flag, is_text, is_debug) in [
        (json!({}), &none[..], None, false, false),
        (text("debug"), &none, None, true, true),
        (text("info"), &none, None, true, false),
        (json!({}), &[(FORMAT, "text"), (LEVEL, "debug")], None, true, true),
        (text("info"), &[(FORMAT, "json"), (LEVEL, "debug")], None, false, true),
        (text("info"), &[(LEVEL, "debug")], Some("--logformat=json"), false, true),
        (text("debug"), &[(FORMAT, "json")], Some("--loglevel=info"), false, false),
    ] {
        let of = format!("{keys} {variables:?} {flag:?}");
        let cluster = Cluster::start().await;
        cluster.permits("web").await;
        cluster.sets(keys).await;
        let args = ["--metrics-addr=", "--probe-addr=", "--webhook-addr="];
        let args: Vec<&str> = args.into_iter().chain(flag).collect();
        let mut running = Running::start(&cluster, &args, variables);
        cluster.create("Application", without_a_repository()).await;
        let applications = cluster.api("Application");
        crate::support::waiting::until("the Application has a status", async || {
            !applications.get("app").await.unwrap().data["status"].is_null()
        })
        .await;
        let log = match is_debug {
            true => running.until_logged("DEBUG").await,
            false => running.log(),
        };
        assert_eq!(log.contains("DEBUG"), is_debug, "{of}: {log}");
        assert!(log.contains("INFO"), "{of}: {log}");
        let is_json = |line: &str| serde_json::from_str::<Value>(line).is_ok();
        assert!(log.lines().all(|line| is_json(line) != is_text), "{of}: {log}");
    }
}
