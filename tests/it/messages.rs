//! Nothing decides by the words of a message. What still does is listed here, with the
//! reason; a new place fails the test.

use std::collections::BTreeSet;
use std::path::Path;

use regex::Regex;

/// Places that read a message: the file, without `crates` and `src`, what is looked for, and why no field has it.
const READERS: [(&str, &str, &str); 46] = [
    // Argo CD's definitions of the two kinds have no field for it.
    (
        "rollout/rollout/manual_override.rs",
        "RUNNING",
        "the message of an entry in `applicationStatus`",
    ),
    ("rollout/rollout/manual_override.rs", "SINCE", "the same"),
    ("rollout/rollout/status.rs", "EARLIER", "the same"),
    ("rollout/rollout/status.rs", "start", "the same"),
    ("rollout/rollout/status.rs", ": ", "the same"),
    ("rollout/rollout/entry.rs", "mark.prefix()", "the same"),
    (
        "rollout/application_set/rollout_io/rollout_storage.rs",
        "PREFIX",
        "the message of a condition",
    ),
    ("rollout/application_set/deletion/deletion_guard.rs", "COMMAND", "the message of a condition"),
    ("rollout/application_set/plan/observe.rs", "windows::BLOCKED", "`operationState.message`"),
    ("engine/blocking_resource.rs", "FAILED", "`operationState.message`"),
    ("engine/blocking_resource.rs", ": ", "`operationState.message`"),
    ("engine/blocking_resource.rs", "WAITS_FOR_CONFIRMATION", "`operationState.message`"),
    ("engine/blocking_resource/attempt.rs", "Retrying operation", "`operationState.message`"),
    ("engine/blocking_resource/attempt.rs", ". Retrying attempt #", "`operationState.message`"),
    ("engine/blocking_resource/kept.rs", "no prune", "the message of a result"),
    ("engine/sync/messages.rs", "(dry run)", "the message of a result"),
    // Argo CD's definition has no field for it in a result.
    ("engine/sync/unlisted.rs", "WORDS", "the message of a result"),
    ("engine/sync/unlisted.rs", "; ", "the message of a result"),
    ("rollout/application_set/status/report_input.rs", "WAITING", "`operationState.message`"),
    ("rollout/application_set/status/report_input.rs", ", since ", "`operationState.message`"),
    (
        "rollout/application_set/status/report_input.rs",
        "completion of hook ",
        "`operationState.message`",
    ),
    (
        "rollout/application_set/status/report_input.rs",
        "healthy state of ",
        "`operationState.message`",
    ),
    ("cli/sync/result.rs", ", reason: ", "`operationState.message`"),
    ("cli/sync/directory.rs", "Failed to load live state: ", "the message of a condition"),
    ("cli/sync/directory.rs", "Failed to load target state: ", "the message of a condition"),
    ("cli/explain/advice.rs", "WAITS_FOR_APPROVAL", "the message of a condition"),
    ("cli/explain/remedies.rs", "words", "the messages of conditions"),
    ("cli/explain/remedies.rs", " of global project ", "the rule in a condition or a wait"),
    ("cli/explain/advice.rs", "GLOBAL_PROJECTS", "the message of a wait"),
    ("cli/sync/progress.rs", "AGAIN", "`operationState.message`"),
    // What is printed already is not printed again.
    ("cli/sync/result.rs", "one.message.as_str()", "`operationState.message`"),
    ("engine/blocking_resource.rs", "resource.message", "`operationState.message`"),
    // What a status says already is not said again; a list in it is of texts.
    ("rollout/rollout/run/without_effect.rs", "begin", "`status.withoutEffect` of a run"),
    // A signature is a message without what differs between Applications.
    ("rollout/rollout/run/signature.rs", "name", "the message of a failure"),
    ("rollout/rollout/run/signature.rs", "word", "the message of a failure"),
    // The words of other programs.
    ("cli/explain/remedies.rs", "exited with code", "of a kubelet"),
    ("cli/explain/remedies.rs", "namespaces \\\"", "of an API server"),
    ("cli/explain/remedies.rs", "quota", "of an API server"),
    ("cli/crds.rs", "names", "of an API server"),
    ("cli/tree/read.rs", "forbidden", "of an API server"),
    ("engine/health/pod.rs", "BackOff", "the reason of a kubelet"),
    ("cli/explain/remedies.rs", " not found", "of an API server"),
    (
        "engine/sync/messages.rs",
        "metadata.annotations: Too long: must have at most 262144 bytes",
        "of an API server",
    ),
    ("rollout/application_set/generate/shape.rs", "invalid type: ", "of serde"),
    ("rollout/application_set/generate/shape.rs", ", expected ", "of serde"),
    ("rollout/application_set/generate/shape.rs", "struct ", "of serde"),
];

