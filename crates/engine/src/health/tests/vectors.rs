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

/// How many of the cases agree at least, in status, and in status and message.
const AGREE: (usize, usize) = (697, 690);

/// And by the generic assessment alone, as if no kind of the file had a rule.
const AGREE_BY_WHAT_IS_REPORTED: usize = 430;

/// SE-474, SE-475, SE-476, SE-478: kinds that Argo CD judges by scripts. A script does not
/// see that an object is deleted first (SE-441), so neither does the comparison.
#[test]
fn kinds_of_other_projects_have_the_health_that_argo_cd_gives() {
    let Some(text) = lines("health-kinds.jsonl") else { return };
    let (mut status, mut message, mut generic, mut all) = (0, 0, 0, 0);
    for line in text.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let found = by_kind(&case["object"]);
        let name = format!("{} {}", case["kind"], case["name"]);
        let (is, said) = match &found {
            Some(health) => (health.status.as_str(), health.message.as_str()),
            None => ("none", ""),
        };
        all += 1;
        let agrees = case["status"] == is;
        status += usize::from(agrees);
        message += usize::from(agrees && case["message"].as_str().unwrap_or_default() == said);
        if !agrees {
            println!("{name}: {} expected, {is} found: {said}", case["status"]);
        }
        let reported = super::super::generic::assess(&case["object"]);
        generic += usize::from(reported.is_some_and(|h| case["status"] == h.status.as_str()));
    }
    println!("health-kinds: {status} of {all} agree, {message} with the message");
    println!("health-kinds: {generic} of {all} agree without the rules of their kinds");
    assert!(all >= 699, "the vectors were not understood: {all} cases");
    assert!(status >= AGREE.0 && message >= AGREE.1, "{status} and {message} agree");
    assert!(generic >= AGREE_BY_WHAT_IS_REPORTED, "{generic} agree without rules");
}
