//! Patterns of paths in a repository (AS-092, AS-096).
//!
//! | pattern | directories | files, greedy | files, by segment |
//! |---|---|---|---|
//! | `*` | any text without `/` | any text | any text without `/` |
//! | `**` | as `*` | any text | any number of directories, as a whole segment |
//! | `?` | one character but `/` | one character | one character but `/` |
//! | `[a-z]`, `[^a]` | one such character | the same, also `[!a]` and `[[:digit:]]` | the same, also `[!a]` |
//! | `{a,b}` | itself | itself | one of these |
//! | a path of a directory | itself | all files below it | itself |
//!
//! The patterns of a generator become one set of regular expressions, which takes linear
//! time.

use std::sync::atomic::{AtomicU64, Ordering};

use regex::{RegexBuilder, RegexSet, RegexSetBuilder};

/// Longest pattern, in bytes.
const MAX_PATTERN: usize = 4096;
/// Limit on the memory of one compiled pattern, in bytes.
const MAX_COMPILED: usize = 1 << 20;
/// The same for all patterns of a generator.
const MAX_COMPILED_TOGETHER: usize = 16 << 20;
/// Most steps of matching: the length of the compiled patterns times that of the paths.
/// 200,000 paths of 50 bytes can be matched with 20 patterns of 20 bytes.
const MAX_STEPS: u64 = 10_000_000_000;

/// How patterns of files are read (AS-096).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Globbing {
    /// A `*` crosses `/`.
    #[default]
    Greedy,
    /// A `*` stays within a segment, `**` crosses segments.
    BySegment,
}

/// A valid pattern, as a regular expression.
#[derive(Clone, Debug)]
pub struct PathPattern(String);

impl PathPattern {
    /// A pattern of directories.
    ///
    /// # Errors
    ///
    /// The pattern, and why it is invalid.
    pub fn of_directories(pattern: &str) -> Result<Self, String> {
        Self::compile(pattern, pattern, Syntax::Directories)
    }

    /// A pattern of files. It is relative to the root of the repository, and `.` and `..`
    /// in it are resolved.
    ///
    /// # Errors
    ///
    /// The pattern, and why it is invalid.
    pub fn of_files(pattern: &str, globbing: Globbing) -> Result<Self, String> {
        let syntax = match globbing {
            Globbing::Greedy => Syntax::Greedy,
            Globbing::BySegment => Syntax::BySegment,
        };
        let relative = relative(pattern, syntax).map_err(|why| invalid(pattern, why))?;
        Self::compile(&relative, pattern, syntax)
    }

    /// Compiles a pattern; `written` is its text for errors.
    fn compile(pattern: &str, written: &str, syntax: Syntax) -> Result<Self, String> {
        if pattern.len() > MAX_PATTERN {
            return Err(invalid(written, "longer than 4096 bytes"));
        }
        let expression = syntax.expression(pattern).map_err(|why| invalid(written, why))?;
        let compiled = RegexBuilder::new(&expression)
            .size_limit(MAX_COMPILED)
            .dot_matches_new_line(true)
            .build();
        match compiled {
            Ok(_) => Ok(Self(expression)),
            Err(_) => {
                let why = "it is too complex, or a range such as [z-a] is reversed";
                Err(invalid(written, why))
            }
        }
    }
}

fn invalid(pattern: &str, why: &str) -> String {
    let shown: String = pattern.chars().take(80).collect();
    format!("pattern {shown:?}: {why}")
}

/// The paths that a pattern includes and none excludes. All patterns are matched together.
#[derive(Debug)]
pub struct PathSelection {
    include: RegexSet,
    exclude: RegexSet,
    /// The length of all patterns.
    length: u64,
    /// Steps that are left.
    steps: AtomicU64,
}

impl PathSelection {
    /// What these patterns select.
    ///
    /// # Errors
    ///
    /// When they exceed the limit on their memory.
    pub fn new(include: &[PathPattern], exclude: &[PathPattern]) -> Result<Self, String> {
        let length = include.iter().chain(exclude).map(|pattern| pattern.0.len() as u64).sum();
        let (include, exclude) = (compile(include)?, compile(exclude)?);
        Ok(Self { include, exclude, length, steps: AtomicU64::new(MAX_STEPS) })
    }

