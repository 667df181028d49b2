//! The Git work tree of a user, which is read in place of what is pushed.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::cli::console::error::{Error, note};
use wavegate_api::repository::RepositoryUrl;
use wavegate_api::sources::InEffect;
use wavegate_engine::names::some_of;
use wavegate_source::{TriedContent, TriedSource, is_artifact, redact_urls};

/// URLs in a message.
const URLS: usize = 5;

/// A directory that a user gave with `--local`.
#[derive(Debug)]
pub(in crate::cli) struct WorkTree {
    what: &'static str,
    given: PathBuf,
    directory: PathBuf,
    /// The root of the work tree that it is in.
    root: Option<PathBuf>,
    /// The URLs of the remotes.
    remotes: Vec<String>,
}

impl WorkTree {
    /// Finds the work tree of a directory. `what` is what fails without it.
    ///
    /// # Errors
    ///
    /// When it is no directory, or its configuration cannot be read.
    pub fn open(what: &'static str, given: &Path) -> Result<Self, Error> {
        let failed = |why: &dyn std::fmt::Display| {
            Error::input("cannot read", format!("--local {}", given.display()), why)
        };
        let directory = given.canonicalize().map_err(|error| failed(&error))?;
        if !directory.is_dir() {
            return Err(failed(&"is not a directory"));
        }
        if directory.to_str().is_none() {
            return Err(failed(&"its path is not UTF-8"));
        }
        let root = directory.ancestors().find(|parent| parent.join(".git").exists());
        let root = root.map(Path::to_owned);
        let remotes = root.as_deref().map(remotes).transpose().map_err(|why| failed(&why))?;
        let remotes = remotes.unwrap_or_default();
        Ok(Self { what, given: given.to_owned(), directory, root, remotes })
    }

    /// The root of the work tree; `None` outside of one.
    pub fn root(&self) -> Option<&Path> {
        self.root.as_deref()
    }

    /// The directory that the user gave.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The URLs of the repository: those of the remotes, and where the work tree is.
    pub fn urls(&self) -> impl Iterator<Item = &str> {
        let root = self.root.as_deref().and_then(Path::to_str);
        self.remotes.iter().map(String::as_str).chain(root)
    }

    /// Whether this URL names its repository.
    pub fn is_of(&self, url: &str) -> bool {
        self.urls().any(|own| is_same(own, url))
    }

    /// An error about it.
    pub fn error(&self, why: impl std::fmt::Display) -> Error {
        Error::input(self.what, format!("--local {}", self.given.display()), why)
    }

    /// What it is, for a message.
    pub fn described(&self) -> String {
        match &self.root {
            None => "it is in no Git work tree".to_owned(),
            Some(root) if self.remotes.is_empty() => {
                format!("the work tree {} has no remotes", root.display())
            }
            Some(root) => {
                let remotes = shown_urls(self.remotes.iter().map(String::as_str));
                format!("the work tree {} is a clone of {remotes}", root.display())
            }
        }
    }

