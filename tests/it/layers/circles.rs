//! Circles of files: files of a crate of which each needs, by way of the others, itself. Whoever
//! reads one of them has to read all.
//!
//! A file needs the files that define what it names, wherever that is re-exported. To re-export a
//! name is not to need it; nor is it to declare a module.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::{Token, is_word, paths, tokens, without_tests};

/// A file of a crate, by the path of its module.
#[derive(Default)]
struct File {
    /// What it defines by itself.
    items: BTreeSet<String>,
    /// The names that it imports, each with its path.
    imports: BTreeMap<String, Vec<String>>,
    /// The paths of which it imports all names.
    globs: Vec<Vec<String>>,
    /// The paths that it needs: all but what it re-exports.
    uses: Vec<Vec<String>>,
}

type Files = BTreeMap<Vec<String>, File>;

/// What a path leads to.
enum Found {
    Module(Vec<String>),
    /// The module of the file that defines the item.
    Item(Vec<String>),
    /// Another crate.
    Elsewhere,
}

impl File {
    /// Parses a file; returns the modules that it declares in files of their own, too.
    fn parse(source: &str) -> (Self, Vec<String>) {
        let tokens = without_tests(&tokens(source));
        let mut file = Self::default();
        let (mut body, mut modules, mut private) = (Vec::new(), Vec::new(), Vec::new());
        let (mut at, mut depth) = (0, 0);
        let mut is_public = false;
        while at < tokens.len() {
            let text = tokens[at].text.as_str();
            let next = tokens.get(at + 1).map_or("", |token| token.text.as_str());
            match text {
                "use" => {
                    let end = (at..tokens.len()).find(|i| tokens[*i].text == ";");
                    let end = end.unwrap_or(tokens.len());
                    let names = file.import(&tokens[at + 1..end]);
                    private.extend(names.into_iter().filter(|_| !is_public));
                    at = end + 1;
                    is_public = false;
                    continue;
                }
                "mod" if tokens.get(at + 2).is_some_and(|token| token.text == ";") => {
                    modules.push(next.to_owned());
                    at += 3;
                    is_public = false;
                    continue;
                }
                "fn" | "struct" | "enum" | "trait" | "type" | "const" | "static" | "mod"
                | "union"
                    if depth == 0 && is_word(next) =>
                {
                    file.items.insert(next.to_owned());
                }
                "!" if depth == 0 && at > 0 && tokens[at - 1].text == "macro_rules" => {
                    file.items.insert(next.to_owned());
                }
                "{" => depth += 1,
                "}" => depth -= 1,
                _ => {}
            }
            // Also before what is inside of `pub(crate)`.
            is_public = text == "pub" || is_public && matches!(text, "(" | "crate" | "super" | ")");
            body.push(tokens[at].clone());
            at += 1;
        }
        file.uses = paths(&body).into_iter().map(|(words, _)| words).collect();
        let named: BTreeSet<&String> = file.uses.iter().map(|words| &words[0]).collect();
        // A trait is imported for its methods.
        let unnamed = private.into_iter().filter(|name| !named.contains(name));
        let unnamed: Vec<_> = unnamed.map(|name| file.imports[&name].clone()).collect();
        file.uses.extend(unnamed);
        (file, modules)
    }

    /// Parses what follows `use`; returns the names.
    fn import(&mut self, tree: &[Token]) -> Vec<String> {
        let mut leaves = Vec::new();
        leaves_of(tree, &mut 0, &[], &mut leaves);
        let mut names = Vec::new();
        for (mut path, alias) in leaves {
            let last = path.last().cloned().unwrap_or_default();
            if last == "*" || last == "self" && path.len() > 1 {
                path.pop();
            }
            if last == "*" {
                self.globs.push(path);
            } else if let Some(name) = alias.or_else(|| path.last().cloned()) {
                self.imports.insert(name.clone(), path);
                names.push(name);
            }
        }
        names
    }
}

