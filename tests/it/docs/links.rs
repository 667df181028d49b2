//! Links between the pages, to files and to headings.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};
use std::sync::LazyLock;

use regex::Regex;

use super::markdown::{Page, Part, files, root};

/// A link or a picture: what stands in the parentheses.
static LINK: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\]\(([^()\s]+)\)").unwrap());
/// Text in backticks, which contains no links.
static CODE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"`[^`]*`").unwrap());

/// The anchor of a heading, as Git servers make it.
fn anchor(heading: &str) -> String {
    let text = LINK.replace_all(heading, "]").replace(['[', ']'], "");
    let text = text.to_lowercase();
    let kept = text.chars().filter_map(|c| match c {
        ' ' => Some('-'),
        c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
        _ => None,
    });
    kept.collect()
}

fn anchors(page: &Page) -> BTreeSet<String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut all = BTreeSet::new();
    for part in &page.parts {
        if let Part::Heading { text, .. } = part {
            let name = anchor(text);
            let count = seen.entry(name.clone()).or_default();
            all.insert(if *count == 0 { name } else { format!("{name}-{count}") });
            *count += 1;
        }
    }
    all
}

fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                assert!(plain.pop(), "{} leaves the repository", path.display())
            }
            part => plain.push(part),
        }
    }
    plain
}

#[test]
fn links_lead_to_files_and_headings() {
    let mut broken = Vec::new();
    for path in files("md") {
        let page = Page::read(&path);
        for part in &page.parts {
            let (line, text) = match part {
                Part::Prose { line, text } => (*line, text),
                Part::Heading { text, .. } => (0, text),
                Part::Block(_) => continue,
            };
            let text = CODE.replace_all(text, "");
            for link in LINK.captures_iter(&text) {
                let link = &link[1];
                if link.starts_with("https://") {
                    continue;
                }
                let (file, heading) = link.split_once('#').unwrap_or((link, ""));
                let folder = Path::new(&path).parent().unwrap();
                let target = match file {
                    "" => PathBuf::from(&path),
                    file => plain(&folder.join(file)),
                };
                let is_there = root().join(&target).exists()
                    && (heading.is_empty()
                        || anchors(&Page::read(target.to_str().unwrap())).contains(heading));
                if !is_there {
                    broken.push(format!("{path}:{line}: {link}"));
                }
            }
        }
    }
    assert!(broken.is_empty(), "these lead nowhere: {broken:#?}");
}

#[test]
fn headings_have_the_anchors_of_git_servers() {
    let cases = [
        ("Large fleets", "large-fleets"),
        ("A set, its Applications", "a-set-its-applications"),
        ("Configuration of `wavegate run`", "configuration-of-wavegate-run"),
        ("1.1 What_is", "11-what_is"),
    ];
    for (heading, want) in cases {
        assert_eq!(anchor(heading), want);
    }
}
