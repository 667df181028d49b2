//! What a fleet costs: requests, memory, processor time and delays.
//!
//! ```text
//! cargo bench --bench fleet -- [CASE]... [--applications N] [--binary NAME=PATH]...
//! ```
//!
//! Without a case all are measured. Each drives the built program as a process
//! and reads from `/proc` what it used; with several `--binary` each is a column
//! of the table. `docs/performance.md` says what the cases are, and holds the
//! table.

mod demo;
mod first_sync;
mod fleet;
mod generators;
mod large;
mod latency;
mod process;
mod rollout;
mod site;
mod stand_in;
#[path = "../../tests/it/support/mod.rs"]
#[allow(dead_code, unused_imports, reason = "the end-to-end cases use the rest of it")]
#[allow(clippy::unwrap_used, reason = "a measurement that cannot go on has failed")]
mod support;
mod table;
mod tenants;

use std::path::{Path, PathBuf};

use first_sync::Requester;
use site::Cluster;
use table::Table;

/// What can be measured by itself.
const CASES: [(&str, &str); 14] = [
    ("first-sync", "N Applications of 4 objects on a real API server, beside a bare client"),
    ("first-sync-automated", "the same without a strategy, with automated syncs"),
    ("rollout", "N Applications of 4 objects in 3 steps, and three revisions, real API server"),
    ("render", "10 N Applications generated"),
    ("generate-directories", "2 N directories of a local Git repository"),
    ("generate-matrix", "a matrix of 100 x 100"),
    ("generate-merge", "10 N parameter sets merged with as many"),
    ("external", "10 N Applications beside another sync engine, embedded API server"),
    ("external-real", "10 N Applications beside another sync engine, real API server"),
    ("huge", "50 N Applications beside another sync engine, embedded API server"),
    (
        "latency",
        "from the end of a batch to the start of the next, N Applications, real API server",
    ),
    ("tenants", "40 tenants, of which 5 could block the others, real API server"),
    ("demo", "rollouts of N / 10 and N Applications in the demo, and of small batches"),
    ("demo-large", "a rollout of 10 N Applications in the demo"),
];

struct Options {
    cases: Vec<String>,
    applications: usize,
    binaries: Vec<(String, PathBuf)>,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // `cargo bench` says so; `cargo test --benches` only wants to know that it builds.
    if !arguments.iter().any(|argument| argument == "--bench") {
        return;
    }
    let options = match options(&arguments) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("error: {error}");
            std::process::exit(2);
        }
    };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let table = runtime.expect("a runtime can be built").block_on(measure(&options));
    println!("{}", table.print());
}

async fn measure(options: &Options) -> Table {
    let mut table = Table::default();
    let is_wanted =
        |case: &str| options.cases.is_empty() || options.cases.iter().any(|wanted| wanted == case);
    for (name, binary) in &options.binaries {
        table.begin(name);
        for (case, what) in CASES.iter().filter(|(case, _)| is_wanted(case)) {
            eprintln!("{name}: {case}: {what}");
            run(&mut table, case, binary, options.applications).await;
        }
    }
    table
}

async fn run(table: &mut Table, case: &str, binary: &Path, applications: usize) {
    match case {
        "first-sync" => {
            first_sync::measure(table, binary, &Cluster::up(), applications, Requester::Rollout)
                .await;
        }
        "first-sync-automated" => {
            first_sync::measure(table, binary, &Cluster::up(), applications, Requester::Automated)
                .await;
        }
        "rollout" => rollout::measure(table, binary, &Cluster::up(), applications).await,
        "render" => large::render(table, binary, applications * 10),
        "generate-directories" => generators::directories(table, binary, applications * 2),
        "generate-matrix" => generators::matrix(table, binary, 100),
        "generate-merge" => generators::merge(table, binary, applications * 10),
        "external" => large::measure(table, binary, applications * 10, None).await,
        "external-real" => {
            large::measure(table, binary, applications * 10, Some(&Cluster::up())).await
        }
        "huge" => large::measure(table, binary, applications * 50, None).await,
        "latency" => {
            for per_step in [3, 50] {
                latency::measure(table, binary, &Cluster::up(), applications, per_step).await;
            }
        }
        "tenants" => tenants::measure(table, binary, &Cluster::up()).await,
        "demo" => demo::measure(table, binary, applications),
        "demo-large" => demo::measure_large(table, binary, applications * 10),
        _ => unreachable!("cases are checked when the arguments are read"),
    }
}

fn options(arguments: &[String]) -> Result<Options, String> {
    let mut options = Options { cases: Vec::new(), applications: 1000, binaries: Vec::new() };
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let mut value =
            || arguments.next().ok_or_else(|| format!("{argument}: a value is missing"));
        match argument.as_str() {
            // Cargo's own.
            "--bench" => {}
            "--applications" => {
                let text = value()?;
                let number = text.parse().ok().filter(|number| *number >= 10);
                options.applications = number
                    .ok_or_else(|| format!("--applications {text}: give a number from 10 on"))?;
            }
            "--binary" => {
                let text = value()?;
                let (name, path) = text
                    .split_once('=')
                    .ok_or_else(|| format!("--binary {text}: give NAME=PATH"))?;
                options.binaries.push((name.to_owned(), path.into()));
            }
            case if CASES.iter().any(|(known, _)| *known == case) => {
                options.cases.push(case.to_owned())
            }
            unknown => {
                let known: Vec<String> =
                    CASES.iter().map(|(case, what)| format!("  {case:20} {what}")).collect();
                return Err(format!("{unknown}: no such case; there are\n{}", known.join("\n")));
            }
        }
    }
    if options.binaries.is_empty() {
        options.binaries.push(("now".to_owned(), env!("CARGO_BIN_EXE_wavegate").into()));
    }
    Ok(options)
}