    /// What is read in place of the repository of an Application, which is rendered from its dry
    /// source if its manifests are hydrated from there. `repo` is the repository, if the user
    /// names it.
    ///
    /// # Errors
    ///
    /// When it is not known which of its repositories that is.
    pub fn of_application(
        &self,
        application: &mut Value,
        repo: Option<&str>,
    ) -> Result<TriedSource, Error> {
        self.take_dry_source(&mut application["spec"]);
        let sources = InEffect::of(&application["spec"]).list.into_owned();
        let sources: Vec<&Value> = sources.iter().filter(|source| is_git(source)).collect();
        let urls: Vec<&str> = sources.iter().map(|source| text(source, "repoURL")).collect();
        let named = |url: &&str| repo.map_or_else(|| self.is_of(url), |repo| is_same(repo, url));
        let mut own: Vec<&str> = urls.iter().copied().filter(|url| named(url)).collect();
        // The only repository can be meant even if no remote names it.
        let is_guessed =
            own.is_empty() && repo.is_none() && urls.iter().all(|url| is_same(url, urls[0]));
        if is_guessed {
            own.clone_from(&urls);
        }
        let Some(url) = own.first().map(|url| redact_urls(url)) else {
            let of = shown_urls(urls.iter().copied());
            return Err(self.error(match (urls.is_empty(), repo) {
                (true, _) => "the Application has no source in a Git repository".to_owned(),
                (_, Some(repo)) => {
                    let repo = redact_urls(repo);
                    format!("--repo {repo} is none of the Application's repositories: {of}")
                }
                (_, None) => format!(
                    "{}, and the Application has sources in {of}: name with --repo the one that \
                     it is to be read in place of",
                    self.described()
                ),
            }));
        };
        let is_own = |source: &Value| own.iter().any(|own| is_same(own, text(source, "repoURL")));
        let paths: Vec<&str> = sources
            .iter()
            .filter(|source| is_own(source))
            .filter_map(|source| path(source))
            .collect();
        let has_paths = |root: &Path| paths.iter().any(|path| root.join(path).is_dir());
        let (root, is_folder) = match &self.root {
            Some(root) if !is_guessed || has_paths(root) => (root, false),
            _ => (&self.directory, !has_paths(&self.directory)),
        };
        let (directory, shown) = (self.directory.display(), root.display());
        let is_tree = self.root.as_ref() == Some(root);
        let of = some_of(paths.iter().copied(), URLS);
        match (is_tree, is_folder) {
            (true, _) if is_guessed => note(&format!(
                "{}: it is read in place of {url}, the only repository of the Application",
                self.described()
            )),
            (true, _) if !self.is_related(root, &paths) => note(&format!(
                "the work tree {shown} is compared, with the path {of} of the Application in it, \
                 and not {directory}"
            )),
            (true, _) => {}
            (false, false) => note(&format!(
                "{directory} is in no Git work tree of {url}: it is taken for the root of it"
            )),
            (false, true) => note(&format!(
                "{directory} is in no Git work tree of {url}: it is taken for its folder {of}, and \
                 nothing outside of it is read"
            )),
        }
        let tried = TriedSource::new(own.iter().copied(), TriedContent::WorkTree(root.clone()));
        if is_folder {
            let spec = &mut application["spec"];
            let one = spec.get_mut("source").into_iter();
            let own_place = |source: &&mut Value| tried.is_for(text(source, "repoURL"));
            one.filter(own_place).for_each(at_root);
            let several = spec.get_mut("sources").and_then(Value::as_array_mut);
            several.into_iter().flatten().filter(own_place).for_each(at_root);
        }
        Ok(tried)
    }

    /// Whether the given directory is the root, or has to do with one of these paths in it.
    fn is_related(&self, root: &Path, paths: &[&str]) -> bool {
        let beside = |path: &&str| {
            let path = root.join(path);
            self.directory.starts_with(&path) || path.starts_with(&self.directory)
        };
        self.directory == root || paths.iter().any(beside)
    }

    /// Puts the dry source of hydrated manifests in their place, unless the work tree has the
    /// hydrated ones alone.
    fn take_dry_source(&self, spec: &mut Value) {
        let hydrator = &spec["sourceHydrator"];
        let has = |source: &Value| {
            let root = self.root.as_ref().unwrap_or(&self.directory);
            path(source).is_some_and(|path| root.join(path).is_dir())
        };
        if has(&hydrator["drySource"]) || !has(&hydrator["syncSource"]) {
            put_dry_source(spec);
        }
    }
}

/// Puts the dry source of hydrated manifests in their place, if a raw spec has one: it is what
/// people commit to.
pub(in crate::cli) fn put_dry_source(spec: &mut Value) {
    let dry = spec["sourceHydrator"]["drySource"].clone();
    let Some(fields) = spec.as_object_mut().filter(|_| dry.is_object()) else { return };
    fields.remove("sourceHydrator");
    fields.remove("sources");
    fields.insert("source".to_owned(), dry);
}

fn at_root(source: &mut Value) {
    if path(source).is_some() {
        source["path"] = ".".into();
    }
}

/// Whether a raw source is in a Git repository.
pub(in crate::cli) fn is_git(source: &Value) -> bool {
    let url = text(source, "repoURL");
    !url.is_empty() && text(source, "chart").is_empty() && !is_artifact(url)
}

fn text<'a>(source: &'a Value, field: &str) -> &'a str {
    source[field].as_str().unwrap_or_default()
}

/// The folder of a source; `None` for one that others only refer to.
fn path(source: &Value) -> Option<&str> {
    match (text(source, "path"), text(source, "ref")) {
        ("", "") => Some("."),
        ("", _) => None,
        (path, _) => Some(path),
    }
}

/// Whether two URLs name one repository.
pub(in crate::cli) fn is_same(one: &str, other: &str) -> bool {
    let place = |url: &str| RepositoryUrl::of(url).place();
    let local = |url: &str| {
        let path = url.strip_prefix("file://").unwrap_or(url);
        Path::new(path).is_absolute().then(|| Path::new(path).canonicalize().ok()).flatten()
    };
    place(one) == place(other) || local(one).is_some_and(|one| local(other) == Some(one))
}