/// The paths of a tree of imports, each with the name that `as` gives it.
fn leaves_of(
    tree: &[Token],
    at: &mut usize,
    prefix: &[String],
    leaves: &mut Vec<(Vec<String>, Option<String>)>,
) {
    let mut words = prefix.to_vec();
    while let Some(token) = tree.get(*at) {
        *at += 1;
        match token.text.as_str() {
            "::" => {}
            "{" => {
                while tree.get(*at).is_some_and(|token| token.text != "}") {
                    leaves_of(tree, at, &words, leaves);
                }
                *at += 1;
                // What follows the group.
                if tree.get(*at).is_some_and(|token| token.text == ",") {
                    *at += 1;
                }
                return;
            }
            "as" => {
                leaves.push((words, tree.get(*at).map(|token| token.text.clone())));
                *at += 1;
                if tree.get(*at).is_some_and(|token| token.text == ",") {
                    *at += 1;
                }
                return;
            }
            "," => break,
            "}" => {
                *at -= 1;
                break;
            }
            word => words.push(word.to_owned()),
        }
    }
    leaves.push((words, None));
}

/// What `words` means in the module `from`.
fn resolve(files: &Files, from: &[String], words: &[String], depth: usize) -> Option<Found> {
    let (first, rest) = words.split_first()?;
    match first.as_str() {
        "crate" => follow(files, Vec::new(), rest, depth),
        "self" => follow(files, from.to_vec(), rest, depth),
        "super" => {
            let mut up = from.to_vec();
            up.pop()?;
            follow(files, up, rest, depth)
        }
        _ => named(files, from, words, depth),
    }
}

/// What `words` means, seen from outside of the module.
fn follow(files: &Files, module: Vec<String>, words: &[String], depth: usize) -> Option<Found> {
    match words.first().map(String::as_str) {
        None => Some(Found::Module(module)),
        Some("super" | "self") => resolve(files, &module, words, depth),
        // What a macro makes is in no list.
        Some(_) => named(files, &module, words, depth).or(Some(Found::Item(module))),
    }
}

/// What `words` means, if the module has that name.
fn named(files: &Files, module: &[String], words: &[String], depth: usize) -> Option<Found> {
    let (first, rest) = words.split_first()?;
    let file = files.get(module)?;
    if depth > 8 {
        return None;
    }
    let child: Vec<String> = module.iter().chain([first]).cloned().collect();
    let is_child = files.contains_key(&child);
    // A function may have the name of a module.
    if is_child && !rest.is_empty() {
        return follow(files, child, rest, depth);
    }
    if let Some(path) = file.imports.get(first).filter(|path| path.as_slice() != &words[..1]) {
        let full: Vec<String> = path.iter().chain(rest).cloned().collect();
        return resolve(files, module, &full, depth + 1).or(Some(Found::Elsewhere));
    }
    if file.items.contains(first) {
        return Some(Found::Item(module.to_vec()));
    }
    if is_child {
        return Some(Found::Module(child));
    }
    let in_glob = |path: &Vec<String>| match resolve(files, module, path, depth + 1)? {
        Found::Module(inner) if inner != module => named(files, &inner, words, depth + 1),
        _ => None,
    };
    file.globs.iter().find_map(in_glob)
}

/// The files that each file needs, with one of the names.
fn needs(files: &Files) -> BTreeMap<&[String], BTreeMap<Vec<String>, String>> {
    let needed = |(module, file): (&Vec<String>, &File)| {
        let mut needed = BTreeMap::new();
        for words in &file.uses {
            if let Some(Found::Item(other)) = resolve(files, module, words, 0)
                && other != *module
            {
                needed.insert(other, words.join("::"));
            }
        }
        needed
    };
    files.iter().map(|file| (file.0.as_slice(), needed(file))).collect()
}

/// The circles: each as what its files need of each other.
fn circles(files: &Files) -> Vec<String> {
    let needs = needs(files);
    let reaches = |from: &[String]| {
        let mut seen = BTreeSet::new();
        let mut open = vec![from];
        while let Some(module) = open.pop() {
            for next in needs[module].keys() {
                if seen.insert(next.as_slice()) {
                    open.push(next);
                }
            }
        }
        seen
    };
    let reached: BTreeMap<&[String], BTreeSet<&[String]>> =
        needs.keys().map(|module| (*module, reaches(module))).collect();
    let circle_of = |module: &[String]| -> BTreeSet<&[String]> {
        reached[module].iter().copied().filter(|other| reached[other].contains(module)).collect()
    };
    let circles: BTreeSet<_> = needs.keys().map(|module| circle_of(module)).collect();
    let described = |circle: &BTreeSet<&[String]>| {
        let of_file = |module: &&[String]| {
            let within =
                needs[*module].iter().filter(|(other, _)| circle.contains(other.as_slice()));
            let need = |(other, name): (&Vec<String>, &String)| {
                format!("{} needs {} of {}", shown(module), name, shown(other))
            };
            within.map(need).collect::<Vec<_>>()
        };
        circle.iter().flat_map(of_file).collect::<Vec<_>>().join(", ")
    };
    circles.iter().filter(|circle| !circle.is_empty()).map(described).collect()
}

