//! The list of Argo CD's settings, fields and annotations (docs/reference/argocd-settings.md):
//! each is honoured, refused, or has no effect. It is generated from `config::unused` and
//! `config::accepted`, and compared with the definitions of the resources, with the names of
//! the specification (tests/data/argocd-names.txt), and with the code that reads them.
//!
//! `WAVEGATE_WRITE_LIST=1 cargo test --test it docs::settings` writes it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use regex::Regex;
use serde_json::Value;
use wavegate_api::crds;
use wavegate_controller::config::unused::{
    ANNOTATIONS, FIELDS, REPORTED_SETTINGS, SETTINGS, Unused, UnusedEffect,
};
use wavegate_controller::config::{Config, Flags};

use super::environment::configured;
use super::markdown::root;

const PAGE: &str = "docs/reference/argocd-settings.md";

/// The text of what reads settings.
pub fn sources() -> String {
    let mut files = vec![
        root().join("crates/controller/src/config.rs"),
        root().join("crates/api/src/resource_filter.rs"),
        root().join("crates/application/src/project/unsupported.rs"),
        root().join("crates/application/src/project/global_projects.rs"),
    ];
    // The list of keys that exist reads none of them.
    let is_list = |path: &PathBuf| path.ends_with("config/keys.rs");
    let config = below(&root().join("crates/controller/src/config"));
    files.extend(config.into_iter().filter(|path| !is_list(path)));
    let unused = root().join("crates/controller/src/config/unused.txt");
    let unused = std::fs::read_to_string(unused).unwrap();
    let unused = unused.split_whitespace().map(|word| format!("\"{word}\"\n"));
    text_of(&files) + &unused.collect::<String>()
}

fn below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        match path.is_dir() {
            true if name != "tests" => found.extend(below(&path)),
            false if name.ends_with(".rs") && name != "tests.rs" => found.push(path),
            _ => {}
        }
    }
    found.sort();
    found
}

fn text_of(files: &[PathBuf]) -> String {
    files.iter().map(|path| std::fs::read_to_string(path).unwrap()).collect()
}

/// The crates that may use a field. `api` defines them; the libraries know nothing of them.
const USERS: [&str; 10] = [
    "application",
    "cluster",
    "controller",
    "engine",
    "net",
    "providers",
    "rollout",
    "sandbox",
    "simulation",
    "source",
];

/// The code that may use a field: not the definitions.
fn users() -> String {
    let mut files = below(&root().join("src"));
    for name in USERS {
        files.extend(below(&root().join("crates").join(name).join("src")));
    }
    text_of(&files)
}

/// What becomes of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Honoured,
    Not(UnusedEffect, &'static str),
}

impl State {
    fn words(self) -> [&'static str; 2] {
        match self {
            Self::Honoured => ["honoured", ""],
            Self::Not(UnusedEffect::Refused, why) => ["refused", why],
            Self::Not(UnusedEffect::None, why) => ["reported: no effect", why],
        }
    }
}

fn find(tables: &[&'static [Unused]], is: impl Fn(&str) -> bool) -> Option<State> {
    let all = tables.iter().flat_map(|table| table.iter());
    let mut found = all.filter(|one| one.names.iter().any(|name| is(name)));
    found.next().map(|one| State::Not(one.effect, one.why))
}

/// The sections of the list of names.
fn names() -> BTreeMap<String, Vec<String>> {
    let text = std::fs::read_to_string(root().join("tests/data/argocd-names.txt")).unwrap();
    let mut sections: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut section = String::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        match line.strip_prefix('#') {
            Some(title) => section = title.trim().to_owned(),
            None => {
                let name = line.split(' ').next().unwrap().to_owned();
                sections.entry(section.clone()).or_default().push(name);
            }
        }
    }
    sections
}

/// The state of a setting, an annotation or a field of a Secret; `None` when nothing reads it.
fn state(name: &str, section: &str) -> Option<State> {
    let tables = [&SETTINGS, &REPORTED_SETTINGS, &ANNOTATIONS].map(|table| &table[..]);
    if let Some(state) = find(&tables, |unused| unused == name) {
        return Some(state);
    }
    let accepted =
        wavegate_controller::config::accepted_settings().find(|(accepted, _)| *accepted == name);
    if let Some((_, why)) = accepted {
        return Some(State::Not(UnusedEffect::None, why));
    }
    let is_read = match section {
        "Variables" => configured().contains(name),
        "Keys of ConfigMaps" => {
            let short = name.strip_prefix("applicationsetcontroller.").unwrap_or(name);
            sources().contains(&format!("\"{name}\""))
                || sources().contains(&format!("\"{short}\""))
        }
        "Annotations and labels" => {
            let file = root().join("crates/api/src/annotations.rs");
            text_of(&[file]).contains(&format!("\"{name}\""))
        }
        "Fields of repository Secrets" => {
            let file = root().join("crates/controller/src/credentials.rs");
            text_of(&[file]).contains(&format!("\"{name}\""))
        }
        _ => {
            let field = name.rsplit('.').next().unwrap();
            let files = ["clusters.rs", "cluster_config.rs", "exec_credentials.rs"];
            let files = files.map(|file| root().join("crates/cluster/src/watch").join(file));
            text_of(&files).contains(&format!("\"{field}\""))
        }
    };
    is_read.then_some(State::Honoured)
}

