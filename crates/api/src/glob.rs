//! The globs of projects, sync windows, ignore rules, namespace lists and
//! directory sources (SE-004, SE-070 … SE-077, SE-095, SE-171, SE-401, AS-400).
//!
//! | pattern | matches |
//! |---|---|
//! | `*` | any text, up to a separator |
//! | `**` | any text, separators included |
//! | `?` | one character that is no separator |
//! | `[abc]`, `[a-z0-9]` | one of these characters |
//! | `[!abc]`, `[^abc]` | one character that is none of these |
//! | `{one,two*}` | one of these patterns; they nest |
//! | `\*` | the character after the backslash |
//!
//! Everything else matches itself, and the whole text has to match. Without a
//! separator, `*` and `**` are the same.
//!
//! An invalid pattern is an error and never matches literally: a deny rule that silently
//! matches nothing would allow everything. Use [`glob_allows`] and [`glob_denies`] where a rule
//! must be enforced anyway.

/// Longest pattern, in bytes.
const MAX_PATTERN: usize = 4096;

/// Limit on nested braces: parsing and matching recurse.
const MAX_NESTING: usize = 16;

/// Limit on the steps back of an expression with look-around or back-references, which is not
/// matched in linear time: some milliseconds. Names have at most 253 characters.
const MAX_BACKTRACKS: usize = 100_000;

/// Limit on the memory of one compiled expression, in bytes.
const MAX_EXPRESSION: usize = 1 << 20;

/// A parsed pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob {
    tokens: Vec<Token>,
    separator: Option<char>,
}

/// Why a pattern is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("pattern {pattern:?}: {reason}")]
pub struct InvalidGlob {
    /// The pattern, truncated.
    pub pattern: String,
    /// Why it is invalid, and how to write it.
    pub reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Exact(char),
    AnyChar,
    Any { crosses: bool },
    Class { ranges: Vec<(char, char)>, negated: bool },
    Either(Vec<Vec<Token>>),
}

/// Whether the whole text matches; an invalid pattern matches nothing.
pub fn glob_allows(pattern: &str, text: &str, separator: Option<char>) -> bool {
    Glob::read(pattern, separator).is_ok_and(|glob| glob.matches(text))
}

/// Whether the whole text matches; an invalid pattern matches everything.
pub fn glob_denies(pattern: &str, text: &str, separator: Option<char>) -> bool {
    Glob::read(pattern, separator).map_or(true, |glob| glob.matches(text))
}

impl Glob {
    /// Parses a pattern for texts without separators: `*` matches everything.
    ///
    /// # Errors
    ///
    /// [`InvalidGlob`] when a bracket or brace is left open or empty, a range
    /// is reversed, or the pattern is longer than 4,096 bytes.
    pub fn new(pattern: &str) -> Result<Self, InvalidGlob> {
        Self::read(pattern, None)
    }

    /// A pattern that matches every text.
    pub fn any() -> Self {
        Self { tokens: vec![Token::Any { crosses: true }], separator: None }
    }

    fn read(pattern: &str, separator: Option<char>) -> Result<Self, InvalidGlob> {
        let invalid = |reason| InvalidGlob { pattern: pattern.chars().take(80).collect(), reason };
        if pattern.len() > MAX_PATTERN {
            return Err(invalid("longer than 4096 bytes"));
        }
        let mut reader = Reader { rest: pattern.chars().peekable(), depth: 0 };
        let tokens = reader.sequence().map_err(invalid)?;
        Ok(Self { tokens, separator })
    }

    /// Whether it is a text that matches only itself.
    pub fn is_exact(&self) -> bool {
        self.tokens.iter().all(|token| matches!(token, Token::Exact(_)))
    }

    /// Whether the whole text matches, in at most [`Glob::cost`] steps.
    pub fn matches(&self, text: &str) -> bool {
        let text: Vec<char> = text.chars().collect();
        let mut reach = vec![false; text.len() + 1];
        reach[0] = true;
        self.walk(&self.tokens, &text, reach)[text.len()]
    }

    /// The most steps that matching a text of this many bytes takes: the
    /// product of both lengths.
    pub fn cost(&self, length: usize) -> u64 {
        fn count(tokens: &[Token]) -> u64 {
            let each = |token: &Token| match token {
                Token::Either(choices) => 1 + choices.iter().map(|c| 1 + count(c)).sum::<u64>(),
                Token::Class { ranges, .. } => 1 + ranges.len() as u64,
                Token::Exact(_) | Token::AnyChar | Token::Any { .. } => 1,
            };
            tokens.iter().map(each).sum()
        }
        (1 + count(&self.tokens)).saturating_mul(1 + length as u64)
    }