/// Some of these URLs, each once, for a message.
pub(in crate::cli) fn shown_urls<'a>(urls: impl Iterator<Item = &'a str>) -> String {
    let mut shown: Vec<String> = Vec::new();
    for url in urls.map(redact_urls) {
        if !shown.contains(&url) {
            shown.push(url);
        }
    }
    some_of(shown.iter(), URLS)
}

/// The URLs of the remotes of the work tree at `root`, which also `git` names in its
/// configuration alone. Only this file is read: the owner of the work tree may be another user.
fn remotes(root: &Path) -> Result<Vec<String>, String> {
    let read = |path: &Path| {
        std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
    };
    let mut directory = root.join(".git");
    if directory.is_file() {
        // Of a submodule, or of another work tree of the repository.
        let text = read(&directory)?;
        let named = text.trim().strip_prefix("gitdir:").map(str::trim).unwrap_or_default();
        directory = root.join(named);
        if directory.join("commondir").is_file() {
            let common = read(&directory.join("commondir"))?;
            directory = directory.join(common.trim());
        }
    }
    let config = directory.join("config");
    if !config.is_file() {
        return Ok(Vec::new());
    }
    let output = Command::new("git")
        .args(["config", "--null", "--file"])
        .arg(&config)
        .args(["--get-regexp", r"^remote\..*\.(url|pushurl)$"])
        .env_remove("GIT_DIR")
        .env_remove("GIT_CONFIG")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot run git: {error}"))?;
    // It fails with 1 when there are none.
    if !output.status.success() && output.status.code() != Some(1) {
        let stderr = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{}: {}", config.display(), stderr.trim()));
    }
    let listed = String::from_utf8_lossy(&output.stdout).into_owned();
    let urls = listed.split('\0').filter_map(|entry| entry.split_once('\n'));
    Ok(urls.map(|(_, url)| absolute_url(root, url)).collect())
}

/// The URL, or for a relative path the directory that it leads to.
fn absolute_url(root: &Path, url: &str) -> String {
    let is_path = !url.contains("://") && !url.split('/').next().unwrap_or_default().contains(':');
    let found = is_path.then(|| root.join(url).canonicalize().ok()).flatten();
    found.map_or_else(|| url.to_owned(), |path| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_one_repository_are_the_same_in_each_spelling() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap();
        let link = path.join("link");
        std::fs::create_dir(path.join("real")).unwrap();
        std::os::unix::fs::symlink("real", &link).unwrap();
        let (link, real) = (link.display().to_string(), path.join("real").display().to_string());
        let cases = [
            ("git@example.com:team/fleet.git", "https://example.com/team/fleet", true),
            ("https://token@example.com/team/fleet/", "ssh://git@example.com/team/fleet", true),
            ("https://example.com/team/fleet", "https://example.com/fork/fleet", false),
            (link.as_str(), real.as_str(), true),
            (&format!("file://{link}"), &real, true),
            ("fleet", "fleet2", false),
        ];
        for (one, other, same) in cases {
            assert_eq!(is_same(one, other), same, "{one} {other}");
        }
    }

    #[test]
    fn remotes_are_those_of_the_configuration_of_the_repository() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap();
        for directory in ["a/.git", "a/.git/worktrees/b", "b", "c/.git"] {
            std::fs::create_dir_all(path.join(directory)).unwrap();
        }
        let config = "[remote \"origin\"]\n\turl = https://example.com/x\n\tpushurl = ../c\n\
                      [remote \"mine\"]\nurl = git@example.com:me/x\n[core]\n\tbare = false\n";
        std::fs::write(path.join("a/.git/config"), config).unwrap();
        std::fs::write(path.join("a/.git/worktrees/b/commondir"), "../..\n").unwrap();
        std::fs::write(path.join("b/.git"), "gitdir: ../a/.git/worktrees/b\n").unwrap();
        let beside = path.join("c").display().to_string();
        let want = ["https://example.com/x", &beside, "git@example.com:me/x"];
        assert_eq!(remotes(&path.join("a")).unwrap(), want);
        assert_eq!(remotes(&path.join("b")).unwrap(), want, "another work tree of it");
        assert_eq!(remotes(&path.join("c")).unwrap(), [""; 0], "a repository without any");
        std::fs::write(path.join("c/.git/config"), "[remote").unwrap();
        assert!(remotes(&path.join("c")).unwrap_err().contains("c/.git/config"));
    }
}
