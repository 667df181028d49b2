//! References of a server, and the commit of a `targetRevision`.
//!
//! Pure: parses the output of `git ls-remote`, runs no program.

use std::collections::BTreeMap;

use crate::version::{Range, version};

/// Shortest abbreviated commit hash that is resolved.
const MIN_SHORT: usize = 7;

/// The references of a repository, by full name, and the objects of annotated tags.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Refs(BTreeMap<String, String>, BTreeMap<String, String>);

/// A target to resolve in a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RevisionTarget<'a> {
    /// `targetRevision` (SE-032): a branch, a tag, a full reference name, a
    /// commit or a version range over tags; empty means `HEAD`.
    pub revision: &'a str,
    /// `tagPrefix` (SE-035): a version range matches only tags with this prefix, and the
    /// rest of the tag is the version. Usually empty.
    pub tag_prefix: &'a str,
}

impl<'a> From<&'a str> for RevisionTarget<'a> {
    fn from(revision: &'a str) -> Self {
        Self { revision, tag_prefix: "" }
    }
}

/// One commit of a repository.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Revision {
    /// The full commit hash in lower case; for a directory without git, the hash of its
    /// content.
    pub sha: String,
    /// The resolved reference, such as `refs/heads/main`; `None` for a commit that was
    /// given by its hash.
    pub reference: Option<String>,
}

impl Revision {
    /// A commit with a known full hash.
    pub fn pinned(sha: &str) -> Self {
        Self { sha: sha.to_ascii_lowercase(), reference: None }
    }
}

/// Result of resolving a target.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The commit.
    One(Revision),
    /// No match; the target may be an abbreviated commit hash.
    MaybeShort,
    /// Several commits start with the abbreviated hash.
    Ambiguous,
    /// No match.
    Nothing,
}

/// Whether this is a full commit hash, of SHA-1 or SHA-256.
pub(crate) fn is_full_hash(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && is_hex(text)
}

/// Whether the text may be an abbreviated commit hash.
pub(crate) fn is_short_hash(text: &str) -> bool {
    (MIN_SHORT..40).contains(&text.len()) && is_hex(text)
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_hexdigit())
}

impl Refs {
    /// Parses lines of `hash TAB name`; a tag object is replaced by its commit. Other
    /// lines are skipped.
    pub(crate) fn parse(listing: &str) -> Self {
        let (mut refs, mut tags) = (BTreeMap::<String, String>::new(), BTreeMap::new());
        for line in listing.lines() {
            let Some((hash, name)) = line.split_once('\t') else { continue };
            if !is_full_hash(hash) {
                continue;
            }
            // `git` lists the peeled name directly after the tag.
            let peeled = name.strip_suffix("^{}");
            let name = peeled.unwrap_or(name);
            let before = refs.insert(name.to_owned(), hash.to_ascii_lowercase());
            if let Some(object) = before.filter(|_| peeled.is_some()) {
                tags.insert(name.to_owned(), object);
            }
        }
        Self(refs, tags)
    }

    /// The hash of the object of an annotated tag, by the full name of the tag.
    pub(crate) fn tag_object(&self, name: &str) -> Option<&str> {
        self.1.get(name).map(String::as_str)
    }

    /// Resolves a target by the rules of [`RevisionTarget`]. A branch takes precedence over a tag
    /// of the same name, a range that matches a tag over both.
    pub(crate) fn find(&self, target: &RevisionTarget<'_>) -> Found {
        let wanted = if target.revision.is_empty() { "HEAD" } else { target.revision };
        if let Some(found) = self.newest_tag(wanted, target.tag_prefix) {
            return Found::One(found);
        }
        let names = [
            wanted.to_owned(),
            format!("refs/heads/{wanted}"),
            format!("refs/tags/{wanted}"),
            format!("refs/{wanted}"),
            format!("refs/remotes/{wanted}"),
        ];
        if let Some(found) = names.into_iter().find_map(|name| self.named(name)) {
            return Found::One(found);
        }
        if !is_short_hash(wanted) {
            return Found::Nothing;
        }
        let wanted = wanted.to_ascii_lowercase();
        let mut starting = self.0.iter().filter(|(_, hash)| hash.starts_with(&wanted));
        match starting.next() {
            None => Found::MaybeShort,
            Some((_, first)) if starting.any(|(_, hash)| hash != first) => Found::Ambiguous,
            Some((name, _)) => self.named(name.clone()).map_or(Found::Nothing, Found::One),
        }
    }

    /// Whether hashes are those of SHA-256.
    pub(crate) fn is_sha256(&self) -> bool {
        self.0.values().any(|hash| hash.len() == 64)
    }

    fn named(&self, name: String) -> Option<Revision> {
        let sha = self.0.get(&name)?.clone();
        Some(Revision { sha, reference: Some(name) })
    }

    fn newest_tag(&self, wanted: &str, prefix: &str) -> Option<Revision> {
        // With a prefix, the range may include the prefix, too.
        let range = Range::parse(wanted.strip_prefix(prefix).unwrap_or(wanted))?;
        let tags = self.0.keys().filter_map(|name| {
            let version = version(name.strip_prefix("refs/tags/")?.strip_prefix(prefix)?)?;
            Some((version, name))
        });
        self.named(range.newest(tags)?.clone())
    }
}
