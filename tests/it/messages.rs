//! Nothing decides by the words of a message. What still does is listed here, with the
//! reason; a new place fails the test.

use std::collections::BTreeSet;
use std::path::Path;

use regex::Regex;

/// Places that read a text: the file below `src`, what is looked for, and why no field has it
/// it.
const READERS: [(&str, &str, &str); 27] = [
    // Argo CD's definitions of the two kinds have no field for it.
    ("decide/rollout/held.rs", "RUNNING", "the message of an entry in `applicationStatus`"),
    ("decide/rollout/held.rs", "SINCE", "the same"),
    ("decide/rollout/status.rs", "EARLIER", "the same"),
    ("decide/application_set/rollout_storage.rs", "PREFIX", "the message of a condition"),
    ("decide/application_set/observe.rs", "windows::BLOCKED", "`operationState.message`"),
    ("decide/blocking_resource.rs", "FAILED", "`operationState.message`"),
    ("decide/blocking_resource/kept.rs", "WAITS_FOR_CONFIRMATION", "`operationState.message`"),
    ("decide/blocking_resource/attempt.rs", "Retrying operation", "`operationState.message`"),
    ("decide/blocking_resource/attempt.rs", ". Retrying attempt #", "`operationState.message`"),
    ("decide/blocking_resource/kept.rs", "no prune", "the message of a result"),
    ("decide/sync/messages.rs", "(dry run)", "the message of a result"),
    ("decide/application_set/shown.rs", "WAITING", "`operationState.message`"),
    ("decide/application_set/shown.rs", ", since ", "`operationState.message`"),
    ("decide/application_set/shown.rs", "completion of hook ", "`operationState.message`"),
    ("decide/application_set/shown.rs", "healthy state of ", "`operationState.message`"),
    ("cli/sync/result.rs", ", reason: ", "`operationState.message`"),
    ("cli/sync/directory.rs", "Failed to load live state: ", "the message of a condition"),
    ("cli/sync/directory.rs", "Failed to load target state: ", "the message of a condition"),
    ("cli/explain/advice.rs", "WAITS_FOR_APPROVAL", "the message of a condition"),
    ("cli/sync/progress.rs", "AGAIN", "`operationState.message`"),
    // The words of other programs.
    ("cli/explain/advice.rs", "exited with code", "of a kubelet"),
    ("cli/explain/advice.rs", "namespaces \\\"", "of an API server"),
    ("cli/explain/advice.rs", " not found", "of an API server"),
    (
        "decide/sync/messages.rs",
        "metadata.annotations: Too long: must have at most 262144 bytes",
        "of an API server",
    ),
    ("decide/application_set/shape.rs", "invalid type: ", "of serde"),
    ("decide/application_set/shape.rs", ", expected ", "of serde"),
    ("decide/application_set/shape.rs", "struct ", "of serde"),
];

/// Texts that are no messages: names, keys and formats.
const NO_MESSAGE: [&str; 10] =
    ["<no value>", "ELEMENT", "LINK", "ANY", "PREFIX", "kubectl ", "Secret ", "Basic ", " (", ": "];

/// What looks like the reading of a message: a constant, or a text with a space.
fn readers(source: &str) -> BTreeSet<String> {
    let methods = "starts_with|ends_with|contains|strip_prefix|strip_suffix|split_once|rsplit_once";
    let constant = r"&?((?:[a-z_]+::)*[A-Z][A-Z_]{2,})\)";
    let text = r#""((?:[^"\\]|\\.)* (?:[^"\\]|\\.)*)"\)"#;
    let pattern = Regex::new(&format!(r"\.(?:{methods})\(\s*(?:{constant}|{text})")).unwrap();
    let found = pattern.captures_iter(source);
    found.filter_map(|found| found.get(1).or(found.get(2))).map(|m| m.as_str().to_owned()).collect()
}

fn below(dir: &Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "tests" {
            below(&path, found);
        } else if name.ends_with(".rs") && name != "tests.rs" {
            found.push(path);
        }
    }
}

#[test]
fn no_decision_depends_on_the_words_of_a_message() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    for folder in ["cli", "controller", "decide"] {
        below(&root.join(folder), &mut files);
    }
    let mut found = BTreeSet::new();
    for path in files {
        let source = std::fs::read_to_string(&path).unwrap();
        let source = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let file = path.strip_prefix(&root).unwrap().to_string_lossy().into_owned();
        found.extend(readers(source).into_iter().map(|what| (file.clone(), what)));
    }
    let listed = READERS.iter().map(|(file, what, _)| (*file, *what));
    let listed: BTreeSet<(String, String)> =
        listed.map(|(file, what)| (file.to_owned(), what.to_owned())).collect();
    let is_message =
        |one: &&(String, String)| !NO_MESSAGE.contains(&one.1.as_str()) || listed.contains(one);
    let new: Vec<_> = found.difference(&listed).filter(is_message).collect();
    assert!(new.is_empty(), "read a field instead, or list it with the reason: {new:#?}");
    let gone: Vec<_> = listed.difference(&found).collect();
    assert!(gone.is_empty(), "listed, and not there any more: {gone:#?}");
}

#[test]
fn the_check_detects_readers() {
    let found = readers(r#"a.starts_with(HELD); b.contains("is running now"); c.contains("x")"#);
    assert_eq!(found.into_iter().collect::<Vec<_>>(), ["HELD", "is running now"]);
}
