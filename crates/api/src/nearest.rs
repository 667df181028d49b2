//! The name that a misspelt one was meant to be.

/// Longer names get no suggestion.
const LONGEST_NAME: usize = 64;

/// What is added to an error about an unknown name: the name that was perhaps meant, if one is near.
pub fn meant_hint(near: Option<&str>) -> String {
    near.map_or_else(String::new, |near| format!("; did you mean {near}?"))
}

/// The known name with the smallest edit distance, if it is similar enough.
pub fn nearest_name<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    if name.len() > LONGEST_NAME {
        return None;
    }
    let bare = |name: &str| name.to_lowercase().replace(['-', '_'], "");
    let written = bare(name);
    let near = known.filter_map(|known| {
        let wanted = bare(known);
        let distance = strsim::damerau_levenshtein(&written, &wanted);
        // At most a third of the name may differ.
        (distance <= wanted.chars().count().max(3) / 3).then_some((distance, known))
    });
    near.min().map(|(_, known)| known)
}