fn shown(module: &[String]) -> String {
    if module.is_empty() { "crate".to_owned() } else { module.join("::") }
}

/// The files below a folder of sources, without tests.
fn read(dir: &Path) -> Files {
    let mut files = Files::new();
    let mut open = vec![Vec::new()];
    while let Some(module) = open.pop() {
        let path = module.iter().fold(dir.to_owned(), |path, name: &String| path.join(name));
        let candidates = match module.as_slice() {
            [] => [dir.join("lib.rs"), dir.join("main.rs")],
            _ => [path.with_extension("rs"), path.join("mod.rs")],
        };
        let source = candidates.iter().find_map(|path| std::fs::read_to_string(path).ok());
        let source = source.unwrap_or_else(|| panic!("no file of the module {}", path.display()));
        let (file, children) = File::parse(&source);
        open.extend(children.into_iter().map(|child| [module.clone(), vec![child]].concat()));
        files.insert(module, file);
    }
    files
}

#[test]
fn files_of_a_crate_form_no_circle() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let crates = std::fs::read_dir(root.join("crates")).unwrap();
    let crates = crates.map(|entry| entry.unwrap().path());
    let mut count = 0;
    for path in crates.chain([root.to_owned()]) {
        let files = read(&path.join("src"));
        count += needs(&files).values().map(BTreeMap::len).sum::<usize>();
        assert_eq!(circles(&files), [""; 0], "{}", path.display());
    }
    assert!(count > 1000, "what files need is not recognised");
}

#[test]
fn the_check_detects_circles() {
    let circles = |sources: &[(&str, &str)]| {
        let file = |(module, source): &(&str, &str)| {
            let module = module.split("::").filter(|name| !name.is_empty()).map(str::to_owned);
            (module.collect(), File::parse(source).0)
        };
        circles(&sources.iter().map(file).collect())
    };
    let root = "mod a; mod b; mod c; pub use self::a::A; pub(crate) use b::b;";
    let of_two = |a, b| circles(&[("", root), ("a", a), ("b", b), ("c", "pub struct C;")]);
    for (a, b) in [
        ("use super::b::B; pub struct A(B);", "use super::a::A; struct B(A);"),
        ("pub struct A(super::b::B);", "struct B(crate::A);"),
        ("use crate::b as f; fn g() { f() } struct A;", "use super::A; fn b(_: A) {}"),
        ("use super::{b::{self, D}}; fn f(_: b::B) {}", "use crate::*; struct B(A);"),
        // What a macro makes, and a trait that is imported for its methods.
        ("fn f() { super::b::made() } struct A;", "make!(made); struct B(super::A);"),
        ("use super::b::T as _; struct A;", "trait T {} impl T for super::A {}"),
    ] {
        let found = of_two(a, b);
        assert_eq!(found.len(), 1, "{a} {b}");
        assert!(found[0].contains("a needs") && found[0].contains("b needs"), "{found:?}");
    }
    for (a, b) in [
        ("use super::b::B; pub struct A(B);", "use super::c::C; struct B(C);"),
        ("use super::b::B; pub struct A(B);", "#[cfg(test)] mod t { use crate::A; } struct B;"),
        ("use super::b::B; pub struct A(B);", "#[cfg(all(test, x))] use crate::A; struct B;"),
        ("use super::b::B; pub struct A(B);", "pub use super::a::A; /* A */ pub struct B;"),
        ("pub use other::E; struct A(super::b::B);", "use super::a::E; struct B(E);"),
    ] {
        assert_eq!(of_two(a, b), [""; 0], "{a} {b}");
    }
    // A parent that does more than to declare and to re-export.
    let found = circles(&[
        ("", "mod a;"),
        ("a", "mod b; struct P; fn f() { b::g() }"),
        ("a::b", "use super::P; pub fn g() -> P { P }"),
    ]);
    assert_eq!(found, ["a needs b::g of a::b, a::b needs P of a"]);
}
