//! Turns text into names that Kubernetes accepts (AS-170, AS-171).

/// Longest result of [`normalize`], in bytes.
const MAX_NAME: usize = 253;

/// Lower case, every character outside `[a-z0-9.-]` becomes a dash, at most 253 bytes, no
/// dash or dot at the ends. May return an empty text.
pub fn normalize_name(text: &str) -> String {
    // Go lowers character by character, so the one letter that grows by lowering does not.
    let lowered = text.chars().map(|c| match c {
        'İ' => 'i',
        _ => c.to_lowercase().next().unwrap_or(c),
    });
    let mut name: String = lowered
        .map(|c| if matches!(c, 'a'..='z' | '0'..='9' | '.' | '-') { c } else { '-' })
        .take(MAX_NAME)
        .collect();
    name.truncate(name.trim_end_matches(['-', '.']).len());
    name.trim_start_matches(['-', '.']).to_owned()
}

/// A name of at most `max` bytes, made of lower-case letters, digits, dashes and underscores.
///
/// With `smart` the text is cut at a dash if there is one, and a `max` of 0 means no
/// limit; otherwise it is cut at `max`, and 0 gives an empty text.
pub fn slugify_name(max: usize, smart: bool, text: &str) -> String {
    let mut name = normalize_name(text);
    if !smart {
        // Cut before the dashes are collapsed, as in Argo CD; the text is ASCII here.
        name.truncate(max);
    }
    let mut slug = String::with_capacity(name.len());
    for c in name.chars().map(|c| if c == '.' { '-' } else { c }) {
        if c != '-' || !slug.ends_with('-') {
            slug.push(c);
        }
    }
    let mut slug = slug.trim_matches(['-', '_']).to_owned();
    if smart && max > 0 && slug.len() > max {
        let end = slug[..=max].rfind('-').unwrap_or(max);
        slug.truncate(end);
    }
    slug
}
