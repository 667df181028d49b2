//! Imports follow the arrow: facts in, decisions, effects out.
//!
//! Parses the source text, including disabled code, and reports the line. Unit tests may
//! use anything.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The libraries of this workspace. What they may use is what their manifests name.
const LIBRARIES: [&str; 3] = ["gotemplate", "gotime", "kube_sim"];

/// A module of the crate, and the modules and libraries it may use. Modules that are not
/// listed, such as the command line, may use everything.
const MAY_NAME: [(&str, &[&str]); 27] = [
    ("glob", &[]),
    ("redact", &[]),
    ("repository", &[]),
    ("yaml", &[]),
    ("jwt", &[]),
    ("tls", &[]),
    ("token_cache", &[]),
    ("api", &["glob", "yaml"]),
    ("openapi", &["api"]),
    ("desired", &["api", "gotemplate", "yaml"]),
    ("decide", &["api", "desired", "glob", "gotime", "repository"]),
    ("watch", &["api", "clock", "openapi", "redact"]),
    ("confined", &[]),
    ("connect", &[]),
    ("evaluator", &["confined", "decide"]),
    (
        "source",
        &[
            "api",
            "confined",
            "connect",
            "glob",
            "jwt",
            "redact",
            "repository",
            "tls",
            "token_cache",
            "yaml",
        ],
    ),
    (
        "providers",
        &[
            "api",
            "clock",
            "connect",
            "desired",
            "jwt",
            "redact",
            "settings",
            "tls",
            "token_cache",
            "watch",
        ],
    ),
    ("act", &["api", "clock", "decide", "desired", "openapi", "redact", "tls", "watch"]),
    ("clock", &[]),
    ("entropy", &["clock", "gotemplate"]),
    ("terminal", &[]),
    ("serve", &[]),
    ("telemetry", &["redact", "terminal"]),
    ("settings", &["api", "decide", "desired", "evaluator", "glob", "source"]),
    (
        "config",
        &[
            "api",
            "confined",
            "decide",
            "desired",
            "evaluator",
            "glob",
            "gotime",
            "settings",
            "source",
            "telemetry",
            "yaml",
        ],
    ),
    (
        "simulation",
        &["act", "api", "clock", "config", "controller", "decide", "kube_sim", "source", "watch"],
    ),
    (
        "controller",
        &[
            "act",
            "api",
            "entropy",
            "clock",
            "confined",
            "decide",
            "desired",
            "evaluator",
            "glob",
            "gotemplate",
            "providers",
            "redact",
            "repository",
            "settings",
            "source",
            "watch",
            "yaml",
        ],
    ),
];

/// Decisions: no client, no clock, no files, no async.
const PURE: [&str; 8] =
    ["api", "openapi", "desired", "decide", "glob", "gotemplate", "gotime", "repository"];

/// Paths that pure modules must not use. A `*` matches any segment.
const IMPURE: [&[&str]; 16] = [
    &["kube", "Client"],
    &["kube", "Api"],
    &["kube", "client"],
    &["kube", "runtime"],
    &["kube", "config"],
    &["tokio"],
    &["std", "fs"],
    &["std", "env"],
    &["std", "net", "TcpListener"],
    &["std", "net", "TcpStream"],
    &["std", "net", "UdpSocket"],
    &["std", "process"],
    &["std", "thread"],
    &["std", "time", "Instant"],
    &["std", "time", "SystemTime"],
    &["*", "now"],
];

/// Types without which kube writes nothing: only `act` may use them.
const WRITES: [&str; 6] =
    ["DeleteParams", "EvictParams", "Patch", "PatchParams", "PostParams", "Preconditions"];

/// A token of Rust, with its line.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Token {
    text: String,
    line: usize,
}