    /// Whether a path relative to the root of the repository is selected.
    ///
    /// # Errors
    ///
    /// When the paths so far take too many steps; a part of them would be missing.
    pub fn selects(&self, path: &str) -> Result<bool, String> {
        let steps = self.length.saturating_mul(path.len() as u64);
        let take = |left: u64| left.checked_sub(steps);
        self.steps.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).map_err(|_| {
            format!(
                "limit exceeded: matching takes more than {MAX_STEPS} steps, the length of all \
                 patterns times that of all paths; use fewer patterns"
            )
        })?;
        Ok(self.include.is_match(path) && !self.exclude.is_match(path))
    }
}

fn compile(patterns: &[PathPattern]) -> Result<RegexSet, String> {
    RegexSetBuilder::new(patterns.iter().map(|pattern| &pattern.0))
        .size_limit(MAX_COMPILED_TOGETHER)
        .dot_matches_new_line(true)
        .build()
        .map_err(|_| "the patterns together are too complex; use fewer".to_owned())
}

/// A pattern of files without `.`, `..` and empty segments.
fn relative(pattern: &str, syntax: Syntax) -> Result<String, &'static str> {
    if syntax == Syntax::Greedy && pattern.starts_with('/') {
        return Err("it is absolute; write a path relative to the root of the repository");
    }
    let mut segments = Vec::new();
    for segment in pattern.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                segments.pop().ok_or("it leads out of the repository")?;
            }
            segment => segments.push(segment),
        }
    }
    let mut relative = segments.join("/");
    if syntax == Syntax::Greedy && pattern.ends_with('/') && !relative.is_empty() {
        relative.push('/');
    }
    Ok(relative)
}

/// The syntax of a pattern.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Syntax {
    /// Of directories.
    Directories,
    /// Of files: wildcards match `/`, and the path of a directory all files below it.
    Greedy,
    /// Of files: `**` and braces have a meaning.
    BySegment,
}

impl Syntax {
    fn crosses(self) -> bool {
        self == Self::Greedy
    }

