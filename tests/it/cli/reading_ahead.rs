//! What a set writes is read from its repository while the set stores its decision (SE-376).

use std::time::{Duration, Instant};

use kube::api::ListParams;
use kube_sim::{Effect, InjectedFault, RequestRecord};

use super::arguments::Running;
use super::embedded::Cluster;
use super::metrics::{Series, scrape};
use super::*;
use crate::support::repository::Repository;

fn set_of(name: &str, project: &str, repository: &Repository) -> Value {
    let source = json!({"repoURL": repository.url(), "path": "app", "targetRevision": "HEAD"});
    json!({
        "metadata": {"name": name},
        "spec": {
            "goTemplate": true,
            "generators": [{"list": {"elements": [{"n": "a"}, {"n": "b"}]}}],
            "strategy": {"type": "RollingSync", "rollingSync": {"steps": [{}]}},
            "template": {
                "metadata": {"name": format!("{name}-{{{{.n}}}}")},
                "spec": {
                    "project": project,
                    "source": source,
                    "destination": {"name": "in-cluster", "namespace": "web"},
                },
            },
        },
    })
}

/// How often a repository was fetched.
fn fetches_of(series: &Series, repository: &Repository) -> f64 {
    let labels = [format!("repo=\"{}\"", repository.url()), "request_type=\"fetch\"".to_owned()];
    let is_it = |name: &&String| {
        name.starts_with("argocd_git_request_total{")
            && labels.iter().all(|label| name.contains(label.as_str()))
    };
    series.keys().filter(is_it).map(|name| series[name]).sum()
}

/// SE-376.
#[tokio::test(flavor = "multi_thread")]
async fn a_repository_is_read_before_the_applications_are_written_se_376() {
    let cluster = Cluster::start().await;
    cluster.permits("web").await;
    let files = tempfile::tempdir().unwrap();
    let [open, closed] = ["open", "closed"].map(|name| {
        let repository = Repository::new(files.path().join(name));
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        repository.commit("first", &[("app/map.json".to_owned(), map.to_string())]);
        repository
    });
    let elsewhere = json!({
        "sourceRepos": [open.url()],
        "destinations": [{"server": "*", "namespace": "*"}],
    });
    cluster
        .create("AppProject", json!({"metadata": {"name": "elsewhere"}, "spec": elsewhere}))
        .await;
    // No decision is stored, so no Application is created.
    let is_status = |request: &RequestRecord| {
        (&*request.resource, &*request.subresource) == ("applicationsets", "status")
            && request.verb != "get"
    };
    cluster.server.inject(InjectedFault::new(Effect::Hang, is_status).times(usize::MAX));
    cluster.create("ApplicationSet", set_of("closed", "elsewhere", &closed)).await;
    cluster.create("ApplicationSet", set_of("open", "default", &open)).await;
    let addr = unused_address();
    let metrics_addr = format!("--metrics-addr={addr}");
    let args = [metrics_addr.as_str(), "--probe-addr=", "--webhook-addr=", "--allow-local-sources"];
    let running = Running::start(&cluster, &args, &[]);
    let end = Instant::now() + WAIT;
    let series = loop {
        let series = scrape(&addr).await.unwrap_or_default();
        if fetches_of(&series, &open) > 0.0 {
            break series;
        }
        assert!(Instant::now() < end, "it is not read: {series:#?}\n{}", running.log());
        tokio::time::sleep(Duration::from_millis(30)).await;
    };
    assert_eq!(fetches_of(&series, &open), 1.0, "once for both Applications");
    assert_eq!(fetches_of(&series, &closed), 0.0, "the project does not permit it");
    let applications = cluster.api("Application").list(&ListParams::default()).await.unwrap();
    assert!(applications.items.is_empty(), "they are read before they are written");
}
