//! Whole rollouts in `wavegate demo`: embedded server, both controllers and
//! simulated workloads in one process.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::json;

use crate::fleet::{self, Step, even};
use crate::process::{Ran, run_to_end};
use crate::support::repository::Repository;
use crate::table::Table;

/// What a rollout may take before it counts as stuck; by Application, besides
/// a minute.
const LIMIT: Duration = Duration::from_secs(2);

/// 100, 1,000 and 10,000 Applications in ten steps; small steps; `maxUpdate` 1.
pub fn measure(table: &mut Table, binary: &Path, applications: usize) {
    let case = "rollout in the demo, 4 objects for each Application";
    let small = rollout(table, case, binary, &even(applications / 10, 10), "10 steps");
    let middle = rollout(table, case, binary, &even(applications, 10), "10 steps");
    table.add(
        case,
        &format!("resident size, {applications} Applications"),
        "MiB",
        middle.resident.now,
        Some(400.0),
    );
    table.add(
        case,
        &format!("resident size at its highest, {applications} Applications"),
        "MiB",
        middle.resident.peak,
        None,
    );
    let by_application = |ran: &Ran, count: usize| ran.cpu.0 / count as f64;
    let first = by_application(&small, applications / 10);
    let growth = by_application(&middle, applications) / first;
    table.add(
        case,
        &format!("CPU by Application, times that of {}", applications / 10),
        "×",
        growth,
        Some(1.15),
    );
    let threes =
        rollout(table, case, binary, &even(applications, (applications / 3).max(1)), "steps of 3");
    let growth = by_application(&threes, applications) / by_application(&middle, applications);
    table.add(
        case,
        "CPU by Application in steps of 3, times that of 10 steps",
        "×",
        growth,
        Some(1.15),
    );
    let one_by_one = [Step { applications: (applications / 20).max(1), max_update: json!(1) }];
    rollout(table, case, binary, &one_by_one, "1 step, maxUpdate 1");
}

/// Ten times as many.
pub fn measure_large(table: &mut Table, binary: &Path, applications: usize) {
    let case = "rollout in the demo, 4 objects for each Application";
    let large = rollout(table, case, binary, &even(applications, 10), "10 steps");
    table.add(
        case,
        &format!("resident size, {applications} Applications"),
        "MiB",
        large.resident.now,
        None,
    );
}

fn rollout(table: &mut Table, case: &str, binary: &Path, steps: &[Step], kind: &str) -> Ran {
    let applications: usize = steps.iter().map(|step| step.applications).sum();
    let dir = tempfile::tempdir().expect("a folder can be made");
    let repository = Repository::new(dir.path().join("repository"));
    repository.commit("first", &fleet::files(applications, fleet::running));
    let file = dir.path().join("set.json");
    let mut set = fleet::set(steps, &repository.url(), "default");
    set["metadata"]["namespace"] = "argocd".into();
    std::fs::write(&file, set.to_string()).expect("the folder is writable");
    let mut command = Command::new(binary);
    command.args(["demo", "--plain", "-f"]).arg(&file);
    let log = dir.path().join("demo.log");
    let limit = Duration::from_secs(60) + LIMIT * u32::try_from(applications).unwrap_or(u32::MAX);
    let ran = run_to_end(&mut command, &log, limit);
    let what = format!("{applications} Applications, {kind}");
    if !ran.success {
        let log = std::fs::read_to_string(&log).unwrap_or_default();
        let last: Vec<&str> = log.lines().rev().take(8).collect();
        eprintln!("  {what}: NOT complete after {:?}:\n{}", ran.wall, last.join("\n"));
    }
    table.add(
        case,
        &format!("completed: {what}"),
        "yes = 1",
        f64::from(u8::from(ran.success)),
        None,
    );
    table.add(
        case,
        &format!("CPU by Application: {what}"),
        "ms",
        ran.cpu.0 * 1e3 / applications as f64,
        None,
    );
    table.add(case, &format!("wall time: {what}"), "s", ran.wall.as_secs_f64(), None);
    ran
}
