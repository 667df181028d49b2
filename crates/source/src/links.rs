//! Symbolic links: where a path leads, and what it costs to follow those of a checkout.
//!
//! Blocking. What is outside of a checkout is never read, so that no answer reveals which files
//! of the machine exist.

use std::path::{Component, Path, PathBuf};

/// The most links that a path is followed through, as Linux does.
const MAX_LINKS: usize = 40;

/// The most directories and links that one path leads through. The target of a link may have
/// 4,096 bytes and lead to other links like it.
const MAX_PARTS: usize = 1_000;

/// The same for all links of a checkout: each reader follows them, within a second.
const MAX_ALL_PARTS: usize = 1_000_000;

/// Deepest directory whose links are counted; git and archives stay below it.
const MAX_DEPTH: usize = 2_048;

/// Whether a link leads out of the root, itself or by the links that it leads to.
pub(crate) fn points_outside(link: &Path, root: &Path) -> bool {
    let below = link.strip_prefix(root);
    below.map_or(true, |below| leads_out(root, below, root))
}

/// Whether a path below a directory leads out of the root, by its parts or by links.
pub(crate) fn leaves(directory: &Path, path: &str, root: &Path) -> bool {
    leads_out(directory, Path::new(path), root)
}

fn leads_out(directory: &Path, path: &Path, root: &Path) -> bool {
    let mut left = Left { links: MAX_LINKS, parts: usize::MAX };
    left.follow(directory, path, root).is_none()
}

/// Checks that the links of a checkout can be followed in time, whoever does it: twenty thousand
/// links of one chain of long targets took minutes of each program that resolved them.
///
/// # Errors
///
/// The limit and the link. A directory that cannot be read is left to those who read it.
pub(crate) fn can_be_followed(root: &Path) -> Result<(), String> {
    let mut open = vec![(root.to_owned(), 0)];
    let mut all = 0_usize;
    while let Some((directory, depth)) = open.pop() {
        for entry in std::fs::read_dir(&directory).into_iter().flatten().flatten() {
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() && depth < MAX_DEPTH {
                open.push((entry.path(), depth + 1));
            } else if kind.is_symlink() {
                let mut left = Left { links: MAX_LINKS, parts: MAX_PARTS };
                // One that leads out is refused by who reads it.
                left.follow(&directory, Path::new(&entry.file_name()), root);
                all += MAX_PARTS - left.parts;
                let path = entry.path();
                let shown = path.strip_prefix(root).unwrap_or(&path).display();
                if left.parts == 0 {
                    return Err(format!(
                        "{MAX_PARTS} directories and links that a link leads through ({shown}); \
                         write its target shorter"
                    ));
                }
                if all > MAX_ALL_PARTS {
                    return Err(format!(
                        "{MAX_ALL_PARTS} directories and links that its links lead through \
                         together ({shown}); replace links by files"
                    ));
                }
            }
        }
    }
    Ok(())
}

/// How far a path may still lead.
struct Left {
    links: usize,
    parts: usize,
}

impl Left {
    /// Where a path leads inside of the root; `None` outside, and when no part is left.
    fn follow(&mut self, directory: &Path, path: &Path, root: &Path) -> Option<PathBuf> {
        let mut at = directory.to_owned();
        for part in path.components() {
            self.parts = self.parts.checked_sub(1)?;
            match part {
                Component::RootDir | Component::Prefix(_) => return None,
                Component::CurDir => {}
                Component::ParentDir => drop(at.pop()),
                Component::Normal(name) => at.push(name),
            }
            if !at.starts_with(root) {
                return None;
            }
            if self.links > 0
                && matches!(part, Component::Normal(_))
                && let Ok(target) = std::fs::read_link(&at)
            {
                self.links -= 1;
                at.pop();
                at = self.follow(&at, &target, root)?;
            }
        }
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_path_leaves_by_its_parts_and_by_links() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let inner = root.join("a/b");
        std::fs::create_dir_all(&inner).unwrap();
        for (target, link) in [
            ("b", "a/in"),
            ("in/../..", "a/root"),
            ("../..", "a/out"),
            ("a/out/x", "chain"),
            ("/etc", "absolute"),
            ("loop", "loop"),
        ] {
            symlink(target, root.join(link)).unwrap();
        }
        // A tower of links, each of which is followed many times.
        for level in 0..20 {
            let next = format!("t{}/", level + 1).repeat(20);
            symlink(next, root.join(format!("t{level}"))).unwrap();
        }
        symlink(".", root.join("t20")).unwrap();
        let cases = [
            ("../../a/b/x", false),
            ("../../..", true),
            ("../../../x", true),
            ("../in/../x", false),
            ("../root/a", false),
            ("../root/..", true),
            ("../out", true),
            ("../../chain", true),
            ("../../absolute/no/such/file", true),
            ("../../loop/x", false),
            ("../../t0", false),
            ("no/such/file", false),
            ("./.", false),
        ];
        for (path, want) in cases {
            assert_eq!(leaves(&inner, path, &root), want, "{path}");
        }
        for (link, want) in [("a/out", true), ("chain", true), ("loop", false), ("none", false)] {
            assert_eq!(points_outside(&root.join(link), &root), want, "{link}");
        }
    }

    /// A chain of links whose targets lead through a directory hundreds of times, and thousands of
    /// links to its end. Counted, so that a busy machine changes nothing.
    #[test]
    fn links_are_followed_within_a_limit() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("a/d")).unwrap();
        std::fs::write(root.join("a/end"), "").unwrap();
        let pad = |times: usize, to: &str| format!("{}{to}", "d/../".repeat(times));
        for (index, times) in [(0, 0), (1, 100), (2, 100), (3, 100), (4, 100)] {
            let to = if index == 0 { "end".to_owned() } else { format!("z{}", index - 1) };
            symlink(pad(times, &to), root.join(format!("a/z{index}"))).unwrap();
        }
        assert_eq!(can_be_followed(&root), Ok(()));
        // The same by twice the links: each costs what it leads through, whatever their number.
        for link in 0..1_300 {
            symlink("z4", root.join(format!("a/l{link}"))).unwrap();
            if link == 1_000 {
                assert_eq!(can_be_followed(&root), Ok(()));
            }
        }
        let error = can_be_followed(&root).unwrap_err();
        assert!(error.starts_with("1000000 directories and links that its links"), "{error}");
        std::fs::remove_dir_all(root.join("a")).unwrap();
        std::fs::create_dir_all(root.join("a/d")).unwrap();
        symlink(pad(600, "end"), root.join("a/long")).unwrap();
        let error = can_be_followed(&root).unwrap_err();
        assert!(error.starts_with("1000 directories") && error.contains("(a/long)"), "{error}");
        // Links in a circle, out of the repository and to nothing have their own errors.
        std::fs::remove_file(root.join("a/long")).unwrap();
        for (target, link) in [("loop", "loop"), ("../../x", "out"), ("none", "dangling")] {
            symlink(target, root.join("a").join(link)).unwrap();
        }
        assert_eq!(can_be_followed(&root), Ok(()));
    }
}
