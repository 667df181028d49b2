//! Slash-separated paths.

use super::prelude::*;

pub(super) const FUNCTIONS: &[Function] = &[
    f("base", "s", |_, a| Ok(Value::str(base(&a.text(0))))),
    f("dir", "s", |_, a| Ok(Value::str(dir(&a.text(0))))),
    f("clean", "s", |_, a| Ok(Value::str(clean(&a.text(0))))),
    f("ext", "s", |_, a| Ok(Value::str(ext(&a.text(0))))),
    f("isAbs", "s", |_, a| Ok(Value::Bool(a.bytes(0).starts_with(b"/")))),
    f("osBase", "s", |_, a| Ok(Value::str(base(&a.text(0))))),
    f("osDir", "s", |_, a| Ok(Value::str(dir(&a.text(0))))),
    f("osClean", "s", |_, a| Ok(Value::str(clean(&a.text(0))))),
    f("osExt", "s", |_, a| Ok(Value::str(ext(&a.text(0))))),
    f("osIsAbs", "s", |_, a| Ok(Value::Bool(a.bytes(0).starts_with(b"/")))),
];

fn base(path: &str) -> &str {
    if path.is_empty() {
        return ".";
    }
    let trimmed = path.trim_end_matches('/');
    if trimmed.is_empty() {
        return "/";
    }
    trimmed.rsplit('/').next().unwrap_or(trimmed)
}

fn dir(path: &str) -> String {
    clean(&path[..path.rfind('/').map_or(0, |at| at + 1)])
}

fn ext(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.rfind('.').map_or("", |at| &name[at..])
}

/// The shortest equivalent path, without accessing the file system.
fn clean(path: &str) -> String {
    let rooted = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            ".." if rooted => {}
            _ => parts.push(part),
        }
    }
    match (rooted, parts.is_empty()) {
        (true, _) => format!("/{}", parts.join("/")),
        (false, true) => ".".to_owned(),
        (false, false) => parts.join("/"),
    }
}