    /// The lengths of the text that can be matched, from those matched so far. Avoids
    /// repeated work, so matching is not exponential.
    fn walk(&self, tokens: &[Token], text: &[char], mut reach: Vec<bool>) -> Vec<bool> {
        for token in tokens {
            match token {
                Token::Any { crosses } => {
                    let mut open = false;
                    for (index, reached) in reach.iter_mut().enumerate() {
                        open |= *reached;
                        *reached = open;
                        let stops = !crosses && text.get(index).copied() == self.separator;
                        if stops && self.separator.is_some() {
                            open = false;
                        }
                    }
                }
                Token::Either(choices) => {
                    let mut next = vec![false; reach.len()];
                    for choice in choices {
                        let reached = self.walk(choice, text, reach.clone());
                        next.iter_mut().zip(reached).for_each(|(next, reached)| *next |= reached);
                    }
                    reach = next;
                }
                one => {
                    for index in (0..text.len()).rev() {
                        reach[index + 1] = reach[index] && self.fits(one, text[index]);
                    }
                    reach[0] = false;
                }
            }
        }
        reach
    }

    /// Whether a token matches this character.
    fn fits(&self, token: &Token, c: char) -> bool {
        match token {
            Token::Exact(own) => *own == c,
            Token::AnyChar => self.separator != Some(c),
            Token::Class { ranges, negated } => {
                ranges.iter().any(|(first, last)| (*first..=*last).contains(&c)) != *negated
            }
            Token::Any { .. } | Token::Either(_) => false,
        }
    }
}

/// A pattern over names: a glob, or a regular expression between slashes that
/// has to match a part of the name unless it has anchors (SE-004, AS-400).
#[derive(Clone, Debug)]
pub enum NamePattern {
    /// A glob without separators.
    Glob(Glob),
    /// What stands between the slashes.
    Expression(Box<fancy_regex::Regex>),
}

impl PartialEq for NamePattern {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Glob(one), Self::Glob(other)) => one == other,
            (Self::Expression(one), Self::Expression(other)) => one.as_str() == other.as_str(),
            (Self::Glob(_), Self::Expression(_)) | (Self::Expression(_), Self::Glob(_)) => false,
        }
    }
}

impl NamePattern {
    /// Reads a pattern.
    ///
    /// # Errors
    ///
    /// Why the glob or the expression is invalid.
    pub fn new(pattern: &str) -> Result<Self, String> {
        let inner = pattern.strip_prefix('/').and_then(|rest| rest.strip_suffix('/'));
        let Some(expression) = inner else {
            return Glob::new(pattern).map(Self::Glob).map_err(|error| error.to_string());
        };
        if expression.len() > MAX_PATTERN {
            return Err("a regular expression is longer than 4096 bytes; shorten it".to_owned());
        }
        let read = fancy_regex::RegexBuilder::new(expression)
            .delegate_size_limit(MAX_EXPRESSION)
            .backtrack_limit(MAX_BACKTRACKS)
            .build();
        // The last line is the reason; the lines before show the position.
        let reason = |error: fancy_regex::Error| {
            let text = error.to_string();
            let last = text.lines().last().unwrap_or_default().trim();
            let last = last.strip_prefix("error: ").unwrap_or(last).to_owned();
            format!("pattern {:?}: {last}", pattern.chars().take(80).collect::<String>())
        };
        read.map(|read| Self::Expression(Box::new(read))).map_err(reason)
    }

    /// Whether it matches a name; not when this takes too many steps.
    pub fn matches(&self, name: &str) -> bool {
        self.matches_or(name, false)
    }

    /// As [`Self::matches`]; `exceeded` when it takes too many steps.
    pub fn matches_or(&self, name: &str, exceeded: bool) -> bool {
        match self {
            Self::Glob(glob) => glob.matches(name),
            Self::Expression(expression) => expression.is_match(name).unwrap_or(exceeded),
        }
    }
}

struct Reader<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
    /// Number of open braces.
    depth: usize,
}

