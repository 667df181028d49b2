//! The files: what a control plane held at one moment, and the commits that it had read.

use std::fmt::{self, Write as _};
use std::path::PathBuf;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::support::Definitions;

/// Where the records are: `RELEASE/DEFINITIONS/SCENARIO.json`.
pub const RELEASES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/continued");

/// The definitions under which each scenario is recorded, and their folders.
pub const DEFINITIONS: [(Definitions, &str); 2] =
    [(Definitions::Ours, "ours"), (Definitions::ArgoCd, "argo-cd")];

/// A commit of the repository.
#[derive(Clone, Debug)]
pub struct Commit {
    pub message: String,
    pub revision: String,
    /// Paths and contents.
    pub files: Vec<(String, String)>,
}

/// A record.
#[derive(Clone, Debug)]
pub struct Recorded {
    pub release: String,
    pub scenario: String,
    pub definitions: Definitions,
    /// The moment.
    pub at: Timestamp,
    pub commits: Vec<Commit>,
    /// Everything that the server held but the definitions, as it was stored.
    pub objects: Vec<Value>,
}

impl fmt::Display for Recorded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} under {:?}", self.scenario, self.release, self.definitions)
    }
}

/// All records.
pub fn files() -> Vec<PathBuf> {
    let folders = |path: PathBuf| {
        let entries =
            std::fs::read_dir(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let mut entries: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        entries.sort();
        entries
    };
    folders(RELEASES.into()).into_iter().flat_map(folders).flat_map(folders).collect()
}

impl Recorded {
    /// The records of a scenario, oldest release first.
    pub fn of(scenario: &str) -> Vec<Self> {
        let name = format!("{scenario}.json");
        let files = files().into_iter().filter(|path| path.ends_with(&name));
        let found: Vec<Self> = files.map(|path| Self::read(&path)).collect();
        assert!(!found.is_empty(), "no record of {scenario}; see tests/record");
        found
    }

    fn read(path: &std::path::Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap();
        let value: Value = serde_json::from_str(&text).unwrap();
        let folder = path.parent().unwrap().file_name().unwrap();
        let definitions = DEFINITIONS.into_iter().find(|(_, name)| folder == *name);
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let commits = value["commits"].as_array().unwrap().iter().map(|commit| Commit {
            message: text(&commit["message"]),
            revision: text(&commit["revision"]),
            files: (commit["files"].as_object().unwrap().iter())
                .map(|(path, content)| (path.clone(), text(content)))
                .collect(),
        });
        Self {
            release: text(&value["release"]),
            scenario: text(&value["scenario"]),
            definitions: definitions.expect("a folder of definitions").0,
            at: text(&value["at"]).parse().unwrap(),
            commits: commits.collect(),
            objects: value["objects"].as_array().unwrap().clone(),
        }
    }

    /// Writes it, an object per line, so that two releases can be compared.
    pub fn write(&self) {
        let folder = DEFINITIONS.into_iter().find(|(of, _)| *of == self.definitions).unwrap().1;
        let folder = PathBuf::from(RELEASES).join(&self.release).join(folder);
        std::fs::create_dir_all(&folder).unwrap();
        let mut text = String::from("{\n");
        for (key, value) in [
            ("release", json!(self.release)),
            ("scenario", json!(self.scenario)),
            ("at", json!(self.at.to_string())),
        ] {
            let _ = writeln!(text, " \"{key}\": {value},");
        }
        let lines = |lines: Vec<String>| lines.join(",\n  ");
        let commits = self.commits.iter().map(|commit| {
            let files: serde_json::Map<String, Value> =
                commit.files.iter().map(|(path, text)| (path.clone(), json!(text))).collect();
            json!({ "message": commit.message, "revision": commit.revision, "files": files })
                .to_string()
        });
        let _ = writeln!(text, " \"commits\": [\n  {}\n ],", lines(commits.collect()));
        let objects = self.objects.iter().map(Value::to_string).collect();
        let _ = writeln!(text, " \"objects\": [\n  {}\n ]\n}}", lines(objects));
        std::fs::write(folder.join(format!("{}.json", self.scenario)), text).unwrap();
    }

    /// The revision of the commit with this message, such as `v2`.
    pub fn revision(&self, message: &str) -> &str {
        let commit = self.commits.iter().find(|commit| commit.message == message);
        &commit.unwrap_or_else(|| panic!("no commit {message}")).revision
    }

    /// An object of the record, by kind and name; an Application without its suffix.
    pub fn object(&self, kind: &str, name: &str) -> &Value {
        let name = |object: &Value| {
            let found = object["metadata"]["name"].as_str().unwrap_or_default();
            found == name || (kind == "Application" && found == format!("{name}--0"))
        };
        let mut all = self.objects.iter().filter(|object| object["kind"] == kind);
        all.find(|object| name(object)).unwrap_or_else(|| panic!("{self}: no such {kind}"))
    }

    /// The last run.
    pub fn run(&self) -> &Value {
        let runs = self.objects.iter().filter(|object| object["kind"] == "RolloutRun");
        runs.max_by_key(|run| run["metadata"]["name"].as_str()).expect("a run")
    }
}
