//! Files that Git LFS keeps outside of a repository: fetched by the program `git-lfs` into
//! the local repository, and copied over the pointers in a checkout.
//!
//! The objects of the server that belongs to the repository are read, with its credentials; a
//! `.lfsconfig` that names another one is an error. `git-lfs` itself reads none: it runs in the local
//! repository, which has no files, and whose `HEAD` is no commit.

use std::ffi::OsString;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::deadline;
use crate::directory::source_directory::SourceDirectory;
use crate::error::SourceError;
use crate::git::command::{Call, Remote, too_large};
use crate::process::run::disk_use;

/// How a pointer begins.
const POINTER: &str = "version https://git-lfs.github.com/spec/v1\n";
/// The largest pointer, in bytes.
const MAX_POINTER: u64 = 1024;
/// The file of a repository that configures Git LFS.
const CONFIG: &str = ".lfsconfig";
/// The largest file of that kind that is read, in bytes.
const MAX_CONFIG: u64 = 64 << 10;

/// A file that is a pointer, and what it points to.
#[derive(Debug, PartialEq, Eq)]
struct Pointer {
    path: PathBuf,
    object: String,
    size: u64,
}

/// Fetches what the files of a checkout point to, and puts it in their place.
///
/// # Errors
///
/// All of [`SourceError`]; without the program, [`SourceError::MissingProgram`].
pub(crate) async fn fill(
    remote: Remote<'_>,
    git_dir: &Path,
    commit: &str,
    checkout: &Path,
) -> Result<(), SourceError> {
    let repo = || remote.address.shown.clone();
    let failed = |detail: String| SourceError::git(repo(), "git lfs fetch", detail);
    let root = checkout.to_owned();
    let pointers = deadline::blocking(move || pointers(&root)).await;
    let pointers = pointers.map_err(|error| failed(error.to_string()))?;
    let pointers = pointers.map_err(|error| failed(without_path(&error)))?;
    if pointers.is_empty() {
        return Ok(());
    }
    if names_a_server(remote, git_dir, commit, checkout).await {
        let detail = format!(
            "{CONFIG} names a server of Git LFS, and only that of the repository itself is used; \
             remove the URL from the file, or enableLfs from the Secret"
        );
        return Err(SourceError::refused(repo(), detail));
    }
    let limit = remote.limits.fetch_bytes;
    let bytes = pointers.iter().fold(0_u64, |sum, pointer| sum.saturating_add(pointer.size));
    if bytes > limit {
        return Err(too_large(remote.address, "what Git LFS keeps for the checkout", limit));
    }
    let kept = git_dir.join("lfs");
    if disk_use(git_dir).await.saturating_add(bytes) > limit {
        // Objects of former commits.
        match tokio::fs::remove_dir_all(&kept).await {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(failed(error.kind().to_string()));
            }
            _ => {}
        }
    }
    let origin = format!("remote.origin.url={}", remote.address.url);
    let fixed = ["-c", &origin, "-c", "lfs.activitytimeout=20", "-c", "lfs.locksverify=false"];
    let command = ["lfs", "fetch", "origin", commit];
    let args = fixed.into_iter().chain(command).map(OsString::from).collect();
    let call = Call {
        credentials: remote.credentials,
        git_dir: Some(git_dir),
        watch: Some(git_dir),
        proactive: true,
        ..Call::new("git lfs fetch", remote.address, args)
    };
    remote.git.run(call).await.map_err(|error| match error {
        SourceError::Git { detail, .. } if detail.contains("'lfs' is not a git command") => {
            SourceError::MissingProgram {
                repo: repo(),
                program: "git-lfs".into(),
                detail: "it is not installed, and enableLfs is set in the Secret".into(),
            }
        }
        error => error,
    })?;
    let objects = kept.join("objects");
    let copied = deadline::blocking(move || put_all(&pointers, &objects));
    copied.await.map_err(|error| failed(error.to_string()))?.map_err(failed)
}

