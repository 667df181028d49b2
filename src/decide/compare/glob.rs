//! Shell globs of projects and settings (SE-004, SE-070 … SE-072): `*`, `?`,
//! `[a-z]`, `[!a-z]`; `**` crosses separators where there is one.

/// Whether the whole text matches. With a separator, `*` and `?` stop at it.
/// The pattern `*` alone matches everything.
pub(super) fn matches(pattern: &str, text: &str, separator: Option<char>) -> bool {
    if pattern == "*" {
        return true;
    }
    let pattern: Vec<char> = pattern.chars().collect();
    let text: Vec<char> = text.chars().collect();
    walk(&pattern, &text, separator)
}

/// Keeps, for each length of matched text, whether the pattern so far can
/// match it: no pattern takes longer than its length times the text's.
fn walk(pattern: &[char], text: &[char], separator: Option<char>) -> bool {
    let mut reach = vec![false; text.len() + 1];
    reach[0] = true;
    let mut at = 0;
    while at < pattern.len() {
        let (token, used) = token(&pattern[at..]);
        at += used;
        let mut next = vec![false; text.len() + 1];
        match token {
            Token::Any { crosses } => {
                let mut open = false;
                for (index, reached) in reach.iter().enumerate() {
                    open |= reached;
                    next[index] = open;
                    if !crosses && text.get(index).is_some_and(|c| Some(*c) == separator) {
                        open = false;
                    }
                }
            }
            Token::One(ref fits) => {
                for (index, c) in text.iter().enumerate() {
                    next[index + 1] = reach[index] && fits.fit(*c, separator);
                }
            }
        }
        reach = next;
    }
    reach[text.len()]
}

enum Token<'a> {
    Any { crosses: bool },
    One(One<'a>),
}

enum One<'a> {
    Exact(char),
    AnyChar,
    Class { members: &'a [char], negated: bool },
}

impl One<'_> {
    fn fit(&self, c: char, separator: Option<char>) -> bool {
        match self {
            Self::Exact(own) => *own == c,
            Self::AnyChar => Some(c) != separator,
            Self::Class { members, negated } => {
                let mut found = false;
                let mut at = 0;
                while at < members.len() {
                    if members.get(at + 1) == Some(&'-') && at + 2 < members.len() {
                        found |= (members[at]..=members[at + 2]).contains(&c);
                        at += 3;
                    } else {
                        found |= members[at] == c;
                        at += 1;
                    }
                }
                found != *negated
            }
        }
    }
}

fn token(pattern: &[char]) -> (Token<'_>, usize) {
    match pattern {
        ['*', '*', ..] => (Token::Any { crosses: true }, 2),
        ['*', ..] => (Token::Any { crosses: false }, 1),
        ['?', ..] => (Token::One(One::AnyChar), 1),
        ['\\', c, ..] => (Token::One(One::Exact(*c)), 2),
        ['[', rest @ ..] => match rest.iter().skip(1).position(|c| *c == ']') {
            Some(end) => {
                let members = &rest[..end + 1];
                let negated = matches!(members.first(), Some('!' | '^'));
                let members = if negated { &members[1..] } else { members };
                (Token::One(One::Class { members, negated }), end + 3)
            }
            None => (Token::One(One::Exact('[')), 1),
        },
        [c, ..] => (Token::One(One::Exact(*c)), 1),
        [] => (Token::Any { crosses: false }, 0),
    }
}
