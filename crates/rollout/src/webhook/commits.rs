//! The commits of a push, read without keeping them: a body of some megabytes may have millions.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::MAX_TEXT;

/// The most changed files of one push that are compared.
const MAX_FILES: usize = 20_000;

/// What the commits of a push change.
#[derive(Debug, Default)]
pub(super) struct Commits {
    /// How many they are.
    pub count: usize,
    files: Vec<String>,
    /// Whether a commit does not report its files, or they are too many.
    is_partial: bool,
}

impl Commits {
    /// The changed files; none when a commit does not report its own, or when there are too many.
    pub(super) fn into_files(self) -> Vec<String> {
        let Self { mut files, is_partial, .. } = self;
        if is_partial {
            return Vec::new();
        }
        files.sort_unstable();
        files.dedup();
        files
    }
}

impl<'de> Deserialize<'de> for Commits {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut commits = Self::default();
        deserializer.deserialize_seq(List(&mut commits))?;
        Ok(commits)
    }
}

/// The list of commits.
struct List<'a>(&'a mut Commits);

impl<'de> Visitor<'de> for List<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of commits")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        loop {
            let before = self.0.files.len();
            if list.next_element_seed(Commit(self.0))?.is_none() {
                return Ok(());
            }
            self.0.count += 1;
            self.0.is_partial |= self.0.files.len() == before;
        }
    }
}

/// One commit.
struct Commit<'a>(&'a mut Commits);

impl<'de> DeserializeSeed<'de> for Commit<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Commit<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a commit")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        while let Some(field) = fields.next_key::<Cow<'de, str>>()? {
            match &*field {
                "added" | "modified" | "removed" => fields.next_value_seed(Files(self.0))?,
                _ => drop(fields.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

/// The files that a commit adds, changes or removes; null without any.
struct Files<'a>(&'a mut Commits);

impl<'de> DeserializeSeed<'de> for Files<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'de> Visitor<'de> for Files<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of files")
    }

    fn visit_none<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(file) = list.next_element::<Cow<'de, str>>()? {
            if self.0.files.len() >= MAX_FILES {
                self.0.is_partial = true;
            } else if file.len() <= MAX_TEXT {
                self.0.files.push(file.into_owned());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (usize, Vec<String>, usize) {
        let commits: Commits = serde_json::from_str(text).unwrap();
        let kept = commits.files.capacity();
        (commits.count, commits.into_files(), kept)
    }

    #[test]
    fn files_are_those_of_all_commits_or_none() {
        for (text, count, files) in [
            ("[]", 0, &[][..]),
            (r#"[{"added":["b","a"],"removed":null},{"modified":["a"],"x":[{}]}]"#, 2, &["a", "b"]),
            (r#"[{"added":["a"]},{}]"#, 2, &[]),
            (r#"[{"added":[]}]"#, 1, &[]),
            ("[{\"added\":[\"\\u00e9\"]}]", 1, &["é"]),
        ] {
            let (found, read, _) = read(text);
            assert_eq!(
                (found, read.iter().map(String::as_str).collect::<Vec<_>>()),
                (count, files.to_vec()),
                "{text}"
            );
        }
        for odd in ["{}", "[[]]", r#"[{"added":"a"}]"#, r#"[{"added":[1]}]"#] {
            assert!(serde_json::from_str::<Commits>(odd).is_err(), "{odd}");
        }
    }

    /// A body of 24 MiB took 1.27 GB: its commits and files were kept before they were counted.
    #[test]
    fn millions_of_commits_and_files_take_no_memory() {
        let commits = format!("[{}{{}}]", "{},".repeat(1_000_000));
        assert_eq!(read(&commits), (1_000_001, Vec::new(), 0));
        let files = format!(r#"[{{"added":[{}""]}}]"#, r#""","#.repeat(1_000_000));
        let (count, files, kept) = read(&files);
        assert_eq!((count, files.len()), (1, 0));
        assert!(kept <= 2 * MAX_FILES, "{kept}");
    }
}
