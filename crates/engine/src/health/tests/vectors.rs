//! Objects with the health that Argo CD gives, which are not part of the repository.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::PathBuf;

use super::*;

/// Where further objects lie; they are not part of the repository, and the table
/// above does without them.
fn vectors() -> PathBuf {
    let shared = std::env::var("WAVEGATE_SHARED")
        .unwrap_or_else(|_| concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared").to_owned());
    PathBuf::from(shared).join("vectors")
}

#[test]
fn shared_vectors() {
    let folder = vectors().join("health");
    let mut table = String::new();
    match File::open(folder.join("expected.tsv")) {
        Ok(mut file) => file.read_to_string(&mut table).unwrap(),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            println!("skipped: no health vectors at {} (set WAVEGATE_SHARED)", folder.display());
            return;
        }
        Err(error) => panic!("{}: {error}", folder.display()),
    };
    let rows: Vec<(&str, &str)> =
        table.lines().skip(1).filter_map(|line| line.split_once('\t')).collect();
    assert!(rows.len() > 30, "the table of vectors was not understood: {} rows", rows.len());
    for (file, want) in rows {
        let reader = File::open(folder.join(file)).unwrap();
        let object: Value = serde_saphyr::from_reader(reader).unwrap();
        let (api_version, kind) = (object.text("/apiVersion"), object.text("/kind"));
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        if want == "none" && super::super::table::contains(group, kind) {
            // The expectation is of Argo CD's built-in checks; this kind has a script there.
            assert!(rule(group, kind).is_none(), "{file}");
            continue;
        }
        let found = health_of(&object).map_or("none", |health| health.status.as_str());
        assert_eq!(found, want, "{file}");
    }
}

/// The text of a file of vectors; `None` where they are not.
fn lines(file: &str) -> Option<String> {
    let path = vectors().join(file);
    let mut text = String::new();
    match File::open(&path) {
        Ok(mut file) => file.read_to_string(&mut text).unwrap(),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            println!("skipped: no health vectors at {} (set WAVEGATE_SHARED)", path.display());
            return None;
        }
        Err(error) => panic!("{}: {error}", path.display()),
    };
    Some(text)
}

/// How much of each file agrees at least, in percent.
const AGREES: usize = 98;

/// What `docs/reference/health.md` says about the differences.
const DIFFERENCES: &str = include_str!("../../../../../docs/reference/health.md");

/// Files of objects of kinds that Argo CD assesses by scripts, with the health that it gives.
/// A script does not see that an object is deleted first (SE-441), so neither does the
/// comparison.
fn agreement(file: &str) {
    let Some(text) = lines(file) else { return };
    let mut kinds: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    let (mut agree, mut all, mut wrong) = (0, 0, Vec::new());
    for line in text.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let found = by_kind(&case["object"]);
        let object = &case["object"];
        let version = object.text("/apiVersion");
        let group = version.rsplit_once('/').map_or("", |(group, _)| group);
        let kind = format!("{group}/{}", object.text("/kind"));
        let name = format!("{kind} {}", case.text("/name"));
        let (is, said) = match &found {
            Some(health) => (health.status.as_str(), health.message.as_str()),
            None => ("none", ""),
        };
        let want = case.text("/status");
        all += 1;
        let of_kind = kinds.entry(kind.clone()).or_default();
        of_kind.1 += 1;
        if want == is {
            agree += 1;
            of_kind.0 += 1;
            continue;
        }
        println!("{name}: {want} expected, {is} found: {said}");
        if is == "Healthy" && ["Degraded", "Missing"].contains(&want) {
            wrong.push(format!("{name}: a failure is shown as Healthy"));
        }
        if !DIFFERENCES.contains(&format!("`{kind}`")) {
            wrong.push(format!("{name}: {want}, not {is}, and docs/reference/health.md is silent"));
        }
    }
    for (kind, (agree, all)) in kinds.iter().filter(|(_, (agree, all))| agree < all) {
        println!("{file}: {kind}: {agree} of {all} agree");
    }
    println!("{file}: {agree} of {all} agree");
    assert_eq!(wrong, [""; 0]);
    assert!(agree * 100 >= all * AGREES, "{file}: {agree} of {all} agree");
}

/// SE-474, SE-475, SE-476, SE-478.
#[test]
fn kinds_of_other_projects_have_the_health_that_argo_cd_gives() {
    agreement("health-kinds.jsonl");
}

/// The same objects with one field removed or turned: who knows the rule agrees here, too.
#[test]
fn and_so_have_they_with_one_field_changed() {
    agreement("health-mutants.jsonl");
}

/// By the generic assessment alone, as if no kind of the file had a rule.
#[test]
fn most_are_understood_without_a_rule() {
    let Some(text) = lines("health-kinds.jsonl") else { return };
    let agrees = |line: &&str| {
        let case: Value = serde_json::from_str(line).unwrap();
        let reported = super::super::generic::assess(&case["object"]);
        reported.is_some_and(|health| case["status"] == health.status.as_str())
    };
    let agree = text.lines().filter(agrees).count();
    println!("health-kinds.jsonl: {agree} agree without the rules of their kinds");
    assert!(agree >= AGREE_BY_WHAT_IS_REPORTED, "{agree} agree without rules");
}

const AGREE_BY_WHAT_IS_REPORTED: usize = 450;