/// Texts that are no messages, such as names, keys and addresses: the file, and what is looked
/// for.
const NO_MESSAGE: [(&str, &[&str]); 54] = [
    ("cli/console/completions.rs", &["--", "option"]),
    ("cli/demo/files.rs", &["../", "./", "file://", "{{"]),
    ("cli/demo/update.rs", &["file://"]),
    ("cli/explain/advice.rs", &["Secret "]),
    ("cli/files/work_tree.rs", &["://", "file://", "gitdir:", "path", "self.directory"]),
    ("cli/console/output.rs", &["mark"]),
    ("cli/plan/report.rs", &["field"]),
    ("cli/plan/trial.rs", &["repoURL", "{{"]),
    ("cli/refresh.rs", &["Error", "prefix"]),
    ("cli/rollout_view/sentence.rs", &[" ("]),
    ("cli/simulate/frozen.rs", &["{{"]),
    ("cli/sync/directory.rs", &["Error"]),
    (
        "controller/application_set/mod.rs",
        &["r#\"\"generation\":\"#", "r#\"\"reconciledAt\":\"\"#", "r#\"\"resourceVersion\":\"\"#"],
    ),
    ("controller/credentials.rs", &["://", "oci://", "prefix"]),
    ("application/compare/children.rs", &[".k8s.io", "owner.name.as_str()"]),
    ("application/deletion/delete_hooks.rs", &["deletion_id(application)"]),
    ("application/project/impersonation.rs", &["is_odd"]),
    ("application/project/pruned_fields.rs", &["field"]),
    ("application/project/mod.rs", &[".git", "://", "oci://", "own", "prefix"]),
    ("engine/external_urls.rs", &["://", "LINK"]),
    ("application/status/warnings.rs", &["prefix"]),
    ("rollout/application_set/deletion/deletion_guard.rs", &["CLUSTER_SECRETS", "place"]),
    ("rollout/application_set/generate/generated.rs", &["RESOURCES_FINALIZER"]),
    ("rollout/application_set/generate/generator_history.rs", &["ELEMENT", "]."]),
    // Digests, as the status of a run has them.
    ("rollout/rollout/run/admitted.rs", &["PARTS"]),
    ("rollout/rollout/run/quarantine.rs", &["NUMBER"]),
    ("rollout/rollout/run/target_set.rs", &["PACKED"]),
    ("rollout/application_set/plan/patch.rs", &["operation"]),
    ("rollout/application_set/generate/preserve.rs", &["prefix"]),
    ("rollout/application_set/generate/shape.rs", &["<no value>", "{{", "}}"]),
    ("application/argocd_cache/network.rs", &["Route"]),
    ("engine/diff/fields.rs", &["k:", "v:"]),
    ("engine/diff/ignore.rs", &["f:", "i:", "k:", "start", "v:"]),
    ("engine/diff/jq/selection.rs", &["end", "part", "start"]),
    ("engine/diff/jq/selection/parse.rs", &["starts_word"]),
    ("engine/diff/keys.rs", &["spec"]),
    ("engine/diff/mask.rs", &["applied", "original"]),
    ("engine/diff/merge.rs", &["elector"]),
    // Reasons and phases of unknown controllers, and the language of the rules.
    ("engine/health/generic.rs", &["Failed", "No", "Not", "Un", "end", "start", "word"]),
    ("engine/health/phases.rs", &["end", "failed", "inprogress", "notready", "pending", "start"]),
    ("engine/health/pod.rs", &["Err", "Error"]),
    ("engine/health/reported_words.rs", &["char::is_uppercase"]),
    (
        "engine/health/table/parse.rs",
        &[
            " (",
            " -> ",
            "!=",
            "# ",
            "' ",
            "-> ",
            "<=",
            ">=",
            "define ",
            "each ",
            "full ",
            "stale ",
            "sum ",
            "unobserved ",
            "use ",
            "word",
            "{use ",
        ],
    ),
    ("engine/resource_tree.rs", &["self.key.name.as_str()", "template.as_str()"]),
    ("rollout/rollout/steps.rs", &["spec.strategy.rollingSync.steps["]),
    ("engine/sync/hooks.rs", &["operation", "uid"]),
    ("rollout/webhook/applications.rs", &["folder"]),
    ("rollout/webhook/bitbucket.rs", &["/projects/", "/repos/", "pr:", "pullrequest:"]),
    ("rollout/webhook/generators.rs", &["refs/", "suffix"]),
    ("rollout/webhook/mod.rs", &["kind", "refs/heads/", "refs/tags/"]),
    (
        "rollout/webhook/repository.rs",
        &[
            ".visualstudio.com",
            "ANY",
            "defaultcollection/",
            "first",
            "last",
            "prefix",
            "v3/",
            "{{",
            "}}",
        ],
    ),
    ("rollout/webhook/secrets.rs", &["Basic ", "sha1=", "sha256="]),
    ("rollout/requests/awaited.rs", &["meant.as_str()"]),
    ("engine/windows/cron.rs", &["CRON_TZ=", "TZ="]),
];