impl Reader<'_> {
    /// Reads up to the end, or up to the `,` or `}` that ends an alternative.
    fn sequence(&mut self) -> Result<Vec<Token>, &'static str> {
        let mut tokens = Vec::new();
        let ends = if self.depth > 0 { [',', '}'].as_slice() } else { &[] };
        while let Some(c) = self.rest.next_if(|c| !ends.contains(c)) {
            let token = match c {
                '*' => Token::Any { crosses: self.rest.next_if_eq(&'*').is_some() },
                '?' => Token::AnyChar,
                '[' => self.class()?,
                '{' => self.either()?,
                '\\' => Token::Exact(self.escaped()?),
                c => Token::Exact(c),
            };
            tokens.push(token);
        }
        Ok(tokens)
    }

    fn escaped(&mut self) -> Result<char, &'static str> {
        self.rest.next().ok_or("ends with a backslash; write \\\\ for one")
    }

    /// Reads what follows `{`.
    fn either(&mut self) -> Result<Token, &'static str> {
        if self.depth == MAX_NESTING {
            return Err("braces nest deeper than 16 levels");
        }
        self.depth += 1;
        let mut choices = Vec::new();
        loop {
            choices.push(self.sequence()?);
            match self.rest.next() {
                Some(',') => {}
                Some(_) => break,
                None => return Err("a '{' is not closed; write \\{ for the character itself"),
            }
        }
        self.depth -= 1;
        Ok(Token::Either(choices))
    }

    /// Reads what follows `[`.
    fn class(&mut self) -> Result<Token, &'static str> {
        const OPEN: &str = "a '[' is not closed; write \\[ for the character itself";
        let negated = self.rest.next_if(|c| matches!(c, '!' | '^')).is_some();
        let mut ranges = Vec::new();
        loop {
            let first = match self.rest.next().ok_or(OPEN)? {
                ']' if ranges.is_empty() => return Err("'[]' names no character"),
                ']' => return Ok(Token::Class { ranges, negated }),
                '\\' => self.escaped()?,
                c => c,
            };
            let mut ahead = self.rest.clone();
            // At the end of a class `-` is a plain character.
            let last = match (ahead.next(), ahead.next()) {
                (Some('-'), Some(last)) if last != ']' => {
                    self.rest = ahead;
                    if last == '\\' { self.escaped()? } else { last }
                }
                _ => first,
            };
            if last < first {
                return Err("a range in '[]' is reversed; write the lower character first");
            }
            ranges.push((first, last));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Glob, MAX_PATTERN, NamePattern, glob_allows, glob_denies};

    #[test]
    fn patterns() {
        let cases = [
            // SE-071, SE-072, SE-171, SE-401, AS-400: no separator.
            ("", "", None, true),
            ("", "apps", None, false),
            ("*", "", None, true),
            ("*", "a/b.c", None, true),
            ("**", "a/b", None, true),
            ("web", "web", None, true),
            ("web", "webs", None, false),
            ("apps", "Apps", None, false),
            ("*-prod", "web-prod", None, true),
            ("*-prod", "web-prod-2", None, false),
            ("a*c", "abbbc", None, true),
            ("*S*t", "DaemonSet", None, true),
            ("*.k8s.io", "networking.k8s.io", None, true),
            ("*.k8s.io", "k8s.io", None, false),
            ("w?b", "web", None, true),
            ("w?b", "wb", None, false),
            ("?", "/", None, true),
            ("[abc]x", "bx", None, true),
            ("[a-c]x", "bx", None, true),
            ("[a-c]x", "dx", None, false),
            ("[!a-c]x", "bx", None, false),
            ("[!a-c]x", "dx", None, true),
            ("[^a-c]x", "dx", None, true),
            ("[a-z0-9]", "7", None, true),
            ("[A-Za-z]", "q", None, true),
            ("[.+-]", "-", None, true),
            ("[-.]", "-", None, true),
            ("[a!]", "!", None, true),
            (r"[\]]", "]", None, true),
            (r"[\!a]", "!", None, true),
            (r"[a-\z]", "y", None, true),
            ("prod-[0-4]", "prod-5", None, false),
            ("team-[ab]", "team-b", None, true),
            ("{web,api}-*", "api-1", None, true),
            ("{web,api}-*", "db-1", None, false),
            ("{victim,kube-system}", "victim", None, true),
            ("{victim,kube-system}", "victims", None, false),
            ("{Role,ClusterRole}{,Binding}", "RoleBinding", None, true),
            ("{a{1,2},b}", "a2", None, true),
            ("{a{1,2},b}", "a", None, false),
            ("a{b{c,d},e}", "ae", None, true),
            ("{*,x}y", "zy", None, true),
            ("{a?,[bc]*}", "cat", None, true),
            ("a,b}", "a,b}", None, true),
            ("a]", "a]", None, true),
            (r"\*", "*", None, true),
            (r"\*", "a", None, false),
            (r"\{a,b\}", "{a,b}", None, true),
            (r"{a\,b,c}", "a,b", None, true),
            ("ä?ö", "äüö", None, true),
            // SE-070: with the separator `/`.
            ("*", "a/b", Some('/'), false),
            ("**", "a/b", Some('/'), true),
            ("https://a/*", "https://a/b", Some('/'), true),
            ("https://a/*", "https://a/b/c", Some('/'), false),
            ("https://a/**", "https://a/b/c", Some('/'), true),
            ("https://a/**/c", "https://a/b/d/c", Some('/'), true),
            ("https://{a,b}/*", "https://b/c", Some('/'), true),
            ("https://{a,b/*}/c", "https://b/x/c", Some('/'), true),
            ("a?b", "a/b", Some('/'), false),
            ("a[!x]b", "a/b", Some('/'), true),
            ("a***b", "a/x/b", Some('/'), true),
        ];
        for (pattern, text, separator, want) in cases {
            assert_eq!(glob_allows(pattern, text, separator), want, "{pattern} on {text}");
            assert_eq!(glob_denies(pattern, text, separator), want, "{pattern} on {text}");
        }
        assert!(Glob::any().matches("any/thing"));
    }

    #[test]
    fn invalid_patterns_allow_nothing_and_deny_everything() {
        let long = "a".repeat(MAX_PATTERN + 1);
        let deep = format!("{}a{}", "{".repeat(17), "}".repeat(17));
        for pattern in
            ["[a", "[", "[]", "[!]", "[]]", "[z-a]", "{a,b", "a{b,{c}", r"a\", r"[\", &long, &deep]
        {
            let error = Glob::new(pattern).unwrap_err();
            assert!(error.to_string().len() < 200, "{error}");
            assert!(!glob_allows(pattern, pattern, None), "{pattern}");
            assert!(!glob_allows(pattern, "a", None), "{pattern}");
            assert!(glob_denies(pattern, "a", None), "{pattern}");
        }
        let error = Glob::new("!{victim").unwrap_err();
        assert_eq!(
            error.to_string(),
            r#"pattern "!{victim": a '{' is not closed; write \{ for the character itself"#
        );
    }

    #[test]
    fn names_are_matched_by_globs_and_expressions() {
        let cases = [
            // AS-400, SE-004, SE-077
            ("team-[ab]", "team-a", true),
            ("team-[ab]", "team-c", false),
            ("{red,blue}-*", "blue-1", true),
            ("/^a[0-9]$/", "a1", true),
            ("/^a[0-9]$/", "a12", false),
            ("/a/", "bab", true),
            ("/", "/", true),
        ];
        for (pattern, name, want) in cases {
            assert_eq!(NamePattern::new(pattern).unwrap().matches(name), want, "{pattern}");
        }
        // Argo CD's engine for namespaces has look-around.
        let pattern = NamePattern::new("/^(?!kube-)(?!.*-prod$).+/").unwrap();
        for (name, want) in [("team-a", true), ("kube-system", false), ("a-prod", false)] {
            assert_eq!(pattern.matches(name), want, "{name}");
        }
        let slow = NamePattern::new("/^(?=(a+)+$)(a+)+$/").unwrap();
        assert!(!slow.matches(&format!("{}b", "a".repeat(60))));
        assert!(NamePattern::new(&format!("/{}/", "a".repeat(5000))).is_err());
        let error = NamePattern::new("/a(?=b/").unwrap_err();
        assert!(!error.contains('\n'), "{error}");
        assert!(NamePattern::new("/(/").is_err() && NamePattern::new("team-{a").is_err());
    }

    #[test]
    fn expensive_patterns_are_bounded() {
        let text = "a".repeat(2000);
        for pattern in [
            format!("{}b", "*a".repeat(2000)),
            "{a,b}".repeat(800),
            format!("{}b", "{*,**}".repeat(600)),
            format!("{}{}b", "{a*,".repeat(16), "}".repeat(16)),
            format!("{{{}}}", ",".repeat(4000)),
        ] {
            let glob = Glob::new(&pattern).unwrap();
            assert!(!glob.matches(&text), "{pattern}");
            assert!(glob.cost(text.len()) < 50_000_000, "{pattern}");
        }
        assert!(Glob::new(&"{".repeat(1_000_000)).is_err());
    }
}
