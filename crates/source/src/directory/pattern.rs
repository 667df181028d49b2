//! Patterns in the names of files (`valueFiles`, `components`): `*`, `?` and `[a-z]` within a
//! name, `**` for any directories, and for values files `{a,b/c}` for one of several. Blocking.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use wavegate_api::glob::Glob;

/// Most files and directories that a pattern reads.
const MAX_ENTRIES: usize = 100_000;

/// Most files that a pattern matches.
const MAX_FOUND: usize = 10_000;

/// Deepest directory below the start that is entered.
const MAX_DEPTH: usize = 64;

/// Most names that the braces of a pattern stand for.
const MAX_ALTERNATIVES: usize = 1_000;

/// Longest pattern, in bytes.
const MAX_PATTERN: usize = 4_096;

/// What braces are in a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Braces {
    /// Alternatives, separated by commas.
    Alternatives,
    /// Characters of a name.
    Literal,
}

/// Whether a name contains a pattern; one with braces alone is a name.
pub(crate) fn is_pattern(name: &str) -> bool {
    name.contains(['*', '?', '['])
}

/// The paths below `directory` that a pattern matches, each once, in the order of Argo CD: name
/// by name of the pattern, so that what `**` finds in a directory comes before what it finds in
/// the directories in it. With `..`, the pattern leaves the directory, but not `root`; nor do links
/// to directories, which `**` enters where they lead to none that it is in.
///
/// # Errors
///
/// Why the pattern is invalid, or what exceeds a limit.
pub(crate) fn expand(
    root: &Path,
    directory: &Path,
    pattern: &str,
    braces: Braces,
) -> Result<Vec<PathBuf>, String> {
    if pattern.len() > MAX_PATTERN {
        return Err(format!("longer than {MAX_PATTERN} bytes"));
    }
    let mut left = MAX_ALTERNATIVES;
    let parts = parts(pattern, braces, &mut left)?;
    let mut search = Search { root, found: Vec::new(), left: MAX_ENTRIES, entered: Vec::new() };
    search.all(&[directory.to_owned()], &parts, false)?;
    // Two `**` find a path several times.
    let mut seen = BTreeSet::new();
    search.found.retain(|path| seen.insert(path.clone()));
    Ok(search.found)
}

#[derive(Debug)]
enum Part {
    Any,
    Up,
    Pattern(Glob),
    Name(String),
    Either(Vec<Vec<Part>>),
}

fn parts(pattern: &str, braces: Braces, left: &mut usize) -> Result<Vec<Part>, String> {
    let mut parts = Vec::new();
    for part in segments(pattern, braces).into_iter().filter(|part| !matches!(*part, "" | ".")) {
        parts.push(match part {
            "**" => Part::Any,
            ".." => Part::Up,
            part if braces == Braces::Alternatives && special(part).any(|(_, c)| c == '{') => {
                let mut either = Vec::new();
                for one in alternatives(part, *left)? {
                    *left = left.checked_sub(1).ok_or_else(|| {
                        format!("its braces stand for more than {MAX_ALTERNATIVES} names")
                    })?;
                    either.push(self::parts(&one, braces, left)?);
                }
                Part::Either(either)
            }
            part if is_pattern(part) || braces == Braces::Alternatives && part.contains('\\') => {
                let part = match braces {
                    Braces::Literal => part.replace('{', "\\{").replace('}', "\\}"),
                    Braces::Alternatives => part.to_owned(),
                };
                Part::Pattern(Glob::new(&part).map_err(|error| error.to_string())?)
            }
            part => Part::Name(part.to_owned()),
        });
    }
    Ok(parts)
}

/// The characters that may have a meaning: no backslash precedes them, and they are in no class
/// such as `[a-z]`.
fn special(pattern: &str) -> impl Iterator<Item = (usize, char)> {
    let (mut is_escaped, mut is_in_class) = (false, false);
    pattern.char_indices().filter(move |(_, c)| {
        if std::mem::take(&mut is_escaped) {
            return false;
        }
        match c {
            '\\' => is_escaped = true,
            '[' => is_in_class = true,
            ']' => is_in_class = false,
            _ => return !is_in_class,
        }
        false
    })
}