/// What a source looks for in texts: literals of several characters, constants and variables. A
/// variable that something `contains` counts in what is named like a message only, since
/// collections have the same method.
fn readers(source: &str) -> BTreeSet<String> {
    let methods = "starts_with|ends_with|contains|strip_prefix|strip_suffix|split_once|rsplit_once";
    let literal = r##""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)+'"##;
    let argument = format!(r"{literal}|[|\[]|[^()]*(?:\([^()]*\))?");
    let receiver = r##"(\w*)["')\]]*\s*"##;
    let pattern = Regex::new(&format!(r"{receiver}\.({methods})\(\s*({argument})")).unwrap();
    let constant = Regex::new(r"^(?:\w+::)*[A-Z][A-Z_]+$").unwrap();
    let message = Regex::new("message|reason|text|why|error|title|cause").unwrap();
    let mut found = BTreeSet::new();
    for [receiver, method, argument] in pattern.captures_iter(source).map(|one| one.extract().1) {
        if argument.starts_with(['\'', '|', '[']) {
            continue;
        }
        if let Some(text) = argument.strip_prefix('"') {
            let text = text.strip_suffix('"').unwrap_or(text);
            if text.trim_start_matches('\\').chars().count() > 1 {
                found.insert(text.to_owned());
            }
            continue;
        }
        let name = argument.trim().trim_end_matches(',').trim_start_matches(['&', '*']);
        if method != "contains" || constant.is_match(name) || message.is_match(receiver) {
            found.insert(name.to_owned());
        }
    }
    found
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

fn is_in(path: &Path, room: &str) -> bool {
    path.iter().any(|part| part == room)
}

#[test]
fn no_decision_depends_on_the_words_of_a_message() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    below(&root.join("src/cli"), &mut files);
    for name in ["controller", "engine", "application", "rollout"] {
        below(&root.join("crates").join(name).join("src"), &mut files);
    }
    // What users write is text: settings, generators and templates.
    files.retain(|path| !["config", "config.rs", "desired"].iter().any(|room| is_in(path, room)));
    let mut found = BTreeSet::new();
    for path in files {
        let source = std::fs::read_to_string(&path).unwrap();
        let source = source.split("\nmod tests {").next().unwrap_or_default();
        let file = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
        let file = file.replacen("crates/", "", 1).replacen("src/", "", 1);
        found.extend(readers(source).into_iter().map(|what| (file.clone(), what)));
    }
    let is_none = NO_MESSAGE.iter().flat_map(|(file, all)| all.iter().map(|what| (*file, *what)));
    let listed = READERS.iter().map(|(file, what, _)| (*file, *what)).chain(is_none);
    let listed: BTreeSet<(String, String)> =
        listed.map(|(file, what)| (file.to_owned(), what.to_owned())).collect();
    let new: Vec<_> = found.difference(&listed).collect();
    assert!(new.is_empty(), "read a field instead, or list it with the reason: {new:#?}");
    let gone: Vec<_> = listed.difference(&found).collect();
    assert!(gone.is_empty(), "listed, and not there any more: {gone:#?}");
}

#[test]
fn the_check_detects_readers() {
    let found = readers(
        r#"a.starts_with(HELD); b.contains("is running now"); c.contains("x"); d.contains('y');
        found.message.strip_prefix(&start); item.field("message").contains(words);
        names.contains(&name); e.strip_suffix(
            ending(f),
        );"#,
    );
    let found: Vec<String> = found.into_iter().collect();
    assert_eq!(found, ["HELD", "ending(f)", "is running now", "start", "words"]);
}