    fn expression(self, pattern: &str) -> Result<String, &'static str> {
        let doubled = self == Self::BySegment;
        let chars: Vec<char> = pattern.chars().collect();
        let mut expression = String::from("^(?:");
        let (mut at, mut braces) = (0, 0);
        while at < chars.len() {
            let c = chars[at];
            let starts_segment = at == 0 || matches!(chars[at - 1], '/' | '{' | ',');
            at += 1;
            match c {
                '*' if doubled && starts_segment && chars.get(at) == Some(&'*') => {
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
                '*' => expression.push_str(if self.crosses() { ".*" } else { "[^/]*" }),
                '?' => expression.push_str(if self.crosses() { "." } else { "[^/]" }),
                '[' => at = class(&chars, at, self, &mut expression)?,
                '\\' => {
                    let escaped = chars.get(at).ok_or("it ends with a backslash")?;
                    expression.push_str(&regex::escape(&escaped.to_string()));
                    at += 1;
                }
                '{' if doubled => {
                    braces += 1;
                    expression.push_str("(?:");
                }
                '}' if doubled && braces > 0 => {
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
        if self.crosses() && !pattern.contains(['*', '?', '[', '\\']) {
            // The path of a directory, with or without a slash at its end.
            let slash = if pattern.ends_with('/') || pattern.is_empty() { "" } else { "/" };
            expression.push_str(&format!("(?:{slash}.*)?"));
        }
        expression.push('$');
        Ok(expression)
    }
}

/// Names of POSIX classes, as in `[[:digit:]]`.
const NAMED: [&str; 12] = [
    "alnum", "alpha", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space",
    "upper", "xdigit",
];

/// Appends a character class that begins before `at`, and returns the position behind it.
fn class(
    chars: &[char],
    mut at: usize,
    syntax: Syntax,
    expression: &mut String,
) -> Result<usize, &'static str> {
    // Patterns of directories know only [^a].
    let negated = match chars.get(at) {
        Some('^') => true,
        Some('!') => syntax != Syntax::Directories,
        _ => false,
    };
    at += usize::from(negated);
    expression.push_str(if negated { "[^" } else { "[" });
    if negated && !syntax.crosses() {
        expression.push('/');
    }
    let mut empty = true;
    loop {
        let c = *chars.get(at).ok_or("a [ is not closed")?;
        at += 1;
        let literal = match c {
            ']' if !empty => break,
            ']' if !syntax.crosses() => return Err("[] is empty"),
            '[' if syntax.crosses() && chars.get(at) == Some(&':') => {
                let rest: String = chars[at + 1..].iter().take(8).collect();
                let name = NAMED.iter().find(|name| {
                    rest.strip_prefix(*name).is_some_and(|rest| rest.starts_with(":]"))
                });
                let name = name.ok_or("it has a class such as [:name:] that does not exist")?;
                expression.push_str(&format!("[:{name}:]"));
                at += name.len() + 3;
                empty = false;
                continue;
            }
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
            ("[!a]pp", "bpp", false),
            ("[!a]pp", "!pp", true),
            ("./app1", "app1", false),
            ("a[\\]x]c", "a]c", true),
            ("a[\\]x]c", "axc", true),
            ("a[\\]x]c", "a\\c", false),
            ("a[é]c", "aéc", true),
            ("a[é]c", "axc", false),
            ("a[[:d]c", "a:c", true),
            ("a[-]c", "a-c", true),
            ("a[-]c", "abc", false),
        ];
        for (pattern, path, want) in cases {
            let pattern_read = PathPattern::of_directories(pattern).unwrap();
            let got = PathSelection::new(&[pattern_read], &[]).unwrap().selects(path).unwrap();
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
            ("config", "config", true, true),
            ("config/", "config", false, true),
            ("./a.json", "a.json", true, true),
            (".", "a/b.json", true, false),
            ("a//b/./*.json", "a/b/c.json", true, true),
            ("a/x/../*.json", "a/c.json", true, true),
            ("a/[!b].json", "a/c.json", true, true),
            ("a/[^b].json", "a/b.json", false, false),
            ("a/[]x].json", "a/].json", true, true),
            ("a/[[:digit:]x].json", "a/7.json", true, true),
            ("a/[[x].json", "a/[.json", true, true),
            ("a/[[x].json", "a/:.json", false, false),
        ];
        for (pattern, path, greedy, by_segment) in cases {
            let matches = |globbing| {
                let pattern = PathPattern::of_files(pattern, globbing);
                PathSelection::new(&[pattern.unwrap()], &[]).unwrap().selects(path).unwrap()
            };
            assert_eq!(matches(Globbing::Greedy), greedy, "greedy: {pattern} {path}");
            let same = !pattern.contains("[]") && !pattern.contains("[:");
            if same {
                let got = matches(Globbing::BySegment);
                assert_eq!(got, by_segment, "by segment: {pattern} {path}");
            }
        }
        for outside in ["../a", "a/../../b", "/a"] {
            assert!(PathPattern::of_files(outside, Globbing::Greedy).is_err(), "{outside}");
        }
        assert!(PathPattern::of_files("[[:nope:]]", Globbing::Greedy).is_err());
    }

    #[test]
    fn matching_is_bounded_as_135() {
        let pattern = |text: &str| PathPattern::of_files(text, Globbing::Greedy).unwrap();
        let many: Vec<PathPattern> = (0..1000).map(|n| pattern(&format!("*a*b*c*{n}"))).collect();
        let selection = PathSelection::new(&many, &many).unwrap();
        let path = "x".repeat(4000);
        let ended = (0..1000).find_map(|_| selection.selects(&path).err());
        assert!(ended.is_some_and(|error| error.starts_with("limit exceeded: matching takes")));
    }
}