/// Splits Rust into tokens, without comments, strings and white space.
fn tokens(source: &str) -> Vec<Token> {
    let chars: Vec<char> = source.chars().collect();
    let (mut at, mut line) = (0, 1);
    let mut tokens = Vec::new();
    let starts = |at: usize, text: &str| {
        text.chars().enumerate().all(|(i, c)| chars.get(at + i) == Some(&c))
    };
    while at < chars.len() {
        let c = chars[at];
        let begin = at;
        if c.is_whitespace() {
            at += 1;
        } else if starts(at, "//") {
            while at < chars.len() && chars[at] != '\n' {
                at += 1;
            }
        } else if starts(at, "/*") {
            let mut depth = 0;
            loop {
                if starts(at, "/*") {
                    depth += 1;
                    at += 2;
                } else if starts(at, "*/") {
                    depth -= 1;
                    at += 2;
                } else {
                    at += 1;
                }
                if depth == 0 || at >= chars.len() {
                    break;
                }
            }
        } else if let Some(hashes) = raw_text(&chars, at) {
            let end: String = format!("\"{}", "#".repeat(hashes));
            while chars[at] != '"' {
                at += 1;
            }
            at += 1;
            while at < chars.len() && !starts(at, &end) {
                at += 1;
            }
            at += end.chars().count();
        } else if c == '"' {
            at += 1;
            while at < chars.len() && chars[at] != '"' {
                at += if chars[at] == '\\' { 2 } else { 1 };
            }
            at += 1;
        } else if c == '\''
            && (chars.get(at + 1) == Some(&'\\') || chars.get(at + 2) == Some(&'\''))
        {
            // A character literal, not a lifetime.
            at += if chars[at + 1] == '\\' { 3 } else { 2 };
            while at < chars.len() && chars[at] != '\'' {
                at += 1;
            }
            at += 1;
        } else if c.is_alphanumeric() || c == '_' {
            while at < chars.len() && (chars[at].is_alphanumeric() || chars[at] == '_') {
                at += 1;
            }
            tokens.push(Token { text: chars[begin..at].iter().collect(), line });
        } else if starts(at, "::") {
            at += 2;
            tokens.push(Token { text: "::".to_owned(), line });
        } else {
            at += 1;
            tokens.push(Token { text: c.to_string(), line });
        }
        line += chars[begin..at.min(chars.len())].iter().filter(|c| **c == '\n').count();
    }
    tokens
}

/// The number of `#` of a raw string that starts here.
fn raw_text(chars: &[char], at: usize) -> Option<usize> {
    let mut next = at;
    if chars.get(next) == Some(&'b') {
        next += 1;
    }
    if chars.get(next) != Some(&'r') {
        return None;
    }
    // The end of an identifier does not start a string.
    let inside = at > 0 && (chars[at - 1].is_alphanumeric() || chars[at - 1] == '_');
    let hashes = chars[next + 1..].iter().take_while(|c| **c == '#').count();
    (!inside && chars.get(next + 1 + hashes) == Some(&'"')).then_some(hashes)
}

/// Removes code that is compiled for tests only.
fn without_tests(tokens: &[Token]) -> Vec<Token> {
    let marker = ["#", "[", "cfg", "(", "test", ")", "]"];
    let mut kept = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let is_marker = marker
            .iter()
            .enumerate()
            .all(|(i, text)| tokens.get(at + i).is_some_and(|token| token.text == *text));
        if !is_marker {
            kept.push(tokens[at].clone());
            at += 1;
            continue;
        }
        // The item ends with `;`, or with the closing brace of its body.
        at += marker.len();
        let mut depth = 0;
        while at < tokens.len() {
            match tokens[at].text.as_str() {
                "{" | "(" | "[" => depth += 1,
                "}" | ")" | "]" => depth -= 1,
                _ => {}
            }
            let ends = depth == 0 && matches!(tokens[at].text.as_str(), ";" | "}");
            at += 1;
            if ends {
                break;
            }
        }
    }
    kept
}

/// All paths, with expanded groups: `a::{b, c::d}` is `a`, `b` and `a`, `c`, `d`.
fn paths(tokens: &[Token]) -> Vec<(Vec<String>, usize)> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let after_colons = at > 0 && tokens[at - 1].text == "::";
        if is_word(&tokens[at].text) && !after_colons {
            at = path(tokens, at, &[], &mut found);
        } else {
            at += 1;
        }
    }
    found
}

