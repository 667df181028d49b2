//! Says which keys there are instead of one that a template misses.

use gotemplate::NoEntry;

/// Most names of keys in a message.
const MOST: usize = 5;
/// Most characters of a key in a message.
const MOST_CHARACTERS: usize = 64;

/// The message of an error of a template, with the keys that there are when one is missing.
pub(super) fn explained(error: &gotemplate::TemplateError) -> String {
    match error.no_entry() {
        Some(missing) => format!("{error}; {}", instead(missing)),
        None => error.to_string(),
    }
}

fn instead(missing: &NoEntry) -> String {
    let NoEntry { key, known, count } = missing;
    if *count == 0 {
        return "there are no keys".to_owned();
    }
    let mut keys = known.iter().take(MOST).map(|key| shown(key)).collect::<Vec<_>>().join(", ");
    if *count > MOST {
        keys.push_str(&format!(" and {} more", count - MOST));
    }
    let keys = format!("the keys are {keys}");
    match boolean(key).filter(|read| known.iter().any(|key| key == read)) {
        Some(read) => {
            format!("{keys}; YAML reads the key {key} as the boolean {read}: write it in quotes")
        }
        None => keys,
    }
}

fn shown(key: &str) -> String {
    match key.char_indices().nth(MOST_CHARACTERS) {
        Some((end, _)) => format!("{}…", &key[..end]),
        None => key.to_owned(),
    }
}

/// What YAML 1.1 reads a word as that is not in quotes.
fn boolean(word: &str) -> Option<&'static str> {
    let lower = word.to_ascii_lowercase();
    // Not words such as yEs.
    if word != lower && word != lower.to_ascii_uppercase() && word != capitalized(&lower) {
        return None;
    }
    match lower.as_str() {
        "y" | "yes" | "on" => Some("true"),
        "n" | "no" | "off" => Some("false"),
        _ => None,
    }
}

fn capitalized(word: &str) -> String {
    let (first, rest) = word.split_at(word.chars().next().map_or(0, char::len_utf8));
    first.to_ascii_uppercase() + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_that_there_are_are_named() {
        let cases: [(&str, &[&str], &str); 6] = [
            ("x", &[], "there are no keys"),
            ("x", &["id", "env"], "the keys are id, env"),
            ("x", &["a", "b", "c", "d", "e", "f", "g"], "the keys are a, b, c, d, e and 2 more"),
            (
                "n",
                &["env", "false"],
                "the keys are env, false; YAML reads the key n as the boolean false: write it in quotes",
            ),
            (
                "On",
                &["true"],
                "the keys are true; YAML reads the key On as the boolean true: write it in quotes",
            ),
            ("n", &["true"], "the keys are true"),
        ];
        for (key, known, want) in cases {
            let count = known.len();
            let known = known.iter().map(|&key| key.to_owned()).collect();
            let missing = NoEntry { key: key.to_owned(), known, count };
            assert_eq!(instead(&missing), want, "{key}");
        }
        assert_eq!((boolean("oN"), boolean("yEs"), boolean("")), (None, None, None));
    }
}
