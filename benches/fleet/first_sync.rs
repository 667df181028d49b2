//! A first sync of all Applications on a real API server, beside a bare client
//! that creates the same objects; the requests of both, and the resident size.

use std::path::Path;
use std::time::{Duration, Instant};

use futures::StreamExt;
use http::Method;
use serde_json::{Value, json};

use crate::fleet::{self, even};
use crate::process::{Cpu, cpu_of_self};
use crate::site::{Cluster, Requests, Site, since};
use crate::support::cluster::{JSON, send};
use crate::support::invariants::is_done;
use crate::table::Table;

/// Applications that the program works on at once, by default.
const PARALLEL: usize = 20;
const LIMIT: Duration = Duration::from_secs(1800);

/// Who requests the syncs.
#[derive(Clone, Copy)]
pub enum Requester {
    /// A RollingSync of one step.
    Rollout,
    /// Nobody: the Applications have automated syncs, and the set has no strategy.
    Automated,
}

impl Requester {
    fn set(self, applications: usize, site: &Site) -> Value {
        let steps = even(applications, 1);
        let mut set = fleet::set(&steps, &site.repository.url(), &site.target);
        if let Self::Automated = self {
            set["spec"]["strategy"].take();
            set["spec"]["template"]["spec"]["syncPolicy"] = json!({ "automated": {} });
        }
        set
    }

    /// Whether all are there, from the status of the set and, since that may list only some, from
    /// the Applications.
    async fn is_complete(self, site: &Site, applications: usize) -> bool {
        // From the cache of the API server: a read of a large set from etcd costs it as much
        // as several syncs.
        let cached =
            |path: String| async move { site.get(&format!("{path}?resourceVersion=0")).await };
        let set = cached(format!("{}/fleet", site.path("applicationsets"))).await;
        let status = &set["status"];
        match self {
            Self::Rollout => {
                status["rollout"]["progress"] == *format!("{applications}/{applications}")
            }
            Self::Automated => {
                let is_good =
                    |one: &Value| one["status"] == "Synced" && one["health"]["status"] == "Healthy";
                let listed = status["resources"].as_array();
                if !listed.is_some_and(|all| !all.is_empty() && all.iter().all(is_good))
                    || status["resourcesCount"] != applications
                {
                    return false;
                }
                let list = cached(site.path("applications")).await;
                let items = list["items"].as_array().into_iter().flatten();
                let is_synced = |one: &&Value| {
                    let status = &one["status"];
                    status["sync"]["status"] == "Synced"
                        && status["health"]["status"] == "Healthy"
                        && status["operationState"]["phase"] == "Succeeded"
                };
                items.filter(is_synced).count() == applications
            }
        }
    }
}

pub async fn measure(
    table: &mut Table,
    binary: &Path,
    cluster: &Cluster,
    applications: usize,
    requester: Requester,
) {
    let case = match requester {
        Requester::Rollout => format!("first sync of {applications} × 4, real API server"),
        Requester::Automated => {
            format!("first automated sync of {applications} × 4, real API server")
        }
    };
    let site = Site::real(cluster).await;
    let revision = site.repository.commit("first", &fleet::files(applications, fleet::inert));
    let mut run = site.run(binary, "embedded");
    run.until_at_rest(LIMIT).await;
    let (requests, used, server, start) =
        (site.requests().await, run.cpu(), site.server_cpu(), Instant::now());
    site.create("applicationsets", &requester.set(applications, &site)).await;
    until_complete(&site, applications, requester).await;
    let (wall, cpu, server_cpu) = (start.elapsed(), run.cpu() - used, site.server_cpu() - server);
    let at_end = run.resident();
    run.until_at_rest(Duration::from_secs(60)).await;
    let resident = run.resident();
    let requests = since(&requests, &site.requests().await, applications);
    let list = site.get(&site.path("applications")).await;
    let items = list["items"].as_array().expect("a list has items");
    let done = items.iter().filter(|application| is_done(application, &revision)).count();
    assert_eq!(done, applications, "not all Applications are Synced and Healthy");
    let status = items[0]["status"].clone();
    drop(run);

    let bare = bare_client(&Site::real(cluster).await, applications, &status).await;
    table.add(&case, "wall time", "s", wall.as_secs_f64(), None);
    table.add(&case, "wall time of a bare client", "s", bare.wall.as_secs_f64(), None);
    table.add(
        &case,
        "wall time, times a bare client",
        "×",
        wall.as_secs_f64() / bare.wall.as_secs_f64(),
        Some(2.0),
    );
    table.add(&case, "CPU of the program", "s", cpu.0, None);
    table.add(&case, "CPU of the API server and etcd", "s", server_cpu.0, None);
    table.add(
        &case,
        "CPU of both, times a bare client",
        "×",
        (cpu + server_cpu).0 / bare.cpu.0,
        None,
    );
    table.add(&case, "resident size at rest", "MiB", resident.now, Some(120.0));
    table.add(&case, "resident size as the last sync ended", "MiB", at_end.now, None);
    table.add(&case, "resident size at its highest", "MiB", resident.peak, None);
    add_requests(table, &case, &requests);
    let writes = requests.get("patch applicationsets/status").copied().unwrap_or_default();
    table.add(&case, "writes of the set's status", "", writes * applications as f64, None);
}

