//! One vocabulary: a public type has a name that no other crate gives to a public type, and a
//! public function says in two words what it gives, so that a search leads to one place.

use std::collections::BTreeMap;
use std::path::Path;

use super::{Token, collect, is_word, tokens, without_tests};

/// What a single word says, with the module that it stands in: the verbs of controllers.
const ONE_WORD: [&str; 14] = [
    "apply",
    "check",
    "compare",
    "create",
    "decide",
    "delete",
    "evaluate",
    "generate",
    "parse",
    "patch",
    "reconcile",
    "render",
    "run",
    "step",
];

/// The crate that no other one uses.
const PROGRAM: &str = "the program";

/// The keywords that a name follows.
const TYPES: [&str; 5] = ["struct", "enum", "trait", "type", "union"];

/// What a file defines for other crates, with the line of each: types, and functions that no type
/// has.
#[derive(Debug, Default, PartialEq)]
struct Public {
    types: Vec<(String, usize)>,
    functions: Vec<(String, usize)>,
}

impl Public {
    fn parse(source: &str) -> Self {
        let tokens = without_tests(&tokens(source));
        let text = |at: usize| tokens.get(at).map_or("", |token: &Token| token.text.as_str());
        let mut public = Self::default();
        let (mut at, mut depth, mut in_type) = (0, 0, None);
        while at < tokens.len() {
            match text(at) {
                "{" => depth += 1,
                "}" => {
                    depth -= 1;
                    in_type = in_type.filter(|begin| depth > *begin);
                }
                // Not `impl Trait` as the type of an argument or a result.
                "impl" | "trait" if in_type.is_none() && begins_item(text(at.wrapping_sub(1))) => {
                    in_type = Some(depth);
                }
                _ => {}
            }
            if text(at) == "pub" && text(at + 1) != "(" {
                let mut next = at + 1;
                while ["async", "const", "unsafe"].contains(&text(next)) {
                    next += 1;
                }
                let named = (text(next + 1).to_owned(), tokens[at].line);
                match text(next) {
                    keyword if TYPES.contains(&keyword) && is_word(&named.0) => {
                        public.types.push(named)
                    }
                    "fn" if in_type.is_none() => public.functions.push(named),
                    _ => {}
                }
            }
            at += 1;
        }
        public
    }
}

/// Whether an item may follow the token.
fn begins_item(before: &str) -> bool {
    ["", "}", ";", "]", "{", "unsafe", "pub", ")"].contains(&before)
}

/// What each crate, and the program, defines for others, by files.
fn defined() -> BTreeMap<String, Vec<(String, Public)>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut places = vec![(PROGRAM.to_owned(), root.join("src"))];
    for entry in std::fs::read_dir(root.join("crates")).unwrap() {
        let path = entry.unwrap().path();
        places.push((path.file_name().unwrap().to_string_lossy().into_owned(), path.join("src")));
    }
    let of = |(name, sources): (String, std::path::PathBuf)| {
        let mut files = Vec::new();
        collect(&sources, 0, &mut files);
        assert!(!files.is_empty(), "{name}: no file");
        let parsed = files.into_iter().map(|(file, _)| {
            let source = std::fs::read_to_string(&file).unwrap();
            (file.display().to_string(), Public::parse(&source))
        });
        (name, parsed.collect())
    };
    places.into_iter().map(of).collect()
}

#[test]
fn no_two_crates_have_a_public_type_of_the_same_name() {
    let mut types: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    for (name, files) in defined() {
        for (file, public) in files {
            for (type_, line) in public.types {
                types.entry(type_).or_default().insert(name.clone(), format!("{file}:{line}"));
            }
        }
    }
    assert!(types.len() > 500, "public types are not recognised: {}", types.len());
    let reused = types.into_iter().filter(|(_, places)| places.len() > 1);
    let reused = reused.map(|(type_, places)| {
        format!("{type_}: {}", places.into_values().collect::<Vec<_>>().join(", "))
    });
    assert_eq!(reused.collect::<Vec<_>>(), [""; 0], "say what each of them holds");
}

#[test]
fn public_functions_say_what_they_give() {
    let mut count = 0;
    let mut short = Vec::new();
    // Nobody but the program itself calls those of the program.
    let crates = defined().into_iter().filter(|(name, _)| name != PROGRAM);
    for (file, public) in crates.flat_map(|(_, files)| files) {
        count += public.functions.len();
        let one_word = public
            .functions
            .into_iter()
            .filter(|(name, _)| !name.contains('_') && !ONE_WORD.contains(&name.as_str()));
        short.extend(one_word.map(|(name, line)| format!("{file}:{line}: {name}")));
    }
    assert!(count > 300, "public functions are not recognised: {count}");
    assert_eq!(short, [""; 0], "one word does not say of what, or what for");
}

#[test]
fn the_check_reads_what_is_public() {
    let source = "
        pub struct A { pub b: C }
        pub(crate) struct Hidden;
        impl A { pub fn get(&self) -> impl Iterator { loop {} } }
        pub fn one(of: impl Into<String>) {}
        pub trait D { fn e(); }
        mod inner { pub async fn two() {} pub(super) fn three() {} }
        impl Trait for Vec<A> { fn f() {} }
        lenient! { /** text */ pub struct G { pub h: I, } pub struct $name { } }
        #[cfg(test)] mod tests { pub struct A; pub fn four() {} }
        pub const fn five() {}
    ";
    let public = Public::parse(source);
    let names = |list: &[(String, usize)]| {
        list.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(names(&public.types), "A D G");
    assert_eq!(names(&public.functions), "one two five");
    assert_eq!(public.types[0].1, 2);
}