/// The segments of a path; a slash in braces separates none.
fn segments(pattern: &str, braces: Braces) -> Vec<&str> {
    if braces == Braces::Literal {
        return pattern.split('/').collect();
    }
    let (mut depth, mut from) = (0_usize, 0);
    let mut segments = Vec::new();
    for (at, c) in special(pattern) {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            '/' if depth == 0 => {
                segments.push(&pattern[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    segments.push(&pattern[from..]);
    segments
}

/// What a name with braces stands for, by its first ones: at most so many names and one more. An
/// empty name at the end is none, as in Argo CD.
fn alternatives(part: &str, most: usize) -> Result<Vec<String>, String> {
    let mut special = special(part).skip_while(|(_, c)| *c != '{');
    let Some((open, _)) = special.next() else { return Ok(vec![part.to_owned()]) };
    let (mut depth, mut from) = (0_usize, open + 1);
    let mut found = Vec::new();
    for (at, c) in special {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            '}' => {
                found.extend((from < at).then(|| &part[from..at]));
                let (before, after) = (&part[..open], &part[at + 1..]);
                let names = found.iter().take(most.saturating_add(1));
                return Ok(names.map(|one| format!("{before}{one}{after}")).collect());
            }
            ',' if depth == 0 => {
                found.push(&part[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    Err(format!("pattern {part:?}: a {{ is not closed"))
}

struct Search<'a> {
    root: &'a Path,
    found: Vec<PathBuf>,
    left: usize,
    /// The directories that `**` is in, without links, and which `**` of the pattern.
    entered: Vec<(PathBuf, usize)>,
}

impl Search<'_> {
    /// Searches below several directories. What alternatives after a `**` match is sorted as a
    /// whole.
    fn all(&mut self, from: &[PathBuf], parts: &[Part], is_any: bool) -> Result<(), String> {
        let mut is_any = is_any;
        let either = parts.iter().position(|part| {
            is_any |= matches!(part, Part::Any);
            is_any && matches!(part, Part::Either(_))
        });
        let (first, rest) = either.map_or((parts, None), |at| {
            let (first, rest) = parts.split_at(at + 1);
            (first, Some(rest))
        });
        from.iter().try_for_each(|directory| self.below(directory, first, 0))?;
        let Some(rest) = rest else { return Ok(()) };
        let matched = sorted(std::mem::take(&mut self.found));
        self.all(&matched, rest, true)
    }

    /// Counts what is looked at.
    fn look(&mut self) -> Result<(), String> {
        if crate::deadline::is_over() {
            return Err("takes too long to match; name directories in the pattern".to_owned());
        }
        self.left = self.left.checked_sub(1).ok_or_else(|| {
            format!("looks at more than {MAX_ENTRIES} files; name directories in the pattern")
        })?;
        Ok(())
    }

    fn below(&mut self, directory: &Path, parts: &[Part], depth: usize) -> Result<(), String> {
        if depth > MAX_DEPTH {
            return Err(format!("leads more than {MAX_DEPTH} directories deep"));
        }
        let Some((first, rest)) = parts.split_first() else {
            if self.found.len() >= MAX_FOUND {
                return Err(format!("matches more than {MAX_FOUND} files"));
            }
            self.found.push(directory.to_owned());
            return Ok(());
        };
        match first {
            Part::Up => match directory.parent().filter(|parent| parent.starts_with(self.root)) {
                Some(parent) => self.below(parent, rest, depth + 1),
                None => Err("leads outside of the repository".to_owned()),
            },
            Part::Name(name) => {
                self.look()?;
                let path = directory.join(name);
                match path.symlink_metadata() {
                    Ok(_) => self.below(&path, rest, depth + 1),
                    Err(_) => Ok(()),
                }
            }
            Part::Pattern(glob) => {
                for name in self.names(directory)? {
                    if glob.matches(&name) {
                        self.below(&directory.join(&name), rest, depth + 1)?;
                    }
                }
                Ok(())
            }
            Part::Either(either) => {
                let before = std::mem::take(&mut self.found);
                for one in either {
                    self.below(directory, one, depth + 1)?;
                }
                let matched = sorted(std::mem::replace(&mut self.found, before));
                matched.iter().try_for_each(|path| self.below(path, rest, depth + 1))
            }
            Part::Any => {
                let Ok(place) = directory.canonicalize() else { return Ok(()) };
                let entered = (place, parts.as_ptr().addr());
                if self.entered.contains(&entered) {
                    return Ok(());
                }
                self.entered.push(entered);
                self.below(directory, rest, depth + 1)?;
                for name in self.names(directory)? {
                    let path = directory.join(&name);
                    if path.is_dir() {
                        self.below(&path, parts, depth + 1)?;
                    } else if rest.is_empty() {
                        // At the end, it also stands for files.
                        self.below(&path, rest, depth + 1)?;
                    }
                }
                self.entered.pop();
                Ok(())
            }
        }
    }

    fn names(&mut self, directory: &Path) -> Result<Vec<String>, String> {
        let mut names = Vec::new();
        // What is no directory contains nothing.
        let is_inside = directory.canonicalize().is_ok_and(|path| path.starts_with(self.root));
        let entries = if is_inside { std::fs::read_dir(directory).ok() } else { None };
        for entry in entries.into_iter().flatten().flatten() {
            self.look()?;
            names.extend(entry.file_name().into_string());
        }
        names.sort();
        Ok(names)
    }
}

/// By the text of the path, each once.
fn sorted(mut paths: Vec<PathBuf>) -> Vec<PathBuf> {
    paths.sort_by(|one, other| one.as_os_str().cmp(other.as_os_str()));
    paths.dedup();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As with Argo CD's values files: the later one wins.
    #[test]
    fn a_directory_comes_before_those_in_it() {
        let tree = tempfile::tempdir().unwrap();
        let root = tree.path().canonicalize().unwrap();
        for file in
            ["z.yaml", "a.yaml", "nested/c.yaml", "nested/a/x.yaml", "b/z.yaml", "b/b/a.yaml"]
        {
            let path = root.join("envs").join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let found = |pattern: &str| -> Vec<String> {
            let found = expand(&root, &root, pattern, Braces::Literal).unwrap().into_iter();
            let files = found.filter(|path| path.is_file());
            files.map(|path| path.strip_prefix(&root).unwrap().display().to_string()).collect()
        };
        let below = [
            "envs/a.yaml",
            "envs/z.yaml",
            "envs/b/z.yaml",
            "envs/b/b/a.yaml",
            "envs/nested/c.yaml",
            "envs/nested/a/x.yaml",
        ];
        for pattern in ["envs/**/*.yaml", "**/*.yaml", "envs/**/**/*.yaml"] {
            assert_eq!(found(pattern), below, "{pattern}");
        }
        // Names of files and of directories, in one order.
        let all = [
            "envs/a.yaml",
            "envs/b/b/a.yaml",
            "envs/b/z.yaml",
            "envs/nested/a/x.yaml",
            "envs/nested/c.yaml",
            "envs/z.yaml",
        ];
        assert_eq!(found("envs/**"), all);
        assert_eq!(found("envs/*/*.yaml"), ["envs/b/z.yaml", "envs/nested/c.yaml"]);
    }

    #[test]
    fn patterns_match_names_and_directories() {
        let tree = tempfile::tempdir().unwrap();
        let root = tree.path().canonicalize().unwrap();
        for file in [
            "a.yaml",
            "b.yaml",
            "c.txt",
            "env/a.yaml",
            "env/deep/er/b.yaml",
            "env-x/a.yaml",
            "{x}.yaml",
        ] {
            let path = root.join("in").join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("o.yaml"), "").unwrap();
        std::os::unix::fs::symlink(outside.path(), root.join("in/out")).unwrap();
        std::os::unix::fs::symlink("..", root.join("in/loop")).unwrap();
        std::os::unix::fs::symlink("env/deep", root.join("in/same")).unwrap();
        let found_with = |pattern: &str, braces: Braces| -> Result<Vec<String>, String> {
            let found = expand(&root, &root.join("in"), pattern, braces)?;
            let shown = |path: PathBuf| path.strip_prefix(&root).unwrap().display().to_string();
            Ok(found.into_iter().map(shown).collect())
        };
        let found = |pattern: &str| found_with(pattern, Braces::Literal);
        let cases: [(&str, &[&str]); 8] = [
            ("?.yaml", &["in/a.yaml", "in/b.yaml"]),
            ("[b-z].*", &["in/b.yaml", "in/c.txt"]),
            ("*/a.yaml", &["in/env/a.yaml", "in/env-x/a.yaml"]),
            ("env/**/*.yaml", &["in/env/a.yaml", "in/env/deep/er/b.yaml"]),
            ("**/b.yaml", &["in/b.yaml", "in/env/deep/er/b.yaml", "in/same/er/b.yaml"]),
            ("../in/env/*.yaml", &["in/env/a.yaml"]),
            ("{*}.yaml", &["in/{x}.yaml"]),
            ("out/*", &[]),
        ];
        for (pattern, want) in cases {
            assert_eq!(found(pattern).unwrap(), want, "{pattern}");
        }
        let cases: [(&str, &[&str]); 16] = [
            ("{b,a}*.yaml", &["in/a.yaml", "in/b.yaml"]),
            ("{b,?}.{yaml,txt}", &["in/a.yaml", "in/b.yaml", "in/c.txt"]),
            ("{env-x,env}/*.yaml", &["in/env/a.yaml", "in/env-x/a.yaml"]),
            ("{env/deep,same}/*/*.yaml", &["in/env/deep/er/b.yaml", "in/same/er/b.yaml"]),
            ("{env/{deep,none},same}/**/b.yaml", &["in/env/deep/er/b.yaml", "in/same/er/b.yaml"]),
            ("{**,env}/er/*", &["in/env/deep/er/b.yaml", "in/same/er/b.yaml"]),
            ("\\{*\\}.yaml", &["in/{x}.yaml"]),
            ("\\a.{yaml,t?t}", &["in/a.yaml"]),
            ("{,a}.yam[l]", &["in/a.yaml"]),
            ("*}.yaml", &["in/{x}.yaml"]),
            ("**/e*{r,}/b.yaml", &["in/env/deep/er/b.yaml", "in/same/er/b.yaml"]),
            ("{env/deep/er,env-x}/*.yaml", &["in/env-x/a.yaml", "in/env/deep/er/b.yaml"]),
            ("a{.txt,}.y?ml", &[]),
            ("[{]x}.y?ml", &["in/{x}.yaml"]),
            (
                "**/{a,b}.yaml",
                &[
                    "in/a.yaml",
                    "in/b.yaml",
                    "in/env-x/a.yaml",
                    "in/env/a.yaml",
                    "in/env/deep/er/b.yaml",
                    "in/same/er/b.yaml",
                ],
            ),
            ("{**/b,b}.y{aml,ml}", &["in/b.yaml", "in/env/deep/er/b.yaml", "in/same/er/b.yaml"]),
        ];
        for (pattern, want) in cases {
            assert_eq!(found_with(pattern, Braces::Alternatives).unwrap(), want, "{pattern}");
        }
        let refused = |pattern: &str| found_with(pattern, Braces::Alternatives).unwrap_err();
        assert!(refused("{a,*").contains("a { is not closed"));
        let many = "{a,b}".repeat(12);
        assert!(refused(&many).contains("more than 1000 names"), "{}", refused(&many));
        let many = format!("{{{}}}{}*", ",".repeat(2_000), "x".repeat(1_000));
        assert!(refused(&many).contains("more than 1000 names"));
        assert!(refused(&"{,}".repeat(50_000)).contains("longer than 4096 bytes"));
        assert!(found("../../*").unwrap_err().contains("outside of the repository"));
        assert!(found("[").is_err());
        let deep = "*/".repeat(70);
        assert!(found(&deep).unwrap_err().contains("more than 64 directories"));
    }
}
