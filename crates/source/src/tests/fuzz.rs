//! Hostile names of values files, kustomizations and schemas: no panic, no hang, and nothing
//! of the machine is accepted (C14).
//!
//! `WAVEGATE_FUZZ_CASES` sets the number of cases (default 300). Cases that once failed, and
//! the seeds of mutations, are lines of `tests/data/hostile-sources.txt`.

use std::path::Path;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use serde_json::{Value, json};

use super::write;
use crate::RenderFor;
use crate::directory::source_directory::SourceDirectory;
use crate::git::refs::{Found, Refs, RevisionTarget};
use crate::helm::chart;
use crate::helm::chart_schema;
use crate::helm::template;
use crate::kustomize::remote::Referring;
use crate::render::build_environment::BuildEnvironment;
use crate::render::manifest::Sink;

/// Seeds: kind of input, a blank, and the text with `\n` for a line break.
const CORPUS: &str = include_str!("../../../../tests/data/hostile-sources.txt");

fn seeds(kind: &str) -> Vec<String> {
    let lines = CORPUS.lines().filter(|line| !line.starts_with('#'));
    let found = lines.filter_map(|line| line.strip_prefix(kind)?.strip_prefix(' '));
    found.map(|line| line.replace("\\n", "\n")).collect()
}

fn cases() -> u32 {
    let given = std::env::var("WAVEGATE_FUZZ_CASES").ok().and_then(|text| text.parse().ok());
    given.unwrap_or(300)
}

/// A seed with some pieces replaced, removed, doubled or put in.
fn mutated(kind: &'static str) -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "/",
        "..",
        "/etc/passwd",
        "://",
        "file://",
        ",",
        "\"",
        "\n",
        "\0",
        "$",
        "{",
        "}",
        "[",
        "]",
        ":",
        "- ",
        "&a ",
        "*a",
        "!!str ",
        "\u{17f}",
        "\u{212a}",
        "\u{feff}",
        "|",
        "#",
        "'",
        "?ref=",
        "\t",
        "ARGOCD_APP_NAME",
        "resources",
        "path",
        "http://127.0.0.1:1/x",
    ]);
    let edit = (any::<prop::sample::Index>(), 0..4_usize, pieces, 0..12_usize);
    (prop::sample::select(seeds(kind)), prop::collection::vec(edit, 0..8)).prop_map(
        |(seed, edits)| {
            let mut text: Vec<char> = seed.chars().collect();
            for (at, how, piece, length) in edits {
                let at = at.index(text.len() + 1);
                let end = (at + length).min(text.len());
                match how {
                    0 => drop(text.splice(at..at, piece.chars())),
                    1 => drop(text.splice(at..end, piece.chars())),
                    2 => drop(text.drain(at..end)),
                    _ => {
                        let copy = text[at..end].to_vec();
                        drop(text.splice(at..at, copy));
                    }
                }
            }
            text.into_iter().collect()
        },
    )
}

/// Runs the property on each seed, and on mutations of them; each within two seconds.
fn check(kind: &'static str, property: impl Fn(&str) -> Result<(), TestCaseError>) {
    let timed = |text: &str| {
        let start = std::time::Instant::now();
        let result = property(text);
        // Many times the limit of a hang, for a loaded machine.
        prop_assert!(start.elapsed().as_secs() < 30, "slow: {text:?}");
        result
    };
    for seed in seeds(kind) {
        timed(&seed).unwrap_or_else(|error| panic!("{kind} {seed:?}: {error}"));
    }
    let config = Config { cases: cases(), failure_persistence: None, ..Config::default() };
    TestRunner::new(config).run(&mutated(kind), |text| timed(&text)).unwrap();
}

fn tree() -> (tempfile::TempDir, SourceDirectory) {
    let tree = tempfile::tempdir().unwrap();
    write(tree.path(), "chart/Chart.yaml", "name: c\n");
    write(tree.path(), "chart/values.yaml", "a: 1\n");
    write(tree.path(), "values.yaml", "a: 1\n");
    let directory = SourceDirectory::new(tree.path(), "chart").unwrap();
    (tree, directory)
}

