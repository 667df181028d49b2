//! From "the last Application of a batch is Healthy" to "the operations of the
//! next batch are written", as a watch sees both, beside one bare write of the
//! same status.

use std::path::Path;
use std::time::{Duration, Instant};

use http::Method;
use serde_json::{Value, json};

use crate::fleet::{self, Step, even};
use crate::process::Process;
use crate::site::{Cluster, Site};
use crate::stand_in::{Seen, StandIn};
use crate::support::cluster::{JSON, send};
use crate::table::Table;

const LIMIT: Duration = Duration::from_secs(1800);
/// Bare writes that are measured.
const WRITES: usize = 100;

pub async fn measure(
    table: &mut Table,
    binary: &Path,
    cluster: &Cluster,
    applications: usize,
    per_step: usize,
) {
    let case =
        format!("next batch, {applications} Applications in steps of {per_step}, real API server");
    let site = Site::real(cluster).await;
    // The first step holds the rollout back until all Applications are compared
    // with the new revision: that is no part of what is measured.
    let gate = Step { applications: 1, max_update: Value::Null };
    let steps: Vec<Step> =
        std::iter::once(gate).chain(even(applications, applications.div_ceil(per_step))).collect();
    let all = applications + 1;
    let (first, second) = (format!("{:040x}", 1), format!("{:040x}", 2));
    let argo = StandIn::start(&site, &first).await;
    let mut run = site.run(binary, "external");
    site.create(
        "applicationsets",
        &fleet::set(&steps, "https://git.example.com/fleet", &site.target),
    )
    .await;
    assert!(
        argo.until(LIMIT, |seen| seen.done.len() == all).await,
        "the first rollout does not end\n{}",
        run.last_lines()
    );
    run.until_at_rest(Duration::from_secs(60)).await;

    argo.commit(&second, Some(fleet::name(0)));
    assert!(
        argo.until(LIMIT, |seen| seen.out_of_sync.len() == all).await,
        "not all are compared\n{}",
        run.last_lines()
    );
    run.until_at_rest(Duration::from_secs(60)).await;
    let used = run.cpu();
    argo.release();
    assert!(
        argo.until(LIMIT, |seen| seen.done.len() == all).await,
        "the rollout does not end\n{}",
        run.last_lines()
    );
    let cpu = (run.cpu() - used).0;
    let (mut to_first, mut to_last) = argo.read(|seen| waits(seen, &steps));
    let mut writes = bare_writes(&site, &mut run).await;
    let bare = at(&mut writes, 0.5);
    let (p50, p99) = (at(&mut to_last, 0.5), at(&mut to_last, 0.99));
    table.add(&case, "batches", "", to_last.len() as f64, None);
    table.add(&case, "to the last operation, p50", "ms", p50, None);
    table.add(&case, "to the last operation, p99", "ms", p99, Some(100.0));
    table.add(&case, "to the first operation, p50", "ms", at(&mut to_first, 0.5), None);
    table.add(&case, "to the first operation, p99", "ms", at(&mut to_first, 0.99), None);
    table.add(&case, "a bare write of the set's status, p50", "ms", bare, None);
    table.add(&case, "a bare write of the set's status, p99", "ms", at(&mut writes, 0.99), None);
    table.add(
        &case,
        "to the last operation, p99, times a bare write's p50",
        "×",
        p99 / bare,
        Some(3.0),
    );
    table.add(&case, "CPU of the program by batch", "ms", cpu * 1e3 / to_last.len() as f64, None);
}

/// For each step behind the first two: from the last Application of the step
/// before being done to the first and to the last operation of this one.
fn waits(seen: &Seen, steps: &[Step]) -> (Vec<Duration>, Vec<Duration>) {
    let mut first_of = 0;
    let mut ranges = Vec::new();
    for step in steps {
        ranges.push(first_of..first_of + step.applications);
        first_of += step.applications;
    }
    let (mut to_first, mut to_last) = (Vec::new(), Vec::new());
    for pair in ranges[1..].windows(2) {
        let done = pair[0].clone().map(|number| seen.done[&fleet::name(number)]).max();
        let requested = || pair[1].clone().map(|number| seen.requested[&fleet::name(number)]);
        let since = |at: Option<Instant>| Some(at?.saturating_duration_since(done?));
        to_first.extend(since(requested().min()));
        to_last.extend(since(requested().max()));
    }
    (to_first, to_last)
}

/// How long a write of one entry takes in a status as large as the set's, which
/// no controller handles.
async fn bare_writes(site: &Site, run: &mut Process) -> Vec<Duration> {
    run.until_at_rest(Duration::from_secs(60)).await;
    let set = site.get(&format!("{}/fleet", site.path("applicationsets"))).await;
    let path = format!("/apis/argoproj.io/v1alpha1/namespaces/{}/applicationsets", site.target);
    let copy = json!({
        "apiVersion": set["apiVersion"], "kind": set["kind"],
        "metadata": { "name": "fleet" }, "spec": set["spec"],
    });
    send(&site.client, Method::POST, &path, JSON, &copy).await.expect("the copy is created");
    let status = format!("{path}/fleet/status");
    site.merge(&status, &json!({ "status": set["status"] })).await.expect("the status is written");
    let mut writes = Vec::new();
    for number in 0..WRITES {
        let patch = json!([{ "op": "add", "path": "/status/applicationStatus/0/message", "value": format!("write {number}") }]);
        let start = Instant::now();
        let written =
            send(&site.client, Method::PATCH, &status, "application/json-patch+json", &patch).await;
        written.expect("the status is written");
        writes.push(start.elapsed());
    }
    writes
}

/// Milliseconds, at a share of all.
fn at(times: &mut [Duration], share: f64) -> f64 {
    times.sort_unstable();
    let last = times.len().saturating_sub(1) as f64;
    times.get((last * share).round() as usize).map_or(0.0, |time| time.as_secs_f64() * 1e3)
}
