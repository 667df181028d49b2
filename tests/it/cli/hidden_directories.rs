//! Directories whose names start with a dot, in git generators.

use super::generators::{LOCAL, run, template, with_template};
use super::*;

/// AS-092: hidden directories count with the option, at each level; what Git keeps for itself
/// never does.
#[test]
fn hidden_directories_count_when_they_are_asked_for_as_092() {
    let folder = tempfile::tempdir().unwrap();
    for path in ["one/.deep", ".two", "three/.git/objects", "four/.Git"] {
        std::fs::create_dir_all(folder.path().join(path)).unwrap();
    }
    let generators = json!([{"git": {
        "repoURL": folder.path().display().to_string(), "revision": "HEAD",
        "directories": [{"path": "*"}, {"path": "*/*"}],
    }}]);
    let set = with_template(
        generators,
        template("app-{{.path.basenameNormalized}}", "{{.path.path}}", LOCAL),
    );
    let paths = |flags: &[&str]| {
        let run = run(&[&["render", "-f", "-", "-o", "json"], flags].concat(), &set, &[]);
        assert_eq!(run.code, 0, "{}", run.err);
        let items = run.json()["items"].as_array().unwrap().clone();
        let paths = items.iter().map(|app| app["spec"]["source"]["path"].as_str().unwrap());
        paths.map(str::to_owned).collect::<std::collections::BTreeSet<_>>()
    };
    let names = |all: &[&str]| all.iter().map(|name| (*name).to_owned()).collect();
    let without: std::collections::BTreeSet<String> = names(&["four", "one", "three"]);
    assert_eq!(paths(&[]), without);
    assert_eq!(paths(&["--include-hidden-directories=false"]), without);
    let with: std::collections::BTreeSet<String> =
        names(&[".two", "four", "one", "one/.deep", "three"]);
    assert_eq!(paths(&["--include-hidden-directories"]), with);
}