#[test]
fn hostile_values_files_stay_in_the_repository() {
    let (tree, directory) = tree();
    // A pattern may match any file of the repository.
    write(tree.path(), "chart/Chart.yaml", "a: 1\n");
    check("values", |file| {
        let scratch = tempfile::tempdir().unwrap();
        let subject = RenderFor { application: "shop".into(), ..RenderFor::default() };
        let source =
            json!({"helm": {"valueFiles": [file], "parameters": [{"name": "a", "value": file}]}});
        let environment = BuildEnvironment::new(&subject, &source, "0123456789");
        let prepared =
            template::prepare(&directory, &source, &subject, &environment, &[], scratch.path());
        let Ok(prepared) = prepared else { return Ok(()) };
        for arg in &prepared.args {
            let arg = arg.to_str().unwrap_or_default();
            if let Some(path) = arg.strip_prefix("--values=") {
                prop_assert!(Path::new(path).starts_with(scratch.path()), "{arg}");
                prop_assert_eq!(std::fs::read_to_string(path).unwrap(), "a: 1\n");
                prop_assert!(!arg.contains([',', '"', '\n']), "{arg}");
            }
        }
        Ok(())
    });
}

#[test]
fn hostile_kustomizations_name_nothing_outside() {
    let (tree, _) = tree();
    check("kustomization", |text| {
        write(tree.path(), "k/kustomization.yaml", text);
        write(tree.path(), "k/a.yaml", "kind: A\n");
        let directory = SourceDirectory::new(tree.path(), "k").unwrap();
        if Referring::read(&directory).is_err() {
            return Ok(());
        }
        // What was accepted names files of the repository, as Go would read its fields.
        let documents = wavegate_api::yaml::parse_documents(text).unwrap_or_default();
        for (field, value) in documents.iter().filter_map(|one| one.value.as_object()).flatten() {
            let field: String = field.chars().flat_map(char::to_uppercase).collect();
            let field = field.replace('\u{212a}', "K");
            if field == "RESOURCES" || field == "BASES" {
                for entry in value.as_array().into_iter().flatten().filter_map(Value::as_str) {
                    let inside = directory.directory.join(entry).canonicalize();
                    let inside = inside.is_ok_and(|path| path.starts_with(&directory.root));
                    prop_assert!(inside, "{field}: {entry}");
                }
            }
        }
        Ok(())
    });
}

#[test]
fn hostile_schemas_and_charts_are_read_or_refused() {
    let (tree, directory) = tree();
    check("schema", |text| {
        write(tree.path(), "chart/values.schema.json", text);
        if chart_schema::check_schemas(&directory).is_ok()
            && let Ok(schema) = serde_json::from_str::<Value>(text)
        {
            let mut open = vec![&schema];
            let (mut references, mut names) = (Vec::new(), Vec::new());
            while let Some(value) = open.pop() {
                open.extend(value.as_array().into_iter().flatten());
                for (key, value) in value.as_object().into_iter().flatten() {
                    match (key.as_str(), value.as_str()) {
                        ("$ref", Some(text)) => references.push(text),
                        ("$id" | "id", Some(text)) => names.push(text),
                        _ => {}
                    }
                    open.push(value);
                }
            }
            for reference in references {
                let is_named =
                    names.iter().any(|name| reference.starts_with(name.trim_end_matches('#')));
                let is_outside =
                    ["file:", "/", "http://127"].iter().any(|prefix| reference.starts_with(prefix));
                prop_assert!(!is_outside || is_named, "{reference}");
            }
        }
        Ok(())
    });
    std::fs::remove_file(tree.path().join("chart/values.schema.json")).unwrap();
    check("chart", |text| {
        write(tree.path(), "chart/Chart.yaml", text);
        let missing = chart::missing(&directory);
        prop_assert!(missing.iter().all(|one| !one.name.is_empty()));
        Ok(())
    });
}

/// What a program prints is as hostile as its input (SE-103).
#[test]
fn hostile_output_is_read_or_refused() {
    check("output", |text| {
        let mut sink = Sink::new(1 << 20);
        if sink.output(text, "helm").is_ok() {
            prop_assert!(sink.manifests.iter().all(|manifest| manifest.object.is_object()));
        }
        Ok(())
    });
}

/// What a Git server answers names commits by full hashes, for each revision that is requested.
#[test]
fn hostile_listings_of_references_name_commits_or_nothing() {
    check("refs", |text| {
        let refs = Refs::parse(text);
        let names = text.lines().filter_map(|line| line.split('\t').nth(1));
        let wanted = ["", "main", "v1.x", ">=0.0.0-0 <99", "0123456", "refs/tags/a^{}"];
        for revision in wanted.into_iter().chain(names) {
            for tag_prefix in ["", "v", "app-"] {
                if let Found::One(found) = refs.find(&RevisionTarget { revision, tag_prefix }) {
                    let is_hash = found.sha.bytes().all(|byte| byte.is_ascii_hexdigit());
                    prop_assert!(is_hash && matches!(found.sha.len(), 40 | 64), "{found:?}");
                    prop_assert!(text.to_ascii_lowercase().contains(&found.sha), "{found:?}");
                }
            }
        }
        Ok(())
    });
}
