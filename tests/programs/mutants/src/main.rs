//! Judges many mutants with one build: `mutants SAMPLE TREE TARGET REQUIRED JOBS [own]`.
//!
//! Each mutant of SAMPLE (a list of cargo-mutants) is written into the sources in TREE beside
//! what it changes, behind a switch that the environment sets. The tests are built once; each
//! test is run once to record which mutants it reaches, and each mutant with the tests that reach
//! it. So a mutant costs a process or two, and no build. What the tests of its own crate do not
//! catch is judged by the tests of the crates that use it, too, unless it says `own`.
mod build;
mod judge;
mod rewrite;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;

use judge::{Finding, Whose, judge};
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
#[derive(Clone, Copy)]
enum Verdict {
    /// By whose tests.
    Caught(Whose),
    /// With what its tests do.
    Survives(&'static str),
    /// With the reason.
    NotJudged(&'static str),
}

impl Verdict {
    /// With what another program finds.
    fn and(self, finding: Finding, whose: Whose) -> Self {
        const MISSED: &str = "no test fails";
        match (self, finding) {
            (_, Finding::Caught) => Self::Caught(whose),
            (Self::Survives(_), Finding::Missed) => Self::Survives(MISSED),
            (before, _) => before,
        }
    }
}

impl From<Finding> for Verdict {
    fn from(finding: Finding) -> Self {
        match finding {
            Finding::NotReached => Self::Survives("no test reaches it"),
            Finding::NotInTime => Self::NotJudged("only tests of more than 10 seconds reach them"),
            Finding::Missed | Finding::Caught => {
                Self::Survives("no test fails").and(finding, Whose::Own)
            }
        }
    }
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
    let (arguments, with_others) = match arguments.as_slice() {
        [rest @ .., last] if last == "own" => (rest, false),
        all => (all, true),
    };
    let [sample, tree, target, required, jobs] = arguments else {
        return Err("usage: mutants SAMPLE TREE TARGET REQUIRED JOBS [own]".into());
    };
    let list: Vec<Mutant> = serde_json::from_str(&std::fs::read_to_string(sample)?)?;
    let mutants: BTreeMap<Id, Mutant> = (1..).zip(list).collect();
    let tree = PathBuf::from(tree);

    let jobs = jobs.parse()?;
    let built = build::build(&mutants, &tree, target, with_others)?;
    let mut verdicts: BTreeMap<Id, Verdict> = BTreeMap::new();
    for program in &built.own {
        let is_judged =
            |id: &Id, one: &Mutant| one.package == program.name && !built.excluded.contains_key(id);
        let ids: Vec<Id> =
            mutants.iter().filter(|(id, one)| is_judged(id, one)).map(|(id, _)| *id).collect();
        let found = judge(program, Whose::Own, &ids, jobs)?;
        verdicts.extend(found.into_iter().map(|(id, finding)| (id, finding.into())));
    }
    if with_others {
        for (package, count) in counts(&mutants, &verdicts) {
            eprintln!("{package}, by its own tests: {count}");
        }
    }
    for program in &built.others {
        let is_left = |verdict: &Verdict| !matches!(verdict, Verdict::Caught(_));
        let ids: Vec<Id> =
            verdicts.iter().filter(|(_, one)| is_left(one)).map(|(id, _)| *id).collect();
        for (id, finding) in judge(program, Whose::Other, &ids, jobs)? {
            verdicts.entry(id).and_modify(|verdict| *verdict = verdict.and(finding, Whose::Other));
        }
    }
    verdicts.extend(built.excluded.into_iter().map(|(id, why)| (id, Verdict::NotJudged(why))));
    let is_enough = report(&mutants, &verdicts) >= required.parse()?;
    if !is_enough {
        eprintln!("tests/mutants: less than {required} % are caught; write the missing tests");
    }
    Ok(is_enough)
}

/// Writes what was found, and returns how many percent are caught.
fn report(mutants: &BTreeMap<Id, Mutant>, verdicts: &BTreeMap<Id, Verdict>) -> f64 {
    let mut left: BTreeMap<&str, usize> = BTreeMap::new();
    for (id, verdict) in verdicts {
        match (verdict, mutants.get(id)) {
            (Verdict::Survives(how), Some(mutant)) => {
                println!("survives ({how}): {}", mutant.name);
            }
            (Verdict::NotJudged(why), Some(_)) => *left.entry(why).or_default() += 1,
            (Verdict::Caught(_), _) | (_, None) => {}
        }
    }
    for (why, count) in left {
        println!("{count} are not judged: {why}");
    }
    let mut all = Count::default();
    for (package, count) in counts(mutants, verdicts) {
        println!("{package}: {count}");
        all.own += count.own;
        all.others += count.others;
        all.survive += count.survive;
    }
    println!("{all}");
    all.rate()
}

/// The mutants that are judged, by package.
fn counts<'m>(
    mutants: &'m BTreeMap<Id, Mutant>,
    verdicts: &BTreeMap<Id, Verdict>,
) -> BTreeMap<&'m str, Count> {
    let mut counts: BTreeMap<&str, Count> = BTreeMap::new();
    for (id, verdict) in verdicts {
        let Some(mutant) = mutants.get(id) else { continue };
        let count = counts.entry(&mutant.package).or_default();
        match verdict {
            Verdict::Caught(Whose::Own) => count.own += 1,
            Verdict::Caught(Whose::Other) => count.others += 1,
            Verdict::Survives(_) => count.survive += 1,
            Verdict::NotJudged(_) => {}
        }
    }
    counts
}

/// Mutants that are judged.
#[derive(Default)]
struct Count {
    /// Caught by the tests of their crate.
    own: u32,
    /// Caught by those of other crates only.
    others: u32,
    survive: u32,
}

impl Count {
    /// How many percent are caught.
    fn rate(&self) -> f64 {
        let judged = self.own + self.others + self.survive;
        100.0 * f64::from(self.own + self.others) / f64::from(judged.max(1))
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let caught = self.own + self.others;
        let judged = caught + self.survive;
        write!(f, "{caught} of {judged} are caught, {:.1} %", self.rate())?;
        match self.others {
            0 => Ok(()),
            others => write!(f, "; {others} of them only by the tests of other crates"),
        }
    }
}
