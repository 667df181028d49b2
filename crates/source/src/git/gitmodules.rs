//! What a commit says about its submodules.

use std::collections::BTreeMap;

/// A submodule of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Submodule {
    /// Where it is, relative to the root of the repository.
    pub path: String,
    /// Its commit.
    pub commit: String,
    /// Its URL as `.gitmodules` has it; empty when it is not to be fetched.
    pub url: String,
}

/// The URLs by path, from the entries of `.gitmodules` as `git config --null --list` prints
/// them; those with `update = none` have none.
pub(crate) fn urls(listing: &[u8]) -> BTreeMap<String, String> {
    let text = String::from_utf8_lossy(listing);
    let mut by_name: BTreeMap<&str, BTreeMap<&str, &str>> = BTreeMap::new();
    for entry in text.split('\0') {
        let (key, value) = entry.split_once('\n').unwrap_or((entry, ""));
        let named = key.strip_prefix("submodule.").and_then(|rest| rest.rsplit_once('.'));
        if let Some((name, field)) = named {
            by_name.entry(name).or_default().insert(field, value);
        }
    }
    let fetched = by_name.into_values().filter(|fields| fields.get("update") != Some(&"none"));
    let place = |fields: BTreeMap<&str, &str>| {
        let path = fields.get("path")?.trim_end_matches('/');
        Some((path.to_owned(), (*fields.get("url")?).to_owned()))
    };
    fetched.filter_map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_submodules_are_by_path() {
        let listing = b"submodule.a.b.path\nlibs/a\0submodule.a.b.url\nhttps://h/a\0\
            submodule.c.url\n../c\0submodule.c.path\nc/\0submodule.none.path\nn\0\
            submodule.none.url\n../n\0submodule.none.update\nnone\0submodule.half.path\nhalf\0x.y\n1\0";
        let want = [("c", "../c"), ("libs/a", "https://h/a")];
        let want = want.map(|(path, url)| (path.to_owned(), url.to_owned()));
        assert_eq!(urls(listing), want.into());
        assert!(urls(b"\xff\0submodule\0submodule.\n").is_empty());
    }
}