/// Puts the objects in the place of all pointers; why one cannot be.
fn put_all(pointers: &[Pointer], objects: &Path) -> Result<(), String> {
    pointers.iter().try_for_each(|pointer| {
        deadline::check().map_err(|error| error.to_string())?;
        pointer.replace(objects).map_err(|_| {
            format!("the server has no object {} of {} bytes", pointer.object, pointer.size)
        })
    })
}

/// What an error of a file is about, without its place on this machine.
fn without_path(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::TimedOut => error.to_string(),
        kind => kind.to_string(),
    }
}

impl Pointer {
    /// What a file points to, if it is a pointer.
    fn read(path: PathBuf) -> std::io::Result<Option<Self>> {
        let mut text = String::new();
        let is_text = std::fs::File::open(&path)?.take(MAX_POINTER).read_to_string(&mut text);
        if is_text.is_err() {
            return Ok(None);
        }
        let Some(rest) = text.strip_prefix(POINTER) else { return Ok(None) };
        let field = |name: &str| rest.lines().find_map(|line| line.strip_prefix(name));
        let object = field("oid sha256:").filter(|oid| {
            oid.len() == 64 && oid.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
        });
        let size = field("size ").and_then(|size| size.parse().ok());
        Ok(object.zip(size).map(|(object, size)| Self { path, object: object.to_owned(), size }))
    }

    /// Puts the object in the place of the pointer.
    fn replace(&self, objects: &Path) -> std::io::Result<()> {
        let oid = &self.object;
        let object = objects.join(&oid[..2]).join(&oid[2..4]).join(oid);
        if object.symlink_metadata()?.len() != self.size {
            return Err(std::io::ErrorKind::InvalidData.into());
        }
        let mode = self.path.symlink_metadata()?.permissions().mode();
        std::fs::remove_file(&self.path)?;
        std::fs::copy(&object, &self.path)?;
        std::fs::set_permissions(&self.path, std::fs::Permissions::from_mode(mode))
    }
}

/// The names of files that Helm and Kustomize parse.
const PARSED: [&str; 6] = ["yaml", "yml", "json", "tpl", "tgz", "Kustomization"];
/// The most files that are visited for a hint, and that it names.
const MAX_VISITED: usize = 20_000;
const MAX_NAMED: usize = 3;

/// What to say when a program does not understand a source that has pointers in place of files
/// that it parses: those below the directory, else those of the repository.
pub(crate) fn hint(source_dir: &SourceDirectory) -> Option<String> {
    let found = [&source_dir.directory, &source_dir.root].map(|place| parsed_pointers(place));
    let found = found.into_iter().find(|found| !found.is_empty())?;
    let names = found.iter().map(|path| path.strip_prefix(&source_dir.root).unwrap_or(path));
    let names: Vec<String> = names.map(|name| name.display().to_string()).collect();
    Some(format!(
        "Git LFS pointers are in the place of files: {}; set enableLfs in the Secret of the \
         repository, or commit them without Git LFS",
        names.join(", ")
    ))
}

/// Some pointers in place of files that programs parse.
fn parsed_pointers(directory: &Path) -> Vec<PathBuf> {
    let (mut found, mut left) = (Vec::new(), MAX_VISITED);
    let mut open = vec![directory.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            let (path, Ok(meta)) = (entry.path(), entry.metadata()) else { continue };
            if found.len() == MAX_NAMED || left == 0 {
                return found;
            }
            left -= 1;
            let ending = path.extension().or(path.file_name()).and_then(|ending| ending.to_str());
            if meta.is_dir() {
                open.push(path);
            } else if meta.is_file()
                && meta.len() <= MAX_POINTER
                && ending.is_some_and(|ending| PARSED.contains(&ending))
                && matches!(Pointer::read(path.clone()), Ok(Some(_)))
            {
                found.push(path);
            }
        }
    }
    found
}

