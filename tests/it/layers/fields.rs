//! Decisions read objects by the types of `api`, once: a field that is read by its name, as
//! `value["field"]`, is for objects of any kind only.

use super::{collect, is_word, sources, tokens, without_tests};

/// The crates that decide.
const DECISIONS: [&str; 4] = ["api", "engine", "application", "rollout"];

/// How many reads of a field by its name the crates that decide may have together. It only falls.
const LIMIT: usize = 200;

/// Words after which a bracket begins a list.
const BEFORE_LISTS: [&str; 6] = ["in", "return", "else", "match", "if", "mut"];

/// The lines in which a field is read by its name.
fn by_name(source: &str) -> Vec<usize> {
    let tokens = without_tests(&tokens(source));
    let is_index = |four: &[super::Token]| {
        let before = four[0].text.as_str();
        let is_value = is_word(before) && !BEFORE_LISTS.contains(&before);
        (is_value || [")", "]"].contains(&before))
            && four[1].text == "["
            && four[2].text == "\""
            && four[3].text == "]"
    };
    let lines = tokens.windows(4).filter(|four| is_index(four)).map(|four| four[1].line);
    lines.collect()
}

#[test]
fn decisions_read_objects_by_their_types() {
    let mut places = Vec::new();
    for name in DECISIONS {
        let mut files = Vec::new();
        collect(&sources(name), 0, &mut files);
        assert!(!files.is_empty(), "{name}: no file");
        for (file, _) in files {
            let lines = by_name(&std::fs::read_to_string(&file).unwrap());
            places.extend(lines.into_iter().map(|line| format!("{}:{line}", file.display())));
        }
    }
    assert!(places.len() < LIMIT, "{} reads by name:\n{}", places.len(), places.join("\n"));
}

#[test]
fn the_check_finds_fields_that_are_read_by_name() {
    let source = "
        let a = &value[\"spec\"][\"source\"];
        let b = of(value)[r\"name\"].as_str();
        for one in [\"a\"] {}
        let c = vec![\"a\"]; let d = &[\"a\"]; let e = list[0]; let f = value[field];
        #[cfg(test)] mod tests { fn g() { value[\"spec\"]; } }
    ";
    assert_eq!(by_name(source), [2, 2, 3]);
}
