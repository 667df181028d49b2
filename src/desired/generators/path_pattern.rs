//! Patterns of paths in a repository (AS-092, AS-096).
//!
//! | pattern | directories | files, greedy | files, by segment |
//! |---|---|---|---|
//! | `*` | any text without `/` | any text | any text without `/` |
//! | `**` | as `*` | any text | any number of directories, as a whole segment |
//! | `?` | one character but `/` | one character | one character but `/` |
//! | `[a-z]`, `[^a]` | one such character | the same | the same |
//! | `{a,b}` | itself | itself | one of these |
//! | a path of a directory | itself | all files below it | itself |
//!
//! A pattern becomes a regular expression, which takes linear time.

use regex::{Regex, RegexBuilder};

/// Longest pattern, in bytes.
const MAX_PATTERN: usize = 4096;
/// Limit on the memory of one compiled pattern, in bytes.
const MAX_COMPILED: usize = 1 << 20;

/// How patterns of files are read (AS-096).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Globbing {
    /// A `*` crosses `/`.
    #[default]
    Greedy,
    /// A `*` stays within a segment, `**` crosses segments.
    BySegment,
}

/// A compiled pattern.
#[derive(Clone, Debug)]
pub struct PathPattern(Regex);

impl PathPattern {
    /// A pattern of directories.
    ///
    /// # Errors
    ///
    /// The pattern, and why it is invalid.
    pub fn of_directories(pattern: &str) -> Result<Self, String> {
        Self::compile(pattern, Syntax { crosses: false, doubled: false })
    }

    /// A pattern of files.
    ///
    /// # Errors
    ///
    /// The pattern, and why it is invalid.
    pub fn of_files(pattern: &str, globbing: Globbing) -> Result<Self, String> {
        match globbing {
            Globbing::Greedy => {
                let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
                Self::compile(pattern, Syntax { crosses: true, doubled: false })
            }
            Globbing::BySegment => Self::compile(pattern, Syntax { crosses: false, doubled: true }),
        }
    }

    /// Whether a path relative to the root of the repository matches.
    pub fn matches(&self, path: &str) -> bool {
        self.0.is_match(path)
    }

    fn compile(pattern: &str, syntax: Syntax) -> Result<Self, String> {
        let invalid = |why: &str| {
            let shown: String = pattern.chars().take(80).collect();
            format!("pattern {shown:?}: {why}")
        };
        if pattern.len() > MAX_PATTERN {
            return Err(invalid("longer than 4096 bytes"));
        }
        let expression = syntax.expression(pattern).map_err(invalid)?;
        let compiled = RegexBuilder::new(&expression)
            .size_limit(MAX_COMPILED)
            .dot_matches_new_line(true)
            .build()
            .map_err(|_| invalid("it is too complex, or a range such as [z-a] is reversed"))?;
        Ok(Self(compiled))
    }
}

/// The syntax of a pattern.
#[derive(Clone, Copy)]
struct Syntax {
    /// Whether wildcards match `/`, and the path of a directory all files below it.
    crosses: bool,
    /// Whether `**` and braces have a meaning.
    doubled: bool,
}

impl Syntax {
    fn expression(self, pattern: &str) -> Result<String, &'static str> {
        let chars: Vec<char> = pattern.chars().collect();
        let mut expression = String::from("^(?:");
        let (mut at, mut braces) = (0, 0);
        while at < chars.len() {
            let c = chars[at];
            let starts_segment = at == 0 || matches!(chars[at - 1], '/' | '{' | ',');
            at += 1;
            match c {
                '*' if self.doubled && starts_segment && chars.get(at) == Some(&'*') => {
                    match chars.get(at + 1) {
                        Some('/') => {
                            expression.push_str("(?:[^/]+/)*");
                            at += 2;
                        }
                        None | Some('}' | ',') => {
                            expression.push_str(".*");
                            at += 1;
                        }
                        Some(_) => expression.push_str("[^/]*"),
                    }
                }
                '*' => expression.push_str(if self.crosses { ".*" } else { "[^/]*" }),
                '?' => expression.push_str(if self.crosses { "." } else { "[^/]" }),
                '[' => at = class(&chars, at, self, &mut expression)?,
                '\\' => {
                    let escaped = chars.get(at).ok_or("it ends with a backslash")?;
                    expression.push_str(&regex::escape(&escaped.to_string()));
                    at += 1;
                }
                '{' if self.doubled => {
                    braces += 1;
                    expression.push_str("(?:");
                }
                '}' if self.doubled && braces > 0 => {
                    braces -= 1;
                    expression.push(')');
                }
                ',' if braces > 0 => expression.push('|'),
                c => expression.push_str(&regex::escape(&c.to_string())),
            }
        }
        if braces > 0 {
            return Err("a { is not closed");
        }
        expression.push(')');
        if self.crosses && !pattern.contains(['*', '?', '[', '\\']) {
            // The path of a directory, with or without a slash at its end.
            let slash = if pattern.ends_with('/') || pattern.is_empty() { "" } else { "/" };
            expression.push_str(&format!("(?:{slash}.*)?"));
        }
        expression.push('$');
        Ok(expression)
    }
}