/// Those that an Application causes, by verb and resource.
fn add_requests(table: &mut Table, case: &str, requests: &Requests) {
    let kinds = ["applications", "events", "configmaps", "secrets", "roles", "networkpolicies"];
    let is_of_application = |key: &str| {
        let (verb, rest) = key.split_once(' ').unwrap_or_default();
        let resource = rest.split([' ', '/']).next().unwrap_or_default();
        // The few that are the same for any number of Applications.
        kinds.contains(&resource) && !matches!(verb, "list" | "watch")
    };
    let mut total = 0.0;
    for (key, count) in requests.iter().filter(|(key, _)| is_of_application(key)) {
        total += count;
        if *count >= 0.005 {
            table.add(case, &format!("requests by Application: {key}"), "", *count, None);
        }
    }
    table.add(case, "requests by Application", "", total, Some(10.0));
}

async fn until_complete(site: &Site, applications: usize, requester: Requester) {
    let deadline = Instant::now() + LIMIT;
    while !requester.is_complete(site, applications).await {
        assert!(Instant::now() < deadline, "not all Applications are synced in time");
        // Often enough for a rollout of seconds, and no load for the server.
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

pub struct Bare {
    pub wall: Duration,
    /// Of the client and the server.
    pub cpu: Cpu,
}

/// Creates each Application and its objects, and patches its status once.
async fn bare_client(site: &Site, applications: usize, status: &Value) -> Bare {
    let set = fleet::set(&even(applications, 1), &site.repository.url(), &site.target);
    let template = &set["spec"]["template"];
    let paths = [
        format!("/api/v1/namespaces/{}/configmaps", site.target),
        format!("/api/v1/namespaces/{}/secrets", site.target),
        format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles", site.target),
        format!("/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies", site.target),
    ];
    let (start, own, server) = (Instant::now(), cpu_of_self(), site.server_cpu());
    let paths = &paths;
    let work = (0..applications).map(|number| async move {
        let name = fleet::name(number);
        let mut spec = template["spec"].clone();
        spec["source"]["path"] = format!("apps/{name}").into();
        let metadata = json!({ "name": name, "labels": { "step": "step-0" } });
        let application = json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": metadata, "spec": spec,
        });
        site.create("applications", &application).await;
        for (path, object) in paths.iter().zip(fleet::inert(&name)) {
            send(&site.client, Method::POST, path, JSON, &object).await.expect("the object is created");
        }
        let path = format!("{}/{name}", site.path("applications"));
        site.merge(&path, &json!({ "status": status })).await.expect("the status is written");
    });
    futures::stream::iter(work).buffer_unordered(PARALLEL).collect::<()>().await;
    Bare { wall: start.elapsed(), cpu: (cpu_of_self() - own) + (site.server_cpu() - server) }
}
