//! Whole rollouts by steps on a real API server: the first sync, then new revisions that the
//! template names, each until all Applications have deployed it.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::fleet::{self, Step, even};
use crate::process::Cpu;
use crate::site::{Cluster, Requests, Site, since};
use crate::stand_in::{Seen, StandIn};
use crate::table::Table;

const LIMIT: Duration = Duration::from_secs(1800);
const STEPS: usize = 3;
/// New revisions; the table has their mean.
const REVISIONS: usize = 3;

/// What one rollout took.
struct Took {
    wall: Duration,
    cpu: Cpu,
    server_cpu: Cpu,
    /// From the answer to the write of the set until a watch sees the first operation.
    to_first: Duration,
    /// From the last Application of a step being done until the next step begins.
    to_next: Duration,
    requests: Requests,
}

pub async fn measure(table: &mut Table, binary: &Path, cluster: &Cluster, applications: usize) {
    let site = Site::real(cluster).await;
    let steps = even(applications, STEPS);
    let mut run = site.run(binary, "embedded");
    run.until_at_rest(LIMIT).await;
    let mut observer = None;
    for number in 0..=REVISIONS {
        // A field of each Application changes.
        let currency = |(path, text): (String, String)| {
            (path, text.replace("\"EUR\"", &format!("\"EUR-{number}\"")))
        };
        let files: Vec<_> =
            fleet::files(applications, fleet::inert).into_iter().map(currency).collect();
        let revision = site.repository.commit(&format!("revision {number}"), &files);
        if observer.is_none() {
            observer = Some(StandIn::observer(&site, &revision).await);
        }
        let observer = observer.as_ref().expect("it was started");
        observer.commit(&revision, None);
        run.until_at_rest(Duration::from_secs(60)).await;
        let requests = site.requests().await;
        let (cpu, server_cpu) = (run.cpu(), site.server_cpu());
        if number == 0 {
            let mut set = fleet::set(&steps, &site.repository.url(), &site.target);
            set["spec"]["template"]["spec"]["source"]["targetRevision"] = revision.clone().into();
            site.create("applicationsets", &set).await;
        } else {
            let source = json!({ "source": { "targetRevision": revision } });
            let patch = json!({ "spec": { "template": { "spec": source } } });
            let path = format!("{}/fleet", site.path("applicationsets"));
            site.merge(&path, &patch).await.expect("the set is written");
        }
        let start = Instant::now();
        assert!(
            observer.until(LIMIT, |seen| seen.done.len() == applications).await,
            "the rollout does not end\n{}",
            run.last_lines()
        );
        let wall = start.elapsed();
        let (to_first, to_next) = observer.read(|seen| delays(seen, &steps, start));
        run.until_at_rest(Duration::from_secs(60)).await;
        let took = Took {
            wall,
            cpu: run.cpu() - cpu,
            server_cpu: site.server_cpu() - server_cpu,
            to_first,
            to_next,
            requests: since(&requests, &site.requests().await, applications),
        };
        add(table, applications, number, &took);
    }
    let resident = run.resident();
    let case = format!("{applications} × 4 in {STEPS} steps, real API server");
    table.add(&case, "resident size after all", "MiB", resident.now, None);
    table.add(&case, "resident size at its highest", "MiB", resident.peak, None);
}

fn add(table: &mut Table, applications: usize, number: usize, took: &Took) {
    let what = match number {
        0 => "first sync".to_owned(),
        number => format!("revision {number}"),
    };
    let case = format!("{what} of {applications} × 4 in {STEPS} steps, real API server");
    table.add(&case, "wall time", "s", took.wall.as_secs_f64(), None);
    table.add(&case, "CPU of the program", "s", took.cpu.0, None);
    table.add(&case, "CPU by Application", "ms", took.cpu.0 * 1e3 / applications as f64, Some(7.0));
    table.add(&case, "CPU of the API server and etcd", "s", took.server_cpu.0, None);
    table.add(&case, "to the first operation", "ms", millis(took.to_first), Some(300.0));
    table.add(&case, "from a step to the next", "ms", millis(took.to_next), Some(100.0));
    let kinds = ["patch applications", "post events"];
    for kind in kinds {
        let count = took.requests.get(kind).copied().unwrap_or_default();
        table.add(&case, &format!("{kind}, by Application"), "", count, None);
    }
    let set = took.requests.get("patch applicationsets/status").copied().unwrap_or_default();
    table.add(&case, "writes of the set's status", "", set * applications as f64, None);
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// The time to the first operation, and the longest one between two steps.
fn delays(seen: &Seen, steps: &[Step], start: Instant) -> (Duration, Duration) {
    let first = seen.requested.values().min().copied().unwrap_or(start);
    let mut at = 0;
    let mut longest = Duration::ZERO;
    let mut last_done = None;
    for step in steps {
        let names: Vec<String> = (at..at + step.applications).map(fleet::name).collect();
        at += step.applications;
        let begins = names.iter().filter_map(|name| seen.requested.get(name)).min();
        if let (Some(done), Some(begins)) = (last_done, begins) {
            longest = longest.max(begins.saturating_duration_since(done));
        }
        last_done = names.iter().filter_map(|name| seen.done.get(name)).max().copied();
    }
    (first.saturating_duration_since(start), longest)
}