/// Appends a character class that begins before `at`, and returns the position behind it.
fn class(
    chars: &[char],
    mut at: usize,
    syntax: Syntax,
    expression: &mut String,
) -> Result<usize, &'static str> {
    let negated = matches!(chars.get(at), Some('^' | '!'));
    at += usize::from(negated);
    expression.push_str(if negated { "[^" } else { "[" });
    if negated && !syntax.crosses {
        expression.push('/');
    }
    let mut empty = true;
    loop {
        let c = *chars.get(at).ok_or("a [ is not closed")?;
        at += 1;
        let literal = match c {
            ']' if !empty => break,
            ']' => return Err("[] is empty"),
            '-' if !empty && !matches!(chars.get(at), Some(']') | None) => {
                expression.push('-');
                continue;
            }
            '\\' => {
                let escaped = *chars.get(at).ok_or("a [ is not closed")?;
                at += 1;
                escaped
            }
            c => c,
        };
        empty = false;
        if !literal.is_alphanumeric() {
            expression.push('\\');
        }
        if literal.is_alphanumeric() || literal.is_ascii() {
            expression.push(literal);
        } else {
            expression.push_str(&format!("x{{{:x}}}", u32::from(literal)));
        }
    }
    expression.push(']');
    Ok(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_match_by_segment_as_092() {
        let cases = [
            ("*", "app1", true),
            ("*", "p1/app4", false),
            ("p1/*", "p1/app2", true),
            ("p1/*", "p1/p2/app3", false),
            ("p1/*/*", "p1/p2/app3", true),
            ("**", "p1/app", false),
            ("p?/a[a-p]p[0-9]", "p1/app2", true),
            ("p?/a[^p]p2", "p1/app2", false),
            ("a[^b]c", "a/c", false),
            ("app\\*", "app*", true),
            ("{a,b}", "{a,b}", true),
            ("a+b.c", "a+b.c", true),
            ("a.c", "abc", false),
        ];
        for (pattern, path, want) in cases {
            let got = PathPattern::of_directories(pattern).unwrap().matches(path);
            assert_eq!(got, want, "{pattern} {path}");
        }
        for malformed in ["a[", "a[]", "a\\", "[z-a]", &"a".repeat(5000)] {
            assert!(PathPattern::of_directories(malformed).is_err(), "{malformed}");
        }
    }

    #[test]
    fn files_match_greedily_or_by_segment_as_096() {
        let deep = "cluster-charts/c1/mychart/charts/sub/values.yaml";
        let cases = [
            // pattern, path, greedy, by segment
            ("cluster-charts/*/*/values.yaml", deep, true, false),
            ("cluster-charts/*/*/values.yaml", "cluster-charts/a/b/values.yaml", true, true),
            ("a/*.yaml", "a/b/c.yaml", true, false),
            ("a/**/c.yaml", "a/b/c.yaml", true, true),
            ("a/**/c.yaml", "a/c.yaml", false, true),
            ("**/config.json", "config.json", false, true),
            ("**/config.json", "a/b/config.json", true, true),
            ("a/**", "a/b/c.yaml", true, true),
            ("a/x**/c", "a/xb/c", true, true),
            ("a/x**/c", "a/xb/d/c", true, false),
            ("a/{b,c}/d", "a/c/d", false, true),
            ("a/{b,**}/d", "a/c/e/d", false, true),
            ("config", "config/prod.yaml", true, false),
            ("config/", "config/prod.yaml", true, false),
            ("config", "config2", false, false),
            ("./a.json", "a.json", true, false),
        ];
        for (pattern, path, greedy, by_segment) in cases {
            let matches =
                |globbing| PathPattern::of_files(pattern, globbing).unwrap().matches(path);
            assert_eq!(matches(Globbing::Greedy), greedy, "greedy: {pattern} {path}");
            assert_eq!(matches(Globbing::BySegment), by_segment, "by segment: {pattern} {path}");
        }
    }
}
