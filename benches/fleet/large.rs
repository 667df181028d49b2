//! A large fleet beside another sync engine: generating, a rollout, a reconcile
//! with nothing to do, one event, the resident size, the size of the status.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::fleet::{self, even};
use crate::process::{Process, run_to_end};
use crate::site::{Cluster, Site};
use crate::stand_in::StandIn;
use crate::table::Table;

/// How often what is short is repeated.
const REPEATS: usize = 20;
const STEPS: usize = 10;
/// A reconcile that takes longer will not end.
const LIMIT: Duration = Duration::from_secs(120);
const REFRESH: &str = "argocd.argoproj.io/application-set-refresh";

/// `wavegate render`: the generators and the template alone.
pub fn render(table: &mut Table, binary: &Path, applications: usize) {
    let dir = tempfile::tempdir().expect("a folder can be made");
    let file = dir.path().join("set.json");
    let set = fleet::set(&even(applications, STEPS), "https://git.example.com/fleet", "default");
    std::fs::write(&file, set.to_string()).expect("the folder is writable");
    let mut command = Command::new(binary);
    command.args(["render", "-o", "json", "-f"]).arg(&file);
    let ran = run_to_end(&mut command, &dir.path().join("render.log"), LIMIT);
    assert!(ran.success, "wavegate render failed");
    let case = format!("{applications} Applications generated");
    table.add(
        &case,
        "CPU of `wavegate render`, reading and printing included",
        "ms",
        ran.cpu.0 * 1e3,
        None,
    );
}

/// A rollout beside the stand-in, on a server of the benchmark's own.
pub async fn measure(
    table: &mut Table,
    binary: &Path,
    applications: usize,
    cluster: Option<&Cluster>,
) {
    let (site, server) = match cluster {
        Some(cluster) => (Site::real(cluster).await, "real API server"),
        None => (Site::embedded().await, "embedded API server"),
    };
    let case = format!("{applications} Applications, external sync engine, {server}");
    let limit = Duration::from_secs(120)
        + Duration::from_millis(180) * u32::try_from(applications).unwrap_or(u32::MAX);
    let argo = StandIn::start(&site, &format!("{:040x}", 1)).await;
    let mut run = site.run(binary, "external");
    run.until_at_rest(LIMIT).await;

    let (used, start) = (run.cpu(), Instant::now());
    let set = fleet::set(&even(applications, STEPS), "https://git.example.com/fleet", &site.target);
    site.create("applicationsets", &set).await;
    assert!(
        argo.until_count(applications, limit).await,
        "{} of {applications} exist\n{}",
        argo.count(),
        run.last_lines()
    );
    table.add(&case, "until all exist", "s", start.elapsed().as_secs_f64(), None);
    table.add(
        &case,
        "CPU until all exist, by Application",
        "ms",
        per(&mut run, used, applications),
        None,
    );

    let complete = argo.until(limit, |seen| seen.done.len() >= applications).await;
    let done = argo.read(|seen| seen.done.len());
    table.add(&case, "rolled out", "Applications", done as f64, None);
    table.add(&case, "until all are rolled out", "s", start.elapsed().as_secs_f64(), None);
    table.add(
        &case,
        "CPU until all are rolled out, by Application",
        "ms",
        per(&mut run, used, applications),
        None,
    );
    run.until_at_rest(Duration::from_secs(30)).await;
    let resident = run.resident();
    table.add(&case, "resident size at rest", "MiB", resident.now, Some(150.0));
    table.add(&case, "resident size at its highest", "MiB", resident.peak, None);
    let set = site.get(&format!("{}/fleet", site.path("applicationsets"))).await;
    let size = set["status"].to_string().len();
    table.add(&case, "status of the set", "KiB", size as f64 / 1024.0, Some(512.0));
    if !complete {
        eprintln!(
            "  the rollout did not end; the last lines of the program:\n{}",
            run.last_lines()
        );
        return;
    }
    idle(table, &case, &site, &mut run).await;
    events(table, &case, &site, &mut run, &argo).await;
}

/// Milliseconds of CPU since, for each of some.
fn per(run: &mut Process, since: crate::process::Cpu, count: usize) -> f64 {
    (run.cpu() - since).0 * 1e3 / count as f64
}

/// Reconciles of the set that find nothing to do but to take back the
/// annotation that asked for them.
async fn idle(table: &mut Table, case: &str, site: &Site, run: &mut Process) {
    let path = format!("{}/fleet", site.path("applicationsets"));
    let (used, mut longest) = (run.cpu(), Duration::ZERO);
    let mut total = Duration::ZERO;
    for _ in 0..REPEATS {
        let start = Instant::now();
        let ask = json!({ "metadata": { "annotations": { REFRESH: "true" } } });
        site.merge(&path, &ask).await.expect("the set can be annotated");
        while is_asked(&site.get(&path).await) {
            assert!(start.elapsed() < LIMIT, "the set is not reconciled\n{}", run.last_lines());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        total += start.elapsed();
        longest = longest.max(start.elapsed());
        run.until_at_rest(LIMIT).await;
    }
    table.add(
        case,
        "CPU of a reconcile with nothing to do",
        "ms",
        per(run, used, REPEATS),
        Some(20.0),
    );
    table.add(case, "time of it, mean", "ms", total.as_secs_f64() * 1e3 / REPEATS as f64, None);
    table.add(case, "time of it, longest", "ms", longest.as_secs_f64() * 1e3, None);
}

fn is_asked(set: &Value) -> bool {
    !set["metadata"]["annotations"][REFRESH].is_null()
}

/// Events of one Application: one that changes nothing, and one that is to be
/// corrected.
async fn events(table: &mut Table, case: &str, site: &Site, run: &mut Process, argo: &StandIn) {
    let name = fleet::name(0);
    let path = format!("{}/{name}", site.path("applications"));
    let used = run.cpu();
    for number in 0..REPEATS {
        let patch =
            json!({ "status": { "reconciledAt": format!("2100-01-01T00:00:{number:02}Z") } });
        site.merge(&path, &patch).await.expect("the Application can be patched");
        run.until_at_rest(LIMIT).await;
    }
    table.add(case, "CPU of an event that changes nothing", "ms", per(run, used, REPEATS), None);

    let (used, mut total) = (run.cpu(), Duration::ZERO);
    for _ in 0..REPEATS {
        let start = Instant::now();
        let patch = json!({ "spec": { "source": { "path": "apps/another" } } });
        site.merge(&path, &patch).await.expect("the Application can be patched");
        let changed = |application: &Value| application["spec"]["source"]["path"] == "apps/another";
        let is_seen = argo.until_application(&name, LIMIT, changed).await;
        let is_mended =
            argo.until_application(&name, LIMIT, |application| !changed(application)).await;
        assert!(is_seen && is_mended, "the spec is not corrected\n{}", run.last_lines());
        total += start.elapsed();
        run.until_at_rest(LIMIT).await;
    }
    table.add(
        case,
        "CPU of a changed Application that is corrected",
        "ms",
        per(run, used, REPEATS),
        None,
    );
    table.add(
        case,
        "from its change to its correction, mean",
        "ms",
        total.as_secs_f64() * 1e3 / REPEATS as f64,
        None,
    );
}
