//! Patterns in the names of files (`valueFiles`, `components`): `*`, `?` and `[a-z]` within a
//! name, and `**` for any directories. Blocking.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::glob::Glob;

/// Most files and directories that a pattern reads.
const MAX_ENTRIES: usize = 100_000;

/// Most files that a pattern matches.
const MAX_FOUND: usize = 10_000;

/// Deepest directory below the start that is entered.
const MAX_DEPTH: usize = 64;

/// Whether a name contains a pattern.
pub(super) fn is_pattern(name: &str) -> bool {
    name.contains(['*', '?', '['])
}

/// The paths below `directory` that a pattern matches, each once, in the order of Argo CD: name
/// by name of the pattern, so that what `**` finds in a directory comes before what it finds in
/// the directories in it. With `..`, the pattern leaves the directory, but not `root`; links to
/// directories are not entered by `**`.
///
/// # Errors
///
/// Why the pattern is invalid, or what exceeds a limit.
pub(super) fn expand(root: &Path, directory: &Path, pattern: &str) -> Result<Vec<PathBuf>, String> {
    let mut parts = Vec::new();
    for part in pattern.split('/').filter(|part| !part.is_empty() && *part != ".") {
        parts.push(match part {
            "**" => Part::Any,
            ".." => Part::Up,
            part if is_pattern(part) => {
                let escaped = part.replace('{', "\\{").replace('}', "\\}");
                Part::Pattern(Glob::new(&escaped).map_err(|error| error.to_string())?)
            }
            part => Part::Name(part),
        });
    }
    let mut search = Search { root, found: Vec::new(), left: MAX_ENTRIES };
    search.below(directory, &parts, 0)?;
    // Two `**` find a path several times.
    let mut seen = BTreeSet::new();
    search.found.retain(|path| seen.insert(path.clone()));
    Ok(search.found)
}

enum Part<'a> {
    Any,
    Up,
    Pattern(Glob),
    Name(&'a str),
}

struct Search<'a> {
    root: &'a Path,
    found: Vec<PathBuf>,
    left: usize,
}

impl Search<'_> {
    fn below(&mut self, directory: &Path, parts: &[Part<'_>], depth: usize) -> Result<(), String> {
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
            Part::Any => {
                self.below(directory, rest, depth + 1)?;
                for name in self.names(directory)? {
                    let path = directory.join(&name);
                    if path.symlink_metadata().is_ok_and(|meta| meta.is_dir()) {
                        self.below(&path, parts, depth + 1)?;
                    } else if rest.is_empty() {
                        // At the end, it also stands for files.
                        self.below(&path, rest, depth + 1)?;
                    }
                }
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
            self.left = self.left.checked_sub(1).ok_or_else(|| {
                format!("looks at more than {MAX_ENTRIES} files; name directories in the pattern")
            })?;
            names.extend(entry.file_name().into_string());
        }
        names.sort();
        Ok(names)
    }
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
            let found = expand(&root, &root, pattern).unwrap().into_iter();
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
        for file in ["a.yaml", "b.yaml", "c.txt", "env/a.yaml", "env/deep/er/b.yaml", "{x}.yaml"] {
            let path = root.join("in").join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("o.yaml"), "").unwrap();
        std::os::unix::fs::symlink(outside.path(), root.join("in/out")).unwrap();
        std::os::unix::fs::symlink("..", root.join("in/loop")).unwrap();
        let found = |pattern: &str| -> Result<Vec<String>, String> {
            let found = expand(&root, &root.join("in"), pattern)?;
            let shown = |path: PathBuf| path.strip_prefix(&root).unwrap().display().to_string();
            Ok(found.into_iter().map(shown).collect())
        };
        let cases: [(&str, &[&str]); 8] = [
            ("?.yaml", &["in/a.yaml", "in/b.yaml"]),
            ("[b-z].*", &["in/b.yaml", "in/c.txt"]),
            ("*/a.yaml", &["in/env/a.yaml"]),
            ("env/**/*.yaml", &["in/env/a.yaml", "in/env/deep/er/b.yaml"]),
            ("**/b.yaml", &["in/b.yaml", "in/env/deep/er/b.yaml"]),
            ("../in/env/*.yaml", &["in/env/a.yaml"]),
            ("{*}.yaml", &["in/{x}.yaml"]),
            ("out/*", &[]),
        ];
        for (pattern, want) in cases {
            assert_eq!(found(pattern).unwrap(), want, "{pattern}");
        }
        assert!(found("../../*").unwrap_err().contains("outside of the repository"));
        assert!(found("[").is_err());
        let deep = "*/".repeat(70);
        assert!(found(&deep).unwrap_err().contains("more than 64 directories"));
    }
}
