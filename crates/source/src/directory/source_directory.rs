//! A directory of a checkout, and links that lead out of it.

use std::path::{Component, Path, PathBuf};

use crate::render::manifest::RenderError;

/// Default of the memory of all objects of a directory, in bytes: 10 MB of typical manifests take about 100 MB.
pub const DEFAULT_MAX_MEMORY: u64 = wavegate_api::yaml::MAX_MEMORY;

/// A validated directory inside a checkout.
#[derive(Clone, Debug)]
pub(crate) struct SourceDirectory {
    /// The checkout, symbolic links resolved.
    pub root: PathBuf,
    /// The directory, symbolic links resolved.
    pub directory: PathBuf,
    /// The directory relative to the checkout, as written, without `.` parts.
    pub relative: String,
    /// The directory for private copies and other files of a call. On the file system of the
    /// checkout, copies share files with it; below the cache, they go when the process is killed.
    pub temporary: PathBuf,
}

impl SourceDirectory {
    /// Resolves `path` inside a checkout. Empty and `.` mean its root.
    pub(crate) fn new(checkout_root: &Path, path: &str) -> Result<Self, RenderError> {
        let named = || path.to_owned();
        let mut parts: Vec<&str> = Vec::new();
        for part in Path::new(path).components() {
            match part {
                Component::CurDir => {}
                Component::Normal(name) => parts.extend(name.to_str()),
                Component::RootDir | Component::Prefix(_) => {
                    return Err(RenderError::AbsolutePath { path: named() });
                }
                Component::ParentDir => {
                    if parts.pop().is_none() {
                        return Err(RenderError::OutsidePath { path: named() });
                    }
                }
            }
        }
        let relative = parts.join("/");
        let missing = |_| RenderError::MissingPath { path: named() };
        let root = checkout_root.canonicalize().map_err(missing)?;
        if leaves(&root, &relative, &root) {
            return Err(RenderError::OutsidePath { path: named() });
        }
        let directory = root.join(&relative).canonicalize().map_err(missing)?;
        if !directory.starts_with(&root) {
            return Err(RenderError::OutsidePath { path: named() });
        }
        if !directory.is_dir() {
            return Err(RenderError::NotADirectory { path: named() });
        }
        Ok(Self { root, directory, relative, temporary: std::env::temp_dir() })
    }

    /// The same with another directory for private files.
    pub(crate) fn with_temporary(self, temporary: &Path) -> Self {
        Self { temporary: temporary.to_owned(), ..self }
    }

    /// A path below the directory for messages: relative to the repository root.
    pub(crate) fn shown(&self, below: &str) -> String {
        if self.relative.is_empty() {
            below.to_owned()
        } else {
            format!("{}/{below}", self.relative)
        }
    }
}

/// The submodule that a link leads into.
pub(crate) fn submodule_behind(link: &Path, root: &Path, submodules: &[String]) -> Option<String> {
    let target = link.parent()?.join(std::fs::read_link(link).ok()?);
    let mut parts: Vec<&std::ffi::OsStr> = Vec::new();
    for part in target.strip_prefix(root).ok()?.components() {
        match part {
            Component::ParentDir => drop(parts.pop()),
            Component::Normal(name) => parts.push(name),
            _ => {}
        }
    }
    let target: PathBuf = parts.into_iter().collect();
    submodules.iter().find(|path| target.starts_with(path)).cloned()
}

/// Whether a link leads out of the root, itself or by the links that it leads to.
pub(crate) fn points_outside(link: &Path, root: &Path) -> bool {
    let mut links = MAX_LINKS;
    let below = link.strip_prefix(root);
    below.map_or(true, |below| within(root, below, root, &mut links).is_none())
}

/// The most links that a path is followed through.
const MAX_LINKS: usize = 40;

/// Whether a path below a directory leads out of the root, by its parts or by links. What is
/// outside is never read, so that the answer does not reveal which files of the machine exist.
pub(crate) fn leaves(directory: &Path, path: &str, root: &Path) -> bool {
    let mut links = MAX_LINKS;
    within(directory, Path::new(path), root, &mut links).is_none()
}

/// Where a path leads inside of the root; `None` outside.
fn within(directory: &Path, path: &Path, root: &Path, links: &mut usize) -> Option<PathBuf> {
    let mut at = directory.to_owned();
    for part in path.components() {
        match part {
            Component::RootDir | Component::Prefix(_) => return None,
            Component::CurDir => {}
            Component::ParentDir => drop(at.pop()),
            Component::Normal(name) => at.push(name),
        }
        if !at.starts_with(root) {
            return None;
        }
        if *links > 0
            && let Ok(target) = std::fs::read_link(&at)
        {
            *links -= 1;
            at.pop();
            at = within(&at, &target, root, links)?;
        }
    }
    Some(at)
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
}
