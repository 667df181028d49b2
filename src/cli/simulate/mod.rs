//! `wavegate simulate`: a whole rollout on a clock that jumps.

mod args;
mod behaviors;
mod causes;
mod chart;
mod counted;
mod course;
mod creation;
mod distribution;
mod drawn;
mod events;
#[cfg(test)]
mod fixtures;
mod frozen;
mod history;
mod page;
mod path;
mod progress;
mod refused;
mod report;
mod scale;
mod scenario;
mod segments;
mod timeline;
mod when;

use std::path::Path;
use std::process::ExitCode;

pub(super) use self::args::SimulateArgs;
use self::distribution::Distribution;
use self::page::Recording;
use self::progress::Progress;
use self::report::Report;
use crate::cli::cluster::block_on;
use crate::cli::console::error::{CHECK_FAILED, Error};
use wavegate_simulation::{self as simulation, History, Setup};

/// The most simulations of one command.
const MOST_RUNS: u32 = 100_000;

/// Runs the command.
pub(super) fn run(args: SimulateArgs) -> anyhow::Result<ExitCode> {
    if args.runs == 0 || args.runs > MOST_RUNS {
        let why = format!("it must be from 1 to {MOST_RUNS}");
        return Err(Error::input("invalid option", "--runs", why).into());
    }
    for (option, file) in [("--export", &args.export), ("--log", &args.log)] {
        if file.as_deref().is_some_and(|file| file.as_os_str() == "-") {
            let why = "standard output has the report; name a file";
            return Err(Error::input("invalid option", format!("{option} -"), why).into());
        }
    }
    let case = block_on(scenario::read(&args))?;
    let simulate = |number: u32| -> anyhow::Result<History> {
        simulation::run(&case.scenario(&args, args.seed.wrapping_add(u64::from(number))))
    };
    let progress = Progress::of(args.runs);
    let recording = args.dashboard.then(|| Recording::new(args.log.is_some()));
    let mut history = match &recording {
        None => simulate(0)?,
        Some(recording) => {
            let setup = Setup { record: Some(recording.record()), ..Setup::default() };
            simulation::run_with(&case.scenario(&args, args.seed), setup)?
        }
    };
    progress.add();
    let log = match &recording {
        None => std::mem::take(&mut history.log),
        Some(recording) => recording.take_log(),
    };
    if let Some(file) = &args.log {
        write(file, &log)?;
    }
    drop(log);
    if let Some(file) = &args.export {
        write(file, &page::exported_chart(&course::timeline(&case, &history)))?;
    }
    let mut histories = vec![history];
    let is_complete = if args.runs == 1 {
        let report = Report::of(&case, &histories[0]);
        args.output.print(&report, Report::table)?;
        report.is_complete()
    } else {
        histories.extend(side_by_side(args.runs, simulate, &progress)?);
        drop(progress);
        let all = Distribution::of(&histories);
        args.output.print(&all, Distribution::table)?;
        all.is_complete()
    };
    refused::check(&histories)?;
    if let Some(recording) = &recording {
        return Ok(ExitCode::from(page::serve(recording, &case, &histories[0])?));
    }
    Ok(if is_complete { ExitCode::SUCCESS } else { ExitCode::from(CHECK_FAILED) })
}

fn write(file: &Path, text: &str) -> Result<(), Error> {
    std::fs::write(file, text)
        .map_err(|error| Error::input("cannot write", file.display().to_string(), error))
}

/// The simulations 1, 2, … before `count`, in this order, as many at a time as there are cores.
fn side_by_side(
    count: u32,
    simulate: impl Fn(u32) -> anyhow::Result<History> + Sync,
    progress: &Progress,
) -> anyhow::Result<Vec<History>> {
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get() as u32);
    let simulate = &simulate;
    let of_thread = |first: u32| {
        let numbers = (first..count).step_by(threads as usize);
        let one = |number| {
            let history = simulate(number)?;
            progress.add();
            Ok((number, history))
        };
        numbers.map(one).collect::<anyhow::Result<Vec<_>>>()
    };
    let mut all = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (1..=threads).map(|first| scope.spawn(move || of_thread(first))).collect();
        let mut all = Vec::new();
        for thread in threads {
            let histories = thread.join().map_err(|_| anyhow::anyhow!("a simulation panicked"))?;
            all.extend(histories?);
        }
        anyhow::Ok(all)
    })?;
    all.sort_by_key(|(number, _)| *number);
    Ok(all.into_iter().map(|(_, history)| history).collect())
}