/// Parses the path at `at` after `prefix`; returns its end.
fn path(
    tokens: &[Token],
    mut at: usize,
    prefix: &[String],
    found: &mut Vec<(Vec<String>, usize)>,
) -> usize {
    let line = tokens[at].line;
    let mut words = prefix.to_vec();
    loop {
        match tokens.get(at).map(|token| token.text.as_str()) {
            Some("{") => {
                at += 1;
                while let Some(token) = tokens.get(at) {
                    match token.text.as_str() {
                        "}" => return at + 1,
                        word if is_word(word) => at = path(tokens, at, &words, found),
                        _ => at += 1,
                    }
                }
                return at;
            }
            Some(word) if is_word(word) => {
                words.push(word.to_owned());
                at += 1;
            }
            _ => break,
        }
        match tokens.get(at).map(|token| token.text.as_str()) {
            Some("::") => at += 1,
            // `as` renames the item.
            Some("as") if !prefix.is_empty() => {
                at += 2;
                break;
            }
            _ => break,
        }
    }
    found.push((words, line));
    at
}

fn is_word(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Violations in a file of a module. `depth` is the number of modules between the file
/// and the crate root.
fn violations(module: &str, depth: usize, source: &str) -> Vec<(usize, String)> {
    let tokens = without_tests(&tokens(source));
    let paths = paths(&tokens);
    let pure = PURE.contains(&module);
    let allowed = MAY_NAME.iter().find(|(name, _)| *name == module).map(|(_, allowed)| *allowed);
    let mut broken = Vec::new();
    for (words, line) in &paths {
        let named = match words.iter().position(|word| word != "super") {
            Some(0) if words[0] == "crate" => words.get(1),
            Some(ups) if ups > 0 && ups >= depth => words.get(ups),
            Some(0) if LIBRARIES.contains(&words[0].as_str()) => words.first(),
            _ => None,
        };
        if let (Some(named), Some(allowed)) = (named, allowed)
            && named != module
            && named.starts_with(char::is_lowercase)
            && !allowed.contains(&named.as_str())
        {
            let place = if LIBRARIES.contains(&named.as_str()) { "" } else { "crate::" };
            broken.push((*line, format!("{module} names {place}{named}")));
        }
        if pure && let Some(what) = impure(words) {
            broken.push((*line, format!("{module} names {what}")));
        }
    }
    if pure {
        for pair in tokens.windows(2) {
            if pair[0].text == "async" || (pair[0].text == "." && pair[1].text == "await") {
                broken.push((pair[0].line, format!("{module} waits: {}", pair[1].text)));
            }
        }
    }
    broken
}

fn impure(words: &[String]) -> Option<String> {
    let matches = |wanted: &&[&str]| {
        let has = |start: &[String]| {
            start.len() >= wanted.len()
                && wanted.iter().zip(start).all(|(wanted, word)| *wanted == "*" || wanted == word)
        };
        match wanted[0] {
            "*" => words.windows(wanted.len()).any(has),
            _ => has(words),
        }
    };
    IMPURE.iter().any(matches).then(|| words.join("::"))
}

/// The writes to an API server in a file.
fn writes(source: &str) -> Vec<(usize, String)> {
    let is_write = |words: &Vec<String>| {
        words[0] == "kube" && words.iter().any(|word| WRITES.contains(&word.as_str()))
    };
    let found = paths(&without_tests(&tokens(source))).into_iter();
    let found = found.filter(|(words, _)| is_write(words));
    found.map(|(words, line)| (line, words.join("::"))).collect()
}

/// The files of a module or library, without test modules, and the number of modules
/// between each and the crate root.
fn files(module: &str) -> Vec<(PathBuf, usize)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    if LIBRARIES.contains(&module) {
        collect(&root.join("crates").join(module).join("src"), 0, &mut files);
        return files;
    }
    let src = root.join("src");
    let single = src.join(format!("{module}.rs"));
    if single.is_file() {
        files.push((single, 1));
    }
    collect(&src.join(module), 1, &mut files);
    files
}

fn collect(dir: &Path, depth: usize, files: &mut Vec<(PathBuf, usize)>) {
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    for entry in entries {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "tests" {
            collect(&path, depth + 1, files);
        } else if name.ends_with(".rs") && name != "tests.rs" {
            files.push((path, if name == "mod.rs" { depth } else { depth + 1 }));
        }
    }
}

