//! Every requirement of the specifications is cited by a test through the controller or the
//! command line.
//!
//! `tests/data/as-numbers.txt` (ApplicationSets), `se-numbers.txt` (sync engine), `st-numbers.txt`
//! (policies and runs), `ca-numbers.txt` (what Argo CD's API server reads) and `pg-numbers.txt` (the
//! page) list the numbers. A
//! number that no such test can cite is followed by the reason. A test cites `AS-nnn` in a comment or a message,
//! or `as_nnn` in its name; the others are the same. Tests of single functions do not count: see
//! [`is_through_the_program`]; nor does the comment of a module.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use regex::Regex;

/// The numbers, with the reasons why no test can cite them.
#[derive(Debug, Default, PartialEq, Eq)]
struct Numbers(BTreeMap<String, String>);

impl Numbers {
    fn read(text: &str) -> Self {
        let lines = text.lines().map(str::trim);
        let listed = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        let number = |line: &str| {
            let (number, reason) = line.split_once(' ').unwrap_or((line, ""));
            (number.to_owned(), reason.trim().to_owned())
        };
        Self(listed.map(number).collect())
    }

    /// What is wrong with these citations.
    fn problems(&self, cited: &BTreeSet<String>) -> Vec<String> {
        let mut problems = Vec::new();
        for (number, reason) in &self.0 {
            match (cited.contains(number), reason.is_empty()) {
                (false, true) => problems.push(format!("{number} is cited by no test")),
                (true, false) => {
                    problems.push(format!("{number} is cited by a test: remove {reason:?}"));
                }
                _ => {}
            }
        }
        problems
    }
}

/// The numbers of a specification that a text cites, by its letters in capitals. A name may cite
/// several: `as_040_and_041`.
fn citations(text: &str, spec: &str) -> BTreeSet<String> {
    let small = spec.to_lowercase();
    let cited = format!(
        r"(?:\b{spec}-(\d{{3}})\b|(?:\b|_){small}_(\d{{3}})((?:_(?:{small}_|and_|to_)*\d{{3}})*))"
    );
    let cited = Regex::new(&cited).unwrap();
    let number = Regex::new(r"\d{3}").unwrap();
    let mut numbers = BTreeSet::new();
    for found in cited.captures_iter(text) {
        let text = found.get(1).or(found.get(2)).map_or("", |found| found.as_str());
        numbers.insert(format!("{spec}-{text}"));
        let more = found.get(3).map_or("", |found| found.as_str());
        numbers.extend(number.find_iter(more).map(|more| format!("{spec}-{}", more.as_str())));
    }
    numbers
}

/// Whether tests of this file, a path in the repository, go through the controller or the command
/// line: the integration tests, but those of the embedded server and of its workloads, and the
/// tests in `crates/controller`, which run a controller on the embedded server.
fn is_through_the_program(path: &Path) -> bool {
    let is_in = |folder: &str| path.starts_with(folder);
    let of_the_server = is_in("tests/it/contract") || is_in("tests/it/simulated");
    let is_test = path.iter().any(|part| part == "tests" || part == "tests.rs");
    match path.iter().next().and_then(|part| part.to_str()) {
        Some("tests") => !of_the_server && !path.ends_with("it/numbers.rs"),
        Some("crates") => is_in("crates/controller") && is_test,
        _ => false,
    }
}

/// A source without the comment of its module, which says what is meant and proves nothing.
fn of_tests(source: &str) -> String {
    let lines = source.lines().filter(|line| !line.trim_start().starts_with("//!"));
    lines.collect::<Vec<&str>>().join("\n")
}

fn collect(root: &Path, dir: &Path, spec: &str, cited: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(root, &path, spec, cited);
        } else if path.extension().is_some_and(|extension| extension == "rs")
            && is_through_the_program(path.strip_prefix(root).unwrap())
        {
            cited.extend(citations(&of_tests(&std::fs::read_to_string(&path).unwrap()), spec));
        }
    }
}

/// Checks a list, which has at least so many numbers.
fn check(file: &str, spec: &str, least: usize) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let list = std::fs::read_to_string(root.join("tests/data").join(file)).unwrap();
    let mut cited = BTreeSet::new();
    for folder in ["crates/controller/src", "tests"] {
        collect(root, &root.join(folder), spec, &mut cited);
    }
    let numbers = Numbers::read(&list);
    assert!(numbers.0.len() >= least, "the list is incomplete");
    let problems = numbers.problems(&cited);
    assert!(problems.is_empty(), "tests/data/{file}:\n{}", problems.join("\n"));
}

#[test]
fn every_requirement_of_application_sets_is_cited_by_a_test() {
    check("as-numbers.txt", "AS", 150);
}

#[test]
fn every_requirement_of_the_sync_engine_is_cited_by_a_test() {
    check("se-numbers.txt", "SE", 419);
}

#[test]
fn every_requirement_of_policies_and_runs_is_cited_by_a_test() {
    check("st-numbers.txt", "ST", 33);
}

#[test]
fn every_requirement_of_argo_cds_readers_is_cited_by_a_test() {
    check("ca-numbers.txt", "CA", 140);
}

#[test]
fn every_requirement_of_the_page_is_cited_by_a_test() {
    check("pg-numbers.txt", "PG", 22);
}

#[test]
fn missing_citations_and_outdated_reasons_are_reported() {
    let list = "# comment\nAS-001\nAS-002 not testable\nAS-003\n\nAS-005 r";
    let numbers = Numbers::read(list);
    let of =
        |cited: &[&str]| numbers.problems(&cited.iter().map(|one| (*one).to_owned()).collect());
    assert_eq!(of(&["AS-001", "AS-003"]), Vec::<String>::new());
    assert_eq!(
        of(&["AS-001", "AS-005"]),
        ["AS-003 is cited by no test", "AS-005 is cited by a test: remove \"r\"",]
    );
}

#[test]
fn only_tests_through_the_program_count() {
    for (path, counts) in [
        ("tests/it/cli/order.rs", true),
        ("tests/it/e2e/hooks.rs", true),
        ("tests/it/contract/objects.rs", false),
        ("tests/it/simulated/rules.rs", false),
        ("tests/it/numbers.rs", false),
        ("crates/controller/src/application_set/tests/steps.rs", true),
        ("crates/controller/src/application/tests.rs", true),
        ("crates/controller/src/application/observe.rs", false),
        ("crates/engine/src/health/tests.rs", false),
        ("crates/gotemplate/src/tests.rs", false),
    ] {
        assert_eq!(is_through_the_program(Path::new(path)), counts, "{path}");
    }
    let source =
        "// AS-003, AS-004\nfn a_b_as_005_and_006_as_007() {} fn was_012() {} // XAS-013 AS-0141";
    let cited: Vec<String> = citations(source, "AS").into_iter().collect();
    assert_eq!(cited, ["AS-003", "AS-004", "AS-005", "AS-006", "AS-007"]);
    let of_a_module = "//! AS-001\n  //! AS-002\n/// AS-003\nfn a() {} // AS-004";
    let cited: Vec<String> = citations(&of_tests(of_a_module), "AS").into_iter().collect();
    assert_eq!(cited, ["AS-003", "AS-004"]);
    let other = "fn a_se_001_and_se_002_to_004() {} // SE-005, CASE-006, AS-007 else_008";
    let cited: Vec<String> = citations(other, "SE").into_iter().collect();
    assert_eq!(cited, ["SE-001", "SE-002", "SE-004", "SE-005"]);
}