/// The paths of the fields of a schema, without `[]`.
fn paths(schema: &Value, path: &str, all: &mut BTreeSet<String>) {
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let below = format!("{path}.{name}");
        // What is a copy of other fields, and what is under any name.
        let copy = [
            "ApplicationSet.spec.template",
            "ApplicationSet.spec.generators.matrix",
            "ApplicationSet.spec.generators.merge",
            "Application.spec.sources",
        ];
        all.insert(below.clone());
        let is_template = path.starts_with("ApplicationSet.") && name == "template";
        if !copy.contains(&below.as_str()) && !is_template {
            paths(field, &below, all);
        }
    }
    for more in ["items", "additionalProperties"] {
        if schema[more].is_object() {
            paths(&schema[more], path, all);
        }
    }
}

/// The fields that users write, by kind.
fn fields() -> BTreeMap<String, BTreeSet<String>> {
    let mut kinds = BTreeMap::new();
    for definition in crds::all_definitions() {
        let definition = serde_json::to_value(definition).unwrap();
        if definition["spec"]["group"] != wavegate_api::GROUP {
            continue;
        }
        let kind = definition["spec"]["names"]["kind"].as_str().unwrap().to_owned();
        let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let mut all = BTreeSet::new();
        paths(&schema["properties"]["spec"], &format!("{kind}.spec"), &mut all);
        kinds.insert(kind, all);
    }
    kinds
}

fn is_below(field: &str, of: &str) -> bool {
    field == of || field.strip_prefix(of).is_some_and(|rest| rest.starts_with('.'))
}

fn snake(name: &str) -> String {
    let words = name.replace("URL", "Url").replace("ID", "Id").replace("JQ", "Jq");
    let upper = Regex::new("([a-z0-9])([A-Z])").unwrap();
    upper.replace_all(&words, "${1}_$2").to_lowercase()
}

/// The page, and the names that nothing reads and no table has.
fn page() -> (String, Vec<String>) {
    let mut page = "# Settings, fields and annotations of Argo CD\n\n\
        What Wavegate does with each: *honoured*; *refused* where it is used, with a condition or an error that names it; or\n\
        *reported: no effect*, in the log and by an Event of the ConfigMap for settings, and by a condition of type `SyncWarning`\n\
        on the Applications that use a field or an annotation, as far as it could change a result. What lies below a field is as\n\
        the field; the fields of `sources` are those of `source`, and those of templates are those of Applications. Keys of Argo CD's\n\
        API server, web page, notifications, Dex and commit server are not listed and not reported; a key that does not exist is\n\
        reported, with the one that may be meant. This page is generated.\n"
        .to_owned();
    let mut unread = Vec::new();
    let row = |page: &mut String, name: &str, state: State| {
        let [state, why] = state.words();
        writeln!(page, "| `{name}` | {state} | {why} |").unwrap();
    };
    let names = names();
    for section in [
        "Variables",
        "Keys of ConfigMaps",
        "Annotations and labels",
        "Fields of cluster Secrets",
        "Fields of repository Secrets",
    ] {
        write!(page, "\n## {section}\n\n| name | state | note |\n|---|---|---|\n").unwrap();
        for name in &names[section] {
            match state(name, section) {
                Some(state) => {
                    let shown = if name.ends_with('.') { format!("{name}*") } else { name.clone() };
                    row(&mut page, &shown, state);
                }
                None => unread.push(name.clone()),
            }
        }
    }
    let users = users();
    let words: BTreeSet<&str> = Regex::new("[A-Za-z_][A-Za-z0-9_]*")
        .unwrap()
        .find_iter(&users)
        .map(|m| m.as_str())
        .collect();
    for (kind, all) in fields() {
        write!(page, "\n## Fields of {kind}s\n\n| name | state | note |\n|---|---|---|\n").unwrap();
        for field in &all {
            let unused = FIELDS.iter().flat_map(|one| &one.names).find(|of| is_below(field, of));
            match unused {
                Some(of) if of == field => {
                    let state = find(&[&FIELDS[..]], |name| name == field).unwrap();
                    row(&mut page, field, state);
                }
                Some(_) => {}
                None => {
                    let name = field.rsplit('.').next().unwrap();
                    match words.contains(name) || words.contains(snake(name).as_str()) {
                        true => row(&mut page, field, State::Honoured),
                        false => unread.push(field.clone()),
                    }
                }
            }
        }
    }
    (page, unread)
}

/// Nothing of Argo CD's is read nowhere without a word (AS-501, SE-078, SE-163, SE-422, SE-442,
/// SE-570, SE-576): the list of the reference is complete and up to date.
#[test]
fn every_setting_and_field_of_argo_cd_is_honoured_refused_or_reported_as_501() {
    let (page, unread) = page();
    assert!(unread.is_empty(), "nothing reads these, and config/unused.txt lacks: {unread:#?}");
    let path = root().join(PAGE);
    if std::env::var_os("WAVEGATE_WRITE_LIST").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == page, "{PAGE} is stale; run this test with WAVEGATE_WRITE_LIST=1");
}

