//! What Cargo cannot say of the arrow: facts in, decisions, effects out. A crate may use what its
//! manifest names; here is which of them are pure, who writes, and which rooms of a crate know
//! nothing of the others.
//!
//! Parses the source text, including disabled code, and reports the line. Unit tests may
//! use anything.

mod circles;
mod fields;
mod names;

use std::path::{Path, PathBuf};

/// Rooms of a crate, and the other rooms of it that they may use.
const ROOMS: [(&str, &str, &[&str]); 9] = [
    ("cluster", "watch", &[]),
    ("rollout", "desired", &[]),
    ("rollout", "notify", &[]),
    ("rollout", "webhook", &[]),
    ("rollout", "rollout", &["desired", "notify"]),
    ("controller", "evaluator", &[]),
    ("controller", "serve", &[]),
    ("controller", "settings", &["evaluator"]),
    ("controller", "config", &["evaluator", "settings"]),
];

/// Decisions: no client, no clock, no files, no async.
const PURE: [&str; 6] = ["api", "engine", "application", "rollout", "gotemplate", "gotime"];

/// Paths that pure crates must not use. A `*` matches any segment.
const IMPURE: [&[&str]; 12] = [
    &["kube"],
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

/// Splits Rust into tokens, without comments and white space; a text is one quotation mark.
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
            tokens.push(Token { text: "\"".to_owned(), line });
        } else if c == '"' {
            at += 1;
            while at < chars.len() && chars[at] != '"' {
                at += if chars[at] == '\\' { 2 } else { 1 };
            }
            at += 1;
            tokens.push(Token { text: "\"".to_owned(), line });
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
    let markers: [&[&str]; 2] =
        [&["#", "[", "cfg", "(", "test", ")"], &["#", "[", "cfg", "(", "all", "(", "test", ","]];
    let mut kept = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let is_marker = markers.iter().any(|marker| {
            let text = |i: usize| tokens.get(at + i).map(|token| token.text.as_str());
            marker.iter().enumerate().all(|(i, wanted)| text(i) == Some(wanted))
        });
        if !is_marker {
            kept.push(tokens[at].clone());
            at += 1;
            continue;
        }
        // The item ends with `;`, or with the closing brace of its body.
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

/// What a file of a pure crate must not contain.
fn impurities(source: &str) -> Vec<(usize, String)> {
    let tokens = without_tests(&tokens(source));
    let mut broken = Vec::new();
    for (words, line) in paths(&tokens) {
        broken.extend(impure(&words).map(|what| (line, format!("names {what}"))));
    }
    for pair in tokens.windows(2) {
        if pair[0].text == "async" || (pair[0].text == "." && pair[1].text == "await") {
            broken.push((pair[0].line, format!("waits: {}", pair[1].text)));
        }
    }
    broken
}

/// The rooms of its crate that a file of `room` must not name. `depth` is the number of modules
/// between the file and the root of the crate.
fn strays(room: &str, allowed: &[&str], depth: usize, source: &str) -> Vec<(usize, String)> {
    let tokens = without_tests(&tokens(source));
    let mut broken = Vec::new();
    for (words, line) in paths(&tokens) {
        let named = match words.iter().position(|word| word != "super") {
            Some(0) if words[0] == "crate" => words.get(1),
            Some(ups) if ups > 0 && ups >= depth => words.get(ups),
            _ => None,
        };
        if let Some(named) = named
            && named != room
            && named.starts_with(char::is_lowercase)
            && !allowed.contains(&named.as_str())
        {
            broken.push((line, format!("names crate::{named}")));
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

/// The root of the sources of a crate.
fn sources(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("crates").join(name).join("src")
}

/// The files of a room, without test modules, and the number of modules between each and the root
/// of the crate.
fn files(name: &str, room: &str) -> Vec<(PathBuf, usize)> {
    let mut files = Vec::new();
    let single = sources(name).join(format!("{room}.rs"));
    if single.is_file() {
        files.push((single, 1));
    }
    collect(&sources(name).join(room), 1, &mut files);
    files
}

/// What is found in files, with the place of each.
fn found(
    files: Vec<(PathBuf, usize)>,
    find: impl Fn(usize, &str) -> Vec<(usize, String)>,
) -> Vec<String> {
    let in_file = |(file, depth): (PathBuf, usize)| {
        let source = std::fs::read_to_string(&file).unwrap();
        let place = |(line, what)| format!("{}:{line}: {what}", file.display());
        find(depth, &source).into_iter().map(place).collect::<Vec<_>>()
    };
    files.into_iter().flat_map(in_file).collect()
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
fn decisions_are_pure() {
    for name in PURE {
        let mut files = Vec::new();
        collect(&sources(name), 0, &mut files);
        assert!(!files.is_empty(), "{name}: a crate without a file: the list above is old");
        assert_eq!(found(files, |_, source| impurities(source)), [""; 0], "{name}");
    }
}

#[test]
fn rooms_of_a_crate_know_no_others_than_they_may() {
    for (name, room, allowed) in ROOMS {
        let files = files(name, room);
        assert!(!files.is_empty(), "{name}::{room}: no file: the list above is old");
        let broken = found(files, |depth, source| strays(room, allowed, depth, source));
        assert_eq!(broken, [""; 0], "{name}::{room}");
    }
}

#[test]
fn only_act_writes() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    collect(&root.join("src"), 0, &mut files);
    for entry in std::fs::read_dir(root.join("crates")).unwrap() {
        let path = entry.unwrap().path();
        // The server itself reads what clients write.
        if !path.ends_with("kube-sim") {
            collect(&path.join("src"), 0, &mut files);
        }
    }
    let (act, others): (Vec<_>, Vec<_>) =
        files.into_iter().partition(|(file, _)| file.starts_with(sources("cluster").join("act")));
    assert!(found(act, |_, source| writes(source)).len() > 10, "what writes is not recognised");
    // What people do in a simulation is no write of the controllers.
    let simulated = sources("simulation").join("acting.rs");
    let others = others.into_iter().filter(|(file, _)| *file != simulated).collect();
    let found = found(others, |_, source| writes(source));
    assert_eq!(found, [""; 0], "only cluster::act writes to an API server");
    let planted = "use kube::api::{Api, Patch as P}; #[cfg(test)] mod t { use kube::api::Patch; }";
    assert_eq!(writes(planted), [(1, "kube::api::Patch".to_owned())]);
}

#[test]
fn the_check_detects_impurities() {
    let planted = [
        ("use kube::{Api, ResourceExt};", "names kube::Api,names kube::ResourceExt"),
        ("use kube::{client::{Body}};", "names kube::client::Body"),
        ("let at = Timestamp::now();", "names Timestamp::now"),
        ("let at = jiff::Zoned::now();", "names jiff::Zoned::now"),
        ("pub async fn f() {}", "waits: fn"),
        ("let a = b.await;", "waits: await"),
        ("use std::{fmt, fs};", "names std::fs"),
        ("const A: char = '\"'; use tokio::sync::B;", "names tokio::sync::B"),
        ("const A: &str = r#\"\"\"#; use tokio::sync::B;", "names tokio::sync::B"),
        ("#[cfg(test)]\nmod tests;\nuse tokio::sync::B;", "names tokio::sync::B"),
    ];
    for (source, want) in planted {
        let got: Vec<String> = impurities(source).into_iter().map(|(_, what)| what).collect();
        assert_eq!(got.join(","), want, "{source}");
    }
    let lines = impurities("\n/* a\n */\nuse tokio::sync::B;\n");
    assert_eq!(lines, [(4, "names tokio::sync::B".to_owned())]);
    for fine in [
        "use kube_core::Resource;",
        "// use tokio::sync::B;\n/* Timestamp::now() */ const A: &str = \"tokio::sync::B\";",
        "#[cfg(test)] mod tests { use tokio::sync::B; fn now() { Timestamp::now() } }",
        "fn f<'a>(now: &'a Timestamp) { g(now) }",
    ] {
        assert_eq!(impurities(fine), [], "{fine}");
    }
}

#[test]
fn the_check_detects_rooms() {
    let strays = |source| strays("watch", &["object"], 2, source);
    for (source, want) in [
        ("use crate::act::Done;", "names crate::act"),
        ("use crate::{object, act::run};", "names crate::act"),
        ("use super::super::act;", "names crate::act"),
        ("fn f() { crate::act::resolve() }", "names crate::act"),
    ] {
        let got: Vec<String> = strays(source).into_iter().map(|(_, what)| what).collect();
        assert_eq!(got, [want], "{source}");
    }
    for fine in ["use crate::object::A; use super::phase; use super::super::watch::x;", "use b::C;"]
    {
        assert_eq!(strays(fine), [], "{fine}");
    }
}