/// All pointers below a directory, without following links.
fn pointers(directory: &Path) -> std::io::Result<Vec<Pointer>> {
    let mut found = Vec::new();
    let mut open = vec![directory.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory)? {
            deadline::check()?;
            let entry = entry?;
            let meta = entry.metadata()?;
            if meta.is_dir() {
                open.push(entry.path());
            } else if meta.is_file() && meta.len() <= MAX_POINTER && meta.len() > 0 {
                found.extend(Pointer::read(entry.path())?);
            }
        }
    }
    Ok(found)
}

/// Whether the commit names a server of Git LFS; also when its file cannot be read.
async fn names_a_server(remote: Remote<'_>, git_dir: &Path, commit: &str, checkout: &Path) -> bool {
    let Ok(meta) = tokio::fs::symlink_metadata(checkout.join(CONFIG)).await else { return false };
    if !meta.is_file() || meta.len() > MAX_CONFIG {
        return true;
    }
    // As Git reads it, and nobody else.
    let blob = format!("--blob={commit}:{CONFIG}");
    let args = ["config", &blob, "--no-includes", "--null", "--name-only", "--list"];
    let args = args.map(OsString::from).into();
    let call = Call { git_dir: Some(git_dir), ..Call::new("git config", remote.address, args) };
    remote.git.run(call).await.map_or(true, |keys| has_url(&keys))
}

/// Whether one of these keys is that of a URL.
fn has_url(keys: &[u8]) -> bool {
    keys.split(|byte| *byte == 0).any(|key| key.to_ascii_lowercase().ends_with(b"url"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pointers_are_pointers() {
        let directory = tempfile::tempdir().unwrap();
        let oid = "4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393";
        let cases = [
            ("good", format!("{POINTER}oid sha256:{oid}\nsize 12345\n"), true),
            ("upper", format!("{POINTER}oid sha256:{}\nsize 1\n", oid.to_uppercase()), false),
            ("path", format!("{POINTER}oid sha256:../../{}\nsize 1\n", &oid[6..]), false),
            ("size", format!("{POINTER}oid sha256:{oid}\nsize -1\n"), false),
            ("other", "version 2\n".to_owned(), false),
        ];
        for (name, text, want) in &cases {
            std::fs::write(directory.path().join(name), text).unwrap();
            let read = Pointer::read(directory.path().join(name)).unwrap();
            assert_eq!(read.is_some(), *want, "{name}");
        }
        std::os::unix::fs::symlink("good", directory.path().join("link")).unwrap();
        std::fs::write(directory.path().join("binary"), [0xff, 0xfe]).unwrap();
        assert_eq!(pointers(directory.path()).unwrap().len(), 1, "and no links");
    }

    /// Nothing else stops a thread that may block.
    #[test]
    fn many_files_are_read_and_replaced_within_a_time() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("a"), "text").unwrap();
        let in_no_time = std::time::Duration::ZERO;
        let read = || pointers(directory.path());
        assert_eq!(read().unwrap(), []);
        let error = deadline::limited(in_no_time, read).unwrap_err();
        let want = "it takes more than 90 s; split the repository";
        assert_eq!(without_path(&error), want);
        let (path, object) = (directory.path().join("a"), "0".repeat(64));
        let all = [Pointer { path, object, size: 1 }];
        let put = || put_all(&all, directory.path());
        assert!(put().unwrap_err().starts_with("the server has no object"));
        assert_eq!(deadline::limited(in_no_time, put).unwrap_err(), want);
    }

    #[test]
    fn a_configuration_may_name_a_server() {
        assert!(!has_url(b"lfs.fetchexclude\0lfs.https://h/url.access\0"));
        assert!(has_url(b"lfs.fetchexclude\0lfs.url\0"));
        assert!(has_url(b"remote.origin.lfsUrl\0"));
    }
}
