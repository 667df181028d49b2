//! One build of all mutants: those that the compiler refuses are left out, and it is tried again.
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::rewrite::{Rewritten, rewrite};
use crate::{Fault, Id, Mutant};

/// In each crate: which mutant is on, and a record of those that a test reaches.
const SWITCH: &str = r#"
pub(crate) mod mutant_switch {
    use std::io::Write;
    use std::sync::{LazyLock, Mutex, atomic::{AtomicBool, Ordering}};
    static ON: LazyLock<u32> = LazyLock::new(|| {
        std::env::var("MUTANT").ok().and_then(|id| id.parse().ok()).unwrap_or(0)
    });
    static RECORD: LazyLock<Option<Mutex<std::fs::File>>> = LazyLock::new(|| {
        let path = std::env::var_os("MUTANT_RECORD")?;
        // The crates of a program write to one file, each for itself.
        let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
        Some(Mutex::new(file.expect("a record of mutants")))
    });
    static REACHED: [AtomicBool; MOST] = [const { AtomicBool::new(false) }; MOST];
    #[inline]
    pub fn on(id: u32) -> bool {
        if *ON == 0 && !REACHED[id as usize].load(Ordering::Relaxed) { reached(id); }
        *ON == id
    }
    #[cold]
    fn reached(id: u32) {
        if REACHED[id as usize].swap(true, Ordering::Relaxed) { return; }
        // At once: a test that does not end in time has reached it too.
        let Some(file) = &*RECORD else { return };
        writeln!(file.lock().expect("a record of mutants"), "{id}").expect("a record of mutants");
    }
}
"#;

const CONSTANT: &str = "they are in a const fn, where there is no switch";
const NO_PLACE: &str = "they are in a chain of let, or in what the tool does not know";
const REFUSED: &str = "the compiler refuses them";
const NEAR: &str = "the compiler refuses something beside them";

/// What depends on the decision crates, and whose tests are tests of decisions, too: those that
/// are fast first.
const DEPENDENTS: [&str; 3] = ["wavegate-controller", "wavegate", "wavegate-simulation"];
/// Whole rollouts in simulation, a test target of the program.
const FLEETS: &str = "fleets";

/// Tests that are one program.
pub struct Program {
    /// The package, or the test target.
    pub name: String,
    pub path: PathBuf,
    /// The crate.
    pub folder: PathBuf,
}

impl Program {
    /// Whether its cases are whole rollouts: some suffice, and more would be too slow.
    pub fn is_fleets(&self) -> bool {
        self.name == FLEETS
    }
}

pub struct Built {
    /// The tests of the crates that have mutants.
    pub own: Vec<Program>,
    /// The tests of their dependents, when they are asked for.
    pub others: Vec<Program>,
    pub excluded: BTreeMap<Id, &'static str>,
}

pub fn build(
    mutants: &BTreeMap<Id, Mutant>,
    tree: &Path,
    target: &str,
    with_others: bool,
) -> Result<Built, Fault> {
    let packages: BTreeSet<&str> = mutants.values().map(|one| one.package.as_str()).collect();
    let files: BTreeSet<&str> = mutants.values().map(|one| one.file.as_str()).collect();
    let mut texts = BTreeMap::new();
    for file in files {
        let path = tree.join(file);
        let text =
            fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        texts.insert(file, text);
    }
    for package in &packages {
        let path = folder(tree, package).join("src/lib.rs");
        let text =
            fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let switch = SWITCH.replace("MOST", &(mutants.len() + 1).to_string());
        let name = path.strip_prefix(tree)?.to_str().unwrap_or_default();
        match texts.get_mut(name) {
            Some(text) => text.push_str(&switch),
            None => fs::write(&path, text + &switch)?,
        }
    }
    let mut excluded = BTreeMap::new();
    // A check finds most of what does not compile, and makes no code.
    let mut is_checked = false;
    for round in 1.. {
        let mut written = BTreeMap::new();
        for (&file, text) in &texts {
            let those =
                mutants.iter().filter(|(id, one)| one.file == file && !excluded.contains_key(*id));
            let rewritten = rewrite(text, &those.map(|(id, one)| (*id, one)).collect())
                .map_err(|fault| format!("{file}: {fault}"))?;
            // Cargo builds again what is newer.
            let path = tree.join(file);
            if fs::read_to_string(&path)? != rewritten.text {
                fs::write(path, &rewritten.text)?;
            }
            excluded.extend(rewritten.left.iter().map(|id| (*id, NO_PLACE)));
            written.insert(file, rewritten);
        }
        let messages = match is_checked {
            true => test(tree, target, &packages, with_others)?,
            false => check(tree, target, &packages)?,
        };
        let errors: Vec<&Value> = messages
            .iter()
            .filter(|one| one["reason"] == "compiler-message")
            .map(|one| &one["message"])
            .filter(|message| message["level"] == "error" && message["spans"].get(0).is_some())
            .collect();
        if errors.is_empty() && !is_checked {
            is_checked = true;
            continue;
        }
        if errors.is_empty() {
            let own = packages.iter().map(|package| program(&messages, package, "lib"));
            let mut others = Vec::new();
            if with_others {
                for package in DEPENDENTS {
                    others.push(program(&messages, package, "lib")?);
                }
                others.push(program(&messages, FLEETS, "test")?);
            }
            return Ok(Built { own: own.collect::<Result<_, _>>()?, others, excluded });
        }
        let before = excluded.len();
        for error in &errors {
            let (ids, why) = blamed(error, mutants, &written);
            excluded.extend(ids.into_iter().map(|id| (id, why)));
        }
        eprintln!("build {round}: {} more are not compiled", excluded.len() - before);
        if excluded.len() == before {
            let text = errors[0]["rendered"].as_str().unwrap_or_default();
            return Err(format!("the build fails without mutants, too:\n{text}").into());
        }
    }
    Err("the build does not end".into())
}