/// The configuration that a ConfigMap with these keys gives.
fn with_keys<'a>(keys: impl IntoIterator<Item = (&'a str, &'a str)>) -> Config {
    let keys = keys.into_iter().map(|(key, text)| (key.to_owned(), text.to_owned())).collect();
    Config::resolve(Flags::default(), &|_| None, &keys).unwrap()
}

/// The end of the name of a group, such as a version.
fn example(name: &str) -> String {
    if name.ends_with('.') { format!("{name}x") } else { name.to_owned() }
}

/// AS-501, SE-560 to SE-579: all keys of Argo CD's ConfigMaps are known. One without effect is
/// reported, one of another program is not, and one that does not exist is reported with what
/// may be meant.
#[test]
fn every_key_of_argo_cd_is_known_and_others_are_reported_as_501() {
    let names = names();
    let (own, others) = (&names["Keys of ConfigMaps"], &names["Keys of other programs"]);
    assert!(own.len() > 140 && others.len() > 80, "{} {}", own.len(), others.len());
    let all: Vec<String> = own.iter().chain(others).map(|name| example(name)).collect();
    let warnings = with_keys(all.iter().map(|key| (key.as_str(), ""))).warnings;
    let unknown: Vec<_> = warnings.iter().filter(|line| line.contains("is no setting")).collect();
    assert!(unknown.is_empty(), "{unknown:#?}");
    let set = |key: &String| match key.as_str() {
        // Values that make no sense end the start.
        "applicationsetcontroller.policy" => "sync",
        "redis.compression" => "gzip",
        _ => "1",
    };
    let config = with_keys(all.iter().map(|key| (key.as_str(), set(key))));
    let reported = |key: &str| {
        let start = format!("{key} is accepted without effect: ");
        config.without_effect.iter().filter(|line| line.starts_with(&start)).count()
    };
    for name in own {
        let is_honoured = state(name, "Keys of ConfigMaps") == Some(State::Honoured);
        assert_eq!(reported(&example(name)), usize::from(!is_honoured), "{name}");
    }
    for name in others {
        assert_eq!(reported(&example(name)), 0, "{name}");
        // A single word may stand for something else there.
        let is_read = name.contains('.') && sources().contains(&format!("\"{name}\""));
        assert!(!is_read, "{name} is read");
    }

    let typos = [
        ("reposerver.include.hiden.directories", "reposerver.include.hidden.directories"),
        ("controller.sync.timeout.second", "controller.sync.timeout.seconds"),
        ("applicationsetcontroller.polcy", "applicationsetcontroller.policy"),
        ("Application.instanceLabelKey", "application.instanceLabelKey"),
        ("kustomize.versions.v5", "kustomize.version."),
        ("zzz", ""),
        ("ARGOCD_GIT_REQUEST_TIMEOUT", ""),
    ];
    for (typo, meant) in typos {
        let mut warnings = with_keys([(typo, "1")]).warnings;
        assert_eq!(warnings.len(), 1, "{typo}: {warnings:?}");
        let warning = warnings.remove(0);
        assert!(warning.starts_with(&format!("{typo} is no setting of Argo CD")), "{warning}");
        let suggests = warning.contains("did you mean");
        assert_eq!(suggests, !meant.is_empty() && !meant.ends_with('.'), "{warning}");
        assert!(meant.ends_with('.') || warning.contains(meant), "{warning}");
    }
    let many: Vec<String> = (0..10_000).map(|number| format!("zzz{number}")).collect();
    let warnings = with_keys(many.iter().map(|key| (key.as_str(), "1"))).warnings;
    assert_eq!(warnings.len(), 21, "{warnings:?}");
    assert_eq!(warnings[20], "9980 more keys of the ConfigMaps are no settings");
}

/// The tables have no name that Argo CD does not have.
#[test]
fn the_tables_name_what_exists() {
    let known: BTreeSet<String> = names().into_values().flatten().collect();
    let tables = [&SETTINGS, &REPORTED_SETTINGS, &ANNOTATIONS].map(|table| &table[..]);
    let named = tables.iter().flat_map(|table| table.iter()).flat_map(|one| &one.names);
    let unknown: Vec<_> = named.filter(|name| !known.contains(**name)).collect();
    assert!(unknown.is_empty(), "tests/data/argocd-names.txt lacks {unknown:?}");
    let fields: BTreeSet<String> = fields().into_values().flatten().collect();
    let named = FIELDS.iter().flat_map(|one| &one.names);
    let unknown: Vec<_> = named.filter(|name| !fields.contains(**name)).collect();
    assert!(unknown.is_empty(), "the definitions lack {unknown:?}");
    let accepted = wavegate_controller::config::accepted_settings().map(|(name, _)| name);
    let unknown: Vec<_> = accepted.filter(|name| !known.contains(*name)).collect();
    assert!(unknown.is_empty(), "tests/data/argocd-names.txt lacks {unknown:?}");
}