#[test]
fn imports_follow_the_arrow() {
    let mut broken = Vec::new();
    let mut seen = BTreeSet::new();
    let modules: BTreeSet<&str> =
        MAY_NAME.map(|(module, _)| module).into_iter().chain(PURE).collect();
    for module in &modules {
        for (file, depth) in files(module) {
            seen.insert(*module);
            let source = std::fs::read_to_string(&file).unwrap();
            let of = violations(module, depth, &source).into_iter();
            broken.extend(of.map(|(line, what)| format!("{}:{line}: {what}", file.display())));
        }
    }
    assert_eq!(seen, modules, "modules without a file: the list above is old");
    assert!(broken.is_empty(), "against the arrow:\n{}", broken.join("\n"));
}

#[test]
fn only_act_writes() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    collect(&src, 0, &mut files);
    let (act, others): (Vec<_>, Vec<_>) =
        files.iter().partition(|(file, _)| file.starts_with(src.join("act")));
    let found = |files: &[&(PathBuf, usize)]| -> Vec<String> {
        let in_file = |file: &PathBuf| {
            let source = std::fs::read_to_string(file).unwrap();
            let place = |(line, what)| format!("{}:{line}: {what}", file.display());
            writes(&source).into_iter().map(place).collect::<Vec<_>>()
        };
        files.iter().flat_map(|(file, _)| in_file(file)).collect()
    };
    assert!(found(&act).len() > 10, "what writes is not recognised");
    assert_eq!(found(&others), [""; 0], "only src/act writes to an API server");
    let planted = "use kube::api::{Api, Patch as P}; #[cfg(test)] mod t { use kube::api::Patch; }";
    assert_eq!(writes(planted), [(1, "kube::api::Patch".to_owned())]);
}

#[test]
fn the_check_detects_violations() {
    let planted = [
        ("decide", "use crate::act::Done;", "decide names crate::act"),
        ("decide", "use crate::{api, controller::run};", "decide names crate::controller"),
        ("decide", "use super::super::watch;", "decide names crate::watch"),
        ("decide", "fn f() { crate::source::resolve() }", "decide names crate::source"),
        ("api", "use kube::{Api, ResourceExt};", "api names kube::Api"),
        ("api", "use kube::{client::{Body}, api::X};", "api names kube::client::Body"),
        ("desired", "let at = Timestamp::now();", "desired names Timestamp::now"),
        ("desired", "let at = jiff::Zoned::now();", "desired names jiff::Zoned::now"),
        ("gotemplate", "pub async fn f() {}", "gotemplate waits: fn"),
        ("gotemplate", "let a = b.await;", "gotemplate waits: await"),
        ("gotemplate", "use std::{fmt, fs};", "gotemplate names std::fs"),
        ("act", "use crate::controller::context::Context;", "act names crate::controller"),
        ("decide", "use kube_sim::Server;", "decide names kube_sim"),
        ("watch", "let t = gotemplate::go::Env::new();", "watch names gotemplate"),
        ("decide", "const A: char = '\"'; use crate::act::B;", "decide names crate::act"),
        ("decide", "const A: &str = r#\"\"\"#; use crate::act::B;", "decide names crate::act"),
        ("decide", "#[cfg(test)]\nmod tests;\nuse crate::cli::B;", "decide names crate::cli"),
    ];
    for (module, source, want) in planted {
        let got: Vec<String> =
            violations(module, 2, source).into_iter().map(|(_, what)| what).collect();
        assert_eq!(got, [want], "{source}");
    }
    let lines = violations("decide", 2, "\n/* a\n */\nuse crate::act::B;\n");
    assert_eq!(lines, [(4, "decide names crate::act".to_owned())]);
}

#[test]
fn the_check_accepts_allowed_imports() {
    let fine = [
        (
            "decide",
            "use crate::api::operation::Operation; use super::phase; use super::super::decide::x;",
        ),
        (
            "decide",
            "// use crate::act::Done;\n/* Timestamp::now() */ const A: &str = \"crate::act::B\";",
        ),
        ("decide", "#[cfg(test)] mod tests { use crate::act::B; fn now() { Timestamp::now() } }"),
        ("decide", "fn f<'a>(now: &'a Timestamp) { g(now) }"),
        ("api", "use kube::core::Duration; use kube::Resource;"),
        ("controller", "use crate::act::B; async fn f() { Timestamp::now() }"),
    ];
    for (module, source) in fine {
        assert_eq!(violations(module, 2, source), [], "{source}");
    }
}
