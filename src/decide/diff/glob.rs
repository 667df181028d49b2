//! Globs over API groups and kinds (SE-171): `*`, `?`, `[a-z]`, `[!a-z]`,
//! `{one,two}`, and `\` before a character that is to stand for itself.

/// The most alternatives that braces may spell; what is beyond is dropped, so
/// that a short pattern cannot stand for millions.
const MAX_ALTERNATIVES: usize = 256;

/// Whether the whole text matches. There is no separator: `*` matches across
/// dots and slashes. An empty pattern matches the empty text alone.
pub fn matches(pattern: &str, text: &str) -> bool {
    let text: Vec<char> = text.chars().collect();
    alternatives(pattern).iter().any(|pattern| matches_plain(pattern, &text))
}

/// The pattern with its first pair of braces spelled out, again and again.
fn alternatives(pattern: &str) -> Vec<Vec<char>> {
    let mut done = Vec::new();
    let mut open = vec![pattern.chars().collect::<Vec<char>>()];
    while let Some(pattern) = open.pop() {
        match split_braces(&pattern) {
            Some(spelled) if done.len() + open.len() + spelled.len() <= MAX_ALTERNATIVES => {
                open.extend(spelled);
            }
            Some(_) => {}
            None => done.push(pattern),
        }
    }
    done
}

fn split_braces(pattern: &[char]) -> Option<Vec<Vec<char>>> {
    let mut escaped = false;
    let (mut start, mut depth) = (None, 0usize);
    let mut commas = Vec::new();
    for (at, c) in pattern.iter().enumerate() {
        if std::mem::take(&mut escaped) {
            continue;
        }
        match (c, start) {
            ('\\', _) => escaped = true,
            ('{', None) => start = Some(at),
            ('{', Some(_)) => depth += 1,
            ('}', Some(_)) if depth > 0 => depth -= 1,
            ('}', Some(start)) => {
                let (before, after) = (&pattern[..start], &pattern[at + 1..]);
                let mut from = start + 1;
                commas.push(at);
                let spell = |to: usize| {
                    let middle = &pattern[std::mem::replace(&mut from, to + 1)..to];
                    [before, middle, after].concat()
                };
                return Some(commas.into_iter().map(spell).collect());
            }
            (',', Some(_)) if depth == 0 => commas.push(at),
            _ => {}
        }
    }
    None
}

/// Matches a pattern without braces in time bounded by both lengths: on a
/// mismatch only the latest star is retried.
fn matches_plain(pattern: &[char], text: &[char]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    loop {
        if p < pattern.len() && pattern[p] == '*' {
            p += 1;
            star = Some((p, t));
            continue;
        }
        if t == text.len() && p == pattern.len() {
            return true;
        }
        let step = text.get(t).and_then(|c| match_one(&pattern[p..], *c));
        match (step, star) {
            (Some(width), _) => {
                p += width;
                t += 1;
            }
            (None, Some((after, from))) if from < text.len() => {
                star = Some((after, from + 1));
                (p, t) = (after, from + 1);
            }
            (None, _) => return false,
        }
    }
}

/// How many pattern characters the text character consumes, if it matches.
fn match_one(pattern: &[char], c: char) -> Option<usize> {
    match pattern {
        ['?', ..] => Some(1),
        ['\\', literal, ..] => (*literal == c).then_some(2),
        ['[', class @ ..] => {
            let end = class.iter().position(|c| *c == ']')?;
            let (negated, members) = match &class[..end] {
                ['!' | '^', members @ ..] => (true, members),
                members => (false, members),
            };
            (in_class(members, c) != negated).then_some(end + 2)
        }
        [literal, ..] => (*literal == c).then_some(1),
        [] => None,
    }
}

fn in_class(mut members: &[char], c: char) -> bool {
    loop {
        members = match members {
            [from, '-', to, rest @ ..] => {
                if (*from..=*to).contains(&c) {
                    return true;
                }
                rest
            }
            [member, rest @ ..] => {
                if *member == c {
                    return true;
                }
                rest
            }
            [] => return false,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns() {
        let cases = [
            ("", "", true),
            ("", "apps", false),
            ("*", "", true),
            ("*", "apps", true),
            ("*.k8s.io", "networking.k8s.io", true),
            ("*.k8s.io", "k8s.io", false),
            ("Deploy*", "Deployment", true),
            ("*Set", "StatefulSet", true),
            ("*S*t", "DaemonSet", true),
            ("?od", "Pod", true),
            ("?od", "od", false),
            ("[PQ]od", "Pod", true),
            ("[!P]od", "Pod", false),
            ("[A-Z]od", "Pod", true),
            ("{Role,ClusterRole}", "ClusterRole", true),
            ("{Role,ClusterRole}{,Binding}", "RoleBinding", true),
            ("{Role,ClusterRole}", "RoleBinding", false),
            ("a{b{c,d},e}", "abd", true),
            ("a{b{c,d},e}", "ae", true),
            ("\\*", "*", true),
            ("\\*", "x", false),
            ("[", "[", false),
            ("apps", "Apps", false),
        ];
        for (pattern, text, want) in cases {
            assert_eq!(matches(pattern, text), want, "{pattern:?} on {text:?}");
        }
        let bomb = "{a,b}".repeat(64);
        assert!(!matches(&bomb, "x"), "braces are bounded");
        assert!(!matches(&"*a".repeat(200), &"a".repeat(199)), "stars do not explode");
    }
}
