//! Judges many mutants with one build: `mutants SAMPLE TREE TARGET REQUIRED JOBS`.
//!
//! Each mutant of SAMPLE (a list of cargo-mutants) is written into the sources in TREE beside
//! what it changes, behind a switch that the environment sets. The tests are built once; each
//! test is run once to record which mutants it reaches, and each mutant with the tests that reach
//! it. So a mutant costs a process or two, and no build.
mod build;
mod judge;
mod rewrite;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use serde::Deserialize;

/// What goes wrong ends the program with its text.
type Fault = Box<dyn std::error::Error + Send + Sync>;

/// A change of one place, as `cargo mutants --list --json` has it.
#[derive(Deserialize)]
struct Mutant {
    file: String,
    function: Option<Function>,
    genre: String,
    name: String,
    package: String,
    replacement: String,
    span: Span,
}

#[derive(Deserialize)]
struct Function {
    return_type: String,
    span: Span,
}

/// Lines and columns count from 1, columns in characters.
#[derive(Deserialize)]
struct Span {
    start: Place,
    end: Place,
}

#[derive(Deserialize)]
struct Place {
    line: usize,
    column: usize,
}

/// The number of a mutant in the sample, from 1: the value of the switch. 0 is none of them.
type Id = u32;

/// What is known of a mutant.
enum Verdict {
    Caught,
    /// With what its tests do.
    Survives(&'static str),
    /// With the reason.
    NotJudged(&'static str),
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(fault) => {
            eprintln!("tests/mutants: {fault}");
            ExitCode::from(2)
        }
    }
}

/// Whether as many are caught as are required.
fn run() -> Result<bool, Fault> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [sample, tree, target, required, jobs] = arguments.as_slice() else {
        return Err("usage: mutants SAMPLE TREE TARGET REQUIRED JOBS".into());
    };
    let list: Vec<Mutant> = serde_json::from_str(&std::fs::read_to_string(sample)?)?;
    let mutants: BTreeMap<Id, Mutant> = (1..).zip(list).collect();
    let tree = PathBuf::from(tree);

    let built = build::build(&mutants, &tree, target)?;
    let mut verdicts: BTreeMap<Id, Verdict> = BTreeMap::new();
    for (id, why) in built.excluded {
        verdicts.insert(id, Verdict::NotJudged(why));
    }
    for program in &built.programs {
        let ids: Vec<Id> = mutants
            .iter()
            .filter(|(id, one)| one.package == program.package && !verdicts.contains_key(id))
            .map(|(id, _)| *id)
            .collect();
        verdicts.extend(judge::judge(program, &ids, jobs.parse()?)?);
    }
    let is_enough = report(&mutants, &verdicts) >= required.parse()?;
    if !is_enough {
        eprintln!("tests/mutants: less than {required} % are caught; write the missing tests");
    }
    Ok(is_enough)
}

/// Writes what was found, and returns how many percent are caught.
fn report(mutants: &BTreeMap<Id, Mutant>, verdicts: &BTreeMap<Id, Verdict>) -> f64 {
    let mut counts: BTreeMap<&str, (u32, u32)> = BTreeMap::new();
    let mut left: BTreeMap<&str, usize> = BTreeMap::new();
    for (id, verdict) in verdicts {
        let Some(mutant) = mutants.get(id) else { continue };
        let (caught, judged) = counts.entry(&mutant.package).or_default();
        match verdict {
            Verdict::Caught => {
                *caught += 1;
                *judged += 1;
            }
            Verdict::Survives(how) => {
                *judged += 1;
                println!("survives ({how}): {}", mutant.name);
            }
            Verdict::NotJudged(why) => *left.entry(why).or_default() += 1,
        }
    }
    for (why, count) in left {
        println!("{count} are not judged: {why}");
    }
    let rate = |(caught, judged): (u32, u32)| 100.0 * f64::from(caught) / f64::from(judged.max(1));
    for (package, count) in &counts {
        println!("{package}: {} of {} are caught, {:.1} %", count.0, count.1, rate(*count));
    }
    let all = counts.values().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    println!("{} of {} are caught, {:.1} %", all.0, all.1, rate(all));
    rate(all)
}