fn folder(tree: &Path, package: &str) -> PathBuf {
    tree.join("crates").join(package.trim_start_matches("wavegate-"))
}

/// What Cargo reports when it checks `packages`.
fn check(tree: &Path, target: &str, packages: &BTreeSet<&str>) -> Result<Vec<Value>, Fault> {
    let packages = packages.iter().flat_map(|package| ["--package", package]);
    cargo(tree, target, &["check", "--keep-going", "--lib"], packages)
}

/// What Cargo reports when it builds the tests of `packages`, and those of their dependents: all
/// at once, since other packages at a time may have other features, and are built again.
fn test(
    tree: &Path,
    target: &str,
    packages: &BTreeSet<&str>,
    with_others: bool,
) -> Result<Vec<Value>, Fault> {
    let (others, fleets) = match with_others {
        true => (&DEPENDENTS[..], &["--test", FLEETS][..]),
        false => (&[][..], &[][..]),
    };
    let packages = packages.iter().chain(others).flat_map(|package| ["--package", package]);
    let more = packages.chain(fleets.iter().copied());
    cargo(tree, target, &["test", "--no-run", "--no-fail-fast", "--lib"], more)
}

fn cargo<'a>(
    tree: &Path,
    target: &str,
    command: &[&str],
    more: impl Iterator<Item = &'a str>,
) -> Result<Vec<Value>, Fault> {
    let output = Command::new("cargo")
        .args(command)
        .args(["--locked", "--message-format=json"])
        .args(more)
        .current_dir(tree)
        .env("CARGO_TARGET_DIR", target)
        .env("CARGO_INCREMENTAL", "1")
        .env("CARGO_PROFILE_DEV_DEBUG", "false")
        .env("CARGO_PROFILE_TEST_DEBUG", "false")
        .stderr(Stdio::inherit())
        .output()?;
    let lines = String::from_utf8(output.stdout)?;
    let messages: Result<_, _> = lines.lines().map(serde_json::from_str).collect();
    Ok(messages?)
}

/// The tests of a target that Cargo has built.
fn program(messages: &[Value], name: &str, kind: &str) -> Result<Program, Fault> {
    // A library has `_` in its name.
    let target = name.replace('-', "_");
    let is_it = |one: &&Value| {
        let is_named = one["target"]["name"] == target.as_str() && one["target"]["kind"][0] == kind;
        is_named && one["profile"]["test"] == true && one["executable"].is_string()
    };
    let built = messages.iter().find(is_it);
    let built = built.ok_or_else(|| format!("the tests of {name} are not built"))?;
    let path = |key: &str| PathBuf::from(built[key].as_str().unwrap_or_default());
    let folder = path("manifest_path").parent().map(Path::to_owned).unwrap_or_default();
    Ok(Program { name: name.to_owned(), path: path("executable"), folder })
}

/// The mutants that an error comes from: the one that stands there, or else all of the function.
fn blamed(
    error: &Value,
    mutants: &BTreeMap<Id, Mutant>,
    written: &BTreeMap<&str, Rewritten>,
) -> (Vec<Id>, &'static str) {
    let spans = error["spans"].as_array().map_or(&[][..], Vec::as_slice);
    let (first, rest): (Vec<&Value>, Vec<&Value>) =
        spans.iter().partition(|span| span["is_primary"] == true);
    let number =
        |value: &Value| value.as_u64().and_then(|number| usize::try_from(number).ok()).unwrap_or(0);
    let places: Vec<(&Rewritten, &str, usize, usize)> = first
        .into_iter()
        .chain(rest)
        .filter_map(|mut span| {
            loop {
                // What a macro of another crate makes of it.
                let file = span["file_name"].as_str()?;
                if let Some(rewritten) = written.get(file) {
                    return Some((
                        rewritten,
                        file,
                        number(&span["byte_start"]),
                        number(&span["byte_end"]),
                    ));
                }
                span = span["expansion"].get("span")?;
            }
        })
        .collect();
    for (rewritten, _, start, end) in &places {
        let around = |(piece, _): &&(std::ops::Range<usize>, Id)| {
            piece.start <= *start && *end <= piece.end + 3
        };
        let piece = rewritten.pieces.iter().filter(around).min_by_key(|(piece, _)| piece.len());
        if let Some((_, id)) = piece {
            let is_constant = error["code"]["code"] == "E0015";
            return (vec![*id], if is_constant { CONSTANT } else { REFUSED });
        }
    }
    let Some((rewritten, file, start, _)) = places.first() else {
        return (Vec::new(), NEAR);
    };
    // The nearest piece before it, or the first one: any mutant of the same function may be it.
    let near = rewritten.pieces.iter().rev().find(|(piece, _)| piece.start <= *start);
    let Some((_, near)) = near.or(rewritten.pieces.first()) else {
        return (Vec::new(), NEAR);
    };
    let line = |id: &Id| mutants[id].function.as_ref().map(|function| function.span.start.line);
    let same = |(id, one): &(&Id, &Mutant)| one.file == *file && line(id) == line(near);
    (mutants.iter().filter(same).map(|(id, _)| *id).collect(), NEAR)
}
