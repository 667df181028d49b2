//! Globs of window selectors (SE-401): `*` and `?` stand for any characters,
//! `[a-z]` and `[!a-z]` for one, `{a,b}` for either. Nothing is a separator.

/// How deep braces may nest; deeper ones are plain characters.
const NESTING: usize = 8;
/// Characters a glob may have; a longer one stands for itself. No name is
/// longer than 253, and reading braces takes time by the square.
const LONGEST: usize = 1024;

/// A glob that was read. What is not well formed stands for itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Glob {
    tokens: Vec<Token>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Any,
    AnyChar,
    Exact(char),
    Class { ranges: Vec<(char, char)>, negated: bool },
    Either(Vec<Vec<Token>>),
}

impl Glob {
    /// Reads a glob; every text is one.
    pub(super) fn new(text: &str) -> Self {
        let chars: Vec<char> = text.chars().collect();
        let tokens = match chars.len() {
            0..=LONGEST => tokens(&chars, NESTING),
            _ => chars.into_iter().map(Token::Exact).collect(),
        };
        Self { tokens }
    }

    /// Whether it can match one text only.
    pub(super) fn is_exact(&self) -> bool {
        self.tokens.iter().all(|token| matches!(token, Token::Exact(_)))
    }

    /// Whether the whole text matches.
    pub(super) fn matches(&self, text: &str) -> bool {
        let text: Vec<char> = text.chars().collect();
        let mut reach = vec![false; text.len() + 1];
        reach[0] = true;
        walk(&self.tokens, &text, reach)[text.len()]
    }
}

/// Which lengths of the text can be matched, given those matched so far: no
/// glob takes longer than its length times the text's.
fn walk(tokens: &[Token], text: &[char], mut reach: Vec<bool>) -> Vec<bool> {
    for token in tokens {
        reach = match token {
            Token::Any => {
                let mut open = false;
                reach
                    .iter()
                    .map(|reached| {
                        open |= reached;
                        open
                    })
                    .collect()
            }
            Token::Either(choices) => {
                let mut next = vec![false; reach.len()];
                for choice in choices {
                    let reached = walk(choice, text, reach.clone());
                    next.iter_mut().zip(reached).for_each(|(next, reached)| *next |= reached);
                }
                next
            }
            one => {
                let mut next = vec![false; reach.len()];
                for (index, c) in text.iter().enumerate() {
                    next[index + 1] = reach[index] && one.fits(*c);
                }
                next
            }
        };
    }
    reach
}

impl Token {
    /// Whether it stands for this one character.
    fn fits(&self, c: char) -> bool {
        match self {
            Self::Exact(own) => *own == c,
            Self::AnyChar => true,
            Self::Class { ranges, negated } => {
                ranges.iter().any(|(first, last)| (*first..=*last).contains(&c)) != *negated
            }
            Self::Any | Self::Either(_) => false,
        }
    }
}

fn tokens(mut rest: &[char], nesting: usize) -> Vec<Token> {
    let mut tokens = Vec::new();
    loop {
        let (token, used) = match rest {
            [] => return tokens,
            ['*', ..] => (Token::Any, 1),
            ['?', ..] => (Token::AnyChar, 1),
            ['\\', c, ..] => (Token::Exact(*c), 2),
            ['[', inner @ ..] => class(inner).unwrap_or((Token::Exact('['), 1)),
            ['{', inner @ ..] => either(inner, nesting).unwrap_or((Token::Exact('{'), 1)),
            [c, ..] => (Token::Exact(*c), 1),
        };
        tokens.push(token);
        rest = &rest[used..];
    }
}

/// Reads what follows `[`; the number counts from there on, brackets included.
fn class(inner: &[char]) -> Option<(Token, usize)> {
    let negated = matches!(inner.first(), Some('!' | '^'));
    let start = usize::from(negated);
    // A bracket in the first place is a member.
    let length = inner.get(start + 1..)?.iter().position(|c| *c == ']')? + 1;
    let mut members = &inner[start..start + length];
    let mut ranges = Vec::new();
    loop {
        members = match members {
            [] => return Some((Token::Class { ranges, negated }, start + length + 2)),
            [first, '-', last, rest @ ..] => {
                ranges.push((*first, *last));
                rest
            }
            [one, rest @ ..] => {
                ranges.push((*one, *one));
                rest
            }
        };
    }
}

/// Reads what follows `{`; the number counts as in [`class`].
fn either(inner: &[char], nesting: usize) -> Option<(Token, usize)> {
    let nesting = nesting.checked_sub(1)?;
    let mut choices = Vec::new();
    let (mut depth, mut begin, mut at) = (0_usize, 0, 0);
    while at < inner.len() {
        match inner[at] {
            '\\' => at += 1,
            '{' => depth += 1,
            ',' if depth == 0 => {
                choices.push(tokens(&inner[begin..at], nesting));
                begin = at + 1;
            }
            '}' if depth == 0 => {
                choices.push(tokens(&inner[begin..at], nesting));
                return Some((Token::Either(choices), at + 2));
            }
            '}' => depth -= 1,
            _ => {}
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::Glob;

    #[test]
    fn globs() {
        let cases = [
            ("web", "web", true),
            ("web", "webs", false),
            ("*-prod", "web-prod", true),
            ("*-prod", "web-prod-2", false),
            ("*", "", true),
            ("*", "a/b.c", true),
            ("https://*", "https://a.example/b", true),
            ("w?b", "web", true),
            ("w?b", "wb", false),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("[]]", "]", true),
            ("[a", "[a", true),
            ("{web,api}-*", "api-1", true),
            ("{web,api}-*", "db-1", false),
            ("{a{1,2},b}", "a2", true),
            ("{a,b", "{a,b", true),
            (r"\*", "*", true),
            (r"\*", "a", false),
        ];
        for (glob, text, want) in cases {
            assert_eq!(Glob::new(glob).matches(text), want, "{glob} on {text}");
        }
        assert!(Glob::new("web-prod").is_exact() && !Glob::new("web-*").is_exact());
    }

    #[test]
    fn hostile_globs_end() {
        let text = "a".repeat(200);
        assert!(!Glob::new(&format!("{}b", "*a".repeat(100))).matches(&text));
        assert!(!Glob::new(&"{".repeat(2000)).matches(&text));
        assert!(!Glob::new(&"{a,".repeat(300)).matches(&text));
        assert!(!Glob::new(&"{".repeat(1_000_000)).matches(&text));
        let nested = format!("{}a{}", "{".repeat(6), "}".repeat(6));
        assert!(Glob::new(&nested).matches("a"));
    }
}
